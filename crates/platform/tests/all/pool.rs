//! Rules about a pool: for each, a pool with a finding and one without.

use crate::support::*;
use forebay_platform::pool::{Member, MemberQueue, POOL_RULES, Pool};
use forebay_platform::{Outcome, Reading, Report, Severity};

const TIB: u64 = 1 << 40;

fn queue(write_cache: &str, optimal_bytes: i64) -> MemberQueue {
    MemberQueue {
        optimal_bytes: Ok(optimal_bytes),
        zoned: Ok("none".to_owned()),
        write_streams: Ok(0),
        write_cache: Ok(write_cache.to_owned()),
    }
}

fn member(target: &str, size_bytes: u64, queue: MemberQueue) -> Member {
    Member { target: target.to_owned(), size_bytes: Ok(size_bytes), band_bytes: None, queue: Ok(queue) }
}

/// A pool without findings.
fn sound() -> Pool {
    Pool {
        fast: vec![member("/dev/nvme0n1", TIB, queue("write through", 0))],
        capacity: vec![member("/dev/nvme1n1", 4 * TIB, queue("write back", 1 << 20))],
        memory_limit_bytes: 32 << 30,
        unanswered: Vec::new(),
    }
}

fn outcome(pool: &Pool, rule: &str) -> Reading<Outcome> {
    let rule = POOL_RULES.iter().find(|known| known.name == rule).unwrap();
    (rule.judge)(pool)
}

/// The severity and the text of a rule's finding.
fn found(pool: &Pool, rule: &str) -> (Severity, String) {
    match outcome(pool, rule) {
        Ok(Outcome::Found(finding)) => {
            for text in [&finding.cost, &finding.source, &finding.now, &finding.for_good, &finding.price] {
                assert!(!text.is_empty(), "{rule}");
            }
            (finding.severity, finding.what)
        }
        other => panic!("{rule}: {other:?}"),
    }
}

#[test]
fn a_sound_pool_is_good() {
    let report = Report::default().with_pool(&sound());
    assert!(report.findings.is_empty() && report.unknown.is_empty(), "{report:?}");
    assert_eq!(report.good.len(), POOL_RULES.len());
}

#[test]
fn each_rule_finds_what_it_is_for() {
    let changed = |change: &dyn Fn(&mut Pool)| {
        let mut pool = sound();
        change(&mut pool);
        pool
    };
    let cache = changed(&|pool| pool.fast[0].queue = Ok(queue("write back", 0)));
    let (severity, what) = found(&cache, "pool-flushes");
    assert!(severity == Severity::CostsLatency && what.contains("/dev/nvme0n1"), "{what}");

    let band = changed(&|pool| pool.capacity[0].band_bytes = Some((3 << 20) + (1 << 19)));
    assert_eq!(found(&band, "pool-band").0, Severity::CostsThroughput);
    let fits = changed(&|pool| pool.capacity[0].band_bytes = Some(64 << 20));
    assert!(matches!(outcome(&fits, "pool-band"), Ok(Outcome::Good(_))));

    let streams = changed(&|pool| {
        pool.capacity[0].queue = Ok(MemberQueue { write_streams: Ok(8), ..queue("write back", 0) });
    });
    assert!(found(&streams, "pool-streams").1.contains("8 write streams"));
    let zones = changed(&|pool| {
        pool.capacity[0].queue = Ok(MemberQueue { zoned: Ok("host-aware".to_owned()), ..queue("write back", 0) });
    });
    assert!(found(&zones, "pool-streams").1.contains("host-aware"));

    let small = changed(&|pool| pool.fast[0].size_bytes = Ok(16 << 30));
    assert!(found(&small, "pool-map").1.contains("65.9 %"), "{}", found(&small, "pool-map").1);

    let little = changed(&|pool| pool.memory_limit_bytes = 1 << 30);
    assert_eq!(found(&little, "pool-memory").0, Severity::CostsLatency);
    let some = changed(&|pool| pool.memory_limit_bytes = 6 << 30);
    assert_eq!(found(&some, "pool-memory").0, Severity::Note);

    let asked = changed(&|pool| pool.unanswered = vec![("wal".to_owned(), "path:**/*.log".to_owned())]);
    assert!(found(&asked, "pool-evidence").1.contains("wal: path:"));
}

#[test]
fn what_is_no_block_device_is_unknown_and_no_finding() {
    let file = |target: &str| Member {
        target: target.to_owned(),
        size_bytes: Ok(TIB),
        band_bytes: None,
        queue: Err(no_size()),
    };
    let pool = Pool { fast: vec![file("/a")], capacity: vec![file("/b")], ..sound() };
    for rule in ["pool-flushes", "pool-band", "pool-streams"] {
        assert!(matches!(outcome(&pool, rule), Ok(Outcome::Unknown(_))), "{rule}");
    }
    let unsized_pool = Pool { fast: vec![Member { size_bytes: Err(no_size()), ..file("/a") }], ..sound() };
    assert!(outcome(&unsized_pool, "pool-map").is_err() && outcome(&unsized_pool, "pool-memory").is_err());
}

fn no_size() -> forebay_platform::Lack {
    Small::new(&[]).tree().resolved("/none").unwrap_err()
}

#[test]
fn the_kernel_says_it_of_devices_and_partitions() {
    let small = Small::new(&[
        ("/sys/class/block/sda", "->../../devices/sda"),
        ("/sys/devices/sda/size", "2048\n"),
        ("/sys/devices/sda/queue/optimal_io_size", "65536\n"),
        ("/sys/devices/sda/queue/write_cache", "write back\n"),
        ("/sys/devices/sda/queue/zoned", "none\n"),
    ]);
    let read = MemberQueue::read(&small.tree(), "sda").unwrap();
    assert_eq!((read.optimal_bytes, read.write_streams), (Ok(65_536), Ok(0)), "an older kernel has no streams");
    assert_eq!(read.write_cache.unwrap(), "write back");
    assert_eq!(MemberQueue::size_bytes(&small.tree(), "sda"), Ok(1 << 20));
    assert!(MemberQueue::read(&small.tree(), "sdb").is_err());
}
