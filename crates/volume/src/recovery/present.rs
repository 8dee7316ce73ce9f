//! Which devices of a pool are there, where not all have to be.

use super::members::{MemberError, read_superblock};
use crate::absent::Absent;
use crate::io::Devices;
use crate::layout::format_id;
use crate::layout::superblock::{Role, Superblock};
use forebay_block::{Device, Geometry};

/// Members of a pool.
#[derive(Clone, Debug)]
pub struct Present {
    /// The newest superblock.
    pub newest: Superblock,
    /// By number in the pool's table: the superblock of each member that is there.
    pub superblocks: Vec<Option<Superblock>>,
    /// Devices that were given and cannot be used, and why.
    pub unusable: Vec<(String, String)>,
}

impl Present {
    /// Numbers of the members that are not there.
    #[must_use]
    pub fn missing(&self) -> Vec<usize> {
        let numbers = self.superblocks.iter().enumerate();
        numbers.filter(|(_, superblock)| superblock.is_none()).map(|(number, _)| number).collect()
    }

    /// The newest epoch in which a member was served.
    #[must_use]
    pub fn served_in(&self) -> Option<u64> {
        self.superblocks
            .iter()
            .flatten()
            .filter(|superblock| superblock.serving)
            .map(|superblock| superblock.epoch)
            .max()
    }

    /// The devices that were given and cannot be used, for messages; empty where there are none.
    #[must_use]
    pub fn describe_unusable(&self) -> String {
        self.unusable.iter().map(|(device, why)| format!("; {device} cannot be used: {why}")).collect()
    }

    /// What is known of a member, for messages.
    #[must_use]
    pub fn describe(&self, number: usize) -> String {
        let member = &self.newest.members[number];
        format!("{} device {} ({} bytes)", member.role.name(), format_id(&member.id), member.size_bytes)
    }
}

/// Reads the superblocks and puts the devices in the order of the pool's table, with a device that fails in the place of
/// each that is missing. Those that cannot be read, or carry no superblock, count as missing.
///
/// # Errors
/// Devices that contradict each other, or none that is of a pool.
pub fn present(devices: &mut Devices) -> Result<Present, MemberError> {
    let mut found = Vec::new();
    let mut unusable = Vec::new();
    let mut first_error = None;
    for i in 0..devices.list.len() {
        let name = devices.list[i].name().to_owned();
        match read_superblock(devices, i) {
            Ok((superblock, _)) => found.push((i, superblock)),
            Err(error) => {
                unusable.push((name, error.to_string()));
                first_error.get_or_insert(error);
            }
        }
    }
    let key = |superblock: &Superblock| (superblock.generation, superblock.epoch);
    let Some(newest) = found.iter().map(|(_, superblock)| superblock).max_by_key(|s| key(s)).cloned() else {
        return Err(first_error.unwrap_or(MemberError::Missing {
            role: Role::Capacity.name(),
            id: "of any id".to_owned(),
            pool: String::new(),
            size_bytes: 0,
            why: String::new(),
        }));
    };
    let mut superblocks: Vec<Option<Superblock>> = newest.members.iter().map(|_| None).collect();
    let mut positions: Vec<Option<usize>> = newest.members.iter().map(|_| None).collect();
    for (i, superblock) in found {
        let device = devices.list[i].name().to_owned();
        let number = usize::from(superblock.index);
        if superblock.pool != newest.pool || superblocks.get(number).is_none() {
            return Err(MemberError::Foreign {
                device,
                name: superblock.name.clone(),
                pool: format_id(&superblock.pool),
                expected: format_id(&newest.pool),
            });
        }
        if let Some(other) = positions[number] {
            return Err(MemberError::Copy { device, other: devices.list[other].name().to_owned() });
        }
        let (size_bytes, expected_bytes) = (devices.list[i].geometry().size_bytes, superblock.member().size_bytes);
        if size_bytes < expected_bytes {
            return Err(MemberError::Truncated { device, size_bytes, expected_bytes });
        }
        let then_bytes = if number == 0 { superblock.journal_sector_bytes } else { 4096 };
        let now_bytes = devices.list[i].geometry().logical_block_bytes;
        if now_bytes > then_bytes {
            return Err(MemberError::LogicalBlock { device, now_bytes, then_bytes });
        }
        (positions[number], superblocks[number]) = (Some(i), Some(superblock));
    }
    let mut given: Vec<Option<Box<dyn Device>>> = std::mem::take(&mut devices.list).into_iter().map(Some).collect();
    for (member, position) in newest.members.iter().zip(positions) {
        let device = position.and_then(|i| given[i].take());
        devices.list.push(device.unwrap_or_else(|| {
            let geometry = Geometry {
                size_bytes: member.size_bytes,
                logical_block_bytes: 512,
                optimal_band_bytes: None,
                volatile_cache: false,
                durable_writes: true,
                discards: false,
            };
            let name = format!("the missing {} device {}", member.role.name(), format_id(&member.id));
            Box::new(Absent::new(&name, &geometry))
        }));
    }
    Ok(Present { newest, superblocks, unusable })
}
