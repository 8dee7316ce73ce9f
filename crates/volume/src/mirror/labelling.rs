//! Writes a label to the members of a mirror, then to the capacity devices. Only one label is on its way at a time, so that each member
//! keeps its last one whole meanwhile.

use crate::layout::member_label::MemberLabel;

/// How often a label is written to the only member that is left.
const ATTEMPTS_MAX: u8 = 3;

/// What is to be done next for a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Write it to these members.
    Write(u8),
    /// Flush these members.
    Flush(u8),
    /// Write it to the capacity devices.
    Capacity,
    /// It is durable.
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    Writing,
    Flushing,
    Capacity,
}

/// State of a label on its way.
pub(super) struct Labelling {
    /// The newest label, durable or on its way.
    pub label: MemberLabel,
    phase: Phase,
    /// Members that the label is written to, and those of them that have not answered.
    members: u8,
    left: u8,
    attempts: u8,
    /// It changes which members hold everything: nothing that hosts wrote is answered before it is durable.
    is_change: bool,
    /// Another label is to follow; and it is such a change.
    is_wanted: bool,
    wants_change: bool,
}

impl Labelling {
    pub fn new(label: MemberLabel) -> Self {
        Self {
            label,
            phase: Phase::Idle,
            members: 0,
            left: 0,
            attempts: 0,
            is_change: false,
            is_wanted: false,
            wants_change: false,
        }
    }

    /// Whether a label is being written, or is to be.
    pub fn is_active(&self) -> bool {
        self.phase != Phase::Idle || self.is_wanted
    }

    /// Whether answers to hosts wait for a label.
    pub fn holds_answers(&self) -> bool {
        // Even for one that only notes progress: its flush may be the one that gets the report of what a host's flush covered.
        self.phase != Phase::Idle || self.wants_change
    }

    /// Asks for a label. `is_change`: it changes which members hold everything.
    pub fn want(&mut self, is_change: bool) {
        self.is_wanted = true;
        self.wants_change |= is_change;
    }

    /// Whether the next label is to be begun.
    pub fn is_due(&self) -> bool {
        self.is_wanted && self.phase == Phase::Idle
    }

    /// Begins to write the label as it is now to these members.
    pub fn begin(&mut self, members: u8) -> Next {
        self.label.serial += 1;
        self.label.generation += u64::from(self.wants_change);
        self.is_change = self.wants_change;
        (self.is_wanted, self.wants_change, self.attempts) = (false, false, 0);
        (self.phase, self.members, self.left) = (Phase::Writing, members, members);
        Next::Write(members)
    }

    /// Whether a member is still to answer for the label with this serial.
    pub fn awaits(&self, member: usize, serial: u64) -> bool {
        serial == self.label.serial && self.left & 1 << member != 0
    }

    /// A request of the label ended well, or its member was left behind.
    pub fn ended(&mut self, member: usize) -> Option<Next> {
        self.left &= !(1 << member);
        self.next()
    }

    /// Members were left behind: the label goes to the others alone.
    pub fn left(&mut self, members: u8) -> Option<Next> {
        self.members &= !members;
        if self.left & members == 0 {
            return None;
        }
        self.left &= !members;
        self.next()
    }

    fn next(&mut self) -> Option<Next> {
        if self.left != 0 {
            return None;
        }
        match self.phase {
            Phase::Writing => {
                (self.phase, self.left) = (Phase::Flushing, self.members);
                Some(Next::Flush(self.members))
            }
            // A label that only notes progress is of no use to the capacity devices.
            Phase::Flushing if self.is_change => {
                self.phase = Phase::Capacity;
                Some(Next::Capacity)
            }
            Phase::Flushing => Some(self.done()),
            Phase::Idle | Phase::Capacity => None,
        }
    }

    /// Whether the label goes to the other place, as in the last attempt.
    pub fn is_swapped(&self) -> bool {
        self.attempts + 1 == ATTEMPTS_MAX
    }

    /// The last member that holds everything could not be written. Returns another attempt, or `None` after the last one. A label that only
    /// notes progress is dropped.
    pub fn failed_last(&mut self, member: usize) -> Option<Next> {
        if !self.is_change {
            (self.phase, self.left) = (Phase::Idle, 0);
            return Some(Next::Done);
        }
        self.attempts += 1;
        self.phase = Phase::Writing;
        if self.is_swapped() {
            // The place itself may be broken: the last attempt goes to the other one, which has the label before this one. Answers of other
            // members are not waited for.
            self.label.serial += 1;
            self.left = 1 << member;
        }
        (self.attempts < ATTEMPTS_MAX).then_some(Next::Write(1 << member))
    }

    /// The capacity devices have the label.
    pub fn capacity_has(&mut self, serial: u64) -> Option<Next> {
        (self.phase == Phase::Capacity && serial == self.label.serial).then(|| self.done())
    }

    fn done(&mut self) -> Next {
        self.phase = Phase::Idle;
        Next::Done
    }
}
