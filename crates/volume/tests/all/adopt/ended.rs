//! When a disk gives up its base: only once that is durable, and never where the base is still needed.

use super::*;

const LAST: usize = BASE_BLOCKS as usize - 1;

/// Place of the disk's last block on a device; the device holds its data nowhere else.
fn place_of_last(adopted: &Adopted, device: usize) -> u64 {
    let block = adopted.model[LAST * BLOCK..][..BLOCK].to_vec();
    let at = adopted.rig.devices[device].bytes(|bytes| bytes.windows(BLOCK).step_by(BLOCK).position(|at| at == block));
    at.expect("the last block is on this device") as u64 * BLOCK as u64
}

/// Detaches the base while a flush of a device fails and loses the last block.
fn detach_with_a_flush_that_loses_the_last_block(adopted: &mut Adopted, device: usize) {
    let at = place_of_last(adopted, device);
    let device = adopted.rig.devices[device].clone();
    let mut is_due = true;
    device.rule(move |seen| failed(seen.kind == Kind::Flush && std::mem::take(&mut is_due)));
    adopted.rig.pool.engine.detach_base("adopted").unwrap();
    assert!(adopted.rig.until(|rig| rig.pool.engine.has_flush_failed()));
    device.forge(at, &[0; BLOCK]);
    assert!(adopted.rig.until(|rig| !rig.pool.engine.has_flush_failed()));
    assert_eq!(adopted.rig.pool.engine.status().counters.flush_lost_blocks, 1);
    adopted.rig.checkpoint();
}

/// The base stays however long it takes, and the detach request reports the one block.
fn its_last_block_is_needed(adopted: &mut Adopted) {
    (0..40).for_each(|_| adopted.rig.pass_ms(500));
    assert!(adopted.rig.pool.engine.base_of(adopted.disk).is_some());
    let refused = adopted.rig.pool.engine.detach_base("adopted");
    let Err(AdminError::BaseNeeded { done_blocks, why, .. }) = &refused else { panic!("{refused:?}") };
    assert!(*done_blocks == BASE_BLOCKS - 1 && why.contains("; 1 could not be copied"), "{refused:?}");
    // A rewrite of the block releases the base.
    adopted.write(LAST * BLOCK, BLOCK, 77);
    adopted.copy_to_the_end();
    adopted.rig.pool.engine.detach_base("adopted").unwrap();
}

/// The flush that was to make the last copies durable lost one, but the base, with the only good data, was given up all the same.
#[test]
fn regression_a_base_is_kept_where_the_flush_before_it_is_given_up_loses_a_copy() {
    let setup = Setup { volatile_capacity: true, durable_writes: false, ..setup(64 << 20) };
    let mut adopted = Adopted::new(&setup);
    adopted.copy_to_the_end();
    detach_with_a_flush_that_loses_the_last_block(&mut adopted, CAPACITY);
    its_last_block_is_needed(&mut adopted);
}

/// A host wrote part of a block whose rest came from the base, into the cache of a device that supports write-through. A failed flush lost
/// the block, but only copies were thought to be at risk, and those had been written through.
#[test]
fn regression_a_base_is_kept_where_a_flush_loses_a_block_of_which_a_host_wrote_a_part() {
    let mut adopted = Adopted::new(&Setup { volatile_fast: true, ..setup(64 << 20) });
    adopted.write(LAST * BLOCK + 512, 512, 9);
    adopted.copy_to_the_end();
    detach_with_a_flush_that_loses_the_last_block(&mut adopted, FAST);
    its_last_block_is_needed(&mut adopted);
}

/// The same with a restart between loss and detach: blocks that an earlier epoch had copied or written were not read.
#[test]
fn regression_a_base_is_kept_where_another_life_has_lost_a_block() {
    for restarts in [false, true] {
        let mut adopted = Adopted::new(&Setup { volatile_fast: true, ..setup(64 << 20) });
        adopted.write(LAST * BLOCK + 512, 512, 9);
        adopted.copy_to_the_end();
        detach_with_a_flush_that_loses_the_last_block(&mut adopted, FAST);
        let options = adopted.rig.setup.options.clone();
        let mut adopted = adopted.again(|rig| if restarts { rig.restart(options) } else { rig.crash() });
        its_last_block_is_needed(&mut adopted);
    }
}

/// A scrub found a copy that had rotted after the copying had passed it, but the base, with the only good data, was given up.
#[test]
fn regression_a_base_is_kept_where_damage_is_found_behind_the_copying() {
    let mut adopted = Adopted::new(&setup(64 << 20));
    adopted.copy_to_the_end();
    let at = place_of_last(&adopted, CAPACITY);
    adopted.rig.devices[CAPACITY].forge(at, &[0; BLOCK]);
    assert!(adopted.is_complete(), "nobody has seen it");
    adopted.rig.pool.engine.start_scrub();
    assert!(adopted.rig.until(|rig| rig.pool.engine.status().counters.scrub_damaged_blocks > 0));
    its_last_block_is_needed(&mut adopted);
}

/// A detach waited for a checkpoint; damage that a scrub found meanwhile did not keep the base.
#[test]
fn regression_a_base_is_kept_where_damage_is_found_while_a_detach_waits() {
    let mut adopted = Adopted::new(&setup(64 << 20));
    adopted.copy_to_the_end();
    let at = place_of_last(&adopted, CAPACITY);
    adopted.write(5 * BLOCK, BLOCK, 2);
    adopted.rig.devices[FAST].rule(|seen| match seen.is(Kind::Write, Region::Slots) && !has_data(seen) {
        true => Fate::Held,
        false => Fate::Good,
    });
    adopted.rig.pool.engine.request_checkpoint(false);
    adopted.rig.polls(20);
    adopted.rig.pool.engine.detach_base("adopted").unwrap();
    adopted.rig.devices[CAPACITY].forge(at, &[0; BLOCK]);
    adopted.rig.pool.engine.start_scrub();
    assert!(adopted.rig.until(|rig| rig.pool.engine.status().counters.scrub_damaged_blocks > 0));
    adopted.rig.devices[FAST].heal();
    its_last_block_is_needed(&mut adopted);
}

#[test]
fn regression_a_detach_is_shown_as_done_when_it_is_durable_and_may_be_asked_for_again() {
    let mut adopted = Adopted::new(&setup(64 << 20));
    adopted.copy_to_the_end();
    adopted.rig.pool.engine.detach_base("adopted").unwrap();
    let status = adopted.rig.pool.engine.adoption(adopted.disk).expect("it has its base until a root says otherwise");
    assert!(status.is_leaving && status.is_complete);
    adopted.rig.pool.engine.detach_base("adopted").expect("whoever did not hear of it asks again");
    let mut adopted = adopted.again(Rig::crash);
    adopted.copy_to_the_end();
    adopted.rig.pool.engine.detach_base("adopted").unwrap();
    adopted.rig.checkpoint();
    adopted.rig.polls(3);
    assert!(matches!(adopted.rig.pool.engine.detach_base("adopted"), Err(AdminError::NoBase(_))));
}

/// A base detached during a checkpoint ended with that checkpoint, whose map did not yet contain the last copies.
#[test]
fn regression_a_checkpoint_in_progress_does_not_end_a_base() {
    let mut adopted = Adopted::new(&setup(64 << 20));
    adopted.copy_to_the_end();
    adopted.write(5 * BLOCK, BLOCK, 2);
    adopted.rig.devices[FAST].rule(|seen| match seen.is(Kind::Write, Region::Slots) && !has_data(seen) {
        true => Fate::Held,
        false => Fate::Good,
    });
    let before = adopted.rig.pool.engine.checkpoint_number();
    adopted.rig.pool.engine.request_checkpoint(false);
    adopted.rig.polls(20);
    adopted.rig.pool.engine.detach_base("adopted").unwrap();
    adopted.rig.devices[FAST].heal();
    let number = |adopted: &Adopted| adopted.rig.pool.engine.checkpoint_number();
    assert!(adopted.rig.until(|rig| rig.pool.engine.checkpoint_number() > before));
    assert_eq!(number(&adopted), before + 1);
    assert!(adopted.rig.pool.engine.base_of(adopted.disk).is_some(), "the first root has it still");
    assert!(adopted.rig.until(|rig| rig.pool.engine.checkpoint_number() > before + 1));
    assert!(adopted.rig.pool.engine.base_of(adopted.disk).is_none());
}

/// A root without the base was being written when damage was found: the base was kept in memory, and the root became durable all the same. After a power cut the
/// base, with the only good data, was gone.
#[test]
fn regression_a_root_without_a_base_that_is_needed_again_does_not_become_durable() {
    let mut adopted = Adopted::new(&setup(64 << 20));
    adopted.copy_to_the_end();
    let at = place_of_last(&adopted, CAPACITY);
    let before = adopted.rig.pool.engine.checkpoint_number();
    adopted.rig.devices[FAST].rule(|seen| match seen.is(Kind::Write, Region::Root) {
        true => Fate::Held,
        false => Fate::Good,
    });
    adopted.rig.pool.engine.detach_base("adopted").unwrap();
    adopted.rig.polls(20);
    adopted.rig.devices[CAPACITY].forge(at, &[0; BLOCK]);
    adopted.rig.pool.engine.start_scrub();
    assert!(adopted.rig.until(|rig| rig.pool.engine.status().counters.scrub_damaged_blocks > 0));
    adopted.rig.devices[FAST].heal();
    assert!(adopted.rig.until(|rig| rig.pool.engine.checkpoint_number() > before));
    let mut adopted = adopted.again(Rig::crash);
    its_last_block_is_needed(&mut adopted);
}
