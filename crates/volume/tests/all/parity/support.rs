//! What tests of arrays share.

use super::member::{Member, read, run};
use super::written::{POOL, candidate, content, put_superblocks};
use forebay_block::{Buf, Completion, Device, Op, Vectored};
use forebay_volume::layout::array_label::{ArrayLabel, OFFSETS_BYTES};
use forebay_volume::layout::array_shape::Shape;
use forebay_volume::mirror::MemberState;
use forebay_volume::parity::{Array, ArrayView, JoinError, Joined, join, new_array};
use std::cell::Cell;

pub const MEMBER_BYTES: usize = 4 << 20;
pub const BLOCK: u64 = 4096;
pub const BLOCKS: u64 = 42 * 8;

thread_local! {
    /// The time of all arrays of one test: a test runs on a thread of its own, so that no other one lets its time pass.
    static NOW_NS: Cell<u64> = const { Cell::new(0) };
}

/// The time that it is.
fn now_ns() -> u64 {
    NOW_NS.get()
}

/// The time that it is; so much later at the next call.
pub fn then_pass_ns(step_ns: u64) -> u64 {
    NOW_NS.replace(now_ns() + step_ns)
}

pub fn members(count: usize) -> Vec<Member> {
    members_of(count, true, 0)
}

/// Members with volatile caches or none, whose choices follow from a seed.
pub fn members_of(count: usize, is_volatile: bool, seed: u64) -> Vec<Member> {
    let random = |number: usize| seed * count as u64 + number as u64;
    (0..count).map(|number| Member::new(&format!("m{number}"), MEMBER_BYTES, is_volatile, random(number))).collect()
}

/// A new array with so many of data, and the others of parity.
pub fn array_of(members: &[Member], data: usize) -> (Array, ArrayView, Shape) {
    let shape = Shape {
        data,
        parity: members.len() - data,
        member_bytes: MEMBER_BYTES as u64,
        head_bytes: 1 << 20,
        band_bytes: data as u64 * BLOCK * 21,
        log_slots: 64,
    };
    let ids: Vec<[u8; 16]> = (1..=members.len()).map(|id| [id as u8; 16]).collect();
    let (mut array, view) = new_array(members.iter().map(Member::boxed).collect(), shape, POOL, &ids);
    view.members().begin();
    assert!(run(&mut array, 0, Op::Flush).result.is_ok());
    members.iter().for_each(|member| put_superblocks(member, 1));
    (array, view, shape)
}

pub fn write(array: &mut Array, shape: &Shape, first: u64, blocks: u64, tag: u64) {
    let bytes: Vec<u8> = (first..first + blocks).flat_map(|block| content(block, tag)).collect();
    let bufs = Vectored::One(Buf::copy_of(&bytes).freeze());
    assert!(run(array, shape.head_bytes + first * BLOCK, Op::Write { bufs, fua: false }).result.is_ok());
}

/// Where a block of a row lies on its member.
pub fn place(members: &[Member], wanted: &[u8]) -> (usize, u64) {
    let find = |member: &Member| {
        let medium = member.medium();
        let at = medium.durable.chunks_exact(BLOCK as usize).position(|block| block == wanted)?;
        Some(at as u64 * BLOCK)
    };
    members.iter().enumerate().find_map(|(number, member)| Some((number, find(member)?))).unwrap()
}

/// The member of these that has a block, and where, in blocks.
pub fn find(members: &[Member], left: &[usize], wanted: &[u8]) -> Option<(usize, u64)> {
    left.iter().find_map(|&number| {
        let medium = members[number].medium();
        let at = medium.durable.chunks_exact(BLOCK as usize).position(|block| block == wanted)?;
        Some((number, at as u64))
    })
}

pub fn label(member: &Member) -> ArrayLabel {
    let medium = member.medium();
    let of = |at: u64| ArrayLabel::decode(&medium.durable[at as usize..at as usize + 4096]);
    OFFSETS_BYTES.into_iter().filter_map(of).max_by_key(|label| label.serial).unwrap()
}

pub fn opened(members: &[&Member]) -> Result<Joined, JoinError> {
    let mut next_id = 100;
    let mut new_id = || {
        next_id += 1;
        [next_id; 16]
    };
    join(members.iter().map(|member| candidate(member)).collect(), None, Some(&mut new_id), false)
}

/// Lets time pass until nothing more happens by itself, for so many seconds.
pub fn pass(array: &mut Array, view: &ArrayView, seconds: u64) {
    pass_until(array, view, seconds, &mut Vec::new());
}

/// The same, with what has ended by then.
pub fn pass_until(array: &mut Array, view: &ArrayView, seconds: u64, done: &mut Vec<Completion>) {
    for _ in 0..seconds * 20 {
        let now_ns = then_pass_ns(50_000_000);
        view.members().tick(now_ns);
        (0..20).for_each(|_| Device::poll(array, done));
    }
}

/// All that was written, as it is read when any one member is missing.
pub fn assert_survives_any_one(members: &[Member], shape: &Shape, wanted: &[(u64, u64)]) {
    for missing in 0..members.len() {
        let there: Vec<&Member> = members.iter().enumerate().filter(|(at, _)| *at != missing).map(|(_, m)| m).collect();
        let mut joined = join(there.iter().map(|member| candidate(member)).collect(), None, None, false).unwrap();
        for &(block, tag) in wanted {
            let read = read(&mut joined.array, shape.head_bytes + block * BLOCK, 0);
            assert!(read == Some(content(block, tag)), "block {block} without member {missing}");
        }
    }
}

pub fn states(view: &ArrayView) -> Vec<MemberState> {
    view.members().status().members.iter().map(|member| member.state).collect()
}

/// Blocks of a member's log that are in use.
pub fn log_in_use(member: &Member, shape: &Shape) -> Vec<u64> {
    let medium = member.medium();
    let blocks = shape.head_bytes / BLOCK..(shape.head_bytes + u64::from(shape.log_slots) * 2 * BLOCK) / BLOCK;
    blocks.filter(|block| medium.durable[(block * BLOCK) as usize..][..4].iter().any(|&byte| byte != 0)).collect()
}

/// The power fails, and those that are left are opened, and made whole.
pub fn opened_again(members: &[Member], left: &[usize]) -> Joined {
    members.iter().for_each(Member::cut);
    let there: Vec<&Member> = left.iter().map(|number| &members[*number]).collect();
    let mut joined = opened(&there).unwrap();
    joined.view.members().begin();
    pass(&mut joined.array, &joined.view, 20);
    assert!(run(&mut joined.array, 0, Op::Flush).result.is_ok());
    joined
}

/// An array without a member, of which an older entry of an open row cannot be erased on those that are left.
pub struct WithStuck {
    pub members: Vec<Member>,
    pub array: Array,
    pub view: ArrayView,
    pub shape: Shape,
    pub left: Vec<usize>,
}

pub fn with_stuck(out: usize) -> WithStuck {
    let members = members(4);
    let (mut array, view, shape) = array_of(&members, 3);
    members[out].medium().is_dead = true;
    assert!(run(&mut array, 0, Op::Flush).result.is_ok());
    pass(&mut array, &view, 2);
    let left: Vec<usize> = (0..4).filter(|number| *number != out).collect();
    write(&mut array, &shape, 0, 1, 1);
    assert!(run(&mut array, 0, Op::Flush).result.is_ok());
    for number in &left {
        let in_use = log_in_use(&members[*number], &shape);
        members[*number].medium().unwritable.extend(in_use);
    }
    write(&mut array, &shape, 1, 1, 1);
    assert!(run(&mut array, 0, Op::Flush).result.is_ok());
    WithStuck { members, array, view, shape, left }
}

/// An array of so many of data and of parity whose last member was lost. A row of which so many of the others as there is parity cannot read their blocks; its first
/// block, and these.
pub fn with_bad_row(data: usize, parity: usize) -> (Vec<Member>, Array, ArrayView, Shape, (u64, Vec<usize>)) {
    let members = members(data + parity);
    let (mut array, view, shape) = array_of(&members, data);
    write(&mut array, &shape, 0, BLOCKS, 1);
    assert!(run(&mut array, 0, Op::Flush).result.is_ok());
    let last = members.len() - 1;
    members[last].medium().is_dead = true;
    assert!(run(&mut array, 0, Op::Flush).result.is_ok());
    pass(&mut array, &view, 2);
    let first = BLOCKS / 2 / data as u64 * data as u64;
    let places = (first..first + data as u64).map(|block| place(&members, &content(block, 1)));
    let bad: Vec<(usize, u64)> = places.filter(|(number, _)| *number != last).take(parity).collect();
    assert_eq!(bad.len(), parity);
    bad.iter().for_each(|&(number, at)| _ = members[number].medium().dead_blocks.insert(at / BLOCK));
    (members, array, view, shape, (first, bad.into_iter().map(|(number, _)| number).collect()))
}

pub fn offer_blank(view: &ArrayView) -> Member {
    let blank = Member::new("blank", MEMBER_BYTES, true, 9);
    view.members().offer("blank".to_owned(), [99; 16], blank.boxed(), None).unwrap();
    blank
}

/// As far as the first pass, in which all but this row was made.
pub fn pass_to_gap(array: &mut Array, view: &ArrayView, of: &Member) {
    for _ in 0..20_000 {
        if label(of).missing > 0 {
            return;
        }
        view.members().tick(then_pass_ns(50_000_000));
        Device::poll(array, &mut Vec::new());
    }
    panic!("no pass ends");
}

pub fn compare(array: &mut Array, view: &ArrayView, offset_bytes: u64) -> Completion {
    let bufs = Vectored::One(Buf::new(BLOCK as usize));
    array.submit(forebay_block::Request {
        tag: 9,
        offset_bytes,
        stream: 0,
        op: Op::Read { bufs, attempt: Op::COMPARE },
    });
    let mut done = Vec::new();
    pass_until(array, view, 5, &mut done);
    done.pop().unwrap()
}

pub fn row_at(shape: &Shape, row: u64) -> u64 {
    (shape.head_bytes + u64::from(shape.log_slots) * 2 * BLOCK).next_multiple_of(1 << 20) / BLOCK + row
}

pub fn compare_req(offset_bytes: u64, blocks: u64) -> forebay_block::Request {
    let bufs = Vectored::One(Buf::new((blocks * BLOCK) as usize));
    forebay_block::Request { tag: 9, offset_bytes, stream: 0, op: Op::Read { bufs, attempt: Op::COMPARE } }
}
