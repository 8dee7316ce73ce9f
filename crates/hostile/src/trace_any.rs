//! A hostile file of unknown format: detection, unpacking, the binary formats.

use forebay_trace::Names;
use forebay_trace::format::from_reader;
use std::io::Cursor;
use std::path::Path;

/// Most requests read from a packed input: more of them show nothing new.
const REQUESTS_MAX: usize = 1 << 18;

pub(crate) fn run(input: &[u8]) {
    let Ok(mut source) = from_reader(Cursor::new(input.to_vec()), Path::new("input"), None) else {
        return;
    };
    let (mut batch, mut names, mut count) = (Vec::new(), Names::default(), 0);
    while let Ok(true) = source.read(&mut batch, &mut names) {
        count += batch.len();
        for request in batch.drain(..) {
            assert!(request.offset_bytes.checked_add(request.len_bytes).is_some());
        }
        if count > REQUESTS_MAX {
            return;
        }
    }
}
