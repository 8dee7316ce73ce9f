//! Sets up a ring for one thread, by the best means that the kernel has.

use super::arena::Arena;
use super::medium::Medium;
use forebay_block::WaitMethod;
use io_uring::IoUring;
use std::io;

/// How the kernel runs the completion work of an I/O in the submitting thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TaskWork {
    /// When the thread enters the kernel to look for completions (Linux 6.1).
    Deferred,
    /// When the thread enters the kernel for any reason (Linux 5.19).
    Cooperative,
    /// By interrupting the thread.
    Interrupting,
}

/// A ring that is set up, and what was registered with it.
pub(super) struct Setup {
    pub(super) ring: IoUring,
    pub(super) task_work: TaskWork,
    /// The ring accepts nothing until the thread that will use it has enabled it.
    pub(super) disabled: bool,
    /// Whether the file is registered as number 0.
    pub(super) file_registered: bool,
    /// The reason why buffers could not be registered; `None` where they are, one for each slot.
    pub(super) buffers_refusal: Option<String>,
}

/// The variants to try, the best one first. Measured on Linux 6.18 (4 KiB random reads of a file in ext4, direct,
/// alternating): at depth 16, sleeping threads did as much or more with cooperative work, for 2.8 against 4.1
/// microseconds of CPU a read. At depth 1, and for spinning threads, no variant was ahead beyond the noise; deferred
/// work keeps completions until the thread looks for them.
pub(super) fn preferences(wait: WaitMethod) -> [TaskWork; 3] {
    match wait {
        WaitMethod::Sleep => [TaskWork::Cooperative, TaskWork::Deferred, TaskWork::Interrupting],
        WaitMethod::Spin | WaitMethod::Hybrid { .. } => {
            [TaskWork::Deferred, TaskWork::Cooperative, TaskWork::Interrupting]
        }
    }
}

/// Sets up a ring, and registers file and buffers.
///
/// # Errors
/// io_uring is forbidden or not supported.
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
            // This kernel does not know the flag.
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
        // The thread that enables the ring owns it. The ring is set up earlier on another thread, where errors can be
        // reported.
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
