//! Offline verification: every structure, every reference, every checksum. Nothing is written to the devices: the
//! journal is replayed into memory.

use crate::engine::{Engine, EngineOptions};
use crate::io::Devices;
use crate::layout::band_summary::{self, Summary, SummaryEntry, SummaryName};
use crate::layout::packed::{Packer, is_stored};
use crate::layout::page::{BLOCK_GRAINS, Entry, LEAF_ENTRIES, PAGE_BYTES, PageName, Span, Window, is_leaf, leaf_entry};
use crate::layout::root::BandState;
use crate::map::index::NO_FRAME;
use crate::overlay::Overlay;
use crate::readings::Reading;
use crate::recovery::{OpenError, RecoveryReport, open};
use crate::space::slots::Slots;
use crate::spare_copies;
use forebay_block::figures::count;
use forebay_block::{Buf, DiskId, IoError, IoErrorKind, Op};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Blocks read at once.
const BATCH_BLOCKS: usize = 256;

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Where: device, disk and offset, or structure.
    pub place: String,
    /// What is wrong.
    pub what: String,
}

/// What was looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifySummary {
    /// Map leaves read.
    pub leaves: u64,
    /// Data blocks whose checksum was compared.
    pub blocks: u64,
    /// Band summaries read.
    pub summaries: u64,
    /// Blocks that live in bands and were compared with no parity, as so many members are missing that none is to spare.
    pub uncompared_blocks: u64,
    /// Findings reported.
    pub findings: u64,
    /// What replaying the journal (in memory) did.
    pub recovery: RecoveryReport,
}

struct Check<'a> {
    devices: &'a mut Devices,
    engine: &'a Engine,
    report: &'a mut dyn FnMut(Finding),
    summary: VerifySummary,
    named: Slots,
    /// What lives in each band, by its first grain there.
    bands: BTreeMap<u32, BTreeMap<u32, Lives>>,
    packer: Packer,
}

/// A block in a band: how long, and whose.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Lives {
    grains: u8,
    owner: (DiskId, u64),
}

/// What is wrong with a block that was read with its surroundings; `None` where it is right.
pub(crate) fn fault(
    (disk, block): (DiskId, u64),
    (span, window): (Span, Window),
    checksum: u32,
    read: Result<&[u8], &IoError>,
    packer: &mut Packer,
) -> Option<String> {
    let bytes = match read {
        Ok(bytes) => bytes,
        Err(error) => return Some(error.to_string()),
    };
    let stored = window.stored(span, bytes).filter(|stored| is_stored(disk, block, stored, checksum));
    match stored {
        None => Some("data does not match its checksum".to_owned()),
        Some(stored) if span.is_whole() || packer.unpack(stored, &mut [0; 4096]) => None,
        Some(_) => Some("data matches its checksum and cannot be decompressed".to_owned()),
    }
}

impl Check<'_> {
    fn finding(&mut self, place: String, what: String) {
        self.summary.findings += 1;
        (self.report)(Finding { place, what });
    }

    /// Notes that a fast location is named; a second name is a finding.
    fn name_slot(&mut self, location: u64, place: &str) {
        let slot = self.engine.setup.extents.slot(location);
        if !self.named.set(slot) {
            self.finding(place.to_owned(), format!("slot {slot} is named twice, or does not exist"));
        }
        if !self.engine.space.slots.is_used(slot) {
            self.finding(place.to_owned(), format!("slot {slot} is named but marked free"));
        }
    }

    fn disks(&mut self) {
        for disk in self.engine.disks() {
            for page in disk.pages.iter().flatten().filter(|page| page.reference.location != 0) {
                self.name_slot(page.reference.location, &format!("index of disk {}", disk.name));
            }
            let mut next = disk.next_leaf(0);
            while let Some(leaf) = next {
                self.leaf(disk.id, &disk.name, leaf);
                next = disk.next_leaf(leaf + 1);
            }
        }
    }

    fn leaf(&mut self, disk: DiskId, name: &str, leaf: u64) {
        let Some((reference, frame)) = self.engine.map.disk(disk).map(|d| d.leaf(leaf)) else { return };
        let place = format!("map leaf {leaf} of disk {name}");
        if reference.location != 0 {
            self.name_slot(reference.location, &place);
        }
        let page = if frame != NO_FRAME {
            Buf::copy_of(&self.engine.map.frames.get(frame).page)
        } else {
            let Some((device, offset_bytes)) = self.engine.setup.extents.place(reference.location) else { return };
            let page_name = PageName { disk, number: leaf, generation: reference.generation };
            match self.devices.read(device, offset_bytes, PAGE_BYTES) {
                Ok(page) if is_leaf(&page, page_name, reference.crc) => page,
                Ok(_) => return self.finding(place, "does not match its parent's checksum".to_owned()),
                Err(error) => return self.finding(place, error.to_string()),
            }
        };
        self.summary.leaves += 1;
        let mut wanted = Vec::new();
        for i in 0..LEAF_ENTRIES {
            let block = leaf * LEAF_ENTRIES as u64 + i as u64;
            match leaf_entry(&page, i) {
                (Entry::Unmapped | Entry::Zero, _) => {}
                (Entry::Damaged, _) => {
                    let place = format!("disk {name}, byte {}", block * 4096);
                    self.finding(place, "is marked damaged: reads fail until it is overwritten".to_owned());
                }
                (Entry::Data { span, .. }, checksum) => wanted.push((block, span, checksum)),
            }
        }
        for group in wanted.chunks(BATCH_BLOCKS) {
            self.data(disk, name, group);
        }
    }

    fn data(&mut self, disk: DiskId, name: &str, blocks: &[(u64, Span, u32)]) {
        let (mut places, mut known) = (Vec::new(), Vec::new());
        for &(block, span, checksum) in blocks {
            let (place, location) = (format!("disk {name}, byte {}", block * 4096), span.location);
            if self.engine.setup.extents.is_fast(location) {
                self.name_slot(location, &place);
            } else if let Some((band, at)) = self.engine.setup.extents.band_grain(location) {
                let lives = Lives { grains: span.grains, owner: (disk, block) };
                let all = self.bands.entry(band).or_default();
                let begins_within = all.range(at..at + u32::from(span.grains)).next().is_some();
                let before = all.range(..at).next_back();
                if begins_within || before.is_some_and(|(begin, lives)| begin + u32::from(lives.grains) > at) {
                    self.finding(place.clone(), format!("grain {at} of band {band} is named twice"));
                }
                self.bands.entry(band).or_default().insert(at, lives);
                if self.engine.space.bands.get(band).state == BandState::Free {
                    self.finding(place.clone(), format!("lies in band {band}, which is marked free"));
                }
            }
            let around = Window::of(span, self.devices.unit_grains());
            let Some((device, offset_bytes)) = self.engine.setup.extents.place(around.first) else {
                self.finding(place, format!("is mapped to grain {location}, outside the pool"));
                continue;
            };
            places.push((device, offset_bytes, around.len_bytes));
            known.push((block, (span, around), checksum, place));
        }
        let mut faults: Vec<Option<String>> = places.iter().map(|_| None).collect();
        let is_good = |at: usize, bytes: &[u8]| {
            let (block, place, checksum, _) = &known[at];
            let found = fault((disk, *block), *place, *checksum, Ok(bytes), &mut self.packer);
            let is_good = found.is_none();
            faults[at] = faults[at].take().or(found);
            is_good
        };
        let read = self.devices.read_each_good(&places, is_good);
        for (((.., place), fault), reading) in known.into_iter().zip(faults).zip(read) {
            self.summary.blocks += 1;
            match (reading, fault) {
                (Reading::Failed(error), _) => self.finding(place, error.to_string()),
                (Reading::Good(_), Some(what)) => {
                    self.finding(place, format!("{what}; read in another way it is what it should be"));
                }
                (Reading::Bad(_), Some(what)) => self.finding(place, what),
                (_, None) => {}
            }
        }
    }

    fn slots(&mut self) {
        self.engine.slots_of_copies().for_each(|slot| {
            self.named.set(slot);
        });
        let leaked: Vec<u64> = (0..self.engine.space.slots.total())
            .filter(|&slot| self.engine.space.slots.is_used(slot) && !self.named.is_used(slot))
            .collect();
        if let (Some(first), Some(last)) = (leaked.first(), leaked.last()) {
            let what = format!("{} between {first} and {last} in use by nothing", count(leaked.len() as u64, "slot"));
            self.finding("fast tier".to_owned(), what);
        }
    }

    fn all_bands(&mut self) {
        for number in 0..self.engine.space.bands.count() as u32 {
            let band = self.engine.space.bands.get(number);
            let live = self.bands.remove(&number).unwrap_or_default();
            let place = format!("band {number}");
            let grains: u64 = live.values().map(|lives| u64::from(lives.grains)).sum();
            if grains != u64::from(band.valid) && band.state != BandState::Free {
                let what = format!("holds {grains} live grains of 32 bytes, its count says {}", band.valid);
                self.finding(place.clone(), what);
            }
            if live.is_empty() {
                continue;
            }
            self.parity(number, &live);
            let mut owners: BTreeMap<u32, Lives> = BTreeMap::new();
            let (shape, block_grains) = (self.engine.space.bands.shape(), BLOCK_GRAINS as u32);
            let groups: BTreeSet<u32> = live.keys().map(|&at| shape.group_of(at / block_grains)).collect();
            for group in groups {
                let Some(entries) = self.entries(number, group, band.generation) else {
                    let what =
                        format!("the summary of its group {group} is damaged: what lives there cannot be collected");
                    self.finding(place.clone(), what);
                    continue;
                };
                self.summary.summaries += 1;
                let first = shape.first_block(group) * block_grains;
                for (at, entry) in band_summary::placed(&entries) {
                    owners.insert(first + at, Lives { grains: entry.span(0).grains, owner: (entry.disk, entry.block) });
                }
                for (at, lives) in live.range(first..shape.summary_block(group) * block_grains) {
                    if owners.get(at) != Some(lives) {
                        let (disk, block) = (lives.owner.0.0, lives.owner.1);
                        let what =
                            format!("grain {at} belongs to disk {disk} block {block}, its summary says otherwise");
                        self.finding(place.clone(), what);
                    }
                }
            }
        }
    }

    /// Compares what lives in a band with its parity, where the capacity device has any. Rows in which nothing lives may be torn.
    fn parity(&mut self, band: u32, live: &BTreeMap<u32, Lives>) {
        // After a power cut, what the opening has written again lies only in memory here: parity on the devices does not fit it.
        if self.engine.setup.variants == 0 || !self.summary.recovery.clean {
            return;
        }
        let mut runs: Vec<Range<u32>> = Vec::new();
        for (&at, lives) in live {
            let (first, end) = (at / BLOCK_GRAINS as u32, (at + u32::from(lives.grains)).div_ceil(BLOCK_GRAINS as u32));
            match runs.last_mut() {
                Some(run) if first <= run.end && end - run.start <= BATCH_BLOCKS as u32 => run.end = end.max(run.end),
                _ => runs.push(first..end),
            }
        }
        for run in runs {
            let location = self.engine.setup.extents.band_location(band, run.start);
            let Some((device, offset_bytes)) = self.engine.setup.extents.place(location) else { continue };
            let len_bytes = run.len() * PAGE_BYTES;
            let Err(error) = self.devices.read_copy(device, offset_bytes, len_bytes, Op::COMPARE) else { continue };
            let blocks = format!("blocks {} to {}", run.start, run.end - 1);
            let what = match error.kind {
                IoErrorKind::Unsupported => {
                    self.summary.uncompared_blocks += run.len() as u64;
                    continue;
                }
                IoErrorKind::Mismatch => format!(
                    "of {blocks} some have a parity of something else, from byte {} of the tier on: a device that is lost could not be \
                     made up for there; `forebay scrub` moves what lives in the band",
                    error.offset_bytes
                ),
                // Data that was read may have been computed from the others.
                _ => format!("of {blocks} some cannot be compared with their parity: {error}"),
            };
            self.finding(format!("band {band}"), what);
        }
    }

    /// The entries of a group.
    fn entries(&mut self, band: u32, group: u32, generation: u32) -> Option<Vec<SummaryEntry>> {
        if let Some(entries) = self.engine.space.bands.groups().entries((band, group)) {
            return Some(entries.to_vec());
        }
        let shape = self.engine.space.bands.shape();
        let name = SummaryName { band, group, generation };
        let pool = &self.engine.setup.superblock.pool;
        let decode = |bytes: &[u8]| band_summary::decode(pool, name, shape.group_grains(group), bytes);
        let mut read = |pages: u32| {
            let location = self.engine.setup.extents.band_location(band, shape.summary_begin(group, pages));
            let (device, offset_bytes) = self.engine.setup.extents.place(location)?;
            let is_good = |bytes: &[u8]| decode(bytes).is_some();
            let bytes = self.devices.read_good(device, offset_bytes, pages as usize * PAGE_BYTES, is_good);
            decode(&bytes.ok()??)
        };
        match read(1)? {
            Summary::Longer { pages, .. } => read(pages)?.whole(),
            found => found.whole(),
        }
    }
}

/// Verifies a pool that is not being served. `fast`: how many devices, from the front, are configured as fast.
///
/// # Errors
/// Where the pool cannot be opened at all: that is a finding too, the most important one.
pub fn verify(
    devices: &mut Devices,
    fast: usize,
    options: EngineOptions,
    report: &mut dyn FnMut(Finding),
) -> Result<VerifySummary, OpenError> {
    let mut bad_copies = spare_copies::superblocks(devices);
    let headers = spare_copies::root_headers(devices);
    bad_copies.extend(spare_copies::capacity_side(devices));
    bad_copies.extend(spare_copies::watermarks(devices));
    Overlay::over_all(devices);
    let opened = open(devices, fast, &[], options);
    // After a power cut one copy may be torn, which the next opening mends.
    bad_copies.extend(headers.into_iter().filter(|_| opened.as_ref().is_ok_and(|(_, recovery)| recovery.clean)));
    let findings = bad_copies.len() as u64;
    bad_copies.into_iter().for_each(|(place, what)| report(Finding { place, what }));
    let (engine, recovery) = opened?;
    let named = Slots::from_words(Vec::new(), engine.space.slots.total());
    let summary = VerifySummary { findings, recovery, ..VerifySummary::default() };
    let mut check =
        Check { devices, engine: &engine, report, summary, named, bands: BTreeMap::new(), packer: Packer::default() };
    check.disks();
    check.slots();
    check.all_bands();
    Ok(check.summary)
}
