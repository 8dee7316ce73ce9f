//! Future events: a heap of 16-byte entries.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// An event and its argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A command reaches the drive.
    Arrive(u32),
    /// An engine has processed a command, and the command's data from the host has arrived.
    Started(u32),
    /// Interrupt of a command.
    Complete(u32),
    /// The array of a die has finished; stale where the die's generation differs.
    ArrayEnd { die: u16, generation: u16 },
    /// The data of a read operation has left the die.
    BusEnd(u32),
    /// A part of a page has been loaded into a die.
    Burst(u16),
    /// The page register of a die is free.
    DieFree(u16),
    /// The operation of a die has run long enough to be suspended; stale where the die has noted another time.
    Interrupt(u16),
    /// The idle time passed without a command; stale where the generation differs.
    Idle(u32),
}

const ARGUMENT: u32 = (1 << 28) - 1;

impl Event {
    fn pack(self) -> u32 {
        match self {
            Self::Arrive(c) => c & ARGUMENT,
            Self::Started(c) => 1 << 28 | c & ARGUMENT,
            Self::Complete(c) => 2 << 28 | c & ARGUMENT,
            // 12 bits of die (4,096 dies at most by the ranges of the geometry), 16 of generation.
            Self::ArrayEnd { die, generation } => 3 << 28 | u32::from(die) << 16 | u32::from(generation),
            Self::BusEnd(op) => 4 << 28 | op & ARGUMENT,
            Self::Burst(die) => 5 << 28 | u32::from(die),
            Self::DieFree(die) => 6 << 28 | u32::from(die),
            Self::Interrupt(die) => 8 << 28 | u32::from(die),
            Self::Idle(generation) => 7 << 28 | generation & ARGUMENT,
        }
    }

    fn unpack(packed: u32) -> Self {
        let argument = packed & ARGUMENT;
        match packed >> 28 {
            0 => Self::Arrive(argument),
            1 => Self::Started(argument),
            2 => Self::Complete(argument),
            3 => Self::ArrayEnd { die: (argument >> 16) as u16, generation: argument as u16 },
            4 => Self::BusEnd(argument),
            5 => Self::Burst(argument as u16),
            6 => Self::DieFree(argument as u16),
            8 => Self::Interrupt(argument as u16),
            _ => Self::Idle(argument),
        }
    }
}

/// The heap. Events of the same time run in the order in which they were pushed.
#[derive(Default)]
pub(super) struct Events {
    heap: BinaryHeap<Reverse<u128>>,
    order: u32,
}

impl Events {
    pub(super) fn push(&mut self, at_ns: u64, event: Event) {
        self.order = self.order.wrapping_add(1);
        let key = u128::from(at_ns) << 64 | u128::from(self.order) << 32 | u128::from(event.pack());
        self.heap.push(Reverse(key));
    }

    pub(super) fn next_ns(&self) -> u64 {
        self.heap.peek().map_or(u64::MAX, |Reverse(key)| (key >> 64) as u64)
    }

    /// All future events, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, Event)> {
        self.heap.iter().map(|Reverse(key)| ((key >> 64) as u64, Event::unpack(*key as u32)))
    }

    pub(super) fn pop_until(&mut self, to_ns: u64) -> Option<(u64, Event)> {
        if self.next_ns() > to_ns {
            return None;
        }
        self.heap.pop().map(|Reverse(key)| ((key >> 64) as u64, Event::unpack(key as u32)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_the_order_of_time_and_then_of_pushing() {
        let mut events = Events::default();
        events.push(5, Event::ArrayEnd { die: 4095, generation: u16::MAX });
        events.push(3, Event::Burst(7));
        events.push(5, Event::Arrive(1));
        events.push(u64::MAX - 1, Event::Idle(9));
        events.push(7, Event::Interrupt(4095));
        assert_eq!(events.pop_until(2), None);
        assert_eq!(events.pop_until(9), Some((3, Event::Burst(7))));
        assert_eq!(events.pop_until(9), Some((5, Event::ArrayEnd { die: 4095, generation: u16::MAX })));
        assert_eq!(events.pop_until(9), Some((5, Event::Arrive(1))));
        assert_eq!(events.pop_until(9), Some((7, Event::Interrupt(4095))));
        assert_eq!(events.pop_until(9), None);
        assert_eq!(events.next_ns(), u64::MAX - 1);
    }
}
