//! Logs the members of a mirrored fast tier and of a capacity tier with parity, and which of them hold everything.

use crate::log::{Causes, Report, Severity};
use crate::text::count;
use forebay_volume::layout::format_id;
use forebay_volume::mirror::{MemberState, MemberStatus, MirrorStatus};

/// Names and texts of one kind of tier with several devices.
struct Several {
    what: &'static str,
    out: &'static str,
    waiting: &'static str,
    left_out: &'static str,
    rebuilding: &'static str,
    broken: &'static str,
    mended: &'static str,
    unreadable: &'static str,
    replace: &'static str,
}

const MIRROR: Several = Several {
    what: "the fast tier's mirror",
    out: "mirror member out",
    waiting: "mirror member waits",
    left_out: "mirror member left out",
    rebuilding: "mirror member rebuilt",
    broken: "mirror broken",
    mended: "mirror mended",
    unreadable: "mirror unreadable",
    replace: "Replace the device, name the new one in [[fast]], and send SIGHUP: it is rebuilt while the pool is served (docs/when-a-device-fails.md)",
};
const PARITY: Several = Several {
    what: "the capacity tier with parity",
    out: "parity member out",
    waiting: "parity member waits",
    left_out: "parity member left out",
    rebuilding: "parity member rebuilt",
    broken: "parity broken",
    mended: "parity mended",
    unreadable: "parity unreadable",
    replace: "Replace the device, name the new one in [[capacity]], and send SIGHUP: it is rebuilt while the pool is served (docs/parity.md)",
};

/// Cause of a parity rebuild that waits.
const REBUILD_WAITS: &str = "parity rebuild waits";

/// State of a member, as far as the log distinguishes states.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    HoldsAll,
    Rebuilding,
    Waits,
    Out,
}

impl Seen {
    fn of(member: &MemberStatus) -> Self {
        match member.state {
            MemberState::InSync => Self::HoldsAll,
            MemberState::Rebuilding => Self::Rebuilding,
            MemberState::Out if member.waits_to_be_rebuilt() => Self::Waits,
            MemberState::Out => Self::Out,
        }
    }
}

/// Watches the members of one tier.
pub struct MemberWatch {
    of: &'static Several,
    /// Name and state of each member at the last check, in the order of the members.
    members: Vec<(String, Seen)>,
    mended_blocks: u64,
    unreadable_blocks: u64,
    /// Names of members that a rebuild waited for at the last check.
    waited_for: Vec<String>,
}

/// Name of a member in messages: its device, or its id where the device is missing.
fn name_of(member: &MemberStatus) -> String {
    if member.name.is_empty() { format_id(&member.id) } else { member.name.clone() }
}

impl MemberWatch {
    /// Watches a mirrored fast tier.
    pub fn of_mirror() -> Self {
        Self::new(&MIRROR)
    }

    /// Watches a capacity tier with parity.
    pub fn of_parity() -> Self {
        Self::new(&PARITY)
    }

    fn new(of: &'static Several) -> Self {
        Self { of, members: Vec::new(), mended_blocks: 0, unreadable_blocks: 0, waited_for: Vec::new() }
    }

    /// Compares the members with the last check, and logs what has changed.
    pub fn look(&mut self, now_ns: u64, causes: &mut Causes, status: &MirrorStatus) {
        let of = self.of;
        let before = std::mem::take(&mut self.members);
        for (number, member) in status.members.iter().enumerate() {
            let (about, seen) = (name_of(member), Seen::of(member));
            if let Some((name, was)) = before.get(number).filter(|known| **known != (about.clone(), seen)) {
                self.left(causes, (name, *was), (&about, seen));
                if matches!(was, Seen::Out | Seen::Waits) && seen == Seen::HoldsAll {
                    // The rebuild has begun and ended between two checks.
                    self.rebuilding(now_ns, causes, &about);
                }
            }
            match seen {
                Seen::Out => self.out(now_ns, causes, member, &about),
                Seen::Waits => self.waits(now_ns, causes, &about),
                Seen::Rebuilding => self.rebuilding(now_ns, causes, &about),
                Seen::HoldsAll => causes.ended(of.rebuilding, &about, &format!("{about} holds everything")),
            }
            self.members.push((about, seen));
        }
        if let Some(why) = &status.broken {
            let advice = "Reads go on. Look at the devices and their paths, then restart the server";
            let message = format!("{} takes no writes any more: {why}", of.what);
            let (severity, cause) = (Severity::Error, of.broken);
            causes.lasts(now_ns, &Report { severity, cause, about: "", message, advice });
        }
        self.look_at_blocks(now_ns, causes, status);
    }

    /// Logs which members a rebuild waits for.
    pub fn look_at_rebuild(&mut self, now_ns: u64, causes: &mut Causes, waits_for: Vec<String>) {
        for name in &waits_for {
            let message = format!(
                "a rebuild of {} waits for {name}, which answers nothing and may alone have what is left of it",
                self.of.what
            );
            let advice = "Repair the path to it: the rebuild goes on. Where it is lost for ever restart without it (docs/parity.md)";
            let (severity, cause) = (Severity::Warning, REBUILD_WAITS);
            causes.lasts(now_ns, &Report { severity, cause, about: name, message, advice });
        }
        for name in std::mem::replace(&mut self.waited_for, waits_for) {
            if !self.waited_for.contains(&name) {
                causes.ended(REBUILD_WAITS, &name, &format!("no rebuild waits for {name} any more"));
            }
        }
    }

    /// Logs devices that were offered as members, but found their place taken meanwhile.
    pub fn not_taken(&self, now_ns: u64, causes: &mut Causes, names: Vec<String>) {
        let of = self.of;
        for name in names {
            let message = format!("{name} is no member of {}: another device has the place", of.what);
            let advice = "Name in the configuration the devices that are to be members, and no others";
            let (severity, cause) = (Severity::Warning, of.left_out);
            causes.happened(now_ns, &Report { severity, cause, about: &name, message, advice });
        }
    }

    fn out(&self, now_ns: u64, causes: &mut Causes, member: &MemberStatus, about: &str) {
        let of = self.of;
        let why = member.why.as_ref().map_or_else(String::new, |why| format!(": {why}"));
        let message = format!("{about} is no member of {} any more{why}; the others go on", of.what);
        let (severity, cause, advice) = (Severity::Error, of.out, of.replace);
        causes.lasts(now_ns, &Report { severity, cause, about, message, advice });
    }

    fn waits(&self, now_ns: u64, causes: &mut Causes, about: &str) {
        let of = self.of;
        let message = format!("{about} waits to be rebuilt as a member of {}: that is done of one at a time", of.what);
        let (severity, cause) = (Severity::Notice, of.waiting);
        causes.lasts(now_ns, &Report { severity, cause, about, message, advice: "" });
    }

    fn rebuilding(&self, now_ns: u64, causes: &mut Causes, about: &str) {
        let of = self.of;
        let message = format!("{about} is being rebuilt as a member of {}", of.what);
        let (severity, cause) = (Severity::Notice, of.rebuilding);
        causes.lasts(now_ns, &Report { severity, cause, about, message, advice: "" });
    }

    /// Ends the logged state of a member that has another state now, or that was replaced. A missing member is known
    /// by its id, its replacement by the name of the device.
    fn left(&self, causes: &mut Causes, (name, was): (&str, Seen), (about, seen): (&str, Seen)) {
        let of = self.of;
        match was {
            Seen::Out if name == about => {
                causes.ended(of.out, name, &format!("{name} is a member of {} again", of.what));
            }
            Seen::Out => causes.ended(of.out, name, &format!("{name} is replaced by {about} in {}", of.what)),
            Seen::Waits => causes.ended(of.waiting, name, &format!("{name} does not wait to be rebuilt any more")),
            // Only a member that holds everything has completed its rebuild, which is logged elsewhere. Otherwise the
            // new state is logged instead.
            Seen::Rebuilding if name != about || seen != Seen::HoldsAll => _ = causes.forget(of.rebuilding, name),
            Seen::Rebuilding | Seen::HoldsAll => {}
        }
    }

    fn look_at_blocks(&mut self, now_ns: u64, causes: &mut Causes, status: &MirrorStatus) {
        let of = self.of;
        let (mended, unreadable) = (status.mended_blocks, status.unreadable_blocks);
        if mended > std::mem::replace(&mut self.mended_blocks, mended) {
            let message = mended_message(of.what, status);
            let advice = "Look at the device errors beside this, and at the drive's health (smartctl -a)";
            let (severity, cause) = (Severity::Warning, of.mended);
            causes.happened(now_ns, &Report { severity, cause, about: "", message, advice });
        }
        if unreadable > std::mem::replace(&mut self.unreadable_blocks, unreadable) {
            let message = format!(
                "{} of {} could not be read of as many members as they need, to mend or rebuild them",
                count(unreadable, "place"),
                of.what
            );
            let advice = "What hosts have there fails when it is read: `forebay scrub CONFIG start` finds it. Restore it, and replace the drives that cannot be read";
            let (severity, cause) = (Severity::Warning, of.unreadable);
            causes.happened(now_ns, &Report { severity, cause, about: "", message, advice });
        }
    }
}

/// The message on repaired blocks, with the members that could not be read.
fn mended_message(what: &str, status: &MirrorStatus) -> String {
    let failed = status.members.iter().filter(|member| member.failed_reads > 0);
    let failed: Vec<String> =
        failed.map(|member| format!("{} ({})", name_of(member), count(member.failed_reads, "read"))).collect();
    let failed =
        if failed.is_empty() { String::new() } else { format!("; reads have failed of {}", failed.join(", ")) };
    format!(
        "{} that one member of {what} could not read: written again from the others{failed}",
        count(status.mended_blocks, "block")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// The status of a tier with these members. A member that is out has the reason that it fails writes.
    fn status(members: &[(&str, u8, MemberState)]) -> MirrorStatus {
        let member = |&(name, id, state): &(&str, u8, MemberState)| MemberStatus {
            name: name.to_owned(),
            id: [id; 16],
            state,
            why: (state == MemberState::Out).then(|| "it fails writes".to_owned()),
            failed_reads: 0,
            configured: None,
        };
        MirrorStatus {
            members: members.iter().map(member).collect(),
            generation: 1,
            rebuilt_bytes: 0,
            size_bytes: 1 << 20,
            mended_blocks: 0,
            unreadable_blocks: 0,
            broken: None,
        }
    }

    /// Whether a line of this cause was logged less than a minute ago.
    fn is_logged(causes: &mut Causes, now_ns: u64, cause: &'static str, about: &str) -> bool {
        let report = Report { severity: Severity::Notice, cause, about, message: String::new(), advice: "" };
        !causes.happened(now_ns, &report)
    }

    /// Regression: where a replacement was rebuilt between two checks, the log neither said that it holds everything,
    /// nor that the missing member is replaced.
    #[test]
    fn regression_a_rebuild_that_ends_between_two_looks_is_logged() {
        let (mut causes, mut watch) = (Causes::default(), MemberWatch::of_parity());
        watch.look(0, &mut causes, &status(&[("a.img", 1, MemberState::InSync), ("", 2, MemberState::Out)]));
        let rebuilt = status(&[("a.img", 1, MemberState::InSync), ("c.img", 3, MemberState::InSync)]);
        watch.look(100 * SECOND, &mut causes, &rebuilt);
        assert!(is_logged(&mut causes, 100 * SECOND, PARITY.rebuilding, "c.img"));
        assert!(!is_logged(&mut causes, 100 * SECOND, PARITY.rebuilding, "a.img"), "it was there all the time");
        // That state has ended: the same member missing once more is a new line.
        watch.look(300 * SECOND, &mut causes, &status(&[("", 2, MemberState::Out)]));
        assert!(is_logged(&mut causes, 300 * SECOND, PARITY.out, &format_id(&[2; 16])));
    }

    /// Regression: a blank member that waited to be rebuilt was logged as an error without a reason, with the advice
    /// to replace it.
    #[test]
    fn regression_a_member_that_waits_to_be_rebuilt_is_not_called_broken() {
        let (mut causes, mut watch) = (Causes::default(), MemberWatch::of_parity());
        let mut waits = status(&[
            ("a.img", 1, MemberState::InSync),
            ("b.img", 2, MemberState::Rebuilding),
            ("c.img", 3, MemberState::Out),
        ]);
        waits.members[2].why = None;
        assert_eq!(waits.members[2].why_out(), Some("waits to be rebuilt"));
        watch.look(0, &mut causes, &waits);
        assert!(is_logged(&mut causes, 0, PARITY.waiting, "c.img"));
        assert!(!is_logged(&mut causes, 0, PARITY.out, "c.img"));
        // A member that fails while it waits is an error.
        waits.members[2].why = Some("it fails writes".to_owned());
        watch.look(100 * SECOND, &mut causes, &waits);
        assert!(causes.forget(PARITY.out, "c.img"));
        assert!(!causes.forget(PARITY.waiting, "c.img"), "it is over");
    }

    #[test]
    fn what_a_rebuild_waits_for_is_logged_until_it_does_no_more() {
        let (mut causes, mut watch) = (Causes::default(), MemberWatch::of_parity());
        watch.look_at_rebuild(0, &mut causes, vec!["b.img".to_owned()]);
        assert!(is_logged(&mut causes, 0, REBUILD_WAITS, "b.img"));
        watch.look_at_rebuild(100 * SECOND, &mut causes, Vec::new());
        assert!(!causes.forget(REBUILD_WAITS, "b.img"), "it is over");
    }

    /// Regression: a member that went out again soon after its rebuild was logged a minute late, and its rebuild not
    /// at all.
    #[test]
    fn regression_a_member_that_goes_out_twice_is_logged_twice() {
        let (mut causes, mut watch) = (Causes::default(), MemberWatch::of_mirror());
        let is = |state| status(&[("a.img", 1, MemberState::InSync), ("b.img", 2, state)]);
        for (second, state) in [(0, MemberState::Out), (5, MemberState::Rebuilding), (10, MemberState::InSync)] {
            watch.look(second * SECOND, &mut causes, &is(state));
        }
        watch.look(20 * SECOND, &mut causes, &is(MemberState::Out));
        assert!(causes.forget(MIRROR.out, "b.img"), "its beginning was logged");
        watch.look(25 * SECOND, &mut causes, &is(MemberState::Rebuilding));
        assert!(causes.forget(MIRROR.rebuilding, "b.img"), "its beginning was logged");
    }

    #[test]
    fn members_that_could_not_be_read_are_named_where_blocks_were_mended() {
        let mut status = status(&[("a.img", 1, MemberState::InSync), ("b.img", 2, MemberState::InSync)]);
        (status.mended_blocks, status.members[1].failed_reads) = (720, 3001);
        let message = mended_message("the capacity tier with parity", &status);
        assert!(
            message.starts_with("720 blocks") && message.ends_with("reads have failed of b.img (3001 reads)"),
            "{message}"
        );
    }
}
