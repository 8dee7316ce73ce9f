//! Opening a pool: choose the root, load the index, replay the journal, decide once, and only then serve.

use super::capacity::{load_capacity_side, make_anew};
use super::checkpoints::refuse_older;
use super::disks::{LoadedDisks, load_disks};
use super::late::{refuse_loss, refuse_unread};
use super::members::{MemberError, assemble, write_superblock};
use super::opened::{Apart, Opened};
use super::policy_state;
use super::replay::replay;
use super::report::{OpenError, RecoveryReport};
use super::survey::MissingBatches;
use super::surveyor::{survey, write_to_all};
use super::warm_list;
use crate::engine::{Engine, EngineOptions, Parts, header_offsets};
use crate::io::Devices;
use crate::journal::JournalGeometry;
use crate::layout::format_id;
use crate::layout::page::BLOCK_GRAINS;
use crate::layout::record::RECORD_BYTES;
use crate::layout::root::{BandRoot, BandState, HEADER_BYTES, Root, RootBounds, RootHeader};
use crate::layout::root_blob;
use crate::layout::superblock::Superblock;
use crate::overlay::Overlay;
use crate::parity::ArrayView;
use crate::pool::write_checkpoint;
use forebay_block::checksum::crc32c;
use forebay_prism::{ClassSpec, ClassTable, Prism};

fn root_error(checkpoint: u64, what: &str) -> OpenError {
    OpenError::Root { checkpoint, what: what.to_owned() }
}

/// Returns the newest root header. A root that says it was superseded proves that a newer one existed. One copy of a header may be
/// unreadable; where no copy in an area can be read, nobody knows whether the newest root is there, and the pool is not opened.
fn newest_header(devices: &mut Devices, superblock: &Superblock) -> Result<RootHeader, OpenError> {
    let mut newest: Option<RootHeader> = None;
    let mut superseded_by = 0;
    for parity in [0, 1] {
        let (mut is_read, mut unread) = (false, None);
        let copies = devices.copies();
        let reads =
            header_offsets(superblock, parity).into_iter().flat_map(|at| (0..copies).map(move |copy| (at, copy)));
        for (offset_bytes, attempt) in reads {
            let read = devices.read_one_of(0, offset_bytes, HEADER_BYTES, attempt);
            let read = read.map_err(OpenError::of_device(devices, 0))?;
            is_read |= read.is_ok();
            let header = read.map(|bytes| RootHeader::decode(&bytes, &superblock.pool));
            let Some(header) = header.map_err(|error| unread = Some(error)).ok().flatten() else { continue };
            superseded_by = superseded_by.max(header.superseded_by);
            if header.superseded_by == 0 && newest.is_none_or(|other| header.checkpoint > other.checkpoint) {
                newest = Some(header);
            }
        }
        if let (false, Some(error)) = (is_read, unread) {
            return Err(OpenError::of_device(devices, 0)(error));
        }
    }
    match newest {
        Some(header) if header.checkpoint >= superseded_by => Ok(header),
        _ => Err(root_error(superseded_by, "no valid header in its area")),
    }
}

fn load_root(devices: &mut Devices, superblock: &Superblock) -> Result<(RootHeader, Root), OpenError> {
    let header = newest_header(devices, superblock)?;
    let checkpoint = header.checkpoint;
    let bounds = RootBounds::of(superblock);
    let room = (superblock.root_len_bytes - 2 * 4096).min(bounds.blob_bytes_max());
    if header.blob_len_bytes > room {
        return Err(root_error(checkpoint, "its length is impossible"));
    }
    let area = superblock.root_offsets_bytes[(checkpoint % 2) as usize];
    let padded = header.blob_len_bytes.next_multiple_of(4096) as usize;
    let len_bytes = header.blob_len_bytes as usize;
    let is_good = |bytes: &[u8]| crc32c(&bytes[..len_bytes]) == header.blob_crc;
    let blob = devices.read_good(0, area + 4096, padded, is_good).map_err(OpenError::of_device(devices, 0))?;
    let blob = blob.ok_or_else(|| root_error(checkpoint, "its checksum does not match"))?;
    let decoded = root_blob::decode(&blob[..len_bytes], &bounds);
    let root = decoded.map_err(|error| root_error(checkpoint, &error.to_string()))?;
    Ok((header, root))
}

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
    let unknown = superblocks.iter().fold(0, |bits, superblock| bits | superblock.unknown_read_only());
    if unknown != 0 {
        // A newer program keeps something on these devices that writes of this program would make wrong: so writes stay in memory.
        Overlay::over_all(devices);
    }
    if devices.mirror().is_some() || devices.array().is_some() {
        check_several(devices, &superblocks[0])?;
        look_first(devices, superblocks, classes, &options, missing_batches)?;
        devices.begin_members();
    }
    let read_before = devices.read_bytes;
    flush_all(devices)?;
    let (header, root) = load_root(devices, &superblocks[0])?;
    check_epochs(devices, superblocks, &header)?;
    refuse_older(devices, &superblocks[0], header.checkpoint)?;
    write_header_again(devices, &superblocks[0], &header)?;
    check_memory(&superblocks[0], &root, &options)?;
    let LoadedDisks { disks, lost_pages } = load_disks(devices, &superblocks[0], &root, missing_batches)?;
    let mut table = ClassTable::decode(&root.classes)?;
    let places = |table: &ClassTable| table.classes().iter().map(|class| class.place).collect::<Vec<_>>();
    let before = places(&table);
    table.merge(classes)?;
    let has_moved = !places(&table).starts_with(&before);
    let mut prism = Prism::new(table);
    prism.restore(&root.evidence);

    let superblock = superblocks[0].clone();
    let geometry = journal_of(&superblock);
    if devices.copies() > 1 {
        write_to_all(devices, geometry, &superblock, &header, &root)?;
    }
    let scanned = survey(devices, geometry, &superblock, &header, &root, missing_batches)?;
    let bit = |on: bool, device: usize| u32::from(on) << device;
    let (mut volatile, mut flushed_behind, mut discards) = (0, 0, 0);
    for (i, device) in devices.list.iter().enumerate() {
        let geometry = device.geometry();
        volatile |= bit(geometry.volatile_cache, i);
        flushed_behind |= bit(geometry.volatile_cache && !geometry.durable_writes, i);
        discards |= bit(geometry.discards, i);
    }
    let (opening, opening_before) = (options.opening, header.opening);
    let unfenced = options.faults.epoch_not_fenced();
    let epoch = if unfenced { header.epoch } else { header.epoch + 1 };
    // Sequences of lost records are not given out again: the next one skips as many as the journal could have held beyond what was found.
    let lost_max = superblock.journal_len_bytes / RECORD_BYTES as u64;
    let next_sequence = scanned.next_sequence.max(root.next_sequence) + lost_max;
    let mut engine = Parts {
        superblock: superblock.clone(),
        names: devices.list.iter().map(|device| device.name().to_owned()).collect(),
        volatile,
        copies: devices.copies(),
        variants: devices.variants(),
        flushed_behind,
        unit_grains: devices.unit_grains(),
        discards,
        options,
        root: root.clone(),
        disks,
        prism,
        leaves: scanned.leaves.len(),
        epoch,
        checkpoint: header.checkpoint,
        journal_head: (scanned.end.position, scanned.end.batch, next_sequence),
    }
    .build();
    if has_moved || header.counts_due {
        engine.migrate.policy_changed();
    }
    let policy_state = policy_state::restore(devices, &superblock, &mut engine);
    let clean = root.clean;
    let mut report = RecoveryReport {
        clean,
        epoch,
        policy_state,
        lost_pages,
        is_journal_unread: scanned.is_unread,
        ..RecoveryReport::default()
    };
    if superblock.capacity_area.exists() {
        report.is_capacity_root_lost = !load_capacity_side(devices, &superblock, &header, &root, &mut engine);
    }
    replay(devices, geometry, &root, &scanned, &mut engine, &mut report)?;
    // Writes that the journal names were made before this start, and are no wear of this run.
    engine.begin_wear();
    // Replayed records have taken slots since the root.
    engine.limit_by_slots();
    // Data that recovery wrote again is in no journal of the new epoch: if a later flush failed, nobody would write it once more. So it is
    // made durable now.
    flush_all(devices)?;
    if report.is_capacity_root_lost {
        report.is_capacity_root_lost = !make_anew(devices, &mut engine);
    }
    report.read_bytes = devices.read_bytes - read_before;

    if unfenced {
        return Ok((engine, report));
    }
    // From here on the devices change. The capacity devices get the epoch first, so that a crash in between leaves a state that is
    // recognised (docs/format.md, "Epoch and state").
    let is_mirrored = devices.copies() > 1;
    let superblock_of = |device: usize, serving| Superblock {
        epoch,
        opening,
        opening_before,
        serving,
        is_mirrored,
        ..superblocks[device].clone()
    };
    for device in (1..devices.list.len()).rev() {
        let opened = superblock_of(device, false);
        write_superblock(devices, device, &opened).map_err(OpenError::of_device(devices, device))?;
    }
    engine.migrate.pause_all(true);
    let is_written = write_checkpoint(&mut engine, devices, false);
    if !is_written && engine.is_root_full() {
        // An opening for reading alone needs no checkpoint.
        if missing_batches.are_refused() {
            return Err(OpenError::RootFull);
        }
    } else if !is_written {
        let reason = engine.status().counters.last_checkpoint_error;
        return Err(OpenError::Checkpoint(reason.unwrap_or_else(|| "a device flush failed".to_owned())));
    }
    for device in (0..devices.list.len()).rev() {
        write_superblock(devices, device, &superblock_of(device, true))
            .map_err(OpenError::of_device(devices, device))?;
    }
    for (device, error) in devices.take_lost_flushes() {
        engine.flush_beside_failed(device, &error);
    }
    devices.settle();
    tell_fronts(devices, &engine);
    warm_list::restore(devices, &superblock, &mut engine);
    engine.migrate.pause_all(unknown != 0);
    if unknown != 0 {
        engine.set_read_only(&format!("feature bits {unknown:#x} need a newer program"));
    }
    Ok((engine, report))
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
        array.know(engine.space.bands.table().iter().map(front).collect());
    }
}

/// Checks, by reading only, whether the pool can be opened with the members that are there. Only after that do labels say that it went on
/// without the missing ones: where it cannot be opened, a missing member may be all that is left of the pool.
fn look_first(
    devices: &mut Devices,
    superblocks: &[Superblock],
    classes: &[ClassSpec],
    options: &EngineOptions,
    missing_batches: MissingBatches,
) -> Result<(), OpenError> {
    let superblock = &superblocks[0];
    let (header, root) = load_root(devices, superblock)?;
    check_epochs(devices, superblocks, &header)?;
    refuse_older(devices, &superblocks[0], header.checkpoint)?;
    check_memory(superblock, &root, options)?;
    let LoadedDisks { disks, .. } = load_disks(devices, superblock, &root, missing_batches)?;
    ClassTable::decode(&root.classes)?.merge(classes)?;
    let survey = survey(devices, journal_of(superblock), superblock, &header, &root, missing_batches)?;
    if options.accepts_loss || options.faults.checksums_ignored() {
        return Ok(());
    }
    refuse_loss(devices, superblock, &disks, &survey)?;
    refuse_unread(devices, (superblock, journal_of(superblock)), &disks, (&root, &survey))
}

fn journal_of(superblock: &Superblock) -> JournalGeometry {
    JournalGeometry {
        offset_bytes: superblock.journal_offset_bytes,
        len_bytes: superblock.journal_len_bytes,
        sector_bytes: u64::from(superblock.journal_sector_bytes),
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

fn flush_all(devices: &mut Devices) -> Result<(), OpenError> {
    (0..devices.list.len()).try_for_each(|device| devices.flush(device).map_err(OpenError::of_device(devices, device)))
}

/// Writes the copies of the chosen header again, durably, before recovery relies on its root. A header that can be read need not be
/// durable, as with data (see [`super::written`]), and the next checkpoint overwrites the root before it.
fn write_header_again(devices: &mut Devices, superblock: &Superblock, header: &RootHeader) -> Result<(), OpenError> {
    if !devices.list[0].geometry().volatile_cache && devices.copies() == 1 {
        return Ok(());
    }
    let bytes = header.encode(&superblock.pool);
    let written: Vec<_> = header_offsets(superblock, header.checkpoint)
        .into_iter()
        .map(|offset_bytes| devices.write(0, offset_bytes, &bytes))
        .collect();
    // One written copy is enough.
    if written.iter().all(Result::is_err) {
        written.into_iter().collect::<Result<(), _>>().map_err(OpenError::of_device(devices, 0))?;
    }
    devices.flush(0).map_err(OpenError::of_device(devices, 0))
}

fn check_epochs(devices: &Devices, superblocks: &[Superblock], header: &RootHeader) -> Result<(), MemberError> {
    let epoch = header.epoch;
    for (i, superblock) in superblocks.iter().enumerate().skip(1) {
        let device = || devices.list[i].name().to_owned();
        if superblock.epoch < epoch || superblock.generation < superblocks[0].generation {
            return Err(MemberError::Stale { device: device(), found: superblock.epoch, expected: epoch });
        }
        let only_opened = superblock.epoch == epoch + 1 && !superblock.serving;
        if superblock.epoch > epoch && !only_opened {
            let device = devices.list[0].name().to_owned();
            return Err(MemberError::Stale { device, found: epoch, expected: superblock.epoch });
        }
        if Opened::of(superblock).is_apart_from_root(header) {
            let other = devices.list[0].name().to_owned();
            return Err(Apart { device: device(), other, epoch: superblock.epoch }.into());
        }
    }
    Ok(())
}

fn check_memory(superblock: &Superblock, root: &Root, options: &EngineOptions) -> Result<(), OpenError> {
    let extents = crate::space::extents::Extents::new(&superblock.members, superblock.band_bytes);
    let sizes = root.disks.iter().map(|disk| disk.size_bytes);
    let needed_bytes = crate::engine::memory_needed_bytes(superblock, &extents, sizes);
    if options.frames.is_none() && needed_bytes > options.memory_limit_bytes {
        return Err(OpenError::Limit { needed_bytes, limit_bytes: options.memory_limit_bytes });
    }
    Ok(())
}
