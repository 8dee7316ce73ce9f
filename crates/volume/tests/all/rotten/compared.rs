//! Parity that does not match its data: scrubs and verifications find it.

use super::is_summary;
use super::rig::{Rig, content};
use std::collections::HashSet;

/// Parity that had rotted was found by nobody: a scrub read data alone, and the next member that was lost took what was beside it. And that of the band which
/// is written on was left as it was until the band would be full.
#[test]
fn regression_a_scrub_compares_parity() {
    for redundancy in ["2+1", "3+2"] {
        let rig = Rig::new(redundancy, 1);
        let mut served = rig.open();
        (0..1400).for_each(|at| served.write(at * 611 % 1400));
        served.checkpoint();
        let model = served.close();
        for number in 0..rig.members.len() {
            let rotten = rig.copy();
            assert!(rotten.rot(number, rig.rows_at(), |_| true).len() > 300);
            let mut served = rotten.open();
            served.model.clone_from(&model);
            // Bands are moved one after the other.
            for _ in 0..3 {
                served.scrub();
            }
            let unfit = served.pool.engine.status().counters.unfit_bands;
            assert!(unfit > 0, "{redundancy}, member {number}");
            served.scrub();
            let status = served.pool.engine.status();
            assert_eq!(status.counters.unfit_bands, unfit, "{redundancy}, member {number}: not all were moved");
            served.checkpoint();
            served.close();
            // Any other one may be lost now.
            for lost in (0..rig.members.len()).filter(|lost| *lost != number) {
                let rest = rotten.copy();
                let mut served = rest.open_without(lost);
                served.model.clone_from(&model);
                served.check();
            }
        }
    }
}

/// A verification read only data and did not report wrong parity.
#[test]
fn regression_a_verification_compares_parity() {
    for redundancy in ["2+1", "3+2"] {
        let rig = Rig::new(redundancy, 1);
        let mut served = rig.open();
        (0..1400).for_each(|at| served.write(at * 611 % 1400));
        served.checkpoint();
        let model = served.close();
        assert_eq!(rig.verify(), []);
        let data: HashSet<Vec<u8>> = model.iter().map(|(&block, &version)| content(block, version)).collect();
        let is_parity = |block: &[u8]| !data.contains(block) && !is_summary(block);
        let rotten: usize = (0..rig.members.len()).map(|number| rig.rot(number, rig.rows_at(), is_parity).len()).sum();
        assert!(rotten > 400, "{rotten}");
        let found = rig.verify();
        assert!(
            !found.is_empty() && found.iter().all(|found| found.what.contains("parity of something else")),
            "{found:?}"
        );
    }
}

/// However much a member cannot read, one pass has written all of it again when it ends.
#[test]
fn a_scrub_mends_all_that_a_member_cannot_read() {
    for redundancy in ["2+1", "3+2"] {
        let rig = Rig::new(redundancy, 1);
        let mut served = rig.open();
        (0..1400).for_each(|at| served.write(at));
        served.checkpoint();
        let model = served.close();
        let data: HashSet<Vec<u8>> = model.iter().map(|(&block, &version)| content(block, version)).collect();
        let mut many = 0;
        for number in 0..rig.members.len() {
            let worn = rig.copy();
            {
                let mut inner = worn.members[number].bytes();
                let blocks = (rig.rows_at()..inner.bytes.len()).step_by(4096);
                inner.unreadable = blocks.filter(|&at| data.contains(&inner.bytes[at..at + 4096])).collect();
                many += usize::from(inner.unreadable.len() > 200);
            }
            let mut served = worn.open();
            served.model.clone_from(&model);
            assert_eq!(served.scrub().record.last.unwrap().bad_blocks, 0);
            let left = worn.members[number].bytes().unreadable.len();
            assert_eq!(left, 0, "{redundancy}, member {number}");
            served.close();
            for lost in (0..rig.members.len()).filter(|lost| *lost != number) {
                let mut served = worn.copy().open_without(lost);
                served.model.clone_from(&model);
                served.check();
            }
        }
        assert!(many > 2, "{redundancy}");
    }
}

/// Blocks that a member could not read for a while, each in a row in which another had rotted: a scrub wrote what parity made of the rotten one over it, and who
/// moved what lived there took it for damaged for good. Readable again it gives both.
#[test]
fn regression_rot_beside_what_cannot_be_read_for_a_while_costs_nothing() {
    // With as much parity as is needed, and nothing to spare.
    for (redundancy, out) in [("2+1", None), ("3+2", Some(4))] {
        let rig = Rig::new(redundancy, 1);
        let mut served = rig.open();
        (0..1400).for_each(|at| served.write(at));
        served.checkpoint();
        let model = served.close();
        let data: HashSet<Vec<u8>> = model.iter().map(|(&block, &version)| content(block, version)).collect();
        let open = |rig: &Rig| match out {
            Some(out) => rig.open_without(out),
            None => rig.open(),
        };
        for (worn, rotten) in [(0, 1), (1, 0), (1, 2)] {
            let rig = rig.copy();
            let is_data = |number: usize, at: usize| data.contains(&rig.members[number].bytes().bytes[at..at + 4096]);
            let rows = (rig.rows_at()..rig.members[0].bytes().bytes.len()).step_by(4096);
            let both = rows.filter(|&at| is_data(worn, at) && is_data(rotten, at)).step_by(7).collect::<Vec<_>>();
            assert!(both.len() > 20, "{}", both.len());
            rig.members[worn].bytes().unreadable.extend(&both);
            both.iter().for_each(|at| rig.members[rotten].bytes().bytes[at + 1000] ^= 0x20);
            let mut served = open(&rig);
            served.model.clone_from(&model);
            let bad_blocks = served.scrub().record.last.unwrap().bad_blocks;
            assert_eq!(bad_blocks, 2 * both.len() as u64, "{redundancy}, members {worn} and {rotten}");
            // What can be moved of their bands is.
            served.ticks(4000);
            let counters = served.pool.engine.status().counters;
            assert!(counters.unfit_bands > 0 && counters.damaged_moves == 0, "{counters:?}");
            assert_eq!(rig.members[worn].bytes().unreadable.len(), both.len());
            rig.members[worn].bytes().unreadable.clear();
            assert_eq!(served.scrub().found, [], "{redundancy}, members {worn} and {rotten}");
            served.check();
            served.close();
        }
    }
}

/// A verification skipped unreadable parity and reported success.
#[test]
fn regression_a_verification_says_that_parity_cannot_be_read() {
    for redundancy in ["2+1", "3+2"] {
        let rig = Rig::new(redundancy, 1);
        let mut served = rig.open();
        (0..600).for_each(|block| served.write(block));
        served.checkpoint();
        let model = served.close();
        let data: HashSet<Vec<u8>> = model.iter().map(|(&block, &version)| content(block, version)).collect();
        for number in 0..rig.members.len() {
            let rig = rig.copy();
            {
                let mut inner = rig.members[number].bytes();
                let blocks = (rig.rows_at()..inner.bytes.len() - 4096).step_by(4096);
                let is_parity =
                    |block: &[u8]| !data.contains(block) && !is_summary(block) && block.iter().any(|&at| at != 0);
                inner.unreadable = blocks.filter(|&at| is_parity(&inner.bytes[at..at + 4096])).collect();
                if inner.unreadable.is_empty() {
                    continue;
                }
            }
            let found = rig.verify();
            let is_said = !found.is_empty()
                && found.iter().all(|found| found.what.contains("cannot be compared with their parity"));
            assert!(is_said, "{redundancy}, member {number}: {found:?}");
        }
    }
}

/// A scrub with a missing member and no redundancy to spare ended as if everything had been compared.
#[test]
fn regression_a_scrub_says_that_there_is_nothing_to_compare_with() {
    for (redundancy, is_any) in [("2+1", false), ("3+2", true)] {
        let rig = Rig::new(redundancy, 1);
        let mut served = rig.open();
        (0..300).for_each(|block| served.write(block));
        served.checkpoint();
        served.close();
        let mut served = rig.open_without(1);
        let status = served.scrub();
        assert_eq!((status.uncompared_blocks == 0, status.found.len()), (is_any, 0), "{redundancy}: {status:?}");
        assert_eq!(served.pool.engine.status().counters.unfit_bands, 0);
    }
}
