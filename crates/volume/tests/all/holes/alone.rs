//! The capacity tier of a rig, opened without the fast tier.

use super::device::Scripted;
use super::rig::{BLOCK, CAPACITY, Setup, block_request, classes, label};
use forebay_block::{Device, DiskId};
use forebay_volume::recovery::{AloneError, AloneReport, open_alone};
use forebay_volume::{Devices, Op, Outcome, Pool, RequestError};

/// What a read of a block returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Zeros.
    Nothing,
    /// An error.
    Gone,
    /// A version of its data.
    Version(u32),
}

pub struct Alone {
    pool: Pool,
    pub report: AloneReport,
    disk: DiskId,
}

impl Alone {
    /// Opens the given capacity devices.
    pub fn open_these(setup: &Setup, devices: &[Scripted]) -> Result<Self, AloneError> {
        let mut list = Devices::new(devices.iter().map(|device| Box::new(device.clone()) as Box<dyn Device>).collect());
        let (engine, report) = open_alone(&mut list, &classes(), setup.options.clone(), &mut |_, _| {})?;
        let disk = engine.disk_named("disk").unwrap().id;
        Ok(Self { pool: Pool::new(engine, list), report, disk })
    }

    /// Opens the pool without its fast device.
    pub fn open(setup: &Setup, devices: &[Scripted]) -> Self {
        Self::open_these(setup, &devices[CAPACITY..]).unwrap()
    }

    pub fn see(&mut self, block: u64) -> Seen {
        self.pool.submit(block_request(1, self.disk, block, Op::Read));
        let mut done = Vec::new();
        self.pool.run_until(&mut done, |_, done| !done.is_empty());
        match done.pop().unwrap().result {
            Ok(Outcome::Data(data)) => match label(&data) {
                Some((found, version)) if found == block => Seen::Version(version),
                Some(other) => panic!("block {block} reads as {other:?}"),
                None if data.iter().all(|&byte| byte == 0) => Seen::Nothing,
                None => panic!("block {block} reads as something else"),
            },
            Err(RequestError::Damaged { .. } | RequestError::Device { .. }) => Seen::Gone,
            other => panic!("block {block}: {other:?}"),
        }
    }

    /// Whether a block is reported as possibly older.
    pub fn is_maybe_older(&self, block: u64) -> bool {
        let listed = &self.report.disks[0].maybe_older.listed;
        listed.iter().any(|&(first, blocks)| (first..first + blocks).contains(&block))
    }
}

/// Data blocks of a band in this setup.
pub fn band_blocks(setup: &Setup) -> u64 {
    let blocks = setup.band_bytes / BLOCK as u64;
    blocks - blocks.div_ceil(64)
}
