//! An engine whose state is that of the root and of the journal behind it. Nobody is served yet, and what was decided is not durable.

use super::capacity::{load_capacity_side, make_anew};
use super::disks::LoadedDisks;
use super::loaded::{Loaded, Terms};
use super::policy_state;
use super::replay::replay;
use super::report::{OpenError, RecoveryReport};
use super::survey::Survey;
use crate::engine::{Engine, Parts};
use crate::io::Devices;
use crate::layout::record::RECORD_BYTES;
use forebay_block::Geometry;
use forebay_prism::Prism;

/// An engine after replay, and what was found.
pub(super) struct Replayed {
    pub engine: Engine,
    pub report: RecoveryReport,
}

impl Replayed {
    /// Makes an engine of what was loaded, and applies the journal to it. What recovery writes on the way is made durable. `epoch`: in which
    /// the engine is to serve.
    pub fn replay(
        loaded: Loaded,
        scanned: &Survey,
        devices: &mut Devices,
        terms: &Terms,
        epoch: u64,
    ) -> Result<Self, OpenError> {
        let (header, root) = (loaded.header, loaded.root.clone());
        let Self { mut engine, mut report } = Self::of_root(loaded, scanned, devices, terms, epoch);
        let superblock = terms.superblock();
        if superblock.capacity_area.exists() {
            report.is_capacity_root_lost = !load_capacity_side(devices, superblock, &header, &root, &mut engine);
        }
        replay(devices, terms.journal(), &root, scanned, &mut engine, &mut report)?;
        // Writes that the journal names were made before this start, and are no wear of this run.
        engine.begin_wear();
        // Replayed records have taken slots since the root.
        engine.limit_by_slots();
        // Data that recovery wrote again is in no journal of the new epoch: if a later flush failed, nobody would write it once more. So it
        // is made durable now.
        flush_all(devices)?;
        if report.is_capacity_root_lost {
            report.is_capacity_root_lost = !make_anew(devices, &mut engine);
        }
        Ok(Self { engine, report })
    }

    /// The state of the root, without what the journal changed since, and with what policies have learned.
    fn of_root(loaded: Loaded, scanned: &Survey, devices: &mut Devices, terms: &Terms, epoch: u64) -> Self {
        let Loaded { header, root, disks, classes, has_moved } = loaded;
        let LoadedDisks { disks, lost_pages } = disks;
        let superblock = terms.superblock();
        let clean = root.clean;
        let mut prism = Prism::new(classes);
        prism.restore(&root.evidence);
        // Sequences of lost records are not given out again: the next one skips as many as the journal could have held beyond what was found.
        let lost_max = superblock.journal_len_bytes / RECORD_BYTES as u64;
        let next_sequence = scanned.next_sequence.max(root.next_sequence) + lost_max;
        let parts = Parts {
            superblock: superblock.clone(),
            names: devices.list.iter().map(|device| device.name().to_owned()).collect(),
            volatile: bits_of(devices, |geometry| geometry.volatile_cache),
            copies: devices.copies(),
            variants: devices.variants(),
            flushed_behind: bits_of(devices, |geometry| geometry.volatile_cache && !geometry.durable_writes),
            unit_grains: devices.unit_grains(),
            discards: bits_of(devices, |geometry| geometry.discards),
            options: terms.options.clone(),
            root,
            disks,
            prism,
            leaves: scanned.leaves.len(),
            epoch,
            checkpoint: header.checkpoint,
            journal_head: (scanned.end.position, scanned.end.batch, next_sequence),
        };
        let mut engine = parts.build();
        if has_moved || header.counts_due {
            engine.migrate.policy_changed();
        }
        let report = RecoveryReport {
            clean,
            epoch,
            policy_state: policy_state::restore(devices, superblock, &mut engine),
            lost_pages,
            is_journal_unread: scanned.is_unread,
            ..RecoveryReport::default()
        };
        Self { engine, report }
    }
}

/// One bit for each device of which something is true.
fn bits_of(devices: &Devices, is: impl Fn(&Geometry) -> bool) -> u32 {
    let numbered = devices.list.iter().enumerate();
    numbered.fold(0, |bits, (device, it)| bits | u32::from(is(it.geometry())) << device)
}

/// Makes durable what was written to any device.
pub(super) fn flush_all(devices: &mut Devices) -> Result<(), OpenError> {
    (0..devices.list.len()).try_for_each(|device| devices.flush(device).map_err(OpenError::of_device(devices, device)))
}
