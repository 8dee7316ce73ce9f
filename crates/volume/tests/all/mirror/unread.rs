//! Data of one member that a scrub cannot read.

use super::disk::{Disk, Fate};
use super::{Served, classes, joined, options, three};
use forebay_block::Buf;
use forebay_volume::Op;
use forebay_volume::recovery::{OpenError, open};

/// A block was unreadable on the second member, also when the read was repeated because a block beside it had been written meanwhile. It
/// was taken for good there: it was not repaired, and was lost with the first member.
#[test]
fn regression_a_scrub_mends_what_it_cannot_read_twice() {
    // One of the two is read last.
    for bad in 0..2 {
        let [a, b, c] = three(10);
        let member = [&a, &b][bad];
        let mut served = Served::open(&[&a, &b], &c);
        served.write(1, 0xa1);
        served.write(2, 0xa2);
        let is_it = |block: &[u8]| block.iter().all(|byte| *byte == 0xa1);
        let at = member.bytes().bytes.chunks_exact(4096).position(is_it).unwrap() * 4096;
        member.set(Fate::HangsReads);
        served.pool.engine.start_scrub();
        served.turn(20);
        assert!(served.pool.engine.activity().scrub);
        served.write(2, 0xa3);
        member.set(Fate::CannotRead(at));
        served.turn(2000);
        assert!(served.pool.engine.scrub().record.last.is_some());
        assert!(member.bytes().failures > 1, "{}", member.bytes().failures);
        served.close();
        let mut served = Served::open(&[member], &c);
        assert!(served.read(1, 1).iter().all(|byte| *byte == 0xa1));
        served.close();
    }
}

/// A scrub took an unreadable leaf of one member for good, because the failed read's memory still held another member's data: it was not
/// repaired, and was lost with the other member.
#[test]
fn regression_a_scrub_takes_nothing_of_a_read_that_failed() {
    for bad in 0..2 {
        let [a, b, c] = three(10);
        let member = [&a, &b][bad];
        let mut served = Served::open(&[&a, &b], &c);
        served.write(1, 0xa1);
        served.close();
        let is_page = |page: &[u8]| page.starts_with(b"FBML") || page.starts_with(b"FBMI");
        let blocks: Vec<Vec<u8>> = member.bytes().bytes.chunks_exact(4096).map(<[u8]>::to_vec).collect();
        let pages = (0..).step_by(4096).zip(blocks).filter(|(_, block)| is_page(block)).map(|(at, _)| at);
        let pages: Vec<usize> = pages.collect();
        assert!(pages.len() > 1);
        for at in pages {
            let mut served = Served::open(&[&a, &b], &c);
            member.set(Fate::CannotRead(at + 512));
            served.pool.engine.start_scrub();
            served.turn(2000);
            assert!(served.pool.engine.scrub().record.last.is_some());
            served.close();
            let mut served = Served::open(&[member], &c);
            assert!(served.read(1, 1).iter().all(|byte| *byte == 0xa1));
            served.close();
        }
    }
}

/// Places of the leaves' pages.
fn leaves_of(disk: &Disk) -> Vec<usize> {
    let inner = disk.bytes();
    let pages = (0..).step_by(4096).zip(inner.bytes.chunks_exact(4096));
    pages.filter(|(_, page)| page.starts_with(b"FBML")).map(|(at, _)| at).collect()
}

/// The leaf pages of one of two members have rotted, and the other member cannot read them at the moment.
fn rot_beside([rotten, unread]: [&Disk; 2]) {
    leaves_of(rotten).into_iter().for_each(|at| rotten.bytes().bytes[at + 1000..at + 1008].fill(0xa5));
    let pages = leaves_of(unread);
    unread.bytes().unreadable.extend(pages);
}

/// The rotten page of one member was used while the other could not read its copy, as if no other copy existed: 400 blocks were damaged for
/// good.
#[test]
fn regression_a_leaf_that_one_member_cannot_read_for_now_is_not_given_up_for_a_rotten_one() {
    for order in [[0, 1], [1, 0]] {
        // At a start that has to change it.
        let [a, b, c] = three(10);
        let members = order.map(|at| [&a, &b][at]);
        let mut served = Served::open(&[&a, &b], &c);
        served.write(1, 7);
        served.close();
        let mut served = Served::open(&[&a, &b], &c);
        served.write(2, 8);
        drop(served);
        rot_beside(members);
        let (mut devices, _) = joined(&[&a, &b], &c).unwrap();
        let opened = open(&mut devices, 1, &classes(), options());
        assert!(matches!(opened, Err(OpenError::Unread { .. })), "{:?}", opened.err());
        drop(devices);
        members[1].bytes().unreadable.clear();
        let mut served = Served::open(&[&a, &b], &c);
        assert!(served.read(1, 1).iter().all(|byte| *byte == 7));
        // While it is served.
        served.close();
        let mut served = Served::open(&[&a, &b], &c);
        rot_beside(members);
        served.submit(5, 1, Op::Write(Buf::zeroed(4096)));
        assert_eq!(served.turn(20), (1, false));
        members[1].bytes().unreadable.clear();
        served.write(5, 9);
        assert!(served.read(1, 1).iter().all(|byte| *byte == 7));
        served.close();
    }
}
