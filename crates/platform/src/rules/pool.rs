//! A Forebay pool on its members: problems in its configuration.

use super::words::SYSFS_BLOCK;
use crate::finding::{Finding, Outcome, Severity};
use crate::lack::{Lack, Reading, shown};
use crate::settings::pool::{Member, MemberQueue, Pool};

/// A rule that judges a pool.
#[derive(Clone, Copy, Debug)]
pub struct PoolRule {
    /// Its name.
    pub name: &'static str,
    /// The function that judges.
    pub judge: fn(&Pool) -> Reading<Outcome>,
}

/// All rules about pools, in the order in which they are reported.
pub const POOL_RULES: &[PoolRule] = &[
    PoolRule { name: "pool-flushes", judge: flushes },
    PoolRule { name: "pool-band", judge: band },
    PoolRule { name: "pool-streams", judge: streams },
    PoolRule { name: "pool-map", judge: map },
    PoolRule { name: "pool-memory", judge: memory },
    PoolRule { name: "pool-evidence", judge: evidence },
];

const BOUNDS: &str = "docs/configuration.md, memory; docs/limits.md";
/// Most bytes of map and checksums for each block.
const MAP_BYTES_PER_BLOCK: f64 = 10.5;
const BLOCK_BYTES: f64 = 4096.0;
/// From this share on, the map leaves too little of the fast tier for data.
const MAP_SHARE_MAX: f64 = 0.25;
/// If memory holds less than this share of the map, most requests first read a part of the map.
const RESIDENT_SHARE_MIN: f64 = 0.1;

/// The kernel's settings of members that are block devices; others have no such settings.
fn queues(members: &[Member]) -> impl Iterator<Item = (&Member, &MemberQueue)> {
    members.iter().filter_map(|member| Some((member, member.queue.as_ref().ok()?)))
}

fn total_bytes(members: &[Member]) -> Reading<f64> {
    members.iter().map(|member| member.size_bytes.clone().map(|bytes| bytes as f64)).sum()
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn flushes(pool: &Pool) -> Reading<Outcome> {
    let mut known = 0;
    for (member, queue) in queues(&pool.fast) {
        known += 1;
        if queue.write_cache.clone()? != "write back" {
            continue;
        }
        return Ok(Outcome::found(Finding {
            severity: Severity::CostsLatency,
            what: format!("the fast device {} has a volatile write cache", shown(&member.target)),
            cost: "each fsync of a host waits until that cache is emptied. A drive that is protected against power loss has none \
                   to declare, and there a flush is nothing"
                .to_owned(),
            source: format!("{SYSFS_BLOCK} (write_cache)"),
            now: "nothing that is safe: \"write through\" in that file only stops the flushes, and what was acknowledged is lost"
                .to_owned(),
            for_good: "a fast device with power-loss protection".to_owned(),
            price: "such drives cost more".to_owned(),
        }));
    }
    if known == 0 {
        return Ok(Outcome::Unknown("the fast tier is no block device whose cache the kernel knows".to_owned()));
    }
    Ok(Outcome::good("the fast tier has no volatile write cache: a flush of it costs nothing"))
}

fn band(pool: &Pool) -> Reading<Outcome> {
    let mut known = 0;
    for (member, queue) in queues(&pool.capacity) {
        let Some(band_bytes) = member.band_bytes else {
            known += 1;
            continue;
        };
        let optimal_bytes = u64::try_from(queue.optimal_bytes.clone()?).unwrap_or(0);
        known += 1;
        if optimal_bytes == 0 || band_bytes.is_multiple_of(optimal_bytes) {
            continue;
        }
        return Ok(Outcome::found(Finding {
            severity: Severity::CostsThroughput,
            what: format!(
                "bands of {band_bytes} bytes on {} are no multiple of the {optimal_bytes} that it writes best",
                shown(&member.target)
            ),
            cost: "the end of each band is part of a unit of the drive's that is written again with the next band: it writes more than it \
                   is given"
                .to_owned(),
            source: format!("{SYSFS_BLOCK} (optimal_io_size)"),
            now: "nothing: create fixes the size of bands".to_owned(),
            for_good: "leave band out, or take a multiple, when the pool is made".to_owned(),
            price: "the pool is made anew".to_owned(),
        }));
    }
    if known == 0 {
        return Ok(Outcome::Unknown("no capacity device says how it is written best".to_owned()));
    }
    Ok(Outcome::good("bands fit what the capacity devices say"))
}

fn streams(pool: &Pool) -> Reading<Outcome> {
    let mut unused = Vec::new();
    let mut known = 0;
    for (member, queue) in queues(&pool.capacity) {
        known += 1;
        let zoned = match &queue.zoned {
            Err(Lack::Absent { .. }) => "none".to_owned(),
            other => other.clone()?,
        };
        if zoned != "none" {
            unused.push(format!("{} is {}", shown(&member.target), shown(&zoned)));
        } else if queue.write_streams.clone()? > 0 {
            unused.push(format!("{} has {} write streams", shown(&member.target), queue.write_streams.clone()?));
        }
    }
    if known == 0 {
        return Ok(Outcome::Unknown("no capacity device says whether it can keep data apart".to_owned()));
    }
    if unused.is_empty() {
        return Ok(Outcome::good("no capacity device offers zones or streams that would be left unused"));
    }
    Ok(Outcome::found(Finding {
        severity: Severity::Note,
        what: format!("zones or placement streams (FDP) are not used: {}", unused.join("; ")),
        cost: "bands that die together could share a unit of the drive's, which then moves nothing; without, the drive collects what it mixed"
            .to_owned(),
        source: format!("{SYSFS_BLOCK} (zoned, max_write_streams)"),
        now: "nothing: this version writes to no zones and no streams".to_owned(),
        for_good: "bands that are a multiple of the drive's own unit come near to it".to_owned(),
        price: "none".to_owned(),
    }))
}

fn map(pool: &Pool) -> Reading<Outcome> {
    let (capacity, fast) = (total_bytes(&pool.capacity)?, total_bytes(&pool.fast[..pool.fast.len().min(1)])?);
    if fast <= 0.0 {
        return Ok(Outcome::NotHere);
    }
    let share = (capacity + fast) / BLOCK_BYTES * MAP_BYTES_PER_BLOCK / fast;
    if share < MAP_SHARE_MAX {
        return Ok(Outcome::good(format!("the map of a full pool takes {} of the fast tier", percent(share))));
    }
    Ok(Outcome::found(Finding {
        severity: Severity::CostsThroughput,
        what: format!("the map of a full pool takes {} of the fast tier", percent(share)),
        cost:
            "what the map takes holds no data: less is overwritten on the fast tier before it goes to the capacity tier"
                .to_owned(),
        source: BOUNDS.to_owned(),
        now: "nothing".to_owned(),
        for_good: "a larger fast device; forebay size says from traces how large".to_owned(),
        price: "its price".to_owned(),
    }))
}

fn memory(pool: &Pool) -> Reading<Outcome> {
    let blocks = (total_bytes(&pool.capacity)? + total_bytes(&pool.fast[..pool.fast.len().min(1)])?) / BLOCK_BYTES;
    let share = pool.memory_limit_bytes as f64 / (blocks * MAP_BYTES_PER_BLOCK).max(1.0);
    if share >= 1.0 {
        return Ok(Outcome::good("the whole map of a full pool fits into memory.limit"));
    }
    let needed = blocks * MAP_BYTES_PER_BLOCK;
    Ok(Outcome::found(Finding {
        severity: if share < RESIDENT_SHARE_MIN { Severity::CostsLatency } else { Severity::Note },
        what: format!("{} of a full pool's map fit into memory.limit", percent(share)),
        cost: "a request whose part of the map is not in memory reads it from the fast tier first. What is used much stays: this \
               costs those that go all over a full pool"
            .to_owned(),
        source: BOUNDS.to_owned(),
        now: "status says how often parts of the map were read".to_owned(),
        for_good: format!("[memory] limit of up to {:.1} GiB", needed / f64::from(1 << 30)),
        price: "memory".to_owned(),
    }))
}

fn evidence(pool: &Pool) -> Reading<Outcome> {
    if pool.unanswered.is_empty() {
        return Ok(Outcome::good("all that rules of classes ask is known where the pool is served"));
    }
    let asked: Vec<String> = pool.unanswered.iter().map(|(class, condition)| format!("{class}: {condition}")).collect();
    Ok(Outcome::found(Finding {
        severity: Severity::CostsThroughput,
        what: format!("rules ask what cannot be known without [[evidence]]: {}", shown(&asked.join("; "))),
        cost: "they match nothing: the classes get only what behaviour shows, and data lies where it was not meant to"
            .to_owned(),
        source: "docs/classes-and-rules.md".to_owned(),
        now: "forebay evidence attach, where the disk is used on this machine".to_owned(),
        for_good: "[[evidence]] with device and mount in the configuration".to_owned(),
        price: "the kernel reports each write of that device (eBPF), and files are mapped".to_owned(),
    }))
}
