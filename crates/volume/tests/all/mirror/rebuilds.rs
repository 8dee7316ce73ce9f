//! Rebuilds with an unreadable source.

use super::disk::{Disk, Fate};
use super::{MemberState, Served, three};

const BLOCKS: u64 = 300;

fn byte(block: u64) -> u8 {
    block as u8 | 1
}

/// The first member has data, and the rebuild of the second begins.
fn begun([a, b, c]: [&Disk; 3]) -> Served {
    let mut served = Served::open(&[a], c);
    (0..BLOCKS).for_each(|block| served.write(block, byte(block)));
    served.close();
    let mut served = Served::open(&[a, b], c);
    served.view.set_rebuild_rate(1 << 20);
    served.turn(100);
    assert_eq!(served.states(), [MemberState::InSync, MemberState::Rebuilding]);
    served.view.set_rebuild_rate(1 << 30);
    served
}

fn reads_all(mut served: Served) {
    for block in 0..BLOCKS {
        assert!(served.read(block, 1).iter().all(|found| *found == byte(block)), "block {block}");
    }
    served.close();
}

/// Each unreadable block was left out, and at the end the new member counted as complete: the source was left behind, and the pool lost.
#[test]
fn regression_a_rebuild_waits_for_its_source() {
    for turns in [20, 150, 1000] {
        let [a, b, c] = three(10);
        let mut served = begun([&a, &b, &c]);
        a.set(Fate::Away);
        served.turn(turns);
        assert_eq!(served.states(), [MemberState::InSync, MemberState::Rebuilding], "{turns}");
        a.set(Fate::Good);
        served.until_rebuilt();
        assert_eq!(served.view.status().unreadable_blocks, 0, "{turns}");
        served.close();
        reads_all(Served::open(&[&b], &c));
    }
}

/// The pool is closed, or dies, while the source is away.
#[test]
fn regression_a_source_that_is_away_is_not_rebuilt_from_what_was_not_copied() {
    for closes in [false, true] {
        let [a, b, c] = three(10);
        let mut served = begun([&a, &b, &c]);
        a.set(Fate::Away);
        served.turn(500);
        if closes {
            served.pool.close();
        }
        drop(served);
        a.set(Fate::Good);
        let mut served = Served::open(&[&a, &b], &c);
        assert_eq!(served.states(), [MemberState::InSync, MemberState::Rebuilding]);
        served.until_rebuilt();
        served.close();
        reads_all(Served::open(&[&b], &c));
    }
}

/// Unreadable blocks of a present member do not keep the rebuild from ending; blocks that become readable later are copied then.
#[test]
fn a_rebuild_goes_round_bad_blocks_and_tries_them_again() {
    let [a, b, c] = three(10);
    let mut served = begun([&a, &b, &c]);
    let has = |block: &[u8]| block.iter().all(|found| *found == byte(298));
    let at = a.bytes().bytes.chunks_exact(4096).position(has).unwrap() * 4096;
    a.bytes().unreadable.insert(at);
    served.until_rebuilt();
    assert_eq!(served.view.status().unreadable_blocks, 1);
    assert!(b.bytes().bytes[at..at + 4096].iter().all(|found| *found == 0));
    served.close();

    let [a, b, c] = three(10);
    let mut served = begun([&a, &b, &c]);
    served.view.set_rebuild_rate(4 << 20);
    a.bytes().unreadable.insert(at);
    let tries = |disk: &Disk| disk.bytes().failures;
    let before = tries(&a);
    while tries(&a) < before + 2 {
        served.turn(1);
    }
    a.bytes().unreadable.clear();
    served.until_rebuilt();
    assert_eq!(served.view.status().unreadable_blocks, 0);
    served.close();
    reads_all(Served::open(&[&b], &c));
}
