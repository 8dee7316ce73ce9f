//! A Forebay pool according to its configuration, and the kernel's settings of its members.

use super::text::{number, parsed_number};
use crate::lack::{Lack, Reading};
use crate::settings::device::Device;
use crate::tree::Tree;

/// A pool.
#[derive(Clone, Debug, Default)]
pub struct Pool {
    /// Its fast devices; several form a mirror.
    pub fast: Vec<Member>,
    /// Its capacity devices.
    pub capacity: Vec<Member>,
    /// The server's memory limit, in bytes.
    pub memory_limit_bytes: u64,
    /// Conditions of rules that no source of evidence answers: class and condition.
    pub unanswered: Vec<(String, String)>,
}

/// A device of a pool.
#[derive(Clone, Debug)]
pub struct Member {
    /// The target in the configuration.
    pub target: String,
    /// Its size, in bytes.
    pub size_bytes: Reading<u64>,
    /// The unit in which it is written and freed, in bytes; `None` if not configured.
    pub band_bytes: Option<u64>,
    /// The kernel's settings; an error if it is not a block device.
    pub queue: Reading<MemberQueue>,
}

/// The kernel's settings of a member.
#[derive(Clone, Debug)]
pub struct MemberQueue {
    /// The size of which its writes should be multiples, in bytes; 0 if not reported.
    pub optimal_bytes: Reading<i64>,
    /// `none`, `host-aware` or `host-managed`.
    pub zoned: Reading<String>,
    /// Number of streams by which it separates data (flexible data placement); 0 if it has none.
    pub write_streams: Reading<i64>,
    /// `write back` or `write through`.
    pub write_cache: Reading<String>,
}

impl MemberQueue {
    /// Reads the kernel's settings of a block device such as `nvme0n1`.
    ///
    /// # Errors
    /// There is no device of this name.
    pub fn read(tree: &Tree, name: &str) -> Reading<Self> {
        let device = Device::read(tree, name, None)?;
        let at = |file: &str| format!("{}/queue/{file}", device.path);
        // Kernels before 6.16 have no streams.
        let write_streams = match number(tree, &at("max_write_streams")) {
            Err(Lack::Absent { .. }) => Ok(0),
            other => other,
        };
        Ok(Self {
            optimal_bytes: number(tree, &at("optimal_io_size")),
            zoned: tree.read(&at("zoned")),
            write_streams,
            write_cache: device.queue("write_cache"),
        })
    }

    /// Size in bytes of a block device or a partition.
    ///
    /// # Errors
    /// There is no device of this name.
    pub fn size_bytes(tree: &Tree, name: &str) -> Reading<u64> {
        let path = format!("/sys/class/block/{name}/size");
        let sectors = parsed_number(&path, &tree.read(&path)?)?;
        u64::try_from(sectors)
            .map(|sectors| sectors.saturating_mul(512))
            .map_err(|_| Lack::unreadable(&path, "below 0"))
    }
}
