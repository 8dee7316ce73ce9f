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
//! Some predicates need facts from the host (paths, lifetime hints, processes: [`crate::HostFacts`]). Without these
//! facts they are *unknown* rather than false: a rule claims a write only if it is true for every value of the
//! unknown parts, so that `!path:x` does not claim everything. [`Rule::pending`] lists them.

mod error;
mod evaluate;
mod expression;
mod facts;
mod glob;
mod needs;
mod parse;
mod predicates;
mod print;
mod vain;

pub use error::{DEPTH_LIMIT, RULE_LIMIT_BYTES, RuleError, RuleErrorKind};
pub use expression::{Comparison, EvidenceTest, HostBit, HostName, Number};
pub use facts::Facts;
pub use needs::Need;
pub use predicates::PREDICATES;
pub use vain::Present;

use expression::{Expression, Predicate, visit};
use std::fmt;

/// A parsed rule. Its `Display` form parses to the same rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    expression: Expression,
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

    /// Whether the rule holds for `facts`; `None` if that depends on unknown facts.
    pub(crate) fn holds(&self, facts: &Facts<'_>) -> Option<bool> {
        evaluate::evaluate(&self.expression, facts)
    }

    /// The predicates of the rule that need facts from the host, in order, each once.
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

    /// Whether the rule uses any fact from the host.
    #[must_use]
    pub fn takes_host_facts(&self) -> bool {
        let mut takes = false;
        visit(&self.expression, &mut |test| takes |= test.is_hosts());
        takes
    }

    /// The facts that not every source provides and that the rule's predicates need, with the predicates, each once,
    /// in order.
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

    /// The predicates that hold for no request to these disks and exports, each once, in order, with the reason.
    #[must_use]
    pub fn in_vain(&self, present: Present<'_>) -> Vec<(String, &'static str)> {
        let mut found = Vec::new();
        visit(&self.expression, &mut |test| {
            let Some(why) = vain::why_in_vain(test, present) else { return };
            let asked = (test.to_string(), why);
            if !found.contains(&asked) {
                found.push(asked);
            }
        });
        found
    }

    /// Whether requests with the same file, process and hint may get different answers: by address, size, sequence or
    /// contents.
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

    /// Whether blocks of one file may get different answers: by their address, their offset in the file, or the file
    /// system.
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

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.expression.fmt(f)
    }
}
