//! Journal batches on their way to the device, and who hears of their end.

use super::migrate::job_of_waiter;
use super::{Engine, Pending};
use crate::journal::Sealed;
use forebay_block::{IoError, Op, Vectored};

/// Further attempts at writing a journal batch that failed.
const ATTEMPTS_MAX: u8 = 3;
/// Journal batches in flight at once: more than an application in the foreground has requests, or they would wait for each
/// other; fewer than a flood has.
const IN_FLIGHT_MAX: u32 = 8;

impl Engine {
    /// Seals the open batch, unless many are in flight: then what comes until one of them arrives shares it. Batches follow
    /// each other in the same media block, which a device writes one after the other.
    pub(crate) fn seal_when_due(&mut self) {
        if self.outbox.batches_in_flight() < IN_FLIGHT_MAX {
            self.seal_batch(false);
        }
    }

    /// Seals the open batch and sends it.
    pub(crate) fn seal_batch(&mut self, force: bool) {
        if let Some(sealed) = self.journal.seal(force) {
            self.stats.counters.journal_bytes += sealed.bytes.len() as u64;
            self.send_batch(sealed, 0);
        }
    }

    fn send_batch(&mut self, sealed: Sealed, attempts: u8) {
        let (offset_bytes, fua) = (sealed.offset_bytes, sealed.fua);
        let op = Op::Write { bufs: Vectored::One(sealed.bytes.clone()), fua };
        self.outbox.send(0, offset_bytes, 0, op, Pending::Batch { sealed, attempts });
    }

    pub(crate) fn batch_written(&mut self, sealed: Sealed, attempts: u8, result: Result<(), IoError>) {
        let (batch, fua) = (sealed.batch, sealed.fua);
        let error = match result {
            Ok(()) => None,
            Err(_) if attempts < ATTEMPTS_MAX => {
                // The same bytes to the same place: whatever of the first attempt arrived, the end is the same.
                return self.send_batch(sealed, attempts + 1);
            }
            Err(source) => Some(self.setup.device_error(0, source)),
        };
        let waiters = self.journal.written(batch);
        if let Some(error) = &error {
            self.set_read_only(&format!("the journal cannot be written: {error}"));
        } else {
            if !fua {
                self.flushes.written(0);
            }
            self.journal.part_complete(batch, self.flushes.submitted(), self.setup.volatile);
        }
        for waiter in waiters {
            if let Some(job) = job_of_waiter(waiter) {
                self.move_batch_written(job, error.is_none());
                continue;
            }
            let Some(piece) = self.requests.pieces.get_mut(waiter as usize) else {
                continue;
            };
            if let Some(error) = &error {
                piece.error.get_or_insert_with(|| error.clone());
                piece.journal_lost = true;
            }
            self.change_part_done(waiter);
        }
    }
}
