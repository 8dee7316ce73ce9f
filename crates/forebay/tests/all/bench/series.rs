//! The time series as CSV, and histograms: both agree with the JSON.

use super::*;

/// Rows of a series, by column.
fn rows(path: &Path) -> Vec<std::collections::BTreeMap<String, String>> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut lines = text.lines();
    let head: Vec<String> = lines.next().unwrap().split(',').map(str::to_owned).collect();
    assert!(head.contains(&"latency_p99.9_ns".to_owned()) && head.contains(&"mb_per_s".to_owned()), "{head:?}");
    let row = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        assert_eq!(cells.len(), head.len(), "{line}");
        head.iter().cloned().zip(cells.into_iter().map(str::to_owned)).collect()
    };
    lines.map(row).collect()
}

#[test]
fn the_series_in_csv_is_that_of_the_json() {
    let place = Place::new();
    let file = place.path("series.csv");
    let words = ["--set", "rw=randrw", "--runtime", "500ms", "--interval", "50ms", "--series", file.to_str().unwrap()];
    let result = measured(MODEL, &words);
    let intervals = result["jobs"][0]["intervals"].as_array().unwrap();
    let rows = rows(&file);
    let of = |direction: &str| rows.iter().filter(|row| row["direction"] == direction).collect::<Vec<_>>();
    let (all, reads, writes) = (of("all"), of("read"), of("write"));
    assert_eq!((all.len(), reads.len(), writes.len()), (intervals.len(), intervals.len(), intervals.len()));
    let number = |text: &str| if text.is_empty() { Value::Null } else { serde_json::from_str(text).unwrap() };
    for (at, (row, interval)) in all.iter().zip(intervals).enumerate() {
        for (cell, field) in [("begin_s", "begin_s"), ("length_s", "length_s"), ("ios", "ios"), ("errors", "errors")] {
            assert_eq!(number(&row[cell]).as_f64(), interval[field].as_f64(), "{row:?}");
        }
        for level in ["mean", "p50", "p99", "p99.9", "max"] {
            assert_eq!(number(&row[&format!("latency_{level}_ns")]), interval["latency_ns"][level], "{row:?}");
        }
        // An interval after the window has no rate.
        if interval["length_s"].as_f64().unwrap() < 0.025 {
            assert_eq!((row["iops"].as_str(), row["mb_per_s"].as_str()), ("", ""));
            continue;
        }
        let rate: f64 = row["iops"].parse().unwrap();
        let expected = interval["ios"].as_f64().unwrap() / interval["length_s"].as_f64().unwrap();
        assert!((rate - expected).abs() < 0.001, "{row:?}");
        let sum = |column: &str| [reads[at], writes[at]].iter().map(|row| row[column].parse::<f64>().unwrap()).sum();
        let (ios, megabytes): (f64, f64) = (sum("ios"), sum("mb_per_s"));
        assert!((ios - interval["ios"].as_f64().unwrap()).abs() < 0.5, "{row:?}");
        assert!((megabytes - rate * 4096.0 / 1e6).abs() < 0.001, "{row:?}");
    }
    // Too few I/Os for p99.9: withheld, as in the JSON.
    assert!(reads.iter().all(|row| row["latency_p99.9_ns"].is_empty() == (row["ios"].parse::<u64>().unwrap() < 2995)));
    assert!(reads.iter().any(|row| !row["latency_p99_ns"].is_empty()));
}

#[test]
fn a_series_has_each_target_and_all_together_and_is_never_written_over() {
    let place = Place::new();
    let file = place.path("two.csv");
    let text = file.to_str().unwrap().to_owned();
    measured(MODEL, &["--target", "model:p4610?size=256MiB", "--runtime", "50ms", "--series", &text]);
    let targets: std::collections::BTreeSet<String> =
        rows(&file).into_iter().map(|row| row["target"].clone()).collect();
    let wanted = ["all together", MODEL, "model:p4610?size=256MiB"].map(str::to_owned);
    assert_eq!(targets, wanted.into_iter().collect());
    refused(&bench(MODEL, &["--series", &text]), 2, &["exists, and is never overwritten"]);
    let sweep = forebay(&["bench", "qd-sweep", "--target", MODEL, "--series", "x.csv"]);
    refused(&sweep, 2, &["--series has no effect on an experiment"]);
}

#[test]
fn a_replay_has_a_series() {
    let place = Place::new();
    let (trace, file) = (place.path("three.spc"), place.path("series.csv"));
    std::fs::write(&trace, "0,0,4096,r,0.0\n0,64,4096,r,0.1\n0,128,8192,w,0.2\n").unwrap();
    let words = ["replay", trace.to_str().unwrap(), "--target", "ram:?size=1MiB", "--interval", "50ms"];
    good(&forebay(&[&words[..], &["--destroy-data", "--series", file.to_str().unwrap()]].concat()));
    let rows = rows(&file);
    let sum = |direction: &str| -> u64 {
        rows.iter().filter(|row| row["direction"] == direction).map(|row| row["ios"].parse::<u64>().unwrap()).sum()
    };
    assert_eq!((sum("all"), sum("read"), sum("write")), (3, 2, 1));
}

/// Every printed latency can be recomputed from the histogram in the result, and the result stays small.
#[test]
fn printed_percentiles_follow_from_the_histograms() {
    let words = ["bench", "--target", "model:p4610?size=256MiB&fill=100", "--set", "rw=randrw", "--set", "depth=8"];
    let text = good(&forebay(&[&words[..], &["--runtime", "5s", "--output", "json"]].concat()));
    assert!(text.len() < 200_000, "{}", text.len());
    let result = json(&text);
    let mut compared = 0;
    for latency in result["jobs"][0]["kinds"].as_array().unwrap().iter().flat_map(|kind| {
        let latencies = kind["latency_ns"].as_object().unwrap();
        latencies.values()
    }) {
        let column = |name: &str| -> Vec<u64> {
            latency["histogram"][name].as_array().unwrap().iter().map(|value| value.as_u64().unwrap()).collect()
        };
        let (low, high, counts) = (column("low_ns"), column("high_ns"), column("counts"));
        let samples = latency["samples"].as_u64().unwrap();
        assert_eq!((counts.iter().sum::<u64>(), low.len()), (samples, high.len()));
        for printed in latency["percentiles"].as_array().unwrap().iter().filter(|entry| !entry["value"].is_null()) {
            let exact = printed["percentile"].as_f64().unwrap() * 1e7 * samples as f64;
            let rank = (exact / 1e9 - 1e-6).ceil() as u64;
            let mut up_to = 0;
            let at = counts.iter().position(|count| {
                up_to += count;
                up_to >= rank
            });
            assert_eq!(Some(high[at.unwrap()]), printed["value"].as_u64(), "{printed}");
            compared += 1;
        }
    }
    assert!(compared > 40, "{compared}");
}
