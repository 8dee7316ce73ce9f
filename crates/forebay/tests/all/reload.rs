//! What SIGHUP does to exports: none is opened to clients that neither the file before nor the new one lets in.

use crate::log::Logging;
use crate::support::*;
use forebay_device::nbd_client::{ClientOptions, NbdClient, NbdUri};
use std::time::{Duration, Instant};

fn connected(address: &str) -> Result<NbdClient, String> {
    let uri: NbdUri = address.parse().unwrap();
    NbdClient::connect(&uri.endpoint, &uri.export, &ClientOptions::default()).map_err(|error| error.to_string())
}

fn by_socket(scene: &Scene, export: &str) -> Result<NbdClient, String> {
    connected(&format!("nbd+unix:///{export}?socket={}", scene.path("s").display()))
}

fn change(scene: &Scene, text: &str) {
    std::fs::write(&scene.config, text).unwrap();
}

/// An export in use stayed as it was, but who may see it followed the new file, which spoke of another disk, or of one
/// that can only be read.
#[test]
fn regression_an_export_that_stays_is_not_opened_to_others() {
    let scene = Scene::new().created();
    let server = Logging::start(&scene, "json");
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let client = by_socket(&scene, "db").unwrap();
    let before = std::fs::read_to_string(&scene.config).unwrap();
    let head = before.split("[[export]]").next().unwrap();
    change(&scene, &format!("{head}[[export]]\ndisk = \"db\"\nnbd = \"tcp:127.0.0.1:{port}\"\nread_only = true\n"));
    let done = server.reload();
    assert!(!done.contains("who may see"), "{done}");
    let address = format!("nbd://127.0.0.1:{port}/db");
    assert!(connected(&address).is_err(), "a disk that is to be read alone is open to more clients, who may write");
    drop(client);
    let until = Instant::now() + Duration::from_secs(20);
    while !server.reload().contains("export db was added") {
        assert!(Instant::now() < until, "it never follows the file");
    }
    assert!(connected(&address).unwrap().info().is_read_only());
    assert_eq!(server.stop(), 0);
}

/// The disk of a virtual machine could be written by NBD, too, once the file said so; and a disk that was to become one
/// could be reached by nobody before the next start.
#[test]
fn regression_sighup_makes_no_device_of_a_machine_and_opens_none() {
    let scene = Scene::new();
    let directory = scene.directory.path().display().to_string();
    let text = std::fs::read_to_string(&scene.config).unwrap();
    let machine =
        |door: &str| format!("\n[[disk]]\nname = \"d2\"\nsize = \"8MiB\"\n\n[[export]]\ndisk = \"d2\"\n{door}\n");
    let vhost = format!("vhost = \"unix:{directory}/v\"");
    let nbd = format!("nbd = \"unix:{directory}/s\"");
    change(&scene, &(text.clone() + &machine(&vhost)));
    let scene = scene.created();
    let server = Logging::start(&scene, "json");
    assert!(by_socket(&scene, "d2").is_err());
    change(&scene, &(text.clone() + &machine(&nbd)));
    for _ in 0..2 {
        let done = server.reload();
        assert!(!done.contains("d2"), "{done}");
        assert!(by_socket(&scene, "d2").is_err(), "its machine and others can write it at once");
    }
    // A door beside it.
    change(&scene, &(text.clone() + &machine(&format!("{vhost}\n{nbd}"))));
    for _ in 0..2 {
        server.reload();
        assert!(by_socket(&scene, "d2").is_err(), "its machine and others can write it at once");
    }
    // The other way.
    change(&scene, &(text.replace(&nbd, &vhost) + &machine(&vhost.replace("/v\"", "/v2\""))));
    server.reload();
    by_socket(&scene, "db").expect("it is there until the next start");
    // A new one.
    let new = format!("\n[[export]]\ndisk = \"db\"\nname = \"more\"\n{}\n", vhost.replace("/v\"", "/v3\""));
    change(&scene, &(text.clone() + &machine(&vhost) + &new));
    let done = server.reload();
    assert!(!done.contains("more"), "{done}");
    change(&scene, &(text + &machine(&vhost)));
    assert_eq!(server.stop(), 0);
}

/// Who may come by NBD to the disk of a virtual machine was read at a start alone, and nothing was said: a client that was to be kept out was let in.
#[test]
fn regression_who_may_see_the_disk_of_a_machine_follows_the_file() {
    let scene = Scene::new();
    std::fs::write(scene.path("keys"), format!("alice:{}\n", "07".repeat(32))).unwrap();
    let directory = scene.directory.path().display().to_string();
    let nbd = format!("nbd = \"unix:{directory}/s\"");
    let tls = format!("\n[tls]\npsk_file = \"{}\"\n", scene.path("keys").display());
    let text = std::fs::read_to_string(&scene.config).unwrap();
    let both = text.replace(&nbd, &format!("{nbd}\nvhost = \"unix:{directory}/v\"")) + &tls;
    change(&scene, &both);
    let scene = scene.created();
    let server = Logging::start(&scene, "json");
    drop(by_socket(&scene, "db").unwrap());
    change(&scene, &both.replace(&nbd, &format!("{nbd}\ntls = \"required\"")));
    let done = server.reload();
    assert!(done.contains("who may see export db was changed"), "{done}");
    assert!(by_socket(&scene, "db").is_err(), "seen without TLS");
    change(&scene, &both);
    assert_eq!(server.stop(), 0);
}

/// What `disk add --export` had made was compared with nothing: a section of the file that came for it changed who may see
/// it, and never that it can only be read.
#[test]
fn regression_an_export_that_the_file_did_not_name_follows_it() {
    let scene = Scene::new().created();
    let server = Logging::start(&scene, "json");
    let text = std::fs::read_to_string(&scene.config).unwrap();
    let directory = scene.directory.path().display().to_string();
    let add = || good(&forebay(&["disk", scene.config(), "add", "n1", "4MiB", "--export"]));
    add();
    assert!(!by_socket(&scene, "n1").unwrap().info().is_read_only());
    let section = format!(
        "\n[[disk]]\nname = \"n1\"\nsize = \"4MiB\"\n\n[[export]]\ndisk = \"n1\"\nnbd = \"unix:{directory}/s\"\nread_only = true\n"
    );
    change(&scene, &(text + &section));
    let until = Instant::now() + Duration::from_secs(20);
    while !server.reload().contains("export n1 was added") {
        assert!(Instant::now() < until, "it never follows the file");
    }
    assert!(by_socket(&scene, "n1").unwrap().info().is_read_only());
    // A new disk by that name is what the section says at once.
    good(&forebay(&["disk", scene.config(), "remove", "n1", "--destroy-data", "n1"]));
    add();
    assert!(by_socket(&scene, "n1").unwrap().info().is_read_only());
    assert_eq!(server.stop(), 0);
}

/// A file with which the server would not start again was taken, and a change that counts from the next start on was not said.
#[test]
fn regression_sighup_says_what_the_next_start_would_do() {
    let scene = Scene::new().created();
    let server = Logging::start(&scene, "json");
    let text = std::fs::read_to_string(&scene.config).unwrap();
    change(&scene, &format!("{text}\n[server]\nsocket_group = \"nogrouphere\"\n"));
    let done = server.reload();
    assert!(done.contains("was not reloaded") && done.contains("nogrouphere"), "{done}");
    change(&scene, &text.replace("[pool]\n", "[pool]\ngrouping = \"ours\"\n"));
    let seen = server.events("reload").len();
    server.reload();
    let said: Vec<String> = server.events("reload").iter().skip(seen).map(ToString::to_string).collect();
    assert!(said.iter().any(|text| text.contains("next start") && text.contains("pool.grouping")), "{said:?}");
    assert_eq!(server.stop(), 0);
}
