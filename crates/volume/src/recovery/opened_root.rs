//! The root that a pool is opened with: the newest one, which fits what the other devices say.

use super::checkpoints::refuse_older;
use super::members::MemberError;
use super::opened::{Apart, Opened};
use super::report::OpenError;
use crate::engine::header_offsets;
use crate::io::Devices;
use crate::layout::root::{HEADER_BYTES, Root, RootBounds, RootHeader};
use crate::layout::root_blob;
use crate::layout::superblock::Superblock;
use forebay_block::checksum::crc32c;

fn root_error(checkpoint: u64, what: &str) -> OpenError {
    OpenError::Root { checkpoint, what: what.to_owned() }
}

/// Returns the newest root header. A root that says it was superseded proves that a newer one existed. One copy of a header may be
/// unreadable; where no copy in an area can be read, nobody knows whether the newest root is there, and the pool is not opened.
fn newest_header(devices: &mut Devices, superblock: &Superblock) -> Result<RootHeader, OpenError> {
    let mut newest: Option<RootHeader> = None;
    let mut superseded_by = 0;
    for parity in [0, 1] {
        let (mut is_read, mut unread) = (false, None);
        let copies = devices.copies();
        let reads =
            header_offsets(superblock, parity).into_iter().flat_map(|at| (0..copies).map(move |copy| (at, copy)));
        for (offset_bytes, attempt) in reads {
            let read = devices.read_one_of(0, offset_bytes, HEADER_BYTES, attempt);
            let read = read.map_err(OpenError::of_device(devices, 0))?;
            is_read |= read.is_ok();
            let header = read.map(|bytes| RootHeader::decode(&bytes, &superblock.pool));
            let Some(header) = header.map_err(|error| unread = Some(error)).ok().flatten() else { continue };
            superseded_by = superseded_by.max(header.superseded_by);
            if header.superseded_by == 0 && newest.is_none_or(|other| header.checkpoint > other.checkpoint) {
                newest = Some(header);
            }
        }
        if let (false, Some(error)) = (is_read, unread) {
            return Err(OpenError::of_device(devices, 0)(error));
        }
    }
    match newest {
        Some(header) if header.checkpoint >= superseded_by => Ok(header),
        _ => Err(root_error(superseded_by, "no valid header in its area")),
    }
}

/// A root, and its header.
pub(super) struct OpenedRoot {
    pub header: RootHeader,
    pub root: Root,
}

impl OpenedRoot {
    /// Reads the newest root, and refuses it where it cannot be the one that the other devices were served with. `superblocks`: one of each
    /// device.
    pub fn choose(devices: &mut Devices, superblocks: &[Superblock]) -> Result<Self, OpenError> {
        let chosen = Self::load(devices, &superblocks[0])?;
        chosen.check_epochs(devices, superblocks)?;
        refuse_older(devices, &superblocks[0], chosen.header.checkpoint)?;
        Ok(chosen)
    }

    fn load(devices: &mut Devices, superblock: &Superblock) -> Result<Self, OpenError> {
        let header = newest_header(devices, superblock)?;
        let checkpoint = header.checkpoint;
        let bounds = RootBounds::of(superblock);
        let room = (superblock.root_len_bytes - 2 * 4096).min(bounds.blob_bytes_max());
        if header.blob_len_bytes > room {
            return Err(root_error(checkpoint, "its length is impossible"));
        }
        let area = superblock.root_offsets_bytes[(checkpoint % 2) as usize];
        let padded = header.blob_len_bytes.next_multiple_of(4096) as usize;
        let len_bytes = header.blob_len_bytes as usize;
        let is_good = |bytes: &[u8]| crc32c(&bytes[..len_bytes]) == header.blob_crc;
        let blob = devices.read_good(0, area + 4096, padded, is_good).map_err(OpenError::of_device(devices, 0))?;
        let blob = blob.ok_or_else(|| root_error(checkpoint, "its checksum does not match"))?;
        let decoded = root_blob::decode(&blob[..len_bytes], &bounds);
        let root = decoded.map_err(|error| root_error(checkpoint, &error.to_string()))?;
        Ok(Self { header, root })
    }

    /// Refuses devices that were not served in the epoch of this root, or opened in the one after it.
    fn check_epochs(&self, devices: &Devices, superblocks: &[Superblock]) -> Result<(), MemberError> {
        let epoch = self.header.epoch;
        for (i, superblock) in superblocks.iter().enumerate().skip(1) {
            let device = || devices.list[i].name().to_owned();
            if superblock.epoch < epoch || superblock.generation < superblocks[0].generation {
                return Err(MemberError::Stale { device: device(), found: superblock.epoch, expected: epoch });
            }
            let only_opened = superblock.epoch == epoch + 1 && !superblock.serving;
            if superblock.epoch > epoch && !only_opened {
                let device = devices.list[0].name().to_owned();
                return Err(MemberError::Stale { device, found: epoch, expected: superblock.epoch });
            }
            if Opened::of(superblock).is_apart_from_root(&self.header) {
                let other = devices.list[0].name().to_owned();
                return Err(Apart { device: device(), other, epoch: superblock.epoch }.into());
            }
        }
        Ok(())
    }

    /// Writes the copies of the chosen header again, durably, before recovery relies on its root. A header that can be read need not be
    /// durable, as with data (see [`super::written`]), and the next checkpoint overwrites the root before it.
    pub fn write_header_again(&self, devices: &mut Devices, superblock: &Superblock) -> Result<(), OpenError> {
        if !devices.list[0].geometry().volatile_cache && devices.copies() == 1 {
            return Ok(());
        }
        let bytes = self.header.encode(&superblock.pool);
        let written: Vec<_> = header_offsets(superblock, self.header.checkpoint)
            .into_iter()
            .map(|offset_bytes| devices.write(0, offset_bytes, &bytes))
            .collect();
        // One written copy is enough.
        if written.iter().all(Result::is_err) {
            written.into_iter().collect::<Result<(), _>>().map_err(OpenError::of_device(devices, 0))?;
        }
        devices.flush(0).map_err(OpenError::of_device(devices, 0))
    }
}
