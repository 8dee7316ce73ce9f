//! Why a rule is refused.

use forebay_block::mistakes::Hint;
use thiserror::Error;

/// Longest rule in bytes.
pub const RULE_LIMIT_BYTES: usize = 1024;

/// Deepest nesting of parentheses and negations.
pub const DEPTH_LIMIT: usize = 32;

/// Why a rule was refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("at character {position}: {kind}")]
pub struct RuleError {
    /// Position in the rule, counted in characters from 1.
    pub position: usize,
    /// The reason.
    pub kind: RuleErrorKind,
}

/// Why a rule is invalid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RuleErrorKind {
    /// The rule is longer than [`RULE_LIMIT_BYTES`].
    #[error("the rule is longer than {RULE_LIMIT_BYTES} bytes")]
    TooLong,
    /// The rule is nested deeper than [`DEPTH_LIMIT`].
    #[error("nested deeper than {DEPTH_LIMIT} levels")]
    TooDeep,
    /// The parser expected something else.
    #[error("expected {expected}, found {found}")]
    Expected {
        /// A description of what was expected.
        expected: &'static str,
        /// The text found there.
        found: String,
    },
    /// There is no such predicate.
    #[error("unknown predicate `{name}`{hint}", hint = Hint(*nearest))]
    UnknownPredicate {
        /// The name as written.
        name: String,
        /// The most similar known predicate; `None` if none is similar.
        nearest: Option<&'static str>,
    },
    /// The value does not fit the predicate.
    #[error("`{predicate}` needs {needs}, not `{value}`")]
    BadValue {
        /// Name of the predicate.
        predicate: &'static str,
        /// The values that the predicate accepts.
        needs: &'static str,
        /// The value as written.
        value: String,
    },
}
