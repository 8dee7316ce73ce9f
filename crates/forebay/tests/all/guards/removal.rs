//! A disk that somebody uses is not removed, and none by a single slip of the keyboard.

use crate::support::*;
use forebay_device::nbd_client::{ClientOptions, NbdClient, NbdUri};

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
    // The server notices the client's end in its loop, so both may be named once more.
    refused(&remove(&scene, &["--destroy-data", "logs"]), 2, &["/no/such/mount", "detach --disk logs"]);
    assert!(has_disk(&scene));
    good(&forebay(&["evidence", scene.config(), "detach", "--disk", "logs"]));
    good(&remove(&scene, &["--destroy-data", "logs"]));
    assert_eq!(server.stop(), 0);
}
