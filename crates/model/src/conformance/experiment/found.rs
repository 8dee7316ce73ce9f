//! Results of an experiment: figures and the data behind them.

use std::collections::BTreeMap;

/// A value of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Text.
    Text(String),
    /// A number and the decimals that tables show.
    Number(f64, usize),
}

/// A table of the data behind figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Data {
    /// Title of the table.
    pub title: String,
    /// Names of the columns, each with its unit at the end.
    pub columns: Vec<String>,
    /// The rows, each as long as `columns`.
    pub rows: Vec<Vec<Value>>,
}

/// Results of an experiment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// Figures by name; `claims.toml` uses these names.
    pub figures: BTreeMap<String, f64>,
    /// The data that the figures come from.
    pub data: Vec<Data>,
}

impl Found {
    pub(super) fn set(&mut self, name: impl Into<String>, value: Option<f64>) {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            self.figures.insert(name.into(), value);
        }
    }
}
