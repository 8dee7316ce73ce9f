//! What a reasonable history of failures makes of an array.

use super::member::{Member, read, run};
use super::support::{
    BLOCK, MEMBER_BYTES, array_of, assert_survives_any_one, label, members, opened, pass, place, states, write,
};
use super::written::content;
use forebay_block::{Buf, Device, Op, Vectored};
use forebay_volume::layout::array_label::{ArrayLabel, OFFSETS_BYTES};
use forebay_volume::layout::array_shape::Shape;
use forebay_volume::mirror::MemberState;
use forebay_volume::parity::{Array, ArrayView, JoinError, Joined};

/// A new array with two data blocks a row and some parity.
fn array(members: &[Member]) -> (Array, ArrayView, Shape) {
    array_of(members, 2)
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
    // The last-named member was alone with its label.
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
    // Where nothing shows which label counts, none is believed.
    put(0, next(0b101, 0));
    put(1, next(0b110, 1));
    let refused = opened(&[&members[0], &members[1]]).err();
    assert!(matches!(refused, Some(JoinError::Split { .. })), "{refused:?}");
}

#[test]
fn regression_a_label_is_never_written_over_the_newest_of_a_member() {
    let members = members(3);
    drop(array(&members));
    // The power failed during the last label: one member has it, on the others that place is torn.
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
    // A replaced member returns, which requires a new label, and the power fails during that label too.
    let blank = Member::new("blank", MEMBER_BYTES, true, 9);
    for seed in 0..20 {
        let saved: Vec<Vec<u8>> = members.iter().map(|member| member.medium().durable.clone()).collect();
        let joined = opened(&[&members[0], &members[2], &blank]).unwrap();
        joined.view.members().begin();
        let mut array = joined.array;
        for _ in 0..seed {
            Device::poll(&mut array, &mut Vec::new());
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

#[test]
fn regression_reads_that_fail_while_logs_are_read_cost_nothing_that_is_durable() {
    let members = members(3);
    let (mut array, _, shape) = array(&members);
    // The parity of an incomplete row covers nothing.
    write(&mut array, &shape, 0, 1, 1);
    assert!(run(&mut array, 0, Op::Flush).result.is_ok());
    drop(array);
    let saved: Vec<Vec<u8>> = members.iter().map(|member| member.medium().durable.clone()).collect();
    for before in 0..8 {
        for failing in [1, 3, 20, 200, 2000] {
            for (member, saved) in members.iter().zip(&saved) {
                member.medium().durable.clone_from(saved);
                (member.medium().reads_before, member.medium().fails_reads) = (before, failing);
            }
            // A refused opening changes nothing.
            if let Ok(Joined { mut array, view, .. }) = opened(&[&members[0], &members[1], &members[2]]) {
                members.iter().for_each(|member| member.medium().fails_reads = 0);
                view.members().begin();
                pass(&mut array, &view, 60);
                assert!(run(&mut array, 0, Op::Flush).result.is_ok());
            }
            members.iter().for_each(|member| (member.medium().fails_reads, member.medium().reads_before) = (0, 0));
            assert_survives_any_one(&members, &shape, &[(0, 1)]);
        }
    }
}

#[test]
fn regression_a_member_that_stays_away_after_a_failed_flush_is_left_behind() {
    for is_gone in [true, false] {
        let members = members(3);
        let (mut array, view, shape) = array(&members);
        write(&mut array, &shape, 0, 1, 1);
        assert!(run(&mut array, 0, Op::Flush).result.is_ok());
        write(&mut array, &shape, 1, 2, 2);
        members.iter().for_each(|member| member.medium().fails_flush = true);
        (members[2].medium().is_gone, members[2].medium().dies_with_flush) = (is_gone, true);
        assert!(run(&mut array, 0, Op::Flush).result.is_err());
        pass(&mut array, &view, 40);
        assert_eq!(view.members().status().broken, None, "gone: {is_gone}");
        assert_eq!(states(&view), [MemberState::InSync, MemberState::InSync, MemberState::Out]);
        write(&mut array, &shape, 1, 2, 2);
        assert!(run(&mut array, 0, Op::Flush).result.is_ok());
    }
}

#[test]
fn regression_a_cable_that_is_out_for_seconds_costs_no_member_and_no_entry_of_the_log() {
    for lost in [None, Some(0), Some(1), Some(2)] {
        let members = members(3);
        let (mut array, view, shape) = array(&members);
        write(&mut array, &shape, 0, 1, 1);
        if let Some(lost) = lost {
            members[lost].medium().is_dead = true;
        }
        assert!(run(&mut array, 0, Op::Flush).result.is_ok());
        let before = states(&view);
        members.iter().for_each(|member| member.medium().fails_flush = true);
        assert!(run(&mut array, 0, Op::Flush).result.is_err());
        members.iter().for_each(|member| member.medium().is_dead = true);
        pass(&mut array, &view, 8);
        let back = (0..3).filter(|number| Some(*number) != lost);
        back.for_each(|number| members[number].medium().is_dead = false);
        pass(&mut array, &view, 20);
        assert_eq!((states(&view), view.members().status().broken), (before, None), "without {lost:?}");
        assert!(run(&mut array, 0, Op::Flush).result.is_ok());
        assert_eq!(read(&mut array, shape.head_bytes, 0), Some(content(0, 1)), "without {lost:?}");
    }
}

#[test]
fn regression_a_place_of_the_log_that_cannot_be_written_does_not_end_writes() {
    for seed in 0..6 {
        let members = members(3);
        let (mut array, view, shape) = array(&members);
        assert!(run(&mut array, 0, Op::Flush).result.is_ok());
        members[seed % 3].medium().is_dead = true;
        assert!(run(&mut array, 0, Op::Flush).result.is_ok());
        pass(&mut array, &view, 2);
        let others: Vec<usize> = (0..3).filter(|number| *number != seed % 3).collect();
        // A place in use keeps its entry.
        write(&mut array, &shape, 0, 1, 1);
        assert!(run(&mut array, 0, Op::Flush).result.is_ok());
        for number in &others {
            let blocks = shape.head_bytes / BLOCK..(shape.head_bytes + u64::from(shape.log_slots) * 8192) / BLOCK;
            let medium = members[*number].medium();
            let in_use = |block: &u64| medium.durable[(block * BLOCK) as usize..][..4].iter().any(|&byte| byte != 0);
            let in_use: Vec<u64> = blocks.filter(in_use).collect();
            drop(medium);
            members[*number].medium().unwritable.extend(in_use);
        }
        // The complete row no longer needs its log entry; later rows take a log place each for a while.
        let mut wanted = vec![(0, 1)];
        for row in 0..20 {
            for block in [row * 2, row * 2 + 1].into_iter().skip(usize::from(row == 0)) {
                write(&mut array, &shape, block, 1, 2);
                wanted.push((block, 2));
            }
            assert!(run(&mut array, 0, Op::Flush).result.is_ok());
            pass(&mut array, &view, 1);
        }
        // The row is overwritten, which that log entry must not undo.
        let band = shape.band_bytes;
        let discard = Op::Discard { len_bytes: band };
        assert!(run(&mut array, shape.head_bytes, discard).result.is_ok());
        pass(&mut array, &view, 5);
        wanted.retain(|(block, _)| *block >= 42);
        write(&mut array, &shape, 0, 42, 3);
        wanted.extend((0..42).map(|block| (block, 3)));
        assert!(run(&mut array, 0, Op::Flush).result.is_ok());
        assert_eq!(view.members().status().broken, None);
        drop(array);
        members.iter().for_each(Member::cut);
        for _ in 0..2 {
            let there: Vec<&Member> = others.iter().map(|number| &members[*number]).collect();
            let Joined { mut array, view, .. } = opened(&there).unwrap();
            view.members().begin();
            pass(&mut array, &view, 40);
            assert!(run(&mut array, 0, Op::Flush).result.is_ok());
            for &(block, tag) in &wanted {
                let read = read(&mut array, shape.head_bytes + block * BLOCK, 0);
                assert!(read == Some(content(block, tag)), "seed {seed}, block {block}");
            }
        }
    }
}

#[test]
fn regression_a_rebuild_copies_what_each_of_two_members_cannot_read_alone() {
    let members = members(3);
    let (mut array, view, _) = array(&members);
    let bytes: Vec<u8> = (10..30).flat_map(|block| content(block, 1)).collect();
    let bufs = Vectored::One(Buf::copy_of(&bytes).freeze());
    assert!(run(&mut array, 10 * BLOCK, Op::Write { bufs, fua: false }).result.is_ok());
    members[2].medium().is_dead = true;
    assert!(run(&mut array, 0, Op::Flush).result.is_ok());
    pass(&mut array, &view, 2);
    for (number, block) in [(0, 12), (1, 22)] {
        let (member, at) = place(&members[number..=number], &content(block, 1));
        members[number + member].medium().dead_blocks.insert(at / BLOCK);
    }
    let blank = Member::new("blank", MEMBER_BYTES, true, 9);
    view.members().offer("blank".to_owned(), [99; 16], blank.boxed(), None).unwrap();
    pass(&mut array, &view, 60);
    assert_eq!(states(&view), [MemberState::InSync; 3]);
    assert_eq!(view.members().status().unreadable_blocks, 0);
    for block in 10..30 {
        place(std::slice::from_ref(&blank), &content(block, 1));
    }
}

#[test]
fn regression_a_read_that_fails_once_while_a_row_is_made_whole_is_not_made_up_for_with_old_parity() {
    for seed in 0..40 {
        let members: Vec<Member> =
            (0..3).map(|number| Member::new(&format!("m{number}"), MEMBER_BYTES, true, seed * 3 + number)).collect();
        let (mut array, _, shape) = array(&members);
        write(&mut array, &shape, 0, 1, 1);
        assert!(run(&mut array, 0, Op::Flush).result.is_ok());
        write(&mut array, &shape, 1, 1, 1);
        drop(array);
        members.iter().for_each(Member::cut);
        // Its parity may be old although the block is there.
        let holder = members
            .iter()
            .find(|member| member.medium().durable.chunks_exact(BLOCK as usize).any(|block| block == content(1, 1)));
        let Some(holder) = holder else { continue };
        let Joined { mut array, view, .. } = opened(&[&members[0], &members[1], &members[2]]).unwrap();
        holder.medium().fails_reads = 1;
        view.members().begin();
        pass(&mut array, &view, 10);
        holder.medium().fails_reads = 0;
        assert!(run(&mut array, 0, Op::Flush).result.is_ok());
        assert_survives_any_one(&members, &shape, &[(0, 1), (1, 1)]);
    }
}
