//! Which devices make up the pool: every one is recognised by what it carries, not by where it was named.

use super::opened::Apart;
use crate::io::Devices;
use crate::layout::superblock::{Role, SIZE_BYTES, Superblock, SuperblockError, copy_offsets_bytes};
use crate::layout::{Id, format_id};
use forebay_block::IoError;
use thiserror::Error;

/// Why the devices are not a pool that can be opened.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum MemberError {
    /// Cannot be read.
    #[error("{device}: {source}")]
    Io {
        /// The device.
        device: String,
        /// The failure.
        source: IoError,
    },
    /// Not a member of any pool.
    #[error("{device}: {source} (no copy of it is usable)")]
    Superblock {
        /// The device.
        device: String,
        /// What is wrong.
        source: SuperblockError,
    },
    /// Of another pool.
    #[error("{device} belongs to pool {name:?} ({pool}), not to {expected}")]
    Foreign {
        /// The device.
        device: String,
        /// Its pool's name.
        name: String,
        /// Its pool's id.
        pool: String,
        /// The pool of the fast device.
        expected: String,
    },
    /// In the wrong section of the configuration.
    #[error("{device} is a {is} device of this pool, but is configured as a {configured} device: swap them")]
    Swapped {
        /// The device.
        device: String,
        /// Its role.
        is: &'static str,
        /// The role it is configured for.
        configured: &'static str,
    },
    /// Twice the same device.
    #[error("{device} and {other} are the same member of the pool: one is a copy")]
    Copy {
        /// The device.
        device: String,
        /// The other one.
        other: String,
    },
    /// A member was not given.
    #[error("the {role} device {id} of pool {pool:?} ({size_bytes} bytes) is missing from the configuration{why}")]
    Missing {
        /// Its role.
        role: &'static str,
        /// Its id.
        id: String,
        /// Pool name.
        pool: String,
        /// Its size.
        size_bytes: u64,
        /// Which devices were given and cannot be used, and why: it may be one of them.
        why: String,
    },
    /// Shorter than when it was formatted.
    #[error("{device} has {size_bytes} bytes, but had {expected_bytes} when it was formatted: it was truncated")]
    Truncated {
        /// The device.
        device: String,
        /// Size now.
        size_bytes: u64,
        /// Size then.
        expected_bytes: u64,
    },
    /// An older state of the device than the others have.
    #[error(
        "{device} is stale: it was last opened in epoch {found}, the pool is in epoch {expected}; it may be an old copy"
    )]
    Stale {
        /// The device.
        device: String,
        /// Its epoch.
        found: u64,
        /// The pool's.
        expected: u64,
    },
    /// An older state of the fast device than the capacity tier has, of the same epoch.
    #[error(
        "{device} is older than the capacity tier: its newest checkpoint is {found}, and there is one of {expected}; it may be an old copy of the device"
    )]
    Older {
        /// The device.
        device: String,
        /// Its checkpoint.
        found: u64,
        /// That of the capacity tier.
        expected: u64,
    },
    /// Of two copies of the pool.
    #[error(transparent)]
    Apart(#[from] Apart),
    /// A member of a mirrored fast tier that has lost its label.
    #[error("{device}: the fast tier of its pool is a mirror, of which it is a member without a label")]
    Mirror {
        /// The device.
        device: String,
    },
    /// Unit of the device is larger than the journal's.
    #[error("{device} now has logical blocks of {now_bytes} bytes, but was formatted for {then_bytes}")]
    LogicalBlock {
        /// The device.
        device: String,
        /// Now.
        now_bytes: u32,
        /// Then.
        then_bytes: u32,
    },
}

/// The best superblock copy of a device, and how many copies were good. The first good copy decides of which pool the device is: formatting
/// writes the first copy first.
///
/// # Errors
/// Where no copy is usable.
pub fn read_superblock(devices: &mut Devices, device: usize) -> Result<(Superblock, usize), MemberError> {
    let name = devices.list[device].name().to_owned();
    let size_bytes = devices.list[device].geometry().size_bytes;
    let mut best: Option<Superblock> = None;
    let mut good = 0;
    let mut worst = SuperblockError::Absent;
    let mut failure = None;
    let mut offsets: Vec<u64> = copy_offsets_bytes(size_bytes).to_vec();
    let mut next = 0;
    while let Some(&offset_bytes) = offsets.get(next) {
        next += 1;
        if offset_bytes + SIZE_BYTES as u64 > size_bytes {
            continue;
        }
        for attempt in 0..devices.ways(device) {
            let bytes = match devices.read_copy(device, offset_bytes, SIZE_BYTES, attempt) {
                Ok(bytes) => bytes,
                Err(source) => {
                    failure = Some(source);
                    continue;
                }
            };
            match Superblock::decode(&bytes) {
                // A member that is larger than the others may still hold, at its end, a copy of a pool that was there before.
                Ok(superblock) if best.as_ref().is_some_and(|first| first.pool != superblock.pool) => {}
                Ok(superblock) => {
                    good += usize::from(attempt == 0);
                    let key = |s: &Superblock| (s.generation, s.epoch, s.serving);
                    if best.as_ref().is_none_or(|other| key(&superblock) > key(other)) {
                        best = Some(superblock);
                    }
                }
                Err(SuperblockError::Absent) => {}
                Err(other) => worst = other,
            }
        }
        // On a device that has grown the last copy lies where the device ended before.
        let at_recorded = best.as_ref().map(|best| copy_offsets_bytes(best.member().size_bytes)[2]);
        offsets.extend(at_recorded.filter(|at| !offsets.contains(at)));
    }
    match (best, failure) {
        (Some(superblock), _) => Ok((superblock, good)),
        (None, Some(source)) => Err(MemberError::Io { device: name, source }),
        (None, None) => Err(MemberError::Superblock { device: name, source: worst }),
    }
}

/// Reads all superblocks, checks that they are of one pool, and puts the devices in the order of its table. `fast`: how many of the
/// devices, from the front, are configured as fast.
///
/// # Errors
/// See [`MemberError`]; the devices are named.
pub fn assemble(devices: &mut Devices, fast: usize) -> Result<Vec<Superblock>, MemberError> {
    let mut found = Vec::new();
    for i in 0..devices.list.len() {
        found.push(read_superblock(devices, i)?.0);
    }
    let names: Vec<String> = devices.list.iter().map(|device| device.name().to_owned()).collect();
    let pool: Id = found.iter().find(|s| s.member().role == Role::Fast).unwrap_or(&found[0]).pool;
    let newest =
        found.iter().filter(|s| s.pool == pool).max_by_key(|s| (s.generation, s.epoch)).unwrap_or(&found[0]).clone();
    for (i, superblock) in found.iter().enumerate() {
        let device = names[i].clone();
        if superblock.pool != pool {
            return Err(MemberError::Foreign {
                device,
                name: superblock.name.clone(),
                pool: format_id(&superblock.pool),
                expected: format_id(&pool),
            });
        }
        let role = superblock.member().role;
        let configured = if i < fast { Role::Fast } else { Role::Capacity };
        if role != configured {
            return Err(MemberError::Swapped { device, is: role.name(), configured: configured.name() });
        }
        if let Some(other) = found[..i].iter().position(|s| s.index == superblock.index) {
            return Err(MemberError::Copy { device, other: names[other].clone() });
        }
        let geometry = devices.list[i].geometry();
        let expected_bytes = superblock.member().size_bytes;
        if geometry.size_bytes < expected_bytes {
            return Err(MemberError::Truncated { device, size_bytes: geometry.size_bytes, expected_bytes });
        }
        let then_bytes = if role == Role::Fast { superblock.journal_sector_bytes } else { 4096 };
        if geometry.logical_block_bytes > then_bytes {
            return Err(MemberError::LogicalBlock { device, now_bytes: geometry.logical_block_bytes, then_bytes });
        }
    }
    if newest.is_mirrored && devices.mirror().is_none() {
        return Err(MemberError::Mirror { device: names[0].clone() });
    }
    for (index, member) in newest.members.iter().enumerate() {
        if !found.iter().any(|s| usize::from(s.index) == index) {
            return Err(MemberError::Missing {
                role: member.role.name(),
                id: format_id(&member.id),
                pool: newest.name.clone(),
                size_bytes: member.size_bytes,
                why: String::new(),
            });
        }
    }
    // Devices in the order of the table; the order in the configuration does not matter.
    let mut order: Vec<usize> = (0..found.len()).collect();
    order.sort_by_key(|&i| found[i].index);
    let mut list: Vec<Option<_>> = std::mem::take(&mut devices.list).into_iter().map(Some).collect();
    devices.list = order.iter().filter_map(|&i| list[i].take()).collect();
    Ok(order.into_iter().map(|i| found[i].clone()).collect())
}

/// Writes all copies of a superblock, each durable before the next is touched.
///
/// # Errors
/// The device's failure.
pub fn write_superblock(devices: &mut Devices, device: usize, superblock: &Superblock) -> Result<(), IoError> {
    let bytes = superblock.encode();
    for offset_bytes in copy_offsets_bytes(superblock.member().size_bytes) {
        devices.write(device, offset_bytes, &bytes)?;
        devices.flush(device)?;
    }
    Ok(())
}
