// In tests, a panic reports the failure.
#![allow(clippy::unwrap_used)]

use super::*;
use proptest::prelude::*;

/// Lines of RocksDB 9.10: two column families, subcompactions, a flush beside a compaction, a move.
const LOG: &str = r#"2026/11/22-09:43:34.014152 29956 RocksDB version: 9.10.0
2026/11/22-09:43:34.020107 29956 [db/version_set.cc:6029] Recovering from manifest file: /db/MANIFEST-000001
2026/11/22-09:43:34.022561 29956            table_factory options:   flush_block_policy_factory: FlushBlockBySizePolicyFactory (0x55e02908d910)
  cache_index_and_filter_blocks: 0
2026/11/22-09:43:34.162409 29961 EVENT_LOG_v1 {"time_micros": 1795340614162362, "job": 2, "event": "flush_started", "num_memtables": 1, "flush_reason": "Write Buffer Full"}
2026/11/22-09:43:34.162421 29961 [db/flush_job.cc:949] [pikes] [JOB 2] Level-0 flush table #10: started
2026/11/22-09:43:34.186798 29961 EVENT_LOG_v1 {"time_micros": 1795340614186757, "cf_name": "pikes", "job": 2, "event": "table_file_creation", "file_number": 10, "file_size": 3864173, "table_properties": {"data_size": 3845386, "column_family_name": "pikes"}}
2026/11/22-09:43:34.194222 29961 (Original Log Time 2026/11/22-09:43:34.186828) [db/flush_job.cc:1040] [pikes] [JOB 2] Level-0 flush table #10: 3864173 bytes OK  
2026/11/22-09:43:34.194231 29961 (Original Log Time 2026/11/22-09:43:34.194092) EVENT_LOG_v1 {"time_micros": 1795340614194076, "job": 2, "event": "flush_finished", "lsm_state": [1, 0, 0, 0, 0, 0, 0], "immutable_memtables": 0}
2026/11/22-09:43:34.414746 29962 [db/compaction/compaction_job.cc:2128] [default] [JOB 8] Compacting 2@0 + 1@1 files to L1, score 1.37
2026/11/22-09:43:34.414753 29962 [db/compaction/compaction_job.cc:2134] [default]: Compaction start summary: Base version 5 Base level 0, inputs: [9(3685KB) 10(3637KB)], [3(3662KB)]
2026/11/22-09:43:34.414827 29962 EVENT_LOG_v1 {"time_micros": 1795340614414783, "job": 8, "event": "compaction_started", "compaction_reason": "LevelL0FilesNum", "files_L0": [9, 10], "files_L1": [3], "score": 1.37489, "input_data_size": 11533454, "oldest_snapshot_seqno": -1}
2026/11/22-09:43:34.418031 29961 EVENT_LOG_v1 {"time_micros": 1795340614418000, "job": 7, "event": "flush_started", "num_memtables": 1, "flush_reason": "Write Buffer Full"}
2026/11/22-09:43:34.418038 29961 [db/flush_job.cc:949] [pikes] [JOB 7] Level-0 flush table #19: started
2026/11/22-09:43:34.446037 30002 [db/compaction/compaction_job.cc:1666] [default] [JOB 8] Generated table #21: 2001 keys, 2111683 bytes, temperature: kUnknown
2026/11/22-09:43:34.446090 30002 EVENT_LOG_v1 {"time_micros": 1795340614446062, "cf_name": "default", "job": 8, "event": "table_file_creation", "file_number": 21, "file_size": 2111683, "table_properties": {}}
2026/11/22-09:43:34.498501 29962 [db/compaction/compaction_job.cc:1666] [default] [JOB 8] Generated table #20: 2001 keys, 2111668 bytes, temperature: kUnknown
2026/11/22-09:43:34.498541 29962 EVENT_LOG_v1 {"time_micros": 1795340614498530, "cf_name": "default", "job": 8, "event": "table_file_creation", "file_number": 20, "file_size": 2111668, "table_properties": {}}
2026/11/22-09:43:34.510560 29961 EVENT_LOG_v1 {"time_micros": 1795340614510550, "cf_name": "pikes", "job": 7, "event": "table_file_creation", "file_number": 19, "file_size": 3826242, "table_properties": {}}
2026/11/22-09:43:34.566774 29962 (Original Log Time 2026/11/22-09:43:34.566687) EVENT_LOG_v1 {"time_micros": 1795340614566662, "job": 8, "event": "compaction_finished", "output_level": 1, "num_output_files": 2, "total_output_size": 4223351, "lsm_state": [0, 2, 0, 0, 0, 0, 0]}
2026/11/22-09:43:34.630609 29960 (Original Log Time 2026/11/22-09:43:34.627626) [db/db_impl/db_impl_compaction_flush.cc:3831] [default] Moving #20 to level-2 2111668 bytes
2026/11/22-09:43:34.630617 29960 (Original Log Time 2026/11/22-09:43:34.630546) EVENT_LOG_v1 {"time_micros": 1795340614630532, "job": 11, "event": "trivial_move", "destination_level": 2, "files": 1, "total_files_size": 2111668}
2026/11/22-09:43:34.658041 29961 EVENT_LOG_v1 {"time_micros": 1795340614658034, "job": 9, "event": "table_file_deletion", "file_number": 10}
2026/11/22-09:43:34.700000 29956 [db/external_sst_file_ingestion_job.cc:600] [AddFile] External SST file /in/a.sst was ingested in L6 with path /db/000033.sst (global_seqno=12)
"#;

fn fed(text: &str) -> RocksdbLog {
    let mut log = RocksdbLog::default();
    log.feed(text.as_bytes());
    log.end();
    log
}

fn up_to(marker: &str) -> RocksdbLog {
    fed(&LOG[..LOG.find(marker).unwrap()])
}

#[test]
fn tables_have_the_levels_of_the_jobs_that_wrote_them() {
    let log = fed(LOG);
    assert_eq!(log.faults().count, 0, "{:?}", log.faults());
    assert_eq!(log.created_levels().collect::<Vec<_>>(), [(10, 0), (19, 0), (20, 1), (21, 1)]);
    let created = |tables, bytes| Created { tables, bytes };
    let sums: Vec<_> = log.created().collect();
    assert_eq!(sums, [(Some(0), created(2, 3_864_173 + 3_826_242)), (Some(1), created(2, 2_111_683 + 2_111_668))]);
    // Tables that were moved, deleted but remembered, ingested, and older than the LOG and read by a compaction.
    assert_eq!((log.level(20), log.level_created(20)), (Some(2), Some(1)));
    assert_eq!((log.level(10), log.level_created(10)), (None, Some(0)));
    assert_eq!((log.level(33), log.level_created(33)), (Some(6), None));
    assert_eq!((log.level(3), log.level_created(3)), (Some(1), None));
    assert_eq!((log.level(4), log.level_created(4)), (None, None));
}

#[test]
fn levels_are_reported_as_early_as_the_log_does() {
    let log = up_to("2026/11/22-09:43:34.186798");
    assert_eq!((log.level(10), log.level_created(10)), (Some(0), Some(0)));
    assert_eq!(log.created().count(), 0);
    // A compaction runs and has named no table; the flush beside it has named its table.
    let log = up_to("2026/11/22-09:43:34.446037");
    assert_eq!((log.level(21), log.level_expected(21)), (None, Some(1)));
    assert_eq!(log.level_expected(9), None, "older than the compaction");
    let log = up_to("2026/11/22-09:43:34.418038");
    assert_eq!(log.level_expected(21), None, "a flush may be writing it");
    assert_eq!(fed(LOG).level_expected(40), None, "nobody writes tables");
}

#[test]
fn changes_are_reported_once() {
    let mut log = fed(LOG);
    assert_eq!(log.take_changed().collect::<Vec<_>>(), [3, 9, 10, 19, 20, 21, 33]);
    assert_eq!(log.take_changed().count(), 0);
    log.feed(b"2026/11/22-09:43:35.630609 29960 [f.cc:1] [default] Moving #21 to level-2 2111683 bytes\n");
    log.feed(b"2026/11/22-09:43:35.630709 29960 [f.cc:1] [default] Moving #20 to level-2 2111683 bytes\n");
    assert_eq!(log.take_changed().collect::<Vec<_>>(), [21]);
}

#[test]
fn tables_of_a_recovery_are_of_level_0_also_where_debug_lines_are_off() {
    let text = r#"2026/11/22-09:51:03.763162 5777 [db/version_set.cc:6029] Recovering from manifest file: /db/MANIFEST-000051
2026/11/22-09:51:03.782753 5777 EVENT_LOG_v1 {"time_micros": 1795341063782728, "job": 1, "event": "recovery_started", "wal_files": [75]}
2026/11/22-09:51:03.841596 5777 [DEBUG] [db/db_impl/db_impl_open.cc:1685] [default] [WriteLevel0TableForRecovery] Level-0 table #79: started
2026/11/22-09:51:03.870673 5777 EVENT_LOG_v1 {"time_micros": 1795341063870642, "cf_name": "default", "job": 1, "event": "table_file_creation", "file_number": 79, "file_size": 3475791}
2026/11/22-09:51:03.871197 5777 EVENT_LOG_v1 {"time_micros": 1795341063871195, "job": 1, "event": "recovery_finished"}
"#;
    let without: String =
        text.lines().filter(|line| !line.contains("[DEBUG]")).map(|line| format!("{line}\n")).collect();
    for text in [text, &without] {
        let log = fed(text);
        assert_eq!(log.level_created(79), Some(0));
        assert_eq!(log.created().collect::<Vec<_>>(), [(Some(0), Created { tables: 1, bytes: 3_475_791 })]);
    }
}

#[test]
fn a_log_that_begins_within_a_job_learns_its_level_at_its_end() {
    let begin = LOG.find("2026/11/22-09:43:34.446037").unwrap();
    let log = fed(&LOG[begin..]);
    assert_eq!((log.level_created(20), log.level_created(21)), (Some(1), Some(1)));
    assert_eq!(log.level(20), Some(2));
    // The flush was named before the LOG begins, and its end is missing.
    assert_eq!(log.level_created(19), None);
    let unknown = log.created().find(|(level, _)| level.is_none()).unwrap().1;
    assert_eq!(unknown, Created { tables: 1, bytes: 3_826_242 });
}

#[test]
fn job_numbers_begin_anew_when_the_database_is_opened() {
    let mut log =
        fed("2026/11/22-09:43:34.414746 1 [f.cc:1] [default] [JOB 3] Compacting 3@0 files to L4, score 1.37\n");
    log.feed(b"2026/11/22-09:44:00.000000 1 [f.cc:1] Recovering from manifest file: /db/MANIFEST-000004\n");
    log.feed(b"2026/11/22-09:44:00.100000 1 EVENT_LOG_v1 {\"job\": 3, \"event\": \"table_file_creation\", \"file_number\": 8, \"file_size\": 5}\n");
    assert_eq!(log.level_created(8), None);
}

#[test]
fn bad_lines_are_counted_and_located() {
    let mut text = LOG.to_owned();
    let lines = text.lines().count() as u64;
    text.push_str("2026/11/22-09:43:34.162409 1 EVENT_LOG_v1 {\"job\": 2, \"event\": \"table_file_cre\n");
    text.push_str("2026/11/22-09:43:34.162409 1 EVENT_LOG_v1 {\"job\": -2, \"event\": \"flush_started\"}\n");
    text.push_str("2026/11/22-09:43:34.162409 1 [a] [JOB 99999999999999999999] Compacting 1@1 files to L2\n");
    text.push_str("2026/11/22-09:43:34.162409 1 [a] [JOB 9] Compacting 1@1 files to L64, score 2\n");
    text.push_str(&format!("2026/11/22-09:43:34.162409 1 {}\n", "x".repeat(LINE_BYTES_MAX)));
    text.push_str("2026/11/22-09:43:34.162409 1 [a] Moving #20 to level-4 1 bytes");
    let log = fed(&text);
    let places: Vec<u64> = log.faults().first.iter().map(|fault| fault.place).collect();
    assert_eq!(places, (lines + 1..=lines + 5).collect::<Vec<_>>());
    assert!(log.faults().by_line);
    assert_eq!(log.level(20), Some(2), "that move is older than the one to level 2");
}

/// The complete state.
fn state(log: &RocksdbLog) -> String {
    let levels: Vec<_> = (0..40).map(|number| (log.level(number), log.level_created(number))).collect();
    format!("{levels:?} {:?} {:?}", log.created().collect::<Vec<_>>(), log.faults())
}

proptest! {
    #[test]
    fn portions_do_not_matter(cuts in proptest::collection::vec(0..LOG.len(), 0..40)) {
        let mut cuts = cuts;
        cuts.sort_unstable();
        let mut log = RocksdbLog::default();
        let mut from = 0;
        for cut in cuts {
            log.feed(&LOG.as_bytes()[from..cut]);
            from = cut;
        }
        log.feed(&LOG.as_bytes()[from..]);
        prop_assert_eq!(state(&log), state(&fed(LOG)));
    }

    #[test]
    fn hostile_bytes_do_no_harm(
        changes in proptest::collection::vec((0..LOG.len(), any::<u8>()), 0..60),
        cuts in proptest::collection::vec((0..LOG.len(), 0_usize..200), 0..8),
        noise in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let mut bytes = LOG.as_bytes().to_vec();
        for (at, byte) in changes {
            bytes[at] = byte;
        }
        for (at, len) in cuts {
            let at = at.min(bytes.len());
            bytes.drain(at..(at + len).min(bytes.len()));
        }
        let mut log = RocksdbLog::default();
        log.feed(&bytes);
        log.feed(&noise);
        log.end();
        let lines = bytes.iter().chain(&noise).filter(|&&byte| byte == b'\n').count() as u64 + 1;
        prop_assert!(log.faults().count <= lines);
        prop_assert!(log.created_levels().all(|(_, level)| level < 64));
    }
}

#[test]
fn a_line_without_end_takes_bounded_memory() {
    let mut log = RocksdbLog::default();
    for _ in 0..64 {
        log.feed(&[b'x'; 64 << 10]);
        assert!(log.partial.capacity() <= 2 * LINE_BYTES_MAX);
    }
    log.feed(b"\n");
    log.feed(LOG.as_bytes());
    assert_eq!(log.faults().count, 1);
    assert_eq!(log.level(20), Some(2));
}
