//! Disks, and their leaves, which are on the fast tier and, where there is a frame for them, in memory. A miss is
//! asynchronous, always.

use super::outbox::{LeafRead, Outbox, Pending};
use super::setup::Setup;
use super::statistics::Counters;
use crate::layout::page::{self, Entry, LEAF_ENTRIES, PAGE_BYTES, PageName};
use crate::map::frames::{Frame, Frames};
use crate::map::index::{Disk, NO_FRAME};
use forebay_block::{Buf, ClassId, DiskId, IoError, IoErrorKind, Op, Vectored};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// How long a leaf cannot be read before a change that covers all of it does without it, in nanoseconds.
const UNREADABLE_NS: u64 = 10_000_000_000;
/// Most leaves of which this is remembered.
const UNREADABLE_MAX: usize = 1024;

/// The result of asking for a leaf.
pub(crate) enum Leaf {
    /// The leaf is in memory, in this frame.
    Ready(u32),
    /// There is no leaf: nothing is mapped here.
    Hole,
    /// The asker will be resumed.
    Wait,
}

/// A leaf that was read, or could not be.
pub(crate) struct Loaded {
    pub disk: DiskId,
    pub leaf: u64,
    /// The frame that it is in, or why it cannot be read.
    pub frame: Result<u32, IoError>,
    /// Pieces and jobs that asked for it.
    pub askers: Vec<u32>,
}

/// Disks and frames.
pub(crate) struct Map {
    pub setup: Arc<Setup>,
    pub disks: BTreeMap<u16, Disk>,
    pub next_disk: u16,
    pub frames: Frames,
    /// Leaves that could not be read from the medium, and since when, in nanoseconds.
    unreadable: BTreeMap<(DiskId, u64), u64>,
    /// Disks on which damage was found that nobody has looked at yet: their bases may have what was lost.
    pub damaged: BTreeSet<DiskId>,
    /// Pieces and jobs that wait for a frame.
    pub frame_waiters: VecDeque<u32>,
}

impl Map {
    /// A map of these disks, with so many frames.
    pub fn new(setup: Arc<Setup>, disks: BTreeMap<u16, Disk>, next_disk: u16, frames: usize) -> Self {
        let (frames, unreadable, frame_waiters) = (Frames::new(frames), BTreeMap::new(), VecDeque::new());
        Self { setup, disks, next_disk, frames, unreadable, damaged: BTreeSet::new(), frame_waiters }
    }

    /// A disk.
    pub fn disk(&self, disk: DiskId) -> Option<&Disk> {
        self.disks.get(&disk.0)
    }

    /// A disk.
    pub fn disk_mut(&mut self, disk: DiskId) -> Option<&mut Disk> {
        self.disks.get_mut(&disk.0)
    }

    /// The disks' names, which the classifier's rules may ask for.
    pub fn disk_names(&self) -> Vec<(DiskId, String)> {
        self.disks.values().map(|disk| (disk.id, disk.name.clone())).collect()
    }

    /// Asks for a leaf on behalf of a piece (or a job). With `create`, a hole becomes an empty resident leaf.
    pub fn require(
        &mut self,
        disk: DiskId,
        leaf: u64,
        asker: u32,
        create: bool,
        outbox: &mut Outbox,
        counters: &mut Counters,
    ) -> Leaf {
        let Some(entry) = self.disk(disk) else {
            return Leaf::Hole;
        };
        let frame = entry.frame(leaf);
        if frame != NO_FRAME {
            let frame_entry = self.frames.get_mut(frame);
            frame_entry.referenced = true;
            if frame_entry.loading {
                frame_entry.waiters.push(asker);
                return Leaf::Wait;
            }
            return Leaf::Ready(frame);
        }
        let (reference, _) = entry.leaf(leaf);
        if reference.location == 0 && !create {
            return Leaf::Hole;
        }
        let Some(frame) = self.take_frame(disk, leaf) else {
            self.frame_waiters.push_back(asker);
            return Leaf::Wait;
        };
        if reference.location == 0 {
            self.begin_leaf(frame);
            return Leaf::Ready(frame);
        }
        let Some((device, offset_bytes)) = self.setup.extents.place(reference.location) else {
            self.drop_frame(frame);
            return Leaf::Hole;
        };
        let entry = self.frames.get_mut(frame);
        entry.loading = true;
        entry.waiters.push(asker);
        counters.map_misses += 1;
        let bufs = Vectored::One(Buf::new(PAGE_BYTES));
        let which = LeafRead { reference, attempt: 0, failed: None };
        outbox.send(device, offset_bytes, 0, Op::read(bufs), Pending::PageIn { frame, which });
        Leaf::Wait
    }

    /// Makes a frame hold a leaf that maps nothing yet. The count in the index may say otherwise: it may have been written for a leaf whose own page never was.
    pub fn begin_leaf(&mut self, frame: u32) {
        let entry = self.frames.get_mut(frame);
        entry.page.fill(0);
        let (disk, leaf) = (entry.disk, entry.leaf);
        if let Some(entry) = self.disk_mut(disk) {
            entry.set_stageable(leaf, 0);
        }
    }

    /// A frame for a leaf. Another leaf is evicted for it where need be.
    pub fn take_frame(&mut self, disk: DiskId, leaf: u64) -> Option<u32> {
        let (frame, evicted) = self.frames.take(disk, leaf)?;
        if let Some((old_disk, old_leaf)) = evicted
            && let Some(old) = self.disk_mut(old_disk)
        {
            old.set_frame(old_leaf, NO_FRAME);
        }
        if let Some(entry) = self.disk_mut(disk) {
            entry.set_frame(leaf, frame);
        }
        Some(frame)
    }

    /// Whether the waiter that was resumed last, while `before` others waited, found no frame again. It keeps its place at the front then: there is still no
    /// frame, and the others would not find one either.
    pub fn waits_again(&mut self, before: usize) -> bool {
        let waits = self.frame_waiters.len() > before;
        if waits && let Some(again) = self.frame_waiters.pop_back() {
            self.frame_waiters.push_front(again);
        }
        waits
    }

    /// Drops a leaf that nobody has used since its frame was last marked as unused.
    pub fn give_up(&mut self, disk: DiskId, leaf: u64) {
        let Some(frame) = self.disk(disk).map(|disk| disk.frame(leaf)).filter(|&frame| frame != NO_FRAME) else {
            return;
        };
        let entry = self.frames.get(frame);
        let is_busy = entry.pins > 0 || entry.dirty || entry.frozen || entry.writing || entry.loading;
        if !entry.referenced && !is_busy {
            self.drop_frame(frame);
        }
    }

    /// Forgets a frame whose leaf could not be loaded or is not wanted.
    pub fn drop_frame(&mut self, frame: u32) {
        let (disk, leaf) = (self.frames.get(frame).disk, self.frames.get(frame).leaf);
        if let Some(entry) = self.disk_mut(disk) {
            entry.set_frame(leaf, NO_FRAME);
        }
        self.frames.vacate(frame);
    }

    /// The read of a leaf ended. `None`: it is read once more.
    pub fn loaded(
        &mut self,
        frame: u32,
        LeafRead { reference, attempt, failed }: LeafRead,
        read: (Result<(), IoError>, Option<Buf>),
        (outbox, counters): (&mut Outbox, &mut Counters),
        now_ns: u64,
    ) -> Option<Loaded> {
        let entry = self.frames.get(frame);
        let name = PageName { disk: entry.disk, number: entry.leaf, generation: reference.generation };
        let is_checked = !self.setup.options.faults.checksums_ignored();
        let error = match read {
            (Ok(()), Some(buf)) if page::is_leaf(&buf, name, reference.crc) || !is_checked => {
                self.frames.get_mut(frame).page.copy_from_slice(&buf);
                if attempt > 0 && self.setup.copies > 1 {
                    outbox.mend(&self.setup, reference.location, buf);
                }
                None
            }
            (result, _) if attempt + 1 < self.setup.read_attempts(0) => {
                // What follows the last attempt fails all askers, or gives the mapping up: only where the medium, and
                // not one transfer, is bad.
                let bufs = Vectored::One(Buf::new(PAGE_BYTES));
                let (device, offset_bytes) = self.setup.extents.place(reference.location).unwrap_or_default();
                let failed = result.err().map(Box::new).or(failed);
                let which = LeafRead { reference, attempt: attempt + 1, failed };
                let attempt = self.setup.of_each_copy(attempt + 1);
                outbox.send(device, offset_bytes, 0, Op::Read { bufs, attempt }, Pending::PageIn { frame, which });
                return None;
            }
            (Err(source), _) => Some(source),
            // Another copy could not be read, and may be right another time.
            (Ok(()), _) if failed.is_some() && self.setup.copies > 1 => failed.map(|source| *source),
            (Ok(()), _) => {
                // All that it mapped is damaged: reads fail, and blocks that are overwritten or discarded are whole
                // again.
                counters.damaged_pages += 1;
                self.fill_with_damage(frame);
                None
            }
        };
        let entry = self.frames.get_mut(frame);
        entry.loading = false;
        let askers = std::mem::take(&mut entry.waiters);
        let (disk, leaf) = (entry.disk, entry.leaf);
        match &error {
            Some(error) if error.kind == IoErrorKind::Medium => {
                if self.unreadable.len() >= UNREADABLE_MAX {
                    self.forget_readable();
                }
                if self.unreadable.len() < UNREADABLE_MAX {
                    self.unreadable.entry((disk, leaf)).or_insert(now_ns);
                }
            }
            _ => _ = self.unreadable.remove(&(disk, leaf)),
        }
        let frame = match error {
            Some(error) => {
                self.drop_frame(frame);
                Err(error)
            }
            None => Ok(frame),
        };
        Some(Loaded { disk, leaf, frame, askers })
    }

    fn fill_with_damage(&mut self, frame: u32) {
        self.damaged.insert(self.frames.get(frame).disk);
        let page = &mut self.frames.get_mut(frame).page;
        page.fill(0);
        (0..LEAF_ENTRIES).for_each(|i| page::set_leaf_entry(page, i, Entry::Damaged, 0));
    }

    /// Whether a leaf could not be read from the medium, now and a while ago. A device that comes back does so within
    /// that time.
    pub fn is_unreadable_for_long(&self, disk: DiskId, leaf: u64, now_ns: u64) -> bool {
        self.unreadable.get(&(disk, leaf)).is_some_and(|since_ns| now_ns.saturating_sub(*since_ns) >= UNREADABLE_NS)
    }

    /// Replaces a leaf that cannot be read by one in which all blocks are damaged, where there is a frame for it.
    pub fn do_without(&mut self, disk: DiskId, leaf: u64) -> Option<u32> {
        if !self.is_absent(disk, leaf) {
            return None;
        }
        let frame = self.take_frame(disk, leaf)?;
        self.fill_with_damage(frame);
        Some(frame)
    }

    /// A leaf was replaced so, and is written anew. Should the new one be unreadable one day, this outage says nothing of that one.
    pub fn forget_unreadable(&mut self, disk: DiskId, leaf: u64) {
        self.unreadable.remove(&(disk, leaf));
    }

    /// Forgets leaves that nobody has to read any more: they were written anew, or belong to disks that were removed.
    fn forget_readable(&mut self) {
        let mut unreadable = std::mem::take(&mut self.unreadable);
        unreadable.retain(|&(disk, leaf), _| self.is_absent(disk, leaf));
        self.unreadable = unreadable;
    }

    /// Number of a leaf's blocks on the fast tier whose class may leave it.
    pub fn count_stageable(&self, frame: u32, may_destage: impl Fn(ClassId) -> bool) -> u16 {
        let page = &self.frames.get(frame).page;
        let stageable = |i: &usize| match page::leaf_entry(page, *i).0 {
            Entry::Data { span, class } => self.setup.extents.is_fast(span.location) && may_destage(class),
            _ => false,
        };
        (0..LEAF_ENTRIES).filter(stageable).count() as u16
    }

    /// Counts anew how many blocks of a leaf may leave the fast tier, and notes that in the index.
    pub fn count_anew(&mut self, disk: DiskId, leaf: u64, frame: u32, may_destage: impl Fn(ClassId) -> bool) {
        let stageable = self.count_stageable(frame, may_destage);
        if let Some(entry) = self.disk_mut(disk) {
            entry.set_stageable(leaf, stageable);
        }
    }

    /// Whether the leaf in a frame has no page on the device.
    pub fn is_new_leaf(&self, frame: u32) -> bool {
        let entry = self.frames.get(frame);
        self.disk(entry.disk).is_some_and(|disk| disk.leaf(entry.leaf).0.location == 0)
    }

    /// The frame of a leaf in memory. `None` while it is being read, too: until then the frame has what another leaf
    /// left in it.
    pub fn in_memory(&self, disk: DiskId, leaf: u64) -> Option<&Frame> {
        let frame = self.disk(disk)?.frame(leaf);
        (frame != NO_FRAME).then(|| self.frames.get(frame)).filter(|frame| !frame.loading)
    }

    /// Whether nobody needs any more what was written to a location for a block: the map is known to name another place, or none. False where that is not
    /// known, and where the block is damaged, which may be what became of that location.
    pub fn has_left(&self, disk: DiskId, block: u64, location: u64) -> bool {
        let (leaf, at) = (block / LEAF_ENTRIES as u64, (block % LEAF_ENTRIES as u64) as usize);
        let Some(entry) = self.disk(disk).filter(|disk| block < disk.blocks()) else { return false };
        let frame = entry.frame(leaf);
        if frame == NO_FRAME {
            // True for a leaf that was discarded as a whole.
            return entry.leaf(leaf).0.location == 0;
        }
        let frame = self.frames.get(frame);
        match page::leaf_entry(&frame.page, at).0 {
            _ if frame.loading => false,
            Entry::Data { span, .. } => span.location != location,
            Entry::Unmapped | Entry::Zero => true,
            Entry::Damaged => false,
        }
    }

    /// Whether a leaf is on the device, and not in memory.
    pub fn is_absent(&self, disk: DiskId, leaf: u64) -> bool {
        self.disk(disk).is_some_and(|disk| disk.frame(leaf) == NO_FRAME && disk.leaf(leaf).0.location != 0)
    }
}
