//! Builds an engine from a root, and shares out its memory.

use super::adoption::Adoption;
use super::checkpoint::Checkpoint;
use super::clock::Clock;
use super::copies::{self, CacheLimits};
use super::flush::Flushes;
use super::lifetimes::Lifetimes;
use super::limits::{DIRTY_PARTS, GROUP_BYTES, LeafLimits, Limits, ahead_groups, job_blocks_max};
use super::map::Map;
use super::migrate::BYTES_PER_PAGE;
use super::outbox::Outbox;
use super::packing::Packing;
use super::place::Bypass;
use super::requests::{Ahead, Requests};
use super::rewrite::Rewriter;
use super::scrub::Scrub;
use super::setup::Setup;
use super::space::Space;
use super::statistics::Statistics;
use super::staying::{self, Staying};
use super::summaries::Summaries;
use super::watermark::WatermarkWriter;
use super::{Engine, EngineOptions};
use crate::journal::{Journal, JournalGeometry};
use crate::layout::capacity_root::pages_of_disk;
use crate::layout::root::Root;
use crate::layout::superblock::Superblock;
use crate::map::index::{Disk, INDEX_SPAN_BYTES, index_memory_bytes};
use crate::map::tiers;
use crate::space::bands::Bands;
use crate::space::extents::Extents;
use crate::space::groups::ENTRIES_MEMORY_BYTES;
use crate::space::slots::Slots;
use forebay_prism::Prism;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a server needs beside the map, in bytes: program, stacks, connections and buffers in flight.
const BASE_MEMORY_BYTES: u64 = 28 << 20;
/// A frame with its bookkeeping. Two frames of five may be dirty and have their tiers noted.
const FRAME_BYTES: u64 = 4096 + 160 + tiers::BYTES_PER_LEAF * 2 / 5;
/// Fewest frames with which every kind of work can go on.
const FRAMES_MIN: u64 = 64;

/// What an engine is built from.
pub struct Parts {
    /// Layout and identity.
    pub superblock: Superblock,
    /// Device names for messages.
    pub names: Vec<String>,
    /// Devices with a volatile cache, one bit each.
    pub volatile: u32,
    /// Copies that the fast device has of everything: the members of its mirror.
    pub copies: u8,
    /// In how many other ways the data of the capacity device can be read: several with parity.
    pub variants: u8,
    /// Devices with a volatile cache that the system flushes behind a durable write, one bit each.
    pub flushed_behind: u32,
    /// The unit in which all capacity devices can be read, in grains.
    pub unit_grains: u64,
    /// Devices that take discards, one bit each.
    pub discards: u32,
    /// Settings.
    pub options: EngineOptions,
    /// State to start from.
    pub root: Root,
    /// Disks, with their index pages.
    pub disks: BTreeMap<u16, Disk>,
    /// Classifier.
    pub prism: Prism,
    /// Leaves that recovery is about to need at once.
    pub leaves: usize,
    /// Epoch of the journal to be written.
    pub epoch: u64,
    /// Number of the last durable checkpoint.
    pub checkpoint: u64,
    /// Where the journal goes on: (position, batch, sequence).
    pub journal_head: (u64, u64, u64),
}

/// Least memory that a pool needs with these disks, in bytes.
#[must_use]
pub fn memory_needed_bytes(superblock: &Superblock, extents: &Extents, disk_sizes: impl Iterator<Item = u64>) -> u64 {
    memory_fixed_bytes(superblock, extents, disk_sizes) + FRAMES_MIN * FRAME_BYTES
}

fn memory_fixed_bytes(superblock: &Superblock, extents: &Extents, disk_sizes: impl Iterator<Item = u64>) -> u64 {
    let (mut index, mut index_pages, mut tier_pages) = (0, 0, 0);
    for size_bytes in disk_sizes {
        index += index_memory_bytes(size_bytes);
        index_pages += size_bytes.div_ceil(INDEX_SPAN_BYTES);
        tier_pages += pages_of_disk(size_bytes);
    }
    let bands = u64::from(extents.bands());
    // Bitmap, its shadow, and the encoded root, twice while it is cut into buffers.
    let tables = 4 * superblock.slots / 8 + (4 * 32 + 2 * 8) * bands;
    let tier_pages = tier_pages.min(u64::from(superblock.capacity_area.pages)) * tiers::BYTES_PER_PAGE;
    // The queue of leaves with staged blocks, by age.
    let queue = BYTES_PER_PAGE * index_pages.min(superblock.slots);
    BASE_MEMORY_BYTES + index + tables + ENTRIES_MEMORY_BYTES + queue + tier_pages
}

/// Memory that the tables leave, whose size depends on the pool's, in bytes.
fn memory_left_bytes(
    options: &EngineOptions,
    superblock: &Superblock,
    extents: &Extents,
    disk_sizes: impl Iterator<Item = u64>,
) -> u64 {
    options.memory_limit_bytes.saturating_sub(memory_fixed_bytes(superblock, extents, disk_sizes))
}

/// The memory of which all but the map get their shares, in bytes: the limit or, where tables leave little of it, twice what they leave. The map needs more of
/// it then: with few frames a checkpoint would follow every few writes.
fn shared_bytes(options: &EngineOptions, left_bytes: u64) -> u64 {
    match options.frames {
        Some(_) => options.memory_limit_bytes,
        None => options.memory_limit_bytes.min(2 * left_bytes),
    }
}

/// Memory for all but tables and map, with so much to be shared out, in bytes.
fn beside_bytes(options: &EngineOptions, shared_bytes: u64, cache: &CacheLimits) -> u64 {
    // Jobs hold their blocks, and what was read between these.
    let jobs = (u64::from(options.job_blocks) * 4096 * 2).min(shared_bytes / 16);
    let ahead = ahead_groups(shared_bytes) as u64 * GROUP_BYTES;
    jobs + ahead + staying::memory_bytes(shared_bytes) + cache.memory_bytes()
}

/// Leaves of the map that fit into memory beside all else, which takes `beside_bytes`.
pub(super) fn frames(
    options: &EngineOptions,
    superblock: &Superblock,
    extents: &Extents,
    disk_sizes: impl Iterator<Item = u64>,
    beside_bytes: u64,
) -> usize {
    let left_bytes = memory_left_bytes(options, superblock, extents, disk_sizes).saturating_sub(beside_bytes);
    options.frames.unwrap_or((left_bytes / FRAME_BYTES).max(FRAMES_MIN) as usize)
}

/// Share of the capacity tier that disks of these sizes leave to garbage, within the range for which policies of lifetime groups are made.
fn spare_share(disk_sizes: impl Iterator<Item = u64>, capacity_bytes: u64) -> f64 {
    let disks: u64 = disk_sizes.sum();
    (1.0 - disks as f64 / capacity_bytes.max(1) as f64).clamp(0.05, 0.5)
}

impl Parts {
    /// Builds an engine that serves from these parts.
    #[must_use]
    pub fn build(self) -> Engine {
        let Self {
            superblock,
            names,
            volatile,
            copies,
            variants,
            flushed_behind,
            unit_grains,
            discards,
            mut options,
            root,
            disks,
            prism,
            leaves,
            epoch,
            checkpoint,
            ..
        } = self;
        let extents = Extents::new(&superblock.members, superblock.band_bytes);
        let sizes = || disks.values().map(|disk| disk.size_bytes);
        let left_bytes = memory_left_bytes(&options, &superblock, &extents, sizes());
        let shared_bytes = shared_bytes(&options, left_bytes);
        options.job_blocks = options.job_blocks.min(job_blocks_max(shared_bytes));
        let mut cache = CacheLimits::new(&options, shared_bytes, superblock.slots, prism.table());
        let beside = beside_bytes(&options, shared_bytes, &cache);
        let lacking_bytes = match options.frames {
            Some(frames) => (leaves as u64).saturating_sub(frames as u64) * FRAME_BYTES,
            None => (beside + FRAMES_MIN.max(leaves as u64) * FRAME_BYTES).saturating_sub(left_bytes),
        };
        if lacking_bytes > 0 {
            // The journal may have been written while the read cache was smaller, as classes got copies since: until the next start it is so again. Or there is
            // little memory.
            cache = cache.without(lacking_bytes);
        }
        let beside_bytes = beside_bytes(&options, shared_bytes, &cache);
        let frames = frames(&options, &superblock, &extents, sizes(), beside_bytes);
        let ahead = ahead_groups(shared_bytes);
        let geometry = JournalGeometry {
            offset_bytes: superblock.journal_offset_bytes,
            len_bytes: superblock.journal_len_bytes,
            sector_bytes: u64::from(superblock.journal_sector_bytes),
        };
        let (position, batch, sequence) = self.journal_head;
        let mut journal = Journal::new(geometry, superblock.pool, epoch, position, batch, sequence);
        journal.checkpoint = checkpoint;
        let leaves = LeafLimits::within(frames, DIRTY_PARTS[0], &options, &superblock);
        let limits = Limits::new(&options, &leaves, superblock.journal_len_bytes);
        let setup = Arc::new(Setup {
            options,
            limits,
            superblock,
            extents,
            names,
            volatile,
            copies,
            variants,
            cache,
            beside_bytes,
            flushed_behind,
            unit_grains,
            discards,
        });
        let checkpoint = Checkpoint::new(&setup, frames, checkpoint, &root);
        let slots = Slots::from_words(root.slots, setup.superblock.slots);
        let unwritten = root.unwritten_groups.into_iter().map(|group| (group.band, group.group, group.entries));
        let groups = root.open_groups.into_iter().chain(unwritten).collect();
        let bands = Bands::new(root.bands, groups, root.band_clock, setup.superblock.band_bytes, &setup.extents);
        let stats = Statistics::new(root.stats, root.saved_bytes, prism.table().classes().len());
        let spare =
            spare_share(disks.values().map(|disk| disk.size_bytes), bands.count() as u64 * setup.superblock.band_bytes);
        let lifetimes = Lifetimes::new(
            setup.options.grouping,
            (u64::from(bands.data_blocks()), spare),
            (sequence, bands.clock()),
            stats.written_blocks(),
        );
        let mut engine = Engine {
            outbox: Outbox::default(),
            clock: Clock::default(),
            stats,
            prism,
            map: Map::new(setup.clone(), disks, root.next_disk.max(1), frames),
            space: Space::new(setup.clone(), slots, bands, lifetimes),
            summaries: Summaries::new(setup.clone(), epoch),
            bypass: Bypass::default(),
            staying: Staying::new(&setup, shared_bytes),
            scrub: Scrub::new(root.scrub, setup.options.scrub_bytes_per_s),
            bases: Default::default(),
            adoption: Adoption::new(setup.options.adoption_bytes_per_s),
            packing: Packing::default(),
            journal,
            flushes: Flushes::new(setup.clone()),
            rewriter: Rewriter::new(setup.clone()),
            watermark: WatermarkWriter::new(setup.clone()),
            checkpoint,
            migrate: Default::default(),
            requests: Requests::new(Ahead::new(ahead)),
            copies: copies::Copies::new(setup.options.fill_bytes_per_s),
            read_only: None,
            setup,
        };
        engine.migrate.ages.enqueue_all(&engine.map);
        let slots = &engine.space.slots;
        engine.checkpoint.begin_with_slots(slots.free(), slots.total());
        engine.checkpoint.index_room.count(&mut engine.map);
        engine.reserve_for_map();
        engine.prepare_copies();
        engine.begin_wear();
        engine.prism.set_disks(&engine.map.disk_names());
        engine
    }
}
