//! cargo run --release -p forebay-sim --example lives -- FROM COUNT
use forebay_sim::{Coverage, Scenario, shrink};
fn main() {
    let mut args = std::env::args().skip(1);
    let from: u64 = args.next().and_then(|a| a.parse().ok()).unwrap_or(0);
    let count: u64 = args.next().and_then(|a| a.parse().ok()).unwrap_or(1000);
    let begin = std::time::Instant::now();
    let mut coverage = Coverage::default();
    let mut failures = 0;
    std::panic::set_hook(Box::new(|_| {}));
    for seed in from..from + count {
        let scenario = Scenario::random(seed);
        let failure = match std::panic::catch_unwind(|| forebay_sim::live(&scenario, false)) {
            Ok(lived) => {
                coverage.add(&lived.coverage);
                lived.failure
            }
            Err(_) => shrink::fails(&scenario),
        };
        if let Some(failure) = failure {
            failures += 1;
            let text = failure.to_string();
            println!("seed {seed}: {}", &text[..text.len().min(400)]);
            if failures >= 20 {
                break;
            }
        }
    }
    for (what, n) in coverage.iter() {
        println!("{n:>9} {what}");
    }
    println!("missing {:?}", coverage.missing());
    println!("{:.1} s, {failures} failures", begin.elapsed().as_secs_f64());
}
