//! Block devices of this pool whose exports disappeared while no server ran.

use crate::text;
use anyhow::Result;
use forebay_export::ublk::{Left, UblkError, release_left, waiting};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread::Builder;
use tracing::{info, warn};

/// Result of removing one device; `is_gone` is false where it is in use.
struct Ended {
    left: Left,
    is_gone: Result<bool, UblkError>,
}

/// Devices without an export that are being removed on a thread of their own, which may have to wait for a process
/// that has the device open.
#[derive(Default)]
pub struct LeftDevices {
    ended: Option<Receiver<Ended>>,
    /// Possible names of their exports, by mark.
    names: Vec<(u64, String)>,
}

impl LeftDevices {
    /// Begins to remove the unused devices. `is_ours` recognises marks of this pool that belong to no export now.
    /// `names` maps marks to the names of possible former exports.
    pub fn begin(is_ours: impl Fn(u64) -> bool, names: Vec<(u64, String)>) -> Self {
        let all = waiting(is_ours);
        if all.is_empty() {
            return Self::default();
        }
        let (sender, ended) = channel();
        let work = move || {
            for left in all {
                // The receiver is gone where the server has stopped.
                if sender.send(Ended { left, is_gone: release_left(left) }).is_err() {
                    return;
                }
            }
        };
        // Where no thread can be started, the devices stay, and the next server tries again.
        let has_begun = Builder::new().name("ublk".to_owned()).spawn(work).is_ok();
        Self { ended: has_begun.then_some(ended), names }
    }

    /// Logs the results that have come since the last call.
    pub fn report(&mut self) {
        while let Some(ended) = &self.ended {
            let Ended { left: Left { number, marker }, is_gone } = match ended.try_recv() {
                Ok(ended) => ended,
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => {
                    self.ended = None;
                    return;
                }
            };
            let name = self.names.iter().find(|(known, _)| *known == marker).map(|(_, name)| name);
            let of = name.map_or_else(String::new, |name| format!(" of {name:?}"));
            match is_gone {
                Ok(true) => {
                    info!("/dev/ublkb{number}{of} was taken away: no export has it any more, and nobody used it")
                }
                Ok(false) => warn!(
                    cause = "ublk",
                    advice = "Unmount what is on it and restart the server, which then takes it away; or configure its export again and restart",
                    "/dev/ublkb{number}{of} is in use, but no export has it any more: what is read and written there waits"
                ),
                Err(why) => warn!(
                    cause = "ublk",
                    advice = "Look at the kernel's log (`dmesg`), then restart the server",
                    "/dev/ublkb{number}{of}, which no export has any more, cannot be taken away: {}",
                    text::chain(&why.into())
                ),
            }
        }
    }
}
