//! What lies on a member when an array is put together: its label, and its log.

use super::found::FoundRows;
use crate::io::Devices;
use crate::layout::Id;
use crate::layout::array_label::{ArrayLabel, LABEL_BYTES, OFFSETS_BYTES};
use crate::layout::array_shape::SLOT_BYTES;
use crate::mirror::{Former, Member, is_believed};

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
        // A label that cannot be read is read once more: one transfer may go wrong.
        let mut read = || ArrayLabel::decode(&devices.read(number, offset_bytes, LABEL_BYTES).ok()?);
        Some((read().or_else(read)?, place))
    });
    labels.max_by_key(|(label, _)| label.serial)
}

/// Which member of this pool a device was, where its label is believed.
#[must_use]
pub fn former(device: &mut Devices, pool: Id) -> Option<Former> {
    let (label, place) = label_and_place(device, 0).filter(|(label, _)| label.pool == pool)?;
    let id = label.ids.get(usize::from(label.member)).copied()?;
    let former = Former { id, generation: label.generation, serial: label.serial, is_second: place == 1 };
    former.checked().filter(|_| is_believed(device, &(&label).into()))
}

/// How often unreadable places of the logs are read again, after the logs of all members: what fails for a moment may be readable then.
const LOOKS: u8 = 3;
/// Most unreadable places of one member's log: where there are more, the device itself cannot be read.
pub(super) const UNREAD_MAX: usize = 8;

/// Takes in the logs of members; returns the members whose logs have unreadable places, with these places.
pub(super) fn read_logs(
    members: &mut [Member],
    numbers: Vec<usize>,
    label: &ArrayLabel,
    found: &mut FoundRows,
) -> Vec<(usize, Vec<u32>)> {
    let slots = label.shape.log_slots;
    let at_once = (READ_BYTES / SLOT_BYTES) as u32;
    let mut unread = Vec::new();
    for number in numbers {
        let mut places = Vec::new();
        for first in (0..slots).step_by(at_once as usize) {
            let count = at_once.min(slots - first);
            if !read_places(&mut members[number], (first, count), label, (number, &mut *found)) {
                // One bad place must not hide the others.
                places.extend(first..first + count);
            }
        }
        unread.push((number, places));
    }
    for _ in 0..LOOKS {
        for (number, places) in &mut unread {
            places.retain(|&place| !read_places(&mut members[*number], (place, 1), label, (*number, &mut *found)));
        }
    }
    unread.retain(|(_, places)| !places.is_empty());
    unread
}

/// Takes in places of the log of a member; false where they cannot be read.
fn read_places(
    member: &mut Member,
    (first, count): (u32, u32),
    label: &ArrayLabel,
    (number, found): (usize, &mut FoundRows),
) -> bool {
    let Some(device) = member.device.take() else { return true };
    let mut devices = Devices::new(vec![device]);
    let read = devices.read(0, label.shape.slot_offset_bytes(first), (u64::from(count) * SLOT_BYTES) as usize);
    member.device = devices.list.pop();
    read.is_ok_and(|bytes| {
        found.take((first, &bytes), label, number);
        true
    })
}
