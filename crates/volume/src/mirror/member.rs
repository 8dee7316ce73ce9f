//! One of several devices that are one to the engine: of a mirror, or of a capacity tier with parity.

use super::view::{MemberState, MemberStatus};
use crate::layout::Id;
use forebay_block::{Device, IoError, IoErrorKind, Request};
use std::collections::VecDeque;

/// A member.
pub(crate) struct Member {
    /// Its device, where there is one.
    pub device: Option<Box<dyn Device>>,
    /// What it holds.
    pub state: MemberState,
    /// In a mirror: its newest label is the second copy.
    pub newest_is_second: bool,
    /// Requests that the queue of its device had no room for.
    pub waiting: VecDeque<Request>,
}

impl Member {
    pub fn new(device: Option<Box<dyn Device>>, state: MemberState) -> Self {
        Self { device, state, newest_is_second: false, waiting: VecDeque::new() }
    }

    /// What is shown of it at first.
    pub fn status(&self, name: &str, id: Id) -> MemberStatus {
        MemberStatus {
            name: name.to_owned(),
            id,
            state: self.state,
            why: self.device.is_none().then(|| "it is not there".to_owned()),
            failed_reads: 0,
            configured: None,
        }
    }

    /// Whether requests to its device are in flight, or wait to be.
    pub fn is_busy(&self) -> bool {
        !self.waiting.is_empty() || self.device.as_ref().is_some_and(|device| device.in_flight() > 0)
    }
}

/// Numbers of the members whose bits are set.
pub(crate) fn numbers_in(bits: impl Into<u32>) -> impl Iterator<Item = usize> {
    let bits = bits.into();
    (0..32).filter(move |number| bits & 1 << number != 0)
}

/// The failure of a device that is not there.
pub(crate) fn gone(operation: &'static str) -> IoError {
    IoError { kind: IoErrorKind::Gone, operation, offset_bytes: 0, os_error: 0 }
}
