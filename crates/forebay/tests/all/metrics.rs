//! `[metrics]` of the configuration, and its server; tests/metrics/run tests it with external tools.

use crate::support::*;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

const METRICS: &str = "\n[metrics]\nlisten = \"127.0.0.1:0\"\n";

fn status(scene: &Scene) -> Value {
    serde_json::from_str(&good(&forebay(&["status", scene.config(), "--output", "json"]))).unwrap()
}

/// Status line and body.
fn get(address: &str, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
        .write_all(format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").as_bytes())
        .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.lines().next().unwrap().to_owned(), body.to_owned())
}

#[test]
fn an_address_that_others_reach_is_refused_unless_that_is_meant() {
    let scene = Scene::with("\n[metrics]\nlisten = \"0.0.0.0:9650\"\n");
    let check = || forebay(&["config", "check", scene.config()]);
    refused(&check(), 1, &["metrics.listen 0.0.0.0:9650", "metrics.allow_remote"]);
    scene.edit("listen = \"0.0.0.0:9650\"", "listen = \"0.0.0.0:9650\"\nallow_remote = true");
    good(&check());
    for wrong in ["9650", "\"localhost\"", "\"127.0.0.1\"", "\"127.0.0.1:99999\""] {
        let scene = Scene::with(&format!("\n[metrics]\nlisten = {wrong}\n"));
        refused(&forebay(&["config", "check", scene.config()]), 1, &["pool.toml:", "127.0.0.1:9650"]);
    }
}

#[test]
fn an_address_that_is_taken_is_named_and_nothing_is_served() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let scene = Scene::with(&format!("\n[metrics]\nlisten = \"{address}\"\n")).created();
    refused(&forebay(&["serve", scene.config()]), 2, &["cannot serve metrics", &address.to_string(), "metrics.listen"]);
}

#[test]
fn a_served_pool_is_healthy_and_its_metrics_end_with_it() {
    let scene = Scene::with(METRICS).created();
    let server = scene.serve();
    let address = status(&scene)["metrics"].as_str().unwrap().to_owned();
    assert_eq!(get(&address, "/healthz"), ("HTTP/1.1 200 OK".to_owned(), "ok\n".to_owned()));
    let (_, text) = get(&address, "/metrics");
    assert!(text.contains("forebay_disk_size_bytes{pool=\"test\",disk=\"db\"} 67108864"), "{text}");
    assert_eq!(server.stop(), 0);
    // The metrics thread ended with the server.
    assert!(TcpStream::connect(&address).is_err());
}

#[test]
fn where_no_metrics_are_configured_there_are_none() {
    let scene = Scene::new().created();
    let server = scene.serve();
    assert_eq!(status(&scene)["metrics"], Value::Null);
    assert_eq!(server.stop(), 0);
}

#[test]
fn a_stop_is_not_held_up_by_a_client_that_says_nothing() {
    let scene = Scene::with(METRICS).created();
    let server = scene.serve();
    let address = status(&scene)["metrics"].as_str().unwrap().to_owned();
    let _silent = TcpStream::connect(&address).unwrap();
    let begun = Instant::now();
    assert_eq!(server.stop(), 0);
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}

/// All JSON output contains the command that made it; only this one did not.
#[test]
fn regression_status_json_says_which_command_made_it() {
    let scene = Scene::with(METRICS).created();
    let _server = scene.serve();
    let address = status(&scene)["metrics"].as_str().unwrap().to_owned();
    let (_, body) = get(&address, "/status.json");
    let served: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(served["command"], serde_json::json!(["forebay", "serve", scene.config()]));
    assert!(body.starts_with("{\"schema_version\":1,\"command\":["), "{body}");
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&served), keys(&status(&scene)));
}
