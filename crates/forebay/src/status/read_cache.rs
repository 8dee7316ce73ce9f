//! The read cache, as text.

use crate::output;
use serde_json::Value;

/// One line; `None` where no class has copies.
pub fn line(cache: &Value) -> Option<String> {
    let held = cache["held_bytes"].as_u64()?;
    let size = |key: &str| output::size(cache[key].as_u64().unwrap_or(0));
    let hits = cache["hit_ratio"].as_f64().map_or_else(|| "-".to_owned(), |ratio| format!("{:.1} %", 100.0 * ratio));
    let read = ["hit_bytes", "memory_hit_bytes", "missed_bytes"].map(|key| cache[key].as_u64().unwrap_or(0));
    Some(format!(
        "read cache holds {}, {} are kept for it, and {} in memory; hits {hits} of {}, {} of it in memory, {} copied",
        output::size(held),
        size("kept_bytes"),
        size("memory_held_bytes"),
        output::size(read.iter().sum()),
        size("memory_hit_bytes"),
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
            "hit_ratio": 0.8, "written_bytes": 4 << 20, "memory_held_bytes": 2 << 20, "memory_hit_bytes": 1 << 20,
        });
        let wanted = "read cache holds 3 MiB, 1 MiB are kept for it, and 2 MiB in memory; \
                      hits 80.0 % of 5 MiB, 1 MiB of it in memory, 4 MiB copied";
        assert_eq!(line(&cache).unwrap(), wanted);
        let unread = json!({ "held_bytes": 0, "kept_bytes": 4096, "hit_ratio": null });
        let wanted = "read cache holds 0 B, 4 KiB are kept for it, and 0 B in memory; hits - of 0 B, 0 B of it in memory, 0 B copied";
        assert_eq!(line(&unread).unwrap(), wanted);
    }
}
