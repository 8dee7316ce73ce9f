//! The device: fetches requests from the kernel, and commits their results.

#![allow(unsafe_code)]

use super::UblkError;
use super::abi::{self, DeviceInfo};
use super::control::Control;
use crate::frontend::{FrontRequest, Frontend, FrontendError};
use crate::server::Peer;
use forebay_block::Buf;
use forebay_volume::{Outcome, RequestError};
use io_uring::{IoUring, cqueue, opcode, squeue, types};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use std::{fmt, ptr};

/// Most queues of a device; one thread serves them all.
const QUEUES_MAX: u16 = 4;
/// Requests in flight per queue.
const DEPTH: u16 = 64;
/// Longest read or write, in bytes. Each request has a slot of this size, which takes memory once it was used.
const IO_BYTES_MAX: u32 = 256 << 10;
/// How long the kernel may take to notice that the former server has gone.
const RECOVERY_LIMIT: Duration = Duration::from_secs(20);
/// Most requests taken in one iteration.
const RECEIVE_MAX: usize = 256;
/// User data of the command that makes the device live. That of requests is their token.
const STARTED: u64 = u64::MAX;
/// `IORING_ENTER_GETEVENTS` (linux/io_uring.h).
const GETEVENTS: u32 = 1;
/// linux/prctl.h.
const PR_SET_IO_FLUSHER: i32 = 57;
/// `UBLK_IO_RES_ABORT`: no more requests will come.
const ABORT: i32 = -libc::ENODEV;

/// The properties of a device to be made or taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Number of the device; `None`: any free one.
    pub number: Option<u32>,
    /// Mark that distinguishes this export of this pool from all others.
    pub marker: u64,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Whether writes are refused.
    pub read_only: bool,
}

/// The state of a device, shared with its observers.
#[derive(Clone, Debug)]
pub struct UblkState {
    /// `N` of `/dev/ublkbN`.
    pub number: u32,
    /// Whether the device waited for a server, instead of being made anew.
    pub is_recovered: bool,
    /// Size in bytes. A device that waited keeps the size that its export had then.
    pub size_bytes: u64,
    /// 0: not live yet; 1: live; otherwise an errno above 1.
    state: Arc<AtomicU32>,
}

impl UblkState {
    /// Whether the device can be used; `None` while it starts.
    #[must_use]
    pub fn is_live(&self) -> Option<bool> {
        match self.state.load(Ordering::Acquire) {
            0 => None,
            state => Some(state == 1),
        }
    }
}

struct Mapping {
    pointer: *mut u8,
    len_bytes: usize,
}

// SAFETY: plain memory that nobody else's pointers lead to.
unsafe impl Send for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped with this length, and no reference into it outlives its owner.
        let _ = unsafe { munmap(self.pointer.cast(), self.len_bytes) };
    }
}

/// A device being served. When this is dropped, the device waits for its next server.
pub struct Ublk {
    // Declared, and so dropped, before the memory that its commands point into.
    ring: IoUring<squeue::Entry128, cqueue::Entry>,
    char_device: OwnedFd,
    control: OwnedFd,
    info: DeviceInfo,
    descriptors: Vec<Mapping>,
    slots: ManuallyDrop<Mapping>,
    /// Lengths of requests in flight, by token.
    lens: Vec<u32>,
    commits: Vec<(u16, i32)>,
    state: UblkState,
    is_begun: bool,
    is_stopping: bool,
    /// Whether the kernel has removed the device; nothing is copied any more then.
    is_gone: bool,
}

impl Drop for Ublk {
    fn drop(&mut self) {
        // Pending commands end some time after the ring is closed. Until then the kernel may copy a write into a
        // slot, so that memory must not be freed and reused.
        if self.is_gone || !self.is_begun {
            // SAFETY: it is not used after this.
            unsafe { ManuallyDrop::drop(&mut self.slots) };
        }
    }
}

impl fmt::Debug for Ublk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ublk").field("info", &self.info).finish_non_exhaustive()
    }
}

fn system(operation: &'static str) -> impl Fn(Errno) -> UblkError {
    move |source| UblkError::System { operation, source }
}

impl Ublk {
    /// Makes a device, or takes over the one that waits. It becomes live some time after the server has begun to run:
    /// the kernel first looks for partitions, and the server must answer these reads.
    ///
    /// # Errors
    /// The kernel has no ublk, or refuses.
    pub fn open(wanted: Wanted) -> Result<Self, UblkError> {
        let mut control = Control::open()?;
        let recovered = match control.find(wanted.marker) {
            Some(found) => recover(&mut control, found)?.map(|size_bytes| (found, size_bytes)),
            None => None,
        };
        let is_recovered = recovered.is_some();
        let (info, size_bytes) = match recovered {
            Some(recovered) => recovered,
            None => (make(&mut control, &wanted)?, wanted.size_bytes),
        };
        let number = info.number;
        if is_recovered {
            planted("ublk_recovery_begun");
        }
        let char_device = open_char_device(number)?;
        let tags = usize::from(info.depth) * usize::from(info.queues);
        let len_bytes = tags * info.io_bytes_max as usize;
        let (both, private) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new mapping at a place of the kernel's choice.
        let slots = unsafe { mmap_anonymous(ptr::null_mut(), len_bytes, both, private) }.map_err(system("mmap"))?;
        let slots = ManuallyDrop::new(Mapping { pointer: slots.cast(), len_bytes });
        // The thread that enables the ring is the one that uses it. Deferred work is not used: the driver adds
        // requests without waking a thread that polls such a ring's descriptor, and at depth 1 each would wait for a
        // tick.
        let ring = IoUring::builder()
            .dontfork()
            .setup_submit_all()
            .setup_single_issuer()
            .setup_coop_taskrun()
            .setup_taskrun_flag()
            .setup_r_disabled()
            .build((tags as u32 + 1).next_power_of_two())
            .map_err(|error| UblkError::of("io_uring_setup", &error))?;
        Ok(Self {
            ring,
            char_device,
            control: control.into_fd(),
            info,
            descriptors: Vec::new(),
            slots,
            lens: vec![0; tags],
            commits: Vec::new(),
            state: UblkState { number, is_recovered, size_bytes, state: Arc::default() },
            is_begun: false,
            is_stopping: false,
            is_gone: false,
        })
    }

    /// The state of the device.
    #[must_use]
    pub fn state(&self) -> UblkState {
        self.state.clone()
    }

    /// Fetches requests, on the thread that will process them: the kernel binds them to it.
    fn begin(&mut self) -> Result<(), FrontendError> {
        self.is_begun = true;
        // This thread carries out writes by which the kernel frees memory, so it must not itself wait for such writes
        // (prctl(2), PR_SET_IO_FLUSHER). Without CAP_SYS_RESOURCE this is refused; the thread then runs without it.
        // SAFETY: passes numbers only.
        unsafe { libc::prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0) };
        let enabled = self.ring.submitter().register_enable_rings();
        enabled.map_err(|error| failed("io_uring_register", &error))?;
        for token in 0..self.lens.len() as u16 {
            self.push(token, abi::FETCH_REQ, 0)?;
        }
        // All in one call, which no signal interrupts: the kernel could not release a queue that has fetched only
        // some of its requests.
        self.enter(true)?;
        // Not earlier: before a server has fetched requests, the kernel begins no second recovery, and lets only the
        // first process that mapped the descriptors see them (drivers/block/ublk_drv.c, `ublk_ctrl_start_recovery`
        // and `ublk_ch_mmap`). A server killed before this line has mapped nothing; one killed after it has fetched.
        self.map_descriptors()?;
        planted("ublk_recovery_fetched");
        let command = if self.state.is_recovered { abi::END_USER_RECOVERY } else { abi::START_DEV };
        let pid = rustix::process::getpid().as_raw_nonzero().get() as u64;
        let bytes = abi::control_command(self.info.number, 0, 0, pid);
        let entry = opcode::UringCmd80::new(types::Fd(self.control.as_raw_fd()), command).cmd(bytes).build();
        // SAFETY: the command points to nothing.
        let pushed = unsafe { self.ring.submission().push(&entry.user_data(STARTED)) };
        pushed.map_err(|_| FrontendError::System { operation: "START_DEV", source: Errno::AGAIN })?;
        self.enter(true)
    }

    fn map_descriptors(&mut self) -> Result<(), FrontendError> {
        for queue in 0..usize::from(self.info.queues) {
            let len_bytes = (usize::from(self.info.depth) * abi::DESCRIPTOR_BYTES).next_multiple_of(4096);
            let offset = (queue * (abi::QUEUE_DEPTH_MAX * abi::DESCRIPTOR_BYTES).next_multiple_of(4096)) as u64;
            let (read, shared) = (ProtFlags::READ, MapFlags::SHARED | MapFlags::POPULATE);
            // SAFETY: a new mapping at a place of the kernel's choice.
            let mapped = unsafe { mmap(ptr::null_mut(), len_bytes, read, shared, &self.char_device, offset) };
            let mapped = mapped.map_err(|source| FrontendError::System { operation: "mmap of /dev/ublkcN", source })?;
            self.descriptors.push(Mapping { pointer: mapped.cast(), len_bytes });
        }
        Ok(())
    }

    fn slot(&self, token: u16) -> *mut u8 {
        // SAFETY: there is a slot for each token, and no token is larger: see `push` and `receive`.
        unsafe { self.slots.pointer.add(usize::from(token) * self.info.io_bytes_max as usize) }
    }

    fn push(&mut self, token: u16, command: u32, result: i32) -> Result<(), FrontendError> {
        let (queue, tag) = (token / self.info.depth, token % self.info.depth);
        let bytes = abi::io_command(queue, tag, result, self.slot(token) as u64);
        let entry = opcode::UringCmd80::new(types::Fd(self.char_device.as_raw_fd()), command).cmd(bytes).build();
        // SAFETY: the slot lives until the ring has gone.
        let pushed = unsafe { self.ring.submission().push(&entry.user_data(u64::from(token))) };
        // The queue has room for each token once.
        pushed.map_err(|_| FrontendError::System { operation: "io_uring", source: Errno::AGAIN })
    }

    /// Submits entries; with `events` it also lets the kernel run completion work.
    fn enter(&mut self, events: bool) -> Result<(), FrontendError> {
        loop {
            let waiting = self.ring.submission().len() as u32;
            let flags = if events { GETEVENTS } else { 0 };
            // SAFETY: no argument is passed.
            match unsafe { self.ring.submitter().enter::<libc::sigset_t>(waiting, 0, flags, None) } {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                // Temporary lack of memory: entries stay queued, and the next iteration submits them.
                Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EBUSY)) => return Ok(()),
                Err(error) => return Err(failed("io_uring_enter", &error)),
                Ok(_) => return Ok(()),
            }
        }
    }

    /// Takes a limited number of requests.
    fn fetch(&mut self, requests: &mut Vec<FrontRequest>) -> Result<(), FrontendError> {
        if self.is_stopping {
            return Ok(());
        }
        if !self.is_begun {
            self.begin()?;
        }
        if self.ring.submission().taskrun() {
            self.enter(true)?;
        }
        for _ in 0..RECEIVE_MAX {
            let Some((data, result)) = self.ring.completion().next().map(|entry| (entry.user_data(), entry.result()))
            else {
                break;
            };
            if data == STARTED {
                let failed = result < 0;
                let state = if failed { result.unsigned_abs().max(2) } else { 1 };
                self.state.state.store(state, Ordering::Release);
                if failed {
                    let source = Errno::from_raw_os_error(-result);
                    return Err(FrontendError::System { operation: "starting the ublk device", source });
                }
                continue;
            }
            let token = u16::try_from(data).ok().filter(|&token| usize::from(token) < self.lens.len());
            let Some(token) = token else { continue };
            match result {
                0 => {}
                ABORT => {
                    self.is_gone = true;
                    return Err(FrontendError::Gone);
                }
                error => {
                    let source = Errno::from_raw_os_error(-error);
                    return Err(FrontendError::System { operation: "fetching from the ublk device", source });
                }
            }
            let Some(abi::Described { offset_bytes, len_bytes, op, fua, hints }) = self.described(token) else {
                self.push(token, abi::COMMIT_AND_FETCH_REQ, -libc::EOPNOTSUPP)?;
                continue;
            };
            let carries = matches!(op, forebay_volume::Op::Read | forebay_volume::Op::Write(_));
            self.lens[usize::from(token)] = if carries { len_bytes as u32 } else { 0 };
            requests.push(FrontRequest { token, offset_bytes, len_bytes, op, fua, hints });
        }
        if !self.ring.submission().is_empty() {
            self.enter(false)?;
        }
        Ok(())
    }

    fn described(&self, token: u16) -> Option<abi::Described> {
        let (queue, tag) = (usize::from(token / self.info.depth), usize::from(token % self.info.depth));
        let at = self.descriptors.get(queue)?.pointer.cast_const().cast::<[u8; abi::DESCRIPTOR_BYTES]>();
        // SAFETY: the tag is below the depth, for which there are descriptors; the kernel leaves this one alone until the commit.
        let descriptor = unsafe { ptr::read_volatile(at.add(tag)) };
        abi::describe(&descriptor, self.info.io_bytes_max, |len| {
            // SAFETY: no longer than the slot, which is ours until the commit.
            Buf::copy_of(unsafe { std::slice::from_raw_parts(self.slot(token), len) })
        })
    }
}

/// Takes over the device of a former server. Returns its size in bytes; `None` where it never became live and was
/// deleted.
fn recover(control: &mut Control, found: DeviceInfo) -> Result<Option<u64>, UblkError> {
    let path = format!("/sys/class/block/ublkb{}/size", found.number);
    let sectors = std::fs::read_to_string(path).ok().and_then(|text| text.trim().parse::<u64>().ok());
    let Some(device_bytes) = sectors.map(|sectors| sectors * 512) else {
        control.delete(found.number)?;
        return Ok(None);
    };
    let begun = Instant::now();
    loop {
        match control.start_recovery(found.number) {
            Ok(()) => return Ok(Some(device_bytes)),
            // The former server began a recovery and was killed before it fetched requests: that recovery is
            // continued.
            Err(UblkError::System { source: Errno::INVAL, .. })
                if control.info(found.number).is_ok_and(|info| info.state == abi::QUIESCED) =>
            {
                return Ok(Some(device_bytes));
            }
            // The kernel is still cleaning up after the former server.
            Err(UblkError::System { source: Errno::BUSY, .. }) if begun.elapsed() < RECOVERY_LIMIT => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(error) => return Err(error),
        }
    }
}

/// Opens the device of requests. Only one process may have it open, and a killed one may still be ending.
fn open_char_device(number: u32) -> Result<OwnedFd, UblkError> {
    let (path, flags) = (format!("/dev/ublkc{number}"), OFlags::RDWR | OFlags::CLOEXEC);
    let begun = Instant::now();
    loop {
        match rustix::fs::open(&path, flags, Mode::empty()) {
            Err(Errno::BUSY) if begun.elapsed() < RECOVERY_LIMIT => std::thread::sleep(Duration::from_millis(5)),
            opened => return opened.map_err(system("opening /dev/ublkcN")),
        }
    }
}

/// Kills this process where the variable FOREBAY_PLANT names this point.
#[cfg(feature = "planted-faults")]
fn planted(point: &str) {
    let named = std::env::var("FOREBAY_PLANT").unwrap_or_default();
    if named.split(',').any(|word| word == point) {
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}

#[cfg(not(feature = "planted-faults"))]
fn planted(_point: &str) {}

fn make(control: &mut Control, wanted: &Wanted) -> Result<DeviceInfo, UblkError> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let info = DeviceInfo {
        queues: cores.min(usize::from(QUEUES_MAX)) as u16,
        depth: DEPTH,
        io_bytes_max: IO_BYTES_MAX,
        flags: abi::FLAGS,
        marker: wanted.marker,
        ..DeviceInfo::default()
    };
    let info = control.add(info, wanted.number.unwrap_or(u32::MAX))?;
    let parameters = abi::parameters(wanted.size_bytes, info.io_bytes_max, wanted.read_only);
    if let Err(error) = control.set_parameters(info.number, &parameters) {
        // The first error is the one to be reported.
        let _ = control.delete(info.number);
        return Err(error);
    }
    Ok(info)
}

fn failed(operation: &'static str, error: &std::io::Error) -> FrontendError {
    FrontendError::System { operation, source: Errno::from_io_error(error).unwrap_or(Errno::IO) }
}

/// The errno for the kernel.
fn errno(error: &RequestError) -> i32 {
    match error {
        RequestError::OutOfRange | RequestError::NoDisk => -libc::EINVAL,
        error if error.is_for_want_of_space() => -libc::ENOSPC,
        _ => -libc::EIO,
    }
}

impl Frontend for Ublk {
    fn wake_fds(&self, out: &mut Vec<i32>) {
        if !self.is_stopping {
            out.push(self.ring.as_raw_fd());
        }
    }

    fn receive(&mut self, requests: &mut Vec<FrontRequest>) -> Result<(), FrontendError> {
        let received = self.fetch(requests);
        if received.is_err() {
            // Observers that wait for the start are notified that it will not come.
            let (waiting, failed) = (0, Errno::IO.raw_os_error().unsigned_abs());
            let _ = self.state.state.compare_exchange(waiting, failed, Ordering::AcqRel, Ordering::Acquire);
        }
        received
    }

    fn complete(&mut self, token: u16, result: Result<Outcome, RequestError>) {
        let Some(&len_bytes) = self.lens.get(usize::from(token)) else { return };
        let result = match result {
            Ok(Outcome::Data(data)) if data.len() == len_bytes as usize => {
                // SAFETY: no longer than the slot, which is ours until the commit.
                unsafe { ptr::copy_nonoverlapping(data.as_ptr(), self.slot(token), data.len()) };
                len_bytes.cast_signed()
            }
            Ok(Outcome::Data(_)) => -libc::EIO,
            Ok(_) => len_bytes.cast_signed(),
            // Not answered: the kernel submits it again to the next server.
            Err(RequestError::ShuttingDown) => return,
            Err(error) => errno(&error),
        };
        self.commits.push((token, result));
    }

    fn send(&mut self) -> Result<(), FrontendError> {
        if self.commits.is_empty() {
            return Ok(());
        }
        for (token, result) in std::mem::take(&mut self.commits) {
            self.push(token, abi::COMMIT_AND_FETCH_REQ, result)?;
        }
        self.enter(false)
    }

    fn may_sleep(&mut self) -> bool {
        let has_nothing = |ring: &mut IoUring<squeue::Entry128, cqueue::Entry>| {
            ring.completion().is_empty() && ring.submission().is_empty() && !ring.submission().taskrun()
        };
        self.is_stopping || (self.is_begun && has_nothing(&mut self.ring))
    }

    fn begin_shutdown(&mut self) {
        self.is_stopping = true;
    }

    fn peer(&self) -> Option<Peer> {
        Some(Peer::Ublk(self.info.number))
    }

    fn clients(&self) -> u64 {
        1
    }
}
