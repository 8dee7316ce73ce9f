//! Which members hold everything, which are left behind or rebuilt, and the labels that say so.

use super::copying::Copying;
use super::flight::Flight;
use super::labelling::{Labelling, Next};
use super::member::{gone, numbers_in};
use super::members::Members;
use super::rebuild::Rebuilt;
use super::successors::{Successors, Taken};
use super::view::{MemberState, MirrorView};
use crate::layout::member_label::{MemberLabel, OFFSETS_BYTES};
use forebay_block::{Buf, IoError, Op, Vectored};
use std::collections::VecDeque;

/// State of the members' label.
pub(super) struct Roster {
    labelling: Labelling,
    successors: Successors,
    /// One bit for each member to which the label on its way was written as the second copy.
    seconds: u8,
    view: MirrorView,
    /// No capacity device has taken the label.
    is_unconfirmed: bool,
    /// Why no more writes are taken.
    pub broken: Option<IoError>,
}

impl Roster {
    /// `is_new`: the label says something that is not on every device yet, and is written to all.
    pub fn new((label, is_new): (MemberLabel, bool), to_rebuild: VecDeque<usize>, view: MirrorView) -> Self {
        let mut labelling = Labelling::new(label);
        if is_new {
            labelling.want(true);
        }
        Self {
            labelling,
            successors: Successors::new(view.clone(), to_rebuild),
            seconds: 0,
            view,
            is_unconfirmed: false,
            broken: None,
        }
    }

    /// Whether a label is on its way.
    pub fn is_active(&self) -> bool {
        self.labelling.is_active()
    }

    /// Whether no change may be answered now.
    pub fn holds_answers(&self) -> bool {
        self.labelling.holds_answers() && self.broken.is_none()
    }

    /// Begins to write the next label, where one is wanted and none is on its way.
    pub fn step(&mut self, members: &mut Members) {
        if !self.view.is_begun() || self.broken.is_some() {
            return;
        }
        self.hear_of_capacity(members);
        self.successors.close_left(&mut members.list);
        if !self.labelling.is_due() {
            return;
        }
        let rebuilding = members.numbers(MemberState::Rebuilding).next();
        let label = &mut self.labelling.label;
        label.in_sync = members.in_sync();
        label.rebuilding = rebuilding.map(|number| number as u8);
        label.rebuilt_bytes = if rebuilding.is_some() { label.rebuilt_bytes } else { 0 };
        let next = self.labelling.begin(members.written());
        self.go_on(Some(next), members);
    }

    /// Leaves members behind that failed what others have done: what they hold is old from now on. Requests in flight on them are not
    /// waited for.
    pub fn leave(&mut self, leaving: u8, error: &IoError, members: &mut Members, copying: &mut Copying) {
        if !self.view.is_begun() {
            return;
        }
        if members.in_sync() & !leaving == 0 {
            let why = "no member of the mirror is left that holds everything and takes writes";
            return self.break_down(why, error.clone(), copying);
        }
        let leaving = leaving & members.written();
        for number in numbers_in(leaving) {
            members.leave(number, error);
            copying.give_up(number);
            self.view.set_member(number, MemberState::Out, Some(error.to_string()));
        }
        self.rebuild_next(members, copying);
        self.labelling.want(true);
        let next = self.labelling.left(leaving);
        self.go_on(next, members);
    }

    /// Leaves members behind whose contents show that they are none any more, except for the last that holds everything.
    pub fn leave_doubted(&mut self, members: &mut Members, copying: &mut Copying) {
        for (number, why) in self.view.take_doubted() {
            let in_sync = members.in_sync();
            if in_sync & 1 << number == 0 || in_sync == 1 << number || self.broken.is_some() {
                continue;
            }
            self.leave(1 << number, &gone("read"), members, copying);
            self.view.set_member(number, MemberState::Out, Some(why));
        }
    }

    /// Begins to rebuild the next member that waits for it, where none is being rebuilt.
    fn rebuild_next(&mut self, members: &mut Members, copying: &mut Copying) {
        if let Some(number) = self.successors.begin_rebuild(&mut members.list) {
            self.labelling.label.rebuilt_bytes = 0;
            copying.rebuild(number, 0);
        }
    }

    fn go_on(&mut self, next: Option<Next>, members: &mut Members) {
        let serial = self.labelling.label.serial;
        match next {
            Some(Next::Write(to)) => {
                for number in numbers_in(to) {
                    // Not to the place of its newest label, which stays whole until this one is.
                    let place = usize::from(members.list[number].newest_is_second == self.labelling.is_swapped());
                    self.seconds = self.seconds & !(1 << number) | (place as u8) << number;
                    let label = MemberLabel { member: Some(number as u8), ..self.labelling.label.clone() };
                    let bufs = Vectored::One(Buf::copy_of(&label.encode()).freeze());
                    let op = Op::Write { bufs, fua: false };
                    members.send(number, Flight::Label { serial, is_flush: false }, OFFSETS_BYTES[place], op);
                }
            }
            Some(Next::Flush(to)) => {
                for number in numbers_in(to) {
                    members.send(number, Flight::Label { serial, is_flush: true }, 0, Op::Flush);
                }
            }
            Some(Next::Capacity) => self.view.want(self.labelling.label.clone()),
            Some(Next::Done) => {
                let label = &self.labelling.label;
                self.view.set_status(|status| {
                    (status.generation, status.rebuilt_bytes) = (label.generation, label.rebuilt_bytes);
                    // Not before: whoever sees that a member holds everything may take the others away.
                    let in_sync = status.members.iter_mut().enumerate().filter(|(at, _)| label.is_in_sync(*at));
                    in_sync.for_each(|(at, member)| member.state = members.list[at].state);
                });
            }
            None => {}
        }
    }

    /// Takes what became of the label on the capacity devices.
    fn hear_of_capacity(&mut self, members: &mut Members) {
        if !self.labelling.is_active() {
            return;
        }
        let (serial, is_durable) = self.view.capacity();
        let next = self.labelling.capacity_has(serial);
        if next.is_some() && !is_durable {
            self.is_unconfirmed = true;
        } else {
            self.go_on(next, members);
        }
    }

    /// Takes no more changes.
    fn break_down(&mut self, why: &str, error: IoError, copying: &mut Copying) {
        self.view.set_status(|status| status.broken = Some(format!("{why}: {error}")));
        self.broken = Some(error);
        copying.stop();
    }

    /// No capacity device has taken the label: no change can be answered any more.
    pub fn give_up_unconfirmed(&mut self, copying: &mut Copying) {
        if std::mem::take(&mut self.is_unconfirmed) {
            let why = "no capacity device takes the label that says which members are left";
            self.break_down(why, gone("write"), copying);
        }
    }

    /// A request of a label was answered. Returns the failure of a flush on the only member that is left: it is the only report of what
    /// that flush covered.
    pub fn label_ended(
        &mut self,
        number: usize,
        serial: u64,
        is_flush: bool,
        result: Result<(), IoError>,
        members: &mut Members,
        copying: &mut Copying,
    ) -> Option<IoError> {
        if !self.labelling.awaits(number, serial) {
            return None;
        }
        let Err(error) = result else {
            if is_flush {
                // A label may be flushed twice, where it was written again to another member alone.
                members.list[number].newest_is_second = self.seconds & 1 << number != 0;
            }
            let next = self.labelling.ended(number);
            self.go_on(next, members);
            return None;
        };
        let is_last = members.in_sync() == 1 << number;
        match if is_last { self.labelling.failed_last(number) } else { None } {
            Some(next) => {
                self.go_on(Some(next), members);
                is_flush.then_some(error)
            }
            None => {
                self.leave(1 << number, &error, members, copying);
                None
            }
        }
    }

    /// Notes that so much of the member that is rebuilt is durable.
    pub fn note(&mut self, rebuilt_bytes: u64) {
        self.labelling.label.rebuilt_bytes = rebuilt_bytes;
        self.labelling.want(false);
    }

    /// Takes an offered device in the place of a member that is out.
    pub fn take_offer(&mut self, members: &mut Members, copying: &mut Copying) {
        self.successors.poll_replaced();
        if self.broken.is_some() || self.labelling.is_active() {
            return;
        }
        let Some(Taken { number, id, former }) = self.successors.take(&mut members.list) else { return };
        let label = &mut self.labelling.label;
        label.ids[number] = id;
        if let Some(former) = former {
            members.list[number].newest_is_second = former.is_second;
            label.generation = label.generation.max(former.generation);
            label.serial = label.serial.max(former.serial);
        }
        self.rebuild_next(members, copying);
        self.labelling.want(true);
    }

    /// A member holds everything from now on.
    pub fn rebuilt(&mut self, rebuilt: Rebuilt, members: &mut Members, copying: &mut Copying) {
        self.view.set_status(|status| status.unreadable_blocks += rebuilt.missing_blocks);
        members.list[rebuilt.member].state = MemberState::InSync;
        self.rebuild_next(members, copying);
        self.labelling.want(true);
    }
}
