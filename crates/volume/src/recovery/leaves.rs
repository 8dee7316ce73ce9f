//! Reading the leaves of the map one after the other, past the engine's frames.

use crate::engine::Engine;
use crate::io::Devices;
use crate::layout::page::{PAGE_BYTES, PageName, is_leaf};
use crate::map::index::{Disk, NO_FRAME};
use forebay_block::{Buf, DiskId};

/// Leaves read at once.
const LEAVES_AT_ONCE: usize = 256;

/// Leaves from `first` on, as many as are read at once.
pub(super) fn next_leaves(disk: &Disk, first: u64) -> Vec<u64> {
    let mut leaves = vec![first];
    while leaves.len() < LEAVES_AT_ONCE
        && let Some(leaf) = disk.next_leaf(leaves[leaves.len() - 1] + 1)
    {
        leaves.push(leaf);
    }
    leaves
}

/// Pages of leaves; `None` where one cannot be read.
pub(super) fn read_leaves(devices: &mut Devices, engine: &Engine, id: DiskId, leaves: &[u64]) -> Vec<Option<Buf>> {
    let mut pages: Vec<Option<Buf>> = leaves.iter().map(|_| None).collect();
    let (mut places, mut wanted) = (Vec::new(), Vec::new());
    for (i, &leaf) in leaves.iter().enumerate() {
        let Some((reference, frame)) = engine.map.disk(id).map(|disk| disk.leaf(leaf)) else { continue };
        if frame != NO_FRAME {
            pages[i] = Some(Buf::copy_of(&engine.map.frames.get(frame).page));
        } else if let Some((device, offset_bytes)) = engine.setup.extents.place(reference.location) {
            places.push((device, offset_bytes, PAGE_BYTES));
            let name = PageName { disk: id, number: leaf, generation: reference.generation };
            wanted.push((i, name, reference.crc));
        }
    }
    let is_good = |number: usize, bytes: &[u8]| {
        let (_, name, crc) = wanted[number];
        is_leaf(bytes, name, crc)
    };
    let read = devices.read_each_good(&places, is_good);
    wanted.iter().zip(read).for_each(|(&(i, ..), reading)| pages[i] = reading.good());
    pages
}
