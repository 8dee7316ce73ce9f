//! Reading the leaves of the map one after the other, past the engine's frames.

use crate::engine::Engine;
use crate::io::Devices;
use crate::layout::page::{PAGE_BYTES, PageName, is_leaf};
use crate::map::index::{Disk, NO_FRAME};
use forebay_block::{Buf, DiskId, Op, Vectored};

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
    let (mut reads, mut wanted) = (Vec::new(), Vec::new());
    for (i, &leaf) in leaves.iter().enumerate() {
        let Some((reference, frame)) = engine.map.disk(id).map(|disk| disk.leaf(leaf)) else { continue };
        if frame != NO_FRAME {
            pages[i] = Some(Buf::copy_of(&engine.map.frames.get(frame).page));
        } else if let Some((device, offset_bytes)) = engine.setup.extents.place(reference.location) {
            reads.push((device, offset_bytes, Op::read(Vectored::One(Buf::new(PAGE_BYTES)))));
            wanted.push((i, reference));
        }
    }
    for ((i, reference), completion) in wanted.into_iter().zip(devices.run(reads)) {
        let name = PageName { disk: id, number: leaves[i], generation: reference.generation };
        if let (Ok(()), Some(Vectored::One(page))) = (completion.result, completion.bufs) {
            pages[i] = Some(page).filter(|page| is_leaf(page, name, reference.crc));
        }
    }
    pages
}
