//! Experiments on a target that is a formula, so that the correct result is known.

use super::fake_tests::{Fake, Fate, PEAK};
use super::*;
use crate::job::model::{Extent, Job, Region};
use crate::job::toml_file;
use crate::run::Partial;
use forebay_block::OpKind;

/// Writes are allowed and all points are short.
fn options() -> Options {
    Options { allow_writes: true, runtime_ns: Some(2_000_000_000), ..Options::default() }
}

fn text(report: &Report) -> String {
    format!("{:?} {:?} {:?}", report.conditions, report.tables, report.notes)
}

#[test]
fn every_experiment_runs_and_keeps_its_promises() {
    for (experiment, description) in Experiment::ALL {
        assert_eq!(experiment.to_string().parse::<Experiment>(), Ok(experiment));
        assert!(!description.is_empty() && !description.contains('\n'));
        for quick in [false, true] {
            let mut fake = Fake::healthy();
            let options = Options { quick, runtime_ns: None, fills_percent: vec![50, 100], ..options() };
            let report = experiment.run(&mut fake, &options).unwrap();
            assert_eq!((report.name.as_str(), report.partial, report.failures), (experiment.name(), false, 0));
            assert!(report.what.ends_with('.') && !report.what.contains("  "), "{}", report.what);
            assert!(!report.tables.is_empty() && !report.conditions.is_empty(), "{experiment}");
            for table in &report.tables {
                assert!(!table.rows.is_empty(), "{experiment}: {}", table.title);
                assert!(table.rows.iter().all(|row| row.len() == table.head.len()), "{experiment}: {table:?}");
                assert!(table.left <= table.head.len());
            }
            assert!(report.json["results"].is_object(), "{experiment}");
            assert_eq!(report.conditions.iter().any(|text| text.starts_with("QUICK")), quick);
            let broken = report.notes.iter().any(|note| note.contains("Little's law"));
            assert!(!broken, "{experiment}: {:?}", report.notes);
        }
    }
    let error = "qd-swep".parse::<Experiment>().unwrap_err().to_string();
    assert!(error.contains("nearest known one is `qd-sweep`") && error.contains("wait-methods"), "{error}");
}

#[test]
fn nothing_is_written_unless_that_was_allowed() {
    for (experiment, _) in Experiment::ALL {
        let mut fake = Fake::healthy();
        let readonly = Options { allow_writes: false, ..options() };
        match experiment.run(&mut fake, &readonly) {
            Err(error @ ExperimentError::NeedsWrites { .. }) => {
                assert!(experiment.needs_writes());
                assert!(error.to_string().contains("--destroy-data") && fake.runs.is_empty(), "{error}");
            }
            other => {
                other.unwrap();
                assert!(!experiment.needs_writes());
                assert!(fake.jobs().all(|job| !job.mix.is_destructive()), "{experiment}");
            }
        }
        let mixed = Options { read_percent: Some(70), ..readonly.clone() };
        assert!(matches!(experiment.run(&mut fake, &mixed), Err(ExperimentError::NeedsWrites { .. })));
        let conditioned = Options { conditioning: Some(Conditioning::default()), ..readonly };
        assert!(matches!(experiment.run(&mut fake, &conditioned), Err(ExperimentError::NeedsWrites { .. })));
    }
    assert!(condition(&mut Fake::healthy(), &Options::default(), Conditioning::default()).is_err());
}

#[test]
fn the_sweep_finds_the_saturation_depth() {
    let mut fake = Fake::healthy();
    let application = DepthHistogram { depths: vec![(1, 0.6), (3, 0.3), (1024, 0.1)] };
    let options = Options { application: Some(application), ..options() };
    let report = Experiment::QdSweep.run(&mut fake, &options).unwrap();
    let results = &report.json["results"];
    // 4 x 100k of 550k are 73 %; depth 8 reaches the peak.
    assert_eq!(results["saturation"]["depth"], 8);
    assert_eq!(results["saturation"]["reached"], true);
    assert_eq!(results["points"].as_array().unwrap().len(), 9);
    let point = &results["points"][3];
    assert_eq!(point["depth"], 8);
    assert!((point["iops"].as_f64().unwrap() / PEAK - 1.0).abs() < 1e-3, "{point}");
    assert!((point["mean_ns"].as_f64().unwrap() / (8e9 / PEAK) - 1.0).abs() < 1e-2, "{point}");
    assert!(point["p99.9_ns"].is_null(), "2,000 samples bound no p99.9: {point}");
    let marked: Vec<_> =
        report.tables[0].rows.iter().filter(|row| row.last().unwrap().contains("saturation")).collect();
    assert_eq!((marked.len(), marked[0][0].as_str()), (1, "8"));
    assert!((results["application"]["clamped_share"].as_f64().unwrap() - 0.1).abs() < 1e-9);
    assert!(fake.jobs().all(|job| job.mix.weights == [(OpKind::Read, 70), (OpKind::Write, 30)]));
    let shallow = Options { depth_max: 3, ..options };
    let report = Experiment::QdSweep.run(&mut Fake::healthy(), &shallow).unwrap();
    let results = &report.json["results"];
    assert_eq!((&results["saturation"]["reached"], &results["points"][2]["depth"]), (&false.into(), &3.into()));
    assert!(report.notes.iter().any(|note| note.contains("at least 3")), "{:?}", report.notes);
}

#[test]
fn regression_a_sweep_that_the_generator_bounds_names_no_saturation_depth() {
    // At 1.8 us each, 550,000 a second use up one thread.
    let mut fake = Fake::new(|_, _| Fate { cpu_ns: 1_800, ..Fate::default() });
    let report = Experiment::QdSweep.run(&mut fake, &options()).unwrap();
    assert_eq!(report.json["results"]["saturation"]["limited_by_generator"], true);
    assert!(report.notes.iter().any(|note| note.starts_with("THE GENERATOR IS THE LIMIT")), "{:?}", report.notes);
    assert!(!report.notes.iter().any(|note| note.starts_with("saturation depth")), "{:?}", report.notes);
    let marks: Vec<&String> = report.tables[0].rows.iter().filter_map(|row| row.last()).collect();
    assert!(marks.iter().any(|mark| mark.contains("the generator's limit")), "{marks:?}");
    assert!(!marks.iter().any(|mark| mark.contains("saturation depth")), "{marks:?}");
    let report = Experiment::QdSweep.run(&mut Fake::healthy(), &options()).unwrap();
    assert_eq!(report.json["results"]["saturation"]["limited_by_generator"], false);
}

#[test]
fn an_end_between_points_leaves_what_is_known() {
    let mut fake = Fake::new(|number, _| Fate { stop: number == 3, ..Fate::default() });
    let report = Experiment::QdSweep.run(&mut fake, &options()).unwrap();
    assert!(report.partial && report.notes[0].starts_with("PARTIAL"));
    assert_eq!(report.json["results"]["points"].as_array().unwrap().len(), 4);
    // Interrupted within a point: that point is left out.
    let interrupted = Fate { stop: true, partial: Some(Partial::Interrupted), ..Fate::default() };
    let mut fake = Fake::new(move |number, _| if number == 3 { interrupted.clone() } else { Fate::default() });
    let report = Experiment::QdSweep.run(&mut fake, &options()).unwrap();
    assert!(report.partial);
    assert_eq!(report.json["results"]["points"].as_array().unwrap().len(), 3);
    for (experiment, _) in Experiment::ALL {
        for at in 0..6 {
            for partial in [None, Some(Partial::Interrupted), Some(Partial::GaveUp), Some(Partial::Hung)] {
                let mut fake = Fake::new(move |number, _| {
                    let here = number == at;
                    Fate {
                        stop: here && partial != Some(Partial::GaveUp),
                        partial: partial.filter(|_| here),
                        ..Fate::default()
                    }
                });
                let report = experiment.run(&mut fake, &options()).unwrap();
                // A target that gives up when it is tried for a feature only shows that it lacks the feature.
                let asked = |at: usize| fake.runs.get(at).is_some_and(|(_, jobs)| jobs[0].end.after_ios == Some(1));
                let answered = partial == Some(Partial::GaveUp) && asked(at);
                assert!(report.partial || answered || fake.runs.len() <= at + 1, "{experiment} {at} {partial:?}");
            }
        }
    }
}

#[test]
fn failures_are_summed_and_reported_with_their_place() {
    let mut fake = Fake::new(|_, job| Fate { failures: u64::from(job.depth == 4) * 3, ..Fate::default() });
    let report = Experiment::QdSweep.run(&mut fake, &options()).unwrap();
    assert_eq!((report.failures, report.partial), (3, false));
    let note = report.notes.iter().find(|note| note.contains("3 I/Os failed")).unwrap();
    assert!(note.contains("depth 4") && note.contains("read of 4 KiB at byte 8192: EIO"), "{note}");
    // A target that is gone ends the experiment, and is reported once.
    let mut fake = Fake::new(|number, _| {
        let gone = number >= 2;
        Fate { failures: u64::from(gone) * 1000, partial: gone.then_some(Partial::GaveUp), ..Fate::default() }
    });
    let report = Experiment::QdSweep.run(&mut fake, &options()).unwrap();
    assert_eq!((report.failures, report.partial, fake.runs.len()), (1000, true, 3));
}

#[test]
fn a_driver_that_refuses_is_an_error_before_the_first_result_and_an_end_after() {
    let mut fake = Fake::new(|_, _| Fate { refused: Some("no such disk"), ..Fate::default() });
    let error = Experiment::QdSweep.run(&mut fake, &options()).unwrap_err().to_string();
    assert!(error.contains("depth 1") && error.contains("no such disk"), "{error}");
    let mut fake = Fake::new(|number, _| Fate { refused: (number == 2).then_some("unplugged"), ..Fate::default() });
    let report = Experiment::QdSweep.run(&mut fake, &options()).unwrap();
    assert!(report.partial && text(&report).contains("unplugged"));
    assert_eq!(report.json["results"]["points"].as_array().unwrap().len(), 2);
}

/// Whether a job is a cell of a SNIA round.
fn is_cell(job: &Job) -> bool {
    job.end.after_ns.is_some()
}

/// A target whose latency is multiplied by `slower(r)` in round r (from 0), where a round has `cells` cells.
fn by_round(cells: usize, slower: impl Fn(usize) -> f64 + 'static) -> Fake {
    let mut seen = 0;
    Fake::new(move |_, job| {
        if !is_cell(job) {
            return Fate::default();
        }
        let round = seen / cells;
        seen += 1;
        Fate { slower: slower(round), ..Fate::default() }
    })
}

#[test]
fn snia_rounds_stop_when_the_state_is_steady() {
    // Throughput falls by a third each round until the fourth (round 3) and then stays: the window 4..=8 is the first flat one.
    let mut fake = by_round(56, |round| 1.5_f64.powi(round.min(3) as i32));
    let report = Experiment::SniaIops.run(&mut fake, &options()).unwrap();
    let results = &report.json["results"];
    assert_eq!(results["steady_state"]["verdict"], "steady");
    assert_eq!(
        (&results["steady_state"]["rounds"], &results["steady_state"]["window_begin_round"]),
        (&8.into(), &4.into())
    );
    assert_eq!(fake.jobs().filter(|job| is_cell(job)).count(), 8 * 56);
    let names: Vec<_> =
        results["steady_state"]["tracking_variables"].as_array().unwrap().iter().map(|v| v["name"].clone()).collect();
    assert_eq!(names, ["0/100 4 KiB", "65/35 64 KiB", "100/0 1 MiB"]);
    // The average is that of the window, not of all rounds.
    let cell = &results["cells"][0];
    assert_eq!((&cell["read_percent"], &cell["size_bytes"]), (&100.into(), &1_048_576.into()));
    let want = PEAK / 1.5_f64.powi(3);
    assert!((cell["average_iops"].as_f64().unwrap() / want - 1.0).abs() < 1e-3, "{cell}");
    // First the trials of trim and of 512 bytes, then purge, then twice the capacity.
    let bytes: f64 = fake
        .jobs()
        .filter(|job| job.mix.weights[0].0 == OpKind::Write && !is_cell(job))
        .map(|job| job.end.after_passes.unwrap())
        .sum();
    assert_eq!(bytes, 2.0);
    assert!(fake.jobs().any(|job| job.mix.weights[0].0 == OpKind::Trim && job.end.after_passes == Some(1.0)));
    let loads: Vec<_> = fake.jobs().filter(|job| is_cell(job)).map(|job| (job.threads, job.depth)).collect();
    assert!(loads.iter().all(|&load| load == (4, 32)));
}

#[test]
fn snia_rounds_end_after_25_without_a_steady_state() {
    for (experiment, cells) in [(Experiment::SniaIops, 56), (Experiment::SniaLatency, 9)] {
        let mut fake = by_round(cells, |round| 1.1_f64.powi(round as i32));
        let report = experiment.run(&mut fake, &options()).unwrap();
        let state = &report.json["results"]["steady_state"];
        assert_eq!((&state["verdict"], &state["rounds"]), (&"not reached".into(), &25.into()));
        assert_eq!(fake.jobs().filter(|job| is_cell(job)).count(), 25 * cells);
        assert!(!report.partial && report.tables[0].title.contains("NOT REACHED"), "{}", report.tables[0].title);
        let cell = &report.json["results"]["cells"][0];
        let rounds = if experiment == Experiment::SniaIops { &cell["rounds_iops"] } else { &cell["rounds_mean_ns"] };
        assert_eq!(rounds.as_array().unwrap().len(), 25);
    }
}

#[test]
fn snia_latency_is_of_the_window() {
    let mut fake = by_round(9, |round| if round == 0 { 3.0 } else { 1.0 });
    let report = Experiment::SniaLatency.run(&mut fake, &options()).unwrap();
    let results = &report.json["results"];
    assert_eq!(
        (&results["steady_state"]["rounds"], &results["steady_state"]["window_begin_round"]),
        (&6.into(), &2.into())
    );
    let window = &results["cells"][0]["window"];
    assert_eq!(window["samples"], 5 * 2000);
    assert!(
        (window["mean_ns"].as_f64().unwrap() - 10_000.0).abs() < 10.0 && window["max_ns"].as_u64().unwrap() <= 11_000
    );
    assert!(fake.jobs().filter(|job| is_cell(job)).all(|job| (job.threads, job.depth) == (1, 1)));
}

#[test]
fn what_the_target_cannot_do_is_left_out_and_said() {
    let mut fake = Fake::new(|_, job| {
        let trim = job.mix.weights[0].0 == OpKind::Trim;
        let small = job.sizes.read.max_bytes() < 4096;
        Fate { failures: u64::from(trim || small), ..Fate::default() }
    });
    let report = Experiment::SniaIops.run(&mut fake, &options()).unwrap();
    assert_eq!((report.failures, report.partial), (0, false), "{}", text(&report));
    assert!(
        text(&report).contains("cannot trim (EIO)") && text(&report).contains("512 B is left out"),
        "{}",
        text(&report)
    );
    assert!(report.conditions.iter().any(|condition| condition.contains("NOT purged")), "{:?}", report.conditions);
    assert_eq!(fake.jobs().filter(|job| is_cell(job)).count(), 5 * 49);
    // The row for the size remains, without figures.
    assert_eq!(report.tables[1].rows[0], ["512 B", "-", "-", "-", "-", "-", "-", "-"]);
}

#[test]
fn the_surface_knows_the_state_of_its_cells() {
    let mut fake = Fake::healthy();
    let options = Options {
        fills_percent: vec![10, 100],
        mixes_percent: vec![0, 100],
        depths: vec![4, 1],
        base: Job { region: Region { offset: Extent::Percent(50.0), size: Extent::default() }, ..Job::default() },
        ..options()
    };
    let report = Experiment::Surface.run(&mut fake, &options).unwrap();
    let cells = report.json["results"]["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 8);
    let state = |at: usize| cells[at]["state"]["overwritten_by_cells_before"].as_f64().unwrap();
    // Reads first; then 2 s of writes at depth 1 (100k of 4 KiB a second) before those at depth 4.
    assert_eq!((state(0), state(1), state(2)), (0.0, 0.0, 0.0));
    let filled = (1u64 << 29) / 10 / 131_072 * 131_072;
    assert!((state(3) - 200_000.0 * 4096.0 / filled as f64).abs() < 0.01, "{}", state(3));
    assert_eq!(state(4), 0.0, "a new fill begins anew");
    for job in fake.jobs().filter(|job| is_cell(job)).take(4) {
        assert_eq!(job.region, Region { offset: Extent::Bytes(1 << 29), size: Extent::Bytes(filled) });
    }
    let fills: Vec<_> = fake.jobs().filter(|job| job.name == "precondition").map(|job| job.region.size).collect();
    assert_eq!(fills, [Extent::Bytes(filled), Extent::Bytes(1 << 29)]);
}

#[test]
fn write_saturation_sees_the_fall() {
    let mut fake = Fake::healthy();
    fake.size_bytes = 4 << 30;
    let options = Options { runtime_ns: None, ..options() };
    let report = Experiment::WriteSaturation.run(&mut fake, &options).unwrap();
    let results = &report.json["results"];
    assert_eq!(results["capacities_written"], 4.0);
    assert!(
        results["falls_after_bytes"].is_null()
            && results["falls_between_bytes"].is_null()
            && results["last_five_steady"] == true,
        "{results}"
    );
    // 4 KiB writes of 4 x 4 GiB at 550k a second take 7.6 s: parts of an interval each. The time limit of a day must not count as the
    // length of the run.
    assert_eq!(results["parts"].as_array().unwrap().len(), 7);
}

#[test]
fn regression_a_fall_is_found_between_the_parts_that_show_it() {
    let mut fake = Fake::healthy();
    let job = Job { mix: crate::job::model::Mix::only(OpKind::Write), ..Job::default() };
    let mut result = fake.run("x", &[job]).unwrap().remove(0);
    let row = |at: u64, ios| crate::run::IntervalRow {
        begin_ns: at * 1_000_000_000,
        ios,
        bytes: ios * 4096,
        ..Default::default()
    };
    result.duration_ns = 40_000_000_000;
    result.intervals = (0..40).map(|at| row(at, if at < 13 { 1000 } else { 200 })).collect();
    let parts = write_saturation::parts(&result, f64::INFINITY);
    assert_eq!(
        (parts.len(), parts[0].len_ns, parts[19].bytes_before_end),
        (20, 2_000_000_000, (13_000 + 27 * 200) * 4096)
    );
    assert_eq!(write_saturation::fall(&parts), Some(6));
    // Throughput fell at 13 s; reporting only the end of a part would not include that time.
    let (from, to) = write_saturation::between(&parts, 6).unwrap();
    assert_eq!((from.begin_ns, to.begin_ns + to.len_ns), (10_000_000_000, 14_000_000_000));
    // An hour is divided into minutes; the remaining half second is too short for a rate.
    result.duration_ns = 3_600_500_000_000;
    assert_eq!(write_saturation::parts(&result, f64::INFINITY).len(), 60);
}

#[test]
fn quality_over_time_keeps_to_the_share_of_the_peak() {
    let mut fake = Fake::healthy();
    let options = Options { rate: Rate::PeakShare(0.5), runtime_ns: Some(20_000_000_000), ..options() };
    let report = Experiment::Qos.run(&mut fake, &options).unwrap();
    let results = &report.json["results"];
    assert!((results["rate_iops"].as_f64().unwrap() - PEAK / 2.0).abs() < PEAK * 1e-3, "{results}");
    assert_eq!(results["intervals"].as_array().unwrap().len(), 20);
    assert_eq!(report.tables.last().unwrap().rows.len(), 10);
    let given = Options { rate: Rate::Iops(100.0), ..options };
    let report = Experiment::Qos.run(&mut Fake::healthy(), &given).unwrap();
    assert_eq!(report.json["results"]["rate_iops"], 100.0);
    // 100 I/Os are too few for the p99 of an interval.
    let worst = report.tables.last().unwrap();
    assert!(worst.rows.iter().all(|row| row[4] == "-" && row[3] != "-"), "{worst:?}");
}

#[test]
fn bursts_beside_writes_are_distinguished() {
    // Beside the background, bursts take 4 times as long.
    let mut fake =
        Fake::new(|_, job| Fate { slower: if job.name.starts_with("burst-") { 4.0 } else { 1.0 }, ..Fate::default() });
    let report = Experiment::Mixed.run(&mut fake, &options()).unwrap();
    let results = &report.json["results"];
    assert!((results["ratio"].as_f64().unwrap() - 0.25).abs() < 0.01, "{results}");
    let together: Vec<_> = fake.runs.iter().filter(|(_, jobs)| jobs.len() == 2).map(|(_, jobs)| jobs).collect();
    assert_eq!(together.len(), 5);
    for jobs in together {
        assert!(jobs[1].start_delay_ns >= 2_000_000_000 && jobs[1].end.after_bytes == Some(400_000_000), "{jobs:?}");
        assert!(jobs[0].end.after_ns.unwrap() >= jobs[1].start_delay_ns + 2_000_000_000);
    }
    // The background's figures are over all bursts beside it.
    let writes = &results["background"];
    assert!((writes["bytes_per_second"].as_f64().unwrap() / 20e6 - 1.0).abs() < 0.01, "{writes}");
    assert!(writes["ios"].as_u64().unwrap() > 5 * 4 * 150, "{writes}");
}

/// All bursts alone were run first, while the drive still folded its cache: beside writes the drive seemed 45 to 132 % faster.
#[test]
fn regression_bursts_alone_are_not_those_of_a_drive_that_still_works() {
    // After conditioning the drive is slower, less so with each of seven runs; beside writes it always has half the speed.
    let working = |number: usize| 1.0 + 0.6 * 7usize.saturating_sub(number) as f64;
    let mut fake = Fake::new(move |number, job| {
        let beside = if job.name.starts_with("burst-") { 2.0 } else { 1.0 };
        Fate { slower: working(number) * beside, ..Fate::default() }
    });
    let report = Experiment::Mixed.run(&mut fake, &options()).unwrap();
    let ratio = report.json["results"]["ratio"].as_f64().unwrap();
    assert!((ratio - 0.5).abs() < 0.02, "{ratio}");
    let alone = report.json["results"]["alone_bytes_per_second"].as_array().unwrap();
    let rates: Vec<f64> = alone.iter().map(|rate| rate.as_f64().unwrap()).collect();
    assert!(rates.iter().all(|rate| (rate / rates[0] - 1.0).abs() < 0.02), "{rates:?}");
    assert!(text(&report).contains("came to rest: 3 bursts in a row"), "{}", text(&report));
    // Alternating, and in the other order each second time.
    let measured: Vec<&str> = fake.runs.iter().map(|(_, jobs)| jobs.last().unwrap().name.as_str()).collect();
    let first = measured.iter().position(|&name| name == "burst").unwrap();
    assert_eq!(measured[first..first + 6], ["burst", "burst-1", "burst-2", "burst", "burst", "burst-3"]);
    // A target that never settles is not waited for forever, and the report says so.
    let mut restless = Fake::new(|number, _| Fate { slower: 1.0 + (number % 2) as f64, ..Fate::default() });
    let report = Experiment::Mixed.run(&mut restless, &options()).unwrap();
    assert!(report.notes.iter().any(|note| note.contains("did not come to rest")), "{:?}", report.notes);
    assert!(restless.runs.len() < 60);
}

#[test]
fn ways_of_waiting_are_interleaved_and_held_against_sleeping() {
    let mut fake = Fake::new(|number, job| {
        let way = match job.name.as_str() {
            "spin" => 0.8,
            "sync, high priority" => return Fate { refused: Some("not here"), ..Fate::default() },
            _ => 1.0,
        };
        // All ways drift alike.
        Fate { slower: way * (1.0 + 0.001 * number as f64), ..Fate::default() }
    });
    let report = Experiment::WaitMethods.run(&mut fake, &options()).unwrap();
    assert_eq!((report.partial, report.failures), (false, 0), "{}", text(&report));
    assert!(text(&report).contains("sync, high priority is left out: not here"), "{}", text(&report));
    let ways = report.json["results"]["settings"][0]["ways"].as_array().unwrap();
    assert_eq!(ways[0]["rounds"].as_array().unwrap().len(), 5);
    let spin = &ways[1]["latency_over_sleep"];
    assert!((spin["ratio"].as_f64().unwrap() - 0.8).abs() < 0.01 && spin["high"].as_f64().unwrap() < 1.0, "{spin}");
    let verdict = |row: usize| report.tables[0].rows[row][8].clone();
    assert_eq!((verdict(1).as_str(), verdict(2).as_str()), ("faster", "no difference shown"));
    let first: Vec<_> =
        fake.runs.iter().map(|(_, jobs)| jobs[0].name.clone()).filter(|name| name != "sync, high priority").collect();
    assert_eq!(first[..4], ["sleep", "spin", "hybrid", "sync calls"]);
    assert_eq!(first[8..12], ["sync calls", "hybrid", "spin", "sleep"]);
    assert!(fake.jobs().all(|job| job.threads * job.depth == 1));
}

#[test]
fn conditioning_is_a_list_of_jobs_and_of_words() {
    let conditioning: Conditioning = "purge, random=1,sequential=2,fill=90".parse().unwrap();
    assert_eq!(conditioning, Conditioning { purge: true, sequential_passes: 2, random_passes: 1, fill_percent: 90 });
    assert_eq!(conditioning.to_string(), "purge,sequential=2,random=1,fill=90");
    for wrong in ["", "purge,", "fill=50", "fill=101", "sequential=0", "random", "erase", "sequential=x"] {
        assert!(wrong.parse::<Conditioning>().is_err(), "{wrong}");
    }
    let stages = conditioning.stages(&Job::default(), (1 << 30) + (5 << 20) + 100).unwrap();
    let jobs: Vec<_> =
        stages.iter().map(|stage| (stage.job.mix.weights[0].0, stage.pass_bytes, stage.job.end.after_passes)).collect();
    let region = (1u64 << 30) + (5 << 20);
    let filled = region * 9 / 10 / 131_072 * 131_072;
    assert_eq!(
        jobs,
        [
            (OpKind::Trim, 1 << 30, Some(1.0)),
            (OpKind::Trim, 5 << 20, Some(1.0)),
            (OpKind::Write, filled, Some(2.0)),
            (OpKind::Write, filled, Some(1.0))
        ]
    );
    let report = condition(&mut Fake::healthy(), &options(), conditioning).unwrap();
    assert!(
        report.conditions.iter().any(|text| text.contains("2 passes of sequential 128 KiB writes")),
        "{:?}",
        report.conditions
    );
    // The region is smaller than a unit.
    for stage in (Conditioning { purge: true, ..Conditioning::default() }).stages(&Job::default(), 8192).unwrap() {
        assert_eq!((stage.pass_bytes, stage.job.sizes.write.max_bytes().max(8192)), (8192, 8192), "{stage:?}");
    }
}

fn comparing(rounds: u32) -> Comparing {
    let confidence = crate::stats::Confidence::P95;
    let (names, levels) = (("old".to_owned(), "new".to_owned()), super::compared::levels());
    Comparing { names, rounds, confidence, levels, difference: 1.05, seed: 1 }
}

fn groups() -> Vec<Vec<Job>> {
    toml_file::parse("[[job]]\nname = \"x\"\nrw = \"randread\"\nruntime = \"5s\"\ndepth = 4\n", "test").unwrap().groups
}

#[test]
fn regression_other_seeds_are_no_difference() {
    // A seed's offsets cost up to 4 % more or less, the same in each run.
    let mut fake = Fake::new(|_, job| {
        let by_seed = forebay_block::Random::new(job.seed).below(1 << 24) as f64 / f64::from(1 << 24);
        Fate { slower: 1.0 + 0.08 * (by_seed - 0.5), ..Fate::default() }
    });
    let mut claims = 0;
    let comparisons = 400;
    for seed in 0..comparisons {
        let with = |seed| {
            let mut groups = groups();
            groups[0][0].seed = seed;
            groups
        };
        let report = compare_settings(&comparing(5), &mut fake, &with(1), &with(1000 + seed)).unwrap();
        claims += u32::from(report.json["figures"].as_array().unwrap().iter().any(|figure| {
            figure["comparison"]["verdict"].as_str().is_some_and(|verdict| verdict != "no difference shown")
        }));
    }
    // At most one in twenty claims a difference; with one seed for all rounds nearly all did.
    assert!(u64::from(claims) * 20 <= comparisons, "{claims} of {comparisons}");
    let rounds: Vec<u64> = fake.jobs().take(10).map(|job| job.seed).collect();
    assert!((1..5).all(|round| rounds[2 * round] != rounds[0]), "{rounds:?}");
}

/// Both sides had the same seeds. In virtual time, a comparison of a target with itself compared identical runs: never a difference, and an
/// interval of no width.
#[test]
fn regression_a_thing_is_compared_with_itself_by_other_seeds() {
    // In virtual time only the seed makes a difference.
    let mut fake = Fake::new(|_, job| {
        let by_seed = forebay_block::Random::new(job.seed).below(1 << 24) as f64 / f64::from(1 << 24);
        Fate { slower: 1.0 + 0.08 * (by_seed - 0.5), ..Fate::default() }
    });
    let (comparisons, mut claims) = (400, 0);
    for seed in 0..comparisons {
        let mut same = groups();
        same[0][0].seed = seed;
        let report = compare_settings(&comparing(5), &mut fake, &same, &same).unwrap();
        let figures = report.json["figures"].as_array().unwrap();
        let of = |key: &str| figures[0]["comparison"][key].as_f64().unwrap();
        assert!(figures[0]["rounds_a"] != figures[0]["rounds_b"] && of("ratio_low") < of("ratio_high"), "{figures:?}");
        claims += u32::from(figures.iter().any(|figure| {
            figure["comparison"]["verdict"].as_str().is_some_and(|verdict| verdict != "no difference shown")
        }));
        assert!(report.conditions.iter().any(|condition| condition.contains("seeds of its own")));
    }
    assert!(claims > 0 && u64::from(claims) * 20 <= comparisons, "{claims} of {comparisons}");
    let seeds: std::collections::BTreeSet<u64> = fake.jobs().take(10).map(|job| job.seed).collect();
    assert_eq!(seeds.len(), 10);
}

#[test]
fn targets_are_compared_in_turns() {
    let drift = |factor: f64| {
        Fake::new(move |number, _| Fate { slower: factor * (1.0 + 0.05 * number as f64), ..Fate::default() })
    };
    let (mut a, mut b) = (drift(1.0), drift(1.25));
    let report = compare_targets(&comparing(4), &mut a, &mut b, &groups()).unwrap();
    assert_eq!((a.runs.len(), b.runs.len()), (4, 4));
    let figures = report.json["figures"].as_array().unwrap();
    let names: Vec<_> = figures.iter().map(|figure| figure["figure"].as_str().unwrap()).collect();
    assert_eq!(names, ["IOPS", "read mean", "read p99", "read p99.9"]);
    assert_eq!(figures[0]["comparison"]["verdict"], "a better");
    assert!((figures[1]["comparison"]["ratio"].as_f64().unwrap() - 1.25).abs() < 1e-2);
    // 2,000 samples a run are too few for p99.9.
    assert!(figures[3]["comparison"].is_null() && figures[3]["not_compared"].as_str().unwrap().contains("4 of 4"));
    assert!(report.tables[0].rows.iter().all(|row| row.len() == report.tables[0].head.len()));
    assert!(report.tables[0].rows[0][7].starts_with("A 1.25"), "{:?}", report.tables[0].rows[0]);
}

#[test]
fn settings_are_compared_on_one_target_in_the_order_abba() {
    let mut fake = Fake::healthy();
    let mut other = groups();
    other[0][0].depth = 8;
    let report = compare_settings(&comparing(3), &mut fake, &groups(), &other).unwrap();
    let depths: Vec<_> = fake.jobs().map(|job| job.depth).collect();
    assert_eq!(depths, [4, 8, 8, 4, 4, 8]);
    assert!(report.tables[0].rows[0][7].starts_with('B'), "{:?}", report.tables[0].rows[0]);
    let same = compare_settings(&comparing(3), &mut Fake::healthy(), &groups(), &groups()).unwrap();
    assert!(same.tables[0].rows[0][7].starts_with("no difference shown"), "{:?}", same.tables[0].rows);
}

#[test]
fn a_comparison_that_ends_early_counts_whole_rounds() {
    let mut fake = Fake::new(|number, _| {
        let last = number == 7;
        Fate { stop: last, partial: last.then_some(Partial::Interrupted), ..Fate::default() }
    });
    let report = compare_settings(&comparing(9), &mut fake, &groups(), &groups()).unwrap();
    assert!(report.partial);
    assert_eq!(report.json["rounds"], 3);
    assert!(report.json["figures"][0]["comparison"].is_object());
    assert!(compare_settings(&comparing(2), &mut Fake::healthy(), &groups(), &groups()).is_err());
    assert!(compare_settings(&comparing(3), &mut Fake::healthy(), &groups(), &[]).is_err());
    let mut gone =
        Fake::new(|number, _| Fate { failures: 5, refused: (number == 4).then_some("gone"), ..Fate::default() });
    let report = compare_settings(&comparing(5), &mut gone, &groups(), &groups()).unwrap();
    assert_eq!((report.failures, report.partial), (20, true));
}

#[test]
fn regression_too_few_whole_rounds_have_no_verdict() {
    for (ended_at, rounds) in [(1, 0), (3, 1), (5, 2)] {
        let mut fake = Fake::new(move |number, _| {
            let last = number == ended_at;
            Fate { stop: last, partial: last.then_some(Partial::Interrupted), ..Fate::default() }
        });
        let report = compare_settings(&comparing(9), &mut fake, &groups(), &groups()).unwrap();
        let text = text(&report);
        assert!(text.contains(&format!("NO VERDICT: {rounds} whole rounds")), "{text}");
        assert_eq!(report.tables.is_empty(), rounds == 0);
        let verdicts = report.tables.iter().flat_map(|table| &table.rows).map(|row| &row[7]);
        assert!(verdicts.clone().all(|verdict| verdict.starts_with("no verdict: ")), "{text}");
    }
}
