//! Converts a section to jobs.

use super::ini::Section;
use super::keys::{self, Class};
use super::reader::{Notes, Reader};
use super::units::Amount;
use super::{access, direction, pace, sizes, steady};
use crate::job::error::JobError;
use crate::job::model::{Arrival, Data, End, Evidence, Extent, Job, Mix, Pattern, SizeMix};
use crate::job::validate::MAX_THREADS;
use forebay_block::OpKind;

/// The jobs of a section.
pub struct Converted {
    /// Usually one job; one for each clone if `offset_increment` gives them different regions.
    pub jobs: Vec<Job>,
    /// The job that reads everything back after a writing job with `verify`, as fio does.
    pub read_back: Option<Job>,
    /// Whether the section waits for all jobs before it.
    pub stonewall: bool,
    /// Name of the job that the section waits for.
    pub wait_for: Option<String>,
}

/// Converts a section, which is job number `index` of its file.
pub fn convert(section: &Section, index: usize, file: &str, notes: &mut Notes) -> Result<Converted, JobError> {
    let mut reader = Reader::new(section, file, notes)?;
    access::check_engine(&reader)?;
    check_keys(&mut reader)?;
    let threads = reader.count_u32("numjobs")?.unwrap_or(1);
    if !(1..=MAX_THREADS).contains(&threads) {
        return Err(reader.wrong("numjobs", format!("{threads}; 1 to {MAX_THREADS}")));
    }
    if threads > 1 && !reader.has("filename") && !reader.has("offset_increment") {
        reader.note(
            "`numjobs` without `filename`: fio gives each clone a file of its own, here all of them share one region; \
             `offset_increment` parts it.",
        );
    }
    let (access, depth, wait) = access::access(&mut reader)?;
    let direction = direction::direction(&mut reader)?;
    let sizes = sizes::sizes(&mut reader)?;
    let mut mix = direction::mix(&mut reader, direction)?;
    let region = direction::region(&mut reader)?;
    let pattern = direction::pattern(&mut reader, direction, &sizes, &mix, region)?;
    let verify = verify(&mut reader)?;
    if reader.is_on("verify_only")? {
        mix = Mix::only(OpKind::Read);
    }
    let arrival = pace::arrival(&mut reader, &mut mix, &sizes, threads)?;
    let (think, burst) = pace::think(&mut reader, &arrival)?;
    let name = reader.text("name")?.unwrap_or(reader.name()).to_owned();
    let job = Job {
        name,
        threads,
        depth,
        end: pace::end(&mut reader, &pattern, region, direction.least_bytes(&sizes), threads)?,
        steady: steady::steady(&mut reader, threads)?,
        mix,
        sizes,
        pattern,
        region,
        arrival,
        think,
        burst,
        data: data(&mut reader)?,
        verify,
        warmup_ns: reader.time_ns("ramp_time", 1_000_000_000)?.unwrap_or(0),
        cooldown_ns: 0,
        start_delay_ns: reader.time_ns("startdelay", 1_000_000_000)?.unwrap_or(0),
        seed: seed(&mut reader, index, verify)?,
        cpus: access::cpus(&mut reader)?,
        wait,
        access,
        // fio submits each I/O by itself unless an option makes it gather several.
        single_submission: reader.count("iodepth_batch")?.is_none_or(|batch| batch == 1),
        evidence: Evidence::None,
    };
    let read_back = read_back(&mut reader, &job)?;
    Ok(Converted {
        jobs: apart(&mut reader, job)?,
        read_back,
        stonewall: reader.is_on("stonewall")?,
        wait_for: reader.text("wait_for")?.map(str::to_owned),
    })
}

/// Refuses or notes keys that are unknown, unsupported or without effect.
fn check_keys(reader: &mut Reader<'_>) -> Result<(), JobError> {
    let mut silent = Vec::new();
    let mut targets = Vec::new();
    for key in reader.keys() {
        match keys::class(key) {
            Some(Class::Used) => {}
            Some(Class::Target) => targets.push(key),
            Some(Class::Silent) => silent.push(key),
            Some(Class::Note) => reader.note(format!("`{key}` has no equal here and is not used.")),
            Some(Class::Refused) => {
                let value = reader.text(key).ok().flatten();
                if !matches!(value, Some("0" | "none")) {
                    let advice =
                        "without it something else would be measured; take the key out to run the job without it";
                    return Err(reader.unsupported(key, format!("`{key}`"), advice));
                }
            }
            None => return Err(JobError::unknown(&reader.place(key), "key", key, keys::names())),
        }
    }
    for key in ["end_fsync", "fsync_on_close", "exitall", "random_generator", "percentage_sequential"] {
        if reader.has(key) && reader.flag(key).ok().flatten() != Some(false) {
            reader.note(format!("`{key}` has no equal here and is not used."));
        }
    }
    if !targets.is_empty() {
        reader.note(format!("{}: not used; --target decides what is measured.", targets.join(", ")));
    }
    if !silent.is_empty() {
        reader.note(format!("{}: not used; nothing that is measured depends on it.", silent.join(", ")));
    }
    Ok(())
}

const CHECKSUMS: &[&str] = &[
    "md5",
    "crc64",
    "crc32c",
    "crc32c-intel",
    "crc32",
    "crc16",
    "crc7",
    "xxhash",
    "sha512",
    "sha256",
    "sha1",
    "sha3-224",
    "sha3-256",
    "sha3-384",
    "sha3-512",
    "meta",
    "pattern",
    "pattern_hdr",
];

fn verify(reader: &mut Reader<'_>) -> Result<bool, JobError> {
    let Some(kind) = reader.text("verify")? else { return Ok(false) };
    match kind {
        "0" | "none" => Ok(false),
        "null" => {
            reader.note("`verify=null` pretends to verify; nothing is verified.");
            Ok(false)
        }
        _ if CHECKSUMS.contains(&kind) => {
            reader.note(format!("`verify={kind}`: blocks carry and are checked by the headers of this tool."));
            Ok(true)
        }
        _ => Err(JobError::unknown(&reader.place("verify"), "way to verify", kind, CHECKSUMS.iter().copied())),
    }
}

/// After a job that writes every block of its region: a job that reads the region once and checks it. A job that may leave blocks unwritten
/// gets none, because such blocks have no header to check.
fn read_back(reader: &mut Reader<'_>, job: &Job) -> Result<Option<Job>, JobError> {
    let writes = job.mix.kinds().any(|kind| kind == OpKind::Write);
    if !job.verify || !writes || !reader.flag("do_verify")?.unwrap_or(true) {
        return Ok(None);
    }
    let complete = matches!(job.pattern, Pattern::Sequential { .. } | Pattern::Shuffled)
        && job.mix.weights == [(OpKind::Write, 100)]
        && job.sizes.write.choices.len() == 1
        && job.end.after_passes.is_some_and(|passes| passes >= 1.0)
        && job.end
            == End { after_passes: job.end.after_passes, pass_unit_bytes: job.end.pass_unit_bytes, ..End::default() }
        && !reader.has("offset_increment");
    if !complete {
        reader.note(
            "`verify`: the job may leave blocks unwritten, so that nothing is read back after it; its own reads are \
             checked.",
        );
        return Ok(None);
    }
    reader.note(
        "`verify`: what was written is read back and checked by a job of its own, NAME-verify, in the next group.",
    );
    let size: SizeMix = job.sizes.write.clone();
    Ok(Some(Job {
        name: format!("{}-verify", job.name),
        threads: 1,
        mix: Mix::only(OpKind::Read),
        sizes: crate::job::model::Sizes { read: size.clone(), write: size.clone(), trim: size },
        pattern: Pattern::Sequential { per_thread: false },
        arrival: Arrival::Closed,
        think: None,
        burst: None,
        end: End { after_passes: Some(1.0), pass_unit_bytes: job.end.pass_unit_bytes, ..End::default() },
        steady: None,
        warmup_ns: 0,
        start_delay_ns: 0,
        ..job.clone()
    }))
}

fn data(reader: &mut Reader<'_>) -> Result<Data, JobError> {
    let compress = reader.percent("buffer_compress_percentage")?.unwrap_or(0);
    Ok(Data {
        compressible_percent: if reader.is_on("zero_buffers")? { 100 } else { compress },
        duplicate_percent: reader.percent("dedupe_percentage")?.unwrap_or(0),
    })
}

/// The seed of a job. Jobs of one file draw different numbers, as in fio; but a job that verifies may check what another has written, so it
/// uses the same seed.
fn seed(reader: &mut Reader<'_>, index: usize, verify: bool) -> Result<u64, JobError> {
    let own = if verify { 0 } else { index as u64 };
    if let Some(seed) = reader.count("randseed")? {
        return Ok(seed.wrapping_add(own));
    }
    if reader.flag("randrepeat")? == Some(false) || reader.flag("allrandrepeat")? == Some(false) {
        reader.note("`randrepeat=0`: the seeds are the same in every run here; randseed=N gives another.");
    }
    Ok(Job::default().seed.wrapping_add(own))
}

/// `offset_increment`: for each clone a job with one thread and its own region.
fn apart(reader: &mut Reader<'_>, job: Job) -> Result<Vec<Job>, JobError> {
    let key = "offset_increment";
    let step = match reader.amount(key)? {
        None | Some(Amount::Bytes(0)) => return Ok(vec![job]),
        Some(step) => step,
    };
    if job.threads == 1 {
        return Ok(vec![job]);
    }
    let clones = job.threads;
    reader.note(format!("`{key}`: each of the clones is a job of its own."));
    let divided = |limit: Option<u64>| limit.map(|limit| (limit / u64::from(clones)).max(1));
    let each = |index: u32| {
        let offset = match (job.region.offset, step) {
            (Extent::Bytes(first), Amount::Bytes(step)) => {
                step.checked_mul(u64::from(index)).and_then(|moved| first.checked_add(moved)).map(Extent::Bytes)
            }
            (Extent::Bytes(0), Amount::Percent(step)) => Some(Extent::Percent(step * f64::from(index))),
            (Extent::Percent(first), Amount::Percent(step)) => Some(Extent::Percent(first + step * f64::from(index))),
            _ => None,
        };
        let offset =
            offset.ok_or_else(|| reader.wrong(key, "too far, or bytes beside an offset in percent: use one unit"))?;
        let mut one = job.clone();
        one.name = format!("{}.{index}", job.name);
        one.threads = 1;
        // Far from the seeds of the following jobs, which count up from this one's.
        one.seed = if job.verify { job.seed } else { job.seed.wrapping_add(u64::from(index) << 32) };
        one.region.offset = offset;
        one.region = direction::cut(one.region);
        one.arrival = share(&job.arrival, clones);
        one.end.after_bytes = divided(job.end.after_bytes);
        one.end.after_ios = divided(job.end.after_ios);
        one.end.after_walks = divided(job.end.after_walks);
        one.end.after_passes = job.end.after_passes.map(|passes| passes / f64::from(clones));
        if let Some(&cpu) = job.cpus.get(index as usize % job.cpus.len().max(1)) {
            one.cpus = vec![cpu];
        }
        Ok(one)
    };
    (0..clones).map(each).collect()
}

/// The part of one clone in the rate of all clones.
fn share(arrival: &Arrival, clones: u32) -> Arrival {
    let clones = f64::from(clones);
    match arrival {
        Arrival::Throttled { iops, bytes_per_second } => Arrival::Throttled {
            iops: iops.map(|iops| iops / clones),
            bytes_per_second: bytes_per_second.map(|bytes| bytes / clones),
        },
        Arrival::Constant { iops } => Arrival::Constant { iops: iops / clones },
        Arrival::Poisson { iops } => Arrival::Poisson { iops: iops / clones },
        other => other.clone(),
    }
}
