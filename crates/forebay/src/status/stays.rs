//! Placement by lifetime groups on the fast tier, and the wear of the tiers, as text.

use crate::output;
use serde_json::Value;

/// Maximum number of groups shown: those written and collected most.
const SHOWN_GROUPS: usize = 8;

/// The groups that are written and collected most, as a table.
pub fn table(stays: &Value) -> Option<String> {
    let size = |value: &Value| value.as_u64().map_or_else(|| "-".to_owned(), output::size);
    let share =
        |value: &Value| value.as_f64().map_or_else(|| "-".to_owned(), |share| format!("{:.0} %", share * 100.0));
    let octave = |value: &Value| value.as_u64().map(|octave| octave.to_string());
    let rows: Vec<Vec<String>> = stays["groups"]
        .as_array()
        .into_iter()
        .flatten()
        .take(SHOWN_GROUPS)
        .map(|group| {
            let was = octave(&group["discarded_at_octave"]).map(|octave| format!("gone at {octave}"));
            let was = was.or_else(|| octave(&group["overwritten_at_octave"]).map(|octave| format!("age {octave}")));
            let read = group["read_octaves"].as_array().into_iter().flatten().filter_map(octave).collect::<Vec<_>>();
            vec![
                group["class"].as_str().unwrap_or("(any)").to_owned(),
                was.unwrap_or_else(|| "-".to_owned()),
                if read.is_empty() { "-".to_owned() } else { read.join(",") },
                share(&group["written_share"]),
                size(&group["living_bytes"]),
                size(&group["half_dies_by_bytes"]),
                size(&group["stays_bytes"]),
                share(&group["saved_share"]),
                group["write_amplification"].as_f64().map_or_else(|| "-".to_owned(), |waf| format!("{waf:.2}")),
            ]
        })
        .collect();
    let head = ["WRITES OF", "BEFORE", "READ", "SHARE", "LIVING", "HALF DEAD", "STAYS", "SAVED", "WAF"];
    (!rows.is_empty()).then(|| output::table(&head, 3, &rows))
}

/// A line on wear: the tier that ends the pool's life, where known.
pub fn wear_line(wear: &Value) -> Option<String> {
    let years = |tier: &Value| tier["years_left"].as_f64();
    let [fast, capacity] = wear.as_array()?.as_slice() else { return None };
    let (fast, capacity) = (years(fast)?, years(capacity)?);
    let first = if fast < capacity { "fast" } else { "capacity" };
    let (least, other) = (fast.min(capacity), fast.max(capacity));
    let time = |years: f64| match years {
        0.0..1.0 => format!("{:.1} days", years * 365.0),
        _ => format!("{years:.1} years"),
    };
    Some(format!(
        "at the rate since the start the {first} tier is worn first, in {}; the other in {}",
        time(least),
        time(other)
    ))
}

/// Bytes written to a tier in the pool's life, and their share of its rated writes, where known.
pub fn written_and_worn(wear: &Value, tier: &Value) -> (String, String) {
    let found = wear.as_array().into_iter().flatten().find(|wear| wear["name"] == *tier).unwrap_or(&Value::Null);
    let (written, rated) =
        (found["written_bytes"].as_u64(), found["endurance_bytes"].as_u64().filter(|&rated| rated > 0));
    let worn = written.zip(rated).map(|(written, rated)| format!("{:.1} %", written as f64 * 100.0 / rated as f64));
    (written.map_or_else(|| "-".to_owned(), output::size), worn.unwrap_or_else(|| "-".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Without a configured endurance, wear was only in the JSON.
    #[test]
    fn regression_wear_of_each_tier_is_shown() {
        let wear = json!([
            { "name": "fast", "written_bytes": 3u64 << 30, "endurance_bytes": 1u64 << 40 },
            { "name": "capacity", "written_bytes": 1 << 20, "endurance_bytes": null },
        ]);
        let shown = |tier: &str| written_and_worn(&wear, &json!(tier));
        assert_eq!(shown("fast"), ("3 GiB".to_owned(), "0.3 %".to_owned()));
        assert_eq!(shown("capacity"), ("1 MiB".to_owned(), "-".to_owned()));
        assert_eq!(shown("none"), ("-".to_owned(), "-".to_owned()));
    }
}
