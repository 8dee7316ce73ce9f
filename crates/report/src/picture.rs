//! A picture with its title, its description, its legend, and its numbers as a table below.

use crate::markup::{Attribute, Markup};
use crate::svg::{Drawing, LOOKS, WIDTH, words};
use crate::table::Table;

/// A picture or, without a drawing, a table alone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Picture {
    pub(crate) title: String,
    /// Description in a sentence or two, which screen readers read in place of the drawing.
    pub(crate) about: String,
    pub(crate) drawing: Option<Drawing>,
    /// Look and name of each legend entry.
    pub(crate) legend: Vec<(usize, String)>,
    /// Notes to the reader, below the picture.
    pub(crate) notes: Vec<String>,
    pub(crate) table: Table,
}

/// Layout of a separate picture: margin, heights of the title and of a legend row, and widths of a sign and of a character.
const MARGIN: f64 = 4.0;
const TITLE_HIGH: f64 = 24.0;
const LEGEND_HIGH: f64 = 18.0;
const SIGN_WIDE: f64 = 46.0;
const CHAR_WIDE: f64 = 6.6;

/// Draws the look of a series for a legend.
fn write_sign(into: &mut Markup, drawing: &Drawing, look: usize) {
    let is_dots = drawing.is_of_dots(look);
    let class = format!("{} s{}", if is_dots { "dot" } else { "line" }, look % LOOKS);
    into.shape("path", &[("class", &class), ("d", if is_dots { &"M14 4h0" } else { &"M1 4L27 4" })]);
}

impl Picture {
    pub(crate) fn drawn(title: impl Into<String>, about: impl Into<String>, drawing: Drawing, table: Table) -> Self {
        Self { title: title.into(), about: about.into(), drawing: Some(drawing), table, ..Self::default() }
    }

    /// A table without a drawing.
    pub(crate) fn table(title: impl Into<String>, table: Table) -> Self {
        Self { title: title.into(), table, ..Self::default() }
    }

    pub(crate) fn write(&self, into: &mut Markup, id: &str) {
        let Some(drawing) = &self.drawing else {
            into.open("figure", &[("class", &"wide"), ("id", &id)]);
            into.element("h3", &[], &self.title);
            self.write_notes(into);
            self.table.clone().bounded().below(&self.title).write(into);
            into.close("figure");
            return;
        };
        let zooms = if drawing.zooms() { "picture zooms" } else { "picture" };
        into.open("figure", &[("class", &zooms)]);
        into.element("h3", &[], &self.title);
        if self.legend.len() > 1 {
            into.raw("<ul class=\"legend\">");
            for (look, name) in &self.legend {
                into.raw("<li>");
                into.raw("<svg viewBox=\"0 0 28 8\" aria-hidden=\"true\">");
                write_sign(into, drawing, *look);
                into.raw("</svg>");
                into.text(name);
                into.raw("</li>");
            }
            into.raw("</ul>");
        }
        drawing.write(into, id, &self.title, &self.about);
        into.raw("<output class=\"said\" aria-live=\"polite\"></output>");
        into.open("figcaption", &[]);
        into.text(&self.about);
        into.close("figcaption");
        if let (left @ 1.., all) = drawing.left_out() {
            into.element(
                "p",
                &[("class", &"note")],
                format!("Of {all} rows the first {} are drawn; the table has all.", all - left),
            );
        }
        self.write_notes(into);
        into.raw("<details><summary>Numbers</summary>");
        self.table.clone().bounded().write(into);
        into.raw("</details></figure>");
    }

    /// Writes the drawing with its title and legend above it, as the contents of a separate file's root element.
    pub(crate) fn write_alone(&self, into: &mut Markup, style: &str, command: Option<&str>) {
        let Some(drawing) = &self.drawing else { return };
        let mut rows: Vec<Vec<&(usize, String)>> = Vec::new();
        let mut free = 0.0;
        for entry in self.legend.iter().filter(|_| self.legend.len() > 1) {
            let wide = SIGN_WIDE + entry.1.chars().count() as f64 * CHAR_WIDE;
            match rows.last_mut().filter(|_| free >= wide) {
                Some(row) => row.push(entry),
                None => {
                    rows.push(vec![entry]);
                    free = WIDTH - 2.0 * MARGIN;
                }
            }
            free -= wide;
        }
        let above = TITLE_HIGH + rows.len() as f64 * LEGEND_HIGH;
        let high = drawing.height() + above;
        into.raw(&format!(
            " viewBox=\"0 {} {WIDTH} {high}\" width=\"{}\" height=\"{}\"",
            -above,
            WIDTH * 1.5,
            high * 1.5
        ));
        into.raw(" role=\"img\" aria-labelledby=\"p-t p-d\">\n<style>\n");
        into.raw(style);
        into.raw("</style>\n");
        let ground: [Attribute<'_>; 5] =
            [("class", &"ground"), ("x", &"0"), ("y", &-above), ("width", &WIDTH), ("height", &high)];
        into.shape("rect", &ground);
        words(into, "strong", "start", (MARGIN, 16.0 - above), &self.title);
        for (row, entries) in rows.iter().enumerate() {
            let y = TITLE_HIGH + (row as f64 + 0.5) * LEGEND_HIGH - above;
            let mut x = MARGIN;
            for (look, name) in entries {
                into.open("g", &[("transform", &format!("translate({x} {})", y - 4.0))]);
                write_sign(into, drawing, *look);
                into.close("g");
                words(into, "", "start", (x + SIGN_WIDE - 12.0, y + 4.5), name);
                x += SIGN_WIDE + name.chars().count() as f64 * CHAR_WIDE;
            }
        }
        let made = command.map_or_else(String::new, |command| format!(" Made of the result of: {command}"));
        drawing.write_inside(into, "p", &self.title, &format!("{}{made}", self.about));
        into.raw("\n</svg>\n");
    }

    fn write_notes(&self, into: &mut Markup) {
        for note in &self.notes {
            into.element("p", &[("class", &"note")], note);
        }
    }
}
