//! A hostile Parquet file for the reader of traces.

use forebay_trace::format::parquet::ParquetTrace;
use forebay_trace::{Names, Source};
use std::path::PathBuf;
use std::sync::LazyLock;

/// Most requests read from a packed input: more of them show nothing new.
const REQUESTS_MAX: usize = 1 << 17;

/// The file is read at random offsets, so that it needs a name, which is specific to this process. `fuzz/run` sets a
/// folder in memory, and removes it.
static PATH: LazyLock<PathBuf> =
    LazyLock::new(|| std::env::temp_dir().join(format!("forebay-fuzz-{}.parquet", std::process::id())));

pub(crate) fn run(input: &[u8]) {
    std::fs::write(&*PATH, input).expect("no room for the input");
    let Ok(mut source) = ParquetTrace::open(&PATH) else {
        return;
    };
    let (mut batch, mut names, mut count) = (Vec::new(), Names::default(), 0);
    while let Ok(true) = source.read(&mut batch, &mut names) {
        count += batch.len();
        for request in batch.drain(..) {
            assert!(request.offset_bytes.checked_add(request.len_bytes).is_some());
            assert!((request.volume as usize) < names.volumes.count());
            assert!((request.process as usize) < names.processes.count());
            assert!((request.path as usize) < names.paths.count());
        }
        if count > REQUESTS_MAX {
            return;
        }
    }
}
