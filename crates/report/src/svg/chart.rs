//! Lines and dots on two axes.

use super::axis::{Axis, Scale};
use super::labels::Labels;
use super::shapes::{LOOKS, WIDTH, coordinate, line, words};
use crate::markup::{Attribute, Markup};

pub(super) const HEIGHT: f64 = 300.0;
/// Space around the plot for the labels of the axes.
const LEFT: f64 = 66.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 46.0;
/// Width of a character at the largest text size, on a phone.
const CHAR: f64 = 8.2;

/// How a series is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Draw {
    /// A line, with a dot at each point.
    Line,
    /// A line; a dot appears when the reader points at it.
    QuietLine,
    /// Dots alone.
    Dots,
}

/// A point with the values of the result.
#[derive(Clone, Debug, Default)]
pub(crate) struct Point {
    pub(crate) x: f64,
    pub(crate) y: f64,
    /// Ends of its interval, where known.
    pub(crate) low: Option<f64>,
    pub(crate) high: Option<f64>,
    /// Label beside the point.
    pub(crate) label: Option<String>,
    /// Description for the read-out.
    pub(crate) say: String,
    /// Whether the point is highlighted.
    pub(crate) marked: bool,
    /// Rows without a value lie between this point and the one before, so no line joins the two.
    pub(crate) after_gap: bool,
}

/// Points that belong together.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) look: usize,
    pub(crate) draw: Draw,
    pub(crate) points: Vec<Point>,
}

/// A part of the horizontal axis without points, and the reason.
#[derive(Clone, Debug)]
pub(crate) struct Withheld {
    pub(crate) from: f64,
    pub(crate) to: f64,
    pub(crate) words: String,
}

/// A picture of lines.
#[derive(Clone, Debug)]
pub(crate) struct Chart {
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) series: Vec<Series>,
    /// Vertical lines at values of the horizontal axis, with their labels.
    pub(crate) marks: Vec<(f64, String)>,
    /// A highlighted part of the horizontal axis, with its label.
    pub(crate) span: Option<(f64, f64, String)>,
    pub(crate) withheld: Option<Withheld>,
    pub(crate) zooms: bool,
}

impl Chart {
    pub(crate) fn new(x: Axis, y: Axis, series: Vec<Series>) -> Self {
        Self { x, y, series, marks: Vec::new(), span: None, withheld: None, zooms: false }
    }

    fn points(&self) -> impl Iterator<Item = &Point> {
        self.series.iter().flat_map(|series| &series.points)
    }

    pub(super) fn write(&self, into: &mut Markup, id: &str) {
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        let ends = self.withheld.iter().flat_map(|part| [part.from, part.to]);
        let x = self.x.over(self.points().map(|point| point.x).chain(ends), LEFT, right);
        let values = self.points().flat_map(|point| [Some(point.y), point.low, point.high]).flatten();
        let y = self.y.over(values, bottom, TOP);
        self.write_axes(into, &x, &y);
        let clip = format!("{id}-c");
        into.raw("<clipPath");
        into.part(attribute("id", &clip));
        into.raw(">");
        rectangle(into, "", (LEFT - 5.0, TOP - 6.0), (right + 6.0, bottom + 5.0));
        into.raw("</clipPath>");
        let url = format!("url(#{clip})");
        into.open("g", &[("clip-path", &url)]);
        let mut attributes: Vec<Attribute<'_>> = vec![("class", &"plot")];
        let places = (coordinate(LEFT), coordinate(right));
        let ends = x.even_ends();
        if let (true, Some((low, high))) = (self.zooms, &ends) {
            attributes.extend([
                ("data-x-low", low as &dyn std::fmt::Display),
                ("data-x-high", high),
                ("data-from", &places.0),
                ("data-to", &places.1),
            ]);
        }
        into.open("g", &attributes);
        if let Some((from, to, _)) = &self.span {
            rectangle(into, "span", (x.at(*from), TOP), (x.at(*to), bottom));
        }
        if let Some(part) = &self.withheld {
            rectangle(into, "withheld", (x.at(part.from), TOP), (x.at(part.to), bottom));
        }
        for (value, _) in &self.marks {
            line(into, "mark", (x.at(*value), TOP), (x.at(*value), bottom));
        }
        for series in &self.series {
            write_band(into, series, &x, &y);
        }
        for series in &self.series {
            write_series(into, series, &x, &y);
        }
        into.close("g");
        into.close("g");
        self.write_labels(into, &x, &y);
    }

    fn write_axes(&self, into: &mut Markup, x: &Scale, y: &Scale) {
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        words(into, "axis", "start", (4.0, 14.0), &self.y.title);
        words(into, "axis", "end", (right, HEIGHT - 6.0), &self.x.title);
        for (place, text) in y.ticks() {
            line(into, "grid", (LEFT, place), (right, place));
            words(into, "tick", "end", (LEFT - 7.0, place + 4.5), &text);
        }
        into.open("g", &[("class", &"x-ticks")]);
        let mut free_from = 0.0;
        for (place, text) in x.ticks() {
            line(into, "grid", (place, bottom), (place, bottom + 4.0));
            // The label of the last tick ends with the picture; a label that would overlap its neighbour is left out.
            let half = text.chars().count() as f64 * CHAR / 2.0;
            let at = place.min(WIDTH - 2.0 - half).max(half);
            if at - half >= free_from {
                words(into, "tick", "middle", (at, bottom + 19.0), &text);
                free_from = at + half + CHAR;
            }
        }
        into.close("g");
        line(into, "base", (LEFT, bottom), (right, bottom));
    }

    fn write_labels(&self, into: &mut Markup, x: &Scale, y: &Scale) {
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        let mut labels = Labels::within([LEFT + 1.0, TOP - 14.0, right + 12.0, bottom + 2.0]);
        self.points().for_each(|point| labels.take((x.at(point.x), y.at(point.y))));
        if let Some(part) = &self.withheld {
            let (from, to) = (x.at(part.from), x.at(part.to));
            let wide = part.words.chars().count() as f64 * CHAR;
            // Where this part of the axis is too narrow for the words, only the sentence below the picture has them.
            if to - from > wide {
                words(into, "note", "end", (to - 4.0, TOP + 15.0), &part.words);
                labels.take_box([to - wide, TOP, to, TOP + 20.0]);
            }
        }
        let mut write = |into: &mut Markup, class: &str, at: (f64, f64), text: &str| {
            let place = labels.beside(at, text);
            if let Some(place) = &place {
                words(into, class, place.anchor, place.at, text);
            }
            place.is_some()
        };
        // The span's label is written first, at the upper end.
        if let Some((from, to, text)) = &self.span {
            write(into, "note", ((x.at(*from) + x.at(*to)) / 2.0, TOP + 10.0), text);
        }
        for (value, text) in &self.marks {
            // Beside the line where there is room, tried from the bottom upwards.
            let heights = (0..12).map(|step| bottom - 10.0 - f64::from(step) * 18.0);
            let _ = heights.into_iter().any(|height| write(into, "note strong", (x.at(*value), height), text));
        }
        for point in self.points().filter(|point| point.marked).chain(self.points().filter(|point| !point.marked)) {
            if let Some(label) = &point.label {
                let class = if point.marked { "label strong" } else { "label" };
                write(into, class, (x.at(point.x), y.at(point.y)), label);
            }
        }
    }
}

fn attribute(name: &'static str, value: &str) -> Markup {
    let mut markup = Markup::default();
    markup.raw(" ");
    markup.raw(name);
    markup.raw("=\"");
    markup.text(value);
    markup.raw("\"");
    markup
}

fn rectangle(into: &mut Markup, class: &str, from: (f64, f64), to: (f64, f64)) {
    into.shape(
        "rect",
        &[
            ("class", &class),
            ("x", &coordinate(from.0.min(to.0))),
            ("y", &coordinate(from.1)),
            ("width", &coordinate((to.0 - from.0).abs())),
            ("height", &coordinate((to.1 - from.1).abs())),
        ],
    );
}

/// Draws the intervals of a series: an area along neighbours with both ends, and a bar for each point, open at an unknown end.
fn write_band(into: &mut Markup, series: &Series, x: &Scale, y: &Scale) {
    let look = series.look % LOOKS;
    let both = |point: &Point| Some((x.at(point.x), y.at(point.low?), y.at(point.high?)));
    if series.draw == Draw::Line {
        for part in series.points.chunk_by(|a, b| both(a).is_some() && both(b).is_some() && !b.after_gap) {
            let edge: Vec<(f64, f64, f64)> = part.iter().filter_map(both).collect();
            if edge.len() < 2 {
                continue;
            }
            let upper = edge.iter().map(|(x, _, high)| (x, high));
            let lower = edge.iter().rev().map(|(x, low, _)| (x, low));
            let points: Vec<String> =
                upper.chain(lower).map(|(x, y)| format!("{} {}", coordinate(*x), coordinate(*y))).collect();
            into.shape("path", &[("class", &format!("band s{look}")), ("d", &format!("M{}Z", points.join("L")))]);
        }
    }
    for point in &series.points {
        let at = x.at(point.x);
        let (Some(low), Some(high)) = (point.low.or(Some(point.y)), point.high.or(Some(point.y))) else { continue };
        if point.low.is_some() || point.high.is_some() {
            line(into, &format!("whisker s{look}"), (at, y.at(low)), (at, y.at(high)));
        }
        for end in [point.low, point.high].into_iter().flatten() {
            line(into, &format!("whisker s{look}"), (at - 3.0, y.at(end)), (at + 3.0, y.at(end)));
        }
    }
}

fn write_series(into: &mut Markup, series: &Series, x: &Scale, y: &Scale) {
    let look = series.look % LOOKS;
    if series.draw != Draw::Dots {
        let place = |point: &Point| format!("{} {}", coordinate(x.at(point.x)), coordinate(y.at(point.y)));
        let parts = series.points.chunk_by(|_, next| !next.after_gap).filter(|part| part.len() > 1);
        let lines: Vec<String> =
            parts.map(|part| format!("M{}", part.iter().map(place).collect::<Vec<_>>().join("L"))).collect();
        if !lines.is_empty() {
            into.shape("path", &[("class", &format!("line s{look}")), ("d", &lines.concat())]);
        }
    }
    for point in &series.points {
        let quiet = if series.draw == Draw::QuietLine { " quiet" } else { "" };
        let marked = if point.marked { " marked" } else { "" };
        let class = format!("dot s{look}{quiet}{marked}");
        let path = format!("M{} {}h0", coordinate(x.at(point.x)), coordinate(y.at(point.y)));
        let mut attributes: Vec<Attribute<'_>> =
            vec![("class", &class), ("d", &path), ("data-x", &point.x), ("data-y", &point.y)];
        attributes.extend(point.low.iter().map(|low| ("data-low", low as &dyn std::fmt::Display)));
        attributes.extend(point.high.iter().map(|high| ("data-high", high as &dyn std::fmt::Display)));
        into.open("path", &attributes);
        into.element("title", &[], &point.say);
        into.close("path");
    }
}
