//! Hints of writes that the kernel has issued and the server has not received yet.

use forebay_trace::{Flags, Lifetime};
use std::collections::{BTreeMap, VecDeque};

/// Most hints that wait for their writes. Queues hold some hundreds of requests, so the write of an older hint never
/// comes.
const WAITING_MAX: usize = 8192;

/// What the kernel reports of one write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hint {
    /// How long the data will live.
    pub lifetime: Lifetime,
    /// Flags of the request: metadata, swap and others.
    pub flags: Flags,
    /// Device number of the file system, as the kernel has it.
    pub file_system: u32,
    /// Inode of the file; 0 where it is not known.
    pub inode: u64,
    /// Generation of the inode.
    pub generation: u32,
    /// Process ID of the writer.
    pub pid: u32,
    /// Name of the process, padded with zeros.
    pub comm: [u8; 16],
    /// Number of the control group; 0 where it is not known.
    pub cgroup: u64,
}

struct Waiting {
    end: u64,
    serial: u64,
    hint: Hint,
}

/// Waiting hints by block. Ranges do not overlap: a newer hint replaces an older one.
#[derive(Default)]
pub struct Hints {
    // A B-tree allocates a node now and then. The entries are few, and a plain list would have to be searched as a
    // whole.
    waiting: BTreeMap<u64, Waiting>,
    /// First blocks in the order of arrival, with the serial numbers of their hints.
    order: VecDeque<(u64, u64)>,
    next_serial: u64,
    /// Hints that were dropped because their writes never came.
    pub expired: u64,
}

impl Hints {
    /// The kernel has issued a write to the blocks from `first` up to `end`, which is not included.
    pub fn add(&mut self, first: u64, end: u64, hint: Hint) {
        if first >= end {
            return;
        }
        self.remove(first, end);
        self.insert(first, end, hint);
        while self.order.len() > WAITING_MAX {
            let Some((first, serial)) = self.order.pop_front() else { return };
            if self.waiting.get(&first).is_some_and(|waiting| waiting.serial == serial) {
                self.waiting.remove(&first);
                self.expired += 1;
            }
        }
    }

    fn insert(&mut self, first: u64, end: u64, hint: Hint) {
        let serial = self.next_serial;
        self.next_serial += 1;
        self.waiting.insert(first, Waiting { end, serial, hint });
        self.order.push_back((first, serial));
    }

    /// The hint of block `at`, and up to which block (at most `end`) it holds.
    pub fn at(&self, at: u64, end: u64) -> (u64, Option<Hint>) {
        if let Some((_, found)) = self.waiting.range(..=at).next_back()
            && found.end > at
        {
            return (found.end.min(end), Some(found.hint));
        }
        (self.waiting.range(at..end).next().map_or(end, |(&first, _)| first), None)
    }

    /// The server has received the write to these blocks; the next write to them brings its own hints.
    pub fn remove(&mut self, first: u64, end: u64) {
        if let Some((_, before)) = self.waiting.range_mut(..first).next_back()
            && before.end > first
        {
            let (old_end, hint) = (before.end, before.hint);
            before.end = first;
            if old_end > end {
                self.insert(end, old_end, hint);
            }
        }
        while let Some((&at, _)) = self.waiting.range(first..end).next() {
            if let Some(gone) = self.waiting.remove(&at)
                && gone.end > end
            {
                self.insert(end, gone.end, gone.hint);
            }
        }
    }

    /// Drops all waiting hints.
    pub fn clear(&mut self) {
        self.waiting.clear();
        self.order.clear();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use proptest::prelude::*;

    fn hint(pid: u32) -> Hint {
        Hint {
            lifetime: Lifetime::Short,
            flags: Flags::META,
            file_system: 1,
            inode: 2,
            generation: 3,
            pid,
            comm: *b"postgres\0\0\0\0\0\0\0\0",
            cgroup: 4,
        }
    }

    fn take(hints: &mut Hints, at: u64, end: u64) -> (u64, Option<Hint>) {
        let (until, found) = hints.at(at, end);
        hints.remove(at, until);
        (until, found)
    }

    #[test]
    fn a_hint_is_used_once() {
        let mut hints = Hints::default();
        hints.add(10, 20, hint(1));
        assert_eq!(take(&mut hints, 0, 5), (5, None));
        assert_eq!(take(&mut hints, 5, 14), (10, None));
        assert_eq!(take(&mut hints, 10, 14), (14, Some(hint(1))));
        assert_eq!(take(&mut hints, 10, 14), (14, None), "taken");
        assert_eq!(take(&mut hints, 14, 100), (20, Some(hint(1))));
        assert!(hints.waiting.is_empty());
    }

    #[test]
    fn what_never_comes_is_forgotten() {
        let mut hints = Hints::default();
        for at in 0..3 * WAITING_MAX as u64 {
            hints.add(at * 10, at * 10 + 1, hint(1));
        }
        assert_eq!((hints.waiting.len(), hints.order.len()), (WAITING_MAX, WAITING_MAX));
        assert_eq!(hints.expired, 2 * WAITING_MAX as u64);
        // Nor do hints that were used leave anything behind in the order.
        for at in 0..3 * WAITING_MAX as u64 {
            hints.add(5, 9, hint(at as u32));
            assert_eq!(take(&mut hints, 5, 9).1, Some(hint(at as u32)));
        }
        assert!(hints.order.len() <= WAITING_MAX && hints.waiting.is_empty());
    }

    proptest! {
        #[test]
        fn ranges_are_as_if_each_block_had_its_own(
            steps in prop::collection::vec((any::<bool>(), 0u64..64, 1u64..30), 1..200)
        ) {
            let mut hints = Hints::default();
            let mut model = [None; 128];
            for (serial, (adds, first, len)) in steps.into_iter().enumerate() {
                let end = first + len;
                if adds {
                    hints.add(first, end, hint(serial as u32));
                    model[first as usize..end as usize].fill(Some(serial as u32));
                    continue;
                }
                let mut at = first;
                while at < end {
                    let (until, found) = take(&mut hints, at, end);
                    prop_assert!(until > at && until <= end);
                    for block in &mut model[at as usize..until as usize] {
                        prop_assert_eq!(block.take(), found.map(|hint| hint.pid));
                    }
                    at = until;
                }
            }
        }
    }
}
