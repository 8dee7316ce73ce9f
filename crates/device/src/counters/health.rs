//! NVMe's SMART / Health Information log page (log page identifier 02h).
//!
//! Layout: NVM Express Base Specification 2.0, 5.16.1.3, Figure 207; the same bytes as `struct nvme_smart_log` in
//! Linux's include/linux/nvme.h.

use super::page::{Page, number};

/// A data unit: a thousand blocks of 512 bytes, whatever the format of the namespace, rounded up (Figure 207). So a
/// difference in bytes is exact to one unit only.
pub const DATA_UNIT_BYTES: u64 = 512_000;

/// The controller's health data. Numbers of 128 bits that do not fit are u64::MAX.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Bits: 0 spare low, 1 temperature, 2 unreliable, 3 read-only, 4 volatile memory backup failed, 5 persistent
    /// memory region unreliable.
    pub critical_warning_bits: u8,
    /// Composite temperature in kelvin; 0: not reported.
    pub temperature_kelvin: u16,
    /// Spare capacity left, 0 to 100 % (a faulty drive may report up to 255).
    pub available_spare_percent: u8,
    /// Threshold below which the spare capacity counts as low, in percent.
    pub spare_threshold_percent: u8,
    /// The vendor's estimate of the life used; 255 stands for anything above 254 %.
    pub percentage_used_percent: u8,
    /// Data read by hosts, in units of 1000 * 512 bytes; 0: nothing, or not reported.
    pub data_units_read: u64,
    /// Data written by hosts, in units of 1000 * 512 bytes; 0: nothing, or not reported.
    pub data_units_written: u64,
    /// Read commands completed.
    pub host_reads: u64,
    /// Write commands completed.
    pub host_writes: u64,
    /// Time with I/O commands outstanding, in minutes.
    pub busy_minutes: u64,
    /// Count of power-ons.
    pub power_cycles: u64,
    /// Time powered on, in hours; some drives leave out low-power states.
    pub power_on_hours: u64,
    /// Count of power losses without notice.
    pub unsafe_shutdowns: u64,
    /// Unrecovered errors of the medium or of data integrity.
    pub media_errors: u64,
    /// Entries ever made in the error log, including those for refused commands.
    pub error_log_entries: u64,
    /// Time above the warning temperature, in minutes.
    pub warning_temperature_minutes: u64,
    /// Time above the critical temperature, in minutes.
    pub critical_temperature_minutes: u64,
    /// Count of light throttling because of temperature.
    pub light_throttles: u64,
    /// Count of heavy throttling because of temperature.
    pub heavy_throttles: u64,
    /// Time of light throttling, in seconds.
    pub light_throttle_seconds: u64,
    /// Time of heavy throttling, in seconds.
    pub heavy_throttle_seconds: u64,
}

impl Health {
    /// Parses the page. Any bytes give a value.
    #[must_use]
    pub fn parse(page: &Page) -> Self {
        let byte = |at: usize| page.get(at).copied().unwrap_or(0);
        Self {
            critical_warning_bits: byte(0),
            temperature_kelvin: u16::from_le_bytes([byte(1), byte(2)]),
            available_spare_percent: byte(3),
            spare_threshold_percent: byte(4),
            percentage_used_percent: byte(5),
            data_units_read: number(page, 32, 16),
            data_units_written: number(page, 48, 16),
            host_reads: number(page, 64, 16),
            host_writes: number(page, 80, 16),
            busy_minutes: number(page, 96, 16),
            power_cycles: number(page, 112, 16),
            power_on_hours: number(page, 128, 16),
            unsafe_shutdowns: number(page, 144, 16),
            media_errors: number(page, 160, 16),
            error_log_entries: number(page, 176, 16),
            warning_temperature_minutes: number(page, 192, 4),
            critical_temperature_minutes: number(page, 196, 4),
            light_throttles: number(page, 216, 4),
            heavy_throttles: number(page, 220, 4),
            light_throttle_seconds: number(page, 224, 4),
            heavy_throttle_seconds: number(page, 228, 4),
        }
    }

    /// Composite temperature in whole degrees Celsius (kelvin less 273, as other tools do); `None`: not reported.
    #[must_use]
    pub fn temperature_celsius(&self) -> Option<i32> {
        (self.temperature_kelvin != 0).then(|| i32::from(self.temperature_kelvin) - 273)
    }

    /// Data read by hosts in bytes, exact to [`DATA_UNIT_BYTES`]; u64::MAX where it does not fit.
    #[must_use]
    pub fn read_bytes(&self) -> u64 {
        self.data_units_read.saturating_mul(DATA_UNIT_BYTES)
    }

    /// Data written by hosts in bytes, exact to [`DATA_UNIT_BYTES`]; u64::MAX where it does not fit.
    #[must_use]
    pub fn written_bytes(&self) -> u64 {
        self.data_units_written.saturating_mul(DATA_UNIT_BYTES)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::page::PAGE_BYTES;
    use super::*;
    use proptest::prelude::*;

    /// A page with a distinct value in each field at the offsets of Figure 207.
    pub(crate) fn known_page() -> Page {
        let mut page = [0; PAGE_BYTES];
        page[0] = 0b10_1010;
        page[1..3].copy_from_slice(&308_u16.to_le_bytes());
        page[3..6].copy_from_slice(&[99, 10, 7]);
        page[6] = 0xEE; // endurance group summary, not read
        for (index, at) in (32..192).step_by(16).enumerate() {
            page[at..at + 16].copy_from_slice(&(1_000_000 + index as u128).to_le_bytes());
        }
        page[192..196].copy_from_slice(&11_u32.to_le_bytes());
        page[196..200].copy_from_slice(&12_u32.to_le_bytes());
        page[200..216].fill(0xDD); // sensors, not read
        for (index, at) in (216..232).step_by(4).enumerate() {
            page[at..at + 4].copy_from_slice(&(21 + index as u32).to_le_bytes());
        }
        page[232..].fill(0xCC); // reserved
        page
    }

    #[test]
    fn every_field_comes_from_its_place() {
        let health = Health::parse(&known_page());
        let expected = Health {
            critical_warning_bits: 0b10_1010,
            temperature_kelvin: 308,
            available_spare_percent: 99,
            spare_threshold_percent: 10,
            percentage_used_percent: 7,
            data_units_read: 1_000_000,
            data_units_written: 1_000_001,
            host_reads: 1_000_002,
            host_writes: 1_000_003,
            busy_minutes: 1_000_004,
            power_cycles: 1_000_005,
            power_on_hours: 1_000_006,
            unsafe_shutdowns: 1_000_007,
            media_errors: 1_000_008,
            error_log_entries: 1_000_009,
            warning_temperature_minutes: 11,
            critical_temperature_minutes: 12,
            light_throttles: 21,
            heavy_throttles: 22,
            light_throttle_seconds: 23,
            heavy_throttle_seconds: 24,
        };
        assert_eq!(health, expected);
        assert_eq!(health.temperature_celsius(), Some(35));
        assert_eq!(health.read_bytes(), 512_000_000_000);
        assert_eq!(health.written_bytes(), 512_000_512_000);
    }

    #[test]
    fn hostile_bytes_saturate() {
        let health = Health::parse(&[0xFF; PAGE_BYTES]);
        assert_eq!(health.data_units_read, u64::MAX);
        assert_eq!(health.read_bytes(), u64::MAX);
        assert_eq!(health.temperature_celsius(), Some(65535 - 273));
        assert_eq!(health.percentage_used_percent, 255);
        assert_eq!(health.heavy_throttle_seconds, u64::from(u32::MAX));
        let mut page = [0; PAGE_BYTES];
        assert_eq!(Health::parse(&page).temperature_celsius(), None);
        // One bit above 64: the largest u64, not zero.
        page[32 + 8] = 1;
        assert_eq!(Health::parse(&page).data_units_read, u64::MAX);
        // Fits in 64 bits as units, not as bytes.
        page[32..48].copy_from_slice(&(u128::from(u64::MAX) / 2).to_le_bytes());
        assert_eq!(Health::parse(&page).read_bytes(), u64::MAX);
    }

    proptest! {
        #[test]
        fn any_page_has_a_reading(bytes in proptest::collection::vec(any::<u8>(), PAGE_BYTES)) {
            let page: Page = bytes.try_into().expect("512");
            let health = Health::parse(&page);
            let writes = u128::from_le_bytes(page[80..96].try_into().expect("16"));
            prop_assert_eq!(u128::from(health.host_writes), writes.min(u128::from(u64::MAX)));
            prop_assert!(health.read_bytes() >= health.data_units_read);
        }
    }
}
