//! Checks what the capacity tier shows alone: all data that can be read is what was written.

use super::AloneReport;
use crate::engine::Engine;
use crate::io::Devices;
use crate::layout::packed::Packer;
use crate::layout::page::{Entry, LEAF_ENTRIES, Span, Window, leaf_entry};
use crate::readings::{Place, Reading};
use crate::recovery::leaves::{next_leaves, read_leaves};
use crate::verify::{Finding, fault};
use forebay_block::figures::count;
use forebay_block::{DiskId, IoError};

/// Blocks read at once.
const AT_ONCE: usize = 256;

/// Compares the checksums of all data that is shown; returns the number of blocks. Data that is gone with the fast tier is no finding; data
/// that should be on the capacity tier and is not there is one.
pub fn verify_alone(
    devices: &mut Devices,
    engine: &Engine,
    opened: &AloneReport,
    report: &mut dyn FnMut(Finding),
) -> u64 {
    let mut finding = |place: &str, what: String| report(Finding { place: place.to_owned(), what });
    opened.warnings.iter().for_each(|warning| finding("capacity tier", warning.clone()));
    if opened.pages_damaged > 0 {
        let what = format!("{} damaged that say on which tier blocks lived", count(opened.pages_damaged, "page"));
        finding("capacity-side checkpoint", what);
    }
    if opened.disks_missing > 0 {
        let what = format!("{} not in it: there was no room for more", count(opened.disks_missing as u64, "disk"));
        finding("capacity-side checkpoint", what);
    }
    for disk in opened.disks.iter().filter(|disk| disk.maybe_older.blocks > 0) {
        let what = format!("{} may be older than at the checkpoint", count(disk.maybe_older.blocks, "block"));
        finding(&format!("disk {}", disk.name), what);
    }
    let mut blocks = 0;
    for disk in engine.disks() {
        let mut next = disk.next_leaf(0);
        while let Some(first) = next {
            let leaves = next_leaves(disk, first);
            next = leaves.last().and_then(|last| disk.next_leaf(last + 1));
            for (leaf, page) in leaves.iter().zip(read_leaves(devices, engine, disk.id, &leaves)) {
                let Some(page) = page else {
                    finding(&format!("disk {}", disk.name), format!("leaf {leaf} of its map cannot be read"));
                    continue;
                };
                blocks += data(devices, engine, (disk.id, &disk.name), *leaf, &page, &mut finding);
            }
        }
    }
    blocks
}

fn data(
    devices: &mut Devices,
    engine: &Engine,
    (disk, name): (DiskId, &str),
    leaf: u64,
    page: &[u8],
    finding: &mut dyn FnMut(&str, String),
) -> u64 {
    let entries = (0..LEAF_ENTRIES).filter_map(|at| match leaf_entry(page, at) {
        (Entry::Data { span, .. }, checksum) => Some((leaf * LEAF_ENTRIES as u64 + at as u64, span, checksum)),
        _ => None,
    });
    let wanted: Vec<(u64, Span, u32)> = entries.collect();
    let (mut packer, unit_grains) = (Packer::default(), devices.unit_grains());
    for group in wanted.chunks(AT_ONCE) {
        let place = |&(_, span, _): &(u64, Span, u32)| {
            let around = Window::of(span, unit_grains);
            let (device, offset_bytes) = engine.setup.extents.place(around.first).unwrap_or_default();
            (device, offset_bytes, around.len_bytes)
        };
        let places: Vec<Place> = group.iter().map(place).collect();
        let mut fault_of = |at: usize, bytes: Result<&[u8], &IoError>| {
            let (block, span, checksum) = group[at];
            fault((disk, block), (span, Window::of(span, unit_grains)), checksum, bytes, &mut packer)
        };
        let read = devices.read_each_good(&places, |at, bytes| fault_of(at, Ok(bytes)).is_none());
        for (at, reading) in read.into_iter().enumerate() {
            let found = match &reading {
                Reading::Good(_) => None,
                Reading::Bad(bytes) => fault_of(at, Ok(bytes)),
                Reading::Failed(error) => fault_of(at, Err(error)),
            };
            if let Some(what) = found {
                finding(&format!("disk {name}, byte {}", group[at].0 * 4096), what);
            }
        }
    }
    wanted.len() as u64
}
