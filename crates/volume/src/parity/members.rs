//! The members of an array: their devices, what each holds, and what is in flight on them.

use crate::mirror::{Member, MemberState};
use forebay_block::{Buf, Completion, Device, IoError, Op, Request, Vectored};
use slab::Slab;

/// What a request to a member is for: a job, and which part of it.
#[derive(Clone, Copy)]
struct Flight {
    nonce: u32,
    member: usize,
    job: usize,
    part: usize,
}

/// A request to a member has ended.
pub(super) struct Ended {
    pub member: usize,
    pub job: usize,
    pub part: usize,
    pub result: Result<(), IoError>,
    pub bufs: Option<Vectored<Buf>>,
}

/// All members, and what is in flight on them.
pub(super) struct Members {
    pub list: Vec<Member>,
    /// Each with a number of its own: a member that was left behind may still answer a request whose key another request has by now.
    flights: Slab<Flight>,
    next_nonce: u32,
    /// Requests that were sent so far.
    sent: u64,
    ended: Vec<Ended>,
    scratch: Vec<Completion>,
}

impl Members {
    pub fn new(list: Vec<Member>) -> Self {
        let (ended, scratch) = (Vec::new(), Vec::new());
        Self { list, flights: Slab::new(), next_nonce: 0, sent: 0, ended, scratch }
    }

    fn bits(&self, state: MemberState) -> u32 {
        let members = self.list.iter().enumerate().filter(|(_, member)| member.state == state);
        members.fold(0, |bits, (number, _)| bits | 1 << number)
    }

    /// One bit for each member that holds everything.
    pub fn in_sync(&self) -> u32 {
        self.bits(MemberState::InSync)
    }

    /// One bit for each member that gets writes.
    pub fn written(&self) -> u32 {
        self.in_sync() | self.bits(MemberState::Rebuilding)
    }

    /// The member that is being rebuilt.
    pub fn rebuilding(&self) -> Option<usize> {
        self.list.iter().position(|member| member.state == MemberState::Rebuilding)
    }

    /// How many requests were sent so far: whether something goes on.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Sends a request to a member.
    pub fn send(&mut self, member: usize, (job, part): (usize, usize), (offset_bytes, stream): (u64, u8), op: Op) {
        self.sent += 1;
        self.next_nonce = self.next_nonce.wrapping_add(1);
        let nonce = self.next_nonce;
        let key = self.flights.insert(Flight { nonce, member, job, part });
        let tag = u64::from(nonce) << 32 | key as u64;
        self.list[member].waiting.push_back(Request { tag, offset_bytes, stream, op });
    }

    /// Leaves a member behind: requests that are in flight on it, or wait for it, end with this error. Its own answers are ignored from
    /// then on.
    pub fn leave(&mut self, number: usize, error: &IoError) {
        self.list[number].state = MemberState::Out;
        self.list[number].waiting.clear();
        let keys: Vec<usize> =
            self.flights.iter().filter(|(_, flight)| flight.member == number).map(|(key, _)| key).collect();
        for key in keys {
            let Flight { job, part, member, .. } = self.flights.remove(key);
            self.ended.push(Ended { member, job, part, result: Err(error.clone()), bufs: None });
        }
    }

    /// One bit for each member that has yet to answer a request of such a job.
    pub fn asked_by(&self, is_wanted: impl Fn(usize) -> bool) -> u32 {
        let flights = self.flights.iter().filter(|(_, flight)| is_wanted(flight.job));
        flights.fold(0, |bits, (_, flight)| bits | 1 << flight.member)
    }

    /// Submits requests to devices as far as they have room, and takes completions.
    pub fn poll(&mut self) -> Vec<Ended> {
        for (number, member) in self.list.iter_mut().enumerate() {
            let Some(device) = &mut member.device else {
                continue;
            };
            while device.in_flight() < device.queue_limit() {
                let Some(request) = member.waiting.pop_front() else { break };
                device.submit(request);
            }
            device.poll(&mut self.scratch);
            for Completion { tag, result, bufs } in self.scratch.drain(..) {
                let key = (tag & u64::from(u32::MAX)) as usize;
                let flight = self.flights.get(key).filter(|flight| u64::from(flight.nonce) == tag >> 32);
                if let Some(&Flight { job, part, .. }) = flight {
                    self.flights.remove(key);
                    self.ended.push(Ended { member: number, job, part, result, bufs });
                }
            }
        }
        std::mem::take(&mut self.ended)
    }

    /// Devices.
    pub fn devices(&self) -> impl Iterator<Item = &Box<dyn Device>> {
        self.list.iter().filter_map(|member| member.device.as_ref())
    }
}
