//! Sequences of requests, each to one disk: a request belongs to one where it begins near its end, for requests of a sequence
//! overtake one another.

/// Sequences followed on all disks together.
const SEQUENCES_MAX: usize = 16;

/// A sequence, and what is known of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sequence<T> {
    disk: u16,
    /// Block behind its furthest request.
    pub end: u64,
    /// When its last request came, in requests.
    used: u64,
    pub known: T,
}

/// The sequences whose requests came last.
#[derive(Debug)]
pub(super) struct Sequences<T> {
    list: Vec<Sequence<T>>,
    clock: u64,
}

impl<T> Default for Sequences<T> {
    fn default() -> Self {
        Self { list: Vec::new(), clock: 0 }
    }
}

impl<T> Sequences<T> {
    /// A request from a block on comes: the sequence that ends within `slack` blocks of there.
    pub fn continued(&mut self, disk: u16, block: u64, slack: u64) -> Option<&mut Sequence<T>> {
        self.clock += 1;
        let near = |sequence: &&mut Sequence<T>| sequence.disk == disk && sequence.end.abs_diff(block) <= slack;
        let sequence = self.list.iter_mut().find(near)?;
        sequence.used = self.clock;
        Some(sequence)
    }

    /// The request that came last begins a sequence, in place of the one not continued for longest.
    pub fn begin(&mut self, disk: u16, end: u64, known: T) {
        let new = Sequence { disk, end, used: self.clock, known };
        if self.list.len() < SEQUENCES_MAX {
            self.list.push(new);
        } else if let Some(oldest) = self.list.iter_mut().min_by_key(|sequence| sequence.used) {
            *oldest = new;
        }
    }

    /// What is known of each.
    pub fn known_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.list.iter_mut().map(|sequence| &mut sequence.known)
    }
}
