//! Opens the fast tier of a configuration: one device, or a mirror of several.

use super::access::Access;
use super::devices::{CapacityTier, open_target, refuse_one_file_twice, with_array};
use super::missing::explain_unopened;
use super::offers::{APART, ATTACH_OR_ACCEPT, DOCUMENT, Fit, Offers, refusal};
use super::watched::Watched;
use crate::config::Config;
use crate::contents;
use crate::text::chain;
use anyhow::{Result, anyhow};
use forebay_block::Device;
use forebay_device::{OpenMode, Target};
use forebay_volume::Devices;
use forebay_volume::layout::{Id, format_id};
use forebay_volume::mirror::{
    self, Candidate, Consent, Former, JoinError, Joined, MemberState, MemberStatus, MirrorView,
};
use forebay_volume::parity;
use serde_json::{Value, json};
use tracing::warn;

/// Advice on clearing a device. Tools that wipe only signatures leave the remaining contents, which are examined as
/// well.
const HOW_TO_CLEAR: &str =
    "zeros over all of it, by `blkdiscard -z`, or of a file by `truncate -s 0` and its size again";

/// Count of one-second waits without an answer after which an examined device counts as dead.
const SILENT_WAITS_MAX: u32 = 120;

/// Opens a device to find out whether it can become a member. A device with the signature of something else is
/// refused, whatever labels it carries: it may have been a member before it was used for that.
fn open_unused(target: &Target, mode: OpenMode) -> Result<(Box<dyn Device>, Vec<String>), String> {
    let device = open_target(target, mode).map_err(|error| chain(&error))?;
    look_for_others(device, target)
}

/// Whether a device carries the label of a member, of a mirror or of a parity array.
fn is_member(device: Box<dyn Device>) -> (Option<Box<dyn Device>>, bool) {
    let mut devices = Devices::new(vec![device]).with_limit(SILENT_WAITS_MAX);
    let is_member = carries_label(&mut devices) || parity::read_label(&mut devices, 0).is_some();
    (devices.list.pop(), is_member)
}

fn look_for_others(device: Box<dyn Device>, target: &Target) -> Result<(Box<dyn Device>, Vec<String>), String> {
    let refuse = |foreign: &[String]| match foreign {
        [] => Ok(()),
        foreign => {
            Err(format!("it holds {}: where that is to be lost, clear it first: {HOW_TO_CLEAR}", foreign.join(", ")))
        }
    };
    let mut device = device;
    let error = match contents::foreign(device.as_mut()) {
        Ok(foreign) => {
            refuse(&foreign)?;
            // Contents without a known signature must not be overwritten either.
            match contents::anything(device.as_mut(), target.path()) {
                Ok(found) => return Ok((device, found)),
                Err(error) => error,
            }
        }
        Err(error) => error,
    };
    // The outstanding completion would be mistaken for that of the next request.
    if device.in_flight() > 0 {
        return Err(error.to_string());
    }
    // A member that cannot read some blocks stays a member: their contents are computed from parity or read from
    // another member.
    let (Some(mut device), true) = is_member(device) else { return Err(error.to_string()) };
    let (foreign, unread) = contents::foreign_where_readable(device.as_mut()).map_err(|error| error.to_string())?;
    refuse(&foreign)?;
    let unread = unread.unwrap_or(error);
    warn!(
        cause = "member unreadable in part",
        advice =
            "Look at the drive's health. What it cannot read is read of the other members, and written there again",
        "{target} carries the label of a member, and cannot be read everywhere: {unread}"
    );
    Ok((device, vec![format!("what cannot be read ({unread})")]))
}

/// Opens a device as a candidate for the mirror.
pub(super) fn candidate(target: &Target, mode: OpenMode) -> Candidate {
    let name = target.to_string();
    let (device, contents) = match open_unused(target, mode) {
        Ok((device, contents)) => (Ok(device), contents),
        Err(why) => (Err(why), Vec::new()),
    };
    Candidate { name, device, contents }
}

/// Whether the only fast device carries the label of a mirror's member.
pub fn carries_label(devices: &mut Devices) -> bool {
    mirror::read_label(devices, 0).is_some_and(|label| label.member.is_some())
}

/// A generator of new ids. Where the system gives no random numbers, ids stay zero; creating the pool would have
/// failed on such a system.
pub(super) fn new_ids() -> impl FnMut() -> Id {
    || {
        let mut id = Id::default();
        if let Err(error) = getrandom::fill(&mut id) {
            warn!("the system gives no random numbers: {error}");
        }
        id
    }
}

/// Opens the fast tier as a mirror, with these capacity devices behind it. Nothing is written where `access` is
/// read-only.
///
/// # Errors
/// The mirror cannot be used; the message says why, and what to do.
pub fn join(
    config: &Config,
    (capacity, array): CapacityTier,
    Access { mode, accepts_loss, drops_members }: Access,
    watched: &mut Watched,
) -> Result<Devices> {
    let candidates = config.fast.iter().map(|fast| watched.candidate(candidate(&fast.target.0, mode))).collect();
    let mut capacity = with_array(Devices::new(capacity), array.clone());
    let mut new_id = new_ids();
    let is_writable = mode == OpenMode::ReadWrite;
    let consent = Consent { unproven: accepts_loss, drops_absent: drops_members };
    let joined = match mirror::join(candidates, &mut capacity, is_writable.then_some(&mut new_id), consent) {
        Ok(joined) => joined,
        Err(error) => {
            // `explain` opens all devices again, and each can be opened only once.
            drop(capacity);
            return Err(explain(config, error));
        }
    };
    let Joined { mirror, view, left_out, dropped } = joined;
    for id in dropped {
        warn!(
            cause = "mirror member dropped",
            advice = "Where the device comes back it can be used for anything, or become a member again in a [[fast]] section of its own: it is rebuilt then",
            "member {} of the fast tier's mirror is none any more, as --drop-members says",
            format_id(&id)
        );
    }
    view.set_left_out(&in_order(&left_out, config.fast.iter().map(|fast| &fast.target.0)));
    for (name, why) in left_out {
        warn!(
            cause = "mirror member left out",
            advice = "The pool is served by the other members. Attach the device where it is missing; where it holds something else clear it (zeros over all of it), or put another one in its place: that is rebuilt (docs/when-a-device-fails.md)",
            "{name} is no member of the fast tier's mirror: {why}"
        );
    }
    Ok(with_array(Devices::mirrored(in_front(Box::new(mirror), capacity.list), view), array))
}

/// Devices that are no members, in the order of the configuration, which is that of the members where nobody has changed it.
pub(super) fn in_order<'a>(
    left_out: &[(String, String)],
    targets: impl Iterator<Item = &'a Target>,
) -> Vec<(String, String)> {
    let names: Vec<String> = targets.map(ToString::to_string).collect();
    let mut devices = left_out.to_vec();
    devices.sort_by_key(|(name, _)| names.iter().position(|other| other == name));
    devices
}

/// Looks at devices that are configured, and are no members of the mirror that work. It may take as long as these take to answer.
pub fn look(config: &Config, view: &MirrorView) -> Offers {
    let targets = config.fast.iter().map(|fast| &fast.target.0);
    let pool = view.pool();
    look_at(config, targets, (view, "the fast tier's mirror"), |devices| mirror::former(devices, pool))
}

/// Examines configured devices that are not working members of the tier `what`. `former` returns which member of this
/// pool a device is or was.
pub(super) fn look_at<'a>(
    config: &Config,
    targets: impl Iterator<Item = &'a Target> + Clone,
    (view, what): (&MirrorView, &'static str),
    former: impl Fn(&mut Devices) -> Option<Former>,
) -> Offers {
    let mut offers = Offers { view: view.clone(), what, fit: Vec::new(), refused: Vec::new() };
    if let Err(why) = refuse_one_file_twice(config) {
        offers.refused.push(why.to_string());
        return offers;
    }
    let members = view.status().members;
    for target in targets.clone() {
        let name = target.to_string();
        let works = |member: &MemberStatus| member.name == name && member.state != MemberState::Out;
        if members.iter().any(works) {
            continue;
        }
        match made_fit(target, view, &former) {
            Ok(fit) => offers.fit.push(fit),
            Err(why) => offers.refused.push(refusal(&name, what, &why)),
        }
    }
    let is_configured = |member: &&MemberStatus| targets.clone().any(|target| target.to_string() == member.name);
    for member in members.iter().filter(|member| member.state != MemberState::Out && !is_configured(member)) {
        let name = &member.name;
        offers.refused.push(format!("{name} is not configured any more, and stays a member until the next start"));
    }
    offers
}

fn made_fit(
    target: &Target,
    view: &MirrorView,
    former: impl Fn(&mut Devices) -> Option<Former>,
) -> Result<Fit, String> {
    let Candidate { name, device, contents } = candidate(target, OpenMode::ReadWrite);
    let mut devices = Devices::new(vec![device?]).with_limit(SILENT_WAITS_MAX);
    let former = former(&mut devices);
    let works =
        |member: &MemberStatus| former.is_some_and(|former| former.id == member.id) && member.state != MemberState::Out;
    if view.status().members.iter().any(works) {
        return Err("it is another name, or a copy, of a member that works".to_owned());
    }
    // A former member may hold anything: its contents are out of date.
    if former.is_none() && !contents.is_empty() {
        return Err(format!("it holds {}; clear it first: {HOW_TO_CLEAR}", contents.join(", ")));
    }
    view.may_take(devices.list[0].geometry())?;
    // A former member keeps its labels until its new label is durable: a start before that must still recognise it.
    if former.is_none() {
        mirror::clear_labels(&mut devices).map_err(|(_, error)| error.to_string())?;
    }
    let mut id = Id::default();
    getrandom::fill(&mut id).map_err(|error| error.to_string())?;
    let device = devices.list.pop().ok_or_else(|| "it is gone".to_owned())?;
    Ok(Fit { name, id, device, former })
}

/// Replaces the first `members` devices by a new mirror of them.
pub fn make(devices: &mut Devices, members: usize, pool: Id, ids: &[Id]) {
    let capacity = devices.list.split_off(members);
    let (mirror, view) = mirror::new_mirror(std::mem::take(&mut devices.list), pool, ids);
    let array = devices.array().cloned();
    *devices = with_array(Devices::mirrored(in_front(Box::new(mirror), capacity), view), array);
}

fn in_front(fast: Box<dyn Device>, capacity: Vec<Box<dyn Device>>) -> Vec<Box<dyn Device>> {
    std::iter::once(fast).chain(capacity).collect()
}

fn explain(config: &Config, error: JoinError) -> anyhow::Error {
    let advice = match &error {
        // The other devices decide what is said: no advice may lead to formatting over what is left.
        JoinError::NoLabel { .. } => return explain_unopened(config, anyhow!("{error} ({DOCUMENT})")),
        JoinError::Foreign { .. } => {
            "correct the targets in the configuration (`forebay inspect PATH` shows what a device is)"
        }
        JoinError::Stale { .. } => {
            "attach the missing device or correct its target. Where it is lost for ever, `forebay serve --without-fast CONFIG` \
             reads what the capacity tier holds"
        }
        JoinError::Unproven(_) => ATTACH_OR_ACCEPT,
        JoinError::Apart(_) => APART,
        JoinError::Newer { .. } => "attach the devices that were in use last; nothing was changed",
        JoinError::NotAll { .. } => {
            "take the sections of members that are gone for good out of the configuration, and attach the others; nothing was changed"
        }
        JoinError::Unread { .. } => "repair the path to it; nothing was changed",
        JoinError::Counter { .. } => "the label is forged or damaged: detach the device",
        JoinError::Copy { .. } => "detach the copy; nothing was changed",
    };
    anyhow!("{error}; {advice} ({DOCUMENT})")
}

/// State of the mirror, as JSON for the status.
pub fn json(view: &MirrorView) -> Value {
    let status = view.status();
    let members = status.members.iter().map(|member| {
        json!({
            "name": member.configured.as_ref().filter(|_| member.name.is_empty()).unwrap_or(&member.name),
            "id": format_id(&member.id),
            "state": member.state.name(),
            "why": member.why_out(),
            "failed_reads": member.failed_reads,
        })
    });
    json!({
        "degraded": status.is_degraded(),
        "members": members.collect::<Vec<_>>(),
        "members_out": status.members.iter().filter(|member| member.state != MemberState::InSync).count(),
        "generation": status.generation,
        "rebuilt_bytes": status.rebuilt_bytes,
        "size_bytes": status.size_bytes,
        "mended_blocks": status.mended_blocks,
        "unreadable_blocks": status.unreadable_blocks,
        "broken": status.broken,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_block::Buf;
    use forebay_device::faulty::{Fault, Target as Concerned};
    use forebay_device::image::ImageDevice;
    use forebay_device::{FaultyDevice, Image, blocking};
    use forebay_volume::layout::array_label::{ArrayLabel, OFFSETS_BYTES};
    use forebay_volume::layout::array_shape::Shape;
    use forebay_volume::layout::member_label::{self, MemberLabel};
    use forebay_volume::layout::plan::{PoolOptions, plan};
    use forebay_volume::layout::superblock::copy_offsets_bytes;

    const SIZE_BYTES: u64 = 8 << 20;

    /// Examines a device with one unreadable block at `at`, with or without the label of a member, and with `holds`
    /// at 1 KiB.
    fn unreadable(at: u64, is_member: bool, holds: &[u8]) -> Result<Vec<String>, String> {
        let mut image = ImageDevice::new(Image::zeroed(SIZE_BYTES));
        let label = ArrayLabel {
            pool: [1; 16],
            member: 1,
            generation: 3,
            serial: 4,
            shape: Shape {
                data: 2,
                parity: 1,
                member_bytes: SIZE_BYTES,
                head_bytes: 1 << 20,
                band_bytes: 128 << 10,
                log_slots: 64,
            },
            ids: vec![[1; 16], [2; 16], [3; 16]],
            in_sync: 7,
            rebuilding: None,
            rebuilt_rows: 0,
            missing: 0,
            logical_block_bytes: 512,
        };
        if is_member {
            blocking::write(&mut image, OFFSETS_BYTES[0], &label.encode()).unwrap();
        }
        let mut block = Buf::zeroed(4096);
        block[0x400..0x400 + holds.len()].copy_from_slice(holds);
        blocking::write(&mut image, 0, &block).unwrap();
        let mut device = FaultyDevice::new(image);
        device.plan(Fault::range(Concerned::Reads, at..at + 4096));
        let target = Target::Ram { size_bytes: SIZE_BYTES };
        look_for_others(Box::new(device), &target).map(|(_, contents)| contents)
    }

    /// Regression: one unreadable block where foreign signatures are looked for excluded a good member. With one such
    /// member more than there is parity, the pool was refused.
    #[test]
    fn regression_a_member_that_cannot_read_one_block_is_a_member_all_the_same() {
        for at in [8192, 64 << 10, SIZE_BYTES - 4096] {
            let contents = unreadable(at, true, &[]).unwrap();
            assert!(contents.len() == 1 && contents[0].contains("cannot be read"), "{contents:?}");
            assert!(unreadable(at, false, &[]).is_err(), "it may hold anything");
        }
    }

    #[test]
    fn what_others_know_is_found_beside_a_block_that_cannot_be_read() {
        // An ext2 superblock: its count of blocks and its magic.
        let mut superblock = [0; 0x40];
        superblock[4] = 9;
        superblock[0x38..0x3a].copy_from_slice(&[0x53, 0xef]);
        let why = unreadable(8192, true, &superblock).unwrap_err();
        assert!(why.contains("ext2"), "{why}");
    }

    /// Regression: a former member lost its labels when it was examined, long before its new label was written. A
    /// start in between refused it as a device that holds a pool.
    #[test]
    fn regression_a_former_member_keeps_its_labels_when_it_is_looked_at() {
        const POOL: Id = [7; 16];
        let folder = tempfile::tempdir().unwrap();
        let target = |name: &str| -> Target {
            let path = folder.path().join(name);
            std::fs::File::create(&path).unwrap().set_len(SIZE_BYTES).unwrap();
            path.to_str().unwrap().parse().unwrap()
        };
        let mut member = open_target(&target("a.img"), OpenMode::ReadWrite).unwrap();
        let target = target("b.img");
        let capacity: Box<dyn Device> = Box::new(ImageDevice::new(Image::zeroed(4 * SIZE_BYTES)));
        let options = PoolOptions {
            name: "pool".into(),
            band_bytes: Some(64 << 10),
            journal_bytes: Some(256 << 10),
            is_mirrored: true,
            bands_offset_bytes: None,
        };
        let geometry = |device: &dyn Device| device.geometry().clone();
        let ids = [[1; 16], [3; 16]];
        let superblock =
            plan(&options, &geometry(member.as_ref()), &[geometry(capacity.as_ref())], POOL, &ids).unwrap();
        let label = |number: u8, generation: u64| MemberLabel {
            pool: POOL,
            member: Some(number),
            generation,
            serial: generation,
            ids: vec![[1; 16], [2; 16]],
            in_sync: if generation == 1 { 3 } else { 1 },
            rebuilding: None,
            rebuilt_bytes: 0,
            size_bytes: SIZE_BYTES,
            logical_block_bytes: 512,
        };
        let mut of_b = open_target(&target, OpenMode::ReadWrite).unwrap();
        for (device, label) in [(member.as_mut(), label(0, 2)), (of_b.as_mut(), label(1, 1))] {
            for at in copy_offsets_bytes(SIZE_BYTES) {
                blocking::write(device, at, &superblock.encode()).unwrap();
            }
            blocking::write(device, member_label::OFFSETS_BYTES[0], &label.encode()).unwrap();
        }
        drop(of_b);
        let candidate = Candidate { name: "a".into(), device: Ok(member), contents: Vec::new() };
        let mut new_id = || [9; 16];
        let joined =
            mirror::join(vec![candidate], &mut Devices::new(vec![capacity]), Some(&mut new_id), Consent::default())
                .unwrap();
        joined.view.begin();
        let fit = made_fit(&target, &joined.view, |devices| mirror::former(devices, POOL)).unwrap();
        assert_eq!(fit.former.map(|former| former.id), Some([2; 16]));
        drop(fit);
        let device = open_target(&target, OpenMode::ReadOnly).unwrap();
        assert!(mirror::former(&mut Devices::new(vec![device]), POOL).is_some(), "a start would not know it");
    }
}
