//! Explains mistakes in the rules of classes, and settings that have no effect.

use crate::text::chain;
use anyhow::{Error, anyhow};
use forebay_prism::rules::{PREDICATES, Present, RuleErrorKind};
use forebay_prism::{ClassSpec, ClassTable, Compress, Place, RuleError};

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

/// Notes on settings of classes that have no effect, and on parts of rules that hold for no request.
#[must_use]
pub fn notes_of_classes(table: &ClassTable, present: Present<'_>) -> Vec<String> {
    let in_vain = |class: &&ClassSpec| class.place == Place::Both && class.compress != Compress::Off;
    let note = |class: &ClassSpec| {
        format!(
            "class {}: compress has no effect with place = \"both\", whose data is stored as it is; use place = \"stage\" or \"capacity\" to have it \
             compressed, or leave compress out",
            class.name
        )
    };
    let mut notes: Vec<String> = table.classes().iter().filter(in_vain).map(note).collect();
    for (id, rule) in table.rules() {
        let class = table.get(*id).map_or("", |class| class.name.as_str());
        for (predicate, why) in rule.in_vain(present) {
            notes.push(format!("class {class}: {predicate:?} matches nothing: {why}"));
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use std::path::Path;

    fn config(class: &str) -> anyhow::Result<Config> {
        let text = format!(
            "[pool]\nname = \"a\"\n[[fast]]\ntarget = \"ram:?size=64MiB\"\n[[capacity]]\ntarget = \"ram:?size=256MiB\"\n\
             [[disk]]\nname = \"db\"\nsize = \"64MiB\"\n[[class]]\nname = \"c\"\n{class}"
        );
        crate::config::of_text(&text, Path::new("pool.toml"))
    }

    fn notes(config: &Config) -> Vec<String> {
        let table = ClassTable::from_configured(&config.class_specs()).unwrap();
        notes_of_classes(&table, Present { disks: &["db"], exports: &[(0, "db")] })
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
        let notes = |class: &str| notes(&config(class).unwrap());
        let noted = notes("place = \"both\"\ncompress = \"zstd:3\"\n");
        assert!(noted.len() == 1 && noted[0].contains("class c: compress has no effect"), "{noted:?}");
        for good in
            ["place = \"both\"\n", "place = \"both\"\ncompress = \"off\"\n", "place = \"stage\"\ncompress = \"lz4\"\n"]
        {
            assert!(notes(good).is_empty(), "{good}");
        }
    }

    /// Regression: rules of disks and exports that are not there, and of empty ranges, were accepted without a note.
    #[test]
    fn regression_rules_that_hold_for_no_request_are_noted() {
        let of = |rule: &str| notes(&config(&format!("place = \"stage\"\nmatch = [\"{rule}\"]\n")).unwrap());
        for (rule, why) in [
            ("disk:nosuch", "no such disk"),
            ("disk:db & export:web", "no such export"),
            ("export:7", "no export of this index"),
            ("offset:4KiB..4KiB", "the range is empty"),
            ("request_size<0", "below zero"),
        ] {
            let noted = of(rule);
            assert!(noted.len() == 1 && noted[0].contains("class c: ") && noted[0].contains(why), "{rule}: {noted:?}");
        }
        for good in ["disk:db", "export:0", "export:db & offset:0..4KiB", "request_size<1"] {
            assert!(of(good).is_empty(), "{good}");
        }
    }
}
