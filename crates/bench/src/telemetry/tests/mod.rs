//! Telemetry from push to Parquet, on targets that block, fail and tear.

mod converting;
mod reading;
mod spilling;

use super::{Header, Reader, Record, Segment, Spill, SpillOptions, SpillTarget, Summary};
use forebay_block::OpKind;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(30);

fn header() -> Header {
    Header {
        run_id: *b"0123456789abcdef",
        begin_unix_ns: 1_700_000_000_123_456_789,
        jobs: vec!["randread".to_owned(), "Protokoll schreiben ü".to_owned()],
        metadata: r#"{"target":"null","schema_version":1}"#.to_owned(),
    }
}

/// A record that identifies itself by its index.
fn record(index: u64) -> Record {
    Record {
        intended_ns: index * 1_000,
        submitted_ns: index * 1_000 + 150,
        completed_ns: index * 1_000 + 90_000 + index % 77,
        offset_bytes: index.wrapping_mul(0x9e37_79b9) % (1 << 40),
        len_bytes: 4096 + (index % 3) as u32 * 511,
        depth: (index % 33) as u16,
        kind: OpKind::ALL[(index % 6) as usize],
        failed: index.is_multiple_of(10),
    }
}

const fn options(chunk_records: u32, chunks_per_thread: u32, threads: u32) -> SpillOptions {
    SpillOptions { chunk_records, chunks_per_thread, threads }
}

/// A file in memory with a limited length.
#[derive(Clone)]
struct Memory {
    bytes: Arc<Mutex<Vec<u8>>>,
    limit: usize,
}

impl Memory {
    fn new() -> Self {
        Self::limited(usize::MAX)
    }

    fn limited(limit: usize) -> Self {
        Self { bytes: Arc::default(), limit }
    }

    fn content(&self) -> Vec<u8> {
        self.bytes.lock().unwrap().clone()
    }
}

impl SpillTarget for Memory {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut held = self.bytes.lock().unwrap();
        let room = self.limit.saturating_sub(held.len());
        held.extend_from_slice(&bytes[..bytes.len().min(room)]);
        if room < bytes.len() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A complete file with `segments` segments of `chunk` records each.
fn small_file(segments: u64, chunk: u32) -> Vec<u8> {
    let memory = Memory::new();
    let mut spill = Spill::start(Box::new(memory.clone()), "memory", &header(), options(chunk, 64, 1)).unwrap();
    let mut recorder = spill.recorder(1, 3).unwrap();
    (0..segments * u64::from(chunk)).for_each(|i| recorder.push(record(i)));
    assert_eq!(recorder.finish().dropped, 0);
    assert!(spill.finish(TIMEOUT).is_clean);
    memory.content()
}

fn read_all(bytes: &[u8]) -> (Vec<Segment>, Summary) {
    let mut reader = Reader::new(bytes).unwrap();
    let mut segments = Vec::new();
    while let Some(segment) = reader.next_segment().unwrap() {
        segments.push(segment.clone());
    }
    (segments, *reader.summary())
}
