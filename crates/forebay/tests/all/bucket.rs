//! A bucket as a capacity device, as users see it. `tests/bucket/run` tests the same on a real store.

use crate::support::client::*;
use crate::support::store::Store;
use crate::support::*;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

const MIB_BYTES: u64 = 1 << 20;
const SECRET: &str = "a-secret-that-nobody-sees";

/// A pool over a bucket where no data stays on the fast tier.
fn scene(store: &Store, more: &str) -> Scene {
    let scene = Scene::with("\n[[class]]\nname = \"all\"\nplace = \"capacity\"\npriority = 1\nmatch = [\"disk:db\"]\n");
    let keys = scene.path("keys");
    std::fs::write(&keys, format!("aws_access_key_id = an-id\naws_secret_access_key = {SECRET}\n")).unwrap();
    std::fs::set_permissions(&keys, std::fs::Permissions::from_mode(0o600)).unwrap();
    let target = format!(
        "s3://cold/pool?size=256MiB&object=4MiB&endpoint={}&credentials={}{more}",
        store.endpoint,
        keys.display()
    );
    scene.edit(&scene.path("capacity.img").display().to_string(), &target);
    scene.edit("band = \"4MiB\"\n", "");
    scene
}

fn data_objects(store: &Store) -> usize {
    store.names().iter().filter(|name| name.starts_with("cold/pool/data/")).count()
}

#[test]
fn a_pool_over_a_bucket_keeps_what_was_flushed_through_kills_and_lost_requests() {
    let store = Store::start();
    store.lose_every(7);
    let scene = scene(&store, "").created();
    let server = scene.serve();
    for round in 0..4 {
        write(&server, round * 4 * MIB_BYTES, round);
    }
    assert!(data_objects(&store) > 0, "nothing went to the bucket");
    server.kill();
    let server = scene.serve();
    for round in 0..4 {
        holds(&server, round * 4 * MIB_BYTES, round);
        write(&server, round * 4 * MIB_BYTES, round + 10);
    }
    assert_eq!(server.stop(), 0);
    good(&forebay(&["verify", scene.config()]));
    let server = scene.serve();
    for round in 0..4 {
        holds(&server, round * 4 * MIB_BYTES, round + 10);
    }
    let status = forebay(&["status", scene.config(), "--output", "json"]);
    assert!(!good(&status).contains(SECRET));
    assert_eq!(server.stop(), 0);
}

/// Data that a bucket's server had acknowledged but not flushed was lost with it, while a virtual machine continued with the next server.
#[test]
fn regression_what_is_answered_below_a_machine_outlives_the_server() {
    for has_machine in [false, true] {
        let store = Store::start();
        let scene = scene(&store, "").created();
        let server = scene.serve();
        let uri = server.uri.clone();
        assert_eq!(server.stop(), 0);
        if has_machine {
            let socket = scene.path("machine");
            let export =
                format!("\n[[export]]\ndisk = \"db\"\nname = \"machine\"\nvhost = \"unix:{}\"\n", socket.display());
            let config = std::fs::read_to_string(scene.config()).unwrap();
            std::fs::write(scene.config(), config + &export).unwrap();
        }
        let server = scene.serve();
        let mut client = connect_to(&uri);
        let cookie = client.submit_write(0, &data(1)[..65536], false).unwrap();
        client.wait_for(cookie).unwrap().result.unwrap();
        server.kill();
        let server = scene.serve();
        let mut client = connect_to(&uri);
        let cookie = client.submit_read(0, 65536).unwrap();
        let is_there = client.wait_for(cookie).unwrap().data == data(1)[..65536];
        assert_eq!(is_there, has_machine);
        assert_eq!(server.stop(), 0);
    }
}

#[test]
fn hosts_wait_while_a_store_is_away_for_a_while() {
    let store = Store::start();
    let scene = scene(&store, "").created();
    let server = scene.serve();
    write(&server, 0, 1);
    store.set_down(true);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| write(&server, 8 * MIB_BYTES, 2));
        std::thread::sleep(Duration::from_millis(1500));
        assert!(!writer.is_finished(), "a flush was answered by a store that is away");
        store.set_down(false);
        writer.join().unwrap();
    });
    server.kill();
    let server = scene.serve();
    holds(&server, 0, 1);
    holds(&server, 8 * MIB_BYTES, 2);
    assert_eq!(server.stop(), 0);
}

#[test]
fn a_store_that_stays_away_fails_requests_and_the_pool_goes_on_when_it_is_back() {
    let store = Store::start();
    let scene = scene(&store, "&timeout=1s").created();
    let server = scene.serve();
    write(&server, 0, 1);
    store.set_down(true);
    let mut client = connect(&server);
    let cookie = client.submit_write(8 * MIB_BYTES, &data(2)[..65536], false).unwrap();
    client.wait_for(cookie).unwrap().result.unwrap();
    let cookie = client.submit_flush().unwrap();
    assert!(client.wait_for(cookie).unwrap().result.is_err());
    store.set_down(false);
    until("the pool takes writes again", || {
        let mut client = connect(&server);
        let written = client.submit_write(16 * MIB_BYTES, &data(3)[..65536], false).unwrap();
        let is_written = client.wait_for(written).unwrap().result.is_ok();
        let flushed = client.submit_flush().unwrap();
        client.wait_for(flushed).unwrap().result.is_ok() && is_written
    });
    holds(&server, 0, 1);
    assert_eq!(server.stop(), 0);
    good(&forebay(&["verify", scene.config()]));
}

/// Each block was a request of its own: hours, and a bill, for a large bucket.
#[test]
fn regression_verify_reads_neighbours_with_one_request() {
    let store = Store::start();
    let scene = scene(&store, "").created();
    let server = scene.serve();
    (0..8).for_each(|part| write(&server, part * 4 * MIB_BYTES, part));
    assert_eq!(server.stop(), 0);
    let before = store.requests();
    let blocks = json(&["verify", scene.config()])["blocks"].as_u64().unwrap();
    let requests = store.requests() - before;
    assert!(blocks >= 8 * MIB_BYTES / 4096 && requests < blocks / 8, "{requests} requests for {blocks} blocks");
}

#[test]
fn a_second_start_takes_no_bucket_from_the_server_that_has_it() {
    let store = Store::start();
    let scene = scene(&store, "").created();
    let server = scene.serve();
    let before: Vec<_> = store.names().into_iter().filter(|name| name.contains("/epoch/")).collect();
    refused(&forebay(&["serve", scene.config()]), 2, &["in use"]);
    refused(&forebay(&["create", scene.config(), "--destroy-data"]), 2, &["in use"]);
    let after: Vec<_> = store.names().into_iter().filter(|name| name.contains("/epoch/")).collect();
    assert_eq!(before, after);
    write(&server, 0, 1);
    assert_eq!(server.stop(), 0);
}

#[test]
fn refuses_what_would_be_lost_or_seen() {
    let store = Store::start();
    let scene = scene(&store, "");
    refused(&forebay(&["serve", scene.config()]), 2, &["forebay create"]);
    store.put("cold/pool/letter.txt", b"hello");
    refused(&forebay(&["create", scene.config(), "--destroy-data"]), 2, &["pool/letter.txt", "choose another prefix"]);
    store.remove("cold/pool/letter.txt");
    good(&forebay(&["create", scene.config()]));
    refused(&forebay(&["create", scene.config()]), 2, &["there is data on the devices", "s3://cold/pool"]);
    let server = scene.serve();
    write(&server, 0, 1);
    assert_eq!(server.stop(), 0);
    let before = data_objects(&store);
    good(&forebay(&["create", scene.config(), "--destroy-data"]));
    assert!(data_objects(&store) < before, "the old pool's objects are gone");
    let keys = scene.path("keys");
    std::fs::set_permissions(&keys, std::fs::Permissions::from_mode(0o644)).unwrap();
    refused(&forebay(&["serve", scene.config()]), 2, &["chmod 600"]);
    std::fs::write(&keys, format!("aws_access_key_id = other\naws_secret_access_key = {SECRET}\n")).unwrap();
    std::fs::set_permissions(&keys, std::fs::Permissions::from_mode(0o600)).unwrap();
    let output = forebay(&["serve", scene.config()]);
    refused(&output, 2, &["InvalidAccessKeyId"]);
    assert!(!err(&output).contains(SECRET));
    scene.edit("object=4MiB", &format!("secret={SECRET}"));
    let output = forebay(&["serve", scene.config()]);
    refused(&output, 2, &["has a key"]);
    assert!(!err(&output).contains(SECRET), "{}", err(&output));
    scene.edit(&format!("secret={SECRET}"), "object=4MiB");
    scene.edit(&scene.path("fast.img").display().to_string(), "s3://cold/fast?size=64MiB");
    refused(&forebay(&["config", "check", scene.config()]), 1, &["a bucket is for capacity"]);
}

#[test]
fn regression_commands_that_write_nothing_leave_a_bucket_to_its_server() {
    let store = Store::start();
    let scene = scene(&store, "").created();
    let server = scene.serve();
    write(&server, 0, 1);
    let epochs = || store.names().into_iter().filter(|name| name.contains("/epoch/")).collect::<Vec<_>>();
    let before = epochs();
    let target = format!("s3://cold/pool?endpoint={}&credentials={}", store.endpoint, scene.path("keys").display());
    good(&forebay(&["bench", "--target", &target, "--set", "rw=randread", "--set", "ios=8", "--warmup", "0s"]));
    assert_eq!(epochs(), before, "a job that reads");
    refused(
        &forebay(&["bench", "--target", &target, "--set", "rw=randwrite", "--set", "ios=8"]),
        2,
        &["--destroy-data"],
    );
    assert_eq!(epochs(), before, "a job that may not write");
    // Another host's pool has another fast device, so it cannot see that the bucket's server holds its own.
    let other = self::scene(&store, "");
    refused(&forebay(&["create", other.config()]), 2, &["there is data on the devices", "s3://cold/pool"]);
    assert_eq!(epochs(), before, "create");
    write(&server, MIB_BYTES, 2);
    assert_eq!(server.stop(), 0);
}

#[test]
fn regression_a_start_that_cannot_succeed_leaves_the_bucket_to_its_server() {
    let store = Store::start();
    let scene = scene(&store, "").created();
    let server = scene.serve();
    write(&server, 0, 1);
    let epochs = || store.names().into_iter().filter(|name| name.contains("/epoch/")).collect::<Vec<_>>();
    let before = epochs();
    // Another host's configuration over this bucket, with a blank fast device.
    let other = self::scene(&store, "");
    refused(&forebay(&["serve", other.config()]), 2, &["fast device is missing", "s3://cold/pool", "Format nothing"]);
    assert_eq!(epochs(), before, "a blank fast device");
    // One of two devices.
    let second = other.path("second.img");
    std::fs::File::create(&second).unwrap().set_len(64 * MIB_BYTES).unwrap();
    other.edit("[[capacity]]", &format!("[[fast]]\ntarget = \"{}\"\n\n[[capacity]]", second.display()));
    refused(&forebay(&["serve", other.config()]), 2, &["fast device is missing"]);
    assert_eq!(epochs(), before, "two blank fast devices");
    // A bucket of another pool.
    let others = Scene::with("").created();
    let other = self::scene(&store, "");
    std::fs::copy(others.path("fast.img"), other.path("fast.img")).unwrap();
    refused(&forebay(&["serve", other.config()]), 2, &["no [[fast]] device of the configuration does", "left alone"]);
    assert_eq!(epochs(), before, "another pool's fast device");
    write(&server, MIB_BYTES, 2);
    assert_eq!(server.stop(), 0);
}

/// A store that did not answer kept a server from stopping while it was opened, for as long as requests are retried.
#[test]
fn regression_a_stop_while_a_store_does_not_answer_is_prompt() {
    let store = Store::start();
    let scene = scene(&store, "").created();
    store.set_down(true);
    let (code, said, log, took) = stopped_after("requests are repeated", &["serve", scene.config()]);
    assert_eq!((code, said.as_str()), (0, ""), "{log}");
    assert!(log.contains("asked to stop before it was ready") && log.contains("stopped before it was ready"), "{log}");
    assert!(took < Duration::from_secs(5), "{took:?}");
    store.set_down(false);
    assert_eq!(scene.serve().stop(), 0);
}
