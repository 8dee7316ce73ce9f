//! Which objects of earlier epochs count. Requests of a server that is gone may arrive after its successor has listed the objects; what
//! comes then must not show after the next opening, and it may well be older than what had arrived. So whoever opens the device to write
//! notes what was there.

use super::name::{ObjectName, Sequence};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What was there when an epoch began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Roll {
    /// The epoch of who called it: from there on all count.
    author: u32,
    /// For each epoch before, counters of the objects that were there: first and last of each run, in order.
    epochs: BTreeMap<u32, Vec<(u64, u64)>>,
}

impl Roll {
    /// What `author` has found.
    pub(crate) fn call<'a>(author: u32, names: impl IntoIterator<Item = &'a ObjectName>) -> Self {
        let mut sequences: Vec<Sequence> = names.into_iter().map(|name| name.sequence).collect();
        sequences.sort_unstable();
        let mut epochs = BTreeMap::<u32, Vec<(u64, u64)>>::new();
        for Sequence { epoch, counter } in sequences {
            let runs = epochs.entry(epoch).or_default();
            match runs.last_mut() {
                Some((_, last)) if last.checked_add(1) == Some(counter) => *last = counter,
                _ => runs.push((counter, counter)),
            }
        }
        Self { author, epochs }
    }

    /// The epoch of who called it; 0 of none.
    pub(crate) fn author(&self) -> u32 {
        self.author
    }

    /// Whether there may be objects of an epoch: its server called the roll before it made any, and nobody has called it since.
    pub(crate) fn knows(&self, epoch: u32) -> bool {
        self.author > 0 && epoch <= self.author
    }

    /// Whether an object counts that is there now.
    pub(crate) fn counts(&self, Sequence { epoch, counter }: Sequence) -> bool {
        let Some(runs) = self.epochs.get(&epoch).filter(|_| epoch < self.author) else { return epoch >= self.author };
        let at = runs.partition_point(|(first, _)| *first <= counter);
        at.checked_sub(1).and_then(|at| runs.get(at)).is_some_and(|(_, last)| counter <= *last)
    }
}

#[cfg(test)]
mod tests {
    use super::super::name::Content;
    use super::*;

    #[test]
    fn regression_what_comes_late_does_not_count_though_newer_ones_do() {
        let name = |epoch, counter| ObjectName {
            sequence: Sequence { epoch, counter },
            start_bytes: 0,
            len_bytes: 512,
            content: Content::Zeros,
        };
        let there = [name(1, 5), name(2, 9), name(1, 3), name(1, 4), name(1, 1)];
        let roll = Roll::call(3, &there);
        for (epoch, counter, counts) in [
            (1, 1, true),
            (1, 2, false),
            (1, 3, true),
            (1, 5, true),
            (1, 6, false),
            (2, 8, false),
            (2, 9, true),
            (3, 1, true),
            (4, 1, true),
            (0, 1, false),
        ] {
            assert_eq!(roll.counts(Sequence { epoch, counter }), counts, "{epoch} {counter}");
        }
        assert!(Roll::default().counts(Sequence { epoch: 1, counter: 7 }));
        let text = serde_json::to_string(&roll).unwrap();
        assert_eq!(serde_json::from_str::<Roll>(&text).unwrap(), roll);
    }
    #[test]
    fn regression_two_objects_with_the_last_of_all_numbers_are_called() {
        let last = Sequence { epoch: 1, counter: u64::MAX };
        let name = ObjectName { sequence: last, start_bytes: 0, len_bytes: 512, content: Content::Zeros };
        assert!(Roll::call(3, &[name, name]).counts(last));
    }
}
