//! Who is a member, who takes the place of one, and whose label is believed.

use super::member::{Member, read, run};
use super::support::{
    BLOCK, MEMBER_BYTES, array_of, assert_survives_any_one, find, label, members, members_of, opened, opened_again,
    pass, place, states, write,
};
use super::written::{POOL, candidate, content, put_superblocks};
use forebay_block::{Buf, Device, Op, Request, Vectored};
use forebay_volume::Devices;
use forebay_volume::layout::array_label::{ArrayLabel, LABEL_BYTES, OFFSETS_BYTES};
use forebay_volume::layout::superblock::copy_offsets_bytes;
use forebay_volume::mirror::{MemberState, Unproven};
use forebay_volume::parity::{JoinError, Joined, former, join};

/// A member that could not read one block was left behind with another that was away, though that one alone was enough.
#[test]
fn regression_one_member_away_costs_no_other_that_cannot_read_a_block() {
    for seed in 0..12u64 {
        let members = members_of(6, true, seed);
        let (mut array, view, shape) = array_of(&members, 4);
        write(&mut array, &shape, 0, 2, 1);
        assert!(run(&mut array, 0, Op::Flush).result.is_ok());
        let (bad, at) = find(&members, &[0, 1, 2, 3, 4, 5], &content(0, 1)).unwrap();
        let away =
            (0..6).find(|number| *number != bad && find(&members, &[*number], &content(1, 1)).is_some()).unwrap();
        drop(array);
        drop(view);
        members.iter().for_each(Member::cut);
        let there: Vec<&Member> = members.iter().collect();
        let Joined { mut array, view, .. } = opened(&there).unwrap();
        members[bad].medium().dead_blocks.insert(at);
        (members[away].medium().is_dead, members[away].medium().is_gone) = (true, true);
        view.members().begin();
        pass(&mut array, &view, 60);
        let states = states(&view);
        assert_eq!((states[bad], states[away]), (MemberState::InSync, MemberState::Out), "{seed}");
        for block in 0..2 {
            assert!(read(&mut array, shape.head_bytes + block * BLOCK, 0) == Some(content(block, 1)), "block {block}");
        }
    }
}

/// A device that was offered once more before it had been taken took the places of two members: each wrote over what the other had.
#[test]
fn regression_a_device_that_is_offered_twice_takes_one_place() {
    let wanted: Vec<(u64, u64)> = (0..42 * 4).map(|block| (block, 1)).collect();
    // At once, or while it waits for the rebuild of another.
    for waits in [false, true] {
        let mut members = members(7);
        let (mut array, view, shape) = array_of(&members, 4);
        write(&mut array, &shape, 0, 42 * 4, 1);
        (0..3).for_each(|out| members[out].medium().is_dead = true);
        assert!(run(&mut array, 0, Op::Flush).result.is_ok());
        pass(&mut array, &view, 2);
        let blank = |name: &str, seed| Member::new(name, MEMBER_BYTES, true, seed);
        let offer =
            |member: &Member, name: &str, id: u8| view.members().offer(name.to_owned(), [id; 16], member.boxed(), None);
        let (one, other, third) = (blank("one", 7), blank("other", 8), blank("third", 9));
        if waits {
            offer(&third, "third", 90).unwrap();
            offer(&one, "one", 91).unwrap();
            // Both have a place, and the first alone is rebuilt.
            view.members().set_rebuild_rate(1);
            (0..20).for_each(|_| Device::poll(&mut array, &mut Vec::new()));
        } else {
            offer(&one, "one", 91).unwrap();
        }
        offer(&one, "one", 92).unwrap();
        view.members().set_rebuild_rate(200 << 20);
        pass(&mut array, &view, 30);
        let out = states(&view).iter().filter(|state| **state == MemberState::Out).count();
        assert_eq!(out, if waits { 1 } else { 2 }, "{:?}", view.members().status());
        // One that works is not to be taken for another one, either.
        assert!(offer(&one, "one", 93).is_err());
        offer(&other, "other", 94).unwrap();
        if !waits {
            offer(&third, "third", 95).unwrap();
        }
        pass(&mut array, &view, 30);
        assert_eq!(states(&view), [MemberState::InSync; 7]);
        assert!(run(&mut array, 0, Op::Flush).result.is_ok());
        drop(array);
        [one, other, third].into_iter().enumerate().for_each(|(at, member)| members[at] = member);
        drop(opened_again(&members, &[0, 1, 2, 3, 4, 5, 6]));
        assert_survives_any_one(&members, &shape, &wanted);
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
