//! What a job cost its host apart from processor time: context switches, migrations, interrupts, idle states.

use crate::run::{BlockUse, JobResult, Latencies, MachineUse};
use serde_json::{Value, json};

/// The JSON of these costs; `latency` formats latencies. Figures that are not known are `null`; in virtual time all of them are.
#[must_use]
pub fn json(result: &JobResult, latency: &dyn Fn(&Latencies) -> Value) -> Value {
    let ios = result.rated_ios();
    let per_io = |count: u64| (ios > 0).then(|| count as f64 / ios as f64);
    let counted = |count: Option<u64>| count.map(|count| json!({ "count": count, "per_io": per_io(count) }));
    let switches = result.used.switches;
    let machine = |machine: &MachineUse| {
        json!({
            "interrupts": counted(machine.interrupts()),
            "interrupts_of_target": counted(machine.of_target()),
            "interrupts_by_source": machine.interrupts.as_ref().map(|sources| sources.iter().map(|source| json!({
                "source": source.source,
                "count": source.count,
                "is_targets": source.is_targets,
            })).collect::<Vec<_>>()),
            "idle": machine.idle.as_ref().map(|states| states.iter().map(|state| json!({
                "state": state.state,
                "share": state.share,
                "entered": state.entered,
                "entered_per_io": per_io(state.entered),
            })).collect::<Vec<_>>()),
            "block_layer": machine.block.as_ref().and_then(|block| of_block(result, block, latency)),
            "unknown": machine.unknown,
        })
    };
    json!({
        "voluntary_switches": counted(switches.map(|(voluntary, _)| voluntary)),
        "involuntary_switches": counted(switches.map(|(_, involuntary)| involuntary)),
        "migrations": counted(result.used.migrations),
        "machine": result.machine.as_ref().map(machine),
    })
}

/// Requests may be fewer than I/Os if they are merged, or more if they are split. Up to this relative difference, they count as the same.
const SAME: f64 = 0.02;

/// The mean time in flight without block layer and device, so the time on the way there and back, in nanoseconds. `None` if requests are
/// not the same as I/Os, since their means cannot be compared then.
#[must_use]
pub fn rest_mean_ns(result: &JobResult, block: &BlockUse) -> Option<f64> {
    let (queued, device) = block.latencies()?;
    let (ios, requests) = (result.ios() as f64, device.count() as f64);
    let is_same = (requests - ios).abs() <= SAME * ios && queued.count() == device.count();
    is_same.then(|| result.service_mean_ns - queued.mean_ns() - device.mean_ns())
}

fn of_block(result: &JobResult, block: &BlockUse, latency: &dyn Fn(&Latencies) -> Value) -> Option<Value> {
    let (queued, device) = block.latencies()?;
    let requests = device.count();
    Some(json!({
        "requests": requests,
        "dropped": block.dropped,
        "queued_ns": latency(&queued),
        "device_ns": latency(&device),
        "rest_mean_ns": rest_mean_ns(result, block),
        "probes_ns_per_request": (requests > 0).then(|| block.probes_ns as f64 / requests as f64),
    }))
}
