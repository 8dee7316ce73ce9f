//! What lies on a member when an array is put together: its label, and its log.

use super::found::FoundRows;
use crate::io::Devices;
use crate::layout::array_label::{ArrayLabel, LABEL_BYTES, OFFSETS_BYTES};
use crate::layout::array_shape::SLOT_BYTES;
use crate::mirror::Member;

/// What is read of the log at once, in bytes.
const READ_BYTES: u64 = 1 << 20;

/// The newest label on a device, where one can be read.
#[must_use]
pub fn read_label(devices: &mut Devices, number: usize) -> Option<ArrayLabel> {
    label_and_place(devices, number).map(|(label, _)| label)
}

/// The newest label on a device, and in which of its two places that is.
pub(super) fn label_and_place(devices: &mut Devices, number: usize) -> Option<(ArrayLabel, usize)> {
    let labels = OFFSETS_BYTES.into_iter().enumerate().filter_map(|(place, offset_bytes)| {
        // Once more: one transfer may go wrong.
        let mut read = || ArrayLabel::decode(&devices.read(number, offset_bytes, LABEL_BYTES).ok()?);
        Some((read().or_else(read)?, place))
    });
    labels.max_by_key(|(label, _)| label.serial)
}

/// Takes in the log of a member; returns the places of it that cannot be read.
pub(super) fn read_log(member: &mut Member, label: &ArrayLabel, number: usize, found: &mut FoundRows) -> Vec<u32> {
    let Some(device) = member.device.take() else { return Vec::new() };
    let mut devices = Devices::new(vec![device]);
    let len_bytes = u64::from(label.shape.log_slots) * SLOT_BYTES;
    let mut log = vec![0; len_bytes as usize];
    let mut unread = Vec::new();
    for begin in (0..len_bytes).step_by(READ_BYTES as usize) {
        let end = (begin + READ_BYTES).min(len_bytes);
        let mut read = |begin: u64, end: u64| {
            let bytes = devices.read(0, label.shape.head_bytes + begin, (end - begin) as usize);
            let is_good = bytes.is_ok();
            if let Ok(bytes) = bytes {
                log[begin as usize..end as usize].copy_from_slice(&bytes);
            }
            is_good
        };
        if !read(begin, end) {
            // One bad place hides no other, and one transfer may go wrong.
            for at in (begin..end).step_by(SLOT_BYTES as usize) {
                if !read(at, at + SLOT_BYTES) && !read(at, at + SLOT_BYTES) {
                    unread.push((at / SLOT_BYTES) as u32);
                }
            }
        }
    }
    member.device = devices.list.pop();
    found.take((0, &log), label, number);
    unread
}
