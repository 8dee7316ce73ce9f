//! What a life of an array writes.

use super::member::Member;
use forebay_block::Random;
use forebay_volume::mirror::Candidate;

/// What was written to a block of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    pub tag: u64,
    pub acked: bool,
    pub durable: bool,
}

/// What is in flight.
pub enum Flight {
    Write { first: u64, blocks: u64, fua: bool },
    Flush { covers: Vec<(u64, u64)> },
    Discard,
}

/// What a write puts into a block.
pub fn content(block: u64, tag: u64) -> Vec<u8> {
    let mut random = Random::new(block << 32 ^ tag);
    (0..512).flat_map(|_| random.next_u64().to_le_bytes()).collect()
}

/// A member as it is found at the start.
pub fn candidate(member: &Member) -> Candidate {
    let medium = member.medium();
    let is_blank = medium.durable.iter().all(|&byte| byte == 0);
    let (name, is_dead) = (medium.name.clone(), medium.is_dead);
    drop(medium);
    Candidate {
        name,
        device: if is_dead { Err("dead".to_owned()) } else { Ok(member.boxed()) },
        contents: if is_blank { Vec::new() } else { vec!["something".to_owned()] },
    }
}
