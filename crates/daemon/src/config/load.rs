//! Reads the configuration file. An error names the line, and for an unknown key the nearest known one.

use super::model::Config;
use crate::text::read_text;
use anyhow::{Context, Result, anyhow, bail};
use forebay_block::mistakes::{Mistake, place, unknown_of};
use std::path::Path;

/// Longest configuration file that is accepted, in bytes.
const FILE_MAX_BYTES: u64 = 1 << 20;

/// Reads and checks a configuration.
///
/// # Errors
/// The first mistake, with path and line.
pub fn load(path: &Path) -> Result<Config> {
    of_text(&read(path)?, path)
}

/// Reads the text of a configuration.
///
/// # Errors
/// The file cannot be read, or is longer than 1 MiB.
pub fn read(path: &Path) -> Result<String> {
    std::fs::metadata(path).with_context(|| {
        format!("cannot read the configuration {}; the guide docs/configuration.md shows one", path.display())
    })?;
    read_text(path, FILE_MAX_BYTES)
}

/// Parses and checks configuration text that was read from `path`.
///
/// # Errors
/// The first mistake, with path and line.
pub fn of_text(text: &str, path: &Path) -> Result<Config> {
    let config = parse(text, path)?;
    config.check().with_context(|| format!("in {}", path.display()))?;
    Ok(config)
}

/// Reads and checks the configuration of a pool in real time: everything but measurement needs one.
///
/// # Errors
/// The first mistake, with path and line; or a tier is a model in virtual time.
pub fn load_real(path: &Path) -> Result<Config> {
    let config = load(path)?;
    if let Some(target) = config.modelled() {
        bail!(
            "tier {target} in {0} is a model in virtual time: it lives only inside a measurement, e.g. `forebay bench \
             --target pool:{0}`. For a pool that is served write emulated:NAME?size=SIZE&store=ram or store=/PATH",
            path.display()
        );
    }
    Ok(config)
}

fn parse(text: &str, path: &Path) -> Result<Config> {
    toml::from_str(text).map_err(|error: toml::de::Error| {
        let place = place(&path.display().to_string(), text, error.span());
        match Mistake::of(error.message()) {
            Mistake::Unknown { what, word, known } => {
                anyhow!("{place}: {}", unknown_of(what, &word, &known))
            }
            Mistake::Other(what) => anyhow!("{place}: {what}"),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        format!("{:#}", parse(text, Path::new("x.toml")).unwrap_err())
    }

    #[test]
    fn unknown_keys_name_line_and_nearest_key() {
        let message = error("[pool]\nname = \"a\"\novercomit = true\n");
        assert!(message.starts_with("x.toml:3:1: unknown key `overcomit`"), "{message}");
        assert!(message.contains("nearest known one is `overcommit`"), "{message}");
        let message = error("[pool]\nname = \"a\"\n[[fats]]\ntarget = \"/x\"\n");
        assert!(message.contains("x.toml:3:") && message.contains("is `fast`"), "{message}");
        let message = error("[pool]\nname = \"a\"\n[[class]]\nname = \"c\"\nplace = \"fats\"\n");
        assert!(message.contains("x.toml:5:") && message.contains("is `fast`"), "{message}");
    }

    #[test]
    fn values_are_checked_where_they_stand() {
        let message = error("[pool]\nname = \"a\"\n[[disk]]\nname = \"d\"\nsize = \"64 bananas\"\n");
        assert!(message.contains("x.toml:5:8") && message.contains("is not a size"), "{message}");
        let message = error("[pool]\nname = \"a\"\n[[fast]]\ntarget = \"rma:?size=1GiB\"\n");
        assert!(message.contains("x.toml:4:10") && message.contains("unknown kind"), "{message}");
        let message = error("[pool\n");
        assert!(message.starts_with("x.toml:1:"), "{message}");
    }
}
