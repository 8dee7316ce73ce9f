//! Who holds everything: members that are left behind, that are rebuilt, and the labels that say so.

use super::copying::Copying;
use super::flight::Flight;
use super::labelling::{Labelling, Next};
use super::members::{Member, Members, numbers_in};
use super::view::{MemberState, MemberStatus, MirrorView, Offer};
use crate::layout::member_label::{MEMBERS_MAX, MemberLabel, OFFSETS_BYTES};
use forebay_block::{Buf, IoError, IoErrorKind, Op, Vectored};
use std::collections::VecDeque;

/// State of the members' label.
pub(super) struct Roster {
    labelling: Labelling,
    /// Members that are to be rebuilt after the one that is.
    to_rebuild: VecDeque<usize>,
    /// Devices that were given to it and are no members yet.
    offers: VecDeque<Offer>,
    view: MirrorView,
    /// Nothing more is taken.
    pub broken: Option<IoError>,
}

impl Roster {
    pub fn new(label: MemberLabel, to_rebuild: VecDeque<usize>, view: MirrorView) -> Self {
        Self { labelling: Labelling::new(label), to_rebuild, offers: VecDeque::new(), view, broken: None }
    }

    /// Whether a label is on its way.
    pub fn is_active(&self) -> bool {
        self.labelling.is_active()
    }

    /// Whether no change may be answered now.
    pub fn holds_answers(&self) -> bool {
        self.labelling.holds_answers() && self.broken.is_none()
    }

    /// Members failed what others have done: they hold what is old from now on.
    pub fn leave(&mut self, leaving: u8, error: &IoError, members: &mut Members, copying: &mut Copying) {
        if members.in_sync() & !leaving == 0 {
            return self
                .break_down("no member of the mirror is left that holds everything and takes writes", error.clone());
        }
        for number in numbers_in(leaving & members.written()) {
            members.list[number].state = MemberState::Out;
            copying.give_up(number);
            self.view.set_status(|status| {
                status.members[number].state = MemberState::Out;
                status.members[number].why = Some(error.to_string());
            });
        }
        self.rebuild_next(members, copying);
        self.change_label(members);
    }

    /// Begins to rebuild the next member that waits for it, where none is being rebuilt.
    fn rebuild_next(&mut self, members: &mut Members, copying: &mut Copying) {
        let is_idle = members.numbers(MemberState::Rebuilding).next().is_none();
        if let Some(number) = self.to_rebuild.pop_front_if(|_| is_idle) {
            members.list[number].state = MemberState::Rebuilding;
            self.labelling.label.rebuilt_bytes = 0;
            copying.rebuild(number, 0);
            self.view.set_status(|status| {
                (status.members[number].state, status.members[number].why) = (MemberState::Rebuilding, None);
            });
        }
    }

    /// Writes to all devices who holds everything now.
    pub fn change_label(&mut self, members: &mut Members) {
        let rebuilding = members.numbers(MemberState::Rebuilding).next();
        let label = &mut self.labelling.label;
        label.in_sync = members.in_sync();
        label.rebuilding = rebuilding.map(|number| number as u8);
        label.rebuilt_bytes = if rebuilding.is_some() { label.rebuilt_bytes } else { 0 };
        let next = self.labelling.begin(members.written(), true);
        self.go_on(Some(next), members);
    }

    fn go_on(&mut self, next: Option<Next>, members: &mut Members) {
        let serial = self.labelling.label.serial;
        match next {
            Some(Next::Write(to)) => {
                for number in numbers_in(to) {
                    let label = MemberLabel { member: Some(number as u8), ..self.labelling.label.clone() };
                    let bufs = Vectored::One(Buf::copy_of(&label.encode()).freeze());
                    let op = Op::Write { bufs, fua: false };
                    members.send(number, Flight::Label { serial }, OFFSETS_BYTES[(serial % 2) as usize], op);
                }
            }
            Some(Next::Flush(to)) => {
                for number in numbers_in(to) {
                    members.send(number, Flight::Label { serial }, 0, Op::Flush);
                }
            }
            Some(Next::Capacity) => self.view.want(self.labelling.label.clone()),
            Some(Next::Done) => {
                let label = &self.labelling.label;
                self.view.set_status(|status| {
                    (status.generation, status.rebuilt_bytes) = (label.generation, label.rebuilt_bytes);
                });
            }
            None => {}
        }
    }

    /// What the capacity devices say of the label that waits for them.
    pub fn hear_of_capacity(&mut self, members: &mut Members) {
        if !self.holds_answers() {
            return;
        }
        let (serial, is_durable) = self.view.capacity();
        let next = self.labelling.capacity_has(serial);
        if next.is_some() && !is_durable {
            let error = gone("write");
            self.break_down("no capacity device takes the label that says which members are left", error);
        } else {
            self.go_on(next, members);
        }
    }

    fn break_down(&mut self, why: &str, error: IoError) {
        self.view.set_status(|status| status.broken = Some(format!("{why}: {error}")));
        self.broken = Some(error);
    }

    /// A request of a label was answered.
    pub fn label_ended(
        &mut self,
        (number, serial): (usize, u64),
        result: Result<(), IoError>,
        members: &mut Members,
        copying: &mut Copying,
    ) {
        match result {
            Ok(()) => {
                let next = self.labelling.ended(number, serial);
                self.go_on(next, members);
            }
            Err(error) if serial == self.labelling.label.serial => self.leave(1 << number, &error, members, copying),
            Err(_) => {}
        }
    }

    /// So much of the member that is rebuilt is durable.
    pub fn note(&mut self, rebuilt_bytes: u64, members: &mut Members) {
        self.labelling.label.rebuilt_bytes = rebuilt_bytes;
        let next = self.labelling.begin(members.written(), false);
        self.go_on(Some(next), members);
    }

    /// Takes devices in the place of members that are out, or as more members, as soon as nothing of those is in flight.
    pub fn take_offers(&mut self, members: &mut Members, copying: &mut Copying) {
        self.offers.extend(self.view.take_offers());
        if self.broken.is_some() || self.labelling.is_active() {
            return;
        }
        let Some(Offer { name, .. }) = self.offers.front() else { return };
        let is_out = |number: &usize| members.list[*number].state == MemberState::Out;
        let names: Vec<String> = self.view.status().members.into_iter().map(|member| member.name).collect();
        let out: Vec<usize> =
            (0..members.list.len()).filter(is_out).filter(|at| !self.to_rebuild.contains(at)).collect();
        let same = out.iter().find(|&&number| names[number] == *name);
        let absent = out.iter().find(|&&number| members.list[number].device.is_none());
        let number = same.or(absent).or(out.first()).copied().unwrap_or(members.list.len());
        if members.list.get(number).is_some_and(Member::is_busy) {
            return;
        }
        let Some(Offer { name, id, device }) = self.offers.pop_front() else { return };
        let status = MemberStatus { name, id, state: MemberState::Out, why: None, failed_reads: 0 };
        let member = Member::new(Some(device), MemberState::Out);
        if number < members.list.len() {
            members.list[number] = member;
            self.labelling.label.ids[number] = id;
            self.view.set_status(|all| all.members[number] = status);
        } else if number < MEMBERS_MAX {
            members.list.push(member);
            self.labelling.label.ids.push(id);
            self.view.set_status(|all| all.members.push(status));
        } else {
            return;
        }
        self.to_rebuild.push_back(number);
        self.rebuild_next(members, copying);
        self.change_label(members);
    }

    /// A member holds everything now.
    pub fn rebuilt(&mut self, number: usize, members: &mut Members, copying: &mut Copying) {
        members.list[number].state = MemberState::InSync;
        self.view.set_status(|status| status.members[number].state = MemberState::InSync);
        self.rebuild_next(members, copying);
        self.change_label(members);
    }
}

/// The failure of a device that is not there.
pub(super) fn gone(operation: &'static str) -> IoError {
    IoError { kind: IoErrorKind::Gone, operation, offset_bytes: 0, os_error: 0 }
}
