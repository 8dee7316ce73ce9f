//! A capacity tier with parity, as a device: whatever members do within the redundancy, written and flushed data reads right.

mod doubted;
mod faults;
mod life;
mod log;
mod member;
mod membership;
mod mends;
mod overwritten;
mod rebuilds;
mod rows;
mod sources;
mod support;
mod vain;
mod written;

use life::Life;

fn live(seed: u64, redundancy: &str, is_volatile: bool) {
    println!("life {seed} {redundancy} {is_volatile}");
    let mut life = Life::new(seed, redundancy.parse().unwrap(), is_volatile);
    for _ in 0..6 {
        life.round();
    }
}

#[test]
fn what_was_flushed_is_read_whatever_members_do() {
    // Select lives with LIFE="23 5+3 true" or LIVES="100 200".
    if let Ok(seed) = std::env::var("LIFE") {
        let mut parts = seed.split(' ');
        let seed = parts.next().unwrap().parse().unwrap();
        return live(seed, parts.next().unwrap(), parts.next().unwrap() == "true");
    }
    let lives = std::env::var("LIVES").unwrap_or_else(|_| "0 5".to_owned());
    let (from, to) = lives.split_once(' ').unwrap();
    for seed in from.parse().unwrap()..to.parse().unwrap() {
        for (redundancy, is_volatile) in [("2+1", true), ("4+2", true), ("5+1", false), ("5+3", true), ("3+2", false)] {
            live(seed, redundancy, is_volatile);
        }
    }
}

#[test]
fn a_member_that_was_left_behind_is_known_as_such_once_anything_was_answered() {
    for seed in 0..40 {
        let redundancy = if seed % 2 == 0 { "2+1" } else { "4+2" };
        Life::new(seed, redundancy.parse().unwrap(), true).lose_one_and_the_power();
    }
}
