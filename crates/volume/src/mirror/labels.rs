//! The labels on the capacity devices: written when the mirror asks for it, beside the engine's requests.

use super::view::MirrorView;
use crate::layout::codec::COUNTER_LIMIT;
use crate::layout::member_label::{MemberLabel, OFFSETS_BYTES};
use forebay_block::{Buf, Completion, Device, IoError, Op, Request, Vectored};

/// Tags from here on are not the engine's.
const OWN_TAG: u64 = 1 << 63;
/// How often the label is written to all devices.
const ATTEMPTS_MAX: u8 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    Writing,
    Flushing,
}

/// State of the labels on the capacity devices.
pub(crate) struct CapacityLabels {
    pub view: MirrorView,
    phase: Phase,
    label: Option<MemberLabel>,
    /// One bit for each device, by its number in the pool, whose newest label is copy B. The next label goes to the other copy, so that a
    /// power cut meanwhile leaves this one.
    newest_is_second: u32,
    /// Counts up with each label that is written here.
    serial: u64,
    attempts: u8,
    /// One bit for each device to which this phase has still to send its request.
    to_send: u32,
    in_flight: u32,
    /// One bit for each device that has taken everything that was sent to it so far.
    taken: u32,
    /// Flushes for labels that have failed and that nobody has heard of yet: each is the only report of what it covered.
    failed_flushes: Vec<(usize, IoError)>,
}

impl CapacityLabels {
    pub fn new(view: MirrorView) -> Self {
        Self {
            view,
            phase: Phase::Idle,
            label: None,
            newest_is_second: 0,
            serial: 0,
            attempts: 0,
            to_send: 0,
            in_flight: 0,
            taken: 0,
            failed_flushes: Vec::new(),
        }
    }

    /// Takes in the labels that lie on a device when the pool is opened, one for each copy.
    pub fn found(&mut self, number: usize, copies: [Option<MemberLabel>; 2]) {
        let is_ours = |label: &MemberLabel| label.pool == self.view.pool() && label.serial < COUNTER_LIMIT / 2;
        let serial = |label: Option<MemberLabel>| label.filter(is_ours).map_or(0, |label| label.serial);
        let [first, second] = copies.map(serial);
        self.newest_is_second |= u32::from(second > first) << number;
        self.serial = self.serial.max(first).max(second);
    }

    /// Begins to write the label that is wanted, and goes on as far as the devices have room. `flushes`: whether requests that flush a
    /// device's cache are in flight or waiting; a flush of ours beside them might get the report of what they covered. True where something
    /// was done.
    pub fn step(&mut self, list: &mut [Box<dyn Device>], flushes: impl Fn(usize) -> bool) -> bool {
        if self.phase == Phase::Idle {
            let Some(label) = self.view.take_wanted() else { return false };
            (self.label, self.attempts) = (Some(label), 0);
            self.begin(list.len());
        }
        let Some(label) = &self.label else { return false };
        let before = (self.phase, self.in_flight);
        for (number, device) in list.iter_mut().enumerate().skip(1) {
            let (tag, bit) = (OWN_TAG | number as u64, 1 << number);
            let is_waited_for = self.phase == Phase::Flushing && flushes(number);
            if self.to_send & bit == 0 || device.in_flight() >= device.queue_limit() || is_waited_for {
                continue;
            }
            let (offset_bytes, op) = match self.phase {
                Phase::Writing => {
                    let label = MemberLabel { member: None, serial: self.serial, ..label.clone() };
                    let bufs = Vectored::One(Buf::copy_of(&label.encode()).freeze());
                    let second = usize::from((self.newest_is_second & bit == 0) != self.is_swapped());
                    (OFFSETS_BYTES[second], Op::Write { bufs, fua: device.geometry().durable_writes })
                }
                Phase::Idle | Phase::Flushing => (0, Op::Flush),
            };
            device.submit(Request { tag, offset_bytes, stream: 0, op });
            self.to_send &= !bit;
            self.in_flight |= bit;
        }
        self.end_phase(list);
        before != (self.phase, self.in_flight)
    }

    fn begin(&mut self, devices: usize) {
        self.serial += 1;
        self.attempts += 1;
        self.phase = Phase::Writing;
        self.to_send = (1..devices).fold(0, |bits, number| bits | 1 << number);
        self.taken = self.to_send;
    }

    /// The place itself may be broken: the last attempt goes to the other one, which has the label before this one. If the power fails
    /// while it is written, what is left shows that a label was there.
    fn is_swapped(&self) -> bool {
        self.attempts == ATTEMPTS_MAX
    }

    /// Whether a label is being written.
    pub fn is_busy(&self) -> bool {
        self.in_flight > 0
    }

    /// Whether a flush of ours is in flight on a device: other flushes of that device wait.
    pub fn is_flushing(&self, number: usize) -> bool {
        // Bases of disks have numbers beyond those of the pool's devices, however many there were.
        self.phase == Phase::Flushing && self.in_flight.checked_shr(number as u32).unwrap_or(0) & 1 != 0
    }

    /// Another flush has failed on a device: it may have been the only report that the label there was lost.
    pub fn flush_of_others_failed(&mut self, number: usize) {
        self.taken &= !(1 << number);
    }

    /// Flushes for labels that have failed since the last call.
    pub fn take_failed_flushes(&mut self) -> Vec<(usize, IoError)> {
        std::mem::take(&mut self.failed_flushes)
    }

    /// Whether a completion belongs to a label; it goes no further then.
    pub fn ended(&mut self, completion: &Completion) -> bool {
        if completion.tag & OWN_TAG == 0 {
            return false;
        }
        let number = (completion.tag & !OWN_TAG) as usize;
        self.in_flight &= !(1 << number);
        if let Err(error) = &completion.result {
            self.taken &= !(1 << number);
            if self.phase == Phase::Flushing {
                self.failed_flushes.push((number, error.clone()));
            }
        }
        true
    }

    fn end_phase(&mut self, list: &[Box<dyn Device>]) {
        if self.in_flight > 0 || self.to_send > 0 {
            return;
        }
        if self.phase == Phase::Writing {
            // The devices whose writes are not durable when they end.
            let cached = list.iter().enumerate().filter(|(_, device)| {
                let geometry = device.geometry();
                geometry.volatile_cache && !geometry.durable_writes
            });
            self.to_send = cached.fold(0, |bits, (number, _)| bits | 1 << number) & self.taken;
            self.phase = Phase::Flushing;
            if self.to_send > 0 {
                return;
            }
        }
        if self.phase == Phase::Flushing {
            self.newest_is_second ^= if self.is_swapped() { 0 } else { self.taken };
            self.phase = Phase::Idle;
            if self.taken == 0 && self.attempts < ATTEMPTS_MAX {
                return self.begin(list.len());
            }
            // One device that has the label is enough to recognise a member that was left behind: an opening reads the labels of all
            // devices.
            let serial = self.label.take().map_or(0, |label| label.serial);
            self.view.capacity_has(serial, self.taken != 0);
        }
    }
}
