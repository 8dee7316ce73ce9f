//! The protocol as bytes, without sockets.

use crate::client::*;
use forebay_block::{ClassId, DiskId};
use forebay_export::nbd::error::ProtocolError;
use forebay_export::{Access, Backend, Export, Exports, MemoryBackend, Session, SessionLimits};
use forebay_volume::RequestError;
use proptest::prelude::*;
use std::collections::BTreeMap;

const SIZE: u64 = 1 << 20;
const SHAPES: [Shape; 3] = [Shape::Simple, Shape::Structured, Shape::Extended];

fn export(name: &str, read_only: bool) -> Export {
    Export {
        name: name.into(),
        disk: DiskId(7),
        size_bytes: SIZE,
        read_only,
        tag: Some(ClassId(3)),
        description: "words".into(),
        access: Access::default(),
    }
}

struct World {
    exports: Exports,
    session: Session,
    backend: MemoryBackend,
    written: Vec<u8>,
}

impl World {
    fn new(limits: SessionLimits) -> Self {
        let mut exports = Exports::new();
        exports.add(export("disk", false)).unwrap();
        exports.add(export("frozen", true)).unwrap();
        let mut backend = MemoryBackend::new();
        backend.add_disk(DiskId(7), SIZE);
        Self { exports, session: Session::new(limits), backend, written: Vec::new() }
    }

    fn opened(shape: Shape) -> Self {
        let mut world = Self::new(SessionLimits::default());
        world.say(&opening("disk", shape)).unwrap();
        let mut out = &world.written[..];
        read_opening(&mut out, shape);
        assert!(out.is_empty());
        world.written.clear();
        world
    }

    /// Feeds bytes, lets the backend answer, and keeps the bytes that the server sends.
    fn say(&mut self, bytes: &[u8]) -> Result<(), ProtocolError> {
        let mut left = bytes;
        loop {
            let taken = if self.session.wants_input() { self.session.receive(left) } else { 0 };
            left = &left[taken..];
            let mut moved = taken > 0;
            while let Some(request) = self.session.next(&self.exports)? {
                self.backend.submit(request);
                moved = true;
            }
            let mut done = Vec::new();
            self.backend.poll(&mut done);
            for completion in done {
                self.session.complete(completion.token, completion.result);
                moved = true;
            }
            moved |= !self.session.outgoing().is_empty();
            let mut slices = [std::io::IoSlice::new(&[]); 8];
            let used = self.session.outgoing().gather(&mut slices);
            let before = self.written.len();
            slices[..used].iter().for_each(|slice| self.written.extend_from_slice(slice));
            self.session.sent(self.written.len() - before);
            if !moved {
                return Ok(());
            }
        }
    }

    fn ask(&mut self, shape: Shape, kind: u16, flags: u16, offset: u64, len: u64, payload: &[u8]) -> Reply {
        self.written.clear();
        self.say(&request(shape, kind, flags, 0xc00c1e, offset, len, payload)).unwrap();
        let mut out = &self.written[..];
        let reply = read_reply(&mut out, |_| if kind == READ { len as usize } else { 0 });
        assert!(out.is_empty(), "one request, one reply");
        assert_eq!(reply.cookie, 0xc00c1e);
        reply
    }
}

#[test]
fn reads_what_was_written_in_every_shape() {
    for shape in SHAPES {
        let mut world = World::opened(shape);
        let data: Vec<u8> = (0..8192u32).map(|i| (i % 251) as u8).collect();
        assert_eq!(world.ask(shape, WRITE, 1, 512, 8192, &data).error, 0);
        assert_eq!(world.ask(shape, READ, 0, 512, 8192, &[]).data, data);
        assert_eq!(world.ask(shape, FLUSH, 0, 0, 0, &[]).error, 0);
        assert_eq!(world.backend.flushes(), 1);
        assert_eq!(world.ask(shape, WRITE_ZEROES, 2, 4096, 4096, &[]).error, 0);
        assert_eq!(world.ask(shape, TRIM, 0, 8192, 512, &[]).error, 0);
        assert_eq!(world.ask(shape, READ, 0, 512, 8192, &[]).data[3584..], [0; 4608]);
        world.say(&request(shape, DISC, 0, 0, 0, 0, &[])).unwrap();
        assert!(world.session.is_over());
    }
}

#[test]
fn status_tells_allocation_and_placement() {
    for shape in [Shape::Structured, Shape::Extended] {
        let mut world = World::opened(shape);
        world.ask(shape, WRITE, 0, 4096, 4096, &[1; 4096]);
        world.ask(shape, WRITE_ZEROES, 2, 8192, 4096, &[]);
        let reply = world.ask(shape, BLOCK_STATUS, 0, 0, 65536, &[]);
        assert_eq!(reply.status[0], (1, vec![(4096, 3), (4096, 0), (4096, 2), (53248, 3)]));
        let placement = vec![(4096, 0x6ff), (4096, 0x103), (4096, 0x4ff), (53248, 0x6ff)];
        assert_eq!(reply.status[1], (2, placement));
        let one = world.ask(shape, BLOCK_STATUS, 8, 4096 + 512, 65536, &[]);
        assert_eq!(one.status, [(1, vec![(3584, 0)]), (2, vec![(3584, 0x103)])]);
        world.backend.damage(DiskId(7), 4096, 512);
        let one = world.ask(shape, BLOCK_STATUS, 8, 4096, 512, &[]);
        assert_eq!(one.status, [(1, vec![(512, 0)]), (2, vec![(512, 0x8ff)])]);
    }
}

#[test]
fn failures_become_the_protocols_errors_with_words() {
    for shape in SHAPES {
        let mut world = World::opened(shape);
        let full = RequestError::NoSpace;
        let read_only = RequestError::ReadOnly("a device is missing".into());
        for (error, errno) in
            [(full, 28), (read_only, 5), (RequestError::FlushFailed, 5), (RequestError::ShuttingDown, 108)]
        {
            let words = error.to_string();
            world.backend.fail_next(error);
            let reply = world.ask(shape, WRITE, 0, 0, 512, &[0; 512]);
            assert_eq!(reply.error, errno);
            assert_eq!(reply.message, if shape == Shape::Simple { String::new() } else { words });
        }
        world.backend.fail_next(RequestError::OutOfRange);
        assert_eq!(world.ask(shape, WRITE, 0, 0, 512, &[0; 512]).error, 28);
        world.backend.fail_next(RequestError::OutOfRange);
        assert_eq!(world.ask(shape, READ, 0, 0, 512, &[]).error, 22);
        world.backend.damage(DiskId(7), 4096, 4096);
        let reply = world.ask(shape, READ, 0, 4096, 4096, &[]);
        assert_eq!((reply.error, reply.data.len()), (5, 0));
        assert_eq!(reply.error_offset, (shape != Shape::Simple).then_some(4096));
    }
}

#[test]
fn a_refused_write_costs_its_payload_and_nothing_else() {
    for shape in SHAPES {
        let mut world = World::opened(shape);
        let payload = vec![0xee; 700_000];
        assert_eq!(world.ask(shape, WRITE, 0, SIZE - 512, 700_416, &[payload, vec![0; 416]].concat()).error, 28);
        assert_eq!(world.ask(shape, WRITE, 1 << 9, 0, 512, &[0; 512]).error, 22);
        assert_eq!(world.ask(shape, READ, 0, 0, 512, &[]).data, [0; 512]);
        assert_eq!(world.ask(shape, 77, 0, 0, 512, &[]).error, 22);
        assert_eq!(world.ask(shape, READ, 0, 0, 512, &[]).error, 0);
    }
}

#[test]
fn a_payload_with_a_command_that_takes_none_is_consumed() {
    let mut world = World::opened(Shape::Extended);
    let reply = world.ask(Shape::Extended, BLOCK_STATUS, 1 << 5, 0, 12, &[0; 12]);
    assert_eq!(reply.error, 22);
    assert_eq!(world.ask(Shape::Extended, READ, 0, 0, 512, &[]).error, 0);
}

#[test]
fn a_resize_counts_at_once_and_a_removed_export_ends_the_session() {
    let mut world = World::opened(Shape::Structured);
    world.exports.resize("disk", 4096).unwrap();
    assert_eq!(world.ask(Shape::Structured, READ, 0, 4096, 512, &[]).error, 22);
    world.exports.remove("disk").unwrap();
    let error = world.say(&request(Shape::Structured, READ, 0, 1, 0, 512, &[])).unwrap_err();
    assert_eq!(error, ProtocolError::ExportRemoved);
}

#[test]
fn stopping_is_reported_to_requests_and_options() {
    let mut world = World::opened(Shape::Structured);
    world.session.begin_shutdown();
    assert_eq!(world.ask(Shape::Structured, WRITE, 0, 0, 512, &[1; 512]).error, 108);
    // Also to a write whose payload has not yet arrived in full.
    let mut world = World::opened(Shape::Structured);
    let write = request(Shape::Structured, WRITE, 0, 3, 0, 1024, &[1; 1024]);
    world.say(&write[..600]).unwrap();
    world.session.begin_shutdown();
    world.say(&write[600..]).unwrap();
    assert_eq!(read_reply(&mut &world.written[..], |_| 0).error, 108);
    assert_eq!(world.session.stats().requests, 0);
    let mut world = World::new(SessionLimits::default());
    world.session.begin_shutdown();
    world.say(&[&3u32.to_be_bytes()[..], &option(OPT_LIST, &[])].concat()).unwrap();
    assert_eq!(read_option_reply(&mut &world.written[18..]).kind, ERR_SHUTDOWN);
}

/// Sends options after the client flags, and returns the replies to each.
fn haggle(options: &[(u32, Vec<u8>)]) -> (World, Vec<Vec<OptionReply>>) {
    let mut world = World::new(SessionLimits::default());
    world.say(&3u32.to_be_bytes()).unwrap();
    world.written.clear();
    let mut replies = Vec::new();
    for (kind, data) in options {
        world.say(&option(*kind, data)).unwrap();
        replies.push(read_option_replies(&mut &world.written[..]));
        world.written.clear();
    }
    (world, replies)
}

#[test]
fn options_are_answered_as_specified() {
    let (world, replies) = haggle(&[
        (OPT_LIST, vec![]),
        (OPT_LIST, vec![1]),
        (OPT_STARTTLS, vec![]),
        (999, vec![5; 3000]),
        (OPT_LIST_META, meta_data("disk", &[])),
        (OPT_STRUCTURED, vec![]),
        (OPT_LIST_META, meta_data("disk", &[])),
        (OPT_LIST_META, meta_data("disk", &["forebay:"])),
        (OPT_SET_META, meta_data("disk", &["base:", "other:x", "base:allocation"])),
        (OPT_SET_META, meta_data("nowhere", &["base:allocation"])),
        (OPT_INFO, go_data("nowhere", &[])),
        (OPT_INFO, go_data("", &[3, 1, 2])),
        (OPT_GO, b"\0\0\0\x09disk".to_vec()),
        (700, vec![0; 100_000]),
        (OPT_ABORT, vec![]),
    ]);
    let last: Vec<u32> = replies.iter().map(|replies| replies.last().unwrap().kind).collect();
    assert_eq!(
        last,
        [
            ACK,
            ERR_INVALID,
            ERR_UNSUP,
            ERR_UNSUP,
            ERR_INVALID,
            ACK,
            ACK,
            ACK,
            ACK,
            ERR_UNKNOWN,
            ERR_UNKNOWN,
            ACK,
            ERR_INVALID,
            ERR_TOO_BIG,
            ACK
        ]
    );
    assert_eq!(replies[0][0].data, b"\0\0\0\x04diskwords");
    assert_eq!(replies[0][1].data, b"\0\0\0\x06frozenwords");
    assert_eq!(replies[6].len(), 3);
    assert_eq!(replies[7][0].data, b"\0\0\0\0forebay:placement");
    assert_eq!(replies[8].len(), 2);
    assert_eq!(replies[8][0].data, b"\0\0\0\x01base:allocation");
    let infos: Vec<&[u8]> = replies[11].iter().map(|reply| &reply.data[..]).collect();
    assert_eq!(infos[0], [&[0, 0][..], &SIZE.to_be_bytes(), &0x0dedu16.to_be_bytes()].concat());
    assert!(infos.contains(&b"\0\x01disk".as_slice()));
    assert!(infos.contains(&b"\0\x02words".as_slice()));
    assert!(infos.contains(&b"\0\x03\0\0\x02\0\0\0\x10\0\x02\0\0\0".as_slice()));
    assert!(world.session.is_over());
}

#[test]
fn export_name_pads_only_old_clients() {
    for (flags, padding) in [(3u32, 0), (1, 124), (0, 124)] {
        let mut world = World::new(SessionLimits::default());
        world.say(&[&flags.to_be_bytes()[..], &option(OPT_EXPORT_NAME, b"frozen")].concat()).unwrap();
        let reply = &world.written[18..];
        assert_eq!(reply.len(), 10 + padding);
        assert_eq!(reply[..8], SIZE.to_be_bytes());
        // Read-only; no DF without structured replies.
        assert_eq!(reply[8..10], 0x0d6fu16.to_be_bytes());
        assert_eq!(world.ask(Shape::Simple, WRITE, 0, 0, 512, &[0; 512]).error, 1);
        assert_eq!(world.ask(Shape::Simple, TRIM, 0, 0, 512, &[]).error, 1);
        assert_eq!(world.ask(Shape::Simple, READ, 0, 0, 512, &[]).error, 0);
        assert_eq!(world.ask(Shape::Simple, FLUSH, 0, 0, 0, &[]).error, 0);
    }
}

#[test]
fn breaches_end_the_connection() {
    let limits = SessionLimits { options_max: 3, ..SessionLimits::default() };
    let fail = |bytes: &[u8]| World::new(limits).say(bytes).unwrap_err();
    let flags = 3u32.to_be_bytes();
    assert_eq!(fail(&7u32.to_be_bytes()), ProtocolError::ClientFlags(7));
    assert!(matches!(fail(&[&flags[..], b"GET / HTTP/1.1\r\n"].concat()), ProtocolError::OptionMagic(_)));
    let name = option(OPT_EXPORT_NAME, b"nowhere");
    assert_eq!(fail(&[&flags[..], &name].concat()), ProtocolError::NoSuchExport("nowhere".into()));
    let list = option(OPT_LIST, &[]);
    assert_eq!(fail(&[&flags[..], &list, &list, &list, &list].concat()), ProtocolError::TooManyOptions(3));
    let huge = [b"IHAVEOPT".as_slice(), &3u32.to_be_bytes(), &u32::MAX.to_be_bytes()].concat();
    assert!(matches!(fail(&[&flags[..], &huge].concat()), ProtocolError::OptionLength { .. }));
    let extended = [&flags[..], &option(OPT_EXTENDED, &[]), &option(OPT_EXPORT_NAME, b"disk")].concat();
    assert_eq!(fail(&extended), ProtocolError::ExportNameAfterExtended);
    for shape in SHAPES {
        let mut world = World::opened(shape);
        assert_eq!(world.say(b"garbage!").unwrap_err(), ProtocolError::RequestMagic(0x67617262));
        let mut world = World::opened(shape);
        let error = world.say(&request(shape, WRITE, 0, 1, 0, (32 << 20) + 512, &[])).unwrap_err();
        assert!(matches!(error, ProtocolError::PayloadLength { .. }));
    }
}

#[test]
fn a_client_that_asks_too_much_is_held_back_and_loses_nothing() {
    let shape = Shape::Structured;
    let limits = SessionLimits { requests_max: 4, in_flight_bytes_max: 16 << 10, ..SessionLimits::default() };
    let mut world = World::new(limits);
    world.say(&opening("disk", shape)).unwrap();
    world.written.clear();
    let stream: Vec<u8> = (0..40u64).flat_map(|i| request(shape, READ, 0, i, i * 4096, 4096, &[])).collect();
    world.session.receive(&stream);
    let mut held = Vec::new();
    while let Some(request) = world.session.next(&world.exports).unwrap() {
        held.push(request);
    }
    assert_eq!(held.len(), 4);
    assert!(!world.session.wants_input() && world.session.is_stalled());
    for request in held {
        world.backend.submit(request);
    }
    world.say(&[]).unwrap();
    let mut out = &world.written[..];
    let mut cookies: Vec<u64> = (0..40).map(|_| read_reply(&mut out, |_| 0).cookie).collect();
    assert!(out.is_empty());
    cookies.sort_unstable();
    assert_eq!(cookies, (0..40).collect::<Vec<_>>());
    // One request larger than the limit is admitted alone.
    assert_eq!(world.ask(shape, READ, 0, 0, 65536, &[]).data.len(), 65536);
}

/// The server admitted a thousand block status requests of 28 bytes, each of which is answered with up to 32 KiB:
/// beyond all limits of a connection.
#[test]
fn regression_answers_of_block_status_count_against_the_limit() {
    let limits = SessionLimits { in_flight_bytes_max: 128 << 10, ..SessionLimits::default() };
    let mut world = World::new(limits);
    world.say(&opening("disk", Shape::Structured)).unwrap();
    let ask = |number: u64| request(Shape::Structured, BLOCK_STATUS, 0, number, 0, 65536, &[]);
    world.session.receive(&(0..100).flat_map(ask).collect::<Vec<u8>>());
    let mut held = Vec::new();
    while let Some(request) = world.session.next(&world.exports).unwrap() {
        held.push(request);
    }
    assert_eq!(held.len(), 4);
    assert!(world.session.is_stalled());
}

#[test]
fn a_client_that_never_reads_its_errors_is_no_longer_read() {
    let mut world = World::opened(Shape::Structured);
    let bad = request(Shape::Structured, READ, 0, 1, 1, 1, &[]).repeat(1000);
    for _ in 0..1000 {
        if !world.session.wants_input() {
            break;
        }
        world.session.receive(&bad);
        assert!(world.session.next(&world.exports).unwrap().is_none());
    }
    assert!(!world.session.wants_input());
    assert!(world.session.outgoing().pending_bytes() < 2 << 20);
}

#[test]
fn answers_that_do_not_fit_the_request_do_not_become_data() {
    let mut world = World::opened(Shape::Structured);
    world.session.receive(&request(Shape::Structured, READ, 0, 1, 0, 4096, &[]));
    let request = world.session.next(&world.exports).unwrap().unwrap();
    let short = forebay_volume::Outcome::Data(forebay_block::Buf::zeroed(512));
    world.session.complete(request.token, Ok(short));
    world.session.complete(request.token, Ok(forebay_volume::Outcome::Done));
    world.session.complete(1 << 40, Ok(forebay_volume::Outcome::Done));
    world.say(&[]).unwrap();
    assert_eq!(read_reply(&mut &world.written[..], |_| 0).error, 5);
    assert_eq!(world.session.in_flight(), 0);
}

fn arbitrary_request() -> impl Strategy<Value = (u16, u16, u64, u64)> {
    let aligned = (0u64..SIZE / 512 + 4).prop_map(|n| n * 512);
    let kind = prop_oneof![Just(READ), Just(WRITE), Just(FLUSH), Just(TRIM), Just(5), Just(6), Just(7), Just(42)];
    let flags = prop_oneof![4 => Just(0u16), 1 => 0u16..64];
    let len = prop_oneof![6 => (1u64..40).prop_map(|n| n * 512), 1 => 0u64..200_000];
    (kind, flags, aligned, len)
}

/// All replies after the opening, by cookie: their order may vary, their content may not.
fn replies(shape: Shape, written: &[u8], read_lens: &[usize]) -> BTreeMap<u64, Reply> {
    let mut out = written;
    read_opening(&mut out, shape);
    let mut replies = BTreeMap::new();
    while !out.is_empty() {
        let reply = read_reply(&mut out, |cookie| read_lens[cookie as usize]);
        assert!(replies.insert(reply.cookie, reply).is_none(), "a second reply");
    }
    assert_eq!(replies.len(), read_lens.len());
    replies
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// However the network splits the client's bytes, the server's answers are the same.
    #[test]
    fn chunking_does_not_matter(
        shape in prop_oneof![Just(Shape::Simple), Just(Shape::Structured), Just(Shape::Extended)],
        requests in proptest::collection::vec(arbitrary_request(), 1..30),
        cuts in proptest::collection::vec(prop_oneof![1usize..40, 1usize..70_000], 1..60),
    ) {
        let mut stream = opening("disk", shape);
        for (i, &(kind, flags, offset, len)) in requests.iter().enumerate() {
            let flags = if shape == Shape::Extended && kind != WRITE { flags & !32 } else { flags };
            let (offset, len) = if kind == FLUSH { (0, 0) } else { (offset, len) };
            let payload = if kind == WRITE { vec![i as u8; len as usize] } else { vec![] };
            stream.extend(request(shape, kind, flags, i as u64, offset, len, &payload));
        }
        stream.extend(request(shape, DISC, 0, 0, 0, 0, &[]));
        let mut whole = World::new(SessionLimits::default());
        whole.say(&stream).unwrap();
        let mut cut = World::new(SessionLimits::default());
        let mut left = &stream[..];
        for len in cuts.into_iter().cycle() {
            let (piece, rest) = left.split_at(len.min(left.len()));
            cut.say(piece).unwrap();
            left = rest;
            if left.is_empty() { break }
        }
        prop_assert!(whole.session.is_over() && cut.session.is_over());
        let lens: Vec<usize> = requests.iter().map(|r| if r.0 == READ { r.3 as usize } else { 0 }).collect();
        prop_assert!(replies(shape, &whole.written, &lens) == replies(shape, &cut.written, &lens));
    }

    /// Bytes from a hostile or broken client never cause a panic, and never make the server keep much.
    #[test]
    fn random_bytes_never_panic(
        start in 0usize..4,
        noise in proptest::collection::vec(
            prop_oneof![any::<u8>(), Just(0), Just(0xff)], 0..400),
        splice in proptest::collection::vec((any::<u16>(), any::<u8>()), 0..6),
    ) {
        let shape = SHAPES[start % 3];
        let mut stream = if start == 3 { 3u32.to_be_bytes().to_vec() } else { opening("disk", shape) };
        stream.extend(request(shape, WRITE, 0, 1, 0, 512, &[7; 512]));
        stream.extend(&noise);
        for (at, byte) in splice {
            let at = usize::from(at) % stream.len();
            stream[at] = byte;
        }
        let mut world = World::new(SessionLimits::default());
        if world.say(&stream).is_err() {
            world.session.abandon();
            prop_assert!(world.session.outgoing().is_empty());
        }
        prop_assert!(world.session.in_flight() <= 1024);
    }
}
