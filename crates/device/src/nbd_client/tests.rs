//! The client against foreign servers, where these are installed, and against hostile ones made here.

use super::stream::Stream;
use super::*;
use forebay_block::Random;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Stdio};

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a server and waits for its socket; `None` where it is not installed.
fn serve(socket: &Path, program: &str, arguments: &[&str]) -> Option<Server> {
    let child = std::process::Command::new(program).args(arguments).stdin(Stdio::null()).spawn().ok()?;
    let server = Server(child);
    for _ in 0..500 {
        if UnixStream::connect(socket).is_ok() {
            return Some(server);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{program} did not open its socket");
}

/// Runs many commands of all kinds at once, and checks them against a model.
fn exercise(client: &mut NbdClient) {
    const SIZE: usize = 8 << 20;
    assert_eq!(client.info().size_bytes, SIZE as u64);
    let mut random = Random::new(5);
    let mut model = vec![0u8; SIZE];
    let mut expected: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
    let check = |reply: Reply, expected: &mut BTreeMap<u64, Vec<u8>>| {
        assert_eq!(reply.result, Ok(()), "{:?}", reply.command);
        if reply.command == Command::Read {
            assert!(expected.remove(&reply.cookie).unwrap() == reply.data, "a read differs");
        }
    };
    for round in 0..40 {
        // One command per slot of 128 KiB, so that no commands of a round overlap.
        for slot in 0..(SIZE >> 17) {
            let at = (slot << 17) + random.index(64) * 512;
            let len = 512 * (1 + random.index(120));
            match random.below(6) {
                0 | 1 => {
                    let cookie = client.submit_read(at as u64, len as u32).unwrap();
                    expected.insert(cookie, model[at..at + len].to_vec());
                }
                2 | 3 => {
                    let bytes: Vec<u8> = (0..len).map(|i| (i / 512 + round) as u8).collect();
                    model[at..at + len].copy_from_slice(&bytes);
                    client.submit_write(at as u64, &bytes, client.info().can_fua() && random.chance(1, 4)).unwrap();
                }
                4 => {
                    model[at..at + len].fill(0);
                    client.submit_write_zeroes(at as u64, len as u32, ZeroFlags::default()).unwrap();
                }
                _ => {
                    client.submit_flush().unwrap();
                }
            }
        }
        while client.in_flight() > 0 {
            check(client.wait().unwrap(), &mut expected);
        }
    }
    let cookie = client.submit_read(0, SIZE as u32).unwrap();
    assert!(client.wait_for(cookie).unwrap().data == model);
    assert!(expected.is_empty());
    // The server refuses a command beyond the end; the connection stays usable.
    let cookie = client.submit_read(SIZE as u64, 512).unwrap();
    let refused = client.wait_for(cookie).unwrap();
    assert!(refused.result.is_err() && refused.data.is_empty());
    let cookie = client.submit_flush().unwrap();
    client.wait_for(cookie).unwrap().result.unwrap();
}

#[test]
fn nbdkit_memory_agrees_with_the_model() {
    let directory = tempfile::TempDir::new().unwrap();
    let socket = directory.path().join("s");
    let text = socket.to_str().unwrap();
    let Some(_server) = serve(&socket, "nbdkit", &["-f", "-U", text, "memory", "8M"]) else { return };
    for structured in [true, false] {
        let options = ClientOptions { structured, ..ClientOptions::default() };
        let mut client = NbdClient::connect(&Endpoint::Unix(socket.clone()), "", &options).unwrap();
        assert_eq!(client.info().structured, structured);
        let cookie = client.submit_trim(0, 8 << 20, false).unwrap();
        client.wait_for(cookie).unwrap().result.unwrap();
        exercise(&mut client);
        client.disconnect().unwrap();
    }
}

#[test]
fn qemu_nbd_agrees_with_the_model() {
    let directory = tempfile::TempDir::new().unwrap();
    let (socket, image) = (directory.path().join("s"), directory.path().join("image"));
    crate::FileDevice::create_file(&image, 8 << 20).unwrap();
    let arguments = ["-f", "raw", "-t", "-e", "4", "-x", "db", "-k", socket.to_str().unwrap(), image.to_str().unwrap()];
    let Some(_server) = serve(&socket, "qemu-nbd", &arguments) else { return };
    let options = ClientOptions::default();
    let refused = NbdClient::connect(&Endpoint::Unix(socket.clone()), "missing", &options).unwrap_err();
    assert!(matches!(refused, NbdError::Refused { option: "the export", .. }), "{refused}");
    assert!(
        refused.to_string().ends_with("name an export that it has at the end of the URI (nbdinfo --list shows them)")
    );
    let mut client = NbdClient::connect(&Endpoint::Unix(socket), "db", &options).unwrap();
    exercise(&mut client);
}

#[test]
fn only_loopback_is_connected_to_and_a_missing_server_is_named() {
    let options = ClientOptions::default();
    let far = Endpoint::Tcp("192.0.2.1:10809".parse().unwrap());
    let error = NbdClient::connect(&far, "", &options).unwrap_err().to_string();
    assert!(error.contains("loopback"), "{error}");
    let nobody = Endpoint::Host { name: "nobody.invalid".into(), port: 1 };
    let error = NbdClient::connect(&nobody, "", &options).unwrap_err().to_string();
    assert!(error.contains("tcp:nobody.invalid:1"), "{error}");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let named = Endpoint::Host { name: "localhost".into(), port: listener.local_addr().unwrap().port() };
    assert!(matches!(Stream::connect(&named, options.timeout, false), Ok(Stream::Tcp(_))));
    let missing = Endpoint::Unix("/nonexistent/socket".into());
    let error = NbdClient::connect(&missing, "", &options).unwrap_err().to_string();
    assert!(error.contains("/nonexistent/socket") && error.contains("start the server, or name"), "{error}");
}

/// The server's side of a handshake with GO as its only option, for an export of 1 MiB.
fn good_handshake(structured: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(wire::INIT_MAGIC.to_be_bytes());
    bytes.extend(wire::OPTION_MAGIC.to_be_bytes());
    bytes.extend((wire::FLAG_FIXED_NEWSTYLE | wire::FLAG_NO_ZEROES).to_be_bytes());
    let mut reply = |option: u32, kind: u32, payload: &[u8]| {
        bytes.extend(wire::OPTION_REPLY_MAGIC.to_be_bytes());
        bytes.extend(option.to_be_bytes());
        bytes.extend(kind.to_be_bytes());
        bytes.extend((payload.len() as u32).to_be_bytes());
        bytes.extend(payload);
    };
    if structured {
        reply(wire::OPT_STRUCTURED_REPLY, wire::REP_ACK, &[]);
    }
    let mut export = wire::INFO_EXPORT.to_be_bytes().to_vec();
    export.extend((1u64 << 20).to_be_bytes());
    export.extend(0xffu16.to_be_bytes());
    reply(wire::OPT_GO, wire::REP_INFO, &export);
    reply(wire::OPT_GO, wire::REP_ACK, &[]);
    bytes
}

/// Connects to a server that sends `script` whatever it receives, and then closes. Reads 8 KiB at 4 KiB.
fn read_from(script: Vec<u8>, structured: bool) -> Result<Reply, NbdError> {
    let directory = tempfile::TempDir::new().unwrap();
    let socket = directory.path().join("s");
    let listener = UnixListener::bind(&socket).unwrap();
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.write_all(&script);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let options = ClientOptions { structured, timeout: Duration::from_secs(5), ..ClientOptions::default() };
    let result = NbdClient::connect(&Endpoint::Unix(socket), "", &options).and_then(|mut client| {
        client.submit_read(4096, 8192)?;
        client.wait()
    });
    thread.join().unwrap();
    result
}

fn chunk(flags: u16, kind: u16, cookie: u64, payload: &[u8]) -> Vec<u8> {
    let mut bytes = wire::STRUCTURED_REPLY_MAGIC.to_be_bytes().to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend(kind.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend((payload.len() as u32).to_be_bytes());
    bytes.extend(payload);
    bytes
}

fn data(offset: u64, bytes: &[u8]) -> Vec<u8> {
    [&offset.to_be_bytes(), bytes].concat()
}

#[test]
fn chunks_in_any_order_make_a_read() {
    let hole = [&4096u64.to_be_bytes()[..], &4096u32.to_be_bytes()].concat();
    let script = [good_handshake(true), chunk(0, 1, 1, &data(8192, &[7; 4096])), chunk(1, 2, 1, &hole)].concat();
    let reply = read_from(script, true).unwrap();
    assert_eq!(reply.data, [[0u8; 4096], [7; 4096]].concat());
}

#[test]
fn what_breaks_the_protocol_ends_the_connection() {
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("gap", chunk(1, 1, 1, &data(4096, &[1; 4096]))),
        ("twice", [chunk(0, 1, 1, &data(4096, &[1; 4096])), chunk(1, 1, 1, &data(8191, &[1; 512]))].concat()),
        ("before", chunk(1, 1, 1, &data(4095, &[1; 8]))),
        ("beyond", chunk(1, 1, 1, &data(12288, &[1; 8]))),
        ("beyond", chunk(1, 1, 1, &data(u64::MAX, &[1; 8]))),
        ("truncated", chunk(1, 1, 1, &[1; 4])),
        ("of no reply", chunk(1, 0, 2, &[])),
        ("belong", chunk(1, 5, 1, &[0; 12])),
        ("belong", chunk(1, 99, 1, &[0; 12])),
        ("too long", chunk(1, 1, 1, &vec![0; 8192 + 9])),
        ("magic", vec![0; 64]),
        ("truncated", chunk(1, 0x8001, 1, &[0, 0, 0, 5, 0xff, 0xff])),
    ];
    for (part, script) in cases {
        let error = read_from([good_handshake(true), script].concat(), true).unwrap_err();
        assert!(matches!(error, NbdError::Protocol { .. }) && error.to_string().contains(part), "{part}: {error}");
    }
    let error = read_from(good_handshake(true), true).unwrap_err();
    assert!(matches!(error, NbdError::Closed { .. }), "{error}");
}

#[test]
fn an_error_of_the_server_is_reported_with_its_message() {
    let payload = [&28u32.to_be_bytes()[..], &6u16.to_be_bytes(), b"full\x1b!"].concat();
    let reply = read_from([good_handshake(true), chunk(1, 0x8001, 1, &payload)].concat(), true).unwrap();
    let error = reply.result.unwrap_err();
    assert_eq!((error.errno, error.message.as_str()), (28, "full\\u{1b}!"));
    assert!(reply.data.is_empty());
}

#[test]
fn bytes_of_any_kind_never_panic() {
    let mut random = Random::new(9);
    for round in 0..300 {
        let structured = random.chance(1, 2);
        let mut script = good_handshake(structured);
        if round % 3 == 0 {
            // Damages one bit of the handshake.
            let at = random.index(script.len());
            script[at] ^= 1 << random.below(8);
        }
        let mut tail = if structured { chunk(1, 1, 1, &data(4096, &[1; 8192])) } else { Vec::new() };
        if !structured {
            tail.extend(wire::SIMPLE_REPLY_MAGIC.to_be_bytes());
            tail.extend([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
            tail.extend([2; 8192]);
        }
        let at = random.index(28);
        tail[at] ^= 1 << random.below(8);
        tail.truncate(random.index(tail.len() + 1));
        script.extend(tail);
        let _ = read_from(script, structured);
    }
}
