//! The status as JSON.

use super::ublk::BlockDevices;
use crate::config::LogLimits;
use crate::pool::{
    Left, PoolBackend, Watched, WatchedOne, base, capacity, classes, fast, lifetimes, read_cache, scrub, stays,
};
use forebay_device::KindCounts;
use forebay_export::{Listen, ServerControl};
use forebay_volume::Engine;
use forebay_volume::engine::{Counters, LatencyHistogram, RequestCounts, RequestKind, TierStatus};
use forebay_volume::layout::format_id;
use forebay_volume::layout::superblock::Superblock;
use forebay_volume::recovery::RecoveryReport;
use forebay_volume::recovery::lost::{BlockRanges, DiskReport};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Bytes of a disk that one leaf of the map covers (docs/format.md).
const LEAF_BYTES: u64 = 400 * 4096;
/// Range of the latency histogram: powers of two of nanoseconds, from 4 us to 17 s.
const LATENCY_POWERS: RangeInclusive<u32> = 12..=34;

/// Facts for the status that change only by SIGHUP, or not at all, while the server runs.
pub struct Fixed {
    /// The superblock, which identifies the pool.
    pub superblock: Superblock,
    /// What recovery found and did.
    pub recovery: RecoveryReport,
    /// Duration of the recovery.
    pub recovery_time: Duration,
    /// All addresses at which the server listens for NBD.
    pub addresses: Vec<Listen>,
    /// Addresses configured for a particular export, with the export's name.
    pub own_addresses: Vec<(String, Listen)>,
    /// Vhost sockets of exports, with the export's name.
    pub machine_uris: Vec<(String, String)>,
    /// The configured memory limit, in bytes.
    pub memory_limit_bytes: u64,
    /// Start of the server on the monotonic clock, in nanoseconds.
    pub started_ns: u64,
    /// What is left of the pool, where it is not complete.
    pub left: Option<Left>,
    /// Whether the pool was opened for service, not just for reading.
    pub is_for_service: bool,
    /// Thresholds from which on the pool counts as nearly full and full; SIGHUP changes them.
    pub limits: LogLimits,
    /// Statistics of each device.
    pub watched: Watched,
    /// Address at which metrics are served; `None` where they are off.
    pub metrics: Option<SocketAddr>,
}

impl Fixed {
    /// Mark of a pool whose usable space is filled to this share; `None` below the thresholds.
    fn fill_mark(&self, fill: f64) -> Option<&'static str> {
        match fill {
            _ if fill >= self.limits.full => Some("FULL"),
            _ if fill >= self.limits.nearly_full => Some("NEARLY FULL"),
            _ => None,
        }
    }
}

/// Requests and errors of a device since the start.
fn device(device: &WatchedOne<'_>) -> Value {
    let counts = device.counts.now();
    let kind = |kind: KindCounts| json!({ "requests": kind.requests, "bytes": kind.bytes, "busy_ns": kind.busy_ns });
    json!({
        "name": device.name,
        "member_of": device.member_of,
        "overwritten": device.overwritten,
        "reads": kind(counts.reads),
        "writes": kind(counts.writes),
        "flushes": kind(counts.flushes),
        "discards": kind(counts.discards),
        "errors": counts.errors,
        "last_error": counts.last_error.as_ref().map(ToString::to_string),
        "write_failed_seconds_ago": counts.last_failed_write.map(|when| when.elapsed().as_secs()),
        "in_flight": counts.depth,
        "unanswered_ns": counts.unanswered.map(|age| age.as_nanos() as u64),
    })
}

/// Background work that is in progress at this moment.
fn activity(engine: &Engine) -> Value {
    let activity = engine.activity();
    json!({
        "destage": activity.destage,
        "garbage_collection": activity.collection,
        "checkpoint": activity.checkpoint,
        "scrub": activity.scrub,
    })
}

/// What is left of an incomplete pool.
fn left(left: &Left) -> Value {
    let ranges = |ranges: &BlockRanges| {
        let listed = ranges
            .listed
            .iter()
            .map(|(first, blocks)| json!({ "offset_bytes": first * 4096, "len_bytes": blocks * 4096 }));
        json!({ "blocks": ranges.blocks, "ranges": ranges.ranges, "listed": listed.collect::<Vec<_>>() })
    };
    let disk = |disk: &DiskReport| {
        json!({
            "name": disk.name,
            "readable_blocks": disk.readable_blocks,
            "later_blocks": disk.later_blocks,
            "gone": ranges(&disk.gone),
            "maybe_older": ranges(&disk.maybe_older),
        })
    };
    json!({ "label": left.label, "disks": left.disks.iter().map(disk).collect::<Vec<_>>() })
}

/// The whole status at this moment.
pub fn snapshot(
    fixed: &Fixed,
    backend: &PoolBackend,
    server: &mut ServerControl<'_>,
    block_devices: &BlockDevices,
    now_ns: u64,
) -> Value {
    let engine = &backend.pool.engine;
    let status = engine.status();
    let counters = &status.counters;
    let (of_capacity, devices) = (counters.capacity_mended_blocks, &backend.pool.devices);
    let recovery = &fixed.recovery;
    let stats = server.stats();
    let live_bytes = status.fast.live_bytes + status.capacity.live_bytes;
    let fill = live_bytes as f64 / engine.usable_bytes().max(1) as f64;
    let kinds = RequestKind::ALL.map(|kind| latency_of_kind(kind, counters.latency_ns.of(kind)));
    json!({
        "pool": {
            "name": fixed.superblock.name,
            "id": format_id(&fixed.superblock.pool),
            "epoch": status.epoch,
            "generation": fixed.superblock.generation,
            "band_bytes": fixed.superblock.band_bytes,
            "read_only": status.read_only.is_some(),
            "read_only_reason": status.read_only,
            "flush_failed": status.flush_failed,
            "fill": fill,
            "fill_mark": fixed.fill_mark(fill),
            "usable_bytes": engine.usable_bytes(),
            "promised_bytes": engine.promised_bytes(),
            "devices": backend.pool.devices.own().iter().map(|device| device.name()).collect::<Vec<_>>(),
        },
        "uptime_seconds": now_ns.saturating_sub(fixed.started_ns) as f64 / 1e9,
        "tiers": [tier("fast", &status.fast), tier("capacity", &status.capacity)],
        "devices": fixed.watched.all(&backend.pool.devices).iter().map(device).collect::<Vec<_>>(),
        "mirror": devices.mirror().map(|view| with_mended(fast::json(view), counters.mended_blocks - of_capacity)),
        "parity": devices.array().map(|view| with_mended(capacity::json(view), of_capacity)),
        "bands": { "free": status.free_bands, "total": status.bands },
        "activity": activity(engine),
        "classes": classes::list(engine.prism().table().classes(), &status.classes),
        "stays": stays::json(engine),
        "lifetimes": lifetimes::json(engine),
        "scrub": scrub::json(engine),
        "read_cache": read_cache::json(engine),
        "wear": stays::wear(engine, now_ns.saturating_sub(fixed.started_ns) as f64 / 1e9),
        "disks": disks(backend),
        "exports": exports(fixed, backend, server, block_devices),
        "server": {
            "connections": stats.connections,
            "in_flight": stats.in_flight,
            "accepted": stats.accepted,
            "refused": stats.refused,
            "protocol_errors": stats.protocol_errors,
        },
        "recovery": {
            "clean": recovery.clean,
            "read_bytes": recovery.read_bytes,
            "seconds": fixed.recovery_time.as_secs_f64(),
            "batches": recovery.batches,
            "holes": recovery.holes,
            "records": recovery.records,
            "dropped_blocks": recovery.dropped_blocks,
            "leaves": recovery.leaves,
            "damaged_leaves": recovery.damaged_leaves,
            "epoch": recovery.epoch,
        },
        "left": fixed.left.as_ref().map(left),
        "memory": {
            "limit_bytes": fixed.memory_limit_bytes,
            "resident_bytes": resident_bytes(),
            "leaves_resident": status.leaves_resident,
            "leaves_limit": status.leaves_limit,
        },
        "journal": { "used_bytes": status.journal_used_bytes, "len_bytes": status.journal_len_bytes },
        "checkpoint": status.checkpoint,
        "capacity_checkpoint": status.capacity_checkpoint,
        "capacity_checkpoint_error": status.capacity_checkpoint_error,
        "evidence": backend.evidence.describe(),
        "requests_in_flight": status.in_flight,
        "latency_ns": latency(&counters.latency_ns.all()),
        "latency_by_kind": kinds,
        "metrics": fixed.metrics.map(|address| address.to_string()),
        "counters": counters_json(counters),
    })
}

/// Count and quantiles of latencies, in nanoseconds.
fn latency(histogram: &LatencyHistogram) -> Value {
    json!({
        "count": histogram.count(),
        "p50": histogram.quantile_ns(0.5),
        "p90": histogram.quantile_ns(0.9),
        "p99": histogram.quantile_ns(0.99),
        "p999": histogram.quantile_ns(0.999),
    })
}

/// As [`latency`], with sum and buckets for a histogram. Each bucket counts the latencies from the previous bound up
/// to its own.
fn latency_of_kind(kind: RequestKind, histogram: &LatencyHistogram) -> Value {
    let mut value = latency(histogram);
    value["kind"] = kind.name().into();
    value["sum_ns"] = histogram.sum_ns().into();
    let counts = histogram.octaves(LATENCY_POWERS).map(|(below_ns, count)| json!([below_ns, count]));
    value["below_ns"] = counts.collect();
    value
}

/// Adds the blocks repaired after wrong checksums (`wrong_blocks`) to those that the tier has repaired after failed
/// reads.
fn with_mended(mut tier: Value, wrong_blocks: u64) -> Value {
    let reread_blocks = tier["mended_blocks"].as_u64().unwrap_or(0);
    tier["reread_blocks"] = reread_blocks.into();
    tier["mended_blocks"] = (reread_blocks + wrong_blocks).into();
    tier
}

/// Counters of the engine since the start.
fn counters_json(counters: &Counters) -> Value {
    json!({
        "map_misses": counters.map_misses,
        "damaged_pages": counters.damaged_pages,
        "damaged_reads": counters.damaged_reads,
        "lost_reads": counters.lost_reads,
        "ahead_read_bytes": counters.ahead_read_bytes,
        "ahead_used_bytes": counters.ahead_used_bytes,
        "damaged_moves": counters.damaged_moves,
        "mended_blocks": counters.mended_blocks,
        "unfit_bands": counters.unfit_bands,
        "request_errors": counters.request_errors,
        "stalls": counters.stalls,
        "spilled_blocks": counters.spilled_blocks,
        "reclass_refused_blocks": counters.reclass_refused_blocks,
        "journal_bytes": counters.journal_bytes,
        "map_bytes": counters.map_bytes,
        "capacity_side_bytes": counters.capacity_side_bytes,
        "flushes": counters.flushes,
        "flush_errors": counters.flush_errors,
        "last_flush_error": counters.last_flush_error,
        "flushes_made_good": counters.flushes_made_good,
        "flush_lost_blocks": counters.flush_lost_blocks,
        "checkpoints": counters.checkpoints,
        "checkpoint_errors": counters.checkpoint_errors,
        "last_checkpoint_error": counters.last_checkpoint_error,
        "summary_errors": counters.summary_errors,
        "trim_errors": counters.trim_errors,
        "migration_errors": counters.migration_errors,
    })
}

fn tier(name: &str, tier: &TierStatus) -> Value {
    json!({
        "name": name,
        "total_bytes": tier.total_bytes,
        "used_bytes": tier.used_bytes,
        "live_bytes": tier.live_bytes,
    })
}

/// Names, sizes, base and requests of all disks.
pub fn disks(backend: &PoolBackend) -> Value {
    let each = backend.pool.engine.disks().map(|disk| {
        let counts = backend.pool.engine.requests_of(disk.id);
        let kind = |kind| requests(&counts, kind);
        json!({
            "id": disk.id.0,
            "name": disk.name,
            "size_bytes": disk.size_bytes,
            // Counts whole leaves of the map that exist: how much each of them maps is known only for leaves in
            // memory.
            "mapped_bytes_max": (disk.leaves() * LEAF_BYTES).min(disk.size_bytes),
            "base": base::json(&backend.pool.engine, disk.id),
            "reads": kind(RequestKind::Read),
            "writes": kind(RequestKind::Write),
            "flushes": kind(RequestKind::Flush),
            "discards": kind(RequestKind::Discard),
        })
    });
    Value::Array(each.collect())
}

/// Requests of one kind.
fn requests(counts: &RequestCounts, kind: RequestKind) -> Value {
    let (requests, bytes) = counts.of(kind);
    json!({ "requests": requests, "bytes": bytes })
}

fn exports(
    fixed: &Fixed,
    backend: &PoolBackend,
    server: &mut ServerControl<'_>,
    block_devices: &BlockDevices,
) -> Value {
    let indices: Vec<u16> = server.exports().iter().map(|(index, _)| index).collect();
    let clients: Vec<usize> = indices.into_iter().map(|index| server.clients(index).count()).collect();
    let each = server.exports().iter().zip(clients).map(|((index, export), connections)| {
        let counts = backend.asked(index);
        let kind = |kind| requests(&counts, kind);
        // Addresses configured for this export come before the others at which it can be reached, too.
        let is_own = |at: &&Listen| fixed.own_addresses.iter().any(|(name, own)| *name == export.name && own == *at);
        let (own, other): (Vec<&Listen>, Vec<&Listen>) = fixed.addresses.iter().partition(is_own);
        let machines = fixed.machine_uris.iter().filter(|(name, _)| *name == export.name).map(|(_, uri)| uri.clone());
        let device = block_devices.of(&export.name).and_then(|(device, _)| device);
        let by_nbd = own.into_iter().chain(other).filter_map(|address| address.uri_of(export));
        let uris: Vec<String> = device.into_iter().chain(machines).chain(by_nbd).collect();
        json!({
            "index": index,
            "name": export.name,
            "uri": uris.first(),
            "uris": uris,
            "disk": export.disk.0,
            "size_bytes": export.size_bytes,
            "read_only": export.read_only,
            "class": export.tag.map(|tag| tag.0),
            "connections": connections,
            "reads": kind(RequestKind::Read),
            "writes": kind(RequestKind::Write),
            "flushes": kind(RequestKind::Flush),
            "discards": kind(RequestKind::Discard),
        })
    });
    Value::Array(each.collect())
}

/// Resident memory of this process; `None` where /proc does not show it (proc(5), statm: the second number, in
/// pages).
fn resident_bytes() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split(' ').nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}
