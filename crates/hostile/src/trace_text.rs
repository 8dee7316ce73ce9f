//! A hostile text for the reader of one of the formats.
//!
//! Input: one byte that selects the format, then the text.

use forebay_trace::Names;
use forebay_trace::format::{FioLogVersion, FioLogWriter, Format, from_reader};
use std::io::Cursor;
use std::path::Path;

const FORMATS: [Format; 11] = [
    Format::Msr,
    Format::Alibaba,
    Format::Tencent,
    Format::Systor,
    Format::Spc,
    Format::DiskSim,
    Format::FioLog,
    Format::Biosnoop,
    Format::Iotrace,
    Format::Blkparse,
    Format::Csv,
];

pub(crate) fn run(input: &[u8]) {
    let Some((&pick, text)) = input.split_first() else {
        return;
    };
    let format = FORMATS[usize::from(pick) % FORMATS.len()];
    let Ok(mut source) = from_reader(Cursor::new(text.to_vec()), Path::new("input"), Some(format)) else {
        return;
    };
    let (mut requests, mut names) = (Vec::new(), Names::default());
    while let Ok(true) = source.read(&mut requests, &mut names) {}
    for request in &requests {
        assert!(request.offset_bytes.checked_add(request.len_bytes).is_some());
        assert!((request.volume as usize) < names.volumes.count());
    }
    let faults = source.faults();
    assert!(faults.by_line && faults.first.len() as u64 <= faults.count);
    let mut writer = FioLogWriter::new(Vec::new(), FioLogVersion::V3);
    assert!(writer.write(&requests[..requests.len().min(64)], &names).is_ok());
    assert!(writer.finish().is_ok());
}
