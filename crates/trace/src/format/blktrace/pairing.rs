//! Converts events to requests.
//!
//! A request is issued when it goes to the driver (D). For a device without such events, it is issued when it was queued (Q), which is
//! right for devices without a request queue (dm, md, zram); with neither, when it completed (C), and its latency is then unknown. Which
//! events a device has is seen at the beginning of the trace, or, if the device appears later (dm, md and zram are created at run time),
//! from its first events.

use super::device::device_name;
use super::event::{Action, Event, Key};
use super::flights::Flights;
use super::queued::{Queued, QueuedTable};
use crate::hash::Seed;
use crate::{Knows, NOT_KNOWN, Request};
use std::collections::{HashMap, HashSet};

/// Most events that are examined first: at the beginning, and if a device appears later.
const HELD_MAX: usize = 1 << 14;
/// Most devices whose events are examined; further ones are taken to be like most.
const DEVICES_MAX: usize = 4096;

/// The events that a device has.
#[derive(Clone, Copy, Default)]
struct Device {
    has_queue: bool,
    has_issue: bool,
    has_complete: bool,
    /// Whether this is certain. A device that appears later is known after its first D, or after a C for a Q without D.
    is_known: bool,
    /// Whether its first D came after its Q had been taken as the issue.
    has_late_issue: bool,
}

impl Device {
    /// The assumption for devices that are not examined.
    const USUAL: Self =
        Self { has_queue: true, has_issue: true, has_complete: true, is_known: true, has_late_issue: false };

    fn issued_by(self) -> Action {
        match self {
            Self { has_issue: true, .. } => Action::Issue,
            Self { has_queue: true, .. } => Action::Queue,
            Self { has_complete: true, .. } => Action::Complete,
            _ => Action::Issue,
        }
    }
}

/// Pairs the events of requests.
#[derive(Default)]
pub(in crate::format) struct Pairing {
    /// Events that wait until their devices are known. Events of all devices wait, to keep their order.
    held: Vec<Event>,
    is_begun: bool,
    devices: HashMap<u32, Device, Seed>,
    /// Number of devices that appeared later and are not known yet.
    unknown: usize,
    /// Keys of the requests queued for them.
    queued_of_unknown: HashSet<Key, Seed>,
    queued: QueuedTable,
    flights: Flights,
    has_latency: bool,
    /// Number of completions without a known request.
    unmatched: u64,
}

impl Pairing {
    /// Handles the next event; appends the requests that can now be reported.
    pub fn event(&mut self, event: Event, into: &mut Vec<Request>) {
        let device = self.look(&event);
        if self.is_begun && self.unknown == 0 && self.held.is_empty() {
            self.take(&event, device, into);
            return;
        }
        self.held.push(event);
        if self.held.len() >= HELD_MAX || self.is_begun && self.unknown == 0 {
            self.release(into);
        }
    }

    /// Learns from an event about its device. Late findings apply to later events.
    fn look(&mut self, event: &Event) -> Device {
        let count = self.devices.len();
        let device = match self.devices.get_mut(&event.device) {
            Some(device) => device,
            None if count >= DEVICES_MAX => return Device::USUAL,
            None => {
                // A device that appears later is taken to have completions if others have; it is not waited for one of its own.
                let has_complete = self.is_begun && self.devices.values().any(|other| other.has_complete);
                self.unknown += usize::from(self.is_begun);
                let new = Device { has_complete, is_known: !self.is_begun, ..Device::default() };
                self.devices.entry(event.device).or_insert(new)
            }
        };
        match event.action {
            Action::Queue => device.has_queue = true,
            Action::Issue => {
                device.has_late_issue |= self.is_begun && device.is_known && !device.has_issue;
                device.has_issue = true;
            }
            Action::Complete => device.has_complete = true,
            Action::BackMerge | Action::Insert | Action::Requeue => {}
        }
        if !device.is_known {
            device.is_known = match event.action {
                Action::Issue => true,
                Action::Complete => self.queued_of_unknown.contains(&event.key()),
                Action::Queue => {
                    self.queued_of_unknown.insert(event.key());
                    false
                }
                _ => false,
            };
            self.unknown -= usize::from(device.is_known);
        }
        *device
    }

    /// Appends everything that waited, at the end of the trace.
    pub fn end(&mut self, into: &mut Vec<Request>) {
        self.release(into);
        self.flights.end(into);
    }

    /// The facts that the events provide.
    pub fn knows(&self) -> Knows {
        Knows {
            op: true,
            time: true,
            latency: self.has_latency,
            depth: self.has_latency,
            flags: true,
            process: true,
            ..Knows::default()
        }
    }

    /// Notes about the times of devices without issue events, about completions without a request, and about requests without one.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        for (action, what) in [
            (Action::Queue, "no issues (D): times are those of queueing (Q)"),
            (Action::Complete, "neither issues (D) nor queueings (Q): times are those of completion (C)"),
        ] {
            let mut devices: Vec<_> = self
                .devices
                .iter()
                .filter(|(_, device)| device.issued_by() == action)
                .map(|(&number, _)| number)
                .collect();
            devices.sort_unstable();
            if let Some(first) = devices.first() {
                let more =
                    if devices.len() > 1 { format!(" and {} more devices", devices.len() - 1) } else { String::new() };
                notes.push(format!("{}{more}: {what}", device_name(*first)));
            }
        }
        if self.unmatched > 0 {
            notes.push(format!(
                "{} completions (C) belong to no request of the trace: issued before it begins, or not recorded",
                self.unmatched
            ));
        }
        if self.lost() > 0 {
            let completions = if self.lost() == 1 { "completion" } else { "completions" };
            notes.push(format!(
                "{} {completions} (C) must have been lost: later requests at the same place completed, or a great many others; the latencies \
                 are not known, and until then the requests count in the depth",
                self.lost()
            ));
        }
        notes
    }

    /// Number of completions that must have been lost.
    pub fn lost(&self) -> u64 {
        self.flights.lost()
    }

    /// Handles the waiting events: their devices are known now, or are taken as their events so far suggest.
    fn release(&mut self, into: &mut Vec<Request>) {
        if self.unknown > 0 {
            self.devices.values_mut().for_each(|device| device.is_known = true);
        }
        self.unknown = 0;
        self.queued_of_unknown.clear();
        self.is_begun = true;
        for event in std::mem::take(&mut self.held) {
            let device = self.devices.get(&event.device).copied().unwrap_or(Device::USUAL);
            self.take(&event, device, into);
        }
    }

    fn take(&mut self, event: &Event, device: Device, into: &mut Vec<Request>) {
        let key = event.key();
        match (event.action, device.issued_by()) {
            (Action::Complete, Action::Complete) => into.push(request(event)),
            (Action::Complete, _) => {
                let is_matched = self.flights.complete(event, into);
                self.has_latency |= is_matched;
                self.unmatched += u64::from(!is_matched);
            }
            (Action::Queue, Action::Queue) => self.issue(event, device, into),
            (Action::Issue, _) => {
                if device.has_late_issue {
                    self.queued_after_all(event);
                }
                self.issue(event, device, into);
            }
            (Action::Queue, Action::Issue) => self.queued.insert(key, Queued::of(event)),
            (Action::Insert, Action::Issue) if !self.queued.has(key) => self.queued.insert(key, Queued::of(event)),
            (Action::BackMerge, Action::Issue) => {
                self.queued.take(key);
            }
            (Action::Requeue, Action::Issue) => {
                // Counted once: the request is reported when it is issued again.
                if let Some(request) = self.flights.requeue(event)
                    && request.queued_ns != NOT_KNOWN
                {
                    let time_ns = request.issued_ns.saturating_sub(request.queued_ns);
                    let Request { pid, process, cgroup, .. } = request;
                    self.queued.insert(key, Queued { time_ns, pid, process, cgroup });
                }
            }
            _ => {}
        }
    }

    /// The request's Q was taken as its issue, and now it is really issued; it must not be counted twice.
    fn queued_after_all(&mut self, event: &Event) {
        if let Some(request) = self.flights.requeue(event) {
            let Request { issued_ns: time_ns, pid, process, cgroup, .. } = request;
            self.queued.insert(event.key(), Queued { time_ns, pid, process, cgroup });
        }
    }

    fn issue(&mut self, event: &Event, device: Device, into: &mut Vec<Request>) {
        let mut request = request(event);
        if let Some(queued) = self.queued.take(event.key()) {
            request.queued_ns = event.time_ns.saturating_sub(queued.time_ns);
            (request.pid, request.process, request.cgroup) = (queued.pid, queued.process, queued.cgroup);
        }
        if device.has_complete {
            self.flights.issue(event.key(), request, into);
        } else {
            self.flights.pass(event.key(), request, into);
        }
    }
}

fn request(event: &Event) -> Request {
    Request {
        volume: event.volume,
        pid: event.pid,
        process: event.process,
        cgroup: event.cgroup,
        flags: event.flags,
        // The event's range was checked.
        ..Request::new(event.time_ns, event.op, event.sector.saturating_mul(512), event.len_bytes)
    }
}
