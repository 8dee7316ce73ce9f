//! Pages of results as text. The browser's view of them is tested with the program.
#![forbid(unsafe_code)]
// In tests, a panic reports the failure.
#![allow(clippy::unwrap_used)]

use forebay_report::{Kind, Results, is_page};
use serde_json::{Value, json};

fn page(results: &[Value]) -> String {
    let mut all = Results::default();
    for (at, result) in results.iter().enumerate() {
        all.add(&format!("{at}.json"), &result.to_string()).unwrap();
    }
    forebay_report::page(&all)
}

/// The values of an attribute, in page order.
fn values(page: &str, name: &str) -> Vec<String> {
    let begin = format!(" {name}=\"");
    page.split(&begin).skip(1).map(|rest| rest.split('"').next().unwrap().to_owned()).collect()
}

fn percentile(percent: f64, ns: Option<u64>) -> Value {
    json!({ "percentile": percent, "value_ns": ns, "low_ns": ns.map(|ns| ns.saturating_sub(100)), "high_ns": ns.map(|ns| ns.saturating_add(1000)),
            "samples_needed_more": ns.is_none().then_some(4711), "effective_samples": 1234.5 })
}

fn sweep(points: &[(u32, f64, f64)]) -> Value {
    let point = |&(depth, iops, mean): &(u32, f64, f64)| {
        let p99 = (mean as u64).saturating_mul(3);
        json!({ "depth": depth, "depth_mean": f64::from(depth), "ios": 1000, "iops": iops, "bytes_per_second": iops * 4096.0, "mean_ns": mean,
                "p50_ns": mean as u64, "p99_ns": p99, "p99.9_ns": null, "max_ns": p99.saturating_mul(2), "littles_law": "holds",
                "latency": { "all": { "samples": 1000, "mean_ns": mean, "max_ns": p99.saturating_mul(2),
                    "percentiles": [percentile(50.0, Some(mean as u64)), percentile(99.0, Some(p99)), percentile(99.9, None)] } } })
    };
    json!({
        "schema_version": 1, "command": ["forebay", "bench", "qd-sweep", "--target", "model:x?size=1GiB"], "experiment": "qd-sweep",
        "what": "what it is", "target": "model:x?size=1GiB", "partial": false, "failures": 0, "conditions": ["a condition"], "notes": [],
        "result": { "results": { "read_percent": 70, "points": points.iter().map(point).collect::<Vec<_>>(),
            "saturation": { "depth": 4, "iops": points[2].1, "mean_ns": points[2].2, "peak_depth": 8, "peak_iops": 2e5, "reached": true, "limited_by_generator": false },
            "application": null } },
    })
}

const POINTS: [(u32, f64, f64); 4] = [
    (1, 92531.64709828437, 9192.16469740634),
    (2, 150000.5, 11000.25),
    (4, 296270.5598323952, 11885.75),
    (8, 301616.34777870466, 24000.125),
];

fn job(intervals: Vec<Value>) -> Value {
    let latency = json!({ "samples": 94404, "min": 10386, "mean": 158336.7851150375, "stddev": 1.0, "max": 4359602, "confidence_percent": 95, "percentiles": [
        { "percentile": 50.0, "status": "bounded", "value": 90943, "low": 90880, "high": 90950, "samples_needed_more": null, "effective_samples": 2608.2 },
        { "percentile": 99.0, "status": "open", "value": 2034687, "low": 1906688, "high": null, "samples_needed_more": null, "effective_samples": null },
        { "percentile": 99.999, "status": "withheld", "value": null, "low": null, "high": null, "samples_needed_more": 152017, "effective_samples": null },
    ] });
    json!({
        "schema_version": 1, "target": "ram:", "notes": [], "not_started": [], "drive_counters": null, "models": null,
        "jobs": [{ "name": "one", "job": { "depth": 8 }, "target": { "notes": [] }, "partial": null, "duration_s": 2.0, "ios": 94404, "iops": 47202.25,
            "iops_interval": { "low": 46000.0, "high": null }, "littles_law": { "verdict": "holds" }, "failures": { "count": 0, "hung": 0 }, "steady_from_s": 0.5,
            "kinds": [{ "kind": "read", "ios": 94404, "errors": 0, "iops": 47202.25, "iops_interval": null, "clustering_judged": true, "latency_ns": { "total": latency } }],
            "bursts": [], "intervals": intervals, "interval_s": 0.05 }],
    })
}

fn interval(at: usize, max: u64) -> Value {
    json!({ "begin_s": at as f64 * 0.05, "length_s": 0.05, "ios": 4000 + at % 7, "errors": 0,
            "latency_ns": { "mean": 110_589, "p50": 78_944, "p99": null, "p99.9": null, "max": max } })
}

#[test]
fn points_of_a_sweep_are_those_of_the_result() {
    let page = page(&[sweep(&POINTS)]);
    let (x, y) = (values(&page, "data-x"), values(&page, "data-y"));
    for (_, iops, mean) in POINTS {
        let at = x.iter().position(|value| *value == iops.to_string()).unwrap();
        assert_eq!(y[at], mean.to_string(), "the first curve is the mean's");
        assert!(page.contains(&format!("data-value=\"{iops}\"")) && page.contains(&format!("data-value=\"{mean}\"")));
    }
    assert!(
        page.contains("saturation depth 4")
            && page.contains("forebay bench qd-sweep --target &#39;model:x?size=1GiB&#39;")
    );
    assert!(page.contains("withheld, needs 4711 more samples") && page.contains("a condition"));
    assert!(is_page(page.as_bytes()) && !is_page(b"<html>forebay report</html>"));
}

#[test]
fn a_picture_alone_needs_nothing_else() {
    let mut results = Results::default();
    results.add("0.json", &sweep(&POINTS).to_string()).unwrap();
    let picture = forebay_report::picture(&results, "Throughput and latency").unwrap();
    for part in [
        "99th percentile",
        "saturation depth 4",
        "--card: #fff",
        "svg .s0",
        "forebay bench qd-sweep --target &#39;model:x",
    ] {
        assert!(picture.contains(part), "{part}");
    }
    assert!(picture.ends_with("</svg>\n") && is_page(&picture.as_bytes()[..200]));
    assert_eq!((picture.matches("<svg").count(), picture.matches("http").count()), (1, 1), "nothing is fetched");
    let error = forebay_report::picture(&results, "no such").unwrap_err().to_string();
    assert!(error.contains("Throughput and latency; "), "{error}");
}

#[test]
fn withheld_percentiles_are_no_points() {
    let page = page(&[job(vec![])]);
    assert!(values(&page, "data-x").iter().all(|x| x != "99.999"));
    assert!(page.contains("withheld: too few samples") && page.contains("withheld, needs 152017 more samples"));
    assert!(page.contains("1.91 ms to open"), "an open interval is said to be open");
    assert_eq!(values(&page, "data-y").iter().filter(|y| *y == "2034687").count(), 1);
}

#[test]
fn many_intervals_keep_their_extremes_and_the_page_stays_small() {
    let many = (0..20_000).map(|at| interval(at, if at == 12_345 { 999_999_999 } else { 500_000 + at as u64 % 1000 }));
    let page = page(&[job(many.collect())]);
    assert!(page.len() < 1 << 20, "{} bytes", page.len());
    assert!(values(&page, "data-y").contains(&"999999999".to_owned()), "the slowest is drawn");
    assert!(page.contains("data-value=\"999999999\""), "and in the table");
    assert!(page.contains("Of 20000 intervals") && page.contains("The 1000 slowest of 20000 intervals"));
    assert!(page.contains("Steady by SNIA&#39;s rule from 0.5 s on"));
}

#[test]
fn of_more_rows_than_memory_is_given_for_the_slowest_stay_and_it_is_said() {
    let many = (0..50_000).map(|at| interval(at, if at == 12_345 { 999_999_999 } else { 500_000 + at as u64 % 1000 }));
    let page = page(&[job(many.collect())]);
    assert!(page.len() < 1 << 20, "{} bytes", page.len());
    assert!(values(&page, "data-y").contains(&"999999999".to_owned()) && page.contains("data-value=\"999999999\""));
    assert!(page.contains("REDUCED: intervals has 50000 rows; "), "and the page says what was left out");
}

#[test]
fn a_sweep_of_very_many_points_is_bounded() {
    let points: Vec<(u32, f64, f64)> = (1..=3000).map(|at| (at, 1000.0 + f64::from(at), 5000.0)).collect();
    let page = page(&[sweep(&points), sweep(&POINTS)]);
    assert!(page.contains("Of 3000 points of the sweep the first 256 are shown"));
    assert!(page.contains("Of 3000 points of 0.json (model:x?size=1GiB) the first 256 are shown"));
    assert!(page.len() < 3 << 20, "{} bytes", page.len());
}

#[test]
fn intervals_are_two_columns_of_a_saved_table() {
    let page = page(&[sweep(&POINTS), job(vec![])]);
    assert!(page.contains("data-unit=\"ns\" data-holds=\"intervals\">interval</th>"));
    assert!(page.contains("data-low=\"1906688\">1.91 ms to open</td>"), "an open end has no number");
}

#[test]
fn regression_paths_of_many_points_are_drawn_to_their_end() {
    let page = page(&[job((0..401).map(|at| interval(at, 500_000 + at as u64)).collect())]);
    let paths = values(&page, "d");
    assert!(!page.contains("(cut)"), "nothing of this page is a long text");
    let lines: Vec<&String> = paths.iter().filter(|path| path.matches('L').count() > 200).collect();
    assert!(!lines.is_empty(), "the lines of the intervals are drawn");
    for line in lines {
        let last = line.rsplit('L').next().unwrap();
        assert!(paths.contains(&format!("M{last}h0")), "the line ends at a point: {last}");
    }
}

#[test]
fn texts_of_results_are_never_markup() {
    const HOSTILE: &str = "</script><img src=x onerror=alert(1)>\" onload=\"alert(2)'\u{202e}\u{0}";
    let mut result = job(vec![interval(0, 5), interval(1, 6)]);
    result["target"] = HOSTILE.into();
    result["command"] = json!(["forebay", HOSTILE]);
    result["notes"] = json!([HOSTILE]);
    result["jobs"][0]["name"] = HOSTILE.into();
    result["jobs"][0]["kinds"][0]["kind"] = HOSTILE.into();
    result["jobs"][0]["job"][HOSTILE] = HOSTILE.into();
    let mut other = sweep(&POINTS);
    for key in ["target", "what"] {
        other[key] = HOSTILE.into();
    }
    let mut all = Results::default();
    all.add(HOSTILE, &result.to_string()).unwrap();
    all.add(HOSTILE, &other.to_string()).unwrap();
    let page = forebay_report::page(&all);
    assert!(page.contains("&lt;img src=x"));
    assert!(
        !page.contains("<img") && !page.contains("\" onload") && !page.contains('\u{202e}') && !page.contains('\u{0}')
    );
    assert_eq!((page.matches("<script>").count(), page.matches("</script>").count()), (1, 1));
}

#[test]
fn results_of_one_kind_stand_beside_each_other() {
    let mut other = sweep(&POINTS);
    other["target"] = "ram:".into();
    let page = page(&[sweep(&POINTS), other, job(vec![]), job(vec![])]);
    assert!(page.contains("Queue depth, beside each other") && page.contains("Runs, beside each other"));
    assert!(page.contains("0.json (model:x?size=1GiB)") && page.contains("1.json (ram:)"));
    let depths = json!({ "schema_version": 1, "trace": "t.fbr", "report": { "depths": [{ "mean": 2.5, "p50": 2, "p99": 9, "histogram": [[1, 0.5, 0.25], [2, 0.25, 0.5], [9, 0.25, 0.25]] }] } });
    let both = self::page(&[sweep(&POINTS), depths]);
    let sweep_ends = both.find("id=\"s2\"").unwrap();
    assert!(both[..sweep_ends].contains("Depths of t.fbr"), "the depths stand in the section of the sweep");
}

/// The smallest recognised result of each kind, then results with parts of every wrong type.
#[test]
fn whatever_a_result_lacks_there_is_a_page() {
    let least = [
        (Kind::Jobs, json!({ "jobs": [{}], "target": null })),
        (Kind::Experiment, json!({ "experiment": "qd-sweep", "result": {}, "target": "x" })),
        (
            Kind::Experiment,
            json!({ "experiment": "surface", "result": { "results": { "cells": [{ "depth": 1 }] } }, "target": "x" }),
        ),
        (
            Kind::Experiment,
            json!({ "experiment": "compare", "result": { "figures": [{ "comparison": null }] }, "target": "x" }),
        ),
        (
            Kind::Experiment,
            json!({ "experiment": "new", "result": { "results": { "rows": [{ "a_ns": 5, "b": { "c": "d" } }] } }, "target": "x" }),
        ),
        (Kind::Check, json!({ "promises": [{}], "sheet": "x", "runs": [{}] })),
        (Kind::Analysis, json!({ "report": {}, "trace": "t" })),
        (Kind::Analysis, json!({ "traces": [{}], "left_out": [{}] })),
        (Kind::Size, json!({ "sizes": [{}], "footprint_bytes": 5, "order": [] })),
        (Kind::UseCase, json!({ "use_case": "x", "settings": [{}] })),
        (
            Kind::Conformance,
            json!({ "rows": [{}], "scores": [{}], "experiments": [{ "data": [{ "rows": [{ "x": 1 }] }] }] }),
        ),
        (Kind::WriteAmplification, json!({ "rows": [{}], "known": [{}], "left_out": [] })),
        (Kind::Simulation, json!({ "lives": 1, "met": { "a": 5 } })),
        (Kind::Doctor, json!({ "findings": [{}], "unknown": [{}], "good": [{}] })),
        (Kind::Status, json!({ "tiers": [{}], "classes": [{ "name": "a", "alpha": 0.5 }], "disks": [] })),
    ];
    for (kind, mut result) in least {
        result["schema_version"] = 1.into();
        for (part, wrong) in [
            ("", json!(null)),
            ("notes", json!(5)),
            ("what", json!([1])),
            ("command", json!({})),
            ("conditions", json!([[1]])),
        ] {
            if !part.is_empty() {
                result[part] = wrong;
            }
            let mut results = Results::default();
            assert_eq!(results.add("x", &result.to_string()).unwrap(), kind, "{result}");
            assert!(forebay_report::page(&results).ends_with("</html>\n"), "{result}");
        }
    }
}

proptest::proptest! {
    /// Numbers of any size at every place of a sweep: coordinates stay within the picture.
    #[test]
    fn no_number_leaves_the_picture(values in proptest::collection::vec(-1e308..1e308f64, 8), exponent in -300i32..300) {
        let scale = 10f64.powi(exponent);
        let points: Vec<(u32, f64, f64)> = (0..4).map(|at| (1 << at, values[at] / 1e308 * scale, values[at + 4] / 1e308 * scale)).collect();
        let page = page(&[sweep(&points)]);
        proptest::prop_assert!(!page.contains("NaN") && !page.contains("inf "), "{points:?}");
        for path in values_of_paths(&page) {
            proptest::prop_assert!((-20.0..=1500.0).contains(&path), "{points:?}: {path}");
        }
    }
}

fn values_of_paths(page: &str) -> Vec<f64> {
    let page = &page[page.find("<main>").unwrap()..];
    let paths = values(page, "d");
    paths
        .iter()
        .flat_map(|path| path.split(|c: char| !c.is_ascii_digit() && c != '.' && c != '-'))
        .filter_map(|number| number.parse().ok())
        .collect()
}

#[test]
fn regression_a_file_that_mentions_the_sign_is_no_page() {
    let page = page(&[sweep(&POINTS)]);
    assert!(is_page(page.as_bytes()) && is_page(&page.as_bytes()[..512]));
    assert!(!is_page(format!("My notes: {page}").as_bytes()), "the sign stands later");
    assert!(!is_page(&page.as_bytes()[..100]), "a part of the beginning is not enough");
}

/// The page had nothing of lists within rows, of lists of numbers, and of loads of applications, whose figures have nothing around them.
#[test]
fn regression_a_page_has_all_figures_of_an_experiment() {
    let way = json!({ "way": "spin", "rounds": [{ "iops": 70_001.0, "latency": { "percentiles": [{ "percentile": "50", "low_ns": 4321 }] } }] });
    let nested = json!({ "schema_version": 1, "experiment": "wait-methods", "target": "x",
        "result": { "results": { "settings": [{ "think_ns": 7, "ways": [way] }], "alone_bytes_per_second": [1234.5, 2345.5] } } });
    let plain = json!({ "schema_version": 1, "experiment": "photo-ingest", "target": "x",
        "result": { "files_per_second": 317.5, "file_latency_ns": { "percentiles": [{ "percentile": "99", "value_ns": 8765 }] } } });
    for (result, figures) in
        [(nested, vec!["70001", "4321", "1234.5", "2345.5", "spin"]), (plain, vec!["317.5", "8765"])]
    {
        let page = page(&[result]);
        for figure in figures {
            assert!(page.contains(figure), "{figure}");
        }
    }
}

#[test]
fn regression_times_of_experiments_are_labelled_nanoseconds() {
    let row = |at: u64| json!({ "begin_ns": at * 1_000_000, "length_ns": 1_000_000, "ios": 5, "p50_ns": 900, "max_ns": 1000 });
    let new = json!({ "schema_version": 1, "experiment": "new", "target": "x", "result": { "results": { "intervals": [row(0), row(1), row(2)] } } });
    let page = page(&[new]);
    assert!(page.contains("data-unit=\"ns\">begin</th>") && page.contains("data-unit=\"ns\">length</th>"));
    assert!(self::page(&[job(vec![interval(0, 5), interval(1, 6)])]).contains("data-unit=\"s\">begin</th>"));
}

#[test]
fn regression_an_outcome_that_is_not_known_claims_nothing() {
    let claim = "no promise is broken";
    for (outcome, claims) in [(json!("not_shown"), true), (json!("new word"), false), (json!(null), false)] {
        let check = json!({ "schema_version": 1, "sheet": "x", "promises": [], "runs": [], "outcome": outcome });
        let page = page(&[check]);
        assert_eq!(
            (page.contains(claim), page.contains("<dd class=\"open\">unknown</dd>")),
            (claims, !claims),
            "{outcome}"
        );
    }
}

#[test]
fn regression_saturation_is_marked_only_where_it_was_reached() {
    for (reached, limited) in [(true, false), (false, false), (true, true)] {
        let mut result = sweep(&POINTS);
        let found = &mut result["result"]["results"]["saturation"];
        (found["reached"], found["limited_by_generator"]) = (reached.into(), limited.into());
        let page = page(&[result]);
        let main = &page[page.find("<main>").unwrap()..page.find("<footer>").unwrap()];
        let is_marked = main.contains("saturation depth 4") && main.contains(">saturation</td>");
        assert_eq!(is_marked, reached && !limited);
        assert_eq!(main.to_lowercase().contains("saturation"), reached && !limited);
    }
}

/// A slice of an analysis; `blocks` is `None` where the sample has none.
fn slice(at: u64, blocks: Option<u64>) -> Value {
    let touched = |blocks: Option<u64>| {
        let bytes = blocks.map(|blocks| blocks * 4096);
        json!({ "moved_bytes": 1 << 20, "blocks": blocks, "block_bytes": bytes, "new_blocks": blocks, "new_block_bytes": bytes })
    };
    json!({ "begin": at << 20, "requests": 7, "all": touched(blocks), "reads": touched(blocks), "writes": touched(Some(3)) })
}

fn analysis(slices: &[Value], regions: u64, cells: Value) -> Value {
    let regions: Vec<Value> =
        (0..regions).map(|at| json!({ "begin_bytes": at << 30, "read_bytes": 5, "written_bytes": 9 })).collect();
    let map = json!({ "volume": "sda", "region_bytes": 1 << 30, "regions": regions, "cells": cells });
    json!({ "schema_version": 1, "trace": "t.fbr", "report": { "one_block_in": 8,
        "over_time": { "slice_ns": 1 << 20, "slice_requests": null, "slices": slices, "volumes": [map] } } })
}

#[test]
fn a_map_shows_where_bytes_were_moved_and_when() {
    let slices: Vec<Value> = (0..5).map(|at| slice(at, (at != 2).then_some(1000 + at))).collect();
    let page = page(&[analysis(&slices, 4, json!([[1, 3, 123_457, 0], [4, 0, 77_777, 9_007_199_254_740_993_u64]]))]);
    for part in
        ["Reads over time and place, sda", "Writes over time and place, sda", "Regions, sda", "Working set over time"]
    {
        assert!(page.contains(part), "{part}");
    }
    let x = values(&page, "data-x");
    let count = |value: &str| x.iter().filter(|x| *x == value).count();
    assert_eq!((count("123457"), count("77777")), (1, 1));
    assert!(page.contains("data-value=\"9007199254740993\""), "digit by digit");
    assert!(page.contains("offset 3 GiB, from 1.05 ms: 121 KiB"), "a cell says what it is");
    // A value that the sample does not give has no point and no line, but words of its own.
    assert!(page.contains("not known: none of them in the sample") && page.contains("Estimates from a sample"));
    let y = values(&page, "data-y");
    assert!(y.contains(&(1001 * 4096).to_string()) && !y.contains(&(1002 * 4096).to_string()));
}

/// The curve of `size` showed the knee, this curve did not.
#[test]
fn regression_the_curve_of_an_analysis_shows_its_knee() {
    let point = |size_bytes: u64, alpha: f64| json!({ "size_bytes": size_bytes, "alpha": alpha });
    let mut value = analysis(&[slice(0, Some(1))], 1, json!([]));
    value["report"]["curve"] = json!([point(1 << 20, 0.1), point(8 << 20, 0.8), point(64 << 20, 0.9)]);
    assert!(!page(std::slice::from_ref(&value)).contains(">knee "));
    value["report"]["knee_bytes"] = (8 << 20).into();
    assert!(page(&[value]).contains(">knee 8 MiB<"));
}

#[test]
fn the_largest_map_is_a_page_of_bounded_size() {
    let slices: Vec<Value> = (0..64).map(|at| slice(at, Some(at))).collect();
    let cells: Vec<Value> =
        (0..64 * 64_u64).map(|at| json!([at / 64, at % 64, (at + 1) * 1_000_003, (at + 1) * 999_983])).collect();
    let full = page(&[analysis(&slices, 64, cells.clone().into())]);
    assert!(full.len() < 3 << 20, "{} bytes", full.len());
    assert!(full.contains("The 1000 fullest of 4096 cells"));
    // Cells outside the slices and regions, and values that are not numbers, are not drawn.
    let wrong = json!([
        [64, 0, 1, 1],
        [0, 64, 1, 1],
        [-1, 0, 1, 1],
        ["0", 0, 1, 1],
        [0, 0, -5, "x"],
        [],
        5,
        [u64::MAX, u64::MAX, 1, 1]
    ]);
    let page = self::page(&[analysis(&slices, 64, wrong)]);
    assert!(!page.contains("over time and place") && page.contains("Regions, sda"));
    let many: Vec<Value> = (0..5000).map(|at| slice(at, Some(at))).collect();
    assert!(self::page(&[analysis(&many, 5000, cells.into())]).len() < 3 << 20);
}

#[test]
fn a_trace_without_times_has_slices_of_requests() {
    let mut result = analysis(&[slice(0, Some(1)), slice(1, Some(2))], 1, json!([[0, 0, 5, 0]]));
    let found = &mut result["report"]["over_time"];
    (found["slice_ns"], found["slice_requests"]) = (Value::Null, json!(1 << 20));
    found["volumes"][0]["volume"] = Value::Null;
    let page = page(&[result]);
    for part in ["since the trace has no times", "from request", "all other volumes"] {
        assert!(page.contains(part), "{part}");
    }
    // An analysis of one of many traces has no map.
    let mut result = analysis(&[slice(0, Some(1)), slice(1, Some(2))], 1, json!([]));
    result["report"]["over_time"]["volumes"] = Value::Null;
    assert!(!self::page(&[result]).contains("Regions"));
}

#[test]
fn a_job_that_was_to_be_steady_says_whether_it_was() {
    let with = |attained_s: Value| {
        let mut result = job(Vec::new());
        result["jobs"][0]["steady_state"] = json!({
            "criterion": "iops:5%", "attained": attained_s.is_number(), "attained_s": attained_s, "limit": 5.0, "value": 3.25,
            "unit": "percent", "window": { "begin_s": 1.0, "end_s": 3.0, "iops": 47000.4 },
        });
        page(&[result])
    };
    let steady = with(json!(3.0));
    assert!(
        steady.contains("one: steady by iops:5% from 1 s to 3 s (3.250 percent), where it made 47000 I/Os a second")
    );
    assert!(!steady.contains("NOT STEADY"));
    assert!(with(Value::Null).contains("one: NOT STEADY by iops:5%; in the last window 3.250 percent"));
    assert!(!page(&[job(Vec::new())]).contains("teady by"));
}

#[test]
fn a_job_on_several_targets_has_their_names() {
    let mut result = job(Vec::new());
    let on = |target: &str| {
        let mut one = result["jobs"][0].clone();
        one["target"]["name"] = json!(target);
        one
    };
    let (jobs, together) = (json!([on("ram:?size=1GiB"), on("disk.img")]), json!([on("all targets")]));
    (result["jobs"], result["together"]) = (jobs, together);
    let page = page(&[result]);
    for name in ["one on ram:?size=1GiB", "one on disk.img", "one on all targets"] {
        assert!(page.contains(&format!("{name}: Latency by percentile")), "{name}");
    }
}

/// The verb's own JSON was refused as no result, although the error named `simulate` among the verbs that write results.
#[test]
fn regression_one_life_is_a_result_too() {
    let of = |rest: Value| {
        // A seed beyond 2^53, which a float would round.
        let seed = (1_u64 << 53) + 1;
        let mut life = json!({ "schema_version": 1, "command": ["forebay", "simulate", "--seed", seed], "seed": seed });
        rest.as_object().unwrap().iter().for_each(|(key, value)| life[key] = value.clone());
        page(&[life])
    };
    let good = of(json!({ "failure": null, "met": ["4 power cuts", "2 power cuts in recovery"] }));
    assert!(good.contains("every one was kept") && good.contains("power cuts in recovery"), "{good}");
    assert!(values(&good, "data-value").contains(&"4".to_owned()));
    let failure = json!({ "round": 2, "doing": "reading", "what": "block 7 is gone" });
    let bad = of(json!({ "failure": failure, "steps": 90, "steps_shrunk": 4, "scenario": "-", "log": ["wrote 7"] }));
    assert!(
        bad.contains("A promise was BROKEN: seed 9007199254740993, reading: block 7 is gone")
            && bad.contains("wrote 7"),
        "{bad}"
    );
}

/// An interval of 1e-320 s, which no program writes, was drawn at infinity.
#[test]
fn regression_no_point_is_infinite() {
    let mut intervals: Vec<Value> = (0..4).map(|at| interval(at, 500_000)).collect();
    intervals[1]["length_s"] = json!(1e-320);
    intervals[1]["ios"] = json!(1_000_000_000_u64);
    let page = page(&[job(intervals)]);
    assert!(page.contains("I/Os a second in the intervals") && !page.contains("inf"), "{page}");
}

#[test]
fn what_a_ladder_measured_stands_in_the_audits_page() {
    let finding = |effects: Value| {
        json!({ "name": "governor", "device": null, "severity": "costs-latency", "what": "w", "cost": "c", "source": "s", "now": "n",
            "for_good": "g", "price": "p", "measured": true, "effects": effects })
    };
    let audit = |effects: Value| json!({ "schema_version": 1, "command": "doctor", "root": "/", "device": null, "findings": [finding(effects)], "unknown": [], "good": [] });
    let effect = json!({ "rung": "governor", "job": "reads", "figure": "mean", "ratio": 0.9, "ratio_low": 0.85, "ratio_high": 0.95,
        "confidence_percent": 95.0, "against": "as found", "verdict": "faster", "would_show": 1.05 });
    let with = page(&[audit(json!([effect]))]);
    for part in ["Measured here", "but for 1 that were measured on this machine", "as found", "faster", "0.9"] {
        assert!(with.contains(part), "{part}");
    }
    let without = page(&[audit(json!([]))]);
    assert!(!without.contains("Measured here") && without.contains("nothing was measured here"));
}
