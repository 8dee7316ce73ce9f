//! The bands that are open, at most one for each stream.

use crate::layout::stream::Stream;
use std::collections::BTreeMap;

/// Fewest free bands below which collection is due, and how many more than its jobs need at most.
const LOW: [usize; 2] = [3, 16];

/// Free bands below which collection is due, in a pool of `bands` bands of `band_blocks` blocks, where jobs move `blocks_in_jobs` blocks at once. Bands
/// that are kept free are spare space in which nothing can die, so that of many bands only few are kept: for what hosts take while a band is emptied,
/// and for what waits for a checkpoint.
pub(crate) fn low(bands: usize, band_blocks: u32, blocks_in_jobs: u64) -> usize {
    let for_jobs = (4 * blocks_in_jobs).div_ceil(u64::from(band_blocks.max(1))) as usize;
    (bands / 16).clamp(LOW[0], LOW[1] + for_jobs)
}

/// Open bands by stream.
#[derive(Clone, Debug, Default)]
pub(super) struct OpenBands {
    by_stream: BTreeMap<Stream, u32>,
    /// Entries of the group that a band is written in: those that its summary has, or may get for what was granted.
    promised: BTreeMap<u32, usize>,
}

impl OpenBands {
    /// The band of a stream.
    pub fn of(&self, stream: Stream) -> Option<u32> {
        self.by_stream.get(&stream).copied()
    }

    /// The bands of all streams of garbage collection, or of all others.
    pub fn of_kind(&self, collecting: bool) -> impl Iterator<Item = u32> {
        self.by_stream.iter().filter(move |(stream, _)| stream.is_collected == collecting).map(|(_, &band)| band)
    }

    /// All of them.
    pub fn all(&self) -> Vec<u32> {
        self.by_stream.values().copied().collect()
    }

    /// The band of the stream of the same kind that is most like this one: that data dies together is worth more than that it is of one class.
    pub fn nearest(&self, stream: Stream) -> Option<u32> {
        let same_kind = self.by_stream.iter().filter(|(other, _)| other.is_collected == stream.is_collected);
        let distance = |other: &Stream| (other.group.abs_diff(stream.group), other.class != stream.class);
        same_kind.min_by_key(|(other, _)| distance(other)).map(|(_, &band)| band)
    }

    /// Notes that a band is open for a stream.
    pub fn insert(&mut self, stream: Stream, band: u32) {
        self.by_stream.insert(stream, band);
    }

    /// Entries of the group that a band is written in, with those that were promised; `None`: none were promised since the start.
    pub fn promised(&self, band: u32) -> Option<usize> {
        self.promised.get(&band).copied()
    }

    /// Notes that the group that a band is written in has so many entries, or may get them.
    pub fn promise(&mut self, band: u32, entries: usize) {
        self.promised.insert(band, entries);
    }

    /// Forgets all promises: replay has ended, and nothing was promised yet.
    pub fn forget_promised(&mut self) {
        self.promised.clear();
    }

    /// Notes that a band is not open any more. Its stream may have another one by now.
    pub fn remove(&mut self, stream: Stream, band: u32) {
        self.promised.remove(&band);
        if self.of(stream) == Some(band) {
            self.by_stream.remove(&stream);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sixteenth_is_kept_free_and_of_many_bands_few() {
        assert_eq!([16, 63, 128, 1008, 60_000].map(|bands| low(bands, 1016, 2048)), [3, 3, 8, 25, 25]);
        assert_eq!(low(60_000, 16_000, 2048), 17, "large ones hold what jobs move");
        assert_eq!(low(60_000, 0, u64::from(u32::MAX)), 3750, "never more than a sixteenth");
    }
    use forebay_block::ClassId;

    #[test]
    fn what_has_no_band_of_its_own_goes_where_data_dies_at_about_the_same_time() {
        let stream = |is_collected, group, class| Stream { is_collected, group, class: ClassId(class) };
        let mut open = OpenBands::default();
        assert_eq!(open.nearest(stream(false, 0, 0)), None);
        for (number, of) in
            [stream(false, 0, 0), stream(false, 3, 1), stream(false, 3, 2), stream(true, 1, 2)].into_iter().enumerate()
        {
            open.insert(of, number as u32);
        }
        assert_eq!(open.nearest(stream(false, 3, 2)), Some(2), "its own");
        assert_eq!(open.nearest(stream(false, 4, 2)), Some(2), "of its class, and nearly its group");
        assert_eq!(open.nearest(stream(false, 1, 2)), Some(0), "the group counts for more");
        assert_eq!(open.nearest(stream(true, 5, 0)), Some(3), "never one of the other kind");
    }
}
