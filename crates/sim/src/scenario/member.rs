//! What members of several devices that are one do wrong in a round: of a mirrored fast tier, or of a capacity tier with parity.

use crate::fault::Fault;

/// Whether the member is there when the pool is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Member {
    /// As it was.
    #[default]
    Present,
    /// It is not there.
    Absent,
    /// Another device is in its place, which is blank.
    Replaced,
    /// It is there without the others; of a mirror only.
    Alone,
}

/// What a member that may do wrong does in a round.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemberRound {
    /// Whether it is there.
    pub is: Member,
    /// What it does wrong while the pool is opened, and later; the device in them says nothing.
    pub faults: [Vec<Fault>; 2],
    /// Sectors of hosts' blocks that rot on it afterwards, and that cannot be read any more.
    pub wounds: [usize; 2],
    /// A bit of whatever it holds rots afterwards.
    pub rots: bool,
    /// A sector of whatever it holds cannot be read any more afterwards.
    pub dies: bool,
    /// From here on it is another one, where this one holds everything.
    pub is_another: bool,
}

/// What goes beyond what others hold in a round of a capacity tier with parity.
#[derive(Clone, Debug, PartialEq)]
pub enum Beyond {
    /// Before it is opened one member more than there is parity for is missing, in a first attempt.
    TooFew,
    /// Afterwards the same row cannot be read any more of one member more than there is parity for, so often.
    Rows(usize),
    /// One member more than there is parity for fails; the device in the faults says nothing.
    Fails(Vec<Fault>),
}
