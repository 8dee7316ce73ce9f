//! Which batches of the journal are known to have been durable: watermarks say so, and so do the headers of later batches.

use super::report::OpenError;
use crate::io::Devices;
use crate::layout::Id;
use crate::layout::batch::{BatchHeader, EXCEPTIONS};
use crate::layout::watermark::{OFFSETS_BYTES, Watermark};
use forebay_block::IoError;
use std::collections::BTreeSet;

/// How often something is read before it counts as lost or damaged: decisions of recovery are final.
const READINGS: u8 = 2;

/// The batches that are known to have been durable.
#[derive(Debug, Default)]
pub(super) struct Durable {
    /// Batches up to this one were.
    to: u64,
    /// Batches above it that were as well.
    beyond: BTreeSet<u64>,
}

impl Durable {
    /// The batch up to which all were.
    pub fn to(&self) -> u64 {
        self.to
    }

    pub fn is_durable(&self, batch: u64) -> bool {
        batch <= self.to || self.beyond.contains(&batch)
    }

    fn take_mark(&mut self, mark: &Watermark) {
        self.to = self.to.max(mark.batch);
        self.beyond.extend(mark.durable_beyond());
    }

    /// Takes what a header says of batches before it.
    pub fn take_header(&mut self, header: &BatchHeader) {
        self.to = self.to.max(header.durable);
        let named = (0..EXCEPTIONS).filter(|i| header.exceptions >> i & 1 == 1);
        self.beyond.extend(named.map(|i| header.durable + 2 + i));
    }

    /// Batches from `batch` on that were durable although one before them was not.
    fn beyond_from(&self, batch: u64) -> impl Iterator<Item = u64> {
        self.beyond.range(batch.max(self.to + 1)..).copied()
    }

    /// The first batch from `batch` on that was durable.
    pub fn first_from(&self, batch: u64) -> Option<u64> {
        if self.to >= batch { Some(batch) } else { self.beyond_from(batch).min() }
    }

    /// How many batches from `batch` on were durable.
    pub fn count_from(&self, batch: u64) -> u64 {
        (self.to + 1).saturating_sub(batch) + self.beyond_from(batch).count() as u64
    }
}

/// What the watermarks say.
#[derive(Debug, Default)]
pub(super) struct Watermarks {
    /// The batches that those of this epoch name.
    pub durable: Durable,
    /// The highest serial of one, of any epoch.
    pub serial: u64,
    /// Why none of them can be read. One may be unreadable, just as it may be damaged.
    pub unread: Option<IoError>,
}

impl Watermarks {
    /// Reads the watermarks. Those of another epoch say nothing of the batches of this one.
    pub fn read(devices: &mut Devices, pool: &Id, epoch: u64) -> Result<Self, OpenError> {
        let mut marks = Self::default();
        let mut is_any_read = false;
        for offset_bytes in OFFSETS_BYTES {
            let place = newest_watermark(devices, offset_bytes, pool)?;
            is_any_read |= place.is_read;
            marks.unread = place.unread.or(marks.unread);
            let Some(mark) = place.mark else { continue };
            marks.serial = marks.serial.max(mark.serial);
            if mark.epoch == epoch {
                marks.durable.take_mark(&mark);
            }
        }
        marks.unread = marks.unread.filter(|_| !is_any_read);
        Ok(marks)
    }
}

/// What was found in the place of a watermark.
#[derive(Default)]
struct Place {
    mark: Option<Watermark>,
    /// Some reading gave bytes.
    is_read: bool,
    /// Why a reading did not.
    unread: Option<IoError>,
}

/// The newest watermark that any reading of this place gives. What does not decode as a watermark is read once more: one bad transfer must
/// not make durable batches doubtful.
fn newest_watermark(devices: &mut Devices, offset_bytes: u64, pool: &Id) -> Result<Place, OpenError> {
    let mut place = Place::default();
    for attempt in 0..READINGS.max(devices.copies()) {
        match devices.read_one_of(0, offset_bytes, 4096, attempt).map_err(OpenError::of_device(devices, 0))? {
            Ok(bytes) => {
                place.is_read = true;
                let both = place.mark.into_iter().chain(Watermark::decode(&bytes, pool));
                place.mark = both.max_by_key(|mark| mark.serial);
            }
            Err(error) => place.unread = Some(error),
        }
    }
    Ok(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_durable_behind_a_batch_is_counted_once() {
        let durable = Durable { to: 10, beyond: BTreeSet::from([9, 12, 15]) };
        assert!(durable.is_durable(10) && !durable.is_durable(11) && durable.is_durable(12));
        assert_eq!((durable.first_from(8), durable.count_from(8)), (Some(8), 5), "8 to 10, 12 and 15");
        assert_eq!((durable.first_from(11), durable.count_from(11)), (Some(12), 2));
        assert_eq!((durable.first_from(13), durable.count_from(13)), (Some(15), 1));
        assert_eq!((durable.first_from(16), durable.count_from(16)), (None, 0));
    }
}
