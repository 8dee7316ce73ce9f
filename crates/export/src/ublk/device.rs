//! The device: requests fetched from the kernel, and their ends committed.

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

/// Queues of a device at most; one thread serves them all.
const QUEUES_MAX: u16 = 4;
/// Requests in flight of each queue.
const DEPTH: u16 = 64;
/// Longest read or write, in bytes. A slot of that size for each request is memory once it was used.
const IO_BYTES_MAX: u32 = 256 << 10;
/// How long the kernel may take to notice that the server before has gone.
const RECOVERY_LIMIT: Duration = Duration::from_secs(20);
/// Requests taken in one turn.
const RECEIVE_MAX: usize = 256;
/// The completion of the command that makes the device live. Those of requests are their tokens.
const STARTED: u64 = u64::MAX;
/// `IORING_ENTER_GETEVENTS` (linux/io_uring.h).
const GETEVENTS: u32 = 1;
/// linux/prctl.h.
const PR_SET_IO_FLUSHER: i32 = 57;
/// `UBLK_IO_RES_ABORT`: no more requests come.
const ABORT: i32 = -libc::ENODEV;

/// A device that is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Its number; any free one where left out.
    pub number: Option<u32>,
    /// What tells this export of this pool from all others.
    pub marker: u64,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Whether writes are refused.
    pub read_only: bool,
}

/// How far it has come; shared with whom it interests.
#[derive(Clone, Debug)]
pub struct UblkState {
    /// `N` of `/dev/ublkbN`.
    pub number: u32,
    /// Whether it waited for a server, and was not made anew.
    pub is_recovered: bool,
    /// Its size in bytes: one that waited has the one that its export had.
    pub size_bytes: u64,
    /// 0: not yet, 1: live, else an error's number above 1.
    state: Arc<AtomicU32>,
}

impl UblkState {
    /// Whether the device can be used; `None`: not yet.
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

/// A device being served. Dropped, it waits for its next server.
pub struct Ublk {
    // Before what its commands point into.
    ring: IoUring<squeue::Entry128, cqueue::Entry>,
    char_device: OwnedFd,
    control: OwnedFd,
    info: DeviceInfo,
    descriptors: Vec<Mapping>,
    slots: ManuallyDrop<Mapping>,
    /// Lengths of what is in flight, by token.
    lens: Vec<u32>,
    commits: Vec<(u16, i32)>,
    state: UblkState,
    is_begun: bool,
    is_stopping: bool,
    /// The kernel has taken the device away: nothing is copied any more.
    is_gone: bool,
}

impl Drop for Ublk {
    fn drop(&mut self) {
        // Commands that wait end some time after the ring was closed, and until then the kernel may copy a write into a slot.
        // That memory must not become somebody else's.
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
    /// Makes a device, or takes over the one that waits. It is live some time after the server has begun to run, as the kernel
    /// looks for partitions first, which the server has to answer.
    ///
    /// # Errors
    /// Where the kernel has no ublk, or refuses.
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
        // The thread that enables the ring is the one that uses it. Not with deferred work: the driver adds requests without
        // waking who polls such a ring's descriptor, and at depth 1 each would wait for a tick.
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

    /// How far it has come.
    #[must_use]
    pub fn state(&self) -> UblkState {
        self.state.clone()
    }

    /// Asks for requests, on the thread that will take them: the kernel binds them to it.
    fn begin(&mut self) -> Result<(), FrontendError> {
        self.is_begun = true;
        // This thread writes what the kernel writes to get memory free: it must not wait for such a write itself (prctl(2),
        // PR_SET_IO_FLUSHER). Refused without CAP_SYS_RESOURCE; then it goes on without.
        // SAFETY: passes numbers only.
        unsafe { libc::prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0) };
        let enabled = self.ring.submitter().register_enable_rings();
        enabled.map_err(|error| failed("io_uring_register", &error))?;
        for token in 0..self.lens.len() as u16 {
            self.push(token, abi::FETCH_REQ, 0)?;
        }
        // All in one call, which no signal interrupts: of a queue that has asked for some only the kernel could not let go.
        self.enter(true)?;
        // Only now: until a server has asked for requests the kernel begins no second recovery, and lets no process but the first
        // that mapped these see them (drivers/block/ublk_drv.c, `ublk_ctrl_start_recovery` and `ublk_ch_mmap`). A server that is
        // killed before this line has mapped nothing, and one that is killed after it has asked.
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
        // There is room for each token once.
        pushed.map_err(|_| FrontendError::System { operation: "io_uring", source: Errno::AGAIN })
    }

    /// Passes on what was pushed, and with `events` lets the kernel do its part.
    fn enter(&mut self, events: bool) -> Result<(), FrontendError> {
        loop {
            let waiting = self.ring.submission().len() as u32;
            let flags = if events { GETEVENTS } else { 0 };
            // SAFETY: no argument is passed.
            match unsafe { self.ring.submitter().enter::<libc::sigset_t>(waiting, 0, flags, None) } {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                // Out of memory for the moment: what was pushed stays where it is, and the next turn passes it on.
                Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EBUSY)) => return Ok(()),
                Err(error) => return Err(failed("io_uring_enter", &error)),
                Ok(_) => return Ok(()),
            }
        }
    }

    /// Takes requests, a bounded number.
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

/// Takes the device of the server before over, and gives its size in bytes; `None` where it was never live, and is of no use.
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
            // The server before has begun, and was killed before it had asked for requests: what it began is gone on with.
            Err(UblkError::System { source: Errno::INVAL, .. })
                if control.info(found.number).is_ok_and(|info| info.state == abi::QUIESCED) =>
            {
                return Ok(Some(device_bytes));
            }
            // The kernel still clears up after the server before.
            Err(UblkError::System { source: Errno::BUSY, .. }) if begun.elapsed() < RECOVERY_LIMIT => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(error) => return Err(error),
        }
    }
}

/// Opens the device of requests. Only one process may have it: one that was killed may be on its way out.
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

/// Ends this process, as if it were killed here, where the variable FOREBAY_PLANT names this point.
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
        // What failed first is what is reported.
        let _ = control.delete(info.number);
        return Err(error);
    }
    Ok(info)
}

fn failed(operation: &'static str, error: &std::io::Error) -> FrontendError {
    FrontendError::System { operation, source: Errno::from_io_error(error).unwrap_or(Errno::IO) }
}

/// As the kernel takes it.
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
            // Who waits for the device to start learns that it will not.
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
            // Unanswered: the next server is asked again.
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
