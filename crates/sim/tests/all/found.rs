//! Bugs that lives have found, each with lives that met it. A life follows from its seed and the generator of lives: when the generator
//! changes, [`the_generator_is_the_one_these_seeds_are_for`] fails, and new seeds must be found with the fix removed.

use forebay_sim::{Kind, Scenario, live};

fn keep_their_promises(seeds: &[u64]) {
    for &seed in seeds {
        if let Some(failure) = live(&Scenario::random(seed), false).failure {
            panic!("seed {seed}: {failure}");
        }
    }
}

#[test]
fn the_generator_is_the_one_these_seeds_are_for() {
    let some = |kind: Kind| (0..10).map(move |number| Scenario::random(kind.seed(number)));
    // Kinds added later do not change these lives.
    let text = format!("{:?}", Kind::ALL.into_iter().take(8).flat_map(some).collect::<Vec<_>>());
    // Nor does state that only later kinds have.
    let absent = [
        ", holds: [], connections: 0, wounds: []",
        "region: None, ",
        ", durable_writes: true",
        ", stays_on: false",
        "members: 1, ",
        ", members: [], beyond: None",
        "parity: None, ",
        ", is_over_bucket: false",
    ];
    let text = absent.iter().fold(text, |text, absent| text.replace(absent, ""));
    // FNV-1a, 64 bit.
    let hash = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    assert_eq!(hash, GENERATOR, "the generator of lives has changed: {hash:#x}");
}

const GENERATOR: u64 = 0xac60_1992_01c9_2857;

/// During a slow checkpoint flush, waiting writes evicted each other's map pages from memory in turn, for ever.
#[test]
fn regression_waiting_writes_do_not_page_each_other_out() {
    keep_their_promises(&[240, 445, 558, 608, 646, 900, 988]);
}

/// Permanent data on the fast tier took the slots that the map needed to grow: the pool was "full" with most bands free.
#[test]
fn regression_pinned_data_leaves_slots_for_the_map() {
    keep_their_promises(&[73, 472, 1362, 1689]);
}

/// Records of failed writes, and of moves over many map pages, made the journal name more pages than fit into memory: the pool could not be
/// opened with the memory it had run with.
#[test]
fn regression_recovery_fits_into_the_memory_the_pool_ran_with() {
    keep_their_promises(&[1547, 2875, 3717, 5204, 6129, 6258, 7951]);
}

/// The same after failed checkpoints: the pages that they had written counted as clean.
#[test]
fn regression_failed_checkpoints_do_not_forget_what_recovery_needs() {
    keep_their_promises(&[23_987, 29_819]);
}

/// Destage retried a damaged block on the fast tier without a pause.
#[test]
fn regression_a_damaged_block_does_not_keep_migration_busy() {
    keep_their_promises(&[4266]);
}

/// A write that did not fit took the rest of a band and returned it; that space is lost until the band is collected, so the write consumed
/// everything that collection freed for it.
#[test]
fn regression_a_waiting_write_does_not_eat_what_is_freed_for_it() {
    keep_their_promises(&[4626, 6761, 7597]);
}

/// Free bands were counted that could not be opened before summaries of full ones were written: writes took the available space, returned
/// it, and so filled bands with garbage.
#[test]
fn regression_bands_that_cannot_be_opened_yet_are_no_room() {
    keep_their_promises(&[(3 << 40) | 2, (1 << 40) | 61]);
}

/// A request larger than the reserve of free bands waited for a collection that nothing started.
#[test]
fn regression_a_large_request_gets_its_space_collected() {
    keep_their_promises(&[28_338]);
}

/// Data written past the cache ended after the flush that covered its record, and no later flush was needed: the record was never noted as
/// durable, and its damage could not be distinguished from an unflushed write.
#[test]
fn regression_what_a_flush_need_not_touch_is_noted_as_durable() {
    keep_their_promises(&[Kind::Lying.seed(1143)]);
}

/// A write of several classes took space for the first class, found none for the second, returned the space, and so filled bands with
/// garbage while it waited.
#[test]
fn regression_a_write_of_several_classes_takes_all_its_space_or_none() {
    keep_their_promises(&[Kind::Cramped.seed(3472)]);
}

/// A disk was added to a pool whose fast tier was full of permanent data: writes to it found no slot for its map.
#[test]
fn regression_a_disk_is_not_added_where_its_map_has_no_room() {
    keep_their_promises(&[Kind::Lying.seed(7253)]);
}

/// Writes that waited for space evicted each other's map pages from memory in turn, and those of the destage that was to free the space.
#[test]
fn regression_writes_that_wait_for_space_leave_frames_to_migration() {
    keep_their_promises(&[30_070_218]);
}

/// After the clock jumped ahead, as a stopped process sees it, a write that needed only a flush seemed to have waited for space for too
/// long.
#[test]
fn regression_a_step_of_the_clock_is_not_a_wait() {
    keep_their_promises(&[Kind::Patchwork.seed(50_009_809)]);
}

/// A capacity device vanished: free bands could not be opened, because their summaries could not be written, and a write waited for a
/// collection that was not due.
#[test]
fn regression_nobody_waits_for_a_collection_that_is_not_due() {
    keep_their_promises(&[60_043_560]);
}

/// A fault of the simulator: a write had failed partly when the power was cut, before its failure was reported; the write over it was done.
/// The oracle took that for a reordering.
#[test]
fn regression_what_is_in_flight_may_have_failed_unheard() {
    keep_their_promises(&[5_497_618_205_721]);
}

/// A move waited for a slow request and its records held the journal's start, while the journal was more than half full: useless
/// checkpoints were written one after the other, as fast as the device took them.
#[test]
fn regression_a_checkpoint_that_cannot_help_is_not_written_again_and_again() {
    keep_their_promises(&[70_061_652]);
}

/// A FUA write whose data could not be written: its batch counted as durable, while the cancelling record was only in a cache.
#[test]
fn regression_a_cancelled_fua_write_does_not_come_back_without_its_data() {
    keep_their_promises(&[6_597_070_677_355, 6_597_070_678_795]);
}

/// One dead sector kept a whole record that was never acknowledged.
#[test]
fn regression_a_dead_sector_concerns_its_block_only() {
    keep_their_promises(&[12_094_627_905_652, 12_094_627_906_337]);
}

/// A fault of the oracle: where a power cut lost the newest write of a sector, the older data there was damaged, and that write's block
/// cannot be distinguished from an unreadable one.
#[test]
fn regression_old_content_under_a_lost_write_is_not_damaged() {
    keep_their_promises(&[12_094_627_920_004]);
}

/// A block rotted in a row found open, and a write went beside it: the row's parity would have shown the rotten block, but the parity was
/// recomputed from it.
#[test]
fn regression_a_settled_rows_parity_shows_what_rotted() {
    keep_their_promises(&[Kind::Parity.seed(208)]);
}

/// One array member had no good superblock, and the other members' copies were not tried.
#[test]
fn regression_the_superblock_of_an_array_is_read_of_all_members() {
    keep_their_promises(&[Kind::Parity.seed(785)]);
}

/// Of a row too much could not be read for a moment: a block that lives there was restored with the new content of the one that was written, and
/// logged so.
#[test]
fn regression_nothing_is_restored_with_what_is_yet_to_be_written() {
    keep_their_promises(&[Kind::Parity.seed(922)]);
}

/// Blocks were written of which one parity block was the same as of what was there before, by chance, and the other not: it was left as it was.
#[test]
fn regression_parity_that_agrees_by_chance_shows_nothing() {
    keep_their_promises(&[Kind::Parity.seed(2347)]);
}

/// A row was torn, a member of it missing, and what could be read of it taken for damaged: the log and parity got what parity had of it from before, and
/// what lay there stayed. What was written beside it could not be restored.
#[test]
fn regression_what_lies_in_a_torn_row_is_what_parity_is_of() {
    keep_their_promises(&[Kind::Parity.seed(1681)]);
}

/// A device offered twice to an array filled the places of two members.
#[test]
fn regression_a_device_is_one_member_of_an_array() {
    keep_their_promises(&[Kind::Parity.seed(510_107)]);
}

/// A leaf read during replay had blocks to destage, but its index page, written later, recorded none: they were never destaged.
#[test]
fn regression_a_leaf_that_replay_reads_is_queued_with_what_it_has() {
    keep_their_promises(&[5_497_561_147_081]);
}

/// A durable write survived a power cut although an earlier batch did not. Its own batch was unreadable, and was taken for one that was
/// never written.
#[test]
fn regression_a_durable_write_behind_a_lost_batch_may_be_unreadable() {
    keep_their_promises(&[5_497_561_154_441, 5_497_561_170_473]);
}

/// A capacity-tier member did not answer for 30 s, and the checkpoint waited for it: writes that waited for slots to be freed were answered
/// that the pool is full.
#[test]
fn regression_a_pool_is_not_full_while_a_device_does_not_answer() {
    keep_their_promises(&[21_990_252_593_019]);
}

/// A scrub could not read a block of one member of a mirror twice, as another block of the same read was written meanwhile. The second failure made it look right:
/// it was not mended, and was lost with the other member.
#[test]
fn regression_a_scrub_mends_what_it_could_not_read_twice() {
    keep_their_promises(&[23_089_764_241_303]);
}

/// A damaged block was written anew and not flushed, and the power failed. A scrub that went on afterwards came to it before the survey did, and found it damaged as
/// it was: the judge took the write that was lost for what had to be there.
#[test]
fn regression_a_scrub_finds_damage_again_whose_overwrite_was_lost() {
    keep_their_promises(&[23_089_764_316_989, 23_089_764_327_485]);
}

/// Room was counted with slots that data which stays there may not take: a write took what it could, gave it back, and so emptied the bands that
/// checkpoint after checkpoint freed for it, for ever.
#[test]
fn regression_data_that_stays_does_not_count_on_slots_that_it_may_not_take() {
    keep_their_promises(&[6_597_129_819_883, 6_597_129_827_115]);
}

/// A flush failed, and what it had covered could not be read again: it was lost, as the pool says to all who flush then. Nobody did before the power failed, and the judge
/// did not know of it afterwards.
#[test]
fn regression_what_a_failed_flush_lost_may_be_unreadable_after_a_restart() {
    keep_their_promises(&[5_497_618_274_969, 5_497_628_278_345]);
}

/// The judge's own: a leaf that could not be read for long was done without as all of it was discarded, and the slot that it named, which nobody knows any more
/// and which stays in use, was taken for one that leaked.
#[test]
fn regression_what_an_unreadable_leaf_named_stays_in_use() {
    keep_their_promises(&[7_696_641_429_101, 7_696_641_529_645]);
}

/// A scrub found blocks of a mirror that had rotted, and their leaf had left memory when they were to be mended: they were passed over, and lost with the other members.
#[test]
fn regression_a_scrub_mends_what_it_finds_while_the_leaf_is_not_in_memory() {
    keep_their_promises(&[23_089_804_350_941]);
}

/// The judge's own: a member of a mirror was replaced, and the power failed before it was rebuilt; alone it was refused as blank, which it was.
#[test]
fn regression_a_blank_member_is_no_mirror_alone() {
    keep_their_promises(&[20_890_791_050_035]);
}

/// Moves that waited for a checkpoint read a leaf again and again, as pieces took its frame in turns, for as long as a device hung.
#[test]
fn regression_moves_that_wait_for_a_checkpoint_read_nothing_meanwhile() {
    keep_their_promises(&[7_696_665_423_501]);
}

/// A scrub of a mirror took a page of the map for good that a member could not read: the memory of the read that failed still held what another member had given.
#[test]
fn regression_a_scrub_takes_nothing_of_a_read_that_failed() {
    keep_their_promises(&[23_089_828_221_783]);
}

/// A pass of a scrub ended while a checkpoint waited for a device: the index page that the root before it names had rotten on a member, and nobody had looked at it any
/// more, as the checkpoint had given it up. The power failed, and the pool did not open without the other member.
#[test]
fn regression_a_scrub_does_not_end_beside_a_checkpoint() {
    keep_their_promises(&[23_089_745_083_929]);
}

/// The judge's own: blocks that were damaged when a read began were written anew before it ended, and it was to have read them.
#[test]
fn regression_a_read_may_fail_for_what_was_damaged_when_it_began() {
    keep_their_promises(&[24_190_195_835_005]);
}

/// The judge's own: a base was to be copied although the pool had lost a host's writes of that place, as a flush had failed and what it had covered could not be read
/// again. What a host had written there is not replaced by what the base has.
#[test]
fn regression_what_a_failed_flush_lost_is_not_copied_of_a_base() {
    keep_their_promises(&[25_289_707_446_009]);
}

/// A device went for good while another one was rebuilt: discards waited for ever until the log could be erased, and with as many of them as an array takes at once
/// writes did, too.
#[test]
fn regression_discards_that_wait_for_the_log_hold_no_writes_for_ever() {
    keep_their_promises(&[21_991_192_587_819]);
}

/// The buffer of a read that failed still held the very data from an earlier use of its memory: the judge took a block with an unreadable sector as mended.
#[test]
fn regression_a_read_that_failed_leaves_nothing_in_its_buffer() {
    keep_their_promises(&[23_090_764_186_007]);
}

/// A write failed while a failed flush kept the journal full. The pool takes no writes then until the next start, and was expected to make the flush good.
#[test]
fn regression_a_pool_that_takes_no_writes_makes_no_flush_good() {
    keep_their_promises(&[18_692_707_674_513]);
}

/// A device did not answer for half a minute. A write that waited for a slot of the fast tier found no space, although slots were about to be free and the flush
/// that they waited for went on again.
#[test]
fn regression_slots_that_are_about_to_be_free_are_waited_for() {
    keep_their_promises(&[21_991_262_563_646]);
}
