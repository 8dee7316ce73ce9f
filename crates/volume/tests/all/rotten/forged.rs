//! A map with impossible places and correct checksums: nothing is read there, and no data is made up.

use super::rig::Rig;
use crate::mirror::disk::Disk;
use crate::world::request::compress_all;
use forebay_block::DiskId;
use forebay_prism::Compress;
use forebay_volume::layout::page::{self, Entry, LEAF_ENTRIES, PageName, Span};
use forebay_volume::layout::root::{Root, RootBounds, RootHeader};
use forebay_volume::layout::root_blob;
use forebay_volume::layout::superblock::Superblock;
use forebay_volume::{Op, RequestError};

const BLOCK: usize = 4096;

/// Changes the map entry of a block of the first disk, with correct checksums up to the newest root.
fn forge_entry(fast: &Disk, block: u64, change: impl FnOnce(Entry) -> Entry) {
    let mut inner = fast.bytes();
    let bytes = &mut inner.bytes[..];
    let superblock = Superblock::decode(&bytes[..BLOCK]).unwrap();
    let read = |bytes: &[u8], area: u64| {
        let header = RootHeader::decode(&bytes[area as usize..][..BLOCK], &superblock.pool)?;
        let blob = &bytes[area as usize + BLOCK..][..header.blob_len_bytes as usize];
        Some((area, header, root_blob::decode(blob, &RootBounds::of(&superblock)).ok()?))
    };
    let roots = superblock.root_offsets_bytes.into_iter().filter_map(|area| read(bytes, area));
    let (area, header, mut root) = roots.max_by_key(|(_, header, _)| header.checkpoint).unwrap();
    let disk = DiskId(root.disks[0].id);
    let (number, in_root) = &mut root.disks[0].pages[0];
    let name = PageName { disk, number: u64::from(*number), generation: in_root.generation };
    let places = || (0..=bytes.len() - BLOCK).step_by(512);
    let mut indexes =
        places().filter_map(|at| Some((at, page::decode_index(&bytes[at..at + BLOCK], name, in_root.crc)?)));
    let (index_at, mut references) = indexes.next().unwrap();
    let leaf = block as usize / LEAF_ENTRIES;
    let of_leaf = &mut references[leaf];
    let leaf_name = PageName { disk, number: leaf as u64, generation: of_leaf.generation };
    let leaf_at = places().find(|&at| page::is_leaf(&bytes[at..at + BLOCK], leaf_name, of_leaf.crc)).unwrap();
    let content = &mut bytes[leaf_at..leaf_at + BLOCK];
    let (entry, checksum) = page::leaf_entry(content, block as usize % LEAF_ENTRIES);
    page::set_leaf_entry(content, block as usize % LEAF_ENTRIES, change(entry), checksum);
    of_leaf.crc = page::seal_leaf(content, leaf_name);
    in_root.crc = page::encode_index(name, references.into_iter(), &mut bytes[index_at..index_at + BLOCK]);
    let blob = root_blob::encode(&root);
    let of_old = (header.epoch, header.opening);
    let header = Root::header(&blob, header.checkpoint, of_old, header.counts_due).encode(&superblock.pool);
    let mut put = |at: u64, what: &[u8]| bytes[at as usize..at as usize + what.len()].copy_from_slice(what);
    put(area + BLOCK as u64, &blob);
    put(area, &header);
    put(area + superblock.root_len_bytes - BLOCK as u64, &header);
}

/// A compressed block of which the map says that it lies beyond the pool could not be read there, and was taken for one that the reading before had given right:
/// the read was good, with bytes that nobody had written.
#[test]
fn regression_a_compressed_block_that_lies_nowhere_is_never_right() {
    let rig = Rig::new("2+1", 1);
    let mut served = rig.open();
    compress_all(&mut served.pool.engine, Compress::Lz4);
    (0..600).step_by(10).for_each(|block| served.write_run(block, 10));
    let model = served.close();
    forge_entry(&rig.fast[0], 7, |entry| match entry {
        Entry::Data { span, class } if !span.is_whole() => {
            Entry::Data { span: Span { location: span.location | 1 << 37, ..span }, class }
        }
        other => panic!("not compressed: {other:?}"),
    });
    let mut served = rig.open();
    served.model = model;
    let is_damaged = |served: &mut super::rig::Served| match served.ask(7, Op::Read) {
        Err(RequestError::Damaged { offset_bytes, .. }) => assert_eq!(offset_bytes, 7 * BLOCK as u64),
        other => panic!("{other:?}"),
    };
    is_damaged(&mut served);
    // Whatever lies beside it is read.
    served.model.remove(&7);
    served.check();
    is_damaged(&mut served);
    served.write(7);
    served.check();
}
