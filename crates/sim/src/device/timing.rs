//! Durations of requests.

use forebay_block::{Op, Random, Request};
use forebay_model::ssd::{Command, Done, Op as Asked, Ssd};

/// Source of request durations.
pub enum Timing {
    /// Random between two bounds, in nanoseconds.
    Between(u64, u64),
    /// From a modelled SSD.
    Model(Box<dyn Ssd>),
}

impl Timing {
    /// End time of a request submitted now, delayed by `extra_ns`; `u64::MAX` where the model gives it later, by the number of the
    /// submission.
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

    /// Appends to `ended` the requests that the model has ended until now.
    pub(super) fn advance(&mut self, now_ns: u64, ended: &mut Vec<Done>) {
        if let Self::Model(ssd) = self {
            ssd.advance(now_ns, ended);
        }
    }

    /// Time of the model's next event; `u64::MAX` where it has none.
    pub(super) fn next_event_ns(&self) -> u64 {
        match self {
            Self::Model(ssd) => ssd.next_event_ns(),
            Self::Between(..) => u64::MAX,
        }
    }
}
