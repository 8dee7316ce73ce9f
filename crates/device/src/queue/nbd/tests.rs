//! Against nbdkit, where it is installed, and against servers made here that fail.

use super::super::tests::{exercise, finish_some, io, nbdkit, open_one, options, run};
use super::super::{OpenError, QueueOptions, open_queues};
use super::*;
use crate::target::Target;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tempfile::TempDir;

#[test]
fn nbdkit_agrees_with_the_model() {
    let directory = TempDir::new().unwrap();
    let Some((_server, target)) = nbdkit(directory.path(), &["memory", "8M"]) else { return };
    let mut opened = open_queues(&target, &QueueOptions { dsync: true, ..options() }, 2).unwrap();
    assert_eq!(opened.size_bytes, 8 << 20);
    assert!(opened.description.contains("structured"), "{}", opened.description);
    exercise(&mut opened.queues[0], 0..8 << 20, 512, 1, false);
    exercise(&mut opened.queues[1], 0..8 << 20, 1, 2, true);
    let queue = &mut opened.queues[0];
    queue.buffer(0).fill(0xee);
    run(queue, io(0, OpKind::Write, 0, 65536)).unwrap();
    run(queue, io(0, OpKind::Trim, 512, 1024)).unwrap();
    run(queue, io(0, OpKind::Read, 0, 4096)).unwrap();
    assert_eq!(queue.buffer(0)[..4096], [vec![0xee; 512], vec![0; 1024], vec![0xee; 2560]].concat());
    let beyond = run(queue, io(0, OpKind::Read, 8 << 20, 512)).unwrap_err();
    assert_eq!((beyond.kind, beyond.offset_bytes), (IoErrorKind::Invalid, 8 << 20));
    run(queue, io(0, OpKind::Fsync, 0, 0)).unwrap();
}

#[test]
fn going_with_everything_in_flight_leaves_the_server_alive() {
    let directory = TempDir::new().unwrap();
    let Some((_server, target)) = nbdkit(directory.path(), &["memory", "8M"]) else { return };
    for round in 0..50 {
        let mut queue = open_one(&target, &options());
        for slot in 0..32 {
            queue.submit(&io(slot, OpKind::Read, 0, 65536));
        }
        if round % 2 == 0 {
            queue.kick();
        }
    }
    run(&mut open_one(&target, &options()), io(0, OpKind::Read, 0, 4096)).unwrap();
}

#[test]
fn a_server_without_structured_replies_agrees_too() {
    let directory = TempDir::new().unwrap();
    let Some((_server, target)) = nbdkit(directory.path(), &["--no-sr", "memory", "8M"]) else { return };
    let mut opened = open_queues(&target, &options(), 1).unwrap();
    assert!(opened.description.contains("simple"), "{}", opened.description);
    exercise(&mut opened.queues[0], 0..8 << 20, 512, 3, false);
    let beyond = run(&mut opened.queues[0], io(0, OpKind::Read, 8 << 20, 512)).unwrap_err();
    assert_eq!(beyond.kind, IoErrorKind::Invalid);
}

#[test]
fn a_read_only_export_is_refused_for_writing_and_errors_are_located() {
    let directory = TempDir::new().unwrap();
    let Some((_server, target)) = nbdkit(directory.path(), &["-r", "memory", "8M"]) else { return };
    let refused = open_queues(&target, &options(), 1).unwrap_err();
    assert!(matches!(refused, OpenError::ReadOnly { .. }), "{refused}");
    let mut queue = open_one(&target, &QueueOptions { read_only: true, ..options() });
    run(&mut queue, io(0, OpKind::Read, 0, 4096)).unwrap();
    let refused = run(&mut queue, io(0, OpKind::Write, 0, 4096)).unwrap_err();
    assert_eq!((refused.kind, refused.os_error), (IoErrorKind::Unsupported, libc::EROFS));
    drop((queue, _server));
    let arguments = ["--filter=error", "memory", "8M", "error-pread=EIO", "error-pread-rate=30%"];
    let Some((_server, target)) = nbdkit(directory.path(), &arguments) else { return };
    let mut queue = open_one(&target, &options());
    let (mut good, mut bad) = (0, 0);
    for round in 0..20u64 {
        for slot in 0..32 {
            queue.submit(&io(slot, OpKind::Read, (round * 32 + u64::from(slot)) * 4096, 4096));
        }
        while queue.in_flight() > 0 {
            for one in finish_some(&mut queue) {
                match one.error {
                    None => good += 1,
                    Some(error) => {
                        let offset_bytes = (round * 32 + u64::from(one.slot)) * 4096;
                        assert_eq!((error.kind, error.os_error), (IoErrorKind::Medium, libc::EIO));
                        assert_eq!(error.offset_bytes, offset_bytes);
                        bad += 1;
                    }
                }
            }
        }
    }
    assert!(good + bad == 640 && good > 300 && bad > 100, "{good} good, {bad} bad");
}

#[test]
fn a_server_that_is_killed_fails_all_in_flight_and_all_that_comes() {
    let directory = TempDir::new().unwrap();
    let arguments = ["--filter=delay", "memory", "8M", "rdelay=20"];
    let Some((server, target)) = nbdkit(directory.path(), &arguments) else { return };
    let mut queue = open_one(&target, &options());
    for slot in 0..32 {
        queue.submit(&io(slot, OpKind::Read, 0, 4096));
    }
    queue.kick();
    drop(server);
    let started = Instant::now();
    let mut count = 0;
    while queue.in_flight() > 0 {
        for one in finish_some(&mut queue) {
            assert_eq!(one.error.unwrap().kind, IoErrorKind::Gone);
            count += 1;
        }
    }
    assert_eq!(count, 32);
    assert_eq!(run(&mut queue, io(0, OpKind::Read, 0, 4096)).unwrap_err().kind, IoErrorKind::Gone);
    assert!(started.elapsed() < Duration::from_secs(5));
    let gone = open_queues(&target, &options(), 1).unwrap_err().to_string();
    assert!(gone.contains("socket"), "{gone}");
}

/// Serves one connection: the handshake for 1 MiB, then `answer` receives the header of each request, until it
/// returns `None`.
fn serve(
    directory: &Path,
    structured: bool,
    mut answer: impl FnMut(u16, u64, u64, u32) -> Option<Vec<u8>> + Send + 'static,
) -> (JoinHandle<()>, Target) {
    let socket = directory.join("own");
    let _ = std::fs::remove_file(&socket);
    let listener = UnixListener::bind(&socket).unwrap();
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        handshake(&mut stream, structured);
        let mut header = [0; 28];
        while stream.read_exact(&mut header).is_ok() {
            let number = |from: usize, to: usize| header[from..to].iter().fold(0, |sum, &b| sum << 8 | u64::from(b));
            let (command, len) = (number(6, 8) as u16, number(24, 28) as u32);
            if command == 1 {
                stream.read_exact(&mut vec![0; len as usize]).unwrap();
            }
            let Some(reply) = answer(command, number(8, 16), number(16, 24), len) else { return };
            // Slowly and in odd pieces, so that headers and payloads arrive in parts.
            for piece in reply.chunks(1777) {
                if stream.write_all(piece).is_err() {
                    return;
                }
            }
        }
    });
    let target = Target::Nbd(format!("nbd+unix:///x?socket={}", socket.display()).parse().unwrap());
    (thread, target)
}

fn handshake(stream: &mut UnixStream, structured: bool) {
    stream.write_all(b"NBDMAGICIHAVEOPT\0\x03").unwrap();
    stream.read_exact(&mut [0; 4]).unwrap();
    loop {
        let mut header = [0; 16];
        stream.read_exact(&mut header).unwrap();
        let option = header[11];
        stream.read_exact(&mut vec![0; usize::from(header[15])]).unwrap();
        let mut reply = |kind: u32, payload: &[u8]| {
            stream.write_all(&0x0003_e889_0455_65a9u64.to_be_bytes()).unwrap();
            stream.write_all(&u32::from(option).to_be_bytes()).unwrap();
            stream.write_all(&kind.to_be_bytes()).unwrap();
            stream.write_all(&(payload.len() as u32).to_be_bytes()).unwrap();
            stream.write_all(payload).unwrap();
        };
        match option {
            8 if !structured => reply(0x8000_0001, b""),
            8 => reply(1, b""),
            _ => {
                reply(3, &[&[0, 0], &(1u64 << 20).to_be_bytes()[..], &[0, 0b10_1101]].concat());
                reply(1, b"");
                return;
            }
        }
    }
}

fn chunk(flags: u16, kind: u16, cookie: u64, payload: &[u8]) -> Vec<u8> {
    let mut bytes = 0x668e_33efu32.to_be_bytes().to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend(kind.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend((payload.len() as u32).to_be_bytes());
    bytes.extend(payload);
    bytes
}

#[test]
fn chunks_in_any_order_with_holes_make_a_read() {
    let directory = TempDir::new().unwrap();
    let (thread, target) = serve(directory.path(), true, |command, cookie, offset, len| {
        if command != 0 {
            return None;
        }
        let data = |at: u64, byte: u8, len: usize| [&at.to_be_bytes()[..], &vec![byte; len]].concat();
        let hole = [&(offset + 512).to_be_bytes()[..], &1024u32.to_be_bytes()].concat();
        let rest = len as usize - 1536;
        Some(
            [
                chunk(0, 1, cookie, &data(offset + 1536, 2, rest)),
                chunk(0, 2, cookie, &hole),
                chunk(0, 1, cookie, &data(offset, 1, 512)),
                chunk(1, 0, cookie, &[]),
            ]
            .concat(),
        )
    });
    let mut queue = open_one(&target, &options());
    for slot in 0..32 {
        queue.buffer(slot).fill(9);
        queue.submit(&io(slot, OpKind::Read, u64::from(slot) * 512, 2048 + slot * 1000));
    }
    while queue.in_flight() > 0 {
        for one in finish_some(&mut queue) {
            assert!(one.error.is_none(), "{:?}", one.error);
            let len = 2048 + one.slot as usize * 1000;
            let expected = [vec![1; 512], vec![0; 1024], vec![2; len - 1536], vec![9; 65536 - len]].concat();
            assert!(*queue.buffer(one.slot) == expected);
        }
    }
    drop(queue);
    thread.join().unwrap();
}

#[test]
fn a_server_that_dies_in_the_middle_of_a_payload_fails_all() {
    for structured in [true, false] {
        let directory = TempDir::new().unwrap();
        let mut replies = 0;
        let (thread, target) = serve(directory.path(), structured, move |_, cookie, offset, len| {
            replies += 1;
            let head = match structured {
                true => chunk(1, 1, cookie, &[&offset.to_be_bytes()[..], &vec![5; len as usize]].concat()),
                false => [&0x6744_6698_0000_0000u64.to_be_bytes()[..], &cookie.to_be_bytes(), &vec![5; len as usize]]
                    .concat(),
            };
            match replies {
                1..=10 => Some(head),
                11 => Some(head[..head.len() / 2].to_vec()),
                _ => None,
            }
        });
        let mut queue = open_one(&target, &options());
        for slot in 0..32 {
            queue.submit(&io(slot, OpKind::Read, 0, 65536));
        }
        let (mut good, mut gone) = (0, 0);
        while queue.in_flight() > 0 {
            for one in finish_some(&mut queue) {
                match one.error {
                    None => {
                        assert!(queue.buffer(one.slot).iter().all(|&byte| byte == 5));
                        good += 1;
                    }
                    Some(error) => {
                        assert_eq!(error.kind, IoErrorKind::Gone);
                        gone += 1;
                    }
                }
            }
        }
        assert_eq!((good, gone), (10, 22));
        assert_eq!(run(&mut queue, io(0, OpKind::Flush, 0, 0)).unwrap_err().kind, IoErrorKind::Gone);
        thread.join().unwrap();
    }
}

/// The result of one read of 8 KiB at 4 KiB, to which the server answers with `script`.
fn answer_of(script: impl Fn(u64) -> Vec<u8> + Send + 'static, structured: bool) -> Result<(), IoError> {
    let directory = TempDir::new().unwrap();
    let mut said = false;
    let (thread, target) = serve(directory.path(), structured, move |_, cookie, _, _| {
        (!std::mem::replace(&mut said, true)).then(|| script(cookie))
    });
    let mut queue = open_one(&target, &options());
    queue.submit(&io(5, OpKind::Read, 4096, 8192));
    // A server may leave something out for ever. The connection is closed at the next request then.
    queue.kick();
    queue.wait(200_000_000);
    let mut done = Vec::new();
    queue.reap(&mut done);
    if done.is_empty() {
        queue.submit(&io(6, OpKind::Flush, 0, 0));
        done = finish_some(&mut queue);
    }
    drop(queue);
    thread.join().unwrap();
    let error = done.into_iter().find(|one| one.slot == 5).and_then(|one| one.error);
    error.map_or(Ok(()), |error| Err(*error))
}

#[test]
fn what_breaks_the_protocol_ends_the_connection() {
    let data = |offset: u64, bytes: &[u8]| [&offset.to_be_bytes(), bytes].concat();
    type Script = Box<dyn Fn(u64) -> Vec<u8> + Send>;
    let cases: Vec<(&str, Script)> = vec![
        ("gap", Box::new(move |c| chunk(1, 1, c, &data(4096, &[1; 4096])))),
        (
            "twice",
            Box::new(move |c| {
                [chunk(0, 1, c, &data(4096, &[1; 4096])), chunk(1, 1, c, &data(8191, &[1; 512]))].concat()
            }),
        ),
        ("before", Box::new(move |c| chunk(1, 1, c, &data(4095, &[1; 8])))),
        ("beyond", Box::new(move |c| chunk(1, 1, c, &data(12288, &[1; 8])))),
        ("far beyond", Box::new(move |c| chunk(1, 1, c, &data(u64::MAX, &[1; 8])))),
        ("truncated", Box::new(|c| chunk(1, 1, c, &[1; 4]))),
        ("to nothing", Box::new(|c| chunk(1, 0, c + 1, &[]))),
        ("to an old one", Box::new(|c| chunk(1, 0, c & 0xffff_ffff, &[]))),
        ("block status", Box::new(|c| chunk(1, 5, c, &[0; 12]))),
        ("unknown", Box::new(|c| chunk(1, 99, c, &[0; 12]))),
        ("magic", Box::new(|_| vec![0; 64])),
        ("long error text", Box::new(|c| chunk(1, 0x8001, c, &[0, 0, 0, 5, 0xff, 0xff]))),
        ("simple", Box::new(|c| [&0x6744_6698_0000_0000u64.to_be_bytes()[..], &c.to_be_bytes()].concat())),
    ];
    for (name, script) in cases {
        let error = answer_of(script, true).unwrap_err();
        assert_eq!((error.kind, error.os_error), (IoErrorKind::Gone, libc::EPROTO), "{name}");
    }
    let text = |c| chunk(1, 0x8001, c, &[&28u32.to_be_bytes()[..], &4u16.to_be_bytes(), b"full"].concat());
    let error = answer_of(text, true).unwrap_err();
    assert_eq!((error.kind, error.offset_bytes), (IoErrorKind::NoSpace, 4096));
}

#[test]
fn bytes_of_any_kind_never_panic_or_hang() {
    let mut random = forebay_block::Random::new(9);
    for round in 0..60u32 {
        let structured = round % 2 == 0;
        let (at, bit, cut) = (random.index(36), random.below(8), random.index(8300));
        let _ = answer_of(
            move |cookie| {
                let mut bytes = match structured {
                    true => chunk(1, 1, cookie, &[&4096u64.to_be_bytes()[..], &[1; 8192]].concat()),
                    false => [&0x6744_6698_0000_0000u64.to_be_bytes()[..], &cookie.to_be_bytes(), &[2; 8192]].concat(),
                };
                bytes[at] ^= 1 << bit;
                bytes.truncate(if round % 3 == 0 { cut } else { bytes.len() });
                bytes
            },
            structured,
        );
    }
}
