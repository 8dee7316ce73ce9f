//! Explains mistakes in the rules of classes, and settings that have no effect.

use super::model::{Class, Config};
use super::values::{Compression, Place};
use crate::text::chain;
use anyhow::{Error, anyhow};
use forebay_prism::RuleError;
use forebay_prism::rules::{PREDICATES, RuleErrorKind};

/// Explains why a rule, or a class with it, is refused. For an unknown predicate that resembles no known one, the
/// message lists all predicates.
pub fn explain_rule(error: impl Into<Error>) -> Error {
    let error = error.into();
    let kind = error.chain().find_map(|cause| cause.downcast_ref()).map(|RuleError { kind, .. }| kind);
    match kind {
        Some(RuleErrorKind::UnknownPredicate { nearest: None, .. }) => {
            anyhow!("{}; known are {} (docs/classes-and-rules.md)", chain(&error), PREDICATES.join(", "))
        }
        _ => error,
    }
}

impl Config {
    /// Notes on settings of classes that have no effect.
    #[must_use]
    pub fn notes_of_classes(&self) -> Vec<String> {
        let in_vain = |class: &&Class| class.place == Place::Both && class.compress != Compression::default();
        let note = |class: &Class| {
            format!(
                "class {}: compress has no effect with place = \"both\", whose data is stored as it is; use place = \"stage\" or \"capacity\" to have it \
                 compressed, or leave compress out",
                class.name
            )
        };
        self.class.iter().filter(in_vain).map(note).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_prism::ClassTable;
    use std::path::Path;

    fn config(class: &str) -> anyhow::Result<Config> {
        let text = format!(
            "[pool]\nname = \"a\"\n[[fast]]\ntarget = \"ram:?size=64MiB\"\n[[capacity]]\ntarget = \"ram:?size=256MiB\"\n\
             [[disk]]\nname = \"db\"\nsize = \"64MiB\"\n[[class]]\nname = \"c\"\n{class}"
        );
        crate::config::of_text(&text, Path::new("pool.toml"))
    }

    /// Regression: for an unknown predicate that resembles no known one, the message did not list the known ones.
    #[test]
    fn regression_an_unknown_predicate_is_answered_with_those_that_there_are() {
        let said = |rule: &str| chain(&config(&format!("place = \"stage\"\nmatch = [\"{rule}\"]\n")).unwrap_err());
        let none = said("foo:bar");
        assert!(none.contains("unknown predicate `foo`; known are disk, export, "), "{none}");
        let near = said("dsk:bar");
        assert!(near.contains("the nearest known one is `disk`") && !near.contains("known are"), "{near}");
        let other = explain_rule(
            ClassTable::from_configured(&[]).unwrap().set("x", forebay_prism::ClassChange::default()).unwrap_err(),
        );
        assert!(other.to_string().contains("no class named `x`"), "{other}");
    }

    /// Regression: `compress` was accepted without a note for a class whose data is never compressed.
    #[test]
    fn regression_compression_that_has_no_effect_is_noted() {
        let notes = |class: &str| config(class).unwrap().notes_of_classes();
        let noted = notes("place = \"both\"\ncompress = \"zstd:3\"\n");
        assert!(noted.len() == 1 && noted[0].contains("class c: compress has no effect"), "{noted:?}");
        for good in
            ["place = \"both\"\n", "place = \"both\"\ncompress = \"off\"\n", "place = \"stage\"\ncompress = \"lz4\"\n"]
        {
            assert!(notes(good).is_empty(), "{good}");
        }
    }
}
