//! Many clients that connect and never choose an export: they must not keep others out.

use crate::client::*;
use crate::serving::{Serving, export};
use forebay_export::{Access, Export, Listen, ServerConfig};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

const MIB: u64 = 1 << 20;

fn serving(name: &str, connections_max: u16, is_tcp: bool) -> Serving {
    let config = ServerConfig { connections_max, ..ServerConfig::default() };
    let access = Access::default();
    Serving::start(name, config, vec![Export { access, ..export("a", 1, MIB) }], is_tcp)
}

fn open(socket: &mut (impl Read + Write)) {
    socket.write_all(&opening("a", Shape::Structured)).unwrap();
    assert_eq!(read_opening(socket, Shape::Structured).0, MIB);
    socket.write_all(&request(Shape::Structured, READ, 0, 9, 0, 512, &[])).unwrap();
    assert_eq!(read_reply(socket, |_| 0).error, 0);
}

/// A connection from 127.0.0.`last`: all addresses of 127/8 are this machine's.
fn from(last: u8, server: &Serving) -> TcpStream {
    let Listen::Tcp(SocketAddr::V4(address)) = server.address else { panic!("not IPv4") };
    let local = SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, last), 0);
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&socket, &local).unwrap();
    connect(&socket, &address).unwrap();
    let socket = TcpStream::from(socket);
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    socket
}

/// Whether the server has closed the connection.
fn is_closed(socket: &mut impl Read) -> bool {
    match socket.read_to_end(&mut Vec::new()) {
        Ok(_) => true,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

#[test]
fn unfinished_handshakes_on_a_unix_socket_keep_nobody_out() {
    let mut server = serving("handshakes-unix", 2, false);
    let mut silent: Vec<UnixStream> = Vec::new();
    for round in 0..10 {
        // Within a second, many times as many connections as there are places.
        silent.extend((0..20).map(|_| server.connect()));
        open(&mut server.connect());
        assert!(round > 0 || server.ask(|_, server| server.stats().refused) == 0);
    }
    assert!(is_closed(&mut silent[0]), "the oldest gave way");
    assert!(server.end().starts_with("it gave way to a new connection"));
    assert_eq!(server.ask(|_, server| server.stats().refused), 0);
    // Clients in the handshake, however many, take no places of admitted clients.
    let (mut one, mut two) = (server.connect(), server.connect());
    open(&mut one);
    open(&mut two);
    assert!(is_closed(&mut server.connect()));
    assert_eq!(server.ask(|_, server| server.stats().refused), 1);
    drop((silent, one, two));
    server.stop_well();
}

#[test]
fn unfinished_handshakes_of_one_address_take_no_place_of_another() {
    let mut server = serving("handshakes-tcp", 2, true);
    // A slow client, older than all that follow.
    let mut slow = from(1, &server);
    read_greeting(&mut slow);
    let silent: Vec<TcpStream> = (0..100).map(|_| from(2, &server)).collect();
    let mut newcomer = from(3, &server);
    open(&mut newcomer);
    slow.write_all(&opening("a", Shape::Simple)).unwrap();
    assert_eq!(read_option_replies(&mut slow).last().unwrap().kind, ACK, "it kept its place");
    assert_eq!(server.ask(|_, server| server.stats().refused), 0);
    drop((silent, slow, newcomer));
    server.stop_well();
}

#[test]
fn who_shakes_hands_by_tcp_takes_no_place_of_unix_sockets() {
    let mut server = serving("handshakes-both", 2, false);
    let address = server.ask(|_, server| server.listen(&"tcp:127.0.0.1:0".parse().unwrap()).unwrap());
    let mut slow = server.connect();
    read_greeting(&mut slow);
    let Listen::Tcp(address) = address else { panic!("not TCP") };
    let silent: Vec<TcpStream> = (0..100).map(|_| TcpStream::connect(address).unwrap()).collect();
    let mut last = TcpStream::connect(address).unwrap();
    read_greeting(&mut last);
    slow.write_all(&opening("a", Shape::Simple)).unwrap();
    assert_eq!(read_option_replies(&mut slow).last().unwrap().kind, ACK);
    drop((silent, slow, last));
    server.stop_well();
}

/// A request that followed the choice of an export, from a client for which there was no place any more, stayed in
/// flight for ever: its place was lost, and no later stop was clean.
#[test]
fn a_request_of_a_client_that_is_refused_is_over() {
    let mut server = serving("handshakes-refused", 1, false);
    let mut late = server.connect();
    read_greeting(&mut late);
    let mut first = server.connect();
    open(&mut first);
    let both = [opening("a", Shape::Simple), request(Shape::Simple, READ, 0, 9, 0, 512, &[])].concat();
    late.write_all(&both).unwrap();
    assert!(is_closed(&mut late));
    assert_eq!(server.ask(|_, server| (server.stats().refused, server.stats().in_flight)), (1, 0));
    drop((late, first));
    server.stop_well();
}
