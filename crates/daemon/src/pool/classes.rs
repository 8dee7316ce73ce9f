//! The classes of a pool with their policies and statistics, as JSON for the status.

use crate::config::place_name;
use forebay_prism::{ClassSpec, ClassStats};
use forebay_volume::Engine;
use serde_json::{Value, json};

/// Policies and statistics of all classes of a running engine.
pub fn json(engine: &Engine) -> Value {
    list(engine.prism().table().classes(), &engine.status().classes)
}

/// Classes in the order of their ids, with their statistics.
pub fn list(specs: &[ClassSpec], statistics: &[ClassStats]) -> Value {
    let each = specs.iter().enumerate().map(|(id, spec)| {
        let stats = statistics.get(id).copied().unwrap_or_default();
        let ClassStats {
            host_written_bytes,
            bypassed_bytes,
            destaged_bytes,
            collected_bytes,
            host_read_bytes,
            fast_read_bytes,
            fast_blocks,
            capacity_blocks,
            stored_bytes,
            reclassed_in_bytes,
            reclassed_out_bytes,
        } = stats;
        json!({
            "id": id,
            "name": spec.name,
            "place": place_name(spec.place),
            "share": spec.share,
            "read_cache": spec.read_cache,
            "compress": spec.compress.to_string(),
            "priority": spec.priority,
            "match": spec.rules,
            "host_written_bytes": host_written_bytes,
            "bypassed_bytes": bypassed_bytes,
            "destaged_bytes": destaged_bytes,
            "collected_bytes": collected_bytes,
            "host_read_bytes": host_read_bytes,
            "fast_read_bytes": fast_read_bytes,
            "fast_blocks": fast_blocks,
            "capacity_blocks": capacity_blocks,
            "stored_bytes": stored_bytes,
            "compression": stats.compression(),
            "reclassed_in_bytes": reclassed_in_bytes,
            "reclassed_out_bytes": reclassed_out_bytes,
            "written_bytes": stats.written_bytes(),
            "alpha": stats.alpha(),
            "beta": stats.beta(),
            "hit_ratio": stats.hit_ratio(),
        })
    });
    Value::Array(each.collect())
}
