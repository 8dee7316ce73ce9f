//! Writes blktrace's binary form: for each request when it was queued (Q), issued (D) and completed (C).

use super::COMM_BYTES;
use super::device::device_name;
use super::wire::{self, Record};
use crate::{Faults, Flags, NOT_KNOWN, NameTable, Names, Op, Request, TraceError};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::io::{BufWriter, Write};

const SECTOR_BYTES: u64 = 512;
/// Most events that wait for earlier ones.
const WAITING_MAX: usize = 1 << 18;
/// Longest request of one record, whose length has 32 bits.
const PIECE_BYTES_MAX: u64 = (1 << 32) - SECTOR_BYTES;
/// Longest request in bytes, which takes half a thousand records. Longer ones are refused.
const REQUEST_BYTES_MAX: u64 = 2 << 40;
const PROCESSES_MAX: usize = 1 << 16;
/// Major number for volumes whose names are no device numbers: for local use (Documentation/admin-guide/devices.txt).
const LOCAL_MAJOR: u32 = 240;
/// Behind the last of these major numbers.
const LOCAL_MAJOR_END: u32 = 255;
const MAJOR_MAX: u32 = 0xfff;
const MINOR_MAX: u32 = 0xf_ffff;

/// Writes a trace that blkparse, btt and fio can read.
///
/// The format counts in sectors of 512 bytes; ranges are extended to whole sectors. It has no operation for writes of zeroes without data,
/// which become writes, nor for accesses of unknown kind, which become reads. Requests without a known latency have no completion. Control
/// groups are left out, since blkparse (as of 1.2.0) and fio take records with one as damaged.
pub struct BlktraceWriter<W: Write> {
    to: BufWriter<W>,
    /// Events in order of time; with equal times, in order of arrival.
    waiting: BinaryHeap<Reverse<(u64, u64, Waiting)>>,
    number: u64,
    sequence: u32,
    devices: Devices,
    /// The last name of each process, and the time from which it has been written.
    processes: HashMap<u32, (u32, u64)>,
    is_begun: bool,
    received: u64,
    refused: Faults,
}

/// An event that waits to be written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Waiting {
    sector: u64,
    len_bytes: u32,
    action: u32,
    pid: u32,
    device: u32,
    error: u16,
    comm: Option<[u8; COMM_BYTES]>,
}

impl<W: Write> BlktraceWriter<W> {
    /// Writes to a file with the events of all processors: `NAME.blktrace.0` for blkparse.
    pub fn new(to: W) -> Self {
        Self {
            to: BufWriter::new(to),
            waiting: BinaryHeap::new(),
            number: 0,
            sequence: 0,
            devices: Devices::default(),
            processes: HashMap::new(),
            is_begun: false,
            received: 0,
            refused: Faults { by_line: true, ..Faults::default() },
        }
    }

    /// Writes requests, roughly in the order of their issue. Requests of more than 2 TiB are left out and counted.
    ///
    /// # Errors
    /// `Write` if the file cannot be written.
    pub fn write(&mut self, requests: &[Request], names: &Names) -> Result<(), TraceError> {
        self.begin()?;
        for request in requests {
            self.received += 1;
            if request.op != Op::Flush && request.len_bytes > REQUEST_BYTES_MAX {
                self.refused.note(self.received, || format!("{} bytes are more than 2 TiB", request.len_bytes));
                continue;
            }
            self.events(request, names);
            while self.waiting.len() > WAITING_MAX {
                self.write_first()?;
            }
        }
        Ok(())
    }

    /// Writes all waiting events. Returns the requests that were left out, by their number among all, from 1.
    ///
    /// # Errors
    /// `Write` if the file cannot be written.
    pub fn finish(mut self) -> Result<(W, Faults), TraceError> {
        self.begin()?;
        while !self.waiting.is_empty() {
            self.write_first()?;
        }
        let to = self.to.into_inner().map_err(|error| TraceError::Write { source: error.into_error() })?;
        Ok((to, self.refused))
    }

    /// Writes the first record, which contains the trace's zero.
    fn begin(&mut self) -> Result<(), TraceError> {
        if !std::mem::replace(&mut self.is_begun, true) {
            let action = wire::TN_TIMESTAMP | wire::TC_NOTIFY;
            self.record(Record { action, data_bytes: 8, ..Record::default() }, &[0; 8])?;
        }
        Ok(())
    }

    fn events(&mut self, request: &Request, names: &Names) {
        let device = self.devices.number(request.volume, &names.volumes);
        let queued_ns = if request.queued_ns == NOT_KNOWN { 0 } else { request.queued_ns };
        let queued_at_ns = request.issued_ns.saturating_sub(queued_ns);
        let categories = wire::categories(request.op, request.flags);
        let name = |action| Waiting { sector: 0, len_bytes: 0, action, pid: request.pid, device, error: 0, comm: None };
        let written = self.processes.get(&request.pid);
        let is_written = written.is_some_and(|&(name, from_ns)| name == request.process && from_ns <= queued_at_ns);
        if request.process != 0 && !is_written {
            if self.processes.len() >= PROCESSES_MAX {
                self.processes.clear();
            }
            self.processes.insert(request.pid, (request.process, queued_at_ns));
            let mut comm = [0; COMM_BYTES];
            let process = names.processes.name(request.process).as_bytes();
            let count = process.len().min(COMM_BYTES - 1);
            comm[..count].copy_from_slice(&process[..count]);
            self.wait(queued_at_ns, Waiting { comm: Some(comm), ..name(wire::TN_PROCESS | wire::TC_NOTIFY) });
        }
        for (sector, len_bytes) in pieces(request) {
            let event = |action| Waiting { sector, len_bytes, ..name(action | categories) };
            self.wait(queued_at_ns, event(wire::TA_QUEUE | wire::TC_QUEUE));
            self.wait(request.issued_ns, event(wire::TA_ISSUE | wire::TC_ISSUE));
            if request.latency_ns != NOT_KNOWN {
                // EIO.
                let error = if request.flags.has(Flags::ERROR) { 5 } else { 0 };
                let completed_ns = request.issued_ns.saturating_add(request.latency_ns);
                self.wait(completed_ns, Waiting { error, ..event(wire::TA_COMPLETE | wire::TC_COMPLETE) });
            }
        }
    }

    fn wait(&mut self, time_ns: u64, event: Waiting) {
        self.waiting.push(Reverse((time_ns, self.number, event)));
        self.number += 1;
    }

    fn write_first(&mut self) -> Result<(), TraceError> {
        let Some(Reverse((time_ns, _, event))) = self.waiting.pop() else { return Ok(()) };
        let data = event.comm.as_ref().map_or(&[][..], |comm| &comm[..]);
        let Waiting { sector, len_bytes, action, pid, device, error, .. } = event;
        let data_bytes = data.len() as u16;
        let record = Record { time_ns, sector, len_bytes, action, pid, device, error, data_bytes, ..Record::default() };
        self.record(record, data)
    }

    fn record(&mut self, record: Record, data: &[u8]) -> Result<(), TraceError> {
        self.sequence = self.sequence.wrapping_add(1);
        let bytes = Record { sequence: self.sequence, ..record }.encode();
        let written = self.to.write_all(&bytes).and_then(|()| self.to.write_all(data));
        written.map_err(|source| TraceError::Write { source })
    }
}

/// The device numbers of each volume.
#[derive(Default)]
struct Devices {
    by_volume: HashMap<u32, u32>,
    taken: HashSet<u32>,
}

impl Devices {
    /// The device numbers in the name of a volume, or else local ones that no other volume has.
    fn number(&mut self, volume: u32, names: &NameTable) -> u32 {
        let Self { by_volume, taken } = self;
        *by_volume.entry(volume).or_insert_with(|| {
            let first = LOCAL_MAJOR << 20 | volume & MINOR_MAX;
            let local = (first..LOCAL_MAJOR_END << 20).chain(LOCAL_MAJOR << 20..first);
            let is_free = |number: &u32| !taken.contains(number) && names.find(&device_name(*number)).is_none();
            let own = own_number(names.name(volume)).filter(|number| !taken.contains(number));
            let number = own.or_else(|| local.into_iter().find(is_free)).unwrap_or(first);
            taken.insert(number);
            number
        })
    }
}

/// The device numbers of a name that has exactly their form.
fn own_number(name: &str) -> Option<u32> {
    let (major, minor) = name.split_once(',')?;
    let (major, minor): (u32, u32) = (major.parse().ok()?, minor.parse().ok()?);
    let number = (major <= MAJOR_MAX && minor <= MINOR_MAX).then_some(major << 20 | minor)?;
    (device_name(number) == name).then_some(number)
}

/// The sectors of a request, in pieces that fit a record.
fn pieces(request: &Request) -> impl Iterator<Item = (u64, u32)> + use<> {
    let first = request.offset_bytes / SECTOR_BYTES;
    let len_bytes = if request.op == Op::Flush {
        0
    } else {
        (request.end_bytes().div_ceil(SECTOR_BYTES) - first).saturating_mul(SECTOR_BYTES)
    };
    let count = len_bytes.div_ceil(PIECE_BYTES_MAX).max(1);
    (0..count).map(move |piece| {
        let begin_bytes = piece * PIECE_BYTES_MAX;
        let piece_bytes = (len_bytes - begin_bytes).min(PIECE_BYTES_MAX);
        (first + begin_bytes / SECTOR_BYTES, u32::try_from(piece_bytes).unwrap_or(u32::MAX))
    })
}
