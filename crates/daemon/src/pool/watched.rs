//! The devices of a pool, each counted by itself: also those that are one device to the engine, as members of a mirror or of a tier with parity.

use forebay_block::Device;
use forebay_device::{WatchedCounts, WatchedDevice};
use forebay_volume::Devices;
use forebay_volume::mirror::{Candidate, MirrorView};
use forebay_volume::parity::ArrayView;
use std::time::Duration;

/// A device that has not answered a request for so long is said not to answer: most drivers have ended it by then.
pub const UNANSWERED: Duration = Duration::from_secs(30);

/// Who is counted, by name, and what is counted of it.
type Counted = (String, WatchedCounts);

/// A device that is counted.
pub struct WatchedOne<'a> {
    /// Its name.
    pub name: &'a str,
    /// What it was asked.
    pub counts: &'a WatchedCounts,
    /// The tier that it is one of several devices of.
    pub member_of: Option<&'static str>,
}

/// All that are counted.
#[derive(Default)]
pub struct Watched {
    devices: Vec<Counted>,
    members: Vec<Counted>,
}

fn watch(device: Box<dyn Device>) -> (Box<dyn Device>, WatchedCounts) {
    let (device, counts) = WatchedDevice::new(device);
    (Box::new(device), counts)
}

impl Watched {
    /// Counts what the engine asks of its devices.
    #[must_use]
    pub fn devices(&mut self, devices: Devices) -> Devices {
        devices.map(|device| {
            let name = device.name().to_owned();
            let (device, counts) = watch(device);
            self.devices.push((name, counts));
            device
        })
    }

    /// Counts what is asked of a device that is to be a member. A device that was known by this name before is forgotten.
    pub(super) fn member(&mut self, name: &str, device: Box<dyn Device>) -> Box<dyn Device> {
        let (device, counts) = watch(device);
        self.members.retain(|(known, _)| known != name);
        self.members.push((name.to_owned(), counts));
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
        let one = |(name, counts), member_of| WatchedOne { name, counts, member_of };
        let mut all: Vec<WatchedOne<'_>> =
            self.devices.iter().map(|(name, counts)| one((name, counts), None)).collect();
        let tiers = [(devices.mirror(), "fast"), (devices.array().map(ArrayView::members), "capacity")];
        for (members, tier) in tiers {
            for member in members.map(MirrorView::status).into_iter().flat_map(|status| status.members) {
                let known = self.members.iter().find(|(name, _)| *name == member.name);
                all.extend(known.map(|(name, counts)| one((name, counts), Some(tier))));
            }
        }
        all
    }
}
