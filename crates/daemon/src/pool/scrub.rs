//! State of the scrub, as JSON for the status.

use forebay_block::BLOCK_BYTES_U64 as BLOCK;
use forebay_volume::Engine;
use forebay_volume::layout::scrub_record::{PARITY, Pass, ScrubState};
use serde_json::{Value, json};

fn name(engine: &Engine, id: u16) -> Option<&str> {
    engine.disks().find(|disk| disk.id.0 == id).map(|disk| disk.name.as_str())
}

fn pass(pass: &Pass) -> Value {
    let time = |unix_s: u64| (unix_s > 0).then_some(unix_s);
    json!({
        "began_unix_seconds": time(pass.began_unix_s),
        "ended_unix_seconds": time(pass.ended_unix_s),
        "good_bytes": pass.good_blocks.saturating_mul(BLOCK),
        "damaged_bytes": pass.bad_blocks.saturating_mul(BLOCK),
    })
}

/// Progress of the scrub, and the damage found.
pub fn json(engine: &Engine) -> Value {
    let scrub = engine.scrub();
    let record = &scrub.record;
    let (state, is_idle) = match record.state {
        ScrubState::Idle => ("idle", true),
        ScrubState::Running => ("running", false),
        ScrubState::Paused => ("paused", false),
    };
    let status = engine.status();
    let found = scrub.found.iter().map(|found| {
        json!({
            "disk": name(engine, found.disk.0),
            "offset_bytes": found.offset_bytes,
            "len_bytes": found.len_bytes,
            "why": found.why.to_string(),
        })
    });
    let mut shown = json!({
        "state": state,
        "disk": if is_idle { None } else { name(engine, record.disk) },
        "compares_parity": !is_idle && record.disk == PARITY,
        "offset_bytes": (!is_idle).then_some(record.block.saturating_mul(BLOCK)),
        "stored_bytes": status.fast.live_bytes + status.capacity.live_bytes,
        "rate_bytes_per_second": scrub.rate_bytes_per_s,
        "pass": (!is_idle).then(|| pass(&record.pass)),
        "last_pass": record.last.as_ref().map(pass),
        "found": found.collect::<Vec<_>>(),
        "uncompared_bytes": scrub.uncompared_blocks.saturating_mul(BLOCK),
        "mended_bytes": status.counters.mended_blocks.saturating_mul(BLOCK),
    });
    shown["damaged_bytes"] = damaged_bytes(&shown).into();
    shown
}

/// Damaged bytes found. The result of the last pass counts until the next pass has ended.
fn damaged_bytes(scrub: &Value) -> u64 {
    let of = |key: &str| scrub[key]["damaged_bytes"].as_u64().unwrap_or(0);
    of("pass").max(of("last_pass"))
}
