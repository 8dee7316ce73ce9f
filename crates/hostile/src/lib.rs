//! Parsers of untrusted bytes, with one entry for each kind of input: the fuzzer (`fuzz/`) finds inputs, and a test
//! here runs these inputs and small changes of them.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "an input that gets so far is what is looked for")]

mod nbd_session;
mod pool;
mod trace_any;
mod trace_blktrace;
mod trace_parquet;
mod trace_record;
mod trace_text;
mod vhost_inflight;
mod vhost_request;
mod volume_batch;
mod volume_capacity;
mod volume_label;
mod volume_page;
mod volume_root;
mod volume_summary;
mod volume_superblock;
mod volume_warm;

/// A function that parses bytes of one kind.
type Run = fn(&[u8]);

/// The function of each kind, by the name of its folder in `fuzz/corpus`.
pub const KINDS: [(&str, Run); 16] = [
    ("nbd_session", nbd_session::run),
    ("trace_any", trace_any::run),
    ("trace_blktrace", trace_blktrace::run),
    ("trace_parquet", trace_parquet::run),
    ("trace_record", trace_record::run),
    ("trace_text", trace_text::run),
    ("vhost_inflight", vhost_inflight::run),
    ("vhost_request", vhost_request::run),
    ("volume_batch", volume_batch::run),
    ("volume_capacity", volume_capacity::run),
    ("volume_label", volume_label::run),
    ("volume_page", volume_page::run),
    ("volume_root", volume_root::run),
    ("volume_summary", volume_summary::run),
    ("volume_superblock", volume_superblock::run),
    ("volume_warm", volume_warm::run),
];

/// Parses `input` as an input of this kind.
///
/// # Panics
/// There is no such kind, or the input shows a fault.
pub fn run(kind: &str, input: &[u8]) {
    let (_, run) = KINDS.iter().find(|(name, _)| *name == kind).expect("no such kind");
    run(input);
}
