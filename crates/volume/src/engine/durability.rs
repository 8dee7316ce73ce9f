//! What follows from a flush: who is answered, what may be used again, and what a failed one means for the pool.

use super::Engine;
use super::flush::{Asked, Ended};
use crate::request::RequestError;
use forebay_block::IoError;

impl Engine {
    /// A host asks for a flush (or a change of it is to be durable).
    pub(crate) fn client_flush(&mut self, id: u32) {
        match self.flushes.ask(id, &mut self.journal) {
            Asked::Waits => return,
            Asked::Failed => self.requests.clients[id as usize].error = Some(RequestError::FlushFailed),
            Asked::IsDurable => self.release_durable(),
        }
        self.answer(id);
    }

    /// Starts the next flush where one is wanted and none is in flight.
    pub(crate) fn flush_step(&mut self) {
        if self.flushes.begin(&self.journal, &mut self.outbox) {
            self.stats.counters.flushes += 1;
            self.end_flush();
        } else if let Some(ended) = self.flushes.refuse() {
            self.flush_ended(ended);
        }
    }

    /// One device's part of the flush in flight ended.
    pub(crate) fn device_flushed(&mut self, device: usize, result: Result<(), IoError>) {
        self.flushes.device_flushed(device, result.is_ok());
        if let Err(error) = result {
            self.flush_failed(device, &error);
        }
        self.end_flush();
    }

    /// A device flush failed: no more writes are taken that would only be refused their flush.
    pub(crate) fn flush_failed(&mut self, device: usize, error: &IoError) {
        self.flushes.fail();
        self.stats.counters.flush_errors += 1;
        let what = format!("{}: {error}", self.setup.names[device]);
        self.set_read_only(&format!(
            "a flush failed ({what}); what was written since the last good flush may be lost: check the device, then \
             restart the server, which recovers to what is durable"
        ));
        self.stats.counters.last_flush_error = Some(what);
    }

    /// Ends the flush in flight where all its parts are done.
    pub(crate) fn end_flush(&mut self) {
        if let Some(ended) = self.flushes.end(&mut self.journal) {
            self.flush_ended(ended);
        }
    }

    fn flush_ended(&mut self, Ended { failed, clients, checkpoint }: Ended) {
        for id in clients {
            if failed {
                self.requests.clients[id as usize].error = Some(RequestError::FlushFailed);
            }
            self.answer(id);
        }
        if checkpoint {
            self.checkpoint_flushed(!failed);
        }
        self.release_durable();
    }
}
