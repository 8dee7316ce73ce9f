//! Sessions: several openings of one target, at once and one after the other, and what remains of earlier ones.

use super::file_tests::Loop;
use super::shared_device::Handle;
use super::tests::{SIZE_BYTES, exercise, file, finish_some, io, options, run};
use super::*;
use crate::RamDevice;
use crate::target::Target;
use forebay_block::{Buf, Completion, Device, Geometry, Op, Random, Request, Vectored};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

fn reading() -> QueueOptions {
    QueueOptions { read_only: true, ..options() }
}

fn open_one(source: &Source, options: &QueueOptions) -> Box<dyn Queue> {
    source.open(options, 1).unwrap().queues.pop().unwrap()
}

fn assert_in_use(source: &Source, options: &QueueOptions) {
    let error = source.open(options, 1).unwrap_err();
    assert!(matches!(error, OpenError::Target(crate::OpenError::InUse { .. })), "{error}");
}

fn fill(queue: &mut dyn Queue, offset_bytes: u64, byte: u8) {
    queue.buffer(0)[..4096].fill(byte);
    run(queue, io(0, OpKind::Write, offset_bytes, 4096)).unwrap();
}

fn byte_at(queue: &mut dyn Queue, offset_bytes: u64) -> u8 {
    run(queue, io(0, OpKind::Read, offset_bytes, 4096)).unwrap();
    let first = queue.buffer(0)[0];
    assert!(queue.buffer(0)[..4096].iter().all(|&byte| byte == first), "a torn block");
    first
}

/// A writer, a reader, and writers through the page cache and by plain calls, all working at once.
fn share(target: &Target) {
    let source = Source::new(target.clone());
    let sets = [
        source.open(&options(), 2).unwrap(),
        source.open(&QueueOptions { wait: WaitMethod::Spin, ..options() }, 1).unwrap(),
        source.open(&QueueOptions { calls: Calls::Sync { hipri: false }, ..options() }, 1).unwrap(),
    ];
    let block = u64::from(sets[0].logical_block_bytes);
    let mut reader = open_one(&source, &reading());
    std::thread::scope(|scope| {
        for (index, mut queue) in sets.into_iter().flat_map(|set| set.queues).enumerate() {
            let begin = index as u64 * (SIZE_BYTES / 4);
            scope.spawn(move || exercise(&mut queue, begin..begin + SIZE_BYTES / 4, block, index as u64, index == 2));
        }
        run(&mut reader, io(0, OpKind::Read, 0, 4096)).unwrap();
    });
    assert_in_use(&Source::new(target.clone()), &reading());
}

#[test]
fn sets_of_queues_write_one_file_at_once() {
    let directory = TempDir::new().unwrap();
    share(&Target::Path(file(directory.path())));
}

/// Skipped where there are no loop devices.
#[test]
fn sets_of_queues_write_one_block_device_at_once() {
    let directory = TempDir::new().unwrap();
    let Some((_loop, target)) = Loop::over(&file(directory.path())) else { return };
    // The session's lock goes from a reader's to a writer's claim. A claim of another session fails then.
    let source = Source::new(target.clone());
    let mut reader = open_one(&source, &reading());
    fill(&mut open_one(&source, &options()), 0, 5);
    assert_eq!(byte_at(&mut reader, 0), 5);
    assert_in_use(&Source::new(target.clone()), &options());
    drop((source, reader));
    share(&target);
}

#[test]
fn a_reader_a_writer_and_a_probe_are_one_session_that_others_meet_as_one() {
    let directory = TempDir::new().unwrap();
    let target = Target::Path(file(directory.path()));
    let (source, other) = (Source::new(target.clone()), Source::new(target));
    let mut reader = open_one(&source, &reading());
    // Readers of two sessions share the target.
    let others_reader = open_one(&other, &reading());
    drop((others_reader, other));
    let mut writer = open_one(&source, &options());
    fill(&mut writer, 0, 3);
    let mut probe = open_one(&source, &QueueOptions { read_only: true, ..QueueOptions::default() });
    assert_eq!((byte_at(&mut probe, 0), byte_at(&mut reader, 0)), (3, 3));
    drop((probe, writer));
    // The lock stays exclusive to the end, even after the last writer is gone.
    let other = Source::new(source.name().parse().unwrap());
    assert_in_use(&other, &reading());
    drop(source);
    // The last queue still holds the target.
    assert_in_use(&other, &reading());
    drop(reader);
    open_one(&other, &options());
}

#[test]
fn a_session_that_may_not_become_a_writer_keeps_what_it_has() {
    let directory = TempDir::new().unwrap();
    let target = Target::Path(file(directory.path()));
    let (first, second) = (Source::new(target.clone()), Source::new(target));
    let mut reader = open_one(&first, &reading());
    let others_reader = open_one(&second, &reading());
    assert_in_use(&first, &options());
    // The first session has its lock back.
    assert_in_use(&second, &options());
    drop((others_reader, second));
    fill(&mut open_one(&first, &options()), 4096, 8);
    assert_eq!(byte_at(&mut reader, 4096), 8);
}

#[test]
fn a_file_that_was_exchanged_is_not_measured_unheld() {
    let directory = TempDir::new().unwrap();
    let path = file(directory.path());
    let source = Source::new(Target::Path(path.clone()));
    let _writer = open_one(&source, &options());
    let exchanged = directory.path().join("other");
    std::fs::copy(&path, &exchanged).unwrap();
    std::fs::rename(&exchanged, &path).unwrap();
    let error = source.open(&options(), 1).unwrap_err();
    assert!(matches!(error, OpenError::Replaced { .. }) && error.to_string().contains("begin again"), "{error}");
}

#[test]
fn memory_keeps_its_content_between_openings_and_is_one_for_all() {
    let directory = TempDir::new().unwrap();
    let path = file(directory.path());
    for text in
        ["ram:?size=8MiB".to_owned(), "volatile:ram:?size=8MiB".to_owned(), format!("volatile:{}", path.display())]
    {
        let source = Source::new(text.parse().unwrap());
        let mut early = open_one(&source, &reading());
        assert_eq!(byte_at(&mut early, 0), 0);
        fill(&mut open_one(&source, &options()), 0, 7);
        let mut queues = source.open(&options(), 2).unwrap().queues;
        fill(&mut queues[0], 4096, 9);
        assert_eq!((byte_at(&mut queues[1], 4096), byte_at(&mut early, 4096)), (9, 9), "{text}");
        drop(queues);
        let mut late = open_one(&source, &QueueOptions { slots: 3, buffer_bytes: 8192, ..reading() });
        assert_eq!((byte_at(&mut late, 0), late.slots(), late.buffer_bytes()), (7, 3, 8192), "{text}");
        assert_eq!(run(&mut late, io(0, OpKind::Write, 0, 4096)).unwrap_err().os_error, libc::EROFS);
        let opened = source.open(&options(), 1).unwrap();
        assert!(opened.description.ends_with("one lock shared by 3 queues"), "{}", opened.description);
        // The next session starts anew; only durable content is left.
        drop((opened, early, late, source));
        let expected = if text.contains("ram") { 0..=0 } else { 0..=7 };
        assert!(expected.contains(&byte_at(&mut open_one(&Source::new(text.parse().unwrap()), &options()), 0)));
    }
}

#[test]
fn behind_a_cache_readers_share_what_others_read_too() {
    let directory = TempDir::new().unwrap();
    let path = file(directory.path());
    let others = Source::new(Target::Path(path.clone()));
    let others_reader = open_one(&others, &reading());
    let source = Source::new(format!("volatile:{}", path.display()).parse().unwrap());
    drop(open_one(&source, &reading()));
    drop((others_reader, others));
    fill(&mut open_one(&source, &options()), 0, 1);
    assert_eq!(byte_at(&mut open_one(&source, &reading()), 0), 1);
}

/// Count of descriptors that this process has open; other tests may open some meanwhile.
fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn openings_leave_nothing_behind() {
    let directory = TempDir::new().unwrap();
    let path = file(directory.path());
    let small = QueueOptions { slots: 2, ..QueueOptions::default() };
    for (text, options, rounds) in [
        ("ram:?size=1MiB".to_owned(), small, 10_000),
        (path.display().to_string(), QueueOptions { calls: Calls::Sync { hipri: false }, ..small }, 10_000),
        (path.display().to_string(), small, 1000),
        ("null:?size=1MiB".to_owned(), small, 1000),
    ] {
        let source = Source::new(text.parse().unwrap());
        let before = descriptors();
        for round in 0..rounds {
            let mut queue = open_one(&source, &QueueOptions { read_only: round % 2 == 0, ..options });
            if round % 16 == 0 {
                run(&mut queue, io(1, OpKind::Read, 0, 4096)).unwrap();
            }
        }
        let grown = descriptors().saturating_sub(before);
        assert!(grown < 500, "{text}: {grown} more after {rounds} openings");
    }
    let handle = Handle::new(Box::new(RamDevice::new(1 << 20).unwrap()));
    for _ in 0..10_000 {
        let number = handle.enter().unwrap();
        assert_eq!(handle.queues(), 1);
        handle.leave(number, 0, Duration::ZERO);
    }
    assert_eq!(handle.queues(), 0);
}

/// A device that carries out each request after a random number of polls, at most `looks`, in any order.
struct Slow {
    inner: RamDevice,
    looks: Arc<AtomicU32>,
    random: Random,
    /// Waiting requests, each with the polls that are left.
    held: Vec<(u32, Request)>,
    /// Always readable, so that a wait polls again at once.
    wake: std::fs::File,
}

impl Slow {
    fn boxed(looks: &Arc<AtomicU32>) -> Box<Self> {
        let (inner, wake) = (RamDevice::new(1 << 20).unwrap(), std::fs::File::open("/dev/null").unwrap());
        Box::new(Self { inner, looks: Arc::clone(looks), random: Random::new(6), held: Vec::new(), wake })
    }
}

impl Device for Slow {
    fn name(&self) -> &str {
        "slow"
    }
    fn geometry(&self) -> &Geometry {
        self.inner.geometry()
    }
    fn submit(&mut self, request: Request) {
        let looks = self.looks.load(Ordering::Relaxed);
        self.held.push((self.random.below(u64::from(looks) + 1) as u32, request));
    }
    fn poll(&mut self, done: &mut Vec<Completion>) {
        let looks = self.looks.load(Ordering::Relaxed);
        for (_, request) in self.held.extract_if(.., |held| held.0 == 0 || looks == 0) {
            self.inner.submit(request);
        }
        self.held.iter_mut().for_each(|held| held.0 -= 1);
        self.inner.poll(done);
    }
    fn wait(&mut self, _timeout_ns: u64) {}
    fn wake_fds(&self, out: &mut Vec<i32>) {
        out.push(self.wake.as_raw_fd());
    }
    fn queue_limit(&self) -> usize {
        8
    }
    fn in_flight(&self) -> usize {
        self.held.len()
    }
}

#[test]
fn a_queue_dropped_with_io_in_flight_confuses_no_later_one() {
    const BLOCKS: usize = 40;
    let looks = Arc::new(AtomicU32::new(0));
    let source = Source::over(Slow::boxed(&looks));
    assert_eq!(source.name(), "slow");
    let mut random = Random::new(5);
    // The possible values of each block: one, until a queue was dropped while it wrote others.
    let mut may: Vec<Vec<u8>> = vec![vec![0]; BLOCKS];
    let mut neighbour = open_one(&source, &reading());
    let mut dropped_busy = 0;
    for round in 0..300u32 {
        looks.store(random.below(60) as u32, Ordering::Relaxed);
        let mut queue = open_one(&source, &options());
        for _ in 0..5 {
            let block = random.index(BLOCKS);
            let found = byte_at(if random.chance(1, 2) { &mut queue } else { &mut neighbour }, block as u64 * 4096);
            assert!(may[block].contains(&found), "round {round}, block {block}: {found} of {:?}", may[block]);
            may[block] = vec![found];
        }
        // More I/Os than the device takes at a time; each slot writes a block of its own.
        let mut busy = Vec::new();
        let shift = random.index(BLOCKS);
        for slot in 0..random.below(33) as u32 {
            let block = (shift + slot as usize) % BLOCKS;
            let byte = random.next_u64() as u8;
            queue.buffer(slot)[..4096].fill(byte);
            queue.submit(&io(slot, OpKind::Write, block as u64 * 4096, 4096));
            may[block].push(byte);
            busy.push(slot);
            if random.chance(1, 4) {
                queue.kick();
            }
        }
        for _ in 0..random.below(80) {
            let mut done = Vec::new();
            queue.kick();
            queue.reap(&mut done);
            for one in done {
                assert!(one.error.is_none(), "{one:?}");
                let at = busy.iter().position(|&slot| slot == one.slot).expect("an I/O that was not submitted ended");
                busy.remove(at);
                let block = (shift + one.slot as usize) % BLOCKS;
                let last = may[block].len() - 1;
                may[block].drain(..last);
            }
        }
        assert_eq!(queue.in_flight() as usize, busy.len());
        dropped_busy += u32::from(!busy.is_empty());
    }
    assert!(dropped_busy > 30, "only {dropped_busy} were dropped in the middle");
}

#[test]
fn dropping_with_io_in_the_kernel_leaves_the_device_to_others() {
    let directory = TempDir::new().unwrap();
    let source = Source::new(format!("volatile:{}", file(directory.path()).display()).parse().unwrap());
    let mut neighbour = open_one(&source, &options());
    for round in 0..50u64 {
        let mut queue = open_one(&source, &options());
        assert!(!queue.is_synchronous());
        for slot in 0..32 {
            let kind = if slot % 8 == 7 { OpKind::Flush } else { OpKind::Read };
            queue.submit(&io(slot, kind, u64::from(slot) << 16, if slot % 8 == 7 { 0 } else { 65536 }));
        }
        if round % 3 > 0 {
            queue.kick();
        }
        if round % 3 > 1 {
            finish_some(&mut queue);
        }
        drop(queue);
        fill(&mut neighbour, round * 4096, round as u8);
        assert_eq!(byte_at(&mut open_one(&source, &reading()), round * 4096), round as u8);
    }
}

#[test]
fn what_a_queue_did_not_stay_for_is_dropped_when_it_comes() {
    let looks = Arc::new(AtomicU32::new(u32::MAX));
    let handle = Handle::new(Slow::boxed(&looks));
    let request = |number: u32, slot: u32, op| Request {
        tag: u64::from(number) << 32 | u64::from(slot),
        offset_bytes: u64::from(slot) * 4096,
        stream: 0,
        op,
    };
    let write = |byte| Op::Write { bufs: Vectored::One(Buf::copy_of(&[byte; 4096]).freeze()), fua: false };
    let gone = handle.enter().unwrap();
    let mut requests: Vec<Request> = (0..20).map(|slot| request(gone, slot, write(1))).collect();
    handle.give(&mut requests);
    let started = Instant::now();
    handle.leave(gone, 20, Duration::from_millis(50));
    let waited = started.elapsed();
    assert!((50..2000).contains(&waited.as_millis()), "{waited:?}");
    assert_eq!(handle.queues(), 0);

    let later = handle.enter().unwrap();
    assert_ne!(later, gone);
    looks.store(0, Ordering::Relaxed);
    let mut requests: Vec<Request> =
        (0..20).map(|slot| request(later, slot, Op::read(Vectored::One(Buf::zeroed(4096))))).collect();
    let mut found = Vec::new();
    handle.give(&mut requests);
    for _ in 0..100 {
        handle.take(later, &mut found);
    }
    assert_eq!(found.len(), 20);
    for one in found {
        assert_eq!((one.tag >> 32) as u32, later);
        // Eight requests had reached the device; the others never started.
        let Some(Vectored::One(bytes)) = one.bufs else { panic!("a read without bytes") };
        assert_eq!(bytes[0], u8::from(one.tag as u32 <= 7), "slot {}", one.tag as u32);
    }
}
