//! A record of the requests in flight, in memory that the client keeps: after a server's death, the next server finds
//! these requests there and serves them again (QEMU's docs/interop/vhost-user.rst, "Inflight I/O tracking"; the
//! layout is that of `QueueRegionSplit`).
//!
//! The client can write to this memory, too: the server takes its content only as a hint which heads to read again.

use super::device::{QUEUE_SIZE_MAX, QUEUES_MAX};
use super::memory::{Mapped, MemoryError, Pages, map_sealed};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::io::Errno;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap, GuestRegionMmap};

/// Length of the header of a queue's part.
const HEADER_BYTES: u64 = 16;
const VERSION_AT: u64 = 8;
const ENTRIES_AT: u64 = 10;
const LAST_BATCH_AT: u64 = 12;
const USED_AT: u64 = 14;
/// Length of an entry. Each descriptor has one entry: whether it is in flight, the descriptor before it in the batch,
/// and a counter for the order of arrival.
const ENTRY_BYTES: u64 = 16;
const NEXT_AT: u64 = 6;
const COUNTER_AT: u64 = 8;
/// The part of each queue begins at a multiple of this.
const ALIGNMENT_BYTES: u64 = 64;

/// Length of a queue's part for `entries` descriptors.
fn part_bytes(entries: u16) -> u64 {
    (HEADER_BYTES + u64::from(entries) * ENTRY_BYTES).next_multiple_of(ALIGNMENT_BYTES)
}

/// Creates the memory, which the client keeps; returns its file and its length. `None` for a number of queues or
/// entries that the device does not offer.
pub fn create(queues: u16, entries: u16) -> Option<Result<(File, u64), Errno>> {
    if queues == 0 || usize::from(queues) > QUEUES_MAX || entries == 0 || entries > QUEUE_SIZE_MAX {
        return None;
    }
    let len_bytes = part_bytes(entries) * u64::from(queues);
    let make = || {
        let fd = memfd_create("forebay-inflight", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&fd, len_bytes)?;
        fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok((File::from(fd), len_bytes))
    };
    Some(make())
}

/// The record of all queues, mapped.
#[derive(Clone, Debug)]
pub struct Inflight {
    map: GuestMemoryMmap,
    /// Declared last, so that the pages are dropped after the mapping that refers to them.
    _pages: Arc<Pages>,
    queues: u16,
    entries: u16,
}

/// What the previous server left in a queue's record.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// Heads in flight, in the order of their arrival.
    pub heads: Vec<u16>,
    /// Counter for the next request.
    pub counter: u64,
}

impl Inflight {
    /// Maps a record that the client has kept.
    pub fn open(file: File, offset_bytes: u64, len_bytes: u64, queues: u16, entries: u16) -> Result<Self, MemoryError> {
        let fits = usize::from(queues) <= QUEUES_MAX && (1..=QUEUE_SIZE_MAX).contains(&entries);
        let needed_bytes = part_bytes(entries) * u64::from(queues);
        if !fits || queues == 0 || needed_bytes > len_bytes {
            return Err(MemoryError::Layout);
        }
        let Mapped { region, pages } = map_sealed(file, offset_bytes, needed_bytes)?;
        let mapping = GuestRegionMmap::new(region, GuestAddress(0)).ok_or(MemoryError::Layout)?;
        let map = GuestMemoryMmap::from_regions(vec![mapping]).map_err(|_| MemoryError::Layout)?;
        Ok(Self { map, _pages: pages, queues, entries })
    }

    /// Whether the record has room for a queue of this size.
    pub fn covers(&self, queue: usize, size: u16) -> bool {
        queue < usize::from(self.queues) && size <= self.entries
    }

    fn part(&self, queue: usize) -> u64 {
        part_bytes(self.entries) * queue as u64
    }

    fn entry(&self, queue: usize, head: u16) -> u64 {
        self.part(queue) + HEADER_BYTES + u64::from(head) * ENTRY_BYTES
    }

    // Stores within the mapping: they cannot fail for queues that `covers` accepts.
    fn put16(&self, at: u64, value: u16) {
        let _ = self.map.store(value, GuestAddress(at), Ordering::Release);
    }

    fn get16(&self, at: u64) -> u16 {
        self.map.load(GuestAddress(at), Ordering::Acquire).unwrap_or(0)
    }

    fn set_in_flight(&self, queue: usize, head: u16, is_in_flight: bool) {
        let _ = self.map.store(u8::from(is_in_flight), GuestAddress(self.entry(queue, head)), Ordering::Release);
    }

    /// Records that a request was taken from the ring.
    pub fn begin(&self, queue: usize, head: u16, counter: u64) {
        let _ = self.map.store(counter, GuestAddress(self.entry(queue, head) + COUNTER_AT), Ordering::Release);
        self.set_in_flight(queue, head, true);
    }

    /// Records that the request is about to be put into the used ring.
    pub fn before_used(&self, queue: usize, head: u16) {
        let last_at = self.part(queue) + LAST_BATCH_AT;
        self.put16(self.entry(queue, head) + NEXT_AT, self.get16(last_at));
        self.put16(last_at, head);
    }

    /// Records that the request is in the used ring.
    pub fn after_used(&self, queue: usize, head: u16, used_index: u16) {
        self.set_in_flight(queue, head, false);
        self.put16(self.part(queue) + USED_AT, used_index);
    }

    /// Reads what the previous server has left of a queue of this size; initializes the record if it is new.
    pub fn recover(&self, queue: usize, size: u16, used_index: u16) -> Left {
        let part = self.part(queue);
        if self.get16(part + VERSION_AT) == 0 {
            self.put16(part + ENTRIES_AT, size);
            self.put16(part + USED_AT, used_index);
            self.put16(part + VERSION_AT, 1);
            return Left::default();
        }
        // Requests of the last batch may still be marked as in flight, although they are in the used ring.
        let mut batch = used_index.wrapping_sub(self.get16(part + USED_AT)).min(size);
        let mut head = self.get16(part + LAST_BATCH_AT);
        while batch > 0 && head < size {
            self.set_in_flight(queue, head, false);
            head = self.get16(self.entry(queue, head) + NEXT_AT);
            batch -= 1;
        }
        self.put16(part + USED_AT, used_index);
        let mut found = Vec::new();
        for head in 0..size {
            let entry = self.entry(queue, head);
            if self.map.load::<u8>(GuestAddress(entry), Ordering::Acquire).unwrap_or(0) != 0 {
                let counter: u64 = self.map.load(GuestAddress(entry + COUNTER_AT), Ordering::Acquire).unwrap_or(0);
                found.push((counter, head));
            }
        }
        found.sort_unstable();
        let counter = found.last().map_or(0, |(counter, _)| counter.wrapping_add(1));
        Left { heads: found.into_iter().map(|(_, head)| head).collect(), counter }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(file: &File, len_bytes: u64) -> Inflight {
        Inflight::open(file.try_clone().unwrap(), 0, len_bytes, 2, 8).unwrap()
    }

    #[test]
    fn what_was_in_flight_comes_back_in_order() {
        let (file, len_bytes) = create(2, 8).unwrap().unwrap();
        let before = opened(&file, len_bytes);
        assert_eq!(before.recover(1, 8, 100), Left::default());
        for (counter, head) in [(0, 5), (1, 2), (2, 7)] {
            before.begin(1, head, counter);
        }
        // One request completed, and another had reached the used ring when the server died.
        before.before_used(1, 2);
        before.after_used(1, 2, 101);
        before.begin(1, 3, 3);
        before.before_used(1, 5);
        drop(before);
        let after = opened(&file, len_bytes);
        assert_eq!(after.recover(0, 8, 0), Left::default());
        assert_eq!(after.recover(1, 8, 102), Left { heads: vec![7, 3], counter: 4 });
        assert_eq!(after.recover(1, 8, 102), Left { heads: vec![7, 3], counter: 4 });
    }

    #[test]
    fn it_was_not_yet_in_the_used_ring() {
        let (file, len_bytes) = create(2, 8).unwrap().unwrap();
        let before = opened(&file, len_bytes);
        before.recover(0, 8, 0);
        before.begin(0, 4, 9);
        before.before_used(0, 4);
        assert_eq!(opened(&file, len_bytes).recover(0, 8, 0), Left { heads: vec![4], counter: 10 });
    }

    #[test]
    fn memory_of_another_shape_is_refused() {
        assert!(create(17, 8).is_none() && create(0, 8).is_none() && create(1, 2048).is_none());
        let (file, len_bytes) = create(1, 8).unwrap().unwrap();
        assert!(Inflight::open(file.try_clone().unwrap(), 0, len_bytes, 2, 8).is_err());
        assert!(Inflight::open(file.try_clone().unwrap(), 0, len_bytes * 2, 2, 8).is_err());
        assert!(rustix::fs::ftruncate(&file, 0).is_err());
    }

    #[test]
    fn no_more_is_mapped_than_there_is_to_note() {
        let file = memfd_create("long", MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&file, 1 << 40).unwrap();
        let inflight = Inflight::open(File::from(file), 0, 1 << 40, 2, 8).unwrap();
        assert!(inflight.map.load::<u8>(GuestAddress(part_bytes(8) * 2 - 1), Ordering::Acquire).is_ok());
        assert!(inflight.map.load::<u8>(GuestAddress(part_bytes(8) * 2), Ordering::Acquire).is_err());
    }

    #[test]
    fn garbage_neither_panics_nor_loops() {
        let (file, len_bytes) = create(2, 8).unwrap().unwrap();
        let inflight = opened(&file, len_bytes);
        for at in 0..len_bytes {
            inflight.map.write_obj(0xffu8, GuestAddress(at)).unwrap();
        }
        assert!(inflight.recover(0, 8, 7).heads.len() <= 8);
    }
}
