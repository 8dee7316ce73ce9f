//! Ladders whose rungs have known effects.

use super::*;
use crate::experiment::Driver;
use crate::experiment::fake_tests::{Fake, Fate};
use crate::job::model::Job;
use std::cell::RefCell;
use std::rc::Rc;

fn rungs(names: &[&str]) -> Vec<Rung> {
    let rung = |(at, name): (usize, &&str)| Rung {
        name: (*name).to_owned(),
        facts: vec![("what", "a setting".to_owned())],
        against: at.checked_sub(1),
        ..Rung::default()
    };
    names.iter().enumerate().map(rung).collect()
}

fn of(rungs: Vec<Rung>, rounds: u32) -> Ladder {
    Ladder {
        rungs,
        rounds,
        confidence: Confidence::P95,
        difference: 1.05,
        seed: 7,
        conditions: Vec::new(),
        notes: Vec::new(),
    }
}

/// A target that is slower by a given factor on each rung, with 1 % of noise.
fn climb(ladder: &Ladder, slower: &'static [f64], end_after: usize) -> (Report, Vec<(usize, Pass)>) {
    let rung_now = Rc::new(RefCell::new(0));
    let of_fake = Rc::clone(&rung_now);
    let mut random = Random::new(3);
    let mut fake = Fake::new(move |_, _| Fate {
        slower: slower[*of_fake.borrow()] * (0.99 + random.below(1000) as f64 / 50_000.0),
        ..Fate::default()
    });
    let mut seen = Vec::new();
    let report = super::ladder(ladder, &mut |rung, pass, step| {
        if seen.len() == end_after {
            return Ok(Climb::Ended);
        }
        seen.push((rung, pass));
        *rung_now.borrow_mut() = rung;
        if slower[rung] == 0.0 {
            return Ok(Climb::Missing("nothing is there".to_owned()));
        }
        fake.run(step, &[Job::default()]).map(Climb::Ran)
    });
    (report.unwrap(), seen)
}

fn effect(report: &Report, rung: usize) -> Value {
    report.json["rungs"][rung]["jobs"][0]["effects"][0]["comparison"].clone()
}

#[test]
fn each_rung_is_held_against_the_one_below_it() {
    let ladder = of(rungs(&["as found", "governor", "turbo", "merges"]), 8);
    let (report, seen) = climb(&ladder, &[1.0, 0.8, 1.0, 1.0], usize::MAX);
    let verdicts: Vec<Value> = (1..4).map(|rung| effect(&report, rung)["verdict"].clone()).collect();
    assert_eq!(verdicts, ["b better", "a better", "no difference shown"], "{}", report.json);
    let ratio = effect(&report, 1)["ratio"].as_f64().unwrap();
    assert!((ratio - 0.8).abs() < 0.02, "{ratio}");
    assert_eq!(report.json["rungs"][2]["against"], "governor");
    assert!(report.tables[0].rows[1].iter().any(|cell| cell.contains("x faster")));
    // Every rung has every position once: 4 rungs, 8 rounds.
    let mut places = vec![std::collections::BTreeSet::new(); 4];
    for (at, (rung, _)) in seen[4..].iter().enumerate() {
        places[*rung].insert(at % 4);
    }
    assert!(places.iter().all(|places| places.len() == 4), "{places:?}");
    assert!(seen[..4].iter().all(|(_, pass)| *pass == Pass::Look));
}

/// The table had a mean of 0 ns beside published figures, "off by -100.0 %".
#[test]
fn no_samples_are_no_figures_beside_published_ones() {
    let published = Published { mean_ns: Some(1e4), p99_ns: Some(2e4), iops: Some(1e5) };
    let latency = Latency::new(&Latencies::default(), None, Confidence::P95);
    assert!(beside(&published, &latency, None).iter().all(|(ours, ..)| ours.is_none()));
    let json = latency.json();
    assert!(json["mean_ns"].is_null() && json["max_ns"].is_null() && json["samples"] == 0, "{json}");
}

#[test]
fn what_is_not_there_is_named_and_the_next_is_held_against_what_is() {
    let mut all = rungs(&["as found", "governor", "turbo", "merges"]);
    all[1].missing = Some("no files of the kernel".to_owned());
    let ladder = of(all, 4);
    let (report, seen) = climb(&ladder, &[1.0, 1.0, 0.0, 0.5], usize::MAX);
    assert_eq!(report.json["rungs"][3]["against"], "as found");
    assert_eq!(effect(&report, 3)["verdict"], "b better");
    for (rung, why) in [(1, "no files of the kernel"), (2, "nothing is there")] {
        assert_eq!(report.json["rungs"][rung]["missing"], why);
        assert!(report.notes.iter().any(|note| note.contains(why)), "{:?}", report.notes);
    }
    assert!(seen.iter().all(|(rung, pass)| *rung != 1 && (*rung != 2 || *pass == Pass::Look)));
}

#[test]
fn only_whole_rounds_count_and_few_give_no_verdict() {
    let ladder = of(rungs(&["as found", "governor"]), 9);
    let (report, _) = climb(&ladder, &[1.0, 0.5], 2 + 5);
    assert!(report.partial);
    assert_eq!(report.json["rounds"], 2);
    assert!(report.notes[0].starts_with("NO VERDICT"), "{:?}", report.notes);
    assert!(effect(&report, 1).is_null());
    assert_eq!(report.json["rungs"][1]["jobs"][0]["effects"][0]["rounds"].as_array().unwrap().len(), 2);
    let none = super::ladder(&of(rungs(&["as found"]), 2), &mut |_, _, _| Ok(Climb::Ended));
    assert!(none.unwrap_err().to_string().contains("rounds"));
    let first = super::ladder(&ladder, &mut |_, _, _| Ok(Climb::Missing("no target".to_owned())));
    assert!(first.unwrap_err().to_string().contains("no target"));
}

/// A rung was lost after rounds were counted: the rungs above it were then measured partly with it and partly without
/// it.
#[test]
fn regression_a_rung_that_is_lost_between_rounds_is_the_end() {
    let ladder = of(rungs(&["as found", "governor", "turbo"]), 6);
    let mut runs = 0;
    let mut fake = Fake::new(|_, _| Fate::default());
    let report = super::ladder(&ladder, &mut |rung, pass, step| {
        runs += 1;
        match (rung, pass) {
            (1, Pass::Round(4)) => Ok(Climb::Missing("it cannot be set any more".to_owned())),
            _ => fake.run(step, &[Job::default()]).map(Climb::Ran),
        }
    });
    let report = report.unwrap();
    assert_eq!((report.partial, report.json["rounds"].as_u64()), (true, Some(4)));
    assert!(report.json["rungs"][1]["missing"].is_null() && runs <= 3 * 6, "{runs}");
    assert!(
        report.notes.iter().any(|note| note.contains("cannot be set any more; the ladder ended")),
        "{:?}",
        report.notes
    );
}

#[test]
fn equal_rungs_show_no_difference() {
    let ladder = of(rungs(&["as found", "a", "b", "c", "d"]), 5);
    let (report, _) = climb(&ladder, &[1.0; 5], usize::MAX);
    for rung in 1..5 {
        assert_eq!(effect(&report, rung)["verdict"], "no difference shown", "{rung}");
    }
}

#[test]
fn published_figures_stand_beside_ours() {
    let mut all = rungs(&["as found", "governor"]);
    all[1].published = vec![Some(Published { mean_ns: Some(10_000.0), ..Published::default() })];
    let (report, _) = climb(&of(all, 3), &[1.0, 1.0], usize::MAX);
    assert_eq!(report.tables.len(), 2);
    assert_eq!(report.tables[1].rows.len(), 1);
    assert_eq!(report.json["rungs"][1]["jobs"][0]["published"]["mean_ns"], 10_000.0);
}
