//! Begins the epoch of an opening on all devices: after this, what recovery decided is durable, and no device counts any more that has
//! missed it (docs/format.md, "Epoch and state").

use super::members::write_superblock;
use super::report::OpenError;
use super::survey::MissingBatches;
use crate::engine::Engine;
use crate::io::Devices;
use crate::layout::superblock::Superblock;
use crate::pool::write_checkpoint;

/// What the superblocks of an opening say.
pub(super) struct Fence<'a> {
    /// As they were before, one of each device.
    pub superblocks: &'a [Superblock],
    /// That begins.
    pub epoch: u64,
    /// The number that this opening drew.
    pub opening: u64,
    /// The number of the opening whose state it found.
    pub opening_before: u64,
    /// The fast device is a mirror.
    pub is_mirrored: bool,
}

impl Fence<'_> {
    /// Begins the epoch. The capacity devices get it first, so that a crash in between leaves a state that is recognised.
    pub fn begin(
        &self,
        devices: &mut Devices,
        engine: &mut Engine,
        missing_batches: MissingBatches,
    ) -> Result<(), OpenError> {
        for device in (1..devices.list.len()).rev() {
            self.write(devices, device, false)?;
        }
        engine.migrate.pause_all(true);
        write_root(devices, engine, missing_batches)?;
        for device in (0..devices.list.len()).rev() {
            self.write(devices, device, true)?;
        }
        Ok(())
    }

    /// Writes the superblocks of a device. `serving`: the pool is served in this epoch, not only opened.
    fn write(&self, devices: &mut Devices, device: usize, serving: bool) -> Result<(), OpenError> {
        let superblock = Superblock {
            epoch: self.epoch,
            opening: self.opening,
            opening_before: self.opening_before,
            serving,
            is_mirrored: self.is_mirrored,
            ..self.superblocks[device].clone()
        };
        write_superblock(devices, device, &superblock).map_err(OpenError::of_device(devices, device))
    }
}

/// Makes durable, as the root of the new epoch, what recovery decided. An opening for reading alone needs no checkpoint, and goes on where the
/// root has no room for it.
fn write_root(devices: &mut Devices, engine: &mut Engine, missing_batches: MissingBatches) -> Result<(), OpenError> {
    let is_written = write_checkpoint(engine, devices, false);
    if !is_written && engine.is_root_full() {
        if missing_batches.are_refused() {
            return Err(OpenError::RootFull);
        }
    } else if !is_written {
        let reason = engine.status().counters.last_checkpoint_error;
        return Err(OpenError::Checkpoint(reason.unwrap_or_else(|| "a device flush failed".to_owned())));
    }
    Ok(())
}
