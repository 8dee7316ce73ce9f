//! Patterns for paths: `*` and `?` within a part, `[a-c]` one of several characters, `**` any number of whole parts.
//! A leading `/` is ignored on either side: paths are relative to their file system.

/// Whether a path matches a pattern. Takes time at most proportional to the product of their lengths.
pub(super) fn path_fits(pattern: &str, path: &str) -> bool {
    let pattern: Vec<&str> = pattern.trim_start_matches('/').split('/').collect();
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    // For each number of parts, whether the pattern up to here matches them.
    let mut fits = vec![false; parts.len() + 1];
    fits[0] = true;
    for piece in pattern {
        if piece == "**" {
            let first = fits.iter().position(|fit| *fit).unwrap_or(fits.len());
            fits.iter_mut().skip(first).for_each(|fit| *fit = true);
            continue;
        }
        for at in (0..parts.len()).rev() {
            fits[at + 1] = fits[at] && word_fits(piece, parts[at]);
        }
        fits[0] = false;
    }
    fits.last() == Some(&true)
}

/// Whether a word matches a pattern that has no parts.
pub(super) fn word_fits(pattern: &str, word: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let word: Vec<char> = word.chars().collect();
    let (mut at, mut seen) = (0, 0);
    // Position after the last `*`, and the end of the text that it has matched so far.
    let mut star: Option<(usize, usize)> = None;
    while seen < word.len() {
        let next = match pattern.get(at) {
            Some('*') => {
                star = Some((at + 1, seen));
                at += 1;
                continue;
            }
            Some(_) => one_fits(&pattern[at..], word[seen]),
            None => None,
        };
        if let Some(taken) = next {
            at += taken;
            seen += 1;
        } else if let Some((after, taken)) = star {
            star = Some((after, taken + 1));
            (at, seen) = (after, taken + 1);
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(|&c| c == '*')
}

/// Number of pattern characters that match one character of the word; `None` if they do not match it.
fn one_fits(pattern: &[char], c: char) -> Option<usize> {
    match pattern[0] {
        '?' => Some(1),
        '[' => {
            let end = pattern.iter().position(|&c| c == ']')?;
            let set = &pattern[1..end];
            let mut at = 0;
            while at < set.len() {
                if set.get(at + 1) == Some(&'-') && at + 2 < set.len() {
                    if (set[at]..=set[at + 2]).contains(&c) {
                        return Some(end + 1);
                    }
                    at += 3;
                } else {
                    if set[at] == c {
                        return Some(end + 1);
                    }
                    at += 1;
                }
            }
            None
        }
        other => (other == c).then_some(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn patterns_of_paths() {
        for (pattern, path) in [
            ("**/WAL/**", "db/WAL/000001.log"),
            ("**/WAL/**", "/WAL/1"),
            ("**/journal/**", "journal/WiredTigerLog.0000000001"),
            ("db/L[0-3]/*.sst", "/db/L2/17.sst"),
            ("**", "anything/at/all"),
            ("*.log", "x.log"),
            ("**/*.log", "x.log"),
            ("a/**/b", "a/b"),
            ("a?c/*", "abc/"),
            ("**/a*b*c", "q/aXbYbZc"),
        ] {
            assert!(path_fits(pattern, path), "{pattern} {path}");
        }
        for (pattern, path) in [
            ("**/WAL/**", "db/WALL/1"),
            ("*.log", "a/x.log"),
            ("db/L[0-3]/*.sst", "db/L4/17.sst"),
            ("a/b", "a/b/c"),
            ("**/a*b*c", "q/aXbY"),
            ("[", "["),
            ("", "a"),
        ] {
            assert!(!path_fits(pattern, path), "{pattern} {path}");
        }
    }

    #[test]
    fn brackets_hold_ranges_and_single_characters() {
        for (pattern, fits, not) in [
            ("[a-c]", "abc", "`d-AB"),
            ("[ac]", "ac", "b-"),
            ("[a-cx]", "abcx", "dw-"),
            ("[xa-c]", "xabc", "dw-"),
            ("[a-c0-9]", "abc059", "d/:-"),
            ("[a-]", "a-", "b"),
            ("[-a]", "-a", "b"),
            ("[c-a]", "", "abc-"),
        ] {
            let one = |c: char| word_fits(pattern, &c.to_string());
            assert!(fits.chars().all(one), "{pattern} {fits}");
            assert!(!not.chars().any(one), "{pattern} {not}");
        }
        // Matching continues after a bracket, whichever of its characters matched.
        assert!(word_fits("x[ab-d]y*", "xay") && word_fits("x[ab-d]y*", "xcyz") && !word_fits("x[ab-d]y", "xc"));
        assert!(word_fits("*[0-3].sst", "12.sst") && !word_fits("*[0-3].sst", "14.sst"));
    }

    /// The plain definition, which takes exponential time on long inputs.
    fn slow(pattern: &[char], word: &[char]) -> bool {
        match pattern.first() {
            None => word.is_empty(),
            Some('*') => (0..=word.len()).any(|taken| slow(&pattern[1..], &word[taken..])),
            Some(&c) => word.first().is_some_and(|&first| c == '?' || c == first) && slow(&pattern[1..], &word[1..]),
        }
    }

    proptest! {
        #[test]
        fn words_fit_as_defined(pattern in "[ab*?]{0,8}", word in "[ab]{0,8}") {
            let (p, w): (Vec<char>, Vec<char>) = (pattern.chars().collect(), word.chars().collect());
            prop_assert_eq!(word_fits(&pattern, &word), slow(&p, &w));
        }

        #[test]
        fn nothing_panics(pattern in "\\PC{0,40}", path in "\\PC{0,40}") {
            path_fits(&pattern, &path);
        }
    }
}
