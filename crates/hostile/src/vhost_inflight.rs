//! A hostile note of what is in flight, which the machine of a vhost-user-blk device keeps.
//!
//! Input: the index of the used ring, two bytes, then the note: two queues of 8 entries, as `vhost/inflight.rs` lays them out.

use forebay_export::vhost::hostile::recover_inflight;

pub(crate) fn run(input: &[u8]) {
    let _ = recover_inflight(input);
}
