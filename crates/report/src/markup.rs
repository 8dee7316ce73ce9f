//! HTML and SVG as text. Whatever comes from a result goes through [`Markup::text`] or an attribute, and is escaped there.

use std::fmt::{Display, Write};

/// Longest text of a result that is shown; what is longer is cut, with a sign.
const TEXT_CHARS_MAX: usize = 2000;

/// A growing text. Names of elements and attributes come from the code alone.
#[derive(Debug, Default)]
pub(crate) struct Markup(String);

/// An attribute: its name and its value.
pub(crate) type Attribute<'a> = (&'static str, &'a dyn Display);

impl Markup {
    /// The text.
    pub(crate) fn finish(self) -> String {
        self.0
    }

    /// Markup that was written here.
    pub(crate) fn raw(&mut self, text: &str) {
        self.0.push_str(text);
    }

    /// Another part.
    pub(crate) fn part(&mut self, part: Self) {
        self.0.push_str(&part.0);
    }

    /// A text of a result, or one of ours.
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

    /// An element with a text.
    pub(crate) fn element(&mut self, name: &'static str, attributes: &[Attribute<'_>], text: impl Display) {
        self.open(name, attributes);
        self.text(text);
        self.close(name);
    }

    /// An element of SVG without contents.
    pub(crate) fn shape(&mut self, name: &'static str, attributes: &[Attribute<'_>]) {
        self.begin(name, attributes);
        self.0.push_str("/>");
    }

    /// Attributes are never cut: a path of SVG that ends early is another picture.
    fn begin(&mut self, name: &'static str, attributes: &[Attribute<'_>]) {
        let _ = write!(self.0, "<{name}");
        for (name, value) in attributes {
            let _ = write!(self.0, " {name}=\"");
            escape(&mut self.0, &value.to_string());
            self.0.push('"');
        }
    }
}

/// Characters that would end the text, control it, or turn the direction of what follows, are written out.
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
