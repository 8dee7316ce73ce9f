use super::*;
use crate::job::model::{Access, Arrival, Burst, Calls, End, Extent, Job, Pattern, Think, Zone};
use crate::job::steady::{Criterion, Figure, Limit, Rule, Steady};
use forebay_block::{OpKind, WaitMethod};
use proptest::prelude::*;

fn plan(text: &str) -> Plan {
    parse(text, "t.toml").unwrap_or_else(|e| panic!("{text}\n{e}"))
}

fn job(keys: &str) -> Job {
    plan(&format!("[[job]]\n{keys}\n")).groups[0][0].clone()
}

fn error(text: &str) -> String {
    match parse(text, "t.toml") {
        Err(error) => error.to_string(),
        Ok(plan) => panic!("{text}\n{plan:#?}"),
    }
}

fn job_error(keys: &str) -> String {
    error(&format!("[[job]]\n{keys}\n"))
}

#[test]
fn an_empty_job_is_the_default() {
    assert_eq!(job(""), Job { name: "job1".to_owned(), ..Job::default() });
}

/// The errors were "struct RegionText belongs here" and "a sequence belongs here".
#[test]
fn regression_no_type_of_the_program_is_asked_for_where_a_table_or_list_belongs() {
    for (keys, example) in [
        ("region = \"50%\"", "such as { offset = \"1GiB\", size = \"50%\" } belongs here"),
        ("burst = 64", "such as { ios = 64, pause = \"10ms\" } belongs here"),
        ("trace = \"times.txt\"", "such as { file = \"times.txt\", speed = 2.0 } belongs here"),
        ("mix = \"read\"", "such as { read = 70, write = 30 } belongs here"),
        ("cpus = 2", "a list in square brackets, such as [0, 2]"),
    ] {
        let said = job_error(keys);
        assert!(said.contains(example) && !said.contains("Text") && !said.contains("sequence"), "{keys}: {said}");
    }
}

#[test]
fn every_key_arrives() {
    let text = r#"
        name = "all"
        rw = "randrw"
        read_percent = 70
        fua = true
        flush_every = 32
        flush_kind = "fsync"
        size = ["4KiB:80", "64KiB:20"]
        size_write = 8192
        size_trim = "1MiB"
        align = "4KiB"
        skew = 512
        region = { offset = "1GiB", size = "50%" }
        threads = 4
        depth = 8
        arrival = "throttled"
        rate = "100MiB/s"
        think = "10us"
        think_compute = true
        burst = { ios = 64, pause = "10ms" }
        runtime = "60s"
        bytes = "10GB"
        ios = 1000
        passes = 2.5
        warmup = "5s"
        cooldown = "1s"
        start_delay = "2s"
        compressible = 50
        duplicates = 10
        verify = true
        seed = 7
        cpus = [0, 2]
        wait = "hybrid:20us"
        calls = "ring-polled"
        buffered = true
        dsync = true
        single_submission = true
    "#;
    let job = job(text);
    assert_eq!(job.mix.weights, [(OpKind::Read, 70), (OpKind::WriteFua, 30)]);
    assert_eq!(job.mix.flush_every, Some((OpKind::Fsync, 32)));
    assert_eq!(job.sizes.read.choices, [(4096, 80), (65_536, 20)]);
    assert_eq!((job.sizes.write.max_bytes(), job.sizes.trim.max_bytes()), (8192, 1 << 20));
    assert_eq!(job.pattern, Pattern::Random { align_bytes: 4096, skew_bytes: 512 });
    assert_eq!((job.region.offset, job.region.size), (Extent::Bytes(1 << 30), Extent::Percent(50.0)));
    assert_eq!((job.threads, job.depth, job.seed), (4, 8, 7));
    assert_eq!(job.arrival, Arrival::Throttled { iops: None, bytes_per_second: Some(104_857_600.0) });
    assert_eq!(job.think, Some(Think { time_ns: 10_000, compute: true }));
    assert_eq!(job.burst, Some(Burst { ios: 64, pause_ns: 10_000_000 }));
    assert_eq!(
        job.end,
        End {
            after_ns: Some(60_000_000_000),
            after_bytes: Some(10_000_000_000),
            after_ios: Some(1000),
            after_passes: Some(2.5),
            after_walks: None,
            pass_unit_bytes: 0,
        }
    );
    assert_eq!((job.warmup_ns, job.cooldown_ns, job.start_delay_ns), (5_000_000_000, 1_000_000_000, 2_000_000_000));
    assert_eq!((job.data.compressible_percent, job.data.duplicate_percent), (50, 10));
    assert_eq!(job.cpus, [0, 2]);
    assert_eq!(job.wait, WaitMethod::Hybrid { spin_ns: 20_000 });
    assert_eq!(job.access, Access { calls: Calls::RingPolled, buffered: true, dsync: true });
    assert!(job.verify && job.single_submission);
}

#[test]
fn every_pattern_can_be_written() {
    let zone = |access_percent, size_percent| Zone { access_percent, size_percent };
    for (text, pattern) in [
        ("random", Pattern::Random { align_bytes: 0, skew_bytes: 0 }),
        ("sequential", Pattern::Sequential { per_thread: false }),
        ("sequential:per-thread", Pattern::Sequential { per_thread: true }),
        ("strided:1MiB", Pattern::Strided { stride_bytes: 1 << 20 }),
        ("strided:-64KiB", Pattern::Strided { stride_bytes: -65_536 }),
        ("mixed:30", Pattern::MixedSequential { random_percent: 30 }),
        ("zipf:0.99", Pattern::Zipf { theta: 0.99 }),
        ("ycsb", Pattern::YcsbZipf),
        ("pareto:0.2", Pattern::Pareto { h: 0.2 }),
        ("normal:10", Pattern::Normal { deviation_percent: 10.0, scattered: false }),
        ("normal-scattered:10", Pattern::Normal { deviation_percent: 10.0, scattered: true }),
        ("zones: 90/10, 10/90", Pattern::Zones { zones: vec![zone(90.0, 10.0), zone(10.0, 90.0)], align_bytes: 0 }),
        ("shuffled", Pattern::Shuffled),
    ] {
        assert_eq!(job(&format!("pattern = {text:?}")).pattern, pattern, "{text}");
    }
    assert_eq!(job("rw = \"read\"").pattern, Pattern::Sequential { per_thread: false });
    assert_eq!(job("rw = \"read\"\npattern = \"shuffled\"").pattern, Pattern::Shuffled);
    for text in
        ["zipf", "zipf:x", "zipf:-1", "mixed:30.5", "mixed:101", "strided", "zones:90", "zones:", "ycsb:1", "randm"]
    {
        job_error(&format!("pattern = {text:?}"));
    }
    assert!(job_error("pattern = \"randm\"").contains("random"));
    assert!(job_error("pattern = \"shuffled\"\nalign = 4096").contains("align"));
    assert!(job_error("pattern = \"zones:90/10\"\nskew = 512").contains("align"));
}

#[test]
fn arrivals() {
    let arrival = |keys: &str| job(keys).arrival;
    assert_eq!(arrival("rate = 1000"), Arrival::Constant { iops: 1000.0 });
    assert_eq!(arrival("rate = 0.5\narrival = \"poisson\""), Arrival::Poisson { iops: 0.5 });
    assert_eq!(arrival("rate = \"4MiB/s\""), Arrival::Constant { iops: 1024.0 });
    assert_eq!(
        arrival("rate = 5\narrival = \"throttled\""),
        Arrival::Throttled { iops: Some(5.0), bytes_per_second: None }
    );
    assert_eq!(
        arrival("trace = { file = \"t.txt\", speed = 2.0 }"),
        Arrival::Times { path: "t.txt".into(), speed: 2.0 }
    );
    for keys in [
        "arrival = \"poisson\"",
        "arrival = \"trace\"",
        "arrival = \"closed\"\nrate = 5",
        "rate = 5\ntrace = { file = \"t\" }",
        "rate = 0",
        "rate = 5\nthink = \"1us\"",
        "rate = \"4MiB/s\"\nmix = { flush = 1 }",
    ] {
        job_error(keys);
    }
}

#[test]
fn defaults_are_filled_in_but_never_contradict() {
    let plan = plan(
        r#"
        [defaults]
        rw = "randrw"
        read_percent = 70
        fua = true
        size = "8KiB"
        size_write = "16KiB"
        runtime = "30s"
        rate = 100
        depth = 4
        [[job]]
        name = "plain"
        [[job]]
        name = "own"
        mix = { read = 1, trim = 1 }
        size = "4KiB"
        passes = 1.0
        arrival = "poisson"
        [[job]]
        name = "closed"
        arrival = "closed"
        depth = 9
        "#,
    );
    let [plain, own, closed] = plan.groups[0].as_slice() else { panic!("{plan:#?}") };
    assert_eq!(plain.mix.weights, [(OpKind::Read, 70), (OpKind::WriteFua, 30)]);
    assert_eq!((plain.sizes.read.max_bytes(), plain.sizes.write.max_bytes()), (8192, 16_384));
    assert_eq!(plain.arrival, Arrival::Constant { iops: 100.0 });
    assert_eq!(own.mix.weights, [(OpKind::Read, 1), (OpKind::Trim, 1)]);
    assert_eq!(own.sizes.write.max_bytes(), 4096);
    assert_eq!(own.end, End { after_passes: Some(1.0), ..End::default() });
    assert_eq!(own.arrival, Arrival::Poisson { iops: 100.0 });
    assert_eq!((closed.arrival.clone(), closed.depth, own.depth), (Arrival::Closed, 9, 4));
    assert_ne!(plain.seed, own.seed);
    assert!(error("[defaults]\nname = \"x\"\n[[job]]\n").contains("name"));
}

#[test]
fn groups_run_in_order() {
    let groups = |text: &str| {
        plan(text).groups.iter().map(|g| g.iter().map(|job| job.name.clone()).collect::<Vec<_>>()).collect::<Vec<_>>()
    };
    let text = "[[job]]\nname='c'\nafter='b'\n[[job]]\nname='a'\n[[job]]\nname='b'\nafter='a'\n[[job]]\nname='z'\ngroup=9\n\
                [[job]]\nname='y'\ngroup=2\n";
    assert_eq!(groups(text), [vec!["a"], vec!["b", "y"], vec!["c"], vec!["z"]]);
    assert!(error("[[job]]\nname='a'\nafter='b'\n[[job]]\nname='b'\nafter='a'\n").contains("circle"));
    assert!(error("[[job]]\nname='a'\nafter='a'\n").contains("circle"));
    assert!(error("[[job]]\nname='fill'\n[[job]]\nafter='fil'\n").contains("`fill`"));
    assert!(error("[[job]]\nname='a'\n[[job]]\nname='b'\nafter='a'\ngroup=3\n").contains("one of the two"));
    assert!(error("[[job]]\ngroup=0\n").contains("from 1"));
    assert!(error("[[job]]\nname='a'\n[[job]]\nname='a'\n").contains("another job"));
}

/// There was no suggestion for `direct`, and the one for `ioengine` had another meaning.
#[test]
fn regression_keys_of_fio_for_the_way_of_access_have_a_counterpart() {
    for (theirs, ours) in
        [("direct = 1", "`buffered`"), ("ioengine = \"libaio\"", "`calls`"), ("iodepth = 4", "`depth`")]
    {
        assert!(job_error(theirs).ends_with(&format!("the nearest known one is {ours}")), "{}", job_error(theirs));
    }
}

#[test]
fn errors_name_line_key_and_neighbour() {
    let text = error("[[job]]\nname = \"a\"\ndetph = 4\n");
    assert_eq!(text, "t.toml:3:1: unknown key `detph`; the nearest known one is `depth`");
    let text = error("[[job]]\nrw = \"randred\"\n");
    assert!(text.starts_with("t.toml:2:6: unknown value `randred`") && text.contains("`randread`"), "{text}");
    let text = error("[[job]]\n\nsize = \"4k\"\n");
    assert!(text.starts_with("t.toml:3:8:") && text.contains("KiB"), "{text}");
    let text = error("[[job]]\nmix = { raed = 1 }\n");
    assert!(text.contains("`raed`") && text.contains("`read`"), "{text}");
    let text = error("[[job]]\nruntime = 60\n");
    assert!(text.contains("unit") || text.contains("with ns"), "{text}");
    let text = error("[[job]]\nname = \"a\"\nthreads = 0\n");
    assert!(text.contains("\"a\"") && text.contains("threads"), "{text}");
    assert!(error("[[jobs]]\n").contains("`job`"));
    assert!(error("").contains("[[job]]"));
    assert!(error("[[job]\n").starts_with("t.toml:1:"));
    for keys in [
        "rw = \"read\"\nmix = { read = 1 }",
        "mix = { read = 1 }\nfua = true",
        "mix = { read = 1 }\nread_percent = 5",
        "mix = {}",
        "read_percent = 101\nrw = \"rw\"",
        "flush_kind = \"fsync\"",
        "think_compute = true",
        "size = []",
        "size = [\"4KiB:x\"]",
        "size = -1",
        "size = \"5GiB\"",
        "region = { size = \"101%\" }",
        // A size of 0 meant the whole target.
        "region = { size = 0 }",
        "region = { offset = \"1MiB\", size = \"0\" }",
        "wait = \"hybrid\"",
        "calls = \"sync\"\ndepth = 2",
        "depth = -1",
        "passes = nan",
        "rate = inf",
    ] {
        job_error(keys);
    }
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC{0,200}") {
        let _ = parse(&text, "t.toml");
    }

    #[test]
    fn no_value_panics(
        key in proptest::sample::select(vec![
            "size", "size_write", "pattern", "rate", "think", "runtime", "bytes", "region.size", "wait", "skew",
        ]),
        value in "[-a-z0-9:/,.%KMGiBs ]{0,20}",
        number in any::<i64>(),
        quoted in any::<bool>(),
    ) {
        let value = if quoted { format!("{value:?}") } else { number.to_string() };
        if let Ok(plan) = parse(&format!("[[job]]\n{key} = {value}\n"), "t.toml") {
            let job = &plan.groups[0][0];
            prop_assert!((1..=32 << 20).contains(&job.max_io_bytes()));
        }
    }
}

#[test]
fn a_job_may_end_when_it_is_steady() {
    let criterion = Criterion { figure: Figure::Iops, rule: Rule::Slope };
    let expected =
        Steady { criterion, limit: Limit::Percent(0.3), window_ns: 6_000_000_000, ramp_ns: 0, every_ns: 1_000_000_000 };
    let keys = "steadystate = \"iops_slope:0.3%\"\nsteadystate_duration = \"6s\"";
    assert_eq!(job(keys).steady, Some(expected));
    let more = format!("{keys}\nsteadystate_ramp_time = \"1s\"\nsteadystate_check_interval = \"500ms\"");
    assert_eq!(job(&more).steady, Some(Steady { ramp_ns: 1_000_000_000, every_ns: 500_000_000, ..expected }));
    for (text, limit) in [("bw:1MiB", 1_048_576.0), ("bw:1MiB/s", 1_048_576.0), ("lat:2us", 2000.0), ("iops:50", 50.0)]
    {
        let found = job(&keys.replace("iops_slope:0.3%", text)).steady.unwrap();
        assert_eq!(found.limit, Limit::Fixed(limit), "{text}");
    }
    // The job completes what the defaults give.
    let shared = plan(&format!("[defaults]\n{keys}\n[[job]]\nsteadystate_duration = \"4s\"\n[[job]]\n"));
    let windows: Vec<u64> = shared.groups[0].iter().map(|job| job.steady.unwrap().window_ns).collect();
    assert_eq!(windows, [4_000_000_000, 6_000_000_000]);
}

#[test]
fn steady_states_that_cannot_be_are_refused_by_their_key() {
    let with = |text: &str| job_error(&format!("steadystate = \"iops:5%\"\n{text}"));
    for (error, parts) in [
        (with(""), ["steadystate_duration", "missing"]),
        (with("steadystate_duration = \"1500ms\""), ["steadystate_duration", "multiple of steadystate_check_interval"]),
        (with("steadystate_duration = \"11s\""), ["runtime", "can be seen after 11 s"]),
        (with("steadystate_duration = \"4s\"\ncooldown = \"1s\""), ["cooldown", "ends at once"]),
        (job_error("steadystate_duration = \"4s\""), ["steadystate_duration", "give that too"]),
        (job_error("steadystate = \"iops\""), ["iops", "has no limit"]),
        (job_error("steadystate = \"iop:5%\""), ["\"iop\" is no criterion", "iops_slope"]),
        (job_error("steadystate = \"lat:5\"\nsteadystate_duration = \"4s\""), ["not a time without its unit", "5s"]),
        (job_error("ss = \"iops:5%\""), ["unknown key `ss`", "`steadystate`"]),
    ] {
        assert!(parts.iter().all(|part| error.contains(part)), "{error}: {parts:?}");
    }
}
