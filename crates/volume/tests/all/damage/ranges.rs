//! Damaged ranges and bits anywhere on the devices.

use super::harm::{Harm, harm, pools};
use super::judge::{Verdict, is_specific, judge};
use crate::world::anatomy::{Anatomy, Part};
use std::ops::Range;

#[test]
fn whole_regions_gone() {
    for (name, aged, anatomy, mut random) in pools(0..8) {
        for (region, device, range) in &anatomy.regions {
            for how in [Harm::Zero, Harm::Noise] {
                let mut images = aged.images.clone();
                harm(&aged, &mut images, *device, range, how, &mut random);
                match judge(&aged, images) {
                    Ok(Verdict::Served { .. }) => {}
                    Ok(Verdict::Refused(error)) if is_specific(&error) => {}
                    other => panic!("{name}: {how:?} of {region}: {other:?}"),
                }
            }
        }
    }
}

/// Only the journal's tail and the newest watermark block prove how far the journal was durable. Without them, damage after the last root
/// cannot be distinguished from writes that were never flushed.
fn keeps_a_witness(anatomy: &Anatomy, device: usize, range: &Range<u64>) -> bool {
    let hit = |part| anatomy.of_part(part).into_iter().any(|p| overlap(&p.bytes, range));
    device != 0 || !hit(Part::Watermark) || !(hit(Part::Batch) || hit(Part::Slot))
}

fn overlap(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
}

#[test]
fn random_ranges_gone() {
    let (mut served, mut refused) = (0, 0);
    for (name, aged, anatomy, mut random) in pools(0..12) {
        for round in 0..12 {
            let device = random.index(2);
            let size = aged.images[device].size_bytes() / 4096;
            let most = 1 << (1 + random.below(8));
            let len = 1 + random.below(most);
            let start = random.below(size);
            let range = start * 4096..(start + len).min(size) * 4096;
            if !keeps_a_witness(&anatomy, device, &range) {
                continue;
            }
            let how = [Harm::Zero, Harm::Noise, Harm::Lost][random.index(3)];
            let mut images = aged.images.clone();
            harm(&aged, &mut images, device, &range, how, &mut random);
            match judge(&aged, images) {
                Ok(Verdict::Served { .. }) => served += 1,
                Ok(Verdict::Refused(error)) if is_specific(&error) => refused += 1,
                other => panic!("{name} round {round}: {how:?} of device {device} {range:?}: {other:?}"),
            }
        }
    }
    assert!(served > 100 && refused > 10, "{served} {refused}");
}

#[test]
fn random_bits_flipped() {
    let (mut served, mut refused) = (0, 0);
    for (name, aged, anatomy, mut random) in pools(0..12) {
        for round in 0..12 {
            let mut images = aged.images.clone();
            let most = 1 << random.below(8);
            let flips = 1 + random.below(most);
            let mut flipped = Vec::new();
            for _ in 0..flips {
                let device = random.index(2);
                let at = if random.chance(1, 2) {
                    // Chooses a place with data: most of a small pool is empty.
                    let place = &anatomy.places[random.index(anatomy.places.len())];
                    if place.device != device {
                        continue;
                    }
                    place.bytes.start + random.below(place.bytes.end - place.bytes.start)
                } else {
                    random.below(images[device].size_bytes())
                };
                // See `keeps_a_witness`: the watermark is damaged alone, or not at all.
                let watermarks = anatomy.of_part(Part::Watermark);
                if device == 0 && watermarks.into_iter().any(|p| overlap(&p.bytes, &(at..at + 1))) {
                    continue;
                }
                flipped.push((device, at));
                harm(&aged, &mut images, device, &(at..at + 1), Harm::Flip, &mut random);
            }
            match judge(&aged, images) {
                Ok(Verdict::Served { .. }) => served += 1,
                Ok(Verdict::Refused(error)) if is_specific(&error) => refused += 1,
                other => panic!("{name} round {round}: flipped {flipped:?}: {other:?}"),
            }
        }
    }
    assert!(served > 100 && refused > 20, "{served} {refused}");
}
