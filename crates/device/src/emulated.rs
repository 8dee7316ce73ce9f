//! A modelled SSD in real time: data goes to memory or to a file at once, and its completion is held back until the model
//! would have ended the command. Where the store below is slower than the model, the store decides.

use forebay_block::{Completion, Device, Geometry, Op, Request};
use forebay_model::ssd::{Command, Done, Op as Asked, Ssd};
use std::time::{Duration, Instant};

/// Below this a wait spins: the system wakes a sleeping thread some 50 us late.
const SPIN_BELOW_NS: u64 = 120_000;

/// The wrapper. Tags of the requests must differ from each other while they are in flight, as those of every device.
pub struct EmulatedDevice<D> {
    store: D,
    ssd: Box<dyn Ssd>,
    name: String,
    begin: Instant,
    flights: Vec<Flight>,
    ended: Vec<Done>,
    stored: Vec<Completion>,
    next: u64,
}

/// A request between the store and the model.
struct Flight {
    /// The model's tag.
    number: u64,
    tag: u64,
    /// When the model has ended it.
    due_ns: Option<u64>,
    completion: Option<Completion>,
}

fn command(number: u64, request: &Request) -> Command {
    let op = match &request.op {
        Op::Read { .. } => Asked::Read,
        Op::Write { .. } => Asked::Write,
        Op::Flush => Asked::Flush,
        Op::Discard { .. } | Op::WriteZeroes { .. } => Asked::Trim,
    };
    // Longer than a command can say, which only a discard is: the drive's work is the same for the rest.
    let len_bytes = u32::try_from(request.op.len_bytes()).unwrap_or(1 << 31);
    Command { tag: number, op, offset_bytes: request.offset_bytes, len_bytes, stream: request.stream }
}

impl<D: Device> EmulatedDevice<D> {
    /// Data in `store`, times of `ssd`, which is at least as large.
    pub fn new(store: D, ssd: Box<dyn Ssd>, name: &str) -> Self {
        Self {
            store,
            ssd,
            name: name.to_owned(),
            begin: Instant::now(),
            flights: Vec::new(),
            ended: Vec::new(),
            stored: Vec::new(),
            next: 0,
        }
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.begin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn advance(&mut self) {
        let now = self.now_ns();
        self.ssd.advance(now, &mut self.ended);
        for Done { tag, at_ns } in self.ended.drain(..) {
            if let Some(flight) = self.flights.iter_mut().find(|flight| flight.number == tag) {
                flight.due_ns = Some(at_ns);
            }
        }
        self.store.poll(&mut self.stored);
        for completion in self.stored.drain(..) {
            if let Some(flight) = self.flights.iter_mut().find(|flight| flight.tag == completion.tag) {
                flight.completion = Some(completion);
            }
        }
    }
}

impl<D: Device> Device for EmulatedDevice<D> {
    fn name(&self) -> &str {
        &self.name
    }

    fn geometry(&self) -> &Geometry {
        self.store.geometry()
    }

    fn submit(&mut self, request: Request) {
        let number = self.next;
        self.next += 1;
        let geometry = self.store.geometry();
        let command = command(number, &request);
        // What the store refuses is refused at once: the model must not see what lies beyond its end.
        let inside = command.offset_bytes.checked_add(u64::from(command.len_bytes));
        let is_valid = inside.is_some_and(|end| end <= geometry.size_bytes.min(self.ssd.capacity_bytes()));
        let due_ns = (!is_valid).then_some(0);
        self.flights.push(Flight { number, tag: request.tag, due_ns, completion: None });
        if is_valid {
            let now = self.now_ns();
            self.ssd.advance(now, &mut self.ended);
            self.ssd.submit(now, command);
        }
        self.store.submit(request);
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        self.advance();
        let mut at = 0;
        while at < self.flights.len() {
            let flight = &mut self.flights[at];
            match (flight.due_ns, flight.completion.take()) {
                (Some(_), Some(completion)) => {
                    done.push(completion);
                    self.flights.swap_remove(at);
                }
                (_, completion) => {
                    flight.completion = completion;
                    at += 1;
                }
            }
        }
    }

    fn wait(&mut self, timeout_ns: u64) {
        self.advance();
        if self.flights.iter().any(|flight| flight.due_ns.is_some() && flight.completion.is_some()) {
            return;
        }
        if self.flights.iter().any(|flight| flight.due_ns.is_some()) {
            return self.store.wait(timeout_ns);
        }
        let left_ns = self.ssd.next_event_ns().saturating_sub(self.now_ns()).min(timeout_ns);
        if left_ns > SPIN_BELOW_NS {
            std::thread::sleep(Duration::from_nanos(left_ns - SPIN_BELOW_NS));
        } else {
            let until = self.now_ns() + left_ns;
            while self.now_ns() < until {
                std::hint::spin_loop();
            }
        }
    }

    fn queue_limit(&self) -> usize {
        self.store.queue_limit()
    }

    fn in_flight(&self) -> usize {
        self.flights.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modelled::ModelUri;
    use crate::{RamDevice, blocking};

    #[test]
    fn data_is_kept_and_takes_the_models_time() {
        let uri = ModelUri::parse("p4800x?size=64MiB", true).unwrap();
        let store = RamDevice::new(64 << 20).unwrap();
        let mut device = EmulatedDevice::new(store, uri.build(1).unwrap(), "emulated");
        blocking::write(&mut device, 4096, &[7; 4096]).unwrap();
        let begin = Instant::now();
        for _ in 0..50 {
            assert_eq!(blocking::read(&mut device, 4096, 4096).unwrap()[..], [7; 4096]);
        }
        let each = begin.elapsed() / 50;
        // The drive alone takes some 6 us; a busy machine may take longer, never less.
        assert!(each >= Duration::from_micros(5), "{each:?}");
        blocking::flush(&mut device).unwrap();
    }

    #[test]
    fn what_lies_beyond_the_end_is_refused() {
        let uri = ModelUri::parse("p4800x?size=64MiB", true).unwrap();
        let mut device = EmulatedDevice::new(RamDevice::new(64 << 20).unwrap(), uri.build(1).unwrap(), "emulated");
        assert!(blocking::read(&mut device, 64 << 20, 4096).is_err());
        assert!(blocking::read(&mut device, 0, 4096).is_ok());
    }
}
