//! Device figures since the server's start, as text.

use super::rates::labels;
use crate::output;
use serde_json::Value;

/// Requests of each device, and its queue depth: the mean over the whole time, and the present one.
pub fn table(status: &Value) -> String {
    let devices: Vec<&Value> = status["devices"].as_array().into_iter().flatten().collect();
    let names: Vec<&str> = devices.iter().map(|device| device["name"].as_str().unwrap_or("-")).collect();
    let kinds = ["reads", "writes", "flushes", "discards"];
    let rows: Vec<Vec<String>> = devices
        .iter()
        .zip(labels(&names))
        .map(|(device, label)| {
            let number = |value: &Value| value.as_u64().unwrap_or(0);
            let busy_ns: u64 = kinds.iter().map(|kind| number(&device[kind]["busy_ns"])).sum();
            // Little's law: the sum of all request times divided by the elapsed time.
            let mean = status["uptime_seconds"].as_f64().filter(|&seconds| seconds > 0.0);
            let mean = mean.map_or_else(|| "-".to_owned(), |seconds| format!("{:.2}", busy_ns as f64 / 1e9 / seconds));
            vec![
                label,
                number(&device["reads"]["requests"]).to_string(),
                output::size(number(&device["reads"]["bytes"])),
                number(&device["writes"]["requests"]).to_string(),
                output::size(number(&device["writes"]["bytes"])),
                mean,
                device["in_flight"].to_string(),
                number(&device["errors"]).to_string(),
            ]
        })
        .collect();
    output::table(&["DEVICE", "READS", "READ", "WRITES", "WRITTEN", "MEAN DEPTH", "NOW", "FAILED"], 1, &rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The status was documented to show device depths but did not.
    #[test]
    fn regression_devices_have_their_depth_within_80_columns() {
        let kind =
            |times: u64| json!({ "requests": 123_456_789_u64, "bytes": 5_u64 << 40, "busy_ns": 1_000_000_000 * times });
        let status = json!({ "uptime_seconds": 10.0, "devices": [{
            "name": "/dev/disk/by-id/nvme-INTEL_SSDPED1K375GA_PHKS7481001U375AGN", "reads": kind(25), "writes": kind(100),
            "flushes": kind(0), "discards": kind(0), "in_flight": 32, "errors": 0,
        }] });
        let table = table(&status);
        let row: Vec<&str> = table.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(row[row.len() - 3..], ["12.50", "32", "0"], "{table}");
        assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
    }
}
