//! What a block may hold. Every change that was sent makes a new state of the whole block, in the order of sending
//! (overlapping changes take effect in that order); after a crash the block must be in one of these states, whole, and
//! in none older than the newest that is known to be durable.

use crate::sector::{BLOCK_SECTORS, WRONG, ZERO};

/// Versions of a block's sectors.
pub type Sectors = [u32; BLOCK_SECTORS];

/// Part of a block, one bit a sector.
pub type Mask = u8;

/// The whole block.
pub const WHOLE: Mask = 0xff;

#[derive(Clone, Copy, Debug)]
struct Change {
    mask: Mask,
    zero: bool,
}

/// A block's possible states since it was last known for certain.
#[derive(Clone, Debug, Default)]
pub struct Block {
    known: Sectors,
    /// Number of the change that made the known state. Numbers are never used twice: a resurrected state would look
    /// right.
    known_version: u32,
    changes: Vec<Change>,
    /// Newest change that was acknowledged.
    acknowledged: u32,
    /// Newest change that is known to be durable.
    floor: u32,
}

fn apply(sectors: &mut Sectors, change: Change, version: u32) {
    for (index, sector) in sectors.iter_mut().enumerate() {
        if change.mask & (1 << index) != 0 {
            *sector = if change.zero { ZERO } else { version };
        }
    }
}

impl Block {
    /// A change is about to be sent; gives its number.
    pub fn issue(&mut self, mask: Mask, zero: bool) -> u32 {
        self.changes.push(Change { mask, zero });
        self.newest()
    }

    /// Number of the newest change sent.
    pub fn newest(&self) -> u32 {
        self.known_version + self.changes.len() as u32
    }

    /// Number of the newest change acknowledged.
    pub fn acknowledged(&self) -> u32 {
        self.acknowledged
    }

    /// A change was acknowledged.
    pub fn acknowledge(&mut self, version: u32) {
        self.acknowledged = self.acknowledged.max(version);
    }

    /// A change is durable.
    pub fn durable(&mut self, version: u32) {
        self.floor = self.floor.max(version);
    }

    /// The newest durable change.
    pub fn floor(&self) -> u32 {
        self.floor
    }

    /// The newest state between two changes that this content is; none: it must not hold this.
    pub fn judge(&self, found: &Sectors, oldest: u32, newest: u32) -> Option<u32> {
        let mut state = self.known;
        let mut version = self.known_version;
        let mut best = None;
        let mut rest = self.changes.iter();
        loop {
            if (oldest..=newest).contains(&version) && state == *found {
                best = Some(version);
            }
            let Some(change) = rest.next() else { return best };
            version += 1;
            apply(&mut state, *change, version);
        }
    }

    /// After a recovery: the only state from now on is the one found, for recovery decides once.
    pub fn settle(&mut self, found: Sectors) {
        self.known_version = self.newest();
        self.known = found;
        self.changes.clear();
        (self.acknowledged, self.floor) = (self.known_version, self.known_version);
    }

    /// Whether more than one state is possible.
    pub fn is_open(&self) -> bool {
        self.floor < self.newest()
    }

    /// What is wrong with a content, for messages.
    pub fn explain(&self, found: &Sectors, oldest: u32, newest: u32) -> String {
        let word = |version: &u32| match *version {
            ZERO => "0".to_owned(),
            WRONG => "?".to_owned(),
            version => version.to_string(),
        };
        let list = |sectors: &Sectors| sectors.iter().map(word).collect::<Vec<_>>().join(" ");
        let kind = match self.judge(found, self.known_version, self.newest()) {
            Some(version) => format!("the older state {version}"),
            None if found.contains(&WRONG) => "bytes that were never written there".to_owned(),
            None => "a mixture, or a state from before the last recovery".to_owned(),
        };
        let mut state = self.known;
        for (index, change) in self.changes.iter().enumerate().take(oldest.saturating_sub(self.known_version) as usize)
        {
            apply(&mut state, *change, self.known_version + 1 + index as u32);
        }
        format!(
            "holds {kind} (sectors {}), must be a state from {oldest} (sectors {}) to {newest}",
            list(found),
            list(&state)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flushed_state_must_be_there_and_an_unflushed_one_may() {
        let mut block = Block::default();
        assert_eq!(block.judge(&[0; 8], 0, 0), Some(0));
        assert_eq!(block.issue(WHOLE, false), 1);
        assert_eq!(block.issue(0b11, false), 2);
        assert_eq!(block.issue(WHOLE, true), 3);
        block.durable(1);
        assert_eq!(block.judge(&[1; 8], block.floor(), 3), Some(1));
        assert_eq!(block.judge(&[2, 2, 1, 1, 1, 1, 1, 1], block.floor(), 3), Some(2));
        assert_eq!(block.judge(&[0; 8], block.floor(), 3), Some(3), "not the zeros of the beginning");
        assert_eq!(block.judge(&[2, 1, 1, 1, 1, 1, 1, 1], block.floor(), 3), None, "torn");
        block.durable(2);
        assert_eq!(block.judge(&[1; 8], block.floor(), 3), None, "older than what was flushed");
        assert!(block.explain(&[1; 8], 2, 3).contains("older state 1"));
    }

    #[test]
    fn what_a_recovery_decided_stays() {
        let mut block = Block::default();
        block.issue(WHOLE, false);
        block.issue(WHOLE, false);
        block.settle([1; 8]);
        assert!(!block.is_open());
        assert_eq!(block.judge(&[2; 8], block.floor(), block.newest()), None, "dropped, and came back");
        assert_eq!(block.issue(WHOLE, false), 3, "numbers are not used twice");
        assert_eq!(block.judge(&[1; 8], block.floor(), 3), Some(2), "the found state");
    }
}
