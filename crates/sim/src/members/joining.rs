//! Making one device of members: a new one, or the one that is there.

use super::{Members, Several};
use crate::coverage::Coverage;
use crate::device::SimDevice;
use forebay_block::Device;
use forebay_volume::Devices;
use forebay_volume::layout::Id;
use forebay_volume::mirror::{self, Candidate, new_mirror};
use forebay_volume::parity::{self, Joined, new_array};

/// What a rebuild copies, in bytes a second: so slowly that power fails within one.
const REBUILD_BYTES_PER_S: u64 = 8 << 20;
const POOL: Id = [7; 16];

/// Where the log of an array has places, and what an entry begins with.
const SLOT_BYTES: u64 = 8192;
const ENTRY: &[u8] = b"FBPE";

fn boxed(device: &SimDevice) -> Box<dyn Device> {
    Box::new(device.clone())
}

impl Members {
    fn capacity(&self, devices: &[SimDevice]) -> Vec<Box<dyn Device>> {
        devices[self.capacity.clone()].iter().map(boxed).collect()
    }

    fn candidates(&self, devices: &[SimDevice], is_there: impl Fn(usize) -> bool) -> Vec<Candidate> {
        let there = self.places.iter().enumerate().filter(|(member, _)| is_there(*member));
        let candidate = |device: &SimDevice| Candidate {
            name: device.name().to_owned(),
            device: Ok(boxed(device)),
            contents: Vec::new(),
        };
        there.map(|(_, &at)| candidate(&devices[at])).collect()
    }

    /// Devices for a new pool.
    pub fn create(&self, devices: &[SimDevice]) -> Devices {
        let members = self.places.iter().map(|&at| boxed(&devices[at])).collect();
        let ids: Vec<Id> = (1..=self.places.len() as u8).map(|member| [member; 16]).collect();
        match &self.several {
            Several::None => Devices::new(devices.iter().map(boxed).collect()),
            Several::Mirror => {
                let (mirror, view) = new_mirror(members, POOL, &ids);
                let first: [Box<dyn Device>; 1] = [Box::new(mirror)];
                Devices::mirrored(first.into_iter().chain(self.capacity(devices)).collect(), view)
            }
            Several::Array { shape, .. } => {
                let (array, view) = new_array(members, *shape, POOL, &ids);
                Devices::new(vec![boxed(&devices[0]), Box::new(array)]).with_array(view)
            }
        }
    }

    /// Devices of the pool that is there.
    pub fn join(&mut self, devices: &[SimDevice], is_writable: bool) -> Result<Devices, String> {
        match self.several {
            Several::None => Ok(Devices::new(devices.iter().map(boxed).collect())),
            Several::Mirror => self.join_mirror(devices, is_writable),
            Several::Array { .. } => self.join_array(devices, is_writable),
        }
    }

    fn join_mirror(&mut self, devices: &[SimDevice], is_writable: bool) -> Result<Devices, String> {
        let mut capacity = Devices::new(self.capacity(devices));
        let culprit = &self.culprits[0];
        let is_there = |member: usize| if member == culprit.member { !culprit.is_absent } else { !self.is_alone };
        let candidates = self.candidates(devices, is_there);
        let mut new_id = || self.new_id();
        let joined = match mirror::join(candidates, &mut capacity, is_writable.then_some(&mut new_id)) {
            Ok(joined) => joined,
            // It was left behind: no more than that is refused.
            Err(mirror::JoinError::Stale { .. } | mirror::JoinError::Unread { .. }) if self.is_alone => {
                self.is_alone = false;
                return self.join(devices, is_writable);
            }
            // A label of a capacity device was torn: whoever is there may be one that was left behind.
            Err(mirror::JoinError::Unread { .. }) if self.culprits[0].is_absent => {
                self.culprits[0].is_absent = false;
                return self.join(devices, is_writable);
            }
            Err(error) => return Err(error.to_string()),
        };
        self.must_recover |= self.is_alone && is_writable;
        joined.view.set_rebuild_rate(REBUILD_BYTES_PER_S);
        let list = [Box::new(joined.mirror) as Box<dyn Device>].into_iter().chain(capacity.list).collect();
        Ok(Devices::mirrored(list, joined.view))
    }

    fn join_array(&mut self, devices: &[SimDevice], is_writable: bool) -> Result<Devices, String> {
        let is_absent =
            |member: usize| self.culprits.iter().any(|culprit| culprit.member == member && culprit.is_absent);
        let candidates = self.candidates(devices, |member| !is_absent(member));
        self.found_open += u64::from(is_writable && self.has_open_rows(devices));
        let mut new_id = || self.new_id();
        let Joined { array, view, .. } =
            parity::join(candidates, None, if is_writable { Some(&mut new_id) } else { None })
                .map_err(|error| error.to_string())?;
        view.members().set_rebuild_rate(REBUILD_BYTES_PER_S);
        self.array = Some(view.clone());
        Ok(Devices::new(vec![boxed(&devices[0]), Box::new(array)]).with_array(view))
    }

    fn has_open_rows(&self, devices: &[SimDevice]) -> bool {
        let Several::Array { shape, .. } = &self.several else { return false };
        let log = shape.head_bytes..shape.head_bytes + u64::from(shape.log_slots) * SLOT_BYTES;
        self.places.iter().any(|&at| devices[at].count_places(log.clone(), SLOT_BYTES, ENTRY) > 0)
    }

    /// With one member more missing than there is parity for an array is refused.
    pub fn is_refused(&mut self, devices: &[SimDevice], coverage: &mut Coverage) -> Result<(), String> {
        let Several::Array { parity, .. } = &self.several else { return Ok(()) };
        let others = (0..self.places.len()).filter(|&member| !self.is_culprit(member));
        let missing: Vec<usize> = (self.culprits.iter().map(|culprit| culprit.member).chain(others))
            .take(parity.redundancy.parity + 1)
            .collect();
        let candidates = self.candidates(devices, |member| !missing.contains(&member));
        let mut new_id = || self.new_id();
        match parity::join(candidates, None, Some(&mut new_id)) {
            Err(parity::JoinError::TooFew { .. }) => {
                coverage.count("arrays refused with too few members");
                Ok(())
            }
            Err(error) => Err(error.to_string()),
            Ok(_) => Err(format!("members {missing:?} are missing, and it was put together without them")),
        }
    }
}
