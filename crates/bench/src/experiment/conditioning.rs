//! Bringing a target into a known state.

use super::region::resolve;
use super::text;
use crate::job::JobError;
use crate::job::model::{Calls, End, Extent, Job, Mix, Pattern, Region, SizeMix, Sizes};
use forebay_block::OpKind;
use std::fmt;
use std::str::FromStr;

/// Size of sequential conditioning writes (SNIA PTS 2.0.2, workload independent preconditioning).
const SEQUENTIAL_BYTES: u32 = 128 << 10;
/// Size of random conditioning writes.
const RANDOM_BYTES: u32 = 4096;
/// Size of trims in bytes; the rest of the region is trimmed by one smaller trim.
const TRIM_BYTES: u32 = 16 << 20;
/// Writes in flight.
const DEPTH: u32 = 32;
/// Trims in flight.
const TRIM_DEPTH: u32 = 4;
/// Most passes of one kind.
const PASSES_MAX: u32 = 1000;

/// A known state of a target, as stages that run in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conditioning {
    /// Trim the whole region first, if the target can trim.
    pub purge: bool,
    /// Passes of 128 KiB sequential writes over the filled part.
    pub sequential_passes: u32,
    /// Passes of 4 KiB random writes over the filled part; each pass writes each block once.
    pub random_passes: u32,
    /// Share of the region that is filled, from its beginning, in percent.
    pub fill_percent: u32,
}

impl Default for Conditioning {
    /// One sequential pass over everything.
    fn default() -> Self {
        Self { purge: false, sequential_passes: 1, random_passes: 0, fill_percent: 100 }
    }
}

/// A text that describes no conditioning.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{word:?} is no conditioning: write some of purge, sequential=PASSES, random=PASSES, fill=PERCENT with commas between, \
     e.g. purge,sequential=2; at most 1000 passes, 1 to 100 percent"
)]
pub struct ConditioningError {
    /// The part of the text that was not understood.
    pub word: String,
}

/// One stage: a job that runs alone.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// What it does, for people.
    pub what: String,
    /// The job.
    pub job: Job,
    /// Bytes of one pass.
    pub pass_bytes: u64,
}

impl Conditioning {
    /// The jobs that bring the region of `base`, on a target of `target_bytes`, into this state. Run them in order,
    /// each alone and to its end.
    ///
    /// # Errors
    /// The region does not lie on the target.
    pub fn stages(&self, base: &Job, target_bytes: u64) -> Result<Vec<Stage>, JobError> {
        Ok(self.stages_on(base, resolve(&base.region, target_bytes)?))
    }

    pub(super) fn stages_on(&self, base: &Job, (from, len): (u64, u64)) -> Vec<Stage> {
        let mut stages = Vec::new();
        if self.purge {
            let unit = u64::from(TRIM_BYTES).min(len);
            let body = len - len % unit;
            stages.push(trim(base, from, body, unit));
            if body < len {
                stages.push(trim(base, from + body, len - body, len - body));
            }
        }
        let filled = self.filled_bytes(len);
        if self.sequential_passes > 0 {
            let bytes = u64::from(SEQUENTIAL_BYTES).min(filled) as u32;
            let what = format!("{} of sequential {} writes", passes(self.sequential_passes), text::size(bytes.into()));
            let pattern = Pattern::Sequential { per_thread: false };
            stages.push(write(base, what, (from, filled), bytes, pattern, self.sequential_passes));
        }
        if self.random_passes > 0 {
            let bytes = u64::from(RANDOM_BYTES).min(filled) as u32;
            let what = format!("{} of random {} writes", passes(self.random_passes), text::size(bytes.into()));
            stages.push(write(base, what, (from, filled), bytes, Pattern::Shuffled, self.random_passes));
        }
        stages
    }

    /// Bytes of the filled part of a region.
    pub(super) fn filled_bytes(&self, region_bytes: u64) -> u64 {
        let share = (u128::from(region_bytes) * u128::from(self.fill_percent.min(100)) / 100) as u64;
        let unit = u64::from(SEQUENTIAL_BYTES);
        if share >= unit { share - share % unit } else { unit.min(region_bytes) }
    }
}

fn passes(count: u32) -> String {
    if count == 1 { "1 pass".to_owned() } else { format!("{count} passes") }
}

fn stage(base: &Job, name: &str, region: (u64, u64), kind: OpKind, bytes: u32) -> Job {
    let size = SizeMix::fixed(bytes);
    let depth = match base.access.calls {
        Calls::Sync { .. } => 1,
        _ if kind == OpKind::Trim => TRIM_DEPTH,
        _ => DEPTH,
    };
    Job {
        name: name.to_owned(),
        threads: 1,
        depth,
        mix: Mix::only(kind),
        sizes: Sizes { read: size.clone(), write: size.clone(), trim: size },
        region: Region { offset: Extent::Bytes(region.0), size: Extent::Bytes(region.1) },
        end: End { after_passes: Some(1.0), ..End::default() },
        arrival: crate::job::model::Arrival::Closed,
        think: None,
        burst: None,
        verify: false,
        warmup_ns: 0,
        cooldown_ns: 0,
        start_delay_ns: 0,
        ..base.clone()
    }
}

/// A stage that trims a part of the target in pieces of `unit` bytes.
pub(super) fn trim(base: &Job, from: u64, len: u64, unit: u64) -> Stage {
    // Trims move no data, so the buffers stay small.
    let mut job = stage(base, "purge", (from, len), OpKind::Trim, 4096);
    job.sizes.trim = SizeMix::fixed(unit.min(u64::from(TRIM_BYTES)) as u32);
    job.pattern = Pattern::Sequential { per_thread: false };
    Stage { what: format!("purge: trim of {}", text::size(len)), job, pass_bytes: len }
}

fn write(base: &Job, what: String, region: (u64, u64), bytes: u32, pattern: Pattern, passes: u32) -> Stage {
    let mut job = stage(base, "precondition", region, OpKind::Write, bytes);
    job.pattern = pattern;
    job.end.after_passes = Some(f64::from(passes));
    Stage { what, job, pass_bytes: region.1 }
}

impl fmt::Display for Conditioning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = Vec::new();
        if self.purge {
            words.push("purge".to_owned());
        }
        for (word, passes) in [("sequential", self.sequential_passes), ("random", self.random_passes)] {
            if passes > 0 {
                words.push(format!("{word}={passes}"));
            }
        }
        if self.fill_percent < 100 {
            words.push(format!("fill={}", self.fill_percent));
        }
        f.write_str(&words.join(","))
    }
}

impl FromStr for Conditioning {
    type Err = ConditioningError;

    /// Parses `purge,sequential=2,random=1,fill=90`: each part at most once, in any order. Parts that are not named are
    /// not done.
    fn from_str(text: &str) -> Result<Self, ConditioningError> {
        let mut found = Self { purge: false, sequential_passes: 0, random_passes: 0, fill_percent: 100 };
        let mut any = false;
        for word in text.split(',').map(str::trim) {
            let wrong = || ConditioningError { word: word.to_owned() };
            let number = |text: &str, most: u32| {
                text.parse().ok().filter(|number| (1..=most).contains(number)).ok_or_else(wrong)
            };
            match word.split_once('=') {
                None if word == "purge" => found.purge = true,
                Some(("sequential", count)) => found.sequential_passes = number(count, PASSES_MAX)?,
                Some(("random", count)) => found.random_passes = number(count, PASSES_MAX)?,
                Some(("fill", count)) => {
                    found.fill_percent = number(count, 100)?;
                    continue;
                }
                _ => return Err(wrong()),
            }
            any = true;
        }
        if any { Ok(found) } else { Err(ConditioningError { word: text.to_owned() }) }
    }
}
