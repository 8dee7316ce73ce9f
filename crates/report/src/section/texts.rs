//! Sentences that several pictures use.

use crate::unit::Unit;

/// A figure with its interval, for a point's read-out.
pub(super) fn bounded(value: f64, low: Option<f64>, high: Option<f64>, unit: Unit) -> String {
    let end = |end: Option<f64>| end.map_or_else(|| "open".to_owned(), |end| unit.show(end));
    match (low, high) {
        (None, None) => unit.show(value),
        _ => format!("{} [{} to {}]", unit.show(value), end(low), end(high)),
    }
}
