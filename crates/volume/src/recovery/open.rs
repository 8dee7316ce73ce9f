//! Opening a pool: choose the root, load the index, replay the journal, decide once, and only then serve.

use super::fence::Fence;
use super::late::{refuse_loss, refuse_unread};
use super::loaded::{Loaded, Terms};
use super::members::{MemberError, assemble};
use super::opened_root::OpenedRoot;
use super::replayed::{Replayed, flush_all};
use super::report::{OpenError, RecoveryReport};
use super::survey::MissingBatches;
use super::surveyor::write_to_all;
use super::warm_list;
use crate::engine::{Engine, EngineOptions};
use crate::io::Devices;
use crate::layout::format_id;
use crate::layout::page::BLOCK_GRAINS;
use crate::layout::root::{BandRoot, BandState};
use crate::layout::superblock::Superblock;
use crate::overlay::Overlay;
use crate::parity::ArrayView;
use forebay_prism::ClassSpec;

/// Opens a pool for service: after this, what recovery decided is durable. `fast`: how many devices, from the front,
/// are configured as fast. `classes`: as configured, merged over what the pool stores.
///
/// # Errors
/// See [`OpenError`].
pub fn open(
    devices: &mut Devices,
    fast: usize,
    classes: &[ClassSpec],
    options: EngineOptions,
) -> Result<(Engine, RecoveryReport), OpenError> {
    let missing_batches = if options.accepts_loss { MissingBatches::RefuseKnown } else { MissingBatches::Refuse };
    open_with(devices, fast, classes, options, missing_batches)
}

/// Opens a pool whose journal is damaged, for reading only. Blocks that the missing batches changed show an older state or cannot be read,
/// and which blocks these are is unknown. Nothing is written to the devices.
///
/// # Errors
/// See [`OpenError`].
pub fn salvage(
    devices: &mut Devices,
    fast: usize,
    classes: &[ClassSpec],
    options: EngineOptions,
) -> Result<(Engine, RecoveryReport), OpenError> {
    Overlay::over_all(devices);
    let (mut engine, report) = open_with(devices, fast, classes, options, MissingBatches::Skip)?;
    engine.migrate.pause_all(true);
    engine.set_read_only("opened for salvage");
    Ok((engine, report))
}

fn open_with(
    devices: &mut Devices,
    fast: usize,
    classes: &[ClassSpec],
    options: EngineOptions,
    missing_batches: MissingBatches,
) -> Result<(Engine, RecoveryReport), OpenError> {
    let superblocks = assemble(devices, fast)?;
    open_members(devices, &superblocks, classes, options, missing_batches)
}

/// Opens a pool whose devices are in the order of its table.
pub(super) fn open_members(
    devices: &mut Devices,
    superblocks: &[Superblock],
    classes: &[ClassSpec],
    options: EngineOptions,
    missing_batches: MissingBatches,
) -> Result<(Engine, RecoveryReport), OpenError> {
    let terms = Terms { superblocks, classes, options: &options, missing_batches };
    let unknown = superblocks.iter().fold(0, |bits, superblock| bits | superblock.unknown_read_only());
    if unknown != 0 {
        // A newer program keeps something on these devices that writes of this program would make wrong: so writes stay in memory.
        Overlay::over_all(devices);
    }
    if devices.mirror().is_some() || devices.array().is_some() {
        check_several(devices, terms.superblock())?;
        look_first(devices, &terms)?;
        devices.begin_members();
    }
    let read_before = devices.read_bytes;
    let loaded = load(devices, &terms)?;
    let scanned = loaded.survey(devices, &terms)?;
    let header = loaded.header;
    let is_unfenced = options.faults.epoch_not_fenced();
    let epoch = if is_unfenced { header.epoch } else { header.epoch + 1 };
    let Replayed { mut engine, mut report } = Replayed::replay(loaded, &scanned, devices, &terms, epoch)?;
    report.read_bytes = devices.read_bytes - read_before;
    if is_unfenced {
        return Ok((engine, report));
    }
    let fence = Fence {
        superblocks,
        epoch,
        opening: options.opening,
        opening_before: header.opening,
        is_mirrored: devices.copies() > 1,
    };
    // From here on the devices change.
    fence.begin(devices, &mut engine, missing_batches)?;
    begin_service(devices, terms.superblock(), &mut engine);
    engine.migrate.pause_all(unknown != 0);
    if unknown != 0 {
        engine.set_read_only(&format!("feature bits {unknown:#x} need a newer program"));
    }
    Ok((engine, report))
}

/// Loads the newest root, after making durable, on all copies, what recovery relies on: a root and a journal that can be read need not be.
fn load(devices: &mut Devices, terms: &Terms) -> Result<Loaded, OpenError> {
    flush_all(devices)?;
    let chosen = OpenedRoot::choose(devices, terms.superblocks)?;
    chosen.write_header_again(devices, terms.superblock())?;
    let loaded = Loaded::load(chosen, devices, terms)?;
    if devices.copies() > 1 {
        write_to_all(devices, terms.journal(), terms.superblock(), &loaded.header, &loaded.root)?;
    }
    Ok(loaded)
}

/// Checks, by reading only, whether the pool can be opened with the members that are there. Only after that do labels say that it went on
/// without the missing ones: where it cannot be opened, a missing member may be all that is left of the pool.
fn look_first(devices: &mut Devices, terms: &Terms) -> Result<(), OpenError> {
    let loaded = Loaded::load(OpenedRoot::choose(devices, terms.superblocks)?, devices, terms)?;
    let survey = loaded.survey(devices, terms)?;
    if terms.options.accepts_loss || terms.options.faults.checksums_ignored() {
        return Ok(());
    }
    let (superblock, disks) = (terms.superblock(), &loaded.disks.disks);
    refuse_loss(devices, superblock, disks, &survey)?;
    refuse_unread(devices, (superblock, terms.journal()), disks, (&loaded.root, &survey))
}

/// What remains to be done once the epoch has begun: failures of flushes beside it are noted, members learn what they need to know, and copies
/// on the fast tier are read again.
fn begin_service(devices: &mut Devices, superblock: &Superblock, engine: &mut Engine) {
    for (device, error) in devices.take_lost_flushes() {
        engine.flush_beside_failed(device, &error);
    }
    devices.settle();
    tell_fronts(devices, engine);
    warm_list::restore(devices, superblock, engine);
}

/// Tells a capacity tier with parity how far each band was written.
fn tell_fronts(devices: &Devices, engine: &Engine) {
    if let Some(array) = devices.array() {
        let band_blocks = engine.space.bands.shape().blocks();
        let front = |band: &BandRoot| match band.state {
            BandState::Free => 0,
            // A band that was closed before its end has a summary behind its data.
            BandState::Closed => band_blocks,
            BandState::Open => band.written.div_ceil(BLOCK_GRAINS as u32),
        };
        array.set_fronts(engine.space.bands.table().iter().map(front).collect());
    }
}

/// Checks that the mirror and the array are of this pool.
fn check_several(devices: &Devices, superblock: &Superblock) -> Result<(), MemberError> {
    let array = devices.array().map(ArrayView::members);
    let several = [(0, devices.mirror()), (1, array)];
    let pools = several.into_iter().filter_map(|(number, view)| Some((number, view?.pool())));
    match pools.into_iter().find(|(_, pool)| *pool != superblock.pool) {
        Some((number, pool)) => Err(MemberError::Foreign {
            device: devices.list[number].name().to_owned(),
            name: superblock.name.clone(),
            pool: format_id(&pool),
            expected: format_id(&superblock.pool),
        }),
        None => Ok(()),
    }
}
