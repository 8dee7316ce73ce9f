//! Job files: ours, fio's, and several jobs at once.

use super::*;

#[test]
fn the_job_files_that_come_with_the_program_run() {
    let files = shipped_jobs();
    assert!(files.len() >= 8, "{files:?}");
    let mut failed = Vec::new();
    for file in &files {
        let output = bench_for_a_while(RAM, &[file.to_str().unwrap()]);
        if code(&output) != 0 {
            failed.push(format!("{}: {}", file.display(), err(&output)));
            continue;
        }
        for job in jobs_of(&json(&out(&output))) {
            let (ios, failures) = (job["ios"].as_u64().unwrap(), &job["failures"]["count"]);
            assert!(ios > 0 && failures == 0, "{}: {}", file.display(), job["name"]);
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn a_file_of_ours_in_groups() {
    let place = Place::new();
    let jobs = "[defaults]\nios = 200\nwarmup = \"0s\"\ndepth = 4\n\n[[job]]\nname = \"read\"\n\n[[job]]\n\
        name = \"write\"\nafter = \"read\"\nrw = \"randwrite\"\nsize = [\"4KiB:50\", \"64KiB:50\"]\n";
    let result = measured(&place.target(), &[&place.write("j.toml", jobs)]);
    let names: Vec<&str> = jobs_of(&result).iter().map(|job| job["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["read", "write"]);
    let sizes = jobs_of(&result)[1]["job"]["write_sizes"].as_array().unwrap();
    assert_eq!(sizes.len(), 2);
}

#[test]
fn a_file_of_fios_in_groups() {
    let place = Place::new();
    let jobs = "; as fio-seq-RW and others have it\n[global]\nioengine=libaio\niodepth=8\ndirect=1\nbs=16k\nsize=8m\n\
        runtime=120\nfilename=/dev/nvme0n1\n\n[seq-read]\nrw=read\nstonewall\n\n[rand-write]\nrw=randwrite\nbs=4k\nstonewall\n";
    let output = bench(&place.target(), &["--destroy-data", &place.write("j.fio", jobs)]);
    let result = json(&good(&output));
    let ios: Vec<(&Value, &Value)> = jobs_of(&result).iter().map(|job| (&job["name"], &job["ios"])).collect();
    assert_eq!(ios, [(&"seq-read".into(), &512.into()), (&"rand-write".into(), &2048.into())]);
    assert!(err(&output).contains("filename") && err(&output).contains("--target"), "{}", err(&output));
}

#[test]
fn fios_verify_writes_and_reads_back() {
    let place = Place::new();
    let jobs = "[w]\nrw=randwrite\nbs=4k\nsize=4m\nioengine=io_uring\niodepth=16\ndirect=1\nverify=crc32c\n";
    let result = measured(&place.target(), &[&place.write("j.fio", jobs)]);
    let names: Vec<&str> = jobs_of(&result).iter().map(|job| job["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["w", "w-verify"]);
    assert_eq!(jobs_of(&result)[1]["verified_units"]["whole"], 1024);
}

/// Reads and writes at once, then one more.
const AT_ONCE: &str = "[defaults]\nios = 2000\nwarmup = \"0s\"\ndepth = 4\n[[job]]\nname = \"r\"\n[[job]]\nname = \"w\"\n\
    rw = \"randwrite\"\n[[job]]\nname = \"w2\"\nrw = \"write\"\nthreads = 2\nsize = \"64KiB\"\n[[job]]\nname = \"later\"\n\
    rw = \"randrw\"\nafter = \"w\"\n";

#[test]
fn several_jobs_at_once() {
    let place = Place::new();
    let jobs = place.write("j.toml", AT_ONCE);
    for target in [NULL, RAM, &place.target()] {
        let result = measured(target, &[&jobs]);
        let counts: Vec<u64> = jobs_of(&result).iter().map(|job| job["ios"].as_u64().unwrap()).collect();
        assert!(counts.len() == 4 && counts.iter().all(|&count| count > 0), "{target}: {counts:?}");
        assert!(jobs_of(&result).iter().all(|job| job["partial"].is_null() && job["failures"]["count"] == 0));
    }
}

#[test]
fn jobs_at_once_verify_what_each_other_writes() {
    let place = Place::new();
    let jobs = "[defaults]\nverify = true\nruntime = \"500ms\"\nwarmup = \"0s\"\ndepth = 8\n[[job]]\nname = \"w\"\n\
        rw = \"randwrite\"\nthreads = 2\n[[job]]\nname = \"r\"\nrw = \"randread\"\n[[job]]\nname = \"both\"\nrw = \"randrw\"\n";
    let jobs = place.write("j.toml", jobs);
    for target in [RAM, &place.target()] {
        let result = measured(target, &[&jobs]);
        let units = &jobs_of(&result)[1]["verified_units"];
        let judged = units["whole"].as_u64().unwrap() + units["partly"].as_u64().unwrap();
        assert!(judged > 0, "{target}: {units}");
    }
}

#[test]
fn fill_then_verify() {
    let place = Place::new();
    let file = "[defaults]\nsize = \"128KiB\"\ndepth = 16\npasses = 1.0\nwarmup = \"0s\"\nverify = true\n\n[[job]]\n\
        name = \"fill\"\nrw = \"write\"\ncompressible = 50\n\n[[job]]\nname = \"check\"\nafter = \"fill\"\nrw = \"read\"\n";
    let jobs = place.write("j.toml", file);
    for (target, bytes) in [("ram:?size=32MiB", 32 * MIB), (&place.target(), 16 * MIB)] {
        let result = measured(target, &[&jobs]);
        let (fill, check) = (&jobs_of(&result)[0], &jobs_of(&result)[1]);
        assert_eq!((&fill["bytes"], &check["bytes"]), (&bytes.into(), &bytes.into()), "{target}");
        let units = &check["verified_units"];
        assert_eq!((&units["partly"], &units["unjudged"]), (&0.into(), &0.into()), "{target}");
        assert!(units["whole"].as_u64().unwrap() >= bytes / (128 << 10), "{target}: {units}");
    }
    // A target that forgets its data is detected.
    let output = bench("null:?size=32MiB", &[&jobs]);
    assert_eq!(code(&output), 1, "{}", err(&output));
    let result = json(&out(&output));
    assert!(jobs_of(&result)[1]["failures"]["mismatches"].as_u64().unwrap() > 0);
}

#[test]
fn a_pool_in_process() {
    let scene = Scene::new();
    let target = format!("pool:{}", scene.config());
    refused(&bench(&target, &["--set", "ios=10"]), 2, &["forebay create"]);
    let scene = scene.created();
    let settings = ["rw=randrw", "verify=true", "threads=2", "depth=8", "flush_every=100", "warmup=0s"];
    let mut arguments: Vec<&str> = settings.iter().flat_map(|setting| ["--set", setting]).collect();
    arguments.extend(["--runtime", "1s"]);
    let result = measured(&target, &arguments);
    let job = &jobs_of(&result)[0];
    assert!(job["verified_units"]["whole"].as_u64().unwrap() > 0 && job["ios"].as_u64().unwrap() > 100, "{job}");
    assert_eq!(job["target"]["size_bytes"], 64 * MIB);
    good(&forebay(&["verify", scene.config()]));
    let named = format!("{target}?disk=db");
    measured(&named, &["--set", "ios=100", "--set", "warmup=0s"]);
    refused(&bench(&format!("{target}?disk=bd"), &["--set", "ios=1"]), 2, &["bd", "db"]);
    let several = scene.path("several.toml");
    std::fs::write(&several, AT_ONCE).unwrap();
    let result = measured(&target, &[several.to_str().unwrap()]);
    assert!(jobs_of(&result).iter().all(|job| job["ios"].as_u64().unwrap() > 0));
    good(&forebay(&["verify", scene.config()]));
}

#[test]
fn photos_and_an_index_on_a_file_system() {
    let place = Place::new();
    let directory = place.directory.path().to_str().unwrap();
    for load in ["photo-ingest", "index-rebuild"] {
        let result = measured(directory, &[load, "--files", "8", "--file-size", "256KiB"]);
        assert_eq!((&result["experiment"], &result["failures"]), (&load.into(), &0.into()));
    }
}
