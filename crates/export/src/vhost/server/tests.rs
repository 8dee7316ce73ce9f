//! The thread and its socket, with misbehaving clients.

use super::super::client::tests::{Machine, offer_read};
use super::*;
use crate::frontend::Frontend;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::io::{IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Instant;

/// Headers of `GET_FEATURES` and `SET_VRING_ERR`: code, flags (version 1), length of the payload.
const GET_FEATURES: [u8; HEADER_BYTES] = [1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0];
const SET_VRING_ERR: [u8; HEADER_BYTES] = [14, 0, 0, 0, 1, 0, 0, 0, 8, 0, 0, 0];

fn scratch(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("forebay-vhost-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    dir.join("s")
}

fn remove(path: &Path) {
    std::fs::remove_dir_all(path.parent().unwrap()).unwrap();
}

fn open(path: &Path) -> (Vhost, Door) {
    let wanted =
        Wanted { path: path.to_owned(), name: "db".to_owned(), size_bytes: 1 << 20, read_only: false, private: false };
    Vhost::open(&wanted).unwrap()
}

/// Waits until the server sends a client away; returns the reason.
fn sent_away(vhost: &Vhost) -> String {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(20) {
        for event in vhost.take_events() {
            if let VhostEvent::Closed(_, why) = event {
                return why.unwrap();
            }
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("the client is still there");
}

fn answers(path: &Path) {
    let mut client = UnixStream::connect(path).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    client.write_all(&GET_FEATURES).unwrap();
    std::io::Read::read_exact(&mut client, &mut [0; HEADER_BYTES + 8]).unwrap();
}

#[test]
fn a_client_that_takes_no_answers_is_sent_away_and_the_next_is_served() {
    let path = scratch("answers");
    let (vhost, door) = open(&path);
    let mut client = UnixStream::connect(&path).unwrap();
    client.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
    while client.write_all(&GET_FEATURES).is_ok() {}
    assert_eq!(sent_away(&vhost), "it takes no answers");
    answers(&path);
    drop(door);
    assert!(vhost.has_ended(Instant::now()));
    remove(&path);
}

#[test]
fn a_client_that_sends_too_many_descriptors_is_sent_away_and_the_next_is_served() {
    let path = scratch("descriptors");
    let (vhost, door) = open(&path);
    let client = UnixStream::connect(&path).unwrap();
    let sent = [client.as_fd(); 40];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(40))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(control.push(SendAncillaryMessage::ScmRights(&sent)));
    sendmsg(&client, &[IoSlice::new(&SET_VRING_ERR)], &mut control, SendFlags::empty()).unwrap();
    assert!(sent_away(&vhost).contains("could not be taken in time"));
    answers(&path);
    drop(door);
    assert!(vhost.has_ended(Instant::now()));
    remove(&path);
}

#[test]
fn the_next_client_after_one_that_was_sent_away_waits() {
    let path = scratch("pause");
    let (vhost, door) = open(&path);
    let mut client = UnixStream::connect(&path).unwrap();
    client.write_all(&[0xff; HEADER_BYTES]).unwrap();
    sent_away(&vhost);
    let begun = Instant::now();
    answers(&path);
    assert!(begun.elapsed() > SENT_AWAY_PAUSE / 2, "{:?}", begun.elapsed());
    drop(door);
    assert!(vhost.has_ended(Instant::now()));
    remove(&path);
}

#[test]
fn the_thread_ends_where_the_server_lets_go_of_requests_in_flight() {
    let (device, door) = Machine::new().connect();
    offer_read(&device, 0);
    let server = Server::new(None, device, Events::default());
    let (stream, _client) = UnixStream::pair().unwrap();
    let mut messages = BackendReqHandler::from_stream(stream.try_clone().unwrap(), Arc::clone(&server.device));
    assert!(server.step(&stream, &mut messages).is_ok());
    assert_eq!(server.device().side().in_flight(), 1);
    drop(door);
    assert!(matches!(server.step(&stream, &mut messages), Err(End::Stopping)));
}

#[test]
fn nobody_is_listened_to_by_a_server_that_stops() {
    let path = scratch("stop");
    let (vhost, mut door) = open(&path);
    answers(&path);
    door.begin_shutdown();
    let begun = Instant::now();
    while UnixStream::connect(&path).is_ok() {
        assert!(begun.elapsed() < Duration::from_secs(10), "it is still listening");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(!path.exists());
    drop(door);
    assert!(vhost.has_ended(Instant::now()));
    remove(&path);
}
