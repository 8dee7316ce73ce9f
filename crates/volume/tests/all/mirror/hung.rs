//! Members that fail some requests and never answer others.

use super::disk::{Disk, Fate, QUEUE};
use super::{FAST_BYTES, Served, three};
use forebay_block::Buf;
use forebay_volume::mirror::MemberState;
use forebay_volume::{Op, Outcome};

/// A mirror whose second member is being rebuilt slowly, hangs with a copy in flight, and then fails a write.
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

/// A copy that was never answered blocked all rebuilds and the writes to its range, though its member had been left behind.
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

/// A device offered again under the name of a hanging one blocked all others.
#[test]
fn regression_an_offer_that_has_to_wait_keeps_no_other_waiting() {
    let (mut served, [_, b, _]) = hung();
    served.view.offer("b".into(), [98; 16], Disk::new("b", FAST_BYTES).boxed(), None).unwrap();
    served.turn(20);
    assert_eq!(served.states()[1], MemberState::Out, "it may be the same device, of which a write is in flight");
    served.view.offer("d".into(), [99; 16], Disk::new("d", FAST_BYTES).boxed(), None).unwrap();
    served.until_rebuilt();
    assert_eq!(served.view.status().members[1].name, "d");
    // Late completions are ignored.
    b.set(Fate::Good);
    served.write(2, 2);
    assert_eq!(served.states(), [MemberState::InSync; 2]);
    served.close();
}

/// Reads of a member that was left behind waited for it: those in flight until it answered, if ever, and those behind them in its queue.
#[test]
fn regression_reads_of_a_member_that_is_left_behind_are_of_another() {
    const BLOCKS: u64 = 400;
    let [a, b, c] = three(10);
    let mut served = Served::open(&[&a, &b], &c);
    // Blocks that are adjacent on the disk are not on the device: reads of several blocks have several parts.
    for block in (0..BLOCKS).chain((0..BLOCKS).step_by(2)) {
        served.write(block, block as u8);
    }
    b.set(Fate::HangsReads);
    // Some of several blocks; there is room for the write that it fails.
    let (mut hang, mut asked, mut lengths) = (0, 0, 0);
    for block in (0..BLOCKS - 4).step_by(4) {
        let blocks = 1 + block % 3;
        if asked + blocks < QUEUE as u64 {
            served.submit(block, blocks, Op::Read);
            let hangs = served.turn(5).0 == 0;
            (hang, asked) = (hang + usize::from(hangs), asked + if hangs { blocks } else { 0 });
        }
    }
    assert!(hang > 1 && asked > QUEUE as u64 / 2, "{hang} reads of {asked} blocks");
    b.set_for_others(Fate::Fails);
    let mut buf = Buf::zeroed(4096);
    buf.fill(8);
    served.submit(BLOCKS, 1, Op::Write(buf));
    let (mut done, mut writes) = (Vec::new(), 0);
    for _ in 0..50 {
        served.now_ns += 10_000_000;
        served.pool.tick(served.now_ns);
        served.pool.poll(&mut done);
    }
    assert_eq!(done.len(), hang + 1);
    for completion in done {
        match completion.result.unwrap() {
            Outcome::Data(data) => {
                assert!((4096..=3 * 4096).contains(&data.len()) && data.len() % 4096 == 0, "{} bytes", data.len());
                let is_next = |(at, block): (usize, &[u8])| block.iter().all(|&byte| byte == data[0] + at as u8);
                assert!(data.chunks_exact(4096).enumerate().all(is_next));
                lengths += data.len() / 4096;
            }
            _ => writes += 1,
        }
    }
    assert_eq!((lengths as u64, writes), (asked, 1));
    assert_eq!(served.states(), [MemberState::InSync, MemberState::Out]);
    // Late completions must not be taken for those of other requests.
    b.set(Fate::Good);
    for block in 0..BLOCKS {
        assert!(served.read(block, 1).iter().all(|&byte| byte == block as u8), "block {block}");
    }
    served.close();
}

/// A broken member returns no buffers: its reads failed, although other members had the data.
#[test]
fn regression_reads_of_a_member_that_gives_no_buffers_back_are_of_another() {
    let [a, b, c] = three(10);
    let mut served = Served::open(&[&a, &b], &c);
    for block in (0..40).chain((0..40).step_by(2)) {
        served.write(block, block as u8);
    }
    b.set(Fate::BreaksReads);
    for block in 0..37 {
        let data = served.read(block, 3);
        let is_block = |(at, bytes): (usize, &[u8])| bytes.iter().all(|&byte| byte == block as u8 + at as u8);
        assert!(data.chunks_exact(4096).enumerate().all(is_block), "block {block}");
    }
    b.set(Fate::Good);
    served.close();
}

/// A device with writes in flight was accepted for another place at once, after another device had replaced it: the writes in flight would
/// have overwritten the data copied to it.
#[test]
fn regression_a_device_that_has_not_answered_takes_no_other_place() {
    let [a, b, c] = three(10);
    let [d, e] = ["d", "e"].map(|name| Disk::new(name, FAST_BYTES));
    let mut served = Served::open(&[&a, &b, &d], &c);
    served.until_rebuilt();
    let filled = |byte| {
        let mut buf = Buf::zeroed(4096);
        buf.fill(byte);
        Op::Write(buf)
    };
    b.set(Fate::Hangs);
    served.submit(1, 1, filled(1));
    served.turn(5);
    b.set_for_others(Fate::Fails);
    served.submit(2, 1, filled(2));
    served.turn(20);
    assert_eq!(served.states()[1], MemberState::Out);
    served.view.offer("e".into(), [98; 16], e.boxed(), None).unwrap();
    served.until_rebuilt();
    d.set(Fate::Fails);
    served.write(3, 3);
    assert_eq!(served.states()[2], MemberState::Out);
    served.view.offer("b".into(), [99; 16], b.boxed(), None).unwrap();
    b.set_for_others(Fate::Good);
    served.turn(50);
    assert_eq!(served.states()[2], MemberState::Out, "its old writes are in flight");
    b.set(Fate::Good);
    served.until_rebuilt();
    served.close();
}

/// Of two devices offered for one place one was dropped, but both were reported as becoming members.
#[test]
fn regression_a_device_that_has_no_place_is_not_said_to_become_a_member() {
    let (mut served, _) = hung();
    let offer = |served: &Served, name: &str, id: u8| {
        let disk = Disk::new(name, FAST_BYTES);
        served.view.offer(name.into(), [id; 16], disk.boxed(), None)
    };
    // The place waits for the device with this name.
    offer(&served, "b", 97).unwrap();
    served.turn(20);
    assert_eq!(served.states()[1], MemberState::Out);
    offer(&served, "d", 98).unwrap();
    assert!(offer(&served, "e", 99).is_err());
    served.until_rebuilt();
    assert_eq!(served.view.status().members[1].name, "d");
    assert_eq!(served.view.take_not_taken(), ["b"]);
    assert!(offer(&served, "e", 100).is_err());
    served.close();
}

/// A member that was left behind and never answers was waited for: every wait of an opening ran into its timeout.
#[test]
fn regression_a_member_that_is_left_behind_is_not_waited_for() {
    let (mut served, [_, b, _]) = hung();
    let before = b.bytes().waits;
    served.pool.devices.list[0].wait(1);
    assert_eq!(b.bytes().waits, before);
}

/// The clock stepped back by an hour: members waited until it reached their last time again, and arrays answered nothing meanwhile.
#[test]
fn regression_members_do_not_wait_for_a_clock_that_stepped_back() {
    const HOUR_NS: u64 = 3_600_000_000_000;
    let [a, b, c] = three(10);
    let mut served = Served::open(&[&a], &c);
    served.write(1, 7);
    served.close();
    let mut served = Served::open(&[&a, &b], &c);
    served.view.set_rebuild_rate(4 << 20);
    served.now_ns += 2 * HOUR_NS;
    served.turn(3);
    assert_eq!(served.states(), [MemberState::InSync, MemberState::Rebuilding]);
    served.now_ns -= HOUR_NS;
    served.until_rebuilt();
}
