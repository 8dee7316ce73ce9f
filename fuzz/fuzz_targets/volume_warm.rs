#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| forebay_hostile::run("volume_warm", input));
