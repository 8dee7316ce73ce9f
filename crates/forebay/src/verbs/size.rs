//! `forebay size`: how big a fast tier, for which classes, buys what.

use super::schema;
use crate::measure::Live;
use crate::output::{self, Format, ratio, size, table};
use crate::traces::{
    self, FollowingOptions, Order, ReadingOptions, faults, faults_json, lacks_levels, read, unknown, wanted_columns,
    warn_of_levels,
};
use anyhow::{Context, Result, bail};
use forebay_block::size::parse_size_bytes;
use forebay_model::endurance::{self, Effective, Life, Limit, Tier};
use forebay_model::preset::Drive;
use forebay_trace::analysis::{Analysis, By, Options, ReadHits, Report, Sized, Sizes, Sizing, Way};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Write amplification of QLC for the writes that pass the fast tier: whole bands of data that dies together.
const SHAPED_WAF: f64 = 1.0;

/// Options of `forebay size`.
#[derive(Debug, clap::Args)]
pub struct SizeOptions {
    /// The trace, as for analyze; one with many writes is read twice
    pub trace: String,
    #[command(flatten)]
    pub reading: ReadingOptions,
    #[command(flatten)]
    pub following: FollowingOptions,
    /// Also show what a fast tier of this size buys; may be repeated
    #[arg(long, value_name = "SIZE", value_parser = parse_size_bytes)]
    pub fast_size: Vec<u64>,
    /// Drive of the fast tier, for its endurance: a name from `forebay models`
    #[arg(long, default_value = "p4800x", value_name = "DRIVE")]
    pub fast: String,
    /// Drive of the capacity tier, for its endurance
    #[arg(long, default_value = "p4320", value_name = "DRIVE")]
    pub capacity: String,
    /// Write `[[class]]` sections for the recommended size to this file, which must not exist
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Print the JSON schema of results; needs nothing else
    #[arg(long)]
    pub schema: bool,
}

/// Rated life of a preset's drive.
fn life(option: &str, name: &str) -> Result<Life> {
    let drive = Drive::named(name).with_context(|| format!("--{option} {name}"))?;
    drive.life().with_context(|| format!("--{option} {name}: its preset rates no endurance; name another"))
}

/// A size with its effect on the drives.
struct Offer<'a> {
    sized: &'a Sized,
    read_hits: Option<f64>,
    /// Endurance where all writes pass through the fast tier.
    all: Effective,
    /// The placement that lets hosts write most until the first tier is worn, and its endurance.
    longest: (Way, Effective),
}

/// Runs the verb.
///
/// # Errors
/// A trace that cannot be read twice or has no writes, or an unknown drive.
pub fn run(options: &SizeOptions, format: Format) -> Result<()> {
    if options.schema {
        return schema::print("size");
    }
    options.following.check()?;
    if let Some(path) = options.config.as_deref().filter(|path| path.exists()) {
        bail!("--config {}: exists already; name a file that does not", path.display());
    }
    let (fast, capacity) = (life("fast", &options.fast)?, life("capacity", &options.capacity)?);
    let trace_format = traces::format_named(options.reading.format.as_deref())?;
    let rules = options.reading.rules()?;
    if options.trace == "-" {
        bail!("a trace may be read twice, and standard input can be read once: write it to a file first");
    }
    let volume = options.reading.volume.as_deref();
    let by = options.following.by()?;
    let list = options.reading.named(&options.trace)?;
    let [trace] = list.as_slice() else {
        bail!("{} holds {} traces: size one at a time", options.trace, list.len());
    };
    let how = options.following.analysis(by, rules, 1);
    let columns = wanted_columns(&how);
    let mut analysis = Analysis::keeping_writes(&how);
    let (live, mut taken) = (Live::new(), 0);
    let first = read(trace, trace_format, columns, volume, Order::Time, |requests, names, knows| {
        analysis.add(requests, names, knows);
        taken += requests.len();
        live.step(&format!("first pass: {taken} requests"));
        true
    })?
    .whole()?;
    let writes = analysis.take_writes();
    let (report, read_hits) = analysis.finish_with_read_hits(&first.names);
    if lacks_levels(how.by, &report) {
        warn_of_levels();
    }
    if report.written_footprint_bytes == 0 {
        bail!("{}: nothing is written in it, so no fast tier keeps writes from the capacity tier", options.trace);
    }
    let mut sizing = Sizing::new(&how, &report);
    match writes {
        Some(writes) => sizing.repeat(&writes),
        None => {
            taken = 0;
            let second = read(trace, trace_format, columns, volume, Order::Time, |requests, names, knows| {
                sizing.add(requests, names, knows);
                taken += requests.len();
                live.step(&format!("second pass: {taken} of {} requests", first.requests));
                true
            })?
            .whole()?;
            if second.requests != first.requests {
                let (before, now) = (first.requests, second.requests);
                bail!("{}: changed while it was read: {before} requests, then {now}", options.trace);
            }
        }
    }
    drop(live);
    let sizes = sizing.finish(&options.fast_size);
    let offer = |sized| offer(sized, &read_hits, &fast, &capacity);
    let offers = sizes.sizes.iter().map(offer).collect::<Result<Vec<_>>>()?;
    let knee = sizes.knee.and_then(|at| offers.get(at));
    match format {
        Format::Json => output::json(json!({
            "trace": options.trace,
            "faults": faults_json(&first.faults),
            "notes": first.notes,
            "one_block_in": sizes.one_block_in,
            "exact": first.is_exact(&report) && sizes.one_block_in == 1,
            "order": sizes.order,
            "bypassed": sizes.bypassed,
            "unknown": report.unknown,
            "rewrites_max": sizes.rewrites_max,
            "footprint_bytes": sizes.footprint_bytes,
            "written_footprint_bytes": sizes.written_footprint_bytes,
            "rows_bytes": sizes.rows_bytes,
            "sizes": offers.iter().map(value).collect::<Vec<_>>(),
            "knee": knee.map(value),
            "fast": options.fast,
            "capacity": options.capacity,
        })),
        Format::Table => {
            faults(&first.faults).iter().chain(&first.notes).try_for_each(|line| output::text(line))?;
            output::text(&text(options, &sizes, &report, &offers, knee))
        }
    }?;
    match (&options.config, knee) {
        (Some(path), Some(knee)) => write_config(path, &how, &sizes, &report, knee),
        (Some(path), None) => bail!("--config {}: there is no knee, so no size to write classes for", path.display()),
        (None, _) => Ok(()),
    }?;
    first.mostly(&options.trace)
}

fn offer<'a>(sized: &'a Sized, read_hits: &ReadHits, fast: &Life, capacity: &Life) -> Result<Offer<'a>> {
    // Staged writes pass through the tier too; bypassed writes do not. The tier has as many drives as it needs, and the life of all of
    // them.
    let drives = (sized.size_bytes as f64 / fast.capacity_bytes).ceil().max(1.0);
    let life = Life {
        capacity_bytes: fast.capacity_bytes * drives,
        media_bytes: fast.media_bytes * drives,
        years: fast.years,
    };
    let effective = |alpha: f64, fast_share: f64| {
        let fast_tier = Tier { life, share: fast_share, waf: 1.0 };
        endurance::pool(&fast_tier, &Tier { life: *capacity, share: 1.0 - alpha, waf: SHAPED_WAF })
    };
    let all = effective(sized.alpha, sized.fast_share)?;
    let as_pinned = Way { pinned: sized.pinned, staged: 1.0, alpha: sized.alpha, fast_share: sized.fast_share };
    let mut longest = (as_pinned, all);
    for way in &sized.ways {
        let found = effective(way.alpha, way.fast_share)?;
        // A gain of less than a percent does not justify another placement.
        if found.edpwd > longest.1.edpwd * 1.01 {
            longest = (*way, found);
        }
    }
    Ok(Offer { sized, read_hits: read_hits.ratio(sized.size_bytes), all, longest })
}

fn limit(limit: Limit) -> &'static str {
    match limit {
        Limit::Fast => "fast",
        Limit::Capacity => "capacity",
    }
}

fn value(offer: &Offer<'_>) -> Value {
    let finite = |value: f64| value.is_finite().then_some(value);
    let (way, longest) = &offer.longest;
    json!({
        "size_bytes": offer.sized.size_bytes,
        "pinned": offer.sized.pinned,
        "alpha": offer.sized.alpha,
        "alpha_error": offer.sized.alpha_error,
        "sample_error": offer.sized.sample_error,
        "alpha_pinned": offer.sized.alpha_pinned,
        "fast_share": offer.sized.fast_share,
        "read_hit_ratio": offer.read_hits,
        "rewrites": offer.sized.rewrites,
        "epbw": finite(offer.all.epbw),
        "edpwd": finite(offer.all.edpwd),
        "worn_first": limit(offer.all.limit),
        "longest": {
            "pinned": way.pinned,
            "staged": way.staged,
            "alpha": way.alpha,
            "fast_share": way.fast_share,
            "epbw": finite(longest.epbw),
            "edpwd": finite(longest.edpwd),
            "worn_first": limit(longest.limit),
        },
    })
}

fn names(sizes: &Sizes, pinned: usize) -> String {
    match pinned {
        0 => "nothing".to_owned(),
        _ => sizes.order[..pinned].iter().map(|row| row.name.as_str()).collect::<Vec<_>>().join(", "),
    }
}

fn text(
    options: &SizeOptions,
    sizes: &Sizes,
    report: &Report,
    offers: &[Offer<'_>],
    knee: Option<&Offer<'_>>,
) -> String {
    let asked = |offer: &Offer<'_>| options.fast_size.contains(&offer.sized.size_bytes);
    let is_knee = |offer: &Offer<'_>| knee.is_some_and(|knee| std::ptr::eq(knee.sized, offer.sized));
    let rows: Vec<Vec<String>> = offers
        .iter()
        .enumerate()
        // The table shows octaves only.
        .filter(|(at, offer)| {
            offer.sized.size_bytes.is_power_of_two() || asked(offer) || is_knee(offer) || at + 1 == offers.len()
        })
        .map(|(_, offer)| {
            vec![
                if is_knee(offer) {
                    "knee"
                } else if asked(offer) {
                    "asked"
                } else {
                    ""
                }
                .to_owned(),
                names(sizes, offer.sized.pinned),
                size(offer.sized.size_bytes),
                format!("{:.1} %", offer.sized.alpha * 100.0),
                offer.sized.alpha_error.map_or_else(|| "-".to_owned(), |error| format!("{:.1}", error * 100.0)),
                format!("{:.1} %", offer.sized.alpha_pinned * 100.0),
                format!("{:.1} %", offer.sized.rewrites * 100.0),
                ratio(offer.read_hits),
                writes_a_day(&offer.all),
                format!("{:.1} %", offer.sized.fast_share * 100.0),
                limit(offer.all.limit).to_owned(),
                writes_a_day(&offer.longest.1),
                format!("{:.1} %", offer.longest.0.fast_share * 100.0),
            ]
        })
        .collect();
    let head = [
        "",
        "pinned",
        "fast tier",
        "alpha",
        "+-",
        "of pinned",
        "rewrites",
        "read hits",
        "EDPWD",
        "taken",
        "worn first",
        "at most",
        "taken then",
    ];
    let mut lines = vec![table(&head, 2, &rows)];
    if sizes.one_block_in > 1 {
        lines.push(format!("SAMPLED: one block in {} was followed", sizes.one_block_in));
    }
    lines.push(format!(
        "alpha: share of block writes kept from the capacity tier; +-: half of the 95 % interval in points, from 20 parts \
         of the trace. Rewrites: of these, what was written over or discarded there, by which the knee is found. Read hits: of an LRU cache of that size over all accesses. EDPWD: {} over {}; the fast tier \
         takes what is pinned or staged there (taken, of the writes), and the rest is shaped into bands (WAF {SHAPED_WAF}). \
         At most: where of what is staged the share that lets hosts write most passes the fast tier by.",
        options.fast, options.capacity
    ));
    if !sizes.bypassed.is_empty() {
        let names: Vec<&str> = sizes.bypassed.iter().map(|row| row.name.as_str()).collect();
        lines.push(format!("Straight to the capacity tier, by the rules' place: {}", names.join(", ")));
    }
    lines.extend(unknown(report));
    match knee {
        Some(knee) => lines.push(format!(
            "The knee is at {}: pin {}, alpha {:.1} %.",
            size(knee.sized.size_bytes),
            names(sizes, knee.sized.pinned),
            knee.sized.alpha * 100.0
        )),
        None if sizes.rewrites_max < 0.001 => lines.push(format!(
            "There is no knee: next to nothing is written twice. More space buys nothing until all of it fits ({}).",
            size(sizes.rows_bytes)
        )),
        None if sizes.sizes.iter().all(|sized| sized.rewrites >= sizes.rewrites_max * 0.98) => lines.push(format!(
            "There is no knee: the smallest size keeps what any does. All that is written fits in {}.",
            size(sizes.written_footprint_bytes)
        )),
        None => lines.push(format!(
            "There is no knee: alpha rises evenly with each doubling, until all that is written fits ({}).",
            size(sizes.rows_bytes)
        )),
    }
    if knee.is_some_and(|knee| knee.sized.size_bytes as f64 >= sizes.written_footprint_bytes as f64 * 0.8) {
        lines.push(
            "All that the trace writes fits there: a longer one may well show a knee beyond it, so record longer."
                .to_owned(),
        );
    }
    lines.join("\n")
}

fn writes_a_day(effective: &Effective) -> String {
    if effective.edpwd.is_finite() { format!("{:.2}", effective.edpwd) } else { "-".to_owned() }
}

/// Writes the classes as a configuration.
fn write_config(path: &Path, how: &Options, sizes: &Sizes, report: &Report, knee: &Offer<'_>) -> Result<()> {
    let mut text =
        format!("# For a fast tier of {}: alpha {:.1} %.\n", size(knee.sized.size_bytes), knee.sized.alpha * 100.0);
    for (at, row) in sizes.order.iter().chain(&sizes.bypassed).enumerate() {
        let is_pinned = at < knee.sized.pinned;
        let is_bypassed = at >= sizes.order.len();
        let share = row.occupancy_bytes as f64 / knee.sized.size_bytes.max(1) as f64;
        let letter = report.rows.iter().find(|found| found.name == row.name).and_then(|found| found.letter);
        let _ = write!(
            text,
            "\n# {}: occupies {}, beta {:.1}\n[[class]]\nname = {:?}\nplace = {:?}\n",
            letter.map_or_else(|| "?".to_owned(), String::from),
            size(row.occupancy_bytes),
            row.beta,
            class_name(&row.name),
            match (is_pinned, is_bypassed) {
                (true, _) => "fast",
                (_, true) => "capacity",
                _ => "stage",
            },
        );
        if is_pinned {
            // Half as much again as the class ever occupied.
            let _ = writeln!(text, "share = {:.3}", (share * 1.5).min(1.0));
        }
        let rules = rules_of(&row.name, how);
        if !rules.is_empty() {
            // The first rule that holds decides, so user rules come before hints, in their given order.
            let given = how.rules.iter().position(|(class, _)| *class == row.name).unwrap_or(how.rules.len());
            let _ = writeln!(text, "priority = {given}\nmatch = {rules:?}");
        }
    }
    use std::io::Write as _;
    let file = std::fs::OpenOptions::new().write(true).create_new(true).open(path);
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()));
    if written.as_ref().is_err_and(|error| error.kind() != std::io::ErrorKind::AlreadyExists) {
        // A partial file is useless and would block the next attempt; the first error is the one to report.
        let _ = std::fs::remove_file(path);
    }
    written.with_context(|| format!("--config {}", path.display()))
}

/// Converts a row's name to a valid class name.
fn class_name(row: &str) -> String {
    row.chars().map(|c| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '-' }).collect()
}

/// Rules of a row's class: the user's rules, or else one derived from what the row stands for.
fn rules_of(row: &str, how: &Options) -> Vec<String> {
    let given = how.rules.iter().filter(|(class, _)| class == row);
    let given: Vec<String> = given.map(|(_, rule)| rule.to_string()).collect();
    if !given.is_empty() {
        return given;
    }
    let named = |predicate: &str| Some(format!("{predicate}:{row:?}"));
    let rule = match (how.by, row) {
        (_, "not known" | "none" | "others") => None,
        (By::Class | By::Hint, "swap") => Some("hint.swap".to_owned()),
        (By::Class | By::Hint, _) => row.strip_prefix("lifetime ").map(|hint| format!("hint.lifetime:{hint}")),
        (By::Directory, _) => named("directory"),
        (By::Extension, _) => named("ext"),
        (By::Process, _) => named("process_name"),
        (By::IoClass, _) => row.strip_prefix("class ").map(|class| format!("io_class:{class}")),
        (By::Volume, _) => named("disk"),
        (By::Level, _) => row
            .strip_prefix("level ")
            .filter(|level| level.bytes().all(|byte| byte.is_ascii_digit()))
            .map(|level| format!("rocksdb.level:{level}")),
    };
    rule.into_iter().collect()
}
