//! Planned faults of requests, and planned holds.

use crate::fault::{Fault, FaultKind};
use crate::order::{Hold, Region, What};
use forebay_block::{Op, Request};
use std::collections::BTreeMap;

/// Future faults and holds; each counts down as requests pass.
#[derive(Default)]
pub(super) struct Plan {
    pub faults: Vec<Fault>,
    pub holds: Vec<Hold>,
    /// How often each fault has struck.
    struck: BTreeMap<FaultKind, u64>,
}

/// Whether a fault of this kind can strike such a request.
fn concerns(kind: FaultKind, op: &Op) -> bool {
    match kind {
        FaultKind::ReadError | FaultKind::Rot | FaultKind::Misread | FaultKind::DeadSector => {
            matches!(op, Op::Read { .. })
        }
        FaultKind::WriteError | FaultKind::LostWrite | FaultKind::MisdirectedWrite | FaultKind::DuplicatedWrite => {
            matches!(op, Op::Write { .. })
        }
        FaultKind::FlushError => matches!(op, Op::Flush),
        FaultKind::TrimError => matches!(op, Op::Discard { .. }),
        FaultKind::Slow | FaultKind::Hang | FaultKind::Vanish => true,
    }
}

impl Plan {
    /// Drops all plans; the counts of past faults stay.
    pub fn clear(&mut self) {
        self.faults.clear();
        self.holds.clear();
    }

    pub fn struck(&self) -> &BTreeMap<FaultKind, u64> {
        &self.struck
    }

    /// Counts faults that struck at rest.
    pub fn strikes(&mut self, kind: FaultKind, count: u64) {
        if count > 0 {
            *self.struck.entry(kind).or_default() += count;
        }
    }

    /// The fault that strikes a request; none where none does.
    pub fn fate(&mut self, request: &Request, region: Region) -> Option<FaultKind> {
        let mut fate = None;
        for fault in &mut self.faults {
            let is_elsewhere = fault.region.is_some_and(|wanted| wanted != region);
            if !concerns(fault.kind, &request.op) || fault.count == 0 || is_elsewhere {
                continue;
            }
            if fault.skip > 0 {
                fault.skip -= 1;
            } else if fate.is_none() {
                fault.count -= 1;
                fate = Some(fault.kind);
            }
        }
        if let Some(kind) = fate {
            self.strikes(kind, 1);
        }
        fate
    }

    /// How long a request is held, and whether it is carried out before.
    pub fn held(&mut self, request: &Request, region: Region) -> (u64, bool) {
        let what = What::of(&request.op);
        let mut held = (0, false);
        for hold in &mut self.holds {
            if hold.what != what || hold.count == 0 || hold.region.is_some_and(|wanted| wanted != region) {
                continue;
            }
            if hold.skip > 0 {
                hold.skip -= 1;
            } else if held.0 == 0 {
                hold.count -= 1;
                held = (hold.hold_ns, hold.is_early);
            }
        }
        held
    }
}
