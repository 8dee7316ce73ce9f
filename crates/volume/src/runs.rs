//! Sets of numbers, most of which lie together.

use std::collections::BTreeMap;
use std::ops::Range;

/// A set of numbers, by the runs in which they lie.
#[derive(Clone, Debug, Default)]
pub(crate) struct Runs {
    /// The end of each run by its start; no two runs meet.
    ends: BTreeMap<u64, u64>,
}

impl Runs {
    /// Adds a range.
    pub fn add(&mut self, range: Range<u64>) {
        let Range { mut start, mut end } = range;
        if start >= end {
            return;
        }
        while let Some((&other, &other_end)) = self.ends.range(..=end).next_back().filter(|(_, other)| **other >= start)
        {
            (start, end) = (start.min(other), end.max(other_end));
            self.ends.remove(&other);
        }
        self.ends.insert(start, end);
    }

    /// Adds all numbers of another set.
    pub fn add_all(&mut self, other: Self) {
        other.ends.into_iter().for_each(|(start, end)| self.add(start..end));
    }

    /// How many runs there are.
    pub fn count(&self) -> usize {
        self.ends.len()
    }

    /// Whether any number of a range belongs to the set.
    pub fn meets(&self, range: Range<u64>) -> bool {
        self.ends.range(..range.end).next_back().is_some_and(|(_, &end)| end > range.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_block::Random;
    use std::collections::BTreeSet;

    #[test]
    fn it_has_what_was_added_and_nothing_else() {
        let mut random = Random::new(7);
        for _ in 0..200 {
            let (mut runs, mut model) = (Runs::default(), BTreeSet::new());
            for _ in 0..random.below(20) {
                let start = random.below(60);
                let range = start..start + random.below(8);
                model.extend(range.clone());
                runs.add(range);
            }
            for start in 0..70 {
                for end in start + 1..start + 5 {
                    assert_eq!(
                        runs.meets(start..end),
                        model.range(start..end).next().is_some(),
                        "{start} {end} {runs:?}"
                    );
                }
            }
            let mut last = None;
            for (&start, &end) in &runs.ends {
                assert!(last.is_none_or(|last| last < start) && start < end, "{runs:?}");
                last = Some(end);
            }
        }
    }
}
