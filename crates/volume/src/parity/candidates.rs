//! Sorts the devices that are configured as members of an array.

use super::look::label_and_place;
use super::roster::FIRST_PLACE;
use crate::io::Devices;
use crate::layout::Id;
use crate::layout::array_label::ArrayLabel;
use crate::mirror::{Candidate, is_believed};
use crate::recovery::checkpoints::on_capacity;
use crate::recovery::opened::Opened;
use crate::recovery::read_superblock;
use forebay_block::Device;

/// A device with a label.
pub(super) struct Found {
    pub name: String,
    pub device: Box<dyn Device>,
    pub label: ArrayLabel,
    /// In which of its two places the label is.
    pub place: usize,
    pub opened: Opened,
    /// The checkpoints of which it has headers, see [`on_capacity`].
    pub checkpoints: Option<(Option<u64>, u64)>,
    /// What is on the device, where its label is not believed.
    pub holds: Option<Vec<String>>,
}

impl Found {
    /// Its id.
    pub fn id(&self) -> Id {
        self.label.ids[usize::from(self.label.member)]
    }

    /// Whether another label names the same members, and the same of them as holding everything.
    pub fn agrees(&self, other: &ArrayLabel) -> bool {
        (self.label.in_sync, &self.label.ids) == (other.in_sync, &other.ids)
    }
}

/// A device that is blank, or holds nothing that counts any more.
pub(super) struct Blank {
    pub name: String,
    pub device: Box<dyn Device>,
    /// In which place it still has a label of what it was: the next label goes to the other one.
    pub place: usize,
}

/// Sorts the configured devices into members, blank ones and others, the last with the reason why they are left out.
pub(super) fn sort(candidates: Vec<Candidate>) -> (Vec<Found>, Vec<Blank>, Vec<(String, String)>) {
    let (mut found, mut blank, mut left_out) = (Vec::new(), Vec::new(), Vec::new());
    for Candidate { name, device, contents } in candidates {
        let mut devices = match device {
            Ok(device) => Devices::new(vec![device]),
            Err(why) => {
                left_out.push((name, why));
                continue;
            }
        };
        let label = label_and_place(&mut devices, 0);
        let is_believed = label.as_ref().is_none_or(|(label, _)| is_believed(&mut devices, &label.into()));
        let superblock = read_superblock(&mut devices, 0).ok().map(|(superblock, _)| superblock);
        let opened = superblock.as_ref().map(Opened::of).unwrap_or_default();
        let checkpoints = superblock.and_then(|superblock| on_capacity(&mut devices, 0, &superblock));
        let Some(device) = devices.list.pop() else { continue };
        match label {
            Some((label, place)) => {
                let holds = (!is_believed).then_some(contents);
                found.push(Found { name, device, label, place, opened, checkpoints, holds });
            }
            None if contents.is_empty() => blank.push(Blank { name, device, place: FIRST_PLACE }),
            None => left_out.push((name, format!("it is no member of this array, and holds {}", contents.join(", ")))),
        }
    }
    (found, blank, left_out)
}

/// Separates devices whose labels are believed from those that have been used for something else since. Where too few believed ones hold
/// everything, a doubted device that should hold everything is believed all the same: it may be all that is left of the pool.
pub(super) fn believed(found: Vec<Found>, basis: &ArrayLabel) -> (Vec<Found>, Vec<Found>) {
    let is_source = |found: &Found| {
        basis.ids.iter().position(|id| *id == found.id()).is_some_and(|number| basis.is_in_sync(number))
    };
    let sources = found.iter().filter(|found| found.holds.is_none() && is_source(found)).count();
    found.into_iter().partition(|found| found.holds.is_none() || sources < basis.shape.data && is_source(found))
}
