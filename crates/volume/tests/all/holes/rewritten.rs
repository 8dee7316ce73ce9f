//! What is written again after a failed flush.

use super::device::{Fate, Kind, Region};
use super::rig::{BULK, CAPACITY, Rig, Setup, failed};
use forebay_block::Buf;
use forebay_prism::{ClassChange, Compress};
use forebay_volume::{Op, Outcome, RequestError};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// What a failed flush covered is read back before it is written again. Of compressed blocks that lie together the last reading counted alone: where each
/// reading got another block wrong, a right block was overwritten with a misread and reported as lost.
#[test]
fn regression_compressed_blocks_are_put_together_from_all_readings() {
    const BLOCKS: u64 = 64;
    let mut rig = Rig::new(&Setup::default());
    let change = ClassChange { compress: Some(Compress::Lz4), ..ClassChange::default() };
    rig.pool.engine.prism_mut().table_mut().set("bulk", change).unwrap();
    rig.pool.engine.classes_changed();
    let place = Arc::new(AtomicU64::new(0));
    let (seen_place, seen_reads, mut is_due) = (place.clone(), Arc::new(AtomicU32::new(0)), true);
    let reads = seen_reads.clone();
    rig.devices[CAPACITY].rule(move |seen| match (seen.kind, seen.region) {
        (Kind::Flush, _) => failed(std::mem::take(&mut is_due)),
        (Kind::Write, Region::Bands) => {
            _ = seen_place.compare_exchange(0, seen.offset_bytes, Relaxed, Relaxed);
            Fate::Good
        }
        // The first reading has the first block wrong, the second one a block in the middle.
        (Kind::Read, _) if seen.covers(seen_place.load(Relaxed)) => match seen_reads.fetch_add(1, Relaxed) {
            0 => Fate::Misread(seen_place.load(Relaxed)),
            1 => Fate::Misread(seen_place.load(Relaxed) + 1024),
            _ => Fate::Good,
        },
        _ => Fate::Good,
    });
    let mut bytes = Buf::zeroed(BLOCKS as usize * 4096);
    bytes.fill(2);
    let token = rig.submit_to(rig.disk, 0, bytes.len() as u64, Op::Write(bytes), false, BULK);
    rig.wait(token).unwrap();
    let token = rig.submit_to(rig.disk, 0, 0, Op::Flush, false, None);
    assert!(matches!(rig.wait(token), Err(RequestError::FlushFailed)));
    rig.polls(150);
    rig.flush();
    assert!(place.load(Relaxed) > 0 && reads.load(Relaxed) >= 2, "it went past the fast tier and was read twice");
    assert_eq!(rig.pool.engine.status().counters.flush_lost_blocks, 0);
    let mut rig = rig.crash();
    for block in 0..BLOCKS {
        let token = rig.submit_to(rig.disk, block, 4096, Op::Read, false, None);
        let Ok(Outcome::Data(data)) = rig.wait(token) else { panic!("block {block} is not read") };
        assert!(data.iter().all(|&byte| byte == 2), "block {block}");
    }
}
