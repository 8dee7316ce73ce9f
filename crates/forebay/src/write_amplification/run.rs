//! Runs every stream, band size and spare space through every policy.

use super::policies::{Policy, Setting};
use super::streams::{BUILT_IN, Stream};
use crate::parallel::in_parallel;
use crate::traces;
use anyhow::{Result, bail};
use forebay_placement::grouping::Kind;
use forebay_placement::victim::Choice;
use std::collections::BTreeMap;

/// Default band sizes in blocks: 64 blocks to 16 MiB.
const BANDS_BLOCKS: [u32; 4] = [64, 256, 1024, 4096];
/// Default spare space in percent of the whole space.
const SPARES_PERCENT: [u32; 3] = [10, 20, 30];
/// Minimum number of bands that a stream must fill: with fewer, the open bands would be most of the log.
const BANDS_MIN: usize = 16;

/// What to run.
pub struct Plan {
    /// Traces in addition to the built-in streams.
    pub traces: Vec<String>,
    /// Whether only the traces run.
    pub without_built_in: bool,
    /// Band sizes in bytes; empty uses the defaults.
    pub bands_bytes: Vec<u64>,
    /// Spare space in percent; empty uses the defaults.
    pub spares_percent: Vec<u32>,
}

/// A row: a stream with one band size and spare space.
#[derive(Clone, Debug)]
pub struct Row {
    pub stream: String,
    pub written_blocks: u64,
    pub blocks: usize,
    pub band_blocks: u32,
    pub spare_percent: u32,
    /// With SepBIT's choice of victims (section 4.1).
    pub published: BTreeMap<Policy, f64>,
    /// By cost and benefit as first published; the others' policies only.
    pub cost_benefit: BTreeMap<Policy, f64>,
    /// With our own victim choice: our policy, and SepBIT beside it.
    pub own: BTreeMap<Policy, f64>,
}

/// A published figure that predates this simulation.
pub struct Known {
    pub policy: Policy,
    pub choice: Choice,
    pub known: f64,
    pub ours: f64,
}

/// All rows, and the comparison with known figures.
pub struct Findings {
    pub rows: Vec<Row>,
    pub known: Vec<Known>,
    /// Streams and band sizes that were left out, with the reasons.
    pub left_out: Vec<String>,
}

/// Zipf 1.0 over 128k blocks written ten times, in bands of 1,024 blocks with 15 % spare space: greedy, and by cost and benefit
/// (models-and-placement.md).
const KNOWN: [(Policy, f64, f64); 5] = [
    (Policy::Blind(Kind::NoSep), 4.84, 4.83),
    (Policy::Blind(Kind::SepGc), 3.20, 2.66),
    (Policy::Blind(Kind::Dac), 3.60, 3.39),
    (Policy::SEPBIT, 2.72, 2.52),
    (Policy::Oracle, 2.10, 2.08),
];
const KNOWN_STREAM: &str = "zipf:?alpha=1";

/// Runs the plan on several threads.
///
/// # Errors
/// A trace cannot be read, a band size is impossible, or no stream fills any band size.
pub fn run(plan: &Plan, say: impl Fn(&str)) -> Result<Findings> {
    let bands = bands(plan)?;
    let spares = spares(plan)?;
    let built_in: &[&str] = if plan.without_built_in { &[] } else { &BUILT_IN };
    // What cannot be read is found before the others take minutes.
    plan.traces.iter().try_for_each(|trace| traces::read_blocks(trace, |_| false))?;
    let names = built_in.iter().map(|name| (*name).to_owned()).chain(plan.traces.iter().cloned());
    let mut found = Findings { rows: Vec::new(), known: Vec::new(), left_out: Vec::new() };
    for name in names {
        say(&name);
        let stream = Stream::read(&name)?;
        if name == KNOWN_STREAM {
            found.known = known(&stream);
        }
        let mut cells = Vec::new();
        for &band_blocks in &bands {
            if stream.blocks < BANDS_MIN * band_blocks as usize {
                found.left_out.push(format!(
                    "{}: {} blocks are fewer than {BANDS_MIN} bands of {band_blocks}",
                    stream.name, stream.blocks
                ));
                continue;
            }
            cells.extend(spares.iter().map(|&spare| (band_blocks, spare)));
        }
        found
            .rows
            .extend(in_parallel(&cells, |&(band_blocks, spare_percent)| row(&stream, band_blocks, spare_percent)));
    }
    if found.rows.is_empty() {
        let why = found.left_out.join("; ");
        bail!("nothing could be measured: {why}; choose smaller bands (--band 64KiB) or longer traces");
    }
    Ok(found)
}

fn bands(plan: &Plan) -> Result<Vec<u32>> {
    if plan.bands_bytes.is_empty() {
        return Ok(BANDS_BLOCKS.to_vec());
    }
    let blocks = |&bytes: &u64| match bytes / 4096 {
        blocks @ 8..=262_144 if bytes.is_multiple_of(4096) => Ok(blocks as u32),
        _ => bail!("--band {bytes}: whole blocks of 4 KiB, 32 KiB to 1 GiB"),
    };
    plan.bands_bytes.iter().map(blocks).collect()
}

fn spares(plan: &Plan) -> Result<Vec<u32>> {
    if plan.spares_percent.is_empty() {
        return Ok(SPARES_PERCENT.to_vec());
    }
    if let Some(percent) = plan.spares_percent.iter().find(|percent| !(1..=90).contains(*percent)) {
        bail!("--spare {percent}: 1 to 90 percent");
    }
    Ok(plan.spares_percent.clone())
}

fn row(stream: &Stream, band_blocks: u32, spare_percent: u32) -> Row {
    let of = |choice, policies: &[Policy]| {
        let setting = Setting { band_blocks, spare: f64::from(spare_percent) / 100.0, choice };
        policies.iter().map(|&policy| (policy, policy.run(setting, stream).amplification())).collect()
    };
    Row {
        stream: stream.name.clone(),
        written_blocks: stream.written_blocks,
        blocks: stream.blocks,
        band_blocks,
        spare_percent,
        published: of(Choice::CostBenefitRoot, &Policy::all()),
        cost_benefit: of(Choice::CostBenefit, &Policy::OTHERS),
        own: of(Choice::CostBenefitCapped, &[Policy::SEPBIT, Policy::OURS]),
    }
}

fn known(stream: &Stream) -> Vec<Known> {
    let each = |&(policy, greedy, cost_benefit): &(Policy, f64, f64)| {
        [(Choice::Greedy, greedy), (Choice::CostBenefitRoot, cost_benefit)].map(|(choice, known)| {
            let setting = Setting { band_blocks: 1024, spare: 0.15, choice };
            Known { policy, choice, known, ours: policy.run(setting, stream).amplification() }
        })
    };
    KNOWN.iter().flat_map(each).collect()
}
