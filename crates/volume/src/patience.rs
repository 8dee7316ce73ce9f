//! How long a device that is looked at may keep silent.

use forebay_block::{Completion, IoError, IoErrorKind};
use std::time::{Duration, Instant};

/// A limit, and since when nothing was heard; without one by default.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Patience {
    limit: Option<Duration>,
    since: Option<Instant>,
}

impl Patience {
    /// With a limit.
    pub fn of(limit: Duration) -> Self {
        Self { limit: Some(limit), since: None }
    }

    /// Something was asked, or heard, now.
    pub fn begin(&mut self) {
        self.since = self.limit.map(|_| Instant::now());
    }

    /// Whether nothing was heard for too long.
    pub fn is_over(&self) -> bool {
        self.limit.zip(self.since).is_some_and(|(limit, since)| since.elapsed() > limit)
    }
}

/// What is said of a request to a device that was given up.
pub(crate) fn unanswered(tag: u64) -> Completion {
    let error = IoError { kind: IoErrorKind::Gone, operation: "wait", offset_bytes: 0, os_error: TIMED_OUT };
    Completion { tag, result: Err(error), bufs: None }
}

/// ETIMEDOUT.
const TIMED_OUT: i32 = 110;

#[cfg(test)]
mod tests {
    use crate::Devices;
    use forebay_block::{Completion, Device, Geometry, IoErrorKind, Request};
    use forebay_device::Image;
    use forebay_device::image::ImageDevice;
    use std::time::Duration;

    /// Answers nothing until it is asked for the second time, and then everything.
    struct Late {
        within: ImageDevice,
        asked: u32,
        is_awake: bool,
    }

    impl Device for Late {
        fn name(&self) -> &str {
            self.within.name()
        }
        fn geometry(&self) -> &Geometry {
            self.within.geometry()
        }
        fn submit(&mut self, request: Request) {
            self.asked += 1;
            self.is_awake |= self.asked > 1;
            self.within.submit(request);
        }
        fn poll(&mut self, done: &mut Vec<Completion>) {
            if self.is_awake {
                self.within.poll(done);
            }
        }
        fn wait(&mut self, _timeout_ns: u64) {
            std::thread::sleep(Duration::from_millis(1));
        }
        fn queue_limit(&self) -> usize {
            self.within.queue_limit()
        }
        fn in_flight(&self) -> usize {
            1
        }
    }

    /// A device that answered nothing was waited for without a limit when it was looked at; and what it answers later is no answer to another
    /// request.
    #[test]
    fn regression_a_device_that_answers_nothing_is_given_up() {
        let within = ImageDevice::new(Image::zeroed(1 << 20));
        let late = Late { within, asked: 0, is_awake: false };
        let mut devices = Devices::new(vec![Box::new(late)]).with_limit(Duration::from_millis(20));
        let error = devices.read(0, 0, 4096).unwrap_err();
        assert_eq!((error.kind, error.os_error), (IoErrorKind::Gone, super::TIMED_OUT));
        assert_eq!(devices.read(0, 4096, 4096).unwrap_err().kind, IoErrorKind::Gone);
    }
}
