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
    let labels = OFFSETS_BYTES.into_iter().filter_map(|offset_bytes| {
        // Once more: one transfer may go wrong.
        let mut read = || ArrayLabel::decode(&devices.read(number, offset_bytes, LABEL_BYTES).ok()?);
        read().or_else(read)
    });
    labels.max_by_key(|label| label.serial)
}

/// Takes in the log of a member; false where a part of it cannot be read.
pub(super) fn read_log(member: &mut Member, label: &ArrayLabel, number: usize, found: &mut FoundRows) -> bool {
    let Some(device) = member.device.take() else { return true };
    let mut devices = Devices::new(vec![device]);
    let len_bytes = u64::from(label.shape.log_slots) * SLOT_BYTES;
    let mut log = vec![0; len_bytes as usize];
    let mut is_whole = true;
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
                is_whole &= read(at, at + SLOT_BYTES) || read(at, at + SLOT_BYTES);
            }
        }
    }
    member.device = devices.list.pop();
    found.take(&log, label, number);
    is_whole
}
