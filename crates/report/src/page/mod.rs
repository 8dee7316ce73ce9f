//! The page around the pictures.

use crate::error::ReportError;
use crate::markup::Markup;
use crate::picture::Picture;
use crate::results::Results;
use crate::section::{self, Section};

/// Colours of the light and the dark scheme.
const COLOURS: &str = include_str!("colours.css");
/// Style of pictures, on the page and as separate files.
const PICTURES: &str = include_str!("picture.css");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Maximum number of pictures that an error names.
const PICTURES_NAMED: usize = 20;

/// Every page begins with this text. A later page may overwrite only a file that begins so.
const BEGIN: &str = "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
                     <meta name=\"generator\" content=\"forebay report\">\n";

/// The page fetches nothing, whatever a result contains.
const POLICY: &str = "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
                      script-src 'unsafe-inline'; img-src data: blob:\">";

/// Every separate picture begins with this text.
const BEGIN_ALONE: &str = "<!-- by forebay report -->\n<svg xmlns=\"http://www.w3.org/2000/svg\"";
/// Additional style of a separate picture, which has no page to give it a font or a background.
const STYLE_ALONE: &str = "svg { font-family: system-ui, -apple-system, \"Segoe UI\", \"DejaVu Sans\", sans-serif; }\nsvg .ground { fill: var(--card); }\n";

/// Whether a file that begins with `begin` is a page or picture of this program, which may be overwritten.
#[must_use]
pub fn is_page(begin: &[u8]) -> bool {
    begin.starts_with(BEGIN.as_bytes()) || begin.starts_with(BEGIN_ALONE.as_bytes())
}

/// The first picture with this title, as a self-contained SVG file.
///
/// # Errors
/// [`ReportError::NoPicture`] with the titles that exist.
pub fn picture(results: &Results, title: &str) -> Result<String, ReportError> {
    let sections = section::all(results.found(), results.records());
    let drawn = || sections.iter().flat_map(|section| section.pictures.iter().map(move |picture| (section, picture)));
    let is_wanted = |picture: &Picture| picture.title == title && picture.drawing.is_some();
    let Some((section, picture)) = drawn().find(|(_, picture)| is_wanted(picture)) else {
        let known = drawn().filter(|(_, picture)| picture.drawing.is_some());
        let known: Vec<&str> = known.map(|(_, picture)| picture.title.as_str()).take(PICTURES_NAMED).collect();
        return Err(ReportError::NoPicture { title: title.to_owned(), known: known.join("; ") });
    };
    let mut alone = Markup::default();
    alone.raw(BEGIN_ALONE);
    let style = [COLOURS, PICTURES, STYLE_ALONE].concat();
    picture.write_alone(&mut alone, &style, section.command.as_deref());
    Ok(alone.finish())
}

/// The page of all results, as self-contained HTML.
#[must_use]
pub fn page(results: &Results) -> String {
    let sections = section::all(results.found(), results.records());
    let title = match sections.as_slice() {
        [one] => one.title.clone(),
        _ => format!("{} results", results.found().len() + results.records().len()),
    };
    let mut page = Markup::default();
    page.raw(BEGIN);
    page.raw(POLICY);
    page.raw("\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    page.raw("<meta name=\"color-scheme\" content=\"light dark\">\n");
    page.element("title", &[], format!("{title} - Forebay"));
    page.raw("\n<link rel=\"icon\" href=\"data:,\">\n<style>\n");
    page.raw(COLOURS);
    page.raw(PICTURES);
    page.raw(STYLE);
    page.raw("</style>\n</head>\n<body>\n<header>");
    page.element("h1", &[], &title);
    page.raw("</header>\n");
    write_contents(&mut page, &sections);
    page.raw("<main>\n");
    for (at, section) in sections.iter().enumerate() {
        write_section(&mut page, section, at + 1, sections.len() == 1);
    }
    page.raw("</main>\n<footer>Written by <code>forebay report</code>. Arrow keys go through the points of a picture.</footer>\n<script>\n");
    page.raw(SCRIPT);
    page.raw("</script>\n</body>\n</html>\n");
    page.finish()
}

fn write_contents(page: &mut Markup, sections: &[Section]) {
    if sections.len() < 2 {
        return;
    }
    page.raw("<nav aria-label=\"Contents\"><ol>");
    for (at, section) in sections.iter().enumerate() {
        page.raw("<li>");
        page.element("a", &[("href", &format!("#s{}", at + 1))], &section.title);
        page.raw("</li>");
    }
    page.raw("</ol></nav>\n");
}

fn write_section(page: &mut Markup, section: &Section, number: usize, is_alone: bool) {
    let id = format!("s{number}");
    page.open("section", &[("id", &id), ("aria-labelledby", &format!("{id}-h"))]);
    // The page's title already names its only section.
    page.element(
        "h2",
        &[("id", &format!("{id}-h")), ("class", if is_alone { &"unseen" } else { &"" })],
        &section.title,
    );
    for text in &section.about {
        page.element("p", &[("class", &"about")], text);
    }
    for text in &section.warnings {
        page.element("p", &[("class", &"warning")], text);
    }
    if !section.facts.is_empty() {
        page.raw("<dl class=\"facts\">");
        for (name, cell) in &section.facts {
            page.raw("<div>");
            page.element("dt", &[], name);
            cell.write_as(page, "dd");
            page.raw("</div>");
        }
        page.raw("</dl>");
    }
    page.raw("<div class=\"pictures\">");
    for (at, picture) in section.pictures.iter().enumerate() {
        picture.write(page, &format!("{id}p{}", at + 1));
    }
    page.raw("</div>");
    write_list(page, "Conditions", &section.conditions);
    write_list(page, "Notes", &section.notes);
    page.raw("<p class=\"made\">");
    match &section.command {
        Some(command) => page.element("code", &[], command),
        None => page.text("The result does not say by which command it was made."),
    }
    page.element("span", &[("class", &"file")], format!("from {}", section.file));
    page.raw("</p></section>\n");
}

fn write_list(page: &mut Markup, title: &str, texts: &[String]) {
    if texts.is_empty() {
        return;
    }
    page.element("h3", &[], title);
    page.raw("<ul class=\"texts\">");
    texts.iter().for_each(|text| page.element("li", &[], text));
    page.raw("</ul>");
}
