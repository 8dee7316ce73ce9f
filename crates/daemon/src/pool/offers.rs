//! Devices that may replace members that are out. A thread beside the event loop examines them; the event loop passes
//! them to the tier.

use super::watched::Watched;
use forebay_block::Device;
use forebay_volume::layout::Id;
use forebay_volume::mirror::{Former, MirrorView};

/// The page that messages refer to.
pub const DOCUMENT: &str = "docs/when-a-device-fails.md";
/// Advice where devices belong to two copies of a pool.
pub(super) const APART: &str = "nothing was changed; name devices of one of the copies alone (`forebay inspect PATH` shows the number of the last opening, the same on all that belong together). A member that redundancy covers may be left out of the \
     configuration and cleared (zeros over all of it): given back, it is rebuilt";
/// Advice where a member is needed that may be lost.
pub(super) const ATTACH_OR_ACCEPT: &str = "attach the missing device or correct its target; nothing was changed. Where it is lost for ever, \
     `forebay serve --accept-loss CONFIG` takes what this one has, and `forebay verify CONFIG` tells first how much of that is good";

/// A device that can become a member.
pub(super) struct Fit {
    pub name: String,
    pub id: Id,
    pub device: Box<dyn Device>,
    /// Its former membership; `None` where it never was a member.
    pub former: Option<Former>,
}

/// Examined devices of a tier: those that are configured and are not working members.
pub struct Offers {
    /// The tier that they are to become members of.
    pub(super) view: MirrorView,
    /// Name of the tier in messages.
    pub(super) what: &'static str,
    pub(super) fit: Vec<Fit>,
    pub(super) refused: Vec<String>,
}

/// The message that a device does not become a member.
pub(super) fn refusal(name: &str, what: &str, why: &str) -> String {
    format!("{name} does not become a member of {what}: {why} ({DOCUMENT})")
}

impl Offers {
    /// Passes the devices to their tier without any request to a device. Returns messages on what was done and on
    /// what was refused.
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
