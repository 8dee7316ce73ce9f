//! Sorts the devices that are configured as members of an array.

use super::label_places::LabelPlaces;
use super::look::label_and_place;
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

    /// Its number among the members of a label.
    pub fn number_in(&self, label: &ArrayLabel) -> Option<usize> {
        label.ids.iter().position(|id| *id == self.id())
    }

    /// Whether it holds everything by a label.
    pub fn is_source(&self, label: &ArrayLabel) -> bool {
        self.number_in(label).is_some_and(|number| label.is_in_sync(number))
    }

    /// Whether another label names the same members, and the same of them as holding everything.
    pub fn agrees(&self, other: &ArrayLabel) -> bool {
        (self.label.in_sync, &self.label.ids) == (other.in_sync, &other.ids)
    }

    /// Whether its label and another one are of the same change of the members.
    pub fn is_of_change(&self, other: &ArrayLabel) -> bool {
        let of = |label: &ArrayLabel| (label.generation, label.rebuilding);
        self.agrees(other) && of(&self.label) == of(other)
    }

    /// The device as one whose contents do not count.
    pub fn into_blank(self) -> Blank {
        Blank { name: self.name, device: self.device, places: LabelPlaces::labelled(self.place).forgotten() }
    }
}

/// A device that is blank, or holds nothing that counts any more.
pub(super) struct Blank {
    pub name: String,
    pub device: Box<dyn Device>,
    /// Where it still has a label of what it was.
    pub places: LabelPlaces,
}

/// What the configured devices were found to be.
pub(super) struct Sorted {
    /// Those with labels.
    pub found: Vec<Found>,
    /// Those that hold nothing that counts.
    pub blank: Vec<Blank>,
    /// Others, each with the reason why it is left out.
    pub left_out: Vec<(String, String)>,
}

impl Sorted {
    /// Sets devices aside that have been used for something else since they had their labels. Where too few whose labels are believed hold
    /// everything by the label that counts, a doubted device that should hold everything is believed all the same: it may be all that is left
    /// of the pool.
    pub fn set_used_aside(&mut self, basis: &ArrayLabel) {
        let proven = self.found.iter().filter(|found| found.holds.is_none() && found.is_source(basis)).count();
        let is_needed = |found: &Found| proven < basis.shape.data && found.is_source(basis);
        let is_used = |found: &mut Found| found.holds.is_some() && !is_needed(found);
        for mut used in self.found.extract_if(.., is_used) {
            match used.holds.take().unwrap_or_default() {
                holds if holds.is_empty() => self.blank.push(used.into_blank()),
                holds => {
                    let why = format!("it was a member, and has been used since: it holds {}", holds.join(", "));
                    self.left_out.push((used.name, why));
                }
            }
        }
    }
}

/// Looks at each of the configured devices.
pub(super) fn sort(candidates: Vec<Candidate>) -> Sorted {
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
            None if contents.is_empty() => blank.push(Blank { name, device, places: LabelPlaces::BLANK }),
            None => left_out.push((name, format!("it is no member of this array, and holds {}", contents.join(", ")))),
        }
    }
    Sorted { found, blank, left_out }
}
