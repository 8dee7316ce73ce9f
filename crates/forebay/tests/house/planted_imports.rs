//! Crates planted for the rules of imports.

use crate::imports::{circles, imports, spread_structs};
use crate::planted;
use crate::source::Source;

fn crate_of(files: &[(&str, &str)]) -> Vec<Source> {
    files.iter().map(|(name, text)| planted(&format!("crates/x/src/{name}"), text)).collect()
}

/// The imports as `from > to`, each once.
fn arrows(files: &[(&str, &str)]) -> Vec<String> {
    let short = |path: &str| path.trim_start_matches("crates/x/src/").to_owned();
    let mut arrows: Vec<String> = imports(&crate_of(files))
        .iter()
        .map(|import| format!("{} > {}", short(&import.from), short(&import.to)))
        .collect();
    arrows.dedup();
    arrows
}

#[test]
fn imports_are_seen_however_they_are_written() {
    for text in [
        "use crate::a::b::B;",
        "use crate::{c::C, a::{b::{self, B as Other}}};",
        "fn f() { crate::a::b::b() }",
        "fn f() -> crate :: a :: b :: B { g() }",
        "use crate::a; fn f() { a::b::b() }",
        "use crate::a::b as other; fn f() { other::b() }",
        "fn f() { use super::a::b::B; }",
        "fn f() { self::super::a::b::b() }",
        "mod inner { use super::super::a::b::B; }",
        "use crate::a::b::*; fn f(x: B) {}",
        "use crate::a::b::B::*;",
        "pub use crate::a::b::B; fn f(x: B) {}",
        "pub(crate) use crate::a::b::B; fn f(x: Vec<B>) {}",
        "impl crate::a::b::T for X {}",
        "fn f() { <X as crate::a::b::T>::t() }",
        // A re-export is followed to the file that defines the item.
        "use crate::a::B;",
        "use crate::B;",
        "use crate::a::Renamed;",
    ] {
        let files = [
            ("lib.rs", "mod a;\nmod c;\nmod d;\npub use a::B;"),
            ("a/mod.rs", "mod b;\npub use b::{B, B as Renamed};"),
            ("a/b.rs", "pub enum B { One }\npub fn b() {}\npub trait T {}"),
            ("c.rs", "pub struct C;"),
            ("d.rs", text),
        ];
        assert!(arrows(&files).contains(&"d.rs > a/b.rs".to_owned()), "{text}: {:?}", arrows(&files));
        assert!(!arrows(&files).contains(&"d.rs > a/mod.rs".to_owned()), "{text}: {:?}", arrows(&files));
    }
}

#[test]
fn what_is_no_import_is_left_alone() {
    for text in [
        "// use crate::a::b::B;\nconst A: &str = \"crate::a::b::B\";",
        "#[cfg(test)]\nmod tests { use crate::a::b::B; }",
        "use crate::a;",
        "use crate::a::{self};",
        "pub(in crate::a) fn f() {}",
        "pub use crate::a::b::B;",
        "pub use crate::a::b::{B, b};\nfn f(x: &X) { x.b() }",
        "use other::a::b::B;",
        "use ::a::b::B;",
        "fn f(b: u8) { b::<u8>() }",
    ] {
        let files = [
            ("lib.rs", "mod a;\nmod d;"),
            ("a/mod.rs", "pub mod b;"),
            ("a/b.rs", "pub struct B;\npub fn b() {}"),
            ("d.rs", text),
        ];
        assert_eq!(arrows(&files), [""; 0], "{text}");
    }
}

#[test]
fn circles_are_found() {
    let parent = "mod a;\nmod b;\nmod c;\npub use a::A;\npub struct Root;";
    // A parent that names its children and is used by them is no circle; one that uses them too is.
    let free =
        [("lib.rs", parent), ("a.rs", "use super::Root;\nuse crate::b::B;\npub struct A;"), ("b.rs", "pub struct B;")];
    assert!(circles(&imports(&crate_of(&free))).is_empty());
    let used = format!("{parent}\nfn f(a: A) {{}}");
    let found = circles(&imports(&crate_of(&[("lib.rs", &used), free[1], free[2]])));
    assert_eq!(found.iter().map(|circle| circle.files).collect::<Vec<_>>(), [2]);
    assert!(found[0].text.contains("crates/x/src/a.rs:1 needs crates/x/src/lib.rs (super::Root)"), "{}", found[0].text);
    // By way of a third, and a fourth that only leads there.
    let long = [
        ("lib.rs", "mod a;\nmod b;\nmod c;\nmod d;"),
        ("a.rs", "pub fn a() { crate::b::b() }"),
        ("b.rs", "use crate::c::C;\npub fn b() {}"),
        ("c.rs", "pub struct C;\nimpl C { fn new() { super::a::a() } }"),
        ("d.rs", "use crate::a::a;"),
    ];
    let found = circles(&imports(&crate_of(&long)));
    assert_eq!(found.iter().map(|circle| circle.files).collect::<Vec<_>>(), [3]);
    assert!(!found[0].text.contains("d.rs"));
    // Two circles are two.
    let two = [
        ("lib.rs", "mod a;\nmod b;\nmod c;\nmod d;"),
        ("a.rs", "use crate::b::B;\npub struct A;"),
        ("b.rs", "use crate::a::A;\nuse crate::c::C;\npub struct B;"),
        ("c.rs", "use crate::d::D;\npub struct C;"),
        ("d.rs", "use crate::c::C;\npub struct D;"),
    ];
    assert_eq!(circles(&imports(&crate_of(&two))).iter().map(|circle| circle.files).collect::<Vec<_>>(), [2, 2]);
}

#[test]
fn spread_methods_are_found() {
    let of = |other: &str| {
        let files = [
            ("lib.rs", "mod a;\nmod b;\npub use a::Wide;"),
            (
                "a.rs",
                "pub struct Wide<T>(T);\nimpl<T: Fn() -> u8> Wide<T> { fn a(&self) {} }\nstruct Own;\nimpl Own {}\nimpl Own {}",
            ),
            ("b.rs", other),
        ];
        spread_structs(&crate_of(&files)).into_keys().collect::<Vec<_>>()
    };
    for text in [
        "use crate::Wide;\nimpl<T> Wide<T> { fn b(&self) {} }",
        "impl super::Wide<u8> { fn b(&self) {} }",
        "use super::a::Wide as Other;\n#[allow(x)]\nimpl<T> Other<T> where T: Copy { fn b(&self) {} }",
    ] {
        assert_eq!(of(text), ["crates/x/src/a.rs Wide"], "{text}");
    }
    for text in [
        "use crate::Wide;\nimpl<T> Drop for Wide<T> { fn drop(&mut self) {} }",
        "use crate::Wide;\nimpl<T> From<Wide<T>> for X { }\nfn f(x: impl Fn(Wide<u8>)) -> impl Copy { 1 }",
        "struct Wide;\nimpl Wide {}",
        "#[cfg(test)]\nimpl super::Wide<u8> { fn b(&self) {} }",
    ] {
        assert_eq!(of(text), [""; 0], "{text}");
    }
}
