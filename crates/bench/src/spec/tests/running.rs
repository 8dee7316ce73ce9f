//! The whole path from a sheet to its report.

use super::fake::{Fake, constant, run};
use crate::experiment::DriverError;
use crate::job::model::Job;
use crate::run::Partial;
use crate::spec::{
    CheckError, CheckOptions, CheckReport, Conditioning, Outcome, Part, RUNTIME_NS, Spec, Verdict, check, parts, writes,
};

const SHEET: &str = r#"
[drive]
name = "Drive"
capacity = "375GB"
notes = ["let it warm up"]

[[condition]]
name = "fill"
job = { rw = "write", size = "128KiB", passes = 2 }

[[condition]]
name = "overwrite"
before = "writes"
job = { rw = "randwrite", passes = 1 }

[[promise]]
name = "read mean"
source = "data sheet"
job = { rw = "randread" }
measure = "mean"
at_most = "10us"

[[promise]]
name = "write mean"
source = "data sheet"
from_memory = true
job = { rw = "randwrite" }
measure = "mean"
at_most = "10us"

[[promise]]
name = "read IOPS"
source = "data sheet"
note = "no depth given"
job = { rw = "randread", depth = 1, threads = 1, size = "4KiB" }
measure = "iops"
at_least = 900

[[promise]]
name = "read tail"
source = "elsewhere"
job = { rw = "randread" }
measure = "p99.999"
at_most = "10us"

[[row]]
drive = "Other"
source = "review"
note = "polled"
job = { rw = "randread", calls = "sync-hipri" }
iops = 108300
mean = "8.9us"
"p99.999" = "37us"

[[row]]
source = "review"
job = { rw = "randread", threads = 4, depth = 4 }
bytes_per_second = "2231MB/s"
"#;

fn sheet() -> Spec {
    Spec::parse(SHEET, "s.toml").unwrap()
}

fn all() -> CheckOptions {
    CheckOptions { allow_writes: true, ..CheckOptions::default() }
}

/// A target with a thousand I/Os a second of 9 us.
fn good() -> Fake {
    Fake::new(|job| Ok(constant(job, 10, 1000, 9_000)))
}

fn verdicts(report: &crate::spec::CheckReport) -> Vec<Verdict> {
    report.promises.iter().map(|promise| promise.verdict).collect()
}

#[test]
fn promises_share_runs_and_rows_stand_beside_them() {
    let mut driver = good();
    let report = check(&mut driver, &sheet(), &all()).unwrap();
    assert_eq!(driver.names(), ["fill", "4 KiB random read QD1", "overwrite", "4 KiB random write QD1"]);
    assert_eq!(report.runs.len(), 2);
    let runs: Vec<_> = report.promises.iter().map(|promise| promise.run).collect();
    assert_eq!(runs, [Some(0), Some(1), Some(0), Some(0)]);
    assert_eq!(verdicts(&report), [Verdict::Pass, Verdict::Pass, Verdict::Pass, Verdict::TooFewSamples]);
    assert_eq!(report.outcome, Outcome::NotShown);
    let tail = &report.promises[3];
    assert_eq!(tail.needed_more, Some(358_888));
    assert!(tail.why.contains("358888 more samples, 359 s more"), "{}", tail.why);
    // Published rows are matched by the test, not by the system calls.
    let beside: Vec<usize> = report.runs.iter().map(|run| run.published.len()).collect();
    assert_eq!(beside, [1, 0]);
    assert_eq!(report.runs[0].littles_law_holds, Some(true));
    assert_eq!(report.runs[0].steady, Some(true));
    assert_eq!(report.conditions.len(), 2);
    assert_eq!(driver.asked[1].1.end.after_ns, Some(RUNTIME_NS));
    assert_eq!(driver.asked[0].1.end.after_passes, Some(2.0));
}

#[test]
fn runs_in_virtual_time_end_with_the_samples_that_bound_what_is_asked() {
    let end = |options: &CheckOptions| {
        let mut driver = good();
        let report = check(&mut driver, &sheet(), options).unwrap();
        let end = |name: &str| driver.asked.iter().find(|(_, job)| job.name.contains(name)).unwrap().1.end;
        (end("random read"), end("random write"), report)
    };
    let at_once = CheckOptions { virtual_time: true, ..all() };
    let (read, write, report) = end(&at_once);
    // p99.999 needs 368,888 independent samples, so four times as many are asked for. A mean needs a million.
    assert_eq!((read.after_ios, read.after_ns), (Some(4 * 368_888), Some(RUNTIME_NS)));
    assert_eq!(write.after_ios, Some(1_000_000));
    assert!(report.notes.iter().any(|note| note.contains("virtual time")), "{:?}", report.notes);
    // The run is asked for that many, but the result is judged as usual: ten thousand samples do not bound the tail.
    assert_eq!(report.promises[3].verdict, Verdict::TooFewSamples);
    assert_eq!(report.promises[3].needed_more, Some(358_888));
    // A given runtime is used as it is, and runs in real time take as long as ever.
    let (read, _, report) = end(&CheckOptions { runtime_ns: Some(5_000_000_000), ..at_once });
    assert_eq!((read.after_ios, read.after_ns), (None, Some(5_000_000_000)));
    assert!(!report.notes.iter().any(|note| note.contains("virtual time")));
    assert_eq!(end(&all()).0.after_ios, None);
}

/// The report as lines, one for each table row.
fn lines_of(report: &CheckReport) -> String {
    let parts = parts(report).into_iter().flat_map(|part| match part {
        Part::Text(text) => vec![text],
        Part::Table(table) => [table.head].iter().chain(&table.rows).map(|row| row.join(" | ")).collect(),
    });
    parts.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_table_has_the_form_of_the_review() {
    let report = check(&mut good(), &sheet(), &all()).unwrap();
    let text = lines_of(&report);
    let line =
        |start: &str| text.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("{start}\n{text}"));
    assert_eq!(line("test |"), "test | drive | MB/s | IOPS | mean | median | p99 | p99.999");
    assert_eq!(
        line("4 KiB random read"),
        "4 KiB random read QD1 | this target | 4.1 | 1000 | 9.0 | 9.0 | 9.0 | (289572 more)"
    );
    assert_eq!(line(" | "), " | Other, polled | - | 108.3k | 8.9 | - | - | 37.0");
    assert!(line("read IOPS").starts_with("read IOPS | >= 900 IOPS | pass | 1000 IOPS | 1000 IOPS to 1000 IOPS | "));
    assert!(line("write mean").contains("(from memory) | pass |"));
    assert!(line("read tail: too few samples").contains("358888"));
    assert!(text.contains("source: data sheet (from memory") && text.contains("read IOPS: no depth given"));
    assert!(text.contains("note: let it warm up") && text.contains("conditioning: fill: 10 s"));
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["outcome"], "not_shown");
    assert_eq!(json["promises"][3]["verdict"], "too_few_samples");
    assert_eq!(json["promises"][3]["measure"], "p99.999");
    assert_eq!(json["promises"][2]["promised"]["at_least"], 900.0);
    assert_eq!(json["promises"][0]["unit"], "ns");
    assert_eq!(json["runs"][0]["published"][0]["p99.999_ns"], 37_000);
    assert_eq!(json["runs"][0]["p99.999_ns"]["needed_more"], 289_572);
}

#[test]
fn writes_need_leave_and_what_is_not_run_is_no_pass() {
    let mut driver = good();
    let options = CheckOptions { only: Some("MEAN".to_owned()), ..CheckOptions::default() };
    let report = check(&mut driver, &sheet(), &options).unwrap();
    assert_eq!(driver.names(), ["4 KiB random read QD1"]);
    assert_eq!(verdicts(&report), [Verdict::Pass, Verdict::NotRun]);
    assert_eq!(report.outcome, Outcome::NotShown);
    assert!(report.promises[1].why.contains("writes were not allowed"));
    assert_eq!(report.conditions.len(), 2);
    assert!(report.conditions.iter().all(|condition| condition.duration_s.is_none()));
    let text = lines_of(&report);
    assert!(text.contains("not run") && text.contains("left out: it writes"), "{text}");
    let options = CheckOptions { only: Some("read IOPS".to_owned()), ..CheckOptions::default() };
    let report = check(&mut good(), &sheet(), &options).unwrap();
    assert_eq!((report.outcome, report.left_out), (Outcome::Pass, sheet().promises.len() - 1));
    assert!(lines_of(&report).contains("were not asked for"));
    let options = CheckOptions { only: Some("nothing".to_owned()), ..CheckOptions::default() };
    let error = check(&mut good(), &sheet(), &options).unwrap_err();
    assert!(matches!(error, CheckError::NothingSelected { .. }) && error.to_string().contains("read tail"));
}

#[test]
fn a_slow_drive_fails() {
    let report = check(&mut Fake::new(|job| Ok(constant(job, 10, 1000, 80_000))), &sheet(), &all()).unwrap();
    assert_eq!(verdicts(&report), [Verdict::Fail, Verdict::Fail, Verdict::Pass, Verdict::Fail]);
    assert_eq!(report.outcome, Outcome::Fail);
    assert!(lines_of(&report).contains("FAIL"));
}

#[test]
fn failed_and_lost_ios_keep_no_promise() {
    let failing = |job: &Job| {
        let mut result = constant(job, 10, 1000, 9_000);
        result.kinds[0].errors = 3;
        Ok(result)
    };
    let report = check(&mut Fake::new(failing), &sheet(), &all()).unwrap();
    assert_eq!(verdicts(&report), [Verdict::Fail; 4]);
    assert!(report.promises[0].why.contains("3 I/Os failed"));
    assert_eq!(report.conditions[0].why.as_deref(), Some("3 I/Os failed"));
    let hanging = |job: &Job| {
        let mut result = constant(job, 10, 1000, 9_000);
        (result.hung, result.partial) = (1, Some(Partial::Hung));
        Ok(result)
    };
    let report = check(&mut Fake::new(hanging), &sheet(), &all()).unwrap();
    assert_eq!((report.outcome, report.runs[0].failed), (Outcome::Fail, 1));
    assert!(report.warnings.iter().any(|warning| warning.contains("partial")));
}

#[test]
fn the_user_may_end_it() {
    let mut driver = good();
    driver.stop_after = 2;
    let report = check(&mut driver, &sheet(), &all()).unwrap();
    assert_eq!(verdicts(&report), [Verdict::Pass, Verdict::NotRun, Verdict::Pass, Verdict::TooFewSamples]);
    assert!(report.promises[1].why.contains("ended before"));
    assert_eq!(report.conditions[1].duration_s, None);
    driver.stop_after = 0;
    let report = check(&mut driver, &sheet(), &all()).unwrap();
    assert_eq!((verdicts(&report), report.outcome), (vec![Verdict::NotRun; 4], Outcome::NotShown));
}

#[test]
fn runs_that_cannot_begin_are_said() {
    let refuse = |_: &Job| Err(DriverError("no such device".to_owned()));
    let options = CheckOptions { conditioning: Conditioning::Skip, ..all() };
    let error = check(&mut Fake::new(refuse), &sheet(), &options).unwrap_err();
    assert!(error.to_string().contains("no such device") && error.to_string().contains("1 of 2"), "{error}");
    assert!(check(&mut Fake::new(refuse), &sheet(), &all()).unwrap_err().to_string().contains("conditioning: fill"));
    let half = |job: &Job| {
        if job.mix.is_destructive() {
            Err(DriverError("read-only".to_owned()))
        } else {
            Ok(constant(job, 10, 1000, 9_000))
        }
    };
    let report = check(&mut Fake::new(half), &sheet(), &options).unwrap();
    assert_eq!(report.promises[1].verdict, Verdict::NotRun);
    assert!(report.promises[1].why.contains("read-only"));
    let empty = Spec::parse("[drive]\nname = \"d\"\n", "e").unwrap();
    let error = check(&mut Fake::new(refuse), &empty, &all()).unwrap_err();
    assert_eq!(error.to_string(), "nothing to check: e promises nothing; --rows runs the tests of its published rows");
}

#[test]
fn regression_where_nothing_may_be_run_nothing_is_reported() {
    let only = CheckOptions { only: Some("write".to_owned()), ..CheckOptions::default() };
    let mut driver = good();
    let error = check(&mut driver, &sheet(), &only).unwrap_err();
    assert!(matches!(error, CheckError::NothingToCheck { .. }), "{error}");
    assert!(error.to_string().contains("all that is asked for of s.toml writes"), "{error}");
    assert!(driver.asked.is_empty());
    // The selected promises decide whether the check writes; conditioning counts too.
    let reads = CheckOptions { only: Some("read".to_owned()), ..CheckOptions::default() };
    assert!(writes(&sheet(), &only) && writes(&sheet(), &reads));
    assert!(!writes(&sheet(), &CheckOptions { conditioning: Conditioning::Skip, ..reads }));
}

/// Eight intervals, of which the last is not complete: too few for a rate, so also for a mean and a percentile.
#[test]
fn regression_all_promises_of_a_run_that_was_ended_are_judged_alike() {
    let ended = |job: &Job| {
        let mut result = constant(job, 8, 1000, 80_000);
        result.duration_ns -= 300_000_000;
        result.rated_ns -= 300_000_000;
        result.intervals.last_mut().unwrap().length_ns -= 300_000_000;
        result.partial = Some(Partial::Interrupted);
        Ok(result)
    };
    let options = CheckOptions { conditioning: Conditioning::Skip, ..all() };
    let report = check(&mut Fake::new(ended), &sheet(), &options).unwrap();
    assert_eq!(verdicts(&report), [Verdict::TooFewSamples; 4]);
    assert!(report.promises.iter().all(|promise| promise.why.contains("7 whole intervals")), "{:?}", report.promises);
}

#[test]
fn regression_a_promise_and_the_row_of_its_run_say_the_same() {
    let uneven = |job: &Job| {
        let mut result = run(job, 20, |second| vec![9_000; 1000 + 37 * second as usize]);
        result.duration_ns += 123_456_789;
        result.rated_ns += 123_456_789;
        Ok(result)
    };
    let report = check(&mut Fake::new(uneven), &sheet(), &all()).unwrap();
    let figure = &report.promises[2].measured;
    assert_eq!(figure.value, Some(report.runs[0].iops));
    assert!(figure.low <= figure.value && figure.value <= figure.high, "{figure:?}");
    assert_eq!(report.promises[0].measured.value, report.runs[0].mean_ns);
}

#[test]
fn options_set_time_and_conditions() {
    let mut driver = good();
    let own = Job { name: "mine".to_owned(), ..Job::default() };
    let options = CheckOptions {
        runtime_ns: Some(7_000_000_000),
        conditioning: Conditioning::Jobs(vec![own]),
        rows: true,
        ..all()
    };
    let mut spec = sheet();
    spec.promises[1].own_end = true;
    spec.promises[1].job.end.after_bytes = Some(1 << 30);
    spec.promises[1].job.end.after_ns = None;
    let report = check(&mut driver, &spec, &options).unwrap();
    assert_eq!(
        driver.names(),
        ["mine", "4 KiB random read QD1", "4 KiB random write QD1", "4 KiB random read QD16"],
        "the second row has no promise and is run too"
    );
    let ends: Vec<_> = driver.asked.iter().map(|(_, job)| (job.end.after_ns, job.end.after_bytes)).collect();
    let seven = Some(7_000_000_000);
    assert_eq!(ends[1..], [(seven, None), (seven, Some(1 << 30)), (seven, None)]);
    assert_eq!(report.runs[2].published.len(), 1);
    let Conditioning::Jobs(jobs) = Conditioning::snia() else { panic!("no jobs") };
    let plan = crate::job::model::Plan { groups: vec![jobs], notes: Vec::new() };
    crate::job::validate::validate(&plan).unwrap();
}

#[test]
fn what_is_odd_is_noted() {
    let mut driver = Fake::new(|job| {
        let mut result = run(job, 50, |second| vec![9_000; 2000 - 30 * second as usize]);
        result.depth_mean *= 2.0;
        Ok(result)
    });
    driver.size_bytes = 100_000_000_000;
    let report = check(&mut driver, &sheet(), &CheckOptions::default()).unwrap();
    // Warnings stand before the table, since they weaken the verdicts.
    let text = lines_of(&report);
    let (before, _) = text.split_once("| promise").unwrap();
    for what in
        ["WARNING: this target is not the sheet's drive: it has 100 GB, that one 375 GB", "not steady", "Little's law"]
    {
        assert!(before.contains(what), "{what}: {before}");
    }
    driver.size_bytes = 300_000_000_000;
    let report = check(&mut driver, &sheet(), &CheckOptions::default()).unwrap();
    let noted = |what: &str| report.notes.iter().any(|note| note.contains(what));
    assert!(noted("300 GB, the sheet is of a drive with 375 GB"), "{:?}", report.notes);
    assert!(!lines_of(&report).contains("not the sheet's drive"));
}

/// A figure measured before a drive's cache or spare space could be used up was reported as the drive's.
#[test]
fn regression_a_verdict_on_a_target_not_written_once_says_so() {
    let report = check(&mut good(), &sheet(), &all()).unwrap();
    let (read, write) = (&report.promises[0], &report.promises[1]);
    assert_eq!((read.written_share, &read.of_part), (None, &None));
    let share = write.written_share.unwrap();
    assert!(share > 0.0 && share < 0.001, "{share}");
    let part = "of the first 10.0 s, 0.04 GB of a target of 375 GB, of which 0.0 % had been written by this check";
    assert!(write.of_part.as_ref().unwrap().starts_with(part), "{:?}", write.of_part);
    let only = CheckOptions { only: Some("write".to_owned()), ..all() };
    let text = lines_of(&check(&mut good(), &sheet(), &only).unwrap());
    assert!(text.contains(&format!("write mean: pass: {part}")), "{text}");
    let last = text.trim_end().lines().last().unwrap();
    assert!(
        last.contains("pass: every promise is kept; 1 passed before the target was written once, see above"),
        "{last}"
    );
    // Once the region was written, the warning is gone.
    let large = |job: &Job| {
        let mut result = constant(job, 10, 1000, 9_000);
        result.kinds.iter_mut().for_each(|kind| kind.bytes = 2 * 375_000_000_000);
        Ok(result)
    };
    let report = check(&mut Fake::new(large), &sheet(), &only).unwrap();
    assert_eq!(report.promises[0].of_part, None);
    assert!(report.promises[0].written_share.unwrap() > 0.99);
}
