//! The device as one client after the other sees it: what the client sets up, its requests to the server and their ends back.

use super::chain::len_bytes;
use super::device::{EVENT_IDX, FLUSH, PROTOCOL_FEATURES, QUEUES_MAX, features};
use super::inflight::Inflight;
use super::memory::Memory;
use super::request::{Answer, Asked, ID_BYTES, Parsed, Status, parse};
use super::ring::{Ring, RingError};
use crate::frontend::{DoorSide, Event, FrontRequest};
use forebay_volume::{Op, Outcome, RequestError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use std::os::fd::RawFd;

/// Requests in flight at a time, and bytes of their data, a last request aside.
pub const IN_FLIGHT_MAX: u16 = 256;
const IN_FLIGHT_BYTES_MAX: u64 = 32 << 20;
/// How long a wait for the server's answers lasts before it is looked whether the server is still there.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// A request in flight.
#[derive(Debug)]
struct Pending {
    /// Its ring and head; `None` once its client has gone.
    from: Option<(usize, u16)>,
    answer: Answer,
    held_bytes: u64,
}

/// Where the thread is with its client.
#[derive(Debug)]
pub struct Device {
    side: DoorSide,
    pub size_bytes: u64,
    pub read_only: bool,
    id: [u8; ID_BYTES],
    pub memory: Memory,
    pub rings: Vec<Ring>,
    pub inflight: Option<Inflight>,
    /// What the client has accepted of the features.
    pub accepted: u64,
    slots: Vec<Option<Pending>>,
    free: Vec<u16>,
    in_flight_bytes: u64,
    is_stopping: bool,
    /// Something was done since the last look.
    has_moved: bool,
}

fn rings() -> Vec<Ring> {
    (0..QUEUES_MAX).map(Ring::new).collect()
}

impl Device {
    /// For an export; nobody is there yet.
    pub fn new(side: DoorSide, name: &str, size_bytes: u64, read_only: bool) -> Self {
        let mut id = [0; ID_BYTES];
        id.iter_mut().zip(name.bytes()).for_each(|(at, byte)| *at = byte);
        Self {
            side,
            size_bytes,
            read_only,
            id,
            memory: Memory::default(),
            rings: rings(),
            inflight: None,
            accepted: 0,
            slots: (0..IN_FLIGHT_MAX).map(|_| None).collect(),
            free: (0..IN_FLIGHT_MAX).rev().collect(),
            in_flight_bytes: 0,
            is_stopping: false,
            has_moved: false,
        }
    }

    /// The door, to wait at.
    pub fn side(&self) -> &DoorSide {
        &self.side
    }

    /// Whether the server stops, or has gone.
    pub fn is_stopping(&self) -> bool {
        self.is_stopping || self.side.is_closed()
    }

    /// Takes what the client accepts.
    pub fn accept(&mut self, accepted: u64) -> bool {
        self.accepted = accepted;
        if accepted & PROTOCOL_FEATURES == 0 {
            self.rings.iter_mut().for_each(|ring| ring.set_enabled(true));
        }
        accepted & !features(self.read_only) == 0
    }

    /// Other memory: rings that are served must lie in it, too.
    ///
    /// # Errors
    /// Where one does not.
    pub fn set_memory(&mut self, memory: Memory) -> Result<(), RingError> {
        for ring in self.rings.iter().filter(|ring| ring.is_started()) {
            ring.check_place(&memory)?;
        }
        self.memory = memory;
        Ok(())
    }

    /// Begins to serve a ring.
    pub fn start(&mut self, index: usize) -> Result<(), RingError> {
        self.rings[index].start(&self.memory, self.inflight.as_ref(), self.accepted & EVENT_IDX != 0)
    }

    /// Forgets the client. What it has in flight ends without an answer, so that it is asked for again.
    pub fn forget_client(&mut self) {
        self.memory = Memory::default();
        self.rings = rings();
        self.inflight = None;
        self.accepted = 0;
        self.slots.iter_mut().flatten().for_each(|pending| pending.from = None);
    }

    /// Takes requests from the rings and gives their ends back, a bounded number. Whether there was something.
    ///
    /// # Errors
    /// Where the client broke a ring.
    pub fn turn(&mut self) -> Result<bool, RingError> {
        self.has_moved = false;
        self.take_events()?;
        for index in 0..self.rings.len() {
            self.take_requests(index)?;
        }
        if self.has_moved {
            self.side.knock();
            for ring in self.rings.iter_mut().filter(|ring| ring.is_started()) {
                ring.notify(self.memory.map())?;
            }
        }
        Ok(self.has_moved)
    }

    /// Waits for what is in flight: of a ring, or of all.
    ///
    /// # Errors
    /// Where the client broke a ring, or the server goes.
    pub fn drain(&mut self, index: Option<usize>) -> Result<(), DrainError> {
        loop {
            self.take_events()?;
            let left = index.map_or(self.side.in_flight(), |index| self.rings[index].in_flight());
            if left == 0 {
                break;
            }
            if self.side.is_closed() {
                return Err(DrainError::ServerGone);
            }
            if self.side.may_sleep() {
                wait(&[(self.side.fd(), PollFlags::IN)], Some(&LOOK))?;
            }
            self.side.awake();
        }
        for ring in self.rings.iter_mut().filter(|ring| ring.is_started()) {
            ring.notify(self.memory.map())?;
        }
        // What the server refused, as it stops, is not done: nobody may believe that it is.
        if self.is_stopping { Err(DrainError::ServerGone) } else { Ok(()) }
    }

    fn take_events(&mut self) -> Result<(), RingError> {
        while let Some(event) = self.side.pop() {
            self.has_moved = true;
            match event {
                Event::Done(token, result) => self.finish(token, result)?,
                Event::Resized(size_bytes) => self.size_bytes = size_bytes,
                Event::Stopping => self.is_stopping = true,
            }
        }
        Ok(())
    }

    fn take_requests(&mut self, index: usize) -> Result<(), RingError> {
        while self.rings[index].is_pending
            && self.rings[index].is_served()
            && !self.is_stopping
            && self.in_flight_bytes < IN_FLIGHT_BYTES_MAX
            && !self.free.is_empty()
        {
            let Some((head, chain)) = self.rings[index].next(self.memory.map(), self.inflight.as_ref())? else {
                return Ok(());
            };
            self.has_moved = true;
            let Parsed { asked, answer } = parse(self.memory.map(), chain)?;
            match asked {
                Asked::Of { offset_bytes, len_bytes, op } => {
                    self.submit(index, head, answer, offset_bytes, len_bytes, op)?
                }
                Asked::Id => {
                    let id = self.id;
                    self.answer(index, head, &answer, &id, Status::Ok)?;
                }
                Asked::Refused(status) => self.answer(index, head, &answer, &[], status)?,
            }
        }
        Ok(())
    }

    fn submit(
        &mut self,
        index: usize,
        head: u16,
        answer: Answer,
        offset_bytes: u64,
        len_bytes: u64,
        op: Op,
    ) -> Result<(), RingError> {
        let Some(token) = self.free.pop() else { return self.answer(index, head, &answer, &[], Status::IoError) };
        let held_bytes = if matches!(op, Op::Read | Op::Write(_)) { len_bytes } else { 0 };
        // A driver that knows of no flush takes what was answered for durable (5.2.6.2).
        let fua = matches!(op, Op::Write(_)) && self.accepted & FLUSH == 0;
        let request = FrontRequest { token, offset_bytes, len_bytes, op, fua, hints: None };
        if self.side.push(request).is_err() {
            // There are as many tokens as the door takes.
            self.free.push(token);
            return self.answer(index, head, &answer, &[], Status::IoError);
        }
        self.in_flight_bytes += held_bytes;
        self.slots[usize::from(token)] = Some(Pending { from: Some((index, head)), answer, held_bytes });
        Ok(())
    }

    fn finish(&mut self, token: u16, result: Result<Outcome, RequestError>) -> Result<(), RingError> {
        let Some(pending) = self.slots.get_mut(usize::from(token)).and_then(Option::take) else { return Ok(()) };
        self.free.push(token);
        self.in_flight_bytes -= pending.held_bytes;
        let Some((index, head)) = pending.from else { return Ok(()) };
        let answer = &pending.answer;
        match result {
            Ok(Outcome::Data(data)) if data.len() as u64 == len_bytes(&answer.data) => {
                self.answer(index, head, answer, &data, Status::Ok)
            }
            Ok(Outcome::Data(_)) => self.answer(index, head, answer, &[], Status::IoError),
            Ok(_) => self.answer(index, head, answer, &[], Status::Ok),
            // Unanswered: the next server is asked again.
            Err(RequestError::ShuttingDown) => {
                self.is_stopping = true;
                self.rings[index].forget(head);
                Ok(())
            }
            Err(_) => self.answer(index, head, answer, &[], Status::IoError),
        }
    }

    fn answer(
        &mut self,
        index: usize,
        head: u16,
        answer: &Answer,
        data: &[u8],
        status: Status,
    ) -> Result<(), RingError> {
        let written = answer.write(self.memory.map(), data, status)?;
        self.rings[index].complete(self.memory.map(), self.inflight.as_ref(), head, written)
    }
}

/// Why what is in flight could not be waited for.
#[derive(Debug, thiserror::Error)]
pub enum DrainError {
    /// The client.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// The server.
    #[error("the server stops")]
    ServerGone,
    /// The system.
    #[error("waiting failed: {0}")]
    Wait(#[from] Errno),
}

/// Waits until one of the descriptors has something; gives what each has.
pub fn wait(fds: &[(RawFd, PollFlags)], limit: Option<&Timespec>) -> Result<Vec<PollFlags>, Errno> {
    let mut polled: Vec<PollFd<'_>> = fds
        .iter()
        .map(|&(fd, flags)| {
            // SAFETY: the caller owns the descriptors, and none is closed before this function returns.
            PollFd::from_borrowed_fd(unsafe { BorrowedFd::borrow_raw(fd) }, flags)
        })
        .collect();
    match poll(&mut polled, limit) {
        Ok(_) | Err(Errno::INTR) => Ok(polled.iter().map(PollFd::revents).collect()),
        Err(why) => Err(why),
    }
}

#[cfg(test)]
mod tests {
    use super::super::inflight;
    use super::super::memory::Place;
    use super::super::ring::Addresses;
    use super::*;
    use crate::frontend::{Door, Frontend, open_door};
    use forebay_block::Buf;
    use rustix::event::{EventfdFlags, eventfd};
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
    use std::fs::File;
    use vm_memory::{Bytes, GuestAddress};

    const USER: u64 = 0x7000_0000;
    const TABLE: u64 = 0;
    const AVAILABLE: u64 = 0x1000;
    const USED: u64 = 0x2000;
    const HEADER: u64 = 0x3000;
    const STATUS: u64 = 0x3100;
    const DATA: u64 = 0x4000;
    const ENTRIES: u16 = 8;

    /// A machine: its memory, and the file in which what is in flight is noted.
    struct Machine {
        memory: File,
        inflight: File,
        inflight_bytes: u64,
        call: File,
    }

    impl Machine {
        fn new() -> Self {
            let memory = File::from(memfd_create("memory", MemfdFlags::ALLOW_SEALING).unwrap());
            ftruncate(&memory, 0x10000).unwrap();
            let (inflight, inflight_bytes) = inflight::create(1, ENTRIES).unwrap().unwrap();
            let call = File::from(eventfd(0, EventfdFlags::NONBLOCK).unwrap());
            Self { memory, inflight, inflight_bytes, call }
        }

        /// A device that this machine uses, and the server's side of it.
        fn connect(&self) -> (Device, Door) {
            let (door, side) = open_door(IN_FLIGHT_MAX).unwrap();
            let mut device = Device::new(side, "db", 1 << 20, false);
            let place = Place { guest: 0, user: USER, len_bytes: 0x10000, offset_bytes: 0 };
            let file = |file: &File| file.try_clone().unwrap();
            device.memory.add(place, file(&self.memory)).unwrap();
            let inflight = Inflight::open(file(&self.inflight), 0, self.inflight_bytes, 1, ENTRIES).unwrap();
            device.inflight = Some(inflight);
            assert!(device.accept(FLUSH));
            let ring = &mut device.rings[0];
            ring.set_size(u32::from(ENTRIES)).unwrap();
            let at = |guest| USER + guest;
            ring.set_addresses(Addresses { table: at(TABLE), available: at(AVAILABLE), used: at(USED) }).unwrap();
            ring.set_kick(File::from(eventfd(0, EventfdFlags::NONBLOCK).unwrap())).unwrap();
            device.start(0).unwrap();
            device.rings[0].set_call(Some(file(&self.call))).unwrap();
            assert!(self.was_called(), "the server before may not have called");
            (device, door)
        }

        fn was_called(&self) -> bool {
            rustix::io::read(&self.call, &mut [0; 8]).is_ok()
        }
    }

    fn put(device: &Device, at: u64, bytes: &[u8]) {
        device.memory.map().write_slice(bytes, GuestAddress(at)).unwrap();
    }

    fn descriptor(device: &Device, index: u64, address: u64, len: u32, flags: u16, next: u16) {
        put(device, TABLE + index * 16, &address.to_le_bytes());
        put(device, TABLE + index * 16 + 8, &len.to_le_bytes());
        put(device, TABLE + index * 16 + 12, &flags.to_le_bytes());
        put(device, TABLE + index * 16 + 14, &next.to_le_bytes());
    }

    /// A read of one sector, as the request of that number.
    fn offer_read(device: &Device, number: u16) {
        put(device, HEADER, &[0; 16]);
        descriptor(device, 0, HEADER, 16, 1, 1);
        descriptor(device, 1, DATA, 512, 3, 2);
        descriptor(device, 2, STATUS, 1, 2, 0);
        put(device, AVAILABLE + 4 + u64::from(number % ENTRIES) * 2, &0u16.to_le_bytes());
        put(device, AVAILABLE + 2, &(number + 1).to_le_bytes());
    }

    fn used(device: &Device) -> u16 {
        device.memory.map().read_obj(GuestAddress(USED + 2)).unwrap()
    }

    fn received(door: &mut Door) -> Vec<FrontRequest> {
        let mut requests = Vec::new();
        door.receive(&mut requests).unwrap();
        requests
    }

    #[test]
    fn a_read_comes_back_with_its_data() {
        let machine = Machine::new();
        let (mut device, mut door) = machine.connect();
        offer_read(&device, 0);
        assert!(device.turn().unwrap());
        let requests = received(&mut door);
        assert!(matches!(requests[..], [FrontRequest { offset_bytes: 0, len_bytes: 512, op: Op::Read, .. }]));
        assert_eq!((used(&device), device.side().in_flight()), (0, 1));
        door.complete(requests[0].token, Ok(Outcome::Data(Buf::copy_of(&[5; 512]))));
        assert!(device.turn().unwrap());
        assert_eq!(used(&device), 1);
        assert_eq!(device.memory.map().read_obj::<[u8; 16]>(GuestAddress(DATA)).unwrap(), [5; 16]);
        assert_eq!(device.memory.map().read_obj::<u8>(GuestAddress(STATUS)).unwrap(), 0);
        assert!(machine.was_called());
        assert!(!device.turn().unwrap());
    }

    #[test]
    fn the_next_server_does_again_what_the_one_before_did_not_answer() {
        let machine = Machine::new();
        let (mut device, mut door) = machine.connect();
        offer_read(&device, 0);
        device.turn().unwrap();
        assert_eq!(received(&mut door).len(), 1);
        drop((device, door));
        for _ in 0..2 {
            let (mut device, mut door) = machine.connect();
            device.turn().unwrap();
            let requests = received(&mut door);
            assert_eq!(requests.len(), 1, "once, and no more");
            // It is stopping, too.
            door.complete(requests[0].token, Err(RequestError::ShuttingDown));
            device.turn().unwrap();
            assert!(device.is_stopping() && used(&device) == 0);
        }
        let (mut device, mut door) = machine.connect();
        device.turn().unwrap();
        let token = received(&mut door)[0].token;
        door.complete(token, Err(RequestError::OutOfRange));
        device.turn().unwrap();
        assert_eq!(used(&device), 1);
        assert_eq!(device.memory.map().read_obj::<u8>(GuestAddress(STATUS)).unwrap(), 1);
        offer_read(&device, 1);
        device.rings[0].is_pending = true;
        device.turn().unwrap();
        assert_eq!(received(&mut door).len(), 1);
    }

    #[test]
    fn what_a_client_that_has_gone_had_in_flight_is_not_written_anywhere() {
        let machine = Machine::new();
        let (mut device, mut door) = machine.connect();
        offer_read(&device, 0);
        device.turn().unwrap();
        let token = received(&mut door)[0].token;
        let memory = device.memory.clone();
        device.forget_client();
        door.complete(token, Ok(Outcome::Data(Buf::copy_of(&[5; 512]))));
        device.drain(None).unwrap();
        assert_eq!(memory.map().read_obj::<u16>(GuestAddress(USED + 2)).unwrap(), 0);
        assert_eq!(memory.map().read_obj::<[u8; 16]>(GuestAddress(DATA)).unwrap(), [0; 16]);
    }

    #[test]
    fn broken_rings_are_errors() {
        let machine = Machine::new();
        let (mut device, _door) = machine.connect();
        put(&device, AVAILABLE + 2, &9u16.to_le_bytes());
        assert!(matches!(device.turn(), Err(RingError::Queue(_))), "more than there can be");
        let machine = Machine::new();
        let (mut device, _door) = machine.connect();
        offer_read(&device, 0);
        offer_read(&device, 1);
        assert!(matches!(device.turn(), Err(RingError::Head(0))), "the same request twice");
        let machine = Machine::new();
        let (mut device, _door) = machine.connect();
        put(&device, AVAILABLE + 4, &200u16.to_le_bytes());
        put(&device, AVAILABLE + 2, &1u16.to_le_bytes());
        assert!(matches!(device.turn(), Err(RingError::Head(200))));
    }
}
