use super::*;
use crate::job::model::{Arrival, Burst, Extent, Job, Pattern, Zone};
use forebay_block::OpKind;
use proptest::prelude::*;

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

fn read(line: &str) -> DiskSpdPlan {
    parse(&words(line)).unwrap_or_else(|e| panic!("{line}: {e}"))
}

fn job(line: &str) -> Job {
    read(line).plan.groups[0][0].clone()
}

fn error(line: &str) -> String {
    match parse(&words(line)) {
        Err(error) => error.to_string(),
        Ok(plan) => panic!("{line}: {plan:?}"),
    }
}

fn has_note(line: &str, text: &str) -> bool {
    read(line).plan.notes.iter().any(|note| note.contains(text))
}

#[test]
fn the_guides_lines() {
    for (line, weights, depth, threads, block) in [
        ("-d600 -b4k -w0 -r -o4 -t8 -h -L #1", vec![(OpKind::Read, 100)], 4, 8, 4096),
        ("-d600 -b4k -w100 -r -o4 -t8 -h -L #1", vec![(OpKind::Write, 100)], 4, 8, 4096),
        ("-d600 -b4k -w30 -r -o4 -t8 -h -L #1", vec![(OpKind::Read, 70), (OpKind::Write, 30)], 4, 8, 4096),
        ("-b4k -w30 -r -o4 -t8 -d600 -h -L", vec![(OpKind::Read, 70), (OpKind::Write, 30)], 4, 8, 4096),
        ("-d600 -b64k -w100 -r -o4 -t8 -h -L #1", vec![(OpKind::Write, 100)], 4, 8, 65_536),
        ("-d600 -b4k -w0 -r -o1 -t1 -h -L #1", vec![(OpKind::Read, 100)], 1, 1, 4096),
    ] {
        let job = job(line);
        assert_eq!(job.mix.weights, weights, "{line}");
        assert_eq!((job.depth, job.threads), (depth, threads), "{line}");
        assert_eq!(job.sizes.read.choices, [(block, 1)], "{line}");
        assert_eq!(job.pattern, Pattern::Random { align_bytes: 0, skew_bytes: 0 }, "{line}");
        assert_eq!(job.end.after_ns, Some(600_000_000_000), "{line}");
        assert_eq!(job.warmup_ns, 5_000_000_000, "{line}");
        assert!(!job.access.buffered && job.access.dsync, "{line}");
        assert_eq!(has_note(line, "--target decides"), line.contains('#'), "{line}");
    }
}

#[test]
fn the_defaults_are_diskspds() {
    let job = job("");
    assert_eq!((job.threads, job.depth, job.seed), (1, 2, 0));
    assert_eq!(job.sizes.read.choices, [(65_536, 1)]);
    assert_eq!(job.pattern, Pattern::Sequential { per_thread: false });
    assert_eq!((job.end.after_ns, job.warmup_ns, job.cooldown_ns), (Some(10_000_000_000), 5_000_000_000, 0));
    assert!(job.access.buffered && !job.access.dsync);
    assert!(has_note("", "page cache") && has_note("-Sb", "page cache") && !has_note("-Su", "page cache"));
}

#[test]
fn sizes_have_letters_and_blocks_wherever_b_stands() {
    assert_eq!(job("-B8b -b4k").region.offset, Extent::Bytes(32_768));
    assert_eq!(job("-b512 -B1M:1g").region.size, Extent::Bytes(1 << 30));
    assert_eq!(job("-B1M -f3m").region.size, Extent::Bytes(2 << 20));
    assert_eq!(read("-c2T -r").create_bytes, Some(2 << 40));
    for line in
        ["-b", "-b4kb", "-b-4k", "-b0", "-b64M", "-b99999999999T", "-B2M -f1M", "-B1M: ", "-B0:1M -f1M", "-c1.5G"]
    {
        error(line);
    }
    assert!(error("-b 4k").contains("without a blank"));
}

#[test]
fn random_and_sequential() {
    let random = |align_bytes| Pattern::Random { align_bytes, skew_bytes: 0 };
    assert_eq!(job("-b8k -r4k").pattern, random(4096));
    assert_eq!(job("-b8k -r8k").pattern, random(0));
    assert_eq!(job("-rs30 -r").pattern, Pattern::MixedSequential { random_percent: 30 });
    assert_eq!(job("-rs100").pattern, random(0));
    assert_eq!(job("-b4k -s64k").pattern, Pattern::Strided { stride_bytes: 65_536 });
    assert_eq!(job("-b4k -s4k").pattern, Pattern::Sequential { per_thread: false });
    assert_eq!(job("-b4k -s4k -t2 -T1g").pattern, Pattern::Sequential { per_thread: true });
    assert_eq!(job("-si -t2").pattern, Pattern::Sequential { per_thread: true });
    let zones = |zones| Pattern::Zones { zones, align_bytes: 0 };
    assert_eq!(
        job("-r -rdpct90/10:0/10:5/20").pattern,
        zones(vec![
            Zone { access_percent: 90.0, size_percent: 10.0 },
            Zone { access_percent: 0.0, size_percent: 10.0 },
            Zone { access_percent: 5.0, size_percent: 20.0 },
        ])
    );
    assert_eq!(
        job("-r -rdabs90/1G:10/3G -f4G").pattern,
        zones(vec![
            Zone { access_percent: 90.0, size_percent: 25.0 },
            Zone { access_percent: 10.0, size_percent: 75.0 },
        ])
    );
    for line in [
        "-r -s",
        "-rs0",
        "-rs101",
        "-s0",
        "-r0",
        "-rdpct90/10",
        "-r -rdabs90/1G",
        "-r -rdxyz1/1",
        "-r -rdpct90",
        "-si -T4k -t2",
        "-r -rdpct60/60:60/60",
    ] {
        error(line);
    }
}

#[test]
fn rates_bursts_and_threads_add_up() {
    assert_eq!(job("-g100 -t4").arrival, Arrival::Throttled { iops: None, bytes_per_second: Some(400_000.0) });
    assert_eq!(job("-g250i -t4").arrival, Arrival::Throttled { iops: Some(1000.0), bytes_per_second: None });
    assert_eq!(job("-i10 -j5").burst, Some(Burst { ios: 10, pause_ns: 5_000_000 }));
    assert_eq!((job("-F6 -O3").threads, job("-F6 -O3").depth), (6, 3));
    assert_eq!(job("-a0,2,4").cpus, [0, 2, 4]);
    assert_eq!(job("-ag0,1,3 -n").cpus, [1, 3]);
    assert_eq!(job("-Z -w100").data.compressible_percent, 100);
    assert!(has_note("-w100", "random data") && !has_note("-w100 -Zr", "random data"));
    for line in [
        "-g0", "-gx", "-i10", "-j5", "-t2 -F2", "-o1 -O1", "-t0", "-t99999", "-ag1,0", "-ax", "-a0,", "-w101", "-w",
        "-d0",
    ] {
        error(line);
    }
}

#[test]
fn caches_as_said() {
    let access = |line: &str| {
        let access = job(line).access;
        (access.buffered, access.dsync)
    };
    assert_eq!(access("-Sh"), (false, true));
    assert_eq!(access("-S"), (false, false));
    assert_eq!(access("-Su"), (false, false));
    assert_eq!(access("-Sw"), (true, true));
    assert_eq!(access("-Sbw"), (true, true));
    assert_eq!(access("-Swu"), (false, true));
    for line in ["-h -Su", "-Sbu", "-Sm", "-Sq", "-Sww", "-hx"] {
        error(line);
    }
}

#[test]
fn what_has_no_equal_is_noted_and_what_is_unknown_named() {
    let line = "-b4k -D500 -eDISK_IO -I2 -l -x -P -v -vs -p -frs -ysgo -Rxml -z -Z1M,file -:1 #1 #12";
    let plan = read(line);
    assert!(plan.xml);
    for option in ["-D500", "-eDISK_IO", "-I2", "\"-l\"", "\"-x\"", "-frs", "-Rxml", "-z", "-Z", "#1 ", "#12"] {
        assert!(plan.plan.notes.iter().any(|note| note.contains(option)), "{option}: {:?}", plan.plan.notes);
    }
    assert!(error("-k4").contains("unknown option `-k4`"));
    assert!(error("-G5i").contains("nearest known one is `-g`"));
    assert!(error("--block=4k").contains("unknown option"));
    assert!(error("-r /dev/sda").contains("--target"));
    assert!(error("#x").contains("--target"));
    assert!(error("-Xprofile.xml").contains("TOML"));
    assert!(error("-Rp").contains("not supported"));
    error("-");
}

proptest! {
    #[test]
    fn no_words_panic(words in proptest::collection::vec("-?[a-zA-Z#:é]{0,2}[0-9kKg/:,.i]{0,12}\\PC{0,3}", 0..12)) {
        let _ = parse(&words);
    }

    #[test]
    fn sizes_are_bounded(size in 0u64..1 << 40, threads in 0u32..5000, depth in 0u32..100_000) {
        if let Ok(result) = parse(&words(&format!("-b{size} -t{threads} -o{depth} -Sh"))) {
            let job = &result.plan.groups[0][0];
            prop_assert!((1..=32 << 20).contains(&job.max_io_bytes()));
            prop_assert!((1..=1024).contains(&job.threads) && (1..=65_536).contains(&job.depth));
        }
    }
}
