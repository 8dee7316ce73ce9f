//! The rules of the house. Each takes what it judges as plain text, so that its own test can plant a violation.

use crate::source::{Source, paths, words};
use std::collections::BTreeSet;

/// What each room may import, from the ground up.
pub const FLOORS: [(&str, &[&str]); 17] = [
    ("block", &[]),
    ("model", &["block"]),
    ("proof", &["block"]),
    ("device", &["block", "model", "proof"]),
    ("placement", &[]),
    ("prism", &["block"]),
    ("platform", &[]),
    ("report", &["block"]),
    ("trace", &["block", "prism"]),
    ("bench", &["block"]),
    ("volume", &["block", "placement", "prism"]),
    ("sim", &["block", "model", "prism", "proof", "volume"]),
    ("export", &["block", "volume"]),
    ("daemon", &["block", "device", "placement", "prism", "trace", "volume", "export"]),
    ("harness", &["block", "proof", "device"]),
    ("hostile", &["block", "prism", "trace", "volume", "export"]),
    (
        "forebay",
        &[
            "block",
            "daemon",
            "model",
            "proof",
            "device",
            "placement",
            "prism",
            "trace",
            "bench",
            "volume",
            "sim",
            "export",
            "platform",
            "report",
        ],
    ),
];

/// Rooms in which `unsafe` may stand anywhere; elsewhere only in [`UNSAFE_FILES`].
const UNSAFE_ROOMS: [&str; 2] = ["crates/device/", "crates/export/"];
/// Single files in which `unsafe` may stand.
const UNSAFE_FILES: [&str; 2] = ["crates/block/src/buf.rs", "crates/trace/src/files/kernel.rs"];
/// Rooms whose sources cannot forbid `unsafe` as a whole.
pub const ROOMS_WITH_UNSAFE: [&str; 4] = ["block", "device", "export", "trace"];
/// Those of them that are denied it but for one file.
pub const ROOMS_WITH_ONE_UNSAFE_FILE: [&str; 1] = ["trace"];

/// Rooms that never call the operating system.
pub const PURE_ROOMS: [&str; 6] = ["volume", "placement", "prism", "model", "proof", "sim"];
/// Clocks, threads, files, processes, sockets, and containers whose order is random.
const IMPURE_PATHS: [&str; 10] = [
    "std::time",
    "std::thread",
    "std::fs",
    "std::env",
    "std::net",
    "std::process",
    "std::os",
    "std::collections::HashMap",
    "std::collections::HashSet",
    "std::collections::hash_map",
];
const IMPURE_WORDS: [&str; 4] = ["Instant", "SystemTime", "RandomState", "thread_rng"];
const IMPURE_CRATES: [&str; 18] = [
    "ahash",
    "chrono",
    "fastrand",
    "foldhash",
    "getrandom",
    "hashbrown",
    "io-uring",
    "libc",
    "nix",
    "parking_lot",
    "rand",
    "rand_core",
    "rayon",
    "rustix",
    "time",
    "tokio",
    "uuid",
    "crossbeam",
];

/// Most lines of one file.
pub const LINE_LIMIT: usize = 800;
/// Rooms that hold themselves to fewer.
const LINE_LIMITS: [(&str, usize); 1] = [("crates/volume/", 400)];

/// Most lines of the file at `path`.
pub fn line_limit(path: &str) -> usize {
    LINE_LIMITS.iter().find(|(room, _)| path.starts_with(room)).map_or(LINE_LIMIT, |(_, limit)| *limit)
}

/// One line of a dependency table: its section (`dependencies`, ...) and the package behind it.
#[derive(Debug, PartialEq, Eq)]
pub struct Dependency {
    pub section: String,
    pub package: String,
}

/// The dependencies of a manifest, of every target, in both spellings (`x = ..` in a table, and a table of its own);
/// a renamed one by its `package`.
pub fn dependencies(manifest: &str) -> Vec<Dependency> {
    const SECTIONS: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];
    let mut found: Vec<Dependency> = Vec::new();
    let (mut section, mut table_of_one) = (None, false);
    for line in manifest.lines().map(|line| line.split('#').next().unwrap_or("").trim()) {
        if let Some(header) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            let last = header.rsplit('.').next().unwrap_or(header);
            let before = header.strip_suffix(last).unwrap_or("").trim_end_matches('.').rsplit('.').next().unwrap_or("");
            table_of_one = SECTIONS.contains(&before);
            section = [last, before].into_iter().find(|name| SECTIONS.contains(name)).map(str::to_owned);
            if let (Some(section), true) = (&section, table_of_one) {
                found.push(Dependency { section: section.clone(), package: last.trim_matches('"').to_owned() });
            }
        } else if let (Some(section), Some((key, value))) = (&section, line.split_once('=')) {
            let renamed = |text: &str| text.split('"').nth(1).map(str::to_owned);
            if table_of_one {
                if let (true, Some(name), Some(last)) = (key.trim() == "package", renamed(value), found.last_mut()) {
                    last.package = name;
                }
                continue;
            }
            let name = key.split('.').next().unwrap_or(key).trim().trim_matches('"').to_owned();
            let package = value.split_once("package").and_then(|(_, rest)| renamed(rest)).unwrap_or(name);
            found.push(Dependency { section: section.clone(), package });
        }
    }
    found
}

/// Imports that run up or across the floors. Development dependencies are free.
pub fn floor_order(room: &str, manifest: &str) -> Vec<String> {
    let Some((_, allowed)) = FLOORS.iter().find(|(name, _)| *name == room) else {
        return vec![format!("crates/{room}: no floor is known for this room; give it one in FLOORS")];
    };
    let mut wrong = Vec::new();
    for dependency in dependencies(manifest).iter().filter(|dependency| dependency.section != "dev-dependencies") {
        let package = dependency.package.as_str();
        let other = package.strip_prefix("forebay-").or((package == "forebay").then_some("forebay"));
        if other.is_some_and(|other| !allowed.contains(&other)) {
            wrong.push(format!("crates/{room}/Cargo.toml: imports {package}, which is not below it"));
        }
        if PURE_ROOMS.contains(&room) && IMPURE_CRATES.contains(&package) {
            wrong.push(format!(
                "crates/{room}/Cargo.toml: {package} brings clocks, files, threads or chance into a pure room"
            ));
        }
    }
    wrong
}

/// `unsafe` outside the places that may have it, tests included.
pub fn unsafe_places(source: &Source) -> Vec<String> {
    let allowed =
        UNSAFE_ROOMS.iter().any(|room| source.path.starts_with(room)) || UNSAFE_FILES.contains(&source.path.as_str());
    if allowed {
        return Vec::new();
    }
    words(&source.code)
        .filter(|(_, word)| *word == "unsafe")
        .map(|(at, _)| format!("{}: unsafe", source.place(&source.code, at)))
        .collect()
}

/// A crate root (`lib.rs`, `main.rs`) that does not forbid `unsafe`.
pub fn forbids_unsafe(source: &Source) -> Vec<String> {
    let code: String = source.code.split_whitespace().collect();
    if code.contains("#![forbid(unsafe_code)]") {
        return Vec::new();
    }
    vec![format!("{}: #![forbid(unsafe_code)] is missing", source.path)]
}

/// A crate root that does not deny `unsafe` to what is not allowed it by name.
pub fn denies_unsafe(source: &Source) -> Vec<String> {
    let code: String = source.code.split_whitespace().collect();
    if code.contains("#![deny(unsafe_code)]") {
        return Vec::new();
    }
    vec![format!("{}: #![deny(unsafe_code)] is missing", source.path)]
}

/// Calls of a pure room to the world: clock, thread, file, environment, network, process, chance.
pub fn impure_calls(source: &Source) -> Vec<String> {
    let mut wrong = BTreeSet::new();
    for (at, path) in paths(&source.product) {
        let path = path.trim_start_matches("::");
        let listed = IMPURE_PATHS.iter().any(|bad| path == *bad || path.starts_with(&format!("{bad}::")));
        let glob = matches!(path, "std::*" | "std::collections::*");
        if listed || glob || path.starts_with("rand::") {
            wrong.insert(format!("{}: {path}", source.place(&source.product, at)));
        }
    }
    for (at, word) in words(&source.product).filter(|(_, word)| IMPURE_WORDS.contains(word)) {
        wrong.insert(format!("{}: {word}", source.place(&source.product, at)));
    }
    wrong.into_iter().collect()
}

/// A file that is too long to hold one idea.
pub fn too_long(source: &Source) -> Vec<String> {
    let limit = line_limit(&source.path);
    if source.lines <= limit {
        return Vec::new();
    }
    vec![format!("{}: {} lines, at most {limit}", source.path, source.lines)]
}

/// Macros and marks of unfinished work.
pub fn leftovers(source: &Source) -> Vec<String> {
    let mut wrong = Vec::new();
    for (at, word) in words(&source.code) {
        if matches!(word, "todo" | "unimplemented" | "dbg") && source.code[at + word.len()..].starts_with('!') {
            wrong.push(format!("{}: {word}!", source.place(&source.code, at)));
        }
    }
    for (at, word) in words(&source.comments) {
        if matches!(word, "FIXME" | "TODO" | "XXX") {
            wrong.push(format!("{}: {word}", source.place(&source.comments, at)));
        }
    }
    wrong
}

/// How the names of questions begin.
const QUESTIONS: [&str; 6] = ["is_", "has_", "was_", "may_", "can_", "needs_"];

/// Functions with the name of a question that answer nothing: who reads a call takes it for one that changes nothing.
pub fn questions_without_answers(source: &Source) -> Vec<String> {
    let code = &source.product;
    let words: Vec<(usize, &str)> = words(code).collect();
    let functions = words.windows(2).filter(|pair| pair[0].1 == "fn").map(|pair| pair[1]);
    functions
        .filter(|(_, name)| QUESTIONS.iter().any(|question| name.starts_with(question)))
        .filter(|(at, name)| !answers(&code[at + name.len()..]))
        .map(|(at, name)| format!("{}: {name} returns nothing: name it after what it does", source.place(code, at)))
        .collect()
}

/// Whether the signature of which `rest` begins behind the name says what it returns. Arrows of parameters are no such.
fn answers(rest: &str) -> bool {
    let (mut depth, mut last) = (0usize, ' ');
    for (at, character) in rest.char_indices() {
        match character {
            '(' | '[' | '<' => depth += 1,
            '>' if last == '-' && depth == 0 => return !rest[at + 1..].trim_start().starts_with("()"),
            '>' if last == '-' => {}
            ')' | ']' | '>' => depth = depth.saturating_sub(1),
            '{' | ';' if depth == 0 => return false,
            'w' if depth == 0 && rest[at..].starts_with("where") => return false,
            _ => {}
        }
        last = character;
    }
    false
}
