//! A hostile guest's request of a virtio block device.
//!
//! Input: the beginning of the guest's memory, 64 KiB. A table of 8 descriptors is at address 0; the chain begins at
//! its first.

use forebay_export::vhost::hostile::read_request;

pub(crate) fn run(input: &[u8]) {
    let _ = read_request(input);
}
