//! All devices of a life at once.

use crate::device::SimDevice;
use crate::fault::Fault;
use crate::order::Hold;

/// From now on devices show these faults.
pub fn plan_faults(devices: &[SimDevice], faults: &[Fault]) {
    for (at, device) in devices.iter().enumerate() {
        device.plan_faults(faults.iter().filter(|fault| fault.device == at).copied().collect());
    }
}

/// From now on devices hold these requests back.
pub fn plan_holds(devices: &[SimDevice], holds: &[Hold]) {
    for (at, device) in devices.iter().enumerate() {
        device.plan_holds(holds.iter().filter(|hold| hold.device == at).copied().collect());
    }
}

/// Faults that have struck devices so far and because of which requests may fail.
#[must_use]
pub fn harmful_strikes(devices: &[SimDevice]) -> u64 {
    let of = |device: &SimDevice| -> u64 {
        device.struck().into_iter().filter(|(kind, _)| kind.is_harmful()).map(|(_, strikes)| strikes).sum()
    };
    devices.iter().filter(|device| !device.is_covered()).map(of).sum()
}

/// Misreads so far.
#[must_use]
pub fn misreads(devices: &[SimDevice]) -> u64 {
    devices.iter().filter(|device| !device.is_covered()).map(SimDevice::misread).sum()
}

/// When the next request ends on one of them; `u64::MAX` where none is in progress.
pub(super) fn next_ns(devices: &[SimDevice]) -> u64 {
    devices.iter().map(SimDevice::next_ns).min().unwrap_or(u64::MAX)
}
