//! Answers that a healthy kernel gives rarely: short counts, interruptions, refusals.

use super::transfer::{Next, Step, Transfer};
use super::*;
use forebay_block::Random;
use forebay_block::{Buf, Op, Vectored};
use std::sync::atomic::{AtomicBool, Ordering};

const LEN: usize = 64 << 10;
const OFFSET: u64 = 8192;

fn medium(direct: bool, block_device: bool) -> Medium {
    Medium { block_device, direct, memory_align_bytes: 512, logical_block_bytes: 512, streams: 0, writes_through: None }
}

fn transfer(op: Op, medium: Medium) -> Transfer {
    Transfer::new(Request { tag: 1, offset_bytes: OFFSET, stream: 0, op }, LEN as u64, medium)
}

fn parts(random: &mut Random, aligned: bool) -> Vec<Buf> {
    let mut rest = Buf::zeroed(LEN);
    let mut parts = Vec::new();
    while rest.len() > 1024 && parts.len() < 20 {
        let unit = if aligned { 512 } else { 1 };
        let at = unit * random.index((rest.len() / unit).min(9000 / unit));
        let tail = rest.split_off(at);
        parts.push(std::mem::replace(&mut rest, tail));
    }
    parts.push(rest);
    parts
}

/// Moves up to `count` bytes between the transfer's vectors and `disk`, as the kernel would.
fn kernel(transfer: &Transfer, disk: &mut [u8], at: u64, count: usize, write: bool) -> i32 {
    let mut moved = 0;
    for vector in transfer.vectors() {
        let len = vector.iov_len.min(count - moved);
        let place = (at as usize) + moved;
        // SAFETY: the vector leads into a live buffer of the transfer, at least `len` bytes long.
        let memory = unsafe { std::slice::from_raw_parts_mut(vector.iov_base.cast::<u8>(), len) };
        if write {
            disk[place..place + len].copy_from_slice(memory);
        } else {
            memory.copy_from_slice(&disk[place..place + len]);
        }
        moved += len;
    }
    moved as i32
}

#[test]
fn short_transfers_are_continued_where_they_stopped() {
    let mut random = Random::new(3);
    let pattern: Vec<u8> = (0..LEN).map(|_| random.next_u64() as u8).collect();
    for round in 0..200 {
        let (write, direct) = (round % 2 == 0, round % 4 < 2);
        let medium = medium(direct, false);
        let mut disk = vec![0u8; OFFSET as usize + LEN];
        let mut bufs = parts(&mut random, round % 3 == 0);
        let op = if write {
            let mut at = 0;
            for buf in &mut bufs {
                let len = buf.len();
                buf.copy_from_slice(&pattern[at..at + len]);
                at += len;
            }
            Op::Write { bufs: Vectored::Many(bufs.into_iter().map(Buf::freeze).collect()), fua: true }
        } else {
            disk[OFFSET as usize..].copy_from_slice(&pattern);
            Op::read(Vectored::Many(bufs))
        };
        let mut transfer = transfer(op, medium);
        let result = loop {
            let offset_bytes = match transfer.step() {
                Step::Read { offset_bytes } if !write => offset_bytes,
                Step::Write { offset_bytes, dsync: true, .. } if write => offset_bytes,
                step => panic!("{step:?}"),
            };
            let answer = match random.below(5) {
                0 => -libc::EINTR,
                1 => -libc::EAGAIN,
                _ if direct => kernel(&transfer, &mut disk, offset_bytes, 512 * (1 + random.index(20)), write),
                _ => kernel(&transfer, &mut disk, offset_bytes, 1 + random.index(9000), write),
            };
            if let Next::Done(result) = transfer.answer(answer) {
                break result;
            }
        };
        assert_eq!(result, Ok(()));
        let completion = transfer.finish(result);
        if write {
            assert!(disk[OFFSET as usize..] == pattern);
        } else {
            let bytes: Vec<u8> = completion.bufs.unwrap().as_slice().iter().flat_map(|buf| buf.to_vec()).collect();
            assert!(bytes == pattern);
        }
    }
}

fn ends_with(op: Op, medium: Medium, answers: &[i32]) -> Option<Result<(), IoError>> {
    let mut transfer = transfer(op, medium);
    for &answer in answers {
        let _ = transfer.step();
        if let Next::Done(result) = transfer.answer(answer) {
            return Some(result);
        }
    }
    None
}

fn read() -> Op {
    Op::read(Vectored::One(Buf::new(LEN)))
}

#[test]
fn regression_changes_are_flushed_where_nobody_else_does() {
    static IS_ON: AtomicBool = AtomicBool::new(true);
    let medium = Medium { writes_through: Some(&IS_ON), ..medium(true, true) };
    let write = |fua| Op::Write { bufs: Vectored::One(Buf::zeroed(LEN).freeze()), fua };
    // (request, answers before the flush, whether a flush follows)
    let cases = [
        (write(false), vec![LEN as i32], true),
        (write(true), vec![LEN as i32], false),
        (Op::WriteZeroes { len_bytes: LEN as u64 }, vec![0], true),
        (Op::WriteZeroes { len_bytes: LEN as u64 }, vec![-libc::EOPNOTSUPP, LEN as i32], true),
        (Op::Discard { len_bytes: LEN as u64 }, vec![0], false),
        (read(), vec![LEN as i32], false),
    ];
    for (op, answers, is_flushed) in cases {
        let said = format!("{op:?}").chars().take(40).collect::<String>();
        let mut transfer = transfer(op, medium);
        let mut next = Next::Again;
        for answer in answers {
            assert!(matches!(next, Next::Again), "{said}");
            assert!(!matches!(transfer.step(), Step::Sync), "{said}");
            next = transfer.answer(answer);
        }
        assert_eq!(matches!(next, Next::Again), is_flushed, "{said}");
        if is_flushed {
            assert!(matches!(transfer.step(), Step::Sync), "{said}");
            let Next::Done(Err(error)) = transfer.answer(-libc::EIO) else { panic!("{said}: a failed flush was good") };
            assert_eq!(error.kind, IoErrorKind::Medium);
        }
    }
    // The setting at the end of the write counts: a flush that followed the switch may have come before this write.
    IS_ON.store(false, Ordering::Release);
    let mut late = transfer(write(false), medium);
    assert!(matches!(late.step(), Step::Write { .. }));
    IS_ON.store(true, Ordering::Release);
    assert!(matches!(late.answer(LEN as i32), Next::Again));
    assert!(matches!(late.step(), Step::Sync));
}

#[test]
fn errors_are_distinguished_and_say_where() {
    let kind = |answers: &[i32]| ends_with(read(), medium(true, false), answers).unwrap().unwrap_err();
    assert_eq!(kind(&[-libc::EIO]).kind, IoErrorKind::Medium);
    assert_eq!(kind(&[-libc::ENODEV]).kind, IoErrorKind::Gone);
    assert_eq!(kind(&[-libc::ENXIO]).kind, IoErrorKind::Gone);
    assert_eq!(kind(&[-libc::ENOSPC]).kind, IoErrorKind::NoSpace);
    let short = kind(&[4096, 0]);
    assert_eq!((short.kind, short.offset_bytes, short.operation), (IoErrorKind::Short, OFFSET + 4096, "read"));
    assert_eq!(kind(&[700]).kind, IoErrorKind::Short);
    let late = kind(&[4096, -libc::EIO]);
    assert_eq!((late.offset_bytes, late.os_error), (OFFSET + 4096, libc::EIO));
    // The number of retries is limited.
    assert_eq!(kind(&[-libc::EAGAIN; 10_001]).kind, IoErrorKind::Medium);
    assert!(ends_with(read(), medium(true, false), &[-libc::EAGAIN; 9_999]).is_none());
}

#[test]
fn zeroing_falls_back_to_writing_and_discarding_to_nothing() {
    let zero = || Op::WriteZeroes { len_bytes: LEN as u64 };
    let discard = || Op::Discard { len_bytes: LEN as u64 };
    let no = -libc::EOPNOTSUPP;
    let mut falling = transfer(zero(), medium(true, false));
    assert!(matches!(falling.step(), Step::Allocate { mode, .. } if mode & libc::FALLOC_FL_ZERO_RANGE != 0));
    assert!(matches!(falling.answer(no), Next::Again));
    assert!(matches!(falling.step(), Step::Allocate { mode, .. } if mode & libc::FALLOC_FL_PUNCH_HOLE != 0));
    assert!(matches!(falling.answer(no), Next::Again));
    let Step::Write { offset_bytes: OFFSET, .. } = falling.step() else { panic!("no write") };
    assert_eq!(falling.vectors()[0].iov_len, LEN);
    assert!(matches!(falling.answer(LEN as i32 - 512), Next::Again));
    assert!(matches!(falling.step(), Step::Write { offset_bytes, .. } if offset_bytes == OFFSET + LEN as u64 - 512));
    assert_eq!(falling.vectors()[0].iov_len, 512);
    assert!(matches!(falling.answer(512), Next::Done(Ok(()))));

    assert_eq!(ends_with(discard(), medium(true, false), &[no]), Some(Ok(())));
    assert_eq!(ends_with(discard(), medium(true, true), &[-libc::EINVAL, no]), Some(Ok(())));
    assert_eq!(ends_with(discard(), medium(true, true), &[-libc::EINVAL, 0]), Some(Ok(())));
    // A write that fails for another reason fails for good.
    for os_error in [libc::EIO, libc::ENOSPC] {
        assert!(ends_with(zero(), medium(true, false), &[-os_error]).unwrap().is_err());
        assert!(ends_with(discard(), medium(true, true), &[-os_error]).unwrap().is_err());
    }
    // A device that is gone must not be taken for one without discards.
    let gone = ends_with(discard(), medium(true, true), &[-libc::ENODEV, -libc::ENODEV]).unwrap().unwrap_err();
    assert_eq!(gone.kind, IoErrorKind::Gone);
}
