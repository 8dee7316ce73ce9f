//! Whether a device that carries the label of a member still is that member. A label is two blocks of 4 KiB, which somebody who used the
//! device for something else need not have touched. What is there now must neither be written over nor be read as a member's.

use super::member::Member;
use crate::io::Devices;
use crate::layout::array_label::ArrayLabel;
use crate::layout::member_label::MemberLabel;
use crate::layout::superblock::{Role, SIZE_BYTES, Superblock, SuperblockError, copy_offsets_bytes};
use crate::layout::{Id, format_id};
use forebay_block::{Buf, SECTOR_BYTES};
use thiserror::Error;

/// Whole copies of its pool's superblock, of three, that a device must have for its label to be believed. One may rot.
const SUPERBLOCKS_MIN: usize = 2;

/// A member that is needed has lost most of its superblocks, and may have been used for something else. Missing members may have what it
/// should hold, and would be written over from it when they come back.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "{device} has fewer than two of its three superblocks, so that it may have been used for something else; {missing}, which held everything, is not there"
)]
pub struct Unproven {
    /// The device.
    pub device: String,
    /// Ids of members that are not there.
    pub missing: String,
}

impl Unproven {
    /// Refuses such a member where others that held everything are `missing`.
    pub(crate) fn refuse(device: Option<String>, missing: &str) -> Result<(), Self> {
        let refused = |device| Err(Self { device, missing: missing.to_owned() });
        device.filter(|_| !missing.is_empty()).map_or(Ok(()), refused)
    }
}

/// Ids of the members that hold everything and are missing.
pub(crate) fn missing_ids(ids: &[Id], is_in_sync: impl Fn(usize) -> bool, members: &[Member]) -> String {
    let is_missing = |(number, _): &(usize, &Id)| is_in_sync(*number) && members[*number].device.is_none();
    let missing = ids.iter().enumerate().filter(is_missing).map(|(_, id)| format_id(id));
    missing.collect::<Vec<_>>().join(", ")
}

/// What a label says of its device.
pub(crate) struct Claim {
    pool: Id,
    role: Role,
    /// Bytes of the device that are used.
    size_bytes: u64,
    /// The device is being rebuilt, and nothing of it is known to be durable yet.
    is_begun: bool,
}

impl From<&MemberLabel> for Claim {
    fn from(label: &MemberLabel) -> Self {
        let is_begun = label.rebuilding.is_some() && label.rebuilding == label.member && label.rebuilt_bytes == 0;
        Self { pool: label.pool, role: Role::Fast, size_bytes: label.size_bytes, is_begun }
    }
}

impl From<&ArrayLabel> for Claim {
    fn from(label: &ArrayLabel) -> Self {
        let is_begun = label.rebuilding == Some(label.member) && label.rebuilt_rows == 0;
        Self { pool: label.pool, role: Role::Capacity, size_bytes: label.shape.member_bytes, is_begun }
    }
}

/// Whether the device that a label was read from still is what the label says.
pub(crate) fn is_believed(device: &mut Devices, claim: &Claim) -> bool {
    let size_bytes = device.list[0].geometry().size_bytes;
    let copies = copy_offsets_bytes(claim.size_bytes).map(|at| {
        let fits = at.checked_add(SIZE_BYTES as u64).is_some_and(|end| end <= size_bytes);
        if fits { device.read(0, at, SIZE_BYTES).ok() } else { None }
    });
    let is_own = |copy: &&Buf| {
        Superblock::decode(copy).is_ok_and(|found| found.pool == claim.pool && found.member().role == claim.role)
    };
    // A blank device may have lost power before much was copied to it: its superblocks are still to come.
    let is_to_come = |copy: &Option<Buf>| {
        // A superblock is recognised by its first sector, so only that has to be blank.
        let is_blank = |copy: &Buf| copy[..SECTOR_BYTES].iter().all(|&byte| byte == 0);
        let is_any = |copy: &Buf| !matches!(Superblock::decode(copy), Err(SuperblockError::Absent));
        copy.as_ref().is_some_and(|copy| is_blank(copy) || is_any(copy))
    };
    copies.iter().flatten().filter(is_own).count() >= SUPERBLOCKS_MIN || claim.is_begun && copies.iter().all(is_to_come)
}
