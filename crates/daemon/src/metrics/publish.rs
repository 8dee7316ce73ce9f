//! Passes a status from the reactor to the threads that ask for it.

use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// A status younger than this is served again instead of making a new one.
const FRESH_FOR: Duration = Duration::from_millis(500);
/// Longest wait for a fresh status. The reactor looks for requests every 50 ms.
const WAIT_MAX: Duration = Duration::from_secs(3);

/// A status as `forebay status --output json` shows it, with the time at which it was made.
struct Published {
    status: Arc<Value>,
    made: Instant,
}

impl Published {
    fn is_fresh(&self) -> bool {
        self.made.elapsed() < FRESH_FOR
    }
}

#[derive(Default)]
struct Wishes {
    asked: AtomicBool,
    stopping: AtomicBool,
}

/// The reactor's end of the channel.
pub struct Publisher {
    wishes: Arc<Wishes>,
    latest: watch::Sender<Option<Published>>,
}

/// The end of the channel that asks for a status.
#[derive(Clone)]
pub struct Source {
    wishes: Arc<Wishes>,
    latest: watch::Receiver<Option<Published>>,
}

/// A new channel.
pub fn channel() -> (Publisher, Source) {
    let wishes = Arc::new(Wishes::default());
    let (sender, receiver) = watch::channel(None);
    (Publisher { wishes: wishes.clone(), latest: sender }, Source { wishes, latest: receiver })
}

impl Publisher {
    /// Makes and publishes a status, where somebody has asked for one and the last one is not fresh.
    pub fn tick(&self, make: impl FnOnce() -> Value) {
        if self.latest.borrow().as_ref().is_some_and(Published::is_fresh)
            || !self.wishes.asked.swap(false, Ordering::Relaxed)
        {
            return;
        }
        let made = Instant::now();
        // Readers keep the former status alive by its `Arc`; the lock is held only while the pointer is replaced.
        self.latest.send_replace(Some(Published { status: Arc::new(make()), made }));
    }

    /// Marks the server as stopping.
    pub fn stopping(&self) {
        self.wishes.stopping.store(true, Ordering::Relaxed);
    }
}

impl Source {
    /// Whether the server is stopping.
    pub fn is_stopping(&self) -> bool {
        self.wishes.stopping.load(Ordering::Relaxed)
    }

    /// A fresh status; `None` where the reactor has ended, or does not answer in time.
    pub async fn status(&self) -> Option<Arc<Value>> {
        let mut latest = self.latest.clone();
        let fresh = |published: &Option<Published>| {
            let published = published.as_ref().filter(|published| published.is_fresh())?;
            Some(Arc::clone(&published.status))
        };
        if let Some(status) = fresh(&latest.borrow_and_update()) {
            return Some(status);
        }
        self.wishes.asked.store(true, Ordering::Relaxed);
        // `changed` fails where the reactor has ended.
        tokio::time::timeout(WAIT_MAX, latest.changed()).await.ok()?.ok()?;
        latest.borrow().as_ref().map(|published| Arc::clone(&published.status))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
    }

    #[test]
    fn a_status_is_made_only_for_who_asks_and_serves_all_who_ask_meanwhile() {
        let (publisher, source) = channel();
        publisher.tick(|| panic!("nobody has asked"));
        let asking = {
            let source = source.clone();
            std::thread::spawn(move || block_on(source.status()))
        };
        let mut made = 0;
        while !asking.is_finished() {
            publisher.tick(|| {
                made += 1;
                json!({ "made": made })
            });
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(*asking.join().unwrap().unwrap(), json!({ "made": 1 }));
        // The status is fresh, so the reactor is not asked.
        assert_eq!(*block_on(source.status()).unwrap(), json!({ "made": 1 }));
        publisher.tick(|| panic!("the last one is fresh"));
        assert!(!source.is_stopping());
        publisher.stopping();
        assert!(source.is_stopping());
    }

    #[test]
    fn who_asks_a_reactor_that_has_ended_gets_nothing() {
        let (publisher, source) = channel();
        drop(publisher);
        assert!(block_on(source.status()).is_none());
    }
}
