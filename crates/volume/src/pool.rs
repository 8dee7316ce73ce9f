//! The engine with its devices: requests in, completions out, and everything between moved along by `poll`.

use crate::engine::Engine;
use crate::io::Devices;
use crate::request::{Completion, Request};
use forebay_block::{Completion as DeviceCompletion, Request as DeviceRequest};
use std::collections::VecDeque;

/// A pool being served.
pub struct Pool {
    /// The engine.
    pub engine: Engine,
    /// Its devices, in the order of the pool's table.
    pub devices: Devices,
    queues: Vec<VecDeque<DeviceRequest>>,
    done: Vec<DeviceCompletion>,
}

impl Pool {
    /// Joins an engine and its devices.
    #[must_use]
    pub fn new(engine: Engine, devices: Devices) -> Self {
        let queues = devices.list.iter().map(|_| VecDeque::new()).collect();
        Self { engine, devices, queues, done: Vec::new() }
    }

    /// Takes a host request. Never waits.
    pub fn submit(&mut self, request: Request) {
        self.engine.submit(request);
    }

    /// Moves everything along as far as it goes without waiting; finished host requests are appended to `done`.
    pub fn poll(&mut self, done: &mut Vec<Completion>) {
        loop {
            self.engine.pump();
            let moved = self.exchange();
            while let Some(completion) = self.engine.next_completion() {
                done.push(completion);
            }
            if !moved {
                return;
            }
        }
    }

    /// One round of [`Pool::poll`], for tests that cut the power between two rounds.
    pub fn poll_once(&mut self, done: &mut Vec<Completion>) {
        self.engine.pump();
        self.exchange();
        while let Some(completion) = self.engine.next_completion() {
            done.push(completion);
        }
    }

    /// Hands requests to devices and completions to the engine; true where there was any.
    fn exchange(&mut self) -> bool {
        let mut moved = false;
        while let Some((device, request)) = self.engine.next_command() {
            self.queues[device].push_back(request);
            moved = true;
        }
        for (i, device) in self.devices.list.iter_mut().enumerate() {
            while device.in_flight() < device.queue_limit() {
                let Some(request) = self.queues[i].pop_front() else {
                    break;
                };
                device.submit(request);
            }
            device.poll(&mut self.done);
            for completion in self.done.drain(..) {
                self.engine.complete(i, completion);
                moved = true;
            }
        }
        moved
    }

    /// Sets the engine's clock and lets lazy work start.
    pub fn tick(&mut self, now_ns: u64) {
        self.engine.tick(now_ns);
    }

    /// Descriptors that become readable when devices have completions.
    pub fn wake_fds(&self, out: &mut Vec<i32>) {
        out.extend(self.devices.list.iter().filter_map(|device| device.wake_fd()));
    }

    /// Whether a device has requests under way.
    #[must_use]
    pub fn in_flight(&self) -> bool {
        self.devices.list.iter().any(|device| device.in_flight() > 0) || self.queues.iter().any(|q| !q.is_empty())
    }

    /// Waits for a device completion, at most `timeout_ns`.
    pub fn wait(&mut self, timeout_ns: u64) {
        if let Some(device) = self.devices.list.iter_mut().find(|device| device.in_flight() > 0) {
            device.wait(timeout_ns);
        }
    }

    /// Polls and waits until `ready`, appending finished host requests to `done`.
    pub fn run_until(&mut self, done: &mut Vec<Completion>, mut ready: impl FnMut(&Engine, &[Completion]) -> bool) {
        loop {
            self.poll(done);
            if ready(&self.engine, done) || !self.in_flight() {
                return;
            }
            self.wait(100_000_000);
        }
    }

    /// Writes a clean checkpoint. Host requests must have been answered. True where the stop is clean.
    pub fn close(&mut self) -> bool {
        let before = self.engine.checkpoint_number();
        self.engine.request_checkpoint(true);
        let mut done = Vec::new();
        self.run_until(&mut done, |engine, _| {
            !engine.checkpoint_pending() && !engine.is_busy() || engine.checkpoint_failed()
        });
        self.engine.checkpoint_number() > before && !self.engine.checkpoint_failed()
    }
}

/// Drives an engine on devices until `ready`, or until nothing is under way.
pub(crate) fn drive(engine: &mut Engine, devices: &mut Devices, mut ready: impl FnMut(&Engine) -> bool) {
    let mut done = Vec::new();
    let mut queues: Vec<VecDeque<DeviceRequest>> = devices.list.iter().map(|_| VecDeque::new()).collect();
    loop {
        engine.pump();
        let mut moved = false;
        while let Some((device, request)) = engine.next_command() {
            queues[device].push_back(request);
            moved = true;
        }
        let mut busy = false;
        for (i, device) in devices.list.iter_mut().enumerate() {
            while device.in_flight() < device.queue_limit() {
                let Some(request) = queues[i].pop_front() else {
                    break;
                };
                device.submit(request);
            }
            device.poll(&mut done);
            for completion in done.drain(..) {
                engine.complete(i, completion);
                moved = true;
            }
            busy |= device.in_flight() > 0 || !queues[i].is_empty();
        }
        if ready(engine) && !engine.is_busy() || !moved && !busy {
            return;
        }
        if !moved && let Some(device) = devices.list.iter_mut().find(|device| device.in_flight() > 0) {
            device.wait(100_000_000);
        }
    }
}
