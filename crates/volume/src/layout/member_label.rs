//! The label of a mirrored fast tier: it says which members hold everything. It lies on every device of the pool, so that a member that was left behind
//! is recognised wherever the others are.

use super::codec::{COUNTER_LIMIT, Reader, Writer};
use super::superblock::HEAD_BYTES;
use super::{Id, is_sealed};
use forebay_block::Geometry;

/// Most members of a mirrored fast tier.
pub const MEMBERS_MAX: usize = 3;
/// Offsets of the two copies on every device, written in turn.
pub const OFFSETS_BYTES: [u64; 2] = [16384, 20480];
/// Length of a copy in bytes.
pub const LABEL_BYTES: usize = 4096;
pub(crate) const MAGIC: [u8; 4] = *b"FBMM";

/// Which members there are, and what each holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberLabel {
    /// The pool.
    pub pool: Id,
    /// The member that this label lies on; `None` on a capacity device.
    pub member: Option<u8>,
    /// Counts up with each change of which members hold everything.
    pub generation: u64,
    /// Counts up with each write; the copy with the higher one is newer.
    pub serial: u64,
    /// Ids of the members, in their order; a member that was replaced has another one.
    pub ids: Vec<Id>,
    /// One bit for each member that holds everything.
    pub in_sync: u8,
    /// The member that is being rebuilt.
    pub rebuilding: Option<u8>,
    /// How far its rebuild is, in bytes from the start.
    pub rebuilt_bytes: u64,
    /// Bytes of each member that are used: the size of the smallest when the pool was created.
    pub size_bytes: u64,
    /// Logical block in bytes: the largest of the members when the pool was created.
    pub logical_block_bytes: u32,
}

impl MemberLabel {
    /// Whether a member holds everything.
    #[must_use]
    pub fn is_in_sync(&self, member: usize) -> bool {
        member < MEMBERS_MAX && self.in_sync & 1 << member != 0
    }

    /// Whether a device can be a member, or why not.
    ///
    /// # Errors
    /// Why not.
    pub fn fits(&self, geometry: &Geometry) -> Result<(), String> {
        fits(geometry, self.size_bytes, self.logical_block_bytes)
    }

    /// Encodes one copy.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::of_pool(MAGIC, &self.pool);
        w.u64(self.generation);
        w.u64(self.serial);
        w.u8(self.member.map_or(0, |member| member + 1));
        w.u8(self.ids.len() as u8);
        w.u8(self.in_sync);
        w.u8(self.rebuilding.map_or(0, |member| member + 1));
        w.u32(self.logical_block_bytes);
        w.u64(self.rebuilt_bytes);
        w.u64(self.size_bytes);
        for id in &self.ids {
            w.bytes.extend_from_slice(id);
        }
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
        let (member, members, in_sync, rebuilding) = (r.u8()?, r.u8()?, r.u8()?, r.u8()?);
        let logical_block_bytes = r.u32()?;
        let (rebuilt_bytes, size_bytes) = (r.u64()?, r.u64()?);
        let ids: Vec<Id> = (0..members).map(|_| r.id()).collect::<Option<_>>()?;
        let label = Self {
            pool,
            member: member.checked_sub(1),
            generation,
            serial,
            ids,
            in_sync,
            rebuilding: rebuilding.checked_sub(1),
            rebuilt_bytes,
            size_bytes,
            logical_block_bytes,
        };
        let count = label.ids.len();
        let is_member = |member: Option<u8>| member.is_none_or(|member| usize::from(member) < count);
        let is_good = (1..=MEMBERS_MAX).contains(&count)
            && generation < COUNTER_LIMIT
            && serial < COUNTER_LIMIT
            && is_member(label.member)
            && is_member(label.rebuilding)
            && label.in_sync != 0
            && u32::from(label.in_sync) < 1 << count
            && label.rebuilding.is_none_or(|member| !label.is_in_sync(usize::from(member)))
            && rebuilt_bytes <= size_bytes
            && matches!(logical_block_bytes, 512 | 4096)
            && size_bytes.is_multiple_of(512)
            && size_bytes >= HEAD_BYTES;
        is_good.then_some(label)
    }
}

/// Whether a device can be a member of a mirror of this size and with logical blocks of at most this size.
///
/// # Errors
/// Why not.
pub fn fits(geometry: &Geometry, size_bytes: u64, logical_block_bytes: u32) -> Result<(), String> {
    if geometry.size_bytes < size_bytes {
        return Err(format!("it has {} bytes, members have at least {size_bytes}", geometry.size_bytes));
    }
    if geometry.logical_block_bytes > logical_block_bytes {
        let is = geometry.logical_block_bytes;
        return Err(format!("its logical blocks have {is} bytes, those of members at most {logical_block_bytes}"));
    }
    Ok(())
}

/// The logical block that a pool over such devices works in, in bytes: 512, or 4096 where any has larger ones than that (LUKS and dm-integrity can have 1024
/// and 2048). Superblocks and labels know no others.
#[must_use]
pub fn logical_block_bytes<'a>(devices: impl IntoIterator<Item = &'a Geometry>) -> u32 {
    let is_larger = devices.into_iter().any(|geometry| geometry.logical_block_bytes > 512);
    if is_larger { 4096 } else { 512 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label() -> MemberLabel {
        MemberLabel {
            pool: [7; 16],
            member: Some(1),
            generation: 5,
            serial: 9,
            ids: vec![[1; 16], [2; 16], [3; 16]],
            in_sync: 0b101,
            rebuilding: Some(1),
            rebuilt_bytes: 1 << 20,
            size_bytes: 1 << 30,
            logical_block_bytes: 512,
        }
    }

    #[test]
    fn what_is_written_is_read() {
        for label in [label(), MemberLabel { member: None, rebuilding: None, ..label() }] {
            assert_eq!(MemberLabel::decode(&label.encode()), Some(label));
        }
    }

    #[test]
    fn impossible_labels_are_refused() {
        let impossible = [
            MemberLabel { in_sync: 0, ..label() },
            MemberLabel { in_sync: 0b1000, ..label() },
            MemberLabel { rebuilding: Some(0), ..label() },
            MemberLabel { member: Some(3), ..label() },
            MemberLabel { ids: vec![[1; 16]; 4], ..label() },
            MemberLabel { ids: vec![], in_sync: 1, member: None, rebuilding: None, ..label() },
            MemberLabel { rebuilt_bytes: (1 << 30) + 1, ..label() },
            MemberLabel { generation: COUNTER_LIMIT, ..label() },
            MemberLabel { logical_block_bytes: 1024, ..label() },
            MemberLabel { size_bytes: HEAD_BYTES - 512, rebuilt_bytes: 0, ..label() },
        ];
        for label in impossible {
            assert_eq!(MemberLabel::decode(&label.encode()), None, "{label:?}");
        }
        let mut bytes = label().encode();
        bytes[40] ^= 1;
        assert_eq!(MemberLabel::decode(&bytes), None);
        assert_eq!(MemberLabel::decode(&bytes[..100]), None);
    }
}
