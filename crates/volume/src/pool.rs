//! The engine with its devices: requests in, completions out, and everything between moved along by `poll`.

use crate::engine::Engine;
use crate::io::Devices;
use crate::request::{Completion, Request};
use crate::virtual_time::advance;
use forebay_block::{Completion as DeviceCompletion, Device, DiskId, Op, Request as DeviceRequest};
use std::collections::VecDeque;

/// A pool being served.
pub struct Pool {
    /// The engine.
    pub engine: Engine,
    /// Its devices, in the order of the pool's table.
    pub devices: Devices,
    exchange: Exchange,
    /// Bases that are not needed any more, but may still have requests in flight.
    leaving: Vec<usize>,
}

/// What is on its way between an engine and its devices.
struct Exchange {
    queues: Vec<VecDeque<DeviceRequest>>,
    /// Flushes in flight on each device, by their tags.
    flushes: Vec<Vec<u64>>,
    done: Vec<DeviceCompletion>,
}

impl Exchange {
    fn new(devices: &Devices) -> Self {
        let mut exchange = Self { queues: Vec::new(), flushes: Vec::new(), done: Vec::new() };
        exchange.make_room(devices);
        exchange
    }

    /// Makes room where there are more devices than before.
    fn make_room(&mut self, devices: &Devices) {
        self.queues.resize_with(devices.list.len(), VecDeque::new);
        self.flushes.resize_with(devices.list.len(), Vec::new);
    }

    /// Hands requests to devices and completions to the engine; true where there was any.
    fn turn(&mut self, engine: &mut Engine, devices: &mut Devices) -> bool {
        let mut moved = false;
        while let Some((device, request)) = engine.next_command() {
            self.queues[device].push_back(request);
            moved = true;
        }
        // Only computed where somebody needs to know.
        if devices.mirror().is_some() || devices.array().is_some() {
            devices.set_idle(!self.is_busy(devices));
        }
        for (i, device) in devices.list.iter_mut().enumerate() {
            while device.in_flight() < device.queue_limit() {
                let geometry = device.geometry();
                let is_flushed_behind = geometry.volatile_cache && !geometry.durable_writes;
                let is_flush = |request: &DeviceRequest| match request.op {
                    Op::Flush => true,
                    Op::Write { fua, .. } => fua && is_flushed_behind,
                    _ => false,
                };
                let waits = devices.labels.as_ref().is_some_and(|labels| labels.is_flushing(i));
                let next = self.queues[i].pop_front_if(|request| !(waits && is_flush(request)));
                let Some(request) = next else { break };
                if devices.labels.is_some() && is_flush(&request) {
                    self.flushes[i].push(request.tag);
                }
                device.submit(request);
            }
            device.poll(&mut self.done);
            for completion in self.done.drain(..) {
                moved = true;
                let Some(labels) = &mut devices.labels else {
                    engine.complete(i, completion);
                    continue;
                };
                if labels.ended(&completion) {
                    continue;
                }
                if completion.result.is_err() && self.flushes[i].contains(&completion.tag) {
                    labels.flush_of_others_failed(i);
                }
                self.flushes[i].retain(|&tag| tag != completion.tag);
                engine.complete(i, completion);
            }
        }
        let flushes = &self.flushes;
        moved |= devices.step_labels(|device| !flushes[device].is_empty());
        if let Some(labels) = &mut devices.labels {
            for (device, error) in labels.take_failed_flushes() {
                engine.flush_beside_failed(device, &error);
            }
        }
        moved
    }

    /// Whether a device has no requests in flight or waiting.
    fn is_idle(&self, devices: &Devices, number: usize) -> bool {
        self.queues.get(number).is_none_or(VecDeque::is_empty)
            && devices.list.get(number).is_none_or(|device| device.in_flight() == 0)
    }

    /// Whether a device has requests in flight or waiting.
    fn is_busy(&self, devices: &Devices) -> bool {
        devices.list.iter().any(|device| device.in_flight() > 0) || self.queues.iter().any(|queue| !queue.is_empty())
    }
}

/// Waits for the first device with requests in flight, at most `timeout_ns`.
fn wait(devices: &mut Devices, timeout_ns: u64) {
    // While a mirror's answers wait for labels on the capacity devices, the mirror itself has nothing to wait for.
    let first = usize::from(devices.labels.as_ref().is_some_and(|labels| labels.is_busy()));
    if let Some(device) = devices.list.iter_mut().skip(first).find(|device| device.in_flight() > 0) {
        device.wait(timeout_ns);
    }
}

impl Pool {
    /// Joins an engine and its devices.
    #[must_use]
    pub fn new(engine: Engine, devices: Devices) -> Self {
        let exchange = Exchange::new(&devices);
        Self { engine, devices, exchange, leaving: Vec::new() }
    }

    /// Attaches the base that a disk lies over, without which the disk is not served. See [`Engine::base_of`] for what the device has to be.
    pub fn attach_base(&mut self, disk: DiskId, device: Box<dyn Device>) {
        let name = device.name().to_owned();
        let number = self.devices.add_base(device);
        self.exchange.make_room(&self.devices);
        self.engine.attach_base(disk, number, name);
    }

    /// Gives up bases that are not needed any more, when the last request to them has ended.
    fn let_bases_go(&mut self) {
        self.leaving.extend(std::iter::from_fn(|| self.engine.take_given_up_base()));
        let Self { devices, exchange, leaving, .. } = self;
        leaving.retain(|&number| {
            let is_idle = exchange.is_idle(devices, number);
            if is_idle {
                devices.give_up_base(number);
            }
            !is_idle
        });
    }

    /// Takes a host request. Never waits.
    pub fn submit(&mut self, request: Request) {
        self.engine.submit(request);
    }

    /// Moves everything along as far as it goes without waiting; finished host requests are appended to `done`.
    pub fn poll(&mut self, done: &mut Vec<Completion>) {
        while self.poll_once(done) {}
    }

    /// One iteration of [`Pool::poll`]; true where something moved. Tests cut the power between two iterations.
    pub fn poll_once(&mut self, done: &mut Vec<Completion>) -> bool {
        self.engine.pump();
        let moved = self.exchange.turn(&mut self.engine, &mut self.devices);
        let before = done.len();
        while let Some(completion) = self.engine.next_completion() {
            done.push(completion);
        }
        // An answer may have let a waiting request go on without any device being asked.
        moved || done.len() > before
    }

    /// Sets the engine's clock and lets lazy work start.
    pub fn tick(&mut self, now_ns: u64) {
        self.engine.tick(now_ns);
        // By the engine's clock, which never steps back: otherwise members would wait for a clock that did.
        self.devices.tick(self.engine.now_ns());
        if let Some(array) = self.devices.array() {
            self.engine.note_written_below(array.written_as_rows_bytes());
        }
        self.let_bases_go();
    }

    /// Descriptors that become readable when devices have completions.
    pub fn wake_fds(&self, out: &mut Vec<i32>) {
        self.devices.list.iter().for_each(|device| device.wake_fds(out));
    }

    /// Whether requests to devices are in flight, or wait to be.
    #[must_use]
    pub fn in_flight(&self) -> bool {
        self.exchange.is_busy(&self.devices)
    }

    /// Waits for a device completion, at most `timeout_ns`; not at all while the engine computes.
    pub fn wait(&mut self, timeout_ns: u64) {
        if !self.engine.computes() {
            wait(&mut self.devices, timeout_ns);
        }
    }

    /// In virtual time: when something happens next in a device; `u64::MAX` where all are idle.
    #[must_use]
    pub fn next_event_ns(&self) -> u64 {
        self.devices.list.iter().map(|device| device.next_event_ns()).min().unwrap_or(u64::MAX)
    }

    /// In virtual time: lets everything happen in the devices up to and including a time, but no further than to the first end of a request. Returns
    /// the time of that end: then [`Pool::poll`] has something to move.
    pub fn advance(&mut self, to_ns: u64) -> Option<u64> {
        advance(&mut self.devices.list, |device| Some(device), to_ns)
    }

    /// Polls and waits until `ready`, appending finished host requests to `done`.
    pub fn run_until(&mut self, done: &mut Vec<Completion>, ready: impl FnMut(&Engine, &[Completion]) -> bool) {
        self.run_unless(done, &mut |_| false, ready);
    }

    /// The same, unless it is given up: `is_given_up` is asked in each iteration, with whether anything has moved. True where it was given up.
    fn run_unless(
        &mut self,
        done: &mut Vec<Completion>,
        is_given_up: &mut dyn FnMut(bool) -> bool,
        mut ready: impl FnMut(&Engine, &[Completion]) -> bool,
    ) -> bool {
        loop {
            let mut has_moved = false;
            while self.poll_once(done) {
                has_moved = true;
            }
            if ready(&self.engine, done) || !self.in_flight() && !self.engine.computes() {
                return false;
            }
            if is_given_up(has_moved) {
                return true;
            }
            self.wait(100_000_000);
        }
    }

    /// Writes a clean checkpoint. Host requests must have been answered. True where the stop is clean.
    pub fn close(&mut self) -> bool {
        self.close_unless(&mut |_| false)
    }

    /// The same, unless it is given up, for example because no device answers any more: `is_given_up` is asked in each iteration, with whether anything
    /// has moved. The next start recovers the pool from its journal then.
    pub fn close_unless(&mut self, is_given_up: &mut dyn FnMut(bool) -> bool) -> bool {
        let mut before = self.engine.checkpoint_number();
        self.engine.begin_stop();
        for _ in 0..CHECKPOINT_ATTEMPTS {
            let mut done = Vec::new();
            if self.engine.has_flush_failed() {
                self.engine.hurry_to_make_good();
                if self.run_unless(&mut done, is_given_up, |engine, _| !engine.has_flush_failed()) {
                    return false;
                }
            }
            if self.run_unless(&mut done, is_given_up, |engine, _| engine.is_at_rest()) {
                return false;
            }
            before = self.engine.checkpoint_number();
            self.engine.request_checkpoint(true);
            let is_over = self.run_unless(&mut done, is_given_up, |engine, _| {
                !engine.is_busy() && (!engine.checkpoint_pending() || engine.checkpoint_failed())
            });
            if is_over {
                return false;
            }
            let engine = &self.engine;
            let again = match engine.checkpoint_number() > before {
                true => !engine.is_root_clean(),
                false => {
                    engine.capacity_side_failed()
                        || engine.has_flush_failed()
                        || engine.checkpoint_may_do_without_policy()
                }
            };
            if !again {
                break;
            }
        }
        let engine = &self.engine;
        engine.checkpoint_number() > before && engine.is_root_clean() && !engine.checkpoint_failed()
    }
}

/// Attempts at a checkpoint while only the capacity side or a flush fails: the last one does without the capacity side.
const CHECKPOINT_ATTEMPTS: u32 = 4;

/// Writes a checkpoint, and another one where the capacity tier could not take part in the first, because what it has must not be overwritten; true
/// where one is durable.
pub(crate) fn write_checkpoint(engine: &mut Engine, devices: &mut Devices, clean: bool) -> bool {
    let before = engine.checkpoint_number();
    for _ in 0..CHECKPOINT_ATTEMPTS {
        make_good(engine, devices);
        engine.request_checkpoint(clean);
        drive(engine, devices, |engine| !engine.checkpoint_pending() || engine.checkpoint_failed());
        let again = match engine.checkpoint_number() > before {
            true => engine.capacity_side_is_behind(),
            false => {
                engine.capacity_side_failed() || engine.has_flush_failed() || engine.checkpoint_may_do_without_policy()
            }
        };
        if !again {
            break;
        }
    }
    // After the last attempt, too: the pool is to be served, or closed, with nothing left to be made good.
    make_good(engine, devices);
    engine.checkpoint_number() > before
}

/// After a failed flush: tries at once to write again what it covered.
fn make_good(engine: &mut Engine, devices: &mut Devices) {
    if engine.has_flush_failed() {
        engine.hurry_to_make_good();
        drive(engine, devices, |engine| !engine.has_flush_failed());
    }
}

/// Drives an engine on devices until `ready`, or until nothing is in progress.
pub(crate) fn drive(engine: &mut Engine, devices: &mut Devices, mut ready: impl FnMut(&Engine) -> bool) {
    let mut exchange = Exchange::new(devices);
    loop {
        engine.pump();
        let moved = exchange.turn(engine, devices);
        if ready(engine) && !engine.is_busy() || !moved && !exchange.is_busy(devices) {
            return;
        }
        if !moved {
            wait(devices, 100_000_000);
        }
    }
}
