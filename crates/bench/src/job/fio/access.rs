//! Engines, caches, durability: how I/O reaches the target.

use super::reader::Reader;
use crate::job::error::JobError;
use crate::job::model::{Access, Calls};
use forebay_block::WaitMethod;

/// Engines with an equivalent here.
const ENGINES: &[&str] = &["io_uring", "psync", "sync", "pvsync", "pvsync2", "vsync"];

/// Other engines for asynchronous block I/O; io_uring takes their place.
const ASYNCHRONOUS: &[&str] = &["libaio", "linux-aio", "posixaio", "guasi", "solarisaio", "windowsaio"];

/// Engines whose commands bypass the block layer.
const PASSING: &[&str] = &["io_uring_cmd", "sg", "libblkio", "xnvme"];

/// Engines that are a kind of target rather than a way to access one.
const TARGETS: &[&str] = &["null", "cpp_null", "nbd", "rbd", "libiscsi"];

/// Engines that access a memory mapping of the target.
const MAPPED: &[&str] = &["mmap", "libpmem", "dev-dax"];

/// Engines that move pages between files.
const MOVING: &[&str] = &["splice"];

fn is_known(engine: &str) -> bool {
    [ENGINES, ASYNCHRONOUS, PASSING, TARGETS, MAPPED, MOVING].iter().any(|list| list.contains(&engine))
}

/// fio's engines without an equivalent.
const OTHERS: &[&str] = &[
    "cpuio",
    "dfs",
    "dircreate",
    "dirdelete",
    "dirstat",
    "e4defrag",
    "exec",
    "external",
    "falloc",
    "filecreate",
    "filedelete",
    "fileoperation",
    "filestat",
    "ftruncate",
    "gfapi",
    "gfapi_async",
    "http",
    "ime_aio",
    "ime_psync",
    "ime_psyncv",
    "libcufile",
    "libhdfs",
    "libhipfile",
    "libzbc",
    "mtd",
    "net",
    "netsplice",
    "nfs",
    "page_fault",
    "rados",
    "rdma",
];

/// Refuses engines without an equivalent. This comes before all other keys, since an engine's keys mean nothing without it.
pub fn check_engine(reader: &Reader<'_>) -> Result<(), JobError> {
    let Some(engine) = reader.text("ioengine")? else { return Ok(()) };
    // `external:/path/to/engine.o` consists of a name and a path.
    let name = engine.split(':').next().unwrap_or(engine);
    if is_known(name) {
        return Ok(());
    }
    if OTHERS.contains(&name) {
        let advice =
            "it does something else than block I/O, or needs its own library; use io_uring or psync, and --target";
        return Err(reader.unsupported("ioengine", format!("the engine `{name}`"), advice));
    }
    let lists = [ENGINES, ASYNCHRONOUS, PASSING, TARGETS, MAPPED, MOVING, OTHERS];
    let known = lists.into_iter().flatten().copied();
    Err(JobError::unknown(&reader.place("ioengine"), "engine", name, known))
}

/// System calls, depth and way of waiting.
pub fn access(reader: &mut Reader<'_>) -> Result<(Access, u32, WaitMethod), JobError> {
    let polled = reader.is_on("hipri")?;
    let engine = reader.text("ioengine")?.unwrap_or("psync");
    let calls = match engine {
        "io_uring" if polled => Calls::RingPolled,
        "io_uring" => Calls::Ring,
        _ if ASYNCHRONOUS.contains(&engine) => {
            reader.note(format!("`ioengine={engine}`: io_uring is used, which costs less per I/O."));
            Calls::Ring
        }
        _ if PASSING.contains(&engine) => {
            reader.note(format!(
                "`ioengine={engine}`: its commands go past the block layer; io_uring is used, which sends them through it."
            ));
            if polled { Calls::RingPolled } else { Calls::Ring }
        }
        _ if TARGETS.contains(&engine) => {
            reader.note(format!("`ioengine={engine}`: --target decides (as `null:` or `nbd://...`)."));
            Calls::Ring
        }
        _ if MAPPED.contains(&engine) => {
            reader.note(format!(
                "`ioengine={engine}`: pread and pwrite through the page cache are used instead of a mapping."
            ));
            Calls::Sync { high_priority: false }
        }
        _ if MOVING.contains(&engine) => {
            reader.note(format!("`ioengine={engine}`: pread and pwrite are used instead, which copy."));
            Calls::Sync { high_priority: false }
        }
        "pvsync2" => Calls::Sync { high_priority: polled },
        _ => Calls::Sync { high_priority: false },
    };
    let mut depth = reader.count_u32("iodepth")?.unwrap_or(1);
    if matches!(calls, Calls::Sync { .. }) && depth > 1 {
        reader.note(format!("`iodepth` is 1 with the synchronous engine `{engine}`, in fio as here."));
        depth = 1;
    }
    let buffered = MAPPED.contains(&engine) || !reader.is_on("direct")?;
    if buffered {
        reader.note("Without direct=1, I/O goes through the page cache, as with fio: this measures memory as well.");
    }
    let dsync = match reader.text("sync")? {
        None | Some("none" | "0") => false,
        Some("dsync") => true,
        Some("sync" | "1") => {
            reader.note("`sync`: O_DSYNC is used for O_SYNC.");
            true
        }
        Some(other) => return Err(reader.wrong("sync", format!("{other:?}; none, sync or dsync"))),
    };
    let wait = if calls == Calls::RingPolled { WaitMethod::Spin } else { WaitMethod::Sleep };
    Ok((Access { calls, buffered, dsync }, depth, wait))
}

/// The CPUs of `cpus_allowed` (`0-3,8`) or `cpumask`.
pub fn cpus(reader: &mut Reader<'_>) -> Result<Vec<u32>, JobError> {
    let mut cpus = Vec::new();
    if let Some(text) = reader.text("cpus_allowed")? {
        let wrong = |part: &str| reader.wrong("cpus_allowed", format!("{part:?}; write numbers and ranges, as 0-3,8"));
        for part in text.split([',', ':']).map(str::trim) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let number =
                |text: &str| text.trim().parse::<u32>().ok().filter(|&cpu| cpu < crate::job::validate::MAX_CPUS);
            let (first, last) = number(first).zip(number(last)).ok_or_else(|| wrong(part))?;
            if first > last || cpus.len() > crate::job::validate::MAX_CPUS as usize {
                return Err(wrong(part));
            }
            cpus.extend(first..=last);
        }
    } else if let Some(mask) = reader.count("cpumask")? {
        cpus.extend((0..64).filter(|bit| mask >> bit & 1 == 1));
    }
    if cpus.len() > 1 && reader.text("cpus_allowed_policy")? != Some("split") {
        reader.note(
            "`cpus_allowed`: each thread is pinned to one of the CPUs, round robin, as with cpus_allowed_policy=split.",
        );
    }
    Ok(cpus)
}
