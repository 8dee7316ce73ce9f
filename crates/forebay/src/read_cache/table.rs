//! The table of hit ratios.

use super::run::{Row, STAGED_PERCENT};
use super::staging::Reads;
use super::verdict::{LOSS_MAX, Set, Summary, TELLING_MIN, untelling, verdicts};
use crate::mean::mean;
use crate::output;
use forebay_placement::cache::Policy;
use serde_json::{Map, Value, json};

/// Marks rows in which a block that two requests share is read once.
const ONCE: &str = " (once)";

fn optimum(rows: &[&Row]) -> f64 {
    mean(rows.iter().map(|row| row.ratio(row.optimum_hits)))
}

/// The rows as JSON.
pub fn json(rows: &[Row]) -> Value {
    let of_each = |figure: &dyn Fn(Policy) -> f64| -> Map<String, Value> {
        Policy::ALL.into_iter().map(|policy| (policy.name().to_owned(), json!(figure(policy)))).collect()
    };
    let policy = |summary: &Summary| {
        json!({
            "policy": summary.policy.name(), "mean_hit_ratio": summary.mean_ratio,
            "mean_of_better": summary.mean_of_better, "worst_of_better": summary.worst.map(|(part, _)| part),
            "worst_stream": summary.worst.map(|(_, row)| &row.stream),
            "worst_size_percent": summary.worst.map(|(_, row)| row.size_percent),
            "rows_below": summary.rows_below, "mean_fills_per_read": summary.mean_fills,
        })
    };
    let set = |set: Set| {
        let of = set.of(rows);
        (!of.is_empty()).then(|| {
            json!({
                "set": set.name(), "rows": of.len(), "rows_without_rereads": untelling(&of),
                "policies": Policy::ALL.map(|each| policy(&Summary::of(each, &of))),
                "optimum_mean": optimum(&of),
                "verdicts": verdicts(&of).map(|(claim, verdict)| json!({ "claim": claim, "holds": verdict.name() })),
            })
        })
    };
    json!({
        "rows": rows.iter().map(|row| json!({
            "stream": row.stream, "blocks_between_requests_once": row.counted == Reads::OnceBetweenRequests,
            "size_percent": row.size_percent, "places": row.places, "staged_blocks": row.staged_blocks,
            "read_blocks": row.read_blocks, "reads": row.reads,
            "hit_ratios": of_each(&|policy| row.hit_ratio(policy)),
            "fills_per_read": of_each(&|policy| row.ratio(row.outcomes[&policy].fills)),
            "optimum": row.ratio(row.optimum_hits), "ours_of_better": row.of_better(Policy::Ours),
        })).collect::<Vec<_>>(),
        "sets": Set::ALL.into_iter().filter_map(set).collect::<Vec<_>>(),
        "loss_max": LOSS_MAX,
        "rereads_min": TELLING_MIN,
    })
}

fn percent(ratio: f64) -> String {
    format!("{:.2}", ratio * 100.0)
}

fn part(part: Option<f64>) -> String {
    part.map_or_else(|| "-".to_owned(), |part| format!("{part:.3}"))
}

fn name(row: &Row) -> String {
    format!("{}{}", row.stream, if row.counted == Reads::All { "" } else { ONCE })
}

/// The rows as text.
pub fn text(rows: &[Row]) -> String {
    let mut head = vec!["stream", "size", "places", "reads", "reads/size"];
    head.extend(Policy::ALL.map(Policy::name));
    head.extend(["optimum", "/ better"]);
    let line = |row: &Row| {
        let per_place = row.reads as f64 / f64::from(row.places);
        let mut cells = vec![name(row), format!("{} %", row.size_percent), row.places.to_string()];
        cells.extend([row.reads.to_string(), format!("{per_place:.1}")]);
        cells.extend(Policy::ALL.map(|policy| percent(row.hit_ratio(policy))));
        cells.extend([percent(row.ratio(row.optimum_hits)), part(row.of_better(Policy::Ours))]);
        cells
    };
    let mut parts = vec![
        "Hits, in percent of the reads of blocks on the capacity tier; size: places, of the blocks that are read"
            .to_owned(),
        output::table(&head, 1, &rows.iter().map(line).collect::<Vec<_>>()),
        format!(
            "better: of LRU and ARC. Optimum: with all of the future known. {STAGED_PERCENT} % of the blocks that are read are staged, and \
             read from there.{}",
            if rows.iter().any(|row| row.counted != Reads::All) {
                " (once): a block inside which one read ended and the next begins is read once."
            } else {
                ""
            }
        ),
    ];
    parts.extend(Set::ALL.into_iter().filter_map(|set| about(set, &set.of(rows))));
    parts.join("\n")
}

/// Summary of a set of rows; none where it is empty.
fn about(set: Set, rows: &[&Row]) -> Option<String> {
    if rows.is_empty() {
        return None;
    }
    let line = |policy: Policy| {
        let summary = Summary::of(policy, rows);
        let worst = |(part, row): (f64, &Row)| format!("{part:.3} ({}, {} %)", name(row), row.size_percent);
        vec![
            policy.name().to_owned(),
            percent(summary.mean_ratio),
            part(summary.mean_of_better),
            summary.rows_below.to_string(),
            percent(summary.mean_fills),
            summary.worst.map_or_else(|| "-".to_owned(), worst),
        ]
    };
    let mut lines: Vec<Vec<String>> = Policy::ALL.map(line).into();
    let mut last = vec!["optimum".to_owned(), percent(optimum(rows))];
    last.resize(6, "-".to_owned());
    lines.push(last);
    let title = match untelling(rows) {
        0 => format!("\n{}: {} rows", set.name(), rows.len()),
        some => format!(
            "\n{}: {} rows; in {some} of them next to nothing is read again: not even the optimum hits {} %",
            set.name(),
            rows.len(),
            TELLING_MIN * 100.0
        ),
    };
    let head = ["policy", "mean", "mean / better", "rows 2 % below", "copied/read %", "worst / better"];
    let mut parts = vec![title, output::table(&head, 1, &lines)];
    parts.extend(verdicts(rows).map(|(claim, verdict)| format!("{claim}: {}", verdict.name())));
    Some(parts.join("\n"))
}
