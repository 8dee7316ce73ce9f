//! Maps ranges of the device to objects. Where several objects cover a byte, the newest one is visible there, in
//! whatever order they were inserted.

use super::name::Sequence;
use std::collections::BTreeMap;
use std::ops::Range;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent {
    end: u64,
    sequence: Sequence,
}

/// Extents that do not overlap, by their start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extents {
    map: BTreeMap<u64, Extent>,
}

/// The effect of an insertion.
#[derive(Debug, Default)]
pub(crate) struct Change {
    /// Bytes that other objects have lost, by object.
    pub(crate) lost: Vec<(Sequence, u64)>,
    /// Bytes at which the new object is visible.
    pub(crate) shown_bytes: u64,
}

impl Extents {
    /// Starts of all extents that overlap a range.
    fn overlapping(&self, range: &Range<u64>) -> Vec<u64> {
        let before = self.map.range(..range.start).next_back().filter(|(_, extent)| extent.end > range.start);
        let within = self.map.range(range.start..range.end.max(range.start));
        before.into_iter().chain(within).map(|(start, _)| *start).collect()
    }

    /// Removes the part of the extent at `start` that lies within a range. Returns its object and the bytes removed.
    fn cut(&mut self, start: u64, range: &Range<u64>) -> Option<(Sequence, u64)> {
        let Extent { end, sequence } = self.map.remove(&start)?;
        if start < range.start {
            self.map.insert(start, Extent { end: range.start, sequence });
        }
        if end > range.end {
            self.map.insert(range.end, Extent { end, sequence });
        }
        Some((sequence, end.min(range.end) - start.max(range.start)))
    }

    /// Adds an object for a range. It becomes visible where only older objects, or none, are visible.
    pub(crate) fn insert(&mut self, range: Range<u64>, sequence: Sequence) -> Change {
        let mut change = Change::default();
        let mut at = range.start;
        let mut gaps = Vec::new();
        for start in self.overlapping(&range) {
            let Some(&extent) = self.map.get(&start) else { continue };
            if extent.sequence > sequence {
                if start > at {
                    gaps.push(at..start);
                }
                at = extent.end;
            } else {
                change.lost.extend(self.cut(start, &range));
            }
        }
        if at < range.end {
            gaps.push(at..range.end);
        }
        for gap in gaps {
            change.shown_bytes += gap.end - gap.start;
            self.map.insert(gap.start, Extent { end: gap.end, sequence });
        }
        change
    }

    /// Makes nothing visible in a range any more. Returns the bytes lost, by object.
    pub(crate) fn remove(&mut self, range: Range<u64>) -> Vec<(Sequence, u64)> {
        self.overlapping(&range).into_iter().filter_map(|start| self.cut(start, &range)).collect()
    }

    /// As [`Extents::remove`], but only where `sequence` is visible.
    pub(crate) fn remove_of(&mut self, range: &Range<u64>, sequence: Sequence) {
        for start in self.overlapping(range) {
            if self.map.get(&start).is_some_and(|extent| extent.sequence == sequence) {
                self.cut(start, range);
            }
        }
    }

    /// Splits a range into parts, each with the object visible there; `None` where none is.
    pub(crate) fn look(&self, range: Range<u64>) -> Vec<(Range<u64>, Option<Sequence>)> {
        let (mut parts, mut at) = (Vec::new(), range.start);
        for start in self.overlapping(&range) {
            let Some(extent) = self.map.get(&start) else { continue };
            if start > at {
                parts.push((at..start, None));
            }
            let end = extent.end.min(range.end);
            parts.push((start.max(range.start)..end, Some(extent.sequence)));
            at = end;
        }
        if at < range.end {
            parts.push((at..range.end, None));
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sequence(counter: u64) -> Sequence {
        Sequence { epoch: 1, counter }
    }

    proptest! {
        /// Compares with a table that has an entry per byte.
        #[test]
        fn the_newest_shows(steps in prop::collection::vec((0..40u64, 1..20u64, 1..30u64, prop::bool::weighted(0.1)), 1..60)) {
            let (mut extents, mut table) = (Extents::default(), vec![None; 64]);
            for (start, len, counter, removes) in steps {
                let range = start..start + len;
                let mut lost = 0;
                if removes {
                    lost += extents.remove(range.clone()).iter().map(|(_, bytes)| bytes).sum::<u64>();
                    let before = table[start as usize..(start + len) as usize].iter().flatten().count();
                    prop_assert_eq!(lost, before as u64);
                    table[start as usize..(start + len) as usize].fill(None);
                } else {
                    let change = extents.insert(range.clone(), sequence(counter));
                    let mut shown = 0;
                    for entry in &mut table[start as usize..(start + len) as usize] {
                        if entry.is_none_or(|other| other <= counter) {
                            lost += u64::from(entry.is_some());
                            *entry = Some(counter);
                            shown += 1;
                        }
                    }
                    prop_assert_eq!(change.shown_bytes, shown);
                    prop_assert_eq!(change.lost.iter().map(|(_, bytes)| bytes).sum::<u64>(), lost);
                }
                let looked = extents.look(0..64);
                prop_assert_eq!(looked.first().unwrap().0.start, 0);
                prop_assert_eq!(looked.last().unwrap().0.end, 64);
                prop_assert!(looked.windows(2).all(|pair| pair[0].0.end == pair[1].0.start));
                for (part, shows) in looked {
                    for at in part {
                        prop_assert_eq!(shows.map(|sequence| sequence.counter), table[at as usize]);
                    }
                }
            }
        }

        #[test]
        fn the_order_does_not_matter(mut ranges in prop::collection::vec((0..40u64, 1..20u64), 1..20), seed: u64) {
            let mut numbered: Vec<_> = ranges.drain(..).enumerate().collect();
            let build = |list: &[(usize, (u64, u64))]| {
                let mut extents = Extents::default();
                for (number, (start, len)) in list {
                    extents.insert(*start..start + len, sequence(*number as u64));
                }
                // The same bytes may be split into different parts, so they are compared byte by byte.
                let mut bytes = Vec::new();
                for (part, shows) in extents.look(0..64) {
                    bytes.extend(part.map(|_| shows));
                }
                bytes
            };
            let expected = build(&numbered);
            let mut random = forebay_block::Random::new(seed);
            for at in (1..numbered.len()).rev() {
                numbered.swap(at, random.index(at + 1));
            }
            prop_assert_eq!(build(&numbered), expected);
        }
    }
}
