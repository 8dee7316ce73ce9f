//! Limits of a plan: whatever format it had, everything that a run relies on is checked here, once.

use super::error::JobError;
use super::model::{Arrival, Calls, Extent, Job, Mix, Pattern, Plan, Region, SizeMix, Zone};
use super::steady::{Limit, Steady};
use forebay_block::{OpKind, WaitMethod};

/// Most jobs of a plan.
pub const MAX_JOBS: usize = 1024;
/// Most threads of a job.
pub const MAX_THREADS: u32 = 1024;
/// Most I/Os in flight per thread.
pub const MAX_DEPTH: u32 = 65_536;
/// Most I/Os in flight of a job, over all its threads.
pub const MAX_IN_FLIGHT: u64 = 1 << 18;
/// Most bytes of the buffers of the jobs of one group.
pub const MAX_BUFFER_BYTES: u64 = 16 << 30;
/// Most bytes of an I/O.
pub const MAX_IO_BYTES: u32 = 32 << 20;
/// Most sizes of a mix, and most zones of a pattern.
pub const MAX_CHOICES: usize = 256;
/// Longest time in nanoseconds: a year.
pub const MAX_TIME_NS: u64 = 366 * 86_400 * 1_000_000_000;
/// Smallest and largest speed-up of recorded times.
pub const SPEEDS: std::ops::RangeInclusive<f64> = 1e-6..=1e6;
/// Most I/Os a second.
pub const MAX_IOPS: f64 = 1e9;
/// Most bytes a second.
pub const MAX_BYTES_PER_SECOND: f64 = 1e13;
/// Largest weight in a mix.
pub const MAX_WEIGHT: u32 = 1_000_000;
/// Largest stride, alignment or skew in bytes.
pub const MAX_DISTANCE_BYTES: u64 = 1 << 50;
/// Shortest part of a steady-state window in nanoseconds.
pub const MIN_CHECK_NS: u64 = 10_000_000;
/// Most parts of a steady-state window.
pub const MAX_CHECKS: u64 = 100_000;
/// Limit of a CPU's number, and of the number of CPUs of a job.
pub const MAX_CPUS: u32 = 4096;

/// Checks all limits of all jobs.
///
/// # Errors
/// [`JobError::Form`] for an empty or too large plan; [`JobError::Bound`] with job, property and limit otherwise.
pub fn validate(plan: &Plan) -> Result<(), JobError> {
    if plan.groups.is_empty() || plan.groups.iter().any(Vec::is_empty) {
        return Err(JobError::form("plan", "there is no job in it, or an empty group: write at least one job"));
    }
    let jobs: usize = plan.groups.iter().map(Vec::len).sum();
    if jobs > MAX_JOBS {
        return Err(JobError::form("plan", format!("{jobs} jobs; at most {MAX_JOBS}")));
    }
    for group in &plan.groups {
        group.iter().try_for_each(check_job)?;
        let buffers: u64 = group.iter().map(buffer_bytes).fold(0, u64::saturating_add);
        if buffers > MAX_BUFFER_BYTES {
            let reason = format!(
                "the jobs that run at once need {} MiB of buffers (threads x depth x largest I/O); at most {} MiB",
                buffers >> 20,
                MAX_BUFFER_BYTES >> 20
            );
            return Err(JobError::form("plan", reason));
        }
    }
    Ok(())
}

fn buffer_bytes(job: &Job) -> u64 {
    u64::from(job.threads) * u64::from(job.depth) * u64::from(job.max_io_bytes())
}

/// The name of the job that errors are about.
struct At<'a>(&'a str);

impl At<'_> {
    fn ensure(&self, holds: bool, field: &'static str, reason: impl FnOnce() -> String) -> Result<(), JobError> {
        if holds { Ok(()) } else { Err(JobError::Bound { job: self.0.to_owned(), field, reason: reason() }) }
    }

    fn time(&self, field: &'static str, ns: u64, least_ns: u64) -> Result<(), JobError> {
        self.ensure((least_ns..=MAX_TIME_NS).contains(&ns), field, || {
            format!("{ns} ns; from {least_ns} ns to a year of 366 days")
        })
    }
}

fn check_job(job: &Job) -> Result<(), JobError> {
    let at = At(&job.name);
    at.ensure(!job.name.trim().is_empty() && job.name.len() <= 255, "name", || "1 to 255 bytes of text".to_owned())?;
    at.ensure((1..=MAX_THREADS).contains(&job.threads), "threads", || format!("{}; 1 to {MAX_THREADS}", job.threads))?;
    at.ensure((1..=MAX_DEPTH).contains(&job.depth), "depth", || format!("{}; 1 to {MAX_DEPTH}", job.depth))?;
    let in_flight = u64::from(job.threads) * u64::from(job.depth);
    at.ensure(in_flight <= MAX_IN_FLIGHT, "depth", || {
        format!("threads x depth = {in_flight} I/Os in flight; at most {MAX_IN_FLIGHT}")
    })?;
    at.ensure(job.depth == 1 || !matches!(job.access.calls, Calls::Sync { .. }), "depth", || {
        format!("{}; synchronous calls carry out one I/O at a time: depth 1 and more threads", job.depth)
    })?;
    check_mix(&at, &job.mix)?;
    for (field, sizes) in [("size", &job.sizes.read), ("size_write", &job.sizes.write), ("size_trim", &job.sizes.trim)]
    {
        check_sizes(&at, field, sizes)?;
    }
    check_pattern(&at, &job.pattern)?;
    check_region(&at, job.region)?;
    check_arrival(&at, job)?;
    check_end(&at, job)?;
    job.steady.as_ref().map_or(Ok(()), |steady| check_steady(&at, job, steady))?;
    at.time("warmup", job.warmup_ns, 0)?;
    at.time("cooldown", job.cooldown_ns, 0)?;
    at.time("start_delay", job.start_delay_ns, 0)?;
    for (field, percent) in
        [("compressible", job.data.compressible_percent), ("duplicates", job.data.duplicate_percent)]
    {
        at.ensure(percent <= 100, field, || format!("{percent} percent; 0 to 100"))?;
    }
    if let WaitMethod::Hybrid { spin_ns } = job.wait {
        at.time("wait", spin_ns, 1)?;
    }
    at.ensure(job.cpus.len() <= MAX_CPUS as usize && job.cpus.iter().all(|&cpu| cpu < MAX_CPUS), "cpus", || {
        format!("numbers below {MAX_CPUS}, at most {MAX_CPUS} of them")
    })
}

fn check_mix(at: &At<'_>, mix: &Mix) -> Result<(), JobError> {
    let sum: u64 = mix.weights.iter().map(|&(_, weight)| u64::from(weight)).sum();
    at.ensure(sum > 0, "mix", || "all weights are 0: at least one kind of I/O must have some".to_owned())?;
    at.ensure(mix.weights.iter().all(|&(_, weight)| weight <= MAX_WEIGHT), "mix", || {
        format!("weights go up to {MAX_WEIGHT}")
    })?;
    let once = OpKind::ALL.iter().all(|kind| mix.weights.iter().filter(|(k, _)| k == kind).count() <= 1);
    at.ensure(once, "mix", || "a kind of I/O is named twice".to_owned())?;
    if let Some((kind, count)) = mix.flush_every {
        at.ensure(matches!(kind, OpKind::Flush | OpKind::Fsync), "flush_every", || {
            format!("{} is no kind of flush", kind.name())
        })?;
        at.ensure(count > 0, "flush_every", || "0 writes; at least 1".to_owned())?;
        let writes = mix.kinds().any(|kind| matches!(kind, OpKind::Write | OpKind::WriteFua));
        at.ensure(writes, "flush_every", || "it counts writes, and the job has none".to_owned())?;
    }
    Ok(())
}

fn check_sizes(at: &At<'_>, field: &'static str, sizes: &SizeMix) -> Result<(), JobError> {
    at.ensure((1..=MAX_CHOICES).contains(&sizes.choices.len()), field, || {
        format!("{} sizes; 1 to {MAX_CHOICES}", sizes.choices.len())
    })?;
    for &(bytes, weight) in &sizes.choices {
        at.ensure((1..=MAX_IO_BYTES).contains(&bytes), field, || {
            format!("{bytes} bytes; an I/O has 1 byte to {} MiB", MAX_IO_BYTES >> 20)
        })?;
        at.ensure(weight <= MAX_WEIGHT, field, || format!("weight {weight}; at most {MAX_WEIGHT}"))?;
    }
    let sum: u64 = sizes.choices.iter().map(|&(_, weight)| u64::from(weight)).sum();
    at.ensure(sum > 0, field, || "all weights are 0: at least one size must have some".to_owned())
}

fn check_pattern(at: &At<'_>, pattern: &Pattern) -> Result<(), JobError> {
    let field = "pattern";
    if let Pattern::ByKind(patterns) = pattern {
        let nested = patterns.iter().any(|part| part.is_fed() || matches!(part, Pattern::ByKind(_)));
        at.ensure(!nested, field, || "a pattern for each kind is made of plain patterns".to_owned())?;
        return patterns.iter().try_for_each(|part| check_pattern(at, part));
    }
    match *pattern {
        Pattern::Random { align_bytes, skew_bytes } => {
            at.ensure(align_bytes.max(skew_bytes) <= MAX_DISTANCE_BYTES, field, || {
                format!("alignment and skew are at most {MAX_DISTANCE_BYTES} bytes")
            })
        }
        Pattern::Strided { stride_bytes } => {
            at.ensure((1..=MAX_DISTANCE_BYTES).contains(&stride_bytes.unsigned_abs()), field, || {
                format!("a stride of {stride_bytes} bytes; 1 to {MAX_DISTANCE_BYTES}, forwards or backwards")
            })
        }
        Pattern::MixedSequential { random_percent } => {
            at.ensure(random_percent <= 100, field, || format!("{random_percent} percent random; 0 to 100"))
        }
        Pattern::Zipf { theta } => at.ensure(theta.is_finite() && theta > 0.0 && theta <= 100.0, field, || {
            format!("zipf's theta is {theta}; above 0 and at most 100 (1.2 is steep)")
        }),
        Pattern::Pareto { h } => {
            at.ensure(h > 0.0 && h < 1.0, field, || format!("pareto's h is {h}; above 0 and below 1 (0.2: 80/20)"))
        }
        Pattern::Normal { deviation_percent, .. } => {
            at.ensure(deviation_percent > 0.0 && deviation_percent <= 100.0, field, || {
                format!("a deviation of {deviation_percent} percent of the region; above 0 and at most 100")
            })
        }
        Pattern::Zones { ref zones, align_bytes } => {
            at.ensure(align_bytes <= MAX_DISTANCE_BYTES, field, || {
                format!("an alignment is at most {MAX_DISTANCE_BYTES} bytes")
            })?;
            check_zones(at, zones)
        }
        Pattern::Sequential { .. } | Pattern::YcsbZipf | Pattern::Shuffled | Pattern::Replayed | Pattern::ByKind(_) => {
            Ok(())
        }
        Pattern::Generated { ref name } => {
            at.ensure(!name.is_empty() && name.len() <= 255, "generator", || "1 to 255 bytes of text".to_owned())
        }
    }
}

fn check_zones(at: &At<'_>, zones: &[Zone]) -> Result<(), JobError> {
    // Shares with decimals do not sum to exactly 100.
    const SLACK: f64 = 1e-6;
    let field = "pattern";
    at.ensure((1..=MAX_CHOICES).contains(&zones.len()), field, || {
        format!("{} zones; 1 to {MAX_CHOICES}", zones.len())
    })?;
    for zone in zones {
        let valid =
            (0.0..=100.0).contains(&zone.access_percent) && zone.size_percent > 0.0 && zone.size_percent <= 100.0;
        at.ensure(valid, field, || {
            format!(
                "a zone with {} % of the accesses on {} % of the region; accesses 0 to 100, sizes above 0 to 100",
                zone.access_percent, zone.size_percent
            )
        })?;
    }
    let accesses: f64 = zones.iter().map(|zone| zone.access_percent).sum();
    let sizes: f64 = zones.iter().map(|zone| zone.size_percent).sum();
    at.ensure(accesses <= 100.0 + SLACK && sizes <= 100.0 + SLACK, field, || {
        format!("the zones have {accesses} % of the accesses and {sizes} % of the region; each at most 100")
    })?;
    at.ensure(accesses >= 100.0 - SLACK || sizes <= 100.0 - SLACK, field, || {
        format!("the zones cover the region but have only {accesses} % of the accesses: where should the rest go?")
    })
}

fn check_region(at: &At<'_>, region: Region) -> Result<(), JobError> {
    for extent in [region.offset, region.size] {
        if let Extent::Percent(percent) = extent {
            at.ensure((0.0..=100.0).contains(&percent), "region", || format!("{percent} percent; 0 to 100"))?;
        }
    }
    at.ensure(region.size != Extent::Percent(0.0), "region", || "0 percent of the target is nothing".to_owned())?;
    at.ensure(region.offset != Extent::Percent(100.0), "region", || {
        "it begins at the end of the target: choose an offset below 100 percent".to_owned()
    })
}

fn check_arrival(at: &At<'_>, job: &Job) -> Result<(), JobError> {
    let iops_ok = |iops: f64| {
        at.ensure(iops.is_finite() && iops > 0.0 && iops <= MAX_IOPS, "rate", || {
            format!("{iops} I/Os a second; above 0 and at most {MAX_IOPS}")
        })
    };
    match job.arrival {
        Arrival::Closed => {}
        Arrival::Throttled { iops, bytes_per_second } => {
            at.ensure(iops.is_some() || bytes_per_second.is_some(), "rate", || {
                "throttled needs a rate: I/Os or bytes a second".to_owned()
            })?;
            iops.map_or(Ok(()), iops_ok)?;
            if let Some(bytes) = bytes_per_second {
                at.ensure(bytes.is_finite() && bytes > 0.0 && bytes <= MAX_BYTES_PER_SECOND, "rate", || {
                    format!("{bytes} bytes a second; above 0 and at most {MAX_BYTES_PER_SECOND}")
                })?;
            }
        }
        Arrival::Constant { iops } | Arrival::Poisson { iops } => iops_ok(iops)?,
        Arrival::Times { ref path, speed } => {
            at.ensure(!path.as_os_str().is_empty(), "trace", || "the file of times is not named".to_owned())?;
            at.ensure(SPEEDS.contains(&speed), "trace", || format!("speed {speed}; from a millionth to a million"))?;
        }
        Arrival::Recorded { speed } => {
            at.ensure(job.pattern.is_fed(), "arrival", || {
                "these are the times of a generator, and the job names none: give generator".to_owned()
            })?;
            at.ensure(SPEEDS.contains(&speed), "scale", || format!("{speed}; from a millionth to a million"))?;
        }
    }
    let paused = job.think.is_some() || job.burst.is_some();
    at.ensure(!(paused && job.arrival.is_open()), "think", || {
        "an open schedule decides when I/Os start: leave out think time and bursts, or arrival".to_owned()
    })?;
    if let Some(think) = job.think {
        at.time("think", think.time_ns, 1)?;
    }
    if let Some(burst) = job.burst {
        at.ensure(burst.ios > 0, "burst", || "0 I/Os; at least 1".to_owned())?;
        at.time("burst", burst.pause_ns, 0)?;
    }
    Ok(())
}

fn check_end(at: &At<'_>, job: &Job) -> Result<(), JobError> {
    let end = job.end;
    let none =
        end.after_ns.is_none() && end.after_bytes.is_none() && end.after_ios.is_none() && end.after_passes.is_none();
    let ends = !none || matches!(job.arrival, Arrival::Times { .. }) || job.pattern.is_fed();
    at.ensure(ends, "runtime", || "nothing ends this job: give a runtime, bytes, ios or passes".to_owned())?;
    if let Some(ns) = end.after_ns {
        at.time("runtime", ns, 1)?;
    }
    at.ensure(end.after_bytes != Some(0), "bytes", || "0 bytes; at least 1".to_owned())?;
    at.ensure(end.after_ios != Some(0), "ios", || "0 I/Os; at least 1".to_owned())?;
    if let Some(passes) = end.after_passes {
        at.ensure(passes.is_finite() && passes > 0.0 && passes <= 1e9, "passes", || {
            format!("{passes} passes; above 0 and at most a thousand million")
        })?;
    }
    let counts_bytes = job.mix.kinds().any(|kind| kind.has_data() || kind == OpKind::Trim);
    at.ensure(counts_bytes || none || end.after_ns.is_some() || end.after_ios.is_some(), "runtime", || {
        "flushes move no bytes, so that bytes or passes never end this job: give a runtime or ios".to_owned()
    })
}

fn check_steady(at: &At<'_>, job: &Job, steady: &Steady) -> Result<(), JobError> {
    let limit = steady.limit.value();
    at.ensure(limit.is_finite() && limit > 0.0, "steadystate", || {
        format!("{steady}: no value is below a limit of {limit}; above 0")
    })?;
    at.ensure(!matches!(steady.limit, Limit::Percent(percent) if percent > 1000.0), "steadystate", || {
        format!("{steady}: at most 1000 percent")
    })?;
    let every_ns = steady.every_ns;
    at.time("steadystate_check_interval", every_ns, MIN_CHECK_NS)?;
    at.ensure(every_ns.is_multiple_of(1_000_000), "steadystate_check_interval", || {
        format!("{every_ns} ns; whole milliseconds")
    })?;
    at.time("steadystate_duration", steady.window_ns, 1)?;
    let seconds = |ns: u64| ns as f64 / 1e9;
    let checks = steady.window_ns / every_ns;
    let fits = steady.window_ns.is_multiple_of(every_ns) && (2..=MAX_CHECKS).contains(&checks);
    at.ensure(fits, "steadystate_duration", || {
        format!(
            "{} s; a multiple of steadystate_check_interval ({} s), 2 to {MAX_CHECKS} of them",
            seconds(steady.window_ns),
            seconds(every_ns)
        )
    })?;
    at.time("steadystate_ramp_time", steady.ramp_ns, 0)?;
    let least_ns = steady.first_end_ns();
    at.ensure(job.end.after_ns.is_none_or(|after_ns| after_ns >= least_ns), "runtime", || {
        format!(
            "{} s; steadystate can be seen after {} s (steadystate_ramp_time and steadystate_duration) at the earliest",
            seconds(job.end.after_ns.unwrap_or(0)),
            seconds(least_ns)
        )
    })?;
    at.ensure(job.cooldown_ns == 0, "cooldown", || {
        "a job that ends when it is steady ends at once: leave out cooldown, or steadystate".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::model::{Burst, End, Think};

    fn plan(change: impl FnOnce(&mut Job)) -> Plan {
        let mut job = Job::default();
        change(&mut job);
        Plan { groups: vec![vec![job]], notes: Vec::new() }
    }

    /// Checks that a job with this change is refused, with an error that names `field`.
    fn refused(field: &str, change: impl FnOnce(&mut Job)) {
        match validate(&plan(change)) {
            Err(JobError::Bound { field: named, .. }) => assert_eq!(named, field),
            other => panic!("{field}: {other:?}"),
        }
    }

    #[test]
    fn the_default_job_is_valid_and_no_job_is_not() {
        validate(&plan(|_| ())).unwrap();
        assert!(validate(&Plan::default()).is_err());
        assert!(validate(&Plan { groups: vec![Vec::new()], notes: Vec::new() }).is_err());
        assert!(validate(&Plan { groups: vec![vec![Job::default(); MAX_JOBS + 1]], notes: Vec::new() }).is_err());
    }

    #[test]
    fn counts_and_sizes_are_bounded() {
        refused("name", |job| job.name = " ".to_owned());
        refused("threads", |job| job.threads = 0);
        refused("threads", |job| job.threads = MAX_THREADS + 1);
        refused("depth", |job| job.depth = 0);
        refused("depth", |job| job.depth = MAX_DEPTH + 1);
        refused("depth", |job| (job.threads, job.depth) = (MAX_THREADS, MAX_DEPTH));
        refused("depth", |job| (job.depth, job.access.calls) = (2, Calls::Sync { high_priority: false }));
        refused("size", |job| job.sizes.read = SizeMix::fixed(0));
        refused("size_write", |job| job.sizes.write = SizeMix::fixed(MAX_IO_BYTES + 1));
        refused("size_trim", |job| job.sizes.trim.choices.clear());
        refused("size", |job| job.sizes.read.choices = vec![(4096, 0)]);
        refused("size", |job| job.sizes.read.choices = vec![(4096, 1); MAX_CHOICES + 1]);
        refused("cpus", |job| job.cpus = vec![MAX_CPUS]);
        let large = plan(|job| {
            (job.threads, job.depth) = (64, 64);
            job.sizes.read = SizeMix::fixed(MAX_IO_BYTES);
        });
        assert!(validate(&large).unwrap_err().to_string().contains("buffers"));
    }

    #[test]
    fn mixes_need_weight_and_flushes_need_writes() {
        refused("mix", |job| job.mix.weights = vec![(OpKind::Read, 0)]);
        refused("mix", |job| job.mix.weights = vec![(OpKind::Read, 1), (OpKind::Read, 1)]);
        refused("mix", |job| job.mix.weights = vec![(OpKind::Read, MAX_WEIGHT + 1)]);
        refused("flush_every", |job| job.mix.flush_every = Some((OpKind::Flush, 8)));
        refused("flush_every", |job| {
            job.mix = Mix { flush_every: Some((OpKind::Trim, 8)), ..Mix::only(OpKind::Write) };
        });
        refused("flush_every", |job| {
            job.mix = Mix { flush_every: Some((OpKind::Flush, 0)), ..Mix::only(OpKind::Write) };
        });
    }

    #[test]
    fn patterns_are_bounded() {
        let zones = |zones| Pattern::Zones { zones, align_bytes: 0 };
        for pattern in [
            Pattern::Zipf { theta: 0.0 },
            Pattern::Zipf { theta: f64::NAN },
            Pattern::Zipf { theta: f64::INFINITY },
            Pattern::Pareto { h: 1.0 },
            Pattern::Pareto { h: 0.0 },
            Pattern::Normal { deviation_percent: f64::NAN, scattered: false },
            Pattern::Normal { deviation_percent: 0.0, scattered: true },
            Pattern::MixedSequential { random_percent: 101 },
            Pattern::Strided { stride_bytes: 0 },
            Pattern::Strided { stride_bytes: i64::MIN },
            Pattern::Random { align_bytes: u64::MAX, skew_bytes: 0 },
            Pattern::Zones { zones: vec![Zone { access_percent: 50.0, size_percent: 10.0 }], align_bytes: u64::MAX },
            zones(Vec::new()),
            zones(vec![Zone { access_percent: 60.0, size_percent: 60.0 }; 2]),
            zones(vec![Zone { access_percent: 50.0, size_percent: 100.0 }]),
            zones(vec![Zone { access_percent: 50.0, size_percent: 0.0 }]),
            zones(vec![Zone { access_percent: f64::NAN, size_percent: 1.0 }]),
        ] {
            refused("pattern", |job| job.pattern = pattern.clone());
        }
        for pattern in [
            Pattern::Zipf { theta: 1.0 },
            zones(vec![Zone { access_percent: 0.0, size_percent: 10.0 }]),
            zones(vec![Zone { access_percent: 33.3, size_percent: 33.3 }; 3]),
        ] {
            validate(&plan(|job| job.pattern = pattern)).unwrap();
        }
    }

    #[test]
    fn regions_rates_and_times_are_bounded() {
        refused("region", |job| job.region.size = Extent::Percent(0.0));
        refused("region", |job| job.region.offset = Extent::Percent(101.0));
        refused("region", |job| job.region.offset = Extent::Percent(100.0));
        refused("region", |job| job.region.size = Extent::Percent(f64::NAN));
        for iops in [0.0, -1.0, f64::NAN, f64::INFINITY, 2e9] {
            refused("rate", |job| job.arrival = Arrival::Constant { iops });
            refused("rate", |job| job.arrival = Arrival::Poisson { iops });
            refused("rate", |job| job.arrival = Arrival::Throttled { iops: Some(iops), bytes_per_second: None });
        }
        refused("rate", |job| job.arrival = Arrival::Throttled { iops: None, bytes_per_second: None });
        refused("rate", |job| job.arrival = Arrival::Throttled { iops: None, bytes_per_second: Some(0.0) });
        for speed in [0.0, 1e-7, 1e-300, f64::NAN, 1e7] {
            refused("trace", |job| job.arrival = Arrival::Times { path: "t".into(), speed });
        }
        refused("trace", |job| job.arrival = Arrival::Times { path: "".into(), speed: 1.0 });
        refused("think", |job| {
            job.arrival = Arrival::Poisson { iops: 1.0 };
            job.think = Some(Think { time_ns: 1, compute: true });
        });
        refused("think", |job| job.think = Some(Think { time_ns: 0, compute: true }));
        refused("burst", |job| job.burst = Some(Burst { ios: 0, pause_ns: 1 }));
        refused("warmup", |job| job.warmup_ns = MAX_TIME_NS + 1);
        refused("cooldown", |job| job.cooldown_ns = u64::MAX);
        refused("start_delay", |job| job.start_delay_ns = u64::MAX);
        refused("wait", |job| job.wait = WaitMethod::Hybrid { spin_ns: 0 });
        refused("compressible", |job| job.data.compressible_percent = 101);
        refused("duplicates", |job| job.data.duplicate_percent = 101);
    }

    #[test]
    fn what_can_never_be_steady_is_refused() {
        let steady = crate::job::steady::Steady {
            criterion: crate::job::steady::Criterion::parse("iops:5%", |_, _| Ok(0.0)).unwrap().0,
            limit: Limit::Percent(5.0),
            window_ns: 5_000_000_000,
            ramp_ns: 3_500_000_000,
            every_ns: 1_000_000_000,
        };
        validate(&plan(|job| job.steady = Some(steady))).unwrap();
        for (field, wrong) in [
            ("steadystate", Steady { limit: Limit::Percent(0.0), ..steady }),
            ("steadystate", Steady { limit: Limit::Percent(1001.0), ..steady }),
            ("steadystate", Steady { limit: Limit::Fixed(f64::NAN), ..steady }),
            ("steadystate_check_interval", Steady { every_ns: 0, ..steady }),
            ("steadystate_check_interval", Steady { every_ns: 10_000_001, ..steady }),
            ("steadystate_duration", Steady { window_ns: 1_000_000_000, ..steady }),
            ("steadystate_duration", Steady { window_ns: 5_500_000_000, ..steady }),
            ("steadystate_duration", Steady { window_ns: 0, ..steady }),
            ("steadystate_duration", Steady { window_ns: MAX_TIME_NS, every_ns: 10_000_000, ..steady }),
            ("steadystate_ramp_time", Steady { ramp_ns: u64::MAX, ..steady }),
            // Parts begin at whole seconds: the first window is from 4 s to 9 s; one of 7 s would end at 11 s.
            ("runtime", Steady { window_ns: 7_000_000_000, ..steady }),
        ] {
            refused(field, |job| job.steady = Some(wrong));
        }
        refused("cooldown", |job| (job.steady, job.cooldown_ns) = (Some(steady), 1));
    }

    #[test]
    fn something_ends_every_job() {
        refused("runtime", |job| job.end = End::default());
        refused("runtime", |job| job.end.after_ns = Some(0));
        refused("bytes", |job| job.end.after_bytes = Some(0));
        refused("ios", |job| job.end.after_ios = Some(0));
        refused("passes", |job| job.end.after_passes = Some(f64::NAN));
        refused("runtime", |job| {
            job.mix = Mix::only(OpKind::Flush);
            job.end = End { after_passes: Some(1.0), ..End::default() };
        });
    }
}
