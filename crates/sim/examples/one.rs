//! Shrinks a seed and prints what is left, with its log.
use forebay_sim::{Scenario, shrink};
fn main() {
    let seed: u64 = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(0);
    let scenario = Scenario::random(seed);
    let Some(failure) = shrink::fails(&scenario) else { return println!("good") };
    println!("{failure}");
    std::panic::set_hook(Box::new(|_| {}));
    let doing = failure.doing.clone();
    let begin = std::time::Instant::now();
    let (small, failure) = shrink::shrink(&scenario, failure, &mut |s| {
        if begin.elapsed().as_secs() > 60 {
            return None;
        }
        shrink::fails(s).filter(|f| f.doing == doing)
    });
    println!("{:?}", small.shape);
    for r in &small.rounds {
        println!("{r:?}");
    }
    println!("{failure}");
    let lived = forebay_sim::live(&small, true);
    for line in lived.log.iter().rev().take(80).collect::<Vec<_>>().into_iter().rev() {
        println!("{line}");
    }
}
