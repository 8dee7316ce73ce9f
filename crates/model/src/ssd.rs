//! The interface of all modelled SSDs.

/// Operation of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Read.
    Read,
    /// Write; durable at completion with power-loss protection, otherwise after the next flush.
    Write,
    /// Deallocate.
    Trim,
    /// Makes earlier writes durable.
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
    /// Data with the same expected lifetime carries the same number (directive, FDP placement id); 0 gives no hint.
    pub stream: u8,
}

/// Completion of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// The command's tag.
    pub tag: u64,
    /// When the drive raised the interrupt, in nanoseconds.
    pub at_ns: u64,
}

/// Counters since the drive was made, or since [`Ssd::reset_counters`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Bytes that the host read.
    pub host_read_bytes: u64,
    /// Bytes that the host wrote.
    pub host_written_bytes: u64,
    /// Bytes written to the media: host writes and data that the drive moved.
    pub media_written_bytes: u64,
    /// Blocks erased.
    pub erases: u64,
    /// Erases of the most worn block, over the drive's life.
    pub cycles_max: u64,
}

impl Counters {
    /// Media bytes written per host byte; 1 where the host wrote nothing.
    #[must_use]
    pub fn write_amplification(&self) -> f64 {
        if self.host_written_bytes == 0 {
            1.0
        } else {
            self.media_written_bytes as f64 / self.host_written_bytes as f64
        }
    }
}

/// A drive's past. Applying it takes no virtual time and does not affect the counters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Past {
    /// Share of the capacity that was written sequentially, 0.0 to 1.0; the remainder is deallocated.
    pub filled: f64,
    /// Random 4 KiB overwrites after the fill, in multiples of the filled size: 0 is freshly filled, 2 to 4 is the steady state.
    pub random_passes: f64,
}

/// An SSD in virtual time. The caller keeps the order of times: no command is submitted at a time before the last [`Ssd::advance`].
pub trait Ssd: Send {
    /// Capacity that the host sees, in bytes.
    fn capacity_bytes(&self) -> u64;

    /// Submits a command that arrives at `at_ns`. Commands may be submitted ahead of their time, in any order. The host stays within the
    /// capacity and uses multiples of 512 bytes.
    fn submit(&mut self, at_ns: u64, command: Command);

    /// Time of the next event in nanoseconds; `u64::MAX` where the drive is idle.
    fn next_event_ns(&self) -> u64;

    /// A lower bound of the next completion's time, as far as the drive knows it without simulating on. The host sees nothing of the events
    /// before, so a caller that waits in real time need not call earlier.
    fn earliest_end_ns(&self) -> u64 {
        self.next_event_ns()
    }

    /// Processes all events up to and including `to_ns`. Completions are appended in order of time.
    fn advance(&mut self, to_ns: u64, done: &mut Vec<Done>);

    /// The drive's counters.
    fn counters(&self) -> Counters;

    /// Resets the counters to 0; wear stays.
    fn reset_counters(&mut self);

    /// Puts the drive into the state after this past. Nothing may be in flight.
    fn age(&mut self, past: Past);
}
