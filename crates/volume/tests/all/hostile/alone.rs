//! Hostile roots of the capacity tier, opened alone and with the fast tier.

use super::{MEMORY_LIMIT_KIB, open_and_go_on, served, superblock};
use crate::child::in_a_process;
use crate::holes::device::Scripted;
use crate::holes::rig::{CAPACITY, Setup, block_request, classes, label};
use forebay_block::Device;
use forebay_volume::layout::capacity_root::{CapacityDisk, CapacityHeader, CapacityRoot};
use forebay_volume::recovery::open_alone;
use forebay_volume::{Devices, EngineOptions, Op, Outcome, Pool};

/// Changes the newest root of the capacity tier.
fn forge_capacity_root(devices: &[Scripted], change: impl FnOnce(&mut CapacityRoot)) {
    let superblock = superblock(devices);
    let area = superblock.capacity_area;
    let read = |parity: u64| {
        devices[CAPACITY].bytes(|bytes| {
            let at = area.header_offset_bytes(parity) as usize;
            let header = CapacityHeader::decode(&bytes[at..at + 4096], &superblock.pool)?;
            let blob = &bytes[at + 4096..][..header.blob_len_bytes as usize];
            Some((header, CapacityRoot::decode(blob, &superblock)?))
        })
    };
    let (old, mut root) = [0, 1].into_iter().filter_map(read).max_by_key(|(header, _)| header.checkpoint).unwrap();
    change(&mut root);
    let blob = root.encode(&area);
    let at = area.header_offset_bytes(old.checkpoint);
    devices[CAPACITY].forge(at + 4096, &blob);
    let header = CapacityRoot::header(&blob, old.checkpoint, old.epoch, old.generation);
    devices[CAPACITY].forge(at, &header.encode(&superblock.pool));
}

/// Opens the capacity tier alone; where that succeeds, what is read of the blocks is right or cannot be read.
fn open_alone_and_read(devices: &[Scripted]) {
    let mut list = Devices::new(vec![Box::new(devices[CAPACITY].clone()) as Box<dyn Device>]);
    let options = EngineOptions { memory_limit_bytes: 64 << 20, ..Setup::default().options };
    let opened = open_alone(&mut list, &classes(), options, &mut |_, _| {});
    let (engine, _) = match opened {
        Ok(opened) => opened,
        Err(error) => return println!("refused: {error}"),
    };
    let Some(disk) = engine.disk_named("disk").map(|disk| disk.id) else { return };
    let mut pool = Pool::new(engine, list);
    for block in 1..5 {
        pool.submit(block_request(1, disk, block, Op::Read));
        let mut done = Vec::new();
        pool.run_until(&mut done, |_, done| !done.is_empty());
        if let Ok(Outcome::Data(data)) = done.pop().unwrap().result {
            assert!(label(&data) == Some((block, 1)) || data.iter().all(|&byte| byte == 0), "block {block}");
        }
    }
    assert!(pool.close());
}

fn survives_alone(forge: fn(&mut CapacityRoot)) {
    in_a_process(MEMORY_LIMIT_KIB, || {
        let devices = served();
        forge_capacity_root(&devices, forge);
        open_alone_and_read(&devices);
        open_and_go_on(devices);
    });
}

macro_rules! hostile_alone {
    ($($name:ident: $forge:expr;)*) => {
        $(#[test] fn $name() { survives_alone($forge); })*
    };
}

hostile_alone! {
    a_whole_root: |_| {};
    a_disk_of_all_numbers: |root| root.disks[0].size_bytes = 1 << 57;
    a_disk_of_which_nothing_is_known: |root| {
        (root.disks[0].size_bytes, root.disks[0].unlisted_from) = (1 << 50, 0);
    };
    the_same_disk_twice: |root| root.disks.push(root.disks[0].clone());
    disks_without_end: |root| {
        let disk = root.disks[0].clone();
        root.disks = (1..=u16::MAX).map(|id| CapacityDisk { id, pages: Vec::new(), ..disk.clone() }).collect();
    };
    pages_of_other_slots: |root| root.disks[0].pages.iter_mut().for_each(|page| page.slot ^= 3);
    pages_in_no_slot: |root| root.disks[0].pages.iter_mut().for_each(|page| page.slot = u32::MAX);
    pages_beyond_the_disk: |root| root.disks[0].pages.iter_mut().for_each(|page| page.number = u32::MAX);
    bands_written_beyond_their_end: |root| root.bands.iter_mut().for_each(|band| band.groups = u32::MAX >> 1);
    bands_of_other_generations: |root| root.bands.iter_mut().for_each(|band| band.generation ^= u32::MAX);
    no_band_is_free: |root| root.bands.iter_mut().for_each(|band| (band.is_free, band.groups) = (false, 1));
    every_band_is_free: |root| {
        root.open_groups.clear();
        root.bands.iter_mut().for_each(|band| (band.is_free, band.groups) = (true, 0));
    };
    fewer_bands_than_there_are: |root| root.bands.truncate(3);
    open_groups_of_no_band: |root| root.open_groups[0].0 = u32::MAX;
    an_open_group_longer_than_its_band: |root| {
        let entry = root.open_groups[0].2[0];
        root.open_groups[0].2.resize(160, entry);
    };
    an_entry_of_another_block: |root| {
        for entry in root.open_groups.iter_mut().flat_map(|(_, _, entries)| entries) {
            entry.block ^= 3;
        }
    };
    sequences_at_the_end_of_all_numbers: |root| root.next_sequence = (1 << 62) - 1;
    unapplied_sequences_without_order: |root| root.unapplied = (0..200).rev().collect();
}
