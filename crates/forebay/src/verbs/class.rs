//! `forebay class CONFIG list|add|set|import`.

use crate::cli::ClassAction;
use crate::config;
use crate::control::{ClassUpdate, Question, ask};
use crate::output::{self, Format};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::path::Path;

/// Shows or changes classes of the running pool.
///
/// # Errors
/// Where no server answers, or it refuses.
pub fn run(file: &Path, action: ClassAction, format: Format) -> Result<()> {
    let config = config::load_real(file)?;
    let question = match action {
        ClassAction::List => Question::ClassList,
        ClassAction::Set { name, place, share, priority, read_cache, rules } => {
            let change = ClassUpdate { place, share, priority, read_cache, rules };
            let anything = place.is_some() || share.is_some() || priority.is_some() || read_cache.is_some();
            ensure!(
                anything || change.rules.is_some(),
                "nothing to change: name --place, --share, --priority, --read-cache or --match"
            );
            Question::ClassSet { name, change }
        }
        ClassAction::Add { name, place, share, priority, rules } => {
            let rest = ClassUpdate {
                share: Some(share),
                priority: Some(priority),
                rules: Some(rules),
                ..ClassUpdate::default()
            };
            Question::ClassAdd { name, place, rest }
        }
        ClassAction::Import { file } => {
            let limit = forebay_prism::opencas::FILE_LIMIT_BYTES as u64;
            let size = std::fs::metadata(&file).with_context(|| format!("cannot read {}", file.display()))?.len();
            ensure!(size <= limit, "{} has {size} bytes; an io-class file has at most {limit}", file.display());
            let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
            Question::ClassImport { text }
        }
    };
    let answer = ask(&config, file, &question)?;
    if format == Format::Json {
        return output::json(answer);
    }
    let list = |key: &str| answer[key].as_array().cloned().unwrap_or_default();
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or("").to_owned();
    let rows: Vec<Vec<String>> = list("classes")
        .iter()
        .map(|class| {
            let rules: Vec<&str> = class["match"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            vec![
                text(class, "name"),
                text(class, "place"),
                rules.join(" or "),
                output::ratio(class["share"].as_f64()),
                class["priority"].to_string(),
            ]
        })
        .collect();
    output::text(&output::table(&["CLASS", "PLACE", "MATCH", "SHARE", "PRIORITY"], 3, &rows))?;
    for note in list("notes") {
        output::text(&format!("note: line {}: {}", note["line"], text(&note, "text")))?;
    }
    for pending in list("pending") {
        output::text(&format!(
            "note: class {}: {} cannot be known now and matches nothing: see `forebay evidence`",
            text(&pending, "class"),
            text(&pending, "predicate")
        ))?;
    }
    Ok(())
}
