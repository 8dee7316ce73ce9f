//! Of which checkpoint a device is. An image taken earlier, and put back while the other devices went on, has the same epoch as they have,
//! but an older root.

use super::members::MemberError;
use crate::engine::header_offsets;
use crate::io::Devices;
use crate::layout::capacity_root::{CapacityHeader, DEVICE, HEADER_BYTES as CAPACITY_HEADER_BYTES};
use crate::layout::root::{HEADER_BYTES, RootHeader};
use crate::layout::superblock::Superblock;

/// The newest root of a fast device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NewestRoot {
    /// Its checkpoint.
    pub checkpoint: u64,
    /// Its epoch.
    pub epoch: u64,
}

/// What the headers on a fast device say of its newest root; `None` where no header can be read.
pub(crate) fn newest_on_fast(devices: &mut Devices, superblock: &Superblock) -> Option<NewestRoot> {
    let offsets = [0, 1].into_iter().flat_map(|parity| header_offsets(superblock, parity));
    let headers = offsets.filter_map(|at| {
        let bytes = devices.read(0, at, HEADER_BYTES).ok()?;
        let header = RootHeader::decode(&bytes, &superblock.pool)?;
        Some(NewestRoot { checkpoint: header.checkpoint.max(header.superseded_by), epoch: header.epoch })
    });
    headers.max_by_key(|root| root.checkpoint)
}

/// The checkpoints that the headers on a capacity device name: the older one, if there is one, and the newest. `None` where no header can
/// be read.
pub(crate) fn on_capacity(devices: &mut Devices, device: usize, superblock: &Superblock) -> Option<(Option<u64>, u64)> {
    let area = superblock.capacity_area;
    let offsets = [0, 1].into_iter().filter(|_| area.exists()).map(|parity| area.header_offset_bytes(parity));
    let mut found: Vec<u64> = offsets
        .filter_map(|at| {
            let decode = |bytes: &[u8]| CapacityHeader::decode(bytes, &superblock.pool);
            let read = devices.read_good(device, at, CAPACITY_HEADER_BYTES, |bytes| decode(bytes).is_some());
            Some(decode(&read.ok()??)?.checkpoint)
        })
        .collect();
    found.sort_unstable();
    let newest = found.pop()?;
    Some((found.pop(), newest))
}

/// Whether such numbers show that a member of a tier with parity is older than another: its newest header is older than both headers of the
/// other. A difference of more than one shows nothing here, as checkpoints may be left out on the capacity side; nor does one header, as
/// power may fail when one member has it and another has not. A header that cannot be read shows nothing either.
pub(crate) fn is_older(own: Option<(Option<u64>, u64)>, newest: Option<(Option<u64>, u64)>) -> bool {
    let Some(((_, own), (Some(older), _))) = own.zip(newest) else { return false };
    own < older
}

/// Whether a fast device is as new as another by such numbers, which count up by one. A difference of one is allowed, as power may fail
/// when one device has a header and the other has not. A number that cannot be read shows nothing.
pub(crate) fn is_as_new(own: Option<u64>, newest: Option<u64>) -> bool {
    own.zip(newest).is_none_or(|(own, newest)| own.saturating_add(1) >= newest)
}

/// Refuses a fast device whose newest root is older than it can be. A checkpoint is durable on the capacity tier before its root is durable
/// on the fast one, and the next checkpoint begins only after that: so the root may be behind by one.
pub(super) fn refuse_older(devices: &mut Devices, superblock: &Superblock, checkpoint: u64) -> Result<(), MemberError> {
    match on_capacity(devices, DEVICE, superblock) {
        Some((_, expected)) if !is_as_new(Some(checkpoint), Some(expected)) => {
            Err(MemberError::Older { device: devices.list[0].name().to_owned(), found: checkpoint, expected })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checkpoints are left out on the capacity side while it fails, so that the next header there counts up by more than one. Members that
    /// had missed one were taken for old images, and the pool could not be opened without them.
    #[test]
    fn regression_checkpoints_that_were_left_out_make_no_member_old() {
        let newest = Some((Some(10), 27));
        assert!(!is_older(Some((Some(9), 10)), newest) && !is_older(Some((None, 10)), newest));
        assert!(!is_older(newest, Some((Some(9), 10))) && !is_older(newest, newest));
        assert!(is_older(Some((Some(8), 9)), newest));
        assert!(!is_older(None, newest) && !is_older(Some((Some(8), 9)), None));
        assert!(!is_older(Some((Some(8), 9)), Some((None, 27))), "where only one can be read nothing is proven");
    }
}
