//! Why devices are not put together to an array.

use crate::layout::array_label::ArrayLabel;
use crate::layout::format_id;
use crate::mirror::{Member, MemberState, Unproven};
use crate::recovery::opened::Apart;
use thiserror::Error;

/// Why devices are no array that can be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum JoinError {
    /// None of them is a member.
    #[error("none of the capacity devices carries the label of an array with parity{why}")]
    NoLabel {
        /// What they are.
        why: String,
    },
    /// Of different pools.
    #[error("{device} and {other} are members of different pools")]
    Foreign {
        /// One of them.
        device: String,
        /// Another one.
        other: String,
    },
    /// Twice the same member.
    #[error("{device} and {other} are the same member: one is a copy")]
    Copy {
        /// One of them.
        device: String,
        /// The other one.
        other: String,
    },
    /// Two labels of the same time contradict each other, and nothing shows which of them counts.
    #[error("{device} and {other} say of the same time that others hold everything, and nothing tells which is right")]
    Split {
        /// One of them.
        device: String,
        /// Another one.
        other: String,
    },
    /// Of two copies of the pool.
    #[error(transparent)]
    Apart(#[from] Apart),
    /// Most of the log of a member that is needed cannot be read.
    #[error("the parity log of {device} cannot be read, and too few others hold everything to do without it")]
    Unread {
        /// The member.
        device: String,
    },
    /// A device that is needed may be no member any more.
    #[error(transparent)]
    Unproven(#[from] Unproven),
    /// Too few members hold everything.
    #[error(
        "{there} of {members} members of the capacity tier are there and hold everything, {needed} are needed{missing}"
    )]
    TooFew {
        /// How many are.
        there: usize,
        /// How many there are in all.
        members: usize,
        /// How many are needed.
        needed: usize,
        /// What is known of the others.
        missing: String,
        /// A member that was rebuilt except for so many blocks, which no others could give: with consent it takes the place of one that is
        /// lost for good.
        lacking: Option<(String, u32)>,
    },
    /// The array was made with another redundancy than is configured.
    #[error("the capacity tier was made with redundancy {is}, and {configured} is configured")]
    Redundancy {
        /// By its label.
        is: String,
        /// In the configuration.
        configured: String,
    },
}

/// What is known of members that do not hold everything, for errors.
pub(super) fn missing(
    basis: &ArrayLabel,
    members: &[Member],
    names: &[String],
    left_out: &[(String, String)],
) -> String {
    let others = members.iter().enumerate().filter(|(_, member)| member.state != MemberState::InSync);
    let others = others.map(|(number, member)| match &member.device {
        Some(_) => format!("; {} is older than the others", names[number]),
        None => format!("; the one with the id {} is missing", format_id(&basis.ids[number])),
    });
    let left_out = left_out.iter().map(|(name, why)| format!("; {name}: {why}"));
    others.chain(left_out).collect()
}
