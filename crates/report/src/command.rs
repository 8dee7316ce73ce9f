//! Commands by which results were made, as a shell takes them.

/// Words as a shell takes them; none of none.
pub(crate) fn as_command<'a>(words: impl Iterator<Item = &'a str>) -> Option<String> {
    let words: Vec<String> = words.map(quoted).collect();
    (!words.is_empty()).then(|| words.join(" "))
}

/// A word of a command, in quotes where a shell would read it as anything else.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,+%@".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}
