//! How the ladder is measured: its options, and the jobs of its rungs.

use crate::measure::time_ns;
use anyhow::{Result, ensure};
use forebay_bench::experiment::{Ladder, Pass, Rung, of_round};
use forebay_bench::job::model::{End, Job, Mix};
use forebay_bench::job::validate::MAX_TIME_NS;
use forebay_bench::stats::Confidence;
use forebay_bench::stats::compare::DIFFERENCE;
use forebay_block::OpKind;

/// Default number of rounds.
const ROUNDS: u32 = 5;
/// Run time in nanoseconds on real targets, and in virtual time.
const RUN_NS: u64 = 5_000_000_000;
const VIRTUAL_RUN_NS: u64 = 2_000_000_000;
/// Maximum run time of the check of a rung.
const LOOK_NS: u64 = 200_000_000;
/// Maximum warm-up: frequencies need some milliseconds to settle.
const WARMUP_NS: u64 = 500_000_000;

/// How the ladder is climbed.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Ladder")]
pub struct LadderOptions {
    /// What to measure with each setting: a path or a URI; with model: the steps are the hosts of the guide's ladder
    #[arg(long, value_name = "URI", requires = "ladder")]
    pub target: Option<String>,
    /// Number of rounds, each with every setting (default: 5)
    #[arg(long, value_name = "N", requires = "ladder")]
    pub rounds: Option<u32>,
    /// Time of each run (default: 5s, in virtual time 2s)
    #[arg(long, value_name = "TIME", requires = "ladder")]
    pub runtime: Option<String>,
    /// Seed of the order of settings, and of places
    #[arg(long, value_name = "N", requires = "ladder")]
    pub seed: Option<u64>,
    /// Allow overwriting data on the target, and measure writes too
    #[arg(long, requires = "ladder")]
    pub destroy_data: bool,
}

impl LadderOptions {
    /// Run time in nanoseconds.
    fn run_ns(&self, usual_ns: u64) -> Result<u64> {
        let Some(text) = self.runtime.as_deref() else { return Ok(usual_ns) };
        let ns = time_ns("--runtime", text)?;
        ensure!((1..=MAX_TIME_NS).contains(&ns), "--runtime {text}: from 1 ns to a year of 366 days");
        Ok(ns)
    }

    /// A ladder with these rungs.
    pub(super) fn ladder(&self, rungs: Vec<Rung>, conditions: Vec<String>, notes: Vec<String>) -> Ladder {
        Ladder {
            rungs,
            rounds: self.rounds.unwrap_or(ROUNDS),
            confidence: Confidence::P95,
            difference: DIFFERENCE,
            seed: self.seed.unwrap_or(1),
            conditions,
            notes,
        }
    }

    /// The guide's two loads: reads at QD1, and writes at QD16 from 4 workers.
    ///
    /// # Errors
    /// A `--runtime` that is not a time.
    pub(super) fn jobs(&self, is_virtual: bool) -> Result<[Job; 2]> {
        let run_ns = self.run_ns(if is_virtual { VIRTUAL_RUN_NS } else { RUN_NS })?;
        let job = |name: &str, kind, (threads, depth)| Job {
            name: name.to_owned(),
            threads,
            depth,
            mix: Mix::only(kind),
            end: End { after_ns: Some(run_ns), ..End::default() },
            warmup_ns: WARMUP_NS.min(run_ns / 5),
            seed: self.seed.unwrap_or(1),
            ..Job::default()
        };
        Ok([job("4 KiB random read QD1", OpKind::Read, (1, 1)), job("4 KiB random write QD16", OpKind::Write, (4, 4))])
    }
}

/// The job of a pass: each round has its own addresses, the same on all rungs.
pub(super) fn of_pass(job: &Job, pass: Pass) -> Job {
    match pass {
        Pass::Look => {
            let look_ns = job.end.after_ns.map(|ns| ns.min(LOOK_NS));
            Job { end: End { after_ns: look_ns, ..job.end }, warmup_ns: 0, ..job.clone() }
        }
        Pass::Round(round) => of_round(job, round),
    }
}
