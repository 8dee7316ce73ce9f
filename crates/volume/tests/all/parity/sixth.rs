//! Faults that a sixth review found.

use super::faults::{
    BLOCK, MEMBER_BYTES, array_of, assert_survives_any_one, label, members, opened, pass, pass_until, place, states,
    write,
};
use super::fifth::{log_in_use, opened_again};
use super::member::{Member, read, run};
use super::written::{POOL, candidate, content, put_superblocks};
use forebay_block::{Buf, Device, Op, Request, Vectored};
use forebay_volume::Devices;
use forebay_volume::layout::array_label::{ArrayLabel, LABEL_BYTES, OFFSETS_BYTES};
use forebay_volume::layout::array_shape::Shape;
use forebay_volume::layout::superblock::copy_offsets_bytes;
use forebay_volume::mirror::{MemberState, Unproven};
use forebay_volume::parity::{Array, ArrayView, JoinError, Joined, former, join};

/// Polls of a start during which no time passes; pauses are counted in polls.
const POLLS: u32 = 20_000_000;

/// Two of three members: one takes no more writes, and the other alone is not enough.
fn one_out_and_one_worn(members: &[Member]) -> Vec<&Member> {
    members[0].medium().is_dead = true;
    members[2].medium().unwritable.extend(0..MEMBER_BYTES as u64 / BLOCK);
    vec![&members[1], &members[2]]
}

/// An array without a member, of which an older entry of an open row cannot be erased on those that are left.
pub(super) struct WithStuck {
    pub members: Vec<Member>,
    pub array: Array,
    pub view: ArrayView,
    pub shape: Shape,
    pub left: Vec<usize>,
}

pub(super) fn with_stuck(out: usize) -> WithStuck {
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

/// Members of which one was left behind; everything else is durable.
fn stopped_with_one_out() -> (Vec<Member>, Shape) {
    let members = members(3);
    let (mut array, view, shape) = array_of(&members, 2);
    members[0].medium().is_dead = true;
    write(&mut array, &shape, 0, 2, 1);
    assert!(run(&mut array, 0, Op::Flush).result.is_ok());
    pass(&mut array, &view, 5);
    assert!(run(&mut array, 0, Op::Flush).result.is_ok());
    drop(array);
    (members, shape)
}

/// An indispensable member took no writes, and the log was empty: a start over volatile caches tried to erase the log for ever, and the
/// first write of the opening waited without a reported reason.
#[test]
fn regression_a_start_ends_where_the_log_cannot_be_erased() {
    let (members, _) = stopped_with_one_out();
    let Joined { mut array, view, .. } = opened(&one_out_and_one_worn(&members)).unwrap();
    view.members().begin();
    // As for a write of the superblock.
    let bufs = Vectored::One(Buf::copy_of(&content(2, 2)).freeze());
    array.submit(Request { tag: 7, offset_bytes: 16 * BLOCK, stream: 0, op: Op::Write { bufs, fua: false } });
    let mut done = Vec::new();
    let ended = (0..POLLS).any(|_| {
        array.poll(&mut done);
        !done.is_empty()
    });
    let status = view.members().status();
    assert!(ended && done[0].result.is_err() && status.broken.is_some(), "{done:?} {status:?}");
}

/// Failures of halving a batch counted as if nothing could be erased: a handful of places that lie side by side, as one bad region of the medium is, ended
/// the start of an array of which all others could be erased.
#[test]
fn regression_a_few_bad_places_of_the_log_side_by_side_end_no_start() {
    for (first, count) in [(0, 6), (20, 9), (58, 6)] {
        let (members, shape) = stopped_with_one_out();
        let places = (first..first + count).map(|place| shape.head_bytes / BLOCK + 2 * place);
        members[2].medium().unwritable.extend(places);
        let Joined { mut array, view, .. } = opened(&[&members[1], &members[2]]).unwrap();
        view.members().begin();
        write(&mut array, &shape, 2, 2, 1);
        assert!(run(&mut array, 0, Op::Flush).result.is_ok());
        assert_eq!(view.members().status().broken, None, "from place {first} on");
    }
}

/// A device offered in place of a member that failed some requests and never answered others was not taken, nor was any later one.
#[test]
fn regression_a_member_that_hangs_keeps_no_device_from_taking_its_place() {
    let members = members(4);
    let (mut array, view, shape) = array_of(&members, 3);
    write(&mut array, &shape, 0, 63, 1);
    assert!(run(&mut array, 0, Op::Flush).result.is_ok());
    let hung = place(&members, &content(0, 1)).0;
    members[hung].medium().hangs_reads = true;
    let op = Op::Read { bufs: Vectored::One(Buf::new(BLOCK as usize)), attempt: 0 };
    array.submit(Request { tag: 9, offset_bytes: shape.head_bytes, stream: 0, op });
    pass(&mut array, &view, 1);
    members[hung].medium().is_dead = true;
    write(&mut array, &shape, 63, 63, 1);
    assert!(run(&mut array, 0, Op::Flush).result.is_ok());
    assert_eq!(states(&view)[hung], MemberState::Out);
    // The first may be the same device; it keeps the second from nothing.
    let [same, other] = [(hung as u64, format!("m{hung}")), (9, "other".to_owned())]
        .map(|(seed, name)| Member::new(&name, MEMBER_BYTES, true, seed));
    view.members().offer(format!("m{hung}"), [98; 16], same.boxed(), None).unwrap();
    pass(&mut array, &view, 2);
    assert_eq!(states(&view)[hung], MemberState::Out);
    view.members().offer("other".to_owned(), [99; 16], other.boxed(), None).unwrap();
    pass(&mut array, &view, 30);
    assert_eq!(states(&view), [MemberState::InSync; 4]);
    assert_eq!(view.members().status().members[hung].name, "other");
    // Late completions are ignored.
    members[hung].medium().hangs_reads = false;
    pass(&mut array, &view, 1);
    assert!(run(&mut array, 0, Op::Flush).result.is_ok());
    drop(array);
    let mut now: Vec<Member> = members.clone();
    now[hung] = other;
    now.iter().for_each(Member::cut);
    let wanted: Vec<(u64, u64)> = (0..126).map(|block| (block, 1)).collect();
    assert_survives_any_one(&now, &shape, &wanted);
}

/// An older entry of an open row that could not be erased was left where it is until the row is closed. Where all that is written waits for nothing to be left
/// in the log, as after a start, nobody closed it: nothing was written any more.
#[test]
fn regression_an_old_entry_of_an_open_row_that_cannot_be_erased_holds_no_changes_for_ever() {
    for out in 0..4 {
        let WithStuck { members, mut array, view, shape, left } = with_stuck(out);
        pass(&mut array, &view, 5);
        view.know(vec![2; (shape.rows() / shape.band_rows()) as usize]);
        let bufs = Vectored::One(Buf::copy_of(&content(3, 1)).freeze());
        array.submit(Request {
            tag: 7,
            offset_bytes: shape.head_bytes + 3 * BLOCK,
            stream: 0,
            op: Op::Write { bufs, fua: false },
        });
        let mut done = Vec::new();
        let ended = (0..40).any(|_| {
            pass_until(&mut array, &view, 1, &mut done);
            !done.is_empty()
        });
        assert!(ended && done[0].result.is_ok(), "without {out}: {done:?}");
        assert!(run(&mut array, 0, Op::Flush).result.is_ok());
        drop(array);
        let Joined { mut array, .. } = opened_again(&members, &left);
        for block in [0, 1, 3] {
            let read = read(&mut array, shape.head_bytes + block * BLOCK, 0);
            assert!(read == Some(content(block, 1)), "block {block} without {out}");
        }
    }
}

/// A device that had been a member was refused as one that holds a pool after a start between its offer and its first label: its labels were cleared for
/// that. They stay, and nothing that is left of them is newer than what follows.
#[test]
fn regression_a_former_member_that_is_offered_is_known_whenever_the_power_fails() {
    let wanted: Vec<(u64, u64)> = (0..126).map(|block| (block, 1)).collect();
    for polls in (0..60).step_by(2) {
        let members = members(4);
        let (mut array, view, shape) = array_of(&members, 3);
        members[0].medium().is_dead = true;
        write(&mut array, &shape, 0, 126, 1);
        assert!(run(&mut array, 0, Op::Flush).result.is_ok());
        pass(&mut array, &view, 2);
        members[0].cut();
        members[0].medium().is_dead = false;
        // Openings of it that came to nothing, and one of the others since.
        let was = label(&members[0]);
        let ahead = ArrayLabel { generation: was.generation + 20, serial: was.serial + 20, ..was };
        members[0].medium().durable[OFFSETS_BYTES[1] as usize..][..4096].copy_from_slice(&ahead.encode());
        members[1..].iter().for_each(|member| put_superblocks(member, 2));
        let was = former(&mut Devices::new(vec![members[0].boxed()]), POOL).unwrap();
        assert!(was.is_second && was.generation == ahead.generation);
        view.members().offer("m0".to_owned(), [99; 16], members[0].boxed(), Some(was)).unwrap();
        (0..polls).for_each(|_| Device::poll(&mut array, &mut Vec::new()));
        drop(array);
        members.iter().for_each(Member::cut);
        let Joined { mut array, view, left_out } = opened(&members.iter().collect::<Vec<_>>()).unwrap();
        assert!(left_out.is_empty(), "{left_out:?}");
        assert_eq!(states(&view)[1..], [MemberState::InSync; 3], "after {polls} polls");
        view.members().begin();
        pass(&mut array, &view, 20);
        assert!(run(&mut array, 0, Op::Flush).result.is_ok());
        drop(array);
        assert_eq!(states(&view), [MemberState::InSync; 4], "after {polls} polls");
        assert_eq!(label(&members[0]).generation, label(&members[1]).generation);
        assert_survives_any_one(&members, &shape, &wanted);
    }
}

/// A former member was rebuilt over whatever it had been used for since, where its label was left.
#[test]
fn regression_a_former_member_is_not_rebuilt_over_what_it_was_used_for() {
    for is_former in [true, false] {
        let members = members(4);
        let (mut array, view, shape) = array_of(&members, 3);
        write(&mut array, &shape, 0, 63, 1);
        assert!(run(&mut array, 0, Op::Flush).result.is_ok());
        if is_former {
            members[0].medium().is_dead = true;
            assert!(run(&mut array, 0, Op::Flush).result.is_ok());
            pass(&mut array, &view, 2);
            members[0].medium().is_dead = false;
        }
        drop(array);
        members.iter().for_each(Member::cut);
        let labels = OFFSETS_BYTES.map(|at| at as usize..at as usize + LABEL_BYTES);
        for (at, byte) in members[0].medium().durable.iter_mut().enumerate() {
            if !labels.iter().any(|range| range.contains(&at)) {
                *byte = at as u8 | 1;
            }
        }
        let before = members[0].medium().durable.clone();
        assert_eq!(former(&mut Devices::new(vec![members[0].boxed()]), POOL), None);
        let Joined { mut array, view, left_out } = opened(&members.iter().collect::<Vec<_>>()).unwrap();
        view.members().begin();
        pass(&mut array, &view, 20);
        write(&mut array, &shape, 63, 63, 1);
        assert!(run(&mut array, 0, Op::Flush).result.is_ok());
        assert_eq!(states(&view)[0], MemberState::Out);
        assert!(left_out.len() == 1 && left_out[0].1.contains("used since"), "{left_out:?}");
        members[0].cut();
        assert!(members[0].medium().durable == before, "it was written to");
    }
}

/// One rotten superblock does not count as other use; and where nothing else is left of the pool, a device with its label is accepted.
#[test]
fn members_with_rotten_superblocks_are_members() {
    for rotten in [1, 2] {
        let members = members(3);
        let (mut array, view, shape) = array_of(&members, 2);
        write(&mut array, &shape, 0, 42, 1);
        assert!(run(&mut array, 0, Op::Flush).result.is_ok());
        members[0].medium().is_dead = true;
        assert!(run(&mut array, 0, Op::Flush).result.is_ok());
        pass(&mut array, &view, 2);
        drop(array);
        members.iter().for_each(Member::cut);
        members[0].medium().is_dead = false;
        let copies = copy_offsets_bytes(MEMBER_BYTES as u64);
        copies[..rotten].iter().for_each(|&at| members[1].rot(at + 40));
        let there: Vec<&Member> = if rotten == 1 { members.iter().collect() } else { members[1..].iter().collect() };
        copies[..1].iter().for_each(|&at| members[0].rot(at + 40));
        let Joined { view, left_out, .. } = opened(&there).unwrap();
        assert!(left_out.is_empty(), "{left_out:?}");
        let first = if rotten == 1 { MemberState::Rebuilding } else { MemberState::Out };
        assert_eq!(states(&view), [first, MemberState::InSync, MemberState::InSync]);
    }
}

/// A member that may have been used for something else was believed while a whole one was only away; that one was rebuilt from it when it came back,
/// and then no member had what two had had.
#[test]
fn regression_an_unproven_member_is_not_believed_while_a_whole_one_is_away() {
    let members = members(3);
    let (mut array, _, shape) = array_of(&members, 2);
    write(&mut array, &shape, 0, 42, 1);
    assert!(run(&mut array, 0, Op::Flush).result.is_ok());
    drop(array);
    members.iter().for_each(Member::cut);
    copy_offsets_bytes(MEMBER_BYTES as u64)[..2].iter().for_each(|&at| members[1].rot(at + 40));
    let refused = opened(&[&members[0], &members[1]]).err();
    let Some(JoinError::Unproven(Unproven { device, missing })) = refused else { panic!("{refused:?}") };
    assert!(device.ends_with('1') && !missing.is_empty(), "{device} {missing}");
    let Joined { view, .. } = opened(&[&members[0], &members[1], &members[2]]).unwrap();
    assert_eq!(states(&view)[2], MemberState::InSync);
    let all = [&members[0], &members[1]].map(candidate).into_iter().collect();
    let Joined { view, .. } = join(all, None, Some(&mut || [77; 16]), true).unwrap();
    assert_eq!(states(&view)[1], MemberState::InSync);
}

/// A label in flight when the rebuild of a member began counted as written to that member too: its next label overwrote the only one by
/// which it was known.
#[test]
fn regression_a_label_that_a_member_was_not_sent_moves_none_of_its_own() {
    let members = members(5);
    let (mut array, view, _) = array_of(&members, 3);
    members[..2].iter().for_each(|member| member.medium().is_dead = true);
    assert!(run(&mut array, 0, Op::Flush).result.is_ok());
    pass(&mut array, &view, 2);
    members[..2].iter().for_each(Member::cut);
    members[..2].iter().for_each(|member| member.medium().is_dead = false);
    view.members().set_rebuild_rate(1);
    let was = [0, 1].map(|number| former(&mut Devices::new(vec![members[number].boxed()]), POOL).unwrap());
    let mut offer = |number: usize| {
        let device = members[number].boxed();
        let id = [90 + number as u8; 16];
        view.members().offer(format!("m{number}"), id, device, Some(was[number])).unwrap();
        (0..400).for_each(|_| Device::poll(&mut array, &mut Vec::new()));
    };
    offer(0);
    assert_eq!(states(&view)[..2], [MemberState::Rebuilding, MemberState::Out]);
    // It fails the label that says who the second is, which is rebuilt in its place.
    members[0].medium().unwritable.extend(OFFSETS_BYTES.map(|at| at / BLOCK));
    offer(1);
    assert_eq!(states(&view)[..2], [MemberState::Out, MemberState::Rebuilding]);
    let medium = members[1].medium();
    let id = |at: u64| ArrayLabel::decode(&medium.durable[at as usize..][..LABEL_BYTES]).map(|label| label.ids[1]);
    let newest = usize::from(was[1].is_second);
    assert_eq!(id(OFFSETS_BYTES[1 - newest]), Some([91; 16]));
    assert_ne!(id(OFFSETS_BYTES[newest]), Some([91; 16]));
}

/// One unreadable row made a rebuild rewrite the whole device.
#[test]
fn regression_a_rebuild_goes_back_no_further_than_it_must() {
    const BLOCKS: u64 = 42 * 8;
    let members = members(3);
    let (mut array, view, shape) = array_of(&members, 2);
    write(&mut array, &shape, 0, BLOCKS, 1);
    assert!(run(&mut array, 0, Op::Flush).result.is_ok());
    members[2].medium().is_dead = true;
    assert!(run(&mut array, 0, Op::Flush).result.is_ok());
    pass(&mut array, &view, 2);
    let (number, at) =
        (BLOCKS - 2..BLOCKS).map(|block| place(&members, &content(block, 1))).find(|(number, _)| *number != 2).unwrap();
    members[number].medium().dead_blocks.insert(at / BLOCK);
    let blank = Member::new("blank", MEMBER_BYTES, true, 9);
    view.members().offer("blank".to_owned(), [99; 16], blank.boxed(), None).unwrap();
    pass(&mut array, &view, 60);
    assert_eq!(states(&view), [MemberState::InSync; 3]);
    assert!(view.members().status().unreadable_blocks > 0);
    let (written, once) = (blank.medium().written_bytes, shape.head_bytes + BLOCKS / 2 * BLOCK);
    assert!(written > once / 2 && written < once + once / 4, "{written} bytes for {once}");
}
