//! A server's status as text.

pub mod base;
mod classes;
mod devices;
mod lifetimes;
mod mirror;
pub mod rates;
mod read_cache;
pub mod scrub;
mod stays;
mod upkeep;

pub use classes::table as classes_table;

use crate::output;
use serde_json::Value;

fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or(0)
}

fn bytes(value: &Value, key: &str) -> String {
    output::size(number(value, key))
}

fn list<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value[key].as_array().into_iter().flatten()
}

fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or("-").to_owned()
}

/// A line for a device with failed requests.
fn failed_line(device: &Value) -> String {
    let (name, errors, last) = (text(device, "name"), number(device, "errors"), text(device, "last_error"));
    let have = if errors == 1 { "HAS" } else { "HAVE" };
    format!("\n{name}: {} {have} FAILED since the start, the last: {last}", output::count(errors, "request"))
}

/// Age of an unanswered request from which on its device is shown as silent, in nanoseconds.
const UNANSWERED_NS: u64 = 5_000_000_000;

/// A line for a device that does not answer.
fn silent_line(device: &Value) -> Option<String> {
    let age_ns = device["unanswered_ns"].as_u64().filter(|&age_ns| age_ns >= UNANSWERED_NS)?;
    let seconds = age_ns / 1_000_000_000;
    Some(format!("\n{}: has NOT ANSWERED a request for {seconds} s", text(device, "name")))
}

/// A line for a device that another writer has written to.
fn overwritten_line(device: &Value) -> Option<String> {
    let why = device["overwritten"].as_str()?;
    Some(format!("\n{}: IS NOT WHAT IT WAS when the pool was opened: {why}", text(device, "name")))
}

/// The status as tables.
pub fn render(status: &Value) -> String {
    let mut parts: Vec<String> = std::iter::once(head(status)).chain(tables(status)).collect();
    // The devices follow the tiers.
    parts.insert(2.min(parts.len()), devices::table(status));
    parts.join("\n\n")
}

/// The lines about the pool as a whole.
pub fn head(status: &Value) -> String {
    let pool = &status["pool"];
    let mut head = format!(
        "pool {} ({}), epoch {}, checkpoint {}",
        text(pool, "name"),
        text(pool, "id"),
        number(pool, "epoch"),
        number(status, "checkpoint")
    );
    if pool["read_only"] == true {
        head.push_str(&format!("\nREAD-ONLY: {}", text(pool, "read_only_reason")));
    }
    for disk in list(&status["left"], "disks") {
        let blocks =
            |value: &Value| value.as_u64().map_or_else(|| "-".to_owned(), |blocks| output::size(blocks * 4096));
        head.push_str(&format!(
            "\n  disk {}: {} of data can be read, {} of it of after the checkpoint; {} is gone, {} may be older",
            text(disk, "name"),
            blocks(&disk["readable_blocks"]),
            blocks(&disk["later_blocks"]),
            blocks(&disk["gone"]["blocks"]),
            blocks(&disk["maybe_older"]["blocks"]),
        ));
    }
    if let Some(fill) = pool["fill"].as_f64() {
        let mark = pool["fill_mark"].as_str().map_or_else(String::new, |mark| format!(": {mark}"));
        head.push_str(&format!(
            "\n{}{mark}; {} promised to disks",
            in_use(fill, number(pool, "usable_bytes")),
            bytes(pool, "promised_bytes")
        ));
    }
    if pool["flush_failed"] == true {
        head.push_str("\nA FLUSH FAILED: what it covered is being written again; check the device");
    }
    let latency = &status["latency_ns"];
    let quantile = |key: &str| latency[key].as_u64().map_or_else(|| "-".to_owned(), output::time);
    let memory = &status["memory"];
    let journal = &status["journal"];
    head.push_str(&format!(
        "\nmemory {} of {}, map leaves {} of {}; journal {} of {}\nconnections {}, in flight {}; latency p50 {}, p99 {}, p99.9 {}",
        bytes(memory, "resident_bytes"),
        bytes(memory, "limit_bytes"),
        number(memory, "leaves_resident"),
        number(memory, "leaves_limit"),
        bytes(journal, "used_bytes"),
        bytes(journal, "len_bytes"),
        number(&status["server"], "connections"),
        number(status, "requests_in_flight"),
        quantile("p50"),
        quantile("p99"),
        quantile("p999"),
    ));
    head.extend(stays::wear_line(&status["wear"]).map(|line| format!("\n{line}")));
    head.extend(mirror::lines(&status["mirror"]).map(|lines| format!("\n{lines}")));
    head.extend(mirror::parity_lines(&status["parity"]).map(|lines| format!("\n{lines}")));
    head.extend(list(status, "devices").filter(|device| number(device, "errors") > 0).map(failed_line));
    head.extend(list(status, "devices").filter_map(silent_line));
    head.extend(list(status, "devices").filter_map(overwritten_line));
    head.extend(read_cache::line(&status["read_cache"]).map(|line| format!("\n{line}")));
    head.extend(base::lines(&status["disks"]).map(|lines| format!("\n{lines}")));
    head.push_str(&format!("\n{}", upkeep::line(status)));
    head.extend(scrub::lines(&status["scrub"]).map(|lines| format!("\n{lines}")));
    let recovery = &status["recovery"];
    head.push_str(&format!(
        "\nlast recovery: {:.3} s, {} read, {} dropped that were never durable",
        recovery["seconds"].as_f64().unwrap_or(0.0),
        bytes(recovery, "read_bytes"),
        output::count(number(recovery, "dropped_blocks"), "block")
    ));
    head
}

/// How full a pool is. With `overcommit` it may hold more than disks can be promised, as long as the fast tier has space.
fn in_use(fill: f64, usable_bytes: u64) -> String {
    let usable = output::size(usable_bytes);
    if fill <= 1.0 {
        return format!("{:.0} % of {usable} in use", fill * 100.0);
    }
    let live_bytes = (fill * usable_bytes as f64).round() as u64;
    let more = output::size(live_bytes.saturating_sub(usable_bytes));
    format!("{} in use, {more} more than the {usable} that disks can be promised", output::size(live_bytes))
}

/// Tiers, classes, exports, groups and evidence.
pub fn tables(status: &Value) -> Vec<String> {
    let tiers: Vec<Vec<String>> = list(status, "tiers")
        .map(|tier| {
            let share = |key: &str| match number(tier, "total_bytes") {
                0 => "-".to_owned(),
                total => format!("{} %", number(tier, key).saturating_mul(100) / total),
            };
            let (used, live) = (share("used_bytes"), share("live_bytes"));
            let (written, worn) = stays::written_and_worn(&status["wear"], &tier["name"]);
            vec![
                text(tier, "name"),
                bytes(tier, "total_bytes"),
                bytes(tier, "used_bytes"),
                used,
                bytes(tier, "live_bytes"),
                live,
                written,
                worn,
            ]
        })
        .collect();
    let exports: Vec<Vec<String>> = list(status, "exports")
        .map(|export| {
            let clients = export["connections"].to_string();
            vec![text(export, "name"), bytes(export, "size_bytes"), clients, text(export, "uri")]
        })
        .collect();
    let evidence = &status["evidence"];
    let sources = list(evidence, "sources").next().map(|_| crate::verbs::evidence_table(evidence));
    let parts = [
        output::table(&["TIER", "TOTAL", "USED", "", "LIVE", "", "WRITTEN", "WORN"], 1, &tiers),
        classes::table(&status["classes"]),
        exports_table(&exports),
    ];
    let groups = stays::table(&status["stays"]).into_iter().chain(lifetimes::table(&status["lifetimes"]));
    parts.into_iter().chain(groups).chain(sources).collect()
}

/// The addresses are the last column, so that their length moves nothing.
fn exports_table(exports: &[Vec<String>]) -> String {
    let rows: Vec<Vec<String>> = exports.iter().map(|row| row.iter().take(3).cloned().collect()).collect();
    let table = output::table(&["EXPORT", "SIZE", "CLIENTS"], 1, &rows);
    let uris = std::iter::once("URI").chain(exports.iter().filter_map(|row| row.get(3)).map(String::as_str));
    table.lines().zip(uris).map(|(line, uri)| format!("{line}  {uri}")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::in_use;

    /// The status showed "155 % of 181 MiB in use".
    #[test]
    fn regression_an_overcommitted_pool_holds_no_more_than_all_of_it() {
        let usable_bytes = 181 << 20;
        assert_eq!(in_use(0.5, usable_bytes), "50 % of 181 MiB in use");
        assert_eq!(in_use(1.0, usable_bytes), "100 % of 181 MiB in use");
        let more = in_use(281.0 / 181.0, usable_bytes);
        assert_eq!(more, "281 MiB in use, 100 MiB more than the 181 MiB that disks can be promised");
    }
}
