#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(
    init: {
        // The reader catches the decoder's panics and makes errors of them; here libfuzzer's hook would end the process
        // before that. Panics that are not caught still do.
        std::panic::set_hook(Box::new(|_| {}));
    },
    |input: &[u8]| forebay_hostile::run("trace_parquet", input)
);
