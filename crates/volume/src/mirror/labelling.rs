//! Writing a label to the members of a mirror, then to the capacity devices.

use crate::layout::member_label::MemberLabel;

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
    members: u8,
    left: u8,
    /// Nothing that hosts wrote is answered before it is durable.
    is_change: bool,
    goes_to_capacity: bool,
}

impl Labelling {
    pub fn new(label: MemberLabel) -> Self {
        Self { label, phase: Phase::Idle, members: 0, left: 0, is_change: false, goes_to_capacity: false }
    }

    /// Whether one is being written.
    pub fn is_active(&self) -> bool {
        self.phase != Phase::Idle
    }

    /// Whether answers to hosts wait for one.
    pub fn holds_answers(&self) -> bool {
        self.is_active() && self.is_change
    }

    /// Begins to write the label as it is now to these members, in place of what is on its way. `is_change`: who holds everything is
    /// not what it was.
    pub fn begin(&mut self, members: u8, is_change: bool) -> Next {
        self.label.serial += 1;
        self.label.generation += u64::from(is_change);
        self.is_change = is_change || self.holds_answers();
        // Progress alone is of no use to them.
        self.goes_to_capacity = self.is_change;
        (self.phase, self.members, self.left) = (Phase::Writing, members, members);
        Next::Write(members)
    }

    /// A request of a label ended well; `serial` tells which.
    pub fn ended(&mut self, member: usize, serial: u64) -> Option<Next> {
        if serial != self.label.serial {
            return None;
        }
        self.left &= !(1 << member);
        if self.left != 0 {
            return None;
        }
        match self.phase {
            Phase::Writing => {
                (self.phase, self.left) = (Phase::Flushing, self.members);
                Some(Next::Flush(self.members))
            }
            Phase::Flushing if self.goes_to_capacity => {
                self.phase = Phase::Capacity;
                Some(Next::Capacity)
            }
            Phase::Flushing => Some(self.done()),
            Phase::Idle | Phase::Capacity => None,
        }
    }

    /// The capacity devices have it.
    pub fn capacity_has(&mut self, serial: u64) -> Option<Next> {
        (self.phase == Phase::Capacity && serial == self.label.serial).then(|| self.done())
    }

    fn done(&mut self) -> Next {
        self.phase = Phase::Idle;
        Next::Done
    }
}
