//! A thread that works on batches, which circulate between it and its owner, so that their memory is reused.

use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, SendError, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};

/// The owner's side of the thread. When this is dropped, the thread ends with its present batch, without being waited for.
pub(crate) struct Worker<S, B> {
    to: SyncSender<B>,
    from: Receiver<B>,
    /// The thread, which returns its state at the end.
    thread: Option<JoinHandle<Option<S>>>,
}

impl<S: Send + 'static, B: Send + 'static> Worker<S, B> {
    /// Starts a thread with this name that works with `state` on batches, in order, until `work` returns false. At most `batches_max`
    /// batches may circulate.
    ///
    /// # Errors
    /// Returns the state if the thread cannot be started.
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

    /// Passes a batch to the thread. If the thread has panicked, the next `take` reports it.
    pub fn give(&self, batch: B) {
        let _ = self.to.send(batch);
    }

    /// Waits for the next finished batch; there must be one that was not taken yet. Panics if the thread has panicked.
    pub fn take(&mut self) -> B {
        self.from.recv().unwrap_or_else(|_| match self.thread.take().map(JoinHandle::join) {
            Some(Err(panic)) => resume_unwind(panic),
            _ => unreachable!("a thread with batches to do has ended"),
        })
    }

    /// Waits until all batches are done, and returns the thread's state. Panics if the thread has panicked.
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

#[cfg(test)]
// In tests, a panic reports the failure.
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    #[test]
    fn the_thread_of_an_owner_that_is_gone_ends() {
        let state = Arc::new(());
        let worker = Worker::start("test", 2, Arc::clone(&state), |_, _: &mut ()| true).unwrap();
        (0..2).for_each(|_| worker.give(()));
        drop(worker);
        let begun = Instant::now();
        while Arc::strong_count(&state) > 1 {
            assert!(begun.elapsed() < Duration::from_secs(30), "the thread goes on");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
