//! A hostile blktrace file for the reader, whose result goes to the writer.

use forebay_trace::Names;
use forebay_trace::format::{BlktraceWriter, Format, from_reader};
use std::io::Cursor;
use std::path::Path;

pub(crate) fn run(input: &[u8]) {
    let Ok(mut source) = from_reader(Cursor::new(input.to_vec()), Path::new("input"), Some(Format::Blktrace)) else {
        return;
    };
    let (mut requests, mut names) = (Vec::new(), Names::default());
    while let Ok(true) = source.read(&mut requests, &mut names) {}
    for request in &requests {
        assert!(request.offset_bytes.checked_add(request.len_bytes).is_some());
    }
    let mut writer = BlktraceWriter::new(Vec::new());
    assert!(writer.write(&requests, &names).is_ok());
    assert!(writer.finish().is_ok());
}
