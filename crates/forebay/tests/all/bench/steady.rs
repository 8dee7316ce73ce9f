//! Jobs that end in the steady state.

use super::*;

const STEADY: [&str; 8] = [
    "--set",
    "steadystate=iops:5%",
    "--set",
    "steadystate_duration=2s",
    "--set",
    "steadystate_check_interval=500ms",
    "--set",
    "runtime=60s",
];

fn seconds(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value}"))
}

#[test]
fn a_job_on_a_model_ends_when_it_is_steady_and_always_at_the_same_time() {
    let run = || json(&good(&forebay(&[&["bench", "--target", MODEL, "--output", "json"][..], &STEADY[..]].concat())));
    let result = run();
    let job = &jobs_of(&result)[0];
    let state = &job["steady_state"];
    assert_eq!(
        (&state["attained"], &state["criterion"], &state["unit"]),
        (&true.into(), &"iops:5%".into(), &"percent".into())
    );
    assert!(seconds(&state["value"]) < 5.0 && state["limit"] == 5.0, "{state}");
    let (window, end_s) = (&state["window"], seconds(&state["attained_s"]));
    assert!((seconds(&window["end_s"]) - seconds(&window["begin_s"]) - 2.0).abs() < 1e-9, "{window}");
    assert_eq!((seconds(&window["end_s"]), window["parts"].as_array().unwrap().len()), (end_s, 4));
    // The result is not partial, and the run is far shorter than 60 s.
    assert!(
        job["partial"].is_null() && (end_s..end_s + 0.1).contains(&seconds(&job["duration_s"])),
        "{}",
        job["duration_s"]
    );
    assert!(end_s < 10.0, "{end_s}");
    // The figures of the window are those of its intervals; all other figures cover the whole run.
    let begin_s = seconds(&window["begin_s"]);
    let rows = job["intervals"].as_array().unwrap();
    let within = |row: &&Value| (begin_s - 1e-9..end_s - 1e-9).contains(&seconds(&row["begin_s"]));
    assert_eq!(window["ios"], rows.iter().filter(within).map(|row| row["ios"].as_u64().unwrap()).sum::<u64>());
    // The rows also include I/Os that began in the warm-up.
    let in_rows: u64 = rows.iter().map(|row| row["ios"].as_u64().unwrap()).sum();
    let carried = in_rows - job["ios"].as_u64().unwrap();
    assert!(carried <= job["depth"]["asked"].as_u64().unwrap(), "{carried}");
    assert_eq!(job["job"]["steadystate_duration_s"], 2.0);
    assert_eq!(run()["jobs"][0]["steady_state"], *state, "virtual time repeats itself");
}

#[test]
fn a_job_in_real_time_ends_too() {
    // A thousand I/Os a second, whatever the machine's load. A half second with fewer than 200 or more than 800 would need a machine that
    // stood still; two seconds without such a half suffice.
    let more = ["--set", "steadystate=iops:60%", "--set", "rate=1000", "--set", "depth=64", "--output", "json"];
    let begun = Instant::now();
    let output = forebay(&[&["bench", "--target", NULL][..], &STEADY[2..], &more].concat());
    let job = &jobs_of(&json(&good(&output)))[0].clone();
    assert_eq!(job["steady_state"]["attained"], true, "{job}");
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    // An open loop lasts until its last I/O, which may be due a millisecond earlier.
    assert!(seconds(&job["duration_s"]) + 0.001 >= seconds(&job["steady_state"]["attained_s"]), "{job}");
}

#[test]
fn what_is_not_attained_is_said_and_is_no_failure_as_in_fio() {
    let never = [
        "--set",
        "steadystate=iops:0.000001%",
        "--set",
        "steadystate_duration=2s",
        "--set",
        "rw=randrw",
        "--runtime",
        "3s",
    ];
    let run = |format| good(&forebay(&[&["bench", "--target", MODEL, "--output", format][..], &never].concat()));
    let result = json(&run("json"));
    let state = &jobs_of(&result)[0]["steady_state"];
    assert_eq!((&state["attained"], &state["attained_s"]), (&false.into(), &Value::Null));
    assert_eq!((seconds(&state["window"]["begin_s"]), seconds(&state["window"]["end_s"])), (1.0, 3.0));
    let table = run("table");
    assert!(table.contains("NOT STEADY (iops:0.000001%) within 3.0"), "{table}");
    // A job without the criterion reports nothing about it.
    let plain = measured(MODEL, &["--runtime", "500ms"]);
    assert!(plain["jobs"][0]["steady_state"].is_null());
}

#[test]
fn fios_files_and_json_have_it_as_fio_does() {
    let place = Place::new();
    let file = place.write(
        "steady.fio",
        "[steady]\nrw=randread\nioengine=io_uring\niodepth=4\ndirect=1\ntime_based\nruntime=60\nss=iops_slope:1%\nss_dur=3\nss_ramp=1\n",
    );
    let json_file = place.text("fio.json");
    let output = forebay(&["bench", &file, "--target", MODEL, "--fio-json", &json_file, "--output", "json"]);
    let state = jobs_of(&json(&good(&output)))[0]["steady_state"].clone();
    assert_eq!((&state["attained"], seconds(&state["window"]["begin_s"])), (&true.into(), 1.0), "{state}");
    let fio: Value = serde_json::from_str(&std::fs::read_to_string(&json_file).unwrap()).unwrap();
    let theirs = &fio["jobs"][0]["steadystate"];
    assert_eq!(
        (&theirs["ss"], &theirs["duration"], &theirs["attained"]),
        (&"iops_slope:1.000000%".into(), &3.into(), &1.into())
    );
    assert_eq!(theirs["data"]["iops"].as_array().unwrap().len(), 3);
    assert!(theirs["criterion"].as_str().unwrap().ends_with('%'), "{theirs}");
}

#[test]
fn steady_states_that_cannot_be_are_refused_beforehand() {
    let refuse = |more: &[&str], parts: &[&str]| refused(&bench(NULL, more), 2, parts);
    refuse(&["--set", "steadystate=iops:5%"], &["steadystate_duration", "missing"]);
    refuse(&["--set", "steadystate=io:5%"], &["\"io\" is no criterion"]);
    refuse(&[&STEADY[..6], &["--runtime", "1s"]].concat(), &["runtime", "can be seen after 2 s"]);
    refuse(&[&STEADY[..], &["--interval", "300ms"]].concat(), &["steadystate_check_interval", "--interval (300 ms)"]);
    // An experiment ends its points itself, and reports that.
    let output = bench(
        MODEL,
        &[&["qd-sweep", "--depth-max", "2", "--runtime", "100ms", "--read-percent", "100"][..], &STEADY[..4]].concat(),
    );
    assert!(err(&output).contains("whatever --set says: steadystate, steadystate_duration"), "{}", err(&output));
}

/// `steadystate` was ignored with a trace: a replay ran to its end.
#[test]
fn a_replay_ends_when_it_is_steady_or_with_its_trace() {
    let place = Place::new();
    let line = |at: u32| format!("0,{},4096,r,{:.4}\n", at * 7919 % 100_000, f64::from(at) * 0.0005);
    let trace = place.write("long.spc", &(0..30_000).map(line).collect::<String>());
    let replay = |window: &str, limit: &str| {
        let settings = [format!("steadystate=iops:{limit}"), format!("steadystate_duration={window}")];
        let words = ["replay", &trace, "--target", "model:p4800x?size=256MiB", "--output", "json"];
        let set = ["--set", &settings[0], "--set", &settings[1], "--set", "steadystate_check_interval=500ms"];
        let result = json(&good(&forebay(&[&words[..], &set[..]].concat())));
        let job = jobs_of(&result)[0].clone();
        assert!(job["partial"].is_null(), "{}", job["partial"]);
        (job["steady_state"]["attained_s"].as_f64(), job["ios"].as_u64().unwrap())
    };
    let (attained_s, ios) = replay("2s", "5%");
    assert!(attained_s == Some(2.0) && (3900..4200).contains(&ios), "{attained_s:?} {ios}");
    // Longer than a job's default, and longer than the trace.
    assert_eq!(replay("14s", "5%").0, Some(14.0));
    assert_eq!(replay("20s", "5%"), (None, 30_000));
}
