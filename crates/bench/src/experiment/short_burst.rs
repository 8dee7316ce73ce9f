//! Short bursts with pauses, as applications make them: the latency of the first I/O after a pause, and the throughput
//! within a burst.

use super::driver::Driver;
use super::error::ExperimentError;
use super::figures::Figures;
use super::options::Options;
use super::prepare::prepare;
use super::report::Report;
use super::session::{Halt, Session, known};
use super::text;
use crate::job::model::{Burst, End, Job, Mix};
use crate::output::table::Table;
use crate::run::{BurstRow, JobResult};
use serde_json::json;

/// Time of a point in nanoseconds.
const POINT_NS: u64 = 30_000_000_000;
/// Most I/Os of a burst in flight at once.
const DEPTH_MAX: u32 = 32;
/// Pauses before a single I/O, in nanoseconds; the pause that the user asked for is added.
const PAUSES_NS: [u64; 4] = [100_000, 1_000_000, 10_000_000, 100_000_000];
/// Windows over which throughput is measured, in nanoseconds.
const WINDOWS_NS: [u64; 3] = [1_000_000, 10_000_000, 100_000_000];

const WHAT: &str = "Latency of the first I/O after a pause, and throughput of the shortest times within bursts: clocks and links that \
                    went to sleep, caches that catch the first part (S-PASS: instantaneous throughput of even the shortest bursts).";

/// One point.
struct Row {
    /// I/Os of a burst for each thread, and the pause; `None` for a load without pauses.
    burst: Option<Burst>,
    figures: Figures,
    windows: Vec<BurstRow>,
}

pub(super) fn run(driver: &mut dyn Driver, options: &Options) -> Result<Report, ExperimentError> {
    let mut session = Session::new(driver, options)?;
    let percent = options.read_percent.unwrap_or(100);
    let (mut firsts, mut bursts) = (Vec::new(), Vec::new());
    known(measure(&mut session, percent, &mut firsts, &mut bursts))?;
    let mut tables = vec![first_table(&firsts), burst_table(&bursts)];
    tables.retain(|table| !table.rows.is_empty());
    tell(&mut session, &firsts);
    let row = |row: &Row| {
        json!({
            "burst_ios": row.burst.map(|burst| burst.ios),
            "pause_ns": row.burst.map(|burst| burst.pause_ns),
            "figures": row.figures.json_counted(),
            "windows": row.windows.iter().map(|window| json!({
                "window_ns": window.window_ns,
                "iops_max": window.iops_max,
                "iops_min": window.iops_min,
                "bytes_per_second_max": window.bytes_per_second_max,
                "bytes_per_second_min": window.bytes_per_second_min,
            })).collect::<Vec<_>>(),
        })
    };
    let json = json!({
        "read_percent": percent,
        "first_after_pause": firsts.iter().map(row).collect::<Vec<_>>(),
        "bursts": bursts.iter().map(row).collect::<Vec<_>>(),
    });
    Ok(session.finish("short-burst", WHAT, tables, json))
}

fn measure(session: &mut Session<'_>, percent: u32, firsts: &mut Vec<Row>, bursts: &mut Vec<Row>) -> Result<(), Halt> {
    prepare(session, None)?;
    let options = session.options;
    let point_ns = options.point_ns(POINT_NS);
    session
        .condition(format!("{} s a point, {percent} % reads; pauses are slept", text::digits(point_ns as f64 / 1e9)));
    session.condition("first I/O: bursts of one I/O on one thread; without a pause: the same I/O, one after the other");
    let job = |session: &Session<'_>, threads: u32, depth: u32, burst: Option<Burst>| Job {
        threads,
        depth,
        mix: Mix::reads_percent(percent),
        burst,
        end: End { after_ns: Some(point_ns), ..End::default() },
        warmup_ns: options.warmup_ns(point_ns),
        ..session.job(match burst {
            Some(burst) => format!("burst-{}-pause-{}us", burst.ios, burst.pause_ns / 1000),
            None => "no-pause".to_owned(),
        })
    };
    let mut pauses: Vec<u64> = PAUSES_NS.iter().copied().chain([options.pause_ns]).collect();
    pauses.sort_unstable();
    pauses.dedup();
    let singles = std::iter::once(None).chain(pauses.into_iter().map(|pause_ns| Some(Burst { ios: 1, pause_ns })));
    for burst in singles {
        let step = match burst {
            Some(burst) => format!("one I/O after a pause of {}", text::time(burst.pause_ns as f64)),
            None => "one I/O after the other".to_owned(),
        };
        let next = job(session, 1, 1, burst);
        let result = session.one(&step, next)?;
        push(session, &step, burst, &result, firsts);
    }
    for &ios in &options.burst_ios {
        let depth = if matches!(options.in_flight(2), (2, 1)) { 1 } else { ios.min(u64::from(DEPTH_MAX)) as u32 };
        let burst = Burst { ios, pause_ns: options.pause_ns };
        let step = format!("bursts of {ios} I/Os, pauses of {}", text::time(options.pause_ns as f64));
        let next = job(session, options.base.threads, depth, Some(burst));
        let result = session.one(&step, next)?;
        push(session, &step, Some(burst), &result, bursts);
    }
    Ok(())
}

fn push(session: &mut Session<'_>, step: &str, burst: Option<Burst>, result: &JobResult, rows: &mut Vec<Row>) {
    let figures = Figures::new(result, session.options);
    if figures.all.samples == 0 {
        session.without_figures(step);
        return;
    }
    rows.push(Row { burst, figures, windows: result.bursts.clone() });
}

fn pause(burst: Option<Burst>) -> String {
    burst.map_or_else(|| "none".to_owned(), |burst| text::time(burst.pause_ns as f64))
}

fn first_table(rows: &[Row]) -> Table {
    let head = ["pause before", "I/Os", "mean", "p50", "p99", "p99.9", "max", "mean over none"];
    let mut table = Table::new("the first I/O after a pause, one in flight", 0, &head);
    let base = rows.iter().find(|row| row.burst.is_none()).map(|row| row.figures.all.mean_ns);
    for row in rows {
        let latency = &row.figures.all;
        let mut cells = vec![pause(row.burst), latency.samples.to_string(), latency.mean_cell()];
        cells.extend([50.0, 99.0, 99.9].map(|percent| latency.cell(percent)));
        cells.push(latency.max_cell());
        let ratio = base.filter(|&base| base > 0.0).map(|base| latency.mean_ns / base);
        cells.push(ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}")));
        table.rows.push(cells);
    }
    table
}

fn burst_table(rows: &[Row]) -> Table {
    let head = [
        "I/Os a burst and thread",
        "in flight",
        "mean",
        "p50",
        "p99",
        "p99.9",
        "IOPS of the best 1 ms",
        "10 ms",
        "100 ms",
        "MB/s of the best 1 ms",
        "10 ms",
        "100 ms",
    ];
    let mut table = Table::new("bursts, and the most that any short time within them reached", 0, &head);
    for row in rows {
        let latency = &row.figures.all;
        let mut cells = vec![
            row.burst.map_or(0, |burst| burst.ios).to_string(),
            row.figures.depth.to_string(),
            latency.mean_cell(),
        ];
        cells.extend([50.0, 99.0, 99.9].map(|percent| latency.cell(percent)));
        let window = |ns: u64| row.windows.iter().find(|window| window.window_ns == ns);
        let show = |show: fn(&BurstRow) -> String| WINDOWS_NS.map(|ns| window(ns).map_or_else(|| "-".to_owned(), show));
        cells.extend(show(|window| text::rate(window.iops_max)));
        cells.extend(show(|window| text::megabytes(window.bytes_per_second_max)));
        table.rows.push(cells);
    }
    table
}

fn tell(session: &mut Session<'_>, rows: &[Row]) {
    let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return };
    if rows.len() > 1 && first.burst.is_none() && first.figures.all.mean_ns > 0.0 {
        session.note(format!(
            "after a pause of {} an I/O takes {:.2} times as long as without one (device, link and host wake up together here)",
            pause(last.burst),
            last.figures.all.mean_ns / first.figures.all.mean_ns
        ));
    }
}
