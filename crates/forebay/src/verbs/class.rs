//! `forebay class CONFIG list|add|set|import`.

use crate::output::{self, Format};
use anyhow::{Result, ensure};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use forebay_daemon::config::{self, Compression, PLACES, Place, parse_share};
use forebay_daemon::control::{ClassUpdate, Question, ask};
use forebay_daemon::text::read_text;
use forebay_prism::CompressError;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// What is to be done about classes.
#[derive(Debug, clap::Subcommand)]
pub enum ClassAction {
    /// List policies and rules
    #[command(after_help = "Example:\n  forebay class pool.toml list")]
    List,
    /// Change a class; what is not named stays as it is
    #[command(after_help = "Example:\n  forebay class pool.toml set temp --place stage --match 'disk:scratch'")]
    Set {
        /// Name of the class
        name: String,
        /// Where writes of the class go
        #[arg(long, value_parser = places())]
        place: Option<Place>,
        /// Share of the fast tier that the class may hold: 0.0 to 1.0, or such as 25%
        #[arg(long, value_parser = parse_share)]
        share: Option<f64>,
        /// Priority of its rules; those with smaller numbers are tried first
        #[arg(long, allow_negative_numbers = true)]
        priority: Option<u16>,
        /// Whether data that is read from the capacity tier gets copies on the fast tier
        #[arg(long, value_name = "BOOL")]
        read_cache: Option<bool>,
        /// Compression on the capacity tier from now on: off, lz4, or zstd:LEVEL (1 to 19)
        #[arg(long, value_parser = parse_compress)]
        compress: Option<Compression>,
        /// A rule, in place of the old ones; may be repeated
        #[arg(long = "match", value_name = "RULE")]
        rules: Option<Vec<String>>,
    },
    /// Add a class
    #[command(after_help = "Example:\n  forebay class pool.toml add wal --place fast --match 'path:**/pg_wal/**'")]
    Add {
        /// Name of the class
        name: String,
        /// Where writes of the class go
        #[arg(long, value_parser = places())]
        place: Place,
        /// Share of the fast tier that the class may hold: 0.0 to 1.0, or such as 25%
        #[arg(long, value_parser = parse_share, default_value = "100%")]
        share: f64,
        /// Priority of its rules; those with smaller numbers are tried first
        #[arg(long, default_value_t = 100, allow_negative_numbers = true)]
        priority: u16,
        /// Compression on the capacity tier: off, lz4, or zstd:LEVEL (1 to 19)
        #[arg(long, value_parser = parse_compress, default_value = "off")]
        compress: Compression,
        /// A rule; may be repeated. One that matches suffices; without rules only exports with `class` use the class
        #[arg(long = "match", value_name = "RULE")]
        rules: Vec<String>,
    },
    /// Import an io-class file of Open CAS
    #[command(after_help = "Example:\n  forebay class pool.toml import /etc/opencas/ioclass-config.csv")]
    Import {
        /// The CSV file
        file: PathBuf,
    },
}

/// Names of places, which help and errors list.
fn places() -> impl TypedValueParser<Value = Place> {
    PossibleValuesParser::new(PLACES.map(|(name, _)| name)).try_map(|name| {
        let place = PLACES.into_iter().find(|(known, _)| *known == name);
        place.map(|(_, place)| place).ok_or("no such place")
    })
}

fn parse_compress(text: &str) -> Result<Compression, CompressError> {
    text.parse().map(Compression)
}

/// Shows or changes classes of the running pool.
///
/// # Errors
/// No server answers, or it refuses.
pub fn run(file: &Path, action: ClassAction, format: Format) -> Result<()> {
    let config = config::load_real(file)?;
    let question = match action {
        ClassAction::List => Question::ClassList,
        ClassAction::Set { name, place, share, priority, read_cache, compress, rules } => {
            let change = ClassUpdate { place, share, priority, read_cache, compress, rules };
            let anything =
                [place.is_some(), share.is_some(), priority.is_some(), read_cache.is_some(), compress.is_some()];
            ensure!(
                anything.contains(&true) || change.rules.is_some(),
                "nothing to change: name --place, --share, --priority, --read-cache, --compress or --match"
            );
            Question::ClassSet { name, change }
        }
        ClassAction::Add { name, place, share, priority, compress, rules } => {
            let rest = ClassUpdate {
                share: Some(share),
                priority: Some(priority),
                compress: Some(compress),
                rules: Some(rules),
                ..ClassUpdate::default()
            };
            Question::ClassAdd { name, place, rest }
        }
        ClassAction::Import { file } => {
            let limit = forebay_prism::opencas::FILE_LIMIT_BYTES as u64;
            let text = read_text(&file, limit)?;
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
                text(class, "compress"),
                if class["read_cache"] == true { "yes" } else { "no" }.to_owned(),
                class["priority"].to_string(),
            ]
        })
        .collect();
    output::text(&output::table(
        &["CLASS", "PLACE", "MATCH", "SHARE", "COMPRESS", "READ CACHE", "PRIORITY"],
        3,
        &rows,
    ))?;
    for note in list("notes") {
        let place = note["line"].as_u64().map(|line| format!("line {line}: ")).unwrap_or_default();
        output::text(&format!("note: {place}{}", text(&note, "text")))?;
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
