//! Pictures as SVG. Colours and sizes of text come from the page's style, by classes: one picture is right by day, by night and in
//! print. Each dot carries its numbers as the result has them.

mod axis;
mod bars;
mod chart;
mod forest;
mod heat;
mod labels;

pub(crate) use axis::{Axis, Form};
pub(crate) use bars::{Bar, Bars};
pub(crate) use chart::{Chart, Draw, Point, Series, Withheld};
pub(crate) use forest::{Estimate, Forest};
pub(crate) use heat::Heat;

use crate::markup::Markup;

/// Width of all pictures, in units of SVG: a phone shows them at three quarters, a column of a screen somewhat larger.
const WIDTH: f64 = 480.0;

/// Looks of series: colours by Okabe and Ito, and a dash of its own for each, so that colour alone says nothing.
pub(crate) const LOOKS: usize = 6;

/// Something that draws itself.
#[derive(Clone, Debug)]
pub(crate) enum Drawing {
    Chart(Chart),
    Bars(Bars),
    Forest(Forest),
    Heat(Heat),
}

impl Drawing {
    /// Height of the picture.
    pub(crate) fn height(&self) -> f64 {
        match self {
            Self::Chart(_) => chart::HEIGHT,
            Self::Bars(bars) => bars.height(),
            Self::Forest(forest) => forest.height(),
            Self::Heat(heat) => heat.height(),
        }
    }

    /// Whether a part of the horizontal axis can be looked at alone.
    pub(crate) fn zooms(&self) -> bool {
        matches!(self, Self::Chart(chart) if chart.zooms)
    }

    /// Whether the series of a look has dots alone.
    pub(crate) fn is_of_dots(&self, look: usize) -> bool {
        match self {
            Self::Chart(chart) => chart.series.iter().any(|series| series.look == look && series.draw == Draw::Dots),
            Self::Forest(_) => true,
            Self::Bars(_) | Self::Heat(_) => false,
        }
    }

    /// The whole picture, whose name is `id`.
    pub(crate) fn write(&self, into: &mut Markup, id: &str, title: &str, about: &str) {
        let (names, view) = (format!("{id}-t {id}-d"), format!("0 0 {WIDTH} {}", coordinate(self.height())));
        into.open(
            "svg",
            &[
                ("xmlns", &"http://www.w3.org/2000/svg"),
                ("id", &id),
                ("viewBox", &view),
                ("role", &"img"),
                ("tabindex", &"0"),
                ("aria-labelledby", &names),
            ],
        );
        into.element("title", &[("id", &format!("{id}-t"))], title);
        into.element("desc", &[("id", &format!("{id}-d"))], about);
        match self {
            Self::Chart(chart) => chart.write(into, id),
            Self::Bars(bars) => bars.write(into),
            Self::Forest(forest) => forest.write(into),
            Self::Heat(heat) => heat.write(into),
        }
        into.close("svg");
    }
}

/// A coordinate with one digit: a tenth of a unit is less than a pixel anywhere.
fn coordinate(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

/// A text at a place.
fn words(into: &mut Markup, class: &str, anchor: &'static str, (x, y): (f64, f64), text: &str) {
    into.element(
        "text",
        &[("class", &class), ("text-anchor", &anchor), ("x", &coordinate(x)), ("y", &coordinate(y))],
        text,
    );
}

/// A straight line.
fn line(into: &mut Markup, class: &str, from: (f64, f64), to: (f64, f64)) {
    let path = format!("M{} {}L{} {}", coordinate(from.0), coordinate(from.1), coordinate(to.0), coordinate(to.1));
    into.shape("path", &[("class", &class), ("d", &path)]);
}

/// A text of at most so many characters.
fn clipped(text: &str, chars_max: usize) -> String {
    if text.chars().count() <= chars_max {
        return text.to_owned();
    }
    let kept: String = text.chars().take(chars_max.saturating_sub(3)).collect();
    format!("{}...", kept.trim_end())
}
