//! The summaries that say whose blocks lie in a band. A summary goes behind the data of its group, in the same request
//! where the data ends the group, or by itself. And the trims that wait for summaries.

use super::append::Append;
use super::flush::Covered;
use super::outbox::{Outbox, Pending};
use super::setup::Setup;
use crate::layout::band_summary;
use crate::layout::page::{BLOCK_GRAINS, PAGE_BYTES};
use crate::space::bands::Bands;
use crate::space::groups::GroupKey;
use forebay_block::{Buf, Op, SharedBuf, Vectored};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Summaries sent at once where they go by themselves.
const ALONE_AT_ONCE: usize = 64;
/// Wait after a summary could not be written.
const RETRY_NS: u64 = 1_000_000_000;
/// Most places of summaries that are remembered because they took no write.
const ALONE_MAX: usize = 256;
/// Time between attempts at a summary whose entries the root has.
const KEPT_RETRY_NS: u64 = 60_000_000_000;

/// State of writing summaries.
pub(crate) struct Summaries {
    setup: Arc<Setup>,
    /// Epoch of the journal, in every summary.
    epoch: u64,
    /// Some groups are complete and their summaries not written.
    is_due: bool,
    /// Time before which no summary is written by itself, after one failed.
    not_before_ns: u64,
    /// The same for summaries whose entries the root has.
    kept_not_before_ns: u64,
    /// Bands to be trimmed once no summary of theirs is in flight.
    trims_waiting: Vec<u32>,
    /// Bands whose trim has begun and not ended, the waiting ones among them.
    trimming: BTreeSet<u32>,
    /// Groups whose place for a summary took no write the last time, whatever the band held then: data is not sent together with such summaries.
    alone: BTreeSet<GroupKey>,
}

impl Summaries {
    /// Summaries of groups that recovery found complete are due.
    pub fn new(setup: Arc<Setup>, epoch: u64) -> Self {
        Self {
            setup,
            epoch,
            is_due: true,
            not_before_ns: 0,
            kept_not_before_ns: 0,
            trims_waiting: Vec::new(),
            trimming: BTreeSet::new(),
            alone: BTreeSet::new(),
        }
    }

    /// A flush made durable the summaries that it covered.
    pub fn flushed(&self, covered: Covered, bands: &mut Bands) {
        let is_flushed = |band| self.device(band).is_none_or(|device| covered.devices & 1 << device != 0);
        bands.groups_mut().flushed(covered.summaries, is_flushed);
    }

    /// A flush failed: summaries that no good flush covered are written again, from memory.
    pub fn doubt_unflushed(&mut self, bands: &mut Bands) {
        bands.groups_mut().doubt_unflushed();
        self.is_due |= bands.groups().due_count() > 0;
    }

    /// Devices that are to be flushed because there are too many summaries in their caches.
    pub fn crowded_devices(&self, bands: &Bands) -> Option<u32> {
        let crowded = bands.groups().crowded()?;
        Some(crowded.filter_map(|band| self.device(band)).fold(0, |all, device| all | 1 << device))
    }

    fn device(&self, band: u32) -> Option<usize> {
        self.setup.extents.place(self.setup.extents.band_location(band, 0)).map(|(device, _)| device)
    }

    /// Whether groups are complete and their summaries not written.
    pub fn is_due(&self) -> bool {
        self.is_due
    }

    /// Space in bands was allocated: that may have completed groups.
    pub fn granted(&mut self, bands: &Bands) {
        self.is_due |= bands.groups().due_count() > 0;
    }

    /// Puts the summary behind appended data that completes its group: `blocks` from `location` on, all noted.
    pub fn append(&self, append: &mut Append, bands: &mut Bands, location: u64, blocks: u32) {
        let Some((band, block)) = self.setup.extents.band(location) else { return };
        let group = bands.shape().group_of(block);
        // Before the last block is noted the summary would say too little.
        if Some(block + blocks) == bands.groups().granted_to((band, group))
            && block + blocks == self.first_block(bands, (band, group))
            && !self.alone.contains(&(band, group))
            && let Some(pages) = self.begin(bands, (band, group))
        {
            append.push(pages);
            append.groups.push((band, group));
        }
    }

    /// The first block that is written of a group's summary: the first of its pages; or, where the device protects rows of blocks together, the block behind
    /// the data, as a block that is left out would have no parity.
    fn first_block(&self, bands: &Bands, key: GroupKey) -> u32 {
        let (shape, entries) = (bands.shape(), bands.groups().entries(key).unwrap_or_default());
        let pages = shape.data_end(key.1, entries.len());
        if self.setup.variants == 0 {
            return pages;
        }
        let noted = || entries.iter().map(|entry| u32::from(entry.grains)).sum::<u32>().div_ceil(BLOCK_GRAINS as u32);
        let end = bands.groups().granted_to(key).unwrap_or_else(|| shape.first_block(key.1) + noted());
        pages.min(end)
    }

    /// Begins the summary of a group that is due. Returns its bytes, from `first_block` on.
    fn begin(&self, bands: &mut Bands, key: GroupKey) -> Option<SharedBuf> {
        let first = self.first_block(bands, key);
        let end = bands.shape().summary_block(key.1) + 1;
        let (name, entries) = bands.begin_summary(key)?;
        let pages = band_summary::encode(&self.setup.superblock.pool, name, self.epoch, entries);
        let mut bytes = Buf::zeroed((end - first) as usize * PAGE_BYTES);
        let from = bytes.len().saturating_sub(pages.len());
        bytes[from..].copy_from_slice(&pages);
        Some(bytes.freeze())
    }

    /// Lets a summary that failed be tried again at once.
    pub fn allow_retry(&mut self) {
        self.not_before_ns = 0;
    }

    /// Writes summaries of complete groups that were not sent with data, or did not arrive with it.
    pub fn write(&mut self, bands: &mut Bands, outbox: &mut Outbox, now_ns: u64) {
        if now_ns < self.not_before_ns {
            return;
        }
        self.is_due = false;
        self.send(bands.groups().due(ALONE_AT_ONCE), bands, outbox);
    }

    /// Tries again, from time to time, to write summaries whose entries the root has: the device may take them by now.
    pub fn retry_kept(&mut self, bands: &mut Bands, outbox: &mut Outbox, now_ns: u64) {
        if now_ns >= self.kept_not_before_ns {
            self.kept_not_before_ns = now_ns.saturating_add(KEPT_RETRY_NS);
            self.send(bands.groups().kept_due(), bands, outbox);
        }
    }

    fn send(&self, keys: Vec<GroupKey>, bands: &mut Bands, outbox: &mut Outbox) {
        for (band, group) in keys {
            let location = self.setup.extents.band_location(band, self.first_block(bands, (band, group)));
            let Some((device, offset_bytes)) = self.setup.extents.place(location) else { continue };
            let Some(pages) = self.begin(bands, (band, group)) else { continue };
            let op = Op::Write { bufs: Vectored::One(pages), fua: false };
            let hint = bands.get(band).stream.hint();
            outbox.send(device, offset_bytes, hint, op, Pending::Summary { device, key: (band, group) });
        }
    }

    /// A summary sent by itself could not be written: it stays in memory and is written again.
    pub fn failed(&mut self, now_ns: u64) {
        self.not_before_ns = now_ns.saturating_add(RETRY_NS);
    }

    /// A request with summaries ended. Those that did not arrive with their data are sent by themselves.
    pub fn written(&mut self, groups: &[GroupKey], is_good: bool, bands: &mut Bands, outbox: &mut Outbox) {
        if groups.is_empty() {
            return;
        }
        for &key in groups {
            let is_volatile = self.device(key.0).is_some_and(|device| self.setup.volatile & 1 << device != 0);
            bands.groups_mut().written(key, is_good, is_volatile);
            match is_good {
                true => _ = self.alone.remove(&key),
                false if self.alone.len() < ALONE_MAX => _ = self.alone.insert(key),
                false => {}
            }
        }
        self.is_due |= bands.groups().due_count() > 0;
        for band in std::mem::take(&mut self.trims_waiting) {
            self.begin_trim(band, bands, outbox);
        }
    }

    /// Trims a freed band; when that has ended the band may be opened again. A band that is not empty is in use again, and one that is being trimmed is not
    /// trimmed twice.
    pub fn trim(&mut self, band: u32, bands: &mut Bands, outbox: &mut Outbox) {
        if bands.is_empty_closed(band) && self.trimming.insert(band) {
            self.begin_trim(band, bands, outbox);
        }
    }

    fn begin_trim(&mut self, band: u32, bands: &mut Bands, outbox: &mut Outbox) {
        let location = self.setup.extents.band_location(band, 0);
        // A summary that was written later would go into a band that belongs to others by then.
        bands.groups_mut().forget(band);
        if bands.groups().is_in_flight(band) {
            self.trims_waiting.push(band);
            return;
        }
        match self.setup.extents.place(location) {
            Some((device, offset_bytes)) if self.setup.discards & 1 << device != 0 => {
                let op = Op::Discard { len_bytes: self.setup.superblock.band_bytes };
                outbox.send(device, offset_bytes, 0, op, Pending::Trim { band });
            }
            _ => self.trimmed(band, bands),
        }
    }

    /// A band was trimmed: it may be opened again.
    pub fn trimmed(&mut self, band: u32, bands: &mut Bands) {
        self.trimming.remove(&band);
        bands.release(band);
    }

    /// Bands whose trim has begun and not ended: nothing in them is needed, and they cannot be opened yet.
    pub fn trimming(&self) -> &BTreeSet<u32> {
        &self.trimming
    }
}
