//! What every modelled SSD can be asked.

/// Operation of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Read.
    Read,
    /// Write; durable by its power-loss protection, or after the next flush.
    Write,
    /// Deallocate.
    Trim,
    /// Make durable what was written.
    Flush,
}

/// A command as it arrives at the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// Chosen by the host, returned in the completion.
    pub tag: u64,
    /// What is to be done.
    pub op: Op,
    /// Byte offset.
    pub offset_bytes: u64,
    /// Bytes; 0 for a flush.
    pub len_bytes: u32,
    /// Data that dies together carries the same number (directive, FDP placement id); 0: no hint.
    pub stream: u8,
}

/// The end of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// The command's tag.
    pub tag: u64,
    /// When the drive raised its interrupt, in nanoseconds.
    pub at_ns: u64,
}

/// What the drive has counted since it was made, or since [`Ssd::reset_counters`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Bytes that the host read.
    pub host_read_bytes: u64,
    /// Bytes that the host wrote.
    pub host_written_bytes: u64,
    /// Bytes written to the media: the host's, and those that the drive moved.
    pub media_written_bytes: u64,
    /// Blocks erased.
    pub erases: u64,
    /// Erases of the most worn block over the drive's life.
    pub cycles_max: u64,
}

impl Counters {
    /// Media bytes a host byte; 1 where nothing was written.
    #[must_use]
    pub fn write_amplification(&self) -> f64 {
        if self.host_written_bytes == 0 {
            1.0
        } else {
            self.media_written_bytes as f64 / self.host_written_bytes as f64
        }
    }
}

/// What a drive has behind it. Takes no virtual time and is not in the counters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Past {
    /// Share of the capacity that was written sequentially, 0.0 to 1.0; the rest is deallocated.
    pub filled: f64,
    /// How often as much as that was then overwritten in 4 KiB blocks at random: 0 is fresh out of a sequential fill, 2
    /// to 4 is steady.
    pub random_passes: f64,
}

/// An SSD in virtual time. The order of times is the caller's duty: nothing is submitted at a time before the last
/// [`Ssd::advance`].
pub trait Ssd: Send {
    /// Capacity that the host sees, in bytes.
    fn capacity_bytes(&self) -> u64;

    /// A command arrives at `at_ns`. Commands may be submitted ahead of their time, in any order. The host keeps within
    /// the capacity, and its commands are multiples of 512 bytes.
    fn submit(&mut self, at_ns: u64, command: Command);

    /// When something happens next; `u64::MAX` where the drive is idle.
    fn next_event_ns(&self) -> u64;

    /// No command ends before this, as far as the drive can tell without living through it. Between now and then happens only
    /// what the host cannot see: who waits in real time need not look.
    fn earliest_end_ns(&self) -> u64 {
        self.next_event_ns()
    }

    /// Lets everything happen up to and including `to_ns`. Completions are appended in the order of their times.
    fn advance(&mut self, to_ns: u64, done: &mut Vec<Done>);

    /// What the drive has counted.
    fn counters(&self) -> Counters;

    /// Counts from 0 again; wear stays.
    fn reset_counters(&mut self);

    /// Puts the drive into the state that such a past leaves. Nothing may be in flight.
    fn age(&mut self, past: Past);
}
