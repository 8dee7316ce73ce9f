//! Making a mirror of the devices that are there: which of them hold everything is told by their labels, and by those of the capacity
//! devices.

use super::assembly::{Assembly, Blank, Found, Joined, is_same};
use super::members::Member;
use super::view::MemberState;
use crate::io::Devices;
use crate::layout::member_label::{LABEL_BYTES, MEMBERS_MAX, MemberLabel, OFFSETS_BYTES};
use crate::layout::superblock::{Role, Superblock};
use crate::layout::{Id, format_id};
use crate::recovery::read_superblock;
use forebay_block::Device;
use thiserror::Error;

/// A device that is configured as a member.
pub struct Candidate {
    /// Its name in messages: path or URI.
    pub name: String,
    /// The device, or why it cannot be opened.
    pub device: Result<Box<dyn Device>, String>,
    /// What is on it that is not a mirror's; empty where it is blank. Not looked at where it carries a label.
    pub contents: Vec<String>,
}

/// Why the devices are no mirror that can be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum JoinError {
    /// None of them carries a label.
    #[error("none of the fast devices is a member of a mirror{why}")]
    NoLabel {
        /// What each is instead.
        why: String,
    },
    /// Of another pool.
    #[error("{device} and {other} are members of the mirrors of two pools")]
    Foreign {
        /// A device.
        device: String,
        /// One of another pool.
        other: String,
    },
    /// The member that holds everything is not among them.
    #[error(
        "{devices} cannot be used without the others: the mirror went on without them (their generation is {found}, the pool's is {expected}). \
         What was written since is on {missing}, which is not there"
    )]
    Stale {
        /// The devices.
        devices: String,
        /// Their generation.
        found: u64,
        /// That of the pool.
        expected: u64,
        /// Ids of members that are not there.
        missing: String,
    },
    /// Two members went on without each other.
    #[error(
        "{device} and {other} each went on without the other: they hold different data. Keep one, and clear the other \
         (`blkdiscard`, or `wipefs -a` and zeros over its first MiB): it is rebuilt then"
    )]
    Split {
        /// A member.
        device: String,
        /// The other one.
        other: String,
    },
    /// Twice the same member.
    #[error("{device} and {other} are the same member of the mirror: one is a copy")]
    Copy {
        /// A device.
        device: String,
        /// The other one.
        other: String,
    },
}

/// The newest label on a device.
#[must_use]
pub fn read_label(device: &mut Devices, number: usize) -> Option<MemberLabel> {
    let copies = OFFSETS_BYTES.into_iter().filter_map(|at| device.read(number, at, LABEL_BYTES).ok());
    copies.filter_map(|bytes| MemberLabel::decode(&bytes)).max_by_key(|label| label.serial)
}

/// What the configured devices are.
struct Sorted {
    found: Vec<Found>,
    /// Fast devices of pools without a mirror, each with the label that it would have as the only member of one.
    alone: Vec<Found>,
    blank: Vec<Blank>,
    left_out: Vec<(String, String)>,
}

fn sort(candidates: Vec<Candidate>) -> Sorted {
    let mut sorted = Sorted { found: Vec::new(), alone: Vec::new(), blank: Vec::new(), left_out: Vec::new() };
    for Candidate { name, device, contents } in candidates {
        let mut device = match device {
            Ok(device) => Devices::new(vec![device]),
            Err(why) => {
                sorted.left_out.push((name, why));
                continue;
            }
        };
        let label = read_label(&mut device, 0).filter(|label| label.member.is_some());
        let superblock = read_superblock(&mut device, 0).ok().map(|(superblock, _)| superblock);
        let epoch = superblock.as_ref().map_or(0, |superblock| superblock.epoch);
        let alone = superblock.filter(|superblock| !superblock.is_mirrored && superblock.member().role == Role::Fast);
        let Some(device) = device.list.pop() else { continue };
        match label {
            Some(label) => sorted.found.push(Found { name, device, label, epoch }),
            None if let Some(superblock) = alone => {
                sorted.alone.push(Found { name, device, label: first_label(&superblock), epoch });
            }
            None if contents.is_empty() => sorted.blank.push(Blank { name, device }),
            None => sorted
                .left_out
                .push((name, format!("it is no member of this mirror, and holds {}", contents.join(", ")))),
        }
    }
    sorted
}

/// The label of a fast device that is to be the first member of a mirror.
fn first_label(superblock: &Superblock) -> MemberLabel {
    MemberLabel {
        pool: superblock.pool,
        member: Some(0),
        generation: 0,
        serial: 0,
        ids: vec![superblock.member().id],
        in_sync: 1,
        rebuilding: None,
        rebuilt_bytes: 0,
        size_bytes: superblock.member().size_bytes,
        logical_block_bytes: superblock.journal_sector_bytes,
    }
}

/// Makes a mirror of the devices that are there. `capacity`: the capacity devices, whose labels are read. `new_id` names a member
/// that replaces another, or one beside the fast device of a pool that had no mirror; none: nothing is changed, no member is rebuilt, and no label written.
///
/// # Errors
/// Why these devices cannot be used, see [`JoinError`].
pub fn join(
    candidates: Vec<Candidate>,
    capacity: &mut Devices,
    new_id: Option<&mut dyn FnMut() -> Id>,
) -> Result<Joined, JoinError> {
    let configured = candidates.len().min(MEMBERS_MAX);
    let Sorted { mut found, alone, blank, mut left_out } = sort(candidates);
    // A pool that is to have a mirror from now on.
    let is_made_one = found.is_empty() && alone.len() == 1 && !blank.is_empty() && new_id.is_some();
    if is_made_one {
        found = alone;
    } else {
        let why = "it is the fast device of a pool without a mirror";
        left_out.extend(alone.into_iter().map(|found| (found.name, why.to_owned())));
    }
    let confirmed = confirmed(capacity, &found);
    let newest = newest(&found, (&blank, &left_out), confirmed.as_ref())?.clone();
    check_members(&found, &newest)?;
    let mut assembly = Assembly::new(&newest, left_out);
    let in_sync = found.iter().filter(|found| newest.is_in_sync(found.member()));
    let epoch = in_sync.map(|found| found.epoch).max().unwrap_or_default();
    found.into_iter().for_each(|found| assembly.take(found, &newest, epoch));
    match new_id {
        Some(new_id) => {
            for blank in blank {
                assembly.take_blank(blank, configured, new_id);
            }
            assembly.choose_rebuild(&newest);
        }
        None => assembly.change_nothing(blank),
    }
    if assembly.members.iter().all(|member| member.state != MemberState::InSync) {
        let names = assembly.members_named();
        return Err(JoinError::Stale {
            devices: names,
            found: newest.generation,
            expected: newest.generation,
            missing: missing(&newest, &assembly.members),
        });
    }
    Ok(assembly.finish(&newest))
}

/// The newest label.
fn newest<'a>(
    found: &'a [Found],
    (blank, left_out): (&[Blank], &[(String, String)]),
    confirmed: Option<&MemberLabel>,
) -> Result<&'a MemberLabel, JoinError> {
    let is_confirmed = |label: &MemberLabel| confirmed.is_some_and(|confirmed| is_same(label, confirmed));
    let age = |label: &MemberLabel| (label.generation, is_confirmed(label), label.serial);
    let newest = found.iter().max_by_key(|found| age(&found.label));
    let Some(newest) = newest else {
        let blank = blank.iter().map(|blank| format!("; {} is blank", blank.name));
        let others = left_out.iter().map(|(name, why)| format!("; {name}: {why}"));
        return Err(JoinError::NoLabel { why: blank.chain(others).collect() });
    };
    if let Some(other) = found.iter().find(|found| found.label.pool != newest.label.pool) {
        return Err(JoinError::Foreign { device: newest.name.clone(), other: other.name.clone() });
    }
    if let Some(confirmed) = confirmed
        && (confirmed.generation > newest.label.generation
            || confirmed.generation == newest.label.generation && !is_confirmed(&newest.label))
    {
        let missing = (0..confirmed.ids.len()).filter(|&number| confirmed.is_in_sync(number));
        return Err(JoinError::Stale {
            devices: found.iter().map(|found| found.name.clone()).collect::<Vec<_>>().join(", "),
            found: newest.label.generation,
            expected: confirmed.generation,
            missing: missing.map(|number| format_id(&confirmed.ids[number])).collect::<Vec<_>>().join(", "),
        });
    }
    Ok(&newest.label)
}

/// The newest label that the capacity devices have: nothing that came after its change was answered without it.
fn confirmed(capacity: &mut Devices, found: &[Found]) -> Option<MemberLabel> {
    let pool = found.first()?.label.pool;
    let labels = (0..capacity.list.len()).filter_map(|number| read_label(capacity, number));
    labels.filter(|label| label.pool == pool).max_by_key(|label| (label.generation, label.serial))
}

/// Whether no two devices contradict each other.
fn check_members(found: &[Found], newest: &MemberLabel) -> Result<(), JoinError> {
    for (at, one) in found.iter().enumerate() {
        for other in &found[..at] {
            let (device, other_device) = (one.name.clone(), other.name.clone());
            let is_same_id = one.label.ids.get(one.member()) == other.label.ids.get(other.member());
            if one.member() == other.member() && is_same_id {
                return Err(JoinError::Copy { device, other: other_device });
            }
            let is_newest = |label: &MemberLabel| label.generation == newest.generation;
            let is_disjoint = one.label.in_sync & other.label.in_sync == 0;
            if is_newest(&one.label) && is_newest(&other.label) && is_disjoint {
                return Err(JoinError::Split { device, other: other_device });
            }
        }
    }
    Ok(())
}

/// Ids of the members that hold everything and are not there.
fn missing(newest: &MemberLabel, members: &[Member]) -> String {
    let is_missing = |number: &usize| newest.is_in_sync(*number) && members[*number].device.is_none();
    let ids = (0..newest.ids.len()).filter(is_missing).map(|number| format_id(&newest.ids[number]));
    ids.collect::<Vec<_>>().join(", ")
}
