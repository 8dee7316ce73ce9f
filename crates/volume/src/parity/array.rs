//! The array as a device.

use super::core::Core;
use super::jobs::{COPY_TAG, Job};
use super::{follow, labels, probing, reading, rebuilding, upkeep, writing};
use crate::mirror::{MemberState, gone};
use crate::virtual_time::advance;
use forebay_block::{Completion, Device, Geometry, IoError, IoErrorKind, Op, Request};

/// Several devices with parity.
pub struct Array {
    name: String,
    geometry: Geometry,
    core: Core,
    outstanding: usize,
}

impl Array {
    pub(super) fn new(name: String, geometry: Geometry, core: Core) -> Self {
        Self { name, geometry, core, outstanding: 0 }
    }

    fn take_fronts(&mut self) {
        if let Some(fronts) = self.core.view.take_fronts() {
            self.core.fronts.set(fronts);
            // Bands that hold nothing may be written again without a discard: what the log has of their rows is erased first.
            if !self.core.open.is_clean() {
                (self.core.upkeep.is_settling, self.core.upkeep.is_served) = (true, true);
            }
        }
    }
}

impl Device for Array {
    fn name(&self) -> &str {
        &self.name
    }

    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, request: Request) {
        self.outstanding += 1;
        let Request { tag, offset_bytes, stream, op } = request;
        let core = &mut self.core;
        let refused = |error: IoError| Completion { tag, result: Err(error), bufs: None };
        match op {
            Op::Read { bufs, attempt } => reading::begin(core, tag, offset_bytes, attempt, bufs),
            op => match core.roster.broken() {
                Some(error) => core.done.push(refused(error)),
                None if !core.view.is_begun() => {
                    // The array was joined for reading only, or it is not known yet that it is this pool's.
                    let error = IoError { kind: IoErrorKind::Unsupported, ..gone(op.name()) };
                    core.done.push(refused(error));
                }
                None if matches!(op, Op::Flush) => core.flush(super::jobs::Then::HostFlush { tag }),
                None => {
                    self.take_fronts();
                    writing::take(&mut self.core, Request { tag, offset_bytes, stream, op });
                }
            },
        }
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        self.take_fronts();
        self.core.leave_doubted();
        self.core.upkeep.mends.look(self.core.view.now_ns());
        loop {
            let ended = self.core.members.poll();
            let has_ended = !ended.is_empty();
            for ended in ended {
                match self.core.jobs.get(ended.job) {
                    Some(Job::Batch(_)) => self.core.batch_part(ended.job, ended.member, ended.result),
                    _ => reading::ended(&mut self.core, ended),
                }
            }
            let sent = self.core.members.sent();
            follow::follow(&mut self.core);
            labels::step(&mut self.core);
            follow::go_on(&mut self.core);
            let was_settling = self.core.is_settling();
            upkeep::step(&mut self.core);
            // Requests that waited for rows to be settled begin in the next iteration.
            let is_settled = was_settling && !self.core.is_settling();
            if let Some(at) = self.core.done.iter().position(|completion| completion.tag == COPY_TAG) {
                let copied = self.core.done.swap_remove(at);
                rebuilding::same_read(&mut self.core, copied.result, copied.bufs);
            }
            let mends = self.core.mends();
            self.core.done.extend(self.core.upkeep.mends.answers(!mends));
            self.core.answer_held();
            if !has_ended && !is_settled && sent == self.core.members.sent() && self.core.next.is_empty() {
                break;
            }
        }
        let awaited = self.core.upkeep.rebuild.as_ref().map_or(0, |rebuild| rebuild.waits_for);
        self.core.view.set_rebuild_waits_for((awaited | probing::hung(&self.core)) & self.core.members.in_sync());
        self.core.view.set_settling(self.core.is_settling() && self.core.upkeep.is_served);
        self.outstanding -= self.core.done.len();
        done.append(&mut self.core.done);
    }

    fn wait(&mut self, timeout_ns: u64) {
        // Nobody waits for members that were left behind.
        let members = self.core.members.list.iter_mut().filter(|member| member.state != MemberState::Out);
        let mut devices = members.filter_map(|member| member.device.as_mut());
        if let Some(device) = devices.find(|device| device.in_flight() > 0) {
            device.wait(timeout_ns);
        }
    }

    fn wake_fds(&self, out: &mut Vec<i32>) {
        self.core.members.devices().for_each(|device| device.wake_fds(out));
    }

    fn completes_unseen(&self) -> bool {
        self.core.members.devices().any(|device| device.completes_unseen())
    }

    fn queue_limit(&self) -> usize {
        let limit = self.core.members.devices().map(|device| device.queue_limit()).min().unwrap_or(1);
        // Each write may need a place in the log for its first and its last row, beside those of the rows that are open.
        limit.min(self.core.shape.log_slots as usize / 8).max(1)
    }

    fn in_flight(&self) -> usize {
        self.outstanding
    }

    fn next_event_ns(&self) -> u64 {
        self.core.members.devices().map(|device| device.next_event_ns()).min().unwrap_or(u64::MAX)
    }

    fn advance(&mut self, to_ns: u64) -> Option<u64> {
        advance(&mut self.core.members.list, |member| member.device.as_mut(), to_ns)
    }
}
