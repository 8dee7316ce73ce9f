//! Looks for a life that fails: `hunt FROM COUNT`. Prints the first one and ends with 1, or ends with 0. Small, so that
//! it is built quickly over a volume with a bug planted in it (`tests/planted/run`).

use forebay_sim::{Scenario, shrink};

fn main() -> std::process::ExitCode {
    let mut numbers = std::env::args().skip(1).filter_map(|text| text.parse::<u64>().ok());
    let (from, count) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(1000));
    // A broken promise of the engine's own is a finding, not news for stderr.
    std::panic::set_hook(Box::new(|_| {}));
    for seed in from..from + count {
        if let Some(failure) = shrink::fails(&Scenario::numbered(seed)) {
            let text = failure.to_string();
            println!("{}\t{}", seed - from + 1, text.lines().next().unwrap_or_default());
            return std::process::ExitCode::from(1);
        }
    }
    println!("-\tnone of {count} lives failed");
    std::process::ExitCode::SUCCESS
}
