//! What each block may hold: the newest version known to be durable, and every later one that was sent.

use super::content::{Content, look};

/// A state of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Version {
    number: u32,
    zero: bool,
}

/// What a check of one block found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The one state that it must have.
    Durable,
    /// It had unflushed writes and holds the durable state.
    OldKept,
    /// It had unflushed writes and holds one of them.
    NewKept,
    /// It holds what it must not.
    Wrong(Content),
}

/// The blocks of one address range.
pub struct Region {
    first_block: u64,
    /// Possible states of each block; the first is durable.
    blocks: Vec<Vec<Version>>,
    /// Blocks with more than one.
    dirty: Vec<usize>,
    /// Highest number handed out for each block. None is handed out twice: a resurrected block would look right.
    numbers: Vec<u32>,
}

impl Region {
    /// `count` blocks of zeros.
    pub fn new(first_block: u64, count: usize) -> Self {
        let zero = Version { number: 0, zero: true };
        Self { first_block, blocks: vec![vec![zero]; count], dirty: Vec::new(), numbers: vec![0; count] }
    }

    /// Number of blocks.
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Address of the first block, in blocks.
    pub fn first_block(&self) -> u64 {
        self.first_block
    }

    /// A block is about to be written, or discarded; gives the version's number.
    pub fn issue(&mut self, index: usize, zero: bool) -> u32 {
        self.numbers[index] += 1;
        let number = self.numbers[index];
        self.blocks[index].push(Version { number, zero });
        self.dirty.push(index);
        number
    }

    /// A flush has completed that began when everything issued had been acknowledged.
    pub fn flushed(&mut self) {
        for index in self.dirty.drain(..) {
            let states = &mut self.blocks[index];
            states.drain(..states.len() - 1);
        }
    }

    /// A write of this one block, durable by itself, has completed.
    pub fn durable(&mut self, index: usize) {
        let states = &mut self.blocks[index];
        states.drain(..states.len() - 1);
    }

    /// Whether a block holds its newest state, where nothing is under way.
    pub fn is_newest(&self, index: usize, bytes: &[u8]) -> bool {
        let newest = self.blocks[index].last();
        match look(bytes, self.first_block + index as u64) {
            Content::Zero => newest.is_some_and(|newest| newest.zero),
            Content::Version(number) => newest.is_some_and(|newest| !newest.zero && newest.number == number),
            Content::Wrong => false,
        }
    }

    /// Judges what a block holds after a recovery; what is found is its only state from then on.
    pub fn judge(&mut self, index: usize, bytes: &[u8]) -> Verdict {
        let content = look(bytes, self.first_block + index as u64);
        let states = &mut self.blocks[index];
        let found = match content {
            Content::Zero => states.iter().rposition(|state| state.zero),
            Content::Version(number) => states.iter().position(|state| !state.zero && state.number == number),
            Content::Wrong => None,
        };
        let Some(found) = found else {
            return Verdict::Wrong(content);
        };
        let verdict = match (states.len(), found) {
            (1, _) => Verdict::Durable,
            (_, 0) => Verdict::OldKept,
            _ => Verdict::NewKept,
        };
        let state = states[found];
        states.clear();
        states.push(state);
        verdict
    }

    /// What a block must hold, for messages.
    pub fn describe(&self, index: usize) -> String {
        let each = self.blocks[index]
            .iter()
            .map(|state| if state.zero { "zeros".to_owned() } else { format!("version {}", state.number) });
        each.collect::<Vec<_>>().join(" or ")
    }

    /// Forgets what was unflushed: every block was judged.
    pub fn settled(&mut self) {
        self.dirty.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::super::content::fill;
    use super::*;

    fn block(version: u32) -> Vec<u8> {
        let mut bytes = vec![0; 4096];
        fill(&mut bytes, 10, version);
        bytes
    }

    #[test]
    fn a_flushed_version_must_be_there_and_an_unflushed_one_may() {
        let mut region = Region::new(10, 1);
        assert_eq!(region.issue(0, false), 1);
        region.flushed();
        assert_eq!(region.issue(0, false), 2);
        assert_eq!(region.issue(0, true), 3);
        assert_eq!(region.judge(0, &block(9)), Verdict::Wrong(Content::Version(9)));
        assert_eq!(region.judge(0, &block(2)), Verdict::NewKept);
        assert_eq!(region.judge(0, &block(1)), Verdict::Wrong(Content::Version(1)), "older than what was found");
        region.settled();
        assert_eq!(region.issue(0, false), 4);
        region.flushed();
        assert!(matches!(region.judge(0, &[0; 4096]), Verdict::Wrong(Content::Zero)), "a lost block");
    }

    #[test]
    fn a_block_never_written_is_zero() {
        let mut region = Region::new(10, 1);
        assert_eq!(region.judge(0, &[0; 4096]), Verdict::Durable);
        assert!(matches!(region.judge(0, &block(1)), Verdict::Wrong(_)));
    }
}
