//! The record of one I/O, in 40 bytes.

use forebay_block::OpKind;

/// Bytes of a record in memory and in a file.
pub const RECORD_BYTES: usize = 40;

/// Bit of the last byte: the I/O failed.
const FLAG_FAILED: u8 = 1;

/// The record of one I/O. Times are in nanoseconds since the run began; their 64 bits suffice for 584 years, so no latency wraps. The
/// layout in memory is as large as in a file, so a worker stores it without packing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Record {
    /// When the I/O was intended, in ns.
    pub intended_ns: u64,
    /// When it was submitted, in ns.
    pub submitted_ns: u64,
    /// When its completion was seen, in ns.
    pub completed_ns: u64,
    /// Byte offset on the target, aligned or not.
    pub offset_bytes: u64,
    /// Length in bytes; 0 for flushes.
    pub len_bytes: u32,
    /// Number of the thread's I/Os in flight when it was issued, including this one; 65,535 means that many or more
    /// ([`Record::clamp_depth`]).
    pub depth: u16,
    /// The kind of I/O.
    pub kind: OpKind,
    /// Whether the I/O failed.
    pub failed: bool,
}

const _: () = assert!(size_of::<Record>() == RECORD_BYTES, "a record has no padding");

impl Record {
    /// The initial content of chunks. It is not all zeros: pages of zeros would be mapped at their first use, in the worker.
    pub(super) const FILLER: Self = Self {
        intended_ns: u64::MAX,
        submitted_ns: u64::MAX,
        completed_ns: u64::MAX,
        offset_bytes: u64::MAX,
        len_bytes: u32::MAX,
        depth: u16::MAX,
        kind: OpKind::Read,
        failed: true,
    };

    /// A depth as records store it: 65,535 if it is larger.
    #[inline]
    #[must_use]
    pub const fn clamp_depth(depth: u64) -> u16 {
        if depth > u16::MAX as u64 { u16::MAX } else { depth as u16 }
    }

    /// The record as bytes of a file (`docs/telemetry.md`, "Record").
    #[inline]
    #[must_use]
    pub fn encode(&self) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        bytes[0..8].copy_from_slice(&self.intended_ns.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.submitted_ns.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.completed_ns.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.offset_bytes.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.len_bytes.to_le_bytes());
        bytes[36..38].copy_from_slice(&self.depth.to_le_bytes());
        bytes[38] = self.kind as u8;
        bytes[39] = if self.failed { FLAG_FAILED } else { 0 };
        bytes
    }

    /// Decodes a record; `None` if the kind or a flag is unknown.
    #[inline]
    #[must_use]
    pub fn decode(bytes: &[u8; RECORD_BYTES]) -> Option<Self> {
        let [a0, a1, a2, a3, a4, a5, a6, a7, rest @ ..] = bytes;
        let [b0, b1, b2, b3, b4, b5, b6, b7, rest @ ..] = rest;
        let [c0, c1, c2, c3, c4, c5, c6, c7, rest @ ..] = rest;
        let [o0, o1, o2, o3, o4, o5, o6, o7, rest @ ..] = rest;
        let [l0, l1, l2, l3, d0, d1, kind, flags] = rest;
        if flags & !FLAG_FAILED != 0 {
            return None;
        }
        Some(Self {
            intended_ns: u64::from_le_bytes([*a0, *a1, *a2, *a3, *a4, *a5, *a6, *a7]),
            submitted_ns: u64::from_le_bytes([*b0, *b1, *b2, *b3, *b4, *b5, *b6, *b7]),
            completed_ns: u64::from_le_bytes([*c0, *c1, *c2, *c3, *c4, *c5, *c6, *c7]),
            offset_bytes: u64::from_le_bytes([*o0, *o1, *o2, *o3, *o4, *o5, *o6, *o7]),
            len_bytes: u32::from_le_bytes([*l0, *l1, *l2, *l3]),
            depth: u16::from_le_bytes([*d0, *d1]),
            kind: *OpKind::ALL.get(usize::from(*kind))?,
            failed: flags & FLAG_FAILED != 0,
        })
    }
}
