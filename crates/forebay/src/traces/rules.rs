//! Class rules for traces: built-in rules of known systems, a file of `[[class]]` parts, or a pool's configuration.

use anyhow::{Context, Result, bail};
use forebay_daemon::config::{self, Place};
use forebay_daemon::text::read_text;
use forebay_prism::Rule;
use serde::Deserialize;
use std::collections::HashSet;
use std::path::Path;

/// Systems with built-in rules.
const BUILT_IN: [(&str, &str); 5] = [
    ("rocksdb", include_str!("rules/rocksdb.toml")),
    ("mongodb", include_str!("rules/mongodb.toml")),
    ("postgresql", include_str!("rules/postgresql.toml")),
    ("mysql", include_str!("rules/mysql.toml")),
    ("sqlite", include_str!("rules/sqlite.toml")),
];

/// Largest file of rules, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    class: Vec<Class>,
}

/// A class of a configuration; of its policy only the order and the bypass of the fast tier matter here.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Class {
    name: String,
    #[serde(default, rename = "match")]
    rules: Vec<String>,
    #[serde(default = "Class::default_priority")]
    priority: u16,
    #[serde(default)]
    place: Option<Place>,
    #[serde(default, rename = "share")]
    _share: Option<f64>,
    #[serde(default, rename = "read_cache")]
    _read_cache: Option<bool>,
    #[serde(default, rename = "compress")]
    _compress: Option<String>,
}

impl Class {
    fn default_priority() -> u16 {
        100
    }
}

/// Rules with properties of their classes.
#[derive(Debug, Default)]
pub struct Loaded {
    /// (class, rule); the first rule that matches decides.
    pub rules: Vec<(String, Rule)>,
    /// Classes that bypass the fast tier.
    pub bypassed: Vec<String>,
}

/// Loads the rules that `text` names.
///
/// # Errors
/// The system or file does not exist, or a rule cannot be parsed.
pub fn load(text: &str) -> Result<Loaded> {
    let built_in = BUILT_IN.iter().find(|(name, _)| *name == text);
    let content = match built_in {
        Some((_, content)) => (*content).to_owned(),
        None => {
            let known: Vec<&str> = BUILT_IN.iter().map(|(name, _)| *name).collect();
            let about = || format!("--rules {text}: neither a file nor one of {}", known.join(", "));
            read_text(Path::new(text), FILE_BYTES_MAX).with_context(about)?
        }
    };
    let mut classes: Vec<(u16, String, Vec<String>, Option<Place>)> =
        if content.lines().any(|line| line.trim() == "[pool]") {
            let config = config::load(Path::new(text))?;
            config.class.into_iter().map(|class| (class.priority, class.name, class.rules, Some(class.place))).collect()
        } else {
            let file: File = toml::from_str(&content).with_context(|| format!("--rules {text}"))?;
            file.class.into_iter().map(|class| (class.priority, class.name, class.rules, class.place)).collect()
        };
    let mut names = HashSet::new();
    if let Some((_, twice, ..)) = classes.iter().find(|(_, name, ..)| !names.insert(name.as_str())) {
        bail!(
            "--rules {text}: class {twice:?} is there twice: give one of them another name, or put both rules into one `match`"
        );
    }
    classes.sort_by_key(|(priority, ..)| *priority);
    let mut loaded = Loaded::default();
    for (_, class, rules, place) in classes {
        for rule in rules {
            let parsed = Rule::parse(&rule)
                .with_context(|| format!("--rules {text}: class {class:?}, rule {rule:?}"))
                .map_err(config::explain_rule)?;
            loaded.rules.push((class.clone(), parsed));
        }
        if place == Some(Place::Capacity) {
            loaded.bypassed.push(class);
        }
    }
    Ok(loaded)
}

#[cfg(test)]
// In tests, a panic reports the failure.
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Two classes of one name were taken, and `size` gave figures of neither.
    #[test]
    fn regression_a_class_is_named_once() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let class = |place: &str| format!("[[class]]\nname = \"x\"\nplace = \"{place}\"\nmatch = [\"lba<1GiB\"]\n");
        std::fs::write(&file, class("fast") + &class("capacity")).unwrap();
        let error = load(file.path().to_str().unwrap()).unwrap_err().to_string();
        assert!(error.contains("class \"x\" is there twice"), "{error}");
        std::fs::write(&file, class("fast")).unwrap();
        assert_eq!(load(file.path().to_str().unwrap()).unwrap().rules.len(), 1);
    }

    #[test]
    fn built_in_rules_can_be_read() {
        for (name, _) in BUILT_IN {
            assert!(load(name).unwrap().rules.len() >= 2, "{name}");
        }
        assert_eq!(load("rocksdb").unwrap().bypassed, ["L4/L5"]);
        let error = format!("{:#}", load("no such thing").unwrap_err());
        assert!(error.contains("rocksdb") && error.contains("sqlite"), "{error}");
    }
}
