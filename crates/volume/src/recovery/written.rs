//! Whether the data of a record reached the device: recovery looks at each block whose batch is not known to be durable.

use super::report::RecoveryReport;
use super::survey::Survey;
use crate::engine::Setup;
use crate::io::Devices;
use crate::layout::record::Record;
use forebay_block::checksum::block_checksum;
use forebay_block::{Buf, DiskId, Op, Vectored};

/// Reads the data of these records, in parallel: one by one, each would cost a latency of the device. `None` where a
/// record has none, and where it cannot be read.
pub(super) fn read_data(devices: &mut Devices, setup: &Setup, records: &[(u64, Record)]) -> Vec<Option<Buf>> {
    let mut data: Vec<Option<Buf>> = records.iter().map(|_| None).collect();
    let (mut reads, mut wanted) = (Vec::new(), Vec::new());
    for (i, (_, record)) in records.iter().enumerate() {
        if let Some((location, blocks)) = record.data()
            && let Some((device, offset_bytes)) = setup.extents.place(location)
        {
            reads.push((device, offset_bytes, Op::Read { bufs: Vectored::One(Buf::new(blocks * 4096)) }));
            wanted.push((i, (device, offset_bytes, blocks * 4096)));
        }
    }
    for ((i, (device, offset_bytes, len_bytes)), completion) in wanted.into_iter().zip(devices.run(reads)) {
        data[i] = match (completion.result, completion.bufs) {
            (Ok(()), Some(Vectored::One(buf))) => Some(buf),
            // What is decided here is for good: one failed read is not enough.
            _ => devices.read(device, offset_bytes, len_bytes).ok(),
        };
    }
    data
}

/// Which blocks of a record have their data on the device; empty where there is nothing to verify. Data that cannot be
/// read at all is kept: a device that fails to read says nothing of whether the write arrived, and reads of it failing
/// is better than an older version in silence.
///
/// A block that was moved on is kept even where its place was reused since: the move, whose data was durable before it
/// was recorded, applies only while the map names its source.
pub(super) fn verified(
    devices: &mut Devices,
    setup: &Setup,
    survey: &Survey,
    (record, sequence): (&Record, u64),
    data: Option<Buf>,
    report: &mut RecoveryReport,
) -> Vec<bool> {
    let location = record.data().map_or(0, |(location, _)| location);
    let names: Vec<(DiskId, u64, u32)> = match record {
        Record::Write { disk, block, checksums, .. } => {
            checksums.iter().enumerate().map(|(i, &crc)| (*disk, block + i as u64, crc)).collect()
        }
        Record::Move { moved, .. } => moved.iter().map(|m| (m.disk, m.block, m.checksum)).collect(),
        _ => return Vec::new(),
    };
    let ignored = setup.options.faults.checksums_ignored();
    let is_block = |(disk, block, crc): (DiskId, u64, u32), bytes: &[u8]| block_checksum(disk, block, bytes) == crc;
    let mut keep = vec![true; names.len()];
    if data.is_none() {
        // One sector that cannot be read says nothing of the other blocks.
        for (i, keep) in keep.iter_mut().enumerate() {
            let (disk, block, crc) = names[i];
            let at = location + 8 * i as u64;
            *keep = ignored
                || survey.was_moved_on(at, disk, block, crc, sequence)
                || read_block(devices, setup, at).is_none_or(|bytes| is_block(names[i], &bytes));
        }
    }
    for (i, bytes) in data.iter().flat_map(|data| data.chunks_exact(4096)).enumerate().take(names.len()) {
        let (disk, block, crc) = names[i];
        let at = location + 8 * i as u64;
        keep[i] = ignored
            || is_block(names[i], bytes)
            || survey.was_moved_on(at, disk, block, crc, sequence)
            || read_block(devices, setup, at).is_some_and(|again| is_block(names[i], &again));
    }
    report.dropped_blocks += keep.iter().filter(|&&kept| !kept).count() as u64;
    keep
}

/// One block; `None` where it cannot be read.
fn read_block(devices: &mut Devices, setup: &Setup, location: u64) -> Option<Buf> {
    let (device, offset_bytes) = setup.extents.place(location)?;
    devices.read(device, offset_bytes, 4096).ok()
}
