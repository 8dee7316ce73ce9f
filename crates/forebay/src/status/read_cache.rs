//! The read cache, as people see it.

use crate::output;
use serde_json::Value;

/// In a line; `None` where no class has copies.
pub fn line(cache: &Value) -> Option<String> {
    let held = cache["held_bytes"].as_u64()?;
    let size = |key: &str| output::size(cache[key].as_u64().unwrap_or(0));
    let hits = cache["hit_ratio"].as_f64().map_or_else(|| "-".to_owned(), |ratio| format!("{:.1} %", 100.0 * ratio));
    Some(format!(
        "read cache holds {}, {} are kept for it; hits {hits} of {}, {} copied",
        output::size(held),
        size("kept_bytes"),
        output::size(cache["hit_bytes"].as_u64().unwrap_or(0) + cache["missed_bytes"].as_u64().unwrap_or(0)),
        size("written_bytes"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn it_is_one_line_and_none_where_nothing_is_cached() {
        assert_eq!(line(&Value::Null), None);
        let cache = json!({
            "held_bytes": 3 << 20, "kept_bytes": 1 << 20, "hit_bytes": 3 << 20, "missed_bytes": 1 << 20,
            "hit_ratio": 0.75, "written_bytes": 4 << 20,
        });
        let wanted = "read cache holds 3.00 MiB, 1.00 MiB are kept for it; hits 75.0 % of 4.00 MiB, 4.00 MiB copied";
        assert_eq!(line(&cache).unwrap(), wanted);
        let unread = json!({ "held_bytes": 0, "kept_bytes": 4096, "hit_ratio": null });
        assert_eq!(line(&unread).unwrap(), "read cache holds 0 B, 4.00 KiB are kept for it; hits - of 0 B, 0 B copied");
    }
}
