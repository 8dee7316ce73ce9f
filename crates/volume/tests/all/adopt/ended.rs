//! When a disk does without its base: not before that is durable, and not where the base is needed.

use super::*;

/// A flush that was to make the last copies durable has lost one: the base was given up all the same, and had the only good copy.
#[test]
fn regression_a_base_is_kept_where_the_flush_before_it_is_given_up_loses_a_copy() {
    let setup = Setup { volatile_capacity: true, durable_writes: false, ..setup(64 << 20) };
    let mut adopted = Adopted::new(&setup);
    adopted.copy_to_the_end();
    let device = adopted.rig.devices[CAPACITY].clone();
    let copied = adopted.model[(BASE_BLOCKS as usize - 1) * BLOCK..][..BLOCK].to_vec();
    let at = device.bytes(|bytes| bytes.windows(BLOCK).step_by(BLOCK).position(|block| block == copied));
    let at = at.expect("a copy on the capacity tier") as u64 * BLOCK as u64;
    let mut is_due = true;
    device.rule(move |seen| failed(seen.kind == Kind::Flush && std::mem::take(&mut is_due)));
    adopted.rig.pool.engine.detach_base("adopted").unwrap();
    assert!(adopted.rig.until(|rig| rig.pool.engine.has_flush_failed()));
    device.forge(at, &[0; BLOCK]);
    assert!(adopted.rig.until(|rig| !rig.pool.engine.has_flush_failed()));
    assert_eq!(adopted.rig.pool.engine.status().counters.flush_lost_blocks, 1);
    adopted.rig.checkpoint();
    adopted.rig.polls(3);
    assert!(adopted.rig.pool.engine.base_of(adopted.disk).is_some());
    let refused = adopted.rig.pool.engine.detach_base("adopted");
    assert!(matches!(refused, Err(AdminError::BaseKept { .. })), "{refused:?}");
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

/// A base that was detached while a checkpoint was in progress was gone with that checkpoint, in whose map the last copies were not yet.
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
