//! Commands that produced results, quoted for a shell.

/// Joins words into a shell command; `None` where there are none.
pub(crate) fn as_command<'a>(words: impl Iterator<Item = &'a str>) -> Option<String> {
    let words: Vec<String> = words.map(quoted).collect();
    (!words.is_empty()).then(|| words.join(" "))
}

/// Quotes a word of a command where a shell would interpret it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,+%@".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}
