//! Logs what happens to the pool, its devices and its clients: the beginning and the end of each state, and each kind
//! of failure once, then at most once a minute with its number.

mod devices;
mod members;

use self::devices::DeviceWatch;
use self::members::MemberWatch;
use super::snapshot::Fixed;
use super::users::peer_name;
use crate::config::LogLimits;
use crate::log::{Causes, NOT_ACCEPTED, Report, Severity, not_accepted};
use crate::pool::PoolBackend;
use crate::text;
use forebay_export::nbd::error::ProtocolError;
use forebay_export::server::{CloseReason, Peer, ServerStats};
use forebay_export::tls::TlsFailure;
use forebay_export::{Export, Identity};
use forebay_volume::Engine;
use forebay_volume::engine::{Counters, Status};
use rustix::io::Errno;
use std::collections::BTreeMap;
use tracing::debug;

/// Interval of the checks, in nanoseconds.
const LOOK_EVERY_NS: u64 = 1_000_000_000;
/// Writes count as waiting (back-pressure) after `WAITING_LOOKS` checks in succession with waiting writes, and as
/// flowing again after `FLOWING_LOOKS` checks without.
const WAITING_LOOKS: u32 = 5;
const FLOWING_LOOKS: u32 = 30;
/// A job that failed because of a device has ended within this time after the device's error, in nanoseconds.
const JOB_ENDS_NS: u64 = 60_000_000_000;
/// Most names of a client that are logged.
const NAMES_MAX: usize = 4;
/// A full pool counts as full until its fill is this far below the threshold.
const HYSTERESIS: f64 = 0.02;

/// Compares counters with those of the last check, and logs what has changed.
pub struct Watch {
    causes: Causes,
    limits: LogLimits,
    devices: DeviceWatch,
    mirror: MemberWatch,
    parity: MemberWatch,
    counters: Counters,
    /// Blocks that the scrub could not compare with their parity.
    uncompared_blocks: u64,
    /// Errors of all devices since the start, and when the last increase was seen.
    device_errors: (u64, Option<u64>),
    refused: u64,
    /// The reason for refusing writes that was logged last.
    refusal: Option<String>,
    waiting_looks: u32,
    /// Checks in succession in which the map found no slot.
    map_looks: u32,
    flowing_looks: u32,
    /// When connections last waited for lack of file descriptors, by listener.
    kept_waiting_ns: BTreeMap<&'static str, u64>,
    looked_ns: u64,
}

impl Watch {
    /// A watch that has not logged anything yet.
    pub fn new(limits: LogLimits) -> Self {
        Self {
            causes: Causes::default(),
            limits,
            devices: DeviceWatch::default(),
            mirror: MemberWatch::of_mirror(),
            parity: MemberWatch::of_parity(),
            counters: Counters::default(),
            uncompared_blocks: 0,
            device_errors: (0, None),
            refused: 0,
            refusal: None,
            map_looks: 0,
            waiting_looks: 0,
            flowing_looks: 0,
            kept_waiting_ns: BTreeMap::new(),
            looked_ns: 0,
        }
    }

    /// Replaces the thresholds.
    pub fn set_limits(&mut self, limits: LogLimits) {
        self.limits = limits;
    }

    /// Checks everything, at most once a second.
    pub fn tick(&mut self, now_ns: u64, backend: &mut PoolBackend, fixed: &Fixed, server: ServerStats) {
        for (about, why) in backend.evidence.take_losses() {
            self.warn(
                now_ns,
                "evidence lost",
                &about,
                why,
                "Writes are classified by contents and behaviour until it is there again",
            );
        }
        // A pool opened for reading has logged at the opening that it takes no writes, and what is missing.
        if fixed.is_for_service {
            self.look_at_refusal(now_ns, &backend.pool.engine);
        }
        if now_ns.saturating_sub(self.looked_ns) < LOOK_EVERY_NS {
            return;
        }
        self.looked_ns = now_ns;
        let status = backend.pool.engine.status();
        let devices = &backend.pool.devices;
        // Nobody writes the superblocks of an incomplete pool, so they may differ from the one in memory.
        if fixed.left.is_none() {
            fixed.watched.look(now_ns, devices, &fixed.superblock);
        }
        self.devices.look(now_ns, &mut self.causes, &self.limits, &fixed.watched.all(devices));
        if let Some(mirror) = devices.mirror() {
            self.mirror.look(now_ns, &mut self.causes, &mirror.status());
            self.mirror.not_taken(now_ns, &mut self.causes, mirror.take_not_taken());
        }
        if let Some(array) = devices.array() {
            self.parity.look(now_ns, &mut self.causes, &array.members().status());
            self.parity.look_at_rebuild(now_ns, &mut self.causes, array.rebuild_waits_for());
            self.parity.not_taken(now_ns, &mut self.causes, array.members().take_not_taken());
        }
        // A pool that takes no writes needs no warning about space. Its fast tier may not even be there.
        if fixed.is_for_service {
            self.look_at_fill(now_ns, &backend.pool.engine, &status);
            self.look_at_map(now_ns, &backend.pool.engine, &status);
        }
        self.look_at_waiting(now_ns, &backend.pool.engine, &status);
        self.look_at_checkpoints(now_ns, &backend.pool.engine, &status);
        self.look_at_damage(now_ns, &status);
        self.look_at_comparisons(now_ns, backend.pool.engine.scrub().uncompared_blocks);
        let failed = fixed.watched.all(devices).iter().map(|device| device.counts.now().errors).sum();
        self.look_at_upkeep(now_ns, failed, &status);
        self.look_at_bases(now_ns, &backend.pool.engine);
        self.look_at_clients(now_ns, server);
        self.counters = status.counters;
    }

    /// Logs whether connections to `door` wait because none could be accepted since the last tick.
    pub fn look_at_door(&mut self, now_ns: u64, door: &'static str, why: Option<Errno>) {
        if let Some(why) = why {
            self.kept_waiting_ns.insert(door, now_ns);
            self.causes.lasts(now_ns, &not_accepted(door, why));
        } else if self.kept_waiting_ns.get(door).is_some_and(|&last_ns| now_ns.saturating_sub(last_ns) >= LOOK_EVERY_NS)
        {
            self.kept_waiting_ns.remove(door);
            self.causes.ended(NOT_ACCEPTED, door, &format!("connections to {door} are accepted again"));
        }
    }

    /// Logs that a client with TLS uses an export.
    pub fn opened(&mut self, now_ns: u64, identity: &Identity, peer: Peer, export: &Export) {
        let by = if identity.by_key { "pre-shared key" } else { "certificate" };
        let names: Vec<String> = identity.names.iter().take(NAMES_MAX).map(|name| format!("{name:?}")).collect();
        let who = if names.is_empty() { "without a name".to_owned() } else { names.join(", ") };
        let message = format!("client {who} ({by}) from {} uses export {:?}", peer_name(&peer), export.name);
        let about = format!("{who} {}", export.name);
        let cause = "client connected";
        self.causes.happened(now_ns, &Report { severity: Severity::Notice, cause, about: &about, message, advice: "" });
    }

    /// Logs the end of a connection where its reason matters to the operator.
    pub fn closed(&mut self, now_ns: u64, reason: &CloseReason, peer: Peer) {
        let advice = match reason {
            CloseReason::Protocol(ProtocolError::PayloadLength { .. }) => {
                "Set the client to smaller requests: the server announces this limit, and this client did not ask, or goes beyond it; a larger memory.limit allows up to 32 MiB"
            }
            CloseReason::Protocol(_) => {
                "Look at the client: it may be no NBD client, or name an export that is not there"
            }
            CloseReason::Tls(_) => {
                "Look at the client's certificate or key, its clock, and its view of the server's; [tls] says what is let in"
            }
            CloseReason::Unread => {
                "Look at the client: it hangs, or the way to it is broken. What it was not told of it has to ask the next server"
            }
            CloseReason::HandshakeTimeout => "Look at the client: it connects and asks for nothing",
            // Counted as a refused connection, which is logged elsewhere.
            CloseReason::Full => return,
            CloseReason::Frontend(_) => "Look at the process that used this export",
            CloseReason::Evicted => {
                "Look who connects there and asks for nothing, and keep them away (a firewall); where real clients are many raise server.max_connections (as many may be on their way to an export, up to 128)"
            }
            CloseReason::Socket(_) => "Look at the network between, and at the limits of this process (ulimit -n)",
            CloseReason::Client | CloseReason::ExportRemoved | CloseReason::Stopped => {
                debug!("a connection ended: {reason}");
                return;
            }
        };
        let message = format!("the connection of {} was ended: {reason}", peer_name(&peer));
        self.warn(now_ns, "connection dropped", cause_of(reason), message, advice);
    }

    fn warn(&mut self, now_ns: u64, cause: &'static str, about: &str, message: String, advice: &str) {
        self.causes.happened(now_ns, &Report { severity: Severity::Warning, cause, about, message, advice });
    }

    fn error(&mut self, now_ns: u64, cause: &'static str, about: &str, message: String, advice: &str) {
        self.causes.happened(now_ns, &Report { severity: Severity::Error, cause, about, message, advice });
    }

    /// Logs once per reason that the pool takes no writes, and when it takes them again.
    fn look_at_refusal(&mut self, now_ns: u64, engine: &Engine) {
        const CAUSE: &str = "read-only";
        let reason = engine.read_only_reason();
        if self.refusal.is_none() && reason.is_none() {
            return;
        }
        if self.refusal.as_deref() != reason {
            let before = self.refusal.take().unwrap_or_default();
            let text = "the pool takes writes again: what the failed flush covered was written again, and flushed";
            match reason {
                None => self.causes.ended(CAUSE, &before, text),
                // The new reason replaces this one; writes are still refused.
                Some(_) => _ = self.causes.forget(CAUSE, &before),
            }
            self.refusal = reason.map(str::to_owned);
        }
        if let Some(reason) = reason {
            let report = Report {
                severity: Severity::Error,
                cause: CAUSE,
                about: reason,
                message: format!("the pool takes no writes: {reason}"),
                advice: "Look at the devices (`forebay status CONFIG`, dmesg, smartctl -a); what was flushed before is safe, and reads go on. Where it is the journal that cannot be written, or does not get free, start the server again once they are good",
            };
            self.causes.lasts(now_ns, &report);
            return;
        }
        let lost = engine.status().counters.flush_lost_blocks;
        if lost > 0 {
            let message = format!(
                "{lost} blocks and map pages are lost, or may be after a power cut: they were not there any more, or could not be written again"
            );
            self.error(
                now_ns,
                "flush lost data",
                "",
                message,
                "Restore what the file system or database above reports as unreadable",
            );
        }
    }

    fn look_at_fill(&mut self, now_ns: u64, engine: &Engine, status: &Status) {
        let (usable, live) = (engine.usable_bytes(), status.fast.live_bytes + status.capacity.live_bytes);
        if usable == 0 {
            return;
        }
        let fill = live as f64 / usable as f64;
        let text = format!("{:.0} % full: {} of {}", fill * 100.0, text::size(live), text::size(usable));
        let states = [
            ("full", self.limits.full, Severity::Error, "the pool is full"),
            ("nearly full", self.limits.nearly_full, Severity::Warning, "the pool is nearly full"),
        ];
        for (cause, threshold, severity, message) in states {
            if fill >= threshold {
                let advice = "Discard what is not needed (fstrim on the file systems above) or remove a disk; where disks are larger than the pool, \
                              writes will fail";
                let message = format!("{message}: it is {text}");
                self.causes.lasts(now_ns, &Report { severity, cause, about: "", message, advice });
                // A full pool is nearly full as well; that needs no line of its own.
                return;
            }
            if fill < threshold - HYSTERESIS {
                self.causes.ended(cause, "", &format!("the pool is not {cause} any more: it is {text}"));
            }
        }
    }

    /// The map lies on the fast tier. A fast tier that is small compared with the disks has no room for the whole
    /// map.
    fn look_at_map(&mut self, now_ns: u64, engine: &Engine, status: &Status) {
        let state = |severity, cause, message| {
            let advice =
                "A larger fast tier (a 300th of the disks and more) or smaller disks; discard what is not needed";
            Report { severity, cause, about: "", message, advice }
        };
        let (needed_bytes, total_bytes) = (engine.full_map_bytes(), status.fast.total_bytes);
        let sizes = format!("{} of {}", text::size(needed_bytes), text::size(total_bytes));
        if needed_bytes > total_bytes {
            let message = format!(
                "the fast tier has no room for the map of full disks, which is {sizes}: writes to what was never written will meet no space before the \
                 pool is full"
            );
            self.causes.lasts(now_ns, &state(Severity::Warning, "map does not fit", message));
        } else {
            self.causes.ended("map does not fit", "", "the fast tier has room for the map of full disks");
        }
        let room = engine.index_pages_max();
        if engine.lacks_index_room() {
            let message = format!(
                "what each checkpoint writes has room for {room} parts of disks, and lists as many: writes to other parts fail for want of space, whatever is free"
            );
            let advice =
                "Discard all of a part (390.6 MiB) that is not needed; a pool over larger devices has room for more";
            let cause = "map index full";
            self.causes.lasts(now_ns, &Report { severity: Severity::Error, cause, about: "", message, advice });
        } else {
            self.causes.ended("map index full", "", "there is room for other parts of disks again");
        }
        self.map_looks = if engine.lacks_map_slots() { self.map_looks + 1 } else { 0 };
        if self.map_looks >= WAITING_LOOKS {
            let message = format!(
                "the fast tier is full of the map: writes to what was never written fail for want of space, whatever is free on the capacity tier; of \
                 full disks it would take {sizes}"
            );
            self.causes.lasts(now_ns, &state(Severity::Error, "fast tier full of map", message));
        } else if self.map_looks == 0 {
            self.causes.ended("fast tier full of map", "", "the fast tier has room for the map again");
        }
    }

    fn look_at_waiting(&mut self, now_ns: u64, engine: &Engine, status: &Status) {
        let more = status.counters.stalls.saturating_sub(self.counters.stalls);
        if more > 0 || engine.activity().stalled {
            self.waiting_looks += 1;
            self.flowing_looks = 0;
        } else {
            self.waiting_looks = 0;
            self.flowing_looks = self.flowing_looks.saturating_add(1);
        }
        if self.waiting_looks >= WAITING_LOOKS {
            let message = format!(
                "back-pressure: writes wait for space or for the journal, {more} of them in the last second (fast tier {} of {} in use, {} of {} bands \
                 free)",
                text::size(status.fast.used_bytes),
                text::size(status.fast.total_bytes),
                status.free_bands,
                status.bands
            );
            self.causes.lasts(
                now_ns,
                &Report {
                    severity: Severity::Warning,
                    cause: "back-pressure",
                    about: "",
                    message,
                    advice: "Hosts write faster than the capacity tier takes it: a larger fast tier, a faster capacity device or fewer writes help",
                },
            );
        } else if self.flowing_looks >= FLOWING_LOOKS {
            self.causes.ended("back-pressure", "", "writes do not wait any more");
        }
    }

    fn look_at_checkpoints(&mut self, now_ns: u64, engine: &Engine, status: &Status) {
        let counters = &status.counters;
        if counters.checkpoint_errors > self.counters.checkpoint_errors {
            let why = counters.last_checkpoint_error.clone().unwrap_or_else(|| "a device flush failed".to_owned());
            let message = format!("a checkpoint could not be written: {why}");
            self.error(
                now_ns,
                "checkpoint failing",
                "",
                message,
                "It is tried again, and what was flushed is safe in the journal; should the journal fill up, writes wait. Look at the device",
            );
        }
        const CAPACITY_SIDE: &str = "capacity-side checkpoint failing";
        match engine.capacity_side_error() {
            Some(message) => {
                let advice =
                    "Look at the first capacity device; only `serve --without-fast` would miss what this keeps";
                let severity = Severity::Warning;
                self.causes.lasts(now_ns, &Report { severity, cause: CAPACITY_SIDE, about: "", message, advice });
            }
            None => self.causes.ended(CAPACITY_SIDE, "", "the capacity-side checkpoint is written again"),
        }
    }

    fn look_at_bases(&mut self, now_ns: u64, engine: &Engine) {
        const FAILING: &str = "base not copied";
        const COPIED: &str = "base copied";
        for disk in engine.disks() {
            let (about, adoption) = (disk.name.as_str(), engine.adoption(disk.id).unwrap_or_default());
            if let Some(why) = &adoption.why {
                let (severity, cause) = (Severity::Error, FAILING);
                let message = format!("what disk {about} has in its base cannot all be copied: {why}");
                let advice =
                    "It is tried again, and all else of it is copied; make the base readable, or room in the pool";
                self.causes.lasts(now_ns, &Report { severity, cause, about, message, advice });
            } else {
                self.causes.ended(FAILING, about, &format!("what disk {about} has in its base is copied again"));
            }
            if adoption.is_complete && !adoption.is_leaving {
                let (severity, cause) = (Severity::Notice, COPIED);
                let message = format!("everything that disk {about} had in its base is in the pool");
                let advice = "`forebay disk CONFIG detach-base NAME` ends it; then the base is free";
                self.causes.lasts(now_ns, &Report { severity, cause, about, message, advice });
            } else {
                self.causes.forget(COPIED, about);
            }
        }
    }

    fn look_at_comparisons(&mut self, now_ns: u64, uncompared_blocks: u64) {
        if uncompared_blocks > std::mem::replace(&mut self.uncompared_blocks, uncompared_blocks) {
            let bytes = uncompared_blocks.saturating_mul(4096);
            let message =
                format!("a scrub could not compare {bytes} bytes of bands with their parity: members did not answer");
            let advice = "Look at the devices and their paths, then begin another pass: `forebay scrub CONFIG start`";
            self.warn(now_ns, "parity not compared", "", message, advice);
        }
    }

    fn look_at_damage(&mut self, now_ns: u64, status: &Status) {
        if status.counters.mended_blocks > self.counters.mended_blocks {
            let blocks = text::count(status.counters.mended_blocks, "block");
            let message =
                format!("{blocks} that did not match the checksum on one member of several: written again from others");
            self.warn(
                now_ns,
                "mirror mended",
                "checksums",
                message,
                "A drive that returns wrong data should be replaced",
            );
        }
        let (now, before) = (&status.counters, &self.counters);
        let kinds = [
            (
                now.damaged_reads.saturating_sub(now.lost_reads),
                before.damaged_reads.saturating_sub(before.lost_reads),
                ("read", "met what does not match its checksum"),
                "damaged data",
            ),
            (now.damaged_pages, before.damaged_pages, ("map page", "found not to match the checksum"), "damaged map"),
            (
                now.damaged_moves,
                before.damaged_moves,
                ("block", "found damaged on the way to another place"),
                "damaged blocks",
            ),
        ];
        let found: Vec<(u64, (&str, &str), &'static str)> = kinds
            .into_iter()
            .filter(|(now, before, ..)| now > before)
            .map(|(now, _, what, cause)| (now, what, cause))
            .collect();
        let is_unfit = now.unfit_bands > before.unfit_bands;
        let lost = (now.lost_reads > before.lost_reads).then_some(now.lost_reads);
        if now.scrub_damaged_blocks > before.scrub_damaged_blocks {
            let blocks = text::count(now.scrub_damaged_blocks, "block");
            let message = format!("a scrub has found {blocks} since the start, damaged or not to be read");
            self.error(
                now_ns,
                "scrub found damage",
                "",
                message,
                "`forebay scrub CONFIG status` lists them; restore these from a backup, then write or discard them",
            );
        }
        if is_unfit {
            let message = format!(
                "a scrub has found {} since the start with parity of something else, or that cannot be read: what lives there is written anew",
                text::count(now.unfit_bands, "band")
            );
            self.warn(
                now_ns,
                "parity does not fit",
                "",
                message,
                "Look at what members report; one that returns wrong data should be replaced",
            );
        }
        if let Some(lost) = lost {
            let message = format!("{} met blocks that are lost since the start, and failed", text::count(lost, "read"));
            let advice = "They went with a device that is not there, or were given up: `forebay status CONFIG` of a pool that was opened in part lists them. Restore these from a backup";
            self.error(now_ns, "lost data", "", message, advice);
        }
        for (count, (one, what), cause) in found {
            let message = format!("{} {what} since the start: reads of that fail", text::count(count, one));
            self.error(
                now_ns,
                cause,
                "",
                message,
                "Stop the server and run `forebay verify CONFIG`, which lists them; restore these from a backup",
            );
        }
    }

    /// Logs failures of background work. `device_errors` counts the errors of all devices since the start.
    fn look_at_upkeep(&mut self, now_ns: u64, device_errors: u64, status: &Status) {
        let (now, before) = (&status.counters, &self.counters);
        let failed = [
            (now.migration_errors, before.migration_errors, "destage or garbage collection jobs", "migration failing"),
            (now.summary_errors, before.summary_errors, "band summaries", "summaries failing"),
            (now.trim_errors, before.trim_errors, "trims", "trims failing"),
        ];
        let found: Vec<(Failures, &'static str)> = failed
            .into_iter()
            .filter(|(now, before, ..)| now > before)
            .map(|(now, before, what, cause)| (Failures { what, count: now, more: now - before }, cause))
            .collect();
        let (known, seen_ns) = self.device_errors;
        let seen_ns = if device_errors > known { Some(now_ns) } else { seen_ns };
        self.device_errors = (device_errors, seen_ns);
        // A job that failed ends only when its last request in flight has ended.
        let have_devices_failed = seen_ns.is_some_and(|seen_ns| now_ns.saturating_sub(seen_ns) < JOB_ENDS_NS);
        for (failures, cause) in found {
            let bands = (status.free_bands, status.bands);
            let (cause, message, advice) = failed_upkeep(cause, failures, have_devices_failed, bands);
            self.warn(now_ns, cause, "", message, advice);
        }
    }

    fn look_at_clients(&mut self, now_ns: u64, server: ServerStats) {
        let more = server.refused.saturating_sub(self.refused);
        if more > 0 {
            self.refused = server.refused;
            let message = format!(
                "{} refused: {} there already",
                text::count(more, "connection"),
                text::count(server.clients_at_refusal as u64, "client")
            );
            self.warn(now_ns, "connection refused", "", message, "Raise server.max_connections, or end clients");
        }
    }
}

/// Advice where jobs find no space.
const NO_ROOM: &str = "They are tried again. Discard what is not needed (fstrim on the file systems above) or remove a disk; where disks are larger than the pool, writes will fail";

/// Background work that has failed.
#[derive(Clone, Copy)]
struct Failures {
    /// What has failed, in the plural.
    what: &'static str,
    /// How many since the start.
    count: u64,
    /// How many of them since the last check.
    more: u64,
}

/// Cause, message and advice for failed background work; `free` of `all` bands are free.
fn failed_upkeep(
    cause: &'static str,
    Failures { what, count, more }: Failures,
    have_devices_failed: bool,
    (free, all): (usize, usize),
) -> (&'static str, String, &'static str) {
    match cause {
        // The counter also includes jobs that found no space, without any error of a device.
        "migration failing" if !have_devices_failed => {
            let message = format!(
                "destage or garbage collection found no room on the capacity tier to write to (jobs: {more}; free bands: {free} of {all})"
            );
            ("no room to move to", message, NO_ROOM)
        }
        _ => {
            let message = format!("{count} {what} have failed since the start");
            (cause, message, "They are tried again; look at the device errors beside this")
        }
    }
}

/// Name of the way in which a connection ended, to separate the causes of log lines.
fn cause_of(reason: &CloseReason) -> &str {
    match reason {
        CloseReason::Protocol(_) => "protocol",
        CloseReason::Socket(_) => "socket",
        // `why` is one of few texts. What a client claims beside it could be anything and must not become a cause.
        CloseReason::Tls(TlsFailure::Handshake { why, .. } | TlsFailure::Broken(why)) => why,
        CloseReason::Frontend(_) => "front end",
        CloseReason::HandshakeTimeout => "handshake timeout",
        CloseReason::Evicted => "evicted",
        CloseReason::Unread => "unread",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: in a full pool the log blamed device errors for failed jobs, although no device had failed a
    /// request.
    #[test]
    fn regression_jobs_that_find_no_room_are_not_put_down_to_devices() {
        let jobs = Failures { what: "destage or garbage collection jobs", count: 7, more: 2 };
        let (cause, message, advice) = failed_upkeep("migration failing", jobs, false, (1, 62));
        assert_eq!(cause, "no room to move to");
        assert!(message.contains("found no room") && message.contains("jobs: 2; free bands: 1 of 62"), "{message}");
        assert!(advice.contains("fstrim") && !advice.contains("device errors"), "{advice}");
        let (cause, message, advice) = failed_upkeep("migration failing", jobs, true, (1, 62));
        assert_eq!(
            (cause, message.as_str()),
            ("migration failing", "7 destage or garbage collection jobs have failed since the start")
        );
        assert!(advice.contains("device errors"), "{advice}");
        assert_eq!(
            failed_upkeep("trims failing", Failures { what: "trims", count: 1, more: 1 }, false, (1, 62)).0,
            "trims failing"
        );
    }
}
