//! What a scrub cannot read of one member.

use super::disk::Fate;
use super::{Served, three};

/// A block that could not be read of the second member, and not either when the read was repeated because a block beside it had been written meanwhile, was
/// taken for one that is right there: it was not mended, and was lost with the first member.
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

/// A leaf of the map that one member could not read was taken for good by a scrub, as the memory of the read that failed still held what another had given: it was
/// not mended, and was lost with the other member.
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
