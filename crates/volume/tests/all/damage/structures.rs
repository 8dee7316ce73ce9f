//! Damage to one kind of structure: single instances, or all copies.

use super::harm::{HARMS, Harm, harm, pools};
use super::judge::{Verdict, judge, whole};
use crate::world::anatomy::{Anatomy, Part};
use crate::world::history::quiet;
use crate::world::{Oracle, Shape, World};
use forebay_block::Random;
use forebay_device::instant::Store;
use forebay_volume::layout::watermark::OFFSETS_BYTES;
use forebay_volume::recovery::{MemberError, OpenError};
use std::ops::Range;

#[test]
fn undamaged_pools_are_whole() {
    for (name, aged, ..) in pools(0..8) {
        match judge(&aged, aged.images.clone()) {
            Ok(Verdict::Served { damaged: 0 }) => {}
            other => panic!("{name}: {other:?}"),
        }
    }
}

/// Damages single instances of a structure in every way; counts (refused, served with damage).
fn each_instance(part: Part, seeds: Range<u64>, instances: usize, allowed: impl Fn(&Verdict) -> bool) -> (u32, u32) {
    let mut counts = (0, 0);
    let mut tried = 0;
    for (name, aged, anatomy, mut random) in pools(seeds) {
        let mut places = anatomy.of_part(part);
        while places.len() > instances {
            places.swap_remove(random.index(places.len()));
        }
        for place in places {
            for how in HARMS {
                let mut images = aged.images.clone();
                harm(&aged, &mut images, place.device, &place.bytes, how, &mut random);
                tried += 1;
                match judge(&aged, images) {
                    Ok(verdict) if allowed(&verdict) => match verdict {
                        Verdict::Refused(_) => counts.0 += 1,
                        Verdict::Served { damaged } => counts.1 += u32::from(damaged > 0),
                    },
                    other => panic!("{name}: {how:?} of {place:?}: {other:?}"),
                }
            }
        }
    }
    assert!(tried > 0, "nothing was damaged");
    counts
}

#[test]
fn one_superblock_copy_is_not_missed() {
    each_instance(Part::Superblock, 0..4, 6, whole);
}

#[test]
fn a_damaged_watermark_alone_changes_nothing() {
    each_instance(Part::Watermark, 0..8, 2, whole);
}

#[test]
fn one_root_header_is_not_missed() {
    each_instance(Part::RootHeader, 0..8, 2, whole);
}

#[test]
fn the_superseded_root_is_not_missed() {
    each_instance(Part::OldRoot, 0..8, 1, whole);
}

#[test]
fn damaged_band_summaries_only_stop_collection() {
    each_instance(Part::Summary, 0..6, 4, whole);
}

#[test]
fn a_damaged_root_blob_is_refused() {
    // A blob that the history did not change is no damage when it returns; otherwise a whole pool cannot occur.
    let allowed = |v: &Verdict| matches!(v, Verdict::Refused(OpenError::Root { .. })) || whole(v);
    let (refused, _) = each_instance(Part::RootBlob, 0..8, 1, allowed);
    assert!(refused >= 8 * 4 * 4, "{refused}");
}

#[test]
fn a_damaged_index_page_is_refused() {
    let allowed = |v: &Verdict| matches!(v, Verdict::Refused(OpenError::Index { .. })) || whole(v);
    let (refused, _) = each_instance(Part::Index, 0..6, 4, allowed);
    assert!(refused >= 6 * 4 * 4, "{refused}");
}

#[test]
fn a_damaged_journal_batch_is_refused_or_was_not_durable() {
    // Served with damage: the batch was durable but no surviving evidence shows it (the documented window), and the space of what it
    // replaced was in use again.
    let allowed = |v: &Verdict| matches!(v, Verdict::Refused(OpenError::Journal { .. }) | Verdict::Served { .. });
    let (refused, _) = each_instance(Part::Batch, 0..12, 8, allowed);
    assert!(refused >= 100, "{refused}");
}

#[test]
fn a_damaged_leaf_fails_only_what_it_maps() {
    let (_, damaged) = each_instance(Part::Leaf, 0..8, 4, |v| matches!(v, Verdict::Served { .. }));
    assert!(damaged >= 100, "{damaged}");
}

#[test]
fn damaged_data_on_the_fast_tier_fails_to_be_read() {
    let (_, damaged) = each_instance(Part::Slot, 0..8, 6, |v| matches!(v, Verdict::Served { damaged: 0..=1 }));
    assert!(damaged >= 100, "{damaged}");
}

#[test]
fn damaged_data_on_the_capacity_tier_fails_to_be_read() {
    let (_, damaged) = each_instance(Part::BandData, 0..8, 6, |v| matches!(v, Verdict::Served { damaged: 0..=1 }));
    assert!(damaged >= 100, "{damaged}");
}

#[test]
fn all_superblock_copies_gone() {
    for (name, aged, anatomy, mut random) in pools(0..6) {
        for device in 0..2 {
            for how in HARMS {
                let mut images = aged.images.clone();
                for place in anatomy.of_part(Part::Superblock).into_iter().filter(|place| place.device == device) {
                    harm(&aged, &mut images, device, &place.bytes, how, &mut random);
                }
                let verdict = judge(&aged, images);
                let right = match (&verdict, how, device) {
                    // The epoch of the fast device comes from its root.
                    (Ok(v), Harm::Lost, 0) => whole(v),
                    (Ok(Verdict::Refused(OpenError::Member(MemberError::Stale { device, .. }))), Harm::Lost, 1) => {
                        device == "d1"
                    }
                    // Zeroing a sector behind a superblock's table that was zero before is no damage.
                    (Ok(v), Harm::Torn, _) if whole(v) => true,
                    (Ok(Verdict::Refused(OpenError::Member(MemberError::Superblock { device: named, .. }))), _, _) => {
                        *named == format!("d{device}")
                    }
                    _ => false,
                };
                assert!(right, "{name}: {how:?} of all copies on device {device}: {verdict:?}");
            }
        }
    }
}

#[test]
fn both_headers_of_the_newest_root_gone() {
    let mut refused = 0;
    for (name, aged, anatomy, mut random) in pools(0..12) {
        for how in HARMS {
            let mut images = aged.images.clone();
            for place in anatomy.of_part(Part::RootHeader) {
                harm(&aged, &mut images, 0, &place.bytes, how, &mut random);
            }
            match judge(&aged, images) {
                Ok(Verdict::Refused(OpenError::Root { .. })) => refused += 1,
                // Where the mark on the older root did not survive the power cut, other evidence must show it; or the older root with the
                // journal after it gives the same state.
                Ok(Verdict::Refused(OpenError::Member(MemberError::Stale { .. }) | OpenError::Journal { .. })) => {}
                Ok(verdict) if whole(&verdict) => {}
                other => panic!("{name}: {how:?} of both headers: {other:?}"),
            }
        }
    }
    assert!(refused >= 100, "{refused}");
}

/// A pool without its last batch, which a flush had made durable, after writes with `watermarks` watermarks after each flush; of the
/// watermark blocks, the one at an offset is damaged too.
fn opened_without_the_last_batch(
    seed: u64,
    flush_each: bool,
    watermarks: u32,
    damaged: Option<u64>,
) -> Result<(), OpenError> {
    let shape = Shape::default();
    let mut world = World::open(&shape, shape.format(), seed, Oracle::default()).unwrap();
    for block in 0..4 {
        world.write(block * 8, 8, false, None);
        world.settle(0).unwrap();
        if flush_each || block == 3 {
            world.flush();
            world.settle(0).unwrap();
            for _ in 0..watermarks {
                world.now_ns += 2_000_000_000;
                quiet(&mut world).unwrap();
            }
        }
    }
    let (mut images, ..) = world.cut(&mut Random::new(seed));
    let last = Anatomy::of(&images).of_part(Part::Batch).last().unwrap().bytes.clone();
    images[0].zero(last.start, last.end - last.start, false);
    damaged.into_iter().for_each(|at| images[0].zero(at, 4096, false));
    World::open(&shape, images, 1, Oracle::default()).map(|_| ())
}

/// Regression: the watermark block was not made durable, so a power cut destroyed the evidence.
#[test]
fn a_watermark_survives_the_power_cut_after_it() {
    for seed in 0..40 {
        let result = opened_without_the_last_batch(seed, false, 1, None);
        assert!(matches!(result, Err(OpenError::Journal { .. })), "seed {seed}: {result:?}");
    }
}

/// When nothing followed a flush, one watermark block recorded it and the other only the flush before. Damage to the first and to the
/// flushed data exposed the older data without an error.
#[test]
fn regression_both_watermark_blocks_know_the_last_flush() {
    for (seed, damaged) in (0..20).map(|seed| (seed, OFFSETS_BYTES[seed as usize % 2])) {
        let result = opened_without_the_last_batch(seed, true, 2, Some(damaged));
        assert!(matches!(result, Err(OpenError::Journal { .. })), "seed {seed}: {result:?}");
    }
}
