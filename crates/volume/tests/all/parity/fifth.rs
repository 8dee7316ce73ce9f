//! Faults that a fifth review found.

use super::faults::{BLOCK, MEMBER_BYTES, array_of, assert_survives_any_one, members, opened, pass, states, write};
use super::member::{Member, read, run};
use super::sixth::{WithStuck, with_stuck};
use super::written::content;
use forebay_block::{Device, Op, Vectored};
use forebay_volume::layout::array_label::OFFSETS_BYTES;
use forebay_volume::layout::array_shape::Shape;
use forebay_volume::mirror::MemberState;
use forebay_volume::parity::Joined;

/// Blocks of a member's log in use.
pub fn log_in_use(member: &Member, shape: &Shape) -> Vec<u64> {
    let medium = member.medium();
    let blocks = shape.head_bytes / BLOCK..(shape.head_bytes + u64::from(shape.log_slots) * 2 * BLOCK) / BLOCK;
    blocks.filter(|block| medium.durable[(block * BLOCK) as usize..][..4].iter().any(|&byte| byte != 0)).collect()
}

/// The member with a block among these, and its place in blocks.
fn find(members: &[Member], left: &[usize], wanted: &[u8]) -> Option<(usize, u64)> {
    left.iter().find_map(|&number| {
        let medium = members[number].medium();
        let at = medium.durable.chunks_exact(BLOCK as usize).position(|block| block == wanted)?;
        Some((number, at as u64))
    })
}

/// Cuts the power, opens the remaining members and completes them.
pub fn opened_again(members: &[Member], left: &[usize]) -> Joined {
    members.iter().for_each(Member::cut);
    let there: Vec<&Member> = left.iter().map(|number| &members[*number]).collect();
    let mut joined = opened(&there).unwrap();
    joined.view.members().begin();
    pass(&mut joined.array, &joined.view, 20);
    assert!(run(&mut joined.array, 0, Op::Flush).result.is_ok());
    joined
}

/// Erasing an older entry of an open row failed once: the entry that replaced it covered nothing and hid the entry that the row depended
/// on.
#[test]
fn regression_what_takes_the_place_of_an_old_entry_hides_none_that_is_needed() {
    for out in 0..4 {
        let WithStuck { members, mut array, view, shape, left } = with_stuck(out);
        pass(&mut array, &view, 1);
        left.iter().for_each(|number| members[*number].medium().unwritable.clear());
        pass(&mut array, &view, 5);
        assert!(run(&mut array, 0, Op::Flush).result.is_ok());
        drop(array);
        let Joined { mut array, .. } = opened_again(&members, &left);
        for block in 0..2 {
            let read = read(&mut array, shape.head_bytes + block * BLOCK, 0);
            assert!(read == Some(content(block, 1)), "block {block} without {out}");
        }
    }
}

/// Log places that a cache showed as erased were forgotten with the second of two failed flushes, and the old entry reappeared over data
/// written since.
#[test]
fn regression_a_second_failed_flush_forgets_no_place_that_is_to_be_erased() {
    for seed in 0..24 {
        let members: Vec<Member> =
            (0..3).map(|number| Member::new(&format!("m{number}"), MEMBER_BYTES, true, seed * 3 + number)).collect();
        let (mut array, view, shape) = array_of(&members, 2);
        write(&mut array, &shape, 0, 1, 1);
        assert!(run(&mut array, 0, Op::Flush).result.is_ok());
        write(&mut array, &shape, 1, 1, 1);
        assert!(run(&mut array, 0, Op::Flush).result.is_ok());
        // The entry is erased, but no flush makes that durable.
        pass(&mut array, &view, 1);
        members.iter().for_each(|member| member.medium().fails_flush = true);
        assert!(run(&mut array, 0, Op::Flush).result.is_err());
        // The array's own flush, once it knows its log again.
        members.iter().for_each(|member| member.medium().fails_flush = true);
        pass(&mut array, &view, 20);
        // The next flush of a host reports it once.
        run(&mut array, 0, Op::Flush);
        assert!(run(&mut array, 0, Op::Flush).result.is_ok());
        let discard = Op::Discard { len_bytes: shape.band_bytes };
        assert!(run(&mut array, shape.head_bytes, discard).result.is_ok());
        pass(&mut array, &view, 5);
        write(&mut array, &shape, 0, 42, 3);
        assert!(run(&mut array, 0, Op::Flush).result.is_ok());
        drop(array);
        drop(opened_again(&members, &[0, 1, 2]));
        let wanted: Vec<(u64, u64)> = (0..42).map(|block| (block, 3)).collect();
        assert_survives_any_one(&members, &shape, &wanted);
    }
}

/// Blocks that a rebuild could not read were skipped, and a start continued behind them: the member counted as in sync without them.
#[test]
fn regression_a_start_goes_back_to_what_a_rebuild_could_not_read() {
    for (steps, before) in (0..40).flat_map(|steps| [8, 24, 40, 80].map(|before| (steps, before))) {
        let members = members(3);
        let (mut array, view, shape) = array_of(&members, 2);
        write(&mut array, &shape, 0, 42 * 8, 1);
        assert!(run(&mut array, 0, Op::Flush).result.is_ok());
        members[2].medium().is_dead = true;
        assert!(run(&mut array, 0, Op::Flush).result.is_ok());
        pass(&mut array, &view, 2);
        let blank = Member::new("blank", MEMBER_BYTES, true, 9);
        view.members().offer("blank".to_owned(), [99; 16], blank.boxed(), None).unwrap();
        (members[0].medium().reads_before, members[0].medium().fails_reads) = (before, 100);
        for _ in 0..steps {
            view.members().tick(pass_ns());
            (0..3).for_each(|_| Device::poll(&mut array, &mut Vec::new()));
        }
        drop(array);
        (members[0].medium().reads_before, members[0].medium().fails_reads) = (0, 0);
        let all = [members[0].clone(), members[1].clone(), blank.clone()];
        let Joined { array, view, .. } = opened_again(&all, &[0, 1, 2]);
        if states(&view) != [MemberState::InSync; 3] {
            // It was not taken in before.
            continue;
        }
        drop(array);
        let wanted: Vec<(u64, u64)> = (0..42 * 8).map(|block| (block, 1)).collect();
        assert_survives_any_one(&all, &shape, &wanted);
    }
}

/// Advances the common clock of all arrays here.
fn pass_ns() -> u64 {
    super::faults::NOW_NS.fetch_add(50_000_000, std::sync::atomic::Ordering::Relaxed)
}

/// A live block in a row could not be written: completing the row overwrote it with zeros.
#[test]
fn regression_filling_a_row_up_keeps_what_could_not_be_written() {
    for out in 0..3 {
        let members = members(3);
        let (mut array, view, shape) = array_of(&members, 2);
        members[out].medium().is_dead = true;
        assert!(run(&mut array, 0, Op::Flush).result.is_ok());
        pass(&mut array, &view, 2);
        let left: Vec<usize> = (0..3).filter(|number| *number != out).collect();
        write(&mut array, &shape, 0, 2, 1);
        assert!(run(&mut array, 0, Op::Flush).result.is_ok());
        // A start, after which the first block is written once more, and cannot be.
        drop(array);
        let Joined { mut array, view, .. } = opened_again(&members, &left);
        let Some((member, at)) = find(&members, &left, &content(0, 1)) else { continue };
        members[member].medium().unwritable.insert(at);
        let bufs = Vectored::One(forebay_block::Buf::copy_of(&content(0, 1)).freeze());
        let result = run(&mut array, shape.head_bytes, Op::Write { bufs, fua: false }).result;
        left.iter().for_each(|number| members[*number].medium().unwritable.clear());
        if result.is_ok() {
            continue;
        }
        let blank = Member::new("blank", MEMBER_BYTES, true, 9);
        view.members().offer("blank".to_owned(), [99; 16], blank.boxed(), None).unwrap();
        pass(&mut array, &view, 60);
        assert!(run(&mut array, 0, Op::Flush).result.is_ok());
        for block in 0..2 {
            let read = read(&mut array, shape.head_bytes + block * BLOCK, 0);
            assert!(read == Some(content(block, 1)), "block {block} without {out}");
        }
    }
}

/// A row was changed in place as soon as the member with its parity had failed to log it, before any label recorded that the member was
/// left behind. A power cut in between left old parity on a member that was believed.
#[test]
fn regression_a_row_is_not_changed_before_the_label_says_who_has_its_parity() {
    for seed in 0..6u64 {
        let member = |number| Member::new(&format!("m{number}"), MEMBER_BYTES, false, seed * 3 + number);
        let members: Vec<Member> = (0..3).map(member).collect();
        let (mut array, _, shape) = array_of(&members, 2);
        write(&mut array, &shape, 0, 1, 1);
        assert!(run(&mut array, 0, Op::Flush).result.is_ok());
        drop(array);
        let Joined { mut array, .. } = opened_again(&members, &[0, 1, 2]);
        for member in &members {
            let log = shape.head_bytes / BLOCK..shape.head_bytes / BLOCK + 2 * u64::from(shape.log_slots);
            // Labels cannot be written for a while, either.
            let labels = OFFSETS_BYTES.map(|at| at / BLOCK);
            member.medium().unwritable.extend(log.chain(labels));
        }
        let bufs = Vectored::One(forebay_block::Buf::copy_of(&content(1, 1)).freeze());
        let op = Op::Write { bufs, fua: false };
        array.submit(forebay_block::Request { tag: 0, offset_bytes: shape.head_bytes + BLOCK, stream: 0, op });
        (0..40).for_each(|_| array.poll(&mut Vec::new()));
        drop(array);
        members.iter().for_each(|member| member.medium().unwritable.clear());
        drop(opened_again(&members, &[0, 1, 2]));
        assert_survives_any_one(&members, &shape, &[(0, 1)]);
    }
}

/// A member that could not read one block was left behind with another that was away, though that one alone was enough.
#[test]
fn regression_one_member_away_costs_no_other_that_cannot_read_a_block() {
    for seed in 0..12u64 {
        let member = |number| Member::new(&format!("m{number}"), MEMBER_BYTES, true, seed * 6 + number);
        let members: Vec<Member> = (0..6).map(member).collect();
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

/// A log place that a member without a volatile cache could not read was never rewritten: it was rebuilt at each start.
#[test]
fn regression_a_bad_place_of_the_log_costs_its_member_one_start_alone() {
    let member = |number| Member::new(&format!("m{number}"), MEMBER_BYTES, false, number);
    let members: Vec<Member> = (0..3).map(member).collect();
    let (mut array, _, shape) = array_of(&members, 2);
    write(&mut array, &shape, 0, 2, 1);
    assert!(run(&mut array, 0, Op::Flush).result.is_ok());
    drop(array);
    members[1].medium().dead_blocks.insert(shape.head_bytes / BLOCK + 100);
    let Joined { mut array, view, .. } = opened_again(&members, &[0, 1, 2]);
    pass(&mut array, &view, 60);
    assert_eq!(states(&view), [MemberState::InSync; 3]);
    drop(array);
    let there: Vec<&Member> = members.iter().collect();
    assert_eq!(states(&opened(&there).unwrap().view), [MemberState::InSync; 3]);
}

/// A single misread while a row was completed was written back, with matching parity.
#[test]
fn regression_a_start_writes_nothing_that_it_has_misread() {
    for seed in 0..24u64 {
        let member = |number| Member::new(&format!("m{number}"), MEMBER_BYTES, true, seed * 3 + number);
        let members: Vec<Member> = (0..3).map(member).collect();
        let (mut array, view, shape) = array_of(&members, 2);
        for block in 0..2 {
            write(&mut array, &shape, block, 1, 1);
            assert!(run(&mut array, 0, Op::Flush).result.is_ok());
        }
        drop((array, view));
        members.iter().for_each(Member::cut);
        let (number, at) = find(&members, &[0, 1, 2], &content(1, 1)).unwrap();
        members[number].medium().misread.insert(at);
        drop(opened_again(&members, &[0, 1, 2]));
        members[number].medium().misread.clear();
        assert_survives_any_one(&members, &shape, &[(0, 1), (1, 1)]);
    }
}

/// A single misread beside a partial write of a row was logged, with matching parity.
#[test]
fn regression_nothing_is_written_beside_what_was_misread() {
    for seed in 0..12u64 {
        let member = |number| Member::new(&format!("m{number}"), MEMBER_BYTES, true, seed * 3 + number);
        let members: Vec<Member> = (0..3).map(member).collect();
        let (mut array, _, shape) = array_of(&members, 2);
        write(&mut array, &shape, 0, 1, 1);
        assert!(run(&mut array, 0, Op::Flush).result.is_ok());
        drop(array);
        let Joined { mut array, .. } = opened_again(&members, &[0, 1, 2]);
        let (number, at) = find(&members, &[0, 1, 2], &content(0, 1)).unwrap();
        members[number].medium().misread.insert(at);
        write(&mut array, &shape, 1, 1, 1);
        assert!(members[number].medium().misread.is_empty());
        assert!(run(&mut array, 0, Op::Flush).result.is_ok());
        drop(array);
        drop(opened_again(&members, &[0, 1, 2]));
        assert_survives_any_one(&members, &shape, &[(0, 1), (1, 1)]);
    }
}

/// Where one log place could not be erased, the whole batch was erased one by one with a flush each, while all writes waited.
#[test]
fn regression_a_place_that_cannot_be_erased_is_found_by_halves() {
    for place in [0, 20, 63] {
        let members = members(3);
        let (mut array, _, shape) = array_of(&members, 2);
        write(&mut array, &shape, 0, 2, 1);
        assert!(run(&mut array, 0, Op::Flush).result.is_ok());
        drop(array);
        members.iter().for_each(Member::cut);
        let block = shape.head_bytes / BLOCK + 2 * place;
        members[0].medium().unwritable.insert(block);
        let Joined { mut array, view, .. } = opened(&[&members[0], &members[1]]).unwrap();
        view.members().begin();
        members[0].medium().flushes = 0;
        pass(&mut array, &view, 40);
        write(&mut array, &shape, 2, 2, 1);
        let flushes = members[0].medium().flushes;
        assert!(flushes < 20, "{flushes} flushes for place {place}");
    }
}

/// Readers of an open row of an absent member passed its lock to each other: the row was not completed, and nothing was written.
#[test]
fn regression_readers_keep_no_row_from_being_made_whole() {
    for out in 0..3 {
        let members = members(3);
        let (mut array, _, shape) = array_of(&members, 2);
        write(&mut array, &shape, 0, 1, 1);
        assert!(run(&mut array, 0, Op::Flush).result.is_ok());
        drop(array);
        members.iter().for_each(Member::cut);
        let there: Vec<&Member> = members.iter().enumerate().filter(|(at, _)| *at != out).map(|(_, one)| one).collect();
        let Joined { mut array, view, .. } = opened(&there).unwrap();
        view.members().begin();
        let read = |array: &mut forebay_volume::parity::Array, tag: u64| {
            let op = Op::Read { bufs: Vectored::One(forebay_block::Buf::new(BLOCK as usize)), attempt: 0 };
            array.submit(forebay_block::Request { tag, offset_bytes: shape.head_bytes, stream: 0, op });
        };
        (1..40).for_each(|tag| read(&mut array, tag));
        let bufs = Vectored::One(forebay_block::Buf::copy_of(&content(2, 1)).freeze());
        let op = Op::Write { bufs, fua: false };
        array.submit(forebay_block::Request { tag: 0, offset_bytes: shape.head_bytes + 2 * BLOCK, stream: 0, op });
        let is_written = (0..2000).any(|_| {
            let mut done = Vec::new();
            array.poll(&mut done);
            done.iter().filter(|completion| completion.tag > 0).for_each(|completion| read(&mut array, completion.tag));
            done.iter().any(|completion| completion.tag == 0 && completion.result.is_ok())
        });
        assert!(is_written, "without {out}");
    }
}

/// A device offered again before it was taken filled the places of two members, each overwriting the other's data.
#[test]
fn regression_a_device_that_is_offered_twice_takes_one_place() {
    let wanted: Vec<(u64, u64)> = (0..42 * 4).map(|block| (block, 1)).collect();
    // Immediately, or while it waits for the rebuild of another one.
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
            // Both have a place, but only the first is rebuilt.
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
