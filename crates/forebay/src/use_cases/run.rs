//! Runs a use case: the same stream on the capacity drive alone, on a TLC drive alone, and on a pool with different levels of evidence. The
//! seeds determine all of it.

use super::published::{Class, UseCase};
use crate::measure::{Session, SessionOptions, prepare_generated};
use crate::output;
use crate::traces;
use anyhow::{Context, Result, bail};
use forebay_bench::job::toml_file;
use forebay_bench::output::summary::{self, Reporting};
use forebay_bench::run::{JobResult, KindResult};
use forebay_bench::stats::percentile::Level;
use forebay_block::OpKind;
use forebay_trace::analysis::{Analysis, Options, Row};
use forebay_trace::format::parquet::Wanted;
use serde_json::Value;
use std::collections::BTreeMap;

/// Memory limit of the analysis in bytes: at the allowed scales it needs no sampling.
const ANALYSIS_BYTES: u64 = 1 << 30;
/// Size of the pool's volume as a share of the capacity tier.
const DISK_SHARE: f64 = 0.8;
const MIB: f64 = (1 << 20) as f64;
/// Percentiles and their names in the figures.
const PERCENTILES: [(&str, &str); 5] =
    [("p50", "50"), ("p75", "75"), ("p99", "99"), ("p99_9", "99.9"), ("p99_99", "99.99")];

/// The set-ups in table order: drives alone; the pool with the published classifier, with the application's hints, without evidence, and
/// without evidence over the application's uncompressed data with compression on.
const SETTINGS: [Setting; 6] = [
    setting("qlc", "QLC", "the capacity drive alone"),
    setting("tlc", "TLC", "the TLC drive alone"),
    setting("rules", "RULES", "both tiers, the published classifier"),
    setting("hints", "HINTS", "both tiers, the application's hints"),
    setting("none", "NOTHING", "both tiers, no evidence"),
    setting("lz4", "LZ4", "both tiers, no evidence, compressible data, compressed on the capacity tier"),
];

/// A set-up.
#[derive(Debug)]
pub struct Setting {
    /// Name in JSON results.
    pub name: &'static str,
    /// Column heading.
    pub head: &'static str,
    pub about: &'static str,
}

const fn setting(name: &'static str, head: &'static str, about: &'static str) -> Setting {
    Setting { name, head, about }
}

/// Classes that are compressed on the capacity tier: all classes that may leave the fast tier.
const COMPRESSED: &str = "[[class]]\nname = \"cold\"\nplace = \"stage\"\ncompress = \"lz4\"\n[[class]]\nname = \"temp\"\nplace = \"stage\"\ncompress = \"lz4\"\n\
                          [[class]]\nname = \"hot\"\nplace = \"stage\"\ncompress = \"lz4\"\n";

/// What to run.
pub struct Plan {
    pub case: &'static UseCase,
    /// Scale of all sizes; 1 is the published run.
    pub scale: f64,
    /// Size of the fast tier in bytes.
    pub fast_bytes: u64,
    /// Number of seeds; each set-up runs once per seed.
    pub seeds: u32,
}

/// Figures of one run by name; unknown figures are absent.
pub type Figures = BTreeMap<String, f64>;

/// A class of the PRISM table, in GB at scale 1.
#[derive(Clone, Debug)]
pub struct Through {
    pub occupancy_gb: f64,
    pub written_gb: f64,
    pub alpha: Option<f64>,
    pub beta: Option<f64>,
}

/// Results of one seed.
pub struct OfSeed {
    pub seed: u64,
    pub workload: Vec<Through>,
    /// Figures by set-up, named as in [`UseCase::settings`].
    pub settings: BTreeMap<&'static str, Figures>,
    /// The pool's classes, by set-up.
    pub classes: BTreeMap<&'static str, Value>,
}

/// Results of all seeds.
pub struct Findings {
    pub plan: Plan,
    pub seeds: Vec<OfSeed>,
}

/// A size at a scale, in whole MiB.
fn mib(bytes: f64, scale: f64) -> u64 {
    (bytes * scale / MIB).round() as u64
}

impl UseCase {
    /// The set-ups that run.
    pub fn settings(&self) -> &'static [Setting] {
        // The last set-up needs compressible data.
        &SETTINGS[..SETTINGS.len() - usize::from(self.compressible_percent.is_none())]
    }
}

impl Plan {
    /// A drive's size at this scale, in whole MiB.
    fn mib(&self, bytes: f64) -> u64 {
        mib(bytes, self.scale)
    }

    /// Size of the published fast tier at this scale, in bytes.
    pub fn published_fast_bytes(case: &UseCase, scale: f64) -> u64 {
        mib(case.fast.1, scale) << 20
    }

    fn generator(&self, seed: u64) -> String {
        let joint = if self.case.generator.ends_with('?') { "" } else { "&" };
        format!("{}{joint}scale={}&seed={seed}", self.case.generator, self.scale)
    }

    fn drive(&self, drive: (&str, f64)) -> String {
        format!("model:{}?size={}MiB", drive.0, self.mib(drive.1))
    }

    /// The configuration of the pool; `classifier` may be empty.
    fn pool(&self, classifier: &str) -> String {
        let case = self.case;
        let disk_mib = (self.mib(case.qlc.1) as f64 * DISK_SHARE) as u64;
        format!(
            "[pool]\nname = \"{}\"\n[[fast]]\ntarget = \"model:{}?size={}\"\n[[capacity]]\ntarget = \"{}\"\n\
             [[disk]]\nname = \"disk\"\nsize = \"{disk_mib}MiB\"\n{classifier}",
            case.name,
            case.fast.0,
            self.fast_bytes,
            self.drive(case.qlc)
        )
    }
}

/// Runs the plan; `progress` receives what is running.
///
/// # Errors
/// What could not run, and why; also that the user interrupted.
pub fn run(plan: Plan, mut progress: impl FnMut(&str)) -> Result<Findings> {
    let place = tempfile::Builder::new().prefix("forebay-").tempdir().context("cannot make a temporary directory")?;
    let case = plan.case;
    let mut seeds = Vec::new();
    for seed in 1..=u64::from(plan.seeds) {
        let mut of_seed =
            OfSeed { seed, workload: workload(&plan, seed)?, settings: BTreeMap::new(), classes: BTreeMap::new() };
        for &Setting { name, .. } in case.settings() {
            progress(&format!("{}: seed {seed} of {}, {name}", case.name, plan.seeds));
            let (target, evidence) = match name {
                "qlc" => (plan.drive(case.qlc), "none"),
                "tlc" => (plan.drive(case.tlc), "none"),
                _ => {
                    let file = place.path().join(format!("{name}.toml"));
                    let (classes, evidence) = match name {
                        "rules" => (case.classifier, "all"),
                        "lz4" => (COMPRESSED, "none"),
                        _ => ("", name),
                    };
                    std::fs::write(&file, plan.pool(classes))
                        .with_context(|| format!("cannot write {}", file.display()))?;
                    (format!("pool:{}", file.display()), evidence)
                }
            };
            let about = || format!("{}, seed {seed}, {name}", case.name);
            let compressible_percent = case.compressible_percent.filter(|_| name == "lz4").unwrap_or(0);
            let (figures, classes) =
                measure(&plan, &target, (evidence, compressible_percent), seed).with_context(about)?;
            of_seed.settings.insert(name, figures);
            of_seed.classes.insert(name, classes);
        }
        seeds.push(of_seed);
    }
    Ok(Findings { plan, seeds })
}

/// The PRISM table of the workload, computed from its requests alone.
fn workload(plan: &Plan, seed: u64) -> Result<Vec<Through>> {
    let rules = traces::load_rules(plan.case.rules)?.rules;
    let mut analysis = Analysis::new(&Options { memory_bytes: ANALYSIS_BYTES, rules, ..Options::default() });
    let [trace] = traces::named(&plan.generator(seed), None)?.try_into().ok().context("one generator is one trace")?;
    let read = traces::read(&trace, None, Wanted::ALL, None, traces::Order::Time, |requests, names, knows| {
        analysis.add(requests, names, knows);
        true
    })?
    .whole()?;
    let report = analysis.finish(&read.names);
    let published_gb = 1e9 * plan.scale;
    let through = |class: &Class| {
        let row: Option<&Row> = report.rows.iter().find(|row| row.name == class.name);
        let bytes = |of: fn(&Row) -> u64| row.map_or(0, of) as f64;
        Through {
            occupancy_gb: bytes(|row| row.occupancy_bytes) / published_gb,
            written_gb: bytes(|row| row.written_bytes) / published_gb,
            alpha: row.and_then(|row| row.alpha),
            beta: row.and_then(|row| row.beta),
        }
    };
    Ok(plan.case.classes.iter().map(through).collect())
}

/// One run of the stream on a target.
fn measure(
    plan: &Plan,
    target: &str,
    (evidence, compressible_percent): (&str, u32),
    seed: u64,
) -> Result<(Figures, Value)> {
    let text = format!(
        "[[job]]\ngenerator = \"{}\"\ndepth = {}\nseed = {seed}\nevidence = \"{evidence}\"\n\
         compressible = {compressible_percent}\n",
        plan.generator(seed),
        plan.case.depth
    );
    let options =
        SessionOptions { destroy_data: true, interval_ns: Some(1_000_000_000), records: None, block_layer: false };
    let session = Session::new(target, options)?;
    let mut jobs = toml_file::parse(&text, "the use case")?;
    prepare_generated(&session, &mut jobs)?;
    let before = session.wear();
    let results = session.run(&jobs, "")?;
    let wear = before.zip(session.wear()).map(|(before, after)| after.since(&before).json()).unwrap_or_default();
    let is_stopped = session.is_stopped();
    session.close()?;
    let Some(result) = results.first().filter(|result| !is_stopped && result.partial.is_none()) else {
        bail!("it was ended before its time");
    };
    if result.failures.count > 0 {
        bail!("{} failed", output::count(result.failures.count, "I/O"));
    }
    Ok((figures(result, &wear), wear["pool"]["classes"].clone()))
}

fn figures(result: &JobResult, wear: &Value) -> Figures {
    let (pool, drives) = (&wear["pool"], &wear["drives"]);
    let last = drives.as_array().and_then(|drives| drives.last()).unwrap_or(&Value::Null);
    let mut figures = Figures::new();
    let mut put = |key: &str, value: Option<f64>| {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            figures.insert(key.to_owned(), value);
        }
    };
    let of = |value: &Value, key: &str| value[key].as_f64();
    let is_pool = !pool.is_null();
    put("epbw_pb", if is_pool { of(pool, "epbw_pb") } else { of(last, "pbw_pb") });
    put("edpwd", if is_pool { of(pool, "edpwd") } else { of(last, "dwpd") });
    put("alpha", of(pool, "capacity_bytes_per_host_byte").map(|share| 1.0 - share));
    put("fast_bytes_per_host_byte", of(pool, "fast_bytes_per_host_byte"));
    put("waf", of(last, "write_amplification"));
    let seconds = result.rated_ns as f64 / 1e9;
    let of_kind = |kind: OpKind| result.kinds.iter().find(move |found| found.kind == kind);
    let written: u64 =
        [OpKind::Write, OpKind::WriteFua].into_iter().filter_map(of_kind).map(KindResult::rated_bytes).sum();
    put("write_mb_per_s", Some(written as f64 / 1e6 / seconds));
    put("requests_per_s", Some(result.rated_ios() as f64 / seconds));
    for (kind, name) in [(OpKind::Read, "read"), (OpKind::Write, "write")] {
        let Some(found) = of_kind(kind) else { continue };
        for (key, level) in PERCENTILES {
            let levels = Level::parse_list(level).unwrap_or_default();
            let estimates = summary::percentiles(&found.total, None, &Reporting { levels, ..Reporting::default() });
            let value_ns = estimates.first().and_then(|estimate| estimate.value.value());
            put(&format!("{name}_{key}_us"), value_ns.map(|ns| ns as f64 / 1e3));
        }
    }
    figures
}
