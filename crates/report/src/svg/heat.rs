//! A grid of numbers, each in its cell, the larger the darker.

use super::shapes::{WIDTH, coordinate, words};
use crate::markup::Markup;
use crate::unit::Unit;

const ROW: f64 = 32.0;
const TOP: f64 = 48.0;
const LEFT: f64 = 62.0;
const BOTTOM: f64 = 26.0;
/// Steps of colour, which the page's style has.
const STEPS: usize = 7;

/// A picture of a grid.
#[derive(Clone, Debug)]
pub(crate) struct Heat {
    pub(crate) title: String,
    pub(crate) across: String,
    pub(crate) down: String,
    pub(crate) unit: Unit,
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<String>,
    /// Row by row; none where it was not measured.
    pub(crate) values: Vec<Vec<Option<f64>>>,
    /// Colours by the logarithm.
    pub(crate) is_log: bool,
}

impl Heat {
    pub(super) fn height(&self) -> f64 {
        TOP + self.rows.len() as f64 * ROW + BOTTOM
    }

    fn step(&self, value: f64) -> usize {
        let place = |value: f64| if self.is_log { value.max(1e-12).log10() } else { value };
        let all = || self.values.iter().flatten().flatten().map(|value| place(*value));
        let (low, high) = (all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max));
        let share = if high > low { (place(value) - low) / (high - low) } else { 0.0 };
        ((share * STEPS as f64) as usize).min(STEPS - 1)
    }

    pub(super) fn write(&self, into: &mut Markup) {
        let wide = (WIDTH - LEFT - 6.0) / self.columns.len().max(1) as f64;
        words(into, "axis", "start", (4.0, 14.0), &self.title);
        words(into, "axis", "start", (4.0, TOP - 8.0), &self.down);
        words(into, "axis", "end", (WIDTH - 6.0, self.height() - 8.0), &self.across);
        for (at, column) in self.columns.iter().enumerate() {
            words(into, "tick", "middle", (LEFT + (at as f64 + 0.5) * wide, TOP - 8.0), column);
        }
        for (at, (row, name)) in self.values.iter().zip(&self.rows).enumerate() {
            let y = TOP + at as f64 * ROW;
            words(into, "tick", "end", (LEFT - 8.0, y + ROW / 2.0 + 4.5), name);
            for (column, value) in row.iter().enumerate() {
                let x = LEFT + column as f64 * wide;
                let class = value.map_or_else(|| "cell none".to_owned(), |value| format!("cell h{}", self.step(value)));
                into.open("g", &[("class", &class)]);
                let value_text = value.map_or_else(String::new, |value| value.to_string());
                into.open(
                    "rect",
                    &[
                        ("class", &"dot"),
                        ("data-x", &value_text),
                        ("x", &coordinate(x + 1.0)),
                        ("y", &coordinate(y + 1.0)),
                        ("width", &coordinate(wide - 2.0)),
                        ("height", &coordinate(ROW - 2.0)),
                    ],
                );
                let column_name = self.columns.get(column).map_or("", String::as_str);
                let shown = value.map_or_else(|| "-".to_owned(), |value| self.unit.show(value));
                into.element("title", &[], format!("{} {name}, {} {column_name}: {shown}", self.down, self.across));
                into.close("rect");
                words(into, "in-cell", "middle", (x + wide / 2.0, y + ROW / 2.0 + 4.5), &shown);
                into.close("g");
            }
        }
    }
}
