//! Devices of a pool, and running requests on them to the end (for formatting, recovery and verification).

use forebay_block::{Buf, Completion, Device, IoError, IoErrorKind, Op, Request, SECTOR_BYTES, Vectored};

/// The devices of a pool: index 0 is the fast one.
pub struct Devices {
    /// The devices.
    pub list: Vec<Box<dyn Device>>,
    /// Bytes read since the start, for the statement of what recovery reads.
    pub read_bytes: u64,
}

/// How long one wait for a device lasts before it is asked again.
const WAIT_NS: u64 = 1_000_000_000;

impl Devices {
    /// Sectors in which all capacity devices can be read.
    #[must_use]
    pub fn unit_sectors(&self) -> u64 {
        let units = self.list.iter().skip(1).map(|device| u64::from(device.geometry().logical_block_bytes));
        units.max().unwrap_or(0).div_ceil(SECTOR_BYTES as u64).max(1)
    }

    /// Over these devices.
    #[must_use]
    pub fn new(list: Vec<Box<dyn Device>>) -> Self {
        Self { list, read_bytes: 0 }
    }

    /// Runs all requests, in parallel as far as the devices take them, and returns their completions in order.
    pub fn run(&mut self, requests: Vec<(usize, u64, Op)>) -> Vec<Completion> {
        let mut results: Vec<Option<Completion>> = requests.iter().map(|_| None).collect();
        let mut queue: Vec<std::collections::VecDeque<Request>> =
            self.list.iter().map(|_| Default::default()).collect();
        let mut left = requests.len();
        for (i, (device, offset_bytes, op)) in requests.into_iter().enumerate() {
            if matches!(op, Op::Read { .. }) {
                self.read_bytes += op.len_bytes();
            }
            queue[device].push_back(Request { tag: i as u64, offset_bytes, stream: 0, op });
        }
        let mut done = Vec::new();
        while left > 0 {
            for (device, waiting) in self.list.iter_mut().zip(&mut queue) {
                while device.in_flight() < device.queue_limit() {
                    let Some(request) = waiting.pop_front() else {
                        break;
                    };
                    device.submit(request);
                }
                device.poll(&mut done);
                if done.is_empty() && device.in_flight() > 0 {
                    device.wait(WAIT_NS);
                    device.poll(&mut done);
                }
            }
            for completion in done.drain(..) {
                if let Some(slot @ None) = results.get_mut(completion.tag as usize) {
                    *slot = Some(completion);
                    left -= 1;
                }
            }
        }
        results.into_iter().flatten().collect()
    }

    /// Reads `len_bytes` at an offset.
    ///
    /// # Errors
    /// The device's failure.
    pub fn read(&mut self, device: usize, offset_bytes: u64, len_bytes: usize) -> Result<Buf, IoError> {
        let bufs = Vectored::One(Buf::new(len_bytes));
        let completion = self.run(vec![(device, offset_bytes, Op::Read { bufs })]).pop();
        let short = IoError { kind: IoErrorKind::Short, operation: "read", offset_bytes, os_error: 0 };
        let completion = completion.ok_or_else(|| short.clone())?;
        completion.result?;
        match completion.bufs {
            Some(Vectored::One(buf)) => Ok(buf),
            _ => Err(short),
        }
    }

    /// Writes bytes at an offset (padded by the caller to the logical block).
    ///
    /// # Errors
    /// The device's failure.
    pub fn write(&mut self, device: usize, offset_bytes: u64, bytes: &[u8]) -> Result<(), IoError> {
        let bufs = Vectored::One(Buf::copy_of(bytes).freeze());
        self.finish(vec![(device, offset_bytes, Op::Write { bufs, fua: false })])
    }

    /// Flushes one device.
    ///
    /// # Errors
    /// The device's failure.
    pub fn flush(&mut self, device: usize) -> Result<(), IoError> {
        self.finish(vec![(device, 0, Op::Flush)])
    }

    fn finish(&mut self, requests: Vec<(usize, u64, Op)>) -> Result<(), IoError> {
        self.run(requests).into_iter().try_for_each(|completion| completion.result)
    }
}

/// The single buffer of a read completion.
pub(crate) fn single(bufs: Option<Vectored<Buf>>) -> Option<Buf> {
    match bufs {
        Some(Vectored::One(buf)) => Some(buf),
        _ => None,
    }
}
