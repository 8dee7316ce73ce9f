//! Requests of a mirror to its members.

use forebay_block::{Buf, IoError, Vectored};

/// What a request to members is for.
pub(super) enum Flight {
    /// A change or a flush, of all members that get writes.
    Change(Change),
    /// A read.
    Read(Read),
    /// A label, or the flush behind it.
    Label { serial: u64, is_flush: bool },
    /// A part of copying, with the number of its request: the answer to one that was given up goes to nobody.
    Copy { asked: u64 },
    /// The flush behind what was copied.
    CopyFlush,
}

/// A write, a flush, or another change.
pub(super) struct Change {
    /// The engine's tag.
    pub tag: u64,
    /// Members that have not answered.
    pub left: u8,
    /// Members that have done it.
    pub done: u8,
    /// Members that failed.
    pub failed: u8,
    /// The failure of the last of them.
    pub error: Option<IoError>,
    /// A discard: a member that fails it keeps its contents, which nobody reads.
    pub is_discard: bool,
    /// Its success says that data is durable: a flush, or a write past the caches.
    pub is_flush: bool,
    /// A failed flush beside this one was the only report of writes that were lost: so this one must not succeed.
    pub lost: Option<IoError>,
}

/// A read.
pub(super) struct Read {
    /// The engine's tag.
    pub tag: u64,
    pub offset_bytes: u64,
    pub len_bytes: u64,
    /// Lengths of its buffers, in bytes.
    pub lens: Vectored<usize>,
    /// How many readings before it were wrong.
    pub attempt: u8,
    /// No other member may answer in place of this one.
    pub is_alone: bool,
    /// The member that is read.
    pub member: usize,
    /// Members that were tried and failed.
    pub failed: u8,
}

impl Read {
    /// New buffers like those of the request, which a device may still write to.
    pub fn bufs(&self) -> Vectored<Buf> {
        match &self.lens {
            Vectored::One(len) => Vectored::One(Buf::new(*len)),
            Vectored::Many(lens) => Vectored::Many(lens.iter().map(|&len| Buf::new(len)).collect()),
        }
    }
}

/// The lengths of buffers, in bytes.
pub(super) fn lens_of(bufs: &Vectored<Buf>) -> Vectored<usize> {
    match bufs {
        Vectored::One(buf) => Vectored::One(buf.len()),
        Vectored::Many(bufs) => Vectored::Many(bufs.iter().map(|buf| buf.len()).collect()),
    }
}

impl Change {
    /// A member answered. True where it was the last.
    pub fn ended(&mut self, member: usize, result: Result<(), IoError>) -> bool {
        let bit = 1 << member;
        self.left &= !bit;
        match result {
            Ok(()) => self.done |= bit,
            Err(error) => {
                self.failed |= bit;
                self.error = Some(error);
            }
        }
        self.left == 0
    }
}

/// Ranges of the device with work in progress, each with the number of its request.
#[derive(Default)]
pub(crate) struct Ranges(Vec<(u64, u64, u64)>);

impl Ranges {
    pub fn add(&mut self, offset_bytes: u64, len_bytes: u64, key: u64) {
        self.0.push((offset_bytes, offset_bytes + len_bytes, key));
    }

    pub fn remove(&mut self, key: u64) {
        if let Some(at) = self.0.iter().position(|&(.., other)| other == key) {
            self.0.swap_remove(at);
        }
    }

    /// Whether work is in progress in a part of this range.
    pub fn overlap(&self, offset_bytes: u64, len_bytes: u64) -> bool {
        self.0.iter().any(|&(begin, end, _)| begin < offset_bytes + len_bytes && offset_bytes < end)
    }
}
