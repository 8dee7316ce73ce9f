//! The fallback where io_uring is forbidden: each request runs to its end inside `submit`.

use super::kernel;
use super::transfer::{Next, Step, Transfer};
use forebay_block::IoError;
use std::os::fd::BorrowedFd;

/// Runs a transfer to its end. The loop is bounded: each round moves bytes, uses up a retry or moves to a fallback.
pub(super) fn run(fd: BorrowedFd<'_>, transfer: &mut Transfer) -> Result<(), IoError> {
    loop {
        let step = transfer.step();
        if let Next::Done(result) = transfer.answer(call(fd, transfer, step)) {
            return result;
        }
    }
}

/// Carries out one step by a system call.
pub(super) fn call(fd: BorrowedFd<'_>, transfer: &Transfer, step: Step) -> i32 {
    match step {
        // SAFETY: the vectors lead into buffers that the transfer owns and passes to nobody else before it ends.
        Step::Read { offset_bytes } => unsafe { kernel::read_raw(fd, transfer.vectors(), offset_bytes) },
        // SAFETY: as above; written memory is shared and therefore immutable.
        Step::Write { offset_bytes, dsync, .. } => unsafe {
            kernel::write_raw(fd, transfer.vectors(), offset_bytes, dsync)
        },
        Step::Sync => kernel::sync_data(fd),
        Step::Allocate { mode, offset_bytes, len_bytes } => kernel::allocate(fd, mode, offset_bytes, len_bytes),
        Step::DiscardCommand { offset_bytes, len_bytes } | Step::DiscardCall { offset_bytes, len_bytes } => {
            kernel::discard(fd, offset_bytes, len_bytes)
        }
    }
}
