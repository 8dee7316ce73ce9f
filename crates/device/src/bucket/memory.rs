//! Written data that no object holds yet, in a form that serves reads and makes objects.

use bytes::Bytes;
use std::collections::BTreeMap;
use std::ops::Range;

/// Least weight of a piece: zeros take no memory, but their entries do.
pub(crate) const WEIGHT_MIN_BYTES: u64 = 512;

/// The content of a piece.
#[derive(Clone, Debug)]
pub(crate) enum Held {
    /// Data.
    Data(Bytes),
    /// This many zero bytes.
    Zeros(u64),
}

impl Held {
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Data(bytes) => bytes.len() as u64,
            Self::Zeros(len) => *len,
        }
    }

    fn slice(&self, range: Range<u64>) -> Self {
        match self {
            Self::Data(bytes) => Self::Data(bytes.slice(range.start as usize..range.end as usize)),
            Self::Zeros(_) => Self::Zeros(range.end - range.start),
        }
    }

    fn weight(&self) -> u64 {
        match self {
            Self::Data(bytes) => (bytes.len() as u64).max(WEIGHT_MIN_BYTES),
            Self::Zeros(_) => WEIGHT_MIN_BYTES,
        }
    }
}

#[derive(Clone, Debug)]
struct Piece {
    held: Held,
    /// Length of the allocation that the piece keeps alive.
    whole_bytes: u64,
    /// Counter of the object in which it is being sent; `None`: it is dirty.
    sent: Option<u64>,
}

impl Piece {
    /// Part of a piece. Less than half of the allocation is copied: a slice would keep all of it alive without being
    /// counted.
    fn part(&self, range: Range<u64>) -> Self {
        match self.held.slice(range) {
            Held::Data(bytes) if (bytes.len() as u64) < self.whole_bytes / 2 => Self {
                whole_bytes: bytes.len() as u64,
                held: Held::Data(Bytes::copy_from_slice(&bytes)),
                sent: self.sent,
            },
            held => Self { held, whole_bytes: self.whole_bytes, sent: self.sent },
        }
    }
}

/// Neighbouring pieces that become one object.
#[derive(Debug)]
pub(crate) struct Run {
    /// Offset on the device, in bytes.
    pub(crate) start: u64,
    /// Either data in order, or zeros.
    pub(crate) held: Vec<Held>,
}

impl Run {
    /// Length in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.held.iter().map(Held::len).sum()
    }

    fn is_zeros(&self) -> bool {
        matches!(self.held.first(), Some(Held::Zeros(_)))
    }
}

/// The pieces. They do not overlap, and none crosses the border of a unit.
#[derive(Debug)]
pub(crate) struct Memory {
    pieces: BTreeMap<u64, Piece>,
    unit_bytes: u64,
    /// Weight of dirty pieces, in total and by unit.
    dirty_bytes: u64,
    dirty_of_unit: BTreeMap<u64, u64>,
}

impl Memory {
    pub(crate) fn new(unit_bytes: u64) -> Self {
        Self { pieces: BTreeMap::new(), unit_bytes, dirty_bytes: 0, dirty_of_unit: BTreeMap::new() }
    }

    /// Weight of all dirty pieces, in bytes.
    pub(crate) fn dirty_bytes(&self) -> u64 {
        self.dirty_bytes
    }

    fn add(&mut self, start: u64, piece: Piece) {
        if piece.sent.is_none() {
            let weight = piece.held.weight();
            self.dirty_bytes += weight;
            *self.dirty_of_unit.entry(start / self.unit_bytes).or_default() += weight;
        }
        self.pieces.insert(start, piece);
    }

    fn take(&mut self, start: u64) -> Option<Piece> {
        let piece = self.pieces.remove(&start)?;
        if piece.sent.is_none() {
            let weight = piece.held.weight();
            self.dirty_bytes -= weight;
            let unit = start / self.unit_bytes;
            if let Some(bytes) = self.dirty_of_unit.get_mut(&unit) {
                *bytes -= weight;
                if *bytes == 0 {
                    self.dirty_of_unit.remove(&unit);
                }
            }
        }
        Some(piece)
    }

    fn overlapping(&self, range: &Range<u64>) -> Vec<u64> {
        let before = self.pieces.range(..range.start).next_back();
        let before = before.filter(|(start, piece)| *start + piece.held.len() > range.start);
        before.into_iter().chain(self.pieces.range(range.clone())).map(|(start, _)| *start).collect()
    }

    /// Drops the content of a range.
    pub(crate) fn remove(&mut self, range: Range<u64>) {
        for start in self.overlapping(&range) {
            let Some(piece) = self.take(start) else { continue };
            let end = start + piece.held.len();
            if start < range.start {
                self.add(start, piece.part(0..range.start - start));
            }
            if end > range.end {
                self.add(range.end, piece.part(range.end - start..end - start));
            }
        }
    }

    /// Replaces the content of a range.
    pub(crate) fn write(&mut self, start: u64, held: &Held) {
        let end = start + held.len();
        self.remove(start..end);
        let piece = Piece { held: held.clone(), whole_bytes: held.len(), sent: None };
        let mut at = start;
        while at < end {
            let next = ((at / self.unit_bytes + 1) * self.unit_bytes).min(end);
            self.add(at, piece.part(at - start..next - start));
            at = next;
        }
    }

    /// The unit with the most dirty data.
    pub(crate) fn fullest_unit(&self) -> Option<u64> {
        self.dirty_of_unit.iter().max_by_key(|(_, bytes)| **bytes).map(|(unit, _)| *unit)
    }

    /// Whether data for the whole unit is dirty.
    pub(crate) fn is_full(&self, unit: u64) -> bool {
        self.dirty_of_unit.get(&unit).is_some_and(|bytes| *bytes >= self.unit_bytes)
    }

    /// The dirty pieces of a range, as one run per future object.
    pub(crate) fn runs(&self, range: &Range<u64>) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        let mut end = None;
        for start in self.overlapping(range) {
            let Some(piece) = self.pieces.get(&start).filter(|piece| piece.sent.is_none()) else { continue };
            let is_zeros = matches!(piece.held, Held::Zeros(_));
            match runs.last_mut() {
                Some(run)
                    if end == Some(start) && run.is_zeros() == is_zeros && !start.is_multiple_of(self.unit_bytes) =>
                {
                    run.held.push(piece.held.clone());
                }
                _ => runs.push(Run { start, held: vec![piece.held.clone()] }),
            }
            end = Some(start + piece.held.len());
        }
        runs
    }

    /// Marks a run as being sent as object `number`.
    pub(crate) fn sent(&mut self, range: &Range<u64>, number: u64) {
        self.change(range, |piece| {
            if piece.sent.is_none() {
                piece.sent = Some(number);
            }
            true
        });
    }

    /// The object is stored. Drops the pieces that it holds; pieces overwritten meanwhile stay.
    pub(crate) fn arrived(&mut self, range: &Range<u64>, number: u64) {
        self.change(range, |piece| piece.sent != Some(number));
    }

    /// The object could not be stored. Its pieces that were not overwritten meanwhile are dirty again.
    pub(crate) fn failed(&mut self, range: &Range<u64>, number: u64) {
        self.change(range, |piece| {
            if piece.sent == Some(number) {
                piece.sent = None;
            }
            true
        });
    }

    fn change(&mut self, range: &Range<u64>, keep: impl Fn(&mut Piece) -> bool) {
        for start in self.overlapping(range) {
            let Some(mut piece) = self.take(start) else { continue };
            if keep(&mut piece) {
                self.add(start, piece);
            }
        }
    }

    /// Splits a range into parts, each with its content; `None` where memory holds nothing.
    pub(crate) fn look(&self, range: Range<u64>) -> Vec<(Range<u64>, Option<Held>)> {
        let (mut parts, mut at) = (Vec::new(), range.start);
        for start in self.overlapping(&range) {
            let Some(piece) = self.pieces.get(&start) else { continue };
            if start > at {
                parts.push((at..start, None));
            }
            let (from, to) = (start.max(range.start), (start + piece.held.len()).min(range.end));
            parts.push((from..to, Some(piece.held.slice(from - start..to - start))));
            at = to;
        }
        if at < range.end {
            parts.push((at..range.end, None));
        }
        parts
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regression_a_small_rest_of_a_large_write_does_not_keep_all_of_its_memory() {
        let mut memory = Memory::new(1 << 20);
        let whole = Bytes::from(vec![7; 65536]);
        memory.write(4096, &Held::Data(whole.clone()));
        memory.write(4096 + 512, &Held::Zeros(65536 - 512));
        assert!(whole.is_unique(), "512 bytes are left of 65536");
        let parts = memory.look(4096..4096 + 512);
        assert!(matches!(&parts[..], [(_, Some(Held::Data(bytes)))] if bytes[..] == [7; 512]));
    }
}
