//! Violations planted for each rule: it must see them, and nothing where there is none.

use crate::rules::{self, FLOORS};
use crate::{none, planted};

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
    let after_literals =
        "const A: char = '\"'; const B: &[u8] = b\"\\\"\"; fn f<'a>(x: &'a u8) { unsafe {} } const C: char = '\\'';";
    assert_eq!(rules::unsafe_places(&planted("crates/volume/src/map.rs", after_literals)).len(), 1);
}

#[test]
fn forbids_unsafe() {
    assert_eq!(rules::forbids_unsafe(&planted("crates/volume/src/lib.rs", "//! #![forbid(unsafe_code)]\n")).len(), 1);
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
    let volume = |lines: usize| rules::too_long(&planted("crates/volume/src/new.rs", &"\n".repeat(lines))).len();
    assert_eq!((volume(400), volume(401)), (0, 1));
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

#[test]
fn questions_without_answers() {
    for text in [
        "fn is_ready() { notify() }",
        "pub fn may_be_torn(&self, rows: Runs) {}",
        "fn has_room(&mut self, count: impl FnOnce() -> u64) {}",
        "fn was_idle<F: Fn(u64) -> bool>(f: F) {}",
        "fn needs_base<F>(f: F) where F: Fn() -> bool {}",
        "fn can_write(&mut self) -> () {}",
        "trait Place { fn is_at(&mut self, at: [u64; 2]); }",
    ] {
        assert_eq!(rules::questions_without_answers(&planted("crates/volume/src/map.rs", text)).len(), 1, "{text}");
    }
    for text in [
        "fn is_ready() -> bool { true }",
        "fn may_start(&self, list: &[(u64, u64)]) -> Result<(), Error> {}",
        "fn has_room(&mut self, count: impl FnOnce() -> u64) -> Option<(u64, u64)> {}",
        "trait Place { fn can<T: Into<u8>>(&self) -> bool; fn island(&mut self); }",
        "#[cfg(test)]\nmod tests {\n    #[test]\n    fn is_whole() {}\n}\n",
    ] {
        none(rules::questions_without_answers(&planted("crates/volume/src/map.rs", text)));
    }
}
