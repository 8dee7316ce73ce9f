//! Shows a failing life: `show SEED` shrinks it first, `show SEED whole` does not, as that takes long where each try does. Prints its pool, its rounds and the end
//! of its log.

use forebay_sim::{Scenario, live, shrink};

const LOG_LINES: usize = 150;

fn main() {
    let Some(seed) = std::env::args().nth(1).and_then(|text| text.parse::<u64>().ok()) else {
        println!("show SEED [whole]");
        return;
    };
    std::panic::set_hook(Box::new(|_| {}));
    let scenario = Scenario::random(seed);
    let Some(failure) = shrink::fails(&scenario) else {
        println!("this life keeps every promise");
        return;
    };
    let is_whole = std::env::args().nth(2).is_some_and(|word| word == "whole");
    let (small, failure) = match is_whole {
        true => (scenario, failure),
        false => shrink::shrink(&scenario, failure, &mut shrink::fails),
    };
    println!("{failure}\n{:#?}", small.shape);
    for (number, round) in small.rounds.iter().enumerate() {
        println!("round {number}: {round:?}");
    }
    let log = live(&small, true).log;
    log.iter().skip(log.len().saturating_sub(LOG_LINES)).for_each(|line| println!("{line}"));
}
