//! The write buffer: units that the host wrote and the flash does not hold yet.

use super::shape::NONE;

/// Whether a slot still waits for a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    Waiting,
    /// Part of a program in flight, or on the media and kept until its stripe is complete.
    Leaving,
}

/// Rows that become durable together. Their slots are kept until the last row is programmed, because a failed program is repaired from the
/// other rows.
#[derive(Clone, Copy, Default)]
struct Stripe {
    /// Rows that went to programs, and how many of these programs are in flight.
    given: u32,
    flying: u32,
    /// Chain of the slots whose rows are on the media.
    kept: u32,
}

#[derive(Clone, Copy)]
struct Slot {
    logical: u32,
    next: u32,
    /// Previous slot of the waiting list; in the head of a row in flight, the stripe.
    previous: u32,
    /// Number of flushes that had arrived before the slot was filled.
    epoch: u32,
    stream: u8,
    state: State,
}

/// Slots of one unit each, with a waiting list for each stream.
pub(super) struct WriteBuffer {
    slots: Vec<Slot>,
    free: u32,
    free_count: u32,
    head: Vec<u32>,
    tail: Vec<u32>,
    waiting: Vec<u32>,
    stripes: Vec<Stripe>,
    free_stripes: Vec<u32>,
    /// The stripe that new rows join, and the number of rows of a complete stripe.
    open: u32,
    stripe_rows: u32,
    /// Slots whose units are on the media and that wait for their stripes.
    kept: u32,
}

impl WriteBuffer {
    pub(super) fn new(units: u32, streams: u32, stripe_rows: u32) -> Self {
        let slots = (0..units)
            .map(|i| Slot {
                logical: NONE,
                next: if i + 1 == units { NONE } else { i + 1 },
                previous: NONE,
                epoch: 0,
                stream: 0,
                state: State::Free,
            })
            .collect();
        let streams = streams as usize;
        Self {
            slots,
            free: 0,
            free_count: units,
            head: vec![NONE; streams],
            tail: vec![NONE; streams],
            waiting: vec![0; streams],
            stripes: Vec::new(),
            free_stripes: Vec::new(),
            open: NONE,
            stripe_rows,
            kept: 0,
        }
    }

    /// Units in the buffer.
    pub(super) fn used(&self) -> u32 {
        self.slots.len() as u32 - self.free_count
    }

    /// Units in the buffer that are not on the media.
    pub(super) fn unwritten(&self) -> u32 {
        self.used() - self.kept
    }

    /// Units of a stream that are waiting for a row.
    pub(super) fn waiting(&self, stream: u32) -> u32 {
        self.waiting[stream as usize]
    }

    /// Whether the unit in a slot can still be overwritten in place.
    pub(super) fn is_waiting(&self, slot: u32) -> bool {
        self.slots[slot as usize].state == State::Waiting
    }

    /// Fills a slot and returns it; none where the buffer is full.
    pub(super) fn fill(&mut self, logical: u32, stream: u32, epoch: u32) -> Option<u32> {
        let at = self.free;
        if at == NONE {
            return None;
        }
        self.free = self.slots[at as usize].next;
        self.free_count -= 1;
        let last = self.tail[stream as usize];
        self.slots[at as usize] =
            Slot { logical, next: NONE, previous: last, epoch, stream: stream as u8, state: State::Waiting };
        if last == NONE {
            self.head[stream as usize] = at;
        } else {
            self.slots[last as usize].next = at;
        }
        self.tail[stream as usize] = at;
        self.waiting[stream as usize] += 1;
        Some(at)
    }

    /// Takes up to `units` slots from a stream's list, oldest first, as a row of the open stripe. The slots stay chained; returns the head
    /// of the chain.
    pub(super) fn take(&mut self, stream: u32, units: u32) -> u32 {
        let head = self.head[stream as usize];
        let mut at = head;
        let mut last = NONE;
        for _ in 0..units {
            if at == NONE {
                break;
            }
            self.slots[at as usize].state = State::Leaving;
            self.waiting[stream as usize] -= 1;
            last = at;
            at = self.slots[at as usize].next;
        }
        if last != NONE {
            self.slots[last as usize].next = NONE;
        }
        self.head[stream as usize] = at;
        if at == NONE {
            self.tail[stream as usize] = NONE;
        } else {
            self.slots[at as usize].previous = NONE;
        }
        if head != NONE {
            self.slots[head as usize].previous = self.join_stripe();
        }
        head
    }

    /// Adds a row to the open stripe and returns that stripe.
    fn join_stripe(&mut self) -> u32 {
        if self.open == NONE {
            self.open = self.free_stripes.pop().unwrap_or_else(|| {
                self.stripes.push(Stripe::default());
                (self.stripes.len() - 1) as u32
            });
            self.stripes[self.open as usize] = Stripe { given: 0, flying: 0, kept: NONE };
        }
        let at = self.open;
        let stripe = &mut self.stripes[at as usize];
        stripe.given += 1;
        stripe.flying += 1;
        if stripe.given == self.stripe_rows {
            self.open = NONE;
        }
        at
    }

    /// The row of `units` slots from `head` to `last` is on the media. Frees all slots of its stripe where the stripe is now complete; true
    /// where slots were freed.
    pub(super) fn programmed(&mut self, head: u32, last: u32, units: u32) -> bool {
        let at = self.slots[head as usize].previous;
        let stripe = &mut self.stripes[at as usize];
        stripe.flying -= 1;
        self.slots[last as usize].next = stripe.kept;
        stripe.kept = head;
        self.kept += units;
        if stripe.flying > 0 || (at == self.open && self.free_count > 0) {
            return false;
        }
        self.close_stripe(at);
        true
    }

    /// Frees the slots that the open stripe keeps, before it is complete: writes that wait for room would else wait for rows that cannot
    /// come without room. False without an open stripe, or while rows of it are in flight.
    pub(super) fn close_early(&mut self) -> bool {
        let at = self.open;
        if at == NONE || self.stripes[at as usize].flying > 0 {
            return false;
        }
        self.close_stripe(at);
        true
    }

    fn close_stripe(&mut self, at: u32) {
        let mut slot = std::mem::replace(&mut self.stripes[at as usize].kept, NONE);
        while slot != NONE {
            slot = self.release(slot).0;
            self.kept -= 1;
        }
        if self.open == at {
            self.open = NONE;
        }
        self.free_stripes.push(at);
    }

    /// The next slot in the chain, and the epoch in which this slot was filled.
    pub(super) fn chained(&self, slot: u32) -> (u32, u32) {
        let Slot { next, epoch, .. } = self.slots[slot as usize];
        (next, epoch)
    }

    /// The host deallocated the unit of a waiting slot: unlinks and frees the slot. Returns its epoch.
    pub(super) fn drop_waiting(&mut self, slot: u32) -> u32 {
        let Slot { next, previous, stream, .. } = self.slots[slot as usize];
        if previous == NONE {
            self.head[stream as usize] = next;
        } else {
            self.slots[previous as usize].next = next;
        }
        if next == NONE {
            self.tail[stream as usize] = previous;
        } else {
            self.slots[next as usize].previous = previous;
        }
        self.waiting[stream as usize] -= 1;
        self.release(slot).1
    }

    /// Frees a slot. Returns the next slot of its chain and its epoch.
    fn release(&mut self, slot: u32) -> (u32, u32) {
        let s = &mut self.slots[slot as usize];
        let (next, epoch) = (s.next, s.epoch);
        s.state = State::Free;
        s.next = self.free;
        self.free = slot;
        self.free_count += 1;
        (next, epoch)
    }

    /// The logical unit in a slot.
    pub(super) fn logical(&self, slot: u32) -> u32 {
        self.slots[slot as usize].logical
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_leave_in_the_order_in_which_they_came_and_are_used_again() {
        let mut buffer = WriteBuffer::new(4, 2, 1);
        let a = buffer.fill(10, 0, 0).unwrap();
        let b = buffer.fill(11, 1, 0).unwrap();
        let c = buffer.fill(12, 0, 7).unwrap();
        let d = buffer.fill(13, 0, 3).unwrap();
        assert_eq!(buffer.fill(14, 0, 0), None);
        assert_eq!(buffer.drop_waiting(c), 7);
        assert_eq!((buffer.waiting(0), buffer.waiting(1), buffer.used()), (2, 1, 3));
        let chain = buffer.take(0, 5);
        assert_eq!(chain, a);
        assert!(!buffer.is_waiting(a) && buffer.is_waiting(b));
        assert_eq!((buffer.chained(a), buffer.chained(d)), ((d, 0), (NONE, 3)));
        assert_eq!(buffer.take(0, 1), NONE);
        assert!(buffer.programmed(a, d, 2), "a stripe of one row");
        assert_eq!((buffer.used(), buffer.logical(b)), (1, 11));
        for unit in 0..3 {
            assert!(buffer.fill(unit, 0, 0).is_some());
        }
        assert_eq!(buffer.fill(9, 0, 0), None);
    }

    #[test]
    fn slots_of_a_stripe_are_freed_together() {
        let mut buffer = WriteBuffer::new(6, 1, 2);
        for unit in 0..5 {
            buffer.fill(unit, 0, 0).unwrap();
        }
        let (first, second, third) = (buffer.take(0, 1), buffer.take(0, 2), buffer.take(0, 2));
        assert!(!buffer.programmed(first, first, 1), "the other row is in flight");
        assert_eq!((buffer.used(), buffer.unwritten()), (5, 4));
        let last = buffer.chained(third).0;
        assert!(!buffer.programmed(third, last, 2), "a stripe of one row that may have another");
        assert_eq!(buffer.used(), 5);
        let last = buffer.chained(second).0;
        assert!(buffer.programmed(second, last, 2));
        assert_eq!(buffer.used(), 2);
        assert!(buffer.close_early());
        assert_eq!(buffer.used(), 0);
        assert!(!buffer.close_early());
        // Where the buffer is full, a stripe without programs in flight is closed early.
        for unit in 0..6 {
            buffer.fill(unit, 0, 0).unwrap();
        }
        let head = buffer.take(0, 1);
        assert!(buffer.programmed(head, head, 1));
        assert_eq!(buffer.used(), 5);
    }
}
