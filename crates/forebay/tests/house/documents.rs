//! Documents: a link leads to a file that is there, and to a heading in it; a path that is named is there; the book has every page.

use std::collections::BTreeSet;

/// The links of a document with their lines. What stands in code is none.
pub fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (line, prose) in prose(text) {
        for (at, _) in prose.match_indices("](") {
            let rest = &prose[at + 2..];
            if let Some(end) = rest.find(')') {
                found.push((line, rest[..end].to_owned()));
            }
        }
    }
    found
}

/// The anchors that the headings of a document make, as GitHub and mdBook spell them.
pub fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut is_code = false;
    for line in text.lines() {
        is_code ^= line.starts_with("```");
        let heading = line.trim_start_matches('#');
        if is_code || heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        found.insert(kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect());
    }
    found
}

/// Links of the document at `path` that lead nowhere. `read` gives the text of a file, an empty one of a folder, and nothing
/// where neither is there; paths are from the top of the repository.
pub fn broken_links(path: &str, text: &str, read: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
    let mut wrong = Vec::new();
    for (line, link) in
        links(text).into_iter().filter(|(_, link)| !link.contains("://") && !link.starts_with("mailto:"))
    {
        let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
        let target = if file.is_empty() { path.to_owned() } else { joined(path, file) };
        match if file.is_empty() { Some(text.to_owned()) } else { read(&target) } {
            None => wrong.push(format!("{path}:{line}: {link}: {target} is not there")),
            Some(text) if !anchor.is_empty() && !anchors(&text).contains(anchor) => {
                wrong.push(format!("{path}:{line}: {link}: {target} has no such heading"));
            }
            Some(_) => {}
        }
    }
    wrong
}

/// Paths that the document at `path` names between backticks and that are not there: what ends like a source, or at a slash, or begins with a room or a folder of
/// the top. Any number of the folders before them may be left out, and `crates/ROOM/src/` is `ROOM/`. `files` has all files, from the top.
pub fn missing_paths(path: &str, text: &str, files: &[String]) -> Vec<String> {
    let (mut there, mut tops) = (BTreeSet::new(), BTreeSet::new());
    for file in files {
        let whole: Vec<&str> = file.split('/').collect();
        let short: Vec<&str> = whole.iter().copied().filter(|part| !["crates", "src"].contains(part)).collect();
        for parts in [whole, short] {
            tops.extend(parts.first().filter(|_| parts.len() > 1).copied().map(str::to_owned));
            for end in 1..=parts.len() {
                there.extend((0..end).map(|begin| parts[begin..end].join("/")));
            }
        }
    }
    let is_path = |text: &str| {
        let is_plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c));
        let is_of_top = text.split_once('/').is_some_and(|(first, _)| tops.contains(first));
        is_plain && (text.ends_with(".rs") || text.ends_with('/') || is_of_top)
    };
    let mut missing = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let named = line.split('`').skip(1).step_by(2).filter(|text| is_path(text));
        let gone = named.filter(|text| !there.contains(text.trim_end_matches('/')));
        missing.extend(gone.map(|text| format!("{path}:{}: {text} is not there", index + 1)));
    }
    missing
}

/// Pages that the summary of the book does not name.
pub fn missing_pages(summary: &str, pages: &[String]) -> Vec<String> {
    let named: BTreeSet<String> = links(summary).into_iter().map(|(_, link)| link).collect();
    let missing = pages.iter().filter(|page| *page != "SUMMARY.md" && !named.contains(*page));
    missing.map(|page| format!("docs/{page} is not in docs/SUMMARY.md")).collect()
}

/// Lines with their numbers, without blocks and spans of code.
fn prose(text: &str) -> Vec<(usize, String)> {
    let mut is_code = false;
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            found.push((index + 1, line.split('`').step_by(2).collect::<Vec<_>>().join("``")));
        }
    }
    found
}

/// Where a link of the document at `path` leads.
fn joined(path: &str, link: &str) -> String {
    let mut parts: Vec<&str> = path.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}
