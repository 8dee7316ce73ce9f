//! All queues against a model in memory; data written by one queue is read by another.

use super::*;
use crate::nbd_client::NbdUri;
use crate::target::Target;
use forebay_block::{Done, Random};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub(super) const SIZE_BYTES: u64 = 8 << 20;
const LONGEST_BYTES: usize = 64 << 10;

pub(super) fn io(slot: u32, kind: OpKind, offset_bytes: u64, len_bytes: u32) -> Io {
    Io { slot, kind, len_bytes, offset_bytes, hint: 0 }
}

/// Options for tests: 32 slots of 64 KiB.
pub(super) fn options() -> QueueOptions {
    QueueOptions { slots: 32, buffer_bytes: LONGEST_BYTES, ..QueueOptions::default() }
}

pub(super) fn file(directory: &Path) -> PathBuf {
    let path = directory.join("target");
    std::fs::write(&path, vec![0; SIZE_BYTES as usize]).unwrap();
    path
}

pub(super) fn open_one(target: &Target, options: &QueueOptions) -> Box<dyn Queue> {
    open_queues(target, options, 1).unwrap().queues.pop().unwrap()
}

/// Kicks, waits and reaps until at least one I/O has ended.
pub(super) fn finish_some(queue: &mut dyn Queue) -> Vec<Done> {
    let mut done = Vec::new();
    let started = Instant::now();
    queue.kick();
    while done.is_empty() {
        assert!(started.elapsed() < Duration::from_secs(30), "nothing ends; {} in flight", queue.in_flight());
        queue.wait(100_000_000);
        queue.reap(&mut done);
    }
    done
}

/// Runs one I/O to its end.
pub(super) fn run(queue: &mut dyn Queue, io: Io) -> Result<(), IoError> {
    queue.submit(&io);
    assert_eq!(queue.in_flight(), 1);
    let mut done = finish_some(queue);
    assert_eq!((done.len(), done[0].slot, queue.in_flight()), (1, io.slot, 0));
    done.remove(0).error.map_or(Ok(()), |error| Err(*error))
}

/// Runs many I/Os of random sizes at once, never two that overlap. Compares every read, and at the end everything.
pub(super) fn exercise(queue: &mut dyn Queue, area: Range<u64>, block: u64, seed: u64, spin: bool) {
    let mut random = Random::new(seed);
    let len = area.end - area.start;
    let mut model = vec![0u8; len as usize];
    for at in (0..len).step_by(LONGEST_BYTES) {
        queue.buffer(0).fill(0);
        run(queue, io(0, OpKind::Write, area.start + at, LONGEST_BYTES as u32)).unwrap();
    }
    let mut busy: BTreeMap<u32, (Io, Vec<u8>)> = BTreeMap::new();
    let mut free: Vec<u32> = (0..queue.slots()).collect();
    let mut deepest = 0;
    for round in 0..1500u32 {
        // Short enough that 32 I/Os often fit without overlap.
        let blocks = 1 + random.below((len / 256).min(LONGEST_BYTES as u64) / block);
        let at = random.below(len / block - blocks) * block;
        let (offset_bytes, len_bytes) = (area.start + at, (blocks * block) as u32);
        let part = at as usize..(at as usize + len_bytes as usize);
        let overlaps = |io: &Io| {
            io.offset_bytes < offset_bytes + u64::from(len_bytes)
                && offset_bytes < io.offset_bytes + u64::from(io.len_bytes)
        };
        let wanted = if round == 1499 { 0 } else { 31 };
        while free.is_empty() || busy.values().any(|(io, _)| overlaps(io)) || busy.len() > wanted {
            let mut done = Vec::new();
            queue.kick();
            if !spin {
                queue.wait(1_000_000_000);
            }
            queue.reap(&mut done);
            for one in done {
                assert!(one.error.is_none(), "{:?}", one.error);
                let (io, expected) = busy.remove(&one.slot).unwrap();
                let got = &queue.buffer(one.slot)[..io.len_bytes as usize];
                assert!(io.kind != OpKind::Read || *got == *expected, "{io:?} differs");
                free.push(one.slot);
            }
        }
        let slot = free.pop().unwrap();
        let kind = [OpKind::Read, OpKind::Read, OpKind::Write, OpKind::Write, OpKind::WriteFua, OpKind::Flush]
            [random.index(6)];
        let kind = if random.chance(1, 40) { OpKind::Fsync } else { kind };
        let buffer = queue.buffer(slot);
        let mut expected = Vec::new();
        match kind {
            OpKind::Read => {
                buffer.fill(0xcc);
                expected = model[part].to_vec();
            }
            OpKind::Write | OpKind::WriteFua => {
                let byte = random.next_u64() as u8;
                (0..len_bytes as usize).for_each(|i| buffer[i] = byte.wrapping_add((i / 512) as u8));
                model[part].copy_from_slice(&buffer[..len_bytes as usize]);
            }
            _ => {}
        }
        let one = if kind.has_data() { io(slot, kind, offset_bytes, len_bytes) } else { io(slot, kind, 0, 0) };
        queue.submit(&one);
        busy.insert(slot, (one, expected));
        deepest = deepest.max(queue.in_flight());
        if random.chance(1, 3) {
            queue.kick();
        }
    }
    while !busy.is_empty() {
        finish_some(queue).into_iter().for_each(|one| {
            assert!(one.error.is_none(), "{:?}", one.error);
            busy.remove(&one.slot);
        });
    }
    assert_eq!(queue.in_flight(), 0);
    assert!(deepest == 32, "only {deepest} were in flight");
    check(queue, area, &model);
}

/// Reads the area and compares it.
fn check(queue: &mut dyn Queue, area: Range<u64>, expected: &[u8]) {
    for (index, part) in expected.chunks(LONGEST_BYTES).enumerate() {
        let at = area.start + (index * LONGEST_BYTES) as u64;
        queue.buffer(3).fill(0xdd);
        run(queue, io(3, OpKind::Read, at, part.len() as u32)).unwrap();
        assert!(queue.buffer(3)[..part.len()] == *part, "bytes from {at} differ");
    }
}

pub(super) struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// nbdkit with its plugin `memory`; `None` where it is not installed.
pub(super) fn nbdkit(directory: &Path, arguments: &[&str]) -> Option<(Server, Target)> {
    let socket = directory.join("socket");
    let _ = std::fs::remove_file(&socket);
    let mut command = Command::new("nbdkit");
    command.args(["-f", "-U"]).arg(&socket).args(arguments).stdin(Stdio::null());
    let server = Server(command.spawn().ok()?);
    let started = Instant::now();
    while std::os::unix::net::UnixStream::connect(&socket).is_err() {
        assert!(started.elapsed() < Duration::from_secs(10), "nbdkit does not open its socket");
        std::thread::sleep(Duration::from_millis(10));
    }
    let uri: NbdUri = format!("nbd+unix:///?socket={}", socket.display()).parse().unwrap();
    Some((server, Target::Nbd(uri)))
}

#[test]
fn every_queue_agrees_with_the_model() {
    let directory = tempfile::TempDir::new().unwrap();
    let target = Target::Path(file(directory.path()));
    let spin = WaitMethod::Spin;
    for (index, options) in [
        options(),
        QueueOptions { wait: spin, ..options() },
        QueueOptions { buffered: true, ..options() },
        QueueOptions { dsync: true, ..options() },
        QueueOptions { calls: Calls::Sync { hipri: false }, ..options() },
        QueueOptions { calls: Calls::Sync { hipri: true }, ..options() },
        QueueOptions { calls: Calls::Sync { hipri: false }, buffered: true, ..options() },
    ]
    .iter()
    .enumerate()
    {
        let mut opened = open_queues(&target, options, 1).unwrap();
        let block = u64::from(opened.logical_block_bytes);
        exercise(&mut opened.queues[0], 0..SIZE_BYTES, block, index as u64, options.wait == spin);
    }
    for text in ["ram:?size=8MiB".to_owned(), "volatile:ram:?size=8MiB".to_owned(), format!("volatile:{target}")] {
        let mut opened = open_queues(&text.parse().unwrap(), &options(), 1).unwrap();
        assert_eq!(opened.queues[0].is_synchronous(), !text.starts_with("volatile:/"), "{text}");
        exercise(&mut opened.queues[0], 0..SIZE_BYTES, 512, 77, false);
    }
}

#[test]
fn what_one_queue_writes_another_reads() {
    let directory = tempfile::TempDir::new().unwrap();
    let target = Target::Path(file(directory.path()));
    let ways = [
        options(),
        QueueOptions { buffered: true, ..options() },
        QueueOptions { calls: Calls::Sync { hipri: false }, ..options() },
    ];
    let mut random = Random::new(3);
    for (writer, reader) in (0..9).map(|i| (i / 3, i % 3)) {
        let bytes: Vec<u8> = (0..SIZE_BYTES).map(|_| random.next_u64() as u8).collect();
        let mut queue = open_one(&target, &ways[writer]);
        for (index, part) in bytes.chunks(LONGEST_BYTES).enumerate() {
            queue.buffer(1).copy_from_slice(part);
            let at = (index * LONGEST_BYTES) as u64;
            run(&mut queue, io(1, OpKind::Write, at, LONGEST_BYTES as u32)).unwrap();
        }
        run(&mut queue, io(0, OpKind::Flush, 0, 0)).unwrap();
        drop(queue);
        let mut queue = open_one(&target, &QueueOptions { read_only: true, ..ways[reader] });
        check(&mut queue, 0..SIZE_BYTES, &bytes);
        let refused = run(&mut queue, io(1, OpKind::Write, 0, 4096)).unwrap_err();
        assert_eq!(refused.kind, IoErrorKind::Unsupported, "{refused}");
    }
}

#[test]
fn several_threads_share_a_device() {
    let directory = tempfile::TempDir::new().unwrap();
    let path = file(directory.path());
    for text in ["ram:?size=8MiB".to_owned(), format!("volatile:{}", path.display())] {
        let opened = open_queues(&text.parse().unwrap(), &options(), 4).unwrap();
        std::thread::scope(|scope| {
            for (index, mut queue) in opened.queues.into_iter().enumerate() {
                let begin = index as u64 * (SIZE_BYTES / 4);
                scope.spawn(move || exercise(&mut queue, begin..begin + SIZE_BYTES / 4, 512, index as u64, index == 0));
            }
        });
    }
}

#[test]
fn waiting_ends_when_another_queue_has_taken_the_completion_or_the_time_is_over() {
    let directory = tempfile::TempDir::new().unwrap();
    let text = format!("volatile:{}", file(directory.path()).display());
    let mut queues = open_queues(&text.parse().unwrap(), &options(), 2).unwrap().queues;
    let [first, second] = &mut queues[..] else { panic!() };
    // Nothing is in flight, so waiting returns at once.
    let started = Instant::now();
    first.wait(10_000_000_000);
    assert!(started.elapsed() < Duration::from_secs(1));
    for slot in 0..32 {
        first.submit(&io(slot, OpKind::Read, u64::from(slot) * 4096, 4096));
    }
    first.kick();
    let mut count = 0;
    while count < 32 {
        // The other queue polls the device all the time.
        run(second, io(0, OpKind::Read, 1 << 20, 4096)).unwrap();
        let started = Instant::now();
        first.wait(5_000_000_000);
        assert!(started.elapsed() < Duration::from_secs(4), "slept through a completion");
        let mut done = Vec::new();
        first.reap(&mut done);
        count += done.len();
    }
}

#[test]
fn errors_of_a_device_are_those_of_the_io() {
    let mut queue = open_one(&"ram:?size=1MiB".parse().unwrap(), &options());
    let beyond = run(&mut queue, io(4, OpKind::Read, 1 << 20, 4096)).unwrap_err();
    assert_eq!((beyond.kind, beyond.offset_bytes), (IoErrorKind::Invalid, 1 << 20));
    assert_eq!(queue.buffer(4).len(), LONGEST_BYTES);
    let long = run(&mut queue, io(4, OpKind::Write, 0, LONGEST_BYTES as u32 + 1)).unwrap_err();
    assert_eq!(long.kind, IoErrorKind::Invalid);
    queue.buffer(4)[..512].fill(9);
    run(&mut queue, io(4, OpKind::Write, 0, 512)).unwrap();
    run(&mut queue, io(4, OpKind::Trim, 0, 512)).unwrap();
    run(&mut queue, io(4, OpKind::Read, 0, 512)).unwrap();
    assert_eq!(queue.buffer(4)[..512], [0; 512]);
    let mut queue = open_one(&"ram:?size=1MiB".parse().unwrap(), &QueueOptions { read_only: true, ..options() });
    let refused = run(&mut queue, io(4, OpKind::Trim, 0, 512)).unwrap_err();
    assert_eq!((refused.kind, refused.os_error), (IoErrorKind::Unsupported, libc::EROFS));
}

#[test]
fn null_ends_everything_at_once() {
    let mut opened = open_queues(&"null:?size=1TiB".parse().unwrap(), &options(), 3).unwrap();
    assert_eq!((opened.queues.len(), opened.size_bytes), (3, 1 << 40));
    let queue = &mut opened.queues[1];
    for slot in 0..32 {
        queue.submit(&io(slot, OpKind::WriteFua, u64::MAX, 4096));
    }
    assert_eq!(queue.in_flight(), 32);
    let mut done = Vec::new();
    queue.kick();
    queue.wait(u64::MAX);
    queue.reap(&mut done);
    assert_eq!(done.iter().map(|one| one.slot).collect::<Vec<_>>(), (0..32).collect::<Vec<_>>());
    assert!(done.iter().all(|one| one.error.is_none()) && queue.in_flight() == 0);
    queue.buffer(31)[LONGEST_BYTES - 1] = 5;
    assert_eq!(queue.buffer(30)[0], 0);
}

#[test]
fn options_out_of_range_are_refused_by_name() {
    let target = "null:?size=1MiB".parse().unwrap();
    let message = |options, count| open_queues(&target, &options, count).unwrap_err().to_string();
    assert!(message(options(), 0).contains("number of queues"));
    assert!(message(QueueOptions { slots: 0, ..options() }, 1).contains("depth"));
    assert!(message(QueueOptions { slots: SLOTS_MAX + 1, ..options() }, 1).contains("16384"));
    assert!(message(QueueOptions { buffer_bytes: 2 << 30, ..options() }, 1).contains("longest I/O"));
    assert!(message(QueueOptions { buffer_bytes: 1 << 30, slots: 64, ..options() }, 2).contains("all buffers"));
}
