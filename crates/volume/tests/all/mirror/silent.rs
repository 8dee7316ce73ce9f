//! Members that do not answer a write for three minutes.

use super::disk::Fate;
use super::{Served, joined, three};
use forebay_block::Buf;
use forebay_volume::Op;
use forebay_volume::mirror::{JoinError, MemberState};

/// Ticks in which a second passes.
const SECOND: u32 = 100;

fn begin_write(served: &mut Served, block: u64, byte: u8) {
    let mut buf = Buf::zeroed(4096);
    buf.fill(byte);
    served.submit(block, 1, Op::Write(buf));
    served.submit(0, 0, Op::Flush);
}

/// A member that hung was waited for as long as it hung: a pool that had another member stood still.
#[test]
fn regression_a_member_that_never_answers_is_left_behind() {
    let [a, b, c] = three(10);
    let mut served = Served::open(&[&a, &b], &c);
    served.write(1, 7);
    b.set(Fate::Hangs);
    begin_write(&mut served, 1, 8);
    // The write may be answered, the flush may not.
    let (early, _) = served.turn(178 * SECOND);
    assert!(early < 2, "the kernel may get the member to answer");
    assert_eq!(served.turn(6 * SECOND), (2 - early, true));
    assert_eq!(served.states(), [MemberState::InSync, MemberState::Out]);
    let why = served.view.status().members[1].why.clone();
    assert_eq!(why.as_deref(), Some("it has not answered a write or a flush for 180 s"));
    served.write(2, 9);
    // Answers that come late have no effect.
    b.set(Fate::Good);
    served.write(3, 9);
    served.close();
    assert!(matches!(joined(&[&b], &c), Err(JoinError::Stale { .. })));
    let mut served = Served::open(&[&a], &c);
    assert_eq!((served.read(1, 1)[0], served.read(2, 1)[0]), (8, 9));
    served.close();
}

/// Where no other member answers, the cause is what they have in common, and they are waited for.
#[test]
fn members_that_are_silent_together_are_waited_for() {
    let [a, b, c] = three(10);
    let mut served = Served::open(&[&a, &b], &c);
    served.write(1, 7);
    [&a, &b].iter().for_each(|member| member.set(Fate::Hangs));
    begin_write(&mut served, 1, 8);
    let (early, _) = served.turn(400 * SECOND);
    assert!(early < 2);
    [&a, &b].iter().for_each(|member| member.set(Fate::Good));
    assert_eq!(served.turn(SECOND), (2 - early, true));
    assert_eq!(served.states(), [MemberState::InSync; 2]);
    served.close();
}

/// A member that is dead fails at once, and had nothing in flight: it counted as one that answers, the silent one was left behind, and the mirror had nobody
/// left when that one came back.
#[test]
fn regression_a_dead_member_is_not_counted_on_when_another_is_silent() {
    for dead in [Fate::Away, Fate::Fails] {
        let [a, b, c] = three(10);
        let mut served = Served::open(&[&a, &b], &c);
        served.write(1, 7);
        b.set(dead);
        a.set(Fate::Hangs);
        begin_write(&mut served, 1, 8);
        served.turn(400 * SECOND);
        a.set(Fate::Good);
        served.turn(10 * SECOND);
        assert_eq!(served.view.status().broken, None);
        assert_eq!(served.states(), [MemberState::InSync, MemberState::Out]);
        served.write(2, 9);
        served.close();
        let mut served = Served::open(&[&a], &c);
        assert_eq!((served.read(1, 1)[0], served.read(2, 1)[0]), (8, 9));
        served.close();
    }
}
