//! A pool whose journal lost durable batches is refused but can be read for salvage: nothing is written, writes are refused, and the data
//! of the remaining journal and the last checkpoint is there.

use crate::world::{Oracle, Shape, World, boxed, content_of};
use forebay_block::DiskId;
use forebay_block::Random;
use forebay_device::Image;
use forebay_device::instant::Store;
use forebay_volume::layout::superblock::{Superblock, copy_offsets_bytes};
use forebay_volume::recovery::{OpenError, open, salvage};
use forebay_volume::{Op, Outcome, Pool, Request, RequestError};

#[test]
fn a_pool_that_lost_its_journal_can_be_read_but_not_written() {
    let shape = Shape::default();
    let mut world = World::open(&shape, shape.format(), 5, Oracle::default()).unwrap();
    world.write(0, 8, false, None);
    world.settle(0).unwrap();
    let first = content_of(&world.read_block(0).unwrap()).unwrap();
    assert!(world.pool.close());
    world.write(80, 8, false, None);
    world.settle(0).unwrap();
    world.flush();
    world.settle(0).unwrap();
    // Long enough for the watermark block, outside the journal, to tell how far the journal was durable.
    for _ in 0..3000 {
        world.poll().unwrap();
    }
    let journal = {
        let block = world.pool.devices.read(0, 0, 4096).unwrap();
        let superblock = Superblock::decode(&block).unwrap();
        superblock.journal_offset_bytes as usize
            ..(superblock.journal_offset_bytes + superblock.journal_len_bytes) as usize
    };
    let (images, oracle) = world.cut(&mut Random::new(1));
    let mut bytes = images[0].to_bytes();
    bytes[journal].fill(0);
    let damaged = vec![Image::from_bytes(&bytes), images[1].clone()];

    let refused = World::open(&shape, damaged.clone(), 6, oracle).map(|_| ());
    assert!(matches!(refused, Err(OpenError::Journal { .. })), "{refused:?}");

    let shared: Vec<_> = damaged
        .iter()
        .enumerate()
        .map(|(i, image)| crate::world::Shared::new(&format!("d{i}"), image.clone(), 7))
        .collect();
    let mut devices = boxed(&shared);
    let (engine, report) = salvage(&mut devices, 1, &crate::world::classes(), shape.options()).unwrap();
    assert!(report.holes > 0);
    let mut pool = Pool::new(engine, devices);
    match ask(&mut pool, Op::Read).unwrap() {
        Outcome::Data(data) => assert_eq!(content_of(&data), Some(first), "the checkpoint's data is there"),
        other => panic!("{other:?}"),
    }
    let write = ask(&mut pool, Op::Write(forebay_block::Buf::zeroed(4096)));
    assert!(matches!(write, Err(RequestError::ReadOnly(_))), "{write:?}");
    assert!(pool.close());
    nothing_was_written(&shared, &damaged);
}

/// One request for the first block of the first disk.
fn ask(pool: &mut Pool, op: Op) -> Result<Outcome, RequestError> {
    let request = Request::new(1, DiskId(1), 0, 4096, op);
    let mut done = Vec::new();
    pool.submit(request);
    pool.run_until(&mut done, |_, done| !done.is_empty());
    done.pop().unwrap().result
}

fn nothing_was_written(shared: &[crate::world::Shared], before: &[Image]) {
    for (shared, image) in shared.iter().zip(before) {
        let after = shared.lock().inner().inner().durable();
        assert!(after.to_bytes() == image.to_bytes(), "something was written to a device");
        assert_eq!(shared.steps(), 0);
    }
}

#[test]
fn a_pool_that_a_newer_program_marked_is_read_and_never_written() {
    let shape = Shape::default();
    let mut world = World::open(&shape, shape.format(), 5, Oracle::default()).unwrap();
    world.write(0, 8, false, None);
    world.settle(0).unwrap();
    world.flush();
    world.settle(0).unwrap();
    let written = content_of(&world.read_block(0).unwrap()).unwrap();
    // Cut, not stopped: what is read is in the journal only.
    let (images, ..) = world.cut(&mut Random::new(1));
    for marked in 0..2 {
        let mut images = images.clone();
        let image = &mut images[marked];
        for at in copy_offsets_bytes(image.size_bytes()) {
            let mut block = vec![0; 4096];
            image.read(at, &mut block);
            let superblock = Superblock { read_only_compatible: 0x30, ..Superblock::decode(&block).unwrap() };
            image.write(at, &superblock.encode());
        }
        let shared: Vec<_> = images
            .iter()
            .enumerate()
            .map(|(i, image)| crate::world::Shared::new(&format!("d{i}"), image.clone(), 7))
            .collect();
        let mut devices = boxed(&shared);
        let (engine, _) = open(&mut devices, 1, &crate::world::classes(), shape.options()).unwrap();
        let mut pool = Pool::new(engine, devices);
        assert_eq!(pool.engine.read_only_reason(), Some("feature bits 0x30 need a newer program"));
        match ask(&mut pool, Op::Read).unwrap() {
            Outcome::Data(data) => assert_eq!(content_of(&data), Some(written)),
            other => panic!("{other:?}"),
        }
        let write = ask(&mut pool, Op::Write(forebay_block::Buf::zeroed(4096)));
        assert!(matches!(write, Err(RequestError::ReadOnly(_))), "{write:?}");
        for now_ns in 0..5 {
            pool.tick(now_ns * 1_000_000_000);
            pool.poll(&mut Vec::new());
        }
        assert!(pool.close());
        nothing_was_written(&shared, &images);
    }
}
