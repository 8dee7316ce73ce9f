//! Names of devices by number.

/// The name of a device, its numbers as blkparse writes them.
pub(in crate::format) fn device_name(device: u32) -> String {
    format!("{},{}", device >> 20, device & 0xf_ffff)
}
