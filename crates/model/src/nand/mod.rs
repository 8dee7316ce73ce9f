//! A NAND flash drive in virtual time.
//!
//! A command takes an engine of the controller, then the parts that it needs: map, write buffer, dies, channels and host link. Each part
//! serves one request at a time in arrival order, the dies with priorities. The slow cases of a drive follow from that: reads that collide
//! on a die, programs and erases ahead of reads, collection that occupies the dies, a full write buffer.
//!
//! Not modelled: independent plane reads, the writing of dirty pieces of the map, bad blocks, temperature. A write of part of a 4 KiB unit
//! first reads the unit.

mod age;
mod buffer;
mod cache;
mod collect;
mod collector;
mod command;
mod commands;
pub mod config;
mod events;
mod flash;
mod ftl;
mod journal;
mod preset;
mod shape;
#[cfg(test)]
mod tests;
mod victims;
mod writeback;
mod zones;

use std::collections::VecDeque;

use crate::ssd::{Command, Counters, Done, Past, Ssd};
use buffer::WriteBuffer;
use cache::{MapCache, Prefetched};
use collector::{Collector, Moves};
use command::{Active, Flush};
pub use config::{Config, ConfigError, UNIT_BYTES};
use events::{Event, Events};
use flash::{Flash, OpKind};
use ftl::Ftl;
use journal::Journal;
pub use preset::PRESETS;
use shape::{NONE, Shape};
pub use zones::{ZoneError, Zoned};

/// A NAND flash drive.
pub struct Nand {
    config: Config,
    shape: Shape,
    events: Events,
    flash: Flash,
    ftl: Ftl,
    buffer: WriteBuffer,
    prefetched: Option<Prefetched>,
    map_cache: Option<MapCache>,
    commands: Vec<Active>,
    free_command: u32,
    /// Commands that have arrived while the drive is full.
    queued: VecDeque<u32>,
    /// Commands in the drive.
    inside: u32,
    /// Writes that are waiting for room in the buffer.
    writers: VecDeque<u32>,
    engines: Vec<u64>,
    to_host_ns: u64,
    from_host_ns: u64,
    journal: Journal,
    last_written: u32,
    flushes: Vec<Flush>,
    epoch: u32,
    collectors: Vec<Collector>,
    moves: Moves,
    /// Number of groups that fold while the host has commands.
    folding: u32,
    /// One bit for each group that can take a host row.
    accepting: Vec<u64>,
    /// Group of the last row of each stream.
    turn: Vec<u32>,
    idle: bool,
    idle_armed: bool,
    active_ns: u64,
    counters: Counters,
    erases_before: u64,
}

impl Nand {
    /// Builds a new drive that was never written.
    ///
    /// # Errors
    /// [`ConfigError`] where the configuration is not consistent.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        config.validate()?;
        let shape = Shape::new(&config)?;
        let mut nand = Self {
            shape,
            events: Events::default(),
            flash: Flash::new(&config, &shape),
            ftl: Ftl::new(&config, shape),
            buffer: WriteBuffer::new(
                (config.buffer.size_bytes / UNIT_BYTES) as u32,
                config.ftl.streams,
                config.buffer.stripe_rows,
            ),
            prefetched: config.read_ahead.as_ref().map(Prefetched::new),
            map_cache: (config.ftl.map_cache_bytes > 0)
                .then(|| MapCache::new(shape.logical_units, config.ftl.map_cache_bytes)),
            commands: Vec::new(),
            free_command: NONE,
            queued: VecDeque::new(),
            inside: 0,
            writers: VecDeque::new(),
            engines: vec![0; config.controller.engines as usize],
            to_host_ns: 0,
            from_host_ns: 0,
            journal: Journal::default(),
            last_written: NONE,
            flushes: Vec::new(),
            epoch: 0,
            collectors: vec![Collector::default(); shape.groups as usize],
            moves: Moves::default(),
            folding: 0,
            accepting: vec![0; shape.groups.div_ceil(64) as usize],
            turn: vec![0; config.ftl.streams as usize],
            idle: false,
            idle_armed: false,
            active_ns: 0,
            counters: Counters::default(),
            erases_before: 0,
            config,
        };
        for group in 0..shape.groups {
            nand.refresh(group);
        }
        Ok(nand)
    }

    /// The drive's configuration.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Checks the conservation laws.
    ///
    /// # Errors
    /// A description of what does not add up.
    pub fn check(&self) -> Result<(), String> {
        self.ftl.check()?;
        let buffered = self.ftl.map.iter().filter(|&&e| e != NONE && e & shape::BUFFERED != 0).count() as u32;
        if buffered > self.buffer.used() {
            return Err(format!("{buffered} units are said to be in {} slots of the buffer", self.buffer.used()));
        }
        Ok(())
    }

    /// Physical erase blocks that were erased since the drive was made.
    fn erases(&self) -> u64 {
        self.ftl.erases * u64::from(self.shape.wide) * u64::from(self.config.geometry.planes)
    }

    fn handle(&mut self, event: Event, now_ns: u64, done: &mut Vec<Done>) {
        match event {
            Event::Arrive(command) => self.arrive(command, now_ns),
            Event::Started(command) => self.proceed(command, now_ns),
            Event::Complete(command) => self.complete(command, now_ns, done),
            Event::ArrayEnd { die, generation } => {
                if let Some(id) = self.flash.array_end(die, generation, now_ns, &mut self.events) {
                    let op = *self.flash.op(id);
                    self.flash.release(id);
                    match op.kind {
                        OpKind::HostProgram => self.host_programmed(op, now_ns),
                        OpKind::CollectProgram => self.collect_programmed(op, now_ns),
                        _ => self.block_erased(op, now_ns),
                    }
                }
            }
            Event::BusEnd(id) => {
                self.flash.bus_end(id, now_ns, &mut self.events);
                let op = *self.flash.op(id);
                self.flash.release(id);
                match op.kind {
                    OpKind::Prefetch => self.prefetch_arrived(op, now_ns),
                    OpKind::CollectRead => self.collect_read(op, now_ns),
                    _ => self.data_arrived(op, now_ns),
                }
            }
            Event::Burst(die) => self.flash.burst_end(die, now_ns, &mut self.events),
            Event::DieFree(die) => self.flash.die_free(die, now_ns, &mut self.events),
            Event::Interrupt(die) => self.flash.interrupt_due(die, now_ns, &mut self.events),
            Event::Idle(_) => self.idle_timer(now_ns),
        }
    }
}

impl Ssd for Nand {
    fn capacity_bytes(&self) -> u64 {
        self.config.capacity_bytes
    }

    fn submit(&mut self, at_ns: u64, command: Command) {
        let id = self.new_command(command);
        self.events.push(at_ns, Event::Arrive(id));
    }

    fn next_event_ns(&self) -> u64 {
        self.events.next_ns()
    }

    fn earliest_end_ns(&self) -> u64 {
        let soon_ns = self.config.controller.complete_ns;
        // A read that starts later takes at least its array time. Programs, including resumed ones, end a command only where writes wait
        // for buffer room or a flush waits for the buffer.
        let programs_matter = !(self.writers.is_empty() && self.flushes.is_empty());
        let later_ns = soon_ns + if programs_matter { 0 } else { self.flash.array_least_ns() };
        let bound_ns = |(at_ns, event): (u64, Event)| match event {
            Event::Complete(_) => at_ns,
            Event::Arrive(_) | Event::Started(_) => at_ns + soon_ns,
            Event::BusEnd(id) if self.flash.op(id).is_for_host() => at_ns + soon_ns,
            Event::ArrayEnd { die, generation } => match self.flash.running(die, generation) {
                Some(op) if op.is_for_host() => at_ns + soon_ns,
                Some(_) => at_ns + later_ns,
                None => u64::MAX,
            },
            Event::BusEnd(_) | Event::Burst(_) | Event::DieFree(_) | Event::Interrupt(_) => at_ns + later_ns,
            // Idle collection that begins now ends much later, and no command waits for it.
            Event::Idle(_) => u64::MAX,
        };
        self.events.iter().map(bound_ns).min().unwrap_or(u64::MAX)
    }

    fn advance(&mut self, to_ns: u64, done: &mut Vec<Done>) {
        while let Some((now_ns, event)) = self.events.pop_until(to_ns) {
            self.handle(event, now_ns, done);
        }
    }

    fn counters(&self) -> Counters {
        Counters {
            erases: self.erases().wrapping_sub(self.erases_before),
            cycles_max: u64::from(self.ftl.cycles_max),
            ..self.counters
        }
    }

    fn reset_counters(&mut self) {
        self.counters = Counters::default();
        self.erases_before = self.erases();
    }

    fn age(&mut self, past: Past) {
        self.live_through(past);
    }
}
