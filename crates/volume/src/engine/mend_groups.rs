//! Mends groups of bands in which compressed blocks are wrong where they lie. These share blocks of the device, so none can be written again by itself: the
//! whole group is read in each way that the device has, and what is wrong in its place is written again, one block of the device at a time, from a reading in
//! which all that the group's summary names in that block is right.

use super::outbox::{GroupMend, Outbox, Pending};
use super::setup::Setup;
use crate::layout::band_summary::{self, Summary, SummaryEntry, SummaryName};
use crate::layout::capacity_area::DEVICE;
use crate::layout::packed::is_stored;
use crate::layout::page::GRAIN_BYTES;
use crate::layout::root::BandState;
use crate::space::bands::Bands;
use crate::space::groups::GroupKey;
use forebay_block::{BLOCK_BYTES as BLOCK, Buf, Op, Vectored};

/// Groups that are mended at once for hosts. Others are mended when they are read the next time.
pub(crate) const AT_ONCE: usize = 4;

/// The groups that are being mended.
fn in_progress(outbox: &Outbox) -> impl Iterator<Item = GroupKey> + '_ {
    outbox.in_flight().filter_map(|pending| if let Pending::MendGroup(mend) = pending { Some(mend.key) } else { None })
}

/// Whether so many are being mended that a scrub is not to find more of them for now.
pub(crate) fn are_enough(outbox: &Outbox) -> bool {
    in_progress(outbox).nth(AT_ONCE).is_some()
}

/// Begins to mend the group of a location, where its summary is on the device and fewer than `most` are being mended.
pub(crate) fn begin(location: u64, most: usize, (setup, bands): (&Setup, &Bands), outbox: &mut Outbox) {
    let device = setup.extents.place(location).map(|(device, _)| device);
    let Some((band, block)) = setup.extents.band(location).filter(|_| device.is_some_and(|on| setup.mends_on(on)))
    else {
        return;
    };
    let key = (band, bands.shape().group_of(block));
    let in_progress: Vec<GroupKey> = in_progress(outbox).collect();
    let generation = bands.get(band).generation;
    let mend = GroupMend { key, generation, attempt: 0, wrong: None, entries: None, bytes: None };
    if in_progress.len() < most && !in_progress.contains(&key) && lies_still(&mend, bands) {
        send(Box::new(mend), setup, bands, outbox);
    }
}

/// Whether nothing in the group can have changed: it is complete, its summary was written, and its band is not freed.
fn lies_still(mend: &GroupMend, bands: &Bands) -> bool {
    let band = bands.get(mend.key.0);
    let is_same = band.generation == mend.generation && band.state != BandState::Free && band.valid > 0;
    is_same && bands.groups().entries(mend.key).is_none()
}

fn send(mend: Box<GroupMend>, setup: &Setup, bands: &Bands, outbox: &mut Outbox) {
    let (shape, (band, group)) = (bands.shape(), mend.key);
    let first = shape.first_block(group);
    let len_bytes = (shape.summary_block(group) + 1 - first) as usize * BLOCK;
    if let Some((device, offset_bytes)) = setup.extents.place(setup.extents.band_location(band, first)) {
        let op = Op::Read { bufs: Vectored::One(Buf::new(len_bytes)), attempt: mend.attempt };
        outbox.send(device, offset_bytes, 0, op, Pending::MendGroup(mend));
    }
}

/// How many entries that lie in a block of a group, or in all of it, are wrong.
fn wrong_in(entries: &[SummaryEntry], bytes: &[u8], block: Option<usize>) -> usize {
    let is_wrong = |(at, entry): &(u32, &SummaryEntry)| {
        let (begin, len) = (*at as usize * GRAIN_BYTES, usize::from(entry.grains) * GRAIN_BYTES);
        let touches = block.is_none_or(|block| begin < (block + 1) * BLOCK && begin + len > block * BLOCK);
        let is_right = |stored: &[u8]| is_stored(entry.disk, entry.block, stored, entry.checksum);
        touches && !bytes.get(begin..begin + len).is_some_and(is_right)
    };
    band_summary::placed(entries).filter(is_wrong).count()
}

/// Replaces blocks in which something is wrong by others, where less is wrong then. Returns which of these are right
/// now.
fn put_right(entries: &[SummaryEntry], bytes: &mut Buf, others: &[u8]) -> Vec<usize> {
    let mut replaced = Vec::new();
    for block in 0..bytes.len() / BLOCK {
        let range = block * BLOCK..(block + 1) * BLOCK;
        let before = wrong_in(entries, bytes, Some(block));
        let Some(other) = others.get(range.clone()).filter(|_| before > 0) else { continue };
        let old = bytes[range.clone()].to_vec();
        bytes[range.clone()].copy_from_slice(other);
        if wrong_in(entries, bytes, Some(block)) < before {
            replaced.push(block);
        } else {
            bytes[range].copy_from_slice(&old);
        }
    }
    replaced.retain(|&block| wrong_in(entries, bytes, Some(block)) == 0);
    replaced
}

/// A reading of a group has ended.
pub(crate) fn read(mut mend: Box<GroupMend>, bytes: Option<Buf>, setup: &Setup, bands: &Bands, outbox: &mut Outbox) {
    if !lies_still(&mend, bands) {
        return;
    }
    let (shape, (band, group)) = (bands.shape(), mend.key);
    let (first, summary) = (shape.first_block(group), shape.summary_block(group));
    let mut write_again = |block: u32, bytes: &[u8]| {
        let at = (block - first) as usize * BLOCK;
        if let Some(bytes) = bytes.get(at..at + BLOCK) {
            outbox.mend(setup, setup.extents.band_location(band, block), Buf::copy_of(bytes));
        }
    };
    let Some(read) = bytes else { return read_on(mend, setup, bands, outbox) };
    let entries = match mend.entries.take() {
        Some(entries) => entries,
        None => {
            let name = SummaryName { band, group, generation: mend.generation };
            let found = band_summary::decode(&setup.superblock.pool, name, shape.group_grains(group), &read);
            let Some(entries) = found.and_then(Summary::whole) else {
                mend.wrong = mend.wrong.take().or_else(|| Some(read).filter(|_| mend.attempt == 0));
                return read_on(mend, setup, bands, outbox);
            };
            if mend.attempt > 0 {
                if let Some(wrong) = mend.wrong.take() {
                    // Pages that are right are not written: of what lies beside them in their row, parity may be all
                    // that is left.
                    let at = |block: u32| (block - first) as usize * BLOCK;
                    let differs =
                        |block: &u32| wrong.get(at(*block)..at(block + 1)) != read.get(at(*block)..at(block + 1));
                    let pages = shape.data_end(group, entries.len())..=summary;
                    pages.filter(differs).for_each(|block| write_again(block, &read));
                }
                // From the start, now that it is known what lies in the group.
                (mend.attempt, mend.entries) = (0, Some(entries));
                return send(mend, setup, bands, outbox);
            }
            entries
        }
    };
    let bytes = match mend.bytes.take() {
        Some(mut bytes) => {
            put_right(&entries, &mut bytes, &read)
                .into_iter()
                .for_each(|block| write_again(first + block as u32, &bytes));
            bytes
        }
        None => read,
    };
    if wrong_in(&entries, &bytes, None) > 0 {
        (mend.entries, mend.bytes) = (Some(entries), Some(bytes));
        read_on(mend, setup, bands, outbox);
    }
}

/// Reads a group in the next way, where there is one.
fn read_on(mut mend: Box<GroupMend>, setup: &Setup, bands: &Bands, outbox: &mut Outbox) {
    mend.attempt += 1;
    if mend.attempt < setup.read_attempts(DEVICE) {
        send(mend, setup, bands, outbox);
    }
}
