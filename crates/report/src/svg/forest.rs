//! Estimates with their intervals, one below the other, and the line that they are held against.

use super::axis::{Axis, Form};
use super::{WIDTH, clipped, coordinate, line, words};
use crate::markup::{Attribute, Markup};
use crate::unit::Unit;

const ROW: f64 = 26.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 28.0;
const ROWS_MAX: usize = 30;
const NAME_CHARS_MAX: usize = 22;
const CHAR: f64 = 7.6;

/// A row.
#[derive(Clone, Debug)]
pub(crate) struct Estimate {
    pub(crate) name: String,
    pub(crate) value: Option<f64>,
    pub(crate) low: Option<f64>,
    pub(crate) high: Option<f64>,
    /// What it is, in words.
    pub(crate) say: String,
    pub(crate) look: usize,
}

/// A picture of estimates.
#[derive(Clone, Debug)]
pub(crate) struct Forest {
    pub(crate) title: String,
    pub(crate) unit: Unit,
    pub(crate) form: Form,
    /// Where nothing differs, and what that is called.
    pub(crate) against: Option<(f64, String)>,
    pub(crate) rows: Vec<Estimate>,
}

impl Forest {
    fn shown(&self) -> &[Estimate] {
        &self.rows[..self.rows.len().min(ROWS_MAX)]
    }

    pub(super) fn height(&self) -> f64 {
        TOP + self.shown().len().max(1) as f64 * ROW + BOTTOM
    }

    pub(super) fn write(&self, into: &mut Markup) {
        let names: Vec<String> = self.shown().iter().map(|row| clipped(&row.name, NAME_CHARS_MAX)).collect();
        let longest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0) as f64;
        let (left, right) = (longest * CHAR + 16.0, WIDTH - 24.0);
        let values = self.shown().iter().flat_map(|row| [row.value, row.low, row.high]).flatten();
        let axis = Axis::new("", self.unit, self.form);
        let scale = axis.over(values.chain(self.against.iter().map(|against| against.0)), left, right);
        let bottom = TOP + self.shown().len() as f64 * ROW;
        words(into, "axis", "start", (4.0, 14.0), &self.title);
        for (place, text) in scale.ticks() {
            line(into, "grid", (place, TOP - 4.0), (place, bottom));
            words(into, "tick", "middle", (place, bottom + 18.0), &text);
        }
        if let Some((value, text)) = &self.against {
            line(into, "mark", (scale.at(*value), TOP - 6.0), (scale.at(*value), bottom));
            let at = scale.at(*value);
            let anchor = if at > WIDTH * 0.7 { "end" } else { "middle" };
            words(into, "note strong", anchor, (at, TOP - 8.0), text);
        }
        for (at, (row, name)) in self.shown().iter().zip(&names).enumerate() {
            let y = TOP + at as f64 * ROW + ROW / 2.0;
            words(into, "tick", "end", (left - 8.0, y + 4.5), name);
            let look = row.look % super::LOOKS;
            if let (Some(low), Some(high)) = (row.low.or(row.value), row.high.or(row.value)) {
                line(into, &format!("whisker s{look}"), (scale.at(low), y), (scale.at(high), y));
            }
            for end in [row.low, row.high].into_iter().flatten() {
                line(into, &format!("whisker s{look}"), (scale.at(end), y - 4.0), (scale.at(end), y + 4.0));
            }
            let Some(value) = row.value else {
                words(into, "note", "start", (left + 4.0, y + 4.5), "not shown");
                continue;
            };
            let (class, path) =
                (format!("dot s{look}"), format!("M{} {}h0", coordinate(scale.at(value)), coordinate(y)));
            let mut attributes: Vec<Attribute<'_>> = vec![("class", &class), ("d", &path), ("data-x", &value)];
            attributes.extend(row.low.iter().map(|low| ("data-low", low as &dyn std::fmt::Display)));
            attributes.extend(row.high.iter().map(|high| ("data-high", high as &dyn std::fmt::Display)));
            into.open("path", &attributes);
            into.element("title", &[], &row.say);
            into.close("path");
        }
    }
}
