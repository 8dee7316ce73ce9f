//! Reads binary traces whose records have one size.

use super::counters::Counters;
use super::fields::Bad;
use crate::{BATCH_REQUESTS, Request, TraceError};
use std::io::Read;

/// Bytes read at a time.
const CHUNK_BYTES: usize = 1 << 20;

/// Reads records of `N` bytes each, in chunks.
pub(super) struct Records<R, const N: usize> {
    from: R,
    chunk: Vec<u8>,
    /// Byte of the trace at which the chunk begins.
    offset_bytes: u64,
    /// Index in the chunk at which the next record begins.
    at: usize,
    is_over: bool,
    /// Why reading ended; reported once everything before it has been passed on.
    failed: Option<TraceError>,
}

impl<R: Read, const N: usize> Records<R, N> {
    pub fn new(from: R) -> Self {
        Self { from, chunk: Vec::new(), offset_bytes: 0, at: 0, is_over: false, failed: None }
    }

    /// The next record, and the byte at which it begins; `None` at the end.
    fn next(&mut self) -> Result<Option<(u64, &[u8; N])>, TraceError> {
        if self.chunk.len() - self.at < N && !self.is_over {
            self.fill();
        }
        if self.chunk.len() - self.at < N
            && let Some(failed) = self.failed.take()
        {
            return Err(failed);
        }
        let place = self.offset_bytes + self.at as u64;
        let Some(record) = self.chunk[self.at..].first_chunk::<N>() else { return Ok(None) };
        self.at += N;
        Ok(Some((place, record)))
    }

    /// Bytes at the end that make no record, and where they begin.
    fn rest(&self) -> Option<(u64, usize)> {
        let rest = self.chunk.len() - self.at;
        (self.is_over && rest > 0 && rest < N).then(|| (self.offset_bytes + self.at as u64, rest))
    }

    /// Appends the requests of the next records, as [`crate::Source::read`] does; errors are counted.
    pub fn read_batch(
        &mut self,
        counters: &mut Counters,
        into: &mut Vec<Request>,
        mut request: impl FnMut(&[u8; N]) -> Result<Request, Bad>,
    ) -> Result<bool, TraceError> {
        for _ in 0..BATCH_REQUESTS {
            let Some((place, record)) = self.next()? else {
                if let Some((place, bytes)) = self.rest() {
                    counters.bad(place, place, || format!("{bytes} bytes at the end are no whole record of {N}"))?;
                }
                counters.end()?;
                return Ok(false);
            };
            match request(record) {
                Ok(request) => {
                    counters.good();
                    into.push(request);
                }
                Err(bad) => counters.bad(place, place, || bad.to_owned())?,
            }
        }
        Ok(true)
    }

    fn fill(&mut self) {
        self.chunk.drain(..self.at);
        self.offset_bytes += self.at as u64;
        self.at = 0;
        let have = self.chunk.len();
        let wanted = (CHUNK_BYTES - have) as u64;
        let read = (&mut self.from).take(wanted).read_to_end(&mut self.chunk);
        let offset_bytes = self.offset_bytes + self.chunk.len() as u64;
        match read {
            Ok(read) => self.is_over = (read as u64) < wanted,
            Err(source) => {
                self.is_over = true;
                self.failed = Some(TraceError::Read { offset_bytes, source });
            }
        }
    }
}
