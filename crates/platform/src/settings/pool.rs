//! A pool of Forebay's, as its configuration says, and what the kernel says of its members.

use super::text::{number, parsed_number};
use crate::lack::{Lack, Reading};
use crate::settings::device::Device;
use crate::tree::Tree;

/// A pool.
#[derive(Clone, Debug, Default)]
pub struct Pool {
    /// Its fast devices; more than one are a mirror.
    pub fast: Vec<Member>,
    /// Its capacity devices.
    pub capacity: Vec<Member>,
    /// What the server may hold in memory.
    pub memory_limit_bytes: u64,
    /// What rules ask that nobody can answer without evidence: class and condition.
    pub unanswered: Vec<(String, String)>,
}

/// A device of a pool.
#[derive(Clone, Debug)]
pub struct Member {
    /// As the configuration names it.
    pub target: String,
    /// Its size.
    pub size_bytes: Reading<u64>,
    /// The unit in which it is written and freed, where the configuration says.
    pub band_bytes: Option<u64>,
    /// What the kernel says of it; not of what is no block device.
    pub queue: Reading<MemberQueue>,
}

/// What the kernel says of a member.
#[derive(Clone, Debug)]
pub struct MemberQueue {
    /// The size that its writes are best multiples of; 0 where it does not say.
    pub optimal_bytes: Reading<i64>,
    /// `none`, `host-aware` or `host-managed`.
    pub zoned: Reading<String>,
    /// Streams by which it keeps data apart (flexible data placement); 0 where it has none.
    pub write_streams: Reading<i64>,
    /// `write back` or `write through`.
    pub write_cache: Reading<String>,
}

impl MemberQueue {
    /// Reads what the kernel says of a block device such as `nvme0n1`.
    ///
    /// # Errors
    /// Where there is none of this name.
    pub fn read(tree: &Tree, name: &str) -> Reading<Self> {
        let device = Device::read(tree, name, None)?;
        let at = |file: &str| format!("{}/queue/{file}", device.path);
        // Kernels before 6.16 know no streams.
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

    /// Size of a block device, a partition's where it is one.
    ///
    /// # Errors
    /// Where there is none of this name.
    pub fn size_bytes(tree: &Tree, name: &str) -> Reading<u64> {
        let path = format!("/sys/class/block/{name}/size");
        let sectors = parsed_number(&path, &tree.read(&path)?)?;
        u64::try_from(sectors)
            .map(|sectors| sectors.saturating_mul(512))
            .map_err(|_| Lack::unreadable(&path, "below 0"))
    }
}
