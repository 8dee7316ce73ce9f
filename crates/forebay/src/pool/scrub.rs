//! A scrub, as it is shown.

use crate::output;
use forebay_volume::Engine;
use forebay_volume::layout::scrub_record::{Pass, ScrubState};
use serde_json::{Value, json};
use std::time::SystemTime;

const BLOCK: u64 = 4096;

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

/// How far it is, and what it has found.
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
    json!({
        "state": state,
        "disk": if is_idle { None } else { name(engine, record.disk) },
        "offset_bytes": (!is_idle).then_some(record.block.saturating_mul(BLOCK)),
        "stored_bytes": status.fast.live_bytes + status.capacity.live_bytes,
        "rate_bytes_per_second": scrub.rate_bytes_per_s,
        "pass": (!is_idle).then(|| pass(&record.pass)),
        "last_pass": record.last.as_ref().map(pass),
        "found": found.collect::<Vec<_>>(),
    })
}

/// Bytes that were found damaged: what the last pass has found counts until the next has come to its end.
pub fn damaged_bytes(scrub: &Value) -> u64 {
    let of = |key: &str| scrub[key]["damaged_bytes"].as_u64().unwrap_or(0);
    of("pass").max(of("last_pass"))
}

fn bytes(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

fn ago(unix_seconds: &Value) -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let Some(seconds) = unix_seconds.as_u64().map(|then| now.saturating_sub(then)) else {
        return "at an unknown time".to_owned();
    };
    match seconds {
        0..120 => format!("{seconds} s ago"),
        120..7200 => format!("{} min ago", seconds / 60),
        7200..172_800 => format!("{} h ago", seconds / 3600),
        _ => format!("{} days ago", seconds / 86_400),
    }
}

fn damage(pass: &Value) -> String {
    match bytes(&pass["damaged_bytes"]) {
        0 => "nothing damaged".to_owned(),
        damaged => format!("{} DAMAGED", output::size(damaged)),
    }
}

/// In a line or two; `None` where there never was one.
pub fn lines(scrub: &Value) -> Option<String> {
    let mut lines = Vec::new();
    let pass = &scrub["pass"];
    if pass.is_object() {
        let read = bytes(&pass["good_bytes"]) + bytes(&pass["damaged_bytes"]);
        let stored = bytes(&scrub["stored_bytes"]);
        // What hosts write and discard meanwhile moves the end.
        let percent = (read.saturating_mul(100) / stored.max(1)).min(99);
        lines.push(format!(
            "scrub {}: {} read, {percent} % of {}; at disk {}, {}; {}",
            scrub["state"].as_str().unwrap_or("-"),
            output::size(read),
            output::size(stored),
            scrub["disk"].as_str().unwrap_or("-"),
            output::size(bytes(&scrub["offset_bytes"])),
            damage(pass)
        ));
    }
    let last = &scrub["last_pass"];
    if last.is_object() {
        let read = bytes(&last["good_bytes"]) + bytes(&last["damaged_bytes"]);
        let (when, read) = (ago(&last["ended_unix_seconds"]), output::size(read));
        lines.push(format!("last full scrub ended {when}: {read} read, {}", damage(last)));
    }
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// For people.
pub fn render(scrub: &Value) -> String {
    let mut parts =
        vec![lines(scrub).unwrap_or_else(|| "there was no scrub yet: `forebay scrub CONFIG start`".to_owned())];
    let found = || scrub["found"].as_array().into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let rows: Vec<Vec<String>> = found()
        .map(|found| {
            let (offset, len) = (found["offset_bytes"].to_string(), output::size(bytes(&found["len_bytes"])));
            vec![text(&found["disk"]), offset, len, text(&found["why"])]
        })
        .collect();
    if !rows.is_empty() {
        parts.push(output::table(&["DISK", "OFFSET", "LENGTH", "WHY"], 1, &rows));
    }
    if found().map(|found| bytes(&found["len_bytes"])).sum::<u64>() < damaged_bytes(scrub) {
        parts.push(
            "note: damage from before this server's start, and beyond 64 ranges, is not listed: scrub again to see it"
                .to_owned(),
        );
    }
    parts.join("\n\n")
}
