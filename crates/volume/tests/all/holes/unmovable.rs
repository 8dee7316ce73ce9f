//! Bands out of which nothing can be moved any more.

use super::device::Kind;
use super::rig::{BULK, CAPACITY, Rig, Setup, failed};
use forebay_block::Random;

/// Blocks of hosts, in more than a third of the bands.
const BLOCKS: u64 = 1600;
/// Blocks that are written together; the first of each lies in a sector that cannot be read, for so many of them.
const TOGETHER: u64 = 15;
const UNREADABLE: u64 = 80;
/// More writes than fit into the bands that are left, several times over.
const WRITES: u64 = 150_000;

/// Blocks that could not be read stayed behind in bands of which all else was moved away. Each of these bands was the best victim from then on, was tried again
/// every ten seconds, and held up all other jobs while that failed: with some fifty of them nothing else was collected any more, and hosts found no space in a pool
/// that was half empty.
#[test]
fn regression_bands_that_cannot_be_emptied_hold_up_no_others() {
    let mut rig = Rig::new(&Setup { capacity_bytes: 16 << 20, fast_bytes: 17 << 18, ..Setup::default() });
    for first in (0..BLOCKS).step_by(TOGETHER as usize) {
        rig.put_run(first, TOGETHER.min(BLOCKS - first), 1);
    }
    let bad: Vec<u64> = (0..UNREADABLE).map(|at| rig.find(CAPACITY, at * TOGETHER, 1)[0] + 1024).collect();
    rig.devices[CAPACITY]
        .rule(move |seen| failed(seen.kind == Kind::Read && bad.iter().any(|&sector| seen.covers(sector))));
    let mut random = Random::new(7);
    let mut in_flight = Vec::new();
    for number in 0..WRITES {
        let block = random.below(BLOCKS);
        // What cannot be read is not written anew.
        let block = if block.is_multiple_of(TOGETHER) { block + 1 } else { block };
        in_flight.push(rig.write_run(block, 1, number as u32 + 2, false, BULK));
        while in_flight.len() == 16 {
            rig.poll();
            in_flight.retain(|&token| match rig.answer(token) {
                None => true,
                Some(answer) => {
                    assert!(answer.is_ok(), "write {number}: {answer:?}");
                    false
                }
            });
        }
    }
}
