//! Work that may take long, on a thread beside the server's loop: within that nothing may wait, for all clients would.

use anyhow::{Context, Result, anyhow};
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::thread::Builder;

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
            Err(TryRecvError::Disconnected) => Some(Err(anyhow!("the thread ended without a result"))),
        }
    }
}
