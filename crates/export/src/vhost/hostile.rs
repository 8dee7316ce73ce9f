//! Entries for guest-written bytes: for the fuzzer, and for a test that runs what it found.

use super::chain::{len_bytes, read_chain};
use super::device::PAYLOAD_BYTES_MAX;
use super::inflight::{Inflight, Left};
use super::request::{Asked, Parsed, Status, parse};
use forebay_volume::Op;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::fs::File;
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

/// Size of the guest's memory, which begins with the input; the rest is zero.
const MEMORY_BYTES: usize = 0x1_0000;
const ENTRIES: u16 = 8;

/// Parses and answers a request whose chain begins at the first descriptor of a table at address 0. Returns how many
/// bytes it concerns; `None` where it concerns none.
/// # Panics
/// The request concerns more than was offered, or the answer is longer than its room.
#[must_use]
pub fn read_request(input: &[u8]) -> Option<u64> {
    let memory = GuestMemoryMmap::<()>::from_ranges(&[(GuestAddress(0), MEMORY_BYTES)]).ok()?;
    memory.write_slice(&input[..input.len().min(MEMORY_BYTES)], GuestAddress(0)).ok()?;
    let Parsed { asked, answer } = parse(&memory, read_chain(&memory, 0, ENTRIES, 0).ok()?).ok()?;
    let room_bytes = len_bytes(&answer.data);
    let (asked_bytes, data_bytes) = match asked {
        Asked::Of { len_bytes, op: Op::Read, .. } => (Some(len_bytes), len_bytes),
        Asked::Of { len_bytes, op: Op::Write(data), .. } => {
            assert_eq!(data.len() as u64, len_bytes);
            (Some(len_bytes), 0)
        }
        Asked::Of { len_bytes, .. } => return answer.write(&memory, &[], Status::Ok).ok().map(|_| len_bytes),
        Asked::Id | Asked::Refused(_) => (None, 0),
    };
    assert!(asked_bytes.is_none_or(|bytes| bytes <= PAYLOAD_BYTES_MAX) && data_bytes <= room_bytes);
    answer.write(&memory, &vec![7; data_bytes as usize], Status::Ok).ok()?;
    asked_bytes
}

/// Recovers from inflight memory of two queues after a server's death, and continues with it. Returns how many heads
/// are submitted again.
///
/// # Panics
/// A head is submitted twice or is invalid; or a second recovery has another result.
#[must_use]
pub fn recover_inflight(input: &[u8]) -> Option<usize> {
    let (used_index, note) = input.split_first_chunk().map(|(index, note)| (u16::from_le_bytes(*index), note))?;
    let file = File::from(memfd_create("hostile", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).ok()?);
    ftruncate(&file, MEMORY_BYTES as u64).ok()?;
    std::os::unix::fs::FileExt::write_all_at(&file, &note[..note.len().min(MEMORY_BYTES)], 0).ok()?;
    let inflight = Inflight::open(file, 0, MEMORY_BYTES as u64, 2, ENTRIES).ok()?;
    let found = (0..2).map(|queue| {
        // In inflight memory that was never initialised nothing is in flight, whatever else it holds.
        let first = inflight.recover(queue, ENTRIES, used_index);
        let second = inflight.recover(queue, ENTRIES, used_index);
        assert!(first == second || first == Left::default(), "{first:?}, {second:?}");
        let heads = second.heads;
        let mut seen = heads.clone();
        seen.sort_unstable();
        seen.dedup();
        assert!(seen.len() == heads.len() && heads.iter().all(|&head| head < ENTRIES), "{heads:?}");
        for &head in &heads {
            inflight.before_used(queue, head);
            inflight.after_used(queue, head, used_index);
        }
        assert_eq!(inflight.recover(queue, ENTRIES, used_index).heads, Vec::<u16>::new());
        heads.len()
    });
    Some(found.sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    macro_rules! corpus {
        ($name:literal) => {
            include_bytes!(concat!("../../../../fuzz/corpus/vhost_", $name))
        };
    }

    #[test]
    fn inputs_of_the_fuzzer_reach_what_they_are_for() {
        assert_eq!(read_request(corpus!("request/read")), Some(1024));
        assert_eq!(read_request(corpus!("request/write")), Some(512));
        assert_eq!(read_request(corpus!("request/indirect")), Some(512));
        assert_eq!(read_request(corpus!("request/in_one_piece")), Some(512));
        assert_eq!(read_request(corpus!("request/zeroes")), Some(4096));
        assert_eq!(read_request(corpus!("request/loop")), None);
        // One of the three requests has reached the used ring.
        assert_eq!(recover_inflight(corpus!("inflight/three")), Some(2));
        assert_eq!(recover_inflight(corpus!("inflight/fresh")), Some(0));
    }

    proptest! {
        #[test]
        fn what_is_like_them_is_survived(
            changes in proptest::collection::vec((0..400usize, any::<u8>()), 0..6),
            which in 0..4usize,
        ) {
            let inputs: [&[u8]; 4] =
                [corpus!("request/read"), corpus!("request/indirect"), corpus!("inflight/three"), corpus!("inflight/both")];
            let mut input = inputs[which].to_vec();
            for (at, byte) in changes {
                let at = at % input.len();
                input[at] = byte;
            }
            let _ = (read_request(&input), recover_inflight(&input));
        }
    }
}
