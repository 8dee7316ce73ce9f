//! Runs the second stage of an analysis, in the same thread as the first one or in its own.

use super::Options;
use super::followed::Followed;
use super::requests::PlacedRequests;
use crate::worker::Worker;

/// Most batches that are waiting or in progress.
const BATCHES: usize = 4;

/// Lets the second stage handle requests; true, since there may be more.
fn work(followed: &mut Followed, requests: &mut PlacedRequests) -> bool {
    followed.add(requests);
    requests.clear();
    true
}

/// The thread of a stage.
struct Thread {
    worker: Worker<Followed, PlacedRequests>,
    /// Batches that it may still be given before one must come back.
    spare: usize,
}

impl Thread {
    /// Passes requests to the thread, and takes an empty batch for the next ones.
    fn give(&mut self, next: &mut PlacedRequests) {
        self.worker.give(std::mem::take(next));
        if self.spare > 0 {
            self.spare -= 1;
        } else {
            *next = self.worker.take();
        }
    }
}

enum Place {
    Here(Box<Followed>),
    Thread(Thread),
}

/// The second stage, with the requests that wait for it.
pub struct Stage {
    place: Place,
    next: PlacedRequests,
}

impl Stage {
    pub fn new(options: &Options) -> Self {
        let followed = Followed::new(options);
        let place = match options.processors {
            0 | 1 => Place::Here(Box::new(followed)),
            _ => match Worker::start("trace-blocks", BATCHES, followed, work) {
                Ok(worker) => Place::Thread(Thread { worker, spare: BATCHES - 1 }),
                Err(followed) => Place::Here(Box::new(followed)),
            },
        };
        Self { place, next: PlacedRequests::default() }
    }

    /// Adds requests, which `first` appends.
    pub fn add(&mut self, first: impl FnOnce(&mut PlacedRequests)) {
        first(&mut self.next);
        match &mut self.place {
            Place::Here(followed) => _ = work(followed, &mut self.next),
            Place::Thread(thread) if self.next.is_full() => thread.give(&mut self.next),
            Place::Thread(_) => {}
        }
    }

    /// Ends the stage after it has handled all requests.
    pub fn end(mut self) -> Followed {
        match self.place {
            Place::Here(followed) => *followed,
            Place::Thread(mut thread) => {
                thread.give(&mut self.next);
                thread.worker.end()
            }
        }
    }
}

#[cfg(test)]
// In tests, a panic reports the failure.
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::{Analysis, By, Sizing};
    use super::*;
    use crate::analysis::requests::Placed;
    use crate::{Names, Op, Request, Source, generate};
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// All results of an analysis and a sizing for a few batches of a generator.
    fn said(of: &str, options: &Options) -> String {
        let mut source = generate::open(of).unwrap().unwrap();
        let (mut requests, mut names) = (Vec::new(), Names::default());
        let mut analysis = Analysis::keeping_writes(options);
        for _ in 0..5 {
            requests.clear();
            source.read(&mut requests, &mut names).unwrap();
            // In parts of any length.
            requests.chunks(100).for_each(|part| analysis.add(part, &names, source.knows()));
        }
        let writes = analysis.take_writes();
        let (report, read_hits) = analysis.finish_with_read_hits(&names);
        let mut sizing = Sizing::new(options, &report);
        sizing.repeat(&writes.unwrap());
        let sizes = sizing.finish(&[]);
        let hits: Vec<_> = (12..40).map(|bits| read_hits.ratio(1 << bits)).collect();
        format!("{} {hits:?}", serde_json::to_string_pretty(&(report, sizes)).unwrap())
    }

    #[test]
    fn results_are_those_of_one_thread() {
        // All blocks are followed; in the second case, few.
        for (of, memory_bytes) in [("rocksdb:?scale=0.001", 1 << 30), ("zipf:?size=1GiB&reads=0.5", 1 << 20)] {
            for by in [By::Class, By::Process] {
                let with = |processors| said(of, &Options { memory_bytes, by, processors, ..Options::default() });
                let wanted = with(1);
                assert_eq!(wanted.contains("\"one_block_in\": 1,"), memory_bytes > 1 << 20);
                assert!(with(2) == wanted, "{of} {by:?}");
            }
        }
    }

    /// Adds `count` writes that claim to have `parts` parts, but have none.
    fn add(stage: &mut Stage, count: usize, parts: usize) {
        let request = Request::new(0, Op::Flush, 0, 0);
        (0..count).for_each(|_| stage.add(|on| on.push(Placed { request, has_time: true, row: None, parts })));
    }

    /// More parts than there are make the thread panic.
    #[test]
    fn a_panic_of_the_thread_is_one_of_whoever_has_it() {
        for count in [1, 100 * PlacedRequests::ENOUGH] {
            let mut stage = Stage::new(&Options { processors: 2, ..Options::default() });
            let panicked = catch_unwind(AssertUnwindSafe(|| add(&mut stage, count, 1)));
            assert_eq!(panicked.is_err(), count > 1, "said while requests come");
            if count == 1 {
                assert!(catch_unwind(AssertUnwindSafe(|| stage.end())).is_err(), "and at the end");
            }
        }
    }
}
