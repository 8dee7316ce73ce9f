//! The mirror as a device.

use super::copying::{Ask, Copying, Event};
use super::flight::{Change, Flight, Ranges, Read, lens_of};
use super::member::{Member, gone, numbers_in};
use super::members::Members;
use super::roster::Roster;
use super::view::MirrorView;
use crate::layout::member_label::MemberLabel;
use crate::virtual_time::advance;
use forebay_block::{Buf, Completion, Device, Geometry, IoError, IoErrorKind, Op, Request, SharedBuf, Vectored};
use std::collections::VecDeque;

/// Several devices that hold the same.
pub struct Mirror {
    name: String,
    geometry: Geometry,
    members: Members,
    /// Changes in flight.
    changing: Ranges,
    /// Changes that wait for others that overlap them, or for copying there.
    held: VecDeque<Request>,
    roster: Roster,
    /// Answers that wait until the label is durable; and for each whether it says that writes are durable.
    unanswered: Vec<(Completion, bool)>,
    /// The failure of a flush that nobody has heard of yet: the next flush returns it.
    lost: Option<IoError>,
    copying: Copying,
    view: MirrorView,
    done: Vec<Completion>,
    outstanding: usize,
    ended: Vec<(usize, Completion)>,
    scratch: Vec<Completion>,
}

impl Mirror {
    /// A mirror over these members. `is_new`: the label says something that is not on every device yet. `to_rebuild`: members that are
    /// rebuilt after the one that the label names.
    pub(super) fn new(
        list: Vec<Member>,
        (name, geometry): (String, Geometry),
        (label, is_new): (MemberLabel, bool),
        to_rebuild: VecDeque<usize>,
        view: MirrorView,
    ) -> Self {
        let mut copying = Copying::default();
        if let Some(member) = label.rebuilding {
            copying.rebuild(usize::from(member), label.rebuilt_bytes);
        }
        Self {
            name,
            geometry,
            members: Members::new(list),
            changing: Ranges::default(),
            held: VecDeque::new(),
            roster: Roster::new((label, is_new), to_rebuild, view.clone()),
            unanswered: Vec::new(),
            lost: None,
            copying,
            view,
            done: Vec::new(),
            outstanding: 0,
            ended: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// Begins a change, or holds it while other work is in progress where it writes.
    fn begin_change(&mut self, request: Request) {
        let (offset_bytes, len_bytes) = (request.offset_bytes, request.op.len_bytes());
        let is_free = |held: &VecDeque<Request>| {
            held.iter().all(|other| {
                other.offset_bytes >= offset_bytes + len_bytes
                    || offset_bytes >= other.offset_bytes + other.op.len_bytes()
            })
        };
        if len_bytes > 0
            && (self.changing.overlap(offset_bytes, len_bytes)
                || self.copying.overlaps(offset_bytes, len_bytes)
                || !is_free(&self.held))
        {
            self.held.push_back(request);
            return;
        }
        let Request { tag, offset_bytes, stream, op } = request;
        let left = self.members.written();
        let is_discard = matches!(op, Op::Discard { .. });
        // A write past the caches says nothing of what is in them: a failed one is not treated like a failed flush.
        let is_flush = match op {
            Op::Flush => true,
            Op::Write { fua, .. } => fua && self.geometry.volatile_cache && !self.geometry.durable_writes,
            _ => false,
        };
        let lost = if is_flush { self.lost.take() } else { None };
        let change = Change { tag, left, done: 0, failed: 0, error: None, is_discard, is_flush, lost };
        let key = self.members.send_all(left, Flight::Change(change), (offset_bytes, stream), &op);
        if len_bytes > 0 {
            self.changing.add(offset_bytes, len_bytes, key);
        }
    }

    /// Begins what was held, in order, as far as nothing is in its way any more.
    fn begin_held(&mut self) {
        for request in std::mem::take(&mut self.held) {
            self.begin_change(request);
        }
    }

    fn begin_read(&mut self, read: Read, bufs: Vectored<Buf>) {
        let Read { offset_bytes, attempt, member, .. } = read;
        self.members.send(member, Flight::Read(read), offset_bytes, Op::Read { bufs, attempt });
    }

    /// Answers a change, or keeps the answer until the label is durable.
    fn answer(&mut self, completion: Completion, is_flush: bool) {
        if self.roster.holds_answers() {
            self.unanswered.push((completion, is_flush));
        } else {
            self.done.push(completion);
        }
    }

    /// The flush of a label has failed on the only member that is left, and was the only report of what it covered: all flushes that are
    /// not answered yet fail with it, or else the next one.
    fn flush_was_lost(&mut self, error: &IoError) {
        let mut any = self.members.fail_flushes(error);
        for (completion, _) in self.unanswered.iter_mut().filter(|(_, is_flush)| *is_flush) {
            completion.result = Err(error.clone());
            any = true;
        }
        self.lost = if any { None } else { Some(error.clone()) };
    }

    /// Gives the answers that waited for the label.
    fn answer_held(&mut self) {
        let broken = self.roster.broken.clone();
        if let Some(error) = &broken {
            let held = self.held.drain(..);
            self.done.extend(held.map(|request| Completion {
                tag: request.tag,
                result: Err(error.clone()),
                bufs: None,
            }));
        }
        if self.unanswered.is_empty() || self.roster.holds_answers() {
            return;
        }
        self.done.extend(self.unanswered.drain(..).map(|(completion, _)| match &broken {
            Some(error) => Completion { result: Err(error.clone()), ..completion },
            None => completion,
        }));
    }

    /// A member has answered a request.
    fn member_ended(&mut self, number: usize, completion: Completion) {
        let Completion { tag, result, bufs } = completion;
        match self.members.flight_mut(tag) {
            Some(Flight::Change(change)) => {
                // A member that was left behind meanwhile is not waited for.
                let is_last = change.left & 1 << number != 0 && change.ended(number, result);
                if is_last {
                    self.change_ended(tag);
                }
                return;
            }
            None => return,
            Some(_) => {}
        }
        match self.members.remove(tag) {
            Some(Flight::Read(read)) => self.read_ended(read, result, bufs),
            Some(Flight::Label { serial, is_flush }) => {
                let (members, copying) = (&mut self.members, &mut self.copying);
                if let Some(error) = self.roster.label_ended(number, serial, is_flush, result, members, copying) {
                    self.flush_was_lost(&error);
                }
            }
            Some(Flight::Copy { asked }) => {
                let bytes = match bufs {
                    Some(Vectored::One(buf)) => Some(buf),
                    _ => None,
                };
                let members = &self.members;
                let event = self
                    .copying
                    .ended((number, asked), result, bytes, |tried| members.reader(0, 0, tried, false).is_some());
                self.copied(event);
            }
            Some(Flight::CopyFlush) => {
                let event = self.copying.flushed(number, result);
                self.copied(event);
            }
            Some(Flight::Change(_)) | None => {}
        }
    }

    fn change_ended(&mut self, tag: u64) {
        let Some(Flight::Change(change)) = self.members.remove(tag) else { return };
        self.changing.remove(tag);
        let is_done = change.done & self.members.in_sync() != 0;
        let error = change.error;
        let failed = change.failed & self.members.written();
        let result = match (&error, is_done) {
            (_, true) => change.lost.map_or(Ok(()), Err),
            (Some(error), false) => Err(error.clone()),
            (None, false) => Err(gone("write")),
        };
        // Where no member has done it, the engine gets the failure and goes on with all of them; only a member being rebuilt is left behind.
        let leaving = if is_done { failed } else { failed & !self.members.in_sync() };
        if let Some(error) = error.filter(|_| leaving != 0 && !change.is_discard) {
            self.roster.leave(leaving, &error, &mut self.members, &mut self.copying);
        }
        let result = match &self.roster.broken {
            Some(broken) => Err(broken.clone()),
            None => result,
        };
        self.answer(Completion { tag: change.tag, result, bufs: None }, change.is_flush);
    }

    fn read_ended(&mut self, read: Read, result: Result<(), IoError>, bufs: Option<Vectored<Buf>>) {
        let (offset_bytes, len_bytes) = (read.offset_bytes, read.len_bytes);
        if let Err(error) = result {
            self.view.set_status(|status| status.members[read.member].failed_reads += 1);
            if read.is_alone {
                return self.done.push(Completion { tag: read.tag, result: Err(error), bufs });
            }
            return self.read_of_another(read, error, bufs);
        }
        // With a later attempt the reader itself writes what it finds good to all members.
        let mends = if self.view.is_begun() && read.attempt == 0 { read.failed & self.members.in_sync() } else { 0 };
        numbers_in(mends).for_each(|number| self.copying.mend((number, read.member), offset_bytes, len_bytes));
        self.done.push(Completion { tag: read.tag, result, bufs });
    }

    /// Reads from a member that was not tried yet; where there is none the read fails.
    fn read_of_another(&mut self, read: Read, error: IoError, bufs: Option<Vectored<Buf>>) {
        let failed = read.failed | 1 << read.member;
        match (self.members.reader(read.offset_bytes, read.attempt, failed, self.view.is_settled()), bufs) {
            (Some(member), Some(bufs)) => self.begin_read(Read { failed, member, ..read }, bufs),
            // A member that has broken down gives no buffers back: the reader asks again.
            (_, bufs) => self.done.push(Completion { tag: read.tag, result: Err(error), bufs }),
        }
    }

    fn copied(&mut self, event: Event) {
        match event {
            Event::None => {}
            Event::Mended => self.view.set_status(|status| status.mended_blocks += 1),
            Event::Unreadable => self.view.set_status(|status| status.unreadable_blocks += 1),
            // The only member stays. What was to be mended there is found again.
            Event::Failed(number, _) if self.members.in_sync() == 1 << number => {}
            Event::Failed(number, error) => {
                self.roster.leave(1 << number, &error, &mut self.members, &mut self.copying);
            }
            Event::Noted(bytes) => self.roster.note(bytes),
            Event::Complete(rebuilt) => self.roster.rebuilt(rebuilt, &mut self.members, &mut self.copying),
        }
    }

    /// Goes on with copying.
    fn copy(&mut self) -> bool {
        if self.roster.broken.is_some() || self.roster.is_active() || !self.view.is_begun() {
            return false;
        }
        let (now_ns, bytes_per_s, is_idle) = (self.view.now_ns(), self.view.rebuild_bytes_per_s(), self.view.is_idle());
        let is_quiet = |offset_bytes, len_bytes| !self.changing.overlap(offset_bytes, len_bytes);
        let Some(ask) = self.copying.next((now_ns, is_idle), bytes_per_s, self.geometry.size_bytes, is_quiet) else {
            return false;
        };
        let read = |len_bytes: u64| Op::read(Vectored::One(Buf::new(len_bytes as usize)));
        let copy = Flight::Copy { asked: self.copying.asked() };
        match ask {
            Ask::Probe { member, offset_bytes, len_bytes } => {
                self.members.send(member, copy, offset_bytes, read(len_bytes));
            }
            Ask::Read { first, tried, offset_bytes, len_bytes } => {
                let first = first.filter(|number| self.members.in_sync() & 1 << number != 0);
                let source = first.or_else(|| self.members.reader(offset_bytes, 0, tried, false));
                // Where no other member is left, one that has failed is asked once more, and fails again.
                let member = source.or_else(|| numbers_in(self.members.in_sync()).next()).unwrap_or(0);
                self.copying.reads(member);
                self.members.send(member, copy, offset_bytes, read(len_bytes));
            }
            Ask::Write { member, offset_bytes, bytes } => {
                let bufs: Vectored<SharedBuf> = Vectored::One(bytes.freeze());
                self.members.send(member, copy, offset_bytes, Op::Write { bufs, fua: false });
            }
            Ask::Flush { member } => {
                self.members.send(member, Flight::CopyFlush, 0, Op::Flush);
            }
        }
        true
    }
}

impl Device for Mirror {
    fn name(&self) -> &str {
        &self.name
    }

    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, request: Request) {
        self.outstanding += 1;
        let tag = request.tag;
        if let Op::Read { attempt, .. } = request.op {
            let (is_alone, attempt) = (attempt & Op::ALONE != 0, attempt & !Op::ALONE);
            let (offset_bytes, len_bytes) = (request.offset_bytes, request.op.len_bytes());
            let member = self.members.reader(offset_bytes, attempt, 0, self.view.is_settled());
            if attempt > 0 {
                self.copying.doubt(offset_bytes, len_bytes);
            }
            let Op::Read { bufs, .. } = request.op else { return };
            match member {
                Some(member) => {
                    let lens = lens_of(&bufs);
                    let read = Read { tag, offset_bytes, len_bytes, lens, attempt, is_alone, member, failed: 0 };
                    self.begin_read(read, bufs);
                }
                None => self.done.push(Completion { tag, result: Err(gone("read")), bufs: Some(bufs) }),
            }
        } else if let Some(error) = &self.roster.broken {
            self.done.push(Completion { tag, result: Err(error.clone()), bufs: None });
        } else if !self.view.is_begun() {
            // The mirror was joined for reading only, or it is not known yet that it is this pool's.
            let error = IoError { kind: IoErrorKind::Unsupported, ..gone(request.op.name()) };
            self.done.push(Completion { tag, result: Err(error), bufs: None });
        } else {
            self.begin_change(request);
        }
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        self.roster.leave_doubted(&mut self.members, &mut self.copying);
        loop {
            self.roster.step(&mut self.members);
            self.roster.give_up_unconfirmed(&mut self.copying);
            self.answer_held();
            self.roster.take_offer(&mut self.members, &mut self.copying);
            self.members.poll(&mut self.scratch, &mut self.ended);
            let mut ended = std::mem::take(&mut self.ended);
            let has_ended = !ended.is_empty();
            for (number, completion) in ended.drain(..) {
                self.member_ended(number, completion);
            }
            self.ended = ended;
            while let Some(tag) = self.members.orphans.pop() {
                self.change_ended(tag);
            }
            while let Some((read, error)) = self.members.handed_back.pop() {
                let bufs = read.bufs();
                self.read_of_another(read, error, Some(bufs));
            }
            self.begin_held();
            let copies = self.copy();
            if !has_ended && !copies {
                break;
            }
        }
        self.outstanding -= self.done.len();
        done.append(&mut self.done);
    }

    fn wait(&mut self, timeout_ns: u64) {
        if let Some(device) = self.members.devices().find(|device| device.in_flight() > 0) {
            device.wait(timeout_ns);
        }
    }

    fn wake_fds(&self, out: &mut Vec<i32>) {
        self.members.list.iter().filter_map(|member| member.device.as_ref()).for_each(|device| device.wake_fds(out));
    }

    fn completes_unseen(&self) -> bool {
        self.members.list.iter().filter_map(|member| member.device.as_ref()).any(|device| device.completes_unseen())
    }

    fn queue_limit(&self) -> usize {
        let limits = self.members.list.iter().filter_map(|member| member.device.as_ref().map(|d| d.queue_limit()));
        limits.min().unwrap_or(1)
    }

    fn in_flight(&self) -> usize {
        self.outstanding
    }

    fn next_event_ns(&self) -> u64 {
        let devices = self.members.list.iter().filter_map(|member| member.device.as_ref());
        devices.map(|device| device.next_event_ns()).min().unwrap_or(u64::MAX)
    }

    fn advance(&mut self, to_ns: u64) -> Option<u64> {
        advance(&mut self.members.list, |member| member.device.as_mut(), to_ns)
    }
}
