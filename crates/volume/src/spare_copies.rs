//! Copies that a pool has so that others may be lost. Nothing reads them before that, so verification does.

use crate::engine::header_offsets;
use crate::io::Devices;
use crate::layout::capacity_root::DEVICE;
use crate::layout::root::{HEADER_BYTES, RootHeader};
use crate::layout::watermark::{OFFSETS_BYTES, Watermark};
use crate::recovery::capacity::{Found, read_capacity_roots};
use crate::recovery::read_superblock;

/// Where, and what is wrong there.
type Place = (String, String);

/// Copies of superblocks that are damaged.
pub(crate) fn superblocks(devices: &mut Devices) -> Vec<Place> {
    let mut findings = Vec::new();
    for device in 0..devices.list.len() {
        if let Ok((_, good @ 0..3)) = read_superblock(devices, device) {
            let place = devices.list[device].name().to_owned();
            findings.push((place, format!("only {good} of 3 superblock copies are good")));
        }
    }
    findings
}

/// Copies of the newest root's header that are damaged. After a power cut one may be torn, which the next opening mends: so this counts only for pools
/// that were stopped cleanly.
pub(crate) fn root_headers(devices: &mut Devices) -> Vec<Place> {
    let Ok((superblock, _)) = read_superblock(devices, 0) else { return Vec::new() };
    let mut read = |at: u64| RootHeader::decode(&devices.read(0, at, HEADER_BYTES).ok()?, &superblock.pool);
    let areas = [0, 1].map(|parity| header_offsets(&superblock, parity).map(|at| (at, read(at))));
    let newest = areas
        .into_iter()
        .max_by_key(|copies| copies.iter().filter_map(|(_, header)| *header).map(|header| header.checkpoint).max());
    let damaged = newest.into_iter().flatten().filter(|(_, header)| header.is_none());
    let place = devices.list[0].name().to_owned();
    damaged.map(|(at, _)| (place.clone(), format!("the copy of the newest root's header at {at} is damaged"))).collect()
}

/// Watermark blocks that are damaged. A crash leaves none: a torn block is the former mark or the new one.
pub(crate) fn watermarks(devices: &mut Devices) -> Vec<Place> {
    let Ok((superblock, _)) = read_superblock(devices, 0) else { return Vec::new() };
    let place = devices.list[0].name().to_owned();
    let mut is_damaged = |at: u64| {
        let read = devices.read(0, at, 4096);
        read.is_ok_and(|bytes| Watermark::is_damaged(&bytes, &superblock.pool))
    };
    let damaged = OFFSETS_BYTES.into_iter().filter(|&at| is_damaged(at));
    damaged.map(|at| (place.clone(), format!("the watermark block at {at} is damaged"))).collect()
}

/// A capacity tier of which nothing could be read without the fast tier.
pub(crate) fn capacity_side(devices: &mut Devices) -> Option<Place> {
    // The devices are in the order of the configuration, not yet in that of the pool's table.
    let mut all = (0..devices.list.len()).filter_map(|at| Some((at, read_superblock(devices, at).ok()?.0)));
    let (at, superblock) = all.find(|(_, superblock)| usize::from(superblock.index) == DEVICE)?;
    if !superblock.capacity_area.exists() {
        return None;
    }
    let is_there = read_capacity_roots(devices, at, &superblock).iter().any(|found| matches!(found, Found::Root(..)));
    let what = "no capacity-side checkpoint is whole: without the fast tier nothing could be read; the next checkpoint writes one".to_owned();
    (!is_there).then(|| (devices.list[at].name().to_owned(), what))
}
