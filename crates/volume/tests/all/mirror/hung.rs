//! Members that fail some requests and never answer others.

use super::disk::{Disk, Fate};
use super::{FAST_BYTES, Served, three};
use forebay_block::Buf;
use forebay_volume::Op;
use forebay_volume::mirror::MemberState;

/// A mirror of which the second member is being rebuilt, slowly, hangs with a copy in flight, and then fails a write.
fn hung() -> (Served, [Disk; 3]) {
    let [a, b, c] = three(10);
    let mut served = Served::open(&[&a], &c);
    served.write(1, 7);
    served.close();
    let mut served = Served::open(&[&a, &b], &c);
    served.view.set_rebuild_rate(4 << 20);
    served.turn(30);
    assert_eq!(served.states(), [MemberState::InSync, MemberState::Rebuilding]);
    b.set(Fate::Hangs);
    served.turn(30);
    b.set_for_others(Fate::Fails);
    let mut buf = Buf::zeroed(4096);
    buf.fill(8);
    served.submit(900, 1, Op::Write(buf));
    served.turn(20);
    assert_eq!(served.states(), [MemberState::InSync, MemberState::Out]);
    served.view.set_rebuild_rate(1 << 30);
    (served, [a, b, c])
}

/// A copy that was never answered held up all rebuilds, and writes to its range, though its member had been left behind.
#[test]
fn regression_a_copy_that_is_never_answered_holds_nothing_up() {
    let (mut served, [a, _, c]) = hung();
    // Over all of the fast tier.
    for block in 0..500 {
        served.write(block, block as u8);
    }
    let other = Disk::new("d", FAST_BYTES);
    served.view.offer("d".into(), [99; 16], other.boxed(), None).unwrap();
    served.until_rebuilt();
    served.close();
    drop(a);
    let mut served = Served::open(&[&other], &c);
    for block in 0..500 {
        assert!(served.read(block, 1).iter().all(|&byte| byte == block as u8), "block {block}");
    }
}

/// A device that was offered again under the name of one that hangs kept all others waiting.
#[test]
fn regression_an_offer_that_has_to_wait_keeps_no_other_waiting() {
    let (mut served, [_, b, _]) = hung();
    served.view.offer("b".into(), [98; 16], Disk::new("b", FAST_BYTES).boxed(), None).unwrap();
    served.turn(20);
    assert_eq!(served.states()[1], MemberState::Out, "it may be the same device, of which a write is in flight");
    served.view.offer("d".into(), [99; 16], Disk::new("d", FAST_BYTES).boxed(), None).unwrap();
    served.until_rebuilt();
    assert_eq!(served.view.status().members[1].name, "d");
    // What comes late falls upon nobody.
    b.set(Fate::Good);
    served.write(2, 2);
    assert_eq!(served.states(), [MemberState::InSync; 2]);
    served.close();
}
