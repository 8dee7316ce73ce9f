//! The table of write amplification.

use super::policies::Policy;
use super::run::{Findings, Row};
use crate::mean::mean;
use crate::output;
use forebay_placement::grouping::Kind;
use serde_json::{Map, Value, json};

impl Row {
    /// Our policy with our own victim choice.
    fn ours(&self) -> f64 {
        self.own[&Policy::OURS]
    }

    /// The best of the other policies, each with the better of the published victim choices.
    fn best_other(&self) -> (Policy, f64) {
        let of = |policy: Policy| (policy, self.published[&policy].min(self.cost_benefit[&policy]));
        Policy::OTHERS
            .map(of)
            .into_iter()
            .min_by(|a, b| a.1.total_cmp(&b.1))
            .unwrap_or((Policy::Blind(Kind::NoSep), f64::NAN))
    }

    /// Writes of our policy over those of SepBIT as published.
    fn over_sepbit(&self) -> f64 {
        self.ours() / self.published[&Policy::SEPBIT]
    }
}

impl Findings {
    /// Rows in which our policy is worse than the best other by more than 0.01 %.
    fn worse(&self) -> Vec<&Row> {
        self.rows.iter().filter(|row| row.ours() > row.best_other().1 * 1.0001).collect()
    }
}

/// The findings as JSON.
pub fn json(found: &Findings) -> Value {
    let figures = |of: &std::collections::BTreeMap<Policy, f64>| -> Map<String, Value> {
        of.iter().map(|(policy, value)| (policy.name().to_owned(), json!(value))).collect()
    };
    json!({
        "rows": found.rows.iter().map(|row| json!({
            "stream": row.stream, "written_blocks": row.written_blocks, "blocks": row.blocks,
            "band_blocks": row.band_blocks, "spare_percent": row.spare_percent,
            "published_victims": figures(&row.published), "cost_benefit_victims": figures(&row.cost_benefit),
            "own_victims": figures(&row.own),
            "ours": row.ours(), "best_other": row.best_other().1, "best_other_name": row.best_other().0.name(),
            "ours_over_sepbit": row.over_sepbit(),
        })).collect::<Vec<_>>(),
        "known": found.known.iter().map(|known| json!({
            "policy": known.policy.name(), "victims": format!("{:?}", known.choice), "known": known.known,
            "ours": known.ours, "error_percent": (known.ours / known.known - 1.0) * 100.0,
        })).collect::<Vec<_>>(),
        "left_out": found.left_out,
        "ours_over_sepbit": mean(found.rows.iter().map(Row::over_sepbit)),
        "ours_over_sepbit_own_victims":
            mean(found.rows.iter().map(|row| row.ours() / row.own[&Policy::SEPBIT])),
        "rows_worse_than_best_other": found.worse().len(),
    })
}

/// The findings as text.
pub fn text(found: &Findings) -> String {
    let mut head = vec!["stream", "band", "spare"];
    head.extend(Policy::OTHERS.map(Policy::name));
    head.extend(["SepBIT*", "ours*", "oracle", "/ SepBIT", "/ best"]);
    let line = |row: &Row| {
        let mut cells = vec![
            row.stream.clone(),
            output::size(u64::from(row.band_blocks) * 4096),
            format!("{} %", row.spare_percent),
        ];
        cells.extend(Policy::OTHERS.map(|policy| format!("{:.3}", row.published[&policy])));
        cells.push(format!("{:.3}", row.own[&Policy::SEPBIT]));
        cells.push(format!("{:.3}", row.ours()));
        cells.push(format!("{:.3}", row.published[&Policy::Oracle]));
        cells.push(format!("{:.3}", row.over_sepbit()));
        cells.push(format!("{:.3}", row.ours() / row.best_other().1));
        cells
    };
    let known = |known: &super::run::Known| {
        vec![
            known.policy.name().to_owned(),
            format!("{:?}", known.choice),
            format!("{:.2}", known.known),
            format!("{:.3}", known.ours),
            format!("{:+.1} %", (known.ours / known.known - 1.0) * 100.0),
        ]
    };
    let mut parts = vec![
        "Blocks written to bands for each block that a host writes".to_owned(),
        output::table(&head, 1, &found.rows.iter().map(line).collect::<Vec<_>>()),
        "* with our own choice of victims; the others with that of SepBIT. best: the best of the others with either published choice. \
         The oracle has six groups by when a block will die: no lower bound."
            .to_owned(),
        format!(
            "over {} rows ours writes {:.3} of what SepBIT writes ({:.3} where SepBIT has our choice of victims); in {} it writes more \
             than the best of the others",
            found.rows.len(),
            mean(found.rows.iter().map(Row::over_sepbit)),
            mean(found.rows.iter().map(|row| row.ours() / row.own[&Policy::SEPBIT])),
            found.worse().len(),
        ),
    ];
    parts.extend(found.left_out.iter().map(|why| format!("left out: {why}")));
    parts.push(
        "\nKnown before: Zipf 1.0 over 128k blocks, ten times written, bands of 1,024 blocks, 15 % spare".to_owned(),
    );
    parts.push(output::table(
        &["policy", "victims", "known", "here", "error"],
        2,
        &found.known.iter().map(known).collect::<Vec<_>>(),
    ));
    parts.join("\n")
}
