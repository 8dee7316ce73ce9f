//! Superblocks that claim an area for capacity-side checkpoints of any size.

use super::{MEMORY_LIMIT_KIB, served, superblock};
use crate::child::in_a_process;
use crate::holes::device::Scripted;
use crate::holes::rig::CAPACITY;
use forebay_block::Device;
use forebay_volume::Devices;
use forebay_volume::layout::capacity_root::{CapacityArea, CapacityHeader};
use forebay_volume::layout::superblock::{Superblock, SuperblockError};
use forebay_volume::recovery::capacity::{Found, read_capacity_roots};

/// The capacity device of a pool that claims to be this large.
fn claims(devices: &[Scripted], size_bytes: u64, area: CapacityArea) -> Superblock {
    let mut claimed = Superblock { index: 1, capacity_area: area, ..superblock(devices) };
    let member = &mut claimed.members[CAPACITY];
    member.size_bytes = size_bytes;
    member.data_offset_bytes = size_bytes - member.sectors * 512 - 4096;
    claimed
}

#[test]
fn an_area_is_no_larger_than_its_pool_needs() {
    let devices = served();
    let area = superblock(&devices).capacity_area;
    for (claimed, size_bytes) in [
        (CapacityArea { root_len_bytes: 1 << 40, ..area }, 1 << 42),
        (CapacityArea { pages: u32::MAX / 2, ..area }, 1 << 46),
        (CapacityArea { root_len_bytes: 1 << 58, ..area }, 1 << 60),
    ] {
        let claimed = claims(&devices, size_bytes, claimed);
        let decoded = Superblock::decode(&claimed.encode());
        let error = decoded.unwrap_err();
        assert_eq!(
            error,
            SuperblockError::Damaged("the capacity-side area is impossible"),
            "{:?}",
            claimed.capacity_area
        );
    }
    assert_eq!(Superblock::decode(&claims(&devices, 1 << 32, area).encode()).unwrap().capacity_area, area);
}

/// The pool is as large as it may be, and its blob as long as the area; the file is small.
#[test]
fn a_blob_is_no_longer_than_its_device() {
    in_a_process(MEMORY_LIMIT_KIB, || {
        let devices = served();
        let mut claimed = claims(&devices, 1 << 46, superblock(&devices).capacity_area);
        claimed.capacity_area.root_len_bytes = 4 << 30;
        claimed.members[CAPACITY].data_offset_bytes &= !4095;
        let claimed = Superblock::decode(&claimed.encode()).unwrap();
        for parity in [0, 1] {
            let header = CapacityHeader {
                checkpoint: 4 + parity,
                epoch: 1,
                blob_len_bytes: (4 << 30) - 4096,
                blob_crc: 0,
                generation: 1,
            };
            // Where the second one would lie there is no device.
            if parity == 0 {
                devices[CAPACITY]
                    .forge(claimed.capacity_area.header_offset_bytes(parity), &header.encode(&claimed.pool));
            }
        }
        let mut list = Devices::new(vec![Box::new(devices[CAPACITY].clone()) as Box<dyn Device>]);
        let [even, odd] = read_capacity_roots(&mut list, 0, &claimed);
        assert!(matches!(even, Found::Damaged(header) if header.checkpoint == 4), "{even:?}");
        assert_eq!(odd, Found::Nothing);
    });
}
