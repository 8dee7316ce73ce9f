//! Planted links and pages: the rules of documents see what is wrong, and nothing else.

use crate::documents::{anchors, broken_links, missing_pages, missing_paths};

const PAGE: &str = "# A page\n## `[[evidence]]`: what hosts say\n```\n# no heading\n```\n";

fn read(path: &str) -> Option<String> {
    match path {
        "docs/page.md" => Some(PAGE.to_owned()),
        "README.md" | "docs" => Some(String::new()),
        _ => None,
    }
}

#[test]
fn a_link_that_leads_nowhere_is_found() {
    let text =
        "See [this](page.md), [that](gone.md).\n```\n[code](gone.md)\n```\n`[code](gone.md)` and [up](../gone.md)";
    assert_eq!(
        broken_links("docs/other.md", text, &read),
        ["docs/other.md:1: gone.md: docs/gone.md is not there", "docs/other.md:5: ../gone.md: gone.md is not there"]
    );
}

#[test]
fn a_heading_that_is_not_there_is_found() {
    let text = "[a](page.md#a-page) [b](page.md#evidence-what-hosts-say) [c](page.md#no-heading)";
    assert_eq!(
        broken_links("docs/other.md", text, &read),
        ["docs/other.md:1: page.md#no-heading: docs/page.md has no such heading"]
    );
    assert_eq!(anchors(PAGE).len(), 2);
}

#[test]
fn a_good_link_is_fine() {
    let text = "# Here\n[a](../README.md) [b](#here) [c](https://example.org/x.md) [d](../docs/)";
    assert!(broken_links("docs/other.md", text, &read).is_empty());
}

#[test]
fn a_page_outside_the_book_is_found() {
    let pages = ["SUMMARY.md", "one.md", "two.md"].map(str::to_owned);
    assert_eq!(missing_pages("# Summary\n- [One](one.md)\n", &pages), ["docs/two.md is not in docs/SUMMARY.md"]);
}

#[test]
fn a_path_that_is_not_there_is_found() {
    let files = ["crates/one/src/pool/backend.rs", "crates/one/src/lib.rs", "two/run", "README.md"].map(str::to_owned);
    let text = "`one/pool/backend.rs`, `pool/`, `backend.rs` and `two/run` are there, `memory.limit`, `queue/fua` and `Op::Read` no paths.\n\
        `two/pool/backend.rs`, `backends.rs`, `one/run`, `pools/`";
    assert_eq!(
        missing_paths("A.md", text, &files),
        ["two/pool/backend.rs", "backends.rs", "one/run", "pools/"].map(|path| format!("A.md:2: {path} is not there"))
    );
}
