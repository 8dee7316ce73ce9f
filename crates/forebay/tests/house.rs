//! The rules of the house as tests: which room may import which, where `unsafe` may stand, what the pure rooms may not
//! call, how long a file may be, no circles of imports, methods of a struct in one file, names of questions only where there is an
//! answer, the words, links and paths of documents, and nothing unfinished.
//! What is not mended yet is counted in `left.rs` and may only become less. Every rule also meets a planted violation and must see it.
#![forbid(unsafe_code)]
// In tests, a panic reports the failure.
#![allow(clippy::unwrap_used)]

#[path = "house/documents.rs"]
mod documents;
#[path = "house/imports.rs"]
mod imports;
#[path = "house/left.rs"]
mod left;
#[path = "house/rules.rs"]
mod rules;
#[path = "house/source.rs"]
mod source;
#[path = "house/planted_documents.rs"]
mod the_rule_of_documents_can_fail;
#[path = "house/planted_imports.rs"]
mod the_rule_of_imports_can_fail;
#[path = "house/planted_words.rs"]
mod the_rule_of_words_can_fail;
#[path = "house/planted.rs"]
mod the_rules_can_fail;
#[path = "house/tokens.rs"]
mod tokens;
#[path = "house/word_list.rs"]
mod word_list;

use left::{CIRCLES_LEFT, SPREAD_LEFT, WORDS_LEFT};
use rules::{FLOORS, PURE_ROOMS, ROOMS_WITH_UNSAFE};
use source::Source;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use word_list::Finding;

/// Documents outside `docs`.
const DOCUMENTS: [&str; 6] =
    ["ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "README.md", "bench/README.md", "python/README.md"];

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// All `.rs` files of the repository below `folder`, without what builds leave behind.
fn sources(folder: &str) -> Vec<Source> {
    let mut found = Vec::new();
    let mut waiting = vec![top().join(folder)];
    while let Some(folder) = waiting.pop() {
        let Ok(entries) = fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries {
            let path = entry.unwrap().path();
            if path.is_dir() {
                if !path.ends_with("target") {
                    waiting.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(top()).unwrap().to_str().unwrap().to_owned();
                found.push(Source::new(&name, &fs::read_to_string(&path).unwrap()));
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

/// Sources of our own anywhere in the repository.
fn every_source() -> Vec<Source> {
    ["crates", "bench", "fuzz", "python", "tests"].into_iter().flat_map(sources).collect()
}

/// Sources of a room without those that are modules of tests.
fn products(room: &str) -> Vec<Source> {
    let mut sources = sources(&format!("crates/{room}/src"));
    let tests: Vec<String> = sources.iter().flat_map(Source::test_modules).collect();
    sources.retain(|source| !tests.iter().any(|test| source.path.starts_with(test.as_str())));
    sources
}

fn rooms() -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(top().join("crates"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| top().join("crates").join(name).join("Cargo.toml").exists())
        .collect();
    names.sort();
    names
}

fn none(wrong: Vec<String>) {
    assert!(wrong.is_empty(), "\n  {}\n", wrong.join("\n  "));
}

fn planted(path: &str, text: &str) -> Source {
    Source::new(path, text)
}

#[test]
fn imports_run_one_way() {
    let rooms = rooms();
    for (room, _) in FLOORS {
        assert!(rooms.iter().any(|name| name == room), "crates/{room} is gone: nothing was checked");
    }
    none(rooms.iter().flat_map(|room| rules::floor_order(room, &manifest(room))).collect());
}

fn manifest(room: &str) -> String {
    fs::read_to_string(top().join("crates").join(room).join("Cargo.toml")).unwrap()
}

#[test]
fn unsafe_stands_only_where_it_may() {
    none(every_source().iter().flat_map(rules::unsafe_places).collect());
    for room in rooms().iter().filter(|room| !ROOMS_WITH_UNSAFE.contains(&room.as_str())) {
        let roots: Vec<Source> = sources(&format!("crates/{room}/src"))
            .into_iter()
            .filter(|source| {
                ["lib.rs", "main.rs"].iter().any(|root| source.path == format!("crates/{room}/src/{root}"))
            })
            .collect();
        assert!(!roots.is_empty(), "crates/{room} has no root: nothing was checked");
        none(roots.iter().flat_map(rules::forbids_unsafe).collect());
    }
    for room in rules::ROOMS_WITH_ONE_UNSAFE_FILE {
        let root = format!("crates/{room}/src/lib.rs");
        let roots: Vec<Source> =
            sources(&format!("crates/{room}/src")).into_iter().filter(|source| source.path == root).collect();
        assert_eq!(roots.len(), 1, "{root} is gone: nothing was checked");
        none(roots.iter().flat_map(rules::denies_unsafe).collect());
    }
}

#[test]
fn pure_rooms_call_nothing_of_the_world() {
    for room in PURE_ROOMS {
        let sources = products(room);
        let words: usize = sources.iter().map(|source| source::words(&source.product).count()).sum();
        assert!(words > 100, "crates/{room}: hardly any code was seen ({words} words): nothing was checked");
        none(sources.iter().flat_map(rules::impure_calls).collect());
    }
}

#[test]
fn no_file_is_too_long() {
    none(every_source().iter().flat_map(rules::too_long).collect());
}

/// Fails where something listed as left was mended: what was won stays won.
fn still_left(what: &str, is_left: bool) {
    assert!(is_left, "{what}: mended; take it out of tests/house/left.rs");
}

/// Adds to `wrong` where `left` counts more than was `found`.
fn shrunk(wrong: &mut Vec<String>, what: &str, found: usize, left: usize) {
    if found < left {
        wrong.push(format!("{what}: {found}; lower the {left} of tests/house/left.rs"));
    }
}

#[test]
fn imports_form_no_circle() {
    let mut wrong = Vec::new();
    for room in rooms() {
        let sources = products(&room);
        let imports = imports::imports(&sources);
        assert!(
            imports.len() > 3 * sources.len() || sources.len() < 16,
            "{room}: {} imports: nothing was checked",
            imports.len()
        );
        let circles = imports::circles(&imports);
        let files: usize = circles.iter().map(|circle| circle.files).sum();
        let left = CIRCLES_LEFT.iter().find(|(name, _)| *name == room).map_or(0, |(_, files)| *files);
        if files > left {
            wrong.push(format!("crates/{room}: {files} files in circles, {left} are left to be mended"));
            wrong.extend(circles.into_iter().map(|circle| circle.text));
        }
        shrunk(&mut wrong, &format!("crates/{room}: files in circles"), files, left);
    }
    none(wrong);
}

#[test]
fn a_struct_has_its_methods_in_one_file() {
    let mut wrong = Vec::new();
    let mut seen = BTreeSet::new();
    for room in rooms() {
        for (place, files) in imports::spread_structs(&products(&room)) {
            let name = place.rsplit(' ').next().unwrap_or(&place).to_owned();
            if SPREAD_LEFT.contains(&(&room, &name)) {
                seen.insert((room.clone(), name));
            } else {
                let files: Vec<String> = files.into_iter().collect();
                wrong.push(format!("{place}: methods in {} files: {}", files.len(), files.join(", ")));
            }
        }
    }
    none(wrong);
    for (room, name) in SPREAD_LEFT {
        still_left(&format!("methods of {name} of crates/{room}"), seen.contains(&(room.to_owned(), name.to_owned())));
    }
}

/// Names of the pages in `docs`.
fn pages() -> Vec<String> {
    let entries = fs::read_dir(top().join("docs")).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| name.ends_with(".md"));
    names.sort();
    assert!(!names.is_empty(), "docs has no documents: nothing was checked");
    names
}

/// The text of a file by its path from the top.
fn text(name: &str) -> String {
    fs::read_to_string(top().join(name)).unwrap()
}

/// What the words of a room are looked for in, by the room's name; beside the crates `docs`, and `rest` for what lies in
/// no crate.
fn words_of(room: &str) -> Vec<Finding> {
    let sources = match room {
        "docs" => {
            let mut names: Vec<String> = pages().into_iter().map(|page| format!("docs/{page}")).collect();
            names.extend(["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(str::to_owned));
            names.sort();
            return names.iter().flat_map(|name| word_list::in_document(name, &text(name))).collect();
        }
        "rest" => ["bench", "fuzz", "python", "tests"].into_iter().flat_map(sources).collect(),
        room => sources(&format!("crates/{room}")),
    };
    assert!(!sources.is_empty(), "{room} has no sources: nothing was checked");
    sources.iter().flat_map(word_list::in_source).collect()
}

#[test]
fn the_words_are_those_of_the_house() {
    let mut wrong = Vec::new();
    for room in rooms().iter().map(String::as_str).chain(["docs", "rest"]) {
        let found = words_of(room);
        let left = WORDS_LEFT.iter().find(|(name, _)| *name == room).map_or(0, |(_, words)| *words);
        if found.len() > left {
            wrong.push(format!("{room}: {} words that the house does not use, {left} are left", found.len()));
            wrong.extend(found.iter().map(|f| format!("  {}: {} (say: {})", f.place, f.word, f.say)));
        }
        shrunk(&mut wrong, &format!("{room}: words that the house does not use"), found.len(), left);
    }
    none(wrong);
}

#[test]
fn links_of_documents_lead_somewhere() {
    let names = pages().into_iter().map(|page| format!("docs/{page}")).chain(DOCUMENTS.map(str::to_owned));
    let read = |path: &str| {
        let path = top().join(path);
        if path.is_dir() { Some(String::new()) } else { fs::read_to_string(path).ok() }
    };
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for name in names {
        let text = text(&name);
        seen += documents::links(&text).len();
        wrong.extend(documents::broken_links(&name, &text, &read));
    }
    assert!(seen > 50, "hardly any link was seen ({seen}): nothing was checked");
    none(wrong);
}

/// All files, by their paths from the top, without what is built.
fn files() -> Vec<String> {
    let (mut found, mut waiting) = (Vec::new(), vec![top()]);
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(top()).unwrap().to_str().unwrap().to_owned();
            match path.is_dir() {
                true if path.ends_with("target") || name.starts_with('.') => {}
                true => waiting.push(path),
                false => found.push(name),
            }
        }
    }
    found
}

#[test]
fn paths_that_the_architecture_names_are_there() {
    none(documents::missing_paths("ARCHITECTURE.md", &text("ARCHITECTURE.md"), &files()));
}

#[test]
fn the_book_has_every_page() {
    none(documents::missing_pages(&text("docs/SUMMARY.md"), &pages()));
}

#[test]
fn questions_have_answers() {
    none(rooms().iter().flat_map(|room| products(room)).flat_map(|s| rules::questions_without_answers(&s)).collect());
}

#[test]
fn nothing_is_left_unfinished() {
    none(every_source().iter().flat_map(rules::leftovers).collect());
}
