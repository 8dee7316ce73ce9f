//! The rule language: which writes an operator's class claims.
//!
//! ```text
//! expression := and ( "|" and )*
//! and        := unary ( "&" unary )*
//! unary      := "!" unary | "(" expression ")" | predicate
//! predicate  := name                          fs.journal, metadata, done
//!             | name ":" value                disk:db, export:0, direction:write, path:**/WAL/**
//!             | name ":" eq|ne|lt|le|gt|ge ":" number         as Open CAS writes it
//!             | name ( "=" | "==" | "!=" | "<" | "<=" | ">" | ">=" ) number
//!             | name ":" number ".." number   half-open range
//! ```
//! `&` binds tighter than `|`. (In Open CAS it is the other way round; [`crate::opencas`] adds the parentheses.)
//! Numbers take the suffixes B, KiB, MiB, GiB, TiB, PiB. A value with blanks or any of `&|()"` is quoted: `"a b"`.
//!
//! Some predicates need a host's help (paths, lifetime hints, processes: [`crate::HostFacts`]). Where it is not there they
//! are *unknown* rather than false: a rule claims a write only when it is true whatever the unknown parts may be, so
//! `!path:x` does not claim the world. [`Rule::pending`] lists them.

mod evaluate;
mod glob;
mod needs;
mod parse;
mod predicates;
mod print;

pub use evaluate::Facts;
pub use needs::Need;
pub use predicates::PREDICATES;

use crate::Lifetime;
use std::fmt;
use thiserror::Error;

/// Longest rule in bytes.
pub const RULE_LIMIT_BYTES: usize = 1024;
/// Deepest nesting of parentheses and negations.
pub const DEPTH_LIMIT: usize = 32;

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// Equal.
    Eq,
    /// Not equal.
    Ne,
    /// Less than.
    Lt,
    /// Less than or equal.
    Le,
    /// Greater than.
    Gt,
    /// Greater than or equal.
    Ge,
}

impl Comparison {
    fn holds(self, left: u64, right: u64) -> bool {
        match self {
            Self::Eq => left == right,
            Self::Ne => left != right,
            Self::Lt => left < right,
            Self::Le => left <= right,
            Self::Gt => left > right,
            Self::Ge => left >= right,
        }
    }
}

/// A number of a block or its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// Address in 512-byte sectors, as in Open CAS.
    Lba,
    /// Address in bytes.
    Offset,
    /// Length of the whole request in bytes.
    RequestSize,
    /// Bytes of the sequential run that the request continues, itself included.
    Sequential,
    /// Size of the file in bytes; the host tells.
    FileSize,
    /// Address within the file in bytes; the host tells.
    FileOffset,
    /// Level of the sorted table in RocksDB's tree; the host tells.
    SstLevel,
    /// Id of the process; the host tells.
    Pid,
    /// The write-lifetime hint by the kernel's number; the host tells.
    Lifetime,
    /// Class by another system's rules; the host tells.
    IoClass,
}

impl Number {
    /// Whether it takes a host's help.
    fn is_hosts(self) -> bool {
        !matches!(self, Self::Lba | Self::Offset | Self::RequestSize | Self::Sequential)
    }
}

/// A bit that the host tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostBit {
    /// `hint.meta`: the file system says it is metadata.
    Meta,
    /// `hint.swap`: swap.
    Swap,
    /// `direct`: past the page cache.
    Direct,
}

/// A name that the host tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostName {
    /// `path`: a pattern of the whole path.
    Path,
    /// `directory`: a directory, itself or any below it.
    Directory,
    /// `ext`, `extension`: what follows the last dot of the file's name, with or without the dot.
    Extension,
    /// `file_name_prefix`: how the file's name begins.
    FilePrefix,
    /// `process`, `process_name`: a pattern of the process's name.
    Process,
    /// `cgroup`: a pattern of the control group's path.
    Cgroup,
}

/// What the contents of a block prove; see [`crate::evidence`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvidenceTest {
    /// `fs.metadata`: metadata of a file system or a partition table, journals excluded.
    Metadata,
    /// `fs.journal`: a file system's journal or log.
    Journal,
    /// `fs.superblock`: a superblock or one of its copies.
    Superblock,
    /// `fs.swap`: swap space.
    Swap,
    /// `fs.xfs`: anything, data included, inside a known XFS.
    Xfs,
    /// `fs.ext4`: the same for ext2, ext3, ext4.
    Ext4,
    /// `fs.btrfs`: the same for btrfs.
    Btrfs,
    /// `metadata`: metadata or journal, as the Open CAS predicate of that name.
    Any,
}

/// One test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Predicate {
    Compare {
        number: Number,
        comparison: Comparison,
        value: u64,
    },
    Range {
        number: Number,
        start: u64,
        end: u64,
    },
    Disk(String),
    ExportIndex(u16),
    ExportName(String),
    Direction(crate::Direction),
    Evidence(EvidenceTest),
    /// Always true; Open CAS stops at it, here the first match stops anyway.
    Done,
    HostBit(HostBit),
    HostName {
        name: HostName,
        pattern: String,
    },
    Lifetime(Lifetime),
    /// Nothing tells it: kept as it was written.
    Pending {
        name: &'static str,
        argument: String,
    },
}

impl Predicate {
    fn is_hosts(&self) -> bool {
        match self {
            Self::Compare { number, .. } | Self::Range { number, .. } => number.is_hosts(),
            Self::HostBit(_) | Self::HostName { .. } | Self::Lifetime(_) | Self::Pending { .. } => true,
            _ => false,
        }
    }
}

/// An expression tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Expression {
    Or(Vec<Expression>),
    And(Vec<Expression>),
    Not(Box<Expression>),
    Test(Predicate),
}

/// A parsed rule. Its `Display` form parses to the same rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    expression: Expression,
}

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
    #[error("unknown predicate `{name}`; the nearest known one is `{nearest}`")]
    UnknownPredicate {
        /// As written.
        name: String,
        /// Closest by edit distance.
        nearest: &'static str,
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

impl Rule {
    /// Parses a rule.
    ///
    /// # Errors
    /// Position and kind of the first mistake. Never panics, whatever the text.
    pub fn parse(text: &str) -> Result<Self, RuleError> {
        parse::parse(text).map(|expression| Self { expression })
    }

    /// Whether the rule surely holds for `facts`.
    #[must_use]
    pub fn matches(&self, facts: &Facts<'_>) -> bool {
        evaluate::evaluate(&self.expression, facts) == Some(true)
    }

    /// Whether the rule holds for `facts`; `None` where that depends on what they do not tell.
    pub(crate) fn holds(&self, facts: &Facts<'_>) -> Option<bool> {
        evaluate::evaluate(&self.expression, facts)
    }

    /// The predicates in it that need a host's help, in order, each once.
    #[must_use]
    pub fn pending(&self) -> Vec<String> {
        let mut found = Vec::new();
        visit(&self.expression, &mut |test| {
            if test.is_hosts()
                && let text = test.to_string()
                && !found.contains(&text)
            {
                found.push(text);
            }
        });
        found
    }

    /// Whether it asks for anything that takes a host's help.
    #[must_use]
    pub fn takes_host_facts(&self) -> bool {
        let mut takes = false;
        visit(&self.expression, &mut |test| takes |= test.is_hosts());
        takes
    }

    /// What its predicates need that not every source tells, with the predicates, each once, in order.
    #[must_use]
    pub fn needs(&self) -> Vec<(Need, String)> {
        let mut found = Vec::new();
        visit(&self.expression, &mut |test| {
            let Some(need) = needs::need(test) else { return };
            let asked = (need, test.to_string());
            if !found.contains(&asked) {
                found.push(asked);
            }
        });
        found
    }

    /// Whether requests of one file, process and hint may get different answers: by address, size, sequence or contents.
    #[must_use]
    pub fn uses_request(&self) -> bool {
        let mut uses = false;
        visit(&self.expression, &mut |test| {
            uses |= match test {
                Predicate::Compare { number, .. } | Predicate::Range { number, .. } => {
                    !matches!(number, Number::Lifetime | Number::IoClass | Number::SstLevel | Number::Pid)
                }
                Predicate::Evidence(_) => true,
                _ => false,
            };
        });
        uses
    }

    /// Whether blocks of one file may get different answers: by their address, their place in the file, or the file system.
    pub(crate) fn uses_place(&self) -> bool {
        let mut uses = false;
        visit(&self.expression, &mut |test| {
            uses |= match test {
                Predicate::Compare { number, .. } | Predicate::Range { number, .. } => {
                    matches!(number, Number::Lba | Number::Offset | Number::FileOffset)
                }
                Predicate::Evidence(_) => true,
                _ => false,
            };
        });
        uses
    }

    /// Whether blocks of one request may get different answers by their address alone.
    pub(crate) fn uses_address(&self) -> bool {
        let mut uses = false;
        visit(&self.expression, &mut |test| {
            let (Predicate::Compare { number, .. } | Predicate::Range { number, .. }) = test else {
                return;
            };
            uses |= matches!(number, Number::Lba | Number::Offset);
        });
        uses
    }
}

fn visit(expression: &Expression, see: &mut impl FnMut(&Predicate)) {
    match expression {
        Expression::Or(parts) | Expression::And(parts) => parts.iter().for_each(|part| visit(part, see)),
        Expression::Not(inner) => visit(inner, see),
        Expression::Test(test) => see(test),
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.expression.fmt(f)
    }
}
