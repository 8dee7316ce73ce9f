//! Three-valued evaluation: true, false, or unknown (`None`).

use super::expression::{EvidenceTest, Expression, HostBit, HostName, Number, Predicate};
use super::facts::Facts;
use super::glob::{path_fits, word_fits};
use crate::evidence::{Evidence, Role, System};
use crate::host::HostFacts;

pub(super) fn evaluate(expression: &Expression, facts: &Facts<'_>) -> Option<bool> {
    match expression {
        Expression::Test(predicate) => test(predicate, facts),
        Expression::Not(inner) => evaluate(inner, facts).map(|holds| !holds),
        Expression::And(parts) => fold(parts, facts, false),
        Expression::Or(parts) => fold(parts, facts, true),
    }
}

/// A part equal to `decisive` decides the whole; otherwise an unknown part makes the whole unknown.
fn fold(parts: &[Expression], facts: &Facts<'_>, decisive: bool) -> Option<bool> {
    let mut result = Some(!decisive);
    for part in parts {
        match evaluate(part, facts) {
            Some(holds) if holds == decisive => return Some(decisive),
            Some(_) => {}
            None => result = None,
        }
    }
    result
}

fn number(number: Number, facts: &Facts<'_>) -> Option<u64> {
    match number {
        Number::Lba => Some(facts.offset_bytes / 512),
        Number::Offset => Some(facts.offset_bytes),
        Number::RequestSize => facts.request_size_bytes,
        Number::Sequential => facts.sequential_bytes,
        Number::FileSize => facts.host.file_size_bytes,
        Number::FileOffset => facts.host.file_offset_bytes,
        Number::SstLevel => facts.host.sst_level.map(u64::from),
        Number::Pid => facts.host.pid.map(u64::from),
        Number::Lifetime => facts.host.lifetime.map(|lifetime| lifetime as u64),
        Number::IoClass => facts.host.io_class.map(u64::from),
    }
}

fn test(predicate: &Predicate, facts: &Facts<'_>) -> Option<bool> {
    Some(match predicate {
        Predicate::Compare { number: Number::SstLevel, .. } | Predicate::Range { number: Number::SstLevel, .. }
            if is_no_table(&facts.host) =>
        {
            false
        }
        Predicate::Compare { number: field, comparison, value } => comparison.holds(number(*field, facts)?, *value),
        Predicate::Range { number: field, start, end } => (*start..*end).contains(&number(*field, facts)?),
        Predicate::Disk(name) => facts.disk_name == name,
        Predicate::ExportIndex(index) => facts.export? == *index,
        Predicate::ExportName(name) => facts.export.map(|_| facts.export_name)? == name,
        Predicate::Direction(direction) => facts.direction == *direction,
        // Metadata is identified by contents or by the file system's mark.
        Predicate::Evidence(EvidenceTest::Any) if facts.host.meta == Some(true) => true,
        Predicate::Evidence(wanted) => match facts.evidence {
            Some(found) => evidence(*wanted, found),
            None if facts.contents_known => false,
            None => return None,
        },
        Predicate::Done => true,
        Predicate::HostBit(bit) => match bit {
            HostBit::Meta => facts.host.meta?,
            HostBit::Swap => facts.host.swap?,
            HostBit::Direct => facts.host.direct?,
        },
        Predicate::HostName { name, pattern } => name_fits(*name, pattern, &facts.host)?,
        Predicate::Lifetime(lifetime) => facts.host.lifetime? == *lifetime,
        Predicate::Pending { .. } => return None,
    })
}

/// Whether the file is known and is no table of RocksDB: then it has no level, rather than an unknown one.
fn is_no_table(host: &HostFacts<'_>) -> bool {
    host.sst_level.is_none() && host.path.is_some_and(|path| !path.ends_with(".sst"))
}

fn name_fits(name: HostName, pattern: &str, host: &HostFacts<'_>) -> Option<bool> {
    let file = || host.path.map(|path| path.rsplit('/').next().unwrap_or(path));
    Some(match name {
        HostName::Path => path_fits(pattern, host.path?),
        HostName::Directory => {
            let (directory, path) = (pattern.trim_matches('/'), host.path?.trim_start_matches('/'));
            directory.is_empty() || path.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/'))
        }
        HostName::Extension => {
            let wanted = pattern.strip_prefix('.').unwrap_or(pattern);
            file()?.rsplit_once('.').is_some_and(|(_, extension)| extension == wanted)
        }
        HostName::FilePrefix => file()?.starts_with(pattern),
        HostName::Process => word_fits(pattern, host.process?),
        HostName::Cgroup => path_fits(pattern, host.cgroup?),
    })
}

fn evidence(wanted: EvidenceTest, found: Evidence) -> bool {
    let metadata = matches!(found.role, Role::Superblock | Role::Metadata);
    match wanted {
        EvidenceTest::Metadata => metadata,
        EvidenceTest::Journal => found.role == Role::Journal,
        EvidenceTest::Superblock => found.role == Role::Superblock,
        EvidenceTest::Swap => found.role == Role::Swap,
        EvidenceTest::Xfs => found.system == System::Xfs,
        EvidenceTest::Ext4 => found.system == System::Ext4,
        EvidenceTest::Btrfs => found.system == System::Btrfs,
        EvidenceTest::Any => metadata || found.role == Role::Journal,
    }
}
