//! Loads at the times of a trace.

use super::*;

fn traced(text: &str, more: &str) -> (Job, tempfile::TempDir) {
    let directory = tempfile::TempDir::new().unwrap();
    let path = directory.path().join("times.txt");
    std::fs::write(&path, text).unwrap();
    let text = format!("[[job]]\ndepth = 8\ntrace = {{ file = {:?} }}\n{more}", path.display().to_string());
    let plan = crate::job::toml_file::parse(&text, "test").unwrap();
    (plan.groups[0][0].clone(), directory)
}

/// A thousand times, a millisecond apart.
fn times() -> String {
    (0..1000).map(|time| format!("{:.3}\n", 7.0 + f64::from(time) / 1000.0)).collect()
}

#[test]
fn regression_a_trace_is_measured_from_its_begin_to_its_end() {
    for more in ["", "runtime = \"30s\"\n"] {
        let (job, _directory) = traced(&times(), more);
        let result = run_on(job, fixed(100_000));
        assert_eq!((result.ios(), result.partial), (1000, None));
        // The run lasts until the end of its last I/O, not as long as a run may last.
        assert!((999_000_000..999_300_000).contains(&result.duration_ns), "{more}: {}", result.duration_ns);
        assert!((result.iops() / 1001.0 - 1.0).abs() < 0.001, "{more}: {}", result.iops());
        let open = result.open.unwrap();
        assert_eq!((open.scheduled, open.issued), (1000, 1000));
        assert!(result.notes.is_empty(), "{:?}", result.notes);
    }
    // I/Os beyond the runtime are cut off.
    let (job, _directory) = traced(&times(), "runtime = \"500ms\"\n");
    let result = run_on(job, fixed(100_000));
    assert_eq!((result.ios(), result.duration_ns / 1_000_000), (500, 500));
}

#[test]
fn regression_times_out_of_order_are_reported() {
    let (job, _directory) = traced("0.003\n0.001\n0.002\n# a remark\n0.004\n", "");
    let result = run_on(job, fixed(100_000));
    assert_eq!(result.ios(), 4);
    assert!(result.notes[0].starts_with("2 of the trace's 4 times are smaller"), "{:?}", result.notes);
}

#[test]
fn regression_a_trace_that_is_over_too_soon_is_reported() {
    let (job, _directory) = traced("0\n0.5\n", "warmup = \"1s\"\n");
    let result = run_on(job, fixed(100_000));
    assert!(!result.has_measured());
    assert!(result.notes[0].contains("the trace was over before the measurement began"), "{:?}", result.notes);
}
