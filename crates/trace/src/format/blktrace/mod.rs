//! blktrace's binary records.
//!
//! One file for each processor, or all in one (`blkparse -d`, or ftrace's `blk` tracer with the options `bin` and `nocontext-info`).

mod device;
mod event;
mod flights;
mod pairing;
mod queued;
mod stream;
mod usual;
pub(crate) mod wire;
mod write;

pub(super) use device::device_name;
pub(super) use event::{Action, Event};
pub(super) use pairing::Pairing;
pub(super) use stream::looks_right;
pub use write::BlktraceWriter;

use super::clock::Clock;
use super::counters::Counters;
use super::fields::{Bad, range, sectors};
use super::namer::text;
use crate::hash::Seed;
use crate::{BATCH_REQUESTS, Faults, Flags, Knows, Names, Request, Source, TraceError};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io::Read;
use stream::{Part, Stream};
use wire::Record;

/// Most processes whose names are remembered by id.
const PROCESSES_MAX: usize = 1 << 16;
/// Bytes of a process's name (`TASK_COMM_LEN`).
const COMM_BYTES: usize = 16;

/// A record that has been read and waits for its turn.
struct Waiting {
    record: Record,
    /// Byte at which it begins.
    place: u64,
    cgroup: u64,
    /// The first bytes of its data, without the control group.
    comm: [u8; COMM_BYTES],
}

/// A blktrace being read.
pub(super) struct Blktrace<R> {
    streams: Vec<Stream<R>>,
    /// The next record of each stream.
    waiting: Vec<Option<Waiting>>,
    /// Times of these records, earliest first.
    order: BinaryHeap<Reverse<(u64, usize)>>,
    is_begun: bool,
    clock: Clock,
    counters: Counters,
    pairing: Pairing,
    processes: HashMap<u32, u32, Seed>,
    /// The last device, and its volume number.
    volume: Option<(u32, u32)>,
}

impl<R: Read> Blktrace<R> {
    /// Reads one file, or one for each processor.
    pub fn new(from: Vec<R>, name: &'static str) -> Self {
        Self {
            waiting: from.iter().map(|_| None).collect(),
            streams: from.into_iter().map(Stream::new).collect(),
            order: BinaryHeap::new(),
            is_begun: false,
            clock: Clock::from_first(),
            counters: Counters::of_binary(name),
            pairing: Pairing::default(),
            processes: HashMap::default(),
            volume: None,
        }
    }

    /// Reads a stream's next record.
    fn advance(&mut self, stream: usize) -> Result<(), TraceError> {
        while let Some((place, part)) = self.streams[stream].next()? {
            match part {
                Part::Junk(bytes) => {
                    self.counters.bad(place, place, || format!("{bytes} bytes are no record (of version 7)"))?;
                }
                Part::Record(record, data) => {
                    self.counters.good();
                    let has_cgroup = record.action & wire::TA_CGROUP != 0;
                    let (cgroup, data) = match data.split_first_chunk() {
                        // The byte order hardly matters, since the id is only a name.
                        Some((id, data)) if has_cgroup => (u64::from_le_bytes(*id), data),
                        _ => (0, data),
                    };
                    let mut comm = [0; COMM_BYTES];
                    let count = data.len().min(COMM_BYTES);
                    comm[..count].copy_from_slice(&data[..count]);
                    self.order.push(Reverse((record.time_ns, stream)));
                    self.waiting[stream] = Some(Waiting { record, place, cgroup, comm });
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// The next record in order of time.
    fn next(&mut self) -> Result<Option<Waiting>, TraceError> {
        if !self.is_begun {
            self.is_begun = true;
            for stream in 0..self.streams.len() {
                self.advance(stream)?;
            }
        }
        let Some(Reverse((_, stream))) = self.order.pop() else { return Ok(None) };
        let next = self.waiting[stream].take();
        self.advance(stream)?;
        Ok(next)
    }

    fn take(&mut self, next: &Waiting, into: &mut Vec<Request>, names: &mut Names) -> Result<(), Bad> {
        let record = &next.record;
        let time_ns = self.clock.since_zero_ns(record.time_ns)?;
        let what = record.action & 0xffff & !wire::TA_CGROUP;
        if record.action & wire::TC_NOTIFY != 0 {
            if what == wire::TN_PROCESS
                && (self.processes.len() < PROCESSES_MAX || self.processes.contains_key(&record.pid))
            {
                let end = next.comm.iter().position(|&byte| byte == 0).unwrap_or(COMM_BYTES);
                let process = names.processes.number(&text(&next.comm[..end]));
                self.processes.insert(record.pid, process);
            }
            return Ok(());
        }
        let action = match what {
            wire::TA_QUEUE => Action::Queue,
            wire::TA_BACKMERGE => Action::BackMerge,
            wire::TA_INSERT => Action::Insert,
            wire::TA_ISSUE => Action::Issue,
            wire::TA_REQUEUE => Action::Requeue,
            wire::TA_COMPLETE => Action::Complete,
            _ => return Ok(()),
        };
        // Pass-through commands, and messages of drivers, are no requests.
        if record.action & (wire::TC_PC | wire::TC_DRV_DATA) != 0 {
            return Ok(());
        }
        let op = wire::op(record.action, record.len_bytes);
        let (offset_bytes, _) = sectors(record.sector, 0)?;
        range(offset_bytes, record.len_bytes.into())?;
        let mut flags = wire::flags(record.action, op);
        if action == Action::Complete && record.error != 0 {
            flags = flags.with(Flags::ERROR);
        }
        let volume = match self.volume {
            Some((device, volume)) if device == record.device => volume,
            _ => names.volumes.number(&device_name(record.device)),
        };
        self.volume = Some((record.device, volume));
        let event = Event {
            time_ns,
            device: record.device,
            sector: record.sector,
            len_bytes: record.len_bytes.into(),
            action,
            op,
            flags,
            pid: record.pid,
            process: self.processes.get(&record.pid).copied().unwrap_or(0),
            volume,
            cgroup: next.cgroup,
        };
        self.pairing.event(event, into);
        Ok(())
    }
}

impl<R: Read> Source for Blktrace<R> {
    fn read(&mut self, into: &mut Vec<Request>, names: &mut Names) -> Result<bool, TraceError> {
        for _ in 0..BATCH_REQUESTS {
            let next = self.next();
            if next.is_err() {
                // An error or the end comes after everything that was waiting.
                self.pairing.end(into);
                self.counters.missing(self.pairing.lost());
            }
            let Some(next) = next? else {
                self.pairing.end(into);
                self.counters.missing(self.pairing.lost());
                self.counters.end()?;
                return Ok(false);
            };
            if let Err(bad) = self.take(&next, into, names) {
                self.counters.bad(next.place, next.place, || bad.to_owned())?;
            }
        }
        Ok(true)
    }

    fn faults(&self) -> &Faults {
        self.counters.faults()
    }

    fn knows(&self) -> Knows {
        self.pairing.knows()
    }

    fn notes(&self) -> Vec<String> {
        self.pairing.notes()
    }
}
