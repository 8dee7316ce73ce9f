//! What is read of a device, and whether it is what it should be: free of I/O.

use crate::layout::array_label::{self, ArrayLabel};
use crate::layout::member_label::{self, MemberLabel};
use crate::layout::superblock::{MAGIC, Role, SIZE_BYTES, Superblock, SuperblockError, copy_offsets_bytes};
use crate::layout::{Id, format_id};
use crate::recovery::opened::are_apart;
use forebay_block::{IoError, IoErrorKind, SECTOR_BYTES};

/// What a device should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// The superblock of the pool, as it is while the pool is served.
    pub superblock: Superblock,
    /// Its number in the table of devices; members of one tier share one.
    pub index: u16,
    /// Bytes of the device that are used.
    pub size_bytes: u64,
    /// Its id by its label, where it is one of several devices of its tier.
    pub member: Option<Id>,
}

/// A part of a device that is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub offset_bytes: u64,
    pub len_bytes: usize,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A copy of the superblock, by its number.
    Superblock(usize),
    /// Both copies of the label.
    Labels,
}

impl Expected {
    /// What is read in one look.
    pub(super) fn places(&self) -> Vec<Place> {
        let copies = copy_offsets_bytes(self.size_bytes).into_iter().enumerate();
        let copy =
            |(number, offset_bytes)| Place { offset_bytes, len_bytes: SIZE_BYTES, kind: Kind::Superblock(number) };
        let mut places: Vec<Place> = copies.map(copy).collect();
        if self.member.is_some() {
            let (offset_bytes, len_bytes) = match self.role() {
                Role::Fast => (member_label::OFFSETS_BYTES[0], 2 * member_label::LABEL_BYTES),
                Role::Capacity => (array_label::OFFSETS_BYTES[0], 2 * array_label::LABEL_BYTES),
            };
            places.push(Place { offset_bytes, len_bytes, kind: Kind::Labels });
        }
        places
    }

    fn role(&self) -> Role {
        if self.index == 0 { Role::Fast } else { Role::Capacity }
    }

    /// Why the contents of a whole copy of the superblock are wrong; `None` where they are right.
    fn differs(&self, found: &Superblock) -> Option<String> {
        let own = &self.superblock;
        let newest = |superblock: &Superblock| (superblock.epoch, superblock.generation);
        if found.pool != own.pool {
            return Some(format!(
                "it carries the superblock of another pool, {:?} ({})",
                found.name,
                format_id(&found.pool)
            ));
        }
        if found.index != self.index {
            return Some(format!("it carries the superblock of another device of the pool, number {}", found.index));
        }
        if found.epoch == own.epoch && are_apart(found.opening, own.opening) {
            return Some("it carries the superblock of another copy of the pool, opened as often".to_owned());
        }
        // Nobody else opens a pool that is served.
        if found.epoch > own.epoch {
            let found = found.epoch;
            return Some(format!(
                "it carries the superblock of a later start, of epoch {found} after {}: of another server, or of a copy of the pool",
                own.epoch
            ));
        }
        let is_older = newest(found) < newest(own);
        is_older.then(|| {
            format!("it carries an older superblock of the pool, of epoch {} before {}", found.epoch, own.epoch)
        })
    }
}

/// The parts of a label that are looked at.
struct Label {
    pool: Id,
    member: Option<Id>,
    generation: u64,
    serial: u64,
}

/// The labels of both places, where there are any.
fn labels_in(bytes: &[u8], role: Role) -> Vec<Option<Label>> {
    let of_mirror = |bytes: &[u8]| {
        let label = MemberLabel::decode(bytes)?;
        let member = label.member.and_then(|member| label.ids.get(usize::from(member)).copied());
        Some(Label { pool: label.pool, member, generation: label.generation, serial: label.serial })
    };
    let of_array = |bytes: &[u8]| {
        let label = ArrayLabel::decode(bytes)?;
        let member = label.ids.get(usize::from(label.member)).copied();
        Some(Label { pool: label.pool, member, generation: label.generation, serial: label.serial })
    };
    let copies = bytes.chunks_exact(member_label::LABEL_BYTES);
    copies.map(|copy| if role == Role::Fast { of_mirror(copy) } else { of_array(copy) }).collect()
}

/// Whether a place of a label has the beginning of one: then the label has rotted.
fn begins_as_label(bytes: &[u8], role: Role) -> bool {
    let magic = if role == Role::Fast { member_label::MAGIC } else { array_label::MAGIC };
    bytes.chunks_exact(member_label::LABEL_BYTES).any(|copy| copy.starts_with(&magic))
}

/// Copies of the superblock that must be whole where another one lacks a part.
const WHOLE_MIN: usize = 2;

/// Whether these bytes are what is left of a copy of the superblock: each sector as it should be or zero; or everything but the magic,
/// which may rot like anything else. Whoever formats a device for something else writes more than zeros there.
fn is_left_of(bytes: &[u8], whole: &[u8]) -> bool {
    let is_left = |(found, whole): (&[u8], &[u8])| found == whole || found.iter().all(|&byte| byte == 0);
    bytes.len() == whole.len()
        && (bytes[MAGIC.len()..] == whole[MAGIC.len()..]
            || bytes.chunks(SECTOR_BYTES).zip(whole.chunks(SECTOR_BYTES)).all(is_left))
}

/// A copy of the superblock of which a part is gone.
#[derive(Debug)]
struct Gap {
    offset_bytes: u64,
    /// What is reported where the other copies are not whole.
    otherwise: String,
}

/// What earlier looks have found good, and what this one has found so far.
#[derive(Debug, Default)]
pub(super) struct Seen {
    copies: [bool; 3],
    /// A copy that was as it should be.
    whole: Vec<u8>,
    /// Whole copies in this look, and copies of which nothing is there.
    whole_copies: usize,
    absent_copies: usize,
    /// The copy that lacks a part in this look.
    gap: Option<Gap>,
    /// The generation of the newest label, and in which of its places it was.
    label: Option<(u64, usize)>,
    /// Places that could not be read: they are left alone for a while, as each attempt puts an error of the device into the log.
    unreadable: Vec<u64>,
    looks: u32,
}

/// For so many looks they are left alone.
const LOOKS_WITHOUT: u32 = 120;

impl Seen {
    /// A look begins.
    pub fn begin(&mut self) {
        (self.whole_copies, self.absent_copies, self.gap) = (0, 0, None);
        self.looks = (self.looks + 1) % LOOKS_WITHOUT;
        if self.looks == 0 {
            self.unreadable.clear();
        }
    }

    /// A look has ended that found nothing else. Returns why the device is not what it should be: a copy of the superblock lacks a part,
    /// and too few others are whole; or no copy is there.
    pub fn end(&mut self) -> Option<String> {
        if self.absent_copies == self.copies.len() {
            return Some("its superblocks were written over by something else".to_owned());
        }
        let gap = self.gap.take_if(|_| self.whole_copies < WHOLE_MIN)?;
        Some(gap.otherwise)
    }

    /// What is damaged on a device that still is what it should be.
    pub fn damage(&self) -> Option<String> {
        let at = self.gap.as_ref()?.offset_bytes;
        Some(format!("its superblock at {at} has lost a part, and its other copies are whole"))
    }

    /// Whether a place is worth a read.
    pub fn may_read(&self, place: &Place) -> bool {
        !self.unreadable.contains(&place.offset_bytes)
    }

    /// Takes in what was read of a place. Returns why the device is not what it should be, where that shows.
    pub fn take(&mut self, expected: &Expected, place: &Place, read: Result<&[u8], &IoError>) -> Option<String> {
        let bytes = match read {
            Ok(bytes) => bytes,
            Err(error) if error.kind == IoErrorKind::Short => {
                return Some(format!("it is shorter than the {} bytes that the pool uses of it", expected.size_bytes));
            }
            Err(_) => {
                self.unreadable.push(place.offset_bytes);
                return None;
            }
        };
        match place.kind {
            Kind::Superblock(number) => self.take_superblock(expected, (number, place.offset_bytes), bytes),
            Kind::Labels => self.take_labels(expected, bytes),
        }
    }

    fn take_superblock(&mut self, expected: &Expected, (number, at): (usize, u64), bytes: &[u8]) -> Option<String> {
        match Superblock::decode(bytes) {
            Ok(found) => {
                let differs = expected.differs(&found);
                if differs.is_none() {
                    self.copies[number] = true;
                    self.whole_copies += 1;
                    self.whole = bytes.to_vec();
                }
                // A copy that never was right may be left of what was there before the pool.
                differs.filter(|_| self.copies[number])
            }
            Err(SuperblockError::Absent) if self.copies[number] => {
                let otherwise = format!("its superblock at {at} was written over by something else");
                if self.gap.is_some() || !is_left_of(bytes, &self.whole) {
                    return Some(otherwise);
                }
                self.gap = Some(Gap { offset_bytes: at, otherwise });
                None
            }
            Err(SuperblockError::Absent) => {
                self.absent_copies += 1;
                None
            }
            // A copy may rot, like anything else; the others are looked at.
            Err(_) => None,
        }
    }

    fn take_labels(&mut self, expected: &Expected, bytes: &[u8]) -> Option<String> {
        let labels = labels_in(bytes, expected.role());
        let found = labels.iter().enumerate().filter_map(|(at, label)| Some((at, label.as_ref()?)));
        let Some((at, label)) = found.max_by_key(|(_, label)| label.serial) else {
            let is_gone = self.label.is_some() && !begins_as_label(bytes, expected.role());
            return is_gone.then(|| "its label was written over by something else".to_owned());
        };
        if label.pool != expected.superblock.pool || label.member != expected.member {
            return Some("it carries the label of another device".to_owned());
        }
        match self.label {
            Some((newest, _)) if label.generation >= newest => {}
            None => {}
            // The place of the newest label has none now: that label has rotted, and the one before it is left.
            Some((_, place)) if labels.get(place).is_some_and(Option::is_none) => return None,
            Some(_) => return Some(format!("it carries an older label, of generation {}", label.generation)),
        }
        self.label = Some((label.generation, at));
        None
    }
}
