//! Makes requests of events.
//!
//! A request is issued when it goes to the driver (D). Where a device has no such events it is when it was queued (Q),
//! which is right for devices without a queue of requests (dm, md, zram); where it has neither, when it completed (C),
//! and then nothing is known of its latency. What a device has is seen from the beginning of the trace.

use super::device::device_name;
use super::event::{Action, Event};
use super::flights::Flights;
use super::queued::{Queued, QueuedTable};
use crate::hash::Seed;
use crate::{Knows, NOT_KNOWN, Request};
use std::collections::HashMap;

/// Events at the beginning that are looked at first.
const EARLY_MAX: usize = 1 << 14;
/// Devices whose events are counted; further ones are taken to be like most.
const DEVICES_MAX: usize = 4096;

/// What a device's events tell.
#[derive(Clone, Copy, Default)]
struct Device {
    has_queue: bool,
    has_issue: bool,
    has_complete: bool,
}

impl Device {
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
    /// Events that wait for the look at the beginning to end.
    early: Vec<Event>,
    is_begun: bool,
    devices: HashMap<u32, Device, Seed>,
    queued: QueuedTable,
    flights: Flights,
    has_latency: bool,
}

impl Pairing {
    /// Takes the next event; appends the requests that it lets be reported.
    pub fn event(&mut self, event: Event, into: &mut Vec<Request>) {
        if self.is_begun {
            self.take(&event, into);
            return;
        }
        let count = self.devices.len();
        if let Some(device) = match self.devices.get_mut(&event.device) {
            None if count < DEVICES_MAX => Some(self.devices.entry(event.device).or_default()),
            known => known,
        } {
            match event.action {
                Action::Queue => device.has_queue = true,
                Action::Issue => device.has_issue = true,
                Action::Complete => device.has_complete = true,
                Action::BackMerge | Action::Insert | Action::Requeue => {}
            }
        }
        self.early.push(event);
        if self.early.len() >= EARLY_MAX {
            self.begin(into);
        }
    }

    /// Appends what waited, at the end of the trace.
    pub fn end(&mut self, into: &mut Vec<Request>) {
        self.begin(into);
        self.flights.end(into);
    }

    /// What the events tell.
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

    /// Says of devices without issues what their times are.
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
        notes
    }

    fn begin(&mut self, into: &mut Vec<Request>) {
        self.is_begun = true;
        for event in std::mem::take(&mut self.early) {
            self.take(&event, into);
        }
    }

    fn take(&mut self, event: &Event, into: &mut Vec<Request>) {
        let usual = Device { has_queue: true, has_issue: true, has_complete: true };
        let device = self.devices.get(&event.device).copied().unwrap_or(usual);
        let key = event.key();
        match (event.action, device.issued_by()) {
            (Action::Complete, Action::Complete) => into.push(request(event)),
            (Action::Complete, _) => self.has_latency |= self.flights.complete(event, into),
            (Action::Queue, Action::Queue) | (Action::Issue, _) => self.issue(event, device, into),
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
        // The event's range has been checked.
        ..Request::new(event.time_ns, event.op, event.sector.saturating_mul(512), event.len_bytes)
    }
}
