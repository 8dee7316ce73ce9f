//! Devices that were damaged, truncated, exchanged or replaced by older copies of themselves: a clear error each, or
//! right data, or an error for just the blocks concerned. Never a panic, never wrong data, never an older version.

#![allow(clippy::unwrap_used)]

mod world;

use forebay_block::Random;
use forebay_device::Image;
use forebay_device::instant::Store;
use forebay_volume::RequestError;
use forebay_volume::recovery::{MemberError, OpenError};
use std::collections::BTreeSet;
use std::ops::Range;
use world::anatomy::{Anatomy, Part, bytes};
use world::history::{self, Aged, age, quiet, stop};
use world::{DISK, Oracle, Shape, Shared, World, content_of};

/// What became of a damaged pool.
#[derive(Debug)]
enum Verdict {
    Refused(OpenError),
    /// Served; so many blocks could not be read.
    Served {
        damaged: usize,
    },
}

/// Opens what is there and reads all of it; then overwrites some of it, stops, and looks at it once more.
fn judge(aged: &Aged, images: Vec<Image>) -> Result<Verdict, String> {
    let attempt = || look(&aged.shape, images, aged.oracle.clone());
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(attempt)).map_err(|_| "panic".to_owned())?
}

fn look(shape: &Shape, images: Vec<Image>, oracle: Oracle) -> Result<Verdict, String> {
    let mut world = match World::open(shape, images, 1, oracle) {
        Ok(world) => world,
        Err(error) => return Ok(Verdict::Refused(error)),
    };
    let damaged = survivors(&mut world)?;
    // The pool works on: what is damaged can be overwritten, and nothing else is lost by that.
    for &block in damaged.iter().take(3) {
        world.write(block * 8, 8, false, None);
    }
    world.flush();
    world.settle(0)?;
    quiet(&mut world)?;
    stop(&mut world)?;
    let (images, oracle) = world.cut(&mut Random::new(1));
    let mut world = World::open(shape, images, 1, oracle).map_err(|e| format!("not opened again: {e}"))?;
    let again = survivors(&mut world)?;
    let expected: BTreeSet<u64> = damaged.iter().copied().skip(3).collect();
    if !again.is_subset(&expected) {
        return Err(format!("more damage after a restart: {expected:?} became {again:?}"));
    }
    Ok(Verdict::Served { damaged: damaged.len() })
}

/// Reads every block the oracle knows; gives those that are damaged.
fn survivors(world: &mut World) -> Result<BTreeSet<u64>, String> {
    let mut damaged = BTreeSet::new();
    for (_, block) in world.oracle.places() {
        match world.try_read_block(block)? {
            Ok(data) => world.survived(block, &data)?,
            Err(RequestError::Damaged { .. }) => {
                damaged.insert(block);
            }
            Err(other) => return Err(format!("block {block}: {other:?}")),
        }
    }
    Ok(damaged)
}

/// How bytes are damaged.
#[derive(Clone, Copy, Debug)]
enum Harm {
    Flip,
    Zero,
    Noise,
    /// One sector of it.
    Torn,
    /// The bytes that were there at the end of the epoch before: a write that the device lost.
    Lost,
}

const HARMS: [Harm; 5] = [Harm::Flip, Harm::Zero, Harm::Noise, Harm::Torn, Harm::Lost];

fn harm(aged: &Aged, images: &mut [Image], device: usize, range: &Range<u64>, harm: Harm, random: &mut Random) {
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

/// Small enough that all the tiers, the journal's wrap and a few checkpoints take part.
fn shapes() -> [Shape; 3] {
    let small = Shape { fast_bytes: 1664 << 10, ..Shape::default() };
    // Two groups in a band.
    let grouped = Shape { band_bytes: 80 * 4096, capacity_bytes: 3 << 20, ..small.clone() };
    [Shape::default(), small, grouped]
}

/// Pools after a clean stop and after a power cut.
fn pools(seeds: Range<u64>) -> impl Iterator<Item = (String, Aged, Anatomy, Random)> {
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

#[test]
fn undamaged_pools_are_whole() {
    for (name, aged, ..) in pools(0..8) {
        match judge(&aged, aged.images.clone()) {
            Ok(Verdict::Served { damaged: 0 }) => {}
            other => panic!("{name}: {other:?}"),
        }
    }
}

/// Damages single instances of one structure in every way; counts (refused, served with damage).
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

fn whole(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Served { damaged: 0 })
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
    // A blob the history did not change is no damage when it comes back; the clean case cannot occur otherwise.
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
    // Served with damage: the batch was durable and nothing that survived says so (the documented window), and the
    // space of what it replaced was in use again.
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
                    // The epoch of the fast device is that of its root.
                    (Ok(v), Harm::Lost, 0) => whole(v),
                    (Ok(Verdict::Refused(OpenError::Member(MemberError::Stale { device, .. }))), Harm::Lost, 1) => {
                        device == "d1"
                    }
                    // A zeroed sector behind the table of a superblock that was zero there anyway is no damage.
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
                // Where the mark on the older root did not survive the power cut, something else must tell; or the
                // older root with the journal after it is the same state.
                Ok(Verdict::Refused(OpenError::Member(MemberError::Stale { .. }) | OpenError::Journal { .. })) => {}
                Ok(verdict) if whole(&verdict) => {}
                other => panic!("{name}: {how:?} of both headers: {other:?}"),
            }
        }
    }
    assert!(refused >= 100, "{refused}");
}

fn is_specific(error: &OpenError) -> bool {
    let message = error.to_string();
    !message.is_empty()
        && matches!(
            error,
            OpenError::Member(_) | OpenError::Root { .. } | OpenError::Index { .. } | OpenError::Journal { .. }
        )
}

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

/// The journal's tail and the newest watermark block are the only witnesses of how far the journal was durable:
/// without them, damage to what came after the last root cannot be distinguished from writes that were never flushed.
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
            if std::env::var("TRACE").is_ok() {
                eprintln!("{name} round {round} {how:?} {device} {range:?}");
            }
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
                    // Where something is: most of a small pool is empty.
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

fn shortened(image: &Image, size_bytes: u64) -> Image {
    let mut short = Image::zeroed(size_bytes);
    short.write(0, &bytes(image, &(0..size_bytes)));
    short
}

#[test]
fn truncated_devices_are_named() {
    for (name, aged, ..) in pools(0..2) {
        for device in 0..2 {
            let full = aged.images[device].size_bytes();
            for size_bytes in [0, 512, 4096, 65536, 131_072, full / 2, full - 8192, full - 4096, full - 512] {
                let mut images = aged.images.clone();
                images[device] = shortened(&images[device], size_bytes);
                let verdict = judge(&aged, images);
                let right = match &verdict {
                    Ok(Verdict::Refused(OpenError::Member(MemberError::Truncated {
                        device: named,
                        size_bytes: s,
                        ..
                    }))) => *named == format!("d{device}") && *s == size_bytes,
                    Ok(Verdict::Refused(OpenError::Member(MemberError::Superblock { device: named, .. }))) => {
                        *named == format!("d{device}") && size_bytes < 4096
                    }
                    _ => false,
                };
                assert!(right, "{name}: device {device} cut to {size_bytes} bytes: {verdict:?}");
            }
        }
    }
}

#[test]
fn longer_devices_are_taken() {
    for (name, aged, ..) in pools(0..2) {
        for device in 0..2 {
            for more in [4096, 1 << 20] {
                let mut images = aged.images.clone();
                let size_bytes = images[device].size_bytes();
                let mut longer = Image::zeroed(size_bytes + more);
                longer.write(0, &bytes(&images[device], &(0..size_bytes)));
                images[device] = longer;
                let verdict = judge(&aged, images);
                assert!(verdict.as_ref().is_ok_and(whole), "{name}: device {device} + {more}: {verdict:?}");
            }
        }
    }
}

/// Opens images under the names `d0`, `d1`.. that must not make a pool.
fn refusal(aged: &Aged, images: &[&Image]) -> MemberError {
    let shared = images.iter().enumerate().map(|(i, &image)| Shared::new(&format!("d{i}"), image.clone(), 1)).collect();
    match World::open_shared(&aged.shape, shared, Oracle::default()).map(|_| ()) {
        Err(OpenError::Member(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn swapped_missing_and_copied_devices_are_named() {
    for (_, aged, ..) in pools(0..2) {
        let [fast, capacity] = [&aged.images[0], &aged.images[1]];
        let error = refusal(&aged, &[capacity, fast]);
        assert!(
            matches!(&error, MemberError::Swapped { device, is: "capacity", configured: "fast" } if device == "d0")
        );
        let error = refusal(&aged, &[fast, fast]);
        assert!(matches!(&error, MemberError::Swapped { device, is: "fast", .. } if device == "d1"), "{error}");
        let error = refusal(&aged, &[fast, capacity, capacity]);
        assert!(matches!(&error, MemberError::Copy { device, other } if device == "d2" && other == "d1"), "{error}");
        let error = refusal(&aged, &[fast]);
        assert!(matches!(&error, MemberError::Missing { role: "capacity", .. }), "{error}");
        let error = refusal(&aged, &[fast, &Image::zeroed(2 << 20)]);
        assert!(matches!(&error, MemberError::Superblock { device, .. } if device == "d1"), "{error}");
        // A copy that is older than the original is a copy all the same.
        let error = refusal(&aged, &[fast, capacity, &aged.older[0][1]]);
        assert!(matches!(&error, MemberError::Copy { .. }), "{error}");
    }
}

/// Gives the images of a pool another pool's id, as if they were formatted separately.
fn other_pool(images: &[Image]) -> Vec<Image> {
    use forebay_volume::layout::superblock::{Superblock, copy_offsets_bytes};
    let rename = |image: &Image| {
        let mut image = image.clone();
        let mut superblock = Superblock::decode(&bytes(&image, &(0..4096))).unwrap();
        superblock.pool = [9; 16];
        superblock.name = "other".into();
        copy_offsets_bytes(image.size_bytes()).into_iter().for_each(|at| image.write(at, &superblock.encode()));
        image
    };
    images.iter().map(rename).collect()
}

#[test]
fn devices_of_another_pool_are_named() {
    for (_, aged, ..) in pools(0..2) {
        let other = other_pool(&aged.images);
        let error = refusal(&aged, &[&aged.images[0], &other[1]]);
        assert!(matches!(&error, MemberError::Foreign { device, name, .. } if device == "d1" && name == "other"));
        let error = refusal(&aged, &[&other[0], &aged.images[1]]);
        assert!(matches!(&error, MemberError::Foreign { device, name, .. } if device == "d1" && name == "test"));
    }
}

/// Superblocks of one pool over everything else of another: nothing of it carries the right pool id.
#[test]
fn the_inside_of_another_pool_is_not_believed() {
    for (name, aged, ..) in pools(0..2) {
        let verdict = judge(&aged, other_pool(&aged.images));
        assert!(matches!(verdict, Ok(Verdict::Refused(OpenError::Root { .. }))), "{name}: {verdict:?}");
    }
}

#[test]
fn stale_devices_are_named() {
    for (name, aged, ..) in pools(0..12) {
        for (epoch, older) in aged.older.iter().enumerate() {
            let error = refusal(&aged, &[&aged.images[0], &older[1]]);
            assert!(matches!(&error, MemberError::Stale { device, .. } if device == "d1"), "{name} {epoch}: {error}");
            let error = refusal(&aged, &[&older[0], &aged.images[1]]);
            assert!(matches!(&error, MemberError::Stale { device, .. } if device == "d0"), "{name} {epoch}: {error}");
        }
        let error = refusal(&aged, &[&aged.older[0][0], &aged.older[1][1]]);
        assert!(matches!(&error, MemberError::Stale { device, .. } if device == "d0"), "{name}: {error}");
    }
}

/// Both devices as they were: nothing can tell, and nothing is wrong with that state.
#[test]
fn an_older_copy_of_the_whole_pool_opens() {
    for (_, aged, ..) in pools(0..2) {
        for older in &aged.older {
            World::open(&aged.shape, older.clone(), 1, Oracle::default()).map(|_| ()).unwrap();
        }
    }
}

/// A capacity device as it was earlier in the same epoch carries the right epoch; the checksums tell.
#[test]
fn a_capacity_device_stale_within_the_epoch_is_known_by_checksums() {
    let mut damaged_blocks = 0;
    for (name, aged, ..) in pools(0..20) {
        match judge(&aged, vec![aged.images[0].clone(), aged.middle[1].clone()]) {
            Ok(Verdict::Served { damaged }) => damaged_blocks += damaged,
            other => panic!("{name}: {other:?}"),
        }
    }
    assert!(damaged_blocks > 20, "{damaged_blocks}");
}

/// Random histories go on over damaged data: reads are right or fail, and neither destage nor collection launders
/// damaged blocks into good ones.
#[test]
fn moving_damaged_blocks_does_not_launder_them() {
    let mut met = 0;
    for (name, aged, anatomy, mut random) in pools(0..12) {
        let mut images = aged.images.clone();
        for part in [Part::Slot, Part::BandData, Part::BandData] {
            let places = anatomy.of_part(part);
            for _ in 0..places.len().min(12) {
                let place = places[random.index(places.len())];
                harm(&aged, &mut images, place.device, &place.bytes, Harm::Flip, &mut random);
            }
        }
        let check = |world: &mut World| survivors(world).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut world = World::open(&aged.shape, images, 1, aged.oracle.clone()).unwrap();
        let first = check(&mut world);
        met += first.len();
        for round in 0..200 {
            // New data outside the damaged blocks, no more than there is room for; reads of those are checked below.
            let block = random.below(8) * 400 + 200 + random.below(12);
            world.write(block * 8, 8, false, [None, Some(world::BULK)][round % 2]);
            world.settle(4).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        world.settle(0).unwrap();
        world.now_ns += 1_000_000_000;
        quiet(&mut world).unwrap();
        // What was good is good, and what was damaged is damaged.
        for (_, block) in world.oracle.places() {
            match world.try_read_block(block).unwrap() {
                Ok(data) => {
                    assert!(!first.contains(&block), "{name}: block {block} is readable again");
                    let since = world.oracle.read_begins((DISK, block));
                    let seen = world.oracle.saw_block((DISK, block), content_of(&data), since);
                    seen.unwrap_or_else(|objection| panic!("{name}: {objection}"));
                }
                Err(error) => assert!(first.contains(&block), "{name}: block {block}: {error}"),
            }
        }
    }
    assert!(met > 100, "{met}");
}

/// The same over random histories with a second round of recovery.
#[test]
fn damage_and_power_cuts_together() {
    for (name, aged, anatomy, mut random) in pools(0..12) {
        let mut images = aged.images.clone();
        for _ in 0..6 {
            let place = &anatomy.places[random.index(anatomy.places.len())];
            if matches!(place.part, Part::Slot | Part::BandData | Part::Leaf | Part::Summary) {
                harm(&aged, &mut images, place.device, &place.bytes, Harm::Flip, &mut random);
            }
        }
        let mut world =
            World::open(&aged.shape, images, 1, aged.oracle.clone()).unwrap_or_else(|error| panic!("{name}: {error}"));
        survivors(&mut world).unwrap_or_else(|error| panic!("{name}: {error}"));
        // Also what was never written: a damaged leaf does not know that.
        let all = (0..8).flat_map(|leaf| (0..64).map(move |i| leaf * 400 + i));
        let damaged: BTreeSet<u64> = all.filter(|&block| world.try_read_block(block).unwrap().is_err()).collect();
        for _ in 0..60 {
            let block = random.below(8) * 400 + random.below(24);
            if random.chance(1, 8) {
                world.flush();
            } else {
                world.write(block * 8, 8, random.chance(1, 8), None);
            }
            world.settle(8).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        let (images, oracle) = world.cut(&mut random);
        let mut world = World::open(&aged.shape, images, 1, oracle).unwrap_or_else(|e| panic!("{name}: {e}"));
        let again = survivors(&mut world).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(again.is_subset(&damaged), "{name}: {damaged:?} became {again:?}");
        history::quiet(&mut world).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

/// Regression: every write to a damaged leaf failed, for ever.
#[test]
fn a_damaged_leaf_can_be_overwritten_and_discarded() {
    // The space of what the leaf mapped is not known, and so not given back: the larger shape has room for that.
    for (name, aged, anatomy, mut random) in pools(0..4).filter(|(name, ..)| name.contains("shape 0")) {
        let mut images = aged.images.clone();
        for place in anatomy.of_part(Part::Leaf) {
            harm(&aged, &mut images, 0, &place.bytes, Harm::Flip, &mut random);
        }
        let mut world = World::open(&aged.shape, images, 1, aged.oracle.clone()).unwrap();
        for leaf in 0..8 {
            world.write(leaf * 400 * 8, 64, false, None);
            world.clear((leaf * 400 + 8) * 8, 32 * 8, false, leaf % 2 == 0);
        }
        world.settle(0).unwrap_or_else(|error| panic!("{name}: {error}"));
        for leaf in 0..8 {
            world.read(leaf * 400 * 8, 40 * 8);
        }
        world.settle(0).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

/// Regression: the watermark block was written without being made durable, so that the power cut took the evidence.
#[test]
fn a_watermark_survives_the_power_cut_after_it() {
    for seed in 0..40 {
        let shape = Shape::default();
        let mut world = World::open(&shape, shape.format(), seed, Oracle::default()).unwrap();
        for block in 0..4 {
            world.write(block * 8, 8, false, None);
            world.settle(0).unwrap();
        }
        world.flush();
        world.settle(0).unwrap();
        world.now_ns += 2_000_000_000;
        quiet(&mut world).unwrap();
        let (mut images, ..) = world.cut(&mut Random::new(seed));
        let anatomy = Anatomy::of(&images);
        let last = anatomy.of_part(Part::Batch).last().unwrap().bytes.clone();
        images[0].zero(last.start, last.end - last.start, false);
        let result = World::open(&shape, images, 1, Oracle::default()).map(|world| world.report);
        assert!(matches!(result, Err(OpenError::Journal { .. })), "seed {seed}: {result:?}");
    }
}
