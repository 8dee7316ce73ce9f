//! A disk in use cannot be removed, and no disk by a single typing error.

use crate::support::*;
use forebay_device::nbd_client::{ClientOptions, NbdClient, NbdUri};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

fn remove(scene: &Scene, more: &[&str]) -> std::process::Output {
    let mut all = vec!["disk", scene.config(), "remove", "logs"];
    all.extend(more);
    forebay(&all)
}

fn has_disk(scene: &Scene) -> bool {
    good(&forebay(&["disk", scene.config(), "list"])).contains("logs")
}

#[test]
fn the_name_is_asked_for_a_second_time() {
    let scene = Scene::new().created();
    let server = scene.serve();
    good(&forebay(&["disk", scene.config(), "add", "logs", "32MiB"]));
    refused(&remove(&scene, &[]), 2, &["for ever", "--destroy-data logs"]);
    refused(&remove(&scene, &["--destroy-data"]), 2, &["a second time", "--destroy-data logs"]);
    refused(&remove(&scene, &["--destroy-data", "db"]), 2, &["\"db\"", "nothing was done"]);
    assert!(has_disk(&scene));
    good(&remove(&scene, &["--destroy-data", "logs"]));
    assert!(!has_disk(&scene));
    assert_eq!(server.stop(), 0);
}

#[test]
fn clients_and_evidence_keep_a_disk_and_are_named() {
    let scene = Scene::new().created();
    let server = scene.serve();
    good(&forebay(&["disk", scene.config(), "add", "logs", "32MiB", "--export"]));
    let uri: NbdUri = server.uri.replace("/db?", "/logs?").parse().unwrap();
    let client = NbdClient::connect(&uri.endpoint, &uri.export, &ClientOptions::default()).unwrap();
    let own = format!("process {}", std::process::id());
    refused(
        &remove(&scene, &["--destroy-data", "logs"]),
        2,
        &["in use", "export \"logs\"", &own, "nothing was removed"],
    );
    drop(client);
    good(&forebay(&["evidence", scene.config(), "attach", "--disk", "logs", "--mount", "/no/such/mount"]));
    // The server notices a client's end in its loop, so the error may still name both.
    refused(&remove(&scene, &["--destroy-data", "logs"]), 2, &["/no/such/mount", "detach --disk logs"]);
    assert!(has_disk(&scene));
    good(&forebay(&["evidence", scene.config(), "detach", "--disk", "logs"]));
    good(&remove(&scene, &["--destroy-data", "logs"]));
    assert_eq!(server.stop(), 0);
}

/// A second removal of the same disk was answered that there is no such disk, while the first was running.
#[test]
fn regression_a_second_removal_hears_of_the_first() {
    let scene = Scene::new().created();
    let server = scene.serve();
    good(&forebay(&["disk", scene.config(), "add", "logs", "32MiB"]));
    let mut asking: Vec<_> =
        (0..3).map(|_| BufReader::new(UnixStream::connect(scene.path("s.control")).unwrap())).collect();
    for (stream, name) in asking.iter_mut().zip(["logs", "logs", "logs~removed-2"]) {
        let line = format!("{{\"ask\":\"disk_remove\",\"name\":\"{name}\"}}\n");
        stream.get_mut().write_all(line.as_bytes()).unwrap();
    }
    let answers: Vec<String> = asking
        .iter_mut()
        .map(|stream| {
            let mut line = String::new();
            stream.read_line(&mut line).unwrap();
            line
        })
        .collect();
    assert!(answers[0].starts_with(r#"{"ok""#), "{answers:?}");
    for (answer, name) in answers[1..].iter().zip(["logs", "logs~removed-2"]) {
        assert!(answer.contains(&format!("disk \\\"{name}\\\" is being removed already")), "{answers:?}");
    }
    assert!(!has_disk(&scene));
    refused(&remove(&scene, &["--destroy-data", "logs"]), 2, &["there is no disk \"logs\"; the pool has db"]);
    assert_eq!(server.stop(), 0);
}

/// The error said only that the disk does not exist, not which disks do.
#[test]
fn regression_a_disk_that_is_not_there_is_answered_with_those_that_are() {
    let scene = Scene::new().created();
    let server = scene.serve();
    good(&forebay(&["disk", scene.config(), "add", "logs", "32MiB"]));
    let ask = |more: &[&str]| forebay(&[&["disk", scene.config()], more].concat());
    let (near, far) =
        ("there is no disk \"lgos\"; the pool has db, logs; the nearest known one is `logs`", "db, logs\n");
    refused(&ask(&["remove", "lgos", "--destroy-data", "lgos"]), 2, &[near]);
    // For a missing disk, no confirmation is requested.
    for more in [&[][..], &["--destroy-data"], &["--destroy-data", "logs"]] {
        let answer = ask(&[&["remove", "lgos"], more].concat());
        refused(&answer, 2, &[near]);
        assert!(!err(&answer).contains("repeat"), "{}", err(&answer));
    }
    refused(&ask(&["remove", "accounts", "--destroy-data", "accounts"]), 2, &["\"accounts\"", far]);
    refused(&ask(&["resize", "lgos", "8MiB"]), 2, &[near]);
    refused(&ask(&["detach-base", "lgos"]), 2, &[near]);
    assert_eq!(server.stop(), 0);
}
