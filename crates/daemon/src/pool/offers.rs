//! Devices that are to take the places of members which are out: looked at beside the server's loop, taken within it.

use super::watched::Watched;
use forebay_block::Device;
use forebay_volume::layout::Id;
use forebay_volume::mirror::{Former, MirrorView};

/// Where to read more.
pub const DOCUMENT: &str = "docs/when-a-device-fails.md";
/// What to do where devices are of two copies of a pool.
pub(super) const APART: &str = "nothing was changed; name devices of one of the copies alone (`forebay inspect PATH` shows the number of the last opening, the same on all that belong together). A member that redundancy covers may be left out of the \
     configuration and cleared (zeros over all of it): given back, it is rebuilt";
/// What to do where a member is needed that may be none any more.
pub(super) const ATTACH_OR_ACCEPT: &str = "attach the missing device or correct its target; nothing was changed. Where it is lost for ever, \
     `forebay serve --accept-loss CONFIG` takes what this one has, and `forebay verify CONFIG` tells first how much of that is good";

/// A device that can be a member.
pub(super) struct Fit {
    pub name: String,
    pub id: Id,
    pub device: Box<dyn Device>,
    /// What it was before.
    pub former: Option<Former>,
}

/// Devices of a tier that are configured and are no members that work, as they were found.
pub struct Offers {
    /// Whose members they are to be.
    pub(super) view: MirrorView,
    /// What that is called.
    pub(super) what: &'static str,
    pub(super) fit: Vec<Fit>,
    pub(super) refused: Vec<String>,
}

/// Why a device is none.
pub(super) fn refusal(name: &str, what: &str, why: &str) -> String {
    format!("{name} does not become a member of {what}: {why} ({DOCUMENT})")
}

impl Offers {
    /// Gives them to whatever has the members. What was done, and what was refused. Asks nothing of a device.
    pub fn give(self, watched: &mut Watched) -> (Vec<String>, Vec<String>) {
        let Self { view, what, fit, mut refused } = self;
        let mut done = Vec::new();
        for Fit { name, id, device, former } in fit {
            let device = watched.member(&name, device);
            match view.offer(name.clone(), id, device, former) {
                Ok(()) => done.push(format!("{name} becomes a member of {what}, and is rebuilt")),
                Err(why) => refused.push(refusal(&name, what, &why)),
            }
        }
        (done, refused)
    }
}
