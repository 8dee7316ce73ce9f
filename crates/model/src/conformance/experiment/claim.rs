//! What was published about figures of experiments, beside ours.

use super::{ConformanceError, Experiment, Found, Row};
use crate::conformance::table::{Measure, Relation, Use};
use serde::Deserialize;

/// The statements and their sources.
const CLAIMS: &str = include_str!("../claims.toml");

/// One published statement.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Which experiment gives the figure.
    pub experiment: Experiment,
    /// The figure's name there.
    pub figure: String,
    /// Where it was published.
    pub source: String,
    /// What it is, in words.
    pub name: String,
    /// Preset of the drive, or two with a stroke between them.
    pub drive: String,
    /// Profile of the host; `-` where there is none.
    pub host: String,
    /// How it was used.
    pub used: Use,
    /// What the figure is of.
    pub measure: Measure,
    /// The published number.
    #[serde(default)]
    pub published: Option<f64>,
    /// A published upper bound.
    #[serde(default)]
    pub at_most: Option<f64>,
    /// A published lower bound.
    #[serde(default)]
    pub at_least: Option<f64>,
}

/// All published statements.
///
/// # Errors
/// [`ConformanceError::Table`]: a fault of the program.
pub fn claims() -> Result<Vec<Claim>, ConformanceError> {
    #[derive(Deserialize)]
    struct Table {
        claim: Vec<Claim>,
    }
    let table: Table = toml::from_str(CLAIMS).map_err(|error| ConformanceError::Table(error.to_string()))?;
    Ok(table.claim)
}

impl Claim {
    /// The statement beside what the experiment found.
    #[must_use]
    pub fn rows(&self, found: &Found) -> Vec<Row> {
        let modelled = found.figures.get(&self.figure).copied();
        let said =
            [(Relation::Is, self.published), (Relation::AtMost, self.at_most), (Relation::AtLeast, self.at_least)];
        let row = |(relation, published): (Relation, Option<f64>)| {
            published.map(|published| {
                Row::new(
                    (&self.source, &self.name, &self.drive, &self.host),
                    self.used,
                    self.measure,
                    (relation, published),
                    modelled,
                )
            })
        };
        said.into_iter().filter_map(row).collect()
    }
}
