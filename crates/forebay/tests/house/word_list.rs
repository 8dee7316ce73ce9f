//! The words of the house: what a storage engineer would not look for, and what is said instead.

use crate::source::{Source, words};

/// What may not stand in comments, documents, identifiers or keys of JSON, with what to say. Identifiers are taken apart at `_` and at
/// capitals, so `queueDepth` and `queue_depth` are `queue depth` too. Only what is unmistakable is listed: `round`, `asked` or
/// `kept` have their good uses.
pub const WORDS: [(&str, &str); 29] = [
    ("books", "statistics, counters"),
    ("patience", "timeout, deadline"),
    ("fruitless", "what was found: no valid gain, a victim without free space"),
    ("forgiven", "what is done: the victim may be chosen again"),
    ("avoided", "excluded, or why a victim is not chosen"),
    ("manners", "phase, behaviour"),
    ("mood", "phase"),
    ("moods", "phases"),
    ("course", "run, phase, step"),
    ("remark", "note, warning, caveat"),
    ("remarks", "notes, warnings, caveats"),
    ("told", "hint, evidence; reported, known, shown, named"),
    ("untold", "unknown, not reported"),
    ("mover", "destage, garbage collection, migration"),
    ("take space", "allocate"),
    ("prefers fast", "admission, placement"),
    ("turns of", "iterations of"),
    ("turn of", "iteration of"),
    ("questions to", "calls of epoll_wait"),
    ("looking in", "polling that finds nothing"),
    ("under way", "in flight, in progress"),
    ("underway", "in flight, in progress"),
    ("hand over", "submit, pass on"),
    ("hands over", "submits, passes on"),
    ("handed over", "submitted, passed on"),
    ("handing over", "submission, passing on"),
    ("lose patience", "time out"),
    ("those who wait", "the wait queue"),
    ("without a word", "without an event, a completion, a report"),
];

/// One word that may not stand where it does.
#[derive(Debug, PartialEq, Eq)]
pub struct Finding {
    /// `path:line`.
    pub place: String,
    pub word: &'static str,
    pub say: &'static str,
}

/// The listed words in a source: its comments, and each identifier and each key for itself.
pub fn in_source(source: &Source) -> Vec<Finding> {
    let mut found = in_text(source, &source.comments);
    // This list is made of such literals.
    let keys = if source.path.ends_with("house/word_list.rs") { "" } else { &source.keys };
    for text in [&source.code, keys] {
        for (at, identifier) in words(text) {
            let parts: Vec<(usize, String)> = parts(identifier).into_iter().map(|part| (at, part)).collect();
            let listed = listed(&parts);
            found.extend(listed.map(|(at, word, say)| Finding { place: source.place(text, at), word, say }));
        }
    }
    found
}

/// The listed words in a document. Links, code and all else in it count like its sentences.
pub fn in_document(path: &str, text: &str) -> Vec<Finding> {
    let source = Source {
        path: path.to_owned(),
        lines: 0,
        code: String::new(),
        product: String::new(),
        comments: text.to_owned(),
        keys: String::new(),
    };
    in_text(&source, text)
}

/// A phrase may go on behind the end of a line.
fn in_text(source: &Source, text: &str) -> Vec<Finding> {
    let all: Vec<(usize, String)> =
        words(text).flat_map(|(at, word)| parts(word).into_iter().map(move |part| (at, part))).collect();
    listed(&all).map(|(at, word, say)| Finding { place: source.place(text, at), word, say }).collect()
}

fn listed(text: &[(usize, String)]) -> impl Iterator<Item = (usize, &'static str, &'static str)> + '_ {
    let is_before = |index: usize, word: &str| index > 0 && text[index - 1].1 == word;
    (0..text.len()).flat_map(move |index| {
        WORDS.iter().filter_map(move |(word, say)| {
            let stands = word.split(' ').zip(&text[index..]).all(|(part, (_, other))| part == other)
                && text.len() - index >= word.split(' ').count();
            // "Of course" is plain English.
            let is_fine = *word == "course" && is_before(index, "of");
            (stands && !is_fine).then_some((text[index].0, *word, *say))
        })
    })
}

/// The words of an identifier: `QueueDepth`, `queue_depth` and `QUEUE_DEPTH` are `queue`, `depth`.
fn parts(identifier: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    let mut was_small = false;
    let mut characters = identifier.chars().peekable();
    while let Some(character) = characters.next() {
        let is_capital = character.is_ascii_uppercase();
        // The last capital of several begins the word that follows: `OneAWord`.
        let begins = is_capital && (was_small || characters.peek().is_some_and(char::is_ascii_lowercase));
        if character == '_' || begins {
            found.push(String::new());
        }
        if let (Some(last), true) = (found.last_mut(), character != '_') {
            last.push(character.to_ascii_lowercase());
        }
        was_small = !is_capital && character != '_';
    }
    found.retain(|part| !part.is_empty());
    found
}
