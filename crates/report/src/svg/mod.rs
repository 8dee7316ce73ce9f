//! Pictures as SVG. Colours and text sizes come from the page's style through classes, so one picture fits the light scheme, the dark
//! scheme and print. Each dot carries its numbers as in the result.

mod axis;
mod bars;
mod chart;
mod forest;
mod heat;
mod labels;
mod shapes;

pub(crate) use axis::{Axis, Form};
pub(crate) use bars::{Bar, Bars};
pub(crate) use chart::{Chart, Draw, Point, Series, Withheld};
pub(crate) use forest::{Estimate, Forest, WITHHELD};
pub(crate) use heat::Heat;
pub(crate) use shapes::{LOOKS, WIDTH, words};

use crate::markup::Markup;
use shapes::coordinate;

/// A drawing of one kind.
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

    /// Number of rows that are left out, and number of all rows.
    pub(crate) fn left_out(&self) -> (usize, usize) {
        match self {
            Self::Bars(bars) => bars.left_out(),
            Self::Forest(forest) => forest.left_out(),
            Self::Chart(_) | Self::Heat(_) => (0, 0),
        }
    }

    /// Whether the reader can zoom into the horizontal axis.
    pub(crate) fn zooms(&self) -> bool {
        matches!(self, Self::Chart(chart) if chart.zooms)
    }

    /// Whether the series with this look has only dots.
    pub(crate) fn is_of_dots(&self, look: usize) -> bool {
        match self {
            Self::Chart(chart) => chart.series.iter().any(|series| series.look == look && series.draw == Draw::Dots),
            Self::Forest(_) => true,
            Self::Bars(_) | Self::Heat(_) => false,
        }
    }

    /// Writes the whole picture with the element id `id`.
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
        self.write_inside(into, id, title, about);
        into.close("svg");
    }

    /// Writes the contents of the picture's element.
    pub(crate) fn write_inside(&self, into: &mut Markup, id: &str, title: &str, about: &str) {
        into.element("title", &[("id", &format!("{id}-t"))], title);
        into.element("desc", &[("id", &format!("{id}-d"))], about);
        match self {
            Self::Chart(chart) => chart.write(into, id),
            Self::Bars(bars) => bars.write(into),
            Self::Forest(forest) => forest.write(into),
            Self::Heat(heat) => heat.write(into),
        }
    }
}
