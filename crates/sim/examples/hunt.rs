//! Looks for failing lives: `hunt FROM COUNT [KIND [FAILURES]]`, among all kinds or one (by its number in `Kind::ALL`; a higher number:
//! all). Prints the first FAILURES failures (default 1) and exits with 1, or exits with 0. Small, so that it builds quickly over a volume
//! with a planted bug (`tests/planted/run`). With FAILURES 0 it runs all lives, prints every failure, and then what their power cuts met:
//! counts, pairs of things in progress, and the total. Lives run on all cores; the output is in the order of their numbers.

use forebay_sim::{Coverage, Kind, Lived, Scenario, shrink};
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

fn scenario(number: u64, kind: Option<Kind>) -> Scenario {
    kind.map_or_else(|| Scenario::numbered(number), |kind| Scenario::random(kind.seed(number)))
}

/// Runs the lives on all cores and passes them to `next` in the order of their numbers, until it wants no more.
fn live_all(from: u64, count: u64, kind: Option<Kind>, mut next: impl FnMut(u64, Lived) -> bool) {
    let begun = AtomicU64::new(from);
    let (sender, lives) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            let (sender, begun) = (sender.clone(), &begun);
            scope.spawn(move || {
                loop {
                    let number = begun.fetch_add(1, Ordering::Relaxed);
                    // The receiver is gone once no more lives are wanted.
                    if number >= from + count
                        || sender.send((number, shrink::attempt(&scenario(number, kind)))).is_err()
                    {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let (mut early, mut expected) = (BTreeMap::new(), from);
        for (number, lived) in lives {
            early.insert(number, lived);
            while let Some(lived) = early.remove(&expected) {
                if !next(expected, lived) {
                    return;
                }
                expected += 1;
            }
        }
    });
}

fn main() -> ExitCode {
    let mut numbers = std::env::args().skip(1).filter_map(|text| text.parse::<u64>().ok());
    let (from, count) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(1000));
    let kind = numbers.next().and_then(|number| Kind::ALL.get(usize::try_from(number).ok()?).copied());
    let wanted = numbers.next().unwrap_or(1);
    // A panic of the engine is a finding, not output for stderr.
    std::panic::set_hook(Box::new(|_| {}));
    let (mut failures, mut coverage) = (0, Coverage::default());
    live_all(from, count, kind, |number, lived| {
        coverage.add(&lived.coverage);
        if let Some(failure) = lived.failure {
            let (lives, text, scenario) = (number - from + 1, failure.to_string(), scenario(number, kind));
            let kind = Kind::of(scenario.seed);
            println!("{lives}\tseed {}, {kind:?}, {}", scenario.seed, text.lines().next().unwrap_or_default());
            failures += 1;
        }
        wanted == 0 || failures < wanted
    });
    if wanted == 0 {
        coverage.iter().for_each(|(what, times)| println!("{times:>8}  {what}"));
        coverage.pairs().for_each(|((one, other), times)| println!("{times:>8}  {one} x {other}"));
        let cuts = coverage.of("power cuts") + coverage.of("power cuts in recovery");
        println!("{count} lives with {cuts} power cuts, {failures} failed");
    } else if failures == 0 {
        println!("-\tnone of {count} lives failed");
    }
    ExitCode::from(u8::from(failures > 0))
}
