//! Tests of what is copied next, and of what comes of it.

use super::*;
use forebay_block::{IoError, IoErrorKind};

fn began(blocks: u64) -> Adoption {
    let mut adoption = Adoption::new(u64::MAX);
    adoption.leisure.go_on();
    adoption.begin(DiskId(1), blocks, false);
    adoption
}

/// The first blocks of a leaf, all to be copied.
fn all(blocks: &Blocks) -> Range<u64> {
    blocks.range.start..blocks.range.end.min(blocks.range.start + STEP_BLOCKS)
}

fn bad() -> RequestError {
    let source = IoError { kind: IoErrorKind::Medium, operation: "read", offset_bytes: 0, os_error: 5 };
    RequestError::Device { device: "base".into(), source }
}

#[test]
fn one_bad_block_of_a_base_keeps_no_other_from_being_copied() {
    let mut adoption = began(1000);
    let mut copied = std::collections::BTreeSet::new();
    let mut steps = 0;
    while let Some(blocks) = adoption.begin_step(0, |_| true, all) {
        let error = blocks.range.contains(&300).then(bad);
        if error.is_none() {
            copied.extend(blocks.range.clone());
        }
        adoption.ended(0, 1, error);
        steps += 1;
    }
    assert_eq!(copied.len(), 999);
    assert!(steps < 40, "halves were read, not blocks one by one: {steps} steps");
    let status = adoption.status(DiskId(1), 1000);
    assert_eq!((status.is_complete, status.failed_blocks, status.done_blocks), (false, 1, 999));
    assert!(status.why.is_some() && adoption.begin_step(REST_NS / 2, |_| true, all).is_none());
    // Nor does it keep other disks from being copied.
    adoption.begin(DiskId(2), 100, false);
    assert_eq!(adoption.begin_step(REST_NS / 2, |_| true, all).unwrap().disk, DiskId(2));
    adoption.ended(REST_NS / 2, 100, None);
    let again = adoption.begin_step(REST_NS * 2, |_| true, all).unwrap();
    assert_eq!(again, Blocks { disk: DiskId(1), range: 300..301 }, "that one alone is tried again");
    adoption.ended(REST_NS * 2, 1, None);
    let status = adoption.status(DiskId(1), 1000);
    assert_eq!((status.is_complete, status.failed_blocks, status.done_blocks), (true, 0, 1000));
    assert!(status.why.is_none());
}

#[test]
fn ranges_that_cannot_be_copied_are_bounded_in_number_and_none_is_forgotten() {
    let mut adoption = began(1000);
    while let Some(blocks) = adoption.begin_step(0, |_| true, all) {
        let error = blocks.range.clone().any(|block| block % 2 == 1).then(bad);
        adoption.ended(0, 1, error);
    }
    let progress = &adoption.disks[&1];
    assert_eq!(progress.left.len(), FAILED_MAX);
    assert!((1..1000).step_by(2).all(|bad| progress.left.iter().any(|range| range.contains(&bad))));
    let status = adoption.status(DiskId(1), 1000);
    assert!(!status.is_complete && status.failed_blocks >= 500, "{status:?}");
}

#[test]
fn regression_what_has_not_to_be_copied_is_passed_over_at_a_bounded_rate() {
    let mut adoption = Adoption::new(1 << 20);
    adoption.leisure.go_on();
    adoption.begin(DiskId(1), 1 << 20, false);
    let nothing = |blocks: &Blocks| blocks.range.end..blocks.range.end;
    assert!(adoption.begin_step(0, |_| true, nothing).is_none());
    let first = adoption.status(DiskId(1), 1 << 20).done_blocks;
    // 50 ms ahead of its rate, in looks of one block of 4 KiB each.
    assert!((12..=14).contains(&first.div_ceil(LEAF_ENTRIES as u64)), "{first}");
    assert!(adoption.begin_step(0, |_| true, nothing).is_none());
    assert_eq!(adoption.status(DiskId(1), 1 << 20).done_blocks, first);
    // The rate also bounds a step that finds nothing to copy when its leaf has come.
    adoption.begin_step(1 << 30, |_| true, all).unwrap();
    assert!(!adoption.leisure.has_come(1 << 30), "a step takes the time of what may have to be copied");
    adoption.ended(1 << 30, 0, None);
    assert!(adoption.leisure.has_come(1 << 30), "and has it back but for a look");
}

/// Takes all steps, and returns the blocks that were looked at. After the first step that has `damage_at`, something is found damaged.
fn pass(adoption: &mut Adoption, damage_at: u64) -> Vec<u64> {
    let (mut seen, mut is_found) = (Vec::new(), false);
    while let Some(blocks) = adoption.begin_step(0, |_| true, |blocks| blocks.range.end..blocks.range.end) {
        seen.extend(blocks.range.clone());
        adoption.ended(0, blocks.range.end - blocks.range.start, None);
        if blocks.range.contains(&damage_at) && !std::mem::replace(&mut is_found, true) {
            adoption.doubt(DiskId(1));
        }
    }
    seen
}

#[test]
fn what_another_life_has_copied_is_read_before_the_base_is_let_go() {
    let all: Vec<u64> = (0..1000).collect();
    let mut adoption = began(1000);
    assert_eq!(pass(&mut adoption, u64::MAX), [], "the pool has it all, of this life");
    assert!(adoption.status(DiskId(1), 1000).is_complete && !adoption.reads(DiskId(1)));
    let mut adoption = Adoption::new(u64::MAX);
    adoption.leisure.go_on();
    adoption.begin(DiskId(1), 1000, true);
    assert_eq!(pass(&mut adoption, u64::MAX), all);
    assert!(adoption.status(DiskId(1), 1000).is_complete);
}

#[test]
fn what_is_lost_or_damaged_begins_a_pass_that_reads_all() {
    let all: Vec<u64> = (0..1000).collect();
    let mut adoption = began(1000);
    pass(&mut adoption, u64::MAX);
    adoption.doubt(DiskId(1));
    assert!(!adoption.status(DiskId(1), 1000).is_complete && adoption.reads(DiskId(1)));
    // Damage that is found in the middle of a pass may lie where the pass has been.
    assert_eq!(pass(&mut adoption, 500), [all.clone(), all].concat());
    assert!(adoption.status(DiskId(1), 1000).is_complete);
    // Damage of another disk does not matter to this one.
    adoption.doubt(DiskId(2));
    assert!(adoption.status(DiskId(1), 1000).is_complete);
}

#[test]
fn regression_a_disk_that_no_durable_root_knows_is_not_copied_to() {
    let mut adoption = began(10);
    assert!(adoption.begin_step(0, |_| false, all).is_none());
    assert!(adoption.begin_step(0, |_| true, all).is_some());
}

#[test]
fn a_pool_that_cannot_take_it_is_asked_again_soon_and_then_seldom() {
    let mut adoption = began(10);
    let mut rests = Vec::new();
    let mut now_ns = 0;
    for attempt in 0..12 {
        let began_ns = now_ns;
        while adoption.begin_step(now_ns, |_| true, all).is_none() {
            now_ns += FIRST_REST_NS / 2;
        }
        rests.push(now_ns - began_ns);
        adoption.ended(now_ns, 10, Some(RequestError::NoSpace));
        assert_eq!(adoption.status(DiskId(1), 10).why.is_some(), attempt >= 8, "it is shown when it lasts");
    }
    assert!(rests[1] <= 2 * FIRST_REST_NS && rests[11] >= REST_NS && rests[11] < REST_NS + 2 * FIRST_REST_NS);
    assert_eq!(adoption.status(DiskId(1), 10).failed_blocks, 0);
}
