//! Opens the pool of a configuration.

use super::Budget;
use super::access::Access;
use super::devices::{CapacityTier, is_lost, open_target, refuse_one_file_twice, refuse_while_served, with_array};
use super::ids::Ids;
use super::missing::{explain_blank, explain_unopened};
use super::offers::{APART, DOCUMENT};
use super::takeover::refuse_buckets_of_others;
use super::watched::Watched;
use super::{capacity, fast};
use crate::config::Config;
use crate::finding::finding;
use crate::text;
use anyhow::{Result, anyhow, bail};
use forebay_block::Device;
use forebay_device::OpenMode;
use forebay_volume::layout::superblock::{Superblock, SuperblockError};
use forebay_volume::mirror::MirrorView;
use forebay_volume::recovery::lost::{BlockRanges, DiskReport};
use forebay_volume::recovery::{self, AloneError, AloneReport, MemberError, OpenError, RecoveryReport};
use forebay_volume::{Devices, Engine, EngineOptions};
use tracing::{info, warn};

/// Most ranges of a disk that one line lists.
const SHOWN_RANGES: usize = 8;

/// How a pool is opened, and what the user has agreed to lose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// For service.
    Recover,
    /// For service, although a missing member of the mirror may hold data that the others have lost.
    AcceptLoss,
    /// For service; missing members of the mirror are dropped for good.
    DropMembers,
    /// For reading what can be recovered from a damaged journal.
    Salvage,
    /// For reading what the capacity tier holds without the fast tier.
    WithoutFast,
    /// For reading what is left without the missing capacity devices.
    Degraded,
}

impl Opening {
    /// Whether the pool is opened for service, complete and writable.
    #[must_use]
    pub fn is_for_service(self) -> bool {
        matches!(self, Self::Recover | Self::AcceptLoss | Self::DropMembers)
    }
}

/// What is left of an incomplete pool.
#[derive(Clone, Debug)]
pub struct Left {
    /// Summary in one line.
    pub label: String,
    /// What is left of each disk.
    pub disks: Vec<DiskReport>,
}

/// An opened pool.
pub struct Opened {
    /// The engine.
    pub engine: Engine,
    /// The devices, in the order of the pool's member table.
    pub devices: Devices,
    /// What recovery found and did.
    pub recovery: RecoveryReport,
    /// The superblock, which identifies the pool.
    pub superblock: Superblock,
    /// What is left, where the pool is not complete.
    pub left: Option<Left>,
}

/// Recovers the pool.
///
/// # Errors
/// The pool cannot be opened. The error is a [`crate::finding::Finding`] where the pool is damaged.
pub fn open(config: &Config, devices: &mut Devices, opening: Opening) -> Result<(Engine, RecoveryReport)> {
    let endurance_bytes = super::endurance::of_tiers(config);
    let grouping = config.pool.grouping.0;
    let scrub_bytes_per_s = config.scrub.rate.0;
    let fill_bytes_per_s = config.read_cache.rate.0;
    let recent_reads_bytes = config.read_cache.memory.map(|memory| memory.0);
    let budget = Budget::of(config.memory.limit.0).engine();
    let adoption_bytes_per_s = config.adopt.rate.0;
    let options = EngineOptions {
        overcommit: config.pool.overcommit,
        endurance_bytes,
        grouping,
        scrub_bytes_per_s,
        adoption_bytes_per_s,
        fill_bytes_per_s,
        recent_reads_bytes,
        accepts_loss: opening == Opening::AcceptLoss,
        opening: Ids::Random.number()?,
        ..budget
    };
    let open = match opening {
        Opening::Salvage => recovery::salvage,
        _ => recovery::open,
    };
    // The mirror counts as one fast device.
    open(devices, 1, &config.class_specs(), options).map_err(|error| {
        let missing = devices.views().map(MirrorView::missing).filter(|missing| !missing.is_empty());
        let missing = missing.collect::<Vec<_>>().join(", ");
        explain_blank(devices, &error).unwrap_or_else(|| explain_without(error, &missing))
    })
}

/// Opens the devices as `opening` asks. Devices that `opening` can do without are left out where they cannot be
/// opened. `watched` collects statistics of the members of mirror and array.
///
/// # Errors
/// A device cannot be opened; the message names it and says why, and what to do.
pub fn open_all(config: &Config, opening: Opening, watched: &mut Watched) -> Result<Devices> {
    let (list, array) = match opening {
        Opening::Recover | Opening::AcceptLoss | Opening::DropMembers | Opening::Salvage => {
            let mode = if opening.is_for_service() { OpenMode::ReadWrite } else { OpenMode::ReadOnly };
            let (accepts_loss, drops_members) = (opening == Opening::AcceptLoss, opening == Opening::DropMembers);
            let devices = open_whole(config, Access { mode, accepts_loss, drops_members }, watched)?;
            if drops_members && devices.mirror().is_none() {
                bail!("--drop-members: the fast tier of this pool is no mirror: it has no members to drop");
            }
            return Ok(devices);
        }
        Opening::WithoutFast => capacity::open_what_is_there(config, watched, open_or_warn)?,
        Opening::Degraded => {
            let capacity = capacity::open_what_is_there(config, watched, open_or_warn)?;
            let access = Access::READ_ONLY;
            return match &config.fast[..] {
                [fast] => match open_or_warn(&fast.target.0) {
                    Some(fast) => with_fast(config, fast, capacity, access, watched),
                    None => Ok(with_array(Devices::new(capacity.0), capacity.1)),
                },
                _ => fast::join(config, capacity, access, watched),
            };
        }
    };
    if list.is_empty() {
        bail!("none of the devices can be opened");
    }
    Ok(with_array(Devices::new(list), array))
}

/// Opens all devices for reading only.
///
/// # Errors
/// A device cannot be opened; the message names it and says why, and what to do.
pub fn open_read_only(config: &Config) -> Result<Devices> {
    open_whole(config, Access::READ_ONLY, &mut Watched::default())
}

/// Opens all devices, except members of a mirror or an array that the pool can do without.
fn open_whole(config: &Config, access: Access, watched: &mut Watched) -> Result<Devices> {
    refuse_one_file_twice(config)?;
    if access.mode == OpenMode::ReadWrite {
        refuse_while_served(config)?;
        refuse_buckets_of_others(config).map_err(|error| error.downcast().map_or_else(|error| error, explain))?;
    }
    // On failure `explain_unopened` opens all devices again, and each can be opened only once: the closure has closed
    // them by then.
    let mut open = || match &config.fast[..] {
        [fast] => {
            let fast = open_target(&fast.target.0, access.mode)?;
            let capacity = capacity::open(config, access, watched)?;
            with_fast(config, fast, capacity, access, watched)
        }
        _ => {
            let capacity = capacity::open(config, access, watched)?;
            fast::join(config, capacity, access, watched)
        }
    };
    open().map_err(|error| if is_lost(&error) { explain_unopened(config, error) } else { error })
}

/// Puts the only fast device in front of the capacity devices. Where it is a member of a mirror, the mirror takes its
/// place.
fn with_fast(
    config: &Config,
    fast: Box<dyn Device>,
    capacity: CapacityTier,
    access: Access,
    watched: &mut Watched,
) -> Result<Devices> {
    let mut devices = Devices::new(vec![fast]);
    if fast::carries_label(&mut devices) {
        // `join` opens the device again.
        drop(devices);
        return fast::join(config, capacity, access, watched);
    }
    let (list, array) = capacity;
    devices.list.extend(list);
    Ok(with_array(devices, array))
}

/// Opens the pool as `opening` asks.
///
/// # Errors
/// As for [`open`].
pub fn open_as(config: &Config, mut devices: Devices, opening: Opening) -> Result<Opened> {
    match opening {
        Opening::WithoutFast => {
            let (engine, devices, report) = alone(config, devices)?;
            report.warnings.iter().for_each(|warning| warn!("{warning}"));
            if report.disks_missing > 0 {
                let missing = text::count(report.disks_missing as u64, "disk");
                warn!("{missing} not shown: the checkpoint had no room for more");
            }
            let recovery =
                RecoveryReport { epoch: report.epoch, read_bytes: report.read_bytes, ..RecoveryReport::default() };
            let left = Left { label: report.label(), disks: report.disks };
            Ok(Opened { engine, devices, recovery, superblock: report.superblock, left: Some(left) })
        }
        Opening::Degraded => open_degraded(config, devices),
        Opening::Recover | Opening::AcceptLoss | Opening::DropMembers | Opening::Salvage => {
            let (engine, recovery) = open(config, &mut devices, opening)?;
            let superblock = recovery::read_superblock(&mut devices, 0)?.0;
            Ok(Opened { engine, devices, recovery, superblock, left: None })
        }
    }
}

/// Opens the capacity tier without the fast one; verification uses it, too.
///
/// # Errors
/// The capacity tier cannot be opened.
pub fn alone(config: &Config, mut devices: Devices) -> Result<(Engine, Devices, AloneReport)> {
    let options = Budget::of(config.memory.limit.0).engine();
    let mut next_percent = 10;
    let mut progress = |done: u64, all: u64| {
        let percent = (done * 100).checked_div(all).unwrap_or(100);
        if percent >= next_percent {
            next_percent = percent + 10;
            info!("{percent} % of {all} bands read");
        }
    };
    let opened = recovery::open_alone(&mut devices, &config.class_specs(), options, &mut progress);
    let (engine, report) = opened.map_err(explain_alone)?;
    Ok((engine, devices, report))
}

fn open_degraded(config: &Config, mut devices: Devices) -> Result<Opened> {
    let options = Budget::of(config.memory.limit.0).engine();
    let (engine, recovery, report) =
        recovery::open_degraded(&mut devices, &config.class_specs(), options).map_err(explain)?;
    report.unusable.iter().for_each(|(name, why)| warn!("{name} cannot be used: {why}"));
    if report.missing.is_empty() {
        bail!(
            "no device of the pool is missing: start without --degraded; where that is refused, because something cannot be \
             written, `forebay serve --salvage CONFIG` reads what is there"
        );
    }
    let superblock = recovery::read_superblock(&mut devices, 0)?.0;
    let left = Left { label: report.label(), disks: report.disks };
    Ok(Opened { engine, devices, recovery, superblock, left: Some(left) })
}

/// Opens a device for reading. Logs a failure and returns `None`: the device counts as missing.
fn open_or_warn(target: &forebay_device::Target) -> Option<Box<dyn forebay_block::Device>> {
    match open_target(target, OpenMode::ReadOnly) {
        Ok(device) => Some(device),
        Err(error) => {
            warn!("{}", text::chain(&error));
            None
        }
    }
}

impl Left {
    /// Lines of all disks.
    pub fn lines(&self) -> Vec<String> {
        self.disks.iter().flat_map(disk_lines).collect()
    }
}

/// Lines on what is left of one disk.
pub fn disk_lines(disk: &DiskReport) -> Vec<String> {
    let bytes = |blocks: u64| text::size(blocks * 4096);
    let mut lines = vec![format!(
        "disk {}: {} of data can be read ({} of it of after the checkpoint), {} is gone, {} may be older than the checkpoint",
        disk.name,
        bytes(disk.readable_blocks),
        bytes(disk.later_blocks),
        bytes(disk.gone.blocks),
        bytes(disk.maybe_older.blocks)
    )];
    for (what, ranges) in [("gone", &disk.gone), ("maybe older", &disk.maybe_older)] {
        if ranges.blocks > 0 {
            lines.push(format!("disk {}, {what}: {}", disk.name, ranges_text(ranges)));
        }
    }
    lines
}

fn ranges_text(ranges: &BlockRanges) -> String {
    let shown = ranges.listed.iter().take(SHOWN_RANGES);
    let mut parts: Vec<String> =
        shown.map(|(first, blocks)| format!("bytes {} to {}", first * 4096, (first + blocks) * 4096 - 1)).collect();
    let more = ranges.ranges.saturating_sub(parts.len() as u64);
    if more > 0 {
        parts.push(format!("and {} more", text::count(more, "range")));
    }
    parts.join(", ")
}

fn explain_alone(error: AloneError) -> anyhow::Error {
    let text = error.to_string();
    match error {
        AloneError::Member(error) => explain(OpenError::Member(error)),
        AloneError::FirstDevice { .. } => {
            anyhow!("{text}; name it in the configuration (`forebay inspect PATH` tells ids)")
        }
        AloneError::Root(_) => finding(format!("{text}. Restore from a backup")),
        AloneError::Memory { needed_bytes, .. } => {
            let limit_bytes = Budget::of_alone(needed_bytes).next_multiple_of(1 << 20);
            anyhow!("{text}: raise memory.limit to {} MiB or more", limit_bytes >> 20)
        }
        error => anyhow::Error::new(error).context("the capacity tier cannot be opened alone"),
    }
}

/// As [`explain`], where members that held everything are missing: they may have what the others cannot read.
fn explain_without(error: OpenError, missing: &str) -> anyhow::Error {
    let may_be_there = matches!(
        error,
        OpenError::Root { .. }
            | OpenError::Index { .. }
            | OpenError::Journal { .. }
            | OpenError::Unread { .. }
            | OpenError::UnreadData { .. }
            | OpenError::UnreadJournal { .. }
    );
    if missing.is_empty() || !may_be_there {
        return explain(error);
    }
    anyhow!(
        "{error}, and {missing}, which held everything and may have it, is not there. Nothing was changed; attach it, or correct its target, and start \
         again ({DOCUMENT}). Where it is lost for ever: {}",
        explain(error.clone())
    )
}

/// Adds what to do next, and makes damage a finding.
pub fn explain(error: OpenError) -> anyhow::Error {
    let text = error.to_string();
    match error {
        OpenError::Member(MemberError::Superblock { source: SuperblockError::Absent, .. }) => {
            anyhow!("{text}; correct the target in the configuration (`forebay inspect PATH` shows what a device is)")
        }
        OpenError::Member(MemberError::Superblock { source: SuperblockError::Damaged(_), .. }) => {
            finding(format!("{text}; `forebay inspect` shows each copy"))
        }
        OpenError::Member(MemberError::Truncated { .. }) => {
            finding(format!("{text}; bring it back to its size, or restore it from a backup"))
        }
        OpenError::Member(MemberError::Stale { .. }) => {
            anyhow!("{text}; name the device that was in use last")
        }
        OpenError::Member(MemberError::Apart(_)) => anyhow!("{text}; {APART}"),
        OpenError::Member(MemberError::Older { .. }) => anyhow!(
            "{text}. Nothing was changed; name the device that was in use last. Where there is none, `forebay serve --without-fast CONFIG` reads \
             what the capacity tier holds alone"
        ),
        OpenError::Member(MemberError::Missing { role, .. }) => {
            let flag = if role == "fast" { "--without-fast" } else { "--degraded" };
            anyhow!(
                "{text}; add it to the configuration (`forebay inspect PATH` tells ids). Where it is lost, \
                 `forebay serve {flag} CONFIG` reads what is left"
            )
        }
        OpenError::Journal { .. } => finding(format!(
            "the pool is damaged: {text}. Nothing was changed; `forebay serve --salvage CONFIG` reads what is left, then \
             restore from a backup"
        )),
        OpenError::Late { .. } => anyhow!(
            "{text}. Nothing was changed; attach it, or correct its target, and start again ({}). Where it is lost for ever, \
             `forebay serve --accept-loss CONFIG` serves the pool without what these pages mapped, for good",
            DOCUMENT
        ),
        OpenError::Unread { .. } => anyhow!(
            "{text}. Nothing was changed; look after the device and the way to it, and start again: they may be readable then. Where they \
             stay unreadable, `forebay serve --accept-loss CONFIG` serves the pool without what these pages mapped, for good ({})",
            DOCUMENT
        ),
        OpenError::UnreadData { source, .. } => anyhow!(
            "{text} ({source}). Nothing was changed; look after the device and the way to it, and start again: they may be readable then. Where they \
             stay unreadable, `forebay serve --accept-loss CONFIG` serves the pool without what was there before, and reads of these blocks \
             fail until they are written again \
             ({DOCUMENT})"
        ),
        OpenError::UnreadJournal { source, .. } => anyhow!(
            "{text} ({source}). Nothing was changed; look after the device and the way to it, and start again: it may be readable then. Where it \
             stays unreadable, `forebay serve --accept-loss CONFIG` serves the pool without the changes that may be there, for good, \
             unless they are known to have been durable; `--salvage` reads it so without writing ({DOCUMENT})"
        ),
        OpenError::Index { .. } => finding(format!(
            "the pool is damaged: {text}. Nothing was changed; `forebay serve --salvage CONFIG` reads everything else, and \
             `--without-fast` what the capacity tier holds; restore from a backup"
        )),
        OpenError::Root { .. } => finding(format!(
            "the pool is damaged: {text}. Nothing was changed; `forebay serve --without-fast CONFIG` reads what the capacity tier \
             holds; restore from a backup"
        )),
        OpenError::Checkpoint(_) => anyhow!(
            "{text}. A device does not take writes. Where no space is left, make room where its space comes from (the file system below it, or the \
             thin pool), and start again; otherwise replace it or repair its path. Until then `forebay serve --salvage CONFIG` reads what is \
             there, without writing"
        ),
        OpenError::RootFull => anyhow!(
            "{text}: more was written here and there to an overcommitted disk than this version lets in. `forebay serve --salvage CONFIG` reads \
             what is there, without writing: copy it to a pool over larger devices"
        ),
        OpenError::Limit { needed_bytes, .. } => {
            anyhow!("{text} (an eighth of memory.limit is kept for connections): {}", Budget::advice(needed_bytes))
        }
        error => anyhow::Error::new(error).context("the pool cannot be opened"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_block::{IoError, IoErrorKind};

    /// Regression: damage on the present members led to the advice to restore a backup, although a missing member had
    /// the data.
    #[test]
    fn regression_advice_asks_for_a_member_that_may_have_what_is_damaged() {
        let error = || OpenError::Root { checkpoint: 7, what: "no copy is whole".into() };
        let text = explain_without(error(), "0c0c").to_string();
        let attach = text.find("0c0c, which held everything").unwrap();
        assert!(attach < text.find("restore from a backup").unwrap(), "{text}");
        assert_eq!(explain_without(error(), "").to_string(), explain(error()).to_string());
        let source = IoError { kind: IoErrorKind::Medium, operation: "read", offset_bytes: 0, os_error: 5 };
        let unread = OpenError::UnreadJournal { device: "a".into(), source };
        let text = explain_without(unread, "0c0c").to_string();
        assert!(text.find("0c0c, which held everything").unwrap() < text.find("--accept-loss").unwrap(), "{text}");
    }
}
