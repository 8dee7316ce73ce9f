//! Lifetime groups of the capacity tier, as text.

use crate::output;
use serde_json::Value;

/// The groups that hold data, as a table; none where all data is in one group.
pub fn table(lifetimes: &Value) -> Option<String> {
    let size = |value: &Value| value.as_u64().map_or_else(|| "-".to_owned(), output::size);
    let groups = lifetimes["groups"].as_array()?;
    let rows: Vec<Vec<String>> = groups
        .iter()
        .filter(|group| group["bands"] != 0)
        .map(|group| {
            let waf = group["write_amplification"].as_f64();
            vec![
                format!("{} {}", lifetimes["policy"].as_str().unwrap_or("-"), group["group"]),
                group["bands"].to_string(),
                size(&group["live_bytes"]),
                size(&group["arrived_bytes"]),
                size(&group["moved_in_bytes"]),
                size(&group["moved_out_bytes"]),
                waf.map_or_else(|| "-".to_owned(), |waf| format!("{waf:.2}")),
            ]
        })
        .collect();
    let head = ["GROUP", "BANDS", "LIVE", "ARRIVED", "MOVED IN", "MOVED OUT", "WAF"];
    (rows.len() > 1).then(|| output::table(&head, 1, &rows))
}
