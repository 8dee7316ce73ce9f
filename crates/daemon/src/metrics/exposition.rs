//! Writes a status in Prometheus's text format, by the client library.

use super::table::{Kind, Metric, SECTIONS, Scale};
use forebay_block::BLOCK_BYTES;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::prometheus_text;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use serde_json::Value;
use std::fmt;
use std::sync::Arc;

/// Value of the `Content-Type` header for this text.
pub const CONTENT_TYPE: &str = prometheus_text::CONTENT_TYPE;

const YEAR_SECONDS: f64 = 365.0 * 86_400.0;

#[derive(Debug)]
struct Metrics(Arc<Value>);

/// All metrics of a status, as text.
///
/// # Errors
/// The client library cannot write the text.
pub fn text(status: &Arc<Value>) -> Result<String, fmt::Error> {
    let pool = status["pool"]["name"].as_str().unwrap_or_default().to_owned();
    let labels = std::iter::once(("pool".into(), pool.into()));
    let mut registry = Registry::with_prefix_and_labels("forebay", labels);
    registry.register_collector(Box::new(Metrics(Arc::clone(status))));
    let mut text = String::new();
    prometheus_text::encode(&mut text, &registry)?;
    Ok(text)
}

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let status = &*self.0;
        let version = [("version", env!("CARGO_PKG_VERSION"))];
        let mut info = encoder.encode_descriptor("build", "The server's version", None, MetricType::Info)?;
        info.encode_info(&version)?;
        for section in &SECTIONS {
            for metric in section.metrics {
                let entries: Vec<(Vec<(&str, &str)>, Number)> = match section.each {
                    None => number(metric, status).map(|number| (Vec::new(), number)).into_iter().collect(),
                    Some((list, label)) => entries(status, list)
                        .filter_map(|(name, entry)| Some((vec![(label, name)], number(metric, entry)?)))
                        .collect(),
                };
                // A metric without any figure is left out: zero would be a figure.
                if entries.is_empty() {
                    continue;
                }
                let kind = match metric.kind {
                    Kind::Counter => MetricType::Counter,
                    Kind::Gauge => MetricType::Gauge,
                };
                let mut family = encoder.encode_descriptor(metric.name, metric.help, None, kind)?;
                for (labels, number) in &entries {
                    number.encode(metric.kind, family.encode_family(labels)?)?;
                }
            }
        }
        latencies(status, &mut encoder)
    }
}

/// Entries of a list that have a name.
fn entries<'a>(status: &'a Value, list: &str) -> impl Iterator<Item = (&'a str, &'a Value)> {
    status[list].as_array().into_iter().flatten().filter_map(|entry| Some((entry["name"].as_str()?, entry)))
}

/// A figure for the encoder. Whole numbers stay integers, so that large ones lose no digits.
enum Number {
    Whole(u64),
    Real(f64),
}

impl Number {
    fn encode(&self, kind: Kind, encoder: MetricEncoder<'_>) -> Result<(), fmt::Error> {
        match (self, kind) {
            (Self::Whole(value), Kind::Counter) => ConstCounter::new(*value).encode(encoder),
            (Self::Real(value), Kind::Counter) => ConstCounter::new(*value).encode(encoder),
            (Self::Whole(value), Kind::Gauge) => ConstGauge::new(*value).encode(encoder),
            (Self::Real(value), Kind::Gauge) => ConstGauge::new(*value).encode(encoder),
        }
    }
}

fn number(metric: &Metric, entry: &Value) -> Option<Number> {
    let value = entry.pointer(metric.pointer)?;
    Some(match (metric.scale, value.as_u64(), value.as_bool()) {
        (Scale::One, Some(whole), _) => Number::Whole(whole),
        (Scale::One, None, Some(flag)) => Number::Whole(flag.into()),
        (Scale::One, None, None) => Number::Real(value.as_f64()?),
        (Scale::Blocks, whole, _) => Number::Whole(whole?.saturating_mul(BLOCK_BYTES as u64)),
        (Scale::Nanoseconds, whole, _) => Number::Real(whole? as f64 / 1e9),
        (Scale::Years, ..) => Number::Real(value.as_f64()? * YEAR_SECONDS),
    })
}

/// Histograms by kind of request. The bounds are powers of two in nanoseconds, as the engine counts them: exact, and
/// cheap to produce.
fn latencies(status: &Value, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
    let help = "Time from a host's request to its answer";
    let mut family = encoder.encode_descriptor("request_duration_seconds", help, None, MetricType::Histogram)?;
    for of_kind in status["latency_by_kind"].as_array().into_iter().flatten() {
        let figures = (of_kind["kind"].as_str(), of_kind["sum_ns"].as_u64(), of_kind["count"].as_u64());
        let (Some(kind), Some(sum_ns), Some(count)) = figures else { continue };
        let bucket = |pair: &Value| Some((pair[0].as_u64()? as f64 / 1e9, pair[1].as_u64()?));
        let buckets: Vec<(f64, u64)> =
            of_kind["below_ns"].as_array().into_iter().flatten().filter_map(bucket).collect();
        let labels = [("kind", kind)];
        let mut histogram = family.encode_family(&labels)?;
        histogram.encode_histogram::<NoLabelSet>(sum_ns as f64 / 1e9, count, &buckets, None)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn figures_are_scaled_labelled_and_absent_where_nobody_has_them() {
        let status = json!({
            "pool": { "name": "a\"b\\c\nd", "read_only": true, "fill": 0.25, "usable_bytes": u64::MAX },
            "tiers": [{ "name": "fast", "total_bytes": 3 }, { "total_bytes": 4 }],
            "wear": [{ "name": "fast", "written_bytes": 1, "endurance_bytes": null, "years_left": 2.0 }],
            "devices": [{ "name": "/dev/x", "reads": { "busy_ns": 1_500_000_000u64 } }],
            "classes": [{ "name": "cold", "fast_blocks": 2 }],
            "latency_by_kind": [
                { "kind": "read", "sum_ns": 2_000_000_000u64, "count": 5, "below_ns": [[1024, 1], [2048, 2]] },
                { "kind": "write" },
            ],
        });
        let text = text(&Arc::new(status)).unwrap();
        let pool = r#"pool="a\"b\\c\nd""#;
        for line in [
            format!("forebay_pool_read_only{{{pool}}} 1"),
            format!("forebay_pool_fill_ratio{{{pool}}} 0.25"),
            format!("forebay_pool_usable_bytes{{{pool}}} {}", u64::MAX),
            format!("forebay_tier_size_bytes{{{pool},tier=\"fast\"}} 3"),
            format!("forebay_tier_life_left_seconds{{{pool},tier=\"fast\"}} 63072000"),
            format!("forebay_device_read_time_seconds_total{{{pool},device=\"/dev/x\"}} 1.5"),
            format!("forebay_class_fast_bytes{{{pool},class=\"cold\"}} 8192"),
            format!("forebay_request_duration_seconds_bucket{{{pool},kind=\"read\",le=\"2.048e-06\"}} 3"),
            format!("forebay_request_duration_seconds_bucket{{{pool},kind=\"read\",le=\"+Inf\"}} 5"),
            format!("forebay_request_duration_seconds_sum{{{pool},kind=\"read\"}} 2"),
        ] {
            assert!(text.lines().any(|known| known.starts_with(&line)), "{line}\n{text}");
        }
        let absent = ["endurance", "kind=\"write\"", "forebay_disk", "NaN"];
        assert!(!absent.iter().any(|word| text.contains(word)), "{text}");
    }
}
