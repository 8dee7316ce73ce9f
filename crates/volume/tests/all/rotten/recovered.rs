//! What an opening after a crash writes again, beside what is not what it should be.

use super::rig::{Rig, content};
use forebay_volume::{Op, Outcome};

/// Place of a block with these contents: member and byte.
fn place(rig: &Rig, wanted: &[u8]) -> (usize, usize) {
    let find = |number: usize| {
        let inner = rig.members[number].bytes();
        (rig.rows_at()..inner.bytes.len() - 4096).step_by(4096).find(|&at| inner.bytes[at..at + 4096] == *wanted)
    };
    (0..rig.members.len()).find_map(|number| Some((number, find(number)?))).unwrap()
}

/// Whether the row log is empty on all members.
fn is_log_empty(rig: &Rig) -> bool {
    let log = rig.shape.head_bytes as usize..rig.rows_at();
    rig.members.iter().all(|member| !member.bytes().bytes[log.clone()].windows(4).step_by(4096).any(|at| at == b"FBPE"))
}

/// What was flushed shortly before a crash is looked at by the opening and written again. Parity of its rows was made anew of what lay there, also of rows that were
/// whole and durable, of which the log had nothing any more: beside a block that had rotten that was the end of it.
#[test]
fn regression_an_opening_makes_no_parity_of_what_it_has_not_looked_at() {
    let mut lost_none = 0;
    for (redundancy, before) in [("2+1", 1), ("2+1", 61), ("3+1", 1), ("3+1", 2), ("3+1", 41), ("5+1", 3), ("3+2", 2)] {
        let rig = Rig::new(redundancy, 1);
        let mut served = rig.open();
        (0..before).for_each(|block| served.write(block));
        served.checkpoint();
        // The row that was begun, and what of it is not known to be durable.
        let data = rig.shape.data as u64;
        let end = (before + 1).next_multiple_of(data).max(before + 1);
        (before..end).for_each(|block| served.write(block));
        assert!(matches!(served.ask(0, Op::Flush), Ok(Outcome::Done)));
        served.ticks(2);
        let model = served.model.clone();
        drop(served);
        assert!(is_log_empty(&rig), "{redundancy}, {before}");
        for block in 0..before {
            for is_wiped in [false, true] {
                let rig = rig.copy();
                let (number, at) = place(&rig, &content(block, 1));
                let mut inner = rig.members[number].bytes();
                if is_wiped {
                    inner.bytes[at..at + 4096].fill(0);
                } else {
                    inner.bytes[at + 1000] ^= 0x20;
                }
                drop(inner);
                let mut served = rig.open();
                served.model.clone_from(&model);
                served.check();
                lost_none += 1;
                served.close();
            }
        }
    }
    assert!(lost_none > 200, "{lost_none}");
}

/// A row torn while it was written whole, with nothing else durable in it, gets parity of the data that is there.
#[test]
fn a_row_that_was_torn_has_parity_when_it_was_opened() {
    for redundancy in ["2+1", "3+1", "3+2"] {
        let rig = Rig::new(redundancy, 1);
        let data = rig.shape.data as u64;
        let mut served = rig.open();
        // Some durable rows precede it.
        (0..data * 2).for_each(|block| served.write(block));
        served.checkpoint();
        let before = served.model.clone();
        served.write_run(data * 2, data);
        drop(served);
        for kept in data * 2..data * 3 {
            let rig = rig.copy();
            // All others, and parity, are what was there before.
            let (member, at) = place(&rig, &content(kept, 1));
            for other in (0..rig.members.len()).filter(|other| *other != member) {
                rig.members[other].bytes().bytes[at..at + 4096].fill(7);
            }
            let mut served = rig.open();
            served.model = before.clone();
            served.model.insert(kept, 1);
            served.check();
            served.close();
            let mut served = rig.open_without(member);
            served.model = before.clone();
            served.model.insert(kept, 1);
            served.check();
        }
    }
}
