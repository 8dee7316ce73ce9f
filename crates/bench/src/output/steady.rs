//! The steady state of a job that was to end with it, in results.

use crate::job::steady::{Figure, Limit, Rule, Steady};
use crate::run::{JobResult, Part, SteadyState, SteadyWindow, per_second};
use crate::stats::steady::{deviation, mean, slope};
use serde_json::{Value, json};

/// The criterion of the job and its outcome; `None` if there was no criterion.
#[must_use]
pub fn of(result: &JobResult) -> Option<(&Steady, &SteadyState)> {
    result.job.steady.as_ref().zip(result.steady.as_ref())
}

/// Mean total latency of a part in nanoseconds; `None` without I/Os.
#[must_use]
pub fn latency_mean_ns(part: &Part) -> Option<f64> {
    (part.ios > 0).then(|| part.latency_sum_ns / part.ios as f64)
}

/// As our JSON; `null` if there was no criterion.
pub(super) fn json(result: &JobResult) -> Value {
    let Some((steady, found)) = of(result) else { return Value::Null };
    json!({
        "criterion": steady.to_string(),
        "attained": found.attained_ns.is_some(),
        "attained_s": found.attained_ns.map(|ns| ns as f64 / 1e9),
        "limit": steady.limit.value(),
        "value": found.window.as_ref().and_then(|window| window.value),
        "unit": unit(steady),
        "window": found.window.as_ref().map(window),
    })
}

fn unit(steady: &Steady) -> &'static str {
    match (steady.limit, steady.criterion.figure) {
        (Limit::Percent(_), _) => "percent",
        (Limit::Fixed(_), Figure::Iops) => "iops",
        (Limit::Fixed(_), Figure::Bandwidth) => "bytes_per_second",
        (Limit::Fixed(_), Figure::Latency) => "ns",
    }
}

fn window(window: &SteadyWindow) -> Value {
    let figures = |part: &Part, len_ns: u64| {
        json!({
            "ios": part.ios,
            "iops": per_second(part.ios, len_ns),
            "bytes_per_second": per_second(part.bytes, len_ns),
            "total_latency_mean_ns": latency_mean_ns(part),
        })
    };
    let mut value = figures(&window.whole(), window.len_ns());
    value["begin_s"] = (window.begin_ns as f64 / 1e9).into();
    value["end_s"] = (window.end_ns() as f64 / 1e9).into();
    value["parts"] = window.parts.iter().map(|part| figures(part, window.part_ns)).collect();
    value
}

/// As fio 3.33 writes it (stat.c): numbers of the criterion as text, figures of the parts as whole numbers.
pub(super) fn fio(result: &JobResult) -> Option<Value> {
    let (steady, found) = of(result)?;
    let percent = if matches!(steady.limit, Limit::Percent(_)) { "%" } else { "" };
    let text = |value: f64| format!("{value:.6}{percent}");
    let figures = |figure| found.window.as_ref().map_or_else(Vec::new, |window| window.figures(figure));
    let judged = figures(steady.criterion.figure);
    let (of_deviation, of_slope) = match steady.criterion.rule {
        Rule::Deviation => (deviation(&judged), 0.0),
        Rule::Slope => (0.0, slope(&judged)),
    };
    let (iops, bandwidth) = (figures(Figure::Iops), figures(Figure::Bandwidth));
    let whole = |figures: &[f64]| -> Vec<u64> { figures.iter().map(|&figure| figure as u64).collect() };
    Some(json!({
        "ss": format!("{}:{}", steady.criterion.name(), text(steady.limit.value())),
        "duration": steady.window_ns / 1_000_000_000,
        "attained": u8::from(found.attained_ns.is_some()),
        "criterion": text(found.window.as_ref().and_then(|window| window.value).unwrap_or(0.0)),
        "max_deviation": of_deviation,
        "slope": of_slope,
        "data": {
            "bw_mean": mean(&bandwidth) as u64,
            "iops_mean": mean(&iops) as u64,
            "iops": whole(&iops),
            "bw": whole(&bandwidth),
        },
    }))
}
