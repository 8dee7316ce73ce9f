//! The columns of a trace: their names, and their effect on a request.

use crate::format::fields::DURATION_NS_MAX;
use crate::{Flags, Lifetime, Op, Request};
use std::ops::RangeInclusive;

/// A lifetime that is null. All bits of the known ones are set in it, so that [`Field::are_surely_in_range`] is fast.
const LIFETIME_NOT_KNOWN: i64 = 7;
const _: () = assert!(Lifetime::ALL.len() as i64 <= LIFETIME_NOT_KNOWN);

/// A column that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Issued,
    Op,
    Offset,
    Size,
    Latency,
    Queued,
    Volume,
    Lifetime,
    Flags,
    Depth,
    IoClass,
    Process,
    Pid,
    Cgroup,
    Inode,
    Path,
}

/// Which columns a file must or may have, and which ones an analysis needs.
impl Field {
    pub const ALL: [Self; 16] = [
        Self::Issued,
        Self::Op,
        Self::Offset,
        Self::Size,
        Self::Latency,
        Self::Queued,
        Self::Volume,
        Self::Lifetime,
        Self::Flags,
        Self::Depth,
        Self::IoClass,
        Self::Process,
        Self::Pid,
        Self::Cgroup,
        Self::Inode,
        Self::Path,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Issued => "issued_ns",
            Self::Op => "op",
            Self::Offset => "offset_bytes",
            Self::Size => "size_bytes",
            Self::Latency => "latency_ns",
            Self::Queued => "queued_ns",
            Self::Volume => "volume",
            Self::Lifetime => "lifetime",
            Self::Flags => "flags",
            Self::Depth => "depth",
            Self::IoClass => "io_class",
            Self::Process => "process",
            Self::Pid => "pid",
            Self::Cgroup => "cgroup",
            Self::Inode => "inode",
            Self::Path => "path",
        }
    }

    pub fn is_required(self) -> bool {
        matches!(self, Self::Issued | Self::Op | Self::Offset | Self::Size)
    }

    /// Whether the column has strings; all others have integers.
    pub fn is_text(self) -> bool {
        matches!(self, Self::Op | Self::Volume | Self::Lifetime | Self::Process | Self::Path)
    }

    /// Whether the values are ids that use all 64 bits; nobody adds them up.
    pub fn is_id(self) -> bool {
        matches!(self, Self::Inode | Self::Cgroup)
    }

    pub fn is_wanted(self, wanted: Wanted) -> bool {
        match self {
            Self::Issued | Self::Op | Self::Offset | Self::Size => true,
            Self::Latency => wanted.latency,
            Self::Queued => wanted.queued,
            Self::Volume => wanted.volume,
            Self::Lifetime => wanted.lifetime,
            Self::Flags => wanted.flags,
            Self::Depth => wanted.depth,
            Self::IoClass => wanted.io_class,
            Self::Process => wanted.process,
            Self::Pid => wanted.pid,
            Self::Cgroup => wanted.cgroup,
            Self::Inode => wanted.inode,
            Self::Path => wanted.path,
        }
    }

    /// The value that represents null. If null is not allowed, it is out of [`Self::range`].
    pub fn null(self) -> i64 {
        match self {
            Self::Issued | Self::Op | Self::Offset | Self::Size => i64::MIN,
            // The same bits as NOT_KNOWN.
            Self::Latency | Self::Queued => -1,
            Self::IoClass => Request::NO_CLASS as i64,
            Self::Flags => -1,
            // -1 is a refused text.
            Self::Lifetime => LIFETIME_NOT_KNOWN,
            _ => 0,
        }
    }

    /// Values that are no faults. Texts are represented by numbers of names, -1 for a refused text.
    pub fn range(self) -> RangeInclusive<i64> {
        match self {
            Self::Op => 0..=Op::ALL.len() as i64 - 1,
            // One before the last is not used: texts do not become it.
            Self::Lifetime => 0..=LIFETIME_NOT_KNOWN,
            Self::Latency | Self::Queued => -1..=DURATION_NS_MAX.cast_signed(),
            Self::Flags => -1..=i64::from(u16::MAX),
            Self::Depth | Self::IoClass => 0..=i64::from(u16::MAX),
            Self::Pid => 0..=i64::from(u32::MAX),
            Self::Volume | Self::Process | Self::Path => 0..=i64::from(u32::MAX),
            _ => 0..=i64::MAX,
        }
    }

    /// A fast check whether all `values` are in range; may return `false` although they are. It combines the bits of all values by OR,
    /// without branch or comparison per value, since nearly always all are good.
    pub fn are_surely_in_range(self, values: &[i64]) -> bool {
        let range = self.range();
        let bits = values.iter().fold(0, |bits, value| bits | value.wrapping_sub(*range.start()).cast_unsigned());
        bits <= range.end().wrapping_sub(*range.start()).cast_unsigned()
    }

    /// Puts `values` into `requests`. Values are in range, or their requests will be discarded.
    pub fn put(self, requests: &mut [Request], values: &[i64]) {
        match self {
            Self::Issued => each(requests, values, |r, v| r.issued_ns = v.cast_unsigned()),
            Self::Op => each(requests, values, |r, v| r.op = Op::ALL.get(v as usize).copied().unwrap_or_default()),
            Self::Offset => each(requests, values, |r, v| r.offset_bytes = v.cast_unsigned()),
            Self::Size => each(requests, values, |r, v| r.len_bytes = v.cast_unsigned()),
            Self::Latency => each(requests, values, |r, v| r.latency_ns = v.cast_unsigned()),
            Self::Queued => each(requests, values, |r, v| r.queued_ns = v.cast_unsigned()),
            Self::Volume => each(requests, values, |r, v| r.volume = v as u32),
            Self::Lifetime => each(requests, values, |r, v| {
                r.lifetime = Lifetime::ALL.get(v as usize).copied().unwrap_or_default();
                let mark = if v == LIFETIME_NOT_KNOWN { Flags::NO_LIFETIME } else { Flags::default() };
                r.flags = r.flags.with(mark);
            }),
            Self::Flags => each(requests, values, |r, v| {
                let flags = if v < 0 { Flags::NOT_KNOWN } else { Flags(v as u16).reported() };
                // The mark of the lifetime is there already.
                r.flags = r.flags.with(flags);
            }),
            Self::Depth => each(requests, values, |r, v| r.depth = v as u16),
            Self::IoClass => each(requests, values, |r, v| r.io_class = v as u16),
            Self::Process => each(requests, values, |r, v| r.process = v as u32),
            Self::Pid => each(requests, values, |r, v| r.pid = v as u32),
            Self::Cgroup => each(requests, values, |r, v| r.cgroup = v.cast_unsigned()),
            Self::Inode => each(requests, values, |r, v| r.inode = v.cast_unsigned()),
            Self::Path => each(requests, values, |r, v| r.path = v as u32),
        }
    }
}

fn each(requests: &mut [Request], values: &[i64], set: impl Fn(&mut Request, i64)) {
    for (request, &value) in requests.iter_mut().zip(values) {
        set(request, value);
    }
}

/// Columns that are wanted besides `issued_ns`, `op`, `offset_bytes` and `size_bytes`. Other columns are not decoded; their facts are then
/// unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the column of its name")]
pub struct Wanted {
    pub latency: bool,
    pub queued: bool,
    pub volume: bool,
    pub lifetime: bool,
    pub flags: bool,
    pub depth: bool,
    pub io_class: bool,
    pub process: bool,
    pub pid: bool,
    pub cgroup: bool,
    pub inode: bool,
    pub path: bool,
}

impl Wanted {
    /// All columns.
    pub const ALL: Self = Self {
        latency: true,
        queued: true,
        volume: true,
        lifetime: true,
        flags: true,
        depth: true,
        io_class: true,
        process: true,
        pid: true,
        cgroup: true,
        inode: true,
        path: true,
    };
    /// None besides the four that each trace has; a base for `Wanted { latency: true, ..Wanted::NONE }`.
    pub const NONE: Self = Self {
        latency: false,
        queued: false,
        volume: false,
        lifetime: false,
        flags: false,
        depth: false,
        io_class: false,
        process: false,
        pid: false,
        cgroup: false,
        inode: false,
        path: false,
    };
}
