//! A device whose client is this test.

use super::super::inflight;
use super::super::memory::Place;
use super::super::ring::Addresses;
use super::*;
use crate::frontend::{Door, Frontend, open_door};
use forebay_block::Buf;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::fs::File;
use vhost::vhost_user::VhostUserBackendReqHandlerMut;
use vhost::vhost_user::message::VhostUserSingleMemoryRegion;
use vm_memory::{Bytes, GuestAddress};

const USER: u64 = 0x7000_0000;
const MEMORY_BYTES: u64 = 16 << 20;
/// Addresses of the parts of the first ring, with room for rings of any size; the parts of the second ring lie
/// `SECOND` bytes further on.
const TABLE: u64 = 0;
const AVAILABLE: u64 = 0x4000;
const USED: u64 = 0x5000;
const SECOND: u64 = 0x10000;
const HEADER: u64 = 0x20000;
const STATUS: u64 = 0x20100;
const DATA: u64 = 0x100_000;
const ENTRIES: u16 = 8;

/// A machine: its memory, and the file with its record of requests in flight.
pub struct Machine {
    memory: File,
    inflight: File,
    inflight_bytes: u64,
    call: File,
    entries: u16,
}

impl Machine {
    pub fn new() -> Self {
        Self::of(ENTRIES)
    }

    fn of(entries: u16) -> Self {
        let memory = File::from(memfd_create("memory", MemfdFlags::ALLOW_SEALING).unwrap());
        ftruncate(&memory, MEMORY_BYTES).unwrap();
        let (inflight, inflight_bytes) = inflight::create(2, entries).unwrap().unwrap();
        let call = File::from(eventfd(0, EventfdFlags::NONBLOCK).unwrap());
        Self { memory, inflight, inflight_bytes, call, entries }
    }

    /// Connects a device to this machine; returns it with the server's side of the door.
    pub fn connect(&self) -> (Device, Door) {
        let (door, side) = open_door(IN_FLIGHT_MAX).unwrap();
        let mut device = Device::new(side, "db", 1 << 20, false);
        let place = Place { guest: 0, user: USER, len_bytes: MEMORY_BYTES, offset_bytes: 0 };
        let file = |file: &File| file.try_clone().unwrap();
        device.memory.add(place, file(&self.memory)).unwrap();
        let inflight = Inflight::open(file(&self.inflight), 0, self.inflight_bytes, 2, self.entries).unwrap();
        device.inflight = Some(inflight);
        assert!(device.accept(FLUSH));
        for (index, behind) in [(0, 0), (1, SECOND)] {
            let ring = &mut device.rings[index];
            ring.set_size(u32::from(self.entries)).unwrap();
            let at = |guest| USER + behind + guest;
            ring.set_addresses(Addresses { table: at(TABLE), available: at(AVAILABLE), used: at(USED) }).unwrap();
            ring.set_kick(File::from(eventfd(0, EventfdFlags::NONBLOCK).unwrap())).unwrap();
            device.start(index).unwrap();
        }
        device.rings[0].set_call(Some(file(&self.call))).unwrap();
        assert!(self.was_called(), "the server before may not have called");
        (device, door)
    }

    fn region(&self) -> VhostUserSingleMemoryRegion {
        VhostUserSingleMemoryRegion::new(0, MEMORY_BYTES, USER, 0)
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

/// Offers a read of one sector, as request `number`.
pub fn offer_read(device: &Device, number: u16) {
    put(device, HEADER, &[0; 16]);
    descriptor(device, 0, HEADER, 16, 1, 1);
    descriptor(device, 1, DATA, 512, 3, 2);
    descriptor(device, 2, STATUS, 1, 2, 0);
    put(device, AVAILABLE + 4 + u64::from(number % ENTRIES) * 2, &0u16.to_le_bytes());
    put(device, AVAILABLE + 2, &(number + 1).to_le_bytes());
}

/// Offers the first `count` requests of a machine with rings of `entries`, all of one kind; they share their data and
/// their status.
fn offer_many(device: &Device, entries: u16, count: u16, kind: u32, data_bytes: u32) {
    put(device, HEADER, &[0; 16]);
    put(device, HEADER, &kind.to_le_bytes());
    let (data, status) = (entries - 2, entries - 1);
    assert!(count <= data);
    descriptor(device, u64::from(data), DATA, data_bytes, 3, status);
    descriptor(device, u64::from(status), STATUS, 1, 2, 0);
    for head in 0..count {
        descriptor(device, u64::from(head), HEADER, 16, 1, data);
        put(device, AVAILABLE + 4 + u64::from(head) * 2, &head.to_le_bytes());
    }
    put(device, AVAILABLE + 2, &count.to_le_bytes());
}

/// Offers a flush, the first request of the second ring.
fn offer_flush(device: &Device) {
    let header = HEADER + 0x200;
    put(device, header, &[4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let first = SECOND / 16;
    descriptor(device, first, header, 16, 1, 1);
    descriptor(device, first + 1, STATUS + 1, 1, 2, 0);
    put(device, SECOND + AVAILABLE + 4, &0u16.to_le_bytes());
    put(device, SECOND + AVAILABLE + 2, &1u16.to_le_bytes());
}

fn used(device: &Device) -> u16 {
    device.memory.map().read_obj(GuestAddress(USED + 2)).unwrap()
}

fn received(door: &mut Door) -> Vec<FrontRequest> {
    let mut requests = Vec::new();
    door.receive(&mut requests).unwrap();
    requests
}

fn flushes(requests: &[FrontRequest]) -> usize {
    requests.iter().filter(|request| matches!(request.op, Op::Flush)).count()
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
        // The server is stopping, too.
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

#[test]
fn a_flush_of_another_ring_passes_by_data_that_has_to_wait() {
    let machine = Machine::new();
    let (mut device, mut door) = machine.connect();
    // Five requests of 7 MiB exceed the limit of 32 MiB.
    offer_many(&device, ENTRIES, 6, 0, 7 << 20);
    device.turn().unwrap();
    let reads = received(&mut door);
    assert_eq!(reads.len(), 5);
    assert!(!device.turn().unwrap(), "the sixth waits");
    offer_flush(&device);
    device.rings[1].is_pending = true;
    assert!(device.turn().unwrap());
    let requests = received(&mut door);
    assert_eq!((requests.len(), flushes(&requests)), (1, 1));
    for read in &reads[..2] {
        door.complete(read.token, Ok(Outcome::Data(Buf::copy_of(&[5; 7 << 20]))));
    }
    device.turn().unwrap();
    let rest = received(&mut door);
    assert!(matches!(rest[..], [FrontRequest { len_bytes: 7_340_032, op: Op::Read, .. }]), "{rest:?}");
}

#[test]
fn a_busy_ring_does_not_keep_another_one_waiting() {
    let machine = Machine::of(1024);
    let (mut device, mut door) = machine.connect();
    for _ in 0..QUEUES_MAX {
        let count = 500;
        offer_many(&device, 1024, count, 0, 512);
        offer_flush(&device);
        device.turn().unwrap();
        let requests = received(&mut door);
        assert_eq!((requests.len(), flushes(&requests)), (usize::from(IN_FLIGHT_MAX), 1), "whichever ring is first");
        let first = device.first;
        (device, door) = Machine::of(1024).connect();
        device.first = first;
    }
}

#[test]
fn a_turn_ends_though_requests_are_answered_at_once() {
    let machine = Machine::of(1024);
    let (mut device, _door) = machine.connect();
    // Requests for the name, and of an unknown kind.
    for (kind, data_bytes) in [(8, 20), (99, 20)] {
        offer_many(&device, 1024, 600, kind, data_bytes);
        let turns: Vec<u16> = (0..3).map(|_| (device.turn().unwrap(), used(&device)).1).collect();
        assert_eq!(turns, [TURN_MAX, 2 * TURN_MAX, 600]);
        (device, _) = Machine::of(1024).connect();
    }
}

#[test]
fn what_was_in_flight_keeps_its_order_through_a_second_death() {
    let machine = Machine::new();
    let (mut device, _door) = machine.connect();
    offer_many(&device, ENTRIES, 3, 0, 512);
    device.turn().unwrap();
    drop(device);
    // The second server dies after the first of these requests.
    let (mut device, _door) = machine.connect();
    let memory = device.memory.clone();
    let next = device.rings[0].next(memory.map(), device.inflight.as_ref(), true).unwrap();
    assert!(matches!(next, Next::Request(0, _)), "{next:?}");
    drop(device);
    let (device, _door) = machine.connect();
    let left = device.inflight.as_ref().unwrap().recover(0, ENTRIES, 0);
    assert_eq!(left.heads, [0, 1, 2]);
}

#[test]
fn a_region_that_goes_and_comes_back_takes_its_rings_along() {
    let machine = Machine::new();
    let (mut device, mut door) = machine.connect();
    let file = || machine.memory.try_clone().unwrap();
    device.remove_mem_region(&machine.region()).unwrap();
    assert!(device.rings[0].is_started() && !device.rings[0].is_served());
    assert!(!device.turn().unwrap());
    // Adding another region does not help.
    let other = VhostUserSingleMemoryRegion::new(1 << 32, 4096, 0x1000, 0);
    device.add_mem_region(&other, file(), None).unwrap();
    assert!(!device.rings[0].is_served());
    // The region may return at another address of the guest.
    let back = VhostUserSingleMemoryRegion::new(1 << 30, MEMORY_BYTES, USER, 0);
    device.add_mem_region(&back, file(), None).unwrap();
    assert!(device.rings[0].is_served());
    device.remove_mem_region(&back).unwrap();
    device.add_mem_region(&machine.region(), file(), None).unwrap();
    offer_read(&device, 0);
    device.turn().unwrap();
    assert_eq!(received(&mut door).len(), 1);
}

#[test]
fn what_changes_is_durable_where_the_driver_knows_no_flush() {
    let machine = Machine::new();
    for (accepted, is_durable) in [(FLUSH, false), (0, true)] {
        let (mut device, mut door) = machine.connect();
        device.accept(accepted);
        let answer = || Answer { data: Vec::new(), status_at: STATUS };
        for op in [Op::Write(Buf::new(512)), Op::Discard, Op::WriteZeroes { may_unmap: true }] {
            device.submit(0, 0, answer(), 0, 512, op).unwrap();
        }
        device.submit(0, 0, answer(), 0, 512, Op::Read).unwrap();
        let fua: Vec<bool> = received(&mut door).iter().map(|request| request.fua).collect();
        assert_eq!(fua, [is_durable, is_durable, is_durable, false]);
    }
}
