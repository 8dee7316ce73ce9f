//! The drives that come with the crate.

use super::config::{Config, ConfigError};

/// Names and texts of the presets; the comments in each text give the source of every number.
pub const PRESETS: [(&str, &str); 11] = [
    ("p3700", include_str!("../../presets/p3700.toml")),
    ("micron9100", include_str!("../../presets/micron9100.toml")),
    ("p4500", include_str!("../../presets/p4500.toml")),
    ("p4510", include_str!("../../presets/p4510.toml")),
    ("p4610", include_str!("../../presets/p4610.toml")),
    ("p4320", include_str!("../../presets/p4320.toml")),
    ("960evo", include_str!("../../presets/960evo.toml")),
    ("960evo-250", include_str!("../../presets/960evo-250.toml")),
    ("tlc", include_str!("../../presets/tlc.toml")),
    ("qlc", include_str!("../../presets/qlc.toml")),
    ("slc", include_str!("../../presets/slc.toml")),
];

impl Config {
    /// Parses and checks a preset.
    ///
    /// # Errors
    /// [`ConfigError`] where the text is not TOML of this form, or a value is out of range.
    pub fn from_toml(text: &str) -> Result<Self, ConfigError> {
        let config: Self = toml::from_str(text).map_err(|e| ConfigError::Syntax(e.to_string()))?;
        config.validate()?;
        Ok(config)
    }

    /// Returns the preset of this name.
    ///
    /// # Errors
    /// [`ConfigError::UnknownPreset`] where there is none of that name.
    pub fn preset(name: &str) -> Result<Self, ConfigError> {
        let (_, text) = PRESETS
            .iter()
            .find(|(known, _)| *known == name)
            .ok_or_else(|| ConfigError::UnknownPreset(name.to_owned()))?;
        Self::from_toml(text)
    }
}
