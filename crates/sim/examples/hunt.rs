//! Looks for a life that fails: `hunt FROM COUNT [KIND]`, of lives of all kinds or of one (0 to 8). Prints the first one
//! and ends with 1, or ends with 0. Small, so that it is built quickly over a volume with a bug planted in it
//! (`tests/planted/run`).

use forebay_sim::{Kind, Scenario, shrink};

fn main() -> std::process::ExitCode {
    let mut numbers = std::env::args().skip(1).filter_map(|text| text.parse::<u64>().ok());
    let (from, count) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(1000));
    let kind = numbers.next().and_then(|number| Kind::ALL.get(usize::try_from(number).ok()?).copied());
    // A broken promise of the engine's own is a finding, not news for stderr.
    std::panic::set_hook(Box::new(|_| {}));
    for number in from..from + count {
        let scenario = kind.map_or_else(|| Scenario::numbered(number), |kind| Scenario::random(kind.seed(number)));
        if let Some(failure) = shrink::fails(&scenario) {
            let (lives, text) = (number - from + 1, failure.to_string());
            println!("{lives}\tseed {}, {}", scenario.seed, text.lines().next().unwrap_or_default());
            return std::process::ExitCode::from(1);
        }
    }
    println!("-\tnone of {count} lives failed");
    std::process::ExitCode::SUCCESS
}
