//! Faults that a reader found, each as it was: what a reasonable history of failures makes of an array.

use super::member::{Member, read, run};
use super::written::{candidate, content};
use forebay_block::{Buf, Op, Vectored};
use forebay_volume::layout::array_label::{ArrayLabel, OFFSETS_BYTES};
use forebay_volume::layout::array_shape::Shape;
use forebay_volume::mirror::MemberState;
use forebay_volume::parity::{Array, ArrayView, JoinError, Joined, join, new_array};

const MEMBER_BYTES: usize = 4 << 20;
const BLOCK: u64 = 4096;

fn members(count: usize) -> Vec<Member> {
    (0..count).map(|number| Member::new(&format!("m{number}"), MEMBER_BYTES, true, number as u64)).collect()
}

/// A new array of two of data and some of parity.
fn array(members: &[Member]) -> (Array, ArrayView, Shape) {
    let shape = Shape {
        data: 2,
        parity: members.len() - 2,
        member_bytes: MEMBER_BYTES as u64,
        head_bytes: 1 << 20,
        band_bytes: 2 * BLOCK * 21,
        log_slots: 64,
    };
    let ids: Vec<[u8; 16]> = (1..=members.len()).map(|id| [id as u8; 16]).collect();
    let (mut array, view) = new_array(members.iter().map(Member::boxed).collect(), shape, [7; 16], &ids);
    view.members().begin();
    assert!(run(&mut array, 0, Op::Flush).result.is_ok());
    (array, view, shape)
}

fn write(array: &mut Array, shape: &Shape, first: u64, blocks: u64, tag: u64) {
    let bytes: Vec<u8> = (first..first + blocks).flat_map(|block| content(block, tag)).collect();
    let bufs = Vectored::One(Buf::copy_of(&bytes).freeze());
    assert!(run(array, shape.head_bytes + first * BLOCK, Op::Write { bufs, fua: false }).result.is_ok());
}

/// Where a block of a row lies on its member.
fn place(members: &[Member], wanted: &[u8]) -> (usize, u64) {
    let find = |member: &Member| {
        let medium = member.medium();
        let at = medium.durable.chunks_exact(BLOCK as usize).position(|block| block == wanted)?;
        Some(at as u64 * BLOCK)
    };
    members.iter().enumerate().find_map(|(number, member)| Some((number, find(member)?))).unwrap()
}

fn label(member: &Member) -> ArrayLabel {
    let medium = member.medium();
    let of = |at: u64| ArrayLabel::decode(&medium.durable[at as usize..at as usize + 4096]);
    OFFSETS_BYTES.into_iter().filter_map(of).max_by_key(|label| label.serial).unwrap()
}

fn opened(members: &[&Member]) -> Result<Joined, JoinError> {
    let mut next_id = 100;
    let mut new_id = || {
        next_id += 1;
        [next_id; 16]
    };
    join(members.iter().map(|member| candidate(member)).collect(), None, Some(&mut new_id))
}

#[test]
fn regression_a_read_that_fails_once_overwrites_nothing_with_what_rotten_parity_says() {
    let members = members(3);
    let (mut array, view, shape) = array(&members);
    write(&mut array, &shape, 0, 2, 1);
    assert!(run(&mut array, 0, Op::Flush).result.is_ok());
    let (member, at) = place(&members, &content(0, 1));
    let (other, _) = place(&members, &content(1, 1));
    let parity = (0..3).find(|number| ![member, other].contains(number)).unwrap();
    members[parity].rot(at);
    members[member].medium().fails_reads = 1;
    assert_ne!(read(&mut array, shape.head_bytes, 0), Some(content(0, 1)), "it was not restored of parity");
    for now_ns in 0..50 {
        view.members().tick(now_ns * 1_000_000_000);
        read(&mut array, shape.head_bytes, 0);
    }
    let medium = members[member].medium();
    assert!(medium.durable[at as usize..][..4096] == content(0, 1), "a good block was overwritten");
}

#[test]
fn regression_of_two_labels_of_the_same_time_that_counts_which_all_have() {
    let members = members(3);
    drop(array(&members));
    let newest = label(&members[0]);
    let next = |in_sync: u32, member: u8| ArrayLabel {
        generation: newest.generation + 1,
        serial: newest.serial + 1,
        in_sync,
        member,
        ..newest.clone()
    };
    // The one that is named last was alone with its label.
    let put = |number: usize, label: ArrayLabel| {
        let at = OFFSETS_BYTES[1] as usize;
        members[number].medium().durable[at..at + 4096].copy_from_slice(&label.encode());
    };
    put(0, next(0b011, 0));
    put(1, next(0b110, 1));
    put(2, next(0b110, 2));
    let joined = opened(&[&members[1], &members[2], &members[0]]).unwrap();
    let states: Vec<MemberState> = joined.view.members().status().members.iter().map(|member| member.state).collect();
    assert_eq!(states, [MemberState::Rebuilding, MemberState::InSync, MemberState::InSync]);
    // Where nothing tells which counts nobody is believed.
    put(0, next(0b101, 0));
    put(1, next(0b110, 1));
    let refused = opened(&[&members[0], &members[1]]).err();
    assert!(matches!(refused, Some(JoinError::Split { .. })), "{refused:?}");
}

#[test]
fn regression_a_label_is_never_written_over_the_newest_of_a_member() {
    let members = members(3);
    drop(array(&members));
    // The power failed within the last label: one member has it, of the others that place is torn.
    let newest = label(&members[0]);
    let later = |member: u8| ArrayLabel { serial: newest.serial + 1, member, ..newest.clone() };
    let is_newest = |at: u64| {
        let medium = members[0].medium();
        ArrayLabel::decode(&medium.durable[at as usize..at as usize + 4096]).is_some()
    };
    let valid = OFFSETS_BYTES.into_iter().find(|&at| is_newest(at)).unwrap();
    let torn = OFFSETS_BYTES.into_iter().find(|&at| at != valid).unwrap() as usize;
    members[2].medium().durable[torn..torn + 4096].copy_from_slice(&later(2).encode());
    for member in &members[..2] {
        member.medium().durable[torn..torn + 4096].fill(0x11);
    }
    // A member comes back that was replaced, so that there is something to be said: and the power fails within that, too.
    let blank = Member::new("blank", MEMBER_BYTES, true, 9);
    for seed in 0..20 {
        let saved: Vec<Vec<u8>> = members.iter().map(|member| member.medium().durable.clone()).collect();
        let joined = opened(&[&members[0], &members[2], &blank]).unwrap();
        joined.view.members().begin();
        let mut array = joined.array;
        for _ in 0..seed {
            forebay_block::Device::poll(&mut array, &mut Vec::new());
        }
        drop(array);
        members.iter().for_each(Member::cut);
        blank.cut();
        for number in [0, 2] {
            let medium = members[number].medium();
            let of = |at: u64| ArrayLabel::decode(&medium.durable[at as usize..at as usize + 4096]);
            assert!(OFFSETS_BYTES.into_iter().any(|at| of(at).is_some()), "member {number} has no label any more");
        }
        members.iter().zip(saved).for_each(|(member, saved)| member.medium().durable = saved);
        blank.medium().durable.fill(0);
    }
}
