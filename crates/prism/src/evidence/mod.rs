//! Recognises contents that identify themselves, without help from the host.
//!
//! Everything depends on *anchors*: addresses that file data cannot reach, namely the start of the disk and the
//! starts of the partitions in a table found there (and the superblock of btrfs, 64 KiB further, if nothing else
//! claims the region). Only a superblock at an anchor makes a file system known; magic numbers elsewhere count only
//! if they agree with a known superblock's UUID, checksum and address. So user data cannot plant a file system, and a
//! forged block (which needs the UUID and a correct checksum) gains at most its own space on the fast tier.
//!
//! Facts learned from writes and reads are kept for each disk and bounded: [`SYSTEMS_LIMIT`] file systems,
//! [`PARTITIONS_LIMIT`] partitions. The facts about a file system are dropped when its superblock is discarded, or
//! overwritten by something else.

mod btrfs;
mod codec;
mod crc;
mod disk;
mod ext4;
mod kind;
mod partition;
mod xfs;

pub use kind::{Evidence, Role, System};

use disk::Disk;
use forebay_block::DiskId;
use std::collections::BTreeMap;

/// Most known file systems, over all disks.
pub const SYSTEMS_LIMIT: usize = 64;
/// Most remembered partitions, over all disks.
pub const PARTITIONS_LIMIT: usize = 512;

/// Most disks about which any fact is remembered.
pub const DISKS_LIMIT: usize = 256;

/// A recognised file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownSystem {
    /// The disk it lies on.
    pub disk: DiskId,
    /// Its start on the disk, in bytes.
    pub offset_bytes: u64,
    /// Its length, in bytes.
    pub len_bytes: u64,
    /// Its kind.
    pub system: System,
    /// Its UUID; zeros if it has none.
    pub uuid: [u8; 16],
}

/// Which blocks to judge, since judging takes time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judging {
    /// Only examines anchors.
    Never,
    /// As long as blocks outside of the anchors can still show something new (group descriptors, journal maps).
    WhileItTeaches,
    /// Always.
    Always,
}

/// All learned facts.
#[derive(Debug, Default)]
pub(crate) struct Learned {
    disks: BTreeMap<DiskId, Disk>,
    /// Number of examinations of anchors so far, to find the file system confirmed the longest ago.
    looks: u64,
    scratch: Vec<u8>,
}

impl Learned {
    /// Learns from `data` at `offset_bytes`, and appends a verdict for every 4 KiB block, as far as `judging`
    /// requests it. No verdicts mean that nothing is known about the disk.
    pub fn inspect(
        &mut self,
        disk: DiskId,
        disk_size_bytes: u64,
        offset_bytes: u64,
        data: &[u8],
        judging: Judging,
        verdicts: &mut Vec<Option<Evidence>>,
    ) {
        if data.is_empty() {
            // A trace has no contents.
            return;
        }
        let found = self.disks.get_mut(&disk);
        let touches_anchor = match &found {
            Some(known) => known.touches_anchor(offset_bytes, data.len() as u64),
            None => disk::starts_disk(offset_bytes),
        };
        if touches_anchor {
            self.looks += 1;
            let looks = self.looks;
            let known = self.disks.entry(disk).or_default();
            known.learn(disk_size_bytes, offset_bytes, data, looks);
            if known.is_empty() {
                self.disks.remove(&disk);
            }
            self.bound(disk);
        }
        if judging == Judging::Never {
            return;
        }
        if let Some(known) = self.disks.get_mut(&disk)
            && (judging == Judging::Always || known.learns_from_reads())
        {
            known.judge(offset_bytes, data, &mut self.scratch, verdicts);
        }
    }

    /// Forgets the structures in the discarded range.
    pub fn discard(&mut self, disk: DiskId, offset_bytes: u64, len_bytes: u64) {
        if let Some(known) = self.disks.get_mut(&disk) {
            known.discard(offset_bytes, len_bytes);
            if known.is_empty() {
                self.disks.remove(&disk);
            }
        }
    }

    /// The file system that contains a block, with the role of data: says nothing about the block's contents.
    pub fn data_at(&self, disk: DiskId, offset_bytes: u64) -> Option<Evidence> {
        let known = self.disks.get(&disk)?;
        let holds = |system: &&disk::Known| (system.base..system.end).contains(&offset_bytes);
        let system = known.systems.iter().filter(holds).min_by_key(|system| system.end - system.base)?;
        Some(Evidence { system: system.kind.system(), role: Role::Data })
    }

    /// The known file systems, in order of disk and address.
    pub fn systems(&self) -> Vec<KnownSystem> {
        self.disks
            .iter()
            .flat_map(|(&disk, known)| {
                known.systems.iter().map(move |system| KnownSystem {
                    disk,
                    offset_bytes: system.base,
                    len_bytes: system.end - system.base,
                    system: system.kind.system(),
                    uuid: system.kind.uuid(),
                })
            })
            .collect()
    }

    /// Enforces the limits: the disk with the most file systems loses the one confirmed the longest ago. `newcomer`
    /// is the disk that has just learned something; so a disk with a hundred partitions cannot displace the single
    /// file system of another.
    fn bound(&mut self, newcomer: DiskId) {
        while self.disks.values().map(|known| known.systems.len()).sum::<usize>() > SYSTEMS_LIMIT {
            let fullest =
                self.disks.iter().max_by_key(|(disk, known)| (known.systems.len(), **disk)).map(|(disk, _)| *disk);
            let Some(known) = fullest.and_then(|disk| self.disks.get_mut(&disk)) else {
                break;
            };
            known.forget_oldest();
        }
        if self.disks.len() > DISKS_LIMIT {
            // A table without a file system is worth the least. There are more disks than file systems, so that one
            // is found.
            let bare = self.disks.iter().find(|(_, known)| known.systems.is_empty()).map(|(disk, _)| *disk);
            self.disks.remove(&bare.unwrap_or(newcomer));
        }
        if self.disks.values().map(|known| known.partitions.len()).sum::<usize>() > PARTITIONS_LIMIT
            && let Some(known) = self.disks.get_mut(&newcomer)
        {
            known.partitions.clear();
        }
    }
}
