//! TLS with the running server, and OpenSSL as the client: data transfer, admission of clients, and attacks by
//! hostile clients.

use crate::certificates::{Issued, issue};
use crate::client::*;
use crate::serving::{Serving, export, scratch};
use forebay_export::{Access, Export, Listen, ServerConfig, SessionLimits, TlsContext, TlsFiles, TlsNeed};
use openssl::ssl::{Ssl, SslContext, SslContextBuilder, SslMethod, SslStream, SslVerifyMode, SslVersion};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const YEAR: (i64, i64) = (-60, 365 * 86_400);
const ALICES_KEY: [u8; 32] = [7; 32];

/// A server that requires TLS, with its authority and keys for alice and carol.
struct World {
    serving: Serving,
    authority: Issued,
}

impl World {
    fn start(name: &str, config: ServerConfig, with_keys: bool) -> Self {
        let authority = issue("authority", None, YEAR);
        let server = issue("server", Some(&authority), YEAR);
        let folder = scratch(&format!("{name}-files"));
        let keys = format!("alice:{}\ncarol:{}\n", "07".repeat(32), "08".repeat(32));
        for (file, content) in [
            ("server.pem", server.certificate_pem()),
            ("server.key", server.key_pem()),
            ("ca.pem", authority.certificate_pem()),
            ("keys", keys.into_bytes()),
        ] {
            std::fs::write(folder.join(file), content).unwrap();
        }
        let path = |file: &str| Some(folder.join(file));
        let tls = TlsContext::load(&TlsFiles {
            certificate: path("server.pem"),
            key: path("server.key"),
            client_ca: path("ca.pem"),
            psk_file: if with_keys { path("keys") } else { None },
        });
        std::fs::remove_dir_all(&folder).unwrap();
        let asks = |names: &[&str]| Access {
            nbd: true,
            network: true,
            tls: TlsNeed::Always,
            names: names.iter().map(|name| (*name).to_owned()).collect(),
        };
        let exports = vec![
            Export { access: asks(&[]), ..export("disk", 1, 64 << 20) },
            Export { access: asks(&["alice"]), ..export("alices", 2, 1 << 20) },
            Export { access: asks(&["bob.test"]), ..export("bobs", 3, 1 << 20) },
        ];
        let mut serving = Serving::start(name, config, exports, true);
        serving.ask(move |_, server| server.set_tls(Some(tls.unwrap())));
        Self { serving, authority }
    }

    /// A connection after the answer to STARTTLS.
    fn started(&self) -> TcpStream {
        let Listen::Tcp(address) = self.serving.address else { panic!("not TCP") };
        let mut socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        read_greeting(&mut socket);
        socket.write_all(&[&3u32.to_be_bytes()[..], &option(OPT_STARTTLS, &[])].concat()).unwrap();
        assert_eq!(read_option_reply(&mut socket).kind, ACK);
        socket
    }

    fn client(&self) -> SslContextBuilder {
        let mut builder = SslContext::builder(SslMethod::tls_client()).unwrap();
        builder.cert_store_mut().add_cert(self.authority.certificate.clone()).unwrap();
        builder.set_verify(SslVerifyMode::PEER);
        builder
    }

    /// Performs the handshake and requests an export; returns the server's reply. In TLS 1.3 a client learns of a
    /// refusal only then.
    fn go(&self, client: SslContextBuilder, export: &str) -> Result<(SslStream<TcpStream>, u32), String> {
        let mut stream = SslStream::new(Ssl::new(&client.build()).unwrap(), self.started()).unwrap();
        stream.connect().map_err(|error| error.to_string())?;
        stream.write_all(&option(OPT_GO, &go_data(export, &[]))).map_err(|error| error.to_string())?;
        let mut first = [0];
        match stream.read(&mut first) {
            Ok(1) => {}
            other => return Err(format!("{other:?}")),
        }
        let kind = read_option_replies(&mut first.chain(&mut stream)).last().unwrap().kind;
        Ok((stream, kind))
    }

    fn kind(&self, client: SslContextBuilder, export: &str) -> u32 {
        self.go(client, export).unwrap().1
    }
}

fn with_certificate(mut builder: SslContextBuilder, issued: &Issued) -> SslContextBuilder {
    builder.set_certificate(&issued.certificate).unwrap();
    builder.set_private_key(&issued.key).unwrap();
    builder
}

fn with_key(mut builder: SslContextBuilder, identity: &'static str, key: [u8; 32]) -> SslContextBuilder {
    builder.set_psk_client_callback(move |_, _, name, into| {
        name[..identity.len()].copy_from_slice(identity.as_bytes());
        name[identity.len()] = 0;
        into[..key.len()].copy_from_slice(&key);
        Ok(key.len())
    });
    builder
}

#[test]
fn data_goes_through_whole_also_where_the_client_is_held_back() {
    // Four requests at a time: most of the client's bytes wait inside TLS, where no socket announces them.
    for requests_max in [4, 1024] {
        let session = SessionLimits { requests_max, in_flight_bytes_max: 1 << 20, ..SessionLimits::default() };
        let config = ServerConfig { session, ..ServerConfig::default() };
        let mut world = World::start(&format!("tls-data-{requests_max}"), config, true);
        let (mut stream, kind) = world.go(with_key(world.client(), "alice", ALICES_KEY), "disk").unwrap();
        assert_eq!(kind, ACK);
        let data: Vec<u8> = (0..16u32 << 20).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        // Short and long requests, sent before the answers are read.
        let mut requests = Vec::new();
        let (mut at, mut count) = (0usize, 0u64);
        while at < data.len() {
            let len = [512, 4096, 20_480, 131_072, 512, 1 << 20][count as usize % 6].min(data.len() - at);
            requests.extend(request(Shape::Simple, WRITE, 0, count, at as u64, len as u64, &data[at..at + len]));
            at += len;
            count += 1;
        }
        stream.write_all(&requests).unwrap();
        for _ in 0..count {
            assert_eq!(read_reply(&mut stream, |_| 0).error, 0);
        }
        let asked: Vec<u8> =
            (0..16u64).flat_map(|piece| request(Shape::Simple, READ, 0, piece, piece << 20, 1 << 20, &[])).collect();
        stream.write_all(&asked).unwrap();
        for _ in 0..16 {
            let reply = read_reply(&mut stream, |_| 1 << 20);
            let at = (reply.cookie as usize) << 20;
            assert!(reply.error == 0 && reply.data[..] == data[at..at + (1 << 20)], "piece {}", reply.cookie);
        }
        // After a long write the server reads little at once, so that the next payload goes straight to its place:
        // the many short requests wait inside TLS, and nothing more comes from the socket.
        let mut burst = request(Shape::Simple, WRITE, 0, 0, 0, 32_768, &data[..32_768]);
        burst.extend((0..900).flat_map(|cookie| request(Shape::Simple, READ, 0, cookie, 0, 512, &[])));
        // Written while the server runs this errand, so that it finds all requests at once.
        let mut stream = world.serving.ask(move |_, _| {
            stream.write_all(&burst).unwrap();
            stream
        });
        assert_eq!(read_reply(&mut stream, |_| 0).error, 0);
        for _ in 0..900 {
            assert_eq!(read_reply(&mut stream, |_| 512).data, data[..512]);
        }
        stream.write_all(&request(Shape::Simple, DISC, 0, 0, 0, 0, &[])).unwrap();
        // The server closes TLS properly: without that this read would fail.
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
        assert_eq!(world.serving.end(), "closed by the client");
        world.serving.stop_well();
    }
}

#[test]
fn names_decide_what_a_client_sees() {
    let mut world = World::start("tls-names", ServerConfig::default(), true);
    let alice = || with_key(world.client(), "alice", ALICES_KEY);
    let carol = || with_key(world.client(), "carol", [8; 32]);
    let bob = issue("bob", Some(&world.authority), YEAR);
    let bob = || with_certificate(world.client(), &bob);
    for (export, by_alice, by_bob, by_carol) in
        [("disk", ACK, ACK, ACK), ("alices", ACK, ERR_UNKNOWN, ERR_UNKNOWN), ("bobs", ERR_UNKNOWN, ACK, ERR_UNKNOWN)]
    {
        assert_eq!(world.kind(alice(), export), by_alice, "alice, {export}");
        assert_eq!(world.kind(bob(), export), by_bob, "bob, {export}");
        assert_eq!(world.kind(carol(), export), by_carol, "carol, {export}");
    }
    // Naming alice's identity without a session made from her key gives none of her permissions: OpenSSL binds keys
    // to SHA-256, so with this suite alone the server looks the identity up and then continues with the certificate.
    for key in [ALICES_KEY, [9; 32]] {
        let claims = || {
            let mut client = with_key(bob(), "alice", key);
            client.set_ciphersuites("TLS_AES_256_GCM_SHA384").unwrap();
            client
        };
        assert_eq!(world.kind(claims(), "alices"), ERR_UNKNOWN);
        assert_eq!(world.kind(claims(), "bobs"), ACK);
    }
    world.serving.stop_well();
}

#[test]
fn who_proves_nothing_is_refused_with_a_reason() {
    let mut world = World::start("tls-refused", ServerConfig::default(), true);
    let other = issue("authority", None, YEAR);
    let stranger = issue("alice", Some(&other), YEAR);
    let late = issue("alice", Some(&world.authority), (-7200, -3600));
    let early = issue("alice", Some(&world.authority), (3600, 7200));
    let with = |issued| with_certificate(world.client(), issued);
    let mut old = with_key(world.client(), "alice", ALICES_KEY);
    old.set_max_proto_version(Some(SslVersion::TLS1_2)).unwrap();
    for (client, reason) in [
        (world.client(), "peer did not return a certificate"),
        (with(&stranger), "certificate verify failed: "),
        (with(&late), "certificate has expired"),
        (with(&early), "certificate is not yet valid"),
        (with_key(world.client(), "alice", [9; 32]), "the pre-shared key of identity \"alice\""),
        (with_key(world.client(), "mallory", ALICES_KEY), "there is no pre-shared key of identity \"mallory\""),
        (old, "unsupported protocol"),
    ] {
        assert!(world.go(client, "disk").is_err(), "{reason}");
        let end = world.serving.end();
        assert!(end.starts_with("the TLS handshake failed: ") && end.contains(reason), "{reason}: {end}");
    }
    // A client that does not trust the server's authority.
    let mut distrustful = SslContext::builder(SslMethod::tls_client()).unwrap();
    distrustful.set_verify(SslVerifyMode::PEER);
    assert!(world.go(distrustful, "disk").is_err());
    assert!(world.serving.end().contains("alert unknown ca"));
    world.serving.stop_well();
}

#[test]
fn what_is_no_tls_ends_the_connection_and_nothing_else() {
    let config = ServerConfig { handshake_timeout_ns: 1_500_000_000, ..ServerConfig::default() };
    let mut world = World::start("tls-hostile", config, false);
    let bob = issue("bob", Some(&world.authority), YEAR);
    let (mut faithful, _) = world.go(with_certificate(world.client(), &bob), "disk").unwrap();
    let is_gone = |mut socket: TcpStream| socket.read_to_end(&mut Vec::new()).is_ok_and(|count| count < 64);
    // Options that continue in cleartext; a record with an absurd length; a megabyte of zeros.
    let huge = [&[22u8, 3, 1, 0xff, 0xff][..], &[0; 70_000]].concat();
    for garbage in [option(OPT_GO, &go_data("disk", &[])), vec![0xff; 9], huge, vec![0; 1 << 20]] {
        let mut socket = world.started();
        // The server may close the connection before everything is written.
        let _ = socket.write_all(&garbage);
        drop(socket);
        assert!(world.serving.end().starts_with("the TLS handshake failed: "));
    }
    // The same garbage in one message with STARTTLS, before the answer.
    let Listen::Tcp(address) = world.serving.address else { panic!("not TCP") };
    let mut eager = TcpStream::connect(address).unwrap();
    let behind = option(OPT_GO, &go_data("disk", &[]));
    eager.write_all(&[&3u32.to_be_bytes()[..], &option(OPT_STARTTLS, &[]), &behind].concat()).unwrap();
    read_greeting(&mut eager);
    assert_eq!(read_option_reply(&mut eager).kind, ACK);
    assert!(is_gone(eager));
    assert!(world.serving.end().starts_with("the TLS handshake failed: "));
    // After a handshake: bytes changed in transit.
    let (mut broken, _) = world.go(with_certificate(world.client(), &bob), "disk").unwrap();
    broken.get_mut().write_all(&[23, 3, 3, 0, 40].iter().chain(&[5; 40]).copied().collect::<Vec<u8>>()).unwrap();
    let end = world.serving.end();
    assert!(end.starts_with("TLS failed: "), "{end}");
    // Half a handshake, or none at all, may take as long as the handshake of any other client.
    let mut half = world.started();
    half.write_all(&[22, 3, 1, 1, 0, 1, 0, 0]).unwrap();
    let silent = world.started();
    assert!(is_gone(half) && is_gone(silent));
    assert_eq!(world.serving.end(), "no export was chosen in time");
    faithful.write_all(&request(Shape::Simple, FLUSH, 0, 1, 0, 0, &[])).unwrap();
    assert_eq!(read_reply(&mut faithful, |_| 0).error, 0);
    drop(faithful);
    world.serving.stop_well();
}

#[test]
fn another_authority_counts_from_the_next_connection_on() {
    let mut world = World::start("tls-change", ServerConfig::default(), false);
    let bob = issue("bob", Some(&world.authority), YEAR);
    let bob = || with_certificate(world.client(), &bob);
    let (mut before, _) = world.go(bob(), "disk").unwrap();
    let folder = scratch("tls-change-keys");
    std::fs::write(folder.join("keys"), format!("alice:{}", "07".repeat(32))).unwrap();
    let files = TlsFiles { psk_file: Some(folder.join("keys")), ..TlsFiles::default() };
    let keys_alone = TlsContext::load(&files).unwrap();
    std::fs::remove_dir_all(folder).unwrap();
    let client = bob();
    world.serving.ask(move |_, server| server.set_tls(Some(keys_alone)));
    assert!(world.go(client, "disk").is_err());
    assert_eq!(world.kind(with_key(world.client(), "alice", ALICES_KEY), "alices"), ACK);
    before.write_all(&request(Shape::Simple, FLUSH, 0, 1, 0, 0, &[])).unwrap();
    assert_eq!(read_reply(&mut before, |_| 0).error, 0);
    drop(before);
    world.serving.stop_well();
}

#[test]
fn files_that_hold_something_else_are_named() {
    let folder = scratch("tls-files");
    let authority = issue("authority", None, YEAR);
    let (server, stranger) = (issue("server", Some(&authority), YEAR), issue("stranger", None, YEAR));
    for (file, content) in [
        ("server.pem", server.certificate_pem()),
        ("server.key", server.key_pem()),
        ("other.key", stranger.key_pem()),
        ("ca.pem", authority.certificate_pem()),
        ("empty", vec![]),
        ("keys", b"alice".to_vec()),
    ] {
        std::fs::write(folder.join(file), content).unwrap();
    }
    let path = |file: &str| if file.is_empty() { None } else { Some(folder.join(file)) };
    for (certificate, key, client_ca, psk_file, expected) in [
        ("", "", "", "", "together"),
        ("server.pem", "server.key", "", "", "together"),
        ("server.pem", "", "", "keys", "together"),
        ("missing", "server.key", "ca.pem", "", "cannot read"),
        ("empty", "server.key", "ca.pem", "", "empty holds no certificate"),
        ("server.pem", "empty", "ca.pem", "", "empty holds no private key"),
        ("server.pem", "other.key", "ca.pem", "", "other.key holds no private key"),
        ("server.pem", "server.key", "empty", "", "empty holds no certificate authority"),
        ("", "", "", "keys", "line 1 is not identity:key"),
        ("", "", "", "empty", "there is no key in it"),
    ] {
        let files = TlsFiles {
            certificate: path(certificate),
            key: path(key),
            client_ca: path(client_ca),
            psk_file: path(psk_file),
        };
        let error = TlsContext::load(&files).unwrap_err().to_string();
        assert!(error.contains(expected), "{files:?}: {error}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}
