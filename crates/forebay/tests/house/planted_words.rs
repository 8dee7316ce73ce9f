//! Words planted for the rule of words.

use crate::planted;
use crate::word_list::{WORDS, in_document, in_source};

fn found(text: &str) -> Vec<&'static str> {
    in_source(&planted("a.rs", text)).iter().map(|finding| finding.word).collect()
}

#[test]
fn listed_words_are_seen() {
    for (word, _) in WORDS {
        let capitals: String = word.split(' ').map(|part| part[..1].to_uppercase() + &part[1..]).collect();
        for text in [
            format!("/// As the {word} say.\nfn f() {{}}"),
            format!("// {capitals}\n"),
            format!("let a_{} = 1;", word.replace(' ', "_")),
            format!("const A_{}: u8 = 1;", word.replace(' ', "_").to_uppercase()),
            format!("struct {capitals}Of;"),
            format!("json!({{ \"a_{}\": 1 }})", word.replace(' ', "_")),
        ] {
            assert!(found(&text).contains(&word), "{text}");
        }
        assert!(in_document("a.md", &format!("# The {word}\n")).iter().any(|finding| finding.word == word), "{word}");
    }
    // A phrase over the end of a line.
    assert_eq!(found("//! Requests under\n//! way.\n"), ["under way"]);
    let findings = in_source(&planted("a.rs", "// Good.\nfn f(told: u8) {}"));
    assert_eq!(findings[0].place, "a.rs:2");
}

#[test]
fn other_words_are_not() {
    for text in [
        "// Of course; bookseller; turns into; toldi; remarkable.",
        "const A: &str = \"told, remark\";",
        "fn turns(of: u8) {} fn hand(over: u8) {}",
        "struct Recourse; fn under_ways() {}",
    ] {
        assert_eq!(found(text), [""; 0], "{text}");
    }
}
