//! The pool's own data movement, as text.

use crate::output;
use serde_json::Value;

/// One line: destage, garbage collection, scrub, and their bands.
pub fn line(status: &Value) -> String {
    let sum = |key: &str| {
        let classes = status["classes"].as_array().into_iter().flatten();
        output::size(classes.filter_map(|class| class[key].as_u64()).sum())
    };
    let state = |key: &str| if status["activity"][key] == true { "running" } else { "idle" };
    let number = |key: &str| status["bands"][key].as_u64().unwrap_or(0);
    format!(
        "destage {} ({} moved), GC {} ({} moved), {} of {} bands free; scrub {}",
        state("destage"),
        sum("destaged_bytes"),
        state("garbage_collection"),
        sum("collected_bytes"),
        number("free"),
        number("total"),
        status["scrub"]["state"].as_str().unwrap_or("-"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The tables did not show whether data is being moved.
    #[test]
    fn regression_destage_and_collection_have_a_line() {
        let status = json!({
            "activity": { "destage": true, "garbage_collection": false },
            "bands": { "free": 7, "total": 63 },
            "classes": [{ "destaged_bytes": 1 << 20 }, { "destaged_bytes": 1 << 20, "collected_bytes": 4096 }],
            "scrub": { "state": "idle" },
        });
        assert_eq!(
            line(&status),
            "destage running (2 MiB moved), GC idle (4 KiB moved), 7 of 63 bands free; scrub idle"
        );
    }
}
