//! Host cost of a job besides processor time, as text.

use crate::output::time;
use forebay_bench::output::host::rest_mean_ns;
use forebay_bench::run::{BlockUse, JobResult, Latencies, MachineUse};

/// Maximum number of interrupt sources shown, and the least share of an idle state that is shown.
const SOURCES_SHOWN: usize = 4;
const SHARE_SHOWN: f64 = 0.001;

/// Context switches and migrations of the threads, interrupts and idle states of the machine.
pub fn lines(result: &JobResult) -> Vec<String> {
    let ios = result.rated_ios().max(1) as f64;
    let mut lines = Vec::new();
    if let Some((voluntary, involuntary)) = result.used.switches {
        let migrations =
            result.used.migrations.map_or_else(|| "unknown".to_owned(), |migrations| migrations.to_string());
        lines.push(format!(
            "  context switches {:.3} voluntary, {:.3} involuntary an I/O; migrations {migrations}",
            voluntary as f64 / ios,
            involuntary as f64 / ios
        ));
    }
    lines.extend(result.machine.as_ref().map(|machine| of_machine(machine, ios)));
    let block = result.machine.as_ref().and_then(|machine| machine.block.as_ref());
    lines.extend(block.and_then(|block| of_block(result, block)));
    lines
}

fn of_machine(machine: &MachineUse, ios: f64) -> String {
    let mut parts = Vec::new();
    if let (Some(all), Some(sources)) = (machine.interrupts(), &machine.interrupts) {
        let own = machine.of_target().map_or_else(
            || "which of them are the target's no name says".to_owned(),
            |own| format!("{:.3} of the target's queues", own as f64 / ios),
        );
        let most = sources.iter().take(SOURCES_SHOWN).map(|of| format!("{} {}", of.source, of.count));
        let most: Vec<String> = most.collect();
        parts.push(format!("{:.3} interrupts an I/O ({own}); most: {}", all as f64 / ios, most.join(", ")));
    }
    if let Some(states) = &machine.idle {
        let shown = states.iter().filter(|state| state.share >= SHARE_SHOWN);
        let shown: Vec<String> = shown
            .map(|state| {
                format!("{} {:.1} % ({:.3} an I/O)", state.state, state.share * 100.0, state.entered as f64 / ios)
            })
            .collect();
        let shown = if shown.is_empty() { "none".to_owned() } else { shown.join(", ") };
        parts.push(format!("idle states of all processors: {shown}"));
    }
    parts.extend(machine.unknown.iter().map(|why| format!("unknown: {why}")));
    format!("  whole machine meanwhile: {}", parts.join("; "))
}

/// Time of requests in the block layer and at the device.
fn of_block(result: &JobResult, block: &BlockUse) -> Option<String> {
    let (queued, device) = block.latencies()?;
    let requests = device.count();
    let figures = |of: &Latencies| match of.count() {
        0 => "not known".to_owned(),
        _ => format!(
            "mean {}, p50 {}, p99 {}",
            time(of.mean_ns() as u64),
            time(of.quantile_ns(0.5)),
            time(of.quantile_ns(0.99))
        ),
    };
    let rest = match rest_mean_ns(result, block) {
        Some(ns) if ns >= 0.0 => format!("the rest of the time in flight, there and back, mean {}", time(ns as u64)),
        Some(_) => "the rest of the time in flight less than can be said".to_owned(),
        None => "the rest is not known, since requests are no I/Os here".to_owned(),
    };
    let dropped = if block.dropped > 0 { format!(", {} not seen", block.dropped) } else { String::new() };
    let probes = block.probes_ns.checked_div(requests).unwrap_or(0);
    Some(format!(
        "  block layer: {requests} requests{dropped}; queued {}; at the device {}; {rest}; the probes took {} a request",
        figures(&queued),
        figures(&device),
        time(probes)
    ))
}
