//! Throughput and latency over the queue depth (the picture of the low-queue-depth method), the saturation depth, and
//! the target's score at the depths that an application uses.

use super::driver::Driver;
use super::error::ExperimentError;
use super::figures::Figures;
use super::options::Options;
use super::prepare::prepare;
use super::report::Report;
use super::session::{Halt, Session, known};
use super::{plot, text};
use crate::job::model::{End, Job, Mix};
use crate::output::table::Table;
use crate::stats::application_depth::{Beyond, Source, score};
use crate::stats::saturation::{Curve, Point, Saturation};
use serde_json::{Value, json};

/// Time of a point in nanoseconds.
const POINT_NS: u64 = 30_000_000_000;
/// Share of reads where writes are allowed: 70/30, as in the picture of the method.
const READ_PERCENT: u32 = 70;

const WHAT: &str = "Throughput and latency of small random I/O over the queue depth; the saturation depth is the lowest with 95 % \
                    of the peak, the one to dial an application down to (Hady on queue depth: 4 KiB 70/30, depth marked on \
                    the line).";

/// What was measured at a depth.
struct Row {
    depth: u32,
    figures: Figures,
}

pub(super) fn run(driver: &mut dyn Driver, options: &Options) -> Result<Report, ExperimentError> {
    let mut session = Session::new(driver, options)?;
    let percent = read_percent(&mut session, READ_PERCENT);
    let mut rows = Vec::new();
    known(measure(&mut session, percent, &mut rows))?;
    let point =
        |row: &Row| Point { depth: row.depth, iops: row.figures.iops, mean_latency_ns: row.figures.all.mean_ns };
    let points: Vec<Point> = rows.iter().map(point).collect();
    let curve = Curve::new(points.clone()).ok();
    let saturation = curve.as_ref().map(Curve::saturation);
    let limited_at = saturation.as_ref().and_then(|found| limited_at(&rows, found));
    let mut tables = vec![table(&rows, saturation.as_ref(), limited_at, percent)];
    tables.extend(plot::curve(&points));
    if let Some(shallow) = rows.iter().find(|row| row.figures.depth_mean < 0.9 * f64::from(row.depth)) {
        session.note(format!(
            "from depth {} on, fewer I/Os were in flight than asked for ({}): the curve is of what the target, or the way to \
             it, takes at once",
            shallow.depth,
            text::digits(shallow.figures.depth_mean)
        ));
    }
    if let Some(found) = &saturation {
        let is_modelled = rows.iter().any(|row| row.figures.is_limited_by_modelled_host);
        tell(&mut session, found, limited_at, is_modelled);
    }
    let application = curve.as_ref().and_then(|curve| weigh(&mut session, curve, &mut tables));
    let json = json!({
        "read_percent": percent,
        "points": rows.iter().map(|row| row.figures.json_counted()).collect::<Vec<_>>(),
        "saturation": saturation.as_ref().map(|found| json!({
            "depth": found.knee.depth,
            "iops": found.knee.iops,
            "mean_ns": found.knee.mean_latency_ns,
            "peak_depth": found.peak.depth,
            "peak_iops": found.peak.iops,
            "reached": found.reached,
            "limited_by_generator": limited_at.is_some(),
        })),
        "application": application,
    });
    Ok(session.finish("qd-sweep", WHAT, tables, json))
}

/// Share of reads in percent: what the user asked for, or `usual` where writes are allowed.
pub(super) fn read_percent(session: &mut Session<'_>, usual: u32) -> u32 {
    let options = session.options;
    match options.read_percent {
        Some(percent) => percent,
        None if options.allow_writes => usual,
        None => {
            if usual < 100 {
                session.note(format!(
                    "reads only: the method's mix of {usual} % reads writes to the target and needs --destroy-data"
                ));
            }
            100
        }
    }
}

/// 1, 2, 4 and so on below `deepest`, and then `deepest`.
fn depths(deepest: u32) -> Vec<u32> {
    let mut depths: Vec<u32> = (0..32).map(|power| 1 << power).take_while(|&depth| depth < deepest).collect();
    depths.push(deepest);
    depths
}

fn measure(session: &mut Session<'_>, percent: u32, rows: &mut Vec<Row>) -> Result<(), Halt> {
    prepare(session, None)?;
    let options = session.options;
    let point_ns = options.point_ns(POINT_NS);
    let warmup_ns = options.warmup_ns(point_ns);
    session.condition(format!(
        "{} s a point after {} s of warm-up, {percent} % reads, closed loop",
        text::digits(point_ns as f64 / 1e9),
        text::digits(warmup_ns as f64 / 1e9)
    ));
    let depths = depths(options.depth_max);
    for (number, &depth) in depths.iter().enumerate() {
        let (threads, each) = options.in_flight(depth);
        let job = Job {
            threads,
            depth: each,
            mix: Mix::reads_percent(percent),
            end: End { after_ns: Some(point_ns), ..End::default() },
            warmup_ns,
            ..session.job(format!("depth-{depth}"))
        };
        let step = format!("depth {depth} ({} of {})", number + 1, depths.len());
        let result = session.one(&step, job)?;
        let figures = Figures::new(&result, options);
        if figures.all.samples == 0 { session.without_figures(&step) } else { rows.push(Row { depth, figures }) }
    }
    Ok(())
}

/// The smaller of the saturation depth and the depth of the peak at which the load generator was the limit; `None` if
/// at neither.
fn limited_at(rows: &[Row], found: &Saturation) -> Option<u32> {
    let deciding = rows.iter().filter(|row| [found.knee.depth, found.peak.depth].contains(&row.depth));
    deciding.filter(|row| row.figures.is_limited_by_generator).map(|row| row.depth).min()
}

fn table(rows: &[Row], saturation: Option<&Saturation>, limited_at: Option<u32>, percent: u32) -> Table {
    let mixed = (1..100).contains(&percent);
    let mut head = vec!["depth", "reached", "IOPS", "MB/s", "mean"];
    head.extend(if mixed {
        ["read mean", "read p50", "read p99", "read p99.9"].as_slice()
    } else {
        &["p50", "p99", "p99.9"]
    });
    head.extend(["CPU an I/O", "of peak", "IOPS a slot / first", ""]);
    let mut table = Table::new("throughput and latency by queue depth", 0, &head);
    for row in rows {
        let figures = &row.figures;
        let latency = figures.main();
        let mut cells = vec![
            row.depth.to_string(),
            text::digits(figures.depth_mean),
            text::rate(figures.iops),
            text::megabytes(figures.bytes_per_second),
            figures.all.mean_cell(),
        ];
        if mixed {
            cells.push(latency.mean_cell());
        }
        cells.extend([latency.cell(50.0), latency.cell(99.0), latency.cell(99.9), figures.cpu_cell()]);
        let on_curve = saturation.and_then(|found| found.rows.iter().find(|point| point.point.depth == row.depth));
        cells.push(on_curve.map_or_else(String::new, |point| text::percent(point.peak_share)));
        cells.push(on_curve.map_or_else(String::new, |point| format!("{:.2}", point.scaling)));
        let mark = match saturation {
            Some(_) if limited_at == Some(row.depth) => "<- the generator's limit",
            Some(_) if limited_at.is_some() => "",
            Some(found) if found.knee.depth == row.depth && found.reached => "<- saturation depth",
            Some(found) if found.knee.depth == row.depth => "<- at least (still rising)",
            Some(found) if found.peak.depth == row.depth => "<- peak",
            _ => "",
        };
        cells.push(mark.to_owned());
        table.rows.push(cells);
    }
    table
}

fn tell(session: &mut Session<'_>, found: &Saturation, limited_at: Option<u32>, is_modelled: bool) {
    let knee = found.knee;
    let figures = format!("{} IOPS at a mean of {}", text::rate(knee.iops), text::time(knee.mean_latency_ns));
    session.note(if let Some(depth) = limited_at {
        let (who, instead) = match is_modelled {
            true => ("modelled host's threads", "take more threads, or a host that costs less (host=none)"),
            false => ("threads that make the load", "take more threads, on processors that have nothing else to do"),
        };
        format!(
            "THE GENERATOR IS THE LIMIT: at depth {depth} the {who} have no time left, and where the target saturates is not known; \
             {instead}"
        )
    } else if found.reached {
        format!("saturation depth {}: {figures}; more I/Os in flight bring latency and no throughput", knee.depth)
    } else {
        format!(
            "throughput still rises at the deepest point: the saturation depth is at least {} ({figures})",
            knee.depth
        )
    });
}

fn weigh(session: &mut Session<'_>, curve: &Curve, tables: &mut Vec<Table>) -> Option<Value> {
    let histogram = session.options.application.as_ref()?;
    let found = match score(curve, &histogram.depths, Beyond::Clamp) {
        Ok(found) => found,
        Err(error) => {
            session.note(format!("no score for the application: {error}"));
            return None;
        }
    };
    let title = format!(
        "at the application's depths (mean {}): {} IOPS, mean {}",
        text::digits(found.mean_depth),
        text::rate(found.iops),
        text::time(found.mean_latency_ns)
    );
    let mut table = Table::new(title, 0, &["depth", "share of I/Os", "IOPS", "mean", "figures"]);
    let source = |source| match source {
        Source::Measured => "measured",
        Source::Interpolated => "interpolated",
        Source::Clamped => "nearest depth measured",
    };
    for row in &found.rows {
        table.rows.push(vec![
            row.point.depth.to_string(),
            text::percent(row.share),
            text::rate(row.point.iops),
            text::time(row.point.mean_latency_ns),
            source(row.source).to_owned(),
        ]);
    }
    tables.push(table);
    if found.clamped_share > 0.0 {
        session.note(format!(
            "{} of the application's I/Os are at depths that were not measured; they count as the nearest that was",
            text::percent(found.clamped_share)
        ));
    }
    Some(json!({
        "iops": found.iops,
        "mean_ns": found.mean_latency_ns,
        "mean_depth": found.mean_depth,
        "interpolated_share": found.interpolated_share,
        "clamped_share": found.clamped_share,
        "depths": found.rows.iter().map(|row| json!({
            "depth": row.point.depth,
            "share": row.share,
            "iops": row.point.iops,
            "mean_ns": row.point.mean_latency_ns,
            "source": source(row.source),
        })).collect::<Vec<_>>(),
    }))
}
