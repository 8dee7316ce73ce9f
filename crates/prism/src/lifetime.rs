//! How long data will live, according to its writer.

/// Write-lifetime hint, in the numbers of `enum rw_hint` (Linux, `include/linux/rw_hint.h`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Lifetime {
    /// No hint was set.
    #[default]
    NotSet,
    /// The hint says that there is none.
    None,
    /// Short.
    Short,
    /// Medium.
    Medium,
    /// Long.
    Long,
    /// Extreme.
    Extreme,
}

impl Lifetime {
    /// All hints, in the order of their numbers.
    pub const ALL: [Self; 6] = [Self::NotSet, Self::None, Self::Short, Self::Medium, Self::Long, Self::Extreme];

    /// The name of the hint in tables, rules and files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NotSet => "not-set",
            Self::None => "none",
            Self::Short => "short",
            Self::Medium => "medium",
            Self::Long => "long",
            Self::Extreme => "extreme",
        }
    }

    /// The hint with this number in the kernel; `NotSet` for an unknown number.
    #[must_use]
    pub fn from_number(number: u64) -> Self {
        usize::try_from(number).ok().and_then(|number| Self::ALL.get(number)).copied().unwrap_or_default()
    }
}
