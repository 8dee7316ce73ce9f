//! Converts the keys of a job to a [`Job`].

use super::format::{ArrivalKind, CallsKind, Direction, EvidenceKind, FlushKind, JobText, MixText};
use super::value::{SizeChoice, SizeList};
use crate::job::error::JobError;
use crate::job::model::{
    Access, Arrival, Burst, Calls, Data, End, Evidence, Extent, Job, Mix, Pattern, Region, SizeMix, Sizes, Think,
};
use crate::job::size::Rate;
use crate::job::steady::{EVERY_NS, Steady};
use forebay_block::{OpKind, WaitMethod};

/// Default of I/Os in flight per thread for a job that runs at the times of a generator.
const DEPTH_TIMED: u32 = 128;

/// Makes a job, number `number` of its file; `place` is file and line for errors.
pub fn job(text: JobText, name: String, number: u64, place: &str) -> Result<Job, JobError> {
    let default = Job::default();
    let wrong = |key: &str, reason: &str| JobError::value(&format!("{place}: job {name:?}"), key, reason);
    let (calls, wait) = access_calls(&text);
    let mix = mix(&text, &wrong)?;
    let sizes = sizes(&text);
    let arrival = arrival(&text, &sizes, &mix, &wrong)?;
    let pattern = pattern(&text, &wrong)?;
    let steady = steady(&text, &wrong)?;
    if text.think_compute.is_some() && text.think.is_none() {
        return Err(wrong("think_compute", "it says how the time of `think` is spent: give `think` too"));
    }
    // A missing size means the rest of the target; a size of 0, perhaps from a faulty script, must not mean that.
    if text.region.is_some_and(|region| region.size.is_some_and(|size| size.0 == Extent::Bytes(0))) {
        return Err(wrong("region", "a size of 0 is nothing: leave `size` out for all behind the offset"));
    }
    let region = text.region.map_or_else(Region::default, |region| Region {
        offset: region.offset.map(|extent| extent.0).unwrap_or_default(),
        size: region.size.map(|extent| extent.0).unwrap_or_default(),
    });
    // A trace has its own beginning and end.
    let traced = matches!(arrival, Arrival::Times { .. }) || pattern.is_fed();
    let depth = if matches!(arrival, Arrival::Recorded { .. }) { DEPTH_TIMED } else { default.depth };
    Ok(Job {
        threads: text.threads.unwrap_or(default.threads),
        depth: text.depth.unwrap_or(depth),
        mix,
        sizes,
        pattern,
        region,
        arrival,
        think: text.think.map(|time| Think { time_ns: time.0, compute: text.think_compute.unwrap_or(false) }),
        burst: text.burst.map(|burst| Burst { ios: burst.ios, pause_ns: burst.pause.0 }),
        data: Data {
            compressible_percent: text.compressible.unwrap_or(0),
            duplicate_percent: text.duplicates.unwrap_or(0),
        },
        verify: text.verify.unwrap_or(false),
        steady,
        end: end(&text, if traced { End::default() } else { default.end }),
        warmup_ns: text.warmup.map_or(if traced { 0 } else { default.warmup_ns }, |time| time.0),
        cooldown_ns: text.cooldown.map_or(0, |time| time.0),
        start_delay_ns: text.start_delay.map_or(0, |time| time.0),
        seed: text.seed.unwrap_or(if text.verify == Some(true) { default.seed } else { number }),
        cpus: text.cpus.unwrap_or_default(),
        wait,
        access: Access { calls, buffered: text.buffered.unwrap_or(false), dsync: text.dsync.unwrap_or(false) },
        single_submission: text.single_submission.unwrap_or(true),
        evidence: match text.evidence {
            None | Some(EvidenceKind::None) => Evidence::None,
            Some(EvidenceKind::Hints) => Evidence::Hints,
            Some(EvidenceKind::All) => Evidence::All,
        },
        name,
    })
}

/// Refuses keys for what the generator decides itself.
pub fn check_generated(text: &JobText, name: &str, place: &str) -> Result<(), JobError> {
    let given = [
        ("rw", text.rw.is_some()),
        ("mix", text.mix.is_some()),
        ("read_percent", text.read_percent.is_some()),
        ("fua", text.fua.is_some()),
        ("flush_every", text.flush_every.is_some()),
        ("flush_kind", text.flush_kind.is_some()),
        ("size", text.size.is_some()),
        ("size_write", text.size_write.is_some()),
        ("size_trim", text.size_trim.is_some()),
        ("pattern", text.pattern.is_some()),
        ("align", text.align.is_some()),
        ("skew", text.skew.is_some()),
        ("region", text.region.is_some()),
        ("rate", text.rate.is_some()),
        ("trace", text.trace.is_some()),
        ("think", text.think.is_some()),
        ("think_compute", text.think_compute.is_some()),
        ("burst", text.burst.is_some()),
        ("passes", text.passes.is_some()),
        ("verify", text.verify.is_some()),
        ("arrival", !matches!(text.arrival, None | Some(ArrivalKind::Closed | ArrivalKind::Generator))),
    ];
    match given.into_iter().find(|&(_, given)| given) {
        Some((key, _)) => {
            let reason = "`generator` says what I/Os there are, and when: leave it out, or the generator";
            Err(JobError::value(&format!("{place}: job {name:?}"), key, reason))
        }
        None => Ok(()),
    }
}

/// Why a key has no effect beside the others; `None` if it has one.
pub fn idle(text: &JobText, key: &str) -> Option<&'static str> {
    if text.mix.is_some() {
        // `rw` beside `mix` is an error of its own.
        return None;
    }
    let rw = text.rw.unwrap_or(Direction::RandRead);
    let mixed = matches!(rw, Direction::Rw | Direction::RandRw);
    let writes = mixed || matches!(rw, Direction::Write | Direction::RandWrite);
    match key {
        "read_percent" if !mixed => {
            Some("it has no effect: it belongs to rw = \"rw\" or \"randrw\", which mix reads and writes")
        }
        "fua" if !writes => Some("it has no effect: this job writes nothing"),
        _ => None,
    }
}

type Wrong<'a> = &'a dyn Fn(&str, &str) -> JobError;

fn mix(text: &JobText, wrong: Wrong<'_>) -> Result<Mix, JobError> {
    let flush_every = match (text.flush_every, text.flush_kind) {
        (None, Some(_)) => {
            return Err(wrong("flush_kind", "it says how `flush_every` flushes: give `flush_every` too"));
        }
        (every, kind) => every.map(|count| match kind.unwrap_or(FlushKind::Flush) {
            FlushKind::Flush => (OpKind::Flush, count),
            FlushKind::Fsync => (OpKind::Fsync, count),
        }),
    };
    let weights = match (text.rw, text.mix) {
        (Some(_), Some(_)) => {
            return Err(wrong("mix", "it says what `rw` says: give one of the two, and the order in `pattern`"));
        }
        (_, Some(mix)) => {
            if text.fua.is_some() {
                return Err(wrong("fua", "give `write_fua` a weight in `mix` instead"));
            }
            if text.read_percent.is_some() {
                return Err(wrong("read_percent", "it belongs to `rw`; in `mix` the weights say it"));
            }
            listed(mix)
        }
        (rw, None) => directed(rw.unwrap_or(Direction::RandRead), text.read_percent, text.fua.unwrap_or(false), wrong)?,
    };
    Ok(Mix { weights, flush_every })
}

fn listed(mix: MixText) -> Vec<(OpKind, u32)> {
    let all = [
        (OpKind::Read, mix.read),
        (OpKind::Write, mix.write),
        (OpKind::WriteFua, mix.write_fua),
        (OpKind::Trim, mix.trim),
        (OpKind::Flush, mix.flush),
        (OpKind::Fsync, mix.fsync),
    ];
    all.into_iter().filter(|&(_, weight)| weight > 0).collect()
}

fn directed(
    direction: Direction,
    read_percent: Option<u32>,
    fua: bool,
    wrong: Wrong<'_>,
) -> Result<Vec<(OpKind, u32)>, JobError> {
    let write = if fua { OpKind::WriteFua } else { OpKind::Write };
    let weights = match direction {
        Direction::Read | Direction::RandRead => vec![(OpKind::Read, 100)],
        Direction::Write | Direction::RandWrite => vec![(write, 100)],
        Direction::Trim | Direction::RandTrim => vec![(OpKind::Trim, 100)],
        Direction::Rw | Direction::RandRw => {
            let reads = read_percent.unwrap_or(50);
            if reads > 100 {
                return Err(wrong("read_percent", &format!("{reads}; 0 to 100")));
            }
            [(OpKind::Read, reads), (write, 100 - reads)].into_iter().filter(|&(_, weight)| weight > 0).collect()
        }
    };
    Ok(weights)
}

fn sizes(text: &JobText) -> Sizes {
    let made = |list: &SizeList| SizeMix {
        choices: list.0.iter().map(|&SizeChoice(bytes, weight)| (bytes, weight)).collect(),
    };
    let read = text.size.as_ref().map_or_else(|| SizeMix::fixed(4096), made);
    let write = text.size_write.as_ref().map_or_else(|| read.clone(), made);
    let trim = text.size_trim.as_ref().map_or_else(|| write.clone(), made);
    Sizes { read, write, trim }
}

fn pattern(text: &JobText, wrong: Wrong<'_>) -> Result<Pattern, JobError> {
    let sequential = matches!(text.rw, Some(Direction::Read | Direction::Write | Direction::Trim | Direction::Rw));
    if let Some(name) = &text.generator {
        return Ok(Pattern::Generated { name: name.clone() });
    }
    let pattern = match &text.pattern {
        Some(pattern) => pattern.0.clone(),
        None if sequential => Pattern::Sequential { per_thread: false },
        None => Pattern::Random { align_bytes: 0, skew_bytes: 0 },
    };
    let (align, skew) = (text.align.map_or(0, |bytes| bytes.0), text.skew.map_or(0, |bytes| bytes.0));
    match pattern {
        Pattern::Random { .. } => Ok(Pattern::Random { align_bytes: align, skew_bytes: skew }),
        Pattern::Zones { zones, .. } if skew == 0 => Ok(Pattern::Zones { zones, align_bytes: align }),
        other if align == 0 && skew == 0 => Ok(other),
        _ => Err(wrong(
            "align",
            "`align` and `skew` place random I/O: use them with pattern = \"random\", `align` with zones too",
        )),
    }
}

fn arrival(text: &JobText, sizes: &Sizes, mix: &Mix, wrong: Wrong<'_>) -> Result<Arrival, JobError> {
    let kind = text.arrival.unwrap_or(match (text.rate, &text.trace) {
        (None, None) => ArrivalKind::Closed,
        (Some(_), _) => ArrivalKind::Constant,
        (None, Some(_)) => ArrivalKind::Trace,
    });
    let rated = matches!(kind, ArrivalKind::Throttled | ArrivalKind::Constant | ArrivalKind::Poisson);
    if text.rate.is_some() && !rated {
        return Err(wrong("rate", "it needs arrival = \"constant\", \"poisson\" or \"throttled\""));
    }
    if text.trace.is_some() && kind != ArrivalKind::Trace {
        return Err(wrong("trace", "it needs arrival = \"trace\", and no `rate`"));
    }
    if kind == ArrivalKind::Closed {
        return Ok(Arrival::Closed);
    }
    if kind == ArrivalKind::Generator {
        return Ok(Arrival::Recorded { speed: 1.0 });
    }
    if kind == ArrivalKind::Trace {
        let trace = text.trace.as_ref().ok_or_else(|| wrong("trace", "missing: write { file = \"times.txt\" }"))?;
        return Ok(Arrival::Times { path: trace.file.clone(), speed: trace.speed.unwrap_or(1.0) });
    }
    let rate = text.rate.ok_or_else(|| wrong("rate", "missing: this arrival needs one, as rate = 10000"))?.0;
    if kind == ArrivalKind::Throttled {
        return Ok(match rate {
            Rate::Iops(iops) => Arrival::Throttled { iops: Some(iops), bytes_per_second: None },
            Rate::BytesPerSecond(bytes) => Arrival::Throttled { iops: None, bytes_per_second: Some(bytes) },
        });
    }
    let iops = match rate {
        Rate::Iops(iops) => iops,
        Rate::BytesPerSecond(bytes) => match mix.mean_bytes(sizes) {
            mean if mean > 0.0 => bytes / mean,
            _ => return Err(wrong("rate", "these I/Os move no bytes: give I/Os a second")),
        },
    };
    Ok(if kind == ArrivalKind::Constant { Arrival::Constant { iops } } else { Arrival::Poisson { iops } })
}

fn end(text: &JobText, default: End) -> End {
    let end = End {
        after_ns: text.runtime.map(|time| time.0),
        after_bytes: text.bytes.map(|bytes| bytes.0),
        after_ios: text.ios,
        after_passes: text.passes,
        after_walks: None,
        pass_unit_bytes: 0,
    };
    if end == End::default() { default } else { end }
}

fn steady(text: &JobText, wrong: Wrong<'_>) -> Result<Option<Steady>, JobError> {
    let more = [
        ("steadystate_duration", text.steadystate_duration),
        ("steadystate_ramp_time", text.steadystate_ramp_time),
        ("steadystate_check_interval", text.steadystate_check_interval),
    ];
    let [window, ramp, every] = more.map(|(_, time)| time.map(|time| time.0));
    let Some(value) = text.steadystate else {
        let idle = more.into_iter().find(|(_, time)| time.is_some());
        return idle.map_or(Ok(None), |(key, _)| {
            Err(wrong(key, "it says more of `steadystate`: give that too, as steadystate = \"iops:5%\""))
        });
    };
    let window_ns = window
        .ok_or_else(|| wrong("steadystate_duration", "missing: how long must it be steady? Write e.g. \"30s\""))?;
    let (ramp_ns, every_ns) = (ramp.unwrap_or(0), every.unwrap_or(EVERY_NS));
    Ok(Some(Steady { criterion: value.0, limit: value.1, window_ns, ramp_ns, every_ns }))
}

fn access_calls(text: &JobText) -> (Calls, WaitMethod) {
    let (calls, wait) = match text.calls.unwrap_or(CallsKind::Ring) {
        CallsKind::Ring => (Calls::Ring, WaitMethod::Sleep),
        CallsKind::RingPolled => (Calls::RingPolled, WaitMethod::Spin),
        CallsKind::Sync => (Calls::Sync { high_priority: false }, WaitMethod::Sleep),
        CallsKind::SyncHipri => (Calls::Sync { high_priority: true }, WaitMethod::Sleep),
    };
    (calls, text.wait.map_or(wait, |wait| wait.0))
}
