//! Small parsers for files of the kernel.

use crate::lack::{Lack, Reading, shown};
use crate::tree::Tree;
use std::collections::BTreeSet;

/// CPUs and nodes from this number on count as invalid.
const MEMBERS_MAX: u64 = 65_536;

/// Reads a whole number from a file.
///
/// # Errors
/// The file cannot be read, or is not a number.
pub fn number(tree: &Tree, path: &str) -> Reading<i64> {
    parsed_number(path, &tree.read(path)?)
}

/// Parses a number in the text of the file `path`.
///
/// # Errors
/// The text is not a number.
pub fn parsed_number(path: &str, text: &str) -> Reading<i64> {
    text.trim().parse().map_err(|_| Lack::unreadable(path, format!("{:?} is not a number", shown(text))))
}

/// The word in brackets, as in `always [madvise] never`; the only word if there is one without brackets.
///
/// # Errors
/// No word is marked.
pub fn chosen(path: &str, text: &str) -> Reading<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let marked = words.iter().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    let only = if words.len() == 1 { Some(words[0]) } else { None };
    let none = || Lack::unreadable(path, format!("no choice is marked in {:?}", shown(text)));
    // The kernel's words have no other characters; others are invalid.
    let is_word = |word: &&str| word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_+".contains(&byte));
    marked.or(only).filter(is_word).map(str::to_owned).ok_or_else(none)
}

/// Parses a list such as `0-3,8`.
///
/// # Errors
/// The text is not a list of numbers.
pub fn members(path: &str, text: &str) -> Reading<BTreeSet<u64>> {
    let bad = || Lack::unreadable(path, format!("{:?} is not a list of numbers", shown(text)));
    let mut found = BTreeSet::new();
    for part in text.trim().split([',', ' ']).filter(|part| !part.is_empty()) {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (from, to): (u64, u64) = (from.parse().map_err(|_| bad())?, to.parse().map_err(|_| bad())?);
        if from > to || to >= MEMBERS_MAX {
            return Err(bad());
        }
        found.extend(from..=to);
    }
    Ok(found)
}

/// Whether a name consists of `prefix` and a number.
pub fn is_numbered(name: &str, prefix: &str) -> bool {
    name.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A rule listed such a value as good.
    #[test]
    fn a_choice_of_garbage_is_not_known() {
        assert_eq!(chosen("x", "always [madvise] never"), Ok("madvise".to_owned()));
        assert_eq!(chosen("x", "mq-deadline"), Ok("mq-deadline".to_owned()));
        assert_eq!(chosen("x", "always defer [defer+madvise] never"), Ok("defer+madvise".to_owned()));
        for text in ["[\u{fffd}\u{fffd}madvise]", "always [\u{1b}[31mmadvise] never", "a b", ""] {
            assert!(chosen("x", text).is_err(), "{text:?}");
        }
    }
}
