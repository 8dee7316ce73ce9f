//! The table of hit ratios.

use super::run::Row;
use crate::output;
use forebay_placement::cache::Policy;
use serde_json::{Map, Value, json};

/// What is promised of ours: no more is lost against the better of LRU and ARC.
const LOSS_MAX: f64 = 0.02;

impl Row {
    fn ratio(&self, hits: u64) -> f64 {
        hits as f64 / self.reads.max(1) as f64
    }

    /// Hits of the better of LRU and ARC.
    fn better(&self) -> u64 {
        self.hits[&Policy::Lru].max(self.hits[&Policy::Arc])
    }

    /// Hits of a policy beside those of the better of LRU and ARC; none where that has none.
    fn of_better(&self, policy: Policy) -> Option<f64> {
        (self.better() > 0).then(|| self.hits[&policy] as f64 / self.better() as f64)
    }
}

/// What all rows say of a policy.
struct Summary {
    policy: Policy,
    mean_ratio: f64,
    worst_of_better: f64,
    rows_below: usize,
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    sum / count
}

fn summaries(rows: &[Row]) -> Vec<Summary> {
    let of = |policy: Policy| {
        let beside: Vec<f64> = rows.iter().filter_map(|row| row.of_better(policy)).collect();
        Summary {
            policy,
            mean_ratio: mean(rows.iter().map(|row| row.ratio(row.hits[&policy]))),
            worst_of_better: beside.iter().copied().fold(f64::INFINITY, f64::min),
            rows_below: beside.iter().filter(|&&part| part < 1.0 - LOSS_MAX).count(),
        }
    };
    Policy::ALL.map(of).into()
}

fn optimum(rows: &[Row]) -> f64 {
    mean(rows.iter().map(|row| row.ratio(row.optimum_hits)))
}

/// The rows as JSON.
pub fn json(rows: &[Row]) -> Value {
    let ratios = |row: &Row| -> Map<String, Value> {
        row.hits.iter().map(|(policy, &hits)| (policy.name().to_owned(), json!(row.ratio(hits)))).collect()
    };
    json!({
        "rows": rows.iter().map(|row| json!({
            "stream": row.stream, "size_percent": row.size_percent, "places": row.places,
            "read_blocks": row.read_blocks, "reads": row.reads, "hit_ratios": ratios(row),
            "optimum": row.ratio(row.optimum_hits), "ours_of_better": row.of_better(Policy::S3Fifo),
        })).collect::<Vec<_>>(),
        "policies": summaries(rows).iter().map(|summary| json!({
            "policy": summary.policy.name(), "mean_hit_ratio": summary.mean_ratio,
            "worst_of_better": summary.worst_of_better.is_finite().then_some(summary.worst_of_better),
            "rows_below": summary.rows_below,
        })).collect::<Vec<_>>(),
        "optimum_mean": optimum(rows),
        "loss_max": LOSS_MAX,
    })
}

/// The rows for people.
pub fn text(rows: &[Row]) -> String {
    let percent = |ratio: f64| format!("{:.2}", ratio * 100.0);
    let part = |part: Option<f64>| part.map_or_else(|| "-".to_owned(), |part| format!("{part:.3}"));
    let mut head = vec!["stream", "size", "places", "reads"];
    head.extend(Policy::ALL.map(Policy::name));
    head.extend(["optimum", "/ better"]);
    let line = |row: &Row| {
        let mut cells =
            vec![row.stream.clone(), format!("{} %", row.size_percent), row.places.to_string(), row.reads.to_string()];
        cells.extend(Policy::ALL.map(|policy| percent(row.ratio(row.hits[&policy]))));
        cells.extend([percent(row.ratio(row.optimum_hits)), part(row.of_better(Policy::S3Fifo))]);
        cells
    };
    let summary = |summary: &Summary| {
        vec![
            summary.policy.name().to_owned(),
            percent(summary.mean_ratio),
            part(Some(summary.worst_of_better).filter(|worst| worst.is_finite())),
            summary.rows_below.to_string(),
        ]
    };
    let mut about: Vec<Vec<String>> = summaries(rows).iter().map(summary).collect();
    about.push(vec!["optimum".to_owned(), percent(optimum(rows)), "-".to_owned(), "-".to_owned()]);
    [
        "Hits, in percent of the reads of blocks on the capacity tier; size: places, of the blocks that are read".to_owned(),
        output::table(&head, 1, &rows.iter().map(line).collect::<Vec<_>>()),
        "better: of LRU and ARC. Optimum: with all of the future known. As many blocks as there are places are staged, and \
         read from there."
            .to_owned(),
        format!("\nOver {} rows", rows.len()),
        output::table(
            &["policy", "mean", "worst / better", "rows 2 % below"],
            1,
            &about,
        ),
    ]
    .join("\n")
}
