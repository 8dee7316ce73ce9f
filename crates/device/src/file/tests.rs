//! Files in all modes against a model in memory, and tests of opening.

use super::*;
use crate::blocking;
use forebay_block::{Buf, Op, Vectored};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::io::Read;
use std::process::Stdio;
use tempfile::TempDir;

const SIZE_BYTES: usize = 1 << 20;

fn directory() -> TempDir {
    TempDir::new().unwrap()
}

fn file(directory: &TempDir, size_bytes: u64) -> std::path::PathBuf {
    let path = directory.path().join("device");
    FileDevice::create_file(&path, size_bytes).unwrap();
    path
}

fn options(ring: bool, direct: bool) -> FileOptions {
    FileOptions { mode: OpenMode::ReadWrite, ring, direct, timeout: std::time::Duration::ZERO }
}

#[derive(Clone, Debug)]
enum Action {
    Read { at: usize, len: usize, cuts: Vec<usize> },
    Write { at: usize, len: usize, cuts: Vec<usize>, fua: bool, shift: usize },
    Discard { at: usize, len: usize },
    WriteZeroes { at: usize, len: usize },
    Flush,
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let sectors = SIZE_BYTES / 512;
    let range = move || (0..sectors, 1..200usize).prop_map(move |(at, len)| (at * 512, len.min(sectors - at) * 512));
    // The cuts lie anywhere, so that segments are not aligned either.
    let cuts = || prop::collection::vec(0..100usize * 512, 0..4);
    let action = prop_oneof![
        4 => (range(), cuts()).prop_map(|((at, len), cuts)| Action::Read { at, len, cuts }),
        6 => (range(), cuts(), any::<bool>(), prop_oneof![Just(0usize), Just(512), 1..512usize])
            .prop_map(|((at, len), cuts, fua, shift)| Action::Write { at, len, cuts, fua, shift }),
        1 => range().prop_map(|(at, len)| Action::Discard { at, len }),
        2 => range().prop_map(|(at, len)| Action::WriteZeroes { at, len }),
        1 => Just(Action::Flush),
    ];
    prop::collection::vec(action, 1..60)
}

fn cut(whole: Buf, cuts: &[usize]) -> Vectored<Buf> {
    let mut places: Vec<usize> = cuts.iter().copied().filter(|&at| at < whole.len()).collect();
    if places.is_empty() {
        return Vectored::One(whole);
    }
    places.sort_unstable();
    let mut rest = whole;
    let mut parts = Vec::new();
    for at in places.into_iter().rev() {
        parts.push(rest.split_off(at));
    }
    parts.push(rest);
    parts.reverse();
    Vectored::Many(parts)
}

/// Runs actions with many requests in flight, never two that overlap, and compares with a model.
fn run(device: &mut dyn Device, actions: &[Action]) {
    let mut model = vec![0u8; SIZE_BYTES];
    let mut busy: BTreeMap<u64, (std::ops::Range<usize>, Option<Vec<u8>>)> = BTreeMap::new();
    let collect = |device: &mut dyn Device, busy: &mut BTreeMap<u64, (std::ops::Range<usize>, Option<Vec<u8>>)>| {
        let mut done = Vec::new();
        device.poll(&mut done);
        for completion in done {
            assert_eq!(completion.result, Ok(()));
            let (_, expected) = busy.remove(&completion.tag).unwrap();
            if let Some(expected) = expected {
                let bytes: Vec<u8> = completion.bufs.unwrap().as_slice().iter().flat_map(|buf| buf.to_vec()).collect();
                assert!(bytes == expected, "a read differs from the model");
            }
        }
    };
    for (index, action) in actions.iter().enumerate() {
        let tag = index as u64;
        let (at, len) = match action {
            Action::Read { at, len, .. } | Action::Write { at, len, .. } => (*at, *len),
            Action::Discard { at, len } | Action::WriteZeroes { at, len } => (*at, *len),
            Action::Flush => (0, 0),
        };
        while busy.values().any(|(range, _)| range.start < at + len && at < range.end) {
            device.wait(1_000_000_000);
            collect(device, &mut busy);
        }
        let mut expected = None;
        let op = match action {
            Action::Read { cuts, .. } => {
                expected = Some(model[at..at + len].to_vec());
                Op::read(cut(Buf::new(len), cuts))
            }
            Action::Write { cuts, fua, shift, .. } => {
                let bytes: Vec<u8> = (0..len).map(|i| (i / 512 + index * 7) as u8 | 1).collect();
                model[at..at + len].copy_from_slice(&bytes);
                // `shift` moves the data off its alignment in memory.
                let mut whole = Buf::new(len + shift);
                whole[*shift..].copy_from_slice(&bytes);
                let whole = whole.split_off(*shift);
                let parts = match cut(whole, cuts) {
                    Vectored::One(one) => Vectored::One(one.freeze()),
                    Vectored::Many(many) => Vectored::Many(many.into_iter().map(Buf::freeze).collect()),
                };
                Op::Write { bufs: parts, fua: *fua }
            }
            Action::Discard { .. } => {
                model[at..at + len].fill(0);
                Op::Discard { len_bytes: len as u64 }
            }
            Action::WriteZeroes { .. } => {
                model[at..at + len].fill(0);
                Op::WriteZeroes { len_bytes: len as u64 }
            }
            Action::Flush => Op::Flush,
        };
        busy.insert(tag, (at..at + len, expected));
        device.submit(Request { tag, offset_bytes: at as u64, stream: (index % 3) as u8, op });
    }
    while device.in_flight() > 0 {
        device.wait(1_000_000_000);
        collect(device, &mut busy);
    }
    assert!(busy.is_empty());
    assert!(*blocking::read(device, 0, SIZE_BYTES).unwrap() == *model, "the final content differs from the model");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_mode_agrees_with_the_model(actions in actions(), ring: bool, direct: bool) {
        let directory = directory();
        let path = file(&directory, SIZE_BYTES as u64);
        let mut device = FileDevice::open(&path, &options(ring, direct)).unwrap();
        run(&mut device, &actions);
    }

    #[test]
    fn tmpfs_agrees_with_the_model(actions in actions(), ring: bool) {
        let Ok(directory) = TempDir::new_in("/dev/shm") else { return Ok(()) };
        let path = file(&directory, SIZE_BYTES as u64);
        let mut device = FileDevice::open(&path, &options(ring, true)).unwrap();
        run(&mut device, &actions);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// The wrapper's other tests run over memory, where requests below it complete at once.
    #[test]
    fn a_volatile_cache_over_a_file_agrees_with_the_model(actions in actions(), seed: u64, ring: bool) {
        let directory = directory();
        let path = file(&directory, SIZE_BYTES as u64);
        let inner = FileDevice::open(&path, &options(ring, true)).unwrap();
        let mut device = crate::VolatileDevice::new(inner).with_leak(seed);
        run(&mut device, &actions);
        // Everything flushed is in the file. So a flush followed by the loss of everything else changes nothing.
        let before = blocking::read(&mut device, 0, SIZE_BYTES).unwrap();
        blocking::flush(&mut device).unwrap();
        let mut inner = device.into_inner();
        prop_assert!(*blocking::read(&mut inner, 0, SIZE_BYTES).unwrap() == *before);
    }
}

fn wake_fds(device: &FileDevice) -> Vec<i32> {
    let mut fds = Vec::new();
    device.wake_fds(&mut fds);
    fds
}

#[test]
fn the_mode_is_reported() {
    let directory = directory();
    let path = file(&directory, 1 << 20);
    let device = FileDevice::open(&path, &options(false, false)).unwrap();
    assert_eq!(device.mode().to_string(), "file, pread/pwrite (io_uring switched off), through the page cache");
    assert!(device.geometry().volatile_cache);
    assert!(wake_fds(&device).is_empty());
}

#[test]
fn a_file_has_one_writer_or_many_readers() {
    let directory = directory();
    let path = file(&directory, 1 << 20);
    let read_only = FileOptions { mode: OpenMode::ReadOnly, ..options(true, true) };
    let writer = FileDevice::open(&path, &options(true, true)).unwrap();
    for wanted in [options(true, true), read_only.clone()] {
        let refusal = FileDevice::open(&path, &wanted).err().unwrap();
        assert!(matches!(refusal, OpenError::InUse { .. }));
        assert!(refusal.to_string().contains(&path.display().to_string()));
    }
    drop(writer);
    let _first = FileDevice::open(&path, &read_only).unwrap();
    let mut second = FileDevice::open(&path, &read_only).unwrap();
    assert!(FileDevice::open(&path, &options(true, true)).is_err());
    let refused = blocking::write(&mut second, 0, &[0; 4096]).unwrap_err();
    assert_eq!((refused.kind, refused.os_error), (IoErrorKind::Unsupported, libc::EROFS));
    blocking::flush(&mut second).unwrap();
}

/// A start after a server was killed failed where the kernel had not closed the files of its rings within a second, as on a busy machine: "in use", of nobody.
#[test]
fn regression_what_a_killed_process_had_is_waited_for() {
    let directory = directory();
    let path = file(&directory, 1 << 20);
    // A lock stays as long as anybody has the description open; who took it has ended.
    let left = std::fs::File::open(&path).unwrap();
    let mut flock = std::process::Command::new("flock");
    let taken = flock.args(["-x", "0"]).stdin(left.try_clone().unwrap()).status().unwrap();
    assert!(taken.success());
    let refusal = FileDevice::open(&path, &options(true, true)).err().unwrap();
    assert!(matches!(refusal, OpenError::InUse { holder: Holder::Ended { .. }, .. }), "{refusal}");
    let opened = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(std::time::Duration::from_millis(2500));
            drop((flock, left));
        });
        FileDevice::open(&path, &FileOptions::new(OpenMode::ReadWrite)).map(drop)
    });
    assert!(opened.is_ok(), "{opened:?}");
}

/// Between the attempt and the look at who has it the lock may go: that was taken for another holder, for which the time was over.
#[test]
fn regression_a_lock_that_goes_while_it_is_looked_at_is_asked_for_again() {
    let in_use = |holder| OpenError::InUse { path: "x".into(), holder };
    let (begun, timeout) = (std::time::Instant::now(), std::time::Duration::from_millis(50));
    let mut has_gone = false;
    let opened = open::retry_while_in_use(timeout, || match begun.elapsed() < 3 * timeout {
        true => Err(in_use(Holder::Ended { pid: 7 })),
        false if std::mem::replace(&mut has_gone, true) => Ok(()),
        false => Err(in_use(Holder::NoLock)),
    });
    assert!(opened.is_ok(), "{opened:?}");
    let begun = std::time::Instant::now();
    let refused = open::retry_while_in_use(timeout, || Err::<(), _>(in_use(Holder::NoLock)));
    assert!(refused.is_err() && begun.elapsed() >= timeout);
}

#[test]
fn who_has_a_file_is_named() {
    let directory = directory();
    let path = file(&directory, 1 << 20);
    let mut command = std::process::Command::new("flock");
    let mut other =
        command.arg(&path).args(["-c", "echo; read x"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    other.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    let refusal = FileDevice::open(&path, &options(true, true)).err().unwrap().to_string();
    assert!(refusal.contains(&format!("is in use by process {} (flock)", other.id())), "{refusal}");
    drop(other.stdin.take());
    other.wait().unwrap();
}

#[test]
fn what_cannot_be_a_device_is_refused_by_name() {
    let directory = directory();
    let open = |path: &Path| FileDevice::open(path, &options(true, true)).err().unwrap();
    assert!(matches!(open(directory.path()), OpenError::NotStorage { .. }));
    assert!(matches!(open(Path::new("/dev/null")), OpenError::NotStorage { .. }));
    assert!(matches!(open(&directory.path().join("missing")), OpenError::Open { .. }));
    let empty = directory.path().join("empty");
    FileDevice::create_file(&empty, 100).unwrap();
    assert!(matches!(open(&empty), OpenError::TooSmall { size_bytes: 100, .. }));
    assert!(FileDevice::create_file(&empty, 1).is_err());
}

#[test]
fn an_odd_size_is_rounded_down_and_a_truncated_file_reads_short() {
    let directory = directory();
    let path = file(&directory, (1 << 20) + 777);
    for ring in [true, false] {
        let mut device = FileDevice::open(&path, &options(ring, true)).unwrap();
        let block = u64::from(device.geometry().logical_block_bytes);
        assert_eq!(device.geometry().size_bytes, ((1 << 20) + 777) / block * block);
        OpenOptions::new().write(true).open(&path).unwrap().set_len(8192).unwrap();
        assert_eq!(blocking::read(&mut device, 16384, 4096).unwrap_err().kind, IoErrorKind::Short);
        assert_eq!(blocking::read(&mut device, 4096, 8192).unwrap_err().kind, IoErrorKind::Short);
        OpenOptions::new().write(true).open(&path).unwrap().set_len((1 << 20) + 777).unwrap();
    }
}

#[test]
fn more_than_the_limit_is_refused_and_the_rest_completes() {
    let directory = directory();
    let path = file(&directory, 4 << 20);
    let mut device = FileDevice::open(&path, &options(true, true)).unwrap();
    let limit = device.queue_limit();
    for tag in 0..limit as u64 + 10 {
        let bufs = Vectored::One(Buf::new(4096));
        device.submit(Request { tag, offset_bytes: tag * 4096, stream: 0, op: Op::read(bufs) });
    }
    let mut done = Vec::new();
    while device.in_flight() > 0 {
        device.wait(1_000_000_000);
        device.poll(&mut done);
    }
    let refused = done.iter().filter(|completion| completion.result.is_err()).count();
    assert_eq!((done.len(), refused), (limit + 10, 10));
    assert!(done.iter().all(|completion| completion.bufs.is_some()));
}

#[test]
fn the_wake_descriptor_is_readable_just_while_completions_wait() {
    let directory = directory();
    let path = file(&directory, 1 << 20);
    let mut device = FileDevice::open(&path, &options(true, true)).unwrap();
    let Some(fd) = wake_fds(&device).pop() else { return };
    let readable = |timeout_ms| {
        let mut wanted = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid pollfd.
        unsafe { libc::poll(&raw mut wanted, 1, timeout_ms) == 1 }
    };
    assert!(!readable(0));
    let bufs = Vectored::One(Buf::new(4096));
    device.submit(Request { tag: 1, offset_bytes: 0, stream: 0, op: Op::read(bufs) });
    let mut done = Vec::new();
    device.poll(&mut done);
    if done.is_empty() {
        assert!(readable(5000));
        device.poll(&mut done);
    }
    assert_eq!(done.len(), 1);
    assert!(!readable(0));
}

#[test]
fn dropping_with_requests_in_flight_is_harmless() {
    let directory = directory();
    let path = file(&directory, 4 << 20);
    for _ in 0..20 {
        let mut device = FileDevice::open(&path, &options(true, true)).unwrap();
        for tag in 0..100 {
            let bufs = Vectored::One(Buf::new(16384));
            device.submit(Request { tag, offset_bytes: tag * 16384, stream: 0, op: Op::read(bufs) });
        }
        device.poll(&mut Vec::new());
    }
}

/// A loop device over a file of 16 MiB. Needs root and loop devices: `None` elsewhere.
struct Loop(std::path::PathBuf);

impl Loop {
    fn over(backing: &Path) -> Option<Self> {
        let output = std::process::Command::new("losetup").args(["--find", "--show"]).arg(backing).output().ok()?;
        let path = String::from_utf8(output.stdout).unwrap().trim().to_owned();
        output.status.success().then(|| Self(path.into()))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = std::process::Command::new("losetup").arg("--detach").arg(&self.0).status();
    }
}

/// Skipped where there are no loop devices; `write_cache.rs` has a test that needs none.
#[test]
fn regression_a_cache_that_is_switched_on_later_is_seen() {
    let directory = directory();
    let Some(device) = Loop::over(&file(&directory, 16 << 20)) else { return };
    let says = Path::new("/sys/block").join(device.0.file_name().unwrap()).join("queue/write_cache");
    /// The kernel keeps the setting for the next user of this loop device.
    struct Restored<'a>(&'a Path, String);
    impl Drop for Restored<'_> {
        fn drop(&mut self) {
            let _ = std::fs::write(self.0, &self.1);
        }
    }
    let _restored = Restored(&says, std::fs::read_to_string(&says).unwrap());
    if std::fs::write(&says, "write through").is_err() {
        return;
    }
    let mut opened = FileDevice::open(&device.0, &options(true, true)).unwrap();
    assert!(!opened.geometry().volatile_cache);
    let writes_through =
        |device: &FileDevice| device.medium.writes_through.unwrap().load(std::sync::atomic::Ordering::Acquire);
    let until = |device: &FileDevice, is_on: bool| {
        let begun = std::time::Instant::now();
        while writes_through(device) != is_on {
            assert!(begun.elapsed().as_secs() < 20, "not seen");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    };
    assert!(!writes_through(&opened));
    std::fs::write(&says, "write back").unwrap();
    until(&opened, true);
    blocking::write(&mut opened, 0, &[7; 8192]).unwrap();
    std::fs::write(&says, "write through").unwrap();
    until(&opened, false);
    blocking::write(&mut opened, 8192, &[7; 8192]).unwrap();
    drop(opened);
    FileDevice::open(&device.0, &options(true, true)).unwrap();
}

/// Skipped where there are no loop devices; the assertion on files above runs in any case.
#[test]
fn a_block_device_is_exclusive_and_discards_just_the_given_range() {
    let directory = directory();
    let Some(looped) = Loop::over(&file(&directory, 16 << 20)) else { return };
    let path = looped.0.clone();
    for ring in [true, false] {
        let mut device = FileDevice::open(&path, &options(ring, true)).unwrap();
        assert!(device.mode().block_device);
        assert_eq!(device.geometry().size_bytes, 16 << 20);
        assert!(matches!(FileDevice::open(&path, &options(ring, true)), Err(OpenError::InUse { .. })));
        blocking::write(&mut device, 0, &[0xee; 16 << 20]).unwrap();
        // Every other 64 KiB, all at once, alternately discarded and zeroed.
        for index in 0..128u64 {
            let len_bytes = 64 << 10;
            let op = if index % 2 == 0 { Op::Discard { len_bytes } } else { Op::WriteZeroes { len_bytes } };
            device.submit(Request { tag: index, offset_bytes: index * 2 * len_bytes, stream: 0, op });
        }
        let mut done = Vec::new();
        while device.in_flight() > 0 {
            device.wait(1_000_000_000);
            device.poll(&mut done);
        }
        assert!(done.iter().all(|completion| completion.result.is_ok()), "{done:?}");
        let bytes = blocking::read(&mut device, 0, 16 << 20).unwrap();
        for (index, chunk) in bytes.chunks(64 << 10).enumerate() {
            let expected = if index % 2 == 0 { 0 } else { 0xee };
            assert!(chunk.iter().all(|&byte| byte == expected), "chunk {index}");
        }
        blocking::flush(&mut device).unwrap();
        let write = Op::Write { bufs: Vectored::One(Buf::zeroed(4096).freeze()), fua: true };
        blocking::run(&mut device, 4096, write).unwrap();
    }
}
