//! The same load with five ways of waiting: the reason why CrystalDiskMark, AS-SSD and Anvil disagree about one drive.

use super::driver::Driver;
use super::error::ExperimentError;
use super::figures::Figures;
use super::options::Options;
use super::prepare::prepare;
use super::report::Report;
use super::session::{Halt, Session, known};
use super::text;
use crate::job::model::{Access, Calls, End, Job, Mix, Think};
use crate::output::table::Table;
use crate::run::JobResult;
use crate::stats::compare::{Comparison, DIFFERENCE, Metric, Terms, Verdict, compare};
use crate::stats::mean::summarise;
use forebay_block::WaitMethod;
use serde_json::{Value, json};

/// Time of a run in nanoseconds.
const RUN_NS: u64 = 5_000_000_000;
/// How long the hybrid way polls before it sleeps, in nanoseconds.
const HYBRID_SPIN_NS: u64 = 20_000;
/// Index of the way that the others are compared with.
const AGAINST: usize = 0;

const WHAT: &str = "One I/O in flight, waited for in five ways, without and with computing between I/Os, in interleaved rounds: the share of \
                    the host in what tools show as a drive's latency (Shrout Research: call and wait methods give different scores).";

/// A way of waiting.
#[derive(Clone, Copy)]
struct Way {
    name: &'static str,
    wait: WaitMethod,
    calls: Calls,
}

const WAYS: [Way; 5] = [
    Way { name: "sleep", wait: WaitMethod::Sleep, calls: Calls::Ring },
    Way { name: "spin", wait: WaitMethod::Spin, calls: Calls::Ring },
    Way { name: "hybrid", wait: WaitMethod::Hybrid { spin_ns: HYBRID_SPIN_NS }, calls: Calls::Ring },
    Way { name: "sync calls", wait: WaitMethod::Sleep, calls: Calls::Sync { high_priority: false } },
    Way { name: "sync, high priority", wait: WaitMethod::Sleep, calls: Calls::Sync { high_priority: true } },
];

/// The runs of one way, one for each round, or the target's refusal.
#[derive(Default)]
struct Runs {
    rounds: Vec<Figures>,
    refused: bool,
    description: String,
}

/// A think time and its runs.
struct Setting {
    think_ns: u64,
    ways: [Runs; WAYS.len()],
}

impl Setting {
    /// Number of rounds that all ways have, except those that were refused.
    fn rounds(&self) -> usize {
        self.ways.iter().filter(|way| !way.refused).map(|way| way.rounds.len()).min().unwrap_or(0)
    }
}

pub(super) fn run(driver: &mut dyn Driver, options: &Options) -> Result<Report, ExperimentError> {
    let mut session = Session::new(driver, options)?;
    let percent = options.read_percent.unwrap_or(100);
    let mut settings = [0, options.think_ns].map(|think_ns| Setting { think_ns, ways: Default::default() });
    known(measure(&mut session, percent, &mut settings))?;
    let mut tables = Vec::new();
    let mut json = Vec::new();
    for setting in settings.iter().filter(|setting| setting.rounds() > 0) {
        tables.push(table(&mut session, setting));
        json.push(json!({
            "think_ns": setting.think_ns,
            "rounds": setting.rounds(),
            "ways": WAYS.iter().zip(&setting.ways).enumerate().map(|(at, (way, runs))| way_json(options, setting, at, way, runs)).collect::<Vec<_>>(),
        }));
    }
    Ok(session.finish("wait-methods", WHAT, tables, json!({ "read_percent": percent, "settings": json })))
}

fn measure(session: &mut Session<'_>, percent: u32, settings: &mut [Setting]) -> Result<(), Halt> {
    prepare(session, None)?;
    let options = session.options;
    let run_ns = options.point_ns(RUN_NS);
    session.condition(format!(
        "{} rounds of {} s, each with every way, in turning order; one thread, one I/O in flight, {percent} % reads",
        options.rounds,
        text::digits(run_ns as f64 / 1e9)
    ));
    session.condition(format!("the hybrid looks for {} and sleeps then", text::time(HYBRID_SPIN_NS as f64)));
    session
        .note("since Linux 5.19 synchronous high-priority I/O no longer polls: it should not differ from plain calls");
    for round in 0..options.rounds {
        for setting in settings.iter_mut() {
            for position in 0..WAYS.len() {
                // Forwards and backwards in turn, so that drift affects all ways alike.
                let at = if round % 2 == 0 { position } else { WAYS.len() - 1 - position };
                if !setting.ways[at].refused {
                    one(session, percent, run_ns, (round, setting.think_ns), at, &mut setting.ways[at])?;
                }
            }
        }
    }
    Ok(())
}

fn one(
    session: &mut Session<'_>,
    percent: u32,
    run_ns: u64,
    (round, think_ns): (u32, u64),
    at: usize,
    runs: &mut Runs,
) -> Result<(), Halt> {
    let options = session.options;
    let way = WAYS[at];
    let job = Job {
        threads: 1,
        depth: 1,
        mix: Mix::reads_percent(percent),
        wait: way.wait,
        access: Access { calls: way.calls, ..options.base.access },
        think: (think_ns > 0).then_some(Think { time_ns: think_ns, compute: true }),
        end: End { after_ns: Some(run_ns), ..End::default() },
        warmup_ns: options.warmup_ns(run_ns),
        ..session.job(way.name)
    };
    let step =
        format!("round {} of {}: {}, think time {}", round + 1, options.rounds, way.name, text::time(think_ns as f64));
    let refused = match session.permitted(&step, job)? {
        Ok(result) if result.ios() > 0 => {
            runs.description = described(&result);
            runs.rounds.push(Figures::new(&result, options));
            return Ok(());
        }
        Ok(_) => "no I/O succeeded".to_owned(),
        Err(error) => error.to_string(),
    };
    // The way that the others are compared with must work.
    if at == AGAINST && runs.rounds.is_empty() {
        return Err(ExperimentError::Driver { step, source: super::driver::DriverError(refused) }.into());
    }
    session.note(format!("{} is left out: {refused}", way.name));
    (runs.refused, runs.rounds) = (true, Vec::new());
    Ok(())
}

fn described(result: &JobResult) -> String {
    result.description.clone()
}

/// Mean latency of a way compared with sleeping, round by round.
fn ratio(options: &Options, setting: &Setting, at: usize) -> Option<Comparison> {
    let rounds = setting.rounds();
    let pairs: Vec<(f64, f64)> = setting.ways[AGAINST].rounds[..rounds.min(setting.ways[AGAINST].rounds.len())]
        .iter()
        .zip(&setting.ways[at].rounds)
        .map(|(sleep, way)| (sleep.all.mean_ns, way.all.mean_ns))
        .collect();
    let terms = Terms { error: options.confidence.error(), difference: DIFFERENCE, seed: options.base.seed };
    compare(&pairs, Metric::MEAN_LATENCY, terms).ok()
}

fn mean(runs: &Runs, figure: impl Fn(&Figures) -> f64) -> Option<(f64, Option<f64>)> {
    let values: Vec<f64> = runs.rounds.iter().map(figure).collect();
    summarise(&values).map(|summary| (summary.mean, summary.variation))
}

fn table(session: &mut Session<'_>, setting: &Setting) -> Table {
    let options = session.options;
    let title = match setting.think_ns {
        0 => format!("no time between I/Os: means over {} rounds", setting.rounds()),
        ns => format!(
            "{} of computing on what was read after each I/O: means over {} rounds",
            text::time(ns as f64),
            setting.rounds()
        ),
    };
    let interval = format!("{} % interval", options.confidence.percent());
    let head = [
        "way",
        "IOPS",
        "mean latency",
        "variation",
        "p99 (median round)",
        "CPU an I/O",
        "latency / sleep",
        &interval,
        "verdict",
        "reached by",
    ];
    let mut table = Table::new(title, 1, &head);
    for (at, (way, runs)) in WAYS.iter().zip(&setting.ways).enumerate() {
        let Some((latency, variation)) = mean(runs, |figures| figures.all.mean_ns) else { continue };
        let mut p99: Vec<u64> = runs.rounds.iter().filter_map(|figures| figures.all.value_ns(99.0)).collect();
        p99.sort_unstable();
        let show = |value: Option<f64>, show: fn(f64) -> String| value.map_or_else(|| "-".to_owned(), show);
        let mut row = vec![
            way.name.to_owned(),
            show(mean(runs, |figures| figures.iops).map(|found| found.0), text::rate),
            text::time(latency),
            show(variation, text::percent),
            show(p99.get(p99.len() / 2).map(|&ns| ns as f64), text::time),
            show(mean(runs, |figures| figures.cpu_ns_per_io).map(|found| found.0), text::time),
        ];
        row.extend(match ratio(options, setting, at).filter(|_| at != AGAINST) {
            Some(found) => [
                format!("{:.3}", found.ratio),
                format!("{:.3} - {:.3}", found.interval.low, found.interval.high),
                match found.verdict {
                    Verdict::AFaster => "slower",
                    Verdict::BFaster => "faster",
                    Verdict::NoDifferenceShown => "no difference shown",
                }
                .to_owned(),
            ],
            None => ["-".to_owned(), "-".to_owned(), String::new()],
        });
        row.push(runs.description.clone());
        table.rows.push(row);
    }
    if setting.ways[3].rounds.len() > 1 && setting.ways[3].description == setting.ways[AGAINST].description {
        session.note("this target is reached in one way only, so that the calls of a way make no difference");
    }
    if setting.rounds() < crate::stats::compare::ROUNDS_MIN {
        session.note("fewer than 3 whole rounds: nothing is compared");
    }
    table
}

fn way_json(options: &Options, setting: &Setting, at: usize, way: &Way, runs: &Runs) -> Value {
    let found = ratio(options, setting, at).filter(|_| at != AGAINST);
    json!({
        "name": way.name,
        "wait": way.wait.to_string(),
        "access": runs.description,
        "refused": runs.refused,
        "rounds": runs.rounds.iter().map(Figures::json).collect::<Vec<_>>(),
        "latency_over_sleep": found.map(|found| json!({
            "ratio": found.ratio,
            "low": found.interval.low,
            "high": found.interval.high,
            "would_show": found.would_show,
        })),
    })
}
