//! Whether anything lies on a device that no signature explains: first, last and sampled blocks are looked at.

use crate::blocking;
use forebay_block::{Device, IoError, Random};

/// Bytes that are read whole at each end: headers, labels, and the copies of them that many formats keep.
const END_BYTES: u64 = 1 << 20;
/// Longest single read.
const READ_BYTES: u64 = 256 << 10;
/// Blocks that are sampled between the ends, one in each of as many equal parts: half a second on an SSD, some seconds on a
/// hard disk.
const SAMPLES: u64 = 512;
const SAMPLE_BYTES: u64 = 4096;
/// The places of the samples are the same each time, so that a refusal can be reproduced.
const SEED: u64 = 1;

/// Where the first byte that is not zero lies among the blocks that are looked at; `None`: all of those are zero. The device
/// must be idle.
///
/// # Errors
/// The device's: a place that cannot be read is not a place that is empty.
pub fn first_content(device: &mut dyn Device) -> Result<Option<u64>, IoError> {
    let size_bytes = device.geometry().size_bytes;
    let tail = size_bytes.saturating_sub(END_BYTES).max(END_BYTES.min(size_bytes));
    if let Some(at) = in_range(device, 0, END_BYTES.min(size_bytes))? {
        return Ok(Some(at));
    }
    let middle = tail.saturating_sub(END_BYTES);
    if middle <= SAMPLES * SAMPLE_BYTES {
        if let Some(at) = in_range(device, END_BYTES.min(size_bytes), tail)? {
            return Ok(Some(at));
        }
    } else {
        let mut random = Random::new(SEED);
        let part = middle / SAMPLES / SAMPLE_BYTES;
        for sample in 0..SAMPLES {
            let block = sample * part + random.next_u64() % part;
            let start = END_BYTES + block * SAMPLE_BYTES;
            if let Some(at) = in_range(device, start, start + SAMPLE_BYTES)? {
                return Ok(Some(at));
            }
        }
    }
    in_range(device, tail, size_bytes)
}

/// The first byte from `start` to `end` that is not zero.
fn in_range(device: &mut dyn Device, start: u64, end: u64) -> Result<Option<u64>, IoError> {
    let mut at = start;
    while at < end {
        let len = (end - at).min(READ_BYTES);
        let bytes = blocking::read_any(device, at, len as usize)?;
        if let Some(place) = bytes.iter().position(|&byte| byte != 0) {
            return Ok(Some(at + place as u64));
        }
        at += len;
    }
    Ok(None)
}
