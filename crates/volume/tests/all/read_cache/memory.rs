//! Memory before the copies: what was read last is read of no device, and nothing else is ever served from there than what the map names.

use super::*;
use crate::holes::rig::label;
use forebay_volume::Outcome;

/// Room for some 120 blocks in memory.
fn setup_with_memory() -> Setup {
    let setup = setup();
    Setup { options: EngineOptions { recent_reads_bytes: Some(500 << 10), ..setup.options }, ..setup }
}

/// Counts all reads of devices from now on.
fn count_reads(rig: &Rig) -> Arc<AtomicU64> {
    let count = Arc::new(AtomicU64::new(0));
    for device in [FAST, CAPACITY] {
        let counted = count.clone();
        rig.devices[device].rule(move |seen| {
            counted.fetch_add(u64::from(seen.kind == Kind::Read), Ordering::Relaxed);
            Fate::Good
        });
    }
    count
}

#[test]
fn what_was_read_last_is_read_of_no_device() {
    let mut rig = rig_of(&setup_with_memory(), 200);
    read_all(&mut rig, &shuffled(60, 1));
    let reads = count_reads(&rig);
    read_all(&mut rig, &shuffled(60, 2));
    assert_eq!(reads.load(Ordering::Relaxed), 0);
    let ReadCacheStatus { hit_blocks, missed_blocks, in_memory_blocks, memory_hit_blocks, .. } = cache(&rig);
    assert_eq!((hit_blocks, missed_blocks, in_memory_blocks, memory_hit_blocks), (0, 60, 60, 60));
    // A class whose reads come from memory has hits, not misses.
    let cold = rig.pool.engine.prism_mut().table().id_of("cold").unwrap();
    assert_eq!(rig.pool.engine.status().classes[usize::from(cold.0)].hit_ratio(), Some(0.5));
    // A run of which some is in memory, some has copies, and some neither.
    let token = rig.submit_to(rig.disk, 40, 40 * BLOCK as u64, Op::Read, false, None);
    let data = match rig.wait(token) {
        Ok(Outcome::Data(data)) => data,
        other => panic!("{other:?}"),
    };
    let labels: Vec<_> = data.chunks_exact(BLOCK).map(label).collect();
    assert_eq!(labels, (40..80).map(|block| Some((block, 1))).collect::<Vec<_>>());
    // More than there is room for: the copies have it.
    read_all(&mut rig, &shuffled(200, 3));
    assert!(cache(&rig).in_memory_blocks <= 122, "{:?}", cache(&rig));
    let before = cache(&rig);
    read_all(&mut rig, &shuffled(200, 4));
    let after = cache(&rig);
    assert_eq!(after.missed_blocks, before.missed_blocks);
    let (copies, memory) = (after.hit_blocks - before.hit_blocks, after.memory_hit_blocks - before.memory_hit_blocks);
    assert!(copies + memory == 200 && copies >= 80 && memory > 0, "{copies} {memory}");
}

#[test]
fn what_was_written_discarded_or_moved_is_not_served_from_memory() {
    let mut rig = rig_of(&setup_with_memory(), 100);
    read_all(&mut rig, &shuffled(100, 1));
    rig.put(7, 2, None);
    let token = rig.submit_to(rig.disk, 8, BLOCK as u64, Op::Discard, false, None);
    rig.wait(token).unwrap();
    assert_eq!((rig.get(7), rig.get(8), rig.get(9)), (Ok(2), Ok(0), Ok(1)));
    assert_eq!((rig.get(7), rig.get(8)), (Ok(2), Ok(0)));
    // After a restart there is nothing in memory, and where the class has no cache any more neither.
    let change = ClassChange { read_cache: Some(false), place: Some(Place::Capacity), ..ClassChange::default() };
    rig.pool.engine.prism_mut().table_mut().set("cold", change).unwrap();
    rig.pool.engine.classes_changed();
    rig.polls(5);
    assert_eq!(cache(&rig).in_memory_blocks, 0);
    assert_eq!((rig.get(7), rig.get(8), rig.get(9)), (Ok(2), Ok(0), Ok(1)));
}

#[test]
fn a_block_that_cannot_be_read_any_more_is_read_from_memory() {
    let mut rig = rig_of(&setup_with_memory(), 50);
    read_all(&mut rig, &shuffled(50, 1));
    for device in [FAST, CAPACITY] {
        rig.devices[device].rule(|seen| if seen.kind == Kind::Read { Fate::Failed } else { Fate::Good });
    }
    read_all(&mut rig, &shuffled(50, 2));
}
