//! The members of a mirror: their devices, what each holds, and what waits for room in its queue.

use super::flight::{Flight, Read};
use super::member::{Member, numbers_in};
use super::view::MemberState;
use crate::layout::member_label::MEMBERS_MAX;
use forebay_block::{Completion, Device, IoError, Op, Request, Vectored};
use slab::Slab;

/// First reads of neighbours go to one member, up to so many bytes.
const READ_SHARE_BYTES: u64 = 1 << 20;

/// A copy of a change for another member: it names the same memory.
fn copy_of(op: &Op) -> Op {
    match op {
        // Each member gets a vector of its own where one write has several buffers: a device owns what it takes.
        Op::Write { bufs: Vectored::Many(bufs), fua } => Op::Write { bufs: Vectored::Many(bufs.clone()), fua: *fua },
        Op::Write { bufs: Vectored::One(buf), fua } => Op::Write { bufs: Vectored::One(buf.clone()), fua: *fua },
        Op::Discard { len_bytes } => Op::Discard { len_bytes: *len_bytes },
        Op::WriteZeroes { len_bytes } => Op::WriteZeroes { len_bytes: *len_bytes },
        Op::Flush | Op::Read { .. } => Op::Flush,
    }
}

/// A request to members.
struct InFlight {
    /// A number of its own: a member that was left behind may still answer a request whose key another request has by now.
    nonce: u32,
    /// The member that it was sent to; `None` where it went to several.
    member: Option<usize>,
    flight: Flight,
}

/// All members, and what is in flight on them.
pub(super) struct Members {
    pub list: Vec<Member>,
    flights: Slab<InFlight>,
    next_nonce: u32,
    /// Reads of members that were left behind, and why: they are to be read from others.
    pub handed_back: Vec<(Read, IoError)>,
    /// Changes that no member will answer any more, as all that had not were left behind.
    pub orphans: Vec<u64>,
}

impl Members {
    pub fn new(list: Vec<Member>) -> Self {
        Self { list, flights: Slab::new(), next_nonce: 0, handed_back: Vec::new(), orphans: Vec::new() }
    }

    /// Numbers of the members in a state.
    pub fn numbers(&self, state: MemberState) -> impl Iterator<Item = usize> {
        self.list.iter().enumerate().filter(move |(_, member)| member.state == state).map(|(number, _)| number)
    }

    /// One bit for each member that holds everything.
    pub fn in_sync(&self) -> u8 {
        self.numbers(MemberState::InSync).fold(0, |bits, number| bits | 1 << number)
    }

    /// One bit for each member that gets writes.
    pub fn written(&self) -> u8 {
        self.numbers(MemberState::Rebuilding).fold(self.in_sync(), |bits, number| bits | 1 << number)
    }

    /// The member to be read from at an offset, none of those whose bits are in `tried`. `attempt`: how many readings before it were wrong.
    /// `spreads`: first reads are spread over all members.
    pub fn reader(&self, offset_bytes: u64, attempt: u8, tried: u8, spreads: bool) -> Option<usize> {
        let mut numbers = [0; MEMBERS_MAX];
        let mut count = 0;
        for number in self.numbers(MemberState::InSync) {
            numbers[count] = number;
            count += 1;
        }
        let first = if spreads { offset_bytes / READ_SHARE_BYTES } else { 0 };
        let turns = (0..count as u64).map(|turn| (first + u64::from(attempt) + turn) % count as u64);
        turns.map(|turn| numbers[turn as usize]).find(|&number| tried & 1 << number == 0)
    }

    fn insert(&mut self, member: Option<usize>, flight: Flight) -> u64 {
        self.next_nonce = self.next_nonce.wrapping_add(1);
        let nonce = self.next_nonce;
        u64::from(nonce) << 32 | self.flights.insert(InFlight { nonce, member, flight }) as u64
    }

    fn key(&self, tag: u64) -> Option<usize> {
        let key = (tag & u64::from(u32::MAX)) as usize;
        self.flights.get(key).filter(|sent| u64::from(sent.nonce) == tag >> 32).map(|_| key)
    }

    /// What is in flight with this tag.
    pub fn flight_mut(&mut self, tag: u64) -> Option<&mut Flight> {
        let key = self.key(tag)?;
        self.flights.get_mut(key).map(|sent| &mut sent.flight)
    }

    /// Removes a request that is not in flight any more.
    pub fn remove(&mut self, tag: u64) -> Option<Flight> {
        let key = self.key(tag)?;
        self.flights.try_remove(key).map(|sent| sent.flight)
    }

    /// Leaves a member behind: nobody waits for its answers, and requests that wait for it are not sent. Reads are handed back; labels and
    /// copies end elsewhere.
    pub fn leave(&mut self, number: usize, error: &IoError) {
        self.list[number].state = MemberState::Out;
        self.list[number].waiting.clear();
        let is_own = |(key, sent): (usize, &InFlight)| (sent.member == Some(number)).then_some(key);
        let own: Vec<usize> = self.flights.iter().filter_map(is_own).collect();
        for key in own {
            if let Flight::Read(read) = self.flights.remove(key).flight {
                self.handed_back.push((read, error.clone()));
            }
        }
        for (key, InFlight { nonce, flight, .. }) in &mut self.flights {
            if let Flight::Change(change) = flight
                && change.left & 1 << number != 0
            {
                let is_last = change.ended(number, Err(error.clone()));
                // The member is left already, and another device may have its number when the change ends.
                change.failed &= !(1 << number);
                if is_last {
                    self.orphans.push(u64::from(*nonce) << 32 | key as u64);
                }
            }
        }
    }

    /// A flush beside these has failed: flushes in flight fail, too. Returns whether there were any.
    pub fn fail_flushes(&mut self, error: &IoError) -> bool {
        let mut any = false;
        for (_, sent) in &mut self.flights {
            if let Flight::Change(change) = &mut sent.flight
                && change.is_flush
            {
                change.lost = Some(error.clone());
                any = true;
            }
        }
        any
    }

    /// Sends a request to a member.
    pub fn send(&mut self, number: usize, flight: Flight, offset_bytes: u64, op: Op) {
        let tag = self.insert(Some(number), flight);
        self.list[number].waiting.push_back(Request { tag, offset_bytes, stream: 0, op });
    }

    /// Sends a change to the members whose bits are set; returns its key.
    pub fn send_all(&mut self, members: u8, flight: Flight, (offset_bytes, stream): (u64, u8), op: &Op) -> u64 {
        let key = self.insert(None, flight);
        for number in numbers_in(members) {
            let request = Request { tag: key, offset_bytes, stream, op: copy_of(op) };
            self.list[number].waiting.push_back(request);
        }
        key
    }

    /// Submits requests to devices as far as they have room, and takes completions.
    pub fn poll(&mut self, scratch: &mut Vec<Completion>, ended: &mut Vec<(usize, Completion)>) {
        for (number, member) in self.list.iter_mut().enumerate() {
            let Some(device) = &mut member.device else { continue };
            while device.in_flight() < device.queue_limit() {
                let Some(request) = member.waiting.pop_front() else { break };
                device.submit(request);
            }
            device.poll(scratch);
            ended.extend(scratch.drain(..).map(|completion| (number, completion)));
        }
    }

    /// Devices that are waited for: all but those of members that were left behind.
    pub fn devices(&mut self) -> impl Iterator<Item = &mut Box<dyn Device>> {
        let members = self.list.iter_mut().filter(|member| member.state != MemberState::Out);
        members.filter_map(|member| member.device.as_mut())
    }
}
