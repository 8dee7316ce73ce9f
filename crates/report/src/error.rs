//! Why something is no result that can be shown.

/// What is wrong with a file of results; its name stands before each.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// No JSON.
    #[error("{name}: is no JSON: {source}; give what forebay writes with --output json")]
    NotJson {
        /// The file.
        name: String,
        /// Where and why.
        source: serde_json::Error,
    },
    /// More than fits into memory.
    #[error(
        "{name}: has more than {values} values, lists with very many rows already reduced: give it in parts, such as a fleet of traces by directories"
    )]
    TooLarge {
        /// The file.
        name: String,
        /// How many may be.
        values: u64,
    },
    /// No picture of this title.
    #[error("no picture is called {title:?}; there are: {known}")]
    NoPicture {
        /// What was asked for.
        title: String,
        /// What there is.
        known: String,
    },
    /// JSON without our version.
    #[error(
        "{name}: {found}, not a result of forebay's: schema_version is missing; give what forebay writes with --output json"
    )]
    NotOurs {
        /// The file.
        name: String,
        /// What it is, as far as can be seen.
        found: &'static str,
    },
    /// A version that is not known here.
    #[error(
        "{name}: schema_version {version} is not known: this forebay reads schema_version 1; use the forebay that wrote it, or a newer one"
    )]
    Version {
        /// The file.
        name: String,
        /// The version, as it stands there.
        version: String,
    },
    /// Ours, and nothing that has pictures or tables.
    #[error(
        "{name}: is no result that a report shows (its keys: {keys}); bench, check, conformance, analyze, size, simulate, doctor, replay and status write such"
    )]
    NoResult {
        /// The file.
        name: String,
        /// Its first keys.
        keys: String,
    },
    /// A result whose parts are not what they should be.
    #[error("{name}: {what}: {why}; the file is damaged, or was changed")]
    Damaged {
        /// The file.
        name: String,
        /// Path of the part.
        what: String,
        /// What is wrong with it.
        why: &'static str,
    },
}
