//! How fast a trace is analysed and sized, as `forebay analyze` and `forebay size` do it.
//!
//!     cargo run --release -p forebay-trace --example analysis_speed -- FORMAT FILE [ROUNDS [MEMORY_MIB]]
//!
//! Each round reads the trace alone, analyses it, and sizes it, which reads it again where it has too many writes to be kept. Printed are the requests in a second of
//! processor time, so that a busy machine tells about the same as an idle one, and a hash of the results: two builds with the
//! same hash say the same of the trace.

use forebay_trace::analysis::{Analysis, Options, Report, Sizing, Writes};
use forebay_trace::format::parquet::Wanted;
use forebay_trace::format::{Format, open};
use forebay_trace::{Knows, Names, Request, Sorted, Source, Steady};
use std::error::Error;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [format, path, rest @ ..] = &arguments[..] else {
        return Err("usage: analysis_speed FORMAT FILE [ROUNDS [MEMORY_MIB]]".into());
    };
    let format = Format::from_name(format).ok_or("no such format")?;
    let path = Path::new(path);
    let rounds: usize = rest.first().map_or(Ok(5), |rounds| rounds.parse())?;
    let memory_mib: u64 = rest.get(1).map_or(Ok(1024), |mib| mib.parse())?;
    let options = Options { memory_bytes: memory_mib << 20, ..Options::default() };
    let (mut read_s, mut analyze_s, mut size_s) = (Vec::new(), Vec::new(), Vec::new());
    let mut requests = 0;
    let mut results = None;
    for _ in 0..rounds.max(1) {
        let begin_s = processor_s()?;
        requests = 0;
        read(path, format, |part, _, _| requests += part.len())?;
        let read_at_s = processor_s()?;
        analyze(path, format, Analysis::new(&options))?;
        let analyzed_at_s = processor_s()?;
        // The first pass of a sizing is an analysis that keeps writes.
        let (report, writes) = analyze(path, format, Analysis::keeping_writes(&options))?;
        let mut sizing = Sizing::new(&options, &report);
        match writes {
            Some(writes) => sizing.repeat(&writes),
            None => _ = read(path, format, |part, names, knows| sizing.add(part, names, knows))?,
        }
        let sizes = sizing.finish(&[]);
        let sized_at_s = processor_s()?;
        read_s.push(read_at_s - begin_s);
        analyze_s.push(analyzed_at_s - read_at_s);
        size_s.push(sized_at_s - analyzed_at_s);
        let mut hasher = DefaultHasher::new();
        serde_json::to_string(&(&report, &sizes))?.hash(&mut hasher);
        results = Some((hasher.finish(), report.one_block_in, sizes.one_block_in));
    }
    let (hash, analyzed, sized) = results.ok_or("no round")?;
    println!("{requests} requests; one block in {analyzed} analysed, one in {sized} sized; results {hash:016x}");
    for (what, mut seconds) in [("read", read_s), ("analyze", analyze_s), ("size", size_s)] {
        seconds.sort_by(f64::total_cmp);
        let rate = |at: usize| requests as f64 / seconds[at] / 1e6;
        let last = seconds.len() - 1;
        println!("{what}, M requests/s: {:.3} [{:.3}..{:.3}]", rate(last / 2), rate(last), rate(0));
    }
    Ok(())
}

fn analyze(path: &Path, format: Format, mut analysis: Analysis) -> Result<(Report, Option<Writes>), Box<dyn Error>> {
    let names = read(path, format, |part, names, knows| analysis.add(part, names, knows))?;
    let writes = analysis.take_writes();
    Ok((analysis.finish(&names), writes))
}

fn read(path: &Path, format: Format, mut take: impl FnMut(&[Request], &Names, Knows)) -> Result<Names, Box<dyn Error>> {
    let wanted =
        Wanted { queued: false, io_class: false, pid: false, cgroup: false, inode: false, path: false, ..Wanted::ALL };
    let mut source = Sorted::new(Steady::new(open(path, Some(format), wanted)?));
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

/// Processor time that this thread has used (Documentation/scheduler/sched-stats.rst).
fn processor_s() -> Result<f64, Box<dyn Error>> {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let used_ns: u64 = stat.split_whitespace().next().ok_or("no schedstat")?.parse()?;
    Ok(used_ns as f64 / 1e9)
}
