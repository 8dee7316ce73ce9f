//! Writes the list of copies, now and then, and where hosts leave time: chunk after chunk, then the head that names the last chunk.

use super::cache::Table;
use crate::engine::outbox::{Outbox, Pending};
use crate::engine::setup::Setup;
use crate::layout::warm_list::{
    CHUNK_SLOTS_MAX, ENTRY_BYTES, HEAD_OFFSET_BYTES, SlotRun, WarmChunk, WarmHead, entries_max,
};
use crate::space::slots::Slots;
use forebay_block::{Buf, Op, Vectored};

/// Fewest copies for which a list is written.
const COPIES_MIN: u64 = 32;
/// A list is written when one in so many copies is not the one of the last list.
const CHANGED_PART: u64 = 32;
/// A list takes at most one in so many slots of the tier; with the list before it, one in half as many.
const TIER_PART: u64 = 64;
/// Most bytes a second that lists take, on average: longer lists are written less often.
const BYTES_PER_S: u64 = 1 << 20;
/// Wait after a list could not be written, in intervals.
const FAILED_INTERVALS: u64 = 8;

/// A list that is being written.
#[derive(Debug)]
struct Writing {
    number: u64,
    /// The first place that is not in it yet; `None`: all are.
    from: Option<u32>,
    runs: Vec<SlotRun>,
    is_in_flight: bool,
    is_head: bool,
    /// The list is not to be finished.
    is_given_up: bool,
}

/// The list on the device, and the one that is being written.
#[derive(Debug, Default)]
pub(crate) struct WarmWriter {
    number: u64,
    kept: Vec<SlotRun>,
    writing: Option<Writing>,
    not_before_ns: u64,
    interval_ns: u64,
    /// The list is to be written at once, as the pool is being stopped.
    hurries: bool,
    /// The list on the device is of the epoch before.
    is_old: bool,
    /// Copies that had been written when the last list was begun.
    written_then: u64,
    /// Copies from before the start.
    pub restored_blocks: u64,
    /// Slots of lists written since the start.
    pub written_slots: u64,
}

fn clear(runs: Vec<SlotRun>, slots: &mut Slots) {
    runs.into_iter().for_each(|run| slots.clear_run(run.first, run.slots));
}

impl WarmWriter {
    /// A list was found on the device, in these slots, which are taken.
    pub fn found(&mut self, number: u64, kept: Vec<SlotRun>, restored_blocks: u64) {
        (self.number, self.kept, self.restored_blocks) = (number, kept, restored_blocks);
        // A list counts for one opening: soon there is to be one of this epoch.
        self.is_old = true;
    }

    /// Slots that lists take.
    pub fn slots(&self) -> impl Iterator<Item = u64> + '_ {
        let runs = self.kept.iter().chain(self.writing.iter().flat_map(|writing| &writing.runs));
        runs.flat_map(|run| run.first..run.first + run.slots)
    }

    /// How many slots these are.
    pub fn slots_held(&self) -> u64 {
        self.kept.iter().chain(self.writing.iter().flat_map(|writing| &writing.runs)).map(|run| run.slots).sum()
    }

    /// Gives all of them back; those of a write in flight when that has ended.
    pub fn give_up(&mut self, slots: &mut Slots) {
        clear(std::mem::take(&mut self.kept), slots);
        match &mut self.writing {
            Some(writing) if writing.is_in_flight => writing.is_given_up = true,
            _ => self.give_up_writing(slots),
        }
    }

    /// The list is not written to its end. Nothing of it is in flight.
    fn give_up_writing(&mut self, slots: &mut Slots) {
        let Some(writing) = self.writing.take() else { return };
        // The next list has another number: the head of this one may be on the device.
        self.number = writing.number;
        clear(writing.runs, slots);
        let pause_ns = self.interval_ns.saturating_mul(FAILED_INTERVALS);
        self.not_before_ns = self.not_before_ns.saturating_add(pause_ns);
    }

    /// Begins a list where it is time to; there are `len` copies, and `written_blocks` were written since the start. `interval_ns`: least time from the
    /// beginning of one list to that of the next.
    pub fn begin(&mut self, (len, written_blocks): (u64, u64), now_ns: u64, interval_ns: u64) {
        let changed = written_blocks - self.written_then;
        let is_due =
            now_ns >= self.not_before_ns && len >= COPIES_MIN && (self.is_old || changed * CHANGED_PART >= len);
        if self.writing.is_some() || !is_due {
            return;
        }
        let interval_ns = interval_ns.max(len.saturating_mul(ENTRY_BYTES as u64 * 1_000_000_000) / BYTES_PER_S);
        (self.interval_ns, self.not_before_ns) = (interval_ns, now_ns.saturating_add(interval_ns));
        self.start(written_blocks);
    }

    fn start(&mut self, written_blocks: u64) {
        (self.written_then, self.is_old) = (written_blocks, false);
        let (number, runs) = (self.number + 1, Vec::new());
        let (is_in_flight, is_head, is_given_up) = (false, false, false);
        self.writing = Some(Writing { number, from: Some(0), runs, is_in_flight, is_head, is_given_up });
    }

    /// The pool is being stopped: an old list is written anew, without waiting for time to pass.
    pub fn hurry(&mut self, written_blocks: u64) {
        self.hurries = true;
        if self.writing.is_none() && (self.is_old || written_blocks > self.written_then) {
            self.start(written_blocks);
        }
    }

    /// Whether such a list is not complete yet.
    pub fn hurries(&self) -> bool {
        self.hurries && self.writing.is_some()
    }

    /// Goes on writing the list, one chunk at a time. `spare`: slots that nobody wants; copies make room where there are too few. `generation` returns that of
    /// the band in which a location lies.
    pub(super) fn go_on(
        &mut self,
        table: &mut Table,
        mut spare: u64,
        (epoch, generation): (u64, impl Fn(u64) -> Option<u32>),
        (setup, slots, outbox): (&Setup, &mut Slots, &mut Outbox),
    ) {
        let list = |table: &Table, from, most| {
            table.cache.as_ref().map_or((Vec::new(), None), |cache| cache.list(from, most, &generation))
        };
        while let Some(writing) = self.writing.as_ref().filter(|writing| !writing.is_in_flight) {
            let (number, previous, index) = (writing.number, writing.runs.last().copied(), writing.runs.len() as u32);
            let Some(from) = writing.from else {
                let Some(last) = previous else {
                    self.writing = None;
                    return;
                };
                let head = WarmHead { number, epoch, chunks: index, last, learned: table.learned() };
                return self.send((HEAD_OFFSET_BYTES, head.encode(&setup.superblock.pool)), true, outbox);
            };
            let used: u64 = writing.runs.iter().map(|run| run.slots).sum();
            let most = (slots.total() / TIER_PART).saturating_sub(used).min(CHUNK_SLOTS_MAX);
            let (mut entries, mut next) = list(table, from, entries_max(most));
            if entries.is_empty() && most > 0 {
                if let Some(writing) = &mut self.writing {
                    writing.from = next;
                }
                // Only places without copies: as many as are looked at in one step, or all of them.
                if self.hurries || next.is_none() {
                    continue;
                }
                return;
            }
            let wanted = (1..=most).find(|&slots| entries_max(slots) >= entries.len()).unwrap_or(0);
            if spare < wanted {
                spare += table.evict(wanted - spare, slots);
            }
            let Some((first, got)) = slots.allocate(wanted.min(spare)) else {
                return self.give_up_writing(slots);
            };
            // Listed anew, as one of these copies may just have made room.
            (entries, next) = list(table, from, entries_max(got));
            let run = SlotRun { first, slots: got };
            let Some(writing) = &mut self.writing else { return };
            writing.from = next;
            writing.runs.push(run);
            self.written_slots += got;
            let bytes = WarmChunk { number, epoch, index, previous, entries }.encode(got, &setup.superblock.pool);
            return match setup.extents.place(setup.extents.slot_location(first)) {
                Some((0, offset_bytes)) => self.send((offset_bytes, bytes), false, outbox),
                _ => self.give_up_writing(slots),
            };
        }
    }

    fn send(&mut self, (offset_bytes, bytes): (u64, Vec<u8>), is_head: bool, outbox: &mut Outbox) {
        if let Some(writing) = &mut self.writing {
            (writing.is_in_flight, writing.is_head) = (true, is_head);
            let bufs = Vectored::One(Buf::copy_of(&bytes).freeze());
            outbox.send(0, offset_bytes, 0, Op::Write { bufs, fua: false }, Pending::WarmList);
        }
    }

    /// The write of a part of the list ended.
    pub fn written(&mut self, is_good: bool, slots: &mut Slots) {
        let Some(writing) = &mut self.writing else { return };
        writing.is_in_flight = false;
        if !is_good || writing.is_given_up {
            self.give_up_writing(slots);
        } else if writing.is_head {
            self.number = writing.number;
            let runs = std::mem::take(&mut writing.runs);
            self.writing = None;
            clear(std::mem::replace(&mut self.kept, runs), slots);
        }
    }
}
