//! Asks an ATA drive for its power management and its wear, through the kernel's SCSI pass-through.
//!
//! ABI: Linux include/scsi/sg.h (`struct sg_io_hdr`, `SG_IO`). The commands are carried by ATA PASS-THROUGH (16) of the
//! SCSI / ATA Translation (SAT-4, 12.2.3) and only read: IDENTIFY DEVICE (ACS-4, 7.13) wakes no disk that stands still.
//! READ LOG EXT (ACS-4, 7.22) may, and goes to drives without moving parts only.

use super::passthru::remedy;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use thiserror::Error;

const SECTOR_BYTES: usize = 512;
const SENSE_BYTES: usize = 32;
const SG_IO: libc::c_ulong = 0x2285;
const FROM_DEVICE: libc::c_int = -3;
/// The time limit that libata itself uses for such commands.
const TIMEOUT_MS: u32 = 30_000;

const ATA_PASS_THROUGH_16: u8 = 0x85;
const IDENTIFY_DEVICE: u8 = 0xEC;
const READ_LOG_EXT: u8 = 0x2F;
/// The log of device statistics, and its page of drives without moving parts (ACS-4, 9.5.9).
const LOG_STATISTICS: u8 = 0x04;
const PAGE_SOLID_STATE: u8 = 0x07;

/// `struct sg_io_hdr`, field by field.
#[repr(C)]
struct Header {
    interface: libc::c_int,
    direction: libc::c_int,
    command_bytes: u8,
    sense_bytes_max: u8,
    vectors: u16,
    data_bytes: u32,
    data: *mut u8,
    command: *const u8,
    sense: *mut u8,
    timeout_ms: u32,
    flags: u32,
    pack: libc::c_int,
    user: *mut u8,
    status: u8,
    masked_status: u8,
    message_status: u8,
    sense_bytes: u8,
    host_status: u16,
    driver_status: u16,
    residue: libc::c_int,
    duration_ms: u32,
    info: u32,
}

type Sector = [u8; SECTOR_BYTES];

/// The reason why a command has no answer.
#[derive(Debug, Error)]
pub(super) enum AtaError {
    #[error("cannot open {}: {source}{}", path.display(), remedy(source))]
    Open { path: PathBuf, source: io::Error },
    #[error("the kernel did not pass ATA command {command:#04x} on to {}: {source}{}", path.display(), remedy(source))]
    Kernel { command: u8, path: PathBuf, source: io::Error },
    #[error("{} did not do ATA command {command:#04x} (SCSI status {status:#04x}, host {host:#06x})", path.display())]
    Refused { command: u8, path: PathBuf, status: u8, host: u16 },
    #[error("{} answered ATA command {command:#04x} with something else", path.display())]
    Garbage { command: u8, path: PathBuf },
}

/// Power management and wear of an ATA drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ata {
    /// Level of Advanced Power Management; `None` where it is off. Below 128 the drive may spin down when idle.
    pub power_management: Option<u8>,
    /// Whether extended power conditions are on. Their timers are not read.
    pub has_power_conditions: bool,
    /// The vendor's estimate of the life used, in percent; `None` for drives that do not report it.
    pub percentage_used_percent: Option<u8>,
}

/// A word of IDENTIFY DEVICE.
fn word(data: &Sector, number: usize) -> u16 {
    u16::from_le_bytes([data[2 * number], data[2 * number + 1]])
}

/// Whether a word of supported features is valid: its two highest bits are 01b.
fn is_filled(word: u16) -> bool {
    word >> 14 == 1
}

/// Whether the data of IDENTIFY DEVICE match their checksum in word 255. Data without one (see its lower byte) pass.
fn is_sound(data: &Sector) -> bool {
    data[510] != 0xA5 || data.iter().fold(0_u8, |sum, &byte| sum.wrapping_add(byte)) == 0
}

fn power(data: &Sector) -> Ata {
    let is_managed = is_filled(word(data, 83)) && word(data, 83) & 8 != 0 && word(data, 86) & 8 != 0;
    Ata {
        power_management: is_managed.then(|| data[2 * 91]),
        has_power_conditions: is_filled(word(data, 119)) && word(data, 119) & 0x80 != 0 && word(data, 120) & 0x80 != 0,
        percentage_used_percent: None,
    }
}

/// Whether the drive has no moving parts (nominal rotation rate 1) and supports general purpose logging.
fn has_no_moving_parts(data: &Sector) -> bool {
    word(data, 217) == 1 && is_filled(word(data, 84)) && word(data, 84) & 0x20 != 0
}

/// The percentage of life used, from the statistics page of drives without moving parts; `None` where the page is
/// another one, or the value is not supported or not valid.
fn wear(page: &Sector) -> Option<u8> {
    // Bits 63 and 62 of a statistic: it is supported, and valid.
    (page[2] == PAGE_SOLID_STATE && page[15] & 0xC0 == 0xC0).then_some(page[8])
}

/// ATA PASS-THROUGH (16): PIO data-in of one sector, whose length is the sector count.
fn command(command: u8, log: u8, page: u8) -> [u8; 16] {
    let mut bytes = [0; 16];
    let is_long = u8::from(command == READ_LOG_EXT);
    (bytes[0], bytes[1], bytes[2]) = (ATA_PASS_THROUGH_16, (4 << 1) | is_long, 0x0E);
    (bytes[6], bytes[8], bytes[10], bytes[14]) = (1, log, page, command);
    bytes
}

fn ask(file: &File, path: &Path, bytes: [u8; 16]) -> Result<Box<Sector>, AtaError> {
    let (mut data, mut sense) = (Box::new([0; SECTOR_BYTES]), [0; SENSE_BYTES]);
    let mut header = Header {
        interface: libc::c_int::from(b'S'),
        direction: FROM_DEVICE,
        command_bytes: bytes.len() as u8,
        sense_bytes_max: SENSE_BYTES as u8,
        vectors: 0,
        data_bytes: SECTOR_BYTES as u32,
        data: data.as_mut_ptr(),
        command: bytes.as_ptr(),
        sense: sense.as_mut_ptr(),
        timeout_ms: TIMEOUT_MS,
        flags: 0,
        pack: 0,
        user: std::ptr::null_mut(),
        status: 0,
        masked_status: 0,
        message_status: 0,
        sense_bytes: 0,
        host_status: 0,
        driver_status: 0,
        residue: 0,
        duration_ms: 0,
        info: 0,
    };
    let name = bytes[14];
    // SAFETY: the kernel reads and writes one sg_io_hdr through the pointer, whose layout ours has, reads command_bytes
    // bytes of the command, and writes up to data_bytes and sense_bytes_max bytes to the two buffers, which have these
    // lengths; all outlive the call, which returns when the command is done. The caller made sure that this is a disk of
    // the SCSI layer, for which the number means this.
    let done = unsafe { libc::ioctl(file.as_raw_fd(), SG_IO, &raw mut header) };
    if done < 0 {
        return Err(AtaError::Kernel { command: name, path: path.to_owned(), source: io::Error::last_os_error() });
    }
    if header.status != 0 || header.host_status != 0 {
        let (status, host) = (header.status, header.host_status);
        return Err(AtaError::Refused { command: name, path: path.to_owned(), status, host });
    }
    Ok(data)
}

/// Sends IDENTIFY DEVICE to a disk behind the kernel's libata, and reads its wear where it has no moving parts.
pub(super) fn identify(path: &Path) -> Result<Ata, AtaError> {
    let file = File::open(path).map_err(|source| AtaError::Open { path: path.to_owned(), source })?;
    let data = ask(&file, path, command(IDENTIFY_DEVICE, 0, 0))?;
    if !is_sound(&data) || data.iter().all(|&byte| byte == data[0]) {
        return Err(AtaError::Garbage { command: IDENTIFY_DEVICE, path: path.to_owned() });
    }
    let mut ata = power(&data);
    if has_no_moving_parts(&data) {
        // A drive without this page answers with an error.
        let page = ask(&file, path, command(READ_LOG_EXT, LOG_STATISTICS, PAGE_SOLID_STATE));
        ata.percentage_used_percent = page.ok().and_then(|page| wear(&page));
    }
    Ok(ata)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    #[cfg(target_pointer_width = "64")]
    #[test]
    fn the_header_has_the_kernels_layout() {
        assert_eq!(size_of::<Header>(), 88);
        assert_eq!((offset_of!(Header, data), offset_of!(Header, timeout_ms)), (16, 40));
        assert_eq!((offset_of!(Header, status), offset_of!(Header, host_status)), (64, 68));
    }

    #[test]
    fn commands_are_carried_as_sat_has_them() {
        let identify = [0x85, 8, 0x0E, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0xEC, 0];
        assert_eq!(command(IDENTIFY_DEVICE, 0, 0), identify);
        let log = [0x85, 9, 0x0E, 0, 0, 0, 1, 0, 4, 0, 7, 0, 0, 0, 0x2F, 0];
        assert_eq!(command(READ_LOG_EXT, LOG_STATISTICS, PAGE_SOLID_STATE), log);
    }

    #[test]
    fn the_words_come_from_their_places() {
        let mut data = [0; SECTOR_BYTES];
        let mut set =
            |number: usize, value: u16| data[2 * number..2 * number + 2].copy_from_slice(&value.to_le_bytes());
        set(83, 0x4008);
        set(86, 0x0008);
        set(91, 0x807F);
        set(119, 0x4080);
        set(120, 0x4080);
        set(217, 1);
        set(84, 0x4020);
        let expected = Ata { power_management: Some(127), has_power_conditions: true, percentage_used_percent: None };
        assert_eq!(power(&data), expected);
        assert!(has_no_moving_parts(&data));
        data[2 * 86] = 0;
        assert_eq!(power(&data).power_management, None, "it is off");
        assert!(is_sound(&data));
        data[510] = 0xA5;
        assert!(!is_sound(&data));
        let all_ones = power(&[0xFF; SECTOR_BYTES]);
        assert_eq!((all_ones.power_management, all_ones.has_power_conditions), (None, false));
    }

    #[test]
    fn wear_is_believed_where_it_is_valid() {
        let mut page = [0; SECTOR_BYTES];
        (page[2], page[8], page[15]) = (7, 42, 0xC0);
        assert_eq!(wear(&page), Some(42));
        page[15] = 0x80;
        assert_eq!(wear(&page), None);
        (page[15], page[2]) = (0xC0, 1);
        assert_eq!(wear(&page), None, "another page");
    }

    #[test]
    fn what_is_no_disk_is_said() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let error = identify(file.path()).expect_err("a file takes no commands");
        assert!(matches!(error, AtaError::Kernel { command: IDENTIFY_DEVICE, .. }), "{error}");
        assert!(matches!(identify(Path::new("/nonexistent/sda")), Err(AtaError::Open { .. })));
    }
}
