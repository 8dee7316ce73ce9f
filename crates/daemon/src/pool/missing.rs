//! Explains why a pool cannot be opened where a device is missing or blank. The advice must lead to the device or to
//! what is left, and never to formatting over the rest.

use super::devices::open_target;
use crate::config::Config;
use crate::contents;
use crate::text::chain;
use anyhow::anyhow;
use forebay_device::{OpenError as OpenedError, OpenMode};
use forebay_volume::Devices;
use forebay_volume::layout::format_id;
use forebay_volume::layout::superblock::{Role, Superblock};
use forebay_volume::recovery::{MemberError, OpenError, read_superblock};

/// What was found on a configured device.
enum State {
    /// It cannot be opened or read.
    Unopened(String),
    /// Not a member of a pool: the signatures found on it, empty where it is blank.
    NoPools(Vec<String>),
    /// A member of a pool.
    Pools(Box<Superblock>),
}

struct Member {
    target: String,
    role: Role,
    state: State,
}

/// Replaces the error of opening a device by an explanation from what the pool's other devices hold.
pub fn explain_unopened(config: &Config, error: anyhow::Error) -> anyhow::Error {
    let targets: Vec<_> = config.targets().collect();
    let members = targets.iter().enumerate().map(|(at, target)| {
        let state = match open_target(target, OpenMode::ReadOnly) {
            Ok(device) => state_of(&mut Devices::new(vec![device]), 0),
            Err(error) => State::Unopened(match error.downcast_ref::<OpenedError>() {
                // The error's own advice is meant for creating a pool.
                Some(OpenedError::TooSmall { path, size_bytes }) => {
                    format!("{} has only {size_bytes} bytes", path.display())
                }
                _ => chain(&error),
            }),
        };
        Member { target: target.to_string(), role: role_of(config, at), state }
    });
    advice(&members.collect::<Vec<_>>()).map_or(error, |text| anyhow!(text))
}

/// Replaces recovery's error of a device without a pool by an explanation from the other devices. `None` for any
/// other error.
pub fn explain_blank(devices: &mut Devices, error: &OpenError) -> Option<anyhow::Error> {
    use forebay_volume::layout::superblock::SuperblockError::Absent;
    let OpenError::Member(MemberError::Superblock { source: Absent, .. }) = error else { return None };
    // Recovery does not reorder devices where it finds no pool.
    let members = (0..devices.list.len()).map(|at| Member {
        target: devices.list[at].name().to_owned(),
        role: if at == 0 { Role::Fast } else { Role::Capacity },
        state: state_of(devices, at),
    });
    advice(&members.collect::<Vec<_>>()).map(|text| anyhow!(text))
}

fn role_of(config: &Config, at: usize) -> Role {
    if at < config.fast.len() { Role::Fast } else { Role::Capacity }
}

fn state_of(devices: &mut Devices, at: usize) -> State {
    match read_superblock(devices, at) {
        Ok((superblock, _)) => State::Pools(Box::new(superblock)),
        Err(MemberError::Superblock { .. }) => match contents::anything(devices.list[at].as_mut(), None) {
            Ok(found) => State::NoPools(found),
            Err(error) => State::Unopened(error.to_string()),
        },
        Err(error) => State::Unopened(error.to_string()),
    }
}

impl Member {
    /// What is wrong with the device; `None` where it is a member of a pool.
    fn complaint(&self) -> Option<String> {
        match &self.state {
            State::Unopened(why) => Some(why.clone()),
            State::NoPools(found) if found.is_empty() => Some(format!("{} is blank", self.target)),
            State::NoPools(found) => Some(format!("{} holds no pool but {}", self.target, found.join(", "))),
            State::Pools(_) => None,
        }
    }
}

fn advice(members: &[Member]) -> Option<String> {
    let pools = members.iter().find_map(|member| match &member.state {
        State::Pools(superblock) => Some((member, superblock)),
        _ => None,
    });
    let lost = members.iter().find(|member| member.complaint().is_some())?;
    let complaint = lost.complaint()?;
    let role = lost.role.name();
    let Some((other, superblock)) = pools else {
        let is_blank = |member: &Member| matches!(&member.state, State::NoPools(found) if found.is_empty());
        if members.iter().all(is_blank) {
            let name = &lost.target;
            return Some(format!(
                "{name}: no Forebay superblock, and all devices are blank; if they are meant to become a pool, run `forebay create CONFIG`"
            ));
        }
        let complaints: Vec<String> = members.iter().filter_map(Member::complaint).collect();
        return Some(format!(
            "no pool was found, the {role} device is missing: {}. Correct the targets in the configuration (`forebay inspect PATH` shows \
             what a device is)",
            complaints.join("; ")
        ));
    };
    let is_there = |id| {
        let mut there = members.iter().filter_map(|member| match &member.state {
            State::Pools(other) if other.pool == superblock.pool => Some(other.member().id),
            _ => None,
        });
        there.any(|other| other == id)
    };
    let expected = superblock.members.iter().filter(|member| member.role == lost.role && !is_there(member.id));
    let ids: Vec<String> =
        expected.map(|member| format!("{} of {} bytes", format_id(&member.id), member.size_bytes)).collect();
    let flag = if lost.role == Role::Fast { "--without-fast" } else { "--degraded" };
    Some(format!(
        "the pool's {role} device is missing: {complaint}, but {} belongs to pool {:?} ({}), whose {role} device is {}. Attach that \
         device or correct its target in the configuration (`forebay inspect PATH` tells ids). Format nothing: what is left would be \
         lost. Where the device is lost for ever, `forebay serve {flag} CONFIG` reads what is left (docs/when-a-device-fails.md)",
        other.target,
        superblock.name,
        format_id(&superblock.pool),
        ids.join(" or ")
    ))
}
