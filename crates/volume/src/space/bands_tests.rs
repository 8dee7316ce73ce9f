//! What is granted to which stream.

use super::*;
use crate::layout::band_summary::PAGE_ENTRIES;
use crate::layout::superblock::{Member, Role};
use forebay_block::{ClassId, DiskId};

const BANDS: u32 = 64;
const BAND_BYTES: u64 = 64 << 10;

fn member(role: Role, first_sector: u64, sectors: u64) -> Member {
    Member { id: [1; 16], role, first_sector, sectors, size_bytes: 1 << 30, data_offset_bytes: 0 }
}

fn bands() -> Bands {
    let of_bands = u64::from(BANDS) * BAND_BYTES / 512;
    let extents = Extents::new(&[member(Role::Fast, 0, 800), member(Role::Capacity, 800, of_bands)], BAND_BYTES);
    Bands::new(Vec::new(), Vec::new(), 0, BAND_BYTES, &extents)
}

fn stream(is_collected: bool, group: u8) -> Stream {
    Stream { is_collected, group, class: ClassId(0) }
}

/// Takes everything that one kind gets, a block at a time, over several groups.
fn take_all(bands: &mut Bands, is_collected: bool) -> u64 {
    (0u64..).take_while(|at| bands.grant(stream(is_collected, (at % 5) as u8), Wanted::Whole(1)).is_some()).count()
        as u64
}

/// Several bands were collected at once while hosts wrote. Hosts could open the bands that the collections counted on: each collection moved a part of
/// its band, none emptied it, and no band was free any more. A pool four fifths full answered "no space".
#[test]
fn regression_hosts_do_not_take_the_space_that_collections_in_progress_need() {
    let mut bands = bands();
    let of_band = u64::from(bands.data_blocks());
    let needed = 7 * of_band + 3;
    bands.kept.in_collection_blocks = needed;
    let room = bands.room(false);
    let taken = take_all(&mut bands, false);
    assert!(taken <= room, "{taken} of {room}");
    assert!(bands.room(true) >= needed, "{} of {needed}", bands.room(true));
    assert!(take_all(&mut bands, true) >= needed, "whatever groups it is in");
}

#[test]
fn one_band_is_kept_for_the_next_collection_at_any_time() {
    let mut bands = bands();
    take_all(&mut bands, false);
    assert_eq!(bands.room(false), 0);
    assert!(bands.room(true) >= u64::from(bands.data_blocks()));
}

/// A grant of compressed blocks may find that the last group of a band has no room for the entries of one more: it closes the band. Where nothing lived
/// there any more nobody freed it before the next start.
#[test]
fn regression_a_band_that_a_grant_closes_without_taking_of_it_is_freed() {
    let mut bands = bands();
    let stream = stream(false, 0);
    let band = bands.grant(stream, Wanted::Whole(1)).unwrap().band;
    // As if its group had as many entries as one page of its summary has room for.
    let last = bands.data_blocks() - 1;
    bands.grant(stream, Wanted::Whole(last - 1)).unwrap();
    bands.open.promise(band, 167);
    assert!(!bands.settle(band, last) && bands.get(band).state == BandState::Open);
    let next = bands.grant(stream, Wanted::Packed(&[16])).unwrap();
    assert!(next.band != band && bands.get(band).state == BandState::Closed);
    assert_eq!(bands.take_emptied(), [band]);
    assert_eq!(bands.take_emptied(), []);
}

/// A power cut may take everything that was on its way to a group, and leave what came behind it. The group had no summary then, which garbage
/// collection of the band took for damage.
#[test]
fn regression_groups_of_which_a_power_cut_has_taken_all_have_summaries() {
    let band_bytes = 4 * 64 * 4096;
    let sectors = 8 * band_bytes / 512;
    let members = [member(Role::Fast, 0, 800), member(Role::Capacity, 800, sectors)];
    let mut bands = Bands::new(Vec::new(), Vec::new(), 0, band_bytes, &Extents::new(&members, band_bytes));
    let entry = SummaryEntry { disk: DiskId(1), block: 9, ..SummaryEntry::none(128) };
    bands.replay_write(3, 2 * 64 + 5, 1, stream(false, 1), 1);
    bands.replay_note(3, (2 * 64 + 5) * 128, entry);
    bands.replay_finished(1);
    assert_eq!(bands.groups().due(9), [(3, 0), (3, 1)], "and not those that may have been written");
    assert_eq!(bands.begin_summary((3, 1)).map(|(_, entries)| entries.len()), Some(0));
    assert_eq!(
        bands.open_groups().map(|(band, group, entries)| (band, group, entries.len())).collect::<Vec<_>>(),
        [(3, 2, 2)]
    );
}

/// What was written into a group before a start counts: otherwise data would go where further pages of the summary belong.
#[test]
fn a_group_of_before_the_start_has_room_for_its_summary() {
    let band_bytes = 64 * 4096;
    let of = |entries: usize| {
        let table = vec![BandRoot {
            state: BandState::Open,
            stream: stream(false, 0),
            generation: 1,
            written: 61 * BLOCK_GRAINS as u32,
            ..BandRoot::default()
        }];
        let entry = SummaryEntry { disk: DiskId(1), ..SummaryEntry::none(16) };
        let sectors = u64::from(BANDS) * band_bytes / 512;
        let extents = Extents::new(&[member(Role::Fast, 0, 800), member(Role::Capacity, 800, sectors)], band_bytes);
        let mut bands = Bands::new(table, vec![(0, 0, vec![entry; entries])], 0, band_bytes, &extents);
        bands.replay_finished(1);
        bands.grant(stream(false, 0), Wanted::Packed(&[16; 17])).unwrap()
    };
    // Of 64 blocks 61 are written: two are left beside one page of a summary, and one beside two.
    let places = [60, 100, PAGE_ENTRIES - 2].map(of).map(|grant| (grant.band, grant.first, grant.count));
    assert_eq!(places, [(0, 61, 16), (0, 61, 16), (0, 61, 8)]);
}

#[test]
fn what_collection_moves_and_what_hosts_write_share_no_band() {
    let mut bands = bands();
    for group in 0..12 {
        for is_collected in [false, true] {
            let grant = bands.grant(stream(is_collected, group), Wanted::Whole(3)).unwrap();
            assert_eq!(bands.get(grant.band).stream.is_collected, is_collected);
        }
    }
}

/// The last block of a band was released while a scrub read the band, whose parity was of something else. The band was on its way to be free; it was
/// ended, and so freed once more when it was in use again.
#[test]
fn regression_a_band_that_is_to_be_free_is_not_ended() {
    let mut bands = bands();
    let stream = stream(false, 0);
    let Grant { band, .. } = bands.grant(stream, Wanted::Whole(1)).unwrap();
    bands.gain(band, BLOCK_GRAINS as u8);
    assert!(!bands.settle(band, 1));
    bands.end_early(band);
    assert_eq!((bands.get(band).state, bands.take_emptied()), (BandState::Closed, vec![]));
    assert!(bands.lose(band, BLOCK_GRAINS as u32, 1), "it is on its way to be free");
    bands.end_early(band);
    assert_eq!(bands.take_emptied(), []);
    bands.release(band);
    bands.end_early(band);
    assert_eq!((bands.get(band).state, bands.take_emptied()), (BandState::Free, vec![]));
}
