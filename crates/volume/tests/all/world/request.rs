//! Requests for one block, and settings for all.

use forebay_block::DiskId;
use forebay_prism::{ClassChange, Compress};
use forebay_volume::{Engine, Op, Request};

/// A request for one block without a client.
pub fn block_request(token: u64, disk: DiskId, block: u64, op: Op) -> Request {
    Request::new(token, disk, block * 4096, 4096, op)
}

/// Compresses what is written to the capacity tier from now on.
pub fn compress_all(engine: &mut Engine, compress: Compress) {
    let names: Vec<String> = engine.prism().table().classes().iter().map(|class| class.name.clone()).collect();
    for name in names.iter().filter(|_| compress != Compress::Off) {
        let change = ClassChange { compress: Some(compress), ..ClassChange::default() };
        engine.prism_mut().table_mut().set(name, change).unwrap();
    }
}

/// Whether a sector of this number is to be zeros.
pub type Zeros<'a> = &'a dyn Fn(u64) -> bool;
