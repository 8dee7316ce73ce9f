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
    /// Where, counted in characters from 1.
    pub position: usize,
    /// What is wrong there.
    pub kind: RuleErrorKind,
}

/// What is wrong in a rule.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RuleErrorKind {
    /// Longer than [`RULE_LIMIT_BYTES`].
    #[error("the rule is longer than {RULE_LIMIT_BYTES} bytes")]
    TooLong,
    /// Nested deeper than [`DEPTH_LIMIT`].
    #[error("nested deeper than {DEPTH_LIMIT} levels")]
    TooDeep,
    /// Something else was expected.
    #[error("expected {expected}, found {found}")]
    Expected {
        /// What would have been right.
        expected: &'static str,
        /// What is there.
        found: String,
    },
    /// No such predicate.
    #[error("unknown predicate `{name}`{hint}", hint = Hint(*nearest))]
    UnknownPredicate {
        /// As written.
        name: String,
        /// The known one that looks most like it.
        nearest: Option<&'static str>,
    },
    /// The value does not fit the predicate.
    #[error("`{predicate}` needs {needs}, not `{value}`")]
    BadValue {
        /// Name of the predicate.
        predicate: &'static str,
        /// What it takes.
        needs: &'static str,
        /// As written.
        value: String,
    },
}
