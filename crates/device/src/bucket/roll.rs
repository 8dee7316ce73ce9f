//! Records which objects of earlier epochs count. Requests of a server that is gone may arrive after its successor
//! has listed the objects. Such an object must not become visible at the next opening, because it may be older than
//! objects that arrived before. So each server that opens the device to write records the objects that it found.

use super::name::{ObjectName, Sequence};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The objects that existed when an epoch began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Roll {
    /// The epoch whose server wrote the roll. All objects from this epoch on count.
    author: u32,
    /// For each earlier epoch the counters of its objects: first and last of each run, in order.
    epochs: BTreeMap<u32, Vec<(u64, u64)>>,
}

impl Roll {
    /// The roll of the server of epoch `author`, which found the objects with these names.
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

    /// The epoch of the server that wrote the roll; 0 where there is no roll.
    pub(crate) fn author(&self) -> u32 {
        self.author
    }

    /// Whether this roll is recent enough for objects of `epoch`. A server writes its roll before its first object,
    /// so objects of later epochs than the author's show that a newer roll is missing.
    pub(crate) fn knows(&self, epoch: u32) -> bool {
        self.author > 0 && epoch <= self.author
    }

    /// Whether an object that exists now counts.
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
