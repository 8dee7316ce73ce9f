//! The rules of the house as tests: which room may import which, where `unsafe` may stand, what the pure rooms may not
//! call, how long a file may be, and nothing unfinished. Every rule also meets a planted violation and must see it.
#![forbid(unsafe_code)]
// Here a panic is the finding.
#![allow(clippy::unwrap_used)]

#[path = "house/imports.rs"]
mod imports;
#[path = "house/rules.rs"]
mod rules;
#[path = "house/source.rs"]
mod source;
#[path = "house/tokens.rs"]
mod tokens;

use rules::{FLOORS, PURE_ROOMS, ROOMS_WITH_UNSAFE};
use source::Source;
use std::fs;
use std::path::{Path, PathBuf};

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
    ["crates", "bench", "fuzz", "tests"].into_iter().flat_map(sources).collect()
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

#[test]
fn survey() {
    for room in rooms() {
        let s = products(&room);
        let i = imports::imports(&s);
        println!("##### {room}: {} files {} imports", s.len(), i.len());
        for c in imports::circles(&i) {
            println!("{c}");
        }
        println!("spread: {:#?}", imports::spread_structs(&s));
    }
}

#[test]
fn nothing_is_left_unfinished() {
    none(every_source().iter().flat_map(rules::leftovers).collect());
}

mod the_rules_can_fail {
    use super::*;

    #[test]
    fn floor_order() {
        for (room, line) in [
            ("block", "[dependencies]\nforebay-device = { path = \"../device\" }"),
            ("device", "[dependencies]\nforebay-volume.workspace = true"),
            ("volume", "[dependencies]\nforebay-device.workspace = true # why not"),
            ("volume", "[dependencies.forebay-export]\nworkspace = true"),
            ("prism", "[target.'cfg(unix)'.dependencies]\nforebay-volume = \"1\""),
            ("prism", "[dependencies]\nharmless = { package = \"forebay-volume\", version = \"1\" }"),
            ("prism", "[dependencies.harmless]\npackage = \"forebay-volume\""),
            ("export", "[build-dependencies]\nforebay = \"1\""),
            ("volume", "[dependencies]\nrand = \"0.9\""),
            ("cellar", ""),
        ] {
            assert_eq!(rules::floor_order(room, line).len(), 1, "{room}: {line}");
        }
        none(rules::floor_order(
            "volume",
            "[package]\nname = \"forebay-volume\"\n[dev-dependencies]\nforebay-device = \"1\"\n",
        ));
        none(rules::floor_order("volume", "[dependencies]\nforebay-block.workspace = true\nthiserror = \"2\"\n"));
        // A room cannot be on two floors, and none above itself.
        for (index, (room, below)) in FLOORS.iter().enumerate() {
            for other in *below {
                assert!(FLOORS[..index].iter().any(|(name, _)| name == other), "{room} imports {other} from above");
            }
        }
    }

    #[test]
    fn unsafe_places() {
        let text = "fn f() {\n    unsafe { g() }\n}\n";
        assert_eq!(
            rules::unsafe_places(&planted("crates/volume/src/map.rs", text)),
            ["crates/volume/src/map.rs:2: unsafe"]
        );
        assert_eq!(rules::unsafe_places(&planted("crates/block/src/device.rs", text)).len(), 1);
        assert_eq!(rules::unsafe_places(&planted("crates/forebay/tests/kill.rs", text)).len(), 1);
        assert_eq!(rules::unsafe_places(&planted("crates/trace/src/files/watch.rs", text)).len(), 1);
        for path in [
            "crates/block/src/buf.rs",
            "crates/device/src/a/b.rs",
            "crates/export/src/lib.rs",
            "crates/trace/src/files/kernel.rs",
        ] {
            none(rules::unsafe_places(&planted(path, text)));
        }
        let harmless = "// unsafe\nconst A: &str = \"unsafe\"; /* unsafe /* too */ unsafe */ const B: &str = r#\"\" unsafe\"#;\n#![deny(unsafe_code)]";
        none(rules::unsafe_places(&planted("crates/volume/src/map.rs", harmless)));
        let after_literals = "const A: char = '\"'; const B: &[u8] = b\"\\\"\"; fn f<'a>(x: &'a u8) { unsafe {} } const C: char = '\\'';";
        assert_eq!(rules::unsafe_places(&planted("crates/volume/src/map.rs", after_literals)).len(), 1);
    }

    #[test]
    fn forbids_unsafe() {
        assert_eq!(
            rules::forbids_unsafe(&planted("crates/volume/src/lib.rs", "//! #![forbid(unsafe_code)]\n")).len(),
            1
        );
        assert_eq!(rules::forbids_unsafe(&planted("crates/volume/src/lib.rs", "#![deny(unsafe_code)]")).len(), 1);
        none(rules::forbids_unsafe(&planted("crates/volume/src/lib.rs", "//! Docs.\n#![forbid(unsafe_code)]\n")));
        assert_eq!(rules::denies_unsafe(&planted("crates/trace/src/lib.rs", "// #![deny(unsafe_code)]\n")).len(), 1);
        none(rules::denies_unsafe(&planted("crates/trace/src/lib.rs", "//! Docs.\n#![deny(unsafe_code)]\n")));
    }

    #[test]
    fn impure_calls() {
        for text in [
            "use std::time::Instant;",
            "use std::{fmt, time::{self, Duration}};",
            "use std::fs;",
            "use std::{collections::{BTreeMap, HashMap}, sync::Arc};",
            "use std::collections::HashSet as Ordered;",
            "fn f() { let now = std::time::Instant::now(); }",
            "fn f() { std::thread::yield_now() }",
            "fn f() { ::std::env::var(x) }",
            "fn f() { std :: fs :: read(x) }",
            "use std::*;",
            "use std::collections::*;",
            "fn f() { rand::random() }",
            "fn f(now: SystemTime) {}",
            "#[cfg(not(test))]\nuse std::net::TcpStream;",
            "#[cfg(test)]\nmod tests { use std::fs; }\nuse std::process::Command;",
            "#[cfg(test)]\nmod tests;\nuse std::fs;",
        ] {
            let wrong = rules::impure_calls(&planted("crates/volume/src/map.rs", text));
            assert!(!wrong.is_empty(), "not seen: {text}");
        }
        for text in [
            "use std::collections::{BTreeMap, VecDeque, btree_map::Entry};\nuse std::sync::Arc;",
            "use core::time::Duration;",
            "#[cfg(test)]\nmod tests {\n    use std::fs;\n    fn f() { let a = [1; 2]; std::thread::yield_now(); }\n}\n",
            "#[cfg(all(test, unix))]\nuse std::fs;",
            "/// Like std::fs, but not.\nfn f() -> &'static str { \"std::fs\" }",
            "fn f(time: u64) -> u64 { self::time::thread(time) }",
        ] {
            none(rules::impure_calls(&planted("crates/volume/src/map.rs", text)));
        }
        none(rules::impure_calls(&planted("crates/volume/src/map/tests.rs", "use std::fs;")));
        assert!(!rules::impure_calls(&planted("crates/volume/src/map/testing.rs", "use std::fs;")).is_empty());
    }

    #[test]
    fn test_modules_are_those_declared_for_tests_only() {
        let text = "mod map;\n#[cfg(test)]\nmod oracle;\n#[cfg(test)]\nmod tests { fn f() {} }\npub mod journal;";
        let expected = ["crates/volume/src/oracle.rs", "crates/volume/src/oracle/"];
        assert_eq!(planted("crates/volume/src/lib.rs", text).test_modules(), expected);
        let expected = ["crates/volume/src/engine/oracle.rs", "crates/volume/src/engine/oracle/"];
        assert_eq!(planted("crates/volume/src/engine.rs", text).test_modules(), expected);
    }

    #[test]
    fn too_long() {
        assert_eq!(rules::too_long(&planted("a.rs", &"\n".repeat(rules::LINE_LIMIT + 1))).len(), 1);
        none(rules::too_long(&planted("a.rs", &"\n".repeat(rules::LINE_LIMIT))));
    }

    #[test]
    fn leftovers() {
        for text in [
            "fn f() { todo!() }",
            "fn f() { unimplemented!(\"x\") }",
            "fn f() { dbg!(1); }",
            "// FIXME: later",
            "/* TODO */",
        ] {
            assert_eq!(rules::leftovers(&planted("a.rs", text)).len(), 1, "{text}");
        }
        none(rules::leftovers(&planted("a.rs", "fn todo(dbg: &str) -> bool { dbg == \"todo!() FIXME\" }")));
    }
}
