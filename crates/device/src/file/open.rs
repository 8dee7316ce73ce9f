//! Opens a file or block device: exclusively, for direct I/O where possible, and with all that is known about it.

use super::holder::{GONE_TIMEOUT, Holder};
use super::kernel;
use super::write_cache::is_volatile;
use crate::open_error::OpenError;
use forebay_block::{Buf, Geometry};
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use tracing::{info, warn};

/// Access to a target, and what others may do meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// Only reads. Others may read, too.
    ReadOnly,
    /// Reads only, beside whoever has it and may change it meanwhile: what is read may be of several moments.
    ReadBeside,
    /// Reads only; nobody may change it meanwhile: a block device cannot be mounted, or whatever else holds one.
    ReadAlone,
    /// Reads and writes. Nobody else may have the target open.
    ReadWrite,
}

/// How to open a file or block device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileOptions {
    /// Access to the target.
    pub mode: OpenMode,
    /// Whether to use io_uring where the system allows it.
    pub ring: bool,
    /// Whether to bypass the page cache where the file system allows it.
    pub direct: bool,
    /// How long to try again while a process that runs has it, which may be just ending. Where that has ended, or nobody knows who has it, it is
    /// waited for longer, unless this is zero: the kernel closes the files of a killed process's rings after the process is gone, on a busy machine
    /// seconds later.
    pub timeout: Duration,
}

impl FileOptions {
    /// The defaults: io_uring unless the environment variable `FOREBAY_NO_IO_URING` is 1, direct I/O, a timeout of
    /// one second.
    #[must_use]
    pub fn new(mode: OpenMode) -> Self {
        let forbidden = std::env::var_os("FOREBAY_NO_IO_URING").is_some_and(|value| value == "1");
        Self { mode, ring: !forbidden, direct: true, timeout: Duration::from_secs(1) }
    }
}

/// Properties of the medium that transfers need.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Medium {
    pub(crate) block_device: bool,
    pub(crate) direct: bool,
    /// Alignment of buffers in memory, in bytes.
    pub(crate) memory_align_bytes: usize,
    pub(crate) logical_block_bytes: u32,
    /// Highest write stream of the device; 0: none.
    pub(crate) streams: u8,
    /// Whether each write must be made durable before it completes, because the device has gained a volatile cache
    /// that nobody flushes. `None` where the cache is not watched.
    pub(crate) writes_through: Option<&'static AtomicBool>,
}

impl Medium {
    pub(crate) fn block_bytes(&self) -> u64 {
        u64::from(self.logical_block_bytes)
    }

    /// Whether a bounce buffer is needed because the buffers are not aligned for the medium. Each segment must be
    /// aligned, not just their sum.
    pub(crate) fn needs_bounce<'a>(&self, mut slices: impl Iterator<Item = &'a [u8]>) -> bool {
        let block = self.logical_block_bytes as usize;
        self.direct
            && slices.any(|slice| {
                !(slice.as_ptr() as usize).is_multiple_of(self.memory_align_bytes) || !slice.len().is_multiple_of(block)
            })
    }
}

/// An opened file with all that is known about it.
pub(crate) struct Opened {
    pub(crate) file: File,
    /// The file behind a loop device, which is held, too.
    pub(crate) behind: Option<File>,
    pub(crate) geometry: Geometry,
    pub(crate) medium: Medium,
    /// The file in sysfs that says that the device has no volatile cache; this may change later.
    pub(crate) cache_says: Option<PathBuf>,
}

/// Largest logical block that the pool supports, in bytes.
const LOGICAL_BLOCK_MAX_BYTES: u32 = 4096;

pub(crate) fn open(path: &Path, options: &FileOptions) -> Result<Opened, OpenError> {
    retry_while_in_use(options.timeout, || open_once(path, options, options.mode != OpenMode::ReadBeside))
}

/// As [`open`], without a lock: the caller has locked the file from [`open_holder`].
pub(crate) fn open_unlocked(path: &Path, options: &FileOptions) -> Result<Opened, OpenError> {
    open_once(path, options, false)
}

/// Opens a file or block device only to keep others away from it, with [`lock`]. For a block device that may be
/// changed, opening it already claims it.
pub(crate) fn open_holder(path: &Path, mode: OpenMode) -> Result<File, OpenError> {
    let block_device = is_block_device(path)?;
    let write = mode == OpenMode::ReadWrite;
    let flags = claim_flags(block_device && mode != OpenMode::ReadOnly);
    let opened = OpenOptions::new().read(true).write(write).custom_flags(flags).open(path);
    let file = opened.map_err(|source| open_error(path, source))?;
    metadata_of(&file, path, block_device)?;
    Ok(file)
}

/// A wait that is longer than this is logged.
const QUIET: Duration = Duration::from_secs(1);

/// Tries again for a while where somebody else has it: for `timeout` where that is a process that runs.
pub(crate) fn retry_while_in_use<T>(
    timeout: Duration,
    mut attempt: impl FnMut() -> Result<T, OpenError>,
) -> Result<T, OpenError> {
    let started = Instant::now();
    let (mut since, mut limit) = (started, Duration::ZERO);
    let mut has_said = false;
    loop {
        let result = attempt();
        let Err(OpenError::InUse { path, holder }) = result else {
            if has_said && result.is_ok() {
                info!("what was in use is free after {:.1} s", started.elapsed().as_secs_f64());
            }
            return result;
        };
        // A lock may go, or become another's, between the attempt and the look at who has it: each is waited for by itself, and all together no longer
        // than for two.
        let of_holder = holder.timeout(timeout);
        if of_holder != limit {
            (since, limit) = (Instant::now(), of_holder);
        }
        if since.elapsed() >= limit || started.elapsed() >= 2 * GONE_TIMEOUT.max(timeout) {
            return Err(OpenError::InUse { path, holder });
        }
        let is_long = matches!(holder, Holder::Ended { .. } | Holder::Unknown) && since.elapsed() >= QUIET;
        if is_long && !std::mem::replace(&mut has_said, true) {
            let who = match holder {
                Holder::Ended { pid } => format!("what process {pid}, which has ended, had open"),
                _ => "somebody of whom the system does not tell".to_owned(),
            };
            warn!(
                cause = "in use",
                "{} is still held by {who}: it is waited for up to {} s",
                path.display(),
                limit.as_secs()
            );
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn open_error(path: &Path, source: io::Error) -> OpenError {
    match source.raw_os_error() {
        Some(libc::EBUSY) => OpenError::InUse { path: path.to_owned(), holder: Holder::of_path(path) },
        _ => OpenError::Open { path: path.to_owned(), source },
    }
}

/// Whether the path is a block device; an error where it is no regular file either. This is checked before opening:
/// opening a FIFO would block, and opening a terminal has side effects.
fn is_block_device(path: &Path) -> Result<bool, OpenError> {
    let kind = std::fs::metadata(path).map_err(|source| open_error(path, source))?.file_type();
    if !kind.is_file() && !kind.is_block_device() {
        return Err(OpenError::NotStorage { path: path.to_owned() });
    }
    Ok(kind.is_block_device())
}

/// Checks the opened file: what the path led to may have changed since it was examined.
fn metadata_of(file: &File, path: &Path, block_device: bool) -> Result<Metadata, OpenError> {
    let metadata = file.metadata().map_err(|source| open_error(path, source))?;
    if metadata.file_type().is_block_device() != block_device || !(block_device || metadata.is_file()) {
        return Err(OpenError::NotStorage { path: path.to_owned() });
    }
    Ok(metadata)
}

/// O_EXCL on a block device without O_CREAT: fails with EBUSY while it is mounted or otherwise claimed (open(2)).
fn claim_flags(claim: bool) -> i32 {
    if claim { libc::O_EXCL } else { 0 }
}

fn open_once(path: &Path, options: &FileOptions, guarded: bool) -> Result<Opened, OpenError> {
    let open_error = |source: io::Error| open_error(path, source);
    let block_device = is_block_device(path)?;
    let write = options.mode == OpenMode::ReadWrite;
    let is_alone = !matches!(options.mode, OpenMode::ReadOnly | OpenMode::ReadBeside);
    let exclusive = claim_flags(guarded && block_device && is_alone);
    let with_flags = |flags: i32| OpenOptions::new().read(true).write(write).custom_flags(flags | exclusive).open(path);
    let guard = |file: &File| if guarded { lock(file, path, is_alone) } else { Ok(()) };
    let (mut file, mut direct) = match options.direct.then(|| with_flags(libc::O_DIRECT)) {
        Some(Ok(file)) => (file, true),
        // EINVAL: the file system does not support direct I/O (open(2)).
        Some(Err(error)) if error.raw_os_error() == Some(libc::EINVAL) => (with_flags(0).map_err(open_error)?, false),
        Some(Err(error)) => return Err(open_error(error)),
        None => (with_flags(0).map_err(open_error)?, false),
    };
    let metadata = metadata_of(&file, path, block_device)?;
    guard(&file)?;

    let mut alignment = if direct { probe_alignment(&file, block_device) } else { None };
    if direct && alignment.is_none() {
        // The flag was accepted, but no aligned read works, so the page cache is used. The lock belongs to the old
        // file description, which must be closed first.
        drop(file);
        file = with_flags(0).map_err(open_error)?;
        guard(&file)?;
        direct = false;
    }
    if block_device {
        let source = |source| OpenError::Probe { path: path.to_owned(), what: "logical block size", source };
        let sector = kernel::block_device_sector(file.as_fd()).map_err(source)?;
        alignment = Some(Alignment { block_bytes: sector, ..alignment.unwrap_or_default() });
    }
    let alignment = alignment.unwrap_or_default();
    if !(512..=LOGICAL_BLOCK_MAX_BYTES).contains(&alignment.block_bytes) || !alignment.block_bytes.is_power_of_two() {
        let source = io::Error::other(format!("{} bytes are not supported", alignment.block_bytes));
        return Err(OpenError::Probe { path: path.to_owned(), what: "logical block size", source });
    }
    let size_bytes = if block_device {
        let source = |source| OpenError::Probe { path: path.to_owned(), what: "size", source };
        kernel::block_device_size(file.as_fd()).map_err(source)?
    } else {
        metadata.len()
    };
    let block = u64::from(alignment.block_bytes);
    if size_bytes < block {
        return Err(OpenError::TooSmall { path: path.to_owned(), size_bytes });
    }
    let behind = if guarded && block_device { hold_behind(metadata.rdev(), path, write)? } else { None };
    let queue = if block_device { Queue::of(metadata.rdev()) } else { Queue::file() };
    if queue.zoned == "host-managed" && write {
        return Err(OpenError::HostManaged { path: path.to_owned() });
    }
    let geometry = Geometry {
        size_bytes: size_bytes / block * block,
        logical_block_bytes: alignment.block_bytes,
        optimal_band_bytes: queue.band_bytes,
        volatile_cache: queue.volatile_cache,
        durable_writes: queue.durable_writes,
        discards: queue.discards,
    };
    let medium = Medium {
        block_device,
        direct,
        memory_align_bytes: alignment.memory_bytes as usize,
        logical_block_bytes: alignment.block_bytes,
        streams: queue.streams,
        writes_through: None,
    };
    Ok(Opened { file, behind, geometry, medium, cache_says: queue.cache_says.filter(|_| write) })
}

/// Locks the file behind a loop device (sysfs: `loop/backing_file`), so that nobody uses it directly. Where the loop
/// device covers only part of the file, the lock is shared, so that other parts can be used. A file that cannot be
/// opened or locked here is ignored: it may be in another mount namespace, deleted, or on a file system without
/// locks.
fn hold_behind(device: u64, path: &Path, exclusive: bool) -> Result<Option<File>, OpenError> {
    let (major, minor) = (libc::major(device), libc::minor(device));
    let said = |what| std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/loop/{what}"));
    let Ok(name) = said("backing_file") else { return Ok(None) };
    let is_whole = ["offset", "sizelimit"].into_iter().all(|what| said(what).is_ok_and(|text| text.trim() == "0"));
    // NFS takes an exclusive lock only on a file that is open for writing (flock(2)). The name may lead to a FIFO by
    // now, hence O_NONBLOCK.
    let options = OpenOptions::new().read(true).write(exclusive).custom_flags(libc::O_NONBLOCK).clone();
    let Ok(file) = options.open(name.trim_end_matches('\n')) else { return Ok(None) };
    match lock(&file, path, exclusive && is_whole) {
        Ok(()) => Ok(Some(file)),
        Err(refusal @ OpenError::InUse { .. }) => Err(refusal),
        Err(_) => Ok(None),
    }
}

/// Takes the advisory lock of a file without waiting.
pub(crate) fn lock(file: &File, path: &Path, exclusive: bool) -> Result<(), OpenError> {
    let locked = match kernel::try_lock(file.as_fd(), exclusive) {
        // NFS takes an exclusive lock only on a file that is open for writing.
        Err(error) if exclusive && error.raw_os_error() == Some(libc::EBADF) => kernel::try_lock(file.as_fd(), false),
        locked => locked,
    };
    match locked {
        Ok(true) => Ok(()),
        Ok(false) => Err(OpenError::InUse { path: path.to_owned(), holder: Holder::of_file(file.as_fd()) }),
        Err(source) => Err(OpenError::Probe { path: path.to_owned(), what: "lock", source }),
    }
}

#[derive(Clone, Copy, Debug)]
struct Alignment {
    memory_bytes: u32,
    block_bytes: u32,
}

impl Default for Alignment {
    fn default() -> Self {
        Self { memory_bytes: 512, block_bytes: 512 }
    }
}

/// Alignment for direct I/O; `None` where direct I/O does not work.
fn probe_alignment(file: &File, block_device: bool) -> Option<Alignment> {
    if let Some(direct) = kernel::direct_alignment(file.as_fd()) {
        let block_bytes = direct.offset_bytes.max(512);
        let memory_bytes = direct.memory_bytes.max(1);
        return (direct.offset_bytes > 0).then_some(Alignment { memory_bytes, block_bytes });
    }
    // Older kernels do not report it. The smallest read that works gives the alignment of the block; the same is used
    // for memory, as the strictest rule that was ever in force.
    let mut buf = Buf::new(4096);
    [512usize, 4096].into_iter().find_map(|size| {
        let works = match file.read_at(&mut buf[..size], 0) {
            Ok(_) => true,
            // An error other than EINVAL, such as a damaged first sector, says nothing about the alignment.
            Err(error) => error.raw_os_error() != Some(libc::EINVAL),
        };
        let bytes = size as u32;
        works.then_some(Alignment {
            memory_bytes: if block_device { bytes } else { bytes.max(512) },
            block_bytes: bytes,
        })
    })
}

/// Properties of a block device's queue in sysfs (Documentation/ABI/stable/sysfs-block).
struct Queue {
    volatile_cache: bool,
    /// The file in sysfs that says that there is no volatile cache.
    cache_says: Option<PathBuf>,
    durable_writes: bool,
    discards: bool,
    band_bytes: Option<u64>,
    zoned: String,
    streams: u8,
}

impl Queue {
    /// A file: the page cache or the disk below may lose data that was not synced, and most file systems can punch
    /// holes.
    fn file() -> Self {
        Self {
            volatile_cache: true,
            cache_says: None,
            durable_writes: false,
            discards: true,
            band_bytes: None,
            zoned: "none".to_owned(),
            streams: 0,
        }
    }

    fn of(rdev: u64) -> Self {
        let device = PathBuf::from(format!("/sys/dev/block/{}:{}", libc::major(rdev), libc::minor(rdev)));
        // A partition has no queue of its own; its parent directory is that of the disk.
        let queues = [device.join("queue"), device.join("../queue")];
        let file = |name: &str| {
            let read = |path: PathBuf| std::fs::read_to_string(&path).ok().map(|text| (path, text.trim().to_owned()));
            queues.iter().find_map(|queue| read(queue.join(name)))
        };
        let text = |name: &str| file(name).map(|(_, text)| text);
        let number = |name: &str| text(name).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
        let zoned = text("zoned").unwrap_or_else(|| "none".to_owned());
        // chunk_sectors is the zone size on zoned devices. On others it is a stripe, not a unit of erasure.
        let band_bytes = (zoned != "none").then(|| number("chunk_sectors") * 512).filter(|&bytes| bytes > 0);
        let cache = file("write_cache");
        let volatile_cache = is_volatile(cache.as_ref().map(|(_, text)| text.as_str()));
        Self {
            volatile_cache,
            cache_says: cache.map(|(path, _)| path).filter(|_| !volatile_cache),
            durable_writes: number("fua") > 0,
            discards: number("discard_max_bytes") > 0,
            band_bytes,
            zoned,
            streams: u8::try_from(number("max_write_streams")).unwrap_or(u8::MAX),
        }
    }
}
