//! Horizontal bars, each between its name and its number.

use super::axis::{Axis, Form};
use super::shapes::{WIDTH, clipped, coordinate, line, words};
use crate::markup::Markup;
use crate::unit::Unit;

/// Maximum number of bars in a picture; the table below has all.
pub(crate) const BARS_MAX: usize = 24;
const ROW: f64 = 26.0;
const TOP: f64 = 22.0;
const NAME_CHARS_MAX: usize = 16;
const CHAR: f64 = 7.6;

#[derive(Clone, Debug)]
pub(crate) struct Bar {
    pub(crate) name: String,
    pub(crate) value: f64,
    /// Description for the read-out.
    pub(crate) say: String,
    /// Look of a series.
    pub(crate) look: usize,
}

/// A picture of bars.
#[derive(Clone, Debug)]
pub(crate) struct Bars {
    pub(crate) title: String,
    pub(crate) unit: Unit,
    /// [`Form::FromZero`], or logarithmic where the values differ by much. A bar has no meaningful length on a logarithmic axis, so dots
    /// are drawn there.
    pub(crate) form: Form,
    pub(crate) bars: Vec<Bar>,
}

impl Bars {
    fn shown(&self) -> &[Bar] {
        &self.bars[..self.bars.len().min(BARS_MAX)]
    }

    /// Number of bars that are left out, and number of all bars.
    pub(super) fn left_out(&self) -> (usize, usize) {
        (self.bars.len() - self.shown().len(), self.bars.len())
    }

    pub(super) fn height(&self) -> f64 {
        TOP + self.shown().len().max(1) as f64 * ROW + 8.0
    }

    pub(super) fn write(&self, into: &mut Markup) {
        words(into, "axis", "start", (4.0, 14.0), &self.title);
        let names = self.shown().iter().map(|bar| clipped(&bar.name, NAME_CHARS_MAX));
        let names: Vec<String> = names.collect();
        let longest = |texts: &mut dyn Iterator<Item = usize>| texts.max().unwrap_or(0) as f64 * CHAR;
        let left = longest(&mut names.iter().map(|name| name.chars().count())) + 14.0;
        let numbers: Vec<String> = self.shown().iter().map(|bar| self.unit.show(bar.value)).collect();
        let right = WIDTH - longest(&mut numbers.iter().map(|number| number.chars().count())) - 12.0;
        let axis = Axis::new("", self.unit, self.form);
        let scale = axis.over(self.shown().iter().map(|bar| bar.value), left, right.max(left + 40.0));
        let base = if self.form == Form::FromZero { scale.at(0.0) } else { left };
        for (at, (bar, (name, number))) in self.shown().iter().zip(names.iter().zip(&numbers)).enumerate() {
            let y = TOP + at as f64 * ROW;
            let end = scale.at(bar.value);
            let middle = y + ROW / 2.0;
            words(into, "tick", "end", (left - 7.0, middle + 4.5), name);
            into.open("g", &[("class", &format!("bar s{}", bar.look % super::shapes::LOOKS))]);
            if self.form == Form::FromZero {
                into.open(
                    "rect",
                    &[
                        ("class", &"dot"),
                        ("data-x", &bar.value),
                        ("x", &coordinate(base.min(end))),
                        ("y", &coordinate(y + 5.0)),
                        ("width", &coordinate((end - base).abs().max(1.0))),
                        ("height", &coordinate(ROW - 10.0)),
                    ],
                );
                into.element("title", &[], &bar.say);
                into.close("rect");
            } else {
                line(into, "stem", (left, middle), (end, middle));
                let path = format!("M{} {}h0", coordinate(end), coordinate(middle));
                into.open("path", &[("class", &"dot"), ("data-x", &bar.value), ("d", &path)]);
                into.element("title", &[], &bar.say);
                into.close("path");
            }
            into.close("g");
            words(into, "label", "start", (end.max(base) + 6.0, middle + 4.5), number);
        }
        line(into, "base", (base, TOP), (base, TOP + self.shown().len() as f64 * ROW));
    }
}
