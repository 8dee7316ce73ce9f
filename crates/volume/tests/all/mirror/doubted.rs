//! Members without failed requests that are left behind for their contents.

use super::disk::Fate;
use super::{Served, joined, three};
use forebay_block::Buf;
use forebay_volume::Op;
use forebay_volume::mirror::{JoinError, MemberState};

/// A member wiped under the server answered as before and counted as complete until the next start.
#[test]
fn regression_a_member_is_left_behind_for_what_it_carries() {
    let [a, b, c] = three(10);
    let mut served = Served::open(&[&a, &b], &c);
    served.write(1, 7);
    // With a write in flight that is never answered: nothing waits for it.
    b.set(Fate::Hangs);
    let mut buf = Buf::zeroed(4096);
    buf.fill(8);
    served.submit(2, 1, Op::Write(buf));
    assert_eq!(served.turn(20), (0, true));
    let id = |served: &Served, number: usize| served.view.status().members[number].id;
    let second = id(&served, 1);
    served.view.leave_behind(second, "its superblock at 0 was written over".to_owned());
    assert_eq!(served.turn(20), (1, true));
    assert_eq!(served.states(), [MemberState::InSync, MemberState::Out]);
    assert_eq!(served.view.status().members[1].why.as_deref(), Some("its superblock at 0 was written over"));
    // Repeated reports, as of a periodic check, change nothing; nor does an unknown id.
    let generation = served.view.status().generation;
    served.view.leave_behind(second, String::new());
    served.view.leave_behind([77; 16], String::new());
    // The last complete member is kept.
    let first = id(&served, 0);
    served.view.leave_behind(first, "its label was written over".to_owned());
    served.write(3, 9);
    assert_eq!(served.states(), [MemberState::InSync, MemberState::Out]);
    assert_eq!((served.view.status().generation, served.view.status().broken), (generation, None));
    assert!(served.read(2, 1).iter().all(|&byte| byte == 8));
    served.close();
    b.set(Fate::Good);
    assert!(matches!(joined(&[&b], &c), Err(JoinError::Stale { .. } | JoinError::NoLabel { .. })));
}
