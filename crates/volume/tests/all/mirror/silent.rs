//! Members that do not answer for a minute.

use super::disk::Fate;
use super::{Served, joined, three};
use forebay_block::Buf;
use forebay_volume::Op;
use forebay_volume::mirror::{JoinError, MemberState};

/// Ticks for this many seconds.
const SECOND: u32 = 100;

fn begin_write(served: &mut Served, block: u64, byte: u8) {
    let mut buf = Buf::zeroed(4096);
    buf.fill(byte);
    served.submit(block, 1, Op::Write(buf));
    served.submit(0, 0, Op::Flush);
}

/// A hanging member was waited for as long as it hung: a pool with another member stood still.
#[test]
fn regression_a_member_that_never_answers_is_left_behind() {
    let [a, b, c] = three(10);
    let mut served = Served::open(&[&a, &b], &c);
    served.write(1, 7);
    b.set(Fate::Hangs);
    begin_write(&mut served, 1, 8);
    // The write may be answered, the flush may not.
    let (early, _) = served.turn(58 * SECOND);
    assert!(early < 2, "the kernel may get it to answer");
    assert_eq!(served.turn(5 * SECOND), (2 - early, true));
    assert_eq!(served.states(), [MemberState::InSync, MemberState::Out]);
    assert_eq!(served.view.status().members[1].why.as_deref(), Some("it has not answered a request for 60 s"));
    served.write(2, 9);
    // Late completions are ignored.
    b.set(Fate::Good);
    served.write(3, 9);
    served.close();
    assert!(matches!(joined(&[&b], &c), Err(JoinError::Stale { .. })));
    let mut served = Served::open(&[&a], &c);
    assert_eq!((served.read(1, 1)[0], served.read(2, 1)[0]), (8, 9));
    served.close();
}

#[test]
fn reads_that_a_silent_member_was_asked_for_are_of_another() {
    let mut left_behind = 0;
    for reads_of in 0..2 {
        let [a, b, c] = three(10);
        let mut served = Served::open(&[&a, &b], &c);
        served.write(1, 7);
        let hung = [&a, &b][reads_of];
        hung.set(Fate::HangsReads);
        (0..4).for_each(|_| served.submit(1, 1, Op::Read));
        assert_eq!(served.turn(65 * SECOND), (4, true));
        let mut states = [MemberState::InSync; 2];
        // All first reads of one place go to one member.
        if hung.bytes().has_waiting() {
            states[reads_of] = MemberState::Out;
            left_behind += 1;
        }
        assert_eq!(served.states(), states);
        served.close();
    }
    assert_eq!(left_behind, 1);
}

/// Where no other member answers either, a common cause is assumed and waited for.
#[test]
fn members_that_are_silent_together_are_waited_for() {
    let [a, b, c] = three(10);
    let mut served = Served::open(&[&a, &b], &c);
    served.write(1, 7);
    [&a, &b].iter().for_each(|member| member.set(Fate::Hangs));
    begin_write(&mut served, 1, 8);
    let (early, _) = served.turn(200 * SECOND);
    assert!(early < 2);
    [&a, &b].iter().for_each(|member| member.set(Fate::Good));
    assert_eq!(served.turn(SECOND), (2 - early, true));
    assert_eq!(served.states(), [MemberState::InSync; 2]);
    served.close();
}
