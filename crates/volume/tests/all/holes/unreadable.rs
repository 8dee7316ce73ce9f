//! Sectors of the fast device that cannot be read when the pool is opened: what else says the same is believed, and nothing is guessed.

use super::device::{Kind, Region, Scripted};
use super::rig::{FAST, Rig, Setup, failed, superblock};
use forebay_volume::layout::superblock::Superblock;

const SECTOR_BYTES: u64 = 512;

/// A pool after a power cut, with batches in its journal, and a watermark.
fn cut() -> Vec<Scripted> {
    let mut rig = Rig::new(&Setup::default());
    (0..40).for_each(|block| rig.put(block, 1, None));
    rig.checkpoint();
    (0..40).for_each(|block| rig.put(block, 2, None));
    rig.flush();
    rig.pass_ms(2000);
    rig.polls(10);
    rig.cut(|_| true)
}

/// Opens such a pool where this byte of the fast device cannot be read.
#[track_caller]
fn opens(place: impl Fn(&Superblock, &[Scripted]) -> u64) -> bool {
    let devices = cut();
    let at = place(&superblock(&devices), &devices);
    devices[FAST].rule(move |seen| failed(seen.kind == Kind::Read && seen.region != Region::Slots && seen.covers(at)));
    match Rig::open(&Setup::default(), devices) {
        Ok(mut rig) => {
            assert!((0..40).all(|block| rig.get(block) == Ok(2)), "old data");
            true
        }
        Err(error) => {
            assert!(error.to_string().contains("read"), "{error}");
            false
        }
    }
}

/// Where the last batch of the journal ends, on the device.
fn journal_end(superblock: &Superblock, devices: &[Scripted]) -> u64 {
    let (start, len) = (superblock.journal_offset_bytes, superblock.journal_len_bytes);
    let used = devices[FAST].bytes(|bytes| {
        let journal = &bytes[start as usize..(start + len) as usize];
        journal.chunks(SECTOR_BYTES as usize).rposition(|sector| sector.iter().any(|&byte| byte != 0)).unwrap()
    });
    start + (used as u64 + 1) * SECTOR_BYTES
}

/// One unreadable sector refused the opening where it was in a place that is there twice.
#[test]
fn regression_one_unreadable_copy_of_a_header_or_a_watermark_refuses_nothing() {
    for area in 0..2 {
        assert!(opens(|superblock, _| superblock.root_offsets_bytes[area]), "header of area {area}");
        let last = |superblock: &Superblock, _: &[Scripted]| {
            superblock.root_offsets_bytes[area] + superblock.root_len_bytes - 4096
        };
        opens(last);
    }
    for offset_bytes in forebay_volume::layout::watermark::OFFSETS_BYTES {
        assert!(opens(|_, _| offset_bytes), "watermark at {offset_bytes}");
    }
}

/// The journal's window was to be readable whole, also where nothing that counts can be.
#[test]
fn regression_an_unreadable_sector_beyond_the_journals_end_refuses_nothing() {
    for sectors in [1, 5, 100] {
        assert!(opens(|superblock, devices| journal_end(superblock, devices) + sectors * SECTOR_BYTES), "{sectors}");
    }
}

/// There the next batch may have been, and been durable.
#[test]
fn an_unreadable_sector_at_the_journals_end_is_no_end() {
    assert!(!opens(journal_end));
    assert!(!opens(|superblock, devices| journal_end(superblock, devices) - SECTOR_BYTES), "the last batch");
}
