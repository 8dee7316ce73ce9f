//! Requests for one block.

use forebay_block::DiskId;
use forebay_volume::{Op, Request};

/// A request for one block, by nobody in particular.
pub fn block_request(token: u64, disk: DiskId, block: u64, op: Op) -> Request {
    Request {
        token,
        disk,
        offset_bytes: block * 4096,
        len_bytes: 4096,
        op,
        fua: false,
        export: 0,
        tag: None,
        hints: None,
    }
}
