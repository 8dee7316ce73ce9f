//! Lifetime grouping of the capacity tier and its write amplification, as JSON for the status.

use forebay_volume::Engine;
use serde_json::{Value, json};

/// The grouping policy and its groups.
pub fn json(engine: &Engine) -> Value {
    let (kind, groups) = engine.lifetime_groups();
    let groups = groups.into_iter().enumerate().map(|(number, group)| {
        let came = group.counts.arrived_blocks + group.counts.moved_in_blocks;
        let moved_again = (came > 0).then(|| group.counts.moved_out_blocks as f64 / came as f64);
        json!({
            "group": number,
            "bands": group.bands,
            "open_bands": group.open_bands,
            "live_bytes": group.valid_blocks * 4096,
            "arrived_bytes": group.counts.arrived_blocks * 4096,
            "moved_in_bytes": group.counts.moved_in_blocks * 4096,
            "moved_out_bytes": group.counts.moved_out_blocks * 4096,
            // Blocks written to bands per block that enters the group: the block itself, and each time that it is
            // moved.
            "write_amplification": moved_again.map(|part| 1.0 + part),
        })
    });
    json!({ "policy": kind.name(), "groups": groups.collect::<Vec<_>>() })
}
