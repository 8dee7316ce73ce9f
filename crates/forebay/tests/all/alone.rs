//! A pool without its fast device, or without one of several capacity devices: the remaining data is served read-only, the server reports
//! the state, and no device is changed.

use crate::support::client::{connect_to, until};
use crate::support::*;
use forebay_device::nbd_client::NbdClient;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// Data of this class goes straight to the capacity tier.
const CLASSES: &str = "\n[[class]]\nname = \"mine\"\nplace = \"capacity\"\nmatch = [\"offset:0..8MiB\"]\n";

/// A server started with flags.
pub struct Flagged {
    child: Child,
    uri: String,
    log: PathBuf,
}

impl Flagged {
    pub fn start(scene: &Scene, flag: &str) -> Self {
        let log = scene.path("log");
        let mut child = Command::new(env!("CARGO_BIN_EXE_forebay"))
            .args(["serve", scene.config(), flag])
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let line =
            BufReader::new(child.stdout.take().unwrap()).lines().next().expect("the server did not start").unwrap();
        let uri = line.strip_prefix("ready ").expect("stdout is for what is ready").to_owned();
        Self { child, uri, log }
    }

    /// The log so far.
    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    /// Stops the server; returns its log.
    fn stopped(mut self) -> String {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        assert!(self.child.wait().unwrap().success(), "{}", self.log());
        self.log()
    }

    /// Of its first export.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    pub fn connect(&self) -> NbdClient {
        connect_to(&self.uri)
    }
}

impl Drop for Flagged {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.child.wait();
    }
}

fn write(client: &mut NbdClient, offset_bytes: u64, byte: u8, len: usize) {
    let cookie = client.submit_write(offset_bytes, &vec![byte; len], false).unwrap();
    client.wait_for(cookie).unwrap().result.unwrap();
}

/// Reads data; `None` where the read fails.
fn read(client: &mut NbdClient, offset_bytes: u64, len_bytes: u32) -> Option<Vec<u8>> {
    let cookie = client.submit_read(offset_bytes, len_bytes).unwrap();
    let reply = client.wait_for(cookie).unwrap();
    reply.result.ok().map(|_| reply.data)
}

fn is_all(data: Option<Vec<u8>>, byte: u8) -> bool {
    data.is_some_and(|data| data.iter().all(|&found| found == byte))
}

fn status(scene: &Scene) -> Value {
    serde_json::from_str(&good(&forebay(&["status", scene.config(), "--output", "json"]))).unwrap()
}

#[test]
fn the_capacity_tier_is_read_alone_after_the_fast_device_is_lost() {
    let scene = Scene::with(CLASSES).created();
    let server = scene.serve();
    let mut client = connect_to(&server.uri);
    write(&mut client, 0, 1, 1 << 20);
    write(&mut client, 2 * MIB, 3, 1 << 20);
    // Outside the class: the data stays on the fast tier.
    write(&mut client, 32 * MIB, 4, 65536);
    assert_eq!(server.stop(), 0);
    // After the checkpoint: a server that is killed.
    let server = scene.serve();
    let mut client = connect_to(&server.uri);
    write(&mut client, 4 * MIB, 5, 1 << 20);
    let cookie = client.submit_flush().unwrap();
    client.wait_for(cookie).unwrap().result.unwrap();
    server.kill();
    std::fs::remove_file(scene.path("fast.img")).unwrap();
    let before = std::fs::read(scene.path("capacity.img")).unwrap();

    refused(&forebay(&["serve", scene.config()]), 2, &["fast.img", "--without-fast"]);
    // A virtual machine that waits for a server has seen newer data.
    let socket = scene.path("machine");
    let whole = std::fs::read_to_string(scene.config()).unwrap();
    let disk = whole.split("[[disk]]").nth(1).and_then(|disk| disk.split('"').nth(1)).unwrap();
    let export =
        format!("\n[[export]]\ndisk = \"{disk}\"\nname = \"machine\"\nvhost = \"unix:{}\"\n", socket.display());
    std::fs::write(scene.config(), whole + &export).unwrap();
    let alone = Flagged::start(&scene, "--without-fast");
    assert!(alone.log().contains("READ-ONLY: opened without the fast tier: checkpoint "), "{}", alone.log());
    let mut client = alone.connect();
    assert!(client.info().is_read_only());
    assert!(!socket.exists());
    assert!(is_all(read(&mut client, 0, 1 << 20), 1));
    assert!(is_all(read(&mut client, 2 * MIB, 1 << 20), 3));
    assert!(is_all(read(&mut client, 16 * MIB, 1 << 20), 0), "never written");
    assert_eq!(read(&mut client, 32 * MIB, 4096), None, "it was on the fast tier only");
    // That it does not match its checksum was logged of what is not there.
    until("it is logged", || alone.log().contains("1 read met blocks that are lost since the start, and failed"));
    assert!(!alone.log().contains("checksum"), "{}", alone.log());
    // Of what came later the groups of a band that were filled.
    let later = (0..256).filter(|block| is_all(read(&mut client, 4 * MIB + block * 4096, 4096), 5)).count();
    assert!(later >= 126, "{later}");
    // Also with a client that others use; a missing client is a failure, because it proves that the export works.
    let patterns = ["read -P 0x01 0 1M", "read -P 0x03 2M 1M", "read -P 0 16M 1M"];
    let mut qemu = Command::new("qemu-io");
    for pattern in patterns {
        qemu.args(["-c", pattern]);
    }
    let read_by_others = qemu.args(["-r", "-f", "raw", &alone.uri]).output().unwrap();
    let text = out(&read_by_others);
    assert!(read_by_others.status.success() && !text.contains("verification failed"), "{text}{}", err(&read_by_others));
    let left = status(&scene)["left"].clone();
    assert!(left["label"].as_str().unwrap().contains("without the fast tier"), "{left}");
    assert_eq!(left["disks"][0]["gone"]["blocks"], 16);
    assert_eq!(left["disks"][0]["gone"]["listed"][0]["offset_bytes"], 32 * MIB);
    assert_eq!(left["disks"][0]["later_blocks"].as_u64(), Some(later as u64));
    assert!(good(&forebay(&["status", scene.config()])).contains("READ-ONLY: opened without the fast tier"));
    drop(client);
    drop(alone);

    let text = good(&forebay(&["verify", scene.config(), "--without-fast"]));
    assert!(text.contains("no findings") && text.contains("64 KiB is gone"), "{text}");
    let inspected = good(&forebay(&["inspect", scene.path("capacity.img").to_str().unwrap()]));
    assert!(inspected.contains("capacity-side checkpoint") && inspected.contains("disk db (1)"), "{inspected}");
    assert!(std::fs::read(scene.path("capacity.img")).unwrap() == before, "the capacity device was written");
}

#[test]
fn a_pool_without_one_of_its_capacity_devices_is_read_where_that_is_asked_for() {
    let scene = Scene::with(CLASSES);
    let second = scene.path("second.img");
    std::fs::File::create(&second).unwrap().set_len(64 * MIB).unwrap();
    let band = "band = \"4MiB\"\n";
    scene.edit(band, &format!("{band}\n[[capacity]]\ntarget = \"{}\"\n", second.display()));
    // With this size the first device becomes full first.
    std::fs::File::options().write(true).open(scene.path("capacity.img")).unwrap().set_len(24 * MIB).unwrap();
    scene.edit("size = \"64MiB\"", "size = \"48MiB\"");
    scene.edit("0..8MiB", "0..32MiB");
    let scene = scene.created();
    let server = scene.serve();
    let mut client = connect_to(&server.uri);
    for part in 0..24 {
        write(&mut client, part * MIB, part as u8 + 1, 1 << 20);
    }
    drop(client);
    assert_eq!(server.stop(), 0);
    refused(&forebay(&["serve", scene.config(), "--degraded"]), 2, &["no device of the pool is missing"]);
    std::fs::rename(&second, scene.path("elsewhere.img")).unwrap();
    let before = [scene.path("fast.img"), scene.path("capacity.img")].map(|path| std::fs::read(path).unwrap());

    refused(&forebay(&["serve", scene.config()]), 2, &["second.img", "--degraded"]);
    // A device missing from the configuration too is reported by its id, with the next step.
    let text = std::fs::read_to_string(&scene.config).unwrap();
    let without = text.replace(&format!("\n[[capacity]]\ntarget = \"{}\"\n", second.display()), "");
    std::fs::write(&scene.config, &without).unwrap();
    refused(&forebay(&["serve", scene.config()]), 2, &["missing", "--degraded"]);
    std::fs::write(&scene.config, text).unwrap();

    let degraded = Flagged::start(&scene, "--degraded");
    assert!(degraded.log().contains("READ-ONLY: opened degraded, without capacity device "), "{}", degraded.log());
    let mut client = degraded.connect();
    let left = status(&scene)["left"]["disks"][0].clone();
    let gone = left["gone"]["blocks"].as_u64().unwrap();
    assert!(gone > 0 && left["readable_blocks"].as_u64().unwrap() > 0, "{left}");
    let (mut readable, mut failed) = (0, 0);
    for block in 0..24 * 256u64 {
        match read(&mut client, block * 4096, 4096) {
            Some(data) => {
                assert!(data.iter().all(|&byte| u64::from(byte) == block / 256 + 1), "block {block}");
                readable += 1;
            }
            None => failed += 1,
        }
    }
    assert_eq!((readable, failed), (24 * 256 - gone, gone));
    drop(client);
    drop(degraded);
    for (path, before) in ["fast.img", "capacity.img"].into_iter().zip(before) {
        assert!(std::fs::read(scene.path(path)).unwrap() == before, "{path} was written");
    }
}

/// Class changes waited 90 seconds for a checkpoint that never came, and a new disk was refused as one too many.
#[test]
fn regression_changes_of_a_pool_that_is_only_read_are_refused_with_its_reason() {
    let scene = Scene::with(CLASSES).created();
    assert_eq!(scene.serve().stop(), 0);
    let alone = Flagged::start(&scene, "--without-fast");
    let changes: [&[&str]; 4] = [
        &["class", scene.config(), "set", "mine", "--share", "0.5"],
        &["class", scene.config(), "add", "other", "--place", "fast"],
        &["disk", scene.config(), "add", "zz", "4MiB"],
        &["disk", scene.config(), "resize", "db", "128MiB"],
    ];
    for change in changes {
        refused(&forebay(change), 2, &["the pool is read-only: ", "without the fast tier"]);
    }
    // Data known to be lost was reported as damage.
    let scrub = forebay(&["scrub", scene.config(), "start"]);
    refused(&scrub, 2, &["the pool is not whole", "without the fast tier"]);
    drop(alone);
}

/// `read-only ...` was on stdout, where only lines about ready exports belong, and the log mentioned a journal, space on the missing fast
/// tier, and a future checkpoint.
#[test]
fn regression_what_is_read_alone_says_nothing_of_writes() {
    let scene = Scene::with(CLASSES).created();
    assert_eq!(scene.serve().stop(), 0);
    for (flag, label) in [("--without-fast", "opened without the fast tier"), ("--salvage", "opened by --salvage")] {
        let server = Flagged::start(&scene, flag);
        // The watch has run by then.
        std::thread::sleep(std::time::Duration::from_millis(1500));
        let log = server.stopped();
        assert!(log.contains(&format!("READ-ONLY: {label}")), "{log}");
        for wrong in ["takes no writes", "has no room", "clean checkpoint", "ready "] {
            assert!(!log.contains(wrong), "{flag}, {wrong:?}: {log}");
        }
        assert!(log.contains("nothing is written to it") && log.contains("stopped cleanly"), "{log}");
    }
}
