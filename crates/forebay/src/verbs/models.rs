//! `forebay models`: what can be modelled. `forebay conformance`: the published tables beside the models'.

use crate::cli::ConformanceOptions;
use crate::output::{self, Format};
use anyhow::{Result, bail};
use forebay_model::conformance::{self, Options, Relation, Row, Use};
use forebay_model::{host, preset};
use serde_json::json;

/// Seed of the models' own choices.
const SEED: u64 = 1;

/// Lists the drives and the hosts.
///
/// # Errors
/// Where nothing can be written.
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
            output::line(&output::table(&["drive", "what it is"], 2, &rows(drives)))?;
            output::line(&output::table(&["host", "what it is"], 2, &rows(hosts)))?;
            output::line("model:DRIVE[?size=SIZE&fill=PERCENT&host=HOST], emulated:DRIVE?size=SIZE[&store=/path]")
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

/// Reproduces the published tables on the models.
///
/// # Errors
/// A part that no test has.
pub fn conformance(options: &ConformanceOptions, format: Format) -> Result<()> {
    if !(1000..=1_000_000_000).contains(&options.ios) {
        bail!("--ios {}: 1000 to 1000000000", options.ios);
    }
    let part = options.part.as_deref().unwrap_or_default();
    let rows = conformance::run(Options { ios: options.ios, seed: SEED }, |test| {
        [&test.drive, &test.name, &test.host, &test.source].into_iter().any(|name| name.contains(part))
    })?;
    if rows.is_empty() {
        bail!("no published test has {part:?} in its drive, name, host or source; leave it out to see all");
    }
    let score = |of: Use| {
        let judged: Vec<bool> = rows.iter().filter(|row| row.used == of).filter_map(|row| row.within).collect();
        (judged.iter().filter(|within| **within).count(), judged.len())
    };
    let scores = [Use::Fit, Use::HeldOut, Use::Calibrated].map(|of| (used(of), score(of)));
    match format {
        Format::Json => output::json(json!({
            "ios": options.ios,
            "seed": SEED,
            "rows": rows.iter().map(|row| json!({
                "source": row.source, "test": row.test, "drive": row.drive, "host": row.host, "used": used(row.used),
                "measure": format!("{:?}", row.measure), "relation": format!("{:?}", row.relation),
                "published": row.published, "modelled": row.modelled, "error_percent": row.error_percent,
                "within": row.within,
            })).collect::<Vec<_>>(),
            "scores": scores.iter().map(|(name, (within, judged))| json!({ "rows": name, "within": within, "judged": judged })).collect::<Vec<_>>(),
        })),
        Format::Table => {
            output::line(&output::table(
                &["drive", "test", "host", "rows", "figure", "published", "modelled", "error", "within"],
                5,
                &rows.iter().map(line).collect::<Vec<_>>(),
            ))?;
            for (name, (within, judged)) in scores {
                if judged > 0 {
                    output::line(&format!("{name}: {within} of {judged} figures within their limits"))?;
                }
            }
            output::line(
                "fit: parameters were fitted to the row; held out: never looked at by the fit; calibrated: the host's \
                          profile was fitted to the row, the drive was not",
            )
        }
    }
}

fn line(row: &Row) -> Vec<String> {
    let digits = |value: f64| if value >= 1000.0 { format!("{value:.0}") } else { format!("{value:.2}") };
    vec![
        row.drive.clone(),
        row.test.clone(),
        row.host.clone(),
        used(row.used).to_owned(),
        format!("{:?}", row.measure),
        format!("{}{}", relation(row.relation), digits(row.published)),
        row.modelled.map_or_else(|| "too few".to_owned(), digits),
        row.error_percent.map_or_else(|| "-".to_owned(), |error| format!("{error:+.1} %")),
        row.within.map_or("-", |within| if within { "yes" } else { "NO" }).to_owned(),
    ]
}
