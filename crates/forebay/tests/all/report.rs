//! `forebay report`: results of real runs in virtual time, and their page in a browser.

use crate::support::*;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// Runs a command and stores its result in a file; exit 1 is a finding with a result.
fn result(folder: &TempDir, name: &str, arguments: &[&str]) -> PathBuf {
    let output = forebay(&[arguments, &["--output", "json"]].concat());
    assert!([0, 1].contains(&code(&output)), "{arguments:?}: {}", err(&output));
    let path = folder.path().join(name);
    std::fs::write(&path, &output.stdout).unwrap();
    path
}

fn sweep(folder: &TempDir) -> PathBuf {
    // Without a host: a host's single thread would be the limit before this drive.
    let target = "model:p4800x?size=1GiB&host=none";
    result(
        folder,
        "sweep.json",
        &["bench", "qd-sweep", "--target", target, "--read-percent", "70", "--runtime", "50ms"],
    )
}

fn run(folder: &TempDir, name: &str, depth: u32) -> PathBuf {
    let depth = format!("depth={depth}");
    let target = "model:p4510?size=1GiB&fill=100";
    let settings =
        ["--set", "rw=randrw", "--set", "read_percent=70", "--set", &depth, "--runtime", "1s", "--destroy-data"];
    result(folder, name, &[&["bench", "--target", target][..], &settings].concat())
}

fn page(folder: &TempDir, results: &[&Path]) -> PathBuf {
    let to = folder.path().join("page.html");
    let names: Vec<&str> = results.iter().map(|path| path.to_str().unwrap()).collect();
    good(&forebay(&[&["report"][..], &names, &["-o", to.to_str().unwrap()]].concat()));
    to
}

/// Contents of the page in a browser. A missing browser is a failure, because it proves that the page works.
fn seen(page: &Path) -> Value {
    let look = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/report/look");
    let output = Command::new(look).arg(page).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", err(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn list<'a>(value: &'a Value, key: &str) -> &'a Vec<Value> {
    value[key].as_array().unwrap_or_else(|| panic!("{key} of {value:.300}"))
}

/// Properties that every page must have.
#[track_caller]
fn is_sound(seen: &Value) {
    assert!(list(seen, "messages").is_empty(), "{}", seen["messages"]);
    assert!(list(seen, "requests").is_empty() && seen["foreign"] == 0, "{}", seen["requests"]);
    assert_eq!(
        (&seen["wider"]["phone"], &seen["wider"]["desktop"]),
        (&0.into(), &0.into()),
        "no page scrolls sideways"
    );
    let stuck = seen["stuck"]["phone"].as_f64().unwrap();
    assert!(stuck < 0.5, "names of rows take {stuck} of a phone, and leave little room for figures");
    for (form, least) in seen["contrast"].as_object().unwrap() {
        assert!(least[0].as_f64().unwrap() >= 4.5, "{form}: {least}");
    }
    assert_eq!(
        (&seen["ids"], &seen["alone"]),
        (&0.into(), &true.into()),
        "names are given once, and pictures are whole alone"
    );
    let png = list(seen, "png");
    assert!(png[1] == "image/png" && png[2].as_u64().unwrap() > 5000, "a picture can be saved: {png:?}");
    let pictures = list(seen, "pictures");
    assert!(!pictures.is_empty());
    for picture in pictures {
        assert!(picture["role"] == "img" && picture["named"] == true, "{picture}");
        assert!(picture["rows"].as_u64().unwrap() > 0, "a table lies below: {picture}");
    }
    let svgs = list(seen, "reached").iter().filter(|reached| reached[0] == "svg").count();
    assert_eq!(svgs, pictures.len(), "the keyboard reaches every picture");
    let said = seen["said"].as_object().unwrap();
    assert!(said.len() == pictures.len() && said.values().all(|said| said != ""), "and its points: {said:?}");
}

/// Numbers behind the cells.
fn cells(seen: &Value) -> BTreeSet<String> {
    list(seen, "cells").iter().map(|cell| cell[0].as_str().unwrap().to_owned()).collect()
}

#[track_caller]
fn stands(cells: &BTreeSet<String>, value: &Value) {
    assert!(value.is_null() || cells.contains(&value.to_string()), "{value} stands in no cell");
}

#[test]
fn a_sweep_in_a_browser_says_what_its_json_says() {
    let folder = TempDir::new().unwrap();
    let sweep = sweep(&folder);
    let page = page(&folder, &[&sweep]);
    let bytes = std::fs::metadata(&page).unwrap().len();
    assert!(bytes < 3 << 20, "{bytes}");
    let (seen, result) = (seen(&page), json(&sweep));
    is_sound(&seen);
    let found = &result["result"]["results"];
    let cells = cells(&seen);
    let dots: Vec<&Value> =
        list(&seen, "dots").iter().filter(|dot| dot["picture"] == "Throughput and latency").collect();
    let number = |dot: &Value, key: &str| dot[key].as_str().unwrap().parse::<f64>().unwrap();
    for point in list(found, "points") {
        let is_drawn = |key: &str| {
            let (x, y) = (point["iops"].as_f64(), point[key].as_f64());
            y.is_none() || dots.iter().any(|dot| Some(number(dot, "x")) == x && Some(number(dot, "y")) == y)
        };
        assert!(is_drawn("mean_ns") && is_drawn("p99_ns"), "{point}");
        for key in [
            "depth",
            "depth_mean",
            "ios",
            "iops",
            "bytes_per_second",
            "mean_ns",
            "p50_ns",
            "p99_ns",
            "p99.9_ns",
            "max_ns",
        ] {
            stands(&cells, &point[key]);
        }
        for percentile in list(&point["latency"]["all"], "percentiles") {
            stands(&cells, &percentile["value_ns"]);
            if let Some(needed) = percentile["samples_needed_more"].as_u64() {
                let text = format!("withheld, needs {needed} more samples");
                assert!(list(&seen, "csv").iter().any(|csv| csv.as_str().unwrap().contains(&text)), "{text}");
            }
        }
    }
    let depth = &found["saturation"]["depth"];
    let text = seen["text"].as_str().unwrap();
    assert!(text.contains(&format!("saturation depth, {depth}, is")) || text.contains("still rises"), "{text}");
    let command = "forebay bench qd-sweep --target 'model:p4800x?size=1GiB&host=none' --read-percent 70 --runtime 50ms --output json";
    assert!(text.contains(command), "{text}");
}

#[test]
fn a_run_in_a_browser_says_what_its_json_says() {
    let folder = TempDir::new().unwrap();
    let run = run(&folder, "run.json", 8);
    let (seen, result) = (seen(&page(&folder, &[&run])), json(&run));
    is_sound(&seen);
    let cells = cells(&seen);
    let job = &result["jobs"][0];
    for kind in list(job, "kinds") {
        for percentile in list(&kind["latency_ns"]["total"], "percentiles") {
            stands(&cells, &percentile["value"]);
            if let (Some(low), Some(high)) = (percentile["low"].as_u64(), percentile["high"].as_u64()) {
                let percent = percentile["percentile"].as_f64().unwrap();
                let row = format!("p{percent},{},{low},{high},", percentile["value"]);
                let is_saved = list(&seen, "csv").iter().any(|csv| csv.as_str().unwrap().contains(&row));
                assert!(is_saved, "{row}");
            }
            let is_dot = |dot: &&Value| {
                let is = |name: &str, of: &str| {
                    dot[name].as_str().map(str::parse::<f64>).and_then(Result::ok) == percentile[of].as_f64()
                };
                is("x", "percentile") && is("y", "value") && is("low", "low") && is("high", "high")
            };
            let is_drawn = list(&seen, "dots").iter().any(|dot| is_dot(&dot));
            assert_eq!(is_drawn, percentile["status"] != "withheld", "{percentile}");
        }
    }
    let head = "figure,latency [ns],interval low [ns],interval high [ns],";
    assert!(list(&seen, "csv").iter().any(|csv| csv.as_str().unwrap().contains(head)), "{}", seen["csv"]);
    for interval in list(job, "intervals") {
        interval["latency_ns"].as_object().unwrap().values().for_each(|value| stands(&cells, value));
    }
    let [whole, closer, again] = list(&seen, "zoomed").as_slice() else { panic!("three looks") };
    assert!(whole != closer && whole == again, "{}", seen["zoomed"]);
    assert_eq!(job["steady_from_s"].is_number(), seen["text"].as_str().unwrap().contains("Steady by SNIA's rule"));
}

#[test]
fn results_of_every_kind_become_a_page_that_is_sound() {
    let folder = TempDir::new().unwrap();
    let drive = "model:p4800x?size=1GiB";
    let results = [
        sweep(&folder),
        run(&folder, "a.json", 2),
        run(&folder, "b.json", 8),
        result(
            &folder,
            "compare.json",
            &[
                "bench",
                "--target",
                drive,
                "--against",
                "model:p4510?size=1GiB",
                "--set",
                "rw=randread",
                "--rounds",
                "3",
                "--runtime",
                "50ms",
            ],
        ),
        result(&folder, "surface.json", &["bench", "surface", "--target", drive, "--destroy-data", "--runtime", "5ms"]),
        result(&folder, "check.json", &["check", "p4800x", "--target", drive, "--only", "read", "--quick"]),
        result(&folder, "analyze.json", &["analyze", "rocksdb:?scale=0.001", "--rules", "rocksdb"]),
        result(&folder, "size.json", &["size", "rocksdb:?scale=0.001", "--rules", "rocksdb"]),
        result(&folder, "doctor.json", &["doctor"]),
        result(&folder, "simulate.json", &["simulate", "--count", "3"]),
        result(&folder, "conformance.json", &["conformance", "p4800x", "--ios", "5000"]),
        result(
            &folder,
            "ladder.json",
            &["doctor", "--ladder", "--target", "model:p4800x", "--rounds", "3", "--runtime", "10ms"],
        ),
    ];
    let paths: Vec<&Path> = results.iter().map(PathBuf::as_path).collect();
    let seen = seen(&page(&folder, &paths));
    is_sound(&seen);
    let text = seen["text"].as_str().unwrap();
    for part in [
        "beside each other",
        "Promises of",
        "through the PRISM",
        "A fast tier for",
        "Settings of the machine",
        "Simulated lives",
        "Published figures",
        "Working set over time",
        "What settings cost: model:p4800x",
        "what each rung changes",
        "CALIBRATED, NOT PREDICTED",
    ] {
        assert!(text.contains(part), "{part}");
    }
    let cells = cells(&seen);
    for rung in list(&json(&results[11])["result"], "rungs") {
        stands(&cells, &rung["jobs"][0]["mean_ns"]);
        let effects = list(&rung["jobs"][0], "effects").iter().map(|effect| &effect["comparison"]["ratio"]);
        effects.filter(|ratio| !ratio.is_null()).for_each(|ratio| stands(&cells, ratio));
    }
    for row in list(&json(&results[6])["report"], "rows") {
        ["alpha", "beta", "occupancy_bytes", "written_bytes"].iter().for_each(|key| stands(&cells, &row[*key]));
    }
    let over_time = &json(&results[6])["report"]["over_time"];
    for slice in list(over_time, "slices") {
        stands(&cells, &slice["all"]["block_bytes"]);
        stands(&cells, &slice["reads"]["moved_bytes"]);
    }
    for (picture, at) in [("Reads over time and place", 2), ("Writes over time and place", 3)] {
        let drawn: BTreeSet<&str> = list(&seen, "dots")
            .iter()
            .filter(|dot| dot["picture"] == picture)
            .map(|dot| dot["x"].as_str().unwrap())
            .collect();
        for cell in list(&over_time["volumes"][0], "cells").iter().filter(|cell| cell[at] != 0) {
            assert!(drawn.contains(cell[at].to_string().as_str()), "{picture}: {cell}");
        }
    }
    list(&json(&results[7]), "sizes").iter().for_each(|size| stands(&cells, &size["alpha"]));
    for figure in list(&json(&results[3])["result"], "figures") {
        stands(&cells, &figure["comparison"]["ratio"]);
    }
}

#[test]
fn records_of_single_ios_are_shown_as_they_are() {
    let folder = TempDir::new().unwrap();
    let records = folder.path().join("run.fbt");
    let target = "model:p4510?size=1GiB&fill=100";
    let settings =
        ["--set", "rw=randread", "--set", "depth=4", "--runtime", "200ms", "--records", records.to_str().unwrap()];
    let run = result(&folder, "run.json", &[&["bench", "--target", target][..], &settings].concat());
    let seen = seen(&page(&folder, &[&run, &records]));
    is_sound(&seen);
    let job = &json(&run)["jobs"][0];
    let cells = cells(&seen);
    stands(&cells, &job["kinds"][0]["latency_ns"]["total"]["max"]);
    let text = seen["text"].as_str().unwrap();
    for part in ["Single I/Os of", "Around the slowest I/O", "The busiest 1 ms", "The first 1 ms"] {
        assert!(text.contains(part), "{part}");
    }
    let slowest = job["kinds"][0]["latency_ns"]["total"]["max"].as_u64().unwrap().to_string();
    let is_slowest = |dot: &&Value| dot["picture"] == "Around the slowest I/O" && dot["y"] == slowest.as_str();
    assert_eq!(list(&seen, "dots").iter().filter(is_slowest).count(), 1);
    // A truncated file is reported.
    let bytes = std::fs::read(&records).unwrap();
    let torn = folder.path().join("torn.fbt");
    std::fs::write(&torn, &bytes[..bytes.len() / 2]).unwrap();
    let page = std::fs::read_to_string(self::page(&folder, &[&torn])).unwrap();
    assert!(page.contains("The file is not whole"));
    // They lacked their own command.
    let made =
        format!("<code>forebay bench --target &#39;model:p4510?size=1GiB&amp;fill=100&#39; {}", settings.join(" "));
    assert!(page.contains(&made), "{made}");
}

#[test]
fn nothing_but_a_page_of_ours_is_written_over() {
    let folder = TempDir::new().unwrap();
    let doctor = result(&folder, "doctor.json", &["doctor"]);
    let doctor = doctor.to_str().unwrap();
    let page = page(&folder, &[Path::new(doctor)]);
    good(&forebay(&["report", doctor, "-o", page.to_str().unwrap()]));
    let other = folder.path().join("notes.html");
    std::fs::write(&other, "<html>my notes</html>").unwrap();
    refused(
        &forebay(&["report", doctor, "-o", other.to_str().unwrap()]),
        2,
        &["notes.html exists", "name another file"],
    );
    assert_eq!(std::fs::read(&other).unwrap(), b"<html>my notes</html>");
    refused(&forebay(&["report", doctor, "-o", doctor]), 2, &["is a result itself"]);
    let link = folder.path().join("link.html");
    std::os::unix::fs::symlink(&page, &link).unwrap();
    refused(&forebay(&["report", doctor, "-o", link.to_str().unwrap()]), 2, &["link.html exists"]);
    refused(&forebay(&["report", other.to_str().unwrap()]), 2, &["notes.html: is no JSON", "--output json"]);
    refused(&forebay(&["report", "/nonexistent.json", "-o", link.to_str().unwrap()]), 2, &["link.html exists"]);
    refused(&forebay(&["report", "/nonexistent.json"]), 2, &["/nonexistent.json"]);
    refused(&forebay(&["report", doctor, "--output", "json"]), 2, &["-o"]);
    // A page on standard output is the same page.
    assert_eq!(forebay(&["report", doctor]).stdout, std::fs::read(&page).unwrap());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 4, "nothing is left behind");
}

/// The pictures that `bench/pictures` makes in virtual time.
#[test]
fn the_picture_of_a_sweep_in_the_documents_is_what_its_command_gives() {
    let folder = TempDir::new().unwrap();
    let sweep = sweep(&folder);
    let to = folder.path().join("sweep.svg");
    let picture =
        |title: &str| forebay(&["report", sweep.to_str().unwrap(), "--picture", title, "-o", to.to_str().unwrap()]);
    refused(&picture("no such"), 2, &["no picture is called \"no such\"", "Throughput and latency"]);
    good(&picture("Throughput and latency"));
    let made = std::fs::read_to_string(&to).unwrap();
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/pictures/qd-sweep.svg");
    assert!(std::fs::read_to_string(committed).unwrap() == made, "make the pictures anew: bench/pictures");
    assert!(made.contains("saturation depth") && made.contains("forebay bench qd-sweep --target"));
    // A picture of this program may be overwritten.
    good(&picture("Throughput and latency"));
}

/// A page readable only by its group became readable by all when it was rewritten, and a read-only page was replaced.
#[test]
fn regression_a_page_that_is_made_anew_keeps_its_mode() {
    use std::os::unix::fs::PermissionsExt;
    let folder = TempDir::new().unwrap();
    let run = run(&folder, "run.json", 1);
    let page = page(&folder, &[&run]);
    let set = |mode| std::fs::set_permissions(&page, std::fs::Permissions::from_mode(mode)).unwrap();
    let again = || forebay(&["report", run.to_str().unwrap(), "-o", page.to_str().unwrap()]);
    set(0o640);
    good(&again());
    assert_eq!(std::fs::metadata(&page).unwrap().permissions().mode() & 0o777, 0o640);
    set(0o440);
    refused(&again(), 2, &["is a page that may not be written to"]);
}
