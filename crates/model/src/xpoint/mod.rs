//! XPoint drives: 4 KiB blocks striped over dies that work together, written in place, without garbage collection.
//!
//! A block occupies one die on each channel of its stripe. These dies always work on the same block, so the model treats them as one *set*,
//! and the channels of a stripe as one *bus*. A command waits for the controller, for its sets (one operation at a time), for the bus (one
//! transfer at a time, with a turnaround between directions) and for the link. A write ends when it is in the cells. After each access the
//! dies need time before the next; other commands for the same set wait for that. This, refresh and wear levelling cause the tails.

mod config;
mod event;
mod media;
#[cfg(test)]
mod tests;

pub use config::{BLOCK_BYTES, Config, ConfigError, Endurance, Levelling, Refresh};

use crate::ssd::{Command, Counters, Done, Op, Past, Ssd};
use event::{Direction, Events, What};
use media::Media;
use std::collections::VecDeque;

/// A command inside the drive.
#[derive(Clone, Copy, Debug)]
struct Slot {
    tag: u64,
    op: Op,
    offset_bytes: u64,
    len_bytes: u32,
    /// Blocks that were passed to the media.
    handed: u32,
    /// Blocks whose transfer is outstanding.
    left: u32,
    /// When the last byte of its data so far has crossed the link to the host.
    through_ns: u64,
}

impl Slot {
    fn first_block(&self) -> u64 {
        self.offset_bytes / BLOCK_BYTES
    }

    fn blocks(&self) -> u32 {
        let end = self.offset_bytes + u64::from(self.len_bytes);
        (end.div_ceil(BLOCK_BYTES) - self.first_block()) as u32
    }

    /// Bytes of the command in its block number `index`.
    fn bytes_in(&self, index: u32) -> u64 {
        let block = (self.first_block() + u64::from(index)) * BLOCK_BYTES;
        let end = self.offset_bytes + u64::from(self.len_bytes);
        end.min(block + BLOCK_BYTES) - self.offset_bytes.max(block)
    }

    fn is_aligned(&self) -> bool {
        (self.offset_bytes | u64::from(self.len_bytes)).is_multiple_of(BLOCK_BYTES)
    }
}

/// Time of a link for `bytes`, up to 4 GiB.
fn link_ns(bytes: u64, bytes_per_s: u64) -> u64 {
    (bytes * 1_000_000_000).div_ceil(bytes_per_s)
}

/// An XPoint drive in virtual time. Its memory for commands is bounded by what the host keeps in flight.
#[derive(Debug)]
pub struct XPoint {
    config: Config,
    events: Events,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Commands that the controller processes, and commands that wait for it.
    working: u32,
    waiting: VecDeque<u32>,
    media: Media,
    /// When the controller can take the next command.
    controller_free_ns: u64,
    /// When the link to the host and the link to the drive become free.
    to_host_free_ns: u64,
    to_drive_free_ns: u64,
    counters: Counters,
    lifetime_written_bytes: u64,
    /// Bytes that wear levelling had written at the last reset of the counters.
    moved_before_bytes: u64,
}

impl XPoint {
    /// Builds a drive. The seed decides only when in its period each set of dies is first refreshed.
    ///
    /// # Errors
    /// [`ConfigError`] where the parameters do not form a valid drive.
    pub fn new(config: Config, seed: u64) -> Result<Self, ConfigError> {
        config.check()?;
        Ok(Self {
            events: Events::default(),
            slots: Vec::new(),
            free: Vec::new(),
            working: 0,
            waiting: VecDeque::new(),
            media: Media::new(&config, seed),
            controller_free_ns: 0,
            to_host_free_ns: 0,
            to_drive_free_ns: 0,
            counters: Counters::default(),
            lifetime_written_bytes: 0,
            moved_before_bytes: 0,
            config,
        })
    }

    fn happen(&mut self, now_ns: u64, what: What, done: &mut Vec<Done>) {
        match what {
            What::Arrive { slot } => self.arrive(now_ns, slot),
            What::Hand { slot } => self.hand(now_ns, slot),
            What::Sensed { slot, set, direction } => self.media.sensed(now_ns, slot, set, direction, &mut self.events),
            What::Written { slot, set } => {
                self.media.written(now_ns, set, &mut self.events);
                self.block_ends(now_ns, slot);
            }
            What::SetFree { set } => self.media.set_free(now_ns, set, &mut self.events),
            What::Moved { slot, set, direction } => self.moved(now_ns, slot, set, direction),
            What::Complete { slot } => {
                done.push(Done { tag: self.slots[slot as usize].tag, at_ns: now_ns });
                self.free.push(slot);
                self.working -= 1;
                if let Some(slot) = self.waiting.pop_front() {
                    self.take(now_ns, slot);
                }
            }
        }
    }

    /// A command arrives in its queue.
    fn arrive(&mut self, now_ns: u64, slot: u32) {
        if self.working < self.config.commands {
            self.take(now_ns, slot);
        } else {
            self.waiting.push_back(slot);
        }
    }

    /// The controller takes a command as soon as it can.
    fn take(&mut self, now_ns: u64, slot: u32) {
        self.working += 1;
        let taken_ns = now_ns.max(self.controller_free_ns);
        self.controller_free_ns = taken_ns + self.config.command_interval_ns;
        let command = &self.slots[slot as usize];
        let len = u64::from(command.len_bytes);
        let mut ready_ns = taken_ns + self.config.controller_ns / 2;
        match command.op {
            Op::Flush | Op::Trim => {
                // No media work: acknowledged data is durable already, and blocks are overwritten in place.
                let what = What::Complete { slot };
                self.events.push(ready_ns + self.config.controller_ns.div_ceil(2), what);
                return;
            }
            Op::Read => self.counters.host_read_bytes += len,
            Op::Write => self.counters.host_written_bytes += len,
        }
        if !command.is_aligned() {
            ready_ns += self.config.slow_path_ns;
        }
        if command.op == Op::Write {
            // The data is fetched block by block; the first block is there after its own time on the link.
            let begin_ns = ready_ns.max(self.to_drive_free_ns);
            self.to_drive_free_ns = begin_ns + link_ns(len, self.config.link_write_bytes_per_s);
            ready_ns = begin_ns + link_ns(command.bytes_in(0), self.config.link_write_bytes_per_s);
        }
        self.events.push(ready_ns, What::Hand { slot });
    }

    /// Passes blocks to their sets: all blocks of a read, of a write the block whose data has arrived.
    fn hand(&mut self, now_ns: u64, slot: u32) {
        let command = self.slots[slot as usize];
        let blocks = command.blocks();
        let last = if command.op == Op::Read { blocks } else { command.handed + 1 };
        for index in command.handed..last {
            let whole = command.bytes_in(index) == BLOCK_BYTES;
            let direction = match command.op {
                Op::Write if whole => Direction::Write,
                // A partly written block must be read before it can be written.
                Op::Write => Direction::ReadToModify,
                _ => Direction::Read,
            };
            if command.op == Op::Write {
                self.counters.media_written_bytes += BLOCK_BYTES;
                self.lifetime_written_bytes += BLOCK_BYTES;
            }
            self.media.queue(now_ns, command.first_block() + u64::from(index), slot, direction, &mut self.events);
        }
        self.slots[slot as usize].handed = last;
        if last < blocks {
            self.events.push(
                now_ns + link_ns(command.bytes_in(last), self.config.link_write_bytes_per_s),
                What::Hand { slot },
            );
        }
    }

    /// A block's data has crossed the bus.
    fn moved(&mut self, now_ns: u64, slot: u32, set: u32, direction: Direction) {
        self.media.moved(now_ns, slot, set, direction, &mut self.events);
        if direction == Direction::Read {
            let command = &mut self.slots[slot as usize];
            // The link does not distinguish the blocks: each sends an equal part.
            let bytes = u64::from(command.len_bytes.div_ceil(command.blocks()));
            let begin_ns = now_ns.max(self.to_host_free_ns);
            self.to_host_free_ns = begin_ns + link_ns(bytes, self.config.link_read_bytes_per_s);
            command.through_ns = self.to_host_free_ns;
            self.block_ends(now_ns, slot);
        }
    }

    /// A block of a command has ended in the media.
    fn block_ends(&mut self, now_ns: u64, slot: u32) {
        let command = &mut self.slots[slot as usize];
        command.left -= 1;
        if command.left == 0 {
            let at_ns = command.through_ns.max(now_ns) + self.config.controller_ns.div_ceil(2);
            self.events.push(at_ns, What::Complete { slot });
        }
    }
}

impl Ssd for XPoint {
    fn capacity_bytes(&self) -> u64 {
        self.config.capacity_bytes
    }

    fn submit(&mut self, at_ns: u64, command: Command) {
        let mut entry = Slot {
            tag: command.tag,
            op: command.op,
            offset_bytes: command.offset_bytes,
            len_bytes: command.len_bytes,
            handed: 0,
            left: 0,
            through_ns: 0,
        };
        entry.left = entry.blocks();
        if command.len_bytes == 0 && command.op != Op::Trim {
            // A command without data does nothing in the media, like a flush: an NVMe command moves at least one sector.
            entry.op = Op::Flush;
        }
        let slot = if let Some(slot) = self.free.pop() {
            self.slots[slot as usize] = entry;
            slot
        } else {
            self.slots.push(entry);
            (self.slots.len() - 1) as u32
        };
        self.events.push(at_ns, What::Arrive { slot });
    }

    fn next_event_ns(&self) -> u64 {
        self.events.next_ns()
    }

    fn advance(&mut self, to_ns: u64, done: &mut Vec<Done>) {
        while let Some((now_ns, what)) = self.events.pop(to_ns) {
            self.happen(now_ns, what, done);
        }
    }

    fn counters(&self) -> Counters {
        // Wear is levelled over the whole media, so the most worn block equals the mean.
        let moved_bytes = self.media.moved_bytes();
        let cycles_max = (self.lifetime_written_bytes + moved_bytes).div_ceil(self.config.capacity_bytes);
        let media_written_bytes = self.counters.media_written_bytes + moved_bytes - self.moved_before_bytes;
        Counters { media_written_bytes, erases: 0, cycles_max, ..self.counters }
    }

    fn reset_counters(&mut self) {
        self.counters = Counters::default();
        self.moved_before_bytes = self.media.moved_bytes();
    }

    /// Does nothing: earlier writes have no effect on media that is written in place.
    fn age(&mut self, _past: Past) {}
}
