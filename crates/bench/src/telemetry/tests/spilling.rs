use super::super::{Recorder, RecorderReport, TelemetryError};
use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};
use std::fs::OpenOptions;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

/// Reports when an append begins, and carries it out once it is allowed to.
struct Gate {
    memory: Memory,
    entered: Sender<()>,
    let_in: Receiver<()>,
}

impl SpillTarget for Gate {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        // Both fail once the test has ended; then everything is let through.
        let _ = self.entered.send(());
        let _ = self.let_in.recv();
        self.memory.append(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn gate() -> (Gate, Memory, Receiver<()>, Sender<()>) {
    let memory = Memory::new();
    let (entered, has_entered) = channel();
    let (open, let_in) = channel();
    open.send(()).unwrap();
    (Gate { memory: memory.clone(), entered, let_in }, memory, has_entered, open)
}

fn wait_until_written(spill: &Spill, records: u64) {
    for _ in 0..10_000 {
        if spill.status().written == records {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
    panic!("only {:?} after 10 s", spill.status());
}

#[test]
fn every_record_arrives_in_the_order_of_its_thread() {
    let memory = Memory::new();
    // Enough chunks that nothing is dropped, whatever the scheduler does.
    let mut spill = Spill::start(Box::new(memory.clone()), "memory", &header(), options(100, 64, 4)).unwrap();
    let threads: Vec<_> = (0..4u32)
        .map(|t| {
            let mut recorder = spill.recorder(t % 2, t).unwrap();
            thread::spawn(move || {
                (0..5_000 + u64::from(t)).for_each(|i| recorder.push(record(i)));
                recorder.finish()
            })
        })
        .collect();
    for (t, thread) in threads.into_iter().enumerate() {
        assert_eq!(thread.join().unwrap(), RecorderReport { recorded: 5_000 + t as u64, dropped: 0 });
    }
    let report = spill.finish(TIMEOUT);
    assert!(report.is_clean && report.failure.is_none() && report.missing() == 0, "{report:?}");
    assert_eq!(report.status.bytes, memory.content().len() as u64);

    let (segments, summary) = read_all(&memory.content());
    assert!(summary.is_whole(), "{summary:?}");
    assert_eq!((summary.records, summary.dropped), (20_006, 0));
    let mut by_thread: BTreeMap<(u32, u32), Vec<Record>> = BTreeMap::new();
    for segment in segments {
        by_thread.entry((segment.job, segment.thread)).or_default().extend(segment.records);
    }
    assert_eq!(by_thread.len(), 4);
    for ((job, thread), records) in by_thread {
        assert_eq!(job, thread % 2);
        assert_eq!(records, (0..5_000 + u64::from(thread)).map(record).collect::<Vec<_>>());
    }
}

#[test]
fn regression_a_chunk_that_is_not_full_can_be_submitted() {
    let memory = Memory::new();
    let mut spill = Spill::start(Box::new(memory.clone()), "memory", &header(), options(100, 8, 1)).unwrap();
    let mut recorder = spill.recorder(0, 0).unwrap();
    // Without records there is no segment.
    recorder.submit();
    let mut made = 0;
    for count in [7, 1, 120] {
        (0..count).for_each(|i| recorder.push(record(made + i)));
        made += count;
        recorder.submit();
        wait_until_written(&spill, made);
        // Nothing more has arrived, and the recorder goes on as before: this is what a kill would leave.
        let (segments, summary) = read_all(&memory.content());
        assert_eq!((summary.records, summary.footer), (made, None));
        let records: Vec<Record> = segments.into_iter().flat_map(|segment| segment.records).collect();
        assert_eq!(records, (0..made).map(record).collect::<Vec<_>>());
    }
    assert_eq!(recorder.finish(), RecorderReport { recorded: made, dropped: 0 });
    assert!(spill.finish(TIMEOUT).is_clean);
}

#[test]
fn a_slow_spill_drops_exactly_what_has_no_chunk_and_says_where() {
    let (gate, memory, entered, open) = gate();
    let mut spill = Spill::start(Box::new(gate), "gate", &header(), options(10, 2, 1)).unwrap();
    entered.recv().unwrap();
    let mut recorder = spill.recorder(0, 0).unwrap();
    // The eleventh record passes the first chunk on; the writer has emptied it when it enters.
    (0..11).for_each(|i| recorder.push(record(i)));
    entered.recv().unwrap();
    // 20 more records fill both chunks; the next 27 find none.
    (11..57).for_each(|i| recorder.push(record(i)));
    assert_eq!(recorder.report(), RecorderReport { recorded: 30, dropped: 27 });
    drop(open);
    wait_until_written(&spill, 30);
    (57..62).for_each(|i| recorder.push(record(i)));
    assert_eq!(recorder.finish(), RecorderReport { recorded: 35, dropped: 27 });
    let report = spill.finish(TIMEOUT);
    assert!(report.is_clean, "{report:?}");
    assert_eq!((report.status.written, report.status.dropped, report.lost), (35, 27, 0));

    let (segments, summary) = read_all(&memory.content());
    assert!(summary.is_whole());
    assert_eq!(summary.dropped, 27);
    assert_eq!(segments.iter().map(|s| s.dropped_before).collect::<Vec<_>>(), [0, 0, 0, 27]);
    let read: Vec<_> = segments.into_iter().flat_map(|s| s.records).collect();
    assert_eq!(read, (0..30).chain(57..62).map(record).collect::<Vec<_>>());
}

#[test]
fn whatever_the_timing_every_record_is_written_or_counted() {
    struct Slow(Memory, u64);
    impl SpillTarget for Slow {
        fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
            self.1 += 1;
            thread::sleep(Duration::from_micros(self.1 * 37 % 400));
            self.0.append(bytes)
        }
        fn sync(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let memory = Memory::new();
    let mut spill = Spill::start(Box::new(Slow(memory.clone(), 0)), "slow", &header(), options(16, 2, 3)).unwrap();
    let threads: Vec<_> = (0..3)
        .map(|t| {
            let mut recorder = spill.recorder(0, t).unwrap();
            thread::spawn(move || {
                for i in 0..20_000 {
                    recorder.push(record(i));
                    if i % 1_000 == 0 {
                        thread::sleep(Duration::from_micros(300));
                    }
                }
                recorder.finish()
            })
        })
        .collect();
    let reports: Vec<_> = threads.into_iter().map(|t| t.join().unwrap()).collect();
    let report = spill.finish(TIMEOUT);
    assert!(report.is_clean);
    let (segments, summary) = read_all(&memory.content());
    let dropped: u64 = reports.iter().map(|r| r.dropped).sum();
    assert!(dropped > 0, "the test does not reach what it is for");
    assert!(reports.iter().all(|r| r.recorded + r.dropped == 20_000), "{reports:?}");
    assert_eq!((summary.records, summary.dropped, report.missing()), (60_000 - dropped, dropped, dropped));
    // Each gap is exactly as large as the segment after it says.
    let mut next = [0u64; 3];
    let mut dropped_so_far = [0u64; 3];
    for segment in segments {
        let t = segment.thread as usize;
        next[t] += segment.dropped_before - std::mem::replace(&mut dropped_so_far[t], segment.dropped_before);
        for found in segment.records {
            assert_eq!(found, record(next[t]));
            next[t] += 1;
        }
    }
}

#[test]
fn a_full_disk_ends_the_file_and_not_the_run() {
    let begin = small_file(0, 1).len() - 64;
    let segment = 64 + 10 * 40;
    // Room for two segments and a part of the third.
    for part in [0, 1, 64, 65, segment - 1] {
        let memory = Memory::limited(begin + 2 * segment + part);
        let mut spill = Spill::start(Box::new(memory.clone()), "disk", &header(), options(10, 4, 1)).unwrap();
        let mut recorder = spill.recorder(0, 0).unwrap();
        for i in 0..95 {
            recorder.push(record(i));
            if i % 10 == 9 {
                thread::sleep(Duration::from_micros(100));
            }
        }
        let counted = recorder.finish();
        let report = spill.finish(TIMEOUT);
        assert!(!report.is_clean);
        assert_eq!((report.status.written, report.status.segments), (20, 2));
        assert_eq!(report.status.written + report.missing(), 95, "{report:?}");
        assert_eq!(report.status.dropped, counted.dropped);
        let Some(TelemetryError::Write { at_bytes, source, .. }) = report.failure else { panic!("no failure told") };
        assert_eq!(at_bytes, (begin + 2 * segment) as u64);
        assert_eq!(source.kind(), io::ErrorKind::StorageFull);
        let (segments, summary) = read_all(&memory.content());
        assert_eq!(segments.len(), 2);
        assert_eq!((summary.torn_tail_bytes, summary.footer), (part as u64, None));
        assert!(!summary.is_whole());
    }
    // No room for the footer.
    let memory = Memory::limited(begin + 63);
    let spill = Spill::start(Box::new(memory.clone()), "disk", &header(), options(10, 4, 1)).unwrap();
    let report = spill.finish(TIMEOUT);
    assert!(!report.is_clean && report.failure.is_some());
    assert_eq!(read_all(&memory.content()).1.torn_tail_bytes, 63);
    // No room even for the header, on a real file.
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let error = Spill::start(Box::new(full), "/dev/full", &header(), options(10, 4, 1)).unwrap_err();
    assert!(error.to_string().contains("/dev/full ends at byte 0"), "{error}");
}

#[test]
fn a_target_that_hangs_holds_nobody() {
    let (gate, _memory, entered, open) = gate();
    let mut spill = Spill::start(Box::new(gate), "gate", &header(), options(10, 3, 1)).unwrap();
    let mut recorder = spill.recorder(0, 0).unwrap();
    (0..1_000).for_each(|i| recorder.push(record(i)));
    let counted = recorder.finish();
    let report = spill.finish(Duration::from_millis(20));
    assert!(!report.is_clean);
    assert_eq!((report.status.written, report.lost), (0, counted.recorded));
    assert_eq!(report.missing(), 1_000);
    drop((entered, open));
}

#[test]
fn nothing_follows_an_error_that_passes() {
    struct FailsOnce(Memory, u32);
    impl SpillTarget for FailsOnce {
        fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
            self.1 += 1;
            if self.1 == 3 {
                self.0.append(&bytes[..70])?;
                return Err(io::Error::other("a cable was loose"));
            }
            self.0.append(bytes)
        }
        fn sync(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let memory = Memory::new();
    let mut spill =
        Spill::start(Box::new(FailsOnce(memory.clone(), 0)), "cable", &header(), options(10, 16, 1)).unwrap();
    let mut recorder = spill.recorder(0, 0).unwrap();
    (0..100).for_each(|i| recorder.push(record(i)));
    assert_eq!(recorder.finish().dropped, 0);
    let report = spill.finish(TIMEOUT);
    assert!(!report.is_clean);
    assert_eq!((report.status.written, report.missing()), (10, 90));
    assert!(report.failure.unwrap().to_string().contains("a cable was loose"));
    let (segments, summary) = read_all(&memory.content());
    assert_eq!((segments.len(), summary.torn_tail_bytes, summary.footer), (1, 70, None));
}

#[test]
fn a_spill_thread_that_dies_is_survived_and_each_record_counted_once() {
    struct Panics(bool, Sender<()>);
    impl SpillTarget for Panics {
        fn append(&mut self, _: &[u8]) -> io::Result<()> {
            assert!(!std::mem::replace(&mut self.0, true), "on purpose, by a test");
            Ok(())
        }
        fn sync(&mut self) -> io::Result<()> {
            self.1.send(()).map_err(io::Error::other)
        }
    }
    let (alive, has_died) = channel();
    let mut spill = Spill::start(Box::new(Panics(false, alive)), "panics", &header(), options(10, 4, 1)).unwrap();
    let mut recorder = spill.recorder(0, 0).unwrap();
    (0..11).for_each(|i| recorder.push(record(i)));
    assert!(has_died.recv().is_err());
    // The inbox is closed a moment after the target.
    thread::sleep(Duration::from_millis(50));
    (11..100).for_each(|i| recorder.push(record(i)));
    let counted = recorder.finish();
    let report = spill.finish(TIMEOUT);
    assert!(!report.is_clean);
    assert_eq!((report.status.written, report.missing()), (0, 100), "{report:?}");
    assert_eq!(counted.recorded + counted.dropped, 100);
}

#[test]
fn a_recorder_that_outlives_the_spill_counts_its_records() {
    let memory = Memory::new();
    let mut spill = Spill::start(Box::new(memory.clone()), "memory", &header(), options(10, 2, 1)).unwrap();
    let mut recorder = spill.recorder(0, 0).unwrap();
    (0..11).for_each(|i| recorder.push(record(i)));
    wait_until_written(&spill, 10);
    assert!(spill.finish(TIMEOUT).is_clean);
    // The inbox is closed with the thread, a moment after it has answered.
    thread::sleep(Duration::from_millis(50));
    (11..100).for_each(|i| recorder.push(record(i)));
    assert_eq!(recorder.finish(), RecorderReport { recorded: 10, dropped: 90 });
    assert_eq!(read_all(&memory.content()).1.records, 10);
}

#[test]
fn without_an_orderly_end_there_is_no_footer() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.fbt");
    let mut spill = Spill::create(&path, &header(), options(10, 2, 1)).unwrap();
    let mut recorder = spill.recorder(0, 0).unwrap();
    (0..10).for_each(|i| recorder.push(record(i)));
    drop(recorder);
    wait_until_written(&spill, 10);
    drop(spill);
    let (segments, summary) = read_all(&std::fs::read(&path).unwrap());
    assert_eq!((segments.len(), summary.footer, summary.torn_tail_bytes), (1, None, 0));
    assert!(!summary.is_whole());

    let again = Spill::create(&path, &header(), options(10, 2, 1)).unwrap_err();
    assert!(again.to_string().contains("never overwritten"), "{again}");
}

#[test]
fn settings_have_bounds() {
    let start = |header: &Header, options| Spill::start(Box::new(Memory::new()), "memory", header, options);
    for wrong in [(0, 2, 1), (65_537, 2, 1), (1, 1, 1), (1, 1_025, 1), (1, 2, 0), (1, 2, 65_537)] {
        assert!(start(&header(), options(wrong.0, wrong.1, wrong.2)).is_err(), "{wrong:?}");
    }
    let with = |change: fn(&mut Header)| {
        let mut header = header();
        change(&mut header);
        start(&header, options(1, 2, 1)).map(|_| ()).unwrap_err().to_string()
    };
    assert!(with(|h| h.metadata = "{".to_owned()).contains("not JSON"));
    assert!(with(|h| h.metadata = format!("\"{}\"", "x".repeat(1 << 20))).contains("metadata in bytes is 1048578"));
    assert!(with(|h| h.jobs = vec![String::new(); 4_097]).contains("number of jobs is 4097"));
    assert!(with(|h| h.jobs = vec!["x".repeat(1_025)]).contains("job's name in bytes is 1025"));

    let mut spill = start(&header(), options(1, 2, 1)).unwrap();
    assert!(spill.recorder(2, 0).is_err());
    assert!(spill.recorder(0, 65_536).is_err());
    let _one = spill.recorder(1, 0).unwrap();
    let error = spill.recorder(1, 1).unwrap_err();
    assert!(error.to_string().contains("recording threads is 2, allowed are 1 to 1"), "{error}");

    let options = SpillOptions::within_budget(64, 256 << 20);
    assert!(64 * u64::from(options.chunks_per_thread * options.chunk_records) * 40 <= 256 << 20);
    assert_eq!(SpillOptions::within_budget(2, 256 << 20).chunk_records, 65_536);
    assert_eq!(SpillOptions::within_budget(65_536, 0).chunk_records, 64);
}

proptest! {
    #[test]
    fn a_ring_keeps_the_last_ones(capacity in 0usize..20, count in 0u64..70) {
        let mut ring = Recorder::ring(capacity);
        let mut model = VecDeque::new();
        for i in 0..count {
            ring.push(record(i));
            model.push_back(record(i));
            if model.len() > capacity.max(1) {
                model.pop_front();
            }
        }
        let kept = model.len() as u64;
        prop_assert_eq!(ring.report(), RecorderReport { recorded: kept, dropped: count - kept });
        prop_assert_eq!(ring.into_records(), Vec::from(model));
    }
}
