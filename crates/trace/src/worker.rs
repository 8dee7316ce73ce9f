//! A thread that works on batches, which go round between it and whoever started it: the memory of a batch is used again.

use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, SendError, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};

/// The thread, seen from the other end. Where this is dropped the thread ends with the batch at hand, and nobody waits for that.
pub(crate) struct Worker<S, B> {
    to: SyncSender<B>,
    from: Receiver<B>,
    /// Gives back what it works with, if it got it.
    thread: Option<JoinHandle<Option<S>>>,
}

impl<S: Send + 'static, B: Send + 'static> Worker<S, B> {
    /// Has a thread of this name work with `state` on batches, in their order, until `work` says that there are no more. At most so many
    /// batches may go round.
    ///
    /// # Errors
    /// Gives the state back where there can be no thread.
    pub fn start(name: &str, batches_max: usize, state: S, work: fn(&mut S, &mut B) -> bool) -> Result<Self, S> {
        let (give, given) = sync_channel(1);
        let (to, todo) = sync_channel(batches_max);
        let (done, from) = sync_channel(batches_max);
        let work = move || given.recv().ok().map(|state| work_on(state, &todo, &done, work));
        match Builder::new().name(name.to_owned()).spawn(work) {
            Ok(thread) => {
                give.send(state).map_err(|SendError(state)| state).map(|()| Self { to, from, thread: Some(thread) })
            }
            Err(_) => Err(state),
        }
    }

    /// Gives it a batch. Where it has panicked, whoever takes the next one learns of it.
    pub fn give(&self, batch: B) {
        let _ = self.to.send(batch);
    }

    /// Waits for the next batch to be done; the last one was not taken yet. Where the thread has panicked, so does this.
    pub fn take(&mut self) -> B {
        self.from.recv().unwrap_or_else(|_| match self.thread.take().map(JoinHandle::join) {
            Some(Err(panic)) => resume_unwind(panic),
            _ => unreachable!("a thread with batches to do has ended"),
        })
    }

    /// Waits until all batches are done, and takes back what the thread worked with. Where it has panicked, so does this.
    pub fn end(self) -> S {
        let Self { to, from: _from, thread } = self;
        drop(to);
        match thread.map(JoinHandle::join) {
            Some(Ok(Some(state))) => state,
            Some(Err(panic)) => resume_unwind(panic),
            _ => unreachable!("a worker has its state, and its panic is passed on once"),
        }
    }
}

fn work_on<S, B>(mut state: S, todo: &Receiver<B>, done: &SyncSender<B>, work: fn(&mut S, &mut B) -> bool) -> S {
    while let Ok(mut batch) = todo.recv() {
        let goes_on = work(&mut state, &mut batch);
        if done.send(batch).is_err() || !goes_on {
            break;
        }
    }
    state
}
