//! Generators as jobs: their I/Os, their targets, and refusals.

use super::*;

/// I/Os of a job by kind.
fn ios(job: &Value, kind: &str) -> u64 {
    let kinds = job["kinds"].as_array().unwrap();
    kinds.iter().filter(|found| found["kind"] == kind).map(|found| found["ios"].as_u64().unwrap()).sum()
}

fn notes(result: &Value) -> String {
    result["notes"].to_string()
}

#[test]
fn a_generator_is_a_job_as_fast_as_possible() {
    let generator = "ycsb:?workload=a&records=1000&operations=2000";
    // By name, by a key, and in a file.
    let place = Place::new();
    let file = place.write("job.toml", &format!("[[job]]\nname = \"users\"\ngenerator = \"{generator}\"\ndepth = 4\n"));
    let key = format!("generator={generator}");
    for more in [&[generator, "--set", "depth=4"][..], &["--set", &key, "--set", "depth=4"], &[&file]] {
        let result = measured(RAM, more);
        let job = &jobs_of(&result)[0];
        // Each operation reads or updates one block.
        assert_eq!((&job["ios"], &job["failures"]["count"]), (&2000.into(), &0.into()));
        let (reads, writes) = (ios(job, "read"), ios(job, "write"));
        assert!(reads + writes == 2000 && (900..1100).contains(&reads), "{reads} {writes}");
        assert!(job["load"].to_string().contains("ycsb:") || job.to_string().contains("ycsb:"), "{job}");
        assert!(notes(&result).contains("gives 2000 requests"), "{}", notes(&result));
    }
}

#[test]
fn at_its_own_times_it_is_an_open_loop() {
    let generator = "ycsb:?records=1000&operations=1000&rate=2000";
    let started = Instant::now();
    let result = measured(NULL, &[generator, "--set", "arrival=generator"]);
    // 1,000 operations at 2,000 a second.
    assert!(started.elapsed() > Duration::from_millis(400), "{:?}", started.elapsed());
    let job = &jobs_of(&result)[0];
    assert_eq!(job["ios"], 1000);
    assert!(job["measured_s"].as_f64().is_none_or(|s| s > 0.4), "{job}");
}

#[test]
fn it_is_fitted_to_the_target_and_ends_where_it_should() {
    let result = measured("null:?size=3GiB", &["rocksdb", "--set", "ios=5000", "--set", "depth=16"]);
    assert_eq!(jobs_of(&result)[0]["ios"], 5000);
    assert!(notes(&result).contains("rocksdb:?scale=0.00"), "{}", notes(&result));
    // A target that is large enough uses the default scale.
    let result = measured("null:?size=1TiB", &["mongodb", "--set", "ios=3000"]);
    let job = &jobs_of(&result)[0];
    assert!(notes(&result).contains("mongodb:?scale=0.01&seed=1"), "{}", notes(&result));
    assert!(ios(job, "flush") > 500 && ios(job, "write") > 500, "{job}");
}

#[test]
fn on_a_model_it_gives_the_same_nanoseconds_each_time() {
    let run = || {
        let result = measured("model:p4610", &["mongodb", "--set", "ios=2000", "--set", "depth=4"]);
        jobs_of(&result)[0]["kinds"].to_string()
    };
    assert_eq!(run(), run());
}

#[test]
fn it_runs_beside_another_and_is_compared() {
    let place = Place::new();
    let file = place.write(
        "jobs.toml",
        "[defaults]\nsize = \"8KiB\"\nruntime = \"300ms\"\nwarmup = \"0s\"\n[[job]]\nname = \"scans\"\nrw = \"read\"\n\
         [[job]]\nname = \"users\"\ngenerator = \"ycsb:?records=1000&operations=500\"\n",
    );
    let result = measured(RAM, &[&file]);
    let jobs = jobs_of(&result);
    assert_eq!((&jobs[0]["name"], &jobs[1]["name"], &jobs[1]["ios"]), (&"scans".into(), &"users".into(), &500.into()));
    let compared = measured(RAM, &["ycsb:?records=1000&operations=500", "--against", NULL, "--rounds", "3"]);
    assert_eq!(compared["failures"], 0, "{compared}");
}

#[test]
fn what_makes_no_sense_is_refused_beforehand() {
    let place = Place::new();
    let defaults = place.write("d.toml", "[defaults]\ngenerator = \"ycsb:\"\n[[job]]\n");
    for (more, words) in [
        (&["ycsb", "--set", "rw=randread"][..], &["rw", "generator"][..]),
        (&["ycsb", "--set", "region={ size = \"50%\" }"], &["region", "generator"]),
        (&["ycsb", "--set", "arrival=poisson"], &["arrival"]),
        (&["ycsb:?recrods=5"], &["recrods", "did you mean records?"]),
        (&["--set", "generator=zfs:"], &["zfs:", "rocksdb:, mongodb:, ycsb:"]),
        (&["--set", "arrival=generator"], &["generator"]),
        (&["rocksdb:?scale=0.01"], &["reaches to byte", "leave its scale"]),
        (&["rocksdb"], &["reaches to byte", "take a larger target"]),
        (&["qd-sweep", "--set", "generator=ycsb:"], &["qd-sweep", "leave out generator"]),
        (&[&defaults], &["generator", "each job has its own"]),
    ] {
        refused(&bench(RAM, more), 2, words);
    }
}
