//! Explains mistakes in a user's text in the user's terms: the place, the nearest known word to a misspelt one, and
//! plain names for the types in serde's messages.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

/// Longest word that is compared, or repeated in an error, in characters: an edit distance costs the product of the
/// lengths.
const WORD_CHARS_MAX: usize = 80;

/// Names of types in serde's messages, with plain ones.
const KINDS: [(&str, &str); 9] = [
    ("u64", "a whole number from 0 on"),
    ("u32", "a whole number from 0 to 4294967295"),
    ("u16", "a whole number from 0 to 65535"),
    ("u8", "a whole number from 0 to 255"),
    ("usize", "a whole number from 0 on"),
    ("f64", "a number"),
    ("a boolean", "true or false"),
    ("a string", "a text in quotation marks"),
    ("a sequence", "a list in square brackets, such as [0, 2] or [\"a\", \"b\"],"),
];

/// Rewrites serde's message on a value of the wrong type; any other message is only put on one line.
fn in_words(message: &str) -> String {
    let message = message.trim().replace('\n', "; ");
    let kinds = ["invalid type: ", "invalid value: "].into_iter().find_map(|begin| message.strip_prefix(begin));
    let Some((found, expected)) = kinds.and_then(|kinds| kinds.split_once(", expected ")) else {
        return message;
    };
    if found == "map" && expected == "a sequence" {
        return "there may be several of these: write its head with two brackets, as in [[disk]] or [[job]]".to_owned();
    }
    let expected = KINDS.iter().find(|(kind, _)| *kind == expected).map_or(expected, |(_, words)| words);
    format!("{expected} belongs here, not {found}")
}

/// A mistake, parsed from serde's message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mistake<'a> {
    /// An unknown word.
    Unknown {
        /// Kind of the word: "key" or "value".
        what: &'static str,
        /// The word.
        word: String,
        /// All words that would be known.
        known: Vec<&'a str>,
    },
    /// Any other mistake, in words.
    Other(String),
}

impl<'a> Mistake<'a> {
    /// Parses a message of serde. "unknown field `x`, expected one of `a`, `b`" quotes the wrong word first, then all
    /// known ones.
    #[must_use]
    pub fn of(message: &'a str) -> Self {
        let kinds = [("unknown field", "key"), ("unknown variant", "value")];
        let mut quoted = message.split('`').skip(1).step_by(2);
        match kinds.into_iter().find(|(begin, _)| message.trim_start().starts_with(begin)).zip(quoted.next()) {
            Some(((_, what), word)) => Self::Unknown { what, word: cut(word), known: quoted.collect() },
            None => Self::Other(in_words(message)),
        }
    }
}

/// Shortens a word for an error message.
#[must_use]
pub fn cut(word: &str) -> String {
    word.chars().take(WORD_CHARS_MAX).collect()
}

/// Longest text of a user that an error repeats as it is, in characters: no name, path or rule that can be right is much longer.
const WHOLE_CHARS_MAX: usize = 1024;

/// What somebody wrote, for an error that repeats it: of what is longer than anything that can be right the beginning, and how long it is.
#[must_use]
pub fn shown(text: &str) -> Cow<'_, str> {
    match text.chars().count() {
        chars if chars > WHOLE_CHARS_MAX => Cow::Owned(format!("{}... ({chars} characters)", cut(text))),
        _ => Cow::Borrowed(text),
    }
}

/// The known word with the smallest edit distance, where it is near enough to be a likely slip; of several one that begins with what was
/// written, else the first.
#[must_use]
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = cut(word);
    let distance = |known: &'a str| (strsim::damerau_levenshtein(&word, known), known);
    let apart = |(distance, known): &(usize, &str)| (*distance, !known.starts_with(&word));
    let (distance, near) = known.into_iter().map(distance).min_by_key(apart)?;
    (distance <= 1 + near.len() / 2).then_some(near)
}

/// The nearest known word as the end of a sentence; empty where none is near.
#[derive(Clone, Copy, Debug)]
pub struct Hint<'a>(pub Option<&'a str>);

impl fmt::Display for Hint<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |word| write!(f, "; the nearest known one is `{word}`"))
    }
}

/// What to say of an unknown word where all known ones are few enough to be listed.
#[must_use]
pub fn unknown_of(what: &str, word: &str, known: &[&str]) -> String {
    format!("unknown {what} `{word}`{} (known here: {})", Hint(nearest(word, known.iter().copied())), known.join(", "))
}

/// Line and column of a byte offset, both from 1.
#[must_use]
pub fn position(text: &str, byte: usize) -> (usize, usize) {
    let before = &text[..text.floor_char_boundary(byte)];
    let line = 1 + before.matches('\n').count();
    let column = 1 + before.rsplit('\n').next().unwrap_or(before).chars().count();
    (line, column)
}

/// Name of a text, with line and column of the mistake where its span is known.
#[must_use]
pub fn place(name: &str, text: &str, span: Option<Range<usize>>) -> String {
    span.map_or_else(
        || name.to_owned(),
        |span| {
            let (line, column) = position(text, span.start);
            format!("{name}:{line}:{column}")
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_has_a_nearest_word_and_anything_else_has_none() {
        let known = ["depth", "threads", "p4800x", "p4510"];
        let near = |word: &str| nearest(word, known);
        assert_eq!((near("detph"), near("p4511"), near("p4800")), (Some("depth"), Some("p4510"), Some("p4800x")));
        assert_eq!((near("floppy-drive"), near(""), nearest("x", [])), (None, None, None));
        assert_eq!((nearest("p4800", ["p4500", "p4800x"]), nearest("b", ["a", "c"])), (Some("p4800x"), Some("a")));
        assert_eq!(near(&"q".repeat(1 << 20)), None);
        assert_eq!(format!("{}{}", Hint(Some("a")), Hint(None)), "; the nearest known one is `a`");
    }

    #[test]
    fn unknown_words_come_with_what_is_known() {
        let known = vec!["a", "b"];
        let unknown = |what, word: &str| Mistake::Unknown { what, word: word.to_owned(), known: known.clone() };
        assert_eq!(Mistake::of("unknown field `x`, expected one of `a`, `b`"), unknown("key", "x"));
        assert_eq!(Mistake::of("unknown variant `y`, expected `a` or `b`\n"), unknown("value", "y"));
        assert_eq!(Mistake::of("unknown field"), Mistake::Other("unknown field".to_owned()));
        assert_eq!(Mistake::of("missing field `a`"), Mistake::Other("missing field `a`".to_owned()));
    }

    /// A rule of 200 kB was repeated as a whole.
    #[test]
    fn regression_what_an_error_repeats_is_bounded() {
        assert_eq!((shown("a"), shown(&"b".repeat(1024)).len()), (Cow::Borrowed("a"), 1024));
        let long = shown(&"\u{e4}".repeat(200_000)).into_owned();
        assert_eq!(long, format!("{}... (200000 characters)", "\u{e4}".repeat(80)));
    }

    #[test]
    fn columns_count_characters() {
        let text = "a\n\u{e4}b = x";
        assert_eq!((position(text, 0), position(text, 4), position(text, 99)), ((1, 1), (2, 2), (2, 7)));
        // An offset within a character, which no parser reports.
        assert_eq!(position(text, 3), (2, 1));
        assert_eq!((place("f", text, Some(0..1)), place("f", text, None)), ("f:1:1".to_owned(), "f".to_owned()));
    }

    #[test]
    fn regression_no_type_of_the_program_is_asked_for() {
        assert_eq!(
            in_words("invalid type: string \"x\", expected u32\n"),
            "a whole number from 0 to 4294967295 belongs here, not string \"x\""
        );
        assert!(
            in_words("invalid value: integer `-1`, expected u8").ends_with("to 255 belongs here, not integer `-1`")
        );
        assert!(in_words("invalid type: map, expected a sequence").contains("[[job]]"));
        assert_eq!(in_words("invalid type: integer `4`, expected a set"), "a set belongs here, not integer `4`");
        assert!(in_words("invalid type: integer `4`, expected a sequence").starts_with("a list in square brackets"));
        assert_eq!(in_words("unclosed array\nexpected `]`"), "unclosed array; expected `]`");
    }
}
