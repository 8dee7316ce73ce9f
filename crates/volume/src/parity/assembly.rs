//! Puts an array together from members whose labels were read, and from blank devices.

use super::array::Array;
use super::candidates::{Blank, Found, Sorted};
use super::found::FoundRows;
use super::label_places::LabelPlaces;
use super::look::{UNREAD_MAX, read_logs};
use super::parts::Parts;
use super::refusal::{JoinError, missing};
use super::view::ArrayView;
use crate::layout::Id;
use crate::layout::array_label::ArrayLabel;
use crate::layout::codec::COUNTER_LIMIT;
use crate::layout::member_label::fits;
use crate::mirror::{Member, MemberState, Unproven, missing_ids};
use crate::recovery::checkpoints::is_older;
use std::collections::VecDeque;

/// An array that can be used.
pub struct Joined {
    /// The array.
    pub array: Array,
    /// A handle to it.
    pub view: ArrayView,
    /// Devices that are not part of it, and why.
    pub left_out: Vec<(String, String)>,
}

/// What is newest among the members that hold everything by the label that counts.
pub(super) struct NewestSource {
    /// The newest epoch.
    epoch: u64,
    /// One of them was served in that epoch: all of them had it before.
    is_served: bool,
    /// The newest checkpoints of which one of them has headers.
    checkpoints: Option<(Option<u64>, u64)>,
}

impl NewestSource {
    /// Looks at those of these devices that hold everything by the label that counts.
    pub fn of(found: &[Found], basis: &ArrayLabel) -> Self {
        let sources = || found.iter().filter(|found| found.is_source(basis));
        let epoch = sources().map(|found| found.opened.epoch).max().unwrap_or(0);
        // All members that hold everything have an epoch before any of them is served in it.
        let is_served = sources().any(|found| found.opened.epoch == epoch && found.opened.is_served);
        let checkpoints = sources().filter_map(|found| found.checkpoints).max_by_key(|&(_, newest)| newest);
        Self { epoch, is_served, checkpoints }
    }
}

/// What may be done with devices.
pub(super) struct Permits<'a> {
    /// Names a member that replaces another. Without it nothing is changed: no member is rebuilt, and no label written.
    pub new_id: Option<&'a mut dyn FnMut() -> Id>,
    /// A member is used even if it may be none any more while one that is missing held everything, or if it is an older state of the device.
    pub accepts_unproven: bool,
}

/// What a member counts as.
enum Standing {
    /// It holds everything.
    Whole,
    /// It was being rebuilt, and has missed nothing since.
    HalfRebuilt,
    /// What it holds is old.
    Old,
}

/// A member whose rebuild goes on where it stopped.
struct HalfRebuilt {
    number: usize,
    /// It was there in the last opening.
    was_there: bool,
}

/// An array that is being put together: members with their labels first, then their logs, then blank devices in the places that are left.
pub(super) struct Assembly<'a> {
    /// The label that counts.
    basis: ArrayLabel,
    newest: NewestSource,
    permits: Permits<'a>,
    /// The label of the array as it will be.
    label: ArrayLabel,
    members: Vec<Member>,
    names: Vec<String>,
    /// Where each member has labels.
    places: Vec<LabelPlaces>,
    to_rebuild: VecDeque<usize>,
    half_rebuilt: Option<HalfRebuilt>,
    /// A member that holds everything and may be none any more.
    unproven: Option<String>,
    /// Some device has another label than the one that counts, or a member holds more than that says.
    differs: bool,
    /// What the logs of the members say of open rows.
    log: FoundRows,
    /// Blocks that are known to be lost: the members that had them are gone for good.
    lost_blocks: u32,
    blank: Vec<Blank>,
    left_out: Vec<(String, String)>,
}

impl<'a> Assembly<'a> {
    /// An array without devices yet. `basis`: the label that counts. `label`: the same, counting up from all labels that there are.
    pub fn new(basis: ArrayLabel, label: ArrayLabel, newest: NewestSource, permits: Permits<'a>) -> Self {
        let members: Vec<Member> = basis.ids.iter().map(|_| Member::new(None, MemberState::Out)).collect();
        Self {
            basis,
            newest,
            permits,
            label,
            names: vec![String::new(); members.len()],
            places: vec![LabelPlaces::BLANK; members.len()],
            members,
            to_rebuild: VecDeque::new(),
            half_rebuilt: None,
            unproven: None,
            differs: false,
            log: FoundRows::default(),
            lost_blocks: 0,
            blank: Vec::new(),
            left_out: Vec::new(),
        }
    }

    /// Takes all devices: those with labels as the members that they are. Blank ones wait for places that are left.
    pub fn admit(&mut self, devices: Sorted) {
        (self.blank, self.left_out) = (devices.blank, devices.left_out);
        devices.found.into_iter().for_each(|found| self.take(found));
    }

    /// Takes a device with a label as the member that it is.
    fn take(&mut self, found: Found) {
        let Some(number) = found.number_in(&self.basis) else {
            // It was replaced: what it holds does not count any more.
            return self.blank.push(found.into_blank());
        };
        if let Err(why) = fits(found.device.geometry(), self.basis.shape.member_bytes, self.basis.logical_block_bytes) {
            return self.left_out.push((found.name, why));
        }
        self.differs |= !found.is_of_change(&self.basis);
        self.places[number] = LabelPlaces::labelled(found.place);
        match self.standing(&found, number) {
            Standing::Whole => {
                self.members[number].state = MemberState::InSync;
                if found.holds.is_some() && self.unproven.is_none() {
                    self.unproven = Some(found.name.clone());
                }
            }
            Standing::HalfRebuilt => {
                let was_there = !self.newest.is_served || found.opened.epoch >= self.newest.epoch;
                self.half_rebuilt = Some(HalfRebuilt { number, was_there });
            }
            Standing::Old => self.rebuild_anew(number),
        }
        (self.members[number].device, self.names[number]) = (Some(found.device), found.name);
    }

    /// What a member counts as, by its label and by what it has missed.
    fn standing(&self, found: &Found, number: usize) -> Standing {
        let (newest, accepts_unproven) = (&self.newest, self.permits.accepts_unproven);
        // A device of an older epoch is an older state of it.
        let is_current = found.opened.epoch.saturating_add(1) >= newest.epoch;
        let is_old = !accepts_unproven && is_older(found.checkpoints, newest.checkpoints);
        let is_before = !accepts_unproven && newest.is_served && found.opened.epoch < newest.epoch;
        if self.basis.is_in_sync(number) && is_current && !is_before && !is_old {
            Standing::Whole
        } else if self.basis.rebuilding == Some(number as u8) && is_current {
            Standing::HalfRebuilt
        } else {
            Standing::Old
        }
    }

    /// Has all of a member written anew when its turn comes. The entries in its log are of another time and carry its id. A new id keeps them
    /// from being believed once it holds everything again.
    fn rebuild_anew(&mut self, number: usize) {
        if let Some(new_id) = &mut self.permits.new_id {
            self.label.ids[number] = new_id();
        }
        self.places[number] = self.places[number].forgotten();
        self.members[number].state = MemberState::Out;
        self.half_rebuilt = self.half_rebuilt.take().filter(|half| half.number != number);
        self.to_rebuild.push_back(number);
    }

    /// Ids of the members that hold everything by the label that counts, and are not there.
    pub fn absent(&self) -> String {
        missing_ids(&self.basis.ids, |number| self.basis.is_in_sync(number), &self.members)
    }

    /// Refuses to go on with a member that may be none any more while such members are absent: they would be rebuilt from it.
    pub fn refuse_unproven(&mut self, absent: &str) -> Result<(), Unproven> {
        if self.permits.new_id.is_some() && !self.permits.accepts_unproven {
            return Unproven::refuse(self.unproven.take(), absent);
        }
        Ok(())
    }

    /// Takes in the logs of all members that are believed. An unreadable place may hold all that is left of a row: the member is rebuilt, where
    /// enough others are there.
    pub fn take_logs(&mut self) -> Result<(), JoinError> {
        let half_rebuilt = self.half_rebuilt.as_ref().map(|half| half.number);
        let is_live = |&number: &usize| self.is_whole(number) || half_rebuilt == Some(number);
        let live = (0..self.members.len()).filter(is_live).collect();
        for (number, unread) in read_logs(&mut self.members, live, &self.basis, &mut self.log) {
            // These places are erased in any case: otherwise the next start could not read them either.
            self.log.unsure.extend(&unread);
            if self.permits.new_id.is_none() {
                continue;
            }
            if !self.is_whole(number) || self.whole() > self.basis.shape.data {
                self.rebuild_anew(number);
            } else if unread.len() > UNREAD_MAX {
                // Not just single places are bad: the device may be readable another time.
                return Err(JoinError::Unread { device: self.names[number].clone() });
            }
        }
        Ok(())
    }

    /// Refuses an array of which fewer members hold everything than are needed. With consent, a member that was rebuilt except for some blocks
    /// takes the place of the one that is lost for good and had these.
    pub fn need_enough(&mut self) -> Result<(), JoinError> {
        let (there, needed, lacking) = (self.whole(), self.basis.shape.data, self.basis.missing);
        if there >= needed {
            return Ok(());
        }
        let is_all_but_some = there + 1 == needed && lacking > 0;
        let last = self.half_rebuilt.take().filter(|half| is_all_but_some && half.was_there).map(|half| half.number);
        let Some(number) = last.filter(|_| self.permits.accepts_unproven) else {
            return Err(JoinError::TooFew {
                there,
                members: self.members.len(),
                needed,
                missing: missing(&self.basis, &self.members, &self.names, &self.left_out),
                lacking: last.map(|number| (self.names[number].clone(), lacking)),
            });
        };
        self.members[number].state = MemberState::InSync;
        (self.differs, self.lost_blocks) = (true, lacking);
        Ok(())
    }

    /// Makes an array of what is there. `absent`: see [`Assembly::absent`].
    pub fn finish(mut self, absent: String) -> Joined {
        if self.permits.new_id.is_some() {
            self.fill_gaps();
            self.choose_rebuild();
        } else {
            self.change_nothing();
        }
        self.label.in_sync =
            (0..self.members.len()).filter(|&number| self.is_whole(number)).fold(0, |bits, number| bits | 1 << number);
        let of = |label: &ArrayLabel| (label.in_sync, label.rebuilding, label.ids.clone());
        let is_new = self.permits.new_id.is_some() && (self.differs || of(&self.label) != of(&self.basis));
        self.log.newest = self.log.newest.max((self.newest.epoch << 32).min(COUNTER_LIMIT / 2));
        let parts = Parts {
            members: self.members,
            names: self.names,
            label: self.label,
            places: self.places,
            to_rebuild: self.to_rebuild,
            found: self.log,
            is_new,
            is_blank: false,
        };
        let (array, view) = parts.build();
        view.count_unreadable(self.lost_blocks);
        view.members().set_missing(absent);
        Joined { array, view, left_out: self.left_out }
    }

    /// Takes blank devices in the places of members that are not there.
    fn fill_gaps(&mut self) {
        for Blank { name, device, places } in std::mem::take(&mut self.blank) {
            let Some(number) = self.members.iter().position(|member| member.device.is_none()) else {
                self.left_out.push((name, "the capacity tier has all its members".to_owned()));
                continue;
            };
            match fits(device.geometry(), self.basis.shape.member_bytes, self.basis.logical_block_bytes) {
                Ok(()) => {
                    (self.names[number], self.members[number].device, self.places[number]) =
                        (name, Some(device), places);
                    self.rebuild_anew(number);
                }
                Err(why) => self.left_out.push((name, why)),
            }
        }
    }

    /// Chooses the member that is rebuilt, one at a time: first the one whose rebuild was begun.
    fn choose_rebuild(&mut self) {
        let next = match self.half_rebuilt.take() {
            Some(half) => Some(half.number),
            None => {
                (self.label.rebuilt_rows, self.label.missing) = (0, 0);
                self.to_rebuild.pop_front()
            }
        };
        self.label.rebuilding = next.map(|number| number as u8);
        if let Some(number) = next {
            self.members[number].state = MemberState::Rebuilding;
        }
    }

    /// Leaves members that do not hold everything as they are, as nothing is written.
    fn change_nothing(&mut self) {
        self.to_rebuild.clear();
        (self.label.rebuilding, self.label.rebuilt_rows, self.label.missing) = (None, 0, 0);
        let blank = std::mem::take(&mut self.blank).into_iter();
        self.left_out.extend(blank.map(|blank| (blank.name, "it holds nothing that counts".to_owned())));
    }

    fn is_whole(&self, number: usize) -> bool {
        self.members[number].state == MemberState::InSync
    }

    /// How many members hold everything.
    fn whole(&self) -> usize {
        self.members.iter().filter(|member| member.state == MemberState::InSync).count()
    }
}
