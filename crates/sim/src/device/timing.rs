//! How long requests take.

use forebay_block::{Op, Random, Request};
use forebay_model::ssd::{Command, Done, Op as Asked, Ssd};

/// How long requests take.
pub enum Timing {
    /// Between the two, in nanoseconds.
    Between(u64, u64),
    /// As a modelled SSD does.
    Model(Box<dyn Ssd>),
}

impl Timing {
    /// When a request that is submitted now ends, `extra_ns` later than others; `u64::MAX` where the model tells it later,
    /// by the number of the submission.
    pub(super) fn submit(
        &mut self,
        now_ns: u64,
        order: u64,
        request: &Request,
        extra_ns: u64,
        random: &mut Random,
    ) -> u64 {
        match self {
            Self::Between(least, most) => now_ns + *least + random.below(*most - *least + 1) + extra_ns,
            Self::Model(ssd) if extra_ns == 0 => {
                let op = match request.op {
                    Op::Read { .. } => Asked::Read,
                    Op::Write { .. } | Op::WriteZeroes { .. } => Asked::Write,
                    Op::Discard { .. } => Asked::Trim,
                    Op::Flush => Asked::Flush,
                };
                let len_bytes = u32::try_from(request.op.len_bytes()).unwrap_or(u32::MAX);
                let &Request { offset_bytes, stream, .. } = request;
                ssd.submit(now_ns, Command { tag: order, op, offset_bytes, len_bytes, stream });
                u64::MAX
            }
            Self::Model(_) => now_ns + extra_ns,
        }
    }

    /// Adds to `ended` what the model has ended until now.
    pub(super) fn advance(&mut self, now_ns: u64, ended: &mut Vec<Done>) {
        if let Self::Model(ssd) = self {
            ssd.advance(now_ns, ended);
        }
    }

    /// When the model has something to do next; `u64::MAX` where it has nothing.
    pub(super) fn next_event_ns(&self) -> u64 {
        match self {
            Self::Model(ssd) => ssd.next_event_ns(),
            Self::Between(..) => u64::MAX,
        }
    }
}
