//! The write buffer: units that the host wrote and the flash does not hold yet.

use super::shape::NONE;

/// Whether a slot still waits for a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    Waiting,
    /// Handed to a program.
    Leaving,
}

#[derive(Clone, Copy)]
struct Slot {
    logical: u32,
    next: u32,
    previous: u32,
    /// Flushes that had come before it was filled.
    epoch: u32,
    stream: u8,
    state: State,
}

/// Slots of one unit each, in a waiting list for each stream.
pub(super) struct WriteBuffer {
    slots: Vec<Slot>,
    free: u32,
    free_count: u32,
    head: Vec<u32>,
    tail: Vec<u32>,
    waiting: Vec<u32>,
}

impl WriteBuffer {
    pub(super) fn new(units: u32, streams: u32) -> Self {
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
        }
    }

    /// Units that are buffered.
    pub(super) fn used(&self) -> u32 {
        self.slots.len() as u32 - self.free_count
    }

    /// Units of a stream that wait for a row.
    pub(super) fn waiting(&self, stream: u32) -> u32 {
        self.waiting[stream as usize]
    }

    /// Whether the unit in a slot can still be overwritten in place.
    pub(super) fn is_waiting(&self, slot: u32) -> bool {
        self.slots[slot as usize].state == State::Waiting
    }

    /// Fills a slot; none where the buffer is full.
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

    /// Takes up to `units` off a stream's list, the oldest first; they stay chained. The head of the chain.
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
        head
    }

    /// Takes a waiting slot out of its list and frees it: the host has deallocated the unit. Its epoch.
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

    /// Frees a slot: the next of its chain and its epoch.
    pub(super) fn release(&mut self, slot: u32) -> (u32, u32) {
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
        let mut buffer = WriteBuffer::new(4, 2);
        let a = buffer.fill(10, 0, 0).unwrap();
        let b = buffer.fill(11, 1, 0).unwrap();
        let c = buffer.fill(12, 0, 7).unwrap();
        let d = buffer.fill(13, 0, 0).unwrap();
        assert_eq!(buffer.fill(14, 0, 0), None);
        assert_eq!(buffer.drop_waiting(c), 7);
        assert_eq!((buffer.waiting(0), buffer.waiting(1), buffer.used()), (2, 1, 3));
        let chain = buffer.take(0, 5);
        assert_eq!(chain, a);
        assert!(!buffer.is_waiting(a) && buffer.is_waiting(b));
        assert_eq!(buffer.release(a), (d, 0));
        assert_eq!(buffer.release(d), (NONE, 0));
        assert_eq!(buffer.take(0, 1), NONE);
        assert_eq!((buffer.used(), buffer.logical(b)), (1, 11));
        for unit in 0..3 {
            assert!(buffer.fill(unit, 0, 0).is_some());
        }
        assert_eq!(buffer.fill(9, 0, 0), None);
    }
}
