//! What an experiment finds: figures, and the data behind them.

use std::collections::BTreeMap;

/// A value of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A name.
    Text(String),
    /// A number, with the decimals that tables show of it.
    Number(f64, usize),
}

/// Data behind figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Data {
    /// What it is.
    pub title: String,
    /// Names of the columns, units last.
    pub columns: Vec<String>,
    /// The rows, each as long as `columns`.
    pub rows: Vec<Vec<Value>>,
}

/// What an experiment found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// Figures by the names that `claims.toml` knows.
    pub figures: BTreeMap<String, f64>,
    /// What they were taken from.
    pub data: Vec<Data>,
}

impl Found {
    pub(super) fn set(&mut self, name: impl Into<String>, value: Option<f64>) {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            self.figures.insert(name.into(), value);
        }
    }
}
