//! State of the read cache, as JSON for the status.

use forebay_block::BLOCK_BYTES_U64 as BLOCK;
use forebay_volume::Engine;
use forebay_volume::engine::ReadCacheStatus;
use serde_json::{Value, json};

/// Contents of the read cache, and its counters since the start; null where no class has a read cache.
pub fn json(engine: &Engine) -> Value {
    if !engine.has_copies() {
        return Value::Null;
    }
    let ReadCacheStatus {
        held_blocks,
        entitled_blocks,
        hit_blocks,
        missed_blocks,
        passed_blocks,
        returned_blocks,
        written_blocks,
        restored_blocks,
        in_memory_blocks,
        memory_hit_blocks,
    } = engine.status().read_cache;
    let found_blocks = hit_blocks + memory_hit_blocks;
    let read_blocks = found_blocks + missed_blocks;
    json!({
        "held_bytes": held_blocks * BLOCK,
        "kept_bytes": entitled_blocks * BLOCK,
        "hit_bytes": hit_blocks * BLOCK,
        "missed_bytes": missed_blocks * BLOCK,
        "hit_ratio": (read_blocks > 0).then(|| found_blocks as f64 / read_blocks as f64),
        "memory_held_bytes": in_memory_blocks * BLOCK,
        "memory_hit_bytes": memory_hit_blocks * BLOCK,
        "passed_bytes": passed_blocks * BLOCK,
        "returned_bytes": returned_blocks * BLOCK,
        "written_bytes": written_blocks * BLOCK,
        "restored_bytes": restored_blocks * BLOCK,
    })
}
