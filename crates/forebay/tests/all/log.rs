//! The log of a served pool, each line once, in its formats; and SIGHUP, which applies what can be changed and disconnects nobody.

use crate::support::*;
use forebay_device::nbd_client::{ClientOptions, NbdClient, NbdUri};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A server whose log goes to a file.
pub struct Logging<'a> {
    child: Child,
    scene: &'a Scene,
}

impl<'a> Logging<'a> {
    pub fn start(scene: &'a Scene, format: &str) -> Self {
        Self::start_as(scene, format, Command::new(env!("CARGO_BIN_EXE_forebay")).args(["serve", scene.config()]))
    }

    /// With a limit of open files, given by an option of `ulimit`: `-n`, or `-Sn` for a limit that the server may raise.
    fn start_limited(scene: &'a Scene, option: &str, files: u32) -> Self {
        let limited = format!("ulimit {option} {files}; exec \"$0\" \"$@\"");
        let mut command = Command::new("sh");
        command.args(["-c", &limited, env!("CARGO_BIN_EXE_forebay"), "serve", scene.config()]);
        Self::start_as(scene, "json", &mut command)
    }

    fn start_as(scene: &'a Scene, format: &str, command: &mut Command) -> Self {
        let log = std::fs::File::create(scene.path("log")).unwrap();
        let mut child = command
            .env("FOREBAY_LOG_FORMAT", format)
            .env("NO_COLOR", "1")
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("ready "), "{}", std::fs::read_to_string(scene.path("log")).unwrap());
        Self { child, scene }
    }

    fn text(&self) -> String {
        std::fs::read_to_string(self.scene.path("log")).unwrap()
    }

    /// Events with a cause.
    pub fn events(&self, cause: &str) -> Vec<Value> {
        let lines = self.text();
        let all = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap_or_else(|_| panic!("{line}")));
        all.filter(|event| event["cause"] == cause).collect()
    }

    /// The first event with a cause; fails where it does not come.
    #[track_caller]
    pub fn awaited(&self, cause: &str) -> Value {
        self.awaited_where(cause, |_| true)
    }

    #[track_caller]
    fn awaited_where(&self, cause: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        let begun = Instant::now();
        loop {
            if let Some(event) = self.events(cause).into_iter().find(|event| is_it(event)) {
                return event;
            }
            assert!(begun.elapsed() < Duration::from_secs(30), "no {cause:?} in:\n{}", self.text());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Reloads the configuration; returns the final message.
    #[track_caller]
    pub fn reload(&self) -> String {
        let before = self.events("reload").len();
        self.signal(Signal::HUP);
        let ends = |event: &Value| {
            let message = event["message"].as_str().unwrap();
            message.starts_with("reloaded ") || message.contains("was not reloaded")
        };
        let begun = Instant::now();
        loop {
            if let Some(event) = self.events("reload").into_iter().skip(before).find(ends) {
                return event["message"].as_str().unwrap().to_owned();
            }
            assert!(begun.elapsed() < Duration::from_secs(30), "{}", self.text());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn stop(mut self) -> i32 {
        self.signal(Signal::TERM);
        self.child.wait().unwrap().code().unwrap()
    }
}

impl Drop for Logging<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn connect(scene: &Scene, export: &str) -> NbdClient {
    let uri: NbdUri = format!("nbd+unix:///{export}?socket={}", scene.path("s").display()).parse().unwrap();
    NbdClient::connect(&uri.endpoint, &uri.export, &ClientOptions::default()).unwrap()
}

fn write(client: &mut NbdClient, offset_bytes: u64, bytes: &[u8]) {
    let cookie = client.submit_write(offset_bytes, bytes, false).unwrap();
    client.wait_for(cookie).unwrap().result.unwrap();
}

/// A disk whose blocks may all be written and whose map exceeds the fast tier: writes failed with "no space" in a pool that reported itself
/// empty, without any reason in the log.
#[test]
fn regression_a_fast_tier_without_room_for_the_map_is_logged() {
    let scene = Scene::new();
    let capacity = std::fs::File::options().write(true).open(scene.path("capacity.img")).unwrap();
    capacity.set_len(64 << 30).unwrap();
    let text = std::fs::read_to_string(scene.config()).unwrap();
    let text = text.replace("size = \"64MiB\"", "size = \"32GiB\"").replace("limit = \"64MiB\"", "limit = \"256MiB\"");
    std::fs::write(scene.config(), text).unwrap();
    refused(
        &forebay(&["create", scene.config()]),
        2,
        &["no room for the map", "34359738368 bytes", "the largest size", "pool.overcommit"],
    );
    scene.edit("name = \"test\"\n", "name = \"test\"\novercommit = true\n");
    let scene = scene.created();
    // Older versions made such pools without `overcommit`: they are served, and their disks may shrink.
    scene.edit("overcommit = true\n", "");
    let server = Logging::start(&scene, "json");
    let event = server.awaited("map does not fit");
    assert_eq!(event["level"], "warn", "{event}");
    let mut client = connect(&scene, "db");
    let fails = (0..20_000_u64).any(|leaf| {
        let cookie = client.submit_write(leaf * 400 * 4096, &[7; 4096], false).unwrap();
        client.wait_for(cookie).unwrap().result.is_err()
    });
    assert!(fails, "the map would take 80 MiB of 64");
    let event = server.awaited("fast tier full of map");
    assert_eq!(event["level"], "error", "{event}");
    drop(client);
    assert_eq!(server.stop(), 0);
}

/// For a single device nothing reported that it had been overwritten, until the next start refused it.
#[test]
fn regression_a_device_that_is_overwritten_while_it_is_served_is_logged() {
    let scene = Scene::with("\n[metrics]\nlisten = \"127.0.0.1:0\"\n").created();
    let server = Logging::start(&scene, "json");
    std::thread::sleep(Duration::from_millis(1500));
    let capacity = std::fs::File::options().write(true).open(scene.path("capacity.img")).unwrap();
    capacity.set_len(128 << 20).unwrap();
    let event = server.awaited("device overwritten");
    assert_eq!(event["level"], "error", "{event}");
    assert!(event["message"].as_str().unwrap().contains("shorter than the"), "{event}");
    let text = good(&forebay(&["status", scene.config()]));
    assert!(text.contains("capacity.img: IS NOT WHAT IT WAS"), "{text}");
    std::thread::sleep(Duration::from_millis(2500));
    assert_eq!(server.events("device overwritten").len(), 1);
}

/// A device that had lost the first sector of one superblock was no longer recognised as the pool's.
#[test]
fn regression_a_superblock_that_has_lost_a_part_is_a_warning() {
    let scene = Scene::with("").created();
    let server = Logging::start(&scene, "json");
    std::thread::sleep(Duration::from_millis(1500));
    let capacity = std::fs::File::options().write(true).open(scene.path("capacity.img")).unwrap();
    capacity.write_all_at(&[0; 512], 0).unwrap();
    let event = server.awaited("superblock damaged");
    assert_eq!(event["level"], "warn", "{event}");
    assert!(event["message"].as_str().unwrap().contains("its superblock at 0 has lost a part"), "{event}");
    assert!(server.events("device overwritten").is_empty());
    assert_eq!(server.stop(), 0);
    // The next start has rewritten it.
    drop(Logging::start(&scene, "json"));
    assert!(std::fs::read(scene.path("capacity.img")).unwrap().starts_with(b"FOREBAY1"));
}

#[test]
fn a_full_pool_and_a_slow_device_are_logged_once() {
    let scene = Scene::with("\n[log]\nnearly_full = \"2%\"\nfull = \"9%\"\nslow_device = \"1ns\"\n").created();
    let server = Logging::start(&scene, "json");
    let mut client = connect(&scene, "db");
    (0..10).for_each(|at| write(&mut client, at * MIB, &vec![7; MIB as usize]));
    let event = server.awaited("nearly full");
    assert_eq!(event["level"], "warn");
    assert!(event["message"].as_str().unwrap().contains("nearly full"), "{event}");
    assert!(event["advice"].as_str().unwrap().contains("fstrim"), "{event}");
    let slow = server.awaited("slow device");
    assert!(slow["about"].as_str().unwrap().ends_with(".img"), "{slow}");
    (10..40).for_each(|at| write(&mut client, at * MIB, &vec![7; MIB as usize]));
    assert_eq!(server.awaited("full")["level"], "error");
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!((server.events("full").len(), server.events("nearly full").len()), (1, 1), "{}", server.text());
    assert!(server.events("slow device").len() <= 2, "once a device");
    drop(client);
    assert_eq!(server.stop(), 0);
}

#[test]
fn a_device_error_names_device_place_and_what_to_do() {
    let scene = Scene::new().created();
    let server = Logging::start(&scene, "json");
    let mut client = connect(&scene, "db");
    write(&mut client, 0, &vec![7; MIB as usize]);
    // The file is truncated while it is served and loses data.
    let file = std::fs::File::options().write(true).open(scene.path("fast.img")).unwrap();
    file.set_len(256 << 10).unwrap();
    let cookie = client.submit_read(0, 4096).unwrap();
    assert!(client.wait_for(cookie).unwrap().result.is_err());
    let event = server.awaited("device error");
    let message = event["message"].as_str().unwrap();
    assert!(message.contains("fast.img") && message.contains("read at offset"), "{message}");
    assert!(event["advice"].as_str().unwrap().contains("smartctl"), "{event}");
}

/// The log did not report it: the configuration file would not show what the pool is.
#[test]
fn regression_parity_that_the_configuration_does_not_name_is_logged() {
    let scene = crate::parity::with_parity();
    let server = Logging::start(&scene, "json");
    assert_eq!(server.stop(), 0);
    let said =
        |scene: &Scene| std::fs::read_to_string(scene.path("log")).unwrap().contains("redundancy not configured");
    assert!(!said(&scene));
    scene.edit("redundancy = \"2+1\"\n", "");
    let server = Logging::start(&scene, "json");
    let event = server.awaited("redundancy not configured");
    assert!(event["message"].as_str().unwrap().contains("redundancy = \"2+1\""), "{event}");
    assert_eq!(server.stop(), 0);
}

#[test]
fn dropped_and_refused_connections_are_logged_by_cause() {
    let scene = Scene::with("\n[server]\nmax_connections = 1\n").created();
    let server = Logging::start(&scene, "json");
    for _ in 0..5 {
        let mut stream = UnixStream::connect(scene.path("s")).unwrap();
        stream.write_all(&[0xff; 64]).unwrap();
        let mut answer = Vec::new();
        let _ = std::io::Read::read_to_end(&mut stream, &mut answer);
    }
    let event = server.awaited("connection dropped");
    assert_eq!(event["about"], "protocol");
    assert!(event["message"].as_str().unwrap().contains(&format!("process {}", std::process::id())), "{event}");
    let client = connect(&scene, "db");
    let mut other = UnixStream::connect(scene.path("s")).unwrap();
    let _ = std::io::Read::read_to_end(&mut other, &mut Vec::new());
    let refused = server.awaited("connection refused");
    assert!(refused["advice"].as_str().unwrap().contains("max_connections"), "{refused}");
    assert_eq!(server.events("connection dropped").len(), 1, "rate-limited: {}", server.text());
    drop(client);
    assert_eq!(server.stop(), 0);
}

#[test]
fn a_flood_of_silent_connections_is_one_line_and_keeps_nobody_out() {
    let scene = Scene::with("\n[server]\nmax_connections = 1\n").created();
    let server = Logging::start(&scene, "json");
    let silent: Vec<UnixStream> = (0..200).map(|_| UnixStream::connect(scene.path("s")).unwrap()).collect();
    let mut client = connect(&scene, "db");
    write(&mut client, 0, &[1; 4096]);
    let event = server.awaited("connection dropped");
    assert_eq!(event["about"], "evicted", "{event}");
    assert!(event["message"].as_str().unwrap().contains("gave way to a new connection"), "{event}");
    drop((silent, client));
    assert_eq!(server.events("connection refused").len(), 0, "{}", server.text());
    assert_eq!(server.events("connection dropped").len(), 1, "{}", server.text());
    assert_eq!(server.stop(), 0);
}

/// Who had gone in the middle of a TLS handshake was called unknown, as the system does not report the peer of a connection that was reset.
#[test]
fn regression_who_leaves_a_handshake_is_named() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let scene = Scene::with(&format!("[[export]]\nname = \"net\"\ndisk = \"db\"\nnbd = \"tcp:127.0.0.1:{port}\"\n"));
    std::fs::write(scene.path("keys"), format!("alice:{}\n", "07".repeat(32))).unwrap();
    let text = std::fs::read_to_string(&scene.config).unwrap();
    let tls = format!("\n[tls]\npsk_file = \"{}\"\n", scene.path("keys").display());
    std::fs::write(&scene.config, text + &tls).unwrap();
    let scene = scene.created();
    let server = Logging::start(&scene, "json");
    let mut client = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    let own = client.local_addr().unwrap().to_string();
    let mut greeting = [0; 18];
    std::io::Read::read_exact(&mut client, &mut greeting).unwrap();
    // Flags of the client, and NBD_OPT_STARTTLS; the answer is an acknowledgement of 20 bytes.
    client.write_all(&[[0, 0, 0, 3].as_slice(), b"IHAVEOPT", &[0, 0, 0, 5, 0, 0, 0, 0]].concat()).unwrap();
    std::io::Read::read_exact(&mut client, &mut [0; 20]).unwrap();
    // The end of the connection is a reset.
    rustix::net::sockopt::set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
    client.write_all(&[22, 3, 1, 0]).unwrap();
    drop(client);
    let event = server.awaited("connection dropped");
    assert!(event["message"].as_str().unwrap().contains(&own), "{event}");
    assert_eq!(server.stop(), 0);
}

#[test]
fn the_journal_gets_priorities_and_text_is_for_people() {
    let scene = Scene::new().created();
    let server = Logging::start(&scene, "journal");
    assert!(server.text().lines().all(|line| line.starts_with('<') && line[2..].starts_with('>')), "{}", server.text());
    assert_eq!(server.stop(), 0);
    let server = Logging::start(&scene, "text");
    assert!(server.text().contains(" INFO pool \"test\" recovered"), "{}", server.text());
    assert_eq!(server.stop(), 0);
}

/// Verbs looked for the control socket beside the first export's new address and reported that no server answers.
#[test]
fn regression_a_server_whose_first_export_moves_stays_within_reach() {
    let scene = Scene::new().created();
    let server = Logging::start(&scene, "json");
    let before = std::fs::read_to_string(scene.config()).unwrap();
    let socket = scene.path("s").display().to_string();
    scene.edit(&format!("unix:{socket}"), &format!("unix:{socket}-new"));
    assert!(server.reload().contains("listening at"));
    good(&forebay(&["status", scene.config()]));
    let moved = server.awaited_where("reload", |event| event["message"].as_str().unwrap().contains("control socket"));
    assert!(moved["message"].as_str().unwrap().contains("s-new.control now"), "{moved}");
    // A client that has read the old file finds the server too.
    let old = scene.path("old.toml");
    std::fs::write(&old, before).unwrap();
    good(&forebay(&["status", old.to_str().unwrap()]));
    assert_eq!(server.stop(), 0);
    assert!(!scene.path("s.control").exists() && !scene.path("s-new.control").exists());
}

#[test]
fn sighup_reloads_classes_limits_exports_and_evidence() {
    let scene = Scene::new().created();
    let server = Logging::start(&scene, "json");
    let mut client = connect(&scene, "db");
    assert!(server.reload().contains("nothing has changed"));
    let more = format!(
        "\n[[export]]\ndisk = \"db\"\nname = \"again\"\nread_only = true\nnbd = \"unix:{0}/s2\"\n\n[[class]]\nname = \"wal\"\nplace = \"fast\"\n\
         share = \"25%\"\nmatch = [\"disk:db\"]\n\n[server]\nmax_connections = 7\n\n[[evidence]]\nmount = \"/no/such/mount\"\n",
        scene.directory.path().display()
    );
    let before = std::fs::read_to_string(&scene.config).unwrap();
    std::fs::write(&scene.config, before.clone() + &more).unwrap();
    let message = server.reload();
    for part in
        ["class wal was added", "7 connections", "export again was added", "s2", "evidence for disk db was attached"]
    {
        assert!(message.contains(part), "{part}: {message}");
    }
    let classes = good(&forebay(&["class", scene.config(), "list"]));
    assert!(classes.contains("wal") && classes.contains("0.25"), "{classes}");
    let uri: NbdUri = format!("nbd+unix:///again?socket={}", scene.path("s2").display()).parse().unwrap();
    let second = NbdClient::connect(&uri.endpoint, &uri.export, &ClientOptions::default()).unwrap();
    // An export with a client stays; everything else is reverted.
    std::fs::write(&scene.config, before.replace("64MiB\"\n\n[[export]]", "80MiB\"\n\n[[export]]")).unwrap();
    let message = server.reload();
    assert!(message.contains("evidence for disk db was detached"), "{message}");
    let said: Vec<String> = server.events("reload").iter().map(|event| event["message"].to_string()).collect();
    assert!(said.iter().any(|text| text.contains("stays as it was") && text.contains("again")), "{said:?}");
    assert!(said.iter().any(|text| text.contains("next start") && text.contains("memory.limit")), "{said:?}");
    assert_eq!(second.info().size_bytes, 64 * MIB);
    // A faulty file changes nothing and ends no client.
    std::fs::write(&scene.config, "[pool\n").unwrap();
    assert!(server.reload().contains("was not reloaded"));
    write(&mut client, 0, &[1; 4096]);
    std::fs::write(&scene.config, before).unwrap();
    drop((client, second));
    assert_eq!(server.stop(), 0);
}

/// An export in use when it was removed from the file was forgotten: it could not be removed later, and it counted as an export that the
/// file never named, with that access.
#[test]
fn regression_an_export_in_use_is_removed_by_a_later_reload() {
    let scene = Scene::new().created();
    let server = Logging::start(&scene, "json");
    let uri: NbdUri = format!("nbd+unix:///db?socket={}", scene.path("s").display()).parse().unwrap();
    let client = NbdClient::connect(&uri.endpoint, &uri.export, &ClientOptions::default()).unwrap();
    let before = std::fs::read_to_string(&scene.config).unwrap();
    std::fs::write(&scene.config, before.split("[[export]]").next().unwrap()).unwrap();
    for _ in 0..2 {
        let seen = server.events("reload").len();
        assert!(!server.reload().contains("export db"));
        let said: Vec<String> = server.events("reload").iter().skip(seen).map(|event| event.to_string()).collect();
        assert!(said.iter().any(|text| text.contains("stays as it was")), "{said:?}");
    }
    drop(client);
    let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while !server.reload().contains("export db was removed") {
        assert!(std::time::Instant::now() < until, "it is never removed");
    }
    assert_eq!(server.stop(), 0);
}

/// A new disk was exported with the access configured when it was added, not when its export became durable: with `[tls]` added in between,
/// the disk was readable in the clear.
#[test]
fn regression_a_disk_that_was_added_before_tls_is_not_seen_without() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let scene = Scene::with(&format!("[[export]]\nname = \"net\"\ndisk = \"db\"\nnbd = \"tcp:127.0.0.1:{port}\"\n"));
    let scene = scene.created();
    let server = Logging::start(&scene, "json");
    let mut control = BufReader::new(UnixStream::connect(scene.path("s.control")).unwrap());
    let ask = |control: &mut BufReader<UnixStream>, question: &str| {
        control.get_mut().write_all(format!("{question}\n").as_bytes()).unwrap();
    };
    let answer = |control: &mut BufReader<UnixStream>| {
        let mut line = String::new();
        control.read_line(&mut line).unwrap();
        line
    };
    ask(&mut control, r#"{"ask":"disk_list"}"#);
    assert!(answer(&mut control).starts_with(r#"{"ok""#));
    // The request and then the signal arrive while the server is stopped: it handles them in this order and makes the disk durable after
    // both.
    server.signal(Signal::STOP);
    std::thread::sleep(Duration::from_millis(100));
    ask(&mut control, r#"{"ask":"disk_add","name":"logs","size_bytes":4194304,"export":true}"#);
    std::fs::write(scene.path("keys"), format!("alice:{}\n", "07".repeat(32))).unwrap();
    let text = std::fs::read_to_string(&scene.config).unwrap();
    let with_tls = format!("{text}\n[tls]\npsk_file = \"{}\"\n", scene.path("keys").display());
    std::fs::write(&scene.config, with_tls).unwrap();
    server.signal(Signal::HUP);
    server.signal(Signal::CONT);
    let added = answer(&mut control);
    assert!(added.starts_with(r#"{"ok""#), "{added}");
    let is_reloaded = |event: &Value| event["message"].as_str().unwrap().starts_with("reloaded ");
    server.awaited_where("reload", is_reloaded);
    for (name, address) in
        [("logs", format!("nbd://127.0.0.1:{port}/logs")), ("net", format!("nbd://127.0.0.1:{port}/net"))]
    {
        let uri: NbdUri = address.parse().unwrap();
        let seen = NbdClient::connect(&uri.endpoint, &uri.export, &ClientOptions::default());
        assert!(seen.is_err(), "{name} is seen without TLS");
    }
    assert_eq!(connect(&scene, "logs").info().size_bytes, 4 * MIB, "by the Unix socket, where TLS is not asked for");
    assert_eq!(server.stop(), 0);
}

/// An export without TLS in use when it was removed from the file stayed, and was open to anybody at a remote address that the same file
/// added, because only the exports in the file were checked.
#[test]
fn regression_an_export_that_stays_is_not_open_to_others() {
    let ports = [(), ()].map(|()| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    let [near, far] = ports.map(|listener| listener.local_addr().unwrap().port());
    let net =
        format!("[[export]]\nname = \"net\"\ndisk = \"db\"\nnbd = \"tcp:127.0.0.1:{near}\"\ntls = \"optional\"\n");
    let scene = Scene::with(&net);
    std::fs::write(scene.path("keys"), format!("alice:{}\n", "07".repeat(32))).unwrap();
    let text = std::fs::read_to_string(&scene.config).unwrap();
    let tls = format!("\n[server]\nallow_remote = true\n[tls]\npsk_file = \"{}\"\n", scene.path("keys").display());
    std::fs::write(&scene.config, format!("{text}{tls}")).unwrap();
    let scene = scene.created();
    let server = Logging::start(&scene, "json");
    let plain = |port: u16| {
        let uri: NbdUri = format!("nbd://127.0.0.1:{port}/net").parse().unwrap();
        NbdClient::connect(&uri.endpoint, &uri.export, &ClientOptions::default())
    };
    let mut client = plain(near).unwrap();
    let other = format!("[[export]]\nname = \"far\"\ndisk = \"db\"\nnbd = \"tcp:0.0.0.0:{far}\"\n");
    std::fs::write(&scene.config, format!("{}{tls}", text.replace(&net, &other))).unwrap();
    let seen = server.events("reload").len();
    assert!(server.reload().contains("export far was added"), "{}", server.text());
    let said: Vec<String> = server.events("reload").iter().skip(seen).map(|event| event.to_string()).collect();
    assert!(said.iter().any(|text| text.contains("in TLS only")), "{said:?}");
    assert!(plain(far).is_err() && plain(near).is_err(), "seen without TLS");
    // Connected clients stay.
    write(&mut client, 0, &[7; 4096]);
    assert_eq!(server.stop(), 0);
}

#[test]
fn the_device_of_a_machine_changes_with_a_restart_only() {
    let scene = Scene::new();
    let nbd = format!("nbd = \"unix:{}/s\"", scene.directory.path().display());
    let vhost = format!("vhost = \"unix:{}/v\"", scene.directory.path().display());
    scene.edit(&nbd, &vhost);
    let scene = scene.created();
    let server = Logging::start(&scene, "json");
    let before = std::fs::read_to_string(&scene.config).unwrap();
    let without = before.split("[[export]]").next().unwrap();
    let changes = [before.clone() + "read_only = true\n", before.clone() + "name = \"other\"\n", without.to_owned()];
    for changed in &changes {
        std::fs::write(&scene.config, changed).unwrap();
        // A repeated cause is logged again.
        for _ in 0..2 {
            let seen = server.events("reload").len();
            let done = server.reload();
            assert!(!done.contains("export db"), "{done}");
            let said = server.events("reload").into_iter().skip(seen);
            let said: Vec<String> = said.map(|event| event["message"].to_string()).collect();
            assert!(said.iter().any(|text| text.contains("db") && text.contains("until the next start")), "{said:?}");
        }
        // GET_FEATURES of vhost-user; bit 5 is VIRTIO_BLK_F_RO.
        let mut client = UnixStream::connect(scene.path("v")).unwrap();
        client.write_all(&[1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]).unwrap();
        let mut answer = [0; 20];
        std::io::Read::read_exact(&mut client, &mut answer).unwrap();
        assert_eq!(answer[12] & 1 << 5, 0);
    }
    // On a busy machine the server may not have noticed the end of the last client yet, and would refuse another one at once.
    std::thread::sleep(Duration::from_millis(1000));
    // Virtual machines that fail to connect are logged once, and accepted once a second.
    let begun = Instant::now();
    for _ in 0..3 {
        let mut client = UnixStream::connect(scene.path("v")).unwrap();
        client.write_all(&[0xff; 12]).unwrap();
        let _ = std::io::Read::read_to_end(&mut client, &mut Vec::new());
    }
    assert!(begun.elapsed() > Duration::from_millis(1500), "{:?}", begun.elapsed());
    assert_eq!(server.awaited("vhost")["about"], "db");
    assert_eq!((server.events("vhost").len(), server.events("vhost connected").len()), (1, 1), "{}", server.text());
    std::fs::write(&scene.config, before).unwrap();
    assert_eq!(server.stop(), 0);
}

/// SIGHUP read the configuration on the thread that answers clients: a slow file system or name server delayed them all.
#[test]
fn regression_a_configuration_that_lets_wait_keeps_no_client_waiting() {
    let scene = Scene::new().created();
    let server = Logging::start(&scene, "json");
    let mut client = connect(&scene, "db");
    // A key file (named pipe) that nobody writes to.
    let keys = scene.path("keys");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &keys, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let text = std::fs::read_to_string(&scene.config).unwrap();
    let tls = format!("\n[tls]\npsk_file = \"{}\"\n", keys.display());
    std::fs::write(&scene.config, text + &tls).unwrap();
    server.signal(Signal::HUP);
    std::thread::sleep(Duration::from_millis(300));
    write(&mut client, 0, &[1; 4096]);
    assert!(server.events("reload").is_empty(), "{}", server.text());
    // The server waits for this.
    std::fs::write(&keys, "nobody\n").unwrap();
    server.awaited_where("reload", |event| event["message"].as_str().unwrap().contains("was not reloaded"));
    assert_eq!(server.stop(), 0);
}

/// A reload while a disk was being removed exported it again: a new client wrote to data that was being discarded, or kept the removal from
/// ending.
#[test]
fn regression_a_reload_exports_no_disk_that_is_being_removed() {
    let scene = Scene::with("");
    let directory = scene.directory.path().display().to_string();
    let more = format!(
        "\n[[disk]]\nname = \"x\"\nsize = \"16MiB\"\n\n[[export]]\ndisk = \"x\"\nnbd = \"unix:{directory}/s\"\n"
    );
    let text = std::fs::read_to_string(&scene.config).unwrap();
    std::fs::write(&scene.config, text + &more).unwrap();
    let scene = scene.created();
    let server = Logging::start(&scene, "json");
    let mut client = connect(&scene, "x");
    write(&mut client, 0, &[1; 1 << 20]);
    drop(client);
    let mut control = BufReader::new(UnixStream::connect(scene.path("s.control")).unwrap());
    // Its connections are closed with the answer to this, or soon after.
    let begun = Instant::now();
    let mut line = String::new();
    while !line.starts_with(r#"{"ok""#) {
        assert!(begun.elapsed() < Duration::from_secs(20), "{line}");
        control.get_mut().write_all(b"{\"ask\":\"disk_remove\",\"name\":\"x\"}\n").unwrap();
        for _ in 0..20 {
            server.signal(Signal::HUP);
            std::thread::sleep(Duration::from_millis(10));
        }
        line.clear();
        control.read_line(&mut line).unwrap();
    }
    // Also after the removal.
    server.signal(Signal::HUP);
    let is_about_it = |event: &Value| event["message"].as_str().unwrap().contains("\"x\" was not added");
    server.awaited_where("reload", is_about_it);
    let said: Vec<String> = server.events("reload").iter().map(|event| event.to_string()).collect();
    assert!(!said.iter().any(|text| text.contains("export x was added")), "{said:?}");
    assert_eq!(server.stop(), 0);
}

/// Without free descriptors new clients waited, and nothing was logged. They are accepted once descriptors are free, also at the control
/// socket.
#[test]
fn regression_connections_that_wait_for_descriptors_are_logged_and_let_in_later() {
    let scene = Scene::new().created();
    let server = Logging::start_limited(&scene, "-n", 48);
    let held = || std::fs::read_dir(format!("/proc/{}/fd", server.child.id())).unwrap().count();
    assert!(held() < 44, "no client finds room: {} are open", held());
    let socket = scene.path("s");
    let mut clients: Vec<UnixStream> = (0..60).map(|_| UnixStream::connect(&socket).unwrap()).collect();
    let exports = server.awaited_where("not accepted", |event| event["about"] == "exports");
    let mut asking = UnixStream::connect(scene.path("s.control")).unwrap();
    let control = server.awaited_where("not accepted", |event| event["about"] == "the control socket");
    let message = exports["message"].as_str().unwrap();
    assert!(message.ends_with("this process has as many open files as it may, 48"), "{message}");
    for event in [&exports, &control] {
        assert!(event["level"] == "warn" && event["advice"].as_str().unwrap().contains("LimitNOFILE="), "{event}");
    }
    // No log line for each attempt, and no thread busy with attempts.
    let used = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.child.id())).unwrap();
        let fields: Vec<u64> =
            stat.rsplit(')').next().unwrap().split(' ').filter_map(|field| field.parse().ok()).collect();
        // utime and stime of proc(5), in hundredths of a second; the state, a letter, is not counted among the numbers.
        fields[10] + fields[11]
    };
    let before = used();
    std::thread::sleep(Duration::from_secs(2));
    assert!(used() - before < 50, "it is busy");
    assert_eq!(server.events("not accepted").len(), 2, "{}", server.text());
    // Clients that disconnect make room for those that wait.
    clients.drain(..40);
    let ended =
        |about: &str| server.awaited_where("not accepted", |event| event["ended"] == true && event["about"] == about);
    assert!(ended("exports")["message"].as_str().unwrap().contains("are accepted again"));
    ended("the control socket");
    writeln!(asking, "{{\"ask\":\"status\"}}").unwrap();
    let mut answer = String::new();
    BufReader::new(&asking).read_line(&mut answer).unwrap();
    assert!(answer.starts_with('{'), "{answer}");
    drop(clients);
    write(&mut connect(&scene, "db"), 0, &[1; 4096]);
    assert_eq!(server.stop(), 0);
}

/// The server kept the low limit that a shell gives to older programs.
#[test]
fn regression_the_limit_of_open_files_is_raised_as_far_as_it_may_be() {
    let scene = Scene::with("\n[server]\nmax_connections = 60\n").created();
    let server = Logging::start_limited(&scene, "-Sn", 48);
    let mut clients: Vec<NbdClient> = (0..60).map(|_| connect(&scene, "db")).collect();
    for (at, client) in (0u64..).zip(&mut clients) {
        write(client, at * 4096, &[7; 4096]);
    }
    assert!(server.events("not accepted").is_empty(), "{}", server.text());
    drop(clients);
    assert_eq!(server.stop(), 0);
}

/// The service manager got no time with the reload message, which `Type=notify-reload` needs, and no message of a stop.
#[test]
fn regression_the_service_manager_hears_of_reloads_and_of_the_stop() {
    let scene = Scene::new().created();
    let path = scene.path("notify");
    let socket = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let heard = || {
        let mut bytes = [0; 4096];
        let count = socket.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..count]).trim().to_owned()
    };
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    command.args(["serve", scene.config()]).env("NOTIFY_SOCKET", &path);
    let server = Logging::start_as(&scene, "json", &mut command);
    assert_eq!(heard(), "READY=1");
    server.reload();
    let reloading = heard();
    let (state, time) = reloading.split_once('\n').unwrap();
    let usec = time.strip_prefix("MONOTONIC_USEC=").and_then(|usec| usec.parse::<u64>().ok());
    assert!(state == "RELOADING=1" && usec.is_some_and(|usec| usec > 0), "{reloading}");
    assert_eq!(heard(), "READY=1");
    assert_eq!(server.stop(), 0);
    assert_eq!(heard(), "STOPPING=1");
}
