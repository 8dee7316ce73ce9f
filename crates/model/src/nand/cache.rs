//! Other contents of the controller's DRAM: data read ahead, and the recently used pieces of the map.

use super::config::{ReadAhead, UNIT_BYTES};
use super::shape::NONE;

/// Sequential streams that are tracked at once.
const FOLLOWED: usize = 16;
/// Map entries of 32 bits in a piece of 4 KiB.
pub(super) const PIECE_ENTRIES: u32 = 1024;

#[derive(Clone, Copy)]
struct Followed {
    next: u32,
    hits: u32,
    ahead: u32,
}

#[derive(Clone, Copy)]
struct Line {
    logical: u32,
    pending: bool,
    waiters: u32,
}

#[derive(Clone, Copy)]
struct Waiter {
    command: u32,
    next: u32,
}

/// Read-ahead state of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ahead {
    /// Not read ahead.
    Absent,
    /// Being read.
    Coming,
    /// In DRAM.
    Ready,
}

/// Units read ahead: a direct-mapped table by logical unit.
pub(super) struct Prefetched {
    lines: Vec<Line>,
    followed: [Followed; FOLLOWED],
    turn: usize,
    waiters: Vec<Waiter>,
    free: u32,
    after: u32,
    depth: u32,
}

impl Prefetched {
    pub(super) fn new(config: &ReadAhead) -> Self {
        let depth = (config.depth_bytes / UNIT_BYTES) as u32;
        let lines = (depth as usize * FOLLOWED * 2).next_power_of_two();
        Self {
            lines: vec![Line { logical: NONE, pending: false, waiters: NONE }; lines],
            followed: [Followed { next: NONE, hits: 0, ahead: 0 }; FOLLOWED],
            turn: 0,
            waiters: Vec::new(),
            free: NONE,
            after: config.after_commands,
            depth,
        }
    }

    fn line(&mut self, logical: u32) -> &mut Line {
        let at = logical as usize & (self.lines.len() - 1);
        &mut self.lines[at]
    }

    /// Tracks a read of `first..end`. Returns the range to read ahead where the read continues a sequence.
    pub(super) fn follow(&mut self, first: u32, end: u32, units: u32) -> Option<(u32, u32)> {
        let (after, depth) = (self.after, self.depth);
        let Some(f) = self.followed.iter_mut().find(|f| f.next == first) else {
            self.followed[self.turn] = Followed { next: end, hits: 0, ahead: end };
            self.turn = (self.turn + 1) % FOLLOWED;
            return None;
        };
        f.next = end;
        f.hits = f.hits.saturating_add(1);
        if f.hits < after {
            f.ahead = end;
            return None;
        }
        let from = f.ahead.max(end);
        let to = end.saturating_add(depth).min(units);
        // Read-ahead goes in steps of half the depth, so that it reads whole rows.
        if from >= to || (to - from < depth / 2 && to < units) {
            return None;
        }
        f.ahead = to;
        Some((from, to))
    }

    /// Looks up the read-ahead state of a unit.
    pub(super) fn look(&mut self, logical: u32) -> Ahead {
        let line = self.line(logical);
        match (line.logical == logical, line.pending) {
            (false, _) => Ahead::Absent,
            (true, true) => Ahead::Coming,
            (true, false) => Ahead::Ready,
        }
    }

    /// Marks a unit as being read ahead. False where its line is in use.
    pub(super) fn begin(&mut self, logical: u32) -> bool {
        let line = self.line(logical);
        if line.pending || line.logical == logical {
            return false;
        }
        *line = Line { logical, pending: true, waiters: NONE };
        true
    }

    /// Adds a command to those that wait for a unit being read ahead.
    pub(super) fn wait(&mut self, logical: u32, command: u32) {
        let next = self.line(logical).waiters;
        let waiter = Waiter { command, next };
        let at = if self.free == NONE {
            self.waiters.push(waiter);
            (self.waiters.len() - 1) as u32
        } else {
            let at = self.free;
            self.free = self.waiters[at as usize].next;
            self.waiters[at as usize] = waiter;
            at
        };
        self.line(logical).waiters = at;
    }

    /// A unit has arrived in DRAM. Returns the first waiter for it.
    pub(super) fn arrived(&mut self, logical: u32) -> u32 {
        let line = self.line(logical);
        line.pending = false;
        std::mem::replace(&mut line.waiters, NONE)
    }

    /// Releases a waiter. Returns its command and the next waiter.
    pub(super) fn waiter(&mut self, at: u32) -> (u32, u32) {
        let Waiter { command, next } = self.waiters[at as usize];
        self.waiters[at as usize].next = self.free;
        self.free = at;
        (command, next)
    }

    /// A unit was written or deallocated: its data read ahead is stale.
    pub(super) fn forget(&mut self, logical: u32) {
        let line = self.line(logical);
        if line.logical == logical && !line.pending {
            line.logical = NONE;
        }
    }
}

/// Pieces of the map in DRAM, evicted by the clock algorithm.
pub(super) struct MapCache {
    /// Frame of each piece; [`NONE`] where it is not in DRAM.
    frame: Vec<u32>,
    frames: Vec<(u32, bool)>,
    hand: usize,
}

impl MapCache {
    pub(super) fn new(logical_units: u32, cache_bytes: u64) -> Self {
        let pieces = logical_units.div_ceil(PIECE_ENTRIES) as usize;
        let frames = ((cache_bytes / UNIT_BYTES) as usize).clamp(1, pieces);
        Self { frame: vec![NONE; pieces], frames: vec![(NONE, false); frames], hand: 0 }
    }

    /// Uses a piece of the map. False where it was not in DRAM: the miss costs a flash read.
    pub(super) fn touch(&mut self, piece: u32) -> bool {
        let at = self.frame[piece as usize];
        if at != NONE {
            self.frames[at as usize].1 = true;
            return true;
        }
        // Two rounds at most: the first round clears all marks.
        while self.frames[self.hand].1 {
            self.frames[self.hand].1 = false;
            self.hand = (self.hand + 1) % self.frames.len();
        }
        let old = self.frames[self.hand].0;
        if old != NONE {
            self.frame[old as usize] = NONE;
        }
        self.frames[self.hand] = (piece, false);
        self.frame[piece as usize] = self.hand as u32;
        self.hand = (self.hand + 1) % self.frames.len();
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_map_cache_keeps_what_is_used_again() {
        let mut cache = MapCache::new(10 * PIECE_ENTRIES, 2 * UNIT_BYTES);
        assert!(!cache.touch(0) && !cache.touch(1));
        assert!(cache.touch(0));
        assert!(!cache.touch(2), "takes the place of 1");
        assert!(cache.touch(0) && cache.touch(2));
        assert!(!cache.touch(1));
    }

    #[test]
    fn read_ahead_follows_a_sequence_and_wakes_who_waits() {
        let mut ahead = Prefetched::new(&ReadAhead { after_commands: 2, depth_bytes: 8 * UNIT_BYTES });
        assert_eq!(ahead.follow(0, 2, 100), None);
        assert_eq!(ahead.follow(2, 4, 100), None);
        assert_eq!(ahead.follow(50, 51, 100), None);
        assert_eq!(ahead.follow(4, 6, 100), Some((6, 14)));
        assert_eq!(ahead.follow(6, 8, 100), None, "half of the depth is not used yet");
        assert!(ahead.begin(6) && !ahead.begin(6));
        assert_eq!(ahead.look(6), Ahead::Coming);
        ahead.wait(6, 77);
        ahead.wait(6, 78);
        let first = ahead.arrived(6);
        let (command, next) = ahead.waiter(first);
        assert_eq!((command, ahead.waiter(next)), (78, (77, NONE)));
        assert_eq!(ahead.look(6), Ahead::Ready);
        ahead.forget(6);
        assert_eq!(ahead.look(6), Ahead::Absent);
    }
}
