//! Reading a trace to its end.

use super::Named;
use crate::parallel::processors;
use anyhow::{Context, Result, bail};
use forebay_daemon::finding::finding;
use forebay_trace::analysis::Report;
use forebay_trace::format::Format as TraceFormat;
use forebay_trace::format::parquet::Wanted;
use forebay_trace::{Ahead, Faults, Knows, Names, Request, Sorted, Source, Steady};

/// Number of requests per batch.
const PART_REQUESTS: usize = 256;

/// Order of the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// As in the trace.
    Recorded,
    /// By time within a limited neighbourhood; times that lie far ahead are corrected.
    Time,
}

/// The thread that reads the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// A thread of its own, which reads ahead.
    Ahead,
    /// The thread that takes the requests.
    Taker,
}

impl Reader {
    /// The reader for a trace with `count` processors available.
    pub fn with_processors(count: usize) -> Self {
        if count > 1 { Self::Ahead } else { Self::Taker }
    }
}

/// Result of reading a trace to its end.
pub struct Read {
    pub faults: Faults,
    pub knows: Knows,
    pub requests: u64,
    /// Number of requests, including those of other volumes.
    all_requests: u64,
    pub names: Names,
    /// Notes about decisions of the reader, one sentence each.
    pub notes: Vec<String>,
    /// Error that cut the trace off at some point.
    pub cut: Option<anyhow::Error>,
}

impl Read {
    /// Whether the whole trace was read without faults.
    pub fn is_whole(&self) -> bool {
        self.cut.is_none() && self.faults.count == 0 && self.faults.missing == 0
    }

    /// Whether no request was lost, changed or left out in the report.
    pub fn is_exact(&self, report: &Report) -> bool {
        let &Report { one_block_in, back_in_time, absurd, .. } = report;
        one_block_in == 1 && back_in_time == 0 && absurd == 0 && self.is_whole()
    }

    /// Requires that most of the trace was readable.
    ///
    /// # Errors
    /// A finding where more than half was unreadable: figures of the rest may be far from the recorded load.
    pub fn mostly(&self, trace: &str) -> Result<()> {
        let note = self.faults.unreadable_note(self.all_requests);
        note.map_or(Ok(()), |note| Err(finding(format!("{trace}: {note}"))))
    }

    /// For callers that need the whole trace.
    ///
    /// # Errors
    /// The trace was cut off.
    pub fn whole(mut self) -> Result<Self> {
        self.cut.take().map_or(Ok(self), Err)
    }
}

/// Reads a trace in batches, to its end or until `take` returns `false`, using all processors.
///
/// # Errors
/// The trace is unreadable; the error has its name.
pub fn read(
    trace: &Named,
    format: Option<TraceFormat>,
    wanted: Wanted,
    volume: Option<&str>,
    order: Order,
    take: impl FnMut(&[Request], &Names, Knows) -> bool,
) -> Result<Read> {
    read_by(Reader::with_processors(processors()), trace, format, wanted, volume, order, take)
}

/// Like [`read`], with one or two threads.
///
/// # Errors
/// As [`read`].
pub fn read_by(
    reader: Reader,
    trace: &Named,
    format: Option<TraceFormat>,
    wanted: Wanted,
    volume: Option<&str>,
    order: Order,
    mut take: impl FnMut(&[Request], &Names, Knows) -> bool,
) -> Result<Read> {
    let about = || format!("trace {}", trace.name);
    let mut names = Names::default();
    let (mut faults, mut knows, mut cut) = (Faults::default(), Knows::default(), None);
    let (mut requests, mut all_requests) = (0, 0);
    let (mut batch, mut notes) = (Vec::new(), Vec::new());
    for source in trace.open(format, wanted).with_context(about)? {
        let source: Box<dyn Source + Send> = match order {
            Order::Recorded => source,
            Order::Time => Box::new(Sorted::new(Steady::new(source))),
        };
        let mut source: Box<dyn Source> = match reader {
            Reader::Ahead => Box::new(Ahead::new(source)),
            Reader::Taker => source,
        };
        let wants_more = loop {
            batch.clear();
            let read = source.read(&mut batch, &mut names).with_context(about);
            let goes_on = match read {
                Err(error) if requests == 0 && batch.is_empty() => return Err(error),
                // The requests before the error are kept.
                Err(error) => {
                    cut = Some(error);
                    false
                }
                Ok(goes_on) => goes_on,
            };
            all_requests += batch.len() as u64;
            if let Some(volume) = volume {
                batch.retain(|request: &Request| names.volumes.name(request.volume) == volume);
            }
            knows = source.knows();
            requests += batch.len() as u64;
            // In small batches, because a million requests can cover thousands of blocks each, and the taker reports progress. An empty
            // batch passes on what the trace knows.
            let wants_more = (!batch.is_empty() || take(&[], &names, knows))
                && batch.chunks(PART_REQUESTS).all(|part| take(part, &names, knows));
            if !wants_more || !goes_on {
                break wants_more && cut.is_none();
            }
        };
        notes.append(&mut source.notes());
        let found = source.faults();
        faults.by_line = found.by_line;
        faults.count += found.count;
        faults.entries_read += found.entries_read;
        faults.missing += found.missing;
        let room = 8_usize.saturating_sub(faults.first.len());
        faults.first.extend(found.first.iter().take(room).cloned());
        if !wants_more {
            break;
        }
    }
    if let (Some(volume), 0) = (volume, requests) {
        let known: Vec<&str> = names.volumes.iter().filter(|name| !name.is_empty()).take(20).collect();
        bail!("{}: {}", trace.name, no_such_volume(volume, &known));
    }
    Ok(Read { faults, knows, requests, all_requests, names, notes, cut })
}

/// Explains that no request is of the wanted volume and lists the known ones.
pub fn no_such_volume(wanted: &str, known: &[impl AsRef<str>]) -> String {
    if known.is_empty() {
        return "the trace names no volumes: leave --volume out".to_owned();
    }
    let known: Vec<&str> = known.iter().map(AsRef::as_ref).collect();
    format!("no requests of volume {wanted:?}; there are {}", known.join(", "))
}

#[cfg(test)]
// In tests, a panic reports the failure.
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::path::Path;

    /// Everything that a reader returns for some files, at most `parts_max` batches.
    fn shown(reader: Reader, files: &[&Path], order: Order, parts_max: usize) -> String {
        let files = files.iter().map(|path| path.to_path_buf()).collect();
        let trace = Named { name: "it".to_owned(), files, levels: None };
        let (mut shown, mut parts) = (String::new(), 0);
        let read = read_by(reader, &trace, None, Wanted::ALL, None, order, |requests, names, knows| {
            let volumes: Vec<&str> = names.volumes.iter().collect();
            shown += &format!("{requests:?} {volumes:?} {knows:?}\n");
            parts += 1;
            parts < parts_max
        });
        match read {
            Err(error) => format!("{shown} {error:#}"),
            Ok(Read { faults, knows, requests, all_requests, names, notes, cut }) => {
                let volumes: Vec<&str> = names.volumes.iter().collect();
                let cut = cut.map(|error| format!("{error:#}"));
                format!("{shown} {faults:?} {knows:?} {requests} {all_requests} {volumes:?} {notes:?} {cut:?}")
            }
        }
    }

    #[test]
    fn what_is_read_ahead_is_what_is_read_in_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let (good, late, bad, cut) = (path("good.csv"), path("late.csv"), path("bad.csv"), path("cut.csv.gz"));
        let text = |from: u64, step: i64| {
            let mut text = "time_ns,op,offset_bytes,len_bytes,latency_ns,volume\n".to_owned();
            for at in 0..20_000_u64 {
                let time_ns = from.saturating_add_signed(at as i64 * step);
                text += &format!("{time_ns},write,{},4096,,volume {}\n", at * 4096, (from + at) / 3000);
            }
            text
        };
        std::fs::write(&good, text(0, 7)).unwrap();
        std::fs::write(&late, text(1_000_000, -3)).unwrap();
        std::fs::write(&bad, text(500, 1).replace(",write,4096", ",nothing,4096")).unwrap();
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut packed, text(0, 1).as_bytes()).unwrap();
        let packed = packed.finish().unwrap();
        std::fs::write(&cut, &packed[..packed.len() / 2]).unwrap();
        for files in
            [vec![&*good, &*late, &*bad], vec![&*good, &*cut], vec![&*cut, &*good], vec![&*good, &*path("none")]]
        {
            for order in [Order::Recorded, Order::Time] {
                for parts_max in [1, 50, usize::MAX] {
                    let of = |reader| shown(reader, &files, order, parts_max);
                    assert!(of(Reader::Ahead) == of(Reader::Taker), "{files:?} {order:?} {parts_max}");
                }
            }
        }
        assert!(shown(Reader::Ahead, &[&*cut], Order::Time, usize::MAX).contains("Some"), "it was cut");
    }
}
