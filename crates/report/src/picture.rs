//! A picture with what belongs to it: a title, what it shows in words, its legend, and its numbers as a table below.

use crate::markup::Markup;
use crate::svg::{Drawing, LOOKS};
use crate::table::Table;

/// A picture or, without a drawing, a table alone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Picture {
    pub(crate) title: String,
    /// What it shows, in a sentence or two: read out in place of the drawing.
    pub(crate) about: String,
    pub(crate) drawing: Option<Drawing>,
    /// Look and name of what has a line of its own.
    pub(crate) legend: Vec<(usize, String)>,
    /// What the reader should know, below it.
    pub(crate) notes: Vec<String>,
    pub(crate) table: Table,
}

impl Picture {
    pub(crate) fn drawn(title: impl Into<String>, about: impl Into<String>, drawing: Drawing, table: Table) -> Self {
        Self { title: title.into(), about: about.into(), drawing: Some(drawing), table, ..Self::default() }
    }

    /// A table alone.
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
                let is_dots = drawing.is_of_dots(*look);
                let class = format!("{} s{}", if is_dots { "dot" } else { "line" }, look % LOOKS);
                into.raw("<svg viewBox=\"0 0 28 8\" aria-hidden=\"true\">");
                into.shape("path", &[("class", &class), ("d", if is_dots { &"M14 4h0" } else { &"M1 4L27 4" })]);
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

    fn write_notes(&self, into: &mut Markup) {
        for note in &self.notes {
            into.element("p", &[("class", &"note")], note);
        }
    }
}
