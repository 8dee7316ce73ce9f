//! Opens the capacity tier without the fast one, for reading only. It shows checkpoint N, and of later changes those that had reached the
//! bands. Nothing is written to any device (docs/format.md, "Opening without the fast tier").

mod choice;
mod error;
mod leaves;
mod memory;
mod memory_device;
mod scan;
mod verify;

pub use error::AloneError;
pub use verify::verify_alone;

use super::capacity::{self, read_capacity_roots};
use super::lost::DiskReport;
use super::present::{Present, present};
use crate::engine::{Engine, EngineOptions, Parts};
use crate::io::Devices;
use crate::layout::capacity_root::{CapacityArea, CapacityDisk, CapacityHeader, CapacityRoot, DEVICE};
use crate::layout::page::{BLOCK_GRAINS, LEAF_ENTRIES, PageName, PageRef, SECTOR_GRAINS, SECTORS_MAX, seal_leaf};
use crate::layout::root::{BandRoot, BandState, Root};
use crate::layout::superblock::{Role, Superblock};
use crate::map::index::{Disk, INDEX_SPAN_BYTES, IndexPage};
use crate::recovery::members::MemberError;
use crate::space::extents::Extents;
use forebay_block::DiskId;
use forebay_block::figures::count;
use forebay_prism::{ClassSpec, ClassTable, Prism};
use leaves::{Leaf, Leaves, Shown};
use memory_device::{LeafPage, MemoryDevice, ReadOnly, damaged_leaf};
use scan::{Counts, Scan};
use std::collections::BTreeMap;

/// Bytes of memory for each index page that the disks may come to need.
const INDEX_PAGE_BYTES: u64 = 16;

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AloneReport {
    /// Superblock of a capacity device.
    pub superblock: Superblock,
    /// The checkpoint that is shown.
    pub checkpoint: u64,
    /// Epoch in which it was written.
    pub epoch: u64,
    /// Bytes read from all devices.
    pub read_bytes: u64,
    /// Band summaries read.
    pub summaries: u64,
    /// Band summaries that are not there, or are damaged: those of groups in which nothing lives may never have been written.
    pub summaries_absent: u64,
    /// Pages with the tiers of blocks that are damaged.
    pub pages_damaged: u64,
    /// Disks that the checkpoint had no room for: they are not shown.
    pub disks_missing: u16,
    /// Disks.
    pub disks: Vec<DiskReport>,
    /// What else there is to know.
    pub warnings: Vec<String>,
}

impl AloneReport {
    /// What this is, in one line.
    #[must_use]
    pub fn label(&self) -> String {
        let sum = |count: fn(&DiskReport) -> u64| self.disks.iter().map(count).sum::<u64>();
        format!(
            "opened without the fast tier: checkpoint {} and of later writes what reached the capacity tier; blocks may be older \
             than they were; {} of data gone with the fast tier, {} may be older than the checkpoint",
            self.checkpoint,
            count(sum(|disk| disk.gone.blocks), "block"),
            sum(|disk| disk.maybe_older.blocks)
        )
    }
}

/// Opens the capacity tier of a pool alone. The devices are those of the capacity tier, in any order; afterwards they are in the order of
/// the pool, behind a device that serves the map. `progress` gets the number of bands read so far, and how many there are.
///
/// # Errors
/// See [`AloneError`].
pub fn open_alone(
    devices: &mut Devices,
    classes: &[ClassSpec],
    options: EngineOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(Engine, AloneReport), AloneError> {
    let inner = std::mem::take(&mut devices.list);
    devices.list = inner.into_iter().map(|device| Box::new(ReadOnly::new(device)) as Box<_>).collect();
    let read_before = devices.read_bytes;
    let members = present(devices)?;
    let mut warnings = check_members(devices, &members)?;
    let superblock = members.newest.clone();
    let roots = whole_roots(devices, &members, &mut warnings)?;
    let extents = Extents::new(&superblock.members, superblock.band_bytes);
    let missing = members.missing();
    let limit_bytes = options.memory_limit_bytes / 4 * 3;
    let mut gather =
        |of: &Found| Gathered::gather(devices, (&superblock, &extents, &missing), of, limit_bytes, progress);
    let mut chosen = &roots[0];
    let mut gathered = gather(chosen)?;
    // There are two ways in which pages can be damaged. A checkpoint that came to nothing may have left a root whose pages were written
    // over since: the root before it is whole then. Or this checkpoint itself was damaged: of the one before, more is gone by now. So both
    // are gathered, and the better one is shown.
    if gathered.counts.pages_damaged > 0
        && let Some(older) = roots.get(1)
    {
        let before = gathered.counts;
        drop(gathered);
        gathered = match gather(older) {
            Ok(found) if found.counts.is_better_than(&before) => {
                warnings.push(older_is_shown(chosen.0.checkpoint, older.0.checkpoint));
                chosen = older;
                found
            }
            _ => gather(chosen)?,
        };
    }
    let Gathered { mut leaves, counts } = gathered;
    let (header, root) = chosen;
    if counts.bands_reused > 0 {
        warnings.push(format!(
            "{} that checkpoint {} names used again since: it is older than what was served last, for it could not be \
             written any more",
            count(counts.bands_reused, "band"),
            header.checkpoint
        ));
    }
    if counts.later_unreadable > 0 {
        warnings.push(format!(
            "{}, or the place for it, cannot be read: what is named there, of after the checkpoint too, is not shown",
            count(counts.later_unreadable, "summary")
        ));
    }
    let mut report = AloneReport {
        superblock: superblock.clone(),
        checkpoint: header.checkpoint,
        epoch: header.epoch,
        read_bytes: 0,
        summaries: counts.summaries,
        summaries_absent: counts.summaries_absent,
        pages_damaged: counts.pages_damaged,
        disks_missing: root.disks_missing,
        disks: Vec::new(),
        warnings,
    };
    let mut map = Map::default();
    let mut disks = BTreeMap::new();
    // The pages of the map become slots of the pool; the extents of the devices lie behind these slots.
    let mut found: Vec<(&CapacityDisk, Vec<(u64, Leaf)>)> = Vec::new();
    for disk in &root.disks {
        found.push((disk, leaves.take_disk(disk)?));
    }
    let slots = found.iter().map(|(_, leaves)| leaves.len() as u64).sum::<u64>().max(1);
    let pool = with_slots(&superblock, slots)?;
    let sectors = pool.members[DEVICE].first_sector.wrapping_sub(superblock.members[DEVICE].first_sector);
    let shift = sectors.wrapping_mul(SECTOR_GRAINS);
    let mut live = vec![0u32; root.bands.len()];
    for (disk, leaves) in found {
        let (opened, left) = map.take_disk(disk, leaves, shift, &extents, &mut live);
        disks.insert(disk.id, opened);
        report.disks.push(left);
    }
    let used_bytes = map.bytes;
    devices.list[0] = Box::new(MemoryDevice::new(map.pages));
    report.read_bytes = devices.read_bytes - read_before;
    let table = ClassTable::from_configured(classes).unwrap_or_default();
    let memory_limit_bytes = options.memory_limit_bytes.saturating_sub(used_bytes);
    let bands = live.iter().map(|&valid| BandRoot { state: BandState::Closed, valid, ..BandRoot::default() });
    let mut engine = Parts {
        superblock: pool,
        names: devices.list.iter().map(|device| device.name().to_owned()).collect(),
        volatile: 0,
        copies: 1,
        variants: devices.variants(),
        flushed_behind: 0,
        unit_grains: devices.unit_grains(),
        discards: 0,
        options: EngineOptions { memory_limit_bytes, ..options },
        root: Root { next_disk: u16::MAX, bands: bands.collect(), ..Root::default() },
        disks,
        prism: Prism::new(table),
        leaves: 0,
        epoch: header.epoch,
        checkpoint: header.checkpoint,
        journal_head: (0, 1, root.next_sequence.max(1)),
    }
    .build();
    engine.migrate.pause_all(true);
    engine.set_read_only(&report.label());
    Ok((engine, report))
}

/// A root that is whole.
type Found = (CapacityHeader, CapacityRoot);

/// What was gathered of a checkpoint.
struct Gathered {
    leaves: Leaves,
    counts: Counts,
}

impl Gathered {
    fn gather(
        devices: &mut Devices,
        (superblock, extents, missing): (&Superblock, &Extents, &[usize]),
        (header, root): &Found,
        limit_bytes: u64,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Self, AloneError> {
        let index_bytes = |disk: &CapacityDisk| disk.size_bytes.div_ceil(INDEX_SPAN_BYTES) * INDEX_PAGE_BYTES;
        let mut leaves = Leaves::new(root, limit_bytes);
        leaves.memory.take(root.disks.iter().map(index_bytes).sum())?;
        let (extents, counts) = (extents.clone(), Counts::default());
        let (epoch, beside) = (header.epoch, capacity::summaries_beside(devices, superblock, header, root));
        let mut scan = Scan { devices, superblock, extents, root, beside, epoch, missing, progress, counts };
        scan.pages(&mut leaves)?;
        scan.bands(&mut leaves)?;
        let doubtful = leaves.doubtful();
        if !doubtful.is_empty() {
            let copies = scan.copies(&doubtful, &mut leaves)?;
            leaves.resolve(&doubtful, copies);
        }
        scan.twins(&mut leaves);
        scan.later(&mut leaves)?;
        let counts = scan.counts;
        Ok(Self { leaves, counts })
    }
}

fn older_is_shown(lost: u64, shown: u64) -> String {
    format!("checkpoint {lost} is damaged: what is shown is the one before, {shown}, and what came later than that")
}

fn check_members(devices: &Devices, members: &Present) -> Result<Vec<String>, AloneError> {
    if members.superblocks.first().is_some_and(Option::is_some) {
        let device = "the fast device of the pool".to_owned();
        let (is, configured) = (Role::Fast.name(), Role::Capacity.name());
        return Err(MemberError::Swapped { device, is, configured }.into());
    }
    let mut warnings: Vec<String> = members.unusable.iter().map(|(name, why)| format!("{name}: {why}")).collect();
    for number in members.missing().into_iter().filter(|&number| number != 0) {
        let device = members.describe(number);
        if number == DEVICE {
            let why = members.describe_unusable();
            return Err(AloneError::FirstDevice { device, why });
        }
        warnings.push(format!(
            "the {device} is missing: what lies on it cannot be read, and what reached it after the checkpoint is not known"
        ));
    }
    if !members.newest.capacity_area.exists() {
        return Err(AloneError::NoArea);
    }
    // The newest epoch of all members is that of the pool: an opening writes it to every device before it serves.
    let served = members.served_in();
    for (number, superblock) in members.superblocks.iter().enumerate() {
        if let (Some(superblock), Some(served)) = (superblock, served)
            && superblock.epoch < served
        {
            warnings.push(format!(
                "{} is stale: it was last opened in epoch {}, the pool was served in epoch {served}; it may be an old copy",
                devices.list[number].name(),
                superblock.epoch
            ));
        }
    }
    Ok(warnings)
}

/// The roots that are whole, the newest first.
fn whole_roots(devices: &mut Devices, members: &Present, warnings: &mut Vec<String>) -> Result<Vec<Found>, AloneError> {
    let (mut whole, mut damaged, mut is_any_absent): (Vec<Found>, Vec<u64>, bool) = (Vec::new(), Vec::new(), false);
    for found in read_capacity_roots(devices, DEVICE, &members.newest) {
        match found {
            capacity::Found::Root(header, root) => whole.push((header, root)),
            capacity::Found::Damaged(header) => damaged.push(header.checkpoint),
            capacity::Found::Nothing => is_any_absent = true,
        }
    }
    whole.sort_by_key(|(header, _)| std::cmp::Reverse(header.checkpoint));
    let Some((header, _)) = whole.first() else {
        let what = match damaged.iter().max() {
            Some(checkpoint) => format!("that of checkpoint {checkpoint} is damaged"),
            None => "there is no header".to_owned(),
        };
        return Err(AloneError::Root(what));
    };
    if let Some(lost) = damaged.into_iter().find(|&checkpoint| checkpoint > header.checkpoint) {
        warnings.push(older_is_shown(lost, header.checkpoint));
    } else if is_any_absent && header.checkpoint > 1 {
        warnings.push(format!(
            "beside checkpoint {} no other header can be read: where the one that is gone was newer, what is shown is the one before",
            header.checkpoint
        ));
    }
    // An opening that was cut short leaves its epoch behind but changes nothing, so only epochs in which the pool was served count.
    if let Some(served) = members.served_in().filter(|&served| served > header.epoch) {
        warnings.push(format!(
            "checkpoint {} is of epoch {}, and the pool was served in epoch {served} since: it is older than what was served last, \
             for it could not be written any more; what is shown may be older, too",
            header.checkpoint, header.epoch
        ));
    }
    Ok(whole)
}

/// The pool as it would be with `slots` slots on its fast tier.
fn with_slots(superblock: &Superblock, slots: u64) -> Result<Superblock, AloneError> {
    let mut pool = Superblock { slots, capacity_area: CapacityArea::default(), ..superblock.clone() };
    let mut next_sector = 0;
    for member in &mut pool.members {
        if member.role == Role::Fast {
            (member.sectors, member.data_offset_bytes) = ((slots + 1) * 8, 0);
        }
        member.first_sector = next_sector;
        next_sector += member.sectors;
    }
    if next_sector > SECTORS_MAX { Err(AloneError::Addresses) } else { Ok(pool) }
}

/// Pages of the map in memory.
#[derive(Default)]
struct Map {
    pages: Vec<LeafPage>,
    bytes: u64,
}

impl Map {
    /// Takes the leaves of a disk, and says what is left of it.
    fn take_disk(
        &mut self,
        disk: &CapacityDisk,
        leaves: Vec<(u64, Leaf)>,
        shift: u64,
        extents: &Extents,
        live: &mut [u32],
    ) -> (Disk, DiskReport) {
        let mut opened = Disk::new(DiskId(disk.id), disk.name.clone(), disk.size_bytes);
        opened.durable_bytes = disk.size_bytes;
        opened.base = disk.base;
        let mut report = DiskReport { name: disk.name.clone(), size_bytes: disk.size_bytes, ..DiskReport::default() };
        let mut references: BTreeMap<usize, Vec<PageRef>> = BTreeMap::new();
        for (number, leaf) in leaves {
            let first = number * LEAF_ENTRIES as u64;
            let blocks = opened.blocks().saturating_sub(first).min(LEAF_ENTRIES as u64) as usize;
            for at in 0..blocks {
                let block = first + at as u64;
                match leaf.shown(at) {
                    Shown::Nothing => {}
                    Shown::Gone => report.gone.add(block, 1),
                    Shown::Data => report.readable_blocks += 1,
                    Shown::Later => {
                        report.readable_blocks += 1;
                        report.later_blocks += 1;
                    }
                    Shown::MaybeOlder => {
                        report.readable_blocks += 1;
                        report.maybe_older.add(block, 1);
                    }
                }
            }
            let slot = self.pages.len() as u64;
            let mut page = leaf.into_page(blocks);
            let crc = if page.is_empty() {
                self.pages.push(LeafPage::Damaged(opened.id, number));
                damaged_leaf(opened.id, number).1
            } else {
                leaves::shift_locations(&mut page, shift, |span| {
                    if let Some((band, _)) = extents.band(span.location) {
                        live[band as usize] = live[band as usize].saturating_add(u32::from(span.grains));
                    }
                });
                let crc = seal_leaf(&mut page, PageName { disk: opened.id, number, generation: 0 });
                self.bytes += page.len() as u64;
                self.pages.push(LeafPage::Page(page.into_boxed_slice()));
                crc
            };
            self.bytes += size_of::<LeafPage>() as u64;
            let (index, at) = Disk::place_of(number);
            let list = references.entry(index).or_default();
            if list.len() <= at {
                list.resize(at + 1, PageRef::default());
            }
            list[at] = PageRef { location: (slot + 1) * BLOCK_GRAINS, stageable: 0, crc, generation: 0 };
        }
        for (index, list) in references {
            if let Some(slot) = opened.pages.get_mut(index) {
                *slot = Some(Box::new(IndexPage::new(list, PageRef::default())));
            }
        }
        (opened, report)
    }
}
