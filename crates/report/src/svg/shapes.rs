//! Drawing primitives of all pictures.

use crate::markup::Markup;

/// Width of all pictures in SVG units: a phone shows them at three quarters, a column of a screen somewhat larger.
pub(crate) const WIDTH: f64 = 480.0;

/// Number of series looks: colours by Okabe and Ito, each with its own dash pattern, so that colour is never the only distinction.
pub(crate) const LOOKS: usize = 6;

/// A coordinate with one decimal: a tenth of a unit is less than a pixel on any screen.
pub(super) fn coordinate(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

/// Writes a text at a position.
pub(crate) fn words(into: &mut Markup, class: &str, anchor: &'static str, (x, y): (f64, f64), text: &str) {
    into.element(
        "text",
        &[("class", &class), ("text-anchor", &anchor), ("x", &coordinate(x)), ("y", &coordinate(y))],
        text,
    );
}

/// Draws a straight line.
pub(super) fn line(into: &mut Markup, class: &str, from: (f64, f64), to: (f64, f64)) {
    let path = format!("M{} {}L{} {}", coordinate(from.0), coordinate(from.1), coordinate(to.0), coordinate(to.1));
    into.shape("path", &[("class", &class), ("d", &path)]);
}

/// Cuts a text to at most `chars_max` characters.
pub(super) fn clipped(text: &str, chars_max: usize) -> String {
    if text.chars().count() <= chars_max {
        return text.to_owned();
    }
    let kept: String = text.chars().take(chars_max.saturating_sub(3)).collect();
    format!("{}...", kept.trim_end())
}
