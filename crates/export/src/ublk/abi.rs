//! The interface of the kernel's ublk driver: include/uapi/linux/ublk_cmd.h.

use forebay_block::Buf;
use forebay_volume::{HintPart, HintParts, HostHints, Op};

/// `UBLK_MAX_QUEUE_DEPTH`: the descriptors of each queue begin this many entries after those of the queue before.
pub const QUEUE_DEPTH_MAX: usize = 4096;
/// `sizeof(struct ublksrv_io_desc)`.
pub const DESCRIPTOR_BYTES: usize = 24;
/// `UBLK_F_USER_RECOVERY | UBLK_F_USER_RECOVERY_REISSUE | UBLK_F_CMD_IOCTL_ENCODE`: when the server has gone, the
/// device waits for the next one, and submits its requests in flight again.
pub const FLAGS: u64 = 1 << 3 | 1 << 4 | 1 << 6;

/// `UBLK_S_DEV_QUIESCED`: the device waits for a server.
pub const QUIESCED: u16 = 2;

const fn ctrl(direction: u32, number: u32) -> u32 {
    direction << 30 | 32 << 16 | (b'u' as u32) << 8 | number
}
/// `UBLK_U_CMD_*`: control commands, encoded like ioctls.
pub const GET_DEV_INFO: u32 = ctrl(2, 0x02);
pub const ADD_DEV: u32 = ctrl(3, 0x04);
pub const START_DEV: u32 = ctrl(3, 0x06);
pub const SET_PARAMS: u32 = ctrl(3, 0x08);
pub const START_USER_RECOVERY: u32 = ctrl(3, 0x10);
pub const END_USER_RECOVERY: u32 = ctrl(3, 0x11);
pub const DEL_DEV_ASYNC: u32 = ctrl(2, 0x14);
/// `UBLK_U_IO_*`.
pub const FETCH_REQ: u32 = 3 << 30 | 16 << 16 | (b'u' as u32) << 8 | 0x20;
pub const COMMIT_AND_FETCH_REQ: u32 = FETCH_REQ + 1;

/// `struct ublksrv_ctrl_dev_info`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct DeviceInfo {
    pub queues: u16,
    pub depth: u16,
    pub state: u16,
    pub pad0: u16,
    pub io_bytes_max: u32,
    pub number: u32,
    pub server_pid: i32,
    pub pad1: u32,
    pub flags: u64,
    /// The server's own mark, which the kernel keeps with the device.
    pub marker: u64,
    pub owner_uid: u32,
    pub owner_gid: u32,
    pub reserved: [u64; 2],
}

/// `struct ublksrv_ctrl_cmd`, in an entry's command area.
pub fn control_command(number: u32, address: u64, len_bytes: u16, data: u64) -> [u8; 80] {
    let mut command = [0; 80];
    command[0..4].copy_from_slice(&number.to_ne_bytes());
    // The command concerns no particular queue.
    command[4..6].copy_from_slice(&u16::MAX.to_ne_bytes());
    command[6..8].copy_from_slice(&len_bytes.to_ne_bytes());
    command[8..16].copy_from_slice(&address.to_ne_bytes());
    command[16..24].copy_from_slice(&data.to_ne_bytes());
    command
}

/// `struct ublksrv_io_cmd`.
pub fn io_command(queue: u16, tag: u16, result: i32, address: u64) -> [u8; 80] {
    let mut command = [0; 80];
    command[0..2].copy_from_slice(&queue.to_ne_bytes());
    command[2..4].copy_from_slice(&tag.to_ne_bytes());
    command[4..8].copy_from_slice(&result.to_ne_bytes());
    command[8..16].copy_from_slice(&address.to_ne_bytes());
    command
}

/// Length of [`parameters`].
pub const PARAMETERS_BYTES: usize = 64;
/// Most bytes of one discard or write-zeroes.
const ZEROES_BYTES_MAX: u32 = 1 << 30;

/// `struct ublk_params`: the properties of the device. It has a volatile cache with FUA, so that the kernel sends
/// flushes. Its logical blocks have 512 bytes, as with NBD; its physical blocks are those of the pool.
pub fn parameters(size_bytes: u64, io_bytes_max: u32, read_only: bool) -> [u8; PARAMETERS_BYTES] {
    let mut all = [0; PARAMETERS_BYTES];
    let mut put = |at: usize, bytes: &[u8]| all[at..at + bytes.len()].copy_from_slice(bytes);
    let attributes: u32 = u32::from(read_only) | 1 << 2 | 1 << 3;
    // Basic and discard parameters; without `devt`, which belongs to the kernel.
    put(0, &60u32.to_ne_bytes());
    put(4, &3u32.to_ne_bytes());
    put(8, &attributes.to_ne_bytes());
    // As shifts: logical and physical block, optimal and least I/O.
    put(12, &[9, 12, 12, 12]);
    put(16, &(io_bytes_max / 512).to_ne_bytes());
    put(24, &(size_bytes / 512).to_ne_bytes());
    // Discards: alignment, granularity, most sectors; then write-zeroes; then segments.
    put(44, &4096u32.to_ne_bytes());
    put(48, &(ZEROES_BYTES_MAX / 512).to_ne_bytes());
    put(52, &(ZEROES_BYTES_MAX / 512).to_ne_bytes());
    put(56, &1u16.to_ne_bytes());
    all
}

/// A parsed request of the kernel.
#[derive(Debug)]
pub struct Described {
    pub offset_bytes: u64,
    pub len_bytes: u64,
    pub op: Op,
    pub fua: bool,
    pub hints: Option<Box<HintParts>>,
}

/// Parses a descriptor, `struct ublksrv_io_desc`; `payload` copies the data of a write. `None` for a request that is
/// invalid or not supported, which is refused.
pub fn describe(
    descriptor: &[u8; DESCRIPTOR_BYTES],
    io_bytes_max: u32,
    payload: impl FnOnce(usize) -> Buf,
) -> Option<Described> {
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, ..] = *descriptor;
    let op_flags = u32::from_ne_bytes([a, b, c, d]);
    let sectors = u32::from_ne_bytes([e, f, g, h]);
    // A flush has no place: the kernel sets the sector to -1.
    let start = if op_flags & 0xff == 2 { 0 } else { u64::from_ne_bytes([i, j, k, l, m, n, o, p]) };
    let offset_bytes = start.checked_mul(512)?;
    let len_bytes = u64::from(sectors) * 512;
    let flag = |bit: u32| op_flags & 1 << bit != 0;
    let has_payload_room = len_bytes <= u64::from(io_bytes_max);
    // `UBLK_IO_OP_*` and `UBLK_IO_F_*`.
    let op = match op_flags & 0xff {
        0 if has_payload_room => Op::Read,
        1 if has_payload_room => Op::Write(payload(len_bytes as usize)),
        2 => Op::Flush,
        3 => Op::Discard,
        5 => Op::WriteZeroes { may_unmap: !flag(15) },
        _ => return None,
    };
    let (meta, swap) = (flag(11), flag(16));
    let hints = (matches!(op, Op::Write(_)) && (meta || swap)).then(|| {
        let hints = HostHints { meta: meta.then_some(true), swap: swap.then_some(true), ..HostHints::default() };
        let blocks = offset_bytes.saturating_add(len_bytes).div_ceil(4096) - offset_bytes / 4096;
        Box::new(HintParts::from_iter([HintPart { blocks, hints }]))
    });
    Some(Described { offset_bytes, len_bytes, op, fua: flag(13), hints })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn descriptor(op_flags: u32, sectors: u32, start: u64) -> [u8; DESCRIPTOR_BYTES] {
        let mut bytes = [0; DESCRIPTOR_BYTES];
        bytes[0..4].copy_from_slice(&op_flags.to_ne_bytes());
        bytes[4..8].copy_from_slice(&sectors.to_ne_bytes());
        bytes[8..16].copy_from_slice(&start.to_ne_bytes());
        bytes
    }

    #[test]
    fn commands_are_the_header_s() {
        // As printed by a C program that includes linux/ublk_cmd.h.
        assert_eq!((ADD_DEV, GET_DEV_INFO), (0xc020_7504, 0x8020_7502));
        assert_eq!((FETCH_REQ, COMMIT_AND_FETCH_REQ), (0xc010_7520, 0xc010_7521));
        assert_eq!(size_of::<DeviceInfo>(), 64);
    }

    #[test]
    fn flags_become_what_the_pool_knows() {
        let described = describe(&descriptor(1 | 1 << 11 | 1 << 13, 8, 16), 65536, Buf::new).unwrap();
        assert!(matches!(&described.op, Op::Write(data) if data.len() == 4096));
        assert!(described.fua && described.offset_bytes == 8192 && described.len_bytes == 4096);
        let hints = described.hints.unwrap();
        assert_eq!((hints[0].blocks, hints[0].hints.meta, hints[0].hints.swap), (1, Some(true), None));
        assert!(matches!(describe(&descriptor(2, 0, u64::MAX), 65536, Buf::new).unwrap().op, Op::Flush));
        let kept = describe(&descriptor(5 | 1 << 15, 8, 0), 65536, Buf::new).unwrap();
        assert!(matches!(kept.op, Op::WriteZeroes { may_unmap: false }));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for (op, sectors, start) in [(0, 129, 0), (1, 129, 0), (4, 8, 0), (15, 8, 0), (0, 8, u64::MAX)] {
            assert!(describe(&descriptor(op, sectors, start), 65536, Buf::new).is_none(), "{op} {sectors} {start}");
        }
    }

    proptest! {
        #[test]
        fn garbage_neither_panics_nor_asks_for_more_than_there_is_room(bytes: [u8; DESCRIPTOR_BYTES]) {
            let mut bytes = bytes;
            bytes[0] %= 8;
            let mut asked = 0;
            let described = describe(&bytes, 65536, |len| { asked = len; Buf::new(len) });
            prop_assert!(asked <= 65536);
            if let Some(described) = described { prop_assert!(described.len_bytes <= u64::from(u32::MAX) * 512); }
        }
    }
}
