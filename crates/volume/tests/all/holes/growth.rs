//! Slots for the growth of the map: staged data may fill them and gives them back, permanent data must leave them free.

use super::rig::{BLOCK, BULK, Rig, Setup, findings};
use forebay_block::ClassId;
use forebay_prism::{ClassChange, Place};
use forebay_volume::layout::page::LEAF_ENTRIES;
use forebay_volume::{EngineOptions, Op, RequestError};

/// Leaves of the disk, none with a page at first; the fast tier has some 1,270 slots.
const LEAVES: u64 = 300;
/// The default class, whose data is staged.
const STAGED: Option<ClassId> = Some(ClassId(0));
/// A class whose data stays on the fast tier.
const METADATA: Option<ClassId> = Some(ClassId(1));

fn setup() -> Setup {
    let options = EngineOptions { frames: Some(512), ..Setup::default().options };
    let setup =
        Setup { fast_bytes: 6 << 20, capacity_bytes: 32 << 20, band_bytes: 512 << 10, options, ..Setup::default() };
    Setup { disk_bytes: LEAVES * LEAF_ENTRIES as u64 * BLOCK as u64, ..setup }
}

fn block_of(leaf: u64) -> u64 {
    leaf * LEAF_ENTRIES as u64
}

fn fast_blocks(rig: &Rig) -> u64 {
    rig.pool.engine.status().classes.iter().map(|class| class.fast_blocks).sum()
}

/// Fills the fast tier with the first blocks of the disk; returns how many it holds.
fn fill(rig: &mut Rig, class: Option<ClassId>) -> u64 {
    for round in 0..3 {
        (0..1200).for_each(|block| rig.put(block, round, class));
    }
    fast_blocks(rig)
}

/// More than one block of every leaf is written for the first time, and all are there after a power cut.
fn all_leaves_find_pages(mut rig: Rig) {
    let of_all = || (3..LEAVES).flat_map(|leaf| [block_of(leaf), block_of(leaf) + 7]);
    of_all().for_each(|block| rig.put(block, 9, BULK));
    let setup = rig.setup.clone();
    rig.flush();
    let mut rig = rig.crash();
    of_all().for_each(|block| assert_eq!(rig.get(block), Ok(9)));
    (0..1200).for_each(|block| assert_eq!(rig.get(block), Ok(2), "block {block}"));
    rig.pool.close();
    assert_eq!(findings(&setup, &rig.cut(|_| false)), [""; 0]);
}

#[test]
fn staged_data_fills_what_the_map_may_grow_into_and_gives_it_back() {
    let mut rig = Rig::new(&setup());
    let held = fill(&mut rig, STAGED);
    // The slots for the growth of the map were left free before: 300.
    assert!(held > 750, "{held}");
    all_leaves_find_pages(rig);
}

#[test]
fn data_that_stays_leaves_the_map_its_slots() {
    let mut rig = Rig::new(&setup());
    let held = fill(&mut rig, METADATA);
    assert!(held > 400 && held < 750, "{held}");
    all_leaves_find_pages(rig);
}

/// Staged data fills the tier, and then its class becomes permanent: no data could leave, and the map had no slots to grow into.
#[test]
fn a_class_that_is_to_stay_leaves_where_it_is_in_the_way_of_the_map() {
    let mut rig = Rig::new(&setup());
    fill(&mut rig, STAGED);
    let change = ClassChange { place: Some(Place::Fast), ..ClassChange::default() };
    rig.pool.engine.prism_mut().table_mut().set("cold", change).unwrap();
    rig.pool.engine.classes_changed();
    all_leaves_find_pages(rig);
}

/// A discard of unwritten blocks requested slots for pages that it does not need: on a full pool it waited and failed.
#[test]
fn a_discard_of_what_was_never_written_needs_no_slots() {
    let mut rig = Rig::new(&Setup { capacity_bytes: 4 << 20, ..setup() });
    let written = rig.fill(0);
    // Zeros need only a page: they succeed until no slots for pages are left.
    let mut zeroes = |leaf: u64| {
        let op = Op::WriteZeroes { may_unmap: false };
        let token = rig.submit_to(rig.disk, block_of(leaf), BLOCK as u64, op, false, None);
        rig.wait(token)
    };
    let begin = written.div_ceil(LEAF_ENTRIES as u64);
    let leaf =
        (begin..LEAVES).find(|&leaf| matches!(zeroes(leaf), Err(RequestError::NoSpace))).expect("it is never full");
    let bytes = (LEAVES - leaf) * LEAF_ENTRIES as u64 * BLOCK as u64;
    let discard = rig.submit_to(rig.disk, block_of(leaf), bytes, Op::Discard, false, None);
    let answer = rig.wait(discard);
    assert!(answer.is_ok(), "{answer:?}");
}
