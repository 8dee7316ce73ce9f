//! Sequences of requests, each on one disk. A request belongs to a sequence if it begins near the end of it, not only at its end: requests of a sequence
//! overtake one another.

/// Sequences followed on all disks together.
const SEQUENCES_MAX: usize = 16;

/// A sequence, and what is known of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sequence<T> {
    disk: u16,
    /// Block after its furthest request.
    pub end: u64,
    /// When its last request came, counted in requests.
    used: u64,
    pub known: T,
}

/// The sequences that had a request most recently.
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
    /// A request arrives that begins at `block`. Returns the sequence that ends within `slack` blocks of it.
    pub fn continued(&mut self, disk: u16, block: u64, slack: u64) -> Option<&mut Sequence<T>> {
        self.clock += 1;
        let near = |sequence: &&mut Sequence<T>| sequence.disk == disk && sequence.end.abs_diff(block) <= slack;
        let sequence = self.list.iter_mut().find(near)?;
        sequence.used = self.clock;
        Some(sequence)
    }

    /// Begins a sequence with the latest request. Where the list is full it replaces the sequence not continued for
    /// longest.
    pub fn begin(&mut self, disk: u16, end: u64, known: T) {
        let new = Sequence { disk, end, used: self.clock, known };
        if self.list.len() < SEQUENCES_MAX {
            self.list.push(new);
        } else if let Some(oldest) = self.list.iter_mut().min_by_key(|sequence| sequence.used) {
            *oldest = new;
        }
    }

    /// What is known of each sequence.
    pub fn known_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.list.iter_mut().map(|sequence| &mut sequence.known)
    }
}
