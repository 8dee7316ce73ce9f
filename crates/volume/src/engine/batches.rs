//! Journal batches on their way to the device.

use super::flush::Flushes;
use super::outbox::{Outbox, Pending};
use super::setup::Setup;
use super::statistics::Counters;
use crate::journal::{Journal, Sealed};
use crate::request::RequestError;
use forebay_block::{IoError, Op, Vectored};
use smallvec::SmallVec;

/// Further attempts at writing a journal batch that failed.
pub(crate) const BATCH_ATTEMPTS_MAX: u8 = 3;
/// Most journal batches in flight at once: more than a foreground application has requests, which would wait for each other otherwise; and fewer than a flood
/// of requests has, which then share batches.
const IN_FLIGHT_MAX: u32 = 8;

/// Whether the open batch may be sealed: not while many are in flight. Then what comes until one of them arrives shares the open batch. Batches that follow
/// each other share a media block, so a device writes them one after the other.
pub(super) fn may_seal(outbox: &Outbox) -> bool {
    outbox.batches_in_flight() < IN_FLIGHT_MAX
}

/// Seals the open batch and sends it.
pub(super) fn seal(force: bool, journal: &mut Journal, counters: &mut Counters, outbox: &mut Outbox) {
    if let Some(sealed) = journal.seal(force) {
        counters.journal_bytes += sealed.bytes.len() as u64;
        send(sealed, 0, outbox);
    }
}

fn send(sealed: Sealed, attempts: u8, outbox: &mut Outbox) {
    let (offset_bytes, fua) = (sealed.offset_bytes, sealed.fua);
    let op = Op::Write { bufs: Vectored::One(sealed.bytes.clone()), fua };
    outbox.send(0, offset_bytes, 0, op, Pending::Batch { sealed, attempts });
}

/// The write of a batch ended. Returns who waits for it, and why it cannot be written. `None`: it is written once more.
pub(super) fn written(
    sealed: Sealed,
    attempts: u8,
    result: Result<(), IoError>,
    (setup, journal, flushes, outbox): (&Setup, &mut Journal, &mut Flushes, &mut Outbox),
) -> Option<(SmallVec<[u32; 8]>, Option<RequestError>)> {
    let error = match result {
        Ok(()) => None,
        Err(_) if attempts < BATCH_ATTEMPTS_MAX => {
            // The same bytes go to the same place: the result is the same, whatever part of the first attempt arrived.
            send(sealed, attempts + 1, outbox);
            return None;
        }
        Err(source) => Some(setup.device_error(0, source)),
    };
    let waiters = journal.written(sealed.batch);
    if error.is_none() {
        if !sealed.fua {
            flushes.written(0);
        }
        journal.part_complete(sealed.batch, flushes.submitted(), setup.volatile);
    }
    Some((waiters, error))
}
