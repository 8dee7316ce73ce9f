//! Devices that are truncated, exchanged, of another pool, or older copies.

use super::harm::pools;
use super::judge::{Verdict, judge, whole};
use crate::world::anatomy::bytes;
use crate::world::history::Aged;
use crate::world::{Oracle, Shared, World};
use forebay_device::Image;
use forebay_device::instant::Store;
use forebay_volume::layout::superblock::{Superblock, copy_offsets_bytes};
use forebay_volume::recovery::{MemberError, OpenError};

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

/// Opens images that must not make a pool, under the names `d0`, `d1` and so on.
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
        // A copy older than the original is still a copy.
        let error = refusal(&aged, &[fast, capacity, &aged.older[0][1]]);
        assert!(matches!(&error, MemberError::Copy { .. }), "{error}");
    }
}

/// Gives the images of a pool another pool id, as if they were formatted separately.
fn other_pool(images: &[Image]) -> Vec<Image> {
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

/// The superblocks of one pool over all other data of another: none of that data carries the right pool id.
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

/// Both devices are older: this is undetectable, and the state is consistent.
#[test]
fn an_older_copy_of_the_whole_pool_opens() {
    for (_, aged, ..) in pools(0..2) {
        for older in &aged.older {
            World::open(&aged.shape, older.clone(), 1, Oracle::default()).map(|_| ()).unwrap();
        }
    }
}

/// A capacity device of an earlier time in the same epoch has the right epoch; only checksums detect it.
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
