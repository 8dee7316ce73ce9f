//! The superblock: which device this is, which pool it belongs to, where things lie.

use super::Id;
use super::capacity_area::CapacityArea;
use super::codec::{COUNTER_LIMIT, Reader, Writer};
use forebay_block::checksum::crc32c;
use thiserror::Error;

/// Bytes at the start of every device before anything else.
pub const HEAD_BYTES: u64 = 131_072;
/// Smallest journal in bytes: the records of one map leaf must fit into its search window beside two batches.
pub const JOURNAL_MIN_BYTES: u64 = 128 * 1024;
/// Magic at the start of every superblock copy.
pub const MAGIC: [u8; 8] = *b"FOREBAY1";
/// Size of a superblock in bytes.
pub const SIZE_BYTES: usize = 4096;
/// Most devices a pool may have.
pub const DEVICES_MAX: usize = 32;
/// Version written and understood.
pub const VERSION: u32 = 6;
/// Incompatible feature: bands and records name lifetime groups. Every opening that writes sets it; a pool without it has none yet.
pub const LIFETIME_GROUPS: u64 = 1;
/// Incompatible feature: the fast tier is mirrored. A program that does not know it would write to one member only.
pub const MIRRORED_FAST: u64 = 4;
/// Largest band in bytes.
pub const BAND_BYTES_MAX: u64 = 1 << 36;
/// Most bands of a pool.
pub const BANDS_MAX: u64 = 1 << 31;
const TABLE_OFFSET: usize = 512;
const NAME_BYTES: usize = 64;

/// What a device is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Small and fast: journal, map, pinned and staged data.
    Fast,
    /// Large and cheap: bands.
    Capacity,
}

impl Role {
    /// Name as in configuration and messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Fast => "fast",
            Self::Capacity => "capacity",
        }
    }
}

/// A line of the device table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Device id.
    pub id: Id,
    /// What it is for.
    pub role: Role,
    /// First sector of its extent in the pool's linear space.
    pub first_sector: u64,
    /// Sectors of its extent.
    pub sectors: u64,
    /// Size of the device in bytes when it was formatted.
    pub size_bytes: u64,
    /// Where bands (capacity) or slots (fast) start on the device, in bytes.
    pub data_offset_bytes: u64,
}

/// A decoded superblock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Compatible features, the unknown ones among them: kept when the superblock is written again.
    pub compatible: u64,
    /// Read-only-compatible features, likewise.
    pub read_only_compatible: u64,
    /// Whether the fast device is a mirror.
    pub is_mirrored: bool,
    /// Pool id.
    pub pool: Id,
    /// This device's index in `members`.
    pub index: u16,
    /// Whether the pool was served in `epoch` (false: it was only being opened).
    pub serving: bool,
    /// Membership generation.
    pub generation: u64,
    /// Epoch of the last opening.
    pub epoch: u64,
    /// Number of that opening, drawn at random: it distinguishes copies of a pool that were opened equally often. 0: there is none.
    pub opening: u64,
    /// Number of the opening whose state this one found. 0: not known.
    pub opening_before: u64,
    /// Unit of the journal in bytes.
    pub journal_sector_bytes: u32,
    /// Band size in bytes.
    pub band_bytes: u64,
    /// Offsets of the two root areas on the fast device.
    pub root_offsets_bytes: [u64; 2],
    /// Length of each root area.
    pub root_len_bytes: u64,
    /// Journal on the fast device.
    pub journal_offset_bytes: u64,
    /// Length of the journal.
    pub journal_len_bytes: u64,
    /// Slots of 4 KiB on the fast device.
    pub slots: u64,
    /// Pool name.
    pub name: String,
    /// The area where checkpoints put what the capacity tier needs to be opened alone.
    pub capacity_area: CapacityArea,
    /// All devices of the pool.
    pub members: Vec<Member>,
}

/// Why bytes are not a usable superblock.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum SuperblockError {
    /// No magic: not a Forebay device.
    #[error("no Forebay superblock")]
    Absent,
    /// Checksum or a field is wrong: which.
    #[error("damaged superblock: {0}")]
    Damaged(&'static str),
    /// Written by another version.
    #[error("{}", version_text(*.0))]
    Version(u32),
    /// Uses features this program does not know.
    #[error("uses unknown incompatible features {0:#x}")]
    Features(u64),
}

/// What to say of a format version that is not this program's.
fn version_text(found: u32) -> String {
    if found < VERSION {
        format!(
            "format version {found} was never released and is not read any more: this program reads version {VERSION} only; \
             copy the data off with the program that wrote it and format the devices anew"
        )
    } else {
        format!("format version {found} is newer than this program understands ({VERSION})")
    }
}

/// Where the copies lie on a device of `size_bytes`.
#[must_use]
pub fn copy_offsets_bytes(size_bytes: u64) -> [u64; 3] {
    [0, 65536, (size_bytes / 4096).saturating_sub(1) * 4096]
}

impl Superblock {
    /// This device's line of the table.
    #[must_use]
    pub fn member(&self) -> &Member {
        &self.members[usize::from(self.index)]
    }

    /// Read-only-compatible features that this program does not know: with any of them it must not write.
    #[must_use]
    pub fn unknown_read_only(&self) -> u64 {
        // This version defines none.
        self.read_only_compatible
    }

    /// Encodes for writing.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let me = self.member();
        let mut w = Writer::default();
        w.bytes.extend_from_slice(&MAGIC);
        w.u32(0);
        w.u32(VERSION);
        let bit = |is_set: bool, bit: u64| if is_set { bit } else { 0 };
        let incompatible = LIFETIME_GROUPS | bit(self.is_mirrored, MIRRORED_FAST);
        for features in [self.compatible, self.read_only_compatible, incompatible] {
            w.u64(features);
        }
        w.bytes.extend_from_slice(&self.pool);
        w.bytes.extend_from_slice(&me.id);
        w.u8(me.role as u8);
        w.u8(u8::from(self.serving));
        w.u16(self.index);
        w.u16(self.members.len() as u16);
        w.u16(0);
        w.u64(self.generation);
        w.u64(self.epoch);
        w.u64(me.size_bytes);
        w.u32(self.journal_sector_bytes);
        w.u32(super::page::LEAF_ENTRIES as u32);
        w.u64(self.band_bytes);
        w.u64(self.root_offsets_bytes[0]);
        w.u64(self.root_offsets_bytes[1]);
        w.u64(self.root_len_bytes);
        w.u64(self.journal_offset_bytes);
        w.u64(self.journal_len_bytes);
        w.u64(self.members[0].data_offset_bytes);
        w.u64(self.slots);
        let mut name = self.name.as_bytes().to_vec();
        name.resize(NAME_BYTES, 0);
        w.bytes.extend_from_slice(&name);
        self.capacity_area.put(&mut w);
        w.u32(0);
        w.u64(self.opening);
        w.u64(self.opening_before);
        w.bytes.resize(TABLE_OFFSET, 0);
        for member in &self.members {
            w.bytes.extend_from_slice(&member.id);
            w.u64(member.role as u64);
            w.u64(member.first_sector);
            w.u64(member.sectors);
            w.u64(member.size_bytes);
            w.u64(member.data_offset_bytes);
            w.u64(0);
        }
        w.bytes.resize(SIZE_BYTES, 0);
        let crc = crc32c(&w.bytes[12..]);
        w.bytes[8..12].copy_from_slice(&crc.to_le_bytes());
        w.bytes
    }

    /// Decodes and checks one copy.
    ///
    /// # Errors
    /// See [`SuperblockError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, SuperblockError> {
        if bytes.len() < SIZE_BYTES || bytes[..8] != MAGIC {
            return Err(SuperblockError::Absent);
        }
        if bytes[8..12] != crc32c(&bytes[12..SIZE_BYTES]).to_le_bytes() {
            return Err(SuperblockError::Damaged("its checksum does not match"));
        }
        let short = SuperblockError::Damaged("a field cannot be read");
        let mut r = Reader::new(&bytes[12..SIZE_BYTES]);
        let version = r.u32().ok_or(short.clone())?;
        if version != VERSION {
            return Err(SuperblockError::Version(version));
        }
        let features = read_features(&mut r).ok_or(short.clone())?;
        let unknown = features[2] & !(LIFETIME_GROUPS | MIRRORED_FAST);
        if unknown != 0 {
            return Err(SuperblockError::Features(unknown));
        }
        let superblock = Self::read_fields(features, &mut r, bytes).ok_or(short)?;
        superblock
            .check_header()
            .and_then(|()| superblock.check_table())
            .and_then(|()| superblock.check_areas())
            .map_err(SuperblockError::Damaged)?;
        Ok(superblock)
    }

    fn read_fields(features: [u64; 3], r: &mut Reader<'_>, bytes: &[u8]) -> Option<Self> {
        let [compatible, read_only_compatible, incompatible] = features;
        let is_mirrored = incompatible & MIRRORED_FAST != 0;
        let pool = r.id()?;
        let _device = r.id()?;
        let _role = r.u8()?;
        let serving = r.u8()? != 0;
        let index = r.u16()?;
        let count = r.u16()?;
        r.u16()?;
        let (generation, epoch, _size) = (r.u64()?, r.u64()?, r.u64()?);
        let journal_sector_bytes = r.u32()?;
        let leaf_entries = r.u32()?;
        let band_bytes = r.u64()?;
        let root_offsets_bytes = [r.u64()?, r.u64()?];
        let (root_len_bytes, journal_offset_bytes, journal_len_bytes) = (r.u64()?, r.u64()?, r.u64()?);
        let _slots_offset = r.u64()?;
        let slots = r.u64()?;
        let name = r.take(NAME_BYTES)?;
        let end = name.iter().position(|&byte| byte == 0).unwrap_or(NAME_BYTES);
        let name = std::str::from_utf8(&name[..end]).ok()?.to_owned();
        let capacity_area = CapacityArea::take(r)?;
        r.u32()?;
        let (opening, opening_before) = (r.u64()?, r.u64()?);
        if leaf_entries as usize != super::page::LEAF_ENTRIES || usize::from(count) > DEVICES_MAX {
            return None;
        }
        let mut table = Reader::new(&bytes[TABLE_OFFSET..]);
        let members = (0..count).map(|_| read_member(&mut table)).collect::<Option<_>>()?;
        Some(Self {
            compatible,
            read_only_compatible,
            is_mirrored,
            pool,
            index,
            serving,
            generation,
            epoch,
            opening,
            opening_before,
            journal_sector_bytes,
            band_bytes,
            root_offsets_bytes,
            root_len_bytes,
            journal_offset_bytes,
            journal_len_bytes,
            slots,
            name,
            capacity_area,
            members,
        })
    }

    fn check_header(&self) -> Result<(), &'static str> {
        require(usize::from(self.index) < self.members.len(), "the table has no line for the device")?;
        require(
            matches!(self.journal_sector_bytes, 512 | 4096),
            "the journal's sectors are neither 512 nor 4096 bytes",
        )?;
        let is_band = (2 * 4096..=BAND_BYTES_MAX).contains(&self.band_bytes) && self.band_bytes.is_multiple_of(4096);
        require(is_band, "the size of bands is impossible")?;
        let is_journal = self.journal_len_bytes >= JOURNAL_MIN_BYTES
            && self.journal_len_bytes.is_multiple_of(u64::from(self.journal_sector_bytes));
        require(is_journal, "the size of the journal is impossible")?;
        require(self.generation < COUNTER_LIMIT && self.epoch < COUNTER_LIMIT, "a counter is impossibly high")
    }

    /// The fast device comes first; extents follow one another, on capacity devices in whole bands.
    fn check_table(&self) -> Result<(), &'static str> {
        let (mut next_sector, mut bands) = (0u64, 0u64);
        let band_sectors = self.band_bytes / 512;
        for (i, member) in self.members.iter().enumerate() {
            require(
                (i == 0) == (member.role == Role::Fast),
                "the first device, and only that, has to be the fast one",
            )?;
            let is_whole = i == 0 || member.sectors > 0 && member.sectors.is_multiple_of(band_sectors);
            require(is_whole && member.first_sector == next_sector, "the extents of the devices are impossible")?;
            let end = member.sectors.checked_mul(512).and_then(|len| len.checked_add(member.data_offset_bytes));
            let fits = end.is_some_and(|end| end <= member.size_bytes.saturating_add(4096));
            require(fits && member.data_offset_bytes.is_multiple_of(4096), "an extent lies outside its device")?;
            next_sector = next_sector.checked_add(member.sectors).ok_or("the extents of the devices are impossible")?;
            bands += if i == 0 { 0 } else { member.sectors / band_sectors };
        }
        require(next_sector <= super::page::SECTORS_MAX && bands <= BANDS_MAX, "the pool is impossibly large")
    }

    /// Roots, journal and slots lie within the fast device, the area of the capacity side where it is needed.
    fn check_areas(&self) -> Result<(), &'static str> {
        let fast = self.members.first().ok_or("there is no fast device")?;
        let within = |at: u64, len: u64| {
            at.checked_add(len).is_some_and(|end| end <= fast.size_bytes) && at.is_multiple_of(4096)
        };
        let [first, second] = self.root_offsets_bytes;
        let are_roots = self.root_len_bytes >= 3 * 4096
            && self.root_len_bytes.is_multiple_of(4096)
            && within(first, self.root_len_bytes.min(self.journal_len_bytes))
            && within(second, self.root_len_bytes);
        require(are_roots, "the root areas are impossible")?;
        require(within(self.journal_offset_bytes, self.journal_len_bytes), "the journal lies outside its device")?;
        let slot_sectors = self.slots.checked_add(1).and_then(|slots| slots.checked_mul(8));
        require(slot_sectors == Some(fast.sectors), "the number of slots is impossible")?;
        let is_area = !self.capacity_area.exists()
            || self
                .members
                .get(1)
                .is_some_and(|member| self.capacity_area.is_possible(HEAD_BYTES, member.data_offset_bytes))
                && self.capacity_area.is_needed(self.members.iter().map(|member| member.size_bytes), self.band_bytes);
        require(is_area, "the capacity-side area is impossible")
    }
}

fn require(holds: bool, what: &'static str) -> Result<(), &'static str> {
    if holds { Ok(()) } else { Err(what) }
}

/// The words of compatible, read-only-compatible and incompatible features.
fn read_features(r: &mut Reader<'_>) -> Option<[u64; 3]> {
    Some([r.u64()?, r.u64()?, r.u64()?])
}

fn read_member(table: &mut Reader<'_>) -> Option<Member> {
    let id = table.id()?;
    let role = match table.u64()? {
        0 => Role::Fast,
        1 => Role::Capacity,
        _ => return None,
    };
    let (first_sector, sectors) = (table.u64()?, table.u64()?);
    let (size_bytes, data_offset_bytes) = (table.u64()?, table.u64()?);
    table.u64()?;
    Some(Member { id, role, first_sector, sectors, size_bytes, data_offset_bytes })
}

#[cfg(test)]
#[path = "superblock_tests.rs"]
mod tests;
