//! Printing: the text parses back to the same expression.

use super::expression::{Comparison, EvidenceTest, Expression, HostBit, HostName, Number, Predicate};
use crate::direction::Direction;
use std::fmt::{self, Display};

/// Characters that end a bare word.
pub(super) fn ends_word(c: char) -> bool {
    c.is_whitespace() || matches!(c, '&' | '|' | '(' | ')' | '"')
}

pub(super) fn word(comparison: Comparison) -> &'static str {
    match comparison {
        Comparison::Eq => "eq",
        Comparison::Ne => "ne",
        Comparison::Lt => "lt",
        Comparison::Le => "le",
        Comparison::Gt => "gt",
        Comparison::Ge => "ge",
    }
}

fn name(number: Number) -> &'static str {
    match number {
        Number::Lba => "lba",
        Number::Offset => "offset",
        Number::RequestSize => "request_size",
        Number::Sequential => "sequential",
        Number::FileSize => "file_size",
        Number::FileOffset => "file_offset",
        Number::SstLevel => "rocksdb.level",
        Number::Pid => "pid",
        Number::Lifetime => "wlth",
        Number::IoClass => "io_class",
    }
}

fn evidence(test: EvidenceTest) -> &'static str {
    match test {
        EvidenceTest::Metadata => "fs.metadata",
        EvidenceTest::Journal => "fs.journal",
        EvidenceTest::Superblock => "fs.superblock",
        EvidenceTest::Swap => "fs.swap",
        EvidenceTest::Xfs => "fs.xfs",
        EvidenceTest::Ext4 => "fs.ext4",
        EvidenceTest::Btrfs => "fs.btrfs",
        EvidenceTest::Any => "metadata",
    }
}

/// Writes a value, quoted if necessary; `force` prevents a name of digits from being parsed as an index.
fn value(f: &mut fmt::Formatter<'_>, text: &str, force: bool) -> fmt::Result {
    if !force && !text.is_empty() && !text.chars().any(ends_word) {
        return f.write_str(text);
    }
    f.write_str("\"")?;
    for c in text.chars() {
        if matches!(c, '"' | '\\') {
            f.write_str("\\")?;
        }
        write!(f, "{c}")?;
    }
    f.write_str("\"")
}

impl Display for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Compare { number, comparison, value } => {
                write!(f, "{}:{}:{value}", name(*number), word(*comparison))
            }
            Self::Range { number, start, end } => write!(f, "{}:{start}..{end}", name(*number)),
            Self::Disk(disk) => {
                f.write_str("disk:")?;
                value(f, disk, false)
            }
            Self::ExportIndex(index) => write!(f, "export:{index}"),
            Self::ExportName(export) => {
                f.write_str("export:")?;
                value(f, export, export.parse::<u16>().is_ok())
            }
            Self::Direction(Direction::Read) => f.write_str("direction:read"),
            Self::Direction(Direction::Write) => f.write_str("direction:write"),
            Self::Evidence(test) => f.write_str(evidence(*test)),
            Self::Done => f.write_str("done"),
            Self::HostBit(HostBit::Meta) => f.write_str("hint.meta"),
            Self::HostBit(HostBit::Swap) => f.write_str("hint.swap"),
            Self::HostBit(HostBit::Direct) => f.write_str("direct"),
            Self::HostName { name, pattern } => {
                let name = match name {
                    HostName::Path => "path",
                    HostName::Directory => "directory",
                    HostName::Extension => "extension",
                    HostName::FilePrefix => "file_name_prefix",
                    HostName::Process => "process_name",
                    HostName::Cgroup => "cgroup",
                };
                write!(f, "{name}:")?;
                value(f, pattern, false)
            }
            Self::Lifetime(lifetime) => write!(f, "hint.lifetime:{}", lifetime.name()),
            Self::Pending { name, argument } if argument.is_empty() => f.write_str(name),
            Self::Pending { name, argument } => {
                write!(f, "{name}:")?;
                value(f, argument, false)
            }
        }
    }
}

impl Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Or(parts) => chain(f, parts, "|"),
            Self::And(parts) => chain(f, parts, "&"),
            Self::Not(inner) => {
                f.write_str("!")?;
                nested(f, inner)
            }
            Self::Test(test) => test.fmt(f),
        }
    }
}

fn chain(f: &mut fmt::Formatter<'_>, parts: &[Expression], operator: &str) -> fmt::Result {
    for (i, part) in parts.iter().enumerate() {
        if i > 0 {
            f.write_str(operator)?;
        }
        nested(f, part)?;
    }
    Ok(())
}

/// A chain inside any expression gets parentheses, even if precedence does not require them: easier to read.
fn nested(f: &mut fmt::Formatter<'_>, expression: &Expression) -> fmt::Result {
    match expression {
        Expression::Or(_) | Expression::And(_) => write!(f, "({expression})"),
        _ => expression.fmt(f),
    }
}
