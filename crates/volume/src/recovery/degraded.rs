//! Opening a pool of which capacity devices are missing, for reading only. Nothing is written to any device: the journal is
//! replayed into memory.

use super::leaves::{next_leaves, read_leaves};
use super::lost::DiskReport;
use super::open::open_members;
use super::present::present;
use super::report::{OpenError, RecoveryReport};
use super::survey::MissingBatches;
use crate::engine::{Engine, EngineOptions};
use crate::io::Devices;
use crate::layout::page::{Entry, LEAF_ENTRIES, leaf_entry};
use crate::layout::superblock::{Role, Superblock};
use crate::overlay::Overlay;
use crate::recovery::members::MemberError;
use forebay_block::DiskId;
use forebay_block::figures::count;
use forebay_prism::ClassSpec;

/// What is there and what is not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DegradedReport {
    /// The missing devices.
    pub missing: Vec<String>,
    /// Devices that were given and cannot be used, and why.
    pub unusable: Vec<(String, String)>,
    /// Disks: what is gone of each lay on a missing device, or was damaged before.
    pub disks: Vec<DiskReport>,
}

impl DegradedReport {
    /// What this is, in one line.
    #[must_use]
    pub fn label(&self) -> String {
        let gone: u64 = self.disks.iter().map(|disk| disk.gone.blocks).sum();
        format!(
            "opened degraded, without {}: {} of data cannot be read",
            self.missing.join(" and without "),
            count(gone, "block")
        )
    }
}

/// Opens a pool of which capacity devices are missing. The devices that are there may come in any order.
///
/// # Errors
/// See [`OpenError`]: where the fast device is missing, and for all that keeps a whole pool from being opened.
pub fn open_degraded(
    devices: &mut Devices,
    classes: &[ClassSpec],
    options: EngineOptions,
) -> Result<(Engine, RecoveryReport, DegradedReport), OpenError> {
    let members = present(devices)?;
    let missing = members.missing();
    if missing.first() == Some(&0) {
        let fast = &members.newest.members[0];
        return Err(OpenError::Member(MemberError::Missing {
            role: Role::Fast.name(),
            id: crate::layout::format_id(&fast.id),
            pool: members.newest.name.clone(),
            size_bytes: fast.size_bytes,
            why: members.describe_unusable(),
        }));
    }
    Overlay::over_all(devices);
    // The epoch of a missing device is unknown; nothing is read from the device.
    let absent = |index: usize| Superblock { index: index as u16, ..members.newest.clone() };
    let found = members.superblocks.iter().enumerate();
    let superblocks: Vec<Superblock> =
        found.map(|(index, found)| found.clone().unwrap_or_else(|| absent(index))).collect();
    let (mut engine, recovery) = open_members(devices, &superblocks, classes, options, MissingBatches::Refuse)?;
    engine.migrate.pause_all(true);
    let is_missing = |device: usize| missing.contains(&device);
    let mut report = DegradedReport {
        missing: missing.iter().map(|&number| members.describe(number)).collect(),
        unusable: members.unusable.clone(),
        disks: Vec::new(),
    };
    let disks: Vec<DiskId> = engine.disks().map(|disk| disk.id).collect();
    for disk in disks {
        report.disks.extend(survey(devices, &engine, disk, &is_missing));
    }
    engine.set_read_only(&report.label());
    Ok((engine, recovery, report))
}

/// Goes through the map of a disk.
fn survey(
    devices: &mut Devices,
    engine: &Engine,
    id: DiskId,
    is_missing: &dyn Fn(usize) -> bool,
) -> Option<DiskReport> {
    let disk = engine.map.disk(id)?;
    let mut report = DiskReport { name: disk.name.clone(), size_bytes: disk.size_bytes, ..DiskReport::default() };
    let mut next = disk.next_leaf(0);
    while let Some(first) = next {
        let leaves = next_leaves(disk, first);
        next = leaves.last().and_then(|last| disk.next_leaf(last + 1));
        for (leaf, page) in leaves.iter().zip(read_leaves(devices, engine, id, &leaves)) {
            let base = leaf * LEAF_ENTRIES as u64;
            let blocks = disk.blocks().saturating_sub(base).min(LEAF_ENTRIES as u64) as usize;
            let Some(page) = page else {
                report.gone.add(base, blocks as u64);
                continue;
            };
            for at in 0..blocks {
                let is_gone = match leaf_entry(&page, at).0 {
                    Entry::Unmapped | Entry::Zero => continue,
                    Entry::Damaged => true,
                    Entry::Data { span, .. } => {
                        engine.setup.extents.place(span.location).is_none_or(|(device, _)| is_missing(device))
                    }
                };
                if is_gone {
                    report.gone.add(base + at as u64, 1);
                } else {
                    report.readable_blocks += 1;
                }
            }
        }
    }
    Some(report)
}
