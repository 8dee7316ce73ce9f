//! Published statements about figures of experiments, compared with the models.

use super::{ConformanceError, Experiment, Found, Row};
use crate::conformance::table::{Measure, Relation, Use};
use serde::Deserialize;

/// The statements with their sources.
const CLAIMS: &str = include_str!("../claims.toml");

/// One published statement.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The experiment that gives the figure.
    pub experiment: Experiment,
    /// Name of the figure in [`Found::figures`].
    pub figure: String,
    /// Where it was published.
    pub source: String,
    /// Name of the statement in tables.
    pub name: String,
    /// Preset of the drive, or two presets with a slash between them.
    pub drive: String,
    /// Profile of the host; `-` where there is none.
    pub host: String,
    /// Whether the fit used it.
    pub used: Use,
    /// Kind of the figure.
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
    /// The statement beside the figure that the experiment found. A range gives one row, with the bound that was missed, or with the upper
    /// bound where neither was.
    #[must_use]
    pub fn row(&self, found: &Found) -> Option<Row> {
        let modelled = found.figures.get(&self.figure).copied();
        let is_below = |least: &f64| modelled.is_some_and(|modelled| modelled < *least);
        let said = match (self.published, self.at_least, self.at_most) {
            (Some(published), ..) => (Relation::Is, published),
            (None, Some(least), at_most) if at_most.is_none() || is_below(&least) => (Relation::AtLeast, least),
            (None, _, at_most) => (Relation::AtMost, at_most?),
        };
        let named = (self.source.as_str(), self.name.as_str(), self.drive.as_str(), self.host.as_str());
        Some(Row::new(named, self.used, self.measure, said, modelled))
    }
}
