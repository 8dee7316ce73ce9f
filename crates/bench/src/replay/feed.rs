//! Passes the I/Os of a trace to the workers: a thread reads ahead, and workers take one I/O at a time, in order.

use super::{ReplayIo, Requests, SourceError, TraceSource};
use forebay_block::lock;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// Most batches that the reader is ahead; a batch has some thousand I/Os.
const AHEAD: usize = 8;

/// Why a replay fails.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The trace cannot be read any further.
    #[error("the trace cannot be read to its end")]
    Source(#[source] SourceError),
    /// The system provides no more threads.
    #[error("cannot start the thread that reads the trace")]
    Thread(#[source] std::io::Error),
}

/// The answer to a worker that asks for the next I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The next I/O.
    Io(ReplayIo),
    /// The reader lags.
    NotYet,
    /// The trace has no more I/Os.
    Over,
}

struct Ahead {
    /// Batches from the reader; `None` once all were taken, or the feed was closed.
    from: Option<Receiver<Vec<ReplayIo>>>,
    batch: Vec<ReplayIo>,
    /// Index of the next I/O in the batch.
    at: usize,
}

/// The thread that reads ahead, with its result.
type Reader = JoinHandle<Result<(), SourceError>>;

/// Passes on I/Os in the order of their times, to whoever asks. Clones share the I/Os.
#[derive(Clone)]
pub struct Feed {
    ahead: Arc<Mutex<Ahead>>,
    reader: Arc<Mutex<Option<Reader>>>,
}

impl std::fmt::Debug for Feed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Feed")
    }
}

impl Feed {
    /// Starts the reading thread.
    ///
    /// # Errors
    /// [`ReplayError::Thread`] if the thread cannot be started.
    pub fn new<S: TraceSource + 'static>(requests: Requests<S>) -> Result<Self, ReplayError> {
        let (to, from) = sync_channel(AHEAD);
        let body = move || read_ahead(requests, &to);
        let reader = std::thread::Builder::new().name("trace".to_owned()).spawn(body).map_err(ReplayError::Thread)?;
        let ahead = Ahead { from: Some(from), batch: Vec::new(), at: 0 };
        Ok(Self { ahead: Arc::new(Mutex::new(ahead)), reader: Arc::new(Mutex::new(Some(reader))) })
    }

    /// Waits until the first I/Os have been read, since the load begins with them.
    pub(crate) fn prime(&self) {
        lock(&self.ahead).fill(true);
    }

    /// Takes the next I/O. If `is_patient`, waits for the reader.
    pub(super) fn take(&self, is_patient: bool) -> Answer {
        let mut ahead = lock(&self.ahead);
        if ahead.at == ahead.batch.len() {
            ahead.fill(is_patient);
        }
        match ahead.batch.get(ahead.at) {
            Some(&io) => {
                ahead.at += 1;
                Answer::Io(io)
            }
            None if ahead.from.is_some() => Answer::NotYet,
            None => Answer::Over,
        }
    }

    /// Takes the I/Os due before `end_ns` that were already read, and returns their number.
    pub(super) fn take_until(&self, end_ns: u64) -> u64 {
        let mut count = 0;
        while let Answer::Io(io) = self.take(false) {
            if io.at_ns >= end_ns {
                break;
            }
            count += 1;
        }
        count
    }

    /// Ends reading; no more I/Os are passed on.
    ///
    /// # Errors
    /// [`ReplayError::Source`] if reading had failed.
    pub fn close(&self) -> Result<(), ReplayError> {
        {
            let mut ahead = lock(&self.ahead);
            ahead.from = None;
            ahead.at = ahead.batch.len();
        }
        let Some(reader) = lock(&self.reader).take() else { return Ok(()) };
        match reader.join() {
            Ok(ended) => ended.map_err(ReplayError::Source),
            Err(_) => Err(ReplayError::Source("its reader died".into())),
        }
    }
}

impl Ahead {
    /// Gets the next batch once this one is used up.
    fn fill(&mut self, is_patient: bool) {
        while self.at == self.batch.len() {
            let Some(from) = &self.from else { return };
            let next = if is_patient { from.recv().map_err(|_| TryRecvError::Disconnected) } else { from.try_recv() };
            match next {
                Ok(batch) => (self.batch, self.at) = (batch, 0),
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => self.from = None,
            }
        }
    }
}

/// Reads until the trace ends, or nobody wants more.
fn read_ahead<S: TraceSource>(mut requests: Requests<S>, to: &SyncSender<Vec<ReplayIo>>) -> Result<(), SourceError> {
    loop {
        let mut batch = Vec::new();
        let more = requests.read(&mut batch)?;
        if !batch.is_empty() && to.send(batch).is_err() {
            return Ok(());
        }
        if !more {
            return Ok(());
        }
    }
}
