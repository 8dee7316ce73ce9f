//! Runs one request at a time and waits for it: for formatting, inspection and tests, never for serving.

use forebay_block::{Buf, Device, IoError, IoErrorKind, Op, Request, SharedBuf, Vectored};
use std::time::{Duration, Instant};

/// Time without an answer after which a device counts as dead.
const TIMEOUT: Duration = Duration::from_secs(120);
const WAIT_NS: u64 = 100_000_000;

/// Runs one operation to its end. The device must be idle, because completions of other requests would be lost here.
///
/// # Errors
/// The device's own error; [`IoErrorKind::Invalid`] where the device is not idle; [`IoErrorKind::Medium`] with
/// ETIMEDOUT where it does not answer for two minutes.
pub fn run(device: &mut dyn Device, offset_bytes: u64, op: Op) -> Result<Option<Vectored<Buf>>, IoError> {
    let operation = op.name();
    if device.in_flight() > 0 {
        return Err(IoError { kind: IoErrorKind::Invalid, operation, offset_bytes, os_error: libc::EBUSY });
    }
    device.submit(Request { tag: 0, offset_bytes, stream: 0, op });
    let started = Instant::now();
    let mut done = Vec::with_capacity(1);
    loop {
        device.poll(&mut done);
        if let Some(completion) = done.pop() {
            return completion.result.map(|()| completion.bufs);
        }
        if started.elapsed() > TIMEOUT {
            return Err(IoError { kind: IoErrorKind::Medium, operation, offset_bytes, os_error: libc::ETIMEDOUT });
        }
        device.wait(WAIT_NS);
    }
}

/// Reads `len_bytes` at `offset_bytes`, both multiples of the logical block.
///
/// # Errors
/// As [`run`].
pub fn read(device: &mut dyn Device, offset_bytes: u64, len_bytes: usize) -> Result<Buf, IoError> {
    let bufs = run(device, offset_bytes, Op::read(Vectored::One(Buf::new(len_bytes))))?;
    match bufs {
        Some(Vectored::One(buf)) => Ok(buf),
        // The device has broken the contract of the trait by not returning the buffers, so its success is not trusted
        // either.
        _ => Err(IoError { kind: IoErrorKind::Medium, operation: "read", offset_bytes, os_error: 0 }),
    }
}

/// Reads any byte range inside the device, rounding outwards to logical blocks.
///
/// # Errors
/// As [`run`]; [`IoErrorKind::Invalid`] where the range does not fit the device.
pub fn read_any(device: &mut dyn Device, offset_bytes: u64, len_bytes: usize) -> Result<SharedBuf, IoError> {
    let block = u64::from(device.geometry().logical_block_bytes);
    let start = offset_bytes / block * block;
    let within = (offset_bytes - start) as usize;
    let len = (within + len_bytes).next_multiple_of(block as usize);
    Ok(read(device, start, len)?.freeze().slice(within, len_bytes))
}

/// Writes a copy of `bytes`.
///
/// # Errors
/// As [`run`].
pub fn write(device: &mut dyn Device, offset_bytes: u64, bytes: &[u8]) -> Result<(), IoError> {
    let bufs = Vectored::One(Buf::copy_of(bytes).freeze());
    run(device, offset_bytes, Op::Write { bufs, fua: false }).map(|_| ())
}

/// Flushes the device.
///
/// # Errors
/// As [`run`].
pub fn flush(device: &mut dyn Device) -> Result<(), IoError> {
    run(device, 0, Op::Flush).map(|_| ())
}
