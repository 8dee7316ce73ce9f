//! How much of a target a check has written. A drive that has not been written once still has a cache or spare space to use up, so its
//! speed until then says little about its sustained speed.

use super::words;
use crate::job::model::{Job, Pattern};
use crate::run::JobResult;
use forebay_block::OpKind;

/// Share of a region that must be written. Random writes hit some blocks twice and others never, so it takes writes of three times the
/// region's size to cover 95 %.
const COVERED_MIN: f64 = 0.95;
/// Random writes, as a multiple of the region's size, that must be made before random writes are decided: sequential writes leave no
/// invalid blocks that the drive would have to collect.
const RANDOM_TURNS_MIN: f64 = 0.95;

/// A part of the target, up to the beginning of the next part.
#[derive(Clone, Copy, Debug)]
struct Part {
    begin: u64,
    /// Share that has not been written yet.
    unwritten: f64,
    /// Bytes written at random places, as a multiple of the part's size.
    random_turns: f64,
}

/// Lower bounds of what a run wrote of its region.
#[derive(Clone, Copy, Debug, Default)]
struct Covered {
    /// Share that was written sequentially, from the region's beginning on.
    in_order: f64,
    /// Share that was written independently of what other runs wrote.
    anywhere: f64,
    /// Bytes written at random places, as a multiple of the region's size.
    random_turns: f64,
}

impl Covered {
    /// The effect of writes of `turns` times the region's size. Patterns that prefer some places count as nothing.
    fn by(pattern: &Pattern, turns: f64, threads: u32) -> Self {
        let by_chance = |turns: f64| Self { anywhere: 1.0 - (-turns).exp(), random_turns: turns, ..Self::default() };
        match pattern {
            Pattern::Sequential { per_thread } => {
                let walks = if *per_thread { 1 } else { threads.max(1) };
                Self { in_order: (turns / f64::from(walks)).min(1.0), ..Self::default() }
            }
            // With several threads, each has an order of its own, which is no better than random.
            Pattern::Shuffled if threads == 1 => Self { anywhere: turns.min(1.0), ..by_chance(turns) },
            Pattern::Shuffled | Pattern::Random { .. } => by_chance(turns),
            Pattern::MixedSequential { random_percent } => by_chance(turns * f64::from(*random_percent) / 100.0),
            _ => Self::default(),
        }
    }
}

/// What was written so far.
#[derive(Clone, Debug)]
pub(super) struct Written {
    /// The parts in order; the first begins at offset 0.
    parts: Vec<Part>,
}

impl Default for Written {
    fn default() -> Self {
        Self { parts: vec![Part { begin: 0, unwritten: 1.0, random_turns: 0.0 }] }
    }
}

impl Written {
    /// Makes a part begin at `at`; returns its index.
    fn split(&mut self, at: u64) -> usize {
        let next = self.parts.partition_point(|part| part.begin < at);
        if self.parts.get(next).is_none_or(|part| part.begin != at) {
            let before = self.parts[next.saturating_sub(1)];
            self.parts.insert(next, Part { begin: at, ..before });
        }
        next
    }

    /// Adds what a run wrote and trimmed.
    pub fn add(&mut self, result: &JobResult) {
        let Ok((from, len)) = result.job.region.resolve(result.target_bytes, 1) else { return };
        let turns = |bytes: u64| bytes as f64 / len.max(1) as f64;
        let written = turns(bytes_of(result, is_write));
        let trimmed = turns(bytes_of(result, |kind| kind == OpKind::Trim));
        let covered = Covered::by(result.job.pattern.of(OpKind::Write), written, result.job.threads);
        self.cover((from, len), covered, trimmed);
    }

    /// Marks a region as covered; `trimmed` is the multiple of its size that was trimmed.
    fn cover(&mut self, (from, len): (u64, u64), covered: Covered, trimmed: f64) {
        let (first, end) = (self.split(from), self.split(from + len));
        for part in &mut self.parts[first..end] {
            part.unwritten += (1.0 - part.unwritten) * trimmed.min(1.0);
            // A sequential run begins where the last one began, so it may have written the same part once more.
            part.unwritten = (part.unwritten * (1.0 - covered.anywhere)).min(1.0 - covered.in_order);
            part.random_turns += covered.random_turns;
        }
    }

    /// For the job's region: the share that was written, and the multiple of its size that was written at random places.
    fn of(&self, job: &Job, target_bytes: u64) -> Option<(f64, f64)> {
        let (from, len) = job.region.resolve(target_bytes, 1).ok()?;
        let mut parts = self.clone();
        let (first, end) = (parts.split(from), parts.split(from + len));
        let (mut written, mut random) = (0.0, 0.0);
        for pair in parts.parts[first..=end].windows(2) {
            let share = (pair[1].begin - pair[0].begin) as f64 / len.max(1) as f64;
            written += share * (1.0 - pair[0].unwritten);
            random += share * pair[0].random_turns;
        }
        Some((written, random))
    }

    /// Share of the job's region that was written; `None` if the job does not write, or its region is not on the target.
    pub fn share(&self, job: &Job, target_bytes: u64) -> Option<f64> {
        let writes = job.mix.kinds().any(is_write);
        self.of(job, target_bytes).filter(|_| writes).map(|(share, _)| share)
    }

    /// Why the job may still slow down: it writes, and its region has not been written once, or not at random places although it writes
    /// there. `None` if there is no such reason.
    pub fn lacks(&self, result: &JobResult) -> Option<String> {
        let (job, target_bytes) = (&result.job, result.target_bytes);
        let share = self.share(job, target_bytes)?;
        let (_, random_turns) = self.of(job, target_bytes)?;
        let is_random = !matches!(job.pattern.of(OpKind::Write), Pattern::Sequential { .. });
        let what = if share < COVERED_MIN {
            format!("{:.1} % had been written by this check", share * 100.0)
        } else if is_random && random_turns < RANDOM_TURNS_MIN {
            format!("{:.1} % had been written at random places by this check", random_turns * 100.0)
        } else {
            return None;
        };
        let (_, len) = job.region.resolve(target_bytes, 1).ok()?;
        let place = if len == target_bytes { "a target" } else { "a region" };
        Some(format!(
            "of the first {} s, {} GB of {place} of {} GB, of which {what}: a cache or spare space may be yet to end",
            words::seconds(result.duration_ns),
            words::gigabytes(bytes_of(result, is_write)),
            words::gigabytes(len)
        ))
    }
}

fn is_write(kind: OpKind) -> bool {
    matches!(kind, OpKind::Write | OpKind::WriteFua)
}

fn bytes_of(result: &JobResult, wanted: impl Fn(OpKind) -> bool) -> u64 {
    result.kinds.iter().filter(|found| wanted(found.kind)).map(|found| found.rated_bytes()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sequential runs were counted as if each wrote independent places, and preferred places as if all were equally likely.
    #[test]
    fn regression_what_is_written_is_no_more_than_it_was() {
        let sequential = Pattern::Sequential { per_thread: true };
        let by = |pattern: &Pattern, turns, threads| Covered::by(pattern, turns, threads);
        assert_eq!(by(&sequential, 0.8, 4).in_order, 0.8);
        assert_eq!(by(&Pattern::Sequential { per_thread: false }, 0.8, 4).in_order, 0.2);
        assert_eq!(by(&Pattern::Shuffled, 0.8, 1).anywhere, 0.8);
        assert!(by(&Pattern::Shuffled, 1.0, 4).anywhere < 0.7);
        assert!(by(&Pattern::MixedSequential { random_percent: 1 }, 3.0, 1).random_turns < 0.1);
        for pattern in [Pattern::Zipf { theta: 1.1 }, Pattern::Strided { stride_bytes: 8192 }] {
            assert_eq!(by(&pattern, 9.0, 1).anywhere, 0.0);
        }
        let mut written = Written::default();
        let mut unwritten_after = |covered, trimmed| {
            written.cover((0, 1000), covered, trimmed);
            written.parts[0].unwritten
        };
        assert!((unwritten_after(by(&sequential, 0.8, 1), 0.0) - 0.2).abs() < 1e-9);
        assert!((unwritten_after(by(&sequential, 0.8, 1), 0.0) - 0.2).abs() < 1e-9, "the same once more");
        assert!((unwritten_after(by(&Pattern::Shuffled, 0.5, 1), 0.0) - 0.1).abs() < 1e-9);
        assert_eq!(unwritten_after(by(&sequential, 1.0, 1), 0.0), 0.0);
        assert_eq!(unwritten_after(Covered::default(), 0.5), 0.5);
    }
}
