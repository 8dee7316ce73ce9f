//! Copying from one member of a mirror to another: all of it, to one that replaces another, and what a member could not read.
//! One piece at a time; writes that overlap it wait until it is done.

use crate::layout::member_label::{LABEL_BYTES, OFFSETS_BYTES};
use forebay_block::{Buf, IoError};
use std::collections::VecDeque;

/// What is copied at once in a rebuild, in bytes.
const CHUNK_BYTES: u64 = 256 << 10;
/// Smallest unit: where more cannot be read, each of these is read by itself.
const UNIT_BYTES: u64 = 4096;
/// How much is copied before it is made durable and noted, at least, in bytes; a crash loses no more of the work.
const NOTE_BYTES: u64 = 64 << 20;
/// Ranges to be mended that are remembered; what is forgotten is found again when it is read again.
const MENDS_MAX: usize = 64;

/// What is asked of a member.
pub(super) enum Ask {
    /// Whether this can be read there.
    Probe { member: usize, offset_bytes: u64, len_bytes: u64 },
    /// What is copied, of any member but those whose bits are set.
    Read { tried: u8, offset_bytes: u64, len_bytes: u64 },
    /// Its destination.
    Write { member: usize, offset_bytes: u64, bytes: Buf },
    /// What was copied is to be durable.
    Flush { member: usize },
}

/// What an answer has led to.
pub(super) enum Event {
    /// Nothing that others need to know.
    None,
    /// A member does not take what is copied to it.
    Failed(usize, IoError),
    /// So much of a member is durable.
    Noted(u64),
    /// A member holds everything.
    Complete(usize),
    /// A block of a member that could not be read was written again.
    Mended,
    /// A block can be read of no member.
    Unreadable,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Rebuild,
    Mend,
}

/// What was asked of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Probe,
    Read,
    Write,
}

enum Step {
    /// For writes that overlap.
    Waits,
    Probe,
    Read,
    Write(Buf),
    InFlight,
}

struct Active {
    to: usize,
    offset_bytes: u64,
    len_bytes: u64,
    kind: Kind,
    step: Step,
    /// What is in flight, or was last.
    asked: Asked,
    /// The member that is read.
    from: Option<usize>,
    tried: u8,
}

struct Rebuild {
    member: usize,
    next_bytes: u64,
    noted_bytes: u64,
    /// Up to here in the smallest units.
    fine_until_bytes: u64,
    /// A flush is in flight, up to here.
    flushes: Option<u64>,
}

/// What a member could not read.
struct ToMend {
    member: usize,
    offset_bytes: u64,
    len_bytes: u64,
}

/// What is copied.
#[derive(Default)]
pub(super) struct Copying {
    rebuild: Option<Rebuild>,
    mends: VecDeque<ToMend>,
    active: Option<Active>,
    /// How often a member was asked for something to copy.
    asked: u64,
    not_before_ns: u64,
}

impl Copying {
    /// Copies everything from an offset on to a member.
    pub fn rebuild(&mut self, member: usize, from_bytes: u64) {
        let from_bytes = from_bytes / UNIT_BYTES * UNIT_BYTES;
        self.rebuild = Some(Rebuild {
            member,
            next_bytes: from_bytes,
            noted_bytes: from_bytes,
            fine_until_bytes: 0,
            flushes: None,
        });
    }

    /// Writes again what a member could not read.
    pub fn mend(&mut self, member: usize, offset_bytes: u64, len_bytes: u64) {
        let begin = offset_bytes / UNIT_BYTES * UNIT_BYTES;
        let len_bytes = (offset_bytes + len_bytes).next_multiple_of(UNIT_BYTES) - begin;
        let is_it = |known: &ToMend| (known.member, known.offset_bytes, known.len_bytes) == (member, begin, len_bytes);
        if !self.mends.iter().any(is_it) && self.mends.len() < MENDS_MAX {
            self.mends.push_back(ToMend { member, offset_bytes: begin, len_bytes });
        }
    }

    /// What was read in the place of what is to be mended there was not what it should be: nothing of it is written that is not sent yet. Whoever reads it again
    /// knows what is to be written.
    pub fn doubt(&mut self, offset_bytes: u64, len_bytes: u64) {
        let begin = offset_bytes / UNIT_BYTES * UNIT_BYTES;
        let end = (offset_bytes + len_bytes).next_multiple_of(UNIT_BYTES);
        for ToMend { member, offset_bytes, len_bytes } in std::mem::take(&mut self.mends) {
            let to_mend = offset_bytes..offset_bytes + len_bytes;
            // What lies before and behind it is still to be mended.
            let parts = [to_mend.start..to_mend.end.min(begin), to_mend.start.max(end)..to_mend.end];
            self.mends.extend(parts.into_iter().filter(|part| !part.is_empty()).map(|part| ToMend {
                member,
                offset_bytes: part.start,
                len_bytes: part.end - part.start,
            }));
        }
        let called_off = self.active.take_if(|active| {
            let is_there = active.offset_bytes < end && begin < active.offset_bytes + active.len_bytes;
            let is_sent = active.asked == Asked::Write && matches!(active.step, Step::InFlight);
            active.kind == Kind::Mend && is_there && !is_sent
        });
        // What is on its way is the answer to nothing.
        self.asked += u64::from(called_off.is_some());
    }

    /// Nothing more is copied.
    pub fn stop(&mut self) {
        *self = Self { asked: self.asked, ..Self::default() };
    }

    /// Nothing more is copied to a member, nor read of it. What is in flight there may never be answered: nobody waits for it.
    pub fn give_up(&mut self, member: usize) {
        self.mends.retain(|to_mend| to_mend.member != member);
        self.rebuild.take_if(|rebuild| rebuild.member == member);
        self.active.take_if(|active| active.to == member);
        if let Some(active) = self.active.as_mut().filter(|active| active.from == Some(member)) {
            self.asked += 1;
            (active.step, active.from) = (Step::Read, None);
            active.tried |= 1 << member;
        }
    }

    /// The number of what was asked last.
    pub fn asked(&self) -> u64 {
        self.asked
    }

    /// It was asked of this member, to be copied to another.
    pub fn reads(&mut self, member: usize) {
        if let Some(active) = &mut self.active {
            active.from = Some(member);
        }
    }

    /// Whether this is being copied.
    pub fn overlaps(&self, offset_bytes: u64, len_bytes: u64) -> bool {
        self.active.as_ref().is_some_and(|active| {
            active.offset_bytes < offset_bytes + len_bytes && offset_bytes < active.offset_bytes + active.len_bytes
        })
    }

    /// What is to be done next, where it is time. `is_quiet`: no write to a range is in flight.
    pub fn next(
        &mut self,
        now_ns: u64,
        bytes_per_s: u64,
        size_bytes: u64,
        is_quiet: impl Fn(u64, u64) -> bool,
    ) -> Option<Ask> {
        if self.active.is_none() {
            self.active = self.begin(now_ns, bytes_per_s, size_bytes);
        }
        let Some(active) = &mut self.active else { return self.next_flush(size_bytes) };
        let (offset_bytes, len_bytes) = (active.offset_bytes, active.len_bytes);
        if matches!(active.step, Step::Waits) {
            if !is_quiet(offset_bytes, len_bytes) {
                return None;
            }
            active.step = if active.kind == Kind::Mend { Step::Probe } else { Step::Read };
        }
        let member = active.to;
        if matches!(active.step, Step::InFlight) {
            return None;
        }
        let (asked, ask) = match std::mem::replace(&mut active.step, Step::InFlight) {
            Step::Probe => (Asked::Probe, Ask::Probe { member, offset_bytes, len_bytes }),
            Step::Read => (Asked::Read, Ask::Read { tried: active.tried, offset_bytes, len_bytes }),
            Step::Write(bytes) => (Asked::Write, Ask::Write { member, offset_bytes, bytes }),
            Step::Waits | Step::InFlight => return None,
        };
        (active.asked, active.from) = (asked, None);
        self.asked += 1;
        Some(ask)
    }

    fn begin(&mut self, now_ns: u64, bytes_per_s: u64, size_bytes: u64) -> Option<Active> {
        let active = |to, offset_bytes, len_bytes, kind| Active {
            to,
            offset_bytes,
            len_bytes,
            kind,
            step: Step::Waits,
            asked: Asked::Probe,
            from: None,
            tried: 1 << to,
        };
        while let Some(ToMend { member, offset_bytes, len_bytes }) = self.mends.pop_front() {
            if len_bytes > UNIT_BYTES {
                let (offset_bytes, len_bytes) = (offset_bytes + UNIT_BYTES, len_bytes - UNIT_BYTES);
                self.mends.push_front(ToMend { member, offset_bytes, len_bytes });
            }
            if offset_bytes + UNIT_BYTES <= size_bytes {
                return Some(active(member, offset_bytes, UNIT_BYTES, Kind::Mend));
            }
        }
        let rebuild = self.rebuild.as_mut()?;
        let is_due = rebuild.next_bytes - rebuild.noted_bytes < NOTE_BYTES && rebuild.next_bytes < size_bytes;
        if rebuild.flushes.is_some() || !is_due || now_ns < self.not_before_ns {
            return None;
        }
        // Each member has a label of its own.
        let [label_bytes, other_bytes] = OFFSETS_BYTES;
        let labels = label_bytes..other_bytes + LABEL_BYTES as u64;
        if labels.contains(&rebuild.next_bytes) {
            rebuild.next_bytes = labels.end.min(size_bytes);
        }
        let end_bytes = if rebuild.next_bytes < labels.start { labels.start.min(size_bytes) } else { size_bytes };
        let chunk = if rebuild.next_bytes < rebuild.fine_until_bytes { UNIT_BYTES } else { CHUNK_BYTES };
        let len_bytes = chunk.min(end_bytes - rebuild.next_bytes);
        // Clocks tick some twenty times a second: what one tick has not used the next makes up for.
        let since_ns = self.not_before_ns.max(now_ns.saturating_sub(50_000_000));
        self.not_before_ns = since_ns + len_bytes * 1_000_000_000 / bytes_per_s.max(1);
        Some(active(rebuild.member, rebuild.next_bytes, len_bytes, Kind::Rebuild))
    }

    fn next_flush(&mut self, size_bytes: u64) -> Option<Ask> {
        let rebuild = self.rebuild.as_mut().filter(|rebuild| rebuild.flushes.is_none())?;
        let at_end = rebuild.next_bytes >= size_bytes;
        if !at_end && rebuild.next_bytes - rebuild.noted_bytes < NOTE_BYTES {
            return None;
        }
        rebuild.flushes = Some(rebuild.next_bytes);
        Some(Ask::Flush { member: rebuild.member })
    }

    /// What was asked was answered. `others`: whether a member is left to be read, but for those whose bits are set.
    pub fn ended(
        &mut self,
        (member, asked): (usize, u64),
        result: Result<(), IoError>,
        bytes: Option<Buf>,
        others: impl Fn(u8) -> bool,
    ) -> Event {
        let Some(active) = self.active.as_mut().filter(|_| asked == self.asked) else { return Event::None };
        let (kind, to) = (active.kind, active.to);
        active.from = None;
        match (active.asked, result, bytes) {
            // It can be read after all.
            (Asked::Probe, Ok(()), Some(_)) => self.end(kind, Event::None),
            (Asked::Read, Ok(()), Some(bytes)) => {
                active.step = Step::Write(bytes);
                Event::None
            }
            (Asked::Write, Ok(()), _) => self.end(kind, if kind == Kind::Mend { Event::Mended } else { Event::None }),
            (Asked::Write, Err(error), _) => {
                self.active = None;
                Event::Failed(to, error)
            }
            (asked, _, _) => {
                if asked == Asked::Read {
                    active.tried |= 1 << member;
                }
                if others(active.tried) {
                    active.step = Step::Read;
                    return Event::None;
                }
                let end_bytes = active.offset_bytes + active.len_bytes;
                if active.len_bytes <= UNIT_BYTES {
                    // Whatever reads it finds that its checksum does not match.
                    return self.end(kind, Event::Unreadable);
                }
                self.active = None;
                if let Some(rebuild) = &mut self.rebuild {
                    rebuild.fine_until_bytes = end_bytes;
                }
                Event::None
            }
        }
    }

    fn end(&mut self, kind: Kind, event: Event) -> Event {
        if let Some(active) = self.active.take()
            && let Some(rebuild) = self.rebuild.as_mut().filter(|_| kind == Kind::Rebuild)
        {
            rebuild.next_bytes = active.offset_bytes + active.len_bytes;
        }
        event
    }

    /// The flush that was asked for was answered.
    pub fn flushed(&mut self, member: usize, result: Result<(), IoError>, size_bytes: u64) -> Event {
        let Some(rebuild) = self.rebuild.as_mut().filter(|rebuild| rebuild.member == member) else {
            return Event::None;
        };
        let Some(to_bytes) = rebuild.flushes.take() else { return Event::None };
        if let Err(error) = result {
            return Event::Failed(member, error);
        }
        rebuild.noted_bytes = to_bytes;
        if to_bytes < size_bytes {
            return Event::Noted(to_bytes);
        }
        self.rebuild = None;
        Event::Complete(member)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(copying: &mut Copying) -> Option<Ask> {
        copying.next(0, 1 << 30, 1 << 30, |_, _| true)
    }

    /// What another member had in the place of what one could not read was wrong, and went over what was good there: whoever read it could not say so.
    #[test]
    fn regression_what_is_read_again_is_not_mended_by_what_was_read_before() {
        let mut copying = Copying::default();
        copying.mend(0, 8 * UNIT_BYTES, 8 * UNIT_BYTES);
        copying.doubt(10 * UNIT_BYTES + 512, 2 * UNIT_BYTES);
        let mut probed = Vec::new();
        while let Some(Ask::Probe { offset_bytes, .. }) = next(&mut copying) {
            probed.push(offset_bytes / UNIT_BYTES);
            let asked = copying.asked();
            copying.ended((0, asked), Ok(()), Some(Buf::zeroed(4096)), |_| true);
        }
        assert_eq!(probed, [8, 9, 13, 14, 15]);
        let failed =
            || IoError { kind: forebay_block::IoErrorKind::Medium, operation: "read", offset_bytes: 0, os_error: 5 };
        // On its way, as long as it is not sent.
        for steps in 0..3 {
            copying.mend(0, 0, UNIT_BYTES);
            assert!(matches!(next(&mut copying), Some(Ask::Probe { .. })));
            if steps > 0 {
                copying.ended((0, copying.asked()), Err(failed()), None, |_| true);
                assert!(matches!(next(&mut copying), Some(Ask::Read { .. })));
            }
            let asked = copying.asked();
            if steps > 1 {
                copying.ended((1, asked), Ok(()), Some(Buf::zeroed(4096)), |_| true);
            }
            copying.doubt(0, 512);
            copying.mend(0, UNIT_BYTES, UNIT_BYTES);
            assert!(copying.next(0, 1 << 30, 1 << 30, |_, _| false).is_none(), "it waits for a write");
            copying.ended((1, asked), Ok(()), Some(Buf::zeroed(4096)), |_| true);
            assert!(matches!(next(&mut copying), Some(Ask::Probe { offset_bytes: UNIT_BYTES, .. })), "{steps}");
            let asked = copying.asked();
            copying.ended((0, asked), Ok(()), Some(Buf::zeroed(4096)), |_| true);
            assert!(next(&mut copying).is_none(), "{steps}");
        }
    }
}
