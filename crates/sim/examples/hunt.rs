//! Looks for lives that fail: `hunt FROM COUNT [KIND [FAILURES]]`, of lives of all kinds or of one (by its number in
//! `Kind::ALL`; a higher number: all). Prints the first failure, or so many, and ends with 1, or ends with 0. Small, so
//! that it is built quickly over a volume with a bug planted in it (`tests/planted/run`). With 0 failures wanted it lives
//! all lives and prints what their power cuts met: counts, and pairs of things in progress.

use forebay_sim::{Coverage, Kind, Scenario, live, shrink};

fn main() -> std::process::ExitCode {
    let mut numbers = std::env::args().skip(1).filter_map(|text| text.parse::<u64>().ok());
    let (from, count) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(1000));
    let kind = numbers.next().and_then(|number| Kind::ALL.get(usize::try_from(number).ok()?).copied());
    let wanted = numbers.next().unwrap_or(1);
    // A broken promise of the engine's own is a finding, not news for stderr.
    std::panic::set_hook(Box::new(|_| {}));
    let (mut failures, mut coverage) = (0, Coverage::default());
    for number in from..from + count {
        let scenario = kind.map_or_else(|| Scenario::numbered(number), |kind| Scenario::random(kind.seed(number)));
        if wanted == 0 {
            coverage.add(&live(&scenario, false).coverage);
            continue;
        }
        if let Some(failure) = shrink::fails(&scenario) {
            let (lives, text) = (number - from + 1, failure.to_string());
            let kind = scenario.shape.kind;
            println!("{lives}\tseed {}, {kind:?}, {}", scenario.seed, text.lines().next().unwrap_or_default());
            failures += 1;
            if failures == wanted {
                return std::process::ExitCode::from(1);
            }
        }
    }
    if wanted == 0 {
        coverage.iter().for_each(|(what, times)| println!("{times:>8}  {what}"));
        coverage.pairs().for_each(|((one, other), times)| println!("{times:>8}  {one} x {other}"));
        return std::process::ExitCode::SUCCESS;
    }
    if failures > 0 {
        return std::process::ExitCode::from(1);
    }
    println!("-\tnone of {count} lives failed");
    std::process::ExitCode::SUCCESS
}
