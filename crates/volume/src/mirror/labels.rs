//! The labels on the capacity devices: written when the mirror asks for it, beside the engine's requests.

use super::view::MirrorView;
use crate::layout::member_label::{MemberLabel, OFFSETS_BYTES};
use forebay_block::{Buf, Completion, Device, Op, Request, Vectored};

/// Tags from here on are not the engine's.
const OWN_TAG: u64 = 1 << 63;

#[derive(Debug, PartialEq, Eq)]
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
    /// One bit for each device, by its number in the pool, to which this phase has still to send its request.
    to_send: u32,
    in_flight: usize,
    /// One bit for each device that has taken what was sent to it so far.
    taken: u32,
}

impl CapacityLabels {
    pub fn new(view: MirrorView) -> Self {
        Self { view, phase: Phase::Idle, label: None, to_send: 0, in_flight: 0, taken: 0 }
    }

    /// Begins to write what is wanted, and goes on with it as far as the devices have room.
    pub fn step(&mut self, list: &mut [Box<dyn Device>]) {
        if self.phase == Phase::Idle {
            let Some(label) = self.view.take_wanted() else { return };
            self.label = Some(MemberLabel { member: None, ..label });
            self.phase = Phase::Writing;
            self.to_send = (1..list.len()).fold(0, |bits, number| bits | 1 << number);
            self.taken = self.to_send;
        }
        let Some(label) = &self.label else { return };
        for (number, device) in list.iter_mut().enumerate().skip(1) {
            let (tag, bit) = (OWN_TAG | number as u64, 1 << number);
            if self.to_send & bit == 0 || device.in_flight() >= device.queue_limit() {
                continue;
            }
            let (offset_bytes, op) = match self.phase {
                Phase::Writing => {
                    let bufs = Vectored::One(Buf::copy_of(&label.encode()).freeze());
                    (OFFSETS_BYTES[(label.serial % 2) as usize], Op::Write { bufs, fua: false })
                }
                Phase::Idle | Phase::Flushing => (0, Op::Flush),
            };
            device.submit(Request { tag, offset_bytes, stream: 0, op });
            self.to_send &= !bit;
            self.in_flight += 1;
        }
        self.end_phase();
    }

    /// Whether one is being written.
    pub fn is_busy(&self) -> bool {
        self.in_flight > 0
    }

    /// Whether a completion belongs to a label, and goes no further.
    pub fn ended(&mut self, completion: &Completion) -> bool {
        if completion.tag & OWN_TAG == 0 {
            return false;
        }
        self.in_flight = self.in_flight.saturating_sub(1);
        if completion.result.is_err() {
            self.taken &= !(1 << (completion.tag & !OWN_TAG));
        }
        self.end_phase();
        true
    }

    fn end_phase(&mut self) {
        if self.in_flight > 0 || self.to_send > 0 {
            return;
        }
        match self.phase {
            Phase::Writing => (self.phase, self.to_send) = (Phase::Flushing, self.taken),
            Phase::Flushing => {
                self.phase = Phase::Idle;
                // One device that has it is enough to tell a member that was left behind: whoever opens the pool reads them all.
                let serial = self.label.take().map_or(0, |label| label.serial);
                self.view.capacity_has(serial, self.taken != 0);
            }
            Phase::Idle => {}
        }
    }
}
