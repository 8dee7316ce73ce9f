//! Collection of bands that hold damaged blocks.

use super::device::{Fate, Kind, Region, Seen};
use super::rig::{BULK, CAPACITY, Rig, Setup, failed, findings, held, labels};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Blocks written; every third is overwritten repeatedly, the others never.
const BLOCKS: u64 = 120;

fn small() -> Setup {
    Setup { capacity_bytes: 1 << 20, ..Setup::default() }
}

/// The first never-overwritten block within a read of a band: (block, its place). Only collection reads here.
fn cold(seen: &Seen<'_>) -> Option<(u64, u64)> {
    let found = if seen.is(Kind::Read, Region::Bands) { labels(seen.bytes) } else { Vec::new() };
    found.iter().find(|(_, block, _)| block % 3 != 0).map(|(at, block, _)| (*block, seen.offset_bytes + at))
}

/// Contents of the disk.
struct Written {
    newest: u32,
    versions: BTreeMap<u64, u32>,
}

impl Written {
    fn all(rig: &mut Rig) -> Self {
        let token = rig.write_run(0, BLOCKS, 1, false, BULK);
        rig.wait(token).unwrap();
        rig.flush();
        Self { newest: 1, versions: (0..BLOCKS).map(|block| (block, 1)).collect() }
    }

    /// Overwrites blocks durably until a condition holds; false where it never does.
    fn overwrite(&mut self, rig: &mut Rig, count: usize, mut is_so: impl FnMut() -> bool) -> bool {
        let hot = (0..BLOCKS).step_by(3).cycle().take(count);
        for block in hot {
            self.newest += 1;
            let token = rig.write_run(block, 1, self.newest, true, BULK);
            rig.wait(token).unwrap();
            self.versions.insert(block, self.newest);
            if is_so() {
                return true;
            }
        }
        false
    }

    fn is_there(&self, rig: &mut Rig) {
        for (&block, &version) in &self.versions {
            assert_eq!(rig.get(block), Ok(version), "block {block}");
        }
    }
}

/// A block in a band rots, collection reads it, and meanwhile the host overwrites the block durably. The record of the damaged old copy
/// follows that of the write, and recovery applied it without checking the map: the block became unreadable although its new data was
/// there.
#[test]
fn hole_01_damage_record_replayed_over_a_newer_write() {
    let mut rig = Rig::new(&small());
    let mut written = Written::all(&mut rig);
    let trapped = Arc::new(Mutex::new(None));
    let trap = trapped.clone();
    rig.devices[CAPACITY].rule(move |seen| match cold(seen) {
        Some(found) => {
            trap.lock().unwrap().get_or_insert(found);
            Fate::Held
        }
        None => Fate::Good,
    });
    assert!(written.overwrite(&mut rig, 1000, || trapped.lock().unwrap().is_some()), "nothing was ever collected");
    let (block, place) = trapped.lock().unwrap().unwrap();
    // A read in flight returns the data present when it ends: from now on that is not what was written.
    rig.devices[CAPACITY].forge(place + 512, &[0; 512]);
    let token = rig.write_run(block, 1, 9999, true, None);
    rig.wait(token).unwrap();
    written.versions.insert(block, 9999);
    rig.devices[CAPACITY].heal();
    rig.polls(300);
    assert_eq!(rig.get(block), Ok(9999));
    let mut rig = rig.crash();
    written.is_there(&mut rig);
}

/// One wrong bit in a single read by collection was recorded as permanent damage, though the block was good.
#[test]
fn hole_06_a_misread_of_a_collection_does_no_damage() {
    let mut rig = Rig::new(&small());
    let mut written = Written::all(&mut rig);
    let trapped = Arc::new(Mutex::new(None));
    let trap = trapped.clone();
    rig.devices[CAPACITY].rule(move |seen| match (cold(seen), &mut *trap.lock().unwrap()) {
        (Some((block, place)), trapped @ None) => {
            *trapped = Some(block);
            Fate::Misread(place + 77)
        }
        _ => Fate::Good,
    });
    assert!(written.overwrite(&mut rig, 1000, || trapped.lock().unwrap().is_some()), "nothing was ever collected");
    rig.polls(300);
    written.is_there(&mut rig);
    let setup = rig.setup.clone();
    let devices = rig.cut(|_| false);
    assert_eq!(findings(&setup, &devices), [""; 0]);
    written.is_there(&mut Rig::open(&setup, devices).unwrap());
}

/// In each of the first three collected bands one sector stays unreadable until it is rewritten. Such a collection failed as a whole,
/// repeatedly: all other data stayed in the bands and their space was lost. At this size that is all the space that collection could gain.
#[test]
fn hole_07_collection_of_a_band_with_a_sector_that_cannot_be_read() {
    let mut rig = Rig::new(&small());
    let mut written = Written::all(&mut rig);
    let before: BTreeMap<u64, u64> =
        (0..BLOCKS).filter(|block| block % 3 != 0).map(|block| (block, rig.find(CAPACITY, block, 1)[0])).collect();
    let band_of: BTreeMap<u64, u64> =
        before.iter().map(|(&block, &place)| (block, rig.band(CAPACITY, place))).collect();
    // By band: the lost block, and the unreadable sector.
    let bad = Arc::new(Mutex::new(BTreeMap::<u64, (u64, u64)>::new()));
    let (trap, bands) = (bad.clone(), band_of.clone());
    rig.devices[CAPACITY].rule(move |seen| {
        let bad = &mut trap.lock().unwrap();
        if let Some((block, place)) = cold(seen)
            && bad.len() < 3
            && before.get(&block) == Some(&place)
        {
            bad.entry(bands[&block]).or_insert((block, place + 1024));
        }
        if matches!(seen.kind, Kind::Write | Kind::Discard) {
            bad.retain(|_, (_, sector)| !seen.covers(*sector));
        }
        let is_hit = seen.kind == Kind::Read && bad.values().any(|&(_, sector)| seen.covers(sector));
        failed(is_hit)
    });
    let mut lost = BTreeMap::new();
    for _ in 0..30 {
        written.overwrite(&mut rig, 20, || false);
        lost.extend(bad.lock().unwrap().iter().map(|(&band, &(block, _))| (band, block)));
        rig.pass_ms(1000);
    }
    assert_eq!(lost.len(), 3, "too little was collected");
    for (&block, &band) in band_of.iter().filter(|(block, band)| lost.get(band).is_some_and(|lost| lost != *block)) {
        let places = rig.find(CAPACITY, block, 1);
        let is_moved = places.iter().any(|&place| rig.band(CAPACITY, place) != band);
        assert!(is_moved, "block {block} was never moved out of band {band}, where {} cannot be read", lost[&band]);
    }
    for block in lost.values() {
        // Whatever happened, a read returns right data or an error.
        assert!(rig.get(*block).is_ok_and(|version| version == 1) || rig.get(*block).is_err());
        written.versions.remove(block);
    }
    written.is_there(&mut rig);
    let mut rig = rig.crash();
    written.is_there(&mut rig);
}

/// While few bands were free, hosts got them as fast as they could write, and stalled for 0.4 s when none was left. Now hosts get what
/// collection gains; a collection without gain for a second delays nobody.
#[test]
fn hosts_write_at_the_pace_of_collection_and_do_not_wait_for_one_that_stands_still() {
    let mut rig = Rig::new(&Setup { capacity_bytes: 8 << 20, ..Setup::default() });
    // 15 of 125 bands are left.
    let blocks = 110 * 15;
    rig.put_run(0, blocks, 1);
    // Only the first read of collection ends.
    let first = Arc::new(Mutex::new(None));
    rig.devices[CAPACITY].rule(move |seen| {
        let Some((_, place)) = cold(seen) else { return Fate::Good };
        held(place != *first.lock().unwrap().get_or_insert(place))
    });
    let write = |rig: &mut Rig, block: u64| {
        let token = rig.write_run(block, 1, 2, true, BULK);
        rig.polls(10);
        (rig.answer(token).is_none(), token)
    };
    let mut hot = (0..blocks).step_by(3);
    let mut writes = hot.by_ref().take(300).map(|block| write(&mut rig, block));
    let (_, held_back) = writes.find(|(waits, _)| *waits).expect("hosts were not held back");
    assert!(rig.pool.engine.status().free_bands >= 3, "there were no bands");
    rig.pass_ms(1000);
    rig.wait(held_back).unwrap();
    let go_on = hot.by_ref().take(30).all(|block| !write(&mut rig, block).0);
    assert!(go_on, "hosts wait for a collection that stands still");
    rig.devices[CAPACITY].heal();
    let written = hot.next().unwrap();
    rig.polls(300);
    let mut rig = rig.crash();
    (0..blocks).for_each(|block| {
        let version = if block % 3 == 0 && block < written { 2 } else { 1 };
        assert_eq!(rig.get(block), Ok(version), "block {block}");
    });
}
