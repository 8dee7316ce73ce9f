//! Which members hold everything, which are left behind or rebuilt, and the labels that say so. After a change of the members no other
//! change is answered before all that get writes have its label.

use super::chores::Upkeep;
use super::label_places::LabelPlaces;
use super::members::Members;
use super::pause::Pause;
use super::view::ArrayView;
use crate::layout::Id;
use crate::layout::array_label::{ArrayLabel, OFFSETS_BYTES};
use crate::mirror::{MemberState, Successors, Taken, numbers_in};
use forebay_block::{Buf, IoError, SharedBuf};
use std::collections::VecDeque;

/// How often a label is written where no member could be left behind for its failure: some times at once, then once a second.
const ATTEMPTS_MAX: u8 = 30;
const ATTEMPTS_AT_ONCE: u8 = 2;

/// State of the members' label.
pub(super) struct Roster {
    /// The newest label, durable or on its way.
    label: ArrayLabel,
    /// Where each member has labels.
    places: Vec<LabelPlaces>,
    /// Where the label that is on its way was written, by member.
    written_to: Vec<Option<usize>>,
    /// A label is being written.
    is_writing: bool,
    /// It changes which members hold everything.
    is_change: bool,
    attempts: u8,
    /// It could not be written, and is to be tried again after a while.
    is_put_off: bool,
    pause: Pause,
    failed_settles: u8,
    /// Another label is to follow; and it changes which members hold everything.
    is_wanted: bool,
    wants_change: bool,
    successors: Successors,
    view: ArrayView,
    /// Why no more writes are taken.
    broken: Option<IoError>,
}

impl Roster {
    pub fn new(
        label: ArrayLabel,
        places: Vec<LabelPlaces>,
        is_new: bool,
        to_rebuild: VecDeque<usize>,
        view: ArrayView,
    ) -> Self {
        Self {
            label,
            places,
            written_to: Vec::new(),
            is_writing: false,
            is_change: false,
            attempts: 0,
            is_put_off: false,
            pause: Pause::default(),
            failed_settles: 0,
            is_wanted: is_new,
            wants_change: is_new,
            successors: Successors::new(view.members().clone(), to_rebuild),
            view,
            broken: None,
        }
    }

    /// A row that was found open could not be made whole. Nothing is written until it is; after so many attempts nothing is written at all
    /// any more.
    pub fn not_settled(&mut self, error: &IoError, attempts_max: u8) {
        self.failed_settles += 1;
        if self.failed_settles >= attempts_max {
            self.view.set_broken(format!("what its parity log says cannot be made good on enough members: {error}"));
            self.broken = Some(error.clone());
        }
    }

    /// Settling got on: failures count from zero again.
    pub fn settled(&mut self) {
        self.failed_settles = 0;
    }

    /// The newest label.
    pub fn label(&self) -> &ArrayLabel {
        &self.label
    }

    /// The id of a member.
    pub fn id(&self, number: usize) -> &Id {
        &self.label.ids[number]
    }

    /// Where a member has labels.
    pub fn places(&self, number: usize) -> &LabelPlaces {
        &self.places[number]
    }

    /// Why no more writes are taken.
    pub fn broken(&self) -> Option<IoError> {
        self.broken.clone()
    }

    /// Whether a label is being written, or is to be.
    pub fn is_active(&self) -> bool {
        self.is_writing || self.is_wanted
    }

    /// Whether no change may be answered now.
    pub fn holds_answers(&self) -> bool {
        (self.is_writing && self.is_change || self.wants_change) && self.broken.is_none()
    }

    fn want(&mut self, is_change: bool) {
        self.is_wanted = true;
        self.wants_change |= is_change;
    }

    /// Notes that so many rows of the member that is rebuilt are durable.
    pub fn note(&mut self, rows: u64) {
        self.label.rebuilt_rows = rows;
        self.want(false);
    }

    /// Notes that the member that is rebuilt is durable except for `missing` places, the first of which comes after `rows` rows.
    pub fn note_all_but(&mut self, missing: u32, rows: u64) {
        self.label.missing = missing;
        self.note(rows);
    }

    /// Leaves members behind that failed what others have done. Requests in flight on them are not waited for.
    pub fn leave(&mut self, leaving: u32, error: &IoError, members: &mut Members, upkeep: &mut Upkeep) {
        if !self.view.is_begun() {
            return;
        }
        for number in numbers_in(leaving) {
            members.leave(number, error);
            upkeep.give_up(number);
            self.view.members().set_member(number, MemberState::Out, Some(error.to_string()));
        }
        self.rebuild_next(members, upkeep);
        self.want(true);
    }

    /// Begins to rebuild the next member that waits for it, where none is being rebuilt.
    fn rebuild_next(&mut self, members: &mut Members, upkeep: &mut Upkeep) {
        if let Some(number) = self.successors.begin_rebuild(&mut members.list) {
            (self.label.rebuilt_rows, self.label.missing) = (0, 0);
            upkeep.begin_rebuild(number, 0);
        }
    }

    /// Closes the devices of members that were left behind.
    pub fn close_left(&self, members: &mut Members) {
        self.successors.close_left(&mut members.list);
    }

    /// Takes an offered device in the place of a member that is out.
    pub fn take_offer(&mut self, members: &mut Members, upkeep: &mut Upkeep) {
        self.successors.poll_replaced();
        if self.broken.is_some() || self.is_active() {
            return;
        }
        let Some(Taken { number, id, former }) = self.successors.take(&mut members.list) else { return };
        self.label.ids[number] = id;
        self.places[number] = former
            .map_or(LabelPlaces::BLANK, |former| LabelPlaces::labelled(usize::from(former.is_second)).forgotten());
        if let Some(former) = former {
            self.label.generation = self.label.generation.max(former.generation);
            self.label.serial = self.label.serial.max(former.serial);
        }
        self.rebuild_next(members, upkeep);
        self.want(true);
    }

    /// Whether the next label is to be written; if so, begins it.
    pub fn begins(&mut self, members: &Members) -> bool {
        if !self.is_wanted || self.is_writing {
            return false;
        }
        let label = &mut self.label;
        label.in_sync = members.in_sync();
        label.rebuilding = members.rebuilding().map(|number| number as u8);
        if label.rebuilding.is_none() {
            (label.rebuilt_rows, label.missing) = (0, 0);
        }
        label.serial += 1;
        label.generation += u64::from(self.wants_change);
        self.is_change = self.wants_change;
        (self.is_wanted, self.wants_change, self.attempts, self.is_writing) = (false, false, 0, true);
        true
    }

    /// What is written to each member that gets writes: its number, the offset, and the label.
    pub fn copies(&mut self, members: &Members) -> Vec<(usize, u64, SharedBuf)> {
        // The place itself may be broken: the last attempt goes to the one with the label before this one.
        let is_last = self.attempts + 1 == ATTEMPTS_MAX;
        self.written_to = vec![None; self.places.len()];
        let of = |number: usize| {
            let to = self.places[number].next(is_last);
            self.written_to[number] = Some(to);
            let own = ArrayLabel { member: number as u8, ..self.label.clone() };
            (number, OFFSETS_BYTES[to], Buf::copy_of(&own.encode()).freeze())
        };
        numbers_in(members.written()).map(of).collect()
    }

    /// The label could not be made durable, and no member could be left behind for that. Returns whether it is tried again at once.
    pub fn failed(&mut self, error: IoError) -> bool {
        self.attempts += 1;
        if !self.is_change {
            // A label that only notes progress is dropped: the next step of the rebuild notes it again.
            self.is_writing = false;
            return false;
        }
        if self.attempts >= ATTEMPTS_MAX {
            self.view.set_broken(format!("a change of its members could not be made durable: {error}"));
            (self.broken, self.is_writing) = (Some(error), false);
            return false;
        }
        if self.attempts > ATTEMPTS_AT_ONCE {
            // Answers wait meanwhile: a short failure is no reason to take no more writes.
            self.pause.begin(self.view.now_ns());
            self.is_put_off = true;
            return false;
        }
        true
    }

    /// Whether a label that could not be written is written again now.
    pub fn tries_again(&mut self) -> bool {
        self.is_put_off && !self.pause.goes_on(self.view.now_ns()) && std::mem::take(&mut self.is_put_off)
    }

    /// The label is durable.
    pub fn done(&mut self, members: &Members) {
        self.is_writing = false;
        // Members that get writes only since then get the next label.
        for (places, to) in self.places.iter_mut().zip(&self.written_to) {
            to.iter().for_each(|&to| places.written(to));
        }
        // A change that came meanwhile gets a label of its own, and is shown with that.
        if !self.wants_change {
            self.view.show_label(self.label.generation, self.label.rebuilt_rows, &members.list);
        }
    }

    /// A member holds everything from now on.
    pub fn rebuilt(&mut self, number: usize, members: &mut Members, upkeep: &mut Upkeep) {
        members.list[number].state = MemberState::InSync;
        self.rebuild_next(members, upkeep);
        self.want(true);
    }
}
