//! Estimates with their intervals, one below the other, and a reference line.

use super::axis::{Axis, Form, Scale};
use super::shapes::{WIDTH, clipped, coordinate, line, words};
use crate::markup::{Attribute, Markup};
use crate::unit::Unit;

const ROW: f64 = 26.0;
/// Height of a row whose name is above it.
const ROW_WITH_NAME: f64 = 40.0;
const TOP: f64 = 44.0;
const BOTTOM: f64 = 28.0;
const ROWS_MAX: usize = 30;
/// Names up to this length are beside their row, longer ones above it.
const SHORT_CHARS: usize = 20;
const NAME_CHARS_MAX: usize = 56;
const CHAR: f64 = 8.2;

/// A row.
#[derive(Clone, Debug)]
pub(crate) struct Estimate {
    pub(crate) name: String,
    pub(crate) value: Option<f64>,
    pub(crate) low: Option<f64>,
    pub(crate) high: Option<f64>,
    /// Description for the read-out.
    pub(crate) say: String,
    /// Text in place of an absent value.
    pub(crate) absent: &'static str,
    pub(crate) look: usize,
}

/// Text in place of a value with too few samples.
pub(crate) const WITHHELD: &str = "withheld";

/// A picture of estimates.
#[derive(Clone, Debug)]
pub(crate) struct Forest {
    pub(crate) title: String,
    pub(crate) unit: Unit,
    pub(crate) form: Form,
    /// The value of the reference line (no difference), with its label.
    pub(crate) against: Option<(f64, String)>,
    pub(crate) rows: Vec<Estimate>,
}

impl Forest {
    fn shown(&self) -> &[Estimate] {
        &self.rows[..self.rows.len().min(ROWS_MAX)]
    }

    /// Number of rows that are left out, and number of all rows.
    pub(super) fn left_out(&self) -> (usize, usize) {
        (self.rows.len() - self.shown().len(), self.rows.len())
    }

    fn longest_name(&self) -> usize {
        self.shown().iter().map(|row| row.name.chars().count()).max().unwrap_or(0)
    }

    fn row_height(&self) -> f64 {
        if self.longest_name() > SHORT_CHARS { ROW_WITH_NAME } else { ROW }
    }

    fn bottom(&self) -> f64 {
        TOP + self.shown().len().max(1) as f64 * self.row_height()
    }

    pub(super) fn height(&self) -> f64 {
        self.bottom() + BOTTOM
    }

    pub(super) fn write(&self, into: &mut Markup) {
        let is_above = self.longest_name() > SHORT_CHARS;
        let left = if is_above { 20.0 } else { self.longest_name() as f64 * CHAR + 16.0 };
        let values = self.shown().iter().flat_map(|row| [row.value, row.low, row.high]).flatten();
        let axis = Axis::new("", self.unit, self.form);
        let scale = axis.over(values.chain(self.against.iter().map(|against| against.0)), left, WIDTH - 24.0);
        words(into, "axis", "start", (4.0, 14.0), &self.title);
        for (place, text) in scale.ticks() {
            line(into, "grid", (place, TOP - 2.0), (place, self.bottom()));
            words(into, "tick", "middle", (place, self.bottom() + 18.0), &text);
        }
        if let Some((value, text)) = &self.against {
            let at = scale.at(*value);
            line(into, "mark", (at, TOP - 4.0), (at, self.bottom()));
            let half = text.chars().count() as f64 * CHAR / 2.0;
            let middle = at.min(WIDTH - half).max(half);
            words(into, "note strong", "middle", (middle, TOP - 7.0), text);
        }
        for (at, row) in self.shown().iter().enumerate() {
            let top = TOP + at as f64 * self.row_height();
            let y = top + self.row_height() - 13.0;
            let name = clipped(&row.name, NAME_CHARS_MAX);
            if is_above {
                words(into, "tick", "start", (4.0, top + 14.0), &name);
            } else {
                words(into, "tick", "end", (left - 8.0, y + 4.5), &name);
            }
            write_row(into, row, &scale, y);
        }
    }
}

fn write_row(into: &mut Markup, row: &Estimate, scale: &Scale, y: f64) {
    let look = row.look % super::shapes::LOOKS;
    let class = format!("whisker s{look}");
    if let (Some(low), Some(high)) = (row.low.or(row.value), row.high.or(row.value)) {
        line(into, &class, (scale.at(low), y), (scale.at(high), y));
    }
    let ends = [row.low, row.high].into_iter().flatten();
    for end in ends.clone() {
        line(into, &class, (scale.at(end), y - 4.0), (scale.at(end), y + 4.0));
    }
    let Some(value) = row.value else {
        let at = ends.map(|end| scale.at(end)).reduce(f64::max).unwrap_or(WIDTH / 2.0);
        let (anchor, at) = if at > WIDTH * 0.7 { ("end", at - 8.0) } else { ("start", at + 8.0) };
        words(into, "note", anchor, (at, y + 4.5), row.absent);
        return;
    };
    let (class, path) = (format!("dot s{look}"), format!("M{} {}h0", coordinate(scale.at(value)), coordinate(y)));
    let mut attributes: Vec<Attribute<'_>> = vec![("class", &class), ("d", &path), ("data-x", &value)];
    attributes.extend(row.low.iter().map(|low| ("data-low", low as &dyn std::fmt::Display)));
    attributes.extend(row.high.iter().map(|high| ("data-high", high as &dyn std::fmt::Display)));
    into.open("path", &attributes);
    into.element("title", &[], &row.say);
    into.close("path");
}
