//! Results as text.

use super::host;
use crate::output::{self, count, size, time};
use forebay_bench::job::model::Job;
use forebay_bench::job::steady::{Figure, Limit, Rule, Steady};
use forebay_bench::output::steady;
use forebay_bench::output::summary::{self, Reporting};
use forebay_bench::run::{JobResult, KindResult, per_second};
use forebay_bench::stats::Interval;
use forebay_bench::stats::clustering::BLOCKS_MIN;
use forebay_bench::stats::little::Verdict;
use forebay_bench::stats::percentile::{Level, PercentileEstimate, Reported};
use forebay_block::figures::rate;

/// Failures that are shown with their offsets.
const FAILURES_SHOWN: usize = 5;

/// The result of a job.
pub fn job(target: &str, result: &JobResult, own_cost_ns: Option<f64>, reporting: &Reporting) -> String {
    let mut lines = vec![format!("{}: {}", result.job.name, asked(&result.job))];
    lines.push(format!("  on {target} ({})", result.description));
    if let Some(partial) = result.partial {
        lines.push(format!("  PARTIAL ({}): what follows is what is known", partial.name()));
    }
    lines.push(format!(
        "  {:.2} s, {}, {} IOPS{}, {}/s",
        result.duration_ns as f64 / 1e9,
        count(result.ios(), "I/O"),
        rate(result.iops()),
        rates(summary::iops_interval(result, reporting)),
        size(result.bytes_per_second() as u64)
    ));
    lines.extend(result.all_ran.map(|all| {
        format!(
            "  all ran for the first {:.2} s: {} IOPS, {}/s",
            all.duration_ns as f64 / 1e9,
            rate(all.iops()),
            size(all.bytes_per_second() as u64)
        )
    }));
    lines.extend(steady_state(result));
    lines.push(facts(result, own_cost_ns));
    lines.extend(host::lines(result));
    for kind in &result.kinds {
        lines.push(String::new());
        lines.push(of_kind(result, kind, reporting));
    }
    lines.extend(bursts(result));
    lines.extend(open_loop(result));
    if let Some(judged) = result.judged {
        lines.push(format!(
            "\n  verified, of {} units read (warm-up included): {} whole, {} in part (written at the same time, or by an \
             earlier run), {} not at all, {} WRONG",
            judged.read(),
            judged.whole,
            judged.partly,
            judged.unjudged,
            judged.wrong
        ));
    }
    lines.extend(failures(result));
    lines.extend(result.notes.iter().map(|note| format!("  note: {note}")));
    lines.join("\n")
}

/// The job's parameters in one line.
fn asked(job: &Job) -> String {
    let mix: Vec<String> = job.mix.weights.iter().map(|(kind, weight)| format!("{} {weight}", kind.name())).collect();
    let sizes = |mix: &forebay_bench::job::model::SizeMix| {
        let each: Vec<String> = mix.choices.iter().map(|&(bytes, _)| size(u64::from(bytes))).collect();
        each.join("+")
    };
    if job.pattern.is_fed() {
        return format!(
            "{} of up to {}, {}, {}, {} x {} in flight at most, waiting by {}",
            mix.join(" "),
            size(u64::from(job.max_io_bytes())),
            summary::pattern(&job.pattern),
            summary::arrival(&job.arrival),
            job.threads,
            job.depth,
            job.wait
        );
    }
    let reads = sizes(&job.sizes.read);
    let writes = sizes(&job.sizes.write);
    let sizes = if reads == writes { reads } else { format!("read {reads}, write {writes}") };
    format!(
        "{} of {sizes}, {}, {}, {} x {} in flight, waiting by {}",
        mix.join(" "),
        summary::pattern(&job.pattern),
        summary::arrival(&job.arrival),
        job.threads,
        job.depth,
        job.wait
    )
}

/// Whether a job with a steady-state criterion became steady.
fn steady_state(result: &JobResult) -> Option<String> {
    let (asked, found) = steady::of(result)?;
    let seconds = |ns: u64| ns as f64 / 1e9;
    let Some(window) = &found.window else {
        return Some(format!(
            "  NOT STEADY ({asked}): no window of {} s could be judged within {:.2} s",
            seconds(asked.window_ns),
            seconds(result.duration_ns)
        ));
    };
    let (whole, len_ns) = (window.whole(), window.len_ns());
    let in_it = format!(
        "{}; in these {} s {} IOPS, {}/s, mean total {}",
        steadiness(asked, window.value),
        seconds(len_ns),
        rate(per_second(whole.ios, len_ns)),
        size(per_second(whole.bytes, len_ns) as u64),
        steady::latency_mean_ns(&whole).map_or_else(|| "-".to_owned(), |ns| time(ns as u64))
    );
    let (begin_s, end_s) = (seconds(window.begin_ns), seconds(window.end_ns()));
    Some(match found.attained_ns {
        Some(_) => format!(
            "  STEADY ({asked}) from {begin_s} s to {end_s} s: {in_it}\n  all other figures are of the whole run"
        ),
        None => format!(
            "  NOT STEADY ({asked}) within {:.2} s; the last window, from {begin_s} s to {end_s} s: {in_it}",
            seconds(result.duration_ns)
        ),
    })
}

/// The value that a steady-state criterion reached.
fn steadiness(asked: &Steady, value: Option<f64>) -> String {
    let Some(value) = value else { return "nothing to judge".to_owned() };
    let what = match asked.criterion.rule {
        Rule::Deviation => "at most",
        Rule::Slope => "slope",
    };
    let figure = match asked.criterion.figure {
        Figure::Iops => "IOPS",
        Figure::Bandwidth => "bytes a second",
        Figure::Latency => "latencies",
    };
    let of = match asked.criterion.rule {
        Rule::Deviation => "from the mean",
        Rule::Slope => "from part to part",
    };
    match asked.limit {
        Limit::Percent(_) => format!("{figure}: {what} {value:.3} % {of}"),
        Limit::Fixed(_) => format!("{figure}: {what} {value:.1} {of}"),
    }
}

/// Depth with its check, and processor cost.
fn facts(result: &JobResult, own_cost_ns: Option<f64>) -> String {
    let little = summary::little(result);
    let asked = u64::from(result.job.threads) * u64::from(result.job.depth);
    if result.ended() == 0 {
        return format!("  depth - reached of {asked} asked; Little's law: not judged");
    }
    let ended = result.ended();
    // Where the run did not record the wanted times of all I/Os, this figure is unknown.
    let wanted = result.depth_wanted().zip(result.total_mean_ns()).map_or_else(String::new, |(wanted, total_ns)| {
        format!(", {wanted:.2} with those wanted and not yet submitted; mean total {}", time(total_ns as u64))
    });
    let law = match little.verdict {
        Verdict::NotJudged => summary::verdict(little.verdict).to_owned(),
        verdict => format!(
            "{}: {} a second x {} in flight = {:.2} ({:+.1} %)",
            summary::verdict(verdict),
            rate(per_second(ended, result.depth_ns)),
            time(result.service_mean_ns as u64),
            little.implied_depth,
            little.deviation * 100.0
        ),
    };
    let us = |ns: u64| ns as f64 / result.rated_ios().max(1) as f64 / 1e3;
    let cpu = match result.used.split_ns() {
        Some((user, system)) => format!("{:.2} us user, {:.2} us system", us(user), us(system)),
        None => format!("{:.2} us (too few ticks of the kernel's clock to split it)", us(result.used.cpu_all_ns())),
    };
    let mut own = own_cost_ns.map_or_else(String::new, |ns| format!("; the tool itself {ns:.0} ns an I/O"));
    if let Some(path_ns) = summary::path_cost_ns(result, own_cost_ns) {
        own.push_str(&format!(", its way to the target {path_ns:.0} ns of user time"));
    }
    if result.is_limited_by_generator() {
        let busy = result.generator_busy().unwrap_or(0.0) * 100.0;
        let occupied = result.generator_occupied().map_or(busy, |share| share * 100.0);
        own.push_str(&if result.is_limited_by_modelled_host() {
            format!(
                "\n  THE GENERATOR IS THE LIMIT: the modelled host's threads worked {occupied:.0} % of the time; take more of them \
                 (threads), or a host that costs less (host=)"
            )
        } else if occupied - busy >= 10.0 {
            format!(
                "\n  THE GENERATOR IS THE LIMIT: its threads were busy {busy:.0} % of the time and waited {:.0} % of it for a \
                 processor; stop what else runs, or take more threads where processors are idle",
                occupied - busy
            )
        } else if busy >= 90.0 {
            format!(
                "\n  THE GENERATOR IS THE LIMIT: its threads were busy {busy:.0} % of the time; take more of them (threads)"
            )
        } else {
            "\n  THE GENERATOR IS THE LIMIT: its threads never slept, as an I/O was over whenever they looked; take more of them \
             (threads)"
                .to_owned()
        });
    }
    format!(
        "  depth {:.2} in flight of {asked} asked{wanted}\n  Little's law: {law}\n  CPU {cpu} an I/O{own}",
        result.depth_mean,
    )
}

/// The interval of a rate, as a suffix.
fn rates(interval: Option<Interval>) -> String {
    interval.map_or_else(String::new, |found| format!(" ({} - {})", rate(found.low), rate(found.high)))
}

fn of_kind(result: &JobResult, kind: &KindResult, reporting: &Reporting) -> String {
    let errors = if kind.errors > 0 { format!(", {} FAILED", kind.errors) } else { String::new() };
    let head = format!(
        "  {}: {}, {} IOPS{}, {}/s{errors}",
        kind.kind.name(),
        count(kind.ios, "I/O"),
        rate(per_second(kind.rated_ios(), result.rated_ns)),
        rates(summary::kind_iops_interval(result, kind, reporting)),
        size(per_second(kind.rated_bytes(), result.rated_ns) as u64)
    );
    let total = summary::percentiles(&kind.total, Some(&kind.blocks), reporting);
    let device = summary::percentiles(&kind.device, None, reporting);
    let submission = summary::percentiles(&kind.submission, None, reporting);
    let or_none = |ns: f64| if kind.total.count() == 0 { "-".to_owned() } else { time(ns as u64) };
    let mean = kind.mean_interval(reporting.confidence);
    let mean = mean.map_or_else(String::new, |mean| format!("{} - {}", time(mean.low as u64), time(mean.high as u64)));
    let mut rows = vec![
        vec![
            "mean".to_owned(),
            or_none(kind.total.mean_ns()),
            mean,
            or_none(kind.device.mean_ns()),
            or_none(kind.submission.mean_ns()),
        ],
        vec![
            "sd".to_owned(),
            or_none(kind.total.deviation_ns()),
            String::new(),
            or_none(kind.device.deviation_ns()),
            or_none(kind.submission.deviation_ns()),
        ],
    ];
    let mut withheld = Vec::new();
    for ((total, device), submission) in total.iter().zip(&device).zip(&submission) {
        if let Reported::Withheld { needed_more } = total.value {
            withheld.push(format!("{} needs {needed_more} more", name(total.level)));
            continue;
        }
        rows.push(vec![name(total.level), value(total), interval(total), value(device), value(submission)]);
    }
    let head_of_table = ["latency", "total", "95 % interval", "device", "submission"];
    let table = output::table(&head_of_table, 1, &rows);
    let mut lines = vec![head];
    lines.extend(table.lines().map(|line| format!("    {line}")));
    if !withheld.is_empty() {
        lines.push(format!("    withheld, too few samples: {}", withheld.join(", ")));
    }
    if kind.total.count() > 0 && !summary::is_clustering_judged(kind) {
        let (have, need) = (kind.blocks.len(), BLOCKS_MIN);
        lines.push(format!(
            "    {} of the run {} too few to see stalls cluster ({need} are needed): the intervals take I/Os as independent, and may be \
             far too narrow",
            output::count(have as u64, "interval"),
            if have == 1 { "is" } else { "are" }
        ));
    }
    lines.join("\n")
}

fn name(level: Level) -> String {
    match level {
        Level::Min => "min".to_owned(),
        Level::Max => "max".to_owned(),
        Level::Share(share) => format!("p{}", share.percent()),
    }
}

fn value(estimate: &PercentileEstimate) -> String {
    estimate.value.value().map_or_else(|| "-".to_owned(), time)
}

fn interval(estimate: &PercentileEstimate) -> String {
    let clustered = if estimate.effective_samples.is_some() { " clustered" } else { "" };
    match estimate.value {
        Reported::Open { low, .. } => format!("{} - open{clustered}", time(low)),
        Reported::OpenBelow { high, .. } => format!("open - {}{clustered}", time(high)),
        Reported::Full { low, high, .. } => format!("{} - {}{clustered}", time(low), time(high)),
        Reported::Unbounded { .. } => format!("open - open{clustered}"),
        Reported::Observed { .. } | Reported::Withheld { .. } => String::new(),
    }
}

fn bursts(result: &JobResult) -> Option<String> {
    let rows: Vec<String> = result
        .bursts
        .iter()
        .map(|row| {
            let window = time(row.window_ns);
            let (least, most) = (rate(row.iops_min), rate(row.iops_max));
            format!("{window}: {least} - {most} IOPS, up to {}/s", size(row.bytes_per_second_max as u64))
        })
        .collect();
    (!rows.is_empty()).then(|| format!("\n  least and most of any\n    {}", rows.join("\n    ")))
}

fn open_loop(result: &JobResult) -> Option<String> {
    let open = result.open?;
    let check = summary::open_loop(result, &open);
    let mut text = format!(
        "\n  schedule: {} of {} I/Os submitted{}, {} a second, {}; {} late by the tool, {} times no slot was free",
        open.issued,
        open.scheduled,
        if open.backlog > 0 { format!(" and {} of the warm-up", open.backlog) } else { String::new() },
        rate(check.per_second),
        summary::open_loop_verdict(check.verdict),
        open.late,
        open.no_slot
    );
    if open.issued < open.scheduled {
        text.push_str("\n  THE TARGET IS TOO SLOW FOR THIS RATE: latencies are of the part that was submitted");
    }
    Some(text)
}

/// Time of a failure, by the clock of the intervals.
fn when(at_ns: i64) -> String {
    let at_s = at_ns as f64 / 1e9;
    if at_ns < 0 { format!("in the warm-up, {:.3} s before its end", -at_s) } else { format!("at {at_s:.3} s") }
}

fn failures(result: &JobResult) -> Vec<String> {
    let failures = &result.failures;
    if failures.count == 0 && result.hung == 0 {
        return Vec::new();
    }
    let mut lines = vec![format!(
        "\n  FAILURES: {} failed, of which {} read what had not been written; {} never came back",
        count(failures.count, "I/O"),
        failures.mismatches,
        result.hung
    )];
    lines.extend(failures.first.iter().take(FAILURES_SHOWN).map(|failure| {
        format!(
            "    {}: {} of {} bytes at byte {}: {}",
            when(failure.at_ns),
            failure.kind.name(),
            failure.len_bytes,
            failure.offset_bytes,
            failure.what
        )
    }));
    lines
}
