//! Reads of many blocks at once when a member has wrong data.

use super::rig::{Rig, SMALL, Served, content};
use crate::world::request::compress_all;
use forebay_prism::Compress;
use forebay_volume::Op;
use std::collections::BTreeMap;
use std::ops::Range;

/// A pool in which these blocks were written, so many at once, and which is closed; and what was written.
fn written(redundancy: &str, compress: Compress, blocks: Range<u64>, at_once: u64) -> (Rig, BTreeMap<u64, u64>) {
    let rig = Rig::new(redundancy, 1);
    let mut served = rig.open();
    compress_all(&mut served.pool.engine, compress);
    blocks.step_by(at_once as usize).for_each(|block| served.write_run(block, at_once));
    served.checkpoint();
    let model = served.close();
    (rig, model)
}

/// The same pool, served, after a member lost all its contents.
fn without_contents((rig, model): &(Rig, BTreeMap<u64, u64>), number: usize) -> (Rig, Served) {
    let rotten = rig.copy();
    let mut served = rotten.open();
    served.model.clone_from(model);
    let first = rig.rows_at();
    rotten.members[number].bytes().bytes[first..].fill(0);
    (rotten, served)
}

/// Of one member all was wrong. Compressed blocks that lie there are right only where they are computed of the others, and those beside them only as they
/// lie: a read of several was right in no reading, and failed as often as it was asked for, until the member was out.
#[test]
fn regression_reads_of_many_compressed_blocks_are_right_where_a_member_has_lost_all() {
    for redundancy in ["2+1", "4+2"] {
        let pool = written(redundancy, Compress::Lz4, 0..1200, 10);
        for number in 0..pool.0.members.len() {
            let (_, mut served) = without_contents(&pool, number);
            served.check_in_runs(16);
        }
    }
}

/// The same where another member is not there: what that one has was computed of what the first one had lost, wherever nothing of a block lay on the first one.
#[test]
fn regression_reads_of_many_compressed_blocks_are_right_where_a_member_is_out_and_another_has_lost_all() {
    for redundancy in ["3+2", "4+2"] {
        let pool = written(redundancy, Compress::Lz4, 0..1200, 10);
        for number in 0..pool.0.members.len() {
            let rotten = pool.0.copy();
            let mut served = rotten.open_without(number);
            served.model.clone_from(&pool.1);
            let other = (number + 1) % pool.0.members.len();
            let first = rotten.rows_at();
            rotten.members[other].bytes().bytes[first..].fill(0);
            served.check_in_runs(16);
        }
    }
}

/// Of a summary of several pages one was wrong, and all were written again: those that were right, too, beside blocks of data of which only parity said what they
/// had been, and which that then did not say any more.
#[test]
fn regression_no_page_of_a_summary_that_is_right_is_written_again() {
    for redundancy in ["2+1", "4+2"] {
        let pool = written(redundancy, Compress::Lz4, SMALL..2040, 40);
        for number in 0..pool.0.members.len() {
            let (_, mut served) = without_contents(&pool, number);
            for _ in 0..3 {
                served.check();
                served.ticks(2000);
            }
            assert_eq!(served.scrub().found, [], "{redundancy}, member {number}");
            served.check();
        }
    }
}

/// A block that was misread once was read right at its place, and was written again all the same: beside a block that its member had lost, of which only parity
/// said what it had been, and which that then did not say any more.
#[test]
fn regression_what_is_right_in_its_place_is_not_written_again() {
    for (redundancy, compress) in [("2+1", Compress::Off), ("4+2", Compress::Off), ("2+1", Compress::Lz4)] {
        let (packed, pool) = (compress != Compress::Off, written(redundancy, compress, 0..1200, 10));
        let model = &pool.1;
        for lost in 0..pool.0.members.len() {
            let (rotten, mut served) = without_contents(&pool, lost);
            let other = &rotten.members[(lost + 1) % rotten.members.len()];
            let first = rotten.rows_at();
            let lies_there = |block: u64| {
                let wanted = content(block, model[&block]);
                let inner = other.bytes();
                let at = inner.bytes[first..].chunks_exact(4096).position(|bytes| bytes == wanted)?;
                Some(first + at * 4096)
            };
            for &block in model.keys().step_by(if packed { 1 } else { 7 }) {
                // The place of a compressed block is unknown.
                let at = if packed { Some(first + block as usize * 4096) } else { lies_there(block) };
                let Some(at) = at.filter(|at| at + 4096 <= other.bytes().bytes.len()) else { continue };
                other.bytes().misread.insert(at);
                if !packed {
                    served.ask(block, Op::Read).unwrap();
                    served.ticks(5);
                }
            }
            // Each block is misread at most once.
            (0..model.len() as u64).for_each(|block| _ = served.ask(block, Op::Read));
            served.ticks(2000);
            served.check();
        }
    }
}
