//! Facts about one disk: its partitions, its file systems, and structures cut off by the end of a request.

use super::btrfs::{Btrfs, SUPERBLOCK_OFFSET as BTRFS_OFFSET};
use super::ext4::Ext4;
use super::kind::{BLOCK, Evidence, Role, System};
use super::partition::{self, Partition, Table};
use super::xfs::Xfs;

/// A file system.
#[derive(Debug)]
pub(super) struct Known {
    /// First byte on the disk.
    pub base: u64,
    /// Byte after the last byte on the disk.
    pub end: u64,
    pub kind: Kind,
    /// Number of the examination of an anchor that last confirmed it.
    pub confirmed: u64,
}

#[derive(Debug)]
pub(super) enum Kind {
    Xfs(Xfs),
    Ext4(Box<Ext4>),
    Btrfs(Btrfs),
    Swap,
}

impl Kind {
    pub fn system(&self) -> System {
        match self {
            Self::Xfs(_) => System::Xfs,
            Self::Ext4(_) => System::Ext4,
            Self::Btrfs(_) => System::Btrfs,
            Self::Swap => System::Swap,
        }
    }

    pub fn uuid(&self) -> [u8; 16] {
        match self {
            Self::Xfs(xfs) => xfs.uuid,
            Self::Ext4(ext4) => ext4.geometry.uuid,
            Self::Btrfs(btrfs) => btrfs.fsid,
            Self::Swap => [0; 16],
        }
    }
}

/// The remainder of a structure whose head came with an earlier request.
#[derive(Clone, Copy, Debug, Default)]
struct Carry {
    offset: u64,
    left: u64,
    evidence: Option<Evidence>,
}

/// The end of a request may cut off a multi-block structure; this many heads can wait for their remainders.
const CARRIES: usize = 4;

#[derive(Debug, Default)]
pub(super) struct Disk {
    pub table: Option<Table>,
    /// Sorted by start.
    pub partitions: Vec<Partition>,
    /// Sorted by base, disjoint.
    pub systems: Vec<Known>,
    carries: [Carry; CARRIES],
    next_carry: usize,
}

/// Whether a request at `offset` may hold the superblock or partition table of an unknown disk.
pub(super) fn starts_disk(offset: u64) -> bool {
    // The first 64 KiB and the block of btrfs's superblock: enough for tables of all kinds.
    offset <= BTRFS_OFFSET
}

fn overlaps(offset: u64, len: u64, start: u64, end: u64) -> bool {
    offset < end && offset.saturating_add(len) > start
}

impl Disk {
    pub fn is_empty(&self) -> bool {
        self.table.is_none() && self.partitions.is_empty() && self.systems.is_empty()
    }

    pub fn learns_from_reads(&self) -> bool {
        self.systems.iter().any(|known| matches!(&known.kind, Kind::Ext4(ext4) if ext4.is_incomplete()))
    }

    /// Whether the range contains a place for a superblock or a table. Cheap, since it is on the data path.
    pub fn touches_anchor(&self, offset: u64, len: u64) -> bool {
        if starts_disk(offset) {
            return true;
        }
        let end = offset.saturating_add(len);
        // The last partition that starts before the end of the request decides: earlier ones end before it starts.
        let next = self.partitions.partition_point(|partition| partition.start < end);
        next.checked_sub(1)
            .and_then(|last| self.partitions.get(last))
            .is_some_and(|partition| offset <= partition.start.saturating_add(BTRFS_OFFSET))
    }

    /// Examines every anchor in the range.
    pub fn learn(&mut self, disk_size: u64, offset: u64, data: &[u8], look: u64) {
        let block_at = |at: u64| -> Option<&[u8]> {
            let skip = usize::try_from(at.checked_sub(offset)?).ok()?;
            data.get(skip..)?.get(..BLOCK as usize)
        };
        if let Some(first) = block_at(0) {
            let table = partition::recognise(first, disk_size);
            // A protective boot record alone does not say where the header is; the earlier table stays.
            let table =
                if table.is_some_and(|table| table.sector == 0) && self.table.is_some_and(|old| old.sector == 4096) {
                    self.table
                } else {
                    table
                };
            self.anchor(0, disk_size, first, look);
            // A file system on the whole disk takes precedence: its spare bytes may still contain an old boot record.
            if self.systems.iter().any(|known| known.base == 0) || table.is_none() {
                self.table = None;
                self.set_partitions(Vec::new());
            } else if table != self.table {
                self.table = table;
                self.set_partitions(table.map(|table| table.mbr_partitions(first, disk_size)).unwrap_or_default());
            } else if let Some(table) = table.filter(|table| !table.is_gpt()) {
                self.set_partitions(table.mbr_partitions(first, disk_size));
            }
        }
        if let Some(table) = &mut self.table {
            let mut partitions = std::mem::take(&mut self.partitions);
            let changed = table.learn_entries(offset, data, disk_size, &mut partitions);
            if changed {
                self.set_partitions(partitions);
            } else {
                self.partitions = partitions;
            }
        }
        let whole = Partition { index: 0, start: 0, end: disk_size };
        for i in 0..=self.partitions.len() {
            let partition = if i == 0 { whole } else { self.partitions[i - 1] };
            if i > 0
                && let Some(block) = block_at(partition.start)
            {
                self.anchor(partition.start, partition.end, block, look);
            }
            if let Some(block) = block_at(partition.start.saturating_add(BTRFS_OFFSET)) {
                self.btrfs_anchor(partition.start, partition.end, block, look);
            }
        }
    }

    /// Examines the first block of the disk or of a partition.
    fn anchor(&mut self, base: u64, limit: u64, block: &[u8], look: u64) {
        let room = limit.saturating_sub(base);
        let recognised = if let Some(xfs) = Xfs::parse(block, room) {
            Some((xfs.size, Kind::Xfs(xfs)))
        } else if let Some(ext4) = Ext4::parse(block, room) {
            Some((ext4.geometry.size(), Kind::Ext4(Box::new(ext4))))
        } else if is_swap(block) {
            Some((room, Kind::Swap))
        } else {
            None
        };
        match recognised {
            Some((size, kind)) => self.learn_system(base, base.saturating_add(size), kind, look),
            None => self.systems.retain(|known| known.base != base || known.kind.system() == System::Btrfs),
        }
    }

    /// Examines the block where btrfs keeps its superblock.
    fn btrfs_anchor(&mut self, base: u64, limit: u64, block: &[u8], look: u64) {
        let at_base = self.systems.iter().find(|known| known.base == base).map(|known| known.kind.system());
        if at_base.is_some_and(|system| system != System::Btrfs) {
            // An ordinary data block of the file system at this base.
            return;
        }
        match Btrfs::parse(block, BTRFS_OFFSET, limit.saturating_sub(base)) {
            Some(btrfs) => self.learn_system(base, base.saturating_add(btrfs.size), Kind::Btrfs(btrfs), look),
            None => self.systems.retain(|known| known.base != base),
        }
    }

    fn learn_system(&mut self, base: u64, end: u64, kind: Kind, look: u64) {
        if let Some(known) = self.systems.iter_mut().find(|known| known.base == base) {
            known.confirmed = look;
            match (&mut known.kind, kind) {
                // A superblock is rewritten often; other learned facts stay as long as the geometry does.
                (Kind::Ext4(old), Kind::Ext4(new)) if old.geometry == new.geometry => {}
                (old, new) => *old = new,
            }
            known.end = end;
        } else {
            self.systems.push(Known { base, end, kind, confirmed: look });
        }
        self.systems.sort_by_key(|known| known.base);
        // Regions are disjoint: the one confirmed last wins.
        self.systems.retain(|known| known.base == base || !overlaps(known.base, known.end - known.base, base, end));
    }

    fn set_partitions(&mut self, partitions: Vec<Partition>) {
        self.partitions = partitions;
        let partitions = &self.partitions;
        self.systems
            .retain(|known| known.base == 0 || partitions.iter().any(|partition| partition.start == known.base));
    }

    pub fn forget_oldest(&mut self) {
        let oldest = self.systems.iter().map(|known| known.confirmed).min();
        self.systems.retain(|known| Some(known.confirmed) != oldest);
    }

    pub fn discard(&mut self, offset: u64, len: u64) {
        self.systems.retain(|known| {
            let anchor = known.base + if known.kind.system() == System::Btrfs { BTRFS_OFFSET } else { 0 };
            !overlaps(offset, len, anchor, anchor + BLOCK)
        });
        if self.table.is_some() && overlaps(offset, len, 0, BLOCK) {
            self.table = None;
            self.set_partitions(Vec::new());
        }
    }

    /// Appends one verdict for each 4 KiB block. Without any file system, appends nothing.
    pub fn judge(&mut self, offset: u64, data: &[u8], scratch: &mut Vec<u8>, verdicts: &mut Vec<Option<Evidence>>) {
        let end = offset.saturating_add(data.len() as u64);
        let mut at = offset;
        // End of the last structure found.
        let mut reach = offset;
        let mut evidence = None;
        for carry in &mut self.carries {
            if carry.evidence.is_some() && carry.offset == offset {
                reach = offset.saturating_add(carry.left);
                evidence = carry.evidence.take();
                break;
            }
        }
        let mut index = self.systems.partition_point(|known| known.end <= offset);
        for rest in (0..data.len() / BLOCK as usize).map(|i| &data[i * BLOCK as usize..]) {
            while self.systems.get(index).is_some_and(|known| known.end <= at) {
                index += 1;
            }
            if at >= reach {
                evidence = None;
                reach = at + BLOCK;
                if let Some(known) = self.systems.get_mut(index).filter(|known| known.base <= at) {
                    let system = known.kind.system();
                    let relative = at - known.base;
                    let (role, len) = match &mut known.kind {
                        Kind::Xfs(xfs) => xfs.judge(relative, rest, scratch),
                        Kind::Ext4(ext4) => ext4.judge(relative, rest),
                        Kind::Btrfs(btrfs) => btrfs.judge(relative, rest),
                        Kind::Swap => (if relative == 0 { Role::Superblock } else { Role::Swap }, BLOCK),
                    };
                    // No structure extends beyond its file system.
                    reach = at.saturating_add(len.max(BLOCK)).min(known.end.next_multiple_of(BLOCK));
                    evidence = Some(Evidence { system, role });
                } else if self.table.is_some_and(|table| table.covers(at)) {
                    let role = if at == 0 { Role::Superblock } else { Role::Metadata };
                    evidence = Some(Evidence { system: System::PartitionTable, role });
                }
            }
            verdicts.push(evidence);
            at += BLOCK;
        }
        if reach > end && evidence.is_some() {
            self.carries[self.next_carry] = Carry { offset: end, left: reach - end, evidence };
            self.next_carry = (self.next_carry + 1) % CARRIES;
        }
    }
}

/// Swap header version 1 with 4 KiB pages: "SWAPSPACE2" in the last ten bytes of the first page
/// (linux `include/linux/swap.h`, `union swap_header`; util-linux `include/swapheader.h`).
fn is_swap(block: &[u8]) -> bool {
    block.get(4086..4096) == Some(b"SWAPSPACE2")
}
