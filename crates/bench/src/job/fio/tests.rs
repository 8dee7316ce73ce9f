use super::*;
use crate::job::model::{Access, Arrival, Burst, Calls, End, Extent, Pattern, Think, Zone};
use crate::job::steady::{Criterion, Figure, Limit, Rule, Steady};
use forebay_block::{OpKind, WaitMethod};
use proptest::prelude::*;

fn surroundings() -> Surroundings<'static> {
    let variable: &dyn Fn(&str) -> Option<String> = &|name| (name == "SIZE").then(|| "64m".to_owned());
    Surroundings { variable, page_bytes: 4096, memory_mib: 1000, cpus: 2 }
}

fn plan(text: &str) -> Plan {
    parse_in(text, "t.fio", &surroundings()).unwrap_or_else(|e| panic!("{text}\n{e}"))
}

/// A job with these keys, one on each line.
fn job(keys: &str) -> Job {
    plan(&format!("[a]\nsize=1g\n{}\n", keys.replace(' ', "\n"))).groups[0][0].clone()
}

fn error(text: &str) -> String {
    match parse_in(text, "t.fio", &surroundings()) {
        Err(error) => error.to_string(),
        Ok(plan) => panic!("{text}\n{plan:#?}"),
    }
}

fn job_error(keys: &str) -> String {
    error(&format!("[a]\nsize=1g\n{}\n", keys.replace(' ', "\n")))
}

#[test]
fn defaults_are_fios() {
    let job = job("");
    assert_eq!((job.threads, job.depth, job.warmup_ns), (1, 1, 0));
    assert_eq!(job.mix.weights, [(OpKind::Read, 100)]);
    assert_eq!(job.sizes.read.choices, [(4096, 1)]);
    assert_eq!(job.pattern, Pattern::Sequential { per_thread: false });
    assert_eq!(job.access, Access { calls: Calls::Sync { high_priority: false }, buffered: true, dsync: false });
    assert_eq!(job.end, End { after_passes: Some(1.0), pass_unit_bytes: 4096, ..End::default() });
    assert!(job.single_submission);
    assert!(plan("[a]\nsize=1g").notes.iter().any(|note| note.contains("page cache")));
}

#[test]
fn global_holds_for_what_follows_and_stonewalls_make_groups() {
    let plan = plan(
        "; a comment\n[global]\nbs=8k ; eight\ndirect=1\n\n[one]\nrw=randread\nsize=1m\n[two]\nbs=16k\nsize=1m\n\
         [global]\nstonewall\nbs = 32k\n[three]\nsize=1m\n[four]\nsize=1m\nstonewall=0\n[five]\nsize=${SIZE} # all\n",
    );
    let names: Vec<Vec<&str>> =
        plan.groups.iter().map(|group| group.iter().map(|job| job.name.as_str()).collect()).collect();
    assert_eq!(names, [vec!["one", "two"], vec!["three", "four"], vec!["five"]]);
    let sizes: Vec<u32> = plan.groups.iter().flatten().map(|job| job.sizes.read.max_bytes()).collect();
    assert_eq!(sizes, [8192, 16_384, 32_768, 32_768, 32_768]);
    assert!(plan.groups.iter().flatten().all(|job| !job.access.buffered));
    assert_eq!(plan.groups[2][0].region.size, Extent::Bytes(64 << 20));
}

#[test]
fn wait_for_ends_the_group_of_the_job_it_names() {
    let text = "[global]\nsize=1m\nthreads=1\n[w]\nrw=write\n[r]\nwait_for=w\nrw=read\n[q]\nwait_for=w\n";
    let groups: Vec<usize> = plan(text).groups.iter().map(Vec::len).collect();
    assert_eq!(groups, [1, 2]);
}

#[test]
fn kinds_and_mixes() {
    use OpKind::{Read, Trim, Write};
    assert_eq!(job("rw=randrw").mix.weights, [(Read, 50), (Write, 50)]);
    assert_eq!(job("rw=rw rwmixread=70").mix.weights, [(Read, 70), (Write, 30)]);
    assert_eq!(job("rw=randrw rwmixwrite=10").mix.weights, [(Read, 90), (Write, 10)]);
    assert_eq!(job("rw=randrw rwmixread=80 rwmixwrite=60").mix.weights, [(Read, 40), (Write, 60)]);
    assert_eq!(job("rw=randrw rwmixwrite=60 rwmixread=80").mix.weights, [(Read, 80), (Write, 20)]);
    assert_eq!(job("readwrite=randtrim").mix.weights, [(Trim, 100)]);
    assert_eq!(job("rw=trimwrite").mix.weights, [(Write, 50), (Trim, 50)]);
    assert_eq!(job("rw=randwrite fsync=32").mix.flush_every, Some((OpKind::Fsync, 32)));
    assert_eq!(job("rw=write fdatasync=1").mix.flush_every, Some((OpKind::Flush, 1)));
    assert_eq!(job("rw=read fsync=1").mix.flush_every, None);
    assert!(job_error("rw=randred").contains("`randread`"));
}

#[test]
fn patterns() {
    let random = |align_bytes| Pattern::Random { align_bytes, skew_bytes: 0 };
    for (keys, pattern) in [
        ("rw=randread", Pattern::Shuffled),
        ("rw=randread norandommap", random(0)),
        ("rw=randread bssplit=4k/50:16k/50", random(4096)),
        ("rw=randread blockalign=2m", random(2 << 20)),
        ("rw=randrw bs=4k,8k", random(4096)),
        ("rw=randread percentage_random=30", Pattern::MixedSequential { random_percent: 30 }),
        ("rw=randread:8", Pattern::MixedSequential { random_percent: 13 }),
        ("rw=read:-8k", Pattern::Strided { stride_bytes: -4096 }),
        ("rw=write:112k bs=16k", Pattern::Strided { stride_bytes: 128 << 10 }),
        ("rw=randread random_distribution=zipf:1.2", Pattern::Zipf { theta: 1.2 }),
        ("rw=randread random_distribution=zipf", Pattern::Zipf { theta: 1.1 }),
        ("rw=randread random_distribution=pareto:0.3:0.5", Pattern::Pareto { h: 0.3 }),
        ("rw=randread random_distribution=random", Pattern::Shuffled),
        ("rw=read random_distribution=zipf:1.2", Pattern::Sequential { per_thread: false }),
    ] {
        assert_eq!(job(keys).pattern, pattern, "{keys}");
    }
    let zone = |access_percent, size_percent| Zone { access_percent, size_percent };
    let zones = Pattern::Zones { zones: vec![zone(50.0, 5.0), zone(30.0, 15.0), zone(20.0, 80.0)], align_bytes: 0 };
    assert_eq!(job("rw=randread random_distribution=zoned:50/5:30/15:20/").pattern, zones);
    assert_eq!(job("rw=randrw random_distribution=zoned:50/5:30/15:20/").pattern, zones);
    let whole = Pattern::Zones { zones: vec![zone(100.0, 100.0)], align_bytes: 0 };
    assert_eq!(job("rw=randwrite random_distribution=zoned:50/5:30/15:20/80,100/100").pattern, whole);
    let both = Pattern::ByKind(Box::new([zones.clone(), whole.clone(), whole]));
    assert_eq!(job("rw=randrw random_distribution=zoned:50/5:30/15:20/80,100/100").pattern, both);
    assert_eq!(job("rw=randread random_distribution=zoned:50/5:30/15:20/80,100/100").pattern, zones);
    let absolute = job("rw=randread random_distribution=zoned_abs:75/256m:25/768m").pattern;
    assert_eq!(absolute, Pattern::Zones { zones: vec![zone(75.0, 25.0), zone(25.0, 75.0)], align_bytes: 0 });
    for keys in
        ["zipf:x", "zipf:0", "pareto:1", "zonde:1/2", "normal:100", "sequence:2,0,1", "zoned:50", "zoned:90/60:10/60"]
    {
        job_error(&format!("rw=randread random_distribution={keys}"));
    }
    assert!(error("[a]\nrw=randread\nrandom_distribution=zoned_abs:90/1g:10/1g").contains("size="));
}

/// Such a job ended after one walk through the region, with a quarter of the I/Os that fio makes.
#[test]
fn regression_a_walk_with_strides_goes_on_until_its_size_is_done_as_in_fio() {
    for keys in ["rw=read:12k bs=4k", "rw=write:-8k bs=4k", "rw=read bs=4k"] {
        assert_eq!(job(keys).end.after_passes, Some(1.0), "{keys}");
    }
}

/// Reads and writes shared one sequence, so neither was sequential, and the range was twice as large.
#[test]
fn regression_each_direction_of_a_sequential_mix_has_a_sequence_of_its_own_as_in_fio() {
    let plan = plan("[a]\nrw=rw\nsize=16m\nbs=64k\n");
    let mut generator = crate::pattern::Generator::new(&plan.groups[0][0], (1 << 20, 16 << 20), 0).unwrap();
    let made: Vec<crate::pattern::Next> = (0..200).map(|_| generator.next()).collect();
    for kind in [OpKind::Read, OpKind::Write] {
        let offsets: Vec<u64> = made.iter().filter(|io| io.kind == kind).map(|io| io.offset_bytes).collect();
        assert!(offsets.len() > 60);
        assert!(
            offsets.iter().enumerate().all(|(at, &offset)| offset == (1 << 20) + (at as u64 * 65_536)),
            "{offsets:?}"
        );
    }
    let own = |pattern: Pattern| Pattern::ByKind(Box::new([pattern.clone(), pattern.clone(), pattern]));
    assert_eq!(job("rw=randrw:8").pattern, own(Pattern::MixedSequential { random_percent: 13 }));
    assert_eq!(job("rw=trimwrite").pattern, own(Pattern::Sequential { per_thread: false }));
    assert_eq!(job("rw=rw rwmixread=100").pattern, Pattern::Sequential { per_thread: false });
    // Each direction follows its own size.
    let strided =
        Pattern::ByKind(Box::new([8192, 12_288, 12_288].map(|stride_bytes| Pattern::Strided { stride_bytes })));
    assert_eq!(job("rw=rw:4k bs=4k,8k").pattern, strided);
}

/// Only the first value counted, so writes were random too.
#[test]
fn regression_percentage_random_is_by_direction_as_in_fio() {
    let mixed = |random_percent| Pattern::MixedSequential { random_percent };
    let of = |reads, writes: Pattern| Pattern::ByKind(Box::new([reads, writes.clone(), writes]));
    assert_eq!(job("rw=randrw percentage_random=100,0").pattern, of(Pattern::Shuffled, mixed(0)));
    assert_eq!(job("rw=randrw percentage_random=30,60").pattern, of(mixed(30), mixed(60)));
    assert_eq!(job("rw=randrw percentage_random=100").pattern, Pattern::Shuffled);
    assert_eq!(job("rw=randwrite percentage_random=100,0").pattern, mixed(0));
    assert_eq!(job("rw=randread percentage_random=100,0").pattern, Pattern::Shuffled);
    job_error("rw=randread percentage_random=101");
    let plan = plan("[a]\nrw=randrw\nsize=16m\npercentage_random=100,0\n");
    let mut generator = crate::pattern::Generator::new(&plan.groups[0][0], (0, 16 << 20), 0).unwrap();
    let writes: Vec<u64> =
        (0..1000).map(|_| generator.next()).filter(|io| io.kind == OpKind::Write).map(|io| io.offset_bytes).collect();
    assert!(writes.iter().enumerate().all(|(at, &offset)| offset == at as u64 * 4096), "{writes:?}");
}

/// The sum was divided by the mix: `rate_iops=300,100` became 201 reads and 199 writes a second.
#[test]
fn regression_rates_by_direction_make_the_mix_as_in_fio() {
    use OpKind::{Read, Write};
    let of = |keys: &str| {
        let job = job(keys);
        (job.mix.weights, job.arrival)
    };
    let throttled = |iops, bytes_per_second| Arrival::Throttled { iops, bytes_per_second };
    assert_eq!(of("rw=randrw rate_iops=300,100"), (vec![(Read, 300), (Write, 100)], throttled(Some(400.0), None)));
    assert_eq!(of("rw=randrw rwmixread=70 rate_iops=300").0, [(Read, 300), (Write, 300)]);
    assert_eq!(of("rw=rw rate=2m,1m"), (vec![(Read, 512), (Write, 256)], throttled(None, Some(f64::from(3 << 20)))));
    assert_eq!(of("rw=rw rate=1m bs=4k,8k").0, [(Read, 256), (Write, 128)]);
    assert_eq!(of("rw=rw rate=1000k,1").0, [(Read, 1_000_000), (Write, 1)]);
    assert_eq!(of("rw=randwrite rate_iops=300,100"), (vec![(Write, 100)], throttled(Some(100.0), None)));
    // The other direction runs at full speed, which no mix can express.
    for keys in ["rw=randrw rate_iops=,250", "rw=randrw rate_iops=300,0", "rw=rw rate=1m,"] {
        assert!(job_error(keys).contains("a job for each direction"), "{keys}");
    }
    assert_eq!(of("rw=randrw rate_iops=0").1, Arrival::Closed);
}

/// Offsets lay around the middle, although fio scatters them; and the given number was the deviation, although fio uses the mean of twelve
/// uniform numbers and one more.
#[test]
fn regression_normal_is_scattered_and_as_wide_as_fio_makes_it() {
    let plan = plan("[a]\nrw=randread\nsize=32m\nbs=4k\nrandom_distribution=normal:20\n");
    let job = &plan.groups[0][0];
    let Pattern::Normal { deviation_percent, scattered: true } = job.pattern else { panic!("{:?}", job.pattern) };
    assert!((deviation_percent - 10.138).abs() < 0.001, "{deviation_percent}");
    let mut generator = crate::pattern::Generator::new(job, (0, 32 << 20), 0).unwrap();
    let offsets: Vec<f64> = (0..8000).map(|_| generator.next().offset_bytes as f64 / f64::from(32 << 20)).collect();
    let mean = offsets.iter().sum::<f64>() / 8000.0;
    let variance = offsets.iter().map(|offset| (offset - mean).powi(2)).sum::<f64>() / 8000.0;
    // A uniform distribution has 0.2887; fio 3.33 measured 0.289.
    assert!((variance.sqrt() - 0.2887).abs() < 0.03, "{}", variance.sqrt());
}

/// fio refuses such zones; here the remaining accesses went to the rest of the region.
#[test]
fn regression_zones_without_all_accesses_are_refused_as_in_fio() {
    for zones in ["zoned:60/10:30/20", "zoned:60/10:30/90", "zoned:50/5:30/", "zoned_abs:60/1m:30/2m"] {
        let text = job_error(&format!("rw=randread random_distribution={zones}"));
        assert!(text.contains("90 %") || text.contains("80 %"), "{text}");
    }
    job("rw=randread random_distribution=zoned:60/10:40/20");
}

#[test]
fn sizes_by_direction() {
    let sizes = job("rw=randrw bs=8k,32k").sizes;
    assert_eq!((sizes.read.max_bytes(), sizes.write.max_bytes(), sizes.trim.max_bytes()), (8192, 32_768, 32_768));
    let sizes = job("rw=randrw bs=2k bssplit=64k/40:1024k/60,1024k/100").sizes;
    assert_eq!(sizes.read.choices, [(65_536, 40), (1 << 20, 60)]);
    assert_eq!(sizes.write.choices, [(1 << 20, 100)]);
    assert_eq!(job("bsrange=4k-4k").sizes.read.choices, [(4096, 1)]);
    assert_eq!(job("blocksize_range=1k-4k").sizes.read.choices.len(), 4);
    assert_eq!(job("bs=4KiB kb_base=1000").sizes.read.choices, [(4096, 1)]);
    let turned = plan("[a]\nsize=1m\nbs=4KiB\n");
    assert_eq!(turned.groups[0][0].sizes.read.choices, [(4000, 1)]);
    assert!(turned.notes.iter().any(|note| note.contains("4000 bytes")), "{:?}", turned.notes);
    for keys in ["bs=0", "bs=64m", "bs=4x", "bs=50%", "bs=", "bssplit=4k/60:8k/60", "bsrange=512-32m"] {
        job_error(keys);
    }
}

#[test]
fn engines_decide_calls_and_depth() {
    let of = |keys: &str| {
        let job = job(keys);
        (job.access.calls, job.depth, job.wait)
    };
    let sync = |high_priority| Calls::Sync { high_priority };
    assert_eq!(of("ioengine=io_uring iodepth=32"), (Calls::Ring, 32, WaitMethod::Sleep));
    assert_eq!(of("ioengine=libaio iodepth=4"), (Calls::Ring, 4, WaitMethod::Sleep));
    assert_eq!(of("ioengine=io_uring hipri"), (Calls::RingPolled, 1, WaitMethod::Spin));
    assert_eq!(of("ioengine=pvsync2 hipri iodepth=4"), (sync(true), 1, WaitMethod::Sleep));
    assert_eq!(of("ioengine=sync"), (sync(false), 1, WaitMethod::Sleep));
    assert!(!job("ioengine=io_uring iodepth=8 iodepth_batch=8").single_submission);
    assert!(!job("buffered=0").access.buffered && job("direct=1 buffered=1").access.buffered);
    assert!(job("sync=dsync").access.dsync && job("sync=1").access.dsync && !job("sync=none").access.dsync);
    let text = job_error("ioengine=http http_host=x");
    assert!(text.starts_with("t.fio:3: the engine `http`"), "{text}");
    assert!(job_error("ioengine=io_urin").contains("`io_uring`"));
    assert!(job_error("ioengine=external:/x.o").contains("external"));
}

#[test]
fn ends() {
    let end = |keys: &str| job(keys).end;
    let timed = End { after_ns: Some(60_000_000_000), ..End::default() };
    assert_eq!(end("runtime=60 time_based"), timed);
    assert_eq!(end("timeout=1m time_based=1 loops=4 number_ios=10"), timed);
    assert_eq!(end("runtime=60"), End { after_passes: Some(1.0), pass_unit_bytes: 4096, ..timed });
    assert_eq!(end("numjobs=4 loops=3").after_passes, Some(12.0));
    assert_eq!(end("io_size=256m numjobs=2"), End { after_bytes: Some(512 << 20), ..End::default() });
    assert_eq!(end("io_size=50% numjobs=2").after_passes, Some(1.0));
    assert_eq!(end("number_ios=100 numjobs=2").after_ios, Some(200));
    assert_eq!(end("time_based").after_passes, Some(1.0));
    let job = job("ramp_time=500ms startdelay=2");
    assert_eq!((job.warmup_ns, job.start_delay_ns), (500_000_000, 2_000_000_000));
}

#[test]
fn regions_and_clones_apart() {
    assert_eq!(job("offset=30%").region.offset, Extent::Percent(30.0));
    assert_eq!(plan("[a]\nsize=20%").groups[0][0].region.size, Extent::Percent(20.0));
    // As in fio, shares end at the end of the target.
    for size in [100, 80] {
        let text = format!("[a]\noffset=30%\nsize={size}%");
        assert_eq!(plan(&text).groups[0][0].region.resolve(1000, 1).unwrap(), (300, 700));
    }
    assert_eq!(plan("[a]\noffset=4k\nsize=100%").groups[0][0].region.resolve(1 << 20, 1).unwrap(), (4096, 1_044_480));
    let last = &plan("[a]\nsize=50%\nnumjobs=4\noffset_increment=25%").groups[0][3];
    assert_eq!(last.region.resolve(1000, 1).unwrap(), (750, 250));
    assert_eq!(plan("[a]\nfilesize=4k\nnrfiles=16").groups[0][0].region.size, Extent::Bytes(65_536));
    assert_eq!(plan("[a]\nsize=64*$pagesize").groups[0][0].region.size, Extent::Bytes(262_144));
    let jobs = &plan("[a]\nsize=1m\noffset=4k\nnumjobs=3\noffset_increment=1m\nrate_iops=300\nloops=2").groups[0];
    let offsets: Vec<Extent> = jobs.iter().map(|job| job.region.offset).collect();
    assert_eq!(offsets, [4096, 4096 + (1 << 20), 4096 + (2 << 20)].map(Extent::Bytes));
    for job in jobs {
        assert_eq!((job.threads, job.end.after_passes), (1, Some(2.0)));
        assert_eq!(job.arrival, Arrival::Throttled { iops: Some(300.0), bytes_per_second: None });
    }
    assert_eq!(jobs[2].name, "a.2");
    let percent = &plan("[a]\nsize=10%\nnumjobs=4\noffset_increment=25%").groups[0];
    assert_eq!(percent[3].region.offset, Extent::Percent(75.0));
    job_error("size=8z");
    job_error("numjobs=0");
    job_error("offset_increment=10% offset=4k numjobs=2");
    job_error("offset_increment=30% numjobs=5");
}

#[test]
fn rates_add_up_over_clones_and_directions() {
    let arrival = |keys: &str| job(keys).arrival;
    let throttled = |iops, bytes_per_second| Arrival::Throttled { iops, bytes_per_second };
    assert_eq!(arrival("rate_iops=1000 numjobs=4"), throttled(Some(4000.0), None));
    assert_eq!(arrival("rate=1m"), throttled(None, Some(1_048_576.0)));
    assert_eq!(arrival("rw=randrw rate=300,300,300"), throttled(None, Some(600.0)));
    assert_eq!(arrival("rw=randread rate_iops=50 rate_process=poisson"), Arrival::Poisson { iops: 50.0 });
    assert_eq!(arrival("rate=4m bs=4k rate_process=poisson"), Arrival::Poisson { iops: 1024.0 });
    assert_eq!(arrival("rate_iops=50 io_submit_mode=offload"), Arrival::Constant { iops: 50.0 });
    assert_eq!(arrival("rate_iops=0"), Arrival::Closed);
    assert_eq!(arrival("rate_process=poisson"), Arrival::Closed);
}

#[test]
fn think_time_is_in_microseconds() {
    assert_eq!(job("thinktime=2000").think, Some(Think { time_ns: 2_000_000, compute: false }));
    assert_eq!(job("thinktime=1ms thinktime_spin=1ms").think, Some(Think { time_ns: 1_000_000, compute: true }));
    let paused = job("thinktime=10ms thinktime_blocks=64");
    assert_eq!((paused.think, paused.burst), (None, Some(Burst { ios: 64, pause_ns: 10_000_000 })));
}

#[test]
fn cpus_data_and_seeds() {
    assert_eq!(job("cpus_allowed=0-2,8").cpus, [0, 1, 2, 8]);
    assert_eq!(job("cpumask=5").cpus, [0, 2]);
    let data = job("buffer_compress_percentage=40 dedupe_percentage=20").data;
    assert_eq!((data.compressible_percent, data.duplicate_percent), (40, 20));
    assert_eq!(job("zero_buffers").data.compressible_percent, 100);
    assert_eq!(job("randseed=77").seed, 77);
    let two = plan("[global]\nsize=1m\n[a]\n[b]\n");
    assert_ne!(two.groups[0][0].seed, two.groups[0][1].seed);
    for keys in ["cpus_allowed=3-1", "cpus_allowed=x", "cpus_allowed=0-99999", "dedupe_percentage=101"] {
        job_error(keys);
    }
}

#[test]
fn what_was_written_is_read_back() {
    let plan =
        plan("[global]\nsize=1m\nbs=64k\nverify=crc32c\n[w]\nrw=randwrite\niodepth=4\n[next]\nstonewall\nrw=read\n");
    let names: Vec<&str> = plan.groups.iter().flatten().map(|job| job.name.as_str()).collect();
    assert_eq!(names, ["w", "w-verify", "next"]);
    assert_eq!(plan.groups.len(), 3);
    let back = &plan.groups[1][0];
    assert!(back.verify && plan.groups.iter().flatten().all(|job| job.seed == back.seed));
    assert_eq!(back.mix.weights, [(OpKind::Read, 100)]);
    assert_eq!((back.sizes.read.max_bytes(), back.end.after_passes), (65_536, Some(1.0)));
    let alone = |keys: &str| {
        let text = format!("[w]\nsize=1m\nverify=md5\n{}\n", keys.replace(' ', "\n"));
        parse_in(&text, "t.fio", &surroundings()).unwrap().groups.len()
    };
    assert_eq!(alone("rw=write"), 2);
    for keys in ["rw=write do_verify=0", "rw=write runtime=5", "rw=randwrite norandommap", "rw=randrw", "rw=read"] {
        assert_eq!(alone(keys), 1, "{keys}");
    }
    assert!(!job("verify=0").verify && job("verify=meta").verify);
    assert_eq!(job("rw=write verify=md5 verify_only").mix.weights, [(OpKind::Read, 100)]);
    assert!(job_error("verify=md6").contains("`md5`"));
}

#[test]
fn errors_name_line_key_and_neighbour() {
    let text = error("[global]\nbs=4k\n\n[a]\nsize=1m\niodetph=4\n");
    assert_eq!(text, "t.fio:6: unknown key `iodetph`; the nearest known one is `iodepth`");
    let text = error("[global]\nbs=4q\n[a]\nsize=1m\n");
    assert!(text.starts_with("t.fio:2: bs: \"4q\" is not a size"), "{text}");
    let text = error("[a]\nzonemode=zbd\n");
    assert!(text.starts_with("t.fio:2: `zonemode` is not supported"), "{text}");
    plan("[a]\nsize=1m\nzonemode=none\n");
    assert!(error("bs=4k\n[a]\n").starts_with("t.fio:1:"));
    assert!(error("[a\nbs=4k\n").contains("no section"));
    assert!(error("[global]\nbs=4k\n").contains("no job"));
    assert!(error("").contains("no job"));
    assert!(error("[a]\ninclude other.fio\n").contains("include"));
    assert!(error("[a]\nsize=${NOT_SET}\n").contains("not set"));
    assert!(error("[a]\nstonewall=x\n").contains("0 or 1"));
    assert!(error(&"[a]\n".repeat(2000)).contains("1024"));
}

#[test]
fn notes_say_which_job_they_are_about() {
    let notes = plan("[global]\nsize=1m\ndirect=1\n[a]\nfilename=/dev/sdx\nnice=3\n[b]\n").notes;
    assert!(notes.iter().any(|note| note.starts_with("[a] `nice`")), "{notes:?}");
    assert!(notes.iter().any(|note| note.contains("filename") && note.contains("--target")), "{notes:?}");
    let shared = plan("[global]\nsize=1m\nnice=3\n[a]\n[b]\n").notes;
    assert!(shared.iter().any(|note| note.starts_with("`nice`")), "{shared:?}");
}

/// Jobs like those of fio's own examples.
#[test]
fn example_shapes() {
    let drive = "[global]\nbs=4k\nioengine=libaio\niodepth=4\nsize=10g\ndirect=1\nruntime=60\ndirectory=/mnt\n\
        filename=test.file\n[seq-read]\nrw=read\nstonewall\n[rand-read]\nrw=randread\nstonewall\n[seq-write]\nrw=write\n\
        stonewall\n[rand-write]\nrw=randwrite\nstonewall\n";
    assert_eq!(plan(drive).groups.len(), 4);
    let endurance = "[endurance]\nioengine=libaio\ndirect=1\nrw=randrw\nnorandommap\nrandrepeat=0\nrwmixread=40\n\
        rwmixwrite=60\niodepth=256\nnumjobs=4\nbssplit=512/4:1024/1:1536/1:2048/1:2560/1:3072/1:3584/1:4k/67:8k/10:16k/7:32k/3:64k/3\n\
        blockalign=4k\nrandom_distribution=zoned:50/5:30/15:20/80\nfilename=/dev/nvme0n1\ngroup_reporting\n";
    let job = &plan(endurance).groups[0][0];
    assert_eq!((job.sizes.read.choices.len(), job.threads, job.depth), (12, 4, 256));
    let server = "[global]\ndescription=a server of files\n[server]\nbssplit=512/10:1k/5:2k/5:4k/60:8k/2:16k/4:32k/4:64k/10\n\
        rw=randrw\nrwmixread=80\ndirect=1\nsize=4g\nioengine=libaio\niodepth=64\n";
    assert_eq!(plan(server).groups[0][0].mix.weights, [(OpKind::Read, 80), (OpKind::Write, 20)]);
    let shared = "[global]\nioengine=posixaio\nnumjobs=2\n[a]\nrw=read\nsize=8M\nrate=1250\nthread\n[b]\nstartdelay=4\nsize=8M\n";
    assert_eq!(plan(shared).groups[0][1].start_delay_ns, 4_000_000_000);
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC{0,200}") {
        let _ = parse_in(&text, "t.fio", &surroundings());
    }

    #[test]
    fn no_value_panics(
        lines in proptest::collection::vec(
            (proptest::sample::select(keys::names().collect::<Vec<_>>()), "[-0-9a-z%:,/.$({*]{0,14}|[0-9]{1,20}[kmgtp]?i?b?"),
            0..8,
        )
    ) {
        let keys: String = lines.iter().map(|(key, value)| format!("{key}={value}\n")).collect();
        if let Ok(plan) = parse_in(&format!("[a]\nsize=1m\n{keys}"), "t.fio", &surroundings()) {
            for job in plan.groups.iter().flatten() {
                prop_assert!((1..=32 << 20).contains(&job.max_io_bytes()));
                prop_assert!((1..=1024).contains(&job.threads) && (1..=65_536).contains(&job.depth));
            }
        }
    }
}

/// The keys of fio's examples/jesd219.fio that determine offsets.
const JESD219: &str = "[global]
bssplit=512/4:1024/1:1536/1:2048/1:2560/1:3072/1:3584/1:4k/67:8k/10:16k/7:32k/3:64k/3
blockalign=4k
random_distribution=zoned:50/5:30/15:20/
rw=randrw
rwmixread=40
rwmixwrite=60
size=1g
[jesd219]
numjobs=4
";

#[test]
fn regression_blockalign_holds_in_zones() {
    let plan = plan(JESD219);
    let mut generator = crate::pattern::Generator::new(&plan.groups[0][0], (1 << 20, 1 << 30), 0).unwrap();
    let offsets: Vec<u64> = (0..10_000).map(|_| generator.next().offset_bytes).collect();
    assert!(offsets.iter().all(|offset| offset % 4096 == 0));
    // Half of the I/Os in the first twentieth, nearly a third in the following fifteen hundredths.
    let until = |percent: u64| offsets.iter().filter(|&&at| at - (1 << 20) < (1 << 30) / 100 * percent).count();
    assert!((4_800..5_200).contains(&until(5)) && (7_800..8_200).contains(&until(20)), "{} {}", until(5), until(20));
    // Refused where it is not possible.
    job_error("rw=randread bs=512 ba=4k random_distribution=zipf:1.1");
    assert_eq!(job("rw=randread bs=4k ba=4k random_distribution=zipf:1.1").pattern, Pattern::Zipf { theta: 1.1 });
}

#[test]
fn regression_clones_without_a_file_of_their_own_are_said_to_share_one() {
    let has_note = |text: &str| plan(text).notes.iter().any(|note| note.contains("share one region"));
    assert!(has_note(JESD219));
    for alone in ["numjobs=1", "numjobs=4\nfilename=/dev/sdx", "numjobs=4\noffset_increment=1m"] {
        assert!(!has_note(&format!("[a]\nrw=randread\nsize=1m\n{alone}")), "{alone}");
    }
}

#[test]
fn regression_engines_with_a_counterpart_are_mapped() {
    let run = |text: &str| plan(&format!("[a]\nrw=randread\nsize=1m\niodepth=4\n{text}"));
    for (engine, calls, note) in [
        ("linux-aio", Calls::Ring, "io_uring is used"),
        ("io_uring_cmd\ncmd_type=nvme\nregisterfiles=1", Calls::Ring, "past the block layer"),
        ("io_uring_cmd\nhipri=1", Calls::RingPolled, "past the block layer"),
        ("sg", Calls::Ring, "past the block layer"),
        ("xnvme\nxnvme_async=io_uring_cmd", Calls::Ring, "past the block layer"),
        ("libblkio\nlibblkio_driver=io_uring\nlibblkio_path=/dev/nvme0n1", Calls::Ring, "past the block layer"),
        ("cpp_null", Calls::Ring, "--target decides"),
        ("rbd\npool=p\nrbdname=fio_test", Calls::Ring, "--target decides"),
        ("libpmem", Calls::Sync { high_priority: false }, "instead of a mapping"),
        ("splice", Calls::Sync { high_priority: false }, "which copy"),
    ] {
        let plan = run(&format!("ioengine={engine}\n"));
        assert_eq!(plan.groups[0][0].access.calls, calls, "{engine}");
        assert!(plan.notes.iter().any(|found| found.contains(note)), "{engine}: {:?}", plan.notes);
    }
    // Engines that would do something else are refused.
    for engine in ["sg\nsg_write_mode=write_same", "io_uring_cmd\nwrite_mode=zeroes", "rados", "filecreate"] {
        job_error(&format!("rw=randread\nsize=1m\nioengine={engine}"));
    }
}

#[test]
fn steady_states_are_fios() {
    let steady = |figure, rule, limit| {
        let criterion = Criterion { figure, rule };
        Some(Steady { criterion, limit, window_ns: 30_000_000_000, ramp_ns: 0, every_ns: 1_000_000_000 })
    };
    for (text, expected) in [
        ("ss=iops:5% ss_dur=30", steady(Figure::Iops, Rule::Deviation, Limit::Percent(5.0))),
        (
            "steadystate=bw_slope:0.1% steadystate_duration=30s",
            steady(Figure::Bandwidth, Rule::Slope, Limit::Percent(0.1)),
        ),
        ("ss=bw:1m ss_dur=30", steady(Figure::Bandwidth, Rule::Deviation, Limit::Fixed(1_048_576.0))),
        ("ss=lat:10us ss_dur=30", steady(Figure::Latency, Rule::Deviation, Limit::Fixed(10_000.0))),
        // fio's own criterion if none is given.
        ("ss_dur=30", steady(Figure::Iops, Rule::Slope, Limit::Percent(0.01))),
        // Only the duration enables it.
        ("ss=iops:5%", None),
        ("ss=iops:5% ss_dur=0 ss_ramp=5", None),
    ] {
        assert_eq!(job(&format!("time_based runtime=60 {text}")).steady, expected, "{text}");
    }
    let timed = job("time_based runtime=60 ss=iops:5% ss_dur=30 ss_ramp=5 ss_interval=2").steady.unwrap();
    assert_eq!((timed.ramp_ns, timed.every_ns), (5_000_000_000, 2_000_000_000));
    let notes = |keys: &str| plan(&format!("[a]\nsize=1g\n{}\n", keys.replace(' ', "\n"))).notes.join("\n");
    assert!(notes("ss=iops:5%").contains("no effect without steadystate_duration"));
    assert!(notes("ss=iops:5% ss_dur=30 numjobs=4").contains("clones are judged together"));
    assert!(notes("ss=iops:5% ss_dur=30 group_reporting").contains("each job is judged by itself"));
    assert!(!notes("ss=iops:5% ss_dur=30").contains("steadystate"));
    for (keys, parts) in [
        ("ss=foo:5% ss_dur=30", ["t.fio:3: steadystate", "no criterion"]),
        ("ss=iops ss_dur=30", ["t.fio:3: steadystate", "has no limit"]),
        ("ss=iops:0% ss_dur=30", ["steadystate", "above 0"]),
        ("ss=iops:5% ss_dur=30 ss_interval=20", ["steadystate_duration", "a multiple of steadystate_check_interval"]),
        ("ss=iops:5% ss_dur=x", ["t.fio:4: steadystate_duration", "not a time"]),
        ("time_based runtime=20 ss=iops:5% ss_dur=30", ["runtime", "after 30 s"]),
    ] {
        let error = job_error(keys);
        assert!(parts.iter().all(|part| error.contains(part)), "{keys}: {error}");
    }
}
