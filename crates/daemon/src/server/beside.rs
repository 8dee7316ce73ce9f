//! Work that may take long, on a thread of its own: beside the server's loop, in which nothing may wait, for all clients would, and before it.

use anyhow::{Context, Result, anyhow};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, sync_channel};
use std::thread::Builder;
use std::time::Duration;

/// Work in progress.
pub struct Beside<T>(Receiver<T>);

impl<T: Send + 'static> Beside<T> {
    /// Begins it. Where nobody asks for its result any more, that is dropped on the thread.
    ///
    /// # Errors
    /// Where the system has no thread left.
    pub fn begin(name: &str, work: impl FnOnce() -> T + Send + 'static) -> Result<Self> {
        let (send, result) = sync_channel(1);
        let run = move || drop(send.send(work()));
        Builder::new().name(name.to_owned()).spawn(run).with_context(|| format!("a thread for {name}"))?;
        Ok(Self(result))
    }

    /// Its result, once; `None`: not yet.
    pub fn ended(&self) -> Option<Result<T>> {
        match self.0.try_recv() {
            Ok(result) => Some(Ok(result)),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err(without_result())),
        }
    }

    /// Waits for its result: not within the server's loop.
    pub fn wait(&self) -> Result<T> {
        self.0.recv().map_err(|_| without_result())
    }

    /// The same, for so long at most.
    pub fn wait_for(&self, limit: Duration) -> Option<Result<T>> {
        match self.0.recv_timeout(limit) {
            Ok(result) => Some(Ok(result)),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Err(without_result())),
        }
    }
}

fn without_result() -> anyhow::Error {
    anyhow!("the thread ended without a result")
}
