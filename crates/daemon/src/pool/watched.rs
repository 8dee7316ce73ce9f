//! The devices of a pool, each counted by itself: also those that are one device to the engine, as members of a mirror or of a tier with parity.

use forebay_block::Device;
use forebay_device::{WatchedCounts, WatchedDevice};
use forebay_volume::Devices;
use forebay_volume::layout::superblock::Superblock;
use forebay_volume::mirror::{Candidate, MemberState, MirrorView};
use forebay_volume::standing::{Expected, Standing, StandingDevice};
use std::time::Duration;

/// A device that has not answered a request for so long is said not to answer: most drivers have ended it by then.
pub const UNANSWERED: Duration = Duration::from_secs(30);

/// Who is counted, by name, what is counted of it, and whether it still is what it was.
struct Counted {
    name: String,
    counts: WatchedCounts,
    standing: Standing,
}

impl Counted {
    fn shown(&self, member_of: Option<&'static str>, is_judged: bool) -> WatchedOne<'_> {
        let overwritten = self.standing.lost().filter(|_| is_judged);
        let damaged = self.standing.damaged();
        WatchedOne { name: &self.name, counts: &self.counts, member_of, overwritten, damaged }
    }
}

/// A device that is counted.
pub struct WatchedOne<'a> {
    /// Its name.
    pub name: &'a str,
    /// What it was asked.
    pub counts: &'a WatchedCounts,
    /// The tier that it is one of several devices of.
    pub member_of: Option<&'static str>,
    /// Why it is not what it was when the pool was opened.
    pub overwritten: Option<String>,
    /// What is damaged on it, although it still is what it was.
    pub damaged: Option<String>,
}

/// All that are counted.
#[derive(Default)]
pub struct Watched {
    devices: Vec<Counted>,
    members: Vec<Counted>,
}

fn watch(name: &str, device: Box<dyn Device>) -> (Box<dyn Device>, Counted) {
    let (device, counts) = WatchedDevice::new(device);
    let (device, standing) = StandingDevice::new(Box::new(device));
    (Box::new(device), Counted { name: name.to_owned(), counts, standing })
}

impl Watched {
    /// Counts what the engine asks of its devices.
    #[must_use]
    pub fn devices(&mut self, devices: Devices) -> Devices {
        devices.map(|device| {
            let name = device.name().to_owned();
            let (device, counted) = watch(&name, device);
            self.devices.push(counted);
            device
        })
    }

    /// Counts what is asked of a device that is to be a member. A device that was known by this name before is forgotten.
    pub(super) fn member(&mut self, name: &str, device: Box<dyn Device>) -> Box<dyn Device> {
        let (device, counted) = watch(name, device);
        self.members.retain(|known| known.name != name);
        self.members.push(counted);
        device
    }

    /// The same of one that may come to be none.
    pub(super) fn candidate(&mut self, candidate: Candidate) -> Candidate {
        let Candidate { name, device, contents } = candidate;
        let device = device.map(|device| self.member(&name, device));
        Candidate { name, device, contents }
    }

    /// Those of the pool, and the members of those that are several.
    #[must_use]
    pub fn all(&self, devices: &Devices) -> Vec<WatchedOne<'_>> {
        let mut all: Vec<WatchedOne<'_>> = self.devices.iter().map(|counted| counted.shown(None, true)).collect();
        for Tier { name, view, needed, .. } in tiers(devices) {
            let members = view.status().members;
            let in_sync = members.iter().filter(|member| member.state == MemberState::InSync).count();
            for member in members {
                // One that can be done without is left behind, and its tier says why.
                let is_judged = member.state == MemberState::InSync && in_sync <= needed;
                let known = self.members.iter().find(|known| known.name == member.name);
                all.extend(known.map(|counted| counted.shown(Some(name), is_judged)));
            }
        }
        all
    }

    /// Has superblock and label of each device read again now and then, and of members that carry others leaves behind those that can be done without.
    pub fn look(&self, now_ns: u64, devices: &Devices, superblock: &Superblock) {
        let expected = |index: u16, size_bytes: u64, member| {
            move || Expected { superblock: superblock.clone(), index, size_bytes, member }
        };
        for (index, counted) in self.devices.iter().enumerate() {
            let is_several = index == 0 && devices.mirror().is_some() || index == 1 && devices.array().is_some();
            // Bases of disks are behind those of the pool. Nobody writes over a bucket by an accident, and each look would be asked of a store.
            let Some(member) = superblock.members.get(index).filter(|_| !is_several && !is_bucket(&counted.name))
            else {
                continue;
            };
            counted.standing.look(now_ns, expected(index as u16, member.size_bytes, None));
        }
        for Tier { index, view, member_bytes, .. } in tiers(devices) {
            let used_bytes = superblock.members.get(usize::from(index)).map(|member| member.size_bytes);
            let Some(size_bytes) = member_bytes.or(used_bytes) else { continue };
            for member in view.status().members.iter().filter(|member| member.state == MemberState::InSync) {
                let Some(counted) = self.members.iter().find(|known| known.name == member.name) else { continue };
                match counted.standing.lost() {
                    Some(why) => view.leave_behind(member.id, why),
                    None => counted.standing.look(now_ns, expected(index, size_bytes, Some(member.id))),
                }
            }
        }
    }
}

/// A tier that is several devices.
struct Tier<'a> {
    index: u16,
    name: &'static str,
    view: &'a MirrorView,
    /// So many members must hold everything.
    needed: usize,
    /// Bytes of each that are used, where that is not what the pool has of the tier.
    member_bytes: Option<u64>,
}

fn tiers(devices: &Devices) -> impl Iterator<Item = Tier<'_>> {
    let mirror = devices.mirror().map(|view| Tier { index: 0, name: "fast", view, needed: 1, member_bytes: None });
    let array = devices.array().map(|array| Tier {
        index: 1,
        name: "capacity",
        view: array.members(),
        needed: array.shape().data,
        member_bytes: Some(array.shape().member_bytes),
    });
    mirror.into_iter().chain(array)
}

/// Whether a device is a bucket, by its name.
fn is_bucket(name: &str) -> bool {
    name.starts_with("s3:")
}
