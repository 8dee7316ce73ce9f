//! Pages of the map that map nothing any more.

use super::disk::Disk;
use super::{Served, three};
use forebay_volume::Op;

fn ticks(served: &mut Served, ticks: u32) {
    let (_, is_good) = served.turn(ticks);
    assert!(is_good);
}

fn checkpoint(served: &mut Served) {
    let before = served.pool.engine.checkpoint_number();
    served.pool.engine.request_checkpoint(false);
    ticks(served, 100);
    assert!(served.pool.engine.checkpoint_number() > before);
}

/// Where pages of a kind begin.
fn pages(disk: &Disk, begin: &[u8]) -> Vec<usize> {
    let inner = disk.bytes();
    (0..inner.bytes.len()).step_by(4096).filter(|&at| inner.bytes[at..].starts_with(begin)).collect()
}

/// A scrub read index pages with the first leaf below them, so it missed one without leaves: it rotted on one member, and without the other
/// the pool could not be opened.
#[test]
fn regression_a_scrub_reads_index_pages_without_leaves() {
    let [a, b, c] = three(10);
    let mut served = Served::open(&[&a, &b], &c);
    served.write(1, 7);
    checkpoint(&mut served);
    served.submit(1, 1, Op::Discard);
    ticks(&mut served, 10);
    checkpoint(&mut served);
    served.close();
    let pages = pages(&a, b"FBMI");
    assert!(!pages.is_empty());
    pages.iter().for_each(|at| a.bytes().bytes[at + 200] ^= 1);
    let mut served = Served::open(&[&a, &b], &c);
    served.pool.engine.start_scrub();
    ticks(&mut served, 2000);
    assert!(served.pool.engine.scrub().record.last.is_some());
    served.close();
    Served::open(&[&a], &c).close();
}

/// Map pages in memory had rotted on all members: a scrub did not report it, and at the next opening the pool or the leaf's data was lost.
#[test]
fn regression_a_scrub_writes_pages_elsewhere_that_are_in_memory_alone() {
    for (begin, members) in [(b"FBMI", 2), (b"FBML", 2), (b"FBMI", 1), (b"FBML", 1)] {
        let [a, b, c] = three(10);
        let all = [&a, &b];
        let mut served = Served::open(&all, &c);
        served.write(1, 7);
        served.close();
        // One that is left behind is not there any more, and the other is read for both.
        let there = &all[..members];
        let mut served = Served::open(there, &c);
        assert_eq!(served.read(1, 1)[0], 7);
        for member in there {
            let pages = pages(member, begin);
            assert!(!pages.is_empty());
            pages.iter().for_each(|at| member.bytes().bytes[at + 200] ^= 1);
        }
        served.pool.engine.start_scrub();
        ticks(&mut served, 2000);
        assert!(served.pool.engine.scrub().record.last.is_some());
        served.close();
        let mut served = Served::open(there, &c);
        assert_eq!(served.read(1, 1)[0], 7);
        served.close();
    }
}

/// A leaf that was unreadable when needed is damaged in memory only and may be good at the next read: a scrub must not make the damage
/// permanent.
#[test]
fn a_scrub_keeps_no_leaf_that_was_read_as_damaged() {
    let [a, b, c] = three(10);
    let mut served = Served::open(&[&a, &b], &c);
    served.write(1, 7);
    served.close();
    let flip = || {
        for member in [&a, &b] {
            pages(member, b"FBML").iter().for_each(|at| member.bytes().bytes[at + 200] ^= 1);
        }
    };
    flip();
    let mut served = Served::open(&[&a, &b], &c);
    served.pool.engine.start_scrub();
    ticks(&mut served, 2000);
    assert!(served.pool.engine.scrub().record.last.unwrap().bad_blocks > 0);
    served.close();
    flip();
    let mut served = Served::open(&[&a, &b], &c);
    assert_eq!(served.read(1, 1)[0], 7);
    served.close();
}
