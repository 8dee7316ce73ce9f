//! Front ends on threads of their own, connected to a running server by doors.

use crate::serving::*;
use forebay_block::Buf;
use forebay_export::frontend::Event;
use forebay_export::{DoorSide, FrontRequest, ServerConfig, open_door};
use forebay_volume::{Op, Outcome, RequestError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::BorrowedFd;
use std::time::{Duration, Instant};

const DISK_BYTES: u64 = 1 << 20;

/// Sleeps until the next event of the server.
fn next(side: &mut DoorSide) -> Event {
    let begin = Instant::now();
    loop {
        if let Some(event) = side.pop() {
            return event;
        }
        assert!(!side.is_closed(), "closed");
        assert!(begin.elapsed() < Duration::from_secs(20), "nothing comes");
        if side.may_sleep() {
            // SAFETY: the side owns the descriptor and lives longer than this call.
            let fd = unsafe { BorrowedFd::borrow_raw(side.fd()) };
            // Longer than the server's tick: the door must wake this thread, not the tick.
            let timeout = Timespec { tv_sec: 5, tv_nsec: 0 };
            poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], Some(&timeout)).unwrap();
        }
        side.awake();
    }
}

fn request(token: u16, op: Op, offset_bytes: u64, len_bytes: u64) -> FrontRequest {
    FrontRequest { token, offset_bytes, len_bytes, op, fua: false, hints: None }
}

fn ask(side: &mut DoorSide, request: FrontRequest) -> Result<Outcome, RequestError> {
    let token = request.token;
    side.push(request).unwrap();
    side.knock();
    match next(side) {
        Event::Done(done, result) => {
            assert_eq!(done, token);
            result
        }
        other => panic!("{other:?}"),
    }
}

fn attached(serving: &mut Serving, depth: u16, export: u16) -> DoorSide {
    let (door, side) = open_door(depth).unwrap();
    serving.ask(move |_, server| server.attach(Box::new(door), export)).unwrap();
    side
}

#[test]
fn what_is_written_through_a_door_is_read_through_another_and_neither_waits_for_a_tick() {
    let mut serving = Serving::start("door", ServerConfig::default(), vec![export("e", 1, DISK_BYTES)], false);
    let (mut one, mut other) = (attached(&mut serving, 4, 0), attached(&mut serving, 1, 0));
    let begin = Instant::now();
    for round in 0..200u64 {
        let at = round % 200 * 4096;
        let data = Buf::copy_of(&[round as u8; 4096]);
        assert!(ask(&mut one, request(9, Op::Write(data), at, 4096)).is_ok());
        match ask(&mut other, request(u16::MAX, Op::Read, at, 4096)).unwrap() {
            Outcome::Data(data) => assert!(data.iter().all(|&byte| byte == round as u8)),
            outcome => panic!("{outcome:?}"),
        }
    }
    // 400 requests, one after another: if each waited for a tick of 50 ms, they would take 20 s.
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
    let stats = serving.ask(|_, server| server.stats());
    assert_eq!(
        (stats.sessions.requests, stats.sessions.read_bytes, stats.sessions.written_bytes),
        (400, 819_200, 819_200)
    );
    serving.stop_well();
}

#[test]
fn a_door_takes_as_many_as_it_was_made_for() {
    let mut serving = Serving::start("door-full", ServerConfig::default(), vec![export("e", 1, DISK_BYTES)], false);
    let mut side = attached(&mut serving, 2, 0);
    side.push(request(0, Op::Flush, 0, 0)).unwrap();
    side.push(request(1, Op::Flush, 0, 0)).unwrap();
    assert_eq!(side.push(request(2, Op::Flush, 0, 0)).unwrap_err().0.token, 2);
    side.knock();
    for _ in 0..2 {
        assert!(matches!(next(&mut side), Event::Done(0 | 1, Ok(Outcome::Done))));
    }
    assert!(ask(&mut side, request(2, Op::Flush, 0, 0)).is_ok());
    serving.stop_well();
}

#[test]
fn the_export_judges_and_its_size_is_passed_on() {
    let mut serving = Serving::start("door-judge", ServerConfig::default(), vec![export("e", 1, DISK_BYTES)], false);
    let mut side = attached(&mut serving, 8, 0);
    let beyond = request(3, Op::Read, DISK_BYTES, 4096);
    assert_eq!(ask(&mut side, beyond).unwrap_err(), RequestError::OutOfRange);
    serving.ask(|_, server| server.resize("e", DISK_BYTES / 2)).unwrap();
    assert!(matches!(next(&mut side), Event::Resized(size) if size == DISK_BYTES / 2));
    let beyond = request(3, Op::Read, DISK_BYTES / 2, 4096);
    assert_eq!(ask(&mut side, beyond).unwrap_err(), RequestError::OutOfRange);
    serving.stop_well();
}

#[test]
fn a_removed_export_closes_its_doors_and_a_thread_that_ends_leaves_no_trace() {
    let exports = vec![export("a", 1, DISK_BYTES), export("b", 2, DISK_BYTES)];
    let mut serving = Serving::start("door-end", ServerConfig::default(), exports, false);
    let (mut a, mut b) = (attached(&mut serving, 8, 0), attached(&mut serving, 8, 1));
    assert!(ask(&mut a, request(0, Op::Flush, 0, 0)).is_ok());
    serving.ask(|_, server| server.exports().remove("a")).unwrap();
    let begin = Instant::now();
    while !a.is_closed() {
        assert!(begin.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(ask(&mut b, request(0, Op::Flush, 0, 0)).is_ok());
    b.push(request(1, Op::Flush, 0, 0)).unwrap();
    drop(b);
    // The slot is free for the next front end, whose tokens are not confused with those of the front end before.
    let mut again = attached(&mut serving, 8, 1);
    assert!(ask(&mut again, request(1, Op::Flush, 0, 0)).is_ok());
    serving.stop_well();
}

#[test]
fn a_stop_is_reported_and_what_comes_then_is_refused() {
    let mut serving = Serving::start("door-stop", ServerConfig::default(), vec![export("e", 1, DISK_BYTES)], false);
    let mut side = attached(&mut serving, 8, 0);
    let thread = std::thread::spawn(move || {
        assert!(matches!(next(&mut side), Event::Stopping));
        loop {
            if side.is_closed() {
                return;
            }
            if side.push(request(0, Op::Flush, 0, 0)).is_ok() {
                side.knock();
            }
            match side.pop() {
                Some(Event::Done(0, result)) => assert_eq!(result.unwrap_err(), RequestError::ShuttingDown),
                Some(event) => panic!("{event:?}"),
                None => std::thread::yield_now(),
            }
        }
    });
    assert_eq!(serving.stop_well(), 1, "one disk, one last flush");
    thread.join().unwrap();
}
