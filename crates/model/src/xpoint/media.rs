//! Sets of dies and the buses to them.

use super::config::Config;
use super::event::{Direction, Events, What};
use forebay_block::Random;
use std::collections::VecDeque;

/// Dies that work together on one block.
#[derive(Debug)]
struct Set {
    /// Blocks that wait for the set, in arrival order.
    waiting: VecDeque<(u32, Direction)>,
    /// Whether the cells are busy: reading, writing, recovering or refreshing.
    busy: bool,
    /// When the cells last became free.
    free_since_ns: u64,
    /// Registers in use.
    registers: u32,
    /// Blocks in registers whose write has not begun; at most as many as there are registers.
    to_write: VecDeque<u32>,
    /// Blocks written since the last move of wear levelling.
    written: u64,
    /// When the next refresh is due.
    refresh_ns: u64,
}

/// The channels of a stripe, which move one block at a time.
#[derive(Debug)]
struct Bus {
    waiting: VecDeque<(u32, u32, Direction)>,
    busy: bool,
    reads: bool,
}

/// All sets and buses. The queues are bounded by the blocks that the host keeps in flight.
#[derive(Debug)]
pub(super) struct Media {
    config: Config,
    sets: Vec<Set>,
    buses: Vec<Bus>,
    /// Bytes that wear levelling has written since the drive was made.
    moved_bytes: u64,
}

impl Media {
    pub(super) fn new(config: &Config, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let sets = (0..config.sets())
            .map(|_| Set {
                waiting: VecDeque::with_capacity(64),
                busy: false,
                free_since_ns: 0,
                registers: 0,
                to_write: VecDeque::with_capacity(8),
                written: if config.levelling.every_writes == 0 {
                    0
                } else {
                    random.below(config.levelling.every_writes)
                },
                // The seed spreads the refreshes over the period, so that the sets are not refreshed at the same time.
                refresh_ns: if config.refresh.period_ns == 0 {
                    u64::MAX
                } else {
                    random.below(config.refresh.period_ns)
                },
            })
            .collect();
        let buses = (0..config.channels / config.stripe_channels)
            .map(|_| Bus { waiting: VecDeque::with_capacity(64), busy: false, reads: true })
            .collect();
        Self { config: config.clone(), sets, buses, moved_bytes: 0 }
    }

    /// Bytes that wear levelling has written since the drive was made.
    pub(super) fn moved_bytes(&self) -> u64 {
        self.moved_bytes
    }

    /// Queues a block at its set. Consecutive blocks go to different sets, so that neighbours are processed in parallel.
    pub(super) fn queue(&mut self, now_ns: u64, block: u64, slot: u32, direction: Direction, events: &mut Events) {
        let set = (block % self.sets.len() as u64) as usize;
        self.sets[set].waiting.push_back((slot, direction));
        self.start(now_ns, set as u32, events);
    }

    /// Starts the next operation of a set: writes in its registers first, then waiting blocks in order.
    fn start(&mut self, now_ns: u64, at: u32, events: &mut Events) {
        if let Some(&slot) = self.sets[at as usize].to_write.front()
            && !self.is_held(now_ns, at, events)
        {
            let levelling = &self.config.levelling;
            let set = &mut self.sets[at as usize];
            set.to_write.pop_front();
            set.busy = true;
            set.written += 1;
            let written_ns = now_ns + self.config.die_write_ns;
            let mut free_ns = written_ns + self.config.die_write_recovery_ns;
            if set.written == levelling.every_writes {
                set.written = 0;
                free_ns += levelling.length_ns;
                self.moved_bytes += levelling.moved_bytes;
            }
            events.push(written_ns, What::Written { slot, set: at });
            events.push(free_ns, What::SetFree { set: at });
        }
        while let Some(&(slot, direction)) = self.sets[at as usize].waiting.front() {
            if self.sets[at as usize].registers >= self.config.registers {
                return;
            }
            if direction.is_read() {
                if self.is_held(now_ns, at, events) {
                    return;
                }
                let sensed_ns = now_ns + self.config.die_read_ns;
                self.sets[at as usize].busy = true;
                events.push(sensed_ns, What::Sensed { slot, set: at, direction });
                events.push(sensed_ns + self.config.die_read_recovery_ns, What::SetFree { set: at });
            } else {
                self.join_bus(now_ns, slot, at, direction, events);
            }
            let set = &mut self.sets[at as usize];
            set.registers += 1;
            set.waiting.pop_front();
        }
    }

    /// Whether the cells of a set are busy now. A due refresh begins here, because nothing can observe it earlier.
    fn is_held(&mut self, now_ns: u64, at: u32, events: &mut Events) -> bool {
        let refresh = &self.config.refresh;
        let set = &mut self.sets[at as usize];
        if set.busy {
            return true;
        }
        if set.refresh_ns > now_ns {
            return false;
        }
        // Of the refreshes that fell into idle time, only the last can still be running.
        let fast_until_ns = if refresh.after_long_power_off { refresh.fast_for_ns } else { 0 };
        let period_at =
            |due_ns| if due_ns < fast_until_ns { refresh.period_ns / refresh.fast_factor } else { refresh.period_ns };
        let mut due_ns = set.refresh_ns;
        let until_ns = if due_ns < fast_until_ns { now_ns.min(fast_until_ns) } else { now_ns };
        due_ns += (until_ns - due_ns) / period_at(due_ns) * period_at(due_ns);
        if due_ns + period_at(due_ns) <= now_ns {
            due_ns += period_at(due_ns);
            due_ns += (now_ns - due_ns) / refresh.period_ns * refresh.period_ns;
        }
        set.refresh_ns = due_ns + period_at(due_ns);
        let end_ns = due_ns.max(set.free_since_ns) + refresh.length_ns;
        if end_ns <= now_ns {
            return false;
        }
        set.busy = true;
        events.push(end_ns, What::SetFree { set: at });
        true
    }

    /// A block is in the registers of its set and needs the bus.
    pub(super) fn sensed(&mut self, now_ns: u64, slot: u32, set: u32, direction: Direction, events: &mut Events) {
        self.join_bus(now_ns, slot, set, direction, events);
    }

    /// The cells of a set are free again.
    pub(super) fn set_free(&mut self, now_ns: u64, at: u32, events: &mut Events) {
        let set = &mut self.sets[at as usize];
        set.busy = false;
        set.free_since_ns = now_ns;
        self.start(now_ns, at, events);
    }

    /// A block is in the cells of its set, which frees a register.
    pub(super) fn written(&mut self, now_ns: u64, at: u32, events: &mut Events) {
        self.sets[at as usize].registers -= 1;
        self.start(now_ns, at, events);
    }

    /// A block's data has crossed the bus, which takes the next block.
    pub(super) fn moved(&mut self, now_ns: u64, slot: u32, at: u32, direction: Direction, events: &mut Events) {
        let bus = self.bus_of(at);
        self.buses[bus].busy = false;
        let set = &mut self.sets[at as usize];
        match direction {
            Direction::Write => set.to_write.push_back(slot),
            Direction::Read => set.registers -= 1,
            Direction::ReadToModify => {
                set.registers -= 1;
                set.waiting.push_front((slot, Direction::Write));
            }
        }
        self.start(now_ns, at, events);
        self.start_bus(now_ns, bus, events);
    }

    fn bus_of(&self, set: u32) -> usize {
        set as usize % self.buses.len()
    }

    fn join_bus(&mut self, now_ns: u64, slot: u32, set: u32, direction: Direction, events: &mut Events) {
        let bus = self.bus_of(set);
        self.buses[bus].waiting.push_back((slot, set, direction));
        self.start_bus(now_ns, bus, events);
    }

    fn start_bus(&mut self, now_ns: u64, at: usize, events: &mut Events) {
        let bus = &mut self.buses[at];
        if bus.busy {
            return;
        }
        let Some((slot, set, direction)) = bus.waiting.pop_front() else { return };
        let turn_ns = if bus.reads == direction.is_read() { 0 } else { self.config.turnaround_ns };
        let move_ns = if direction.is_read() { self.config.channel_read_ns } else { self.config.channel_write_ns };
        bus.busy = true;
        bus.reads = direction.is_read();
        events.push(now_ns + turn_ns + move_ns, What::Moved { slot, set, direction });
    }
}
