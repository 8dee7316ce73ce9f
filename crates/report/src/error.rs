//! Errors of results that cannot be shown.

/// A fault of a file of results; each message begins with the file's name.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The file is not JSON.
    #[error(
        "{name}: is no JSON: {source}; give what forebay writes with --output json, one result in each file (`record --live` and `top` write a line each time: no picture shows these)"
    )]
    NotJson {
        /// The file.
        name: String,
        /// Position and cause.
        source: serde_json::Error,
    },
    /// The result does not fit into the memory limit.
    #[error(
        "{name}: has more than {values} values, lists with very many rows already reduced: give it in parts, such as a fleet of traces by directories"
    )]
    TooLarge {
        /// The file.
        name: String,
        /// Maximum number of values.
        values: u64,
    },
    /// No picture has this title.
    #[error("no picture is called {title:?}; there are: {known}")]
    NoPicture {
        /// The title asked for.
        title: String,
        /// Titles that exist.
        known: String,
    },
    /// JSON without `schema_version`.
    #[error(
        "{name}: {found}, not a result of forebay's: schema_version is missing; give what forebay writes with --output json"
    )]
    NotOurs {
        /// The file.
        name: String,
        /// What the file seems to be.
        found: &'static str,
    },
    /// The schema version is not supported.
    #[error(
        "{name}: schema_version {version} is not known: this forebay reads schema_version 1; use the forebay that wrote it, or a newer one"
    )]
    Version {
        /// The file.
        name: String,
        /// The version in the file.
        version: String,
    },
    /// A result of forebay that has no pictures or tables.
    #[error(
        "{name}: is no result that a report shows (its keys: {keys}); bench, check, conformance, analyze, size, simulate, doctor, replay and status write such"
    )]
    NoResult {
        /// The file.
        name: String,
        /// The first keys of the file.
        keys: String,
    },
    /// A result with parts of the wrong form.
    #[error("{name}: {what}: {why}; the file is damaged, or was changed")]
    Damaged {
        /// The file.
        name: String,
        /// Path of the faulty part.
        what: String,
        /// The fault.
        why: &'static str,
    },
}
