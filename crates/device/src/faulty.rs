//! Planned faults: the nth operation of a kind fails, a range is damaged, the device vanishes.

use crate::request::{error, finish};
use forebay_block::{Completion, Device, IoErrorKind, Op, Request};
use std::ops::Range;

/// Which operations a fault concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Reads.
    Reads,
    /// Writes, with or without FUA.
    Writes,
    /// Flushes.
    Flushes,
    /// Discards and write-zeroes.
    Zeroes,
    /// All operations.
    Everything,
}

impl Target {
    fn matches(self, op: &Op) -> bool {
        match self {
            Self::Everything => true,
            Self::Reads => matches!(op, Op::Read { .. }),
            Self::Writes => matches!(op, Op::Write { .. }),
            Self::Flushes => matches!(op, Op::Flush),
            Self::Zeroes => matches!(op, Op::Discard { .. } | Op::WriteZeroes { .. }),
        }
    }
}

/// A planned fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The kind of operations.
    pub target: Target,
    /// Only operations that touch this byte range. `None`: all operations, and flushes, which have no range.
    pub range_bytes: Option<Range<u64>>,
    /// How many matching operations succeed first.
    pub skip: u64,
    /// How many fail after that; `u64::MAX` for ever.
    pub count: u64,
    /// The error.
    pub kind: IoErrorKind,
    /// Whether the operation is carried out although it is reported as failed. A failed write leaves the content of
    /// the medium open.
    pub carried_out: bool,
}

impl Fault {
    /// The `nth` operation (from 0) of `target` fails once with [`IoErrorKind::Medium`], not carried out.
    #[must_use]
    pub fn nth(target: Target, nth: u64) -> Self {
        Self { target, range_bytes: None, skip: nth, count: 1, kind: IoErrorKind::Medium, carried_out: false }
    }

    /// All operations of `target` that touch the range fail for ever with [`IoErrorKind::Medium`].
    #[must_use]
    pub fn range(target: Target, range_bytes: Range<u64>) -> Self {
        Self { range_bytes: Some(range_bytes), count: u64::MAX, ..Self::nth(target, 0) }
    }

    /// The device is gone after `operations` more operations.
    #[must_use]
    pub fn gone_after(operations: u64) -> Self {
        Self { skip: operations, count: u64::MAX, kind: IoErrorKind::Gone, ..Self::nth(Target::Everything, 0) }
    }

    fn concerns(&self, request: &Request) -> bool {
        let touches = match &self.range_bytes {
            None => true,
            Some(_) if matches!(request.op, Op::Flush) => false,
            Some(range) => {
                let end = request.offset_bytes.saturating_add(request.op.len_bytes());
                request.offset_bytes < range.end && range.start < end
            }
        };
        touches && self.target.matches(&request.op)
    }

    /// Counts a matching operation and returns whether it fails.
    fn strikes(&mut self) -> bool {
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        let strikes = self.count > 0;
        if self.count != u64::MAX {
            self.count = self.count.saturating_sub(1);
        }
        strikes
    }
}

/// The wrapper. Each fault counts for itself; the first planned fault that strikes decides.
#[derive(Debug)]
pub struct FaultyDevice<D> {
    inner: D,
    faults: Vec<Fault>,
    ready: Vec<Completion>,
    /// Tags and errors of requests that are carried out and then reported as failed.
    doomed: Vec<(u64, forebay_block::IoError)>,
    struck: u64,
}

impl<D: Device> FaultyDevice<D> {
    /// Wraps `inner`, without faults.
    pub fn new(inner: D) -> Self {
        Self { inner, faults: Vec::new(), ready: Vec::new(), doomed: Vec::new(), struck: 0 }
    }

    /// Plans a fault, which counts operations from now on.
    pub fn plan(&mut self, fault: Fault) {
        self.faults.push(fault);
    }

    /// Drops all planned faults.
    pub fn heal(&mut self) {
        self.faults.clear();
    }

    /// Count of operations that failed as planned. A test whose fault never struck has tested nothing.
    pub fn struck(&self) -> u64 {
        self.struck
    }

    /// The wrapped device.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    /// The wrapped device, mutable.
    pub fn inner_mut(&mut self) -> &mut D {
        &mut self.inner
    }

    /// Unwraps the device.
    pub fn into_inner(self) -> D {
        self.inner
    }
}

impl<D: Device> Device for FaultyDevice<D> {
    forebay_block::forward_device!(self => self.inner; name geometry wake_fds queue_limit virtual_time);

    fn submit(&mut self, request: Request) {
        let mut verdict: Option<(IoErrorKind, bool)> = None;
        for fault in self.faults.iter_mut().filter(|fault| fault.concerns(&request)) {
            if fault.strikes() && verdict.is_none() {
                verdict = Some((fault.kind, fault.carried_out));
            }
        }
        let Some((kind, carried_out)) = verdict else {
            self.inner.submit(request);
            return;
        };
        self.struck += 1;
        let reason = error(kind, &request);
        if carried_out {
            self.doomed.push((request.tag, reason));
            self.inner.submit(request);
        } else {
            self.ready.push(finish(request, Err(reason)));
        }
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        done.append(&mut self.ready);
        let first = done.len();
        self.inner.poll(done);
        for completion in &mut done[first..] {
            if let Some(index) = self.doomed.iter().position(|(tag, _)| *tag == completion.tag) {
                completion.result = Err(self.doomed.swap_remove(index).1);
            }
        }
    }

    fn wait(&mut self, timeout_ns: u64) {
        if self.ready.is_empty() {
            self.inner.wait(timeout_ns);
        }
    }

    fn completes_unseen(&self) -> bool {
        !self.ready.is_empty() || self.inner.completes_unseen()
    }

    fn in_flight(&self) -> usize {
        self.inner.in_flight() + self.ready.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Image, ImageDevice, blocking};

    fn device() -> FaultyDevice<ImageDevice> {
        FaultyDevice::new(ImageDevice::new(Image::zeroed(1 << 20)))
    }

    #[test]
    fn the_nth_write_fails_once_and_is_not_carried_out() {
        let mut device = device();
        device.plan(Fault::nth(Target::Writes, 1));
        blocking::write(&mut device, 0, &[1; 512]).unwrap();
        blocking::read(&mut device, 0, 512).unwrap();
        assert_eq!(blocking::write(&mut device, 0, &[2; 512]).unwrap_err().kind, IoErrorKind::Medium);
        assert_eq!(blocking::read(&mut device, 0, 512).unwrap()[0], 1);
        blocking::write(&mut device, 0, &[3; 512]).unwrap();
        assert_eq!(device.struck(), 1);
    }

    #[test]
    fn a_failed_write_may_have_been_carried_out() {
        let mut device = device();
        device.plan(Fault { carried_out: true, ..Fault::nth(Target::Writes, 0) });
        assert!(blocking::write(&mut device, 0, &[2; 512]).is_err());
        assert_eq!(blocking::read(&mut device, 0, 512).unwrap()[0], 2);
    }

    #[test]
    fn a_damaged_range_fails_where_it_is_touched() {
        let mut device = device();
        device.plan(Fault::range(Target::Reads, 4096..8192));
        assert!(blocking::read(&mut device, 0, 4096).is_ok());
        assert!(blocking::read(&mut device, 3584, 1024).is_err());
        assert!(blocking::read(&mut device, 8192, 512).is_ok());
        assert!(blocking::write(&mut device, 4096, &[0; 512]).is_ok());
        device.heal();
        assert!(blocking::read(&mut device, 4096, 512).is_ok());
    }

    #[test]
    fn a_device_that_is_gone_stays_gone() {
        let mut device = device();
        device.plan(Fault::gone_after(2));
        blocking::flush(&mut device).unwrap();
        blocking::flush(&mut device).unwrap();
        for _ in 0..3 {
            assert_eq!(blocking::flush(&mut device).unwrap_err().kind, IoErrorKind::Gone);
        }
    }
}
