//! A client of a server under test: written data and expected data.

use super::*;
use forebay_device::nbd_client::{ClientOptions, NbdClient, NbdUri};
use serde_json::Value;
use std::time::{Duration, Instant};

/// Size of the data that [`write`] writes, in bytes.
pub const DATA_BYTES: usize = 2 << 20;

pub fn connect(server: &Server) -> NbdClient {
    connect_to(&server.uri)
}

pub fn connect_to(uri: &str) -> NbdClient {
    let uri: NbdUri = uri.parse().unwrap();
    NbdClient::connect(&uri.endpoint, &uri.export, &ClientOptions::default()).unwrap()
}

/// Reproducible data that differs by `seed`.
pub fn data(seed: u64) -> Vec<u8> {
    let mut random = forebay_block::Random::new(seed);
    (0..DATA_BYTES / 8).flat_map(|_| random.next_u64().to_le_bytes()).collect()
}

pub fn write(server: &Server, offset_bytes: u64, seed: u64) {
    let mut client = connect(server);
    for (at, chunk) in (offset_bytes..).step_by(65536).zip(data(seed).chunks(65536)) {
        let cookie = client.submit_write(at, chunk, false).unwrap();
        client.wait_for(cookie).unwrap().result.unwrap();
    }
    let cookie = client.submit_flush().unwrap();
    client.wait_for(cookie).unwrap().result.unwrap();
}

#[track_caller]
pub fn holds(server: &Server, offset_bytes: u64, seed: u64) {
    let mut client = connect(server);
    for (at, expected) in (offset_bytes..).step_by(65536).zip(data(seed).chunks(65536)) {
        let cookie = client.submit_read(at, expected.len() as u32).unwrap();
        let reply = client.wait_for(cookie).unwrap();
        assert!(reply.result.is_ok(), "{:?}", reply.result);
        assert!(reply.data == expected, "at {at}");
    }
}

pub fn status(scene: &Scene) -> Value {
    serde_json::from_str(&good(&forebay(&["status", scene.config(), "--output", "json"]))).unwrap()
}

#[track_caller]
pub fn until(what: &str, is_so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(120), "it never came to be that {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
