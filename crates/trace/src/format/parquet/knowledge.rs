//! Which facts a trace provides and what could not be read, as JSON in a file's metadata.

use crate::{Faults, Knows};
use serde_json::{Value, json};

/// The JSON that is stored in a file's metadata under `forebay.trace`.
#[must_use]
pub fn knowledge(knows: Knows, faults: &Faults) -> Value {
    let first: Vec<Value> =
        faults.first.iter().map(|fault| json!({"place": fault.place, "what": fault.what})).collect();
    json!({
        "knows": {
            "op": knows.op,
            "time": knows.time,
            "latency": knows.latency,
            "depth": knows.depth,
            "flags": knows.flags,
            "lifetime": knows.lifetime,
            "process": knows.process,
            "file": knows.file,
        },
        "faults": {"count": faults.count, "by_line": faults.by_line, "first": first, "missing": faults.missing},
    })
}

/// Parses such a text; `None` if it is not ours.
pub(super) fn from_json(text: &str) -> Option<(Knows, Faults)> {
    let value: Value = serde_json::from_str(text).ok()?;
    let knows = value.get("knows")?;
    let is_known = |key: &str| knows.get(key).and_then(Value::as_bool).unwrap_or(false);
    let knows = Knows {
        op: is_known("op"),
        time: is_known("time"),
        latency: is_known("latency"),
        depth: is_known("depth"),
        flags: is_known("flags"),
        lifetime: is_known("lifetime"),
        process: is_known("process"),
        file: is_known("file"),
    };
    let mut faults = Faults::default();
    if let Some(value) = value.get("faults") {
        faults.by_line = value.get("by_line").and_then(Value::as_bool).unwrap_or(false);
        for fault in value.get("first").and_then(Value::as_array).into_iter().flatten() {
            let place = fault.get("place").and_then(Value::as_u64).unwrap_or(0);
            let what = fault.get("what").and_then(Value::as_str).unwrap_or_default();
            faults.note(place, || what.to_owned());
        }
        faults.missing = value.get("missing").and_then(Value::as_u64).unwrap_or(0);
        faults.count = value.get("count").and_then(Value::as_u64).unwrap_or(faults.count);
    }
    Some((knows, faults))
}
