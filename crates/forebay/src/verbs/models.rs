//! `forebay models`: the drives and hosts that can be modelled. `forebay conformance`: published figures beside the models'.

use super::schema;
use crate::cli::ConformanceOptions;
use crate::output::{self, Format};
use crate::read_cache;
use crate::use_cases::{self, UseCase};
use crate::write_amplification;
use anyhow::{Result, bail, ensure};
use forebay_daemon::finding::finding;
use forebay_model::conformance::experiment::{Data, Effort, Experiment, Found, Value, claims};
use forebay_model::conformance::{self, Options, Relation, Row, Use};
use forebay_model::{host, preset};
use serde_json::json;

/// Seed of the models' random choices.
const SEED: u64 = 1;
/// Default number of I/Os of each test.
const IOS: u64 = 2_000_000;

/// Lists the drives and the hosts.
///
/// # Errors
/// The output cannot be written.
pub fn list(format: Format) -> Result<()> {
    let hosts = host::names();
    match format {
        Format::Json => output::json(json!({
            "drives": preset::NAMES.map(|(name, about)| json!({ "name": name, "about": about })),
            "hosts": hosts.iter().map(|(name, about)| json!({ "name": name, "about": about })).collect::<Vec<_>>(),
        })),
        Format::Table => {
            let rows = |pairs: Vec<(&str, String)>| -> Vec<Vec<String>> {
                pairs.into_iter().map(|(name, about)| vec![name.to_owned(), about]).collect()
            };
            let drives = preset::NAMES.iter().map(|&(name, about)| (name, about.to_owned())).collect();
            output::text(&output::table(&["drive", "what it is"], 2, &rows(drives)))?;
            output::text(&output::table(&["host", "what it is"], 2, &rows(hosts)))?;
            output::text("model:DRIVE[?size=SIZE&fill=PERCENT&host=HOST], emulated:DRIVE?size=SIZE[&store=/path]")
        }
    }
}

fn used(used: Use) -> &'static str {
    match used {
        Use::Fit => "fit",
        Use::HeldOut => "held out",
        Use::Calibrated => "calibrated",
    }
}

fn relation(relation: Relation) -> &'static str {
    match relation {
        Relation::Is => "",
        Relation::AtMost => "<= ",
        Relation::AtLeast => ">= ",
    }
}

/// Reproduces the published tables on the models, and the experiments with published figures.
///
/// # Errors
/// No test matches the part; with `strict`, figures are outside their limits.
pub fn conformance(options: &ConformanceOptions, format: Format) -> Result<()> {
    if options.schema {
        return schema::print("conformance");
    }
    if options.part.as_deref() == Some("wa") {
        return write_amplification(options, format);
    }
    if options.part.as_deref() == Some("cache") {
        return cache(options, format);
    }
    if !options.trace.is_empty() || !options.band.is_empty() || !options.spare.is_empty() {
        bail!("--trace is of wa and cache, --band and --spare are of wa");
    }
    if !options.cache_percent.is_empty() {
        bail!("--cache-percent is of cache");
    }
    if let Some(case) = use_cases::ALL.into_iter().find(|case| options.part.as_deref() == Some(case.name)) {
        return use_case(case, options, format);
    }
    if options.scale.is_some() || options.seeds.is_some() || options.fast_size.is_some() {
        let known: Vec<&str> = use_cases::ALL.iter().map(|case| case.name).collect();
        bail!("--scale, --seeds and --fast-size are of a use case: {}", known.join(", "));
    }
    let ios = options.ios.unwrap_or(IOS);
    if !(1000..=1_000_000_000).contains(&ios) {
        bail!("--ios {ios}: 1000 to 1000000000");
    }
    let part = options.part.as_deref().unwrap_or_default();
    let wanted = |names: [&String; 4]| names.into_iter().any(|name| name.contains(part));
    let mut rows = conformance::run(Options { ios, seed: SEED }, |test| {
        wanted([&test.drive, &test.name, &test.host, &test.source])
    })?;
    let effort = Effort { seed: SEED, ios: (ios / 10).max(1000), full: options.full, ..Effort::default() };
    let claims = claims()?;
    let mut ran = Vec::new();
    for experiment in Experiment::ALL {
        let named = experiment.name() == part;
        let of: Vec<_> = claims
            .iter()
            .filter(|claim| claim.experiment == experiment)
            .filter(|claim| named || wanted([&claim.drive, &claim.name, &claim.host, &claim.source]))
            .collect();
        if !of.is_empty() {
            let found = experiment.run(effort)?;
            rows.extend(of.iter().filter_map(|claim| claim.row(&found)));
            ran.push((experiment, named, found));
        }
    }
    if rows.is_empty() {
        bail!("no published test has {part:?} in its drive, name, host or source; leave it out to see all");
    }
    match format {
        Format::Json => output::json(json!({
            "ios": ios,
            "seed": SEED,
            "rows": rows.iter().map(|row| json!({
                "source": row.source, "test": row.test, "drive": row.drive, "host": row.host, "used": used(row.used),
                "measure": format!("{:?}", row.measure), "relation": format!("{:?}", row.relation),
                "published": row.published, "modelled": row.modelled, "error_percent": row.error_percent,
                "within": row.within,
            })).collect::<Vec<_>>(),
            "scores": scores(&rows).iter().map(|(name, (within, judged))| json!({ "rows": name, "within": within, "judged": judged })).collect::<Vec<_>>(),
            "experiments": ran.iter().map(|(experiment, _, found)| json!({
                "name": experiment.name(), "about": experiment.about(), "figures": found.figures,
                "data": found.data.iter().map(data_json).collect::<Vec<_>>(),
            })).collect::<Vec<_>>(),
        }))?,
        Format::Table => show(&rows, &ran)?,
    }
    let outside = rows.iter().filter(|row| row.within == Some(false)).count();
    if options.strict && outside > 0 {
        return Err(finding(format!("{outside} figures are outside their limits")));
    }
    Ok(())
}

/// Runs a published use case of two tiers.
fn use_case(case: &'static UseCase, options: &ConformanceOptions, format: Format) -> Result<()> {
    let scale = options.scale.unwrap_or(case.scale);
    let (least, most) = case.scales;
    if !(least..=most).contains(&scale) {
        bail!("--scale {scale}: {least} to {most} for {}", case.name);
    }
    let seeds = options.seeds.unwrap_or(5);
    if !(1..=99).contains(&seeds) {
        bail!("--seeds {seeds}: 1 to 99");
    }
    if options.full || options.strict || options.ios.is_some() {
        bail!("--ios, --full and --strict have no effect on {}: leave them out", case.name);
    }
    let fast_bytes = options.fast_size.unwrap_or_else(|| use_cases::Plan::published_fast_bytes(case, scale));
    ensure!(
        fast_bytes >= FAST_BYTES_MIN,
        "--fast-size is {}; a fast tier has at least {}",
        output::size(fast_bytes),
        output::size(FAST_BYTES_MIN)
    );
    let plan = use_cases::Plan { case, scale, fast_bytes, seeds };
    let found = use_cases::run(plan, |what| output::complain(what))?;
    match format {
        Format::Json => output::json(use_cases::json(&found)),
        Format::Table => output::text(&use_cases::text(&found)),
    }
}

/// Smallest modelled drive.
const FAST_BYTES_MIN: u64 = 1 << 20;

/// Prints the table of write amplification.
fn write_amplification(options: &ConformanceOptions, format: Format) -> Result<()> {
    if is_of_models(options) || !options.cache_percent.is_empty() {
        bail!("wa takes --trace, --only, --band and --spare: leave the others out");
    }
    let plan = write_amplification::Plan {
        traces: options.trace.clone(),
        without_built_in: options.only,
        bands_bytes: options.band.clone(),
        spares_percent: options.spare.clone(),
    };
    let found = write_amplification::run(&plan, |what| output::complain(what))?;
    match format {
        Format::Json => output::json(write_amplification::json(&found)),
        Format::Table => output::text(&write_amplification::text(&found)),
    }
}

/// Prints the table of hit ratios.
fn cache(options: &ConformanceOptions, format: Format) -> Result<()> {
    if is_of_models(options) || !options.band.is_empty() || !options.spare.is_empty() {
        bail!("cache takes --trace, --only and --cache-percent: leave the others out");
    }
    let plan = read_cache::Plan {
        traces: options.trace.clone(),
        without_built_in: options.only,
        sizes_percent: options.cache_percent.clone(),
    };
    let found = read_cache::run(&plan, |what| output::complain(what))?;
    match format {
        Format::Json => output::json(read_cache::json(&found)),
        Format::Table => output::text(&read_cache::text(&found)),
    }
}

/// Whether options for modelled drives or use cases are given.
fn is_of_models(options: &ConformanceOptions) -> bool {
    let of_use_case = options.scale.is_some() || options.seeds.is_some() || options.fast_size.is_some();
    of_use_case || options.full || options.strict || options.ios.is_some()
}

fn scores(rows: &[Row]) -> [(&'static str, (usize, usize)); 3] {
    [Use::Fit, Use::HeldOut, Use::Calibrated].map(|of| {
        let judged: Vec<bool> = rows.iter().filter(|row| row.used == of).filter_map(|row| row.within).collect();
        (used(of), (judged.iter().filter(|within| **within).count(), judged.len()))
    })
}

fn show(rows: &[Row], ran: &[(Experiment, bool, Found)]) -> Result<()> {
    for (experiment, _, found) in ran.iter().filter(|(_, named, _)| *named) {
        output::text(&format!("{}: {}", experiment.name(), experiment.about()))?;
        for data in &found.data {
            let columns: Vec<&str> = data.columns.iter().map(String::as_str).collect();
            let cells: Vec<Vec<String>> = data.rows.iter().map(|row| row.iter().map(cell).collect()).collect();
            let left = data.rows.first().map_or(0, |row| row.iter().take_while(|cell| is_text(cell)).count());
            output::text(&format!("\n{}", data.title))?;
            output::text(&output::table(&columns, left, &cells))?;
        }
        output::text("")?;
    }
    let mut tests: Vec<output::Section> = Vec::new();
    for row in rows {
        let title = format!("{}, {}, host {} ({})", row.drive, row.test, row.host, used(row.used));
        match tests.last_mut().filter(|(last, _)| *last == title) {
            Some((_, lines)) => lines.push(line(row)),
            None => tests.push((title, vec![line(row)])),
        }
    }
    output::text(&output::sections(&["figure", "published", "modelled", "error", "within"], 1, &tests))?;
    for (name, (within, judged)) in scores(rows) {
        if judged > 0 {
            output::text(&format!("{name}: {within} of {judged} figures within their limits"))?;
        }
    }
    output::text(
        "fit: parameters were fitted to the row; held out: never looked at by the fit; calibrated: the host's profile was \
         fitted to the row, the drive was not",
    )?;
    let unseen: Vec<&str> =
        ran.iter().filter(|(_, named, _)| !named).map(|(experiment, _, _)| experiment.name()).collect();
    if !unseen.is_empty() {
        output::text(&format!("curves and surfaces behind the figures: forebay conformance {}", unseen.join(" | ")))?;
    }
    Ok(())
}

fn is_text(value: &Value) -> bool {
    matches!(value, Value::Text(_))
}

fn cell(value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        Value::Number(number, decimals) => format!("{number:.decimals$}"),
    }
}

/// The rows as objects with column names as keys.
fn data_json(data: &Data) -> serde_json::Value {
    let value = |value: &Value| match value {
        Value::Text(text) => json!(text),
        Value::Number(number, _) => json!(number),
    };
    let row = |row: &Vec<Value>| -> serde_json::Map<String, serde_json::Value> {
        data.columns.iter().cloned().zip(row.iter().map(value)).collect()
    };
    json!({ "title": data.title, "rows": data.rows.iter().map(row).collect::<Vec<_>>() })
}

fn line(row: &Row) -> Vec<String> {
    let digits = |value: f64| if value >= 1000.0 { format!("{value:.0}") } else { format!("{value:.2}") };
    vec![
        format!("{:?}", row.measure),
        format!("{}{}", relation(row.relation), digits(row.published)),
        row.modelled.map_or_else(|| "too few".to_owned(), digits),
        row.error_percent.map_or_else(|| "-".to_owned(), |error| format!("{error:+.1} %")),
        row.within.map_or("-", |within| if within { "yes" } else { "NO" }).to_owned(),
    ]
}
