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
