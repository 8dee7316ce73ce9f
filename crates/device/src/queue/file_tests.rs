//! Files and block devices: errors, sharing, and every way to set up a ring.

use super::arena::Arena;
use super::medium::{Facts, Medium};
use super::ring_setup::{TaskWork, setup};
use super::tests::{SIZE_BYTES, exercise, file, finish_some, io, open_one, options, run};
use super::*;
use crate::target::Target;
use std::fs::{File, OpenOptions};
use std::sync::Arc;
use tempfile::TempDir;

const FACTS: Facts = Facts { block_device: false, direct: false, block_bytes: 512 };

fn ring_on(file: File, way: TaskWork, registered: bool) -> RingQueue {
    let medium = Arc::new(Medium::of(file, FACTS));
    let arena = Arena::new(32, 64 << 10, true).unwrap();
    let mut made = setup(&medium, &arena, &[way], false).unwrap();
    if !registered {
        made.buffers_refusal = Some("for a test".to_owned());
    }
    RingQueue::new(medium, arena, made, false, false)
}

fn sync_on(file: File) -> SyncQueue {
    SyncQueue::new(Arc::new(Medium::of(file, FACTS)), Arena::new(32, 64 << 10, true).unwrap(), false, false)
}

fn read_write(path: &str) -> File {
    OpenOptions::new().read(true).write(true).open(path).unwrap()
}

#[test]
fn a_ring_works_in_every_way_it_can_be_set_up() {
    let directory = TempDir::new().unwrap();
    let path = file(directory.path());
    for way in [TaskWork::Deferred, TaskWork::Cooperative, TaskWork::Interrupting] {
        for registered in [true, false] {
            let mut queue = ring_on(read_write(path.to_str().unwrap()), way, registered);
            for spin in [false, true] {
                exercise(&mut queue, 0..SIZE_BYTES, 1, 5, spin);
            }
        }
    }
}

#[test]
fn a_ring_made_here_serves_the_thread_that_uses_it_first_and_fails_others_without_hanging() {
    let directory = TempDir::new().unwrap();
    let target = Target::Path(file(directory.path()));
    // Spinning queues use deferred work, which is bound to one thread.
    let spinning = QueueOptions { wait: WaitMethod::Spin, ..options() };
    let mut opened = open_queues(&target, &spinning, 2).unwrap();
    assert!(opened.description.starts_with("file, io_uring, registered buffers"), "{}", opened.description);
    let mut queue = opened.queues.pop().unwrap();
    let mut queue = std::thread::spawn(move || {
        run(&mut queue, io(0, OpKind::Read, 0, 4096)).unwrap();
        queue
    })
    .join()
    .unwrap();
    // Kernels without deferred work have no such rule.
    queue.submit(&io(1, OpKind::Read, 0, 4096));
    let done = finish_some(&mut queue);
    let allowed = |error: &IoError| error.os_error == libc::EEXIST;
    assert!(done[0].error.as_ref().is_none_or(|error| allowed(error)), "{done:?}");
}

#[test]
fn the_end_of_a_file_is_a_short_read_at_its_place() {
    let directory = TempDir::new().unwrap();
    let path = file(directory.path());
    let target = Target::Path(path.clone());
    for options in [
        options(),
        QueueOptions { buffered: true, ..options() },
        QueueOptions { calls: Calls::Sync { hipri: false }, ..options() },
    ] {
        let mut queue = open_one(&target, &options);
        let resize = |size| OpenOptions::new().write(true).open(&path).unwrap().set_len(size).unwrap();
        resize(8192);
        let error = run(&mut queue, io(2, OpKind::Read, 4096, 8192)).unwrap_err();
        assert_eq!((error.kind, error.operation, error.offset_bytes), (IoErrorKind::Short, "read", 8192));
        let error = run(&mut queue, io(2, OpKind::Read, 1 << 20, 4096)).unwrap_err();
        assert_eq!((error.kind, error.offset_bytes), (IoErrorKind::Short, 1 << 20));
        run(&mut queue, io(2, OpKind::Read, 4096, 4096)).unwrap();
        resize(SIZE_BYTES);
    }
}

#[test]
fn what_direct_io_cannot_do_fails_as_the_kernel_says() {
    let directory = TempDir::new().unwrap();
    let target = Target::Path(file(directory.path()));
    for calls in [Calls::Ring { polled: false }, Calls::Sync { hipri: false }] {
        let opened = open_queues(&target, &QueueOptions { calls, ..options() }, 1).unwrap();
        if !opened.description.ends_with("direct") {
            // tmpfs before Linux 6.6, for example; its page cache accepts any alignment.
            return;
        }
        let mut queue = opened.queues.into_iter().next().unwrap();
        for (offset_bytes, len_bytes) in [(3, 4096), (0, 100), (4095, 1)] {
            for kind in [OpKind::Read, OpKind::Write] {
                let error = run(&mut queue, io(7, kind, offset_bytes, len_bytes)).unwrap_err();
                let found = (error.kind, error.os_error, error.offset_bytes);
                assert_eq!(found, (IoErrorKind::Invalid, libc::EINVAL, offset_bytes));
            }
        }
        run(&mut queue, io(7, OpKind::Read, 4096, 4096)).unwrap();
    }
}

#[test]
fn errors_of_the_medium_are_reported_and_the_queue_lives_on() {
    let queues = || -> [Box<dyn Queue>; 2] {
        [
            Box::new(ring_on(read_write("/dev/full"), TaskWork::Deferred, true)),
            Box::new(sync_on(read_write("/dev/full"))),
        ]
    };
    for mut queue in queues() {
        for _ in 0..3 {
            let error = run(&mut queue, io(0, OpKind::Write, 4096, 4096)).unwrap_err();
            assert_eq!((error.kind, error.os_error, error.offset_bytes), (IoErrorKind::NoSpace, libc::ENOSPC, 4096));
            queue.buffer(1).fill(7);
            run(&mut queue, io(1, OpKind::Read, 0, 4096)).unwrap();
            assert_eq!(queue.buffer(1)[..4096], [0; 4096]);
        }
    }
    // Reads of a directory fail with EISDIR, which stands for any error of a medium.
    let mut queue = ring_on(File::open("/").unwrap(), TaskWork::Deferred, true);
    for slot in 0..32 {
        queue.submit(&io(slot, OpKind::Read, 0, 4096));
    }
    let mut count = 0;
    while queue.in_flight() > 0 {
        for one in finish_some(&mut queue) {
            assert_eq!(one.error.unwrap().kind, IoErrorKind::Medium);
            count += 1;
        }
    }
    assert_eq!(count, 32);
}

#[test]
fn a_length_beyond_the_buffer_never_reaches_the_kernel() {
    let directory = TempDir::new().unwrap();
    let target = Target::Path(file(directory.path()));
    for calls in [Calls::Ring { polled: false }, Calls::Sync { hipri: false }] {
        let mut queue = open_one(&target, &QueueOptions { calls, buffered: true, ..options() });
        let error = run(&mut queue, io(31, OpKind::Read, 0, (64 << 10) + 1)).unwrap_err();
        assert_eq!(error.kind, IoErrorKind::Invalid);
        run(&mut queue, io(31, OpKind::Read, 1, (64 << 10) - 1)).unwrap();
    }
}

#[test]
fn trims_punch_holes() {
    let directory = TempDir::new().unwrap();
    let path = file(directory.path());
    for calls in [Calls::Ring { polled: false }, Calls::Sync { hipri: false }] {
        std::fs::write(&path, vec![0xee; SIZE_BYTES as usize]).unwrap();
        let mut queue = open_one(&Target::Path(path.clone()), &QueueOptions { calls, ..options() });
        // A trim may be longer than a buffer, because it has no data.
        run(&mut queue, io(0, OpKind::Trim, 1 << 20, 1 << 20)).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        assert!(bytes[..1 << 20].iter().all(|&byte| byte == 0xee) && bytes.len() == SIZE_BYTES as usize);
        assert!(bytes[1 << 20..2 << 20].iter().all(|&byte| byte == 0));
        assert!(bytes[2 << 20..].iter().all(|&byte| byte == 0xee));
    }
}

#[test]
fn writers_exclude_all_others_and_readers_share() {
    let directory = TempDir::new().unwrap();
    let path = file(directory.path());
    let target = Target::Path(path.clone());
    let reading = QueueOptions { read_only: true, ..options() };
    let in_use = |options: &QueueOptions| {
        let error = open_queues(&target, options, 1).unwrap_err();
        assert!(matches!(error, OpenError::Target(crate::OpenError::InUse { .. })), "{error}");
    };
    let mut writers = open_queues(&target, &options(), 3).unwrap();
    for queue in &mut writers.queues {
        run(queue, io(0, OpKind::Write, 0, 4096)).unwrap();
    }
    in_use(&reading);
    // The last queue still holds the file.
    writers.queues.truncate(1);
    in_use(&options());
    drop(writers);
    let readers = open_queues(&target, &reading, 2).unwrap();
    let others = open_queues(&target, &reading, 1).unwrap();
    in_use(&options());
    drop((readers, others));
    open_queues(&target, &options(), 1).unwrap();
}

#[test]
fn errors_of_opening_say_what_to_do() {
    let directory = TempDir::new().unwrap();
    let missing = Target::Path(directory.path().join("missing"));
    let error = open_queues(&missing, &options(), 1).unwrap_err().to_string();
    assert!(error.contains("missing does not exist") && error.contains("dd if="), "{error}");
    let target = Target::Path(file(directory.path()));
    match open_queues(&target, &QueueOptions { calls: Calls::Ring { polled: true }, ..options() }, 1) {
        Ok(opened) => assert!(opened.description.contains("polled")),
        Err(error) => {
            let text = error.to_string();
            assert!(text.contains("queue/io_poll") && text.contains("nvme.poll_queues"), "{text}");
        }
    }
    let sparse = directory.path().join("sparse");
    File::create(&sparse).unwrap().set_len(1 << 20).unwrap();
    let opened = open_queues(&Target::Path(sparse), &options(), 1).unwrap();
    assert!(opened.notes.iter().any(|note| note.contains("100 % of")), "{:?}", opened.notes);
}

#[test]
fn dropping_with_everything_in_flight_is_harmless() {
    let directory = TempDir::new().unwrap();
    let target = Target::Path(file(directory.path()));
    for round in 0..20u64 {
        let mut queue = open_one(&target, &options());
        for slot in 0..32 {
            let kind = if slot == 31 { OpKind::Flush } else { OpKind::Read };
            queue.submit(&io(slot, kind, (round + u64::from(slot)) * 65536, if slot == 31 { 0 } else { 65536 }));
        }
        if round % 2 == 0 {
            queue.kick();
        }
    }
}

/// A loop device, detached when dropped.
pub(super) struct Loop(std::path::PathBuf);

impl Loop {
    /// A loop device over `backing`; `None` without root or loop devices.
    pub(super) fn over(backing: &std::path::Path) -> Option<(Self, Target)> {
        let made = std::process::Command::new("losetup").args(["--find", "--show"]).arg(backing).output();
        let made = made.ok().filter(|made| made.status.success())?;
        let path = std::path::PathBuf::from(String::from_utf8(made.stdout).unwrap().trim());
        Some((Self(path.clone()), Target::Path(path)))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = std::process::Command::new("losetup").arg("--detach").arg(&self.0).status();
    }
}

/// Skipped where there are no loop devices.
#[test]
fn a_block_device_is_exclusive_and_trims_just_the_given_range() {
    let directory = TempDir::new().unwrap();
    let Some((_loop, target)) = Loop::over(&file(directory.path())) else { return };
    for calls in [Calls::Ring { polled: false }, Calls::Sync { hipri: false }] {
        let mut opened = open_queues(&target, &QueueOptions { calls, ..options() }, 2).unwrap();
        assert!(opened.block_device && opened.description.starts_with("block device, "), "{}", opened.description);
        assert_eq!(opened.size_bytes, SIZE_BYTES);
        assert!(open_queues(&target, &options(), 1).is_err());
        let block = u64::from(opened.logical_block_bytes);
        exercise(&mut opened.queues[1], 0..SIZE_BYTES, block, 1, false);
        let queue = &mut opened.queues[0];
        queue.buffer(0).fill(0xee);
        for at in 0..4u64 {
            run(queue, io(0, OpKind::Write, at << 16, 65536)).unwrap();
        }
        run(queue, io(0, OpKind::Trim, 65536, 131_072)).unwrap();
        let error = run(queue, io(0, OpKind::Trim, 7, 512)).unwrap_err();
        assert_eq!(error.kind, IoErrorKind::Invalid);
        for at in 0..4u64 {
            run(queue, io(0, OpKind::Read, at << 16, 65536)).unwrap();
            let expected = if at == 1 || at == 2 { 0 } else { 0xee };
            assert!(queue.buffer(0).iter().all(|&byte| byte == expected), "part {at}");
        }
    }
}
