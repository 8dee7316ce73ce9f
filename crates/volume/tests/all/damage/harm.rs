//! Kinds of damage, and the pools that are damaged.

use crate::world::Shape;
use crate::world::anatomy::{Anatomy, bytes};
use crate::world::history::{Aged, age};
use forebay_block::Random;
use forebay_device::Image;
use forebay_device::instant::Store;
use std::ops::Range;

/// Kind of damage to bytes.
#[derive(Clone, Copy, Debug)]
pub enum Harm {
    Flip,
    Zero,
    Noise,
    /// One sector of the range is damaged.
    Torn,
    /// The bytes of the end of the previous epoch: the device lost a write.
    Lost,
}

pub const HARMS: [Harm; 5] = [Harm::Flip, Harm::Zero, Harm::Noise, Harm::Torn, Harm::Lost];

/// Damages a range of a device.
pub fn harm(aged: &Aged, images: &mut [Image], device: usize, range: &Range<u64>, harm: Harm, random: &mut Random) {
    let len = range.end - range.start;
    let image = &mut images[device];
    match harm {
        Harm::Flip => {
            let at = range.start + random.below(len);
            let byte = bytes(image, &(at..at + 1))[0] ^ 1 << random.below(8);
            image.write(at, &[byte]);
        }
        Harm::Zero => image.zero(range.start, len, false),
        Harm::Noise => {
            let noise: Vec<u8> = (0..len).map(|_| random.next_u64() as u8).collect();
            image.write(range.start, &noise);
        }
        Harm::Torn => {
            let at = range.start + random.below(len / 512) * 512;
            image.zero(at, 512, false);
        }
        Harm::Lost => {
            let was = bytes(&aged.older[1][device], range);
            image.write(range.start, &was);
        }
    }
}

/// Small enough that all tiers, the journal's wrap and a few checkpoints take part.
fn shapes() -> [Shape; 3] {
    let small = Shape { fast_bytes: 1696 << 10, ..Shape::default() };
    // Two groups in a band.
    let grouped = Shape { fast_bytes: 1696 << 10, band_bytes: 80 * 4096, capacity_bytes: 3 << 20, ..small.clone() };
    [Shape::default(), small, grouped]
}

/// Pools after a clean stop and after a power cut.
pub fn pools(seeds: Range<u64>) -> impl Iterator<Item = (String, Aged, Anatomy, Random)> {
    seeds.flat_map(|seed| {
        shapes().into_iter().enumerate().flat_map(move |(at, shape)| {
            [true, false].map(|clean| {
                let name = format!("seed {seed} shape {at} clean {clean}");
                let aged = age(seed, &shape, clean).unwrap_or_else(|error| panic!("{name}: {error}"));
                let anatomy = Anatomy::of(&aged.images);
                (name, aged, anatomy, Random::new(seed ^ 0x5eed))
            })
        })
    })
}
