//! A grid of numbers, one per cell. Larger numbers have a stronger colour: darker in the light scheme, lighter in the dark one.

use super::shapes::{WIDTH, coordinate, words};
use crate::markup::Markup;
use crate::unit::Unit;

/// Height of a cell with a number, and of a cell that is too narrow for one.
const ROW: f64 = 32.0;
const ROW_NARROW: f64 = 5.0;
/// Width of a number.
const NUMBER: f64 = 30.0;
/// Width of a character at the largest text size, on a phone.
const CHAR: f64 = 7.6;
/// Space for the name of a row, and of a column.
const ROW_NAME: f64 = 16.0;
const COLUMN_NAME: f64 = 52.0;
const TOP: f64 = 48.0;
const LEFT: f64 = 62.0;
const BOTTOM: f64 = 26.0;
/// Number of colour steps in the page's style.
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
    /// Values row by row; none where nothing was measured or moved.
    pub(crate) values: Vec<Vec<Option<f64>>>,
    /// Whether the colour follows the logarithm of the value.
    pub(crate) is_log: bool,
}

/// Maps values between the least and the greatest to colour steps.
struct Shades {
    is_log: bool,
    low: f64,
    high: f64,
}

impl Shades {
    fn of(heat: &Heat) -> Self {
        let mut shades = Self { is_log: heat.is_log, low: f64::INFINITY, high: f64::NEG_INFINITY };
        for value in heat.values.iter().flatten().flatten() {
            let place = shades.place(*value);
            (shades.low, shades.high) = (shades.low.min(place), shades.high.max(place));
        }
        shades
    }

    fn place(&self, value: f64) -> f64 {
        if self.is_log { value.max(1e-12).log10() } else { value }
    }

    fn step(&self, value: f64) -> usize {
        let share = if self.high > self.low { (self.place(value) - self.low) / (self.high - self.low) } else { 0.0 };
        ((share * STEPS as f64) as usize).min(STEPS - 1)
    }
}

/// Row, column and value of a cell.
type Cell = (usize, usize, Option<f64>);

impl Heat {
    fn wide(&self) -> f64 {
        (WIDTH - LEFT - 6.0) / self.columns.len().max(1) as f64
    }

    /// Whether numbers fit into the cells; otherwise only the read-out shows them.
    fn has_numbers(&self) -> bool {
        self.wide() >= NUMBER
    }

    fn row_height(&self) -> f64 {
        if self.has_numbers() { ROW } else { ROW_NARROW }
    }

    pub(super) fn height(&self) -> f64 {
        TOP + self.rows.len() as f64 * self.row_height() + BOTTOM
    }

    pub(super) fn write(&self, into: &mut Markup) {
        let (wide, high) = (self.wide(), self.row_height());
        words(into, "axis", "start", (4.0, 14.0), &self.title);
        words(into, "axis", "start", (4.0, TOP - 8.0), &self.down);
        words(into, "axis", "end", (WIDTH - 6.0, self.height() - 8.0), &self.across);
        let every = |room: f64, one: f64| (room / one).ceil().max(1.0) as usize;
        let longest = self.columns.iter().map(|name| name.chars().count()).max().unwrap_or(0) as f64 * CHAR;
        // The last name moves left, by at most half its width, so that it ends within the picture.
        let column_names = if self.has_numbers() { 1 } else { every((1.5 * longest).max(COLUMN_NAME), wide) };
        for (at, column) in self.columns.iter().enumerate().step_by(column_names) {
            let half = column.chars().count() as f64 * CHAR / 2.0;
            let x = (LEFT + (at as f64 + 0.5) * wide).min(WIDTH - half);
            words(into, "tick", "middle", (x, TOP - 8.0), column);
        }
        for (at, name) in self.rows.iter().enumerate().step_by(every(ROW_NAME, high)) {
            words(into, "tick", "end", (LEFT - 8.0, TOP + (at as f64 + 0.5) * high + 4.5), name);
        }
        let rows = self.values.iter().take(self.rows.len()).enumerate();
        let cells: Vec<Cell> = rows
            .flat_map(|(row, values)| values.iter().enumerate().map(move |(column, value)| (row, column, *value)))
            .collect();
        let shades = Shades::of(self);
        let class = |value: Option<f64>| {
            value.map_or_else(|| "cell none".to_owned(), |value| format!("cell h{}", shades.step(value)))
        };
        if self.has_numbers() {
            for cell in &cells {
                into.open("g", &[("class", &class(cell.2))]);
                self.write_cell(into, cell, 2.0);
                let at = (LEFT + (cell.1 as f64 + 0.5) * wide, TOP + (cell.0 as f64 + 0.5) * high + 4.5);
                words(into, "in-cell", "middle", at, &self.shown(cell.2));
                into.close("g");
            }
            return;
        }
        // Cells are grouped by colour step, and empty cells are not drawn, because there can be thousands.
        for step in 0..STEPS {
            into.open("g", &[("class", &format!("cell h{step}"))]);
            let of_step = cells.iter().filter(|cell| cell.2.is_some_and(|value| shades.step(value) == step));
            of_step.for_each(|cell| self.write_cell(into, cell, 0.0));
            into.close("g");
        }
    }

    fn shown(&self, value: Option<f64>) -> String {
        value.map_or_else(|| "-".to_owned(), |value| self.unit.show(value))
    }

    fn write_cell(&self, into: &mut Markup, &(row, column, value): &Cell, gap: f64) {
        let (wide, high) = (self.wide(), self.row_height());
        let value_text = value.map_or_else(String::new, |value| value.to_string());
        into.open(
            "rect",
            &[
                ("class", &"dot"),
                ("data-x", &value_text),
                ("x", &coordinate(LEFT + column as f64 * wide + gap / 2.0)),
                ("y", &coordinate(TOP + row as f64 * high + gap / 2.0)),
                ("width", &coordinate(wide - gap)),
                ("height", &coordinate(high - gap)),
            ],
        );
        let name = |names: &[String], at: usize| names.get(at).cloned().unwrap_or_default();
        into.element(
            "title",
            &[],
            format!(
                "{} {}, {} {}: {}",
                self.down,
                name(&self.rows, row),
                self.across,
                name(&self.columns, column),
                self.shown(value)
            ),
        );
        into.close("rect");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The name of the last labelled column extended beyond the picture, so that its end was cut off.
    #[test]
    fn regression_names_of_columns_end_within_the_picture() {
        for count in [24, 40, 97, 100, 128] {
            let columns: Vec<String> = (0..count).map(|at| format!("{:.2} ms", f64::from(at) * 13.75)).collect();
            let values = vec![vec![Some(1.0); columns.len()]];
            let (title, across, down) = (String::new(), String::new(), String::new());
            let rows = vec!["0 B".to_owned()];
            let heat = Heat { title, across, down, unit: Unit::Count, columns, rows, values, is_log: false };
            let mut into = Markup::default();
            heat.write(&mut into);
            let text = into.finish();
            let mut end = 0.0;
            for label in text.split("<text ").filter(|label| label.contains(" ms</text>") && label.contains("middle")) {
                let between =
                    |from, to| label.split_once(from).and_then(|(_, rest): (_, &str)| rest.split_once(to)).unwrap().0;
                let (x, name): (f64, _) = (between(" x=\"", "\"").parse().unwrap(), between(">", "</text>"));
                let half = name.chars().count() as f64 * CHAR / 2.0;
                assert!(x - half >= end, "{count} columns: {name} stands over the one before");
                end = x + half;
            }
            assert!(end > WIDTH * 0.7 && end <= WIDTH, "{count} columns: {end}");
        }
    }
}
