//! The thread that writes full chunks to a file. Workers never wait for it: chunks circulate, and a worker that finds no free chunk drops
//! records and counts them.

use super::error::{TelemetryError, within};
use super::format::{
    BLOCK, Footer, Header, MAX_JOBS, MAX_SEGMENT_BYTES, MAX_SEGMENT_RECORDS, MAX_THREADS_PER_JOB, SegmentHeader,
};
use super::outlet::{Full, Message, Outlet, Shared, chunk};
use super::record::RECORD_BYTES;
use super::recorder::Recorder;
use forebay_block::checksum::crc32c;
use forebay_block::lock;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

/// Most chunks per thread.
const MAX_CHUNKS: u32 = 1_024;
const MAX_THREADS: u32 = 65_536;

/// Sizes of the buffers, which are all allocated before the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpillOptions {
    /// Records in a chunk, 1 to 65,536. A chunk becomes a segment.
    pub chunk_records: u32,
    /// Chunks per thread, 2 to 1,024: one is filled while the others wait to be written.
    pub chunks_per_thread: u32,
    /// Number of threads that will record, 1 to 65,536.
    pub threads: u32,
}

impl SpillOptions {
    /// Chunks of 64 Ki records, four per thread (10 MiB per thread); smaller ones if all together would exceed `budget_bytes`.
    #[must_use]
    pub fn within_budget(threads: u32, budget_bytes: u64) -> Self {
        let chunks_per_thread = 4;
        let chunks = u64::from(threads.max(1)) * u64::from(chunks_per_thread);
        let affordable = budget_bytes / (chunks * RECORD_BYTES as u64);
        let chunk_records = affordable.clamp(64, u64::from(MAX_SEGMENT_RECORDS)) as u32;
        Self { chunk_records, chunks_per_thread, threads }
    }

    fn check(&self) -> Result<(), TelemetryError> {
        within("records per chunk", self.chunk_records.into(), 1, MAX_SEGMENT_RECORDS.into())?;
        within("chunks per thread", self.chunks_per_thread.into(), 2, MAX_CHUNKS.into())?;
        within("the number of recording threads", self.threads.into(), 1, MAX_THREADS.into())
    }
}

/// The output for segments.
pub trait SpillTarget: Send {
    /// Appends all of `bytes`.
    ///
    /// # Errors
    /// Not all bytes were written. Nothing is appended after an error.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Makes everything that was appended durable.
    ///
    /// # Errors
    /// It may not be durable.
    fn sync(&mut self) -> io::Result<()>;
}

impl SpillTarget for File {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}

/// Progress of the spill.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpillStatus {
    /// Number of records that workers passed on.
    pub handed: u64,
    /// Number of records in the file.
    pub written: u64,
    /// Number of segments in the file.
    pub segments: u64,
    /// Length of the file in bytes.
    pub bytes: u64,
    /// Number of records that workers dropped because no chunk was free. While workers run it may lag by 1,023 per thread.
    pub dropped: u64,
}

/// How the spill ended.
#[derive(Debug)]
pub struct SpillReport {
    /// The final counts.
    pub status: SpillStatus,
    /// Number of records passed on that are not in the file, because of `failure` or because the target did not answer in time.
    pub lost: u64,
    /// The first error of the target, if there was one.
    pub failure: Option<TelemetryError>,
    /// Whether the file is complete: footer written, everything synced.
    pub is_clean: bool,
}

impl SpillReport {
    /// Number of records that were made and are not in the file.
    #[must_use]
    pub const fn missing(&self) -> u64 {
        self.status.dropped.saturating_add(self.lost)
    }
}

/// The spill of one run. Dropping it without [`Spill::finish`] leaves a file without a footer, as a kill does.
#[derive(Debug)]
pub struct Spill {
    name: String,
    options: SpillOptions,
    jobs: usize,
    recorders: u32,
    sender: SyncSender<Message>,
    done: Receiver<bool>,
    shared: Arc<Shared>,
}

impl Spill {
    /// Creates a file, which must not exist yet, and starts the thread that writes to it. It should not be on the device that is measured.
    ///
    /// # Errors
    /// The file cannot be created, or its header not be written; or an option or the header is out of its bounds.
    pub fn create(path: &Path, header: &Header, options: SpillOptions) -> Result<Self, TelemetryError> {
        options.check()?;
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(path)
            .map_err(|source| TelemetryError::Create { path: path.to_owned(), source })?;
        Self::start(Box::new(file), &path.display().to_string(), header, options)
    }

    /// Like [`Spill::create`], for any target; messages call it `name`.
    ///
    /// # Errors
    /// As for [`Spill::create`].
    pub fn start(
        mut target: Box<dyn SpillTarget>,
        name: &str,
        header: &Header,
        options: SpillOptions,
    ) -> Result<Self, TelemetryError> {
        options.check()?;
        let begin = header.encode()?;
        target.append(&begin).map_err(|source| TelemetryError::Write { name: name.to_owned(), at_bytes: 0, source })?;
        let shared = Arc::new(Shared::default());
        shared.bytes.store(begin.len() as u64, Ordering::Relaxed);
        // Room for every chunk that exists, and for the request to end, so that sending never finds it full.
        let (sender, inbox) = sync_channel(options.threads as usize * options.chunks_per_thread as usize + 1);
        let (done_sender, done) = sync_channel(1);
        let mut writer =
            Writer { target, run_id: header.run_id, sequence: 0, segment: Vec::new(), shared: Arc::clone(&shared) };
        writer.segment.reserve(MAX_SEGMENT_BYTES.min(BLOCK + options.chunk_records as usize * RECORD_BYTES));
        std::thread::Builder::new()
            .name("telemetry".to_owned())
            .spawn(move || {
                let is_clean = writer.run(&inbox);
                // Nobody may be waiting any more.
                let _ = done_sender.try_send(is_clean);
            })
            .map_err(|source| TelemetryError::Thread { source })?;
        Ok(Self { name: name.to_owned(), options, jobs: header.jobs.len(), recorders: 0, sender, done, shared })
    }

    /// A recorder for one thread of one job (an index into [`Header::jobs`]); its chunks are allocated and mapped here.
    ///
    /// # Errors
    /// The job has no name in the header, the thread's number is too large, or all threads of the options already have a recorder.
    pub fn recorder(&mut self, job: u32, thread: u32) -> Result<Recorder, TelemetryError> {
        within("the number of jobs in the header", self.jobs as u64, 1, MAX_JOBS as u64)?;
        within("the index of a job", job.into(), 0, self.jobs as u64 - 1)?;
        within("the number of a thread", thread.into(), 0, u64::from(MAX_THREADS_PER_JOB) - 1)?;
        within("the number of recording threads", u64::from(self.recorders) + 1, 1, self.options.threads.into())?;
        self.recorders += 1;
        let (home, empties) = sync_channel(self.options.chunks_per_thread as usize);
        for _ in 0..self.options.chunks_per_thread {
            // The channel's capacity is the number of chunks.
            let _ = home.try_send(chunk(self.options.chunk_records as usize));
        }
        Ok(Recorder::spilled(Outlet {
            job,
            thread,
            dropped_before: 0,
            handed: 0,
            dropped: 0,
            published: 0,
            full: self.sender.clone(),
            home,
            empties,
            shared: Arc::clone(&self.shared),
        }))
    }

    /// Progress of the spill.
    #[must_use]
    pub fn status(&self) -> SpillStatus {
        self.shared.status()
    }

    /// Writes what was passed on and the footer, and syncs; waits for that at most for `timeout`. Recorders should be finished before: what
    /// they pass on later is not written. If the target does not answer in time, the thread is left behind, and the file has no footer yet.
    #[must_use]
    pub fn finish(self, timeout: Duration) -> SpillReport {
        let _ = self.sender.try_send(Message::End);
        // No answer: out of time, or the thread is gone (a panic in the target).
        let is_clean = self.done.recv_timeout(timeout).unwrap_or(false);
        let status = self.shared.status();
        let failure = lock(&self.shared.failure).take();
        let at_bytes = status.bytes;
        let failure = failure.map(|source| TelemetryError::Write { name: self.name, at_bytes, source });
        SpillReport { status, lost: status.handed.saturating_sub(status.written), failure, is_clean }
    }
}

impl Shared {
    fn status(&self) -> SpillStatus {
        // `written` is read first, so that it never exceeds `handed`.
        let written = self.written.load(Ordering::Acquire);
        SpillStatus {
            handed: self.handed.load(Ordering::Acquire),
            written,
            segments: self.segments.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            dropped: self.dropped.load(Ordering::Relaxed),
        }
    }
}

/// The state of the spill thread.
struct Writer {
    target: Box<dyn SpillTarget>,
    run_id: [u8; 16],
    sequence: u64,
    /// Bytes of the segment being written; the allocation is reused.
    segment: Vec<u8>,
    shared: Arc<Shared>,
}

impl Writer {
    /// Writes until the end is requested or all senders are gone. True if the file is complete.
    fn run(&mut self, inbox: &Receiver<Message>) -> bool {
        let mut is_sound = true;
        loop {
            match inbox.recv() {
                Ok(Message::Full(full)) => {
                    // After an error chunks are still returned: workers go on, and the counts say what is lost.
                    if is_sound {
                        is_sound = self.write(full);
                    } else {
                        let _ = full.home.try_send(full.chunk);
                    }
                }
                Ok(Message::End) => return is_sound && self.end(),
                Err(_) => return false,
            }
        }
    }

    fn write(&mut self, full: Full) -> bool {
        let Full { job, thread, dropped_before, count, chunk, home } = full;
        self.segment.clear();
        self.segment.resize(BLOCK, 0);
        for record in chunk.iter().take(count) {
            self.segment.extend_from_slice(&record.encode());
        }
        // The chunk is returned before the write, so that the worker can fill it while the target is slow.
        let _ = home.try_send(chunk);
        let payload_crc = crc32c(&self.segment[BLOCK..]);
        let run_id = self.run_id;
        let header = SegmentHeader {
            payload_crc,
            sequence: self.sequence,
            job,
            thread,
            count: count as u32,
            dropped_before,
            run_id,
        };
        self.segment[..BLOCK].copy_from_slice(&header.encode());
        if let Err(error) = self.target.append(&self.segment) {
            return self.fail(error);
        }
        self.sequence += 1;
        self.shared.segments.fetch_add(1, Ordering::Relaxed);
        self.shared.bytes.fetch_add(self.segment.len() as u64, Ordering::Relaxed);
        self.shared.written.fetch_add(count as u64, Ordering::Release);
        true
    }

    fn end(&mut self) -> bool {
        let status = self.shared.status();
        let footer = Footer { segments: status.segments, records: status.written, dropped: status.dropped };
        let ended = self.target.append(&footer.encode(self.run_id)).and_then(|()| {
            self.shared.bytes.fetch_add(BLOCK as u64, Ordering::Relaxed);
            self.target.sync()
        });
        match ended {
            Ok(()) => true,
            Err(error) => self.fail(error),
        }
    }

    fn fail(&self, error: io::Error) -> bool {
        *lock(&self.shared.failure) = Some(error);
        false
    }
}
