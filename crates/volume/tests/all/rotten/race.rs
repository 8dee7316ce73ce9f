//! Scrubs of a mirrored pool beside hosts that write.

use super::rig::{Rig, content};

/// What lies on the capacity tier is kept unread in a scrub's second pass over the copies of the fast tier. A host had written it anew since: what was kept
/// was taken for wrong, and written over the host's write.
#[test]
fn regression_a_scrub_writes_nothing_over_what_a_host_writes_beside_it() {
    let rig = Rig::new("2+1", 2);
    let mut served = rig.open();
    served.write_fast(0);
    (1..60).for_each(|block| served.write(block));
    served.checkpoint();
    let mut mended = 0;
    for round in 0..400 {
        // The second copy rots again, so that the second pass has something to look for elsewhere.
        let first = content(0, served.model[&0]);
        let mut second = rig.fast[1].bytes();
        let at = (0..second.bytes.len()).step_by(4096).find(|&at| second.bytes[at..at + 4096] == first[..]);
        if let Some(at) = at {
            second.bytes[at + 1000] ^= 0x20;
        }
        drop(second);
        served.pool.engine.start_scrub();
        served.ticks(round % 5);
        served.write(1 + u64::from(round) % 59);
        served.ticks(20);
        mended = served.pool.engine.status().counters.mended_blocks;
    }
    assert!(mended > 50, "{mended} blocks were written again");
    served.check();
}
