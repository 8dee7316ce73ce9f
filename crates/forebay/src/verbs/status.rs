//! `forebay status CONFIG`.

use crate::config;
use crate::control::{Question, ask};
use crate::output::{self, Format};
use crate::pool::{classes, lifetimes, stays};
use anyhow::Result;
use serde_json::Value;
use std::path::Path;

/// Shows what the server tells.
///
/// # Errors
/// Where no server answers.
pub fn run(file: &Path, format: Format) -> Result<()> {
    let config = config::load_real(file)?;
    let status = ask(&config, file, &Question::Status)?;
    match format {
        Format::Json => output::json(status),
        Format::Table => output::line(&render(&status)),
    }
}

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

/// The status as tables.
pub fn render(status: &Value) -> String {
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
    if pool["flush_failed"] == true {
        head.push_str("\nA FLUSH FAILED: what it covered is being written again; check the device");
    }
    let latency = &status["latency_ns"];
    let quantile = |key: &str| latency[key].as_u64().map_or_else(|| "-".to_owned(), output::time);
    let memory = &status["memory"];
    let journal = &status["journal"];
    head.push_str(&format!(
        "\nmemory {} of {}, map leaves {} of {}; journal {} of {}; connections {}, in flight {}\nlatency p50 {}, p99 {}, p99.9 {}",
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
    let recovery = &status["recovery"];
    head.push_str(&format!(
        "\nlast recovery: {:.3} s, {} read, {} blocks dropped that were never durable",
        recovery["seconds"].as_f64().unwrap_or(0.0),
        bytes(recovery, "read_bytes"),
        number(recovery, "dropped_blocks")
    ));
    let tiers: Vec<Vec<String>> = list(status, "tiers")
        .map(|tier| {
            vec![text(tier, "name"), bytes(tier, "total_bytes"), bytes(tier, "used_bytes"), bytes(tier, "live_bytes")]
        })
        .collect();
    let exports: Vec<Vec<String>> = list(status, "exports")
        .map(|export| vec![text(export, "name"), text(export, "uri"), bytes(export, "size_bytes")])
        .collect();
    let evidence = &status["evidence"];
    let sources = list(evidence, "sources").next().map(|_| super::evidence::table(evidence));
    let parts = [
        head,
        output::table(&["TIER", "TOTAL", "USED", "LIVE"], 1, &tiers),
        classes::table(&status["classes"]),
        output::table(&["EXPORT", "URI", "SIZE"], 2, &exports),
    ];
    let groups = stays::table(&status["stays"]).into_iter().chain(lifetimes::table(&status["lifetimes"]));
    parts.into_iter().chain(groups).chain(sources).collect::<Vec<_>>().join("\n\n")
}
