//! `forebay check`: promises that are kept, that are broken, and that cannot be judged.

use super::*;

/// A sheet of promises about 4 KiB random reads.
fn sheet(promises: &[(&str, &str)]) -> String {
    let mut text = String::from("[drive]\nname = \"Nothing\"\ncapacity = \"1GiB\"\nkind = \"xpoint\"\n");
    for (number, (job, promise)) in promises.iter().enumerate() {
        text.push_str(&format!(
            "\n[[promise]]\nname = \"promise {number}\"\nsource = \"this test\"\n\
             job = {{ rw = \"randread\", size = \"4KiB\", warmup = \"0s\", {job} }}\n{promise}\n"
        ));
    }
    text
}

const HALF_A_SECOND: &str = "runtime = \"500ms\"";

fn check(sheet: &str, target: &str, more: &[&str]) -> Output {
    forebay(&[&["check", sheet, "--target", target, "--output", "json"][..], more].concat())
}

#[track_caller]
fn verdicts(report: &Value) -> Vec<&str> {
    report["promises"].as_array().unwrap().iter().map(|promise| promise["verdict"].as_str().unwrap()).collect()
}

#[test]
fn promises_that_hold_pass() {
    let place = Place::new();
    let sheet = place.write(
        "s.toml",
        &sheet(&[
            (HALF_A_SECOND, "measure = \"mean\"\nat_most = \"10ms\""),
            (HALF_A_SECOND, "measure = \"iops\"\nat_least = 100"),
            (HALF_A_SECOND, "measure = \"median\"\nat_most = \"10ms\""),
            (HALF_A_SECOND, "measure = \"bytes_per_second\"\nat_least = \"1MB/s\""),
        ]),
    );
    for target in [MODEL, NULL, RAM] {
        let report = json(&good(&check(&sheet, target, &[])));
        assert_eq!(report["schema_version"], 1);
        if target == MODEL {
            assert_eq!(verdicts(&report), ["pass"; 4], "{report}");
            assert_eq!(report["outcome"], "pass");
        }
        assert!(verdicts(&report).iter().all(|&verdict| verdict != "fail"), "{target}: {report}");
        assert_eq!(report["runs"].as_array().unwrap().len(), 1, "the same job runs once");
    }
    let table = good(&forebay(&["check", &sheet, "--target", MODEL]));
    assert!(table.contains("  pass  ") && table.trim_end().lines().last().unwrap().contains("pass"), "{table}");
}

#[test]
fn broken_promises_fail() {
    let place = Place::new();
    let text = sheet(&[
        (HALF_A_SECOND, "measure = \"mean\"\nat_most = \"1ns\""),
        (HALF_A_SECOND, "measure = \"iops\"\nat_least = 100"),
        (HALF_A_SECOND, "measure = \"iops\"\nat_least = 1000000000000"),
    ]);
    let sheet = place.write("s.toml", &text);
    let output = check(&sheet, MODEL, &[]);
    assert_eq!(code(&output), 1, "{}", err(&output));
    let report = json(&out(&output));
    assert_eq!(verdicts(&report), ["fail", "pass", "fail"], "{report}");
    assert_eq!(report["outcome"], "fail");
    assert!(err(&output).contains("breaks a promise"), "{}", err(&output));
    let table = forebay(&["check", &sheet, "--target", MODEL]);
    assert_eq!(code(&table), 1);
    assert!(out(&table).contains("FAIL"), "{}", out(&table));
    // Only the selected promise decides.
    good(&check(&sheet, MODEL, &["--only", "promise 1"]));
}

#[test]
fn a_run_ends_where_its_promises_are_decided() {
    let place = Place::new();
    let promise = ("runtime = \"60s\"", "measure = \"mean\"\nat_most = \"100us\"");
    let decided = place.write("s.toml", &sheet(&[promise]));
    let report = json(&good(&check(&decided, MODEL, &[])));
    let found = &report["promises"][0];
    // With an interval of a second a quarter of the run has 15 intervals, and 16 are needed.
    assert_eq!((&found["verdict"], found["confidence_percent"].as_f64()), (&"pass".into(), Some(99.75)), "{found}");
    assert!((30.0..30.1).contains(&found["decided_after_s"].as_f64().unwrap()), "{found}");
    assert!((30.0..31.1).contains(&report["runs"][0]["duration_s"].as_f64().unwrap()), "{}", report["runs"][0]);
    assert!(report["runs"][0]["partial"].is_null());
    assert!(report["notes"].to_string().contains("a planned look"), "{}", report["notes"]);
    let report = json(&good(&check(&decided, MODEL, &["--whole"])));
    assert!((60.0..60.1).contains(&report["runs"][0]["duration_s"].as_f64().unwrap()), "{}", report["runs"][0]);
    let found = &report["promises"][0];
    assert!(found["decided_after_s"].is_null() && found["confidence_percent"] == 95.0, "{found}");
}

#[test]
fn a_quick_look_at_a_builtin_sheet() {
    let report = json(&good(&check("p4800x", "model:p4800x?size=1GiB", &["--quick", "--destroy-data"])));
    let runs = report["runs"].as_array().unwrap();
    assert!(runs.len() > 3 && runs.iter().all(|run| run["ios"].as_u64().unwrap() <= 160_000), "{runs:?}");
    assert!(report["notes"].to_string().contains("quick"), "{}", report["notes"]);
    refused(&check("p4800x", NULL, &["--quick", "--runtime", "1s"]), 2, &["--quick", "--runtime"]);
}

#[test]
fn too_few_samples_neither_pass_nor_fail() {
    let place = Place::new();
    let sheet = place.write("s.toml", &sheet(&[("ios = 1000", "measure = \"p99.999\"\nat_most = \"10s\"")]));
    let report = json(&good(&check(&sheet, NULL, &[])));
    assert_eq!((verdicts(&report), &report["outcome"]), (vec!["too_few_samples"], &"not_shown".into()));
    let promise = &report["promises"][0];
    assert_eq!(promise["needed_more"], 368_888 - 1000, "{promise}");
    assert!(promise["measured"]["value"].is_null(), "{promise}");
    let table = good(&forebay(&["check", &sheet, "--target", NULL]));
    assert!(table.contains("too few samples") && table.contains("not shown"), "{table}");
}

#[test]
fn writes_are_left_out_where_something_would_be_lost() {
    let scene = Scene::new().created();
    let text = sheet(&[
        (HALF_A_SECOND, "measure = \"iops\"\nat_least = 1"),
        (HALF_A_SECOND, "measure = \"iops\"\nat_least = 1"),
    ]);
    let at = text.rfind("randread").unwrap();
    let text = format!("{}randwrite{}", &text[..at], &text[at + "randread".len()..]);
    let sheet = scene.path("s.toml");
    std::fs::write(&sheet, text).unwrap();
    let (sheet, fast) = (sheet.to_str().unwrap(), scene.path("fast.img"));
    let before = std::fs::read(&fast).unwrap();
    let output = check(sheet, fast.to_str().unwrap(), &[]);
    let report = json(&good(&output));
    // The width of its interval depends on the machine's other load; that it ran does not.
    assert!(verdicts(&report)[0] != "not_run" && verdicts(&report)[1] == "not_run", "{report}");
    assert_eq!(report["outcome"], "not_shown");
    assert!(err(&output).contains("Forebay pool"), "{}", err(&output));
    assert!(std::fs::read(&fast).unwrap() == before, "it was written to");
    let report = json(&good(&check(sheet, fast.to_str().unwrap(), &["--destroy-data"])));
    assert!(verdicts(&report).iter().all(|&verdict| verdict != "not_run"), "{report}");
    assert!(std::fs::read(&fast).unwrap() != before, "nothing was written");
}

#[test]
fn sheets_and_options_that_are_wrong_are_refused() {
    let place = Place::new();
    let wrong = |from: &str, to: &str| {
        let text = sheet(&[(HALF_A_SECOND, "measure = \"mean\"\nat_most = \"1s\"")]);
        assert!(text.contains(from));
        place.write("s.toml", &text.replace(from, to))
    };
    for (from, to, parts) in [
        ("measure = \"mean\"", "measure = \"meen\"", &["s.toml:6", "meen", "mean"][..]),
        ("measure = \"mean\"", "measure = \"max\"", &["s.toml:6", "promise a percentile"]),
        ("at_most", "at_mots", &["s.toml:11:1", "at_mots", "`at_most`"]),
        ("at_most = \"1s\"", "at_most = \"1s\"\nat_least = \"1s\"", &["at_most", "at_least"]),
        ("at_most = \"1s\"", "at_most = \"1 parsec\"", &["s.toml:6", "parsec"]),
        ("source = \"this test\"\n", "", &["s.toml", "source"]),
        ("size = \"4KiB\"", "siez = \"4KiB\"", &["s.toml:9:", "siez", "size"]),
    ] {
        refused(&check(&wrong(from, to), NULL, &[]), 2, parts);
    }
    refused(&check("nothing.toml", NULL, &[]), 2, &["nothing.toml", "p4800x"]);
    refused(&forebay(&["check", "p4800x"]), 2, &["--target"]);
    refused(&check("p4800x", "/nonexistent/x", &[]), 2, &["/nonexistent/x"]);
    refused(&check("p4800x", NULL, &["--runtime", "1 banana"]), 2, &["--runtime"]);
    refused(&check("p4800x", NULL, &["--only", "no such promise"]), 2, &["no such promise"]);
    let list = json(&good(&forebay(&["check", "--list", "--output", "json"])));
    assert!(list["sheets"].as_array().unwrap().len() >= 9, "{list}");
}

#[test]
fn ctrl_c_leaves_a_report() {
    let place = Place::new();
    let text = sheet(&[
        ("runtime = \"60s\"", "measure = \"iops\"\nat_least = 1"),
        ("depth = 2, runtime = \"60s\"", "measure = \"iops\"\nat_least = 1"),
    ]);
    let sheet = place.write("s.toml", &text);
    let run = Running::start(&["check", &sheet, "--target", NULL, "--output", "json"]);
    std::thread::sleep(Duration::from_millis(800));
    run.signal(rustix::process::Signal::INT);
    let report = json(&good(&run.end()));
    assert_eq!(report["outcome"], "not_shown");
    assert_eq!(verdicts(&report)[1], "not_run", "{report}");
}

#[test]
fn regression_with_nothing_to_check_there_is_no_report() {
    let place = Place::new();
    let text = sheet(&[(HALF_A_SECOND, "measure = \"iops\"\nat_least = 1")]).replace("randread", "randwrite");
    let writing = place.write("w.toml", &text);
    let scene = Scene::new().created();
    let fast = scene.path("fast.img");
    let output = check(&writing, fast.to_str().unwrap(), &[]);
    refused(&output, 2, &["nothing to check", "writes were not allowed", "Forebay pool"]);
    assert_eq!((out(&output).as_str(), err(&output).lines().count()), ("", 1), "{}", err(&output));
    refused(&check("800p-118gb", RAM, &[]), 2, &["nothing to check", "promises nothing"]);
    let reading = place.write("r.toml", &sheet(&[(HALF_A_SECOND, "measure = \"iops\"\nat_least = 1")]));
    refused(&check(&reading, NULL, &["--runtime", "0s"]), 2, &["--runtime 0s"]);
    // Without writes nothing is reported about them, and an error is reported once.
    let output = check(&reading, fast.to_str().unwrap(), &[]);
    good(&output);
    assert!(!err(&output).contains("write"), "{}", err(&output));
    let output = check("p4800x", "/nonexistent/x", &[]);
    assert_eq!(err(&output).matches("does not exist").count(), 1, "{}", err(&output));
}
