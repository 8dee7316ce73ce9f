//! Why a round does not go on.

/// Why a round did not go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Halt {
    /// The power failed: as planned.
    PowerOff,
    /// The volume broke a promise.
    Broken(String),
}

/// A promise was broken: which.
pub(super) fn broken(what: &impl ToString) -> Halt {
    Halt::Broken(what.to_string())
}
