//! A hostile record of requests in flight, which the machine of a vhost-user-blk device keeps.
//!
//! Input: the index of the used ring, two bytes, then the record: two queues of 8 entries, in the layout of
//! `vhost/inflight.rs`.

use forebay_export::vhost::hostile::recover_inflight;

pub(crate) fn run(input: &[u8]) {
    let _ = recover_inflight(input);
}
