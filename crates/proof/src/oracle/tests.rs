//! Which contents the oracle permits, and which not.

use super::*;

const AT: Place = (1, 7);

fn write(oracle: &mut Oracle, tag: u32) -> Made {
    oracle.change(1, 56, &[tag; 8])
}

#[test]
fn what_was_flushed_must_survive_and_what_came_later_may() {
    let mut oracle = Oracle::default();
    let old = write(&mut oracle, 1);
    oracle.acknowledge(&old, false);
    let flush = oracle.flush_begins();
    let between = write(&mut oracle, 2);
    oracle.acknowledge(&between, false);
    oracle.flushed(flush);
    for (tag, allowed) in [(0, false), (1, true), (2, true), (3, false)] {
        assert_eq!(oracle.clone().survived(AT, Some([tag; 8])).is_ok(), allowed, "{tag}");
    }
    assert!(oracle.survived(AT, None).is_err());
}

#[test]
fn a_fua_write_survives_without_a_flush_and_covers_what_was_before() {
    let mut oracle = Oracle::default();
    let old = write(&mut oracle, 1);
    oracle.acknowledge(&old, false);
    let fua = write(&mut oracle, 2);
    oracle.acknowledge(&fua, true);
    assert!(oracle.clone().survived(AT, Some([1; 8])).is_err());
    assert!(oracle.survived(AT, Some([2; 8])).is_ok());
}

#[test]
fn a_fua_write_that_was_not_acknowledged_promises_nothing() {
    let mut oracle = Oracle::default();
    write(&mut oracle, 2);
    assert!(oracle.clone().survived(AT, Some([0; 8])).is_ok());
    assert!(oracle.survived(AT, Some([2; 8])).is_ok());
}

#[test]
fn a_read_sees_what_was_acknowledged_before_it_or_something_newer() {
    let mut oracle = Oracle::default();
    let first = write(&mut oracle, 1);
    oracle.acknowledge(&first, false);
    let since = oracle.read_begins(AT);
    write(&mut oracle, 2);
    assert!(oracle.saw(AT, 3, Some(0), since).is_err());
    assert!(oracle.saw(AT, 3, Some(1), since).is_ok());
    assert!(oracle.saw(AT, 3, Some(2), since).is_ok());
    assert!(oracle.saw(AT, 3, None, since).is_err());
    assert!(oracle.saw((1, 8), 0, Some(0), 0).is_ok());
    assert!(oracle.saw((1, 8), 0, Some(2), 0).is_err());
}

#[test]
fn a_failed_write_may_be_there_in_part_and_what_covers_it_must() {
    let mut oracle = Oracle::default();
    let failed = oracle.change(1, 56, &[1, 1, 1, 1]);
    oracle.failed(&failed);
    let good = oracle.change(1, 59, &[2, 2]);
    oracle.acknowledge(&good, true);
    for (content, allowed) in [
        ([1, 1, 1, 2, 2, 0, 0, 0], true),
        ([0, 0, 0, 2, 2, 0, 0, 0], true),
        ([0, 0, 1, 2, 2, 0, 0, 0], true),
        ([1, 1, 1, 1, 2, 0, 0, 0], false),
        ([0, 0, 0, 0, 2, 0, 0, 0], false),
        ([1, 1, 1, 2, 2, 1, 0, 0], false),
    ] {
        assert_eq!(oracle.clone().survived(AT, Some(content)).is_ok(), allowed, "{content:?}");
    }
    let since = oracle.read_begins(AT);
    assert!(oracle.saw(AT, 0, Some(0), since).is_ok());
    assert!(oracle.saw(AT, 3, Some(1), since).is_err());
}

#[test]
fn a_failed_write_of_whole_blocks_is_there_or_not() {
    let mut oracle = Oracle::default();
    let failed = write(&mut oracle, 1);
    oracle.failed(&failed);
    assert!(oracle.clone().survived(AT, Some([1; 8])).is_ok());
    assert!(oracle.clone().survived(AT, Some([0; 8])).is_ok());
    assert!(oracle.survived(AT, Some([1, 1, 1, 1, 0, 0, 0, 0])).is_err());
}

#[test]
fn what_could_not_be_read_stays_open_and_what_was_flushed_does_not_become_older() {
    let mut oracle = Oracle::default();
    for tag in [1, 2, 3] {
        let made = write(&mut oracle, tag);
        oracle.acknowledge(&made, tag == 2);
    }
    oracle.unread(AT);
    oracle.restarted();
    for (tag, allowed) in [(1, false), (2, true), (3, true)] {
        assert_eq!(oracle.clone().survived(AT, Some([tag; 8])).is_ok(), allowed, "{tag}");
    }
}

#[test]
fn regression_what_lies_below_a_failed_write_is_not_forgotten_by_a_survey_that_cannot_read() {
    let mut oracle = Oracle::default();
    let failed = oracle.change(1, 56, &[1, 1, 1, 1]);
    oracle.failed(&failed);
    let good = oracle.change(1, 59, &[2, 2]);
    oracle.acknowledge(&good, true);
    oracle.unread(AT);
    oracle.restarted();
    assert!(oracle.clone().survived(AT, Some([0, 0, 0, 2, 2, 0, 0, 0])).is_ok());
    assert!(oracle.clone().survived(AT, Some([1, 1, 1, 2, 2, 0, 0, 0])).is_ok());
    assert!(oracle.survived(AT, Some([0, 0, 0, 1, 2, 0, 0, 0])).is_err());
}

#[test]
fn what_survived_is_distinguished() {
    let mut oracle = Oracle::default();
    for tag in 1..=3 {
        let made = write(&mut oracle, tag);
        oracle.acknowledge(&made, tag == 1);
    }
    for (tag, found) in [(1, Found::Old), (2, Found::Between), (3, Found::New)] {
        let mut oracle = oracle.clone();
        assert_eq!(oracle.survived(AT, Some([tag; 8])), Ok(found));
        assert_eq!(oracle.survived(AT, Some([tag; 8])), Ok(Found::Certain));
    }
    assert!(oracle.survived(AT, Some([0; 8])).unwrap_err().contains("OLDER"));
    assert_eq!(oracle.survived((1, 8), Some([0; 8])), Ok(Found::Certain), "never written");
}

#[test]
fn a_block_that_is_read_whole_is_of_one_version() {
    let mut oracle = Oracle::default();
    let old = write(&mut oracle, 1);
    oracle.acknowledge(&old, false);
    let since = oracle.read_begins(AT);
    write(&mut oracle, 2);
    assert!(oracle.saw_block(AT, Some([1; 8]), since).is_ok());
    assert!(oracle.saw_block(AT, Some([2; 8]), since).is_ok());
    assert!(oracle.saw_block(AT, Some([1, 1, 1, 1, 2, 2, 2, 2]), since).is_err(), "mixed");
    assert!(oracle.saw_block(AT, Some([0; 8]), since).is_err(), "older");
    assert!(oracle.saw_block(AT, Some([1; 8]), oracle.newest(AT)).is_err(), "not the newest");
    assert!(oracle.saw_block(AT, None, since).is_err(), "torn");
}

#[test]
fn no_tag_is_given_twice() {
    let mut oracle = Oracle::default();
    assert_eq!((oracle.new_tags(2), oracle.new_tags(1)), (vec![1, 2], vec![3]));
    oracle.restarted();
    assert_eq!(oracle.new_tags(1), [4]);
}

#[test]
fn what_survived_is_all_there_was() {
    let mut oracle = Oracle::default();
    let first = write(&mut oracle, 1);
    oracle.acknowledge(&first, false);
    oracle.survived(AT, Some([0; 8])).unwrap();
    oracle.restarted();
    assert!(oracle.survived(AT, Some([1; 8])).is_err(), "what was gone came back");
}

#[test]
fn damage_excuses_what_it_hit_and_nothing_that_was_written_after_it() {
    let mut oracle = Oracle::default();
    let old = write(&mut oracle, 1);
    oracle.acknowledge(&old, true);
    oracle.damaged(1, true);
    assert!(oracle.may_be_unreadable(AT) && oracle.may_survive_unreadable(AT));
    oracle.unread(AT);
    oracle.restarted();
    let part = oracle.change(1, 56, &[2]);
    assert!(oracle.touches_damage(&part), "a part of it has to be read");
    oracle.failed(&part);
    let new = write(&mut oracle, 3);
    assert!(!oracle.touches_damage(&new), "all of it is written");
    oracle.acknowledge(&new, false);
    assert!(!oracle.may_be_unreadable(AT), "what is read now was written after the damage");
    assert!(oracle.touches_damage(&part), "what it had to read then was damaged");
    assert!(oracle.may_survive_unreadable(AT), "that is not durable yet");
    let flush = oracle.flush_begins();
    oracle.flushed(flush);
    assert!(!oracle.may_survive_unreadable(AT), "a flushed overwrite mends a block");
}

#[test]
fn damage_before_the_pool_noted_what_was_durable_may_show_something_older() {
    for is_noted in [true, false] {
        let mut oracle = Oracle::default();
        for tag in [1, 2] {
            let made = write(&mut oracle, tag);
            oracle.acknowledge(&made, true);
        }
        oracle.damaged(2, is_noted);
        assert_eq!(oracle.clone().survived(AT, Some([1; 8])).is_ok(), !is_noted);
        // A survey that cannot read the block leaves its version open; a write that is acknowledged and not flushed
        // meanwhile is no promise.
        let late = write(&mut oracle, 3);
        oracle.acknowledge(&late, false);
        oracle.unread(AT);
        oracle.restarted();
        let flush = oracle.flush_begins();
        oracle.flushed(flush);
        assert!(oracle.may_survive_unreadable(AT));
        assert!(oracle.survived(AT, Some([3; 8])).is_ok());
    }
}

#[test]
fn a_disk_that_ends_early_may_not_end_before_what_was_flushed() {
    let mut oracle = Oracle::default();
    let kept = write(&mut oracle, 1);
    oracle.acknowledge(&kept, true);
    assert!(oracle.clone().cut_off(1, 7).is_err());
    assert!(oracle.clone().cut_off(1, 8).is_ok());
    assert!(oracle.cut_off(2, 0).is_ok());
}

/// After a power cut, content read from a cached copy was taken as intact in its own place: the next read, without
/// the copy, had no excuse (life 4398046512471).
#[test]
fn regression_damage_that_a_copy_has_hidden_is_still_there() {
    let mut oracle = Oracle::default();
    let made = write(&mut oracle, 1);
    oracle.acknowledge(&made, true);
    oracle.damaged(1, true);
    assert!(oracle.is_damaged_as(AT, [1; 8]) && !oracle.is_damaged_as(AT, [2; 8]));
    oracle.survived(AT, Some([1; 8])).unwrap();
    assert!(!oracle.may_be_unreadable(AT), "read where it lies");
    oracle.remains_damaged(AT);
    assert!(oracle.may_be_unreadable(AT) && oracle.may_survive_unreadable(AT));
    // A write over the damaged content is intact.
    let made = write(&mut oracle, 3);
    oracle.acknowledge(&made, true);
    assert!(!oracle.may_be_unreadable(AT));
}

/// A block was damaged when a read began that took long, and was written anew before it ended: that the read failed had no excuse (life 24190195835005).
#[test]
fn regression_what_was_damaged_when_a_read_began_is_an_excuse() {
    let mut oracle = Oracle::default();
    let made = write(&mut oracle, 1);
    oracle.acknowledge(&made, true);
    oracle.damaged(1, true);
    let since = oracle.read_begins(AT);
    let made = write(&mut oracle, 2);
    oracle.acknowledge(&made, true);
    assert!(!oracle.may_be_unreadable(AT), "it was written anew");
    assert!(oracle.may_have_been_unreadable(AT, since));
    assert!(!oracle.may_have_been_unreadable(AT, oracle.read_begins(AT)), "a read that begins now has no excuse");
}

/// Nobody flushed before the power failed, and content that a failed flush had lost was expected to be readable all
/// the same (life 5497618274969).
#[test]
fn regression_what_a_failed_flush_lost_may_be_unreadable() {
    let mut oracle = Oracle::default();
    let durable = write(&mut oracle, 1);
    oracle.acknowledge(&durable, true);
    oracle.lost();
    assert!(!oracle.may_be_unreadable(AT), "it was durable");
    let made = write(&mut oracle, 2);
    oracle.acknowledge(&made, false);
    oracle.lost();
    assert!(oracle.may_be_unreadable(AT) && oracle.may_survive_unreadable(AT));
    let made = write(&mut oracle, 3);
    oracle.acknowledge(&made, true);
    assert!(!oracle.may_be_unreadable(AT), "it was written anew");
}
