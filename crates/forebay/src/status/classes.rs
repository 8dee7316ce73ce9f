//! Classes, as text.

use crate::output;
use serde_json::Value;

/// As a table.
pub fn table(classes: &Value) -> String {
    let number = |class: &Value, key: &str| class[key].as_u64().unwrap_or(0);
    let text = |class: &Value, key: &str| class[key].as_str().unwrap_or("-").to_owned();
    let is_packed = |class: &Value| class["compression"].as_f64().is_some_and(|ratio| ratio > 1.0);
    // Without packed data, the table has no column for it.
    let shows_packed = classes.as_array().into_iter().flatten().any(is_packed);
    let rows: Vec<Vec<String>> = classes
        .as_array()
        .into_iter()
        .flatten()
        .map(|class| {
            let blocks = |key: &str| output::size(number(class, key) * 4096);
            let ratio = |key: &str| output::ratio(class[key].as_f64());
            let through =
                number(class, "bypassed_bytes") + number(class, "destaged_bytes") + number(class, "collected_bytes");
            let mut row = vec![
                text(class, "name"),
                text(class, "place"),
                blocks("fast_blocks"),
                blocks("capacity_blocks"),
                output::size(number(class, "written_bytes")),
                output::size(through),
                ratio("alpha"),
                ratio("beta"),
                ratio("hit_ratio"),
            ];
            row.extend(shows_packed.then(|| ratio("compression")));
            row
        })
        .collect();
    let mut head = vec!["CLASS", "PLACE", "ON FAST", "ON CAPACITY", "WRITTEN", "TO CAPACITY", "ALPHA", "BETA", "HITS"];
    head.extend(shows_packed.then_some("PACKED"));
    output::table(&head, 2, &rows)
}
