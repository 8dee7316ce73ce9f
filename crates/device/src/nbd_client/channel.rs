//! A buffered, non-blocking byte channel. It reads while it writes: a server that stops reading until its replies are
//! taken would otherwise deadlock with this client.

use super::error::NbdError;
use super::stream::Stream;
use std::io;
use std::time::{Duration, Instant};

/// A submission waits while more than this many bytes are queued for sending.
const OUTGOING_LIMIT_BYTES: usize = 8 << 20;
const READ_BYTES: usize = 256 << 10;

#[derive(Debug)]
pub(super) struct Channel {
    stream: Stream,
    timeout: Duration,
    outgoing: Vec<u8>,
    sent: usize,
    incoming: Vec<u8>,
    taken: usize,
    scratch: Vec<u8>,
}

impl Channel {
    pub(super) fn new(stream: Stream, timeout: Duration) -> Self {
        let (outgoing, incoming, scratch) = (Vec::new(), Vec::new(), vec![0; READ_BYTES]);
        Self { stream, timeout, outgoing, sent: 0, incoming, taken: 0, scratch }
    }

    /// Returns the socket. Received bytes that were not consumed are lost.
    pub(super) fn into_stream(self) -> Stream {
        self.stream
    }

    /// Received bytes that were not consumed.
    pub(super) fn received(&self) -> &[u8] {
        &self.incoming[self.taken..]
    }

    pub(super) fn consume(&mut self, count: usize) {
        self.taken = (self.taken + count).min(self.incoming.len());
        if self.taken == self.incoming.len() {
            self.incoming.clear();
            self.taken = 0;
        }
    }

    /// Queues bytes, and sends as much as the socket takes.
    pub(super) fn send(&mut self, parts: &[&[u8]], during: &'static str) -> Result<(), NbdError> {
        for part in parts {
            self.outgoing.extend_from_slice(part);
        }
        self.write_some(during)?;
        while self.outgoing.len() - self.sent > OUTGOING_LIMIT_BYTES {
            self.exchange(during)?;
        }
        Ok(())
    }

    fn write_some(&mut self, during: &'static str) -> Result<(), NbdError> {
        while self.sent < self.outgoing.len() {
            match self.stream.write(&self.outgoing[self.sent..]) {
                Ok(0) => return Err(NbdError::Closed { during }),
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(source) => return Err(NbdError::Io { during, source }),
            }
        }
        self.outgoing.clear();
        self.sent = 0;
        Ok(())
    }

    /// Reads what has arrived; returns whether there was anything.
    pub(super) fn read_some(&mut self, during: &'static str) -> Result<bool, NbdError> {
        if self.taken > READ_BYTES {
            self.incoming.drain(..self.taken);
            self.taken = 0;
        }
        let result = loop {
            match self.stream.read(&mut self.scratch) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => break result,
            }
        };
        match result {
            Ok(0) => Err(NbdError::Closed { during }),
            Ok(count) => {
                self.incoming.extend_from_slice(&self.scratch[..count]);
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(source) => Err(NbdError::Io { during, source }),
        }
    }

    /// Waits until bytes can be read or, where some are queued, written.
    pub(super) fn exchange(&mut self, during: &'static str) -> Result<(), NbdError> {
        let writing = self.sent < self.outgoing.len();
        let ready = self.stream.wait(writing, self.timeout).map_err(|source| NbdError::Io { during, source })?;
        if !ready {
            return Err(NbdError::Timeout { seconds: self.timeout.as_secs() });
        }
        self.read_some(during)?;
        self.write_some(during)
    }

    /// Waits for `count` bytes and consumes them.
    pub(super) fn take(&mut self, count: usize, during: &'static str) -> Result<Vec<u8>, NbdError> {
        let started = Instant::now();
        while self.received().len() < count {
            // The limit is for all bytes together: a server that sends one now and then would defeat a limit per
            // wait.
            if started.elapsed() > self.timeout {
                return Err(NbdError::Timeout { seconds: self.timeout.as_secs() });
            }
            self.exchange(during)?;
        }
        let bytes = self.received()[..count].to_vec();
        self.consume(count);
        Ok(bytes)
    }
}
