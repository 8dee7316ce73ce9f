//! One of several devices that are one to the engine: of a mirror, or of a capacity tier with parity.

use super::view::{MemberState, Offer};
use forebay_block::{Device, IoError, IoErrorKind, Request};
use std::collections::VecDeque;

/// A member.
pub(crate) struct Member {
    /// Its device, where there is one.
    pub device: Option<Box<dyn Device>>,
    /// What it holds.
    pub state: MemberState,
    /// Of a mirror: its newest label is the second copy.
    pub newest_is_second: bool,
    /// Requests that its queue had no room for.
    pub waiting: VecDeque<Request>,
}

impl Member {
    pub fn new(device: Option<Box<dyn Device>>, state: MemberState) -> Self {
        Self { device, state, newest_is_second: false, waiting: VecDeque::new() }
    }

    /// Whether its device has something to answer.
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

/// Closes the devices of members that were left behind and are not to be rebuilt, so that others may open them, or they be given back.
pub(crate) fn close_left(list: &mut [Member], to_rebuild: &VecDeque<usize>) {
    for (number, member) in list.iter_mut().enumerate() {
        let is_left = member.state == MemberState::Out && !to_rebuild.contains(&number);
        if is_left && member.device.is_some() && !member.is_busy() {
            member.device = None;
        }
    }
}

/// Adds what was offered to the offers that wait to be taken. Of several of one name the last counts: it is the same device once more, or the one that
/// replaces it, and takes one place.
pub(crate) fn add_offers(waiting: &mut VecDeque<Offer>, offers: Vec<Offer>) {
    for offer in offers {
        waiting.retain(|other| other.name != offer.name);
        waiting.push_back(offer);
    }
}

/// In whose place a device of this name is taken: of the member that is out under the same name, also where that waits for its rebuild already, else of one
/// that is not there, else of any that is out. In nobody's where a member of this name works: what is written to one member must not lie where another has
/// something else.
pub(crate) fn place_for(name: &str, names: &[String], list: &[Member], to_rebuild: &VecDeque<usize>) -> Option<usize> {
    let of_name = |number: &usize| names[*number] == name;
    let (out, working): (Vec<usize>, Vec<usize>) =
        (0..list.len()).partition(|&number| list[number].state == MemberState::Out);
    if working.iter().any(of_name) {
        return None;
    }
    let free: Vec<usize> = out.iter().copied().filter(|number| !to_rebuild.contains(number)).collect();
    let absent = free.iter().copied().find(|&number| list[number].device.is_none());
    out.into_iter().find(of_name).or(absent).or(free.first().copied())
}
