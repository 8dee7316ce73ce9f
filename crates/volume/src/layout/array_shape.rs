//! Where the blocks of a capacity tier with parity lie on its members.

use forebay_block::Op;
use forebay_block::mistakes::shown;
use thiserror::Error;

/// A block in bytes.
pub const BLOCK: u64 = forebay_block::BLOCK_BYTES_U64;
/// Bytes of a place in the log of rows that are not whole yet: a header and a block of parity.
pub const SLOT_BYTES: u64 = 2 * BLOCK;
/// Rows after which the parity goes to the next members, so that all of them are worn and read alike: 1 MiB of each.
pub const TURN_ROWS: u64 = 256;
/// What begins on a member is aligned to this many bytes.
const ALIGN_BYTES: u64 = 1 << 20;
/// Most members.
pub const MEMBERS_MAX: usize = 19;
/// A write may need two places for each of its ends.
const LOG_SLOTS_MIN: u32 = 64;
const LOG_SLOTS_MAX: u32 = 4096;
/// Most bands: each takes 4 bytes of memory.
const BANDS_MAX: u64 = 1 << 26;
/// Largest member: sums of offsets cannot overflow.
const MEMBER_BYTES_MAX: u64 = 1 << 50;

/// How many devices may be lost: data blocks and parity blocks of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Redundancy {
    /// Blocks of data.
    pub data: usize,
    /// Blocks of parity: so many devices may be lost.
    pub parity: usize,
}

/// A text that is no redundancy.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "redundancy {:?} is not one: use data+parity, from \"2+1\" to \"16+3\", 1 to 3 of parity and more of data than of parity; \
     so many devices may be lost as there is parity",
    shown(.0)
)]
pub struct RedundancyError(String);

impl std::str::FromStr for Redundancy {
    type Err = RedundancyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = text.split_once('+').and_then(|(data, parity)| {
            // As it is written back: no sign, no zeros before it.
            let number =
                |text: &str| text.trim().parse::<usize>().ok().filter(|number| number.to_string() == text.trim());
            Some(Self { data: number(data)?, parity: number(parity)? })
        });
        parts.filter(|it| is_possible(it.data, it.parity)).ok_or_else(|| RedundancyError(text.to_owned()))
    }
}

impl std::fmt::Display for Redundancy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}+{}", self.data, self.parity)
    }
}

/// With no more data than parity, two halves of the members could each take themselves for the array.
fn is_possible(data: usize, parity: usize) -> bool {
    (2..=16).contains(&data) && (1..=3).contains(&parity) && parity < data
}

/// The layout of an array.
///
/// ```text
/// member   0          head            log slots                                   member_bytes - 4096
///          +----------+-------------------+----------------- ... ----------------+----+
///          |head      |log of open rows   |one block of each row                 |tail|
///          +----------+-------------------+----------------- ... ----------------+----+
///           the same on all members                                               the same on all
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Blocks of data in a row.
    pub data: usize,
    /// Blocks of parity in a row.
    pub parity: usize,
    /// Bytes of each member that are used.
    pub member_bytes: u64,
    /// Bytes from the start on that all members hold alike.
    pub head_bytes: u64,
    /// Bytes of data of a band: whole rows.
    pub band_bytes: u64,
    /// Places in the log of rows that are not whole yet.
    pub log_slots: u32,
}

/// In which part of the device something lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Area {
    /// In a part that all members have alike, at this offset of each.
    Same(u64),
    /// In the data of rows, from this byte on.
    Rows(u64),
}

/// A way to read data of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Each block from its member.
    Direct,
    /// Each block computed from the others in its row.
    WithoutOwn,
    /// The same, and also without the block that has this role in the row.
    WithoutOwnAnd(usize),
    /// The same without all blocks of the read that lie in its row: two may be wrong that a compressed block of the pool needs both of.
    WithoutAll,
    /// Blocks of this member computed, the others from their members: of data on several members the block of one may have rotted.
    Without(usize),
    /// Each block from its member, and compared with parity.
    Compared,
}

impl Shape {
    /// Members.
    #[must_use]
    pub fn members(&self) -> usize {
        self.data + self.parity
    }

    /// Whether there can be such an array.
    #[must_use]
    pub fn is_possible(&self) -> bool {
        is_possible(self.data, self.parity)
            && self.member_bytes <= MEMBER_BYTES_MAX
            && self.member_bytes.is_multiple_of(BLOCK)
            && self.head_bytes <= self.member_bytes
            && self.head_bytes.is_multiple_of(ALIGN_BYTES)
            && self.band_bytes <= MEMBER_BYTES_MAX
            && self.band_bytes >= self.row_bytes()
            && self.band_bytes.is_multiple_of(self.row_bytes())
            && (LOG_SLOTS_MIN..=LOG_SLOTS_MAX).contains(&self.log_slots)
            && self.rows_offset_bytes() + BLOCK <= self.member_bytes
            && self.rows() > 0
            && self.rows() / self.band_rows() <= BANDS_MAX
    }

    /// In how many ways data can be read other than each block from its member, see `Way`.
    #[must_use]
    pub fn variants(&self) -> u8 {
        (1 + self.ways_with_others() + self.members()) as u8
    }

    fn ways_with_others(&self) -> usize {
        if self.parity > 1 { self.members() + 1 } else { 0 }
    }

    /// How a read is done at its `attempt`.
    pub(crate) fn way(&self, attempt: u8) -> Way {
        let others = self.ways_with_others();
        match usize::from(attempt) {
            _ if attempt == Op::COMPARE => Way::Compared,
            1 => Way::WithoutOwn,
            // Attempt 1 leaves out only the block's own member, each of these one more.
            at @ 2.. if at - 1 < others => Way::WithoutOwnAnd(at - 2),
            at @ 2.. if at - 1 == others => Way::WithoutAll,
            at @ 2.. if at - 2 - others < self.members() => Way::Without(at - 2 - others),
            // The last attempts read the place itself again: what failed may have been one transfer.
            _ => Way::Direct,
        }
    }

    /// Whether a part of this range of the data of rows lies on the member, and another part on others.
    pub(crate) fn is_split_by(&self, member: usize, at: u64, len_bytes: u64) -> bool {
        let blocks = at / BLOCK..(at + len_bytes).div_ceil(BLOCK);
        let data = self.data as u64;
        let mut is_on_it = blocks.map(|block| self.member(block / data, (block % data) as usize) == member);
        is_on_it.next().is_some_and(|first| is_on_it.any(|other| other != first))
    }

    /// Whether several blocks of this range of the data of rows lie in one row, and in none more than parity can restore.
    pub(crate) fn has_several_in_a_row(&self, at: u64, len_bytes: u64) -> bool {
        let (first, last, data) = (at / BLOCK, (at + len_bytes).saturating_sub(1) / BLOCK, self.data as u64);
        let most = (first / data..=last / data).map(|row| last.min(row * data + data - 1) - first.max(row * data) + 1);
        most.max().is_some_and(|most| most > 1 && most <= self.parity as u64)
    }

    /// Bytes of data in a row.
    #[must_use]
    pub fn row_bytes(&self) -> u64 {
        self.data as u64 * BLOCK
    }

    /// Rows of a band.
    #[must_use]
    pub fn band_rows(&self) -> u64 {
        self.band_bytes / self.row_bytes()
    }

    /// Rows of all bands.
    #[must_use]
    pub fn rows(&self) -> u64 {
        let blocks = self.member_bytes.saturating_sub(self.rows_offset_bytes() + BLOCK) / BLOCK;
        blocks / self.band_rows() * self.band_rows()
    }

    /// Bytes of the one device that the members form.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.head_bytes + self.rows() * self.row_bytes() + BLOCK
    }

    fn rows_offset_bytes(&self) -> u64 {
        (self.head_bytes + u64::from(self.log_slots) * SLOT_BYTES).next_multiple_of(ALIGN_BYTES)
    }

    /// Where a place of the log lies on a member.
    pub(crate) fn slot_offset_bytes(&self, slot: u32) -> u64 {
        self.head_bytes + u64::from(slot) * SLOT_BYTES
    }

    /// Where a row's block lies on each member.
    pub(crate) fn row_offset_bytes(&self, row: u64) -> u64 {
        self.rows_offset_bytes() + row * BLOCK
    }

    /// Where a row begins on the device.
    pub(crate) fn row_start_bytes(&self, row: u64) -> u64 {
        self.head_bytes + row * self.row_bytes()
    }

    /// In which part of the device a range lies; `None` where it lies in more than one.
    pub(crate) fn area(&self, offset_bytes: u64, len_bytes: u64) -> Option<Area> {
        let end = offset_bytes.checked_add(len_bytes)?;
        let rows_end = self.head_bytes + self.rows() * self.row_bytes();
        if end <= self.head_bytes {
            Some(Area::Same(offset_bytes))
        } else if offset_bytes >= self.head_bytes && end <= rows_end {
            Some(Area::Rows(offset_bytes - self.head_bytes))
        } else if offset_bytes >= rows_end && end <= rows_end + BLOCK {
            Some(Area::Same(self.member_bytes - BLOCK + (offset_bytes - rows_end)))
        } else {
            None
        }
    }

    /// Whether an offset of the device lies in the data of rows.
    pub(crate) fn is_in_rows(&self, offset_bytes: u64) -> bool {
        matches!(self.area(offset_bytes, 1), Some(Area::Rows(_)))
    }

    /// Which member has a block of a row: roles below `data` are blocks of data, the others parity.
    pub(crate) fn member(&self, row: u64, role: usize) -> usize {
        (self.turn(row) + role) % self.members()
    }

    /// The role of a member in a row.
    pub(crate) fn role(&self, row: u64, member: usize) -> usize {
        (member + self.members() - self.turn(row)) % self.members()
    }

    /// Whether a member has data of a row at an offset: neither parity, nor the log, nor what all members have alike.
    #[must_use]
    pub fn has_data(&self, member: usize, offset_bytes: u64) -> bool {
        self.row_of_data(member, offset_bytes).is_some()
    }

    /// The row of which a member has data at an offset; `None` where it has something else there.
    #[must_use]
    pub fn row_of_data(&self, member: usize, offset_bytes: u64) -> Option<u64> {
        let row = offset_bytes.checked_sub(self.rows_offset_bytes()).map(|at| at / BLOCK)?;
        (row < self.rows() && self.role(row, member) < self.data).then_some(row)
    }

    fn turn(&self, row: u64) -> usize {
        (row / TURN_ROWS % self.members() as u64) as usize
    }

    /// How many rows from this one on have their blocks on the same members, at most `most`.
    pub(crate) fn alike_from(&self, row: u64, most: u64) -> u64 {
        most.min(TURN_ROWS - row % TURN_ROWS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redundancies_are_those_that_can_be() {
        for good in ["2+1", "16+3", "4+2", " 3 + 1 "] {
            assert!(good.parse::<Redundancy>().is_ok(), "{good}");
        }
        for bad in ["1+1", "2+2", "17+1", "4+0", "4+4", "4", "", "+", "4+2+1", "-2+1", "3+3", "02+1", "2+01", "2++1"] {
            assert!(bad.parse::<Redundancy>().is_err(), "{bad}");
        }
        assert_eq!("4+2".parse::<Redundancy>().unwrap().to_string(), "4+2");
    }

    #[test]
    fn each_row_has_each_role_once_and_all_members_have_parity() {
        let shape = Shape {
            data: 5,
            parity: 2,
            member_bytes: 64 << 20,
            head_bytes: 1 << 20,
            band_bytes: 5 * 4096 * 64,
            log_slots: 64,
        };
        assert!(shape.is_possible());
        let mut parity = vec![0; 7];
        for row in (0..shape.rows()).step_by(TURN_ROWS as usize) {
            let mut members: Vec<usize> = (0..7).map(|role| shape.member(row, role)).collect();
            (5..7).for_each(|role| parity[shape.member(row, role)] += 1);
            assert!((0..7).all(|member| shape.member(row, shape.role(row, member)) == member));
            let at = shape.row_offset_bytes(row);
            assert_eq!((0..7).filter(|&member| shape.has_data(member, at + 512)).count(), 5);
            assert!((5..7).all(|role| !shape.has_data(shape.member(row, role), at)));
            members.sort_unstable();
            assert_eq!(members, (0..7).collect::<Vec<_>>());
        }
        assert!(parity.iter().all(|&count| count > 0), "{parity:?}");
        assert!(shape.row_offset_bytes(shape.rows()) <= shape.member_bytes - BLOCK);
        assert_eq!(shape.area(0, 1 << 20), Some(Area::Same(0)));
        assert_eq!(shape.area(1 << 20, 4096), Some(Area::Rows(0)));
        assert_eq!(shape.area((1 << 20) - 512, 1024), None);
        let tail = shape.size_bytes() - BLOCK;
        assert_eq!(shape.area(tail, BLOCK), Some(Area::Same(shape.member_bytes - BLOCK)));
        assert_eq!(shape.area(tail - 512, BLOCK), None);
        assert_eq!(shape.area(tail, BLOCK + 1), None);
        assert_eq!(shape.area(u64::MAX, BLOCK), None);
    }
}
