//! Frames: memory for leaves, replaced by CLOCK (one reference bit).

use crate::layout::page::PAGE_BYTES;
use forebay_block::{Buf, DiskId};

/// One resident (or loading) leaf.
#[derive(Debug)]
pub struct Frame {
    /// The page.
    pub page: Buf,
    /// Its disk.
    pub disk: DiskId,
    /// Its leaf number.
    pub leaf: u64,
    /// Holders that need it to stay.
    pub pins: u32,
    /// Changed since it was written.
    pub dirty: bool,
    /// Part of the checkpoint in progress and not yet written for it.
    pub frozen: bool,
    /// A write of its page is in progress.
    pub writing: bool,
    /// Being read.
    pub loading: bool,
    /// Used since the clock hand passed.
    pub referenced: bool,
    /// Whether it holds a leaf at all.
    pub occupied: bool,
    /// Who waits for it to be loaded.
    pub waiters: Vec<u32>,
}

/// All frames.
#[derive(Debug)]
pub struct Frames {
    frames: Vec<Frame>,
    limit: usize,
    hand: usize,
    empty: Vec<u32>,
    /// Rest of the last chunk of pages: one aligned allocation per page would cost twice its size.
    chunk: Buf,
}

/// Pages allocated at once.
const CHUNK_PAGES: usize = 64;

impl Frames {
    /// At most `limit` frames; memory is allocated as they are first used.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { frames: Vec::new(), limit, hand: 0, empty: Vec::new(), chunk: Buf::empty() }
    }

    /// Most frames there may be.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Frames in memory.
    #[must_use]
    pub fn resident(&self) -> usize {
        self.frames.len() - self.empty.len()
    }

    /// Number of frames ever made; ids are below it.
    #[must_use]
    pub fn made(&self) -> usize {
        self.frames.len()
    }

    /// A frame.
    #[must_use]
    pub fn get(&self, id: u32) -> &Frame {
        &self.frames[id as usize]
    }

    /// A frame.
    pub fn get_mut(&mut self, id: u32) -> &mut Frame {
        &mut self.frames[id as usize]
    }

    /// Sets or clears the dirty mark; true where it changed.
    pub fn set_dirty(&mut self, id: u32, dirty: bool) -> bool {
        let frame = &mut self.frames[id as usize];
        std::mem::replace(&mut frame.dirty, dirty) != dirty
    }

    /// Takes a frame for a leaf: a new one, an empty one, or that of a clean leaf not used lately. Returns the frame, and the leaf that was evicted.
    /// `None`: all are pinned, dirty or busy.
    pub fn take(&mut self, disk: DiskId, leaf: u64) -> Option<(u32, Option<(DiskId, u64)>)> {
        let (id, evicted) = if let Some(id) = self.empty.pop() {
            (id, None)
        } else if self.frames.len() < self.limit {
            if self.chunk.is_empty() {
                self.chunk = Buf::zeroed(CHUNK_PAGES.min(self.limit) * PAGE_BYTES);
            }
            let rest = self.chunk.split_off(PAGE_BYTES);
            let page = std::mem::replace(&mut self.chunk, rest);
            self.frames.push(Frame {
                page,
                disk,
                leaf,
                pins: 0,
                dirty: false,
                frozen: false,
                writing: false,
                loading: false,
                referenced: false,
                occupied: false,
                waiters: Vec::new(),
            });
            (self.frames.len() as u32 - 1, None)
        } else {
            let id = self.sweep()?;
            let frame = &self.frames[id as usize];
            (id, Some((frame.disk, frame.leaf)))
        };
        let frame = &mut self.frames[id as usize];
        frame.disk = disk;
        frame.leaf = leaf;
        frame.referenced = true;
        frame.occupied = true;
        Some((id, evicted))
    }

    fn sweep(&mut self) -> Option<u32> {
        for _ in 0..2 * self.frames.len() {
            let id = self.hand;
            self.hand = (self.hand + 1) % self.frames.len();
            let frame = &mut self.frames[id];
            if !frame.occupied || frame.pins > 0 || frame.dirty || frame.writing || frame.loading {
                continue;
            }
            if frame.referenced {
                frame.referenced = false;
                continue;
            }
            return Some(id as u32);
        }
        None
    }

    /// Releases a frame: its leaf is not resident any more.
    pub fn vacate(&mut self, id: u32) {
        self.set_dirty(id, false);
        let frame = &mut self.frames[id as usize];
        frame.occupied = false;
        frame.frozen = false;
        frame.loading = false;
        self.empty.push(id);
    }
}
