//! Why a generator was refused.

use thiserror::Error;

/// Why the text that names a generator cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum GenerateError {
    /// There is something between the name and the parameters.
    #[error("{generator}: takes only parameters; write {generator}:?KEY=VALUE&... with {known}")]
    Form {
        /// The generator.
        generator: &'static str,
        /// Names of its parameters.
        known: String,
    },
    /// A parameter that the generator does not have.
    #[error("{generator}: has no parameter {key:?}{}; there are {known}",
            nearest.map(|near| format!(", did you mean {near}?")).unwrap_or_default())]
    UnknownKey {
        /// The generator.
        generator: &'static str,
        /// The name that was given.
        key: String,
        /// The most similar known parameter.
        nearest: Option<&'static str>,
        /// All parameters.
        known: String,
    },
    /// A parameter given twice.
    #[error("{generator}: has {key} twice")]
    Twice {
        /// The generator.
        generator: &'static str,
        /// The parameter.
        key: &'static str,
    },
    /// A value that is not allowed.
    #[error("{generator}: {key}={value} is not {wanted}")]
    Value {
        /// The generator.
        generator: &'static str,
        /// The parameter.
        key: &'static str,
        /// The value that was given.
        value: String,
        /// What is allowed.
        wanted: String,
    },
}
