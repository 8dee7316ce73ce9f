//! Failures while a pool is opened.

use super::rig::{CAPACITY, FAST, small};
use crate::world::history::age;
use crate::world::{Shape, Shared, World};
use forebay_block::Random;
use forebay_device::Image;
use forebay_device::faulty::{Fault, Target};
use forebay_volume::recovery::{MemberError, OpenError};

fn is_io(error: &OpenError) -> bool {
    let is_of_member = matches!(error, OpenError::Member(MemberError::Io { .. }));
    let is_unread =
        matches!(error, OpenError::Unread { .. } | OpenError::UnreadData { .. } | OpenError::UnreadJournal { .. });
    is_of_member || is_unread || matches!(error, OpenError::Io { .. } | OpenError::Checkpoint(_))
}

/// A single operation of recovery fails: the pool opens nevertheless, or the error names the failed device; the next opening finds
/// everything.
fn faults_while_opening(target: Target, count: u64) {
    let mut struck = 0;
    for seed in 0..10u64 {
        let shape = if seed % 2 == 0 { Shape::default() } else { small() };
        let aged = age(seed, &shape, seed % 3 == 0).unwrap();
        for device in [FAST, CAPACITY] {
            for nth in 0..30 {
                let context = format!("seed {seed} device {device} {target:?} {nth}");
                let open = |images: Vec<Image>, fault: Option<Fault>| {
                    let shared: Vec<Shared> = images
                        .into_iter()
                        .enumerate()
                        .map(|(i, image)| Shared::new(&format!("d{i}"), image, 1))
                        .collect();
                    if let Some(fault) = fault {
                        shared[device].plan(fault);
                    }
                    let result = World::open_shared(&aged.shape, shared.clone(), aged.oracle.clone());
                    (shared, result)
                };
                let (shared, result) = open(aged.images.clone(), Some(Fault { count, ..Fault::nth(target, nth) }));
                if shared[device].struck() == 0 {
                    break;
                }
                struck += 1;
                let mut random = Random::new(seed);
                match result {
                    Ok(mut world) => {
                        world.shared.iter().for_each(Shared::heal);
                        world.check_survivors().unwrap_or_else(|error| panic!("{context}: {error}"));
                    }
                    Err(error) => assert!(is_io(&error), "{context}: {error}"),
                }
                shared.iter().for_each(Shared::heal);
                let images = shared.iter().map(|shared| shared.cut(&mut random)).collect();
                let (_, result) = open(images, None);
                let mut world = result.unwrap_or_else(|error| panic!("{context}: not opened afterwards: {error}"));
                world.check_survivors().unwrap_or_else(|error| panic!("{context}: afterwards: {error}"));
            }
        }
    }
    assert!(struck > 100, "{struck}");
}

#[test]
fn a_failed_read_while_opening() {
    faults_while_opening(Target::Reads, 1);
}

#[test]
fn failed_writes_while_opening() {
    faults_while_opening(Target::Writes, 1);
    faults_while_opening(Target::Writes, u64::MAX);
}

#[test]
fn failed_flushes_while_opening() {
    faults_while_opening(Target::Flushes, 1);
}

#[test]
fn a_device_that_vanishes_while_opening() {
    faults_while_opening(Target::Everything, u64::MAX);
}
