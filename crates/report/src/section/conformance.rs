//! Published figures beside our own: drives, use cases of two tiers, policies of placement.

use super::frame::Section;
use super::other;
use crate::fields::{at, list, number, text, texts};
use crate::picture::Picture;
use crate::results::Found;
use crate::svg::{Drawing, Estimate, Forest, Form, WITHHELD};
use crate::table::{Cell, Column, Table, Tone};
use crate::unit::Unit;
use serde_json::Value;
use std::collections::BTreeSet;

/// Rows of published figures in the picture; the table has all.
const DRAWN_MAX: usize = 30;

pub(super) fn of_drives(found: &Found) -> Section {
    let value = &found.value;
    let mut section = Section { title: "Published figures, and the models".to_owned(), ..Section::default() };
    section.about.push("Fit: what a model was fitted to; held out: what it was not; calibrated: with the terms of the host that measured it.".to_owned());
    section.facts.extend(list(value, "scores").iter().map(|score| {
        let figure = |path: &str| number(score, path).map_or_else(|| "-".to_owned(), |number| number.to_string());
        (
            text(score, "rows").unwrap_or("-").to_owned(),
            Cell::text(format!("{} of {} within their limits", figure("within"), figure("judged"))),
        )
    }));
    let rows = list(value, "rows");
    let head = vec![
        Column::text("test"),
        Column::text("drive"),
        Column::text("host"),
        Column::text("used"),
        Column::text("figure"),
        Column::number("published", Unit::Plain),
        Column::number("modelled", Unit::Plain),
        Column::number("error (%)", Unit::Plain),
        Column::text("within"),
        Column::text("source"),
    ];
    let mut table = Table::new("Published and modelled; of times in microseconds", head);
    table.rows.extend(rows.iter().map(|row| {
        let within = at(row, "within").and_then(Value::as_bool);
        let tone = match within {
            Some(true) => Tone::Good,
            Some(false) => Tone::Bad,
            None => Tone::Plain,
        };
        let texts = ["test", "drive", "host", "used"].map(|path| Cell::at(row, path, Unit::Plain));
        let measure = [Cell::text(measure(row))];
        let figures = ["published", "modelled", "error_percent"].map(|path| Cell::at(row, path, Unit::Plain));
        let end = [Cell::at(row, "within", Unit::Plain).with_tone(tone), Cell::at(row, "source", Unit::Plain)];
        texts.into_iter().chain(measure).chain(figures).chain(end).collect()
    }));
    section.pictures.extend(ratios(rows, &table));
    section.pictures.push(Picture::table("Rows", table));
    for experiment in list(value, "experiments") {
        for data in list(experiment, "data") {
            let title = format!("{}: {}", text(experiment, "name").unwrap_or("-"), text(data, "title").unwrap_or("-"));
            section
                .pictures
                .extend(other::of_rows(&title, list(data, "rows")).map(|table| Picture::table(title, table)));
        }
    }
    section
}

/// Name of a row's measure.
fn measure(row: &Value) -> &str {
    match text(row, "measure").unwrap_or("-") {
        "Iops" => "IOPS",
        "BytesPerS" => "bytes/s",
        "MeanUs" => "mean",
        "ReadMeanUs" => "mean of reads",
        "MedianUs" => "median",
        "P99Us" => "p99",
        "P99_999Us" => "p99.999",
        "P99_99999Us" => "p99.99999",
        "Times" => "times as much",
        "Depth" => "queue depth",
        "Rank" => "rank correlation",
        other => other,
    }
}

fn ratios(rows: &[Value], table: &Table) -> Option<Picture> {
    let estimate = |row: &Value| {
        let (published, modelled) = (number(row, "published")?, number(row, "modelled")?);
        let ratio = modelled / published;
        let name = format!("{} {}", text(row, "drive").unwrap_or("-"), text(row, "test").unwrap_or("-"));
        let name = format!("{name}, {}", measure(row));
        let say = format!("{name}: {ratio:.3}");
        let is_outside = at(row, "within").and_then(Value::as_bool) == Some(false);
        ratio.is_finite().then(|| Estimate {
            name,
            value: Some(ratio),
            low: None,
            high: None,
            say,
            absent: WITHHELD,
            look: usize::from(is_outside),
        })
    };
    let rows: Vec<Estimate> = rows.iter().filter_map(estimate).take(DRAWN_MAX).collect();
    if rows.is_empty() {
        return None;
    }
    let forest = Forest {
        title: "modelled over published".to_owned(),
        unit: Unit::Ratio,
        form: Form::Log,
        against: Some((1.0, "published".to_owned())),
        rows,
    };
    let about = format!(
        "What the model gives over what is published, of the first {DRAWN_MAX} rows at most; orange: outside of its limits."
    );
    Some(Picture::drawn("Modelled over published", about, Drawing::Forest(forest), table.clone()))
}

pub(super) fn of_use_case(found: &Found) -> Section {
    let value = &found.value;
    let mut section =
        Section { title: format!("Use case {}", text(value, "use_case").unwrap_or("-")), ..Section::default() };
    section.about.extend(text(value, "about").map(str::to_owned));
    section
        .about
        .push("Medians over the seeds, with the least and the greatest; beside them what was published.".to_owned());
    section.facts.extend([
        ("Scale".to_owned(), Cell::at(value, "scale", Unit::Count)),
        ("Seeds".to_owned(), Cell::at(value, "seeds", Unit::Count)),
        ("Fast tier".to_owned(), Cell::at(value, "fast_tier_bytes", Unit::Bytes)),
        ("I/Os in flight".to_owned(), Cell::at(value, "depth", Unit::Count)),
    ]);
    section.pictures.extend(gains(value));
    section.pictures.push(Picture::table("The set-ups", set_ups(value)));
    section.pictures.push(Picture::table("The workload", workload(value)));
    section
}

/// Gains of the pool over a single drive.
fn gains(value: &Value) -> Option<Picture> {
    let mut table = Table::new(
        "Ratios over one drive alone",
        vec![
            Column::text("figure"),
            Column::text("over"),
            Column::text("set-up"),
            Column::number("here", Unit::Ratio),
            Column::interval("least to greatest", Unit::Ratio),
            Column::number("published", Unit::Ratio),
        ],
    );
    let mut rows = Vec::new();
    for ratio in list(value, "ratios") {
        let (figure, over) = (text(ratio, "figure").unwrap_or("-"), text(ratio, "over").unwrap_or("-"));
        for (set_up, spread) in at(ratio, "ours").and_then(Value::as_object).into_iter().flatten() {
            table.rows.push(vec![
                Cell::text(figure),
                Cell::text(over),
                Cell::text(set_up.clone()),
                Cell::at(spread, "median", Unit::Ratio),
                Cell::interval(at(spread, "least"), at(spread, "greatest"), Unit::Ratio),
                Cell::at(ratio, "published", Unit::Ratio),
            ]);
            let (median, least, greatest) =
                (number(spread, "median"), number(spread, "least"), number(spread, "greatest"));
            let name = format!("{figure} / {over}, {set_up}");
            let shown = median
                .map_or_else(|| "-".to_owned(), |median| super::texts::bounded(median, least, greatest, Unit::Ratio));
            if median.is_some() {
                rows.push(Estimate {
                    say: format!("{name}: {shown}"),
                    name,
                    value: median,
                    low: least,
                    high: greatest,
                    absent: WITHHELD,
                    look: 0,
                });
            }
        }
        if let Some(published) = number(ratio, "published") {
            let name = format!("{figure} / {over}, published");
            rows.push(Estimate {
                say: format!("{name}: {published:.3}"),
                name,
                value: Some(published),
                low: None,
                high: None,
                absent: WITHHELD,
                look: 1,
            });
        }
    }
    if rows.is_empty() {
        return None;
    }
    let forest = Forest {
        title: "over one drive alone".to_owned(),
        unit: Unit::Ratio,
        form: Form::Log,
        against: Some((1.0, "the same".to_owned())),
        rows,
    };
    let about = "Figures of the pool over those of one drive alone: the median over the seeds, with the least and the greatest. Orange: published.";
    Some(Picture::drawn("The pool over one drive", about, Drawing::Forest(forest), table))
}

/// Each figure in each set-up, beside the published one.
fn set_ups(value: &Value) -> Table {
    let settings = list(value, "settings");
    let published = at(value, "published");
    let mut head = vec![Column::text("figure")];
    for setting in settings {
        let name = text(setting, "name").unwrap_or("-");
        head.push(Column::number(name, Unit::Plain));
        head.push(Column::interval("least to greatest", Unit::Plain));
    }
    let drives = ["tlc", "qlc", "tiered"];
    head.extend(drives.map(|drive| Column::number(format!("published: {drive}"), Unit::Plain)));
    let about: Vec<String> = settings
        .iter()
        .map(|setting| format!("{}: {}", text(setting, "name").unwrap_or("-"), text(setting, "about").unwrap_or("-")))
        .collect();
    let mut table = Table::new(about.join("; "), head);
    let mut figures: Vec<&String> = Vec::new();
    for setting in settings {
        for key in at(setting, "figures").and_then(Value::as_object).into_iter().flatten().map(|(key, _)| key) {
            if !figures.contains(&key) {
                figures.push(key);
            }
        }
    }
    for figure in figures {
        let mut cells = vec![Cell::text(figure.replace('_', " "))];
        for setting in settings {
            let spread = &setting["figures"][figure.as_str()];
            cells.push(Cell::at(spread, "median", Unit::Plain));
            cells.push(Cell::interval(at(spread, "least"), at(spread, "greatest"), Unit::Plain));
        }
        let known = published.and_then(|published| published.get(figure));
        cells.extend(
            drives.map(|drive| known.map_or_else(|| Cell::text("-"), |known| Cell::at(known, drive, Unit::Plain))),
        );
        table.rows.push(cells);
    }
    table
}

fn workload(value: &Value) -> Table {
    let head = vec![
        Column::text("class"),
        Column::number("occupancy (GB), published", Unit::Plain),
        Column::number("here", Unit::Plain),
        Column::number("written (GB), published", Unit::Plain),
        Column::number("here", Unit::Plain),
        Column::number("beta, published", Unit::Plain),
        Column::number("here", Unit::Plain),
        Column::number("alpha, here", Unit::Share),
    ];
    let mut table = Table::new("At scale 1", head);
    table.rows.extend(list(value, "workload").iter().map(|row| {
        let of = |path: &str| Cell::at(row, path, Unit::Plain);
        let here = |figure: &str, unit: Unit| {
            let path = format!("ours_at_scale_1/{figure}");
            let median = format!("{path}/median");
            if at(row, &median).is_some() { Cell::at(row, &median, unit) } else { Cell::at(row, &path, unit) }
        };
        vec![
            of("class"),
            of("published/occupancy_gb"),
            here("occupancy_gb", Unit::Plain),
            of("published/written_gb"),
            here("written_gb", Unit::Plain),
            of("published/beta"),
            here("beta", Unit::Plain),
            here("alpha", Unit::Share),
        ]
    }));
    table
}

pub(super) fn of_write_amplification(found: &Found) -> Section {
    let value = &found.value;
    let mut section =
        Section { title: "Write amplification of policies of placement".to_owned(), ..Section::default() };
    section.about.push("Blocks written to bands for each block that a host writes.".to_owned());
    section.notes.extend(texts(value, "left_out").map(|why| format!("left out: {why}")));
    section.facts.extend([
        ("Ours over SepBIT".to_owned(), Cell::at(value, "ours_over_sepbit", Unit::Ratio)),
        ("With our victims for both".to_owned(), Cell::at(value, "ours_over_sepbit_own_victims", Unit::Ratio)),
        ("Rows worse than the best other".to_owned(), Cell::at(value, "rows_worse_than_best_other", Unit::Count)),
    ]);
    let rows = list(value, "rows");
    let estimates = rows.iter().filter_map(|row| {
        let ratio = number(row, "ours_over_sepbit")?;
        let name = format!(
            "{} {}, {} %",
            text(row, "stream").unwrap_or("-"),
            number(row, "band_blocks").map_or_else(|| "-".to_owned(), |blocks| Unit::Bytes.show(blocks * 4096.0)),
            number(row, "spare_percent").unwrap_or(f64::NAN)
        );
        Some(Estimate {
            say: format!("{name}: {ratio:.3}"),
            name,
            value: Some(ratio),
            low: None,
            high: None,
            look: 0,
            absent: WITHHELD,
        })
    });
    let estimates: Vec<Estimate> = estimates.take(DRAWN_MAX).collect();
    let victims = rows.iter().filter_map(|row| at(row, "published_victims")?.as_object()).flatten();
    let policies: BTreeSet<&str> = victims.map(|(key, _)| key.as_str()).collect();
    let mut head = vec![
        Column::text("stream"),
        Column::number("band (blocks)", Unit::Count),
        Column::number("spare (%)", Unit::Count),
    ];
    head.extend(policies.iter().map(|policy| Column::number(*policy, Unit::Ratio)));
    head.extend([Column::number("ours", Unit::Ratio), Column::number("/ SepBIT", Unit::Ratio)]);
    let mut table = Table::new("With SepBIT's choice of victims; ours with its own", head);
    table.rows.extend(rows.iter().map(|row| {
        let mut cells = vec![
            Cell::at(row, "stream", Unit::Plain),
            Cell::at(row, "band_blocks", Unit::Count),
            Cell::at(row, "spare_percent", Unit::Count),
        ];
        cells.extend(policies.iter().map(|policy| Cell::of(row["published_victims"].get(*policy), Unit::Ratio)));
        cells.extend([Cell::at(row, "ours", Unit::Ratio), Cell::at(row, "ours_over_sepbit", Unit::Ratio)]);
        cells
    }));
    if !estimates.is_empty() {
        let forest = Forest {
            title: "ours over SepBIT".to_owned(),
            unit: Unit::Ratio,
            form: Form::Log,
            against: Some((1.0, "the same".to_owned())),
            rows: estimates,
        };
        let about = format!(
            "What ours writes over what SepBIT writes, of the first {DRAWN_MAX} rows at most; left of the line is less."
        );
        section.pictures.push(Picture::drawn("Ours over SepBIT", about, Drawing::Forest(forest), table.clone()));
    }
    section.pictures.push(Picture::table("Write amplification", table));
    section.pictures.extend(
        other::of_rows("Known before", list(value, "known")).map(|table| Picture::table("Known before", table)),
    );
    section
}
