//! Data on its way to bands, and the summaries that say who it was: behind the data of their group, in the same request
//! where that ends it.

use super::{Engine, Pending};
use crate::layout::band_summary::{self, SummaryEntry};
use crate::space::bands::{GroupKey, stream_hint};
use forebay_block::{Buf, IoError, Op, SharedBuf, Vectored};
use smallvec::SmallVec;

/// Groups whose summary goes with a request.
pub(crate) type Groups = SmallVec<[GroupKey; 1]>;

/// Summaries sent at once where they go by themselves.
const ALONE_AT_ONCE: usize = 64;
/// Wait after a summary that could not be written.
const RETRY_NS: u64 = 1_000_000_000;

/// Data for one place of a device, and the summaries between and behind it.
#[derive(Debug)]
pub(crate) struct Append {
    pub device: usize,
    pub offset_bytes: u64,
    /// Stream hint for the device.
    pub hint: u8,
    /// Past the device's cache.
    fua: bool,
    /// Mostly one: then nothing is allocated.
    bufs: SmallVec<[SharedBuf; 1]>,
    pub len_bytes: u64,
    pub groups: Groups,
}

impl Append {
    pub fn new(device: usize, offset_bytes: u64, hint: u8, fua: bool) -> Self {
        Self { device, offset_bytes, hint, fua, bufs: SmallVec::new(), len_bytes: 0, groups: Groups::new() }
    }

    /// Whether a request at this place could be one with it.
    pub fn meets(&self, device: usize, offset_bytes: u64, hint: u8) -> bool {
        (self.device, self.hint) == (device, hint) && self.offset_bytes + self.len_bytes == offset_bytes
    }

    pub fn push(&mut self, buf: SharedBuf) {
        self.len_bytes += buf.len() as u64;
        self.bufs.push(buf);
    }

    pub fn into_op(mut self) -> (Op, Groups) {
        let bufs = match (self.bufs.pop(), self.bufs.is_empty()) {
            (Some(only), true) => Vectored::One(only),
            (last, _) => Vectored::Many(self.bufs.into_iter().chain(last).collect()),
        };
        (Op::Write { bufs, fua: self.fua }, self.groups)
    }
}

impl Engine {
    /// Low bits of the generation of the band that a location lies in, as records have them; 0 on the fast tier.
    pub(crate) fn record_generation(&self, location: u64) -> u16 {
        self.extents.band(location).map_or(0, |(band, _)| self.bands.record_generation(band))
    }

    /// Notes who is written to a place in a band.
    pub(crate) fn note(&mut self, location: u64, entry: SummaryEntry) {
        if let Some((band, block)) = self.extents.band(location) {
            self.bands.note(band, block, entry);
        }
    }

    /// Puts the summary behind what was appended, where that completes a group: `blocks` from `location` on, all noted.
    pub(crate) fn append_summary(&mut self, append: &mut Append, location: u64, blocks: u32) {
        let Some((band, block)) = self.extents.band(location) else { return };
        let group = self.bands.shape().group_of(block);
        if block + blocks == self.bands.shape().summary_block(group)
            && let Some(page) = self.begin_summary((band, group))
        {
            append.push(page);
            append.groups.push((band, group));
        }
    }

    fn begin_summary(&mut self, key: GroupKey) -> Option<SharedBuf> {
        let epoch = self.journal.epoch();
        let (name, entries) = self.bands.begin_summary(key)?;
        let mut page = Buf::zeroed(4096);
        band_summary::encode(&self.superblock.pool, name, epoch, entries, &mut page);
        Some(page.freeze())
    }

    /// Writes summaries of complete groups that went with no data, or did not arrive with it.
    pub(crate) fn write_summaries(&mut self) {
        if self.now_ns < self.checkpoint.summaries_not_before_ns {
            return;
        }
        self.checkpoint.summaries_due = false;
        for (band, group) in self.bands.due(ALONE_AT_ONCE) {
            let location = self.extents.band_location(band, self.bands.shape().summary_block(group));
            let Some((device, offset_bytes)) = self.extents.place(location) else { continue };
            let Some(page) = self.begin_summary((band, group)) else { continue };
            let op = Op::Write { bufs: Vectored::One(page), fua: false };
            let hint = stream_hint(self.bands.get(band).stream);
            self.command(device, offset_bytes, hint, op, Pending::Summary { device, key: (band, group) });
        }
    }

    /// A summary that went by itself arrived, or not: then it stays in memory and is written again, and no root is written
    /// meanwhile.
    pub(crate) fn summary_written(&mut self, device: usize, key: GroupKey, result: &Result<(), IoError>) {
        self.summaries_written(&[key], result.is_ok());
        if let Err(error) = result {
            self.counters.summary_errors += 1;
            self.checkpoint.summaries_not_before_ns = self.now_ns.saturating_add(RETRY_NS);
            let text = format!("summary of band {}: {}: {error}", key.0, self.names[device]);
            self.checkpoint.summary_failed(key, text, &mut self.counters);
        }
    }

    /// A request that held summaries ended. Those that did not arrive with their data go by themselves.
    pub(crate) fn summaries_written(&mut self, groups: &[GroupKey], is_good: bool) {
        if groups.is_empty() {
            return;
        }
        groups.iter().for_each(|&key| self.bands.summary_written(key, is_good));
        self.checkpoint.summaries_due |= self.bands.has_due();
        self.retry_trims();
    }
}
