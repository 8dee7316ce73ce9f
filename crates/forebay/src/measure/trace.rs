//! A trace as the input of a replay: converts requests of the trace crate to those of the bench crate.

use super::hint_book::HintWriter;
use crate::traces;
use anyhow::{Result, anyhow, bail};
use forebay_bench::replay::{Recorded, SourceError, TraceSource};
use forebay_block::OpKind;
use forebay_trace::format::Format;
use forebay_trace::format::parquet::Wanted;
use forebay_trace::{Faults, Flags, NOT_KNOWN, Names, Op, Request, Source, Steady};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Maximum number of volumes that an error names.
const VOLUMES_NAMED: usize = 8;

/// Opens a trace for reading twice: a generator, or a regular file.
///
/// # Errors
/// What cannot be opened.
fn open(text: &str, format: Option<Format>, volume: Option<&str>, wanted: Wanted) -> Result<Box<dyn Source + Send>> {
    // Checked before opening, because opening a pipe would wait for its other end. A name without a file may be the prefix of blktrace's
    // files.
    let path = Path::new(text);
    if text == "-" || path.metadata().is_ok_and(|found| !found.is_file()) {
        bail!("the trace {text} is no file: it is read twice, so write it to one first");
    }
    let [trace] = traces::named(text, volume)?.try_into().map_err(|_| anyhow!("the trace {text} is more than one"))?;
    let mut files = trace.open(format, wanted)?;
    files.pop().filter(|_| files.is_empty()).ok_or_else(|| anyhow!("the trace {text} is more than one"))
}

/// A trace that is being read for a replay.
pub struct TraceReader {
    source: Box<dyn Source + Send>,
    names: Names,
    batch: Vec<Request>,
    volume: Option<String>,
    /// The first volumes, in order of appearance.
    volumes: Vec<u32>,
    /// Number of requests of volumes other than the requested one.
    other_volumes: u64,
    stop: Arc<AtomicBool>,
    /// Receives the hints of the requests, for a pool.
    hints: Option<HintWriter>,
    /// When the last flush of each volume was issued, for a limited number of volumes.
    flushed_ns: BTreeMap<u32, u64>,
}

impl TraceReader {
    /// Opens a trace. Its first bytes decide the format where `format` gives none; with `volume` only that volume is read. Reading fails
    /// once `stop` is set.
    ///
    /// # Errors
    /// What cannot be opened.
    pub fn open(text: &str, format: Option<Format>, volume: Option<&str>, stop: &Arc<AtomicBool>) -> Result<Self> {
        Self::telling(text, format, volume, None, stop)
    }

    /// Like [`TraceReader::open`]; the trace's hints go into a pool's book.
    ///
    /// # Errors
    /// What cannot be opened.
    pub fn telling(
        text: &str,
        format: Option<Format>,
        volume: Option<&str>,
        hints: Option<HintWriter>,
        stop: &Arc<AtomicBool>,
    ) -> Result<Self> {
        let places = Wanted { flags: true, volume: true, queued: true, ..Wanted::NONE };
        let wanted = hints.as_ref().map_or(places, |_| Wanted::ALL);
        Ok(Self {
            // A replay orders its I/Os itself.
            source: Box::new(Steady::new(open(text, format, volume, wanted)?)),
            names: Names::default(),
            batch: Vec::new(),
            volume: volume.map(str::to_owned),
            volumes: Vec::new(),
            other_volumes: 0,
            stop: stop.clone(),
            hints,
            flushed_ns: BTreeMap::new(),
        })
    }

    /// Number of requests so far of volumes other than the requested one.
    pub fn other_volumes(&self) -> u64 {
        self.other_volumes
    }

    /// Notes about decisions of the reader, one sentence each.
    pub fn notes(&self) -> Vec<String> {
        self.source.notes()
    }

    /// Unreadable parts of the trace so far.
    pub fn faults(&self) -> &Faults {
        self.source.faults()
    }

    /// The first volumes of the requests so far.
    pub fn volumes(&self) -> impl Iterator<Item = &str> {
        self.volumes.iter().map(|&volume| self.names.volumes.name(volume))
    }

    /// Whether the trace already contains the flush that a write with a flush flag needs: the kernel's flush machinery issues one while the
    /// write waits for it (Linux, block/blk-flush.c).
    fn has_flush_of(&self, write: &Request) -> bool {
        let made_ns = write.issued_ns.checked_sub(write.queued_ns).filter(|_| write.queued_ns != NOT_KNOWN);
        made_ns.zip(self.flushed_ns.get(&write.volume)).is_some_and(|(made_ns, flushed_ns)| *flushed_ns >= made_ns)
    }

    fn recorded(&mut self, request: &Request) -> Option<Recorded> {
        if self.volumes.len() < VOLUMES_NAMED && !self.volumes.contains(&request.volume) {
            self.volumes.push(request.volume);
        }
        if self.volume.as_deref().is_some_and(|volume| self.names.volumes.name(request.volume) != volume) {
            self.other_volumes += 1;
            return None;
        }
        let kind = match request.op {
            Op::Read => OpKind::Read,
            Op::Write if request.flags.has(Flags::FUA) => OpKind::WriteFua,
            Op::Write => OpKind::Write,
            // A write of zeros transfers no data either.
            Op::Discard | Op::WriteZeroes => OpKind::Trim,
            Op::Flush => OpKind::Flush,
            // The direction is unknown; a read destroys nothing.
            Op::Access => OpKind::Read,
        };
        let knows = self.source.knows();
        let hint = self.hints.as_mut().map_or(0, |hints| hints.number(request, &self.names, knows));
        let is_stand_in = matches!(request.op, Op::WriteZeroes | Op::Access);
        if request.op == Op::Flush && self.volumes.contains(&request.volume) {
            self.flushed_ns.insert(request.volume, request.issued_ns);
        }
        Some(Recorded {
            at_ns: request.issued_ns,
            kind,
            offset_bytes: request.offset_bytes,
            len_bytes: request.len_bytes,
            flush_before: request.flags.has(Flags::PREFLUSH) && !self.has_flush_of(request),
            is_stand_in,
            hint,
        })
    }
}

impl TraceSource for TraceReader {
    fn read(&mut self, into: &mut Vec<Recorded>) -> Result<bool, SourceError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err("it was ended before".into());
        }
        self.batch.clear();
        let more = self.source.read(&mut self.batch, &mut self.names)?;
        let batch = std::mem::take(&mut self.batch);
        into.extend(batch.iter().filter_map(|request| self.recorded(request)));
        self.batch = batch;
        Ok(more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    /// Requests of two volumes with every attribute that a request can have.
    struct Two;

    impl Source for Two {
        fn read(&mut self, into: &mut Vec<Request>, names: &mut Names) -> Result<bool, forebay_trace::TraceError> {
            let (a, b) = (names.volumes.number("a"), names.volumes.number("b"));
            for (number, op) in (0..).zip(Op::ALL) {
                into.push(Request { volume: a, ..Request::new(number, op, number << 12, 4096) });
            }
            let flags = Flags::FUA.with(Flags::PREFLUSH);
            into.push(Request { volume: b, flags, ..Request::new(9, Op::Write, 0, 512) });
            Ok(false)
        }

        fn faults(&self) -> &Faults {
            static NONE: Faults = Faults { count: 0, entries_read: 0, first: Vec::new(), by_line: false, missing: 0 };
            &NONE
        }

        fn knows(&self) -> forebay_trace::Knows {
            forebay_trace::Knows::default()
        }
    }

    fn reader(volume: Option<&str>) -> TraceReader {
        TraceReader {
            source: Box::new(Two),
            names: Names::default(),
            batch: Vec::new(),
            volume: volume.map(str::to_owned),
            volumes: Vec::new(),
            other_volumes: 0,
            stop: Arc::default(),
            hints: None,
            flushed_ns: BTreeMap::new(),
        }
    }

    /// Captures contain the kernel's own flushes. Replay added another flush for each write that had asked for one, and so sent half as
    /// many flushes again as recorded.
    #[test]
    fn regression_a_flush_that_the_trace_has_is_not_added() {
        let mut reader = reader(None);
        let write = |issued_ns, queued_ns| Request {
            queued_ns,
            flags: Flags::PREFLUSH.with(Flags::FUA),
            ..Request::new(issued_ns, Op::Write, 0, 4096)
        };
        let flush = |issued_ns| Request::new(issued_ns, Op::Flush, 0, 0);
        let requests = [
            write(10, 5),
            flush(20),
            write(30, 15),
            write(50, 15),
            write(60, NOT_KNOWN),
            Request { volume: 1, ..flush(70) },
            write(80, 15),
        ];
        let added = requests.map(|request| reader.recorded(&request).unwrap().flush_before);
        assert_eq!(added, [true, false, false, true, true, false, true]);
    }

    #[test]
    fn every_operation_has_its_kind_and_volumes_are_distinguished() {
        let mut both = reader(None);
        let mut found = Vec::new();
        assert!(!both.read(&mut found).unwrap());
        let kinds: Vec<OpKind> = found.iter().map(|request| request.kind).collect();
        let expected =
            [OpKind::Read, OpKind::Write, OpKind::Trim, OpKind::Trim, OpKind::Flush, OpKind::Read, OpKind::WriteFua];
        assert_eq!(kinds, expected);
        assert_eq!(found.iter().filter(|request| request.flush_before).count(), 1);
        let stand_ins: Vec<u64> =
            found.iter().filter(|request| request.is_stand_in).map(|request| request.at_ns).collect();
        assert_eq!((stand_ins, both.other_volumes()), (vec![3, 5], 0));
        assert_eq!(both.volumes().collect::<Vec<_>>(), ["a", "b"]);
        let (mut one, mut found) = (reader(Some("b")), Vec::new());
        one.read(&mut found).unwrap();
        assert_eq!((found.len(), found[0].at_ns, one.other_volumes()), (1, 9, 6));
    }

    #[test]
    fn a_packed_trace_is_unpacked() {
        use std::io::Write;
        let directory = tempfile::TempDir::new().unwrap();
        let mut record = [0; 32];
        record[4..8].copy_from_slice(&4096u32.to_le_bytes());
        record[12..14].copy_from_slice(&0x2au16.to_le_bytes());
        record[15] = 1;
        record[16] = 8;
        let path = directory.path().join("t.gz");
        let mut packed = flate2::write::GzEncoder::new(File::create(&path).unwrap(), flate2::Compression::fast());
        packed.write_all(&record).unwrap();
        packed.finish().unwrap();
        let plain = directory.path().join("t");
        std::fs::write(&plain, record).unwrap();
        for path in [path, plain] {
            let mut found = Vec::new();
            TraceReader::open(path.to_str().unwrap(), None, None, &Arc::default()).unwrap().read(&mut found).unwrap();
            assert_eq!(found.len(), 1, "{}", path.display());
            assert_eq!((found[0].kind, found[0].offset_bytes, found[0].len_bytes), (OpKind::Write, 4096, 4096));
        }
        assert!(TraceReader::open(directory.path().to_str().unwrap(), None, None, &Arc::default()).is_err());
    }
}
