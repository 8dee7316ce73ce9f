//! Capture by the kernel's `blk` tracer instead of probes, for kernels that refuse eBPF but allow writing to tracefs.
//!
//! With the options `bin` and `nocontext-info` the tracer's pipe returns blktrace's records (`blk_trace_synthesize_old_trace`,
//! kernel/trace/blktrace.c), here by the monotonic clock. They have no hint, no file, and no time before the issue. A kernel has only one
//! such tracer: if somebody else is tracing, it is left alone.

use super::disk::Disk;
use super::error::CaptureError;
use super::event::{COMM_BYTES, Complete, Event, Issue, Issuer};
use crate::Op;
use crate::format::blktrace_wire::{
    self as wire, RECORD_BYTES, Record, TA_CGROUP, TA_COMPLETE, TA_ISSUE, TA_QUEUE, TA_REQUEUE, TC_NOTIFY, TN_PROCESS,
};
use std::collections::{HashMap, HashSet, VecDeque};
use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Where distributions mount tracefs.
const FOLDERS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// Ring of each CPU in KiB: about 90,000 requests.
const BUFFER_KIB: u32 = 8 << 10;
/// Bytes read at a time.
const READ_BYTES: usize = 64 << 10;
/// Most processes whose names are remembered, and most requests that wait for their completion.
const REMEMBERED_MAX: usize = 1 << 16;
/// The action of a record is in its lower bits.
const ACTION_MASK: u32 = 0xff;

/// Identifies a request between issue and completion, as records do: disk, sector, whether it transfers data.
type Place = (u8, u64, bool);

/// The enabled `blk` tracer; dropping this disables it and restores all settings.
pub(super) struct Ftrace {
    folder: PathBuf,
    /// Open only while the tracer is selected: the tracer cannot be changed while the pipe is open (`tracing_set_tracer`,
    /// kernel/trace/trace.c).
    pipe: Option<File>,
    /// Bytes that were read and not yet converted to events.
    bytes: Vec<u8>,
    /// Disks by device number: index, and whether they have requests.
    disks: HashMap<u32, (u8, bool)>,
    /// Files that were written, with their previous contents.
    before: Vec<(PathBuf, String)>,
    comms: HashMap<u32, [u8; COMM_BYTES]>,
    in_flight: HashMap<Place, VecDeque<u64>>,
    /// Requests that the device returned, until they are issued again.
    requeued: HashMap<Place, VecDeque<u64>>,
    /// Keys of writes whose flush sequence has not ended.
    in_sequence: HashMap<(u8, u64), u64>,
    next_key: u64,
    is_detached: bool,
}

impl Ftrace {
    /// Enables the tracer. `before_issues` is called just before.
    ///
    /// # Errors
    /// There is no tracefs, or none that may be written; there is no `blk` tracer; or it is in use.
    pub fn attach(disks: &[Disk], before_issues: impl FnOnce()) -> Result<Self, CaptureError> {
        let no = |why: String| CaptureError::NoFtrace { why };
        let has_tracer = |folder: &&Path| folder.join("current_tracer").try_exists();
        let folder = FOLDERS.iter().map(Path::new).find(|folder| has_tracer(folder).unwrap_or(true));
        let folder = folder.ok_or_else(|| no("tracefs is not mounted at /sys/kernel/tracing".to_owned()))?.to_owned();
        let text = |name: &str| {
            let path = folder.join(name);
            fs::read_to_string(&path).map_err(|error| no(format!("{}: {error}", path.display())))
        };
        if !text("available_tracers")?.split_whitespace().any(|tracer| tracer == "blk") {
            return Err(no("the kernel has no tracer \"blk\" (CONFIG_BLK_DEV_IO_TRACE)".to_owned()));
        }
        let current = text("current_tracer")?;
        if current.trim() != "nop" {
            return Err(no(format!("somebody is tracing: {}/current_tracer is {}", folder.display(), current.trim())));
        }
        let mut tracer = Self {
            folder,
            pipe: None,
            bytes: Vec::new(),
            disks: HashMap::new(),
            before: Vec::new(),
            comms: HashMap::new(),
            in_flight: HashMap::new(),
            requeued: HashMap::new(),
            in_sequence: HashMap::new(),
            next_key: 1,
            is_detached: false,
        };
        tracer.set_up(disks, before_issues)?;
        Ok(tracer)
    }

    /// Writes all settings; after an error, dropping `self` restores those that were written.
    fn set_up(&mut self, disks: &[Disk], before_issues: impl FnOnce()) -> Result<(), CaptureError> {
        let clocks = self.text("trace_clock")?;
        let clock = clocks.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map_or("local", |(name, _)| name);
        self.set("trace_clock", "mono", clock)?;
        let kib = self.text("buffer_size_kb")?;
        // For a ring that was never used the kernel shows "7 (expanded: 1408)": it gets the second size with its first use.
        let kib = kib.split_once("expanded: ").map_or(kib.as_str(), |(_, kib)| kib);
        let kib: String = kib.trim().chars().take_while(char::is_ascii_digit).collect();
        self.set("buffer_size_kb", &BUFFER_KIB.to_string(), &kib)?;
        for (option, is_on) in [("bin", true), ("context-info", false), ("record-cmd", true)] {
            let name = format!("options/{option}");
            let before = self.text(&name)?.trim().to_owned();
            self.set(&name, if is_on { "1" } else { "0" }, &before)?;
        }
        self.set("current_tracer", "blk", "nop")?;
        let cgroup = self.text("options/blk_cgroup").map(|text| text.trim().to_owned());
        if let Ok(before) = cgroup {
            self.set("options/blk_cgroup", "1", &before)?;
        }
        let pipe = self.folder.join("trace_pipe");
        let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        let opened = OpenOptions::new().read(true).custom_flags(flags).open(&pipe);
        let no = |error| CaptureError::NoFtrace { why: format!("{}: {error}", pipe.display()) };
        self.pipe = Some(opened.map_err(no)?);
        before_issues();
        for (index, disk) in disks.iter().enumerate() {
            self.disks.insert(disk.number.0 << 20 | disk.number.1 & 0xf_ffff, (index as u8, disk.has_requests));
            let folder = PathBuf::from(format!("/sys/block/{}/trace", disk.name));
            self.set_path(folder.join("enable"), "1", "0")?;
            let actions = if disk.has_requests { "issue,complete,requeue" } else { "queue,complete" };
            self.set_path(folder.join("act_mask"), actions, "")?;
        }
        self.set("tracing_on", "1", "1")
    }

    fn text(&self, name: &str) -> Result<String, CaptureError> {
        let path = self.folder.join(name);
        fs::read_to_string(&path).map_err(|source| CaptureError::Read { path, source })
    }

    fn set(&mut self, name: &str, to: &str, before: &str) -> Result<(), CaptureError> {
        self.set_path(self.folder.join(name), to, before)
    }

    /// Writes a setting; it will be restored to `before`, if that is known.
    fn set_path(&mut self, path: PathBuf, to: &str, before: &str) -> Result<(), CaptureError> {
        let written = fs::write(&path, to);
        written.map_err(|error| CaptureError::NoFtrace { why: format!("{}: {error}", path.display()) })?;
        if !before.is_empty() {
            self.before.push((path, before.to_owned()));
        }
        Ok(())
    }

    /// Reads the events in the ring, at most about `limit`; returns their number.
    pub fn read(&mut self, limit: usize, mut each: impl FnMut(&Event)) -> usize {
        let mut count = 0;
        while let Some(pipe) = self.pipe.as_mut().filter(|_| count < limit) {
            let known = self.bytes.len();
            self.bytes.resize(known + READ_BYTES, 0);
            // At the end of the ring there is nothing to wait for; an error means the same.
            let read = pipe.read(&mut self.bytes[known..]).unwrap_or(0);
            self.bytes.truncate(known + read);
            count += self.take(&mut each);
            if read == 0 {
                break;
            }
        }
        count
    }

    /// Converts complete records to events.
    fn take(&mut self, each: &mut impl FnMut(&Event)) -> usize {
        let bytes = std::mem::take(&mut self.bytes);
        let (mut at, mut count) = (0, 0);
        while let Some(head) = bytes.get(at..).and_then(|rest| rest.first_chunk::<RECORD_BYTES>()) {
            let Some(record) = Record::decode(head) else {
                // The kernel reports lost events by a line of text between records.
                at += 1;
                continue;
            };
            let end = at + RECORD_BYTES + usize::from(record.data_bytes);
            let Some(data) = bytes.get(at + RECORD_BYTES..end) else { break };
            if let Some(event) = self.event(&record, data) {
                each(&event);
                count += 1;
            }
            at = end;
        }
        self.bytes = bytes.get(at..).unwrap_or_default().to_vec();
        count
    }

    fn event(&mut self, record: &Record, data: &[u8]) -> Option<Event> {
        if record.action & TC_NOTIFY != 0 {
            if record.action & ACTION_MASK & !TA_CGROUP == TN_PROCESS {
                self.note_process(record.pid, data);
            }
            return None;
        }
        let &(disk, has_requests) = self.disks.get(&record.device)?;
        let op = wire::op(record.action, record.len_bytes);
        let place = (disk, record.sector, record.len_bytes > 0);
        match record.action & ACTION_MASK {
            TA_ISSUE if has_requests => Some(Event::Issue(self.issue(record, data, place, op))),
            TA_QUEUE if !has_requests => Some(Event::Issue(self.issue(record, data, place, op))),
            TA_REQUEUE => {
                let key = self.in_flight.get_mut(&place)?.pop_front()?;
                self.requeued.entry(place).or_default().push_back(key);
                Some(Event::Requeue { key, disk })
            }
            TA_COMPLETE => Some(Event::Complete(self.complete(record, place, op))),
            _ => None,
        }
    }

    fn note_process(&mut self, pid: u32, data: &[u8]) {
        if self.comms.len() >= REMEMBERED_MAX {
            self.comms.clear();
        }
        let mut comm = [0; COMM_BYTES];
        for (to, from) in comm.iter_mut().take(COMM_BYTES - 1).zip(data) {
            *to = *from;
        }
        self.comms.insert(pid, comm);
    }

    fn issue(&mut self, record: &Record, data: &[u8], place: Place, op: Op) -> Issue {
        let again = self.requeued.get_mut(&place).and_then(|keys| {
            let key = keys.pop_front();
            key.map(|key| (key, keys.is_empty()))
        });
        if let Some((_, true)) = again {
            self.requeued.remove(&place);
        }
        let key = again.map_or_else(|| self.new_key(), |(key, _)| key);
        if self.in_flight.len() >= REMEMBERED_MAX {
            // Their completions were lost.
            self.in_flight.clear();
            self.requeued.clear();
        }
        self.in_flight.entry(place).or_default().push_back(key);
        let comm = match self.comms.get(&record.pid) {
            Some(comm) => *comm,
            None => {
                // The tracer names a process only once, which may have been before this.
                let name = fs::read(format!("/proc/{}/comm", record.pid)).unwrap_or_default();
                self.note_process(record.pid, name.trim_ascii_end());
                self.comms.get(&record.pid).copied().unwrap_or_default()
            }
        };
        let cgroup = data.first_chunk::<8>().filter(|_| record.action & TA_CGROUP != 0);
        Issue {
            key,
            disk: place.0,
            time_ns: record.time_ns,
            sector: record.sector,
            len_bytes: record.len_bytes,
            op,
            flags: wire::flags(record.action, op),
            cgroup: cgroup.map_or(0, |id| u64::from_ne_bytes(*id)),
            issuer: Issuer { pid: record.pid, is_wanted: true, comm },
            ..Issue::default()
        }
    }

    fn complete(&mut self, record: &Record, place: Place, op: Op) -> Complete {
        let (disk, sector, _) = place;
        let found = self.in_flight.get_mut(&place).and_then(|keys| {
            let key = keys.pop_front();
            key.map(|key| (key, keys.is_empty()))
        });
        let key = match found {
            Some((key, is_last)) => {
                if is_last {
                    self.in_flight.remove(&place);
                }
                if record.action & (wire::TC_FLUSH | wire::TC_FUA) != 0 && self.in_sequence.len() < REMEMBERED_MAX {
                    self.in_sequence.insert((disk, sector), key);
                }
                key
            }
            // The end of a flush sequence, or a request that was issued before the capture.
            None => self.in_sequence.remove(&(disk, sector)).unwrap_or_else(|| self.new_key()),
        };
        let (len_bytes, time_ns) = (record.len_bytes, record.time_ns);
        Complete { key, disk, op, failed: record.error != 0, len_bytes, time_ns }
    }

    /// Forgets requests that have completed without an event: the next completion at their place belongs to another request.
    pub fn forget(&mut self, keys: &[u64]) {
        if keys.is_empty() {
            return;
        }
        let keys: HashSet<u64> = keys.iter().copied().collect();
        self.in_flight.retain(|_, waiting| {
            waiting.retain(|key| !keys.contains(key));
            !waiting.is_empty()
        });
    }

    fn new_key(&mut self) -> u64 {
        self.next_key += 1;
        self.next_key
    }

    /// Number of events that the rings had no room for.
    pub fn lost(&self) -> u64 {
        let folders = fs::read_dir(self.folder.join("per_cpu")).into_iter().flatten().flatten();
        folders
            .map(|folder| {
                let text = fs::read_to_string(folder.path().join("stats")).unwrap_or_default();
                let of = |name: &str| -> u64 {
                    text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok()).unwrap_or(0)
                };
                of("overrun:") + of("dropped events:")
            })
            .sum()
    }

    /// Ends tracing; events in the ring can still be read.
    pub fn detach(&mut self) {
        if std::mem::replace(&mut self.is_detached, true) {
            return;
        }
        // Only the devices: the tracer must stay selected to format what is in the ring.
        for (path, before) in self.before.iter().filter(|(path, _)| path.starts_with("/sys/block")) {
            let _ = fs::write(path, before);
        }
    }
}

impl Drop for Ftrace {
    fn drop(&mut self) {
        self.detach();
        self.pipe = None;
        for (path, before) in self.before.iter().rev() {
            // If one setting cannot be restored, the others still are.
            let _ = fs::write(path, before);
        }
    }
}
