//! Records of single I/Os.

use super::*;

/// A file of records in memory.
#[derive(Clone, Default)]
struct InMemory(Arc<std::sync::Mutex<Vec<u8>>>);

impl crate::telemetry::SpillTarget for InMemory {
    fn append(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(())
    }
    fn sync(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn records_say_what_became_of_each_io() {
    use crate::telemetry::{Header, Reader, Record, Spill, SpillOptions};
    let header = Header { run_id: [7; 16], begin_unix_ns: 0, jobs: vec!["job".to_owned()], metadata: "{}".to_owned() };
    let memory = InMemory::default();
    let options = SpillOptions { chunk_records: 4096, chunks_per_thread: 4, threads: 1 };
    let mut spill = Spill::start(Box::new(memory.clone()), "memory", &header, options).unwrap();
    let clock = VirtualClock::default();
    let mut number = 0;
    // Each I/O needs longer than the schedule's distance, and one in ten fails.
    let script: Script = Box::new(move |_, _| {
        number += 1;
        (1_100_000, (number % 10 == 0).then_some(IoErrorKind::Medium))
    });
    let facts = TargetFacts { size_bytes: 1 << 30, logical_block_bytes: 512, ..TargetFacts::default() };
    let assignment = Assignment {
        job: Job { arrival: Arrival::Constant { iops: 1000.0 }, warmup_ns: 0, ..job(1, 1.0) },
        opened: Opened { queues: vec![Scripted::new(&clock, 1, script)], facts },
        recorders: vec![spill.recorder(0, 0).unwrap()],
        replay: None,
    };
    let stop = Arc::new(AtomicBool::new(false));
    let result = run(vec![assignment], &clock, &Settings::default(), &stop, &mut |_| {}).unwrap().pop().unwrap();
    assert!(spill.finish(Duration::from_secs(30)).is_clean);
    let bytes = memory.0.lock().unwrap().clone();
    let mut reader = Reader::new(&*bytes).unwrap();
    let mut records: Vec<Record> = Vec::new();
    while let Some(segment) = reader.next_segment().unwrap() {
        records.extend_from_slice(&segment.records);
    }
    assert_eq!((records.len(), result.ios(), result.kinds[0].errors), (1000, 900, 100));
    for (at, record) in (0..).zip(&records) {
        assert_eq!(record.intended_ns, LEAD_NS + LEAD_PER_THREAD_NS + TICK_NS + at * 1_000_000);
        assert!((1_099_000..1_101_000).contains(&(record.completed_ns - record.submitted_ns)), "{record:?}");
        assert_eq!((record.depth, record.len_bytes, record.kind), (1, 4096, OpKind::Read));
        assert_eq!(record.failed, at % 10 == 9, "{record:?}");
    }
    // The last I/O waited for the hundred milliseconds by which all before it were late.
    let last = records[999];
    assert!((99_000_000..101_500_000).contains(&(last.submitted_ns - last.intended_ns)), "{last:?}");
}
