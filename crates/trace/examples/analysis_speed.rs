//! Speed of analysing and sizing a trace, as `forebay analyze` and `forebay size` do it.
//!
//!     cargo run --release -p forebay-trace --example analysis_speed -- FORMAT FILE [ROUNDS [MEMORY_MIB]]
//!
//! Each round reads the trace alone, analyses it, and sizes it; sizing reads the trace again if it has too many writes to keep. Everything
//! is done by one thread first, and then as on a machine with several processors. Printed are: requests per second of the one thread's
//! processor time, so that a busy machine gives about the same as an idle one; requests per second by the clock, with one thread and with
//! several; and a hash of the results. Two builds with the same hash give the same results for the trace.

use forebay_trace::analysis::{Analysis, Options, ReadHits, Report, Sizing, Writes};
use forebay_trace::format::parquet::Wanted;
use forebay_trace::format::{Format, open};
use forebay_trace::{Ahead, Knows, Names, Request, Sorted, Source, Steady};
use std::error::Error;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::time::Instant;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// The trace that is read, and how.
struct Trace<'a> {
    path: &'a Path,
    format: Format,
    options: Options,
}

/// Seconds of each round, by processor time and by the clock.
#[derive(Default)]
struct Seconds {
    processor: Vec<f64>,
    clock: Vec<f64>,
}

impl Seconds {
    fn time<T>(&mut self, work: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
        let (begin_s, begin) = (processor_s()?, Instant::now());
        let result = work()?;
        self.processor.push(processor_s()? - begin_s);
        self.clock.push(begin.elapsed().as_secs_f64());
        Ok(result)
    }
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [format, path, rest @ ..] = &arguments[..] else {
        return Err("usage: analysis_speed FORMAT FILE [ROUNDS [MEMORY_MIB]]".into());
    };
    let format = Format::from_name(format).ok_or("no such format")?;
    let rounds: usize = rest.first().map_or(Ok(5), |rounds| rounds.parse())?;
    let memory_mib: u64 = rest.get(1).map_or(Ok(1024), |mib| mib.parse())?;
    let with = |processors| Trace {
        path: Path::new(path),
        format,
        options: Options { memory_bytes: memory_mib << 20, processors, ..Options::default() },
    };
    let (one, several) = (with(1), with(std::thread::available_parallelism()?.get()));
    let mut seconds: [Seconds; 5] = Default::default();
    let [read_s, analyze_s, size_s, analyze_ahead_s, size_ahead_s] = &mut seconds;
    let mut requests = 0;
    let mut results = Vec::new();
    for _ in 0..rounds.max(1) {
        requests = 0;
        read_s.time(|| one.read(|part, _, _| requests += part.len()))?;
        for (trace, analyze_s, size_s) in
            [(&one, &mut *analyze_s, &mut *size_s), (&several, &mut *analyze_ahead_s, &mut *size_ahead_s)]
        {
            analyze_s.time(|| trace.analyze(Analysis::new(&trace.options)))?;
            results.push(size_s.time(|| trace.size())?);
        }
    }
    let (hash, analyzed, sized) = *results.first().ok_or("no round")?;
    println!("{requests} requests; one block in {analyzed} analysed, one in {sized} sized; results {hash:016x}");
    if results.iter().any(|other| *other != results[0]) {
        return Err("results differ".into());
    }
    let print = |what: &str, mut seconds: Vec<f64>| {
        seconds.sort_by(f64::total_cmp);
        let rate = |at: usize| requests as f64 / seconds[at] / 1e6;
        let last = seconds.len() - 1;
        println!("{what}: {:.3} [{:.3}..{:.3}]", rate(last / 2), rate(last), rate(0));
    };
    let [read_s, analyze_s, size_s, analyze_ahead_s, size_ahead_s] = seconds;
    println!("M requests/s");
    print("read, processor time", read_s.processor);
    print("analyze, processor time", analyze_s.processor);
    print("size, processor time", size_s.processor);
    print("analyze, one thread", analyze_s.clock);
    print("analyze, several", analyze_ahead_s.clock);
    print("size, one thread", size_s.clock);
    print("size, several", size_ahead_s.clock);
    Ok(())
}

impl Trace<'_> {
    fn analyze(&self, mut analysis: Analysis) -> Outcome<(Report, ReadHits, Option<Writes>)> {
        let names = self.read(|part, names, knows| analysis.add(part, names, knows))?;
        let writes = analysis.take_writes();
        let (report, read_hits) = analysis.finish_with_read_hits(&names);
        Ok((report, read_hits, writes))
    }

    /// A hash of the results, and the sampling rates (one block in how many) of analysis and sizing.
    fn size(&self) -> Outcome<(u64, u64, u64)> {
        // The first pass of a sizing is an analysis that keeps writes.
        let (report, _, writes) = self.analyze(Analysis::keeping_writes(&self.options))?;
        let mut sizing = Sizing::new(&self.options, &report);
        match writes {
            Some(writes) => sizing.repeat(&writes),
            None => _ = self.read(|part, names, knows| sizing.add(part, names, knows))?,
        }
        let sizes = sizing.finish(&[]);
        let mut hasher = DefaultHasher::new();
        serde_json::to_string(&(&report, &sizes))?.hash(&mut hasher);
        Ok((hasher.finish(), report.one_block_in, sizes.one_block_in))
    }

    fn read(&self, mut take: impl FnMut(&[Request], &Names, Knows)) -> Outcome<Names> {
        let wanted = Wanted {
            queued: false,
            io_class: false,
            pid: false,
            cgroup: false,
            inode: false,
            path: false,
            ..Wanted::ALL
        };
        let source = Sorted::new(Steady::new(open(self.path, Some(self.format), wanted)?));
        let mut source: Box<dyn Source> =
            if self.options.processors > 1 { Box::new(Ahead::new(source)) } else { Box::new(source) };
        let (mut batch, mut names) = (Vec::new(), Names::default());
        loop {
            batch.clear();
            let goes_on = source.read(&mut batch, &mut names)?;
            take(&batch, &names, source.knows());
            if !goes_on {
                return Ok(names);
            }
        }
    }
}

/// Processor time that this thread has used (Documentation/scheduler/sched-stats.rst).
fn processor_s() -> Outcome<f64> {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let used_ns: u64 = stat.split_whitespace().next().ok_or("no schedstat")?.parse()?;
    Ok(used_ns as f64 / 1e9)
}
