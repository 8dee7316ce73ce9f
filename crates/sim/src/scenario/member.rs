//! What the one member of a mirrored fast tier that does wrong does in a round.

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
    /// It is there without the others.
    Alone,
}

/// What the member does in a round.
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
    /// From here on it is another one, where this one holds everything.
    pub is_another: bool,
}
