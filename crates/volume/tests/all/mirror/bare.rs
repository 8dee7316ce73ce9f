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

/// Where index pages begin.
fn index_pages(disk: &Disk) -> Vec<usize> {
    let inner = disk.bytes();
    (0..inner.bytes.len()).step_by(4096).filter(|&at| inner.bytes[at..].starts_with(b"FBMI")).collect()
}

/// A scrub read index pages with the first leaf below them. One that had none was missed by it: it rotted on one member, and without the other the pool was shut.
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
    let pages = index_pages(&a);
    assert!(!pages.is_empty());
    pages.iter().for_each(|at| a.bytes().bytes[at + 200] ^= 1);
    let mut served = Served::open(&[&a, &b], &c);
    served.pool.engine.start_scrub();
    ticks(&mut served, 2000);
    assert!(served.pool.engine.scrub().record.last.is_some());
    served.close();
    Served::open(&[&a], &c).close();
}
