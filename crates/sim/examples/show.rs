//! Shows a life: `show SEED`. A failing life is shrunk first; prints its pool, its rounds and the end of its log.

use forebay_sim::{Scenario, live, shrink};

const LOG_LINES: usize = 150;

fn main() {
    let Some(seed) = std::env::args().nth(1).and_then(|text| text.parse::<u64>().ok()) else {
        println!("show SEED");
        return;
    };
    std::panic::set_hook(Box::new(|_| {}));
    let scenario = Scenario::random(seed);
    let Some(failure) = shrink::fails(&scenario) else {
        println!("this life keeps every promise");
        return;
    };
    let (small, failure) = shrink::shrink(&scenario, failure, &mut shrink::fails);
    println!("{failure}\n{:#?}", small.shape);
    for (number, round) in small.rounds.iter().enumerate() {
        println!("round {number}: {round:?}");
    }
    let log = live(&small, true).log;
    log.iter().skip(log.len().saturating_sub(LOG_LINES)).for_each(|line| println!("{line}"));
}
