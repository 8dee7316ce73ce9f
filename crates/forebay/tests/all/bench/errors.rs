//! Refusals and their messages: exit code 2, nothing done, and advice on what to do instead.

use super::*;
use std::os::unix::fs::FileExt;

/// The parts of an ext4 superblock that identify it: blocks, magic, and a feature that ext3 lacks (extents).
fn make_ext4(path: &Path) {
    let file = std::fs::File::options().write(true).open(path).unwrap();
    let zeros = [0; 1024];
    file.write_all_at(&zeros, 1024).unwrap();
    file.write_all_at(&4096_u32.to_le_bytes(), 1024 + 0x04).unwrap();
    file.write_all_at(&2_u32.to_le_bytes(), 1024 + 0x18).unwrap();
    file.write_all_at(&[0x53, 0xef], 1024 + 0x38).unwrap();
    file.write_all_at(&0x40_u32.to_le_bytes(), 1024 + 0x60).unwrap();
}

#[test]
fn a_file_system_is_refused_by_name_and_left_alone() {
    let place = Place::new();
    make_ext4(&place.path("target.img"));
    let before = std::fs::read(place.target()).unwrap();
    for load in [
        &["--set", "rw=randwrite", "--runtime", "100ms"][..],
        &["--set", "mix={ read = 1, trim = 1 }"],
        &["-b4k", "-w1", "-d1"],
        &["write-saturation", "--quick"],
        &["--condition", "random=1"],
        &["--condition", "purge"],
    ] {
        let output = bench(&place.target(), load);
        refused(&output, 2, &["target.img", "ext4", "--destroy-data"]);
        assert_eq!(out(&output), "", "{load:?}");
        assert!(std::fs::read(place.target()).unwrap() == before, "{load:?} has changed the file");
    }
    // Reading is harmless.
    measured(&place.target(), &["--set", "ios=10", "--warmup", "0s"]);
    assert!(std::fs::read(place.target()).unwrap() == before, "reading has changed the file");
    let result = measured(&place.target(), &["--set", "rw=randwrite", "--set", "ios=10"]);
    assert_eq!(jobs_of(&result)[0]["ios"], 10);
    assert!(std::fs::read(place.target()).unwrap() != before, "nothing was written");
}

/// The settings were accepted silently.
#[test]
fn regression_settings_without_an_effect_on_the_target_are_reported() {
    let reported = |target: &str, set: &str| {
        let output = bench(target, &["--set", set, "--set", "ios=10", "--warmup", "0s"]);
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        err(&output).contains("has no effect")
    };
    for set in ["calls=ring-polled", "buffered=true", "dsync=true", "compressible=50", "duplicates=50"] {
        assert!(reported("ram:?size=64MiB", set), "{set}");
    }
    let place = Place::new();
    for set in ["calls=sync", "buffered=true"] {
        assert!(!reported(&place.target(), set), "{set}");
    }
    for set in ["compressible=50", "dsync=true"] {
        let output = bench("ram:?size=64MiB", &["--set", set, "--set", "rw=randwrite", "--set", "ios=10"]);
        assert!(!err(&output).contains("has no effect"), "{set}: {}", err(&output));
    }
}

#[test]
fn a_later_job_that_writes_is_refused_before_the_first_has_run() {
    let place = Place::new();
    make_ext4(&place.path("target.img"));
    let jobs =
        "[defaults]\nruntime = \"20s\"\n[[job]]\nname = \"r\"\n[[job]]\nname = \"w\"\nrw = \"write\"\nafter = \"r\"\n";
    let started = Instant::now();
    let output = bench(&place.target(), &[&place.write("j.toml", jobs)]);
    refused(&output, 2, &["ext4", "--destroy-data"]);
    assert!(started.elapsed() < Duration::from_secs(10), "twenty seconds of reads came first");
}

#[test]
fn a_pool_of_ours_is_refused() {
    let scene = Scene::new().created();
    let fast = scene.path("fast.img");
    let output = bench(fast.to_str().unwrap(), &["--set", "rw=randwrite", "--set", "ios=10"]);
    refused(&output, 2, &["fast.img", "Forebay pool", "--destroy-data"]);
    good(&forebay(&["verify", scene.config()]));
}

#[test]
fn what_is_not_understood_is_refused_with_what_is() {
    let place = Place::new();
    let target = place.target();
    let directory = place.directory.path().to_str().unwrap().to_owned();
    let jobs = [
        ("key.toml", "[[job]]\nname = \"a\"\n\ndeph = 4\n"),
        ("size.toml", "[[job]]\n\nsize = \"4KB5\"\n"),
        ("empty.toml", ""),
        ("broken.toml", "[[job]\n"),
        ("key.fio", "[a]\nsize=1m\niodetph=4\n"),
        ("value.fio", "[a]\nsize=1m\nrw=randred\n"),
    ];
    let paths: Vec<String> = jobs.iter().map(|(name, text)| place.write(name, text)).collect();
    for (target, more, parts) in [
        (&*target, &[&*paths[0]][..], &["key.toml:4:1", "`deph`", "`depth`"][..]),
        (&target, &[&paths[1]], &["size.toml:3:", "4KB5", "KiB"]),
        (&target, &[&paths[2]], &["empty.toml", "[[job]]"]),
        (&target, &[&paths[3]], &["broken.toml:1:"]),
        (&target, &[&paths[4]], &["key.fio:3", "iodetph", "iodepth"]),
        (&target, &[&paths[5]], &["value.fio:3", "randred", "randread"]),
        (&target, &["nothing.toml"], &["nothing.toml", "--list"]),
        (&target, &["--set", "deph=1"], &["deph", "depth"]),
        (&target, &["--set", "depth"], &["depth", "KEY=VALUE"]),
        (&target, &["--set", "depth=0"], &["depth", "1 to 65536"]),
        (&target, &["--set", "threads=99999"], &["threads", "1024"]),
        (&target, &["--set", "size=0"], &["size", "1 byte"]),
        (&target, &["--set", "size=64MiB"], &["size", "32 MiB"]),
        (&target, &["--set", "size=32MiB"], &["33554432", "16777216"]),
        (&target, &["--set", "region={ offset = \"1TiB\" }"], &["region"]),
        (&target, &["--set", "arrival=constant"], &["rate"]),
        (&target, &["--set", "rate=fast"], &["rate", "fast"]),
        (&target, &["--set", "rw=randrd"], &["randrd", "`randrw`"]),
        (&target, &["--runtime", "1 banana"], &["--runtime", "banana", "ms"]),
        (&target, &["--interval", "1us"], &["--interval", "1ms"]),
        (&target, &["--percentiles", "101"], &["101"]),
        (&target, &["--set", "depth=1", "-b4k"], &["--set", "DiskSpd"]),
        (&target, &["-b4k", "-x9"], &["-x9"]),
        (&target, &["-b4q"], &["-b", "4q"]),
        (&target, &["--records", &target, "--set", "ios=1"], &["target.img", "never overwritten"]),
        ("/nonexistent/x", &["--set", "ios=1"], &["/nonexistent/x", "does not exist"]),
        (&directory, &["--set", "ios=1"], &["neither a regular file nor a block device"]),
        (&target, &["photo-ingest"], &["target.img", "directory"]),
        ("nul:?size=1GiB", &["--set", "ios=1"], &["nul", "null:"]),
        ("null:?size=big", &["--set", "ios=1"], &["big"]),
        ("pool:/nonexistent.toml", &["--set", "ios=1"], &["/nonexistent.toml"]),
        ("nbd+unix:///?socket=/nonexistent.sock", &["--set", "ios=1"], &["/nonexistent.sock"]),
    ] {
        let output = bench(target, more);
        refused(&output, 2, parts);
        assert_eq!(out(&output), "", "{more:?}");
    }
    refused(&forebay(&["bench"]), 2, &["--target"]);
    refused(&forebay(&["bench", "--parquet", "x"]), 2, &["--records"]);
    refused(&forebay(&["bench", "--target", NULL, "--output", "yaml"]), 2, &["json"]);
    let empty = place.write("empty.img", "");
    refused(&bench(&empty, &["--set", "ios=1"]), 2, &["empty.img", "truncate -s"]);
    refused(&bench(&place.write("tiny.img", &"x".repeat(1000)), &["--set", "ios=1"]), 2, &["512", "4096"]);
}

/// A part of a message that occurs twice in it.
fn said_twice(text: &str) -> Option<&str> {
    let parts: Vec<&str> = text.trim().split(": ").collect();
    let long = |part: &&&str| part.len() > 12;
    parts
        .iter()
        .enumerate()
        .filter(|(_, part)| long(part))
        .find_map(|(at, part)| parts[at + 1..].contains(part).then_some(*part))
}

#[test]
fn no_message_says_the_same_twice() {
    let place = Place::new();
    let tiny = place.write("tiny.img", &"x".repeat(1000));
    let mixed = place.write("d.toml", "[[job]]\nrw = \"write\"\nverify = true\nduplicates = 10\n");
    for output in [
        bench(&tiny, &["--set", "ios=1"]),
        bench(NULL, &["--records", "/nonexistent/x", "--set", "ios=1"]),
        bench(&place.target(), &[&mixed]),
        bench("/nonexistent/x", &["qd-sweep", "--quick"]),
        bench("nbd+unix:///?socket=/nonexistent.sock", &["--set", "ios=1"]),
        forebay(&["bench", "--records", "/nonexistent/x", "--parquet", "/nonexistent/y"]),
        forebay(&["check", "p4800x", "--target", "/nonexistent/x"]),
    ] {
        assert_eq!(code(&output), 2, "{}", err(&output));
        for line in err(&output).lines() {
            assert_eq!(said_twice(line), None, "{line}");
        }
    }
}

#[test]
fn a_place_that_cannot_be_written_to_costs_no_result() {
    let place = Place::new();
    let nowhere = place.text("missing/x");
    for (option, path, part) in [
        ("--fio-json", "/dev/full", "No space left"),
        ("--fio-json", &nowhere, "No such file"),
        ("--fio-logs", &nowhere, "No such file"),
    ] {
        let output = bench(NULL, &["--runtime", "100ms", "--warmup", "0s", option, path]);
        refused(&output, 2, &[path, part]);
        // Either nothing is measured, or the result survives the failure of its copy.
        let text = out(&output);
        assert!(option == "--fio-logs" || path == nowhere || !text.is_empty(), "{option} {path}: the result is lost");
    }
}

#[test]
fn regression_what_cannot_be_done_is_said_before_anything_runs() {
    let place = Place::new();
    let target = place.target();
    let bad = place.write("app.json", "{\"depths\": []}");
    let long = ["--runtime", "20s"];
    let read_only = place.write("ro.json", "x");
    let started = Instant::now();
    for (more, parts) in [
        (&["--set", "size=1000"][..], &["size: 1000 bytes", "multiples of "][..]),
        (&["--set", "skew=100"], &["skew: 100 bytes", "multiples of "]),
        (&["--set", "region={ offset = \"100\" }"], &["region", "multiple of"]),
        (&["qd-sweep", "--application", &bad], &["app.json"]),
        (&["qd-sweep", "--application", "/nonexistent/app.json"], &["/nonexistent/app.json"]),
        (&["--against", "/nonexistent/b"], &["/nonexistent/b", "does not exist"]),
        (&["--against-set", "size=1000"], &["size: 1000 bytes"]),
        (&["--fio-json", "/nonexistent/x"], &["cannot write /nonexistent/x", "No such file"]),
        (&["--fio-logs", "/nonexistent/x"], &["cannot write /nonexistent/x", "No such file"]),
        (&["--records", "/nonexistent/x"], &["cannot write /nonexistent/x", "directory /nonexistent"]),
        (&["--records", "/nonexistent/r", "--parquet", "/nonexistent/x"], &["/nonexistent/r"]),
        (&["--records", &place.text("new.fbt"), "--parquet", &read_only], &["ro.json", "never overwritten"]),
        // Options without an effect.
        (&["--quick"], &["--quick", "experiments"]),
        (&["--capacities", "2"], &["--capacities", "experiments"]),
        (&["--files", "2"], &["--files", "experiments"]),
        (&["--rounds", "3"], &["--rounds", "--against"]),
        (&["--difference", "5"], &["--difference is for comparisons", "--against"]),
        (&["--read-percent", "30"], &["--read-percent", "rw=randrw"]),
        (&["--set", "read_percent=30"], &["read_percent", "randrw"]),
        (&["--set", "fua=true"], &["fua", "writes nothing"]),
        (&["qd-sweep", "--fio-json", &place.text("x.json")], &["--fio-json", "experiment"]),
    ] {
        let output = bench(&target, &[more, &long].concat());
        refused(&output, 2, parts);
        assert_eq!(out(&output), "", "{more:?}");
        // Line numbers of the generated text, which the user has never seen, are not shown.
        assert!(!err(&output).contains("--set:1") && !err(&output).contains("--set:2"), "{}", err(&output));
    }
    assert!(started.elapsed() < Duration::from_secs(20), "something ran before it was refused");
    // After a job in a group of its own.
    let jobs =
        "[defaults]\nruntime = \"20s\"\n[[job]]\nname = \"r\"\n[[job]]\nname = \"odd\"\nsize = 1000\nafter = \"r\"\n";
    let output = bench(&target, &[&place.write("j.toml", jobs)]);
    refused(&output, 2, &["odd", "size: 1000 bytes"]);
    assert!(started.elapsed() < Duration::from_secs(25), "the first job ran");
}

#[test]
fn regression_experiments_say_what_they_decide_themselves() {
    let output = bench(
        RAM,
        &[
            "qd-sweep",
            "--quick",
            "--runtime",
            "50ms",
            "--depth-max",
            "2",
            "--set",
            "depth=7",
            "--set",
            "rw=write",
            "--files",
            "3",
        ],
    );
    good(&output);
    let text = err(&output);
    assert!(text.contains("qd-sweep decides itself, whatever --set says: depth, rw"), "{text}");
    assert!(text.contains("--files has no effect on qd-sweep"), "{text}");
    // DiskSpd's options reach an experiment without DiskSpd's page-cache default.
    let place = Place::new();
    let output = bench(
        &place.target(),
        &["qd-sweep", "--quick", "--runtime", "50ms", "--depth-max", "1", "--read-percent", "100", "-b4k"],
    );
    good(&output);
    assert!(err(&output).contains("unless -Sb says otherwise"), "{}", err(&output));
}

#[test]
fn regression_two_readers_share_a_file_and_a_writer_is_named() {
    let place = Place::new();
    let target = place.target();
    let reader = Running::start(&["bench", "--target", &target, "--warmup", "0s", "--runtime", "60s"]);
    std::thread::sleep(Duration::from_millis(700));
    measured(&target, &["--set", "ios=10", "--warmup", "0s"]);
    // A writer needs the target alone, and the error shows who holds it.
    let output = bench(&target, &["--destroy-data", "--set", "rw=randwrite", "--set", "ios=10", "--warmup", "0s"]);
    refused(&output, 2, &["is in use", &format!("process {}", reader.0.id())]);
    reader.signal(rustix::process::Signal::INT);
    good(&reader.end());
}
