//! The bands that are open: one for each stream that has any.

use super::stream::is_collected;
use std::collections::BTreeMap;

/// Most bands that streams of one kind have open, of a pool of so many. Each open band is space that others cannot use: few
/// bands, few streams.
pub(super) fn open_max(bands: usize, collecting: bool) -> usize {
    let (divisor, most) = if collecting { (16, 3) } else { (8, 6) };
    (bands / divisor).clamp(1, most)
}

/// Open bands by stream.
#[derive(Clone, Debug, Default)]
pub(super) struct OpenBands {
    by_stream: BTreeMap<u8, u32>,
}

impl OpenBands {
    /// The band of a stream.
    pub fn of(&self, stream: u8) -> Option<u32> {
        self.by_stream.get(&stream).copied()
    }

    /// The bands of all streams of collection, or of all others.
    pub fn of_kind(&self, collecting: bool) -> impl Iterator<Item = u32> {
        self.by_stream.iter().filter(move |(stream, _)| is_collected(**stream) == collecting).map(|(_, &band)| band)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_stream.len()
    }

    /// A band is open for a stream.
    pub fn insert(&mut self, stream: u8, band: u32) {
        self.by_stream.insert(stream, band);
    }

    /// A band is not open any more. Its stream may have another by now.
    pub fn remove(&mut self, stream: u8, band: u32) {
        if self.of(stream) == Some(band) {
            self.by_stream.remove(&stream);
        }
    }

    /// Takes away the band of the highest stream.
    pub fn pop_last(&mut self) -> Option<u32> {
        self.by_stream.pop_last().map(|(_, band)| band)
    }
}
