//! The server over real sockets, with the tests' small client.

use crate::client::*;
use crate::serving::{Serving, export};
use forebay_export::{Listen, Reactor, ServerConfig, ServerError};
use forebay_volume::RequestError;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;

fn open(socket: &mut (impl Read + Write), name: &str, shape: Shape) -> (u64, u16) {
    socket.write_all(&opening(name, shape)).unwrap();
    read_opening(socket, shape)
}

fn ask(socket: &mut (impl Read + Write), kind: u16, offset: u64, len: u64, payload: &[u8]) -> Reply {
    socket.write_all(&request(Shape::Structured, kind, 0, 9, offset, len, payload)).unwrap();
    read_reply(socket, |_| 0)
}

/// Whether the server has closed the connection.
fn closed(socket: &mut UnixStream) -> bool {
    let mut rest = Vec::new();
    match socket.read_to_end(&mut rest) {
        Ok(_) => true,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

#[test]
fn serves_several_exports_over_unix_and_tcp() {
    for tcp in [false, true] {
        let exports = vec![export("a", 1, MIB), export("b", 2, 2 * MIB)];
        let mut server = Serving::start(&format!("several-{tcp}"), ServerConfig::default(), exports, tcp);
        match server.address.clone() {
            Listen::Tcp(address) => two_disks(|| TcpStream::connect(address).unwrap()),
            Listen::Unix(path) => two_disks(|| UnixStream::connect(&path).unwrap()),
        }
        assert!(server.stop_well() >= 2, "each disk is flushed at the end");
    }
}

fn two_disks<S: Read + Write>(connect: impl Fn() -> S) {
    let (mut a, mut b, mut again) = (connect(), connect(), connect());
    assert_eq!(open(&mut a, "a", Shape::Structured).0, MIB);
    assert_eq!(open(&mut b, "b", Shape::Structured).0, 2 * MIB);
    open(&mut again, "a", Shape::Extended);
    assert_eq!(ask(&mut a, WRITE, 4096, 512, &[1; 512]).error, 0);
    assert_eq!(ask(&mut b, WRITE, 4096, 512, &[2; 512]).error, 0);
    assert_eq!(ask(&mut a, READ, 4096, 512, &[]).data, [1; 512]);
    assert_eq!(ask(&mut b, READ, 4096, 512, &[]).data, [2; 512]);
    again.write_all(&request(Shape::Extended, READ, 0, 5, 4096, 512, &[])).unwrap();
    assert_eq!(read_reply(&mut again, |_| 0).data, [1; 512], "every connection sees the same disk");
}

/// Payloads of every size arrive intact, including sizes far larger than sockets and buffers.
#[test]
fn large_and_small_payloads_arrive_whole() {
    for delay in [0, 3] {
        let config = ServerConfig { poll_ns: delay * 10_000, ..ServerConfig::default() };
        let mut server = Serving::start(&format!("payloads-{delay}"), config, vec![export("a", 1, 64 * MIB)], false);
        server.ask(move |backend, _| backend.delay_polls(delay));
        let mut socket = server.connect();
        open(&mut socket, "a", Shape::Structured);
        let mut reader = socket.try_clone().unwrap();
        let sizes = [512u64, 4096, 32 << 20, 512, 65536, 262_144, 300_032, 5 << 20, 131_072, 131_072, 131_072];
        let pattern = |i: usize, len: u64| -> Vec<u8> {
            (0..len / 8).flat_map(|n| (n.wrapping_mul(0x9e37_79b9) + i as u64).to_le_bytes()).collect()
        };
        let mut offsets = Vec::new();
        let mut at = 0;
        for size in sizes {
            offsets.push(at);
            at += size;
        }
        let writer = std::thread::spawn({
            let offsets = offsets.clone();
            move || {
                for (i, size) in sizes.into_iter().enumerate() {
                    let payload = pattern(i, size);
                    socket
                        .write_all(&request(Shape::Structured, WRITE, 0, i as u64, offsets[i], size, &payload))
                        .unwrap();
                }
                socket
            }
        });
        for _ in sizes {
            assert_eq!(read_reply(&mut reader, |_| 0).error, 0);
        }
        let mut socket = writer.join().unwrap();
        // All at once: more than the limit of bytes in flight, for a client that reads slowly.
        for (i, size) in sizes.into_iter().enumerate() {
            socket.write_all(&request(Shape::Structured, READ, 0, i as u64, offsets[i], size, &[])).unwrap();
        }
        for _ in sizes {
            let reply = read_reply(&mut reader, |_| 0);
            let i = reply.cookie as usize;
            assert!(reply.data == pattern(i, sizes[i]), "read {i} of {} bytes differs", sizes[i]);
        }
        server.stop_well();
    }
}

#[test]
fn a_hostile_client_loses_its_connection_and_nobody_else_anything() {
    let mut server = Serving::start("hostile", ServerConfig::default(), vec![export("a", 1, MIB)], false);
    let mut good = server.connect();
    open(&mut good, "a", Shape::Structured);
    let mut hostile = Vec::new();
    for bytes in [
        b"GET / HTTP/1.1\r\nHost: nbd\r\n\r\n".to_vec(),
        [opening("a", Shape::Simple), vec![0xff; 4096]].concat(),
        [opening("a", Shape::Simple), request(Shape::Simple, WRITE, 0, 1, 0, 0xffff_ffff, &[])].concat(),
        vec![0xff; 100_000],
    ] {
        let mut socket = server.connect();
        // The server may close the connection before it has read everything.
        let _ = socket.write_all(&bytes);
        hostile.push(socket);
    }
    // One client stops in the middle of a payload and keeps the connection open.
    let mut staller = server.connect();
    open(&mut staller, "a", Shape::Structured);
    staller.write_all(&request(Shape::Structured, WRITE, 0, 1, 0, 65536, &[1; 100])).unwrap();
    for mut socket in hostile {
        assert!(closed(&mut socket));
    }
    assert_eq!(ask(&mut good, WRITE, 0, 512, &[7; 512]).error, 0);
    assert_eq!(ask(&mut good, READ, 0, 1024, &[]).data[..513], [&[7; 512][..], &[0]].concat());
    let stats = server.ask(|_, server| server.stats());
    assert_eq!((stats.connections, stats.protocol_errors), (2, 4));
    drop(staller);
    server.stop_well();
}

#[test]
fn requests_in_flight_of_a_client_that_left_do_not_reach_another() {
    let mut server = Serving::start("left", ServerConfig::default(), vec![export("a", 1, MIB)], false);
    server.ask(|backend, _| backend.delay_polls(2000));
    for round in 0..20u8 {
        let mut leaver = server.connect();
        open(&mut leaver, "a", Shape::Structured);
        for i in 0..16 {
            leaver.write_all(&request(Shape::Structured, READ, 0, 1000 + i, 0, 512, &[])).unwrap();
        }
        drop(leaver);
        let mut stayer = server.connect();
        open(&mut stayer, "a", Shape::Structured);
        let reply = ask(&mut stayer, WRITE, 4096, 512, &[round; 512]);
        assert_eq!((reply.cookie, reply.error, reply.data.len()), (9, 0, 0));
    }
    server.stop_well();
}

#[test]
fn limits_the_clients_and_drops_those_that_choose_nothing() {
    let config = ServerConfig { connections_max: 2, handshake_timeout_ns: 1_300_000_000, ..ServerConfig::default() };
    let mut server = Serving::start("limits", config, vec![export("a", 1, MIB)], false);
    let mut good = server.connect();
    open(&mut good, "a", Shape::Structured);
    // Two clients that compete for the last place.
    let (mut second, mut third) = (server.connect(), server.connect());
    read_greeting(&mut third);
    open(&mut second, "a", Shape::Structured);
    assert!(closed(&mut server.connect()), "there are two already");
    third.write_all(&opening("a", Shape::Structured)).unwrap();
    assert!(closed(&mut third), "there were two when it came to choose");
    assert_eq!(server.ask(|_, server| server.stats().refused), 2);
    drop(second);
    while server.ask(|_, server| server.stats().connections) > 1 {}
    assert_eq!(server.ask(|_, server| server.stats().clients_at_refusal), 2, "though one has left since");
    let since = Instant::now();
    // One client sends nothing, the other sends options without end.
    let (mut silent, mut talker) = (server.connect(), server.connect());
    let mut talk = 3u32.to_be_bytes().to_vec();
    talk.extend(option(OPT_LIST, &[]));
    while talker.write_all(&talk).is_ok() {
        assert!(since.elapsed() < Duration::from_secs(20), "it may talk for ever");
        std::thread::sleep(Duration::from_millis(20));
        talk = option(OPT_LIST, &[]);
    }
    assert!(closed(&mut silent));
    assert!(since.elapsed() >= Duration::from_millis(1200), "a handshake has its time");
    assert_eq!(ask(&mut good, READ, 0, 512, &[]).error, 0);
    server.stop_well();
}

#[test]
fn exports_come_go_and_grow_while_serving() {
    let mut server = Serving::start("live", ServerConfig::default(), vec![export("a", 1, MIB)], false);
    let mut a = server.connect();
    open(&mut a, "a", Shape::Structured);
    server.ask(|backend, server| {
        backend.add_disk(forebay_block::DiskId(2), 4 * MIB);
        server.exports().add(export("b", 2, 2 * MIB)).unwrap();
    });
    let mut b = server.connect();
    assert_eq!(open(&mut b, "b", Shape::Structured).0, 2 * MIB);
    server.ask(|_, server| server.exports().resize("b", 4 * MIB).unwrap());
    assert_eq!(ask(&mut b, READ, 3 * MIB, 512, &[]).error, 0);
    server.ask(|_, server| server.exports().remove("a").unwrap());
    assert!(closed(&mut a), "an idle connection to a removed export ends");
    assert_eq!(ask(&mut b, READ, 0, 512, &[]).error, 0);
    server.stop_well();
}

#[test]
fn a_clean_stop_answers_flushes_and_makes_room_for_a_successor() {
    let config = ServerConfig::default();
    let mut server = Serving::start("stop", config, vec![export("a", 1, MIB)], false);
    server.ask(|backend, _| backend.delay_polls(u64::MAX / 2));
    let mut socket = server.connect();
    open(&mut socket, "a", Shape::Structured);
    for i in 0..8 {
        socket.write_all(&request(Shape::Structured, WRITE, 0, i, i * 512, 512, &[1; 512])).unwrap();
    }
    while server.ask(|_, server| server.stats().in_flight) < 8 {}
    let path = server.socket().to_owned();
    // Only now: on a busy machine the first request would be complete before the last one arrives.
    server.ask(|backend, server| {
        backend.release_after(5000);
        server.stop();
    });
    assert!(server.stop_well() >= 1);
    let mut cookies: Vec<u64> = (0..8).map(|_| read_reply(&mut socket, |_| 0).cookie).collect();
    cookies.sort_unstable();
    assert_eq!(cookies, (0..8).collect::<Vec<_>>());
    assert!(closed(&mut socket));
    assert!(!path.exists());
}

#[test]
fn a_failed_flush_at_the_end_is_not_kept_quiet() {
    let mut server = Serving::start("flush", ServerConfig::default(), vec![export("a", 1, MIB)], false);
    server.ask(|backend, _| backend.fail_next(RequestError::FlushFailed));
    let (result, _) = server.stop();
    assert!(matches!(result, Err(ServerError::FinalFlush { source: RequestError::FlushFailed })));
}

#[test]
fn a_stop_does_not_wait_for_ever() {
    let config = ServerConfig { stop_timeout_ns: 200_000_000, ..ServerConfig::default() };
    let mut server = Serving::start("late", config, vec![export("a", 1, MIB)], false);
    server.ask(|backend, _| backend.delay_polls(u64::MAX / 2));
    let mut socket = server.connect();
    open(&mut socket, "a", Shape::Structured);
    socket.write_all(&request(Shape::Structured, READ, 0, 1, 0, 512, &[])).unwrap();
    while server.ask(|_, server| server.stats().in_flight) < 1 {}
    let (result, _) = server.stop();
    assert!(matches!(result, Err(ServerError::StopTimedOut { requests: 1, .. })), "{result:?}");
}

/// A client that read none of its answers delayed a stop for all of its 30 s.
#[test]
fn regression_a_stop_waits_for_clients_that_read_and_not_for_those_that_do_not() {
    let mut server = Serving::start("unread", ServerConfig::default(), vec![export("a", 1, MIB)], false);
    let mut silent = server.connect();
    let mut slow = server.connect();
    for socket in [&mut silent, &mut slow] {
        open(socket, "a", Shape::Structured);
        let all: Vec<u8> = (0..24).flat_map(|i| request(Shape::Structured, READ, 0, i, 0, MIB, &[])).collect();
        socket.write_all(&all).unwrap();
        // The server has received all requests: they arrived in one piece.
        socket.read_exact(&mut [0]).unwrap();
    }
    let begun = Instant::now();
    server.ask(|_, server| server.stop());
    // Slower than the time for which a client that reads nothing is kept: after 3 s the stopping server still has
    // answers for this client.
    let mut taken = 0;
    let mut part = vec![0; 1 << 20];
    loop {
        match slow.read(&mut part).unwrap() {
            0 => break,
            count => taken += count,
        }
        let pause = if taken < 16 << 20 { 300 } else { 0 };
        std::thread::sleep(Duration::from_millis(pause));
    }
    assert!(taken > 24 << 20, "{taken} bytes of 24 answers of 1 MiB");
    let reasons = [server.end(), server.end()];
    server.ended().0.unwrap();
    let took = begun.elapsed();
    assert!(took > Duration::from_secs(4) && took < Duration::from_secs(10), "{took:?}");
    assert!(reasons.iter().any(|why| why == "the server stopped, and it did not take its answers"), "{reasons:?}");
    assert!(reasons.iter().any(|why| why == "the server stopped"), "{reasons:?}");
}

/// An address at which the server began to listen after a stop had begun admitted clients that did not learn of the
/// stop, and no flush covered their last writes.
#[test]
fn regression_nobody_is_let_in_anew_once_the_server_stops() {
    let mut server = Serving::start("anew", ServerConfig::default(), vec![export("a", 1, MIB)], false);
    let other = Listen::Unix(server.dir().join("other"));
    let listening = server.ask(move |_, server| {
        server.stop();
        server.listen(&other)
    });
    assert!(matches!(listening, Err(ServerError::Stopping { .. })), "{listening:?}");
    server.ended().0.unwrap();
}

/// More connections than the server waits for by poll(2): epoll serves the others.
#[test]
fn many_connections_are_all_served() {
    for poll_ns in [0, 50_000] {
        let config = ServerConfig { poll_ns, ..ServerConfig::default() };
        let mut server = Serving::start(&format!("many-{poll_ns}"), config, vec![export("a", 1, MIB)], false);
        let mut sockets: Vec<UnixStream> = (0..40).map(|_| server.connect()).collect();
        sockets.iter_mut().for_each(|socket| {
            open(socket, "a", Shape::Structured);
        });
        for round in 0..20u64 {
            for (i, socket) in sockets.iter_mut().enumerate() {
                let offset = (i as u64 * 20 + round) * 512;
                let payload = [(i as u64 + round) as u8; 512];
                socket.write_all(&request(Shape::Structured, WRITE, 0, i as u64, offset, 512, &payload)).unwrap();
            }
            for (i, socket) in sockets.iter_mut().enumerate() {
                let reply = read_reply(socket, |_| 0);
                assert_eq!((reply.cookie, reply.error), (i as u64, 0));
            }
            // Connections end and begin in between.
            let place = round as usize * 2;
            sockets[place] = server.connect();
            open(&mut sockets[place], "a", Shape::Structured);
        }
        for i in 0..40 {
            let offset = (i * 20 + 7) * 512;
            assert_eq!(ask(&mut sockets[i as usize], READ, offset, 512, &[]).data, [(i + 7) as u8; 512]);
        }
        server.stop_well();
    }
}

#[test]
fn options_out_of_range_are_refused() {
    let bad = ServerConfig { connections_max: 0, ..ServerConfig::default() };
    assert!(matches!(Reactor::new(bad), Err(ServerError::Config { option: "connections_max", .. })));
}
