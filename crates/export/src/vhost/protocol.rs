//! The client's messages (QEMU's docs/interop/vhost-user.rst), which the crate `vhost` parses. Any refusal ends the
//! connection.

use super::client::Device;
use super::device::{PROTOCOL_FEATURES, QUEUES_MAX, config_space, features};
use super::inflight::{self, Inflight};
use super::memory::{Memory, Place, REGIONS_MAX};
use super::ring::{Addresses, Ring};
use std::fs::File;
use std::io;
use vhost::VhostUserMemoryRegionBase;
use vhost::vhost_user::message::{
    VhostTransferStateDirection, VhostTransferStatePhase, VhostUserConfigFlags, VhostUserInflight, VhostUserLog,
    VhostUserMemoryRegion, VhostUserProtocolFeatures, VhostUserShMemConfig, VhostUserSharedMsg,
    VhostUserSingleMemoryRegion, VhostUserVringAddrFlags, VhostUserVringState,
};
use vhost::vhost_user::{Error, GpuBackend, Result, VhostUserBackendReqHandlerMut};

/// An error with its reason, which the log shows.
fn refused(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::ReqHandlerError(io::Error::other(why))
}

fn not_offered<T>(what: &'static str) -> Result<T> {
    Err(Error::InvalidOperation(what))
}

fn place(region: &VhostUserMemoryRegion) -> Place {
    Place {
        guest: region.guest_phys_addr,
        user: region.user_addr,
        len_bytes: region.memory_size,
        offset_bytes: region.mmap_offset,
    }
}

fn ring(device: &mut Device, index: u32) -> Result<&mut Ring> {
    device.rings.get_mut(index as usize).ok_or(Error::InvalidParam)
}

impl VhostUserBackendReqHandlerMut for Device {
    fn set_owner(&mut self) -> Result<()> {
        Ok(())
    }

    fn reset_owner(&mut self) -> Result<()> {
        // "It is recommended that back-ends either ignore this message, or use it to disable all rings."
        Ok(())
    }

    fn reset_device(&mut self) -> Result<()> {
        not_offered("reset")
    }

    fn get_features(&mut self) -> Result<u64> {
        Ok(features(self.read_only))
    }

    fn set_features(&mut self, accepted: u64) -> Result<()> {
        if self.accept(accepted) { Ok(()) } else { Err(Error::FeatureMismatch) }
    }

    fn set_mem_table(
        &mut self,
        regions: &[VhostUserMemoryRegion],
        files: Vec<File>,
        _postcopy_listening: Option<bool>,
    ) -> Result<Option<Vec<VhostUserMemoryRegionBase>>> {
        // The longer the memory, the longer this takes.
        let _paused = self.watchdog.pause();
        self.drain(None).map_err(refused)?;
        let mut memory = Memory::default();
        for (region, file) in regions.iter().zip(files) {
            memory.add(place(region), file).map_err(refused)?;
        }
        self.set_memory(memory).map_err(refused)?;
        Ok(None)
    }

    fn set_vring_num(&mut self, index: u32, num: u32) -> Result<()> {
        ring(self, index)?.set_size(num).map_err(refused)
    }

    fn set_vring_addr(
        &mut self,
        index: u32,
        _flags: VhostUserVringAddrFlags,
        descriptor: u64,
        used: u64,
        available: u64,
        _log: u64,
    ) -> Result<()> {
        ring(self, index)?.set_addresses(Addresses { table: descriptor, available, used }).map_err(refused)
    }

    fn set_vring_base(&mut self, index: u32, base: u32) -> Result<()> {
        ring(self, index)?.set_base(base).map_err(refused)
    }

    fn get_vring_base(&mut self, index: u32) -> Result<VhostUserVringState> {
        ring(self, index)?;
        self.drain(Some(index as usize)).map_err(refused)?;
        let base = ring(self, index)?.stop();
        Ok(VhostUserVringState::new(index, u32::from(base)))
    }

    fn set_vring_kick(&mut self, index: u8, fd: Option<File>) -> Result<()> {
        let served = ring(self, u32::from(index))?;
        served.set_kick(fd.ok_or_else(|| refused("rings without a kick are not served"))?).map_err(refused)?;
        if served.is_started() { Ok(()) } else { self.start(usize::from(index)).map_err(refused) }
    }

    fn set_vring_call(&mut self, index: u8, fd: Option<File>) -> Result<()> {
        ring(self, u32::from(index))?.set_call(fd).map_err(refused)
    }

    fn set_vring_err(&mut self, index: u8, _fd: Option<File>) -> Result<()> {
        // Errors end the connection.
        ring(self, u32::from(index)).map(|_| ())
    }

    fn get_protocol_features(&mut self) -> Result<VhostUserProtocolFeatures> {
        type F = VhostUserProtocolFeatures;
        Ok(F::MQ | F::CONFIG | F::REPLY_ACK | F::INFLIGHT_SHMFD | F::CONFIGURE_MEM_SLOTS)
    }

    fn set_protocol_features(&mut self, _features: u64) -> Result<()> {
        // The crate rejects messages whose feature was not negotiated; no feature changes the server's behaviour
        // otherwise.
        Ok(())
    }

    fn get_queue_num(&mut self) -> Result<u64> {
        Ok(QUEUES_MAX as u64)
    }

    fn set_vring_enable(&mut self, index: u32, enable: bool) -> Result<()> {
        if self.accepted & PROTOCOL_FEATURES == 0 {
            return not_offered("rings are enabled by their kick");
        }
        ring(self, index)?.set_enabled(enable);
        Ok(())
    }

    fn get_config(&mut self, offset: u32, size: u32, _flags: VhostUserConfigFlags) -> Result<Vec<u8>> {
        config_space(self.size_bytes, offset, size).ok_or(Error::InvalidParam)
    }

    fn set_config(&mut self, _offset: u32, _buf: &[u8], _flags: VhostUserConfigFlags) -> Result<()> {
        not_offered("the configuration cannot be written")
    }

    fn set_gpu_socket(&mut self, _gpu_backend: GpuBackend) -> Result<()> {
        not_offered("no display")
    }

    fn get_shared_object(&mut self, _uuid: VhostUserSharedMsg) -> Result<File> {
        not_offered("no shared objects")
    }

    fn get_inflight_fd(&mut self, wanted: &VhostUserInflight) -> Result<(VhostUserInflight, File)> {
        let (queues, entries) = (wanted.num_queues, wanted.queue_size);
        let made = inflight::create(queues, entries).ok_or(Error::InvalidParam)?;
        let (file, len_bytes) = made.map_err(refused)?;
        Ok((VhostUserInflight::new(len_bytes, 0, queues, entries), file))
    }

    fn set_inflight_fd(&mut self, kept: &VhostUserInflight, file: File) -> Result<()> {
        if self.rings.iter().any(Ring::is_started) {
            return not_offered("the note of what is in flight cannot change while rings are served");
        }
        let opened = Inflight::open(file, kept.mmap_offset, kept.mmap_size, kept.num_queues, kept.queue_size);
        self.inflight = Some(opened.map_err(refused)?);
        Ok(())
    }

    fn get_max_mem_slots(&mut self) -> Result<u64> {
        Ok(REGIONS_MAX as u64)
    }

    fn add_mem_region(
        &mut self,
        region: &VhostUserSingleMemoryRegion,
        fd: File,
        _postcopy_listening: Option<bool>,
    ) -> Result<Option<VhostUserMemoryRegionBase>> {
        let _paused = self.watchdog.pause();
        let mut memory = self.memory.clone();
        memory.add(place(region), fd).map_err(refused)?;
        self.change_memory(memory);
        Ok(None)
    }

    fn remove_mem_region(&mut self, region: &VhostUserSingleMemoryRegion) -> Result<()> {
        let _paused = self.watchdog.pause();
        self.drain(None).map_err(refused)?;
        let mut memory = self.memory.clone();
        let Place { guest, user, len_bytes, .. } = place(region);
        if !memory.remove(guest, user, len_bytes).map_err(refused)? {
            return Err(Error::InvalidParam);
        }
        self.change_memory(memory);
        Ok(())
    }

    fn set_device_state_fd(
        &mut self,
        _direction: VhostTransferStateDirection,
        _phase: VhostTransferStatePhase,
        _fd: File,
    ) -> Result<Option<File>> {
        not_offered("no state to be moved")
    }

    fn check_device_state(&mut self) -> Result<()> {
        not_offered("no state to be moved")
    }

    fn get_shmem_config(&mut self) -> Result<VhostUserShMemConfig> {
        not_offered("no shared memory of its own")
    }

    fn set_log_base(&mut self, _log: &VhostUserLog, _file: File) -> Result<()> {
        not_offered("no log of dirty memory")
    }
}
