//! A hostile Parquet file against the reader of traces.

#![no_main]

use forebay_trace::format::parquet::ParquetTrace;
use forebay_trace::{Names, Source};
use libfuzzer_sys::fuzz_target;
use std::path::PathBuf;
use std::sync::LazyLock;

/// What a packed input may become: more is the same again.
const REQUESTS_MAX: usize = 1 << 17;

/// The file is read at places, so it has a name, which is this process's. `fuzz/run` sets a folder in memory, and removes it.
static PATH: LazyLock<PathBuf> =
    LazyLock::new(|| std::env::temp_dir().join(format!("forebay-fuzz-{}.parquet", std::process::id())));

fuzz_target!(
    init: {
        // The reader catches the decoder's panics and makes errors of them; here libfuzzer's hook would end the process
        // before that. Panics that are not caught still do.
        std::panic::set_hook(Box::new(|_| {}));
    },
    |input: &[u8]| {
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
);
