//! HTML and SVG as text. Everything from a result passes through [`Markup::text`] or an attribute, which escape it.

use std::fmt::{Display, Write};

/// Maximum length of a result's text; longer texts are cut, with an ellipsis.
const TEXT_CHARS_MAX: usize = 2000;

/// A growing text. Only the code chooses names of elements and attributes.
#[derive(Debug, Default)]
pub(crate) struct Markup(String);

/// Name and value of an attribute.
pub(crate) type Attribute<'a> = (&'static str, &'a dyn Display);

impl Markup {
    /// The text.
    pub(crate) fn finish(self) -> String {
        self.0
    }

    /// Appends markup that the code wrote; it is not escaped.
    pub(crate) fn raw(&mut self, text: &str) {
        self.0.push_str(text);
    }

    /// Appends another markup.
    pub(crate) fn part(&mut self, part: Self) {
        self.0.push_str(&part.0);
    }

    /// Appends a text, escaped.
    pub(crate) fn text(&mut self, text: impl Display) {
        let text = text.to_string();
        match text.char_indices().nth(TEXT_CHARS_MAX) {
            Some((end, _)) => {
                escape(&mut self.0, &text[..end]);
                self.0.push_str(" ... (cut)");
            }
            None => escape(&mut self.0, &text),
        }
    }

    /// Opens an element.
    pub(crate) fn open(&mut self, name: &'static str, attributes: &[Attribute<'_>]) {
        self.begin(name, attributes);
        self.0.push('>');
    }

    /// Closes it.
    pub(crate) fn close(&mut self, name: &'static str) {
        // Writing to a string does not fail.
        let _ = write!(self.0, "</{name}>");
    }

    /// Appends an element with a text.
    pub(crate) fn element(&mut self, name: &'static str, attributes: &[Attribute<'_>], text: impl Display) {
        self.open(name, attributes);
        self.text(text);
        self.close(name);
    }

    /// Appends an empty SVG element.
    pub(crate) fn shape(&mut self, name: &'static str, attributes: &[Attribute<'_>]) {
        self.begin(name, attributes);
        self.0.push_str("/>");
    }

    /// Attributes are never cut: an SVG path that ends early would be a different picture.
    fn begin(&mut self, name: &'static str, attributes: &[Attribute<'_>]) {
        let _ = write!(self.0, "<{name}");
        for (name, value) in attributes {
            let _ = write!(self.0, " {name}=\"");
            escape(&mut self.0, &value.to_string());
            self.0.push('"');
        }
    }
}

/// Escapes characters that would end the text, control it, or change the writing direction.
fn escape(into: &mut String, text: &str) {
    for character in text.chars() {
        match character {
            '&' => into.push_str("&amp;"),
            '<' => into.push_str("&lt;"),
            '>' => into.push_str("&gt;"),
            '"' => into.push_str("&quot;"),
            '\'' => into.push_str("&#39;"),
            '\n' | '\t' => into.push(' '),
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => into.extend(character.escape_unicode()),
            _ if character.is_control() => into.extend(character.escape_unicode()),
            _ => into.push(character),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_results_stay_texts() {
        let mut markup = Markup::default();
        markup.element("p", &[("title", &"\"><img src=x onerror=alert(1)>")], "</script>\u{202e}\u{0}&");
        assert_eq!(
            markup.finish(),
            "<p title=\"&quot;&gt;&lt;img src=x onerror=alert(1)&gt;\">&lt;/script&gt;\\u{202e}\\u{0}&amp;</p>"
        );
    }

    #[test]
    fn long_texts_are_cut_and_it_is_said() {
        let mut markup = Markup::default();
        markup.text("x".repeat(1 << 20));
        let text = markup.finish();
        assert!(text.len() < TEXT_CHARS_MAX + 20 && text.ends_with("... (cut)"), "{}", text.len());
    }
}
