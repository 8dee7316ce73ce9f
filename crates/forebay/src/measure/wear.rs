//! Writes to modelled drives, and the life that follows from them: write amplification and life of a drive, and the writes that a pool's
//! hosts have until its first tier is worn.

use super::pool_intervals::PoolInterval;
use crate::output::{self, size};
use crate::status::classes_table;
use forebay_daemon::pool::{classes, lifetimes};
use forebay_device::Drive;
use forebay_model::endurance::{self, Effective, EnduranceError, Life, Limit, Tier};
use forebay_model::ssd::Counters;
use forebay_prism::{ClassSpec, ClassStats};
use forebay_volume::Engine;
use serde_json::{Value, json};

/// Role of a drive in its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The target itself.
    Alone,
    /// The fast tier of a pool.
    Fast,
    /// A device of a pool's capacity tier.
    Capacity,
}

impl Role {
    fn name(self) -> &'static str {
        match self {
            Self::Alone => "drive",
            Self::Fast => "fast",
            Self::Capacity => "capacity",
        }
    }
}

/// Counters of a drive at one moment, or their change between two.
#[derive(Clone, Debug)]
pub struct DriveState {
    /// What it is.
    pub role: Role,
    /// Name as the user wrote it.
    pub name: String,
    /// Writes that it endures, where its preset rates them.
    pub life: Option<Life>,
    /// Its counters.
    pub counters: Counters,
}

impl DriveState {
    /// The present state of a drive of a pool.
    pub fn of(role: Role, drive: &Drive) -> Self {
        Self { role, name: drive.name.clone(), life: drive.life, counters: drive.counters() }
    }

    fn since(&self, before: &Self) -> Self {
        let (now, then) = (self.counters, before.counters);
        let counters = Counters {
            host_read_bytes: now.host_read_bytes - then.host_read_bytes,
            host_written_bytes: now.host_written_bytes - then.host_written_bytes,
            media_written_bytes: now.media_written_bytes - then.media_written_bytes,
            erases: now.erases - then.erases,
            // Counted over the drive's life.
            cycles_max: now.cycles_max,
        };
        Self { counters, ..self.clone() }
    }

    /// Write amplification for endurance: data in the drive's buffer counts as programmed, because it will be.
    fn waf(&self) -> f64 {
        self.counters.write_amplification().max(1.0)
    }
}

/// The drives below a target at one moment, or their change between two.
#[derive(Clone, Debug)]
pub struct Wear {
    /// The single drive, or the drives of a pool, fast tier first.
    pub drives: Vec<DriveState>,
    /// State of the pool above them.
    pub pool: Option<PoolState>,
}

/// Counters of a pool at one moment, or their change between two.
#[derive(Clone, Debug)]
pub struct PoolState {
    /// Contents of the fast tier at the (later) moment.
    fast: FastTier,
    /// Its classes, by their ids.
    specs: Vec<ClassSpec>,
    /// Figures of the classes; occupancy at the (later) moment.
    statistics: Vec<ClassStats>,
    /// Lifetime groups at the (later) moment, counted since the start of the pool.
    lifetimes: Value,
    /// Writes of each interval up to the moment, or between the two.
    intervals: Vec<PoolInterval>,
}

impl PoolState {
    /// The state of the engine, with the finished intervals.
    pub fn of(engine: &Engine, intervals: &[PoolInterval]) -> Self {
        let status = engine.status();
        let fast = FastTier {
            total_bytes: status.fast.total_bytes,
            used_bytes: status.fast.used_bytes,
            live_bytes: status.fast.live_bytes,
        };
        let (specs, lifetimes) = (engine.prism().table().classes().to_vec(), lifetimes::json(engine));
        Self { fast, specs, statistics: status.classes, lifetimes, intervals: intervals.to_vec() }
    }

    fn since(&self, before: &Self) -> Self {
        let then = before.statistics.iter().copied().chain(std::iter::repeat(ClassStats::default()));
        let statistics = self.statistics.iter().zip(then).map(|(now, then)| now.since(&then)).collect();
        let intervals = self.intervals.iter().skip(before.intervals.len()).copied().collect();
        Self { statistics, intervals, ..self.clone() }
    }

    /// Bytes that the hosts wrote.
    fn written_bytes(&self) -> u64 {
        self.statistics.iter().map(|class| class.host_written_bytes).sum()
    }
}

/// The fast tier of a pool at one moment: its space without journal and roots, and its use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FastTier {
    /// Bytes for data and map.
    pub total_bytes: u64,
    /// Bytes in use by data, map and space that is not yet free again.
    pub used_bytes: u64,
    /// Bytes of live host data.
    pub live_bytes: u64,
}

impl FastTier {
    fn json(self) -> Value {
        json!({
            "total_bytes": self.total_bytes,
            "used_bytes": self.used_bytes,
            "live_bytes": self.live_bytes,
        })
    }
}

impl Wear {
    /// The change since an earlier moment of the same target.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let drives = self.drives.iter().zip(&before.drives).map(|(now, then)| now.since(then)).collect();
        let pool = self.pool.as_ref().zip(before.pool.as_ref()).map(|(now, then)| now.since(then));
        Self { drives, pool }
    }

    /// All drives of a role as one tier; none where one of them is not rated.
    fn tier(&self, role: Role) -> Option<Tier> {
        let host_bytes = self.pool.as_ref().map(PoolState::written_bytes).filter(|bytes| *bytes > 0)? as f64;
        let (mut all, mut written, mut media) = (None::<Life>, 0, 0);
        for drive in self.drives.iter().filter(|drive| drive.role == role) {
            let life = drive.life?;
            let sum = all.map_or(life, |sum| Life {
                capacity_bytes: sum.capacity_bytes + life.capacity_bytes,
                media_bytes: sum.media_bytes + life.media_bytes,
                years: sum.years.min(life.years),
            });
            all = Some(sum);
            written += drive.counters.host_written_bytes;
            media += drive.counters.media_written_bytes;
        }
        let waf = if written == 0 { 1.0 } else { (media as f64 / written as f64).max(1.0) };
        Some(Tier { life: all?, share: written as f64 / host_bytes, waf })
    }

    /// Both tiers of a pool, and the endurance that follows from the tier that is worn first.
    fn endurance(&self) -> Option<(Tier, Tier, Result<Effective, EnduranceError>)> {
        let (fast, capacity) = (self.tier(Role::Fast)?, self.tier(Role::Capacity)?);
        Some((fast, capacity, endurance::pool(&fast, &capacity)))
    }

    /// The JSON of results.
    #[must_use]
    pub fn json(&self) -> Value {
        let drives: Vec<Value> = self.drives.iter().map(drive_json).collect();
        let pool = self.pool.as_ref().map(|pool| {
            // Unknown where nothing was written or a tier is not rated.
            let endurance = self.endurance();
            let effective = endurance.as_ref().and_then(|(_, _, effective)| effective.as_ref().ok());
            // JSON has no infinity: a pool whose tiers were not written gets null.
            let finite = |value: Option<f64>| value.filter(|value| value.is_finite());
            json!({
                "host_written_bytes": pool.written_bytes(),
                "fast_bytes_per_host_byte": endurance.as_ref().map(|(fast, _, _)| fast.share),
                "capacity_bytes_per_host_byte": endurance.as_ref().map(|(_, capacity, _)| capacity.share),
                "epbw_pb": finite(effective.map(|effective| effective.epbw)),
                "edpwd": finite(effective.map(|effective| effective.edpwd)),
                "worn_first": effective.map(|effective| limit(effective.limit)),
                "fast_tier": pool.fast.json(),
                "intervals": pool.intervals.iter().copied().map(PoolInterval::json).collect::<Vec<_>>(),
                "classes": classes::list(&pool.specs, &pool.statistics),
                "lifetimes": pool.lifetimes,
            })
        });
        json!({ "drives": drives, "pool": pool })
    }

    /// As text; `None` where nothing was read or written.
    #[must_use]
    pub fn table(&self) -> Option<String> {
        let is_used = |drive: &DriveState| drive.counters.host_read_bytes + drive.counters.host_written_bytes > 0;
        if !self.drives.iter().any(is_used) {
            return None;
        }
        let rows: Vec<Vec<String>> = self.drives.iter().map(row).collect();
        let head = ["MODEL", "AS", "READ", "WRITTEN", "TO MEDIA", "WAF", "ERASES", "PBW AT THAT", "DWPD"];
        let mut text = output::table(&head, 2, &rows);
        if let (Some(pool), Some((fast, capacity, Ok(effective)))) = (&self.pool, self.endurance()) {
            let end = if effective.epbw.is_finite() {
                format!(
                    "EPBW {:.3} PB, EDPWD {:.3} of the capacity tier; the {} tier is worn first",
                    effective.epbw,
                    effective.edpwd,
                    limit(effective.limit)
                )
            } else {
                "nothing wears its drives".to_owned()
            };
            text.push_str(&format!(
                "\npool: hosts wrote {}; for each byte of it {:.3} reached the fast and {:.3} the capacity tier: {end}",
                size(pool.written_bytes()),
                fast.share,
                capacity.share,
            ));
        }
        if let Some(pool) = self.pool.as_ref().filter(|pool| pool.written_bytes() > 0) {
            text.push_str(&format!("\n\n{}", classes_table(&classes::list(&pool.specs, &pool.statistics))));
        }
        Some(text)
    }
}

fn limit(limit: Limit) -> &'static str {
    match limit {
        Limit::Fast => "fast",
        Limit::Capacity => "capacity",
    }
}

fn drive_json(drive: &DriveState) -> Value {
    let counters = &drive.counters;
    let written = counters.host_written_bytes > 0;
    let life = drive.life.filter(|_| written);
    json!({
        "role": drive.role.name(),
        "target": drive.name,
        "host_read_bytes": counters.host_read_bytes,
        "host_written_bytes": counters.host_written_bytes,
        "media_written_bytes": counters.media_written_bytes,
        "write_amplification": written.then(|| counters.write_amplification()),
        "erases": counters.erases,
        "cycles_max": counters.cycles_max,
        "pbw_pb": life.and_then(|life| life.pbw(drive.waf()).ok()),
        "dwpd": life.and_then(|life| life.dwpd(drive.waf()).ok()),
    })
}

fn row(drive: &DriveState) -> Vec<String> {
    let counters = &drive.counters;
    let life = drive.life.filter(|_| counters.host_written_bytes > 0);
    let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"));
    vec![
        drive.name.clone(),
        drive.role.name().to_owned(),
        size(counters.host_read_bytes),
        size(counters.host_written_bytes),
        size(counters.media_written_bytes),
        number((counters.host_written_bytes > 0).then(|| counters.write_amplification())),
        counters.erases.to_string(),
        number(life.and_then(|life| life.pbw(drive.waf()).ok())),
        number(life.and_then(|life| life.dwpd(drive.waf()).ok())),
    ]
}
