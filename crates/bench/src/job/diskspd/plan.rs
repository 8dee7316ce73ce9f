//! From DiskSpd's options, with its defaults, to a plan.

use super::options::{Distribution, Limit, Options};
use super::units::{PLACE, wrong};
use crate::job::error::JobError;
use crate::job::model::{
    Access, Arrival, Burst, Calls, Data, End, Extent, Job, Mix, Pattern, Plan, Region, SizeMix, Sizes, Zone,
};
use std::time::{SystemTime, UNIX_EPOCH};

const SECOND_NS: u64 = 1_000_000_000;

/// A job from a DiskSpd command line.
#[derive(Clone, Debug, PartialEq)]
pub struct DiskSpdPlan {
    /// A plan with one job; its notes name options without an equivalent here.
    pub plan: Plan,
    /// `-c`: make a new file with this number of bytes as the target.
    pub create_bytes: Option<u64>,
    /// `-R` asks for XML output. There is none here; a note says so.
    pub xml: bool,
}

/// Applies DiskSpd's defaults: 64 KiB, sequential reads, one thread, two in flight, 5 s of warm-up, 10 s, caches on, seed 0.
pub fn make(mut options: Options) -> Result<DiskSpdPlan, JobError> {
    let threads = threads(&options)?;
    let block = options.block();
    let region = region(&options)?;
    let pattern = pattern(&mut options, threads, region)?;
    let size = SizeMix::fixed(block);
    let depth = match (options.outstanding_per_thread, options.outstanding) {
        (Some(_), Some(_)) => return Err(wrong("-O", "-o says the same for one target: give one of the two")),
        (per_thread, per_target) => per_thread.or(per_target).unwrap_or(2),
    };
    let job = Job {
        name: "diskspd".to_owned(),
        threads,
        depth,
        mix: Mix::reads_percent(100 - options.write_percent.unwrap_or(0)),
        sizes: Sizes { read: size.clone(), write: size.clone(), trim: size },
        pattern,
        region,
        arrival: arrival(&options, threads),
        burst: burst(&options)?,
        data: data(&mut options),
        end: End { after_ns: Some(u64::from(options.duration_s.unwrap_or(10)) * SECOND_NS), ..End::default() },
        warmup_ns: u64::from(options.warmup_s.unwrap_or(5)) * SECOND_NS,
        cooldown_ns: u64::from(options.cooldown_s.unwrap_or(0)) * SECOND_NS,
        seed: seed(&mut options),
        access: access(&mut options),
        // DiskSpd submits each I/O with a call of its own.
        single_submission: true,
        cpus: std::mem::take(&mut options.cpus),
        ..Job::default()
    };
    if job.cpus.is_empty() && !options.no_affinity {
        options
            .notes
            .push("Threads are not pinned, as with -n (DiskSpd pins them by default): -a0,1,... pins them.".to_owned());
    }
    if !options.latency {
        options.notes.push("Percentiles are shown without -L, too: every latency is always measured here.".to_owned());
    }
    let plan = Plan { groups: vec![vec![job]], notes: options.notes };
    Ok(DiskSpdPlan { plan, create_bytes: options.create_bytes, xml: options.xml })
}

fn threads(options: &Options) -> Result<u32, JobError> {
    if options.threads.is_some() && options.total_threads.is_some() {
        return Err(wrong("-F", "it excludes -t: with one target both say the same, so give one of the two"));
    }
    Ok(options.threads.or(options.total_threads).unwrap_or(1))
}

fn region(options: &Options) -> Result<Region, JobError> {
    let base = options.base.unwrap_or(0);
    let size = match (options.length, options.end) {
        (Some(_), Some(_)) => return Err(wrong("-f", "-B already says the length: give one of the two")),
        (Some(0), None) => return Err(wrong("-B", "a length of 0; at least one block")),
        (Some(length), None) => length,
        (None, Some(end)) if end > base => end - base,
        (None, Some(end)) => return Err(wrong("-f", format!("it ends at {end}, before the base offset {base} of -B"))),
        (None, None) => 0,
    };
    Ok(Region { offset: Extent::Bytes(base), size: Extent::Bytes(size) })
}

fn pattern(options: &mut Options, threads: u32, region: Region) -> Result<Pattern, JobError> {
    let random = options.random_align.is_some() || options.random_percent.is_some();
    if random && options.stride.is_some() {
        return Err(wrong("-s", "it excludes -r and -rs; -r also says the alignment of -rs"));
    }
    if let Some(distribution) = options.distribution.take() {
        if options.random_align.is_none() || options.random_percent.is_some_and(|percent| percent < 100) {
            return Err(wrong("-rd", "it distributes random I/O: give -r too, and no -rs below 100"));
        }
        note_alignment(options, "-rd");
        return zones(&distribution, options.create_bytes, region);
    }
    if random {
        if options.thread_stride.is_some() {
            options.notes.push("-T has no effect with random I/O.".to_owned());
        }
        return Ok(match options.random_percent {
            Some(percent) if percent < 100 => {
                note_alignment(options, "-rs");
                Pattern::MixedSequential { random_percent: percent }
            }
            _ => {
                let align = options.random_align.filter(|&align| align != u64::from(options.block()));
                Pattern::Random { align_bytes: align.unwrap_or(0), skew_bytes: 0 }
            }
        });
    }
    sequential(options, threads)
}

fn note_alignment(options: &mut Options, option: &str) {
    if options.random_align.is_some_and(|align| align != u64::from(options.block())) {
        options.notes.push(format!("With {option} offsets are multiples of the block size here, whatever -r says."));
    }
}

fn sequential(options: &mut Options, threads: u32) -> Result<Pattern, JobError> {
    let block = u64::from(options.block());
    let stride = options.stride.map_or(block, |stride| stride.bytes);
    let interlocked = options.stride.is_some_and(|stride| stride.interlocked);
    if interlocked && options.thread_stride.is_some() {
        return Err(wrong("-T", "it excludes -si: threads that share an offset have no distance"));
    }
    let shared = threads > 1 && (interlocked || options.thread_stride.is_some());
    if stride != block {
        let stride_bytes = i64::try_from(stride).map_err(|_| wrong("-s", format!("{stride} bytes; too far")))?;
        if shared {
            options.notes.push(
                "With a stride all threads begin at the region's begin here: -T and -si do not move them apart."
                    .to_owned(),
            );
        }
        return Ok(Pattern::Strided { stride_bytes });
    }
    if shared {
        options.notes.push(format!(
            "{}: here each of the {threads} threads walks an equal share of the region of its own.",
            if interlocked { "-si" } else { "-T" }
        ));
    }
    Ok(Pattern::Sequential { per_thread: shared })
}

fn zones(distribution: &Distribution, create_bytes: Option<u64>, region: Region) -> Result<Pattern, JobError> {
    let percent =
        |&(access, size): &(u32, u32)| Zone { access_percent: f64::from(access), size_percent: f64::from(size) };
    match distribution {
        Distribution::Percent(zones) => {
            Ok(Pattern::Zones { zones: zones.iter().map(percent).collect(), align_bytes: 0 })
        }
        Distribution::Absolute(zones) => {
            let known = match region {
                Region { size: Extent::Bytes(size), .. } if size > 0 => Some(size),
                Region { offset: Extent::Bytes(offset), .. } => create_bytes.and_then(|size| size.checked_sub(offset)),
                Region { .. } => None,
            };
            let total = known.filter(|&size| size > 0).ok_or_else(|| {
                JobError::unsupported(
                    PLACE,
                    "-rdabs on a region of unknown size",
                    "say its size with -f, -B or -c, or give shares with -rdpct",
                )
            })?;
            let share = |&(access, size): &(u32, u64)| Zone {
                access_percent: f64::from(access),
                size_percent: size as f64 / total as f64 * 100.0,
            };
            Ok(Pattern::Zones { zones: zones.iter().map(share).collect(), align_bytes: 0 })
        }
    }
}

/// `-g` is per thread; limits in our model are over all threads.
fn arrival(options: &Options, threads: u32) -> Arrival {
    let all = f64::from(threads);
    match options.limit {
        None => Arrival::Closed,
        Some(Limit::Iops(iops)) => Arrival::Throttled { iops: Some(f64::from(iops) * all), bytes_per_second: None },
        Some(Limit::BytesPerMs(bytes)) => {
            Arrival::Throttled { iops: None, bytes_per_second: Some(f64::from(bytes) * 1000.0 * all) }
        }
    }
}

fn burst(options: &Options) -> Result<Option<Burst>, JobError> {
    match (options.burst_ios, options.pause_ms) {
        (None, None) => Ok(None),
        (Some(ios), Some(ms)) => Ok(Some(Burst { ios: u64::from(ios), pause_ns: u64::from(ms) * 1_000_000 })),
        (Some(_), None) => Err(wrong("-i", "a burst needs its pause: give -j too")),
        (None, Some(_)) => Err(wrong("-j", "a pause needs the I/Os of a burst: give -i too")),
    }
}

fn data(options: &mut Options) -> Data {
    let writes = options.write_percent.is_some_and(|percent| percent > 0);
    if writes && !options.zero_buffers && !options.random_buffers {
        options.notes.push(
            "Writes carry random data, as with -Zr (DiskSpd's default is one repeating pattern, which drives that \
             compress like)."
                .to_owned(),
        );
    }
    Data { compressible_percent: if options.zero_buffers { 100 } else { 0 }, duplicate_percent: 0 }
}

fn seed(options: &mut Options) -> u64 {
    match options.seed {
        Some(Some(seed)) => seed,
        None => 0,
        Some(None) => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
            let seed = now & u64::from(u32::MAX);
            options.notes.push(format!("-z: the seed was taken from the clock; -z{seed} repeats this run."));
            seed
        }
    }
}

fn access(options: &mut Options) -> Access {
    let buffered = !options.uncached.unwrap_or(false);
    if buffered {
        let said =
            if options.uncached.is_some() { "-Sb" } else { "Neither -h nor -S was given, so that, as with DiskSpd," };
        options.notes.push(format!(
            "{said} {}I/O goes through the page cache: this measures memory. -Sh (or -h) measures the drive.",
            if options.uncached.is_some() { "is kept: " } else { "" }
        ));
    }
    Access { calls: Calls::Ring, buffered, dsync: options.write_through }
}
