//! Why a generator was refused.

use thiserror::Error;

/// Why the text that names a generator was not understood.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum GenerateError {
    /// Something stands between the name and the parameters.
    #[error("{generator}: takes only parameters; write {generator}:?KEY=VALUE&... with {known}")]
    Form {
        /// The generator.
        generator: &'static str,
        /// Its parameters.
        known: String,
    },
    /// A parameter that the generator does not have.
    #[error("{generator}: has no parameter {key:?}{}; there are {known}",
            nearest.map(|near| format!(", did you mean {near}?")).unwrap_or_default())]
    UnknownKey {
        /// The generator.
        generator: &'static str,
        /// What was written.
        key: String,
        /// The known one that looks most like it.
        nearest: Option<&'static str>,
        /// All of them.
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
    /// A value that does not fit.
    #[error("{generator}: {key}={value} is not {wanted}")]
    Value {
        /// The generator.
        generator: &'static str,
        /// The parameter.
        key: &'static str,
        /// What was written.
        value: String,
        /// What fits.
        wanted: String,
    },
}
