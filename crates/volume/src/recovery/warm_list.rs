//! Restores the copies of the read cache from before the restart, by the list that was written of them, as far as their slots are not used
//! for anything else by now.

use crate::engine::Engine;
use crate::io::Devices;
use crate::layout::superblock::Superblock;
use crate::layout::warm_list::{HEAD_BYTES, HEAD_OFFSET_BYTES, WarmChunk, WarmHead};
use forebay_block::BLOCK_BYTES_U64 as BLOCK;

/// Reads the list, and gives its entries to the engine. A failure here does not keep the pool from being opened: a chunk that is damaged or
/// overwritten ends the list.
pub(super) fn restore(devices: &mut Devices, superblock: &Superblock, engine: &mut Engine) {
    if !engine.has_copies() {
        return;
    }
    let decode = |bytes: &[u8]| WarmHead::decode(bytes, &superblock.pool);
    let read = devices.read_good(0, HEAD_OFFSET_BYTES, HEAD_BYTES, |bytes| decode(bytes).is_some());
    let Some(head) = read.ok().flatten().and_then(|bytes| decode(&bytes)) else { return };
    // Only a list of the epoch just before this opening counts: generations of bands that a power cut has undone are given out again.
    if head.epoch + 1 != engine.journal.epoch() {
        return;
    }
    let (mut next, mut runs) = (Some(head.last), Vec::new());
    // Each chunk names the one before it, which has a lower number: so the loop ends.
    for index in (0..head.chunks).rev() {
        let Some(run) = next.take() else { break };
        let Some((device, offset_bytes)) = engine.place_of_list(&run) else { break };
        let len_bytes = (run.slots * BLOCK) as usize;
        let decode = |bytes: &[u8]| {
            WarmChunk::decode(bytes, &superblock.pool)
                .filter(|chunk| (chunk.number, chunk.epoch, chunk.index) == (head.number, head.epoch, index))
        };
        let read = devices.read_good(device, offset_bytes, len_bytes, |bytes| decode(bytes).is_some());
        let Some(chunk) = read.ok().flatten().and_then(|bytes| decode(&bytes)) else { break };
        engine.restore_copies(&run, &chunk.entries);
        runs.push(run);
        next = chunk.previous;
    }
    runs.reverse();
    engine.restored_list(&head, runs);
}
