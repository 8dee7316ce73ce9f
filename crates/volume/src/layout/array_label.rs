//! The label of a capacity tier with parity: it says which members hold everything, and lies on each of them. A change is answered when all live
//! members have its label; as more than half of the members must be there, one of those that are there has the newest label.

use super::array_shape::Shape;
use super::codec::{COUNTER_LIMIT, Reader, Writer};
use super::superblock::HEAD_BYTES;
use super::{Id, is_sealed};

/// Offsets of the two copies on each member, written in turn.
pub const OFFSETS_BYTES: [u64; 2] = [28672, 32768];
/// Length of a copy in bytes.
pub const LABEL_BYTES: usize = 4096;
/// Bytes of a member that hold the labels and nothing else.
pub const PLACE_BYTES: std::ops::Range<u64> = 28672..36864;
pub(crate) const MAGIC: [u8; 4] = *b"FBPL";

/// Which members there are, and what each holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayLabel {
    /// The pool.
    pub pool: Id,
    /// The member that this lies on.
    pub member: u8,
    /// Counts up with each change of which members hold everything.
    pub generation: u64,
    /// Counts up with each write; the copy with the higher one is newer.
    pub serial: u64,
    /// The layout of the array.
    pub shape: Shape,
    /// Ids of the members, in their order; a member that was replaced has another one.
    pub ids: Vec<Id>,
    /// One bit for each member that holds everything.
    pub in_sync: u32,
    /// The member that is being rebuilt.
    pub rebuilding: Option<u8>,
    /// How many of its rows are rebuilt.
    pub rebuilt_rows: u64,
    /// How many of its places no others could give, where all else is rebuilt: these are tried again. 0 where it is not known that all else is.
    pub missing: u32,
    /// Largest logical block that a member may have, in bytes.
    pub logical_block_bytes: u32,
}

impl ArrayLabel {
    /// Whether a member holds everything.
    #[must_use]
    pub fn is_in_sync(&self, member: usize) -> bool {
        member < self.ids.len() && self.in_sync & 1 << member != 0
    }

    /// Encodes one copy.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::of_pool(MAGIC, &self.pool);
        w.u64(self.generation);
        w.u64(self.serial);
        w.u8(self.member);
        w.u8(self.shape.data as u8);
        w.u8(self.shape.parity as u8);
        w.u8(self.rebuilding.map_or(0, |member| member + 1));
        w.u32(self.in_sync);
        w.u64(self.rebuilt_rows);
        w.u64(self.shape.member_bytes);
        w.u64(self.shape.head_bytes);
        w.u64(self.shape.band_bytes);
        w.u32(self.shape.log_slots);
        w.u32(self.logical_block_bytes);
        for id in &self.ids {
            w.bytes.extend_from_slice(id);
        }
        w.u32(self.missing);
        w.bytes.resize(LABEL_BYTES, 0);
        super::seal(&mut w.bytes);
        w.bytes
    }

    /// Decodes a copy, of whatever pool; `None` where the bytes are no label.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..LABEL_BYTES).filter(|bytes| is_sealed(bytes, MAGIC))?;
        let mut r = Reader::new(&bytes[8..]);
        let pool = r.id()?;
        let (generation, serial) = (r.u64()?, r.u64()?);
        let (member, data, parity, rebuilding) = (r.u8()?, r.u8()?, r.u8()?, r.u8()?);
        let (in_sync, rebuilt_rows) = (r.u32()?, r.u64()?);
        let (member_bytes, head_bytes, band_bytes) = (r.u64()?, r.u64()?, r.u64()?);
        let (log_slots, logical_block_bytes) = (r.u32()?, r.u32()?);
        let (data, parity) = (usize::from(data), usize::from(parity));
        let shape = Shape { data, parity, member_bytes, head_bytes, band_bytes, log_slots };
        if !shape.is_possible() {
            return None;
        }
        let ids: Vec<Id> = (0..shape.members()).map(|_| r.id()).collect::<Option<_>>()?;
        let missing = r.u32()?;
        let rebuilding = rebuilding.checked_sub(1);
        let missing = rebuilding.map_or(0, |_| missing);
        let label = Self {
            pool,
            member,
            generation,
            serial,
            shape,
            ids,
            in_sync,
            rebuilding,
            rebuilt_rows,
            missing,
            logical_block_bytes,
        };
        let count = shape.members();
        let is_good = usize::from(member) < count
            && generation < COUNTER_LIMIT / 2
            && serial < COUNTER_LIMIT / 2
            && in_sync >> count == 0
            && in_sync.count_ones() as usize >= shape.data
            && rebuilding.is_none_or(|member| usize::from(member) < count && !label.is_in_sync(member.into()))
            && rebuilt_rows <= shape.rows()
            && head_bytes >= HEAD_BYTES
            && matches!(logical_block_bytes, 512 | 4096);
        is_good.then_some(label)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label() -> ArrayLabel {
        let shape = Shape {
            data: 4,
            parity: 2,
            member_bytes: 1 << 30,
            head_bytes: 1 << 20,
            band_bytes: 4 << 20,
            log_slots: 64,
        };
        ArrayLabel {
            pool: [7; 16],
            member: 5,
            generation: 5,
            serial: 9,
            shape,
            ids: (0..6).map(|id| [id; 16]).collect(),
            in_sync: 0b01_1111,
            rebuilding: Some(5),
            rebuilt_rows: 100,
            missing: 3,
            logical_block_bytes: 512,
        }
    }

    #[test]
    fn what_is_written_is_read() {
        for label in [label(), ArrayLabel { rebuilding: None, rebuilt_rows: 0, missing: 0, ..label() }] {
            assert_eq!(ArrayLabel::decode(&label.encode()), Some(label));
        }
    }

    #[test]
    fn impossible_labels_are_refused() {
        let shaped = |change: &dyn Fn(&mut Shape)| {
            let mut label = label();
            change(&mut label.shape);
            label
        };
        let impossible = [
            ArrayLabel { in_sync: 0b111, ..label() },
            ArrayLabel { in_sync: 0b101_1111, ..label() },
            ArrayLabel { rebuilding: Some(0), ..label() },
            ArrayLabel { rebuilding: Some(6), ..label() },
            ArrayLabel { member: 6, ..label() },
            ArrayLabel { rebuilt_rows: u64::MAX, ..label() },
            ArrayLabel { serial: COUNTER_LIMIT, ..label() },
            ArrayLabel { logical_block_bytes: 1024, ..label() },
            shaped(&|shape| shape.parity = 0),
            shaped(&|shape| shape.parity = 5),
            shaped(&|shape| shape.member_bytes = 1 << 20),
            shaped(&|shape| shape.member_bytes = u64::MAX),
            shaped(&|shape| shape.band_bytes = 4096),
            shaped(&|shape| shape.head_bytes = u64::MAX - 4095),
            shaped(&|shape| shape.log_slots = u32::MAX),
        ];
        for label in impossible {
            assert_eq!(ArrayLabel::decode(&label.encode()), None, "{label:?}");
        }
        let mut bytes = label().encode();
        bytes[40] ^= 1;
        assert_eq!(ArrayLabel::decode(&bytes), None);
        assert_eq!(ArrayLabel::decode(&bytes[..100]), None);
    }
}
