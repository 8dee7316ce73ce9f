//! Making a ring for one thread, with what the kernel has for that.

use super::arena::Arena;
use super::medium::Medium;
use forebay_block::WaitMethod;
use io_uring::IoUring;
use std::io;

/// How the kernel runs the end of an I/O in the submitting thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TaskWork {
    /// When the thread enters the kernel to look for completions (Linux 6.1).
    Deferred,
    /// When the thread enters the kernel anyway (Linux 5.19).
    Cooperative,
    /// By interrupting the thread.
    Interrupting,
}

/// A ring that is set up, with what was registered.
pub(super) struct Setup {
    pub(super) ring: IoUring,
    pub(super) task_work: TaskWork,
    /// The ring takes nothing before the thread that will use it has enabled it.
    pub(super) disabled: bool,
    /// The file is number 0.
    pub(super) file_registered: bool,
    /// Why buffers could not be registered; `None` where they are, one for each slot.
    pub(super) buffers_refusal: Option<String>,
}

/// Which ways to try, the best first. Measured on Linux 6.18 (4 KiB random reads of a file in ext4, direct, alternating):
/// at depth 16 sleepers did as much or more with cooperative work, for 2.8 against 4.1 microseconds of CPU a read;
/// at depth 1, and for spinners, no way was ahead beyond the noise, and deferred work is the one whose completions wait
/// until they are looked for.
pub(super) fn preferences(wait: WaitMethod) -> [TaskWork; 3] {
    match wait {
        WaitMethod::Sleep => [TaskWork::Cooperative, TaskWork::Deferred, TaskWork::Interrupting],
        WaitMethod::Spin | WaitMethod::Hybrid { .. } => {
            [TaskWork::Deferred, TaskWork::Cooperative, TaskWork::Interrupting]
        }
    }
}

/// Makes a ring and registers file and buffers.
///
/// # Errors
/// The operating system's, where io_uring is forbidden or unknown.
pub(super) fn setup(medium: &Medium, arena: &Arena, ways: &[TaskWork], polled: bool) -> io::Result<Setup> {
    let mut last = io::Error::from_raw_os_error(libc::EINVAL);
    for &task_work in ways {
        let built = build(arena.slots(), task_work, polled);
        match built {
            Ok(ring) => {
                let submitter = ring.submitter();
                let file_registered = submitter.register_files(&medium.raw_fds()).is_ok();
                // SAFETY: the vectors describe the arena, which outlives the ring in `RingQueue` or is leaked.
                let registered = unsafe { submitter.register_buffers(&arena.vectors()) };
                let buffers_refusal = registered.err().map(|error| error.to_string());
                let disabled = task_work == TaskWork::Deferred;
                return Ok(Setup { ring, task_work, disabled, file_registered, buffers_refusal });
            }
            // A flag that this kernel does not know.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

fn build(slots: u32, task_work: TaskWork, polled: bool) -> io::Result<IoUring> {
    let mut builder = IoUring::builder();
    builder.dontfork().setup_clamp();
    if polled {
        builder.setup_iopoll();
    }
    match task_work {
        // The thread that enables the ring is the one that may use it; it is made elsewhere, where errors can be reported.
        TaskWork::Deferred => {
            builder.setup_submit_all().setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag();
            builder.setup_r_disabled();
        }
        TaskWork::Cooperative => {
            builder.setup_submit_all().setup_coop_taskrun().setup_taskrun_flag();
        }
        TaskWork::Interrupting => {}
    }
    builder.build(slots.next_power_of_two())
}
