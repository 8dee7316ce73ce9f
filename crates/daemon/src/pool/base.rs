//! Bases of disks: devices with the user's data over which disks are laid. A base is opened for reading and held open
//! until its disk is adopted.

use super::Opening;
use super::devices::open_target;
use super::memory::Budget;
use crate::config::{Config, Disk};
use crate::text;
use anyhow::{Context, Result, anyhow, bail, ensure};
use forebay_block::checksum::crc32c;
use forebay_block::{BLOCK_BYTES_U64 as BLOCK, Device, DiskId, IoError};
use forebay_device::{OpenMode, Target};
use forebay_volume::layout::base::Base;
use forebay_volume::{Devices, Engine, Pool};
use serde_json::{Value, json};
use std::fs::Metadata;
use thiserror::Error;
use tracing::{info, warn};

/// Samples of a base whose checksums identify it: `PARTS` of `PART_BYTES` each, spread evenly, and the first
/// `HEAD_BYTES`, in which file systems, partition tables and databases leave a trace of each change.
const PARTS: u64 = 64;
const PART_BYTES: u64 = 16 << 10;
const HEAD_BYTES: u64 = 1 << 20;

/// How often a base is read until two readings agree.
const READINGS: u32 = 5;

/// Opens the device that a disk is to be laid over, and returns it with its size and identity.
///
/// # Errors
/// The device cannot be a base; the message says why, and what to do.
pub fn open(name: &str, size_bytes: u64, target: &Target) -> Result<(Box<dyn Device>, Base)> {
    let (mut devices, base_bytes) = open_unknown(name, size_bytes, target)?;
    let identity = identity(sums(&mut devices, base_bytes)).with_context(|| what(name, target))?;
    Ok((alone(devices)?, Base { blocks: base_bytes / BLOCK, identity }))
}

fn what(name: &str, target: &Target) -> String {
    format!("base {target} of disk {name:?}")
}

fn alone(mut devices: Devices) -> Result<Box<dyn Device>> {
    devices.list.pop().context("a device that was there a moment ago")
}

/// Opens such a device without a look at its contents, and returns it with its size in bytes.
fn open_unknown(name: &str, size_bytes: u64, target: &Target) -> Result<(Devices, u64)> {
    let what = || what(name, target);
    if let Some(why) = target.not_a_base() {
        return Err(why).with_context(what);
    }
    let device = open_target(target, OpenMode::ReadAlone).with_context(what)?;
    let base_bytes = device.geometry().size_bytes;
    // A device ends with its last whole logical block. A file may be longer, and its last bytes would be left out
    // silently.
    let file_bytes =
        target.path().and_then(|path| path.metadata().ok()).filter(Metadata::is_file).map(|file| file.len());
    let whole_bytes = file_bytes.unwrap_or(base_bytes);
    ensure!(
        whole_bytes.is_multiple_of(BLOCK) && base_bytes > 0,
        "{} has {whole_bytes} bytes: a base is a multiple of 4096 long",
        what()
    );
    ensure!(
        base_bytes <= size_bytes,
        "{} has {base_bytes} bytes ({}) and does not fit into the {size_bytes} of the disk: make that as large at least",
        what(),
        text::size(base_bytes)
    );
    Ok((Devices::new(vec![device]), base_bytes))
}

/// A place by which a base is recognised cannot be read.
#[derive(Debug, Error)]
#[error(
    "a part by which it is recognised cannot be read: {0}. Copy what can be read of it to another device (`ddrescue`), and lay the disk over that; \
     where the disk lies over this one already it has to be readable there"
)]
struct Unreadable(IoError);

/// Sums over the head of a device, and over its size and samples of all of it. Another device, or this one with other data, has other ones.
fn sums(devices: &mut Devices, base_bytes: u64) -> [Result<u32>; 2] {
    let mut read = |at: u64, len: u64| devices.read(0, at, len.min(base_bytes - at) as usize).map_err(Unreadable);
    let head = agreed(|| Ok(crc32c(&read(0, HEAD_BYTES)?)));
    let samples = agreed(|| {
        let mut parts = base_bytes.to_le_bytes().to_vec();
        for part in 0..PARTS {
            let at = (base_bytes / PARTS * part) / BLOCK * BLOCK;
            parts.extend(crc32c(&read(at, PART_BYTES)?).to_le_bytes());
        }
        let last = base_bytes.saturating_sub(PART_BYTES);
        parts.extend(crc32c(&read(last, PART_BYTES)?).to_le_bytes());
        Ok(crc32c(&parts))
    });
    [head, samples]
}

/// What two readings in succession agree on: one bad transfer alone would name a device that does not exist.
fn agreed(mut read: impl FnMut() -> Result<u32>) -> Result<u32> {
    let mut last = read()?;
    for _ in 1..READINGS {
        let before = std::mem::replace(&mut last, read()?);
        if before == last {
            return Ok(last);
        }
    }
    bail!(
        "it gives something else each time that it is read: it is being written to, or damaged; look at it, and at what else uses it"
    )
}

/// The number by which a device is recognised.
fn identity([head, samples]: [Result<u32>; 2]) -> Result<u64> {
    Ok(u64::from(head?) << 32 | u64::from(samples?))
}

/// The sums where one of them that cannot be read is taken to be what it was; and why it cannot be. The other one has to show by itself that
/// this is the device: without either nothing does.
fn excused(sums: [Result<u32>; 2], expected: u64) -> ([Result<u32>; 2], Option<anyhow::Error>) {
    match sums {
        [Err(why), Ok(samples)] if why.is::<Unreadable>() => ([Ok((expected >> 32) as u32), Ok(samples)], Some(why)),
        [Ok(head), Err(why)] if why.is::<Unreadable>() => ([Ok(head), Ok(expected as u32)], Some(why)),
        sums => (sums, None),
    }
}

/// Attaches the bases of all disks that have one. A pool opened for reading serves its disks without bases that are
/// missing; blocks that only such a base holds cannot be read. Without the fast tier no base is attached, because the
/// capacity tier does not distinguish discarded blocks from blocks that were never written.
///
/// # Errors
/// A base is missing, or is not the device that the disk was laid over; the message says what to do.
pub fn attach_all(config: &Config, pool: &mut Pool, opening: Opening) -> Result<()> {
    for disk in config.disk.iter().filter(|disk| disk.base.is_some()) {
        if pool.engine.disk_named(&disk.name).is_some_and(|real| real.base.is_none()) {
            warn!(
                cause = "base not used",
                advice = "Keep that device until detach-base was answered, or a scrub of the pool has found no damage; then remove `base` from the configuration",
                "disk {:?} lies over nothing, as its base was detached or it was made without one: `base` is not used",
                disk.name
            );
        }
    }
    let over: Vec<(DiskId, String, u64, Base)> = pool
        .engine
        .disks()
        .filter_map(|disk| Some((disk.id, disk.name.clone(), disk.size_bytes, disk.base?)))
        .collect();
    if !opening.is_for_service() && !over.is_empty() {
        pool.engine.serve_without_bases();
    }
    for (id, name, size_bytes, base) in over {
        if pool.engine.disks().any(|disk| disk.id == id && disk.is_being_removed()) {
            // The disk is being removed, so nobody reads its base any more.
            if opening.is_for_service() {
                pool.engine.abandon_base(id);
            }
            continue;
        }
        if opening == Opening::WithoutFast {
            warn!("disk {name} lies over a base: what the capacity tier does not have of it cannot be read here");
            continue;
        }
        let configured = config.disk.iter().find(|disk| disk.name == name);
        match found(&name, size_bytes, base, configured, opening) {
            Ok(device) => {
                info!("disk {name} lies over {}, which is being copied into the pool", device.name());
                pool.attach_base(id, device);
            }
            Err(error) if opening == Opening::AcceptLoss => warn!(
                cause = "base missing",
                advice = "Bring its base back and start again; or give the disk up with `forebay disk CONFIG remove`",
                "disk {name:?} is not served, as it lacks its base; the others are: {}",
                text::chain(&error)
            ),
            Err(error) if opening.is_for_service() => return Err(error),
            Err(error) => warn!("{}; what is in it alone cannot be read", text::chain(&error)),
        }
    }
    Ok(())
}

/// The device that a disk was laid over, if that is what is configured.
fn found(
    name: &str,
    size_bytes: u64,
    base: Base,
    configured: Option<&Disk>,
    opening: Opening,
) -> Result<Box<dyn Device>> {
    let Some(target) = configured.and_then(|disk| disk.base.as_ref()) else {
        bail!(
            "disk {name:?} lies over a base of {} that was not copied to its end: name it, as `base` of a [[disk]] {name:?} in the configuration",
            text::size(base.blocks * BLOCK)
        );
    };
    let needs = |error: anyhow::Error| {
        anyhow!(
            "{}; disk {name:?} needs its base until all of it is in the pool and `forebay disk CONFIG detach-base {name}` was answered: bring it back, \
             or correct `base` of the [[disk]]; `forebay serve --accept-loss CONFIG` serves the pool without it",
            text::chain(&error)
        )
    };
    let (mut devices, base_bytes) = open_unknown(name, size_bytes, &target.0).map_err(needs)?;
    ensure!(
        base_bytes == base.blocks * BLOCK,
        "disk {name:?} was laid over a device of {} bytes, and {} has {base_bytes}: name the one that it was laid over",
        base.blocks * BLOCK,
        target.0
    );
    let (sums, unread) = match (sums(&mut devices, base_bytes), opening) {
        (sums, Opening::AcceptLoss) => excused(sums, base.identity),
        (sums, _) => (sums, None),
    };
    let identity = identity(sums).with_context(|| what(name, &target.0)).map_err(needs)?;
    ensure!(
        identity == base.identity,
        "{} is not what disk {name:?} was laid over, or was written to since: bring back what it was; nothing may change it before `forebay disk \
         CONFIG detach-base {name}`",
        target.0
    );
    if let Some(why) = unread {
        warn!("{} is taken for the base of disk {name:?} by what can be read of it: {}", target.0, text::chain(&why));
    }
    alone(devices)
}

/// Creates a disk over a base that was opened.
///
/// # Errors
/// The pool refuses the disk. No disk is left behind.
pub fn add_disk(
    pool: &mut Pool,
    (name, size_bytes): (&str, u64),
    (device, base): (Box<dyn Device>, Base),
) -> Result<DiskId> {
    let id = pool.engine.add_disk(name, size_bytes).map_err(|error| anyhow!(Budget::explain(&error)))?;
    pool.engine.lay_over(id, base).map_err(|error| anyhow!(error))?;
    pool.attach_base(id, device);
    Ok(id)
}

/// Progress of copying a disk's base, as JSON for the status; null where the disk has no base.
pub fn json(engine: &Engine, disk: DiskId) -> Value {
    let Some(status) = engine.adoption(disk) else { return Value::Null };
    json!({
        "size_bytes": status.blocks * BLOCK,
        "copied_bytes": status.done_blocks * BLOCK,
        "failed_bytes": status.failed_blocks * BLOCK,
        "complete": status.is_complete,
        "detaching": status.is_leaving,
        "missing": status.is_missing,
        "why": status.why.map(|why| why.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_device::faulty::{Fault, Target as Concerned};
    use forebay_device::image::ImageDevice;
    use forebay_device::{FaultyDevice, Image};

    /// Regression: the message named the unreadable block, but not what to do.
    #[test]
    fn regression_a_base_that_cannot_be_read_where_it_is_recognised_is_refused_with_advice() {
        const BYTES: u64 = 32 << 20;
        let identity_with_bad = |at: u64| {
            let mut device = FaultyDevice::new(ImageDevice::new(Image::zeroed(BYTES)));
            device.plan(Fault::range(Concerned::Reads, at..at + BLOCK));
            identity(sums(&mut Devices::new(vec![Box::new(device)]), BYTES))
        };
        let why = identity_with_bad(8 << 20).unwrap_err().to_string();
        assert!(why.contains("offset 8388608") && why.contains("ddrescue"), "{why}");
        identity_with_bad((8 << 20) + (256 << 10)).unwrap();
    }

    /// A device of the right size with one unreadable place was taken for the base with `--accept-loss`, whatever the rest of it was.
    #[test]
    fn regression_a_base_that_cannot_be_read_somewhere_is_recognised_by_the_rest() {
        const BYTES: u64 = 32 << 20;
        let sums_of = |fill: u8, bad: &[u64]| {
            let image = Image::from_bytes(&vec![fill; BYTES as usize]);
            let mut device = FaultyDevice::new(ImageDevice::new(image));
            bad.iter().for_each(|&at| device.plan(Fault::range(Concerned::Reads, at..at + BLOCK)));
            sums(&mut Devices::new(vec![Box::new(device)]), BYTES)
        };
        let expected = identity(sums_of(1, &[])).unwrap();
        let excused_with = |fill: u8, bad: &[u64]| identity(excused(sums_of(fill, bad), expected).0);
        // The first place is in the head alone, the second one in the samples.
        for bad in [256 << 10, 8 << 20] {
            assert!(identity(sums_of(1, &[bad])).is_err());
            assert_eq!(excused_with(1, &[bad]).unwrap(), expected, "{bad}");
            assert_ne!(excused_with(2, &[bad]).unwrap(), expected, "another device, {bad}");
        }
        excused_with(1, &[256 << 10, 8 << 20]).unwrap_err();
        let unstable = || Err(anyhow!("something else each time"));
        identity(excused([Ok(1), unstable()], expected).0).unwrap_err();
    }

    /// A bad transfer while a disk was laid over its base named a device that nobody has: no start took the base any more.
    #[test]
    fn regression_one_bad_transfer_does_not_name_a_base() {
        let of = |readings: &[u32]| {
            let mut readings = readings.iter().copied();
            agreed(|| readings.next().context("one reading more than that"))
        };
        assert_eq!(of(&[9, 1, 1]).unwrap(), 1);
        assert_eq!(of(&[1, 9, 1, 1]).unwrap(), 1);
        assert_eq!(of(&[1, 1]).unwrap(), 1);
        let why = of(&[1, 2, 3, 4, 5]).unwrap_err().to_string();
        assert!(why.contains("something else each time"), "{why}");
    }
}
