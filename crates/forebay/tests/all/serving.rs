//! A server and its clients: ready line, persistence, control requests, two servers at once, the demo.

use crate::support::client::connect_to;
use crate::support::*;
use forebay_device::nbd_client::{ClientOptions, NbdClient, NbdUri};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn write(client: &mut NbdClient, offset_bytes: u64, bytes: &[u8]) {
    let cookie = client.submit_write(offset_bytes, bytes, false).unwrap();
    client.wait_for(cookie).unwrap().result.unwrap();
}

fn flush(client: &mut NbdClient) {
    let cookie = client.submit_flush().unwrap();
    client.wait_for(cookie).unwrap().result.unwrap();
}

fn read(client: &mut NbdClient, offset_bytes: u64, len_bytes: u32) -> Vec<u8> {
    let cookie = client.submit_read(offset_bytes, len_bytes).unwrap();
    let reply = client.wait_for(cookie).unwrap();
    reply.result.unwrap();
    reply.data
}

#[test]
fn what_was_written_is_there_after_a_stop_and_after_a_kill() {
    let scene = Scene::new().created();
    let bytes: Vec<u8> = (0..1 << 20).map(|i: u32| (i / 7) as u8).collect();
    let server = scene.serve();
    assert!(server.uri.starts_with("nbd+unix:///db?socket="), "{}", server.uri);
    let mut client = connect_to(&server.uri);
    assert_eq!(client.info().size_bytes, 64 * MIB);
    write(&mut client, 512, &bytes);
    assert_eq!(server.stop(), 0);
    assert!(!scene.path("s").exists() && !scene.path("s.control").exists(), "sockets are left behind");

    let server = scene.serve();
    // The only export is also the default export.
    let mut client = connect_to(&server.uri.replace("/db?", "/?"));
    assert!(read(&mut client, 512, 1 << 20) == bytes);
    write(&mut client, 8 * MIB, &bytes);
    flush(&mut client);
    server.kill();

    let server = scene.serve();
    let mut client = connect_to(&server.uri);
    assert!(read(&mut client, 512, 1 << 20) == bytes);
    assert!(read(&mut client, 8 * MIB, 1 << 20) == bytes);
    let recovery = &json(&["status", scene.config()])["recovery"];
    assert_eq!(recovery["clean"], false);
    assert!(recovery["records"].as_u64().unwrap() > 0);
    assert_eq!(server.stop(), 0);
}

#[test]
fn status_tells_what_others_rely_on() {
    let scene =
        Scene::with("\n[[class]]\nname = \"mine\"\nplace = \"capacity\"\nmatch = [\"offset:0..1MiB\"]\n").created();
    let server = scene.serve();
    let mut client = connect_to(&server.uri);
    write(&mut client, 0, &[7; 65536]);
    write(&mut client, MIB, &[8; 65536]);
    flush(&mut client);
    let status = json(&["status", scene.config()]);
    assert_eq!(status["pool"]["name"], "test");
    assert_eq!(status["pool"]["read_only"], false);
    let tiers: Vec<&str> =
        status["tiers"].as_array().unwrap().iter().map(|tier| tier["name"].as_str().unwrap()).collect();
    assert_eq!(tiers, ["fast", "capacity"]);
    for tier in status["tiers"].as_array().unwrap() {
        for key in ["total_bytes", "used_bytes", "live_bytes"] {
            assert!(tier[key].is_u64(), "{key}");
        }
    }
    let class = |name: &str| {
        let classes = status["classes"].as_array().unwrap();
        classes.iter().find(|class| class["name"] == name).unwrap().clone()
    };
    assert_eq!(class("mine")["host_written_bytes"], 65536);
    assert_eq!(class("mine")["bypassed_bytes"], 65536);
    assert_eq!(class("mine")["capacity_blocks"], 16);
    assert_eq!(class("mine")["alpha"], 0.0);
    assert_eq!(class("cold")["fast_blocks"], 16);
    assert_eq!(class("cold")["alpha"], 1.0);
    assert_eq!(class("cold")["beta"], 1.0);
    assert_eq!(status["exports"][0]["uri"].as_str().unwrap(), server.uri);
    assert_eq!(status["exports"][0]["connections"], 1);
    assert!(status["memory"]["resident_bytes"].as_u64().unwrap() < 64 * MIB);
    assert!(status["latency_ns"]["p99"].is_u64());
    let text = good(&forebay(&["top", scene.config(), "--count", "2", "--interval", "0.1"]));
    assert_eq!(text.matches("pool test").count(), 2, "{text}");
    assert_eq!(server.stop(), 0);
}

/// Lines of text, no two blocks alike.
fn text(from: u64, blocks: u64) -> Vec<u8> {
    let line = |number: u64| {
        let line = format!("{number:08} the quick brown fox jumps over the lazy dog, {number}");
        format!("{line:<63}\n").into_bytes()
    };
    (from * 64..(from + blocks) * 64).flat_map(line).collect()
}

#[test]
fn text_takes_less_of_the_capacity_tier_and_comes_back_over_a_kill() {
    let class = "\n[[class]]\nname = \"cold\"\nplace = \"capacity\"\ncompress = \"zstd:3\"\n";
    let scene = Scene::with(class).created();
    let server = scene.serve();
    let mut client = connect_to(&server.uri);
    for step in 0..64 {
        write(&mut client, step * (MIB / 2), &text(step * 128, 128));
    }
    write(&mut client, 12_288 + 512, &[1; 5120]);
    flush(&mut client);
    let cold = |status: &Value| {
        let classes = status["classes"].as_array().unwrap();
        classes.iter().find(|class| class["name"] == "cold").unwrap().clone()
    };
    let status = json(&["status", scene.config()]);
    assert_eq!(cold(&status)["compress"], "zstd:3");
    assert!(cold(&status)["compression"].as_f64().unwrap() > 2.0, "{}", cold(&status));
    assert!(cold(&status)["stored_bytes"].as_u64().unwrap() < 16 * MIB);
    assert!(good(&forebay(&["status", scene.config()])).contains("PACKED"));
    good(&forebay(&["class", scene.config(), "set", "cold", "--compress", "off"]));
    refused(&forebay(&["class", scene.config(), "set", "cold", "--compress", "gzip"]), 2, &["gzip", "zstd:LEVEL"]);
    server.kill();
    let server = scene.serve();
    let mut client = connect_to(&server.uri);
    for step in 0..64 {
        let mut expected = text(step * 128, 128);
        if step == 0 {
            expected[12_800..17_920].fill(1);
        }
        assert!(read(&mut client, step * (MIB / 2), MIB as u32 / 2) == expected, "{step}");
    }
    assert_eq!(server.stop(), 0);
    good(&forebay(&["verify", scene.config()]));
}

#[test]
fn a_second_server_is_refused_by_name() {
    let scene = Scene::new().created();
    let server = scene.serve();
    refused(&forebay(&["serve", scene.config()]), 2, &["fast.img", "in use by process", "(forebay)"]);
    refused(&forebay(&["create", scene.config(), "--destroy-data"]), 2, &["fast.img", "in use"]);
    refused(&forebay(&["verify", scene.config()]), 2, &["fast.img", "in use"]);
    assert_eq!(json(&["status", scene.config()])["pool"]["name"], "test");
    assert_eq!(server.stop(), 0);
}

/// A start failed where the kernel had not closed the files of a killed server's requests within a second, as on a busy machine.
#[test]
fn regression_a_start_waits_for_what_a_killed_server_had_open() {
    let scene = Scene::new().created();
    // The lock stays as long as anybody has the description open; who took it has ended.
    let left = std::fs::File::open(scene.path("capacity.img")).unwrap();
    let taken = Command::new("flock").args(["-x", "0"]).stdin(left.try_clone().unwrap()).status().unwrap();
    assert!(taken.success());
    let server = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_secs(4));
            drop(left);
        });
        scene.serve()
    });
    assert_eq!(server.stop(), 0);
}

/// It only reads, and was refused: "in use".
#[test]
fn regression_a_device_is_inspected_while_it_is_served() {
    let scene = Scene::new().created();
    let server = scene.serve();
    let mut client = connect_to(&server.uri);
    for name in ["fast.img", "capacity.img"] {
        write(&mut client, 0, &[7; 1 << 20]);
        let path = scene.path(name);
        let shown = good(&forebay(&["inspect", path.to_str().unwrap()]));
        assert!(shown.contains("(forebay) has it open") && shown.contains("of several moments"), "{shown}");
        assert!(shown.contains("pool \"test\""), "{shown}");
        let shown = json(&["inspect", path.to_str().unwrap()]);
        assert!(shown["in_use_by"].as_str().unwrap().contains("(forebay)"), "{shown}");
    }
    flush(&mut client);
    assert_eq!(server.stop(), 0);
    let shown = json(&["inspect", scene.path("fast.img").to_str().unwrap()]);
    assert!(shown["in_use_by"].is_null(), "{shown}");
    good(&forebay(&["verify", scene.config()]));
}

/// The URI of the line `ready` had the path as it is configured: whoever read it in another folder found nothing there.
#[test]
fn regression_what_is_ready_is_named_in_full() {
    let scene = Scene::new().created();
    let socket = scene.path("s");
    scene.edit(&format!("unix:{}", socket.display()), "unix:s");
    let mut child = Command::new(env!("CARGO_BIN_EXE_forebay"))
        .args(["serve", scene.config()])
        .current_dir(scene.directory.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let line = BufReader::new(child.stdout.take().unwrap()).lines().next().unwrap().unwrap();
    assert_eq!(line, format!("ready nbd+unix:///db?socket={}", socket.display()));
    drop(connect_to(line.strip_prefix("ready ").unwrap()));
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::TERM).unwrap();
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_pool_of_memory_is_formatted_at_the_start() {
    let scene = Scene::new();
    scene.edit(scene.path("fast.img").to_str().unwrap(), "ram:?size=64MiB");
    scene.edit(scene.path("capacity.img").to_str().unwrap(), "ram:?size=256MiB");
    for _ in 0..2 {
        let server = scene.serve();
        let mut client = connect_to(&server.uri);
        assert!(read(&mut client, 0, 4096).iter().all(|&byte| byte == 0));
        write(&mut client, 0, &[1; 4096]);
        assert_eq!(server.stop(), 0);
    }
}

#[test]
fn disks_come_grow_and_go_for_good() {
    let scene = Scene::new().created();
    let server = scene.serve();
    let control = |arguments: &[&str]| {
        let mut all = vec!["disk", scene.config()];
        all.extend(arguments);
        forebay(&all)
    };
    good(&control(&["add", "logs", "32MiB", "--export"]));
    refused(&control(&["add", "logs", "32MiB"]), 2, &["already"]);
    refused(&control(&["add", "huge", "1TiB"]), 2, &["do not fit"]);
    let uri = server.uri.replace("/db?", "/logs?");
    let mut client = connect_to(&uri);
    write(&mut client, 0, &[9; 1 << 20]);
    good(&control(&["resize", "logs", "64MiB"]));
    assert_eq!(connect_to(&uri).info().size_bytes, 64 * MIB);
    write(&mut client, 50 * MIB, &[9; 4096]);
    refused(&control(&["resize", "logs", "16MiB"]), 2, &["beyond"]);
    refused(&control(&["remove", "logs"]), 2, &["--destroy-data"]);
    refused(&control(&["remove", "lgos", "--destroy-data", "lgos"]), 2, &["lgos"]);
    // Durable once acknowledged: a kill right afterwards loses nothing.
    server.kill();
    let server = scene.serve();
    let sizes = json(&["disk", scene.config(), "list"]);
    assert_eq!(sizes["disks"][1]["size_bytes"], 64 * MIB);
    good(&control(&["remove", "logs", "--destroy-data", "logs"]));
    server.kill();
    let server = scene.serve();
    assert_eq!(json(&["disk", scene.config(), "list"])["disks"].as_array().unwrap().len(), 1);
    assert_eq!(server.stop(), 0);
}

#[test]
fn a_disk_is_removed_under_load_of_another() {
    let scene = Scene::new().created();
    let server = scene.serve();
    good(&forebay(&["disk", scene.config(), "add", "temp", "32MiB", "--export"]));
    let mut gone = connect_to(&server.uri.replace("/db?", "/temp?"));
    write(&mut gone, 0, &[1; 1 << 20]);
    drop(gone);
    let mut client = connect_to(&server.uri);
    let ended = std::thread::scope(|scope| {
        let config = scene.config();
        let removal = scope.spawn(move || {
            // The server notices the end of the connection with a delay.
            let remove = || forebay(&["disk", config, "remove", "temp", "--destroy-data", "temp"]);
            (0..100).map(|_| remove()).find(|output| !err(output).contains("in use")).unwrap()
        });
        let mut at = 0;
        while !removal.is_finished() {
            write(&mut client, at % (32 * MIB), &[at as u8; 4096]);
            flush(&mut client);
            at += 4096;
        }
        removal.join().unwrap()
    });
    good(&ended);
    let uri: NbdUri = server.uri.replace("/db?", "/temp?").parse().unwrap();
    assert!(
        NbdClient::connect(&uri.endpoint, &uri.export, &ClientOptions::default()).is_err(),
        "the removed disk is still there"
    );
    assert_eq!(server.stop(), 0);
}

#[test]
fn classes_change_live_and_stay_changed() {
    let scene = Scene::new().created();
    let server = scene.serve();
    let control = |arguments: &[&str]| {
        let mut all = vec!["class", scene.config()];
        all.extend(arguments);
        forebay(&all)
    };
    good(&control(&["set", "cold", "--place", "capacity"]));
    let mut client = connect_to(&server.uri);
    write(&mut client, 0, &[3; 65536]);
    flush(&mut client);
    let status = json(&["status", scene.config()]);
    assert_eq!(status["classes"][0]["bypassed_bytes"], 65536);
    refused(&control(&["set", "cold"]), 2, &["--place"]);
    refused(&control(&["set", "clod", "--share", "0.5"]), 2, &["clod", "cold"]);
    refused(&control(&["set", "cold", "--match", "dsk:db"]), 2, &["`disk`"]);
    let file = scene.path("classes.csv");
    let csv =
        "IO class id,IO class name,Eviction priority,Allocation\n0,unclassified,22,1.00\n5,file_size:le:4096,9,0.50\n";
    std::fs::write(&file, csv).unwrap();
    let text = good(&control(&["import", file.to_str().unwrap()]));
    assert!(text.contains("cas-5") && text.contains("cannot be known yet"), "{text}");
    server.kill();
    let server = scene.serve();
    let list = json(&["class", scene.config(), "list"]);
    assert!(list["classes"].as_array().unwrap().iter().any(|class| class["name"] == "cas-5"));
    assert_eq!(server.stop(), 0);
}

#[test]
fn nonsense_on_the_control_socket_harms_nobody() {
    use std::io::{BufRead, BufReader, Write};
    let scene = Scene::new().created();
    let server = scene.serve();
    let path = scene.path("s.control");
    let mut silent = Vec::new();
    for text in [
        "\n",
        "{}\n",
        "{\"ask\":\"nothing\"}\n",
        "\u{0}\u{1}\n",
        "{\"ask\":\"disk_add\",\"name\":\"\",\"size_bytes\":1,\"export\":false}\n",
    ] {
        let mut stream = std::os::unix::net::UnixStream::connect(&path).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        let mut answer = String::new();
        BufReader::new(&stream).read_line(&mut answer).unwrap();
        assert!(answer.contains("error"), "{text:?}: {answer}");
        silent.push(stream);
    }
    let mut flood = std::os::unix::net::UnixStream::connect(&path).unwrap();
    // Refused after a mebibyte: the connection ends, whichever side notices first.
    let _ = flood.write_all(&vec![b'x'; 4 << 20]);
    assert_eq!(json(&["status", scene.config()])["pool"]["name"], "test");
    assert_eq!(server.stop(), 0);
}

#[test]
fn the_demo_proves_itself_also_without_io_uring() {
    for no_ring in ["0", "1"] {
        let output = Command::new(env!("CARGO_BIN_EXE_forebay"))
            .args(["demo", "--quick", "--output", "json"])
            .env("FOREBAY_NO_IO_URING", no_ring)
            .output()
            .unwrap();
        let value: Value = serde_json::from_str(&good(&output)).unwrap();
        assert_eq!((value["schema_version"].as_u64(), &value["good"]), (Some(1), &Value::Bool(true)));
        assert!(value["after_power_cut"]["flushed_blocks"].as_u64().unwrap() > 1000);
        assert_eq!(value["after_power_cut"]["wrong_blocks"], 0);
        let log = value["classes"].as_array().unwrap().iter().find(|class| class["name"] == "log").unwrap().clone();
        assert!(log["host_written_bytes"].as_u64().unwrap() > 0);
        // While no slot of the fast tier is free, as on a busy machine, writes bypass it: 4 and 7 of some 400 blocks were seen. Without
        // pinning, all blocks would be there.
        assert!(log["capacity_blocks"].as_u64().unwrap() <= 16, "{log}");
    }
}

#[test]
fn verify_finds_a_flipped_bit_and_a_sound_pool_sound() {
    use std::os::unix::fs::FileExt;
    let scene = Scene::new().created();
    let server = scene.serve();
    let mut client = connect_to(&server.uri);
    let bytes: Vec<u8> = (0..1 << 20).map(|i: u32| (i % 251) as u8 + 1).collect();
    write(&mut client, 0, &bytes);
    flush(&mut client);
    server.kill();
    let text = good(&forebay(&["verify", scene.config()]));
    assert!(text.contains("256 data blocks") && text.contains("no findings"), "{text}");
    // Above the durable watermark a bad block counts as never written; a clean stop moves the watermark above all data.
    assert_eq!(scene.serve().stop(), 0);
    // Finds the written data by its bytes, which occur nowhere else.
    let mut image = std::fs::read(scene.path("fast.img")).unwrap();
    let at = image.windows(4096).step_by(512).position(|window| window == &bytes[..4096]).unwrap() * 512;
    let file = std::fs::File::options().write(true).open(scene.path("fast.img")).unwrap();
    image[at + 100] ^= 4;
    file.write_all_at(&image[at + 100..at + 101], at as u64 + 100).unwrap();
    let output = forebay(&["verify", scene.config()]);
    assert_eq!(code(&output), 1, "{}{}", out(&output), err(&output));
    assert!(out(&output).contains("disk db, byte 0"), "{}", out(&output));
    // The server answers an error for this block, never wrong data, and serves the others.
    let server = scene.serve();
    let mut client = connect_to(&server.uri);
    let cookie = client.submit_read(0, 4096).unwrap();
    assert!(client.wait_for(cookie).unwrap().result.is_err());
    assert!(read(&mut client, 4096, 4096) == bytes[4096..8192]);
    assert_eq!(server.stop(), 0);
    file.write_all_at(&[0; 4096], 0).unwrap();
    let output = forebay(&["verify", scene.config()]);
    assert_eq!(code(&output), 1);
    assert!(out(&output).contains("superblock"), "{}", out(&output));
}

/// Where bytes lie in a file that begin with these.
fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|some| some == wanted)
}

#[test]
fn a_scrub_of_a_running_pool_finds_what_was_damaged_below_it() {
    use std::os::unix::fs::FileExt;
    let scene = Scene::with("\n[scrub]\nrate = \"1GiB\"\n").created();
    let server = scene.serve();
    let before = json(&["scrub", scene.config(), "status"]);
    assert_eq!((before["state"].as_str(), before["last_pass"].is_null()), (Some("idle"), true));
    let mut client = connect_to(&server.uri);
    let bytes: Vec<u8> = (0..256u32 << 10).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    write(&mut client, MIB, &bytes);
    flush(&mut client);
    let scrubbed = || {
        good(&forebay(&["scrub", scene.config(), "start"]));
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let said = forebay(&["scrub", scene.config(), "status", "--output", "json"]);
            let value: Value = serde_json::from_slice(&said.stdout).unwrap();
            if value["state"] == "idle" {
                return (said.status.code(), value);
            }
            assert!(Instant::now() < until, "{value}");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    let (code, found) = scrubbed();
    assert_eq!((code, found["last_pass"]["damaged_bytes"].as_u64()), (Some(0), Some(0)));
    assert_eq!(found["last_pass"]["good_bytes"], 256 << 10);
    assert!(found["last_pass"]["ended_unix_seconds"].as_u64().unwrap() > 1_700_000_000);

    // Block 10 of the data, on the device that holds it.
    let block = &bytes[40960..45056];
    let (file, at) = ["fast.img", "capacity.img"]
        .iter()
        .find_map(|name| {
            let path = scene.path(name);
            find(&std::fs::read(&path).unwrap(), block).map(|at| (path, at))
        })
        .unwrap();
    std::fs::OpenOptions::new().write(true).open(file).unwrap().write_all_at(b"rotten", at as u64 + 100).unwrap();
    let (code, found) = scrubbed();
    assert_eq!(code, Some(1));
    assert_eq!(found["last_pass"]["damaged_bytes"], 4096);
    let listed = &found["found"][0];
    assert_eq!((listed["disk"].as_str(), listed["offset_bytes"].as_u64()), (Some("db"), Some(MIB + 40960)));
    let table = forebay(&["scrub", scene.config(), "status"]);
    let text = String::from_utf8(table.stdout).unwrap();
    assert!(text.contains("4 KiB DAMAGED") && text.contains(&(MIB + 40960).to_string()), "{text}");
    // After a rewrite it is good.
    write(&mut client, MIB + 40960, block);
    let (code, found) = scrubbed();
    assert_eq!((code, found["last_pass"]["damaged_bytes"].as_u64()), (Some(0), Some(0)));
    assert_eq!(server.stop(), 0);
    // The next server knows when the scrub ended.
    let server = scene.serve();
    let after = json(&["scrub", scene.config(), "status"]);
    assert_eq!(after["last_pass"], found["last_pass"]);
    assert_eq!(server.stop(), 0);
}

/// Data that a client had discarded behind the new end counted as present until the next start.
#[test]
fn regression_a_disk_shrinks_behind_what_was_discarded() {
    let scene = Scene::new().created();
    let server = scene.serve();
    let mut client = connect_to(&server.uri);
    let bytes = vec![7; 2 << 20];
    write(&mut client, 39 << 20, &bytes);
    write(&mut client, 60 << 20, &bytes);
    flush(&mut client);
    let resize = |size: &str| forebay(&["disk", scene.config(), "resize", "db", size]);
    refused(&resize("40MiB"), 2, &["data is mapped beyond the new end", "discard it first"]);
    let cookie = client.submit_trim(40 << 20, 24 << 20, false).unwrap();
    client.wait_for(cookie).unwrap().result.unwrap();
    good(&resize("40MiB"));
    drop(client);
    let mut client = connect_to(&server.uri);
    assert_eq!(client.info().size_bytes, 40 << 20);
    let cookie = client.submit_read(39 << 20, 1 << 20).unwrap();
    assert!(client.wait_for(cookie).unwrap().data == bytes[..1 << 20]);
    drop(client);
    good(&resize("64MiB"));
    let mut client = connect_to(&server.uri);
    let cookie = client.submit_read(39 << 20, 2 << 20).unwrap();
    let data = client.wait_for(cookie).unwrap().data;
    assert!(data[..1 << 20] == bytes[..1 << 20] && data[1 << 20..].iter().all(|&byte| byte == 0));
    assert_eq!(server.stop(), 0);
    good(&forebay(&["verify", scene.config()]));
}

/// A signal while devices were waited for only ended the wait: the start continued and failed.
#[test]
fn regression_a_stop_while_devices_are_waited_for_is_clean() {
    let scene = Scene::new().created();
    std::fs::rename(scene.path("fast.img"), scene.path("elsewhere.img")).unwrap();
    let waiting = ["serve", scene.config(), "--wait", "60"];
    let (code, said, log, took) = stopped_after("waiting up to 60 s", &waiting);
    assert_eq!((code, said.as_str()), (0, ""), "{log}");
    assert!(log.contains("stopped before it was ready") && log.contains("fast.img is not there yet"), "{log}");
    assert!(took < Duration::from_secs(5), "{took:?}");
    std::fs::rename(scene.path("elsewhere.img"), scene.path("fast.img")).unwrap();
    assert_eq!(scene.serve().stop(), 0);
}

/// A server that could not listen had already recovered the pool before it noticed.
#[test]
fn regression_a_server_that_cannot_listen_leaves_the_pool_as_it_is() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let scene = Scene::with(&format!("\n[metrics]\nlisten = \"{}\"\n", taken.local_addr().unwrap())).created();
    let images = || [scene.path("fast.img"), scene.path("capacity.img")].map(|path| std::fs::read(path).unwrap());
    let before = images();
    refused(&forebay(&["serve", scene.config()]), 2, &["cannot serve metrics", "metrics.listen"]);
    assert!(images() == before, "the pool was opened");
    drop(taken);
    let socket = scene.path("s");
    let taken = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let parts = ["export \"db\"", "a server listens there already", "choose another address", "was not opened"];
    refused(&forebay(&["serve", scene.config()]), 2, &parts);
    assert!(images() == before, "the pool was opened");
    drop(taken);
    scene.edit(&format!("unix:{}", socket.display()), &format!("unix:{}/none/s", scene.directory.path().display()));
    refused(&forebay(&["serve", scene.config()]), 2, &["cannot listen", "none/s"]);
    assert!(images() == before, "the pool was opened");
}
