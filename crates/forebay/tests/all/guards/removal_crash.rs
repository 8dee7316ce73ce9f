//! A server killed during `disk remove`: the rest of the disk is not served, a repeated request continues the removal, and the name is
//! free.

use crate::support::client::{connect_to, data, holds, write};
use crate::support::*;
use forebay_device::nbd_client::{ClientOptions, NbdClient, NbdUri};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

const REMOVED: &str = "logs~removed-";

struct Control(BufReader<UnixStream>);

impl Control {
    fn connect(scene: &Scene) -> Self {
        let stream = UnixStream::connect(scene.path("s.control")).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        Self(BufReader::new(stream))
    }

    fn send(&mut self, question: &Value) {
        writeln!(self.0.get_mut(), "{question}").unwrap();
    }

    fn ask(&mut self, question: &Value) -> Value {
        self.send(question);
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        serde_json::from_str::<Value>(&line).unwrap()["ok"].take()
    }

    fn status(&mut self) -> Value {
        self.ask(&json!({ "ask": "status" }))
    }
}

/// The present name of the disk with that name, if it exists.
fn name_of(status: &Value) -> Option<String> {
    let names = status["disks"].as_array().unwrap().iter().map(|disk| disk["name"].as_str().unwrap());
    names.filter(|name| name.starts_with("logs")).map(str::to_owned).next()
}

/// Requests a removal and kills the server, if the moment can be hit, between the checkpoint that makes the new name durable and the end of
/// the removal.
fn kill_amid_removal(scene: &Scene, server: Server, name: &str) {
    let (mut asking, mut looking) = (Control::connect(scene), Control::connect(scene));
    let begun = Instant::now();
    // Clients that were just connected still hold the disk.
    let before = loop {
        asking.send(&json!({ "ask": "disk_remove", "name": name }));
        let status = looking.status();
        if name_of(&status).is_none_or(|name| name.starts_with(REMOVED)) {
            break status["checkpoint"].as_u64().unwrap();
        }
        let mut line = String::new();
        asking.0.read_line(&mut line).unwrap();
        assert!(begun.elapsed() < Duration::from_secs(30), "{line}");
        std::thread::sleep(Duration::from_millis(50));
    };
    loop {
        let status = looking.status();
        if status["checkpoint"].as_u64().unwrap() > before || name_of(&status).is_none() {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "no checkpoint comes");
    }
    server.kill();
}

fn names_exported(uri: &str) -> Vec<String> {
    let uri: NbdUri = uri.parse().unwrap();
    ["db", "logs"]
        .into_iter()
        .filter(|name| NbdClient::connect(&uri.endpoint, name, &ClientOptions::default()).is_ok())
        .map(str::to_owned)
        .collect()
}

#[test]
fn a_removal_that_a_kill_ended_leaves_nothing_that_is_served_and_is_finished_later() {
    let scene = Scene::new();
    let text = std::fs::read_to_string(&scene.config).unwrap() + "\n[[disk]]\nname = \"logs\"\nsize = \"64MiB\"\n";
    std::fs::write(&scene.config, &text).unwrap();
    let scene = scene.created();
    // A start with an export of a disk that does not exist at all is refused.
    let exporting = scene.path("exporting.toml");
    let socket = scene.path("s").display().to_string();
    let export = format!("\n[[export]]\ndisk = \"logs\"\nnbd = \"unix:{socket}\"\n");
    std::fs::write(&exporting, format!("{text}{export}")).unwrap();
    // The same for virtual machines.
    let with_machines = scene.path("with-machines.toml");
    std::fs::write(&with_machines, format!("{text}{export}vhost = \"unix:{socket}.vhost\"\n")).unwrap();
    let mut server = Server::start(&exporting);
    write(&server, 0, 1);
    let mut hits = 0;
    // On a slow machine the removal may end first.
    for attempt in 0..10 {
        let mut client = connect_to(&server.uri.replace("/db?", "/logs?"));
        for (at, chunk) in (0..).step_by(65536).zip(data(2).chunks(65536)) {
            let cookie = client.submit_write(at, chunk, false).unwrap();
            client.wait_for(cookie).unwrap().result.unwrap();
        }
        let cookie = client.submit_flush().unwrap();
        client.wait_for(cookie).unwrap().result.unwrap();
        drop(client);
        kill_amid_removal(&scene, server, "logs");
        server = scene.serve();
        let left = name_of(&Control::connect(&scene).status());
        assert_ne!(left.as_deref(), Some("logs"), "it has its name yet, and may have lost a part of its data");
        if let Some(left) = left {
            hits += 1;
            assert_eq!(server.stop(), 0);
            // Its export is still configured: it is left out, and the other one is served.
            server = Server::start(&with_machines);
            assert_eq!(names_exported(&server.uri), ["db"]);
            if hits == 1 {
                // Another disk of that name must not appear where virtual machines would have found the one left out.
                good(&forebay(&["disk", scene.config(), "add", "logs", "8MiB", "--export"]));
                let exports = Control::connect(&scene).status()["exports"].take().to_string();
                assert!(exports.contains("\"logs\"") && !exports.contains("vhost"), "{exports}");
                good(&forebay(&["disk", scene.config(), "remove", "logs", "--destroy-data", "logs"]));
            }
            // Either name continues the removal, which another kill may interrupt.
            kill_amid_removal(&scene, server, if hits == 1 { "logs" } else { &left });
            server = scene.serve();
            if name_of(&Control::connect(&scene).status()).is_some() {
                good(&forebay(&["disk", scene.config(), "remove", "logs", "--destroy-data", "logs"]));
            }
            assert_eq!(name_of(&Control::connect(&scene).status()), None);
        }
        holds(&server, 0, 1);
        // The name is free, and a new disk shows no data of the old one.
        good(&forebay(&["disk", scene.config(), "add", "logs", "64MiB", "--export"]));
        let mut client = connect_to(&server.uri.replace("/db?", "/logs?"));
        let cookie = client.submit_read(0, 2 << 20).unwrap();
        let reply = client.wait_for(cookie).unwrap();
        assert!(reply.result.is_ok() && reply.data.iter().all(|&byte| byte == 0), "attempt {attempt}");
        drop(client);
        server.kill();
        server = Server::start(&exporting);
        assert_eq!(names_exported(&server.uri), ["db", "logs"]);
        if hits == 2 {
            break;
        }
    }
    assert!(hits > 0, "no kill came between the checkpoint and the end of a removal");
    holds(&server, 0, 1);
    assert_eq!(server.stop(), 0);
    good(&forebay(&["verify", scene.config()]));
}
