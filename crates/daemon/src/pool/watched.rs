//! Counts and checks each device of a pool by itself, including the members of a mirror or a parity array, which the
//! engine sees as one device.

use forebay_block::Device;
use forebay_device::{WatchedCounts, WatchedDevice};
use forebay_volume::Devices;
use forebay_volume::layout::superblock::Superblock;
use forebay_volume::mirror::{Candidate, MemberState, MirrorView};
use forebay_volume::overwrite_watch::{Expected, OverwriteWatch, OverwriteWatchedDevice};
use std::time::Duration;

/// Age of a request from which on its device counts as not answering. Most drivers have failed the request by then.
pub const UNANSWERED: Duration = Duration::from_secs(30);

/// A watched device: its name, its statistics, and whether its superblock and label are still in place.
struct Counted {
    name: String,
    counts: WatchedCounts,
    watch: OverwriteWatch,
}

impl Counted {
    fn shown(&self, member_of: Option<&'static str>, is_judged: bool) -> WatchedOne<'_> {
        let overwritten = self.watch.lost().filter(|_| is_judged);
        let damaged = self.watch.damaged();
        WatchedOne { name: &self.name, counts: &self.counts, member_of, overwritten, damaged }
    }
}

/// A watched device as the status shows it.
pub struct WatchedOne<'a> {
    /// Name of the device.
    pub name: &'a str,
    /// Counts and latencies of its requests.
    pub counts: &'a WatchedCounts,
    /// The mirrored or parity tier this device belongs to; `None` where the device is a tier's only one or stands
    /// alone.
    pub member_of: Option<&'static str>,
    /// Why the device is not the one that was opened any more; `None` while it is.
    pub overwritten: Option<String>,
    /// What is damaged on the device; `None` where nothing is.
    pub damaged: Option<String>,
}

/// All watched devices of a pool.
#[derive(Default)]
pub struct Watched {
    devices: Vec<Counted>,
    members: Vec<Counted>,
}

fn watch(name: &str, device: Box<dyn Device>) -> (Box<dyn Device>, Counted) {
    let (device, counts) = WatchedDevice::new(device);
    let (device, watch) = OverwriteWatchedDevice::new(Box::new(device));
    (Box::new(device), Counted { name: name.to_owned(), counts, watch })
}

impl Watched {
    /// Wraps all devices of the engine so that their requests are counted.
    #[must_use]
    pub fn devices(&mut self, devices: Devices) -> Devices {
        devices.map(|device| {
            let name = device.name().to_owned();
            let (device, counted) = watch(&name, device);
            self.devices.push(counted);
            device
        })
    }

    /// Wraps a device that becomes a member. An earlier device of this name is forgotten.
    pub(super) fn member(&mut self, name: &str, device: Box<dyn Device>) -> Box<dyn Device> {
        let (device, counted) = watch(name, device);
        self.members.retain(|known| known.name != name);
        self.members.push(counted);
        device
    }

    /// Wraps a candidate, which may still be refused as a member.
    pub(super) fn candidate(&mut self, candidate: Candidate) -> Candidate {
        let Candidate { name, device, contents } = candidate;
        let device = device.map(|device| self.member(&name, device));
        Candidate { name, device, contents }
    }

    /// The devices of the pool, then the members of its mirror and array.
    #[must_use]
    pub fn all(&self, devices: &Devices) -> Vec<WatchedOne<'_>> {
        let mut all: Vec<WatchedOne<'_>> = self.devices.iter().map(|counted| counted.shown(None, true)).collect();
        for Tier { name, view, needed, .. } in tiers(devices) {
            let members = view.status().members;
            let in_sync = members.iter().filter(|member| member.state == MemberState::InSync).count();
            for member in members {
                // A member that can be spared is left behind when it is overwritten, and its tier reports the reason.
                let is_judged = member.state == MemberState::InSync && in_sync <= needed;
                let known = self.members.iter().find(|known| known.name == member.name);
                all.extend(known.map(|counted| counted.shown(Some(name), is_judged)));
            }
        }
        all
    }

    /// Has superblock and label of each device read again at intervals. A member whose label is not its own any more
    /// is left behind, unless the tier needs it.
    pub fn look(&self, now_ns: u64, devices: &Devices, superblock: &Superblock) {
        let expected = |index: u16, size_bytes: u64, member| {
            move || Expected { superblock: superblock.clone(), index, size_bytes, member }
        };
        for (index, counted) in self.devices.iter().enumerate() {
            let is_several = index == 0 && devices.mirror().is_some() || index == 1 && devices.array().is_some();
            // Bases of disks come behind the members in the list. Buckets are skipped: nobody overwrites one by
            // accident, and each check would be a request to the store.
            let Some(member) = superblock.members.get(index).filter(|_| !is_several && !is_bucket(&counted.name))
            else {
                continue;
            };
            counted.watch.look(now_ns, expected(index as u16, member.size_bytes, None));
        }
        for Tier { index, view, member_bytes, .. } in tiers(devices) {
            let used_bytes = superblock.members.get(usize::from(index)).map(|member| member.size_bytes);
            let Some(size_bytes) = member_bytes.or(used_bytes) else { continue };
            for member in view.status().members.iter().filter(|member| member.state == MemberState::InSync) {
                let Some(counted) = self.members.iter().find(|known| known.name == member.name) else { continue };
                match counted.watch.lost() {
                    Some(why) => view.leave_behind(member.id, why),
                    None => counted.watch.look(now_ns, expected(index, size_bytes, Some(member.id))),
                }
            }
        }
    }
}

/// A tier of several devices.
struct Tier<'a> {
    index: u16,
    name: &'static str,
    view: &'a MirrorView,
    /// Count of members that must hold everything.
    needed: usize,
    /// Bytes used of each member, where this differs from the size of the tier.
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

/// Whether a device is a bucket, judged by its name.
fn is_bucket(name: &str) -> bool {
    name.starts_with("s3:")
}
