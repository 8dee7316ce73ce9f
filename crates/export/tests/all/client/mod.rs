//! Messages of a small NBD client for tests, encoded and decoded here independently, to check the server's own
//! encoding.
#![allow(clippy::expect_used)]

use std::io::Read;

pub const READ: u16 = 0;
pub const WRITE: u16 = 1;
pub const DISC: u16 = 2;
pub const FLUSH: u16 = 3;
pub const TRIM: u16 = 4;
pub const WRITE_ZEROES: u16 = 6;
pub const BLOCK_STATUS: u16 = 7;

pub const OPT_EXPORT_NAME: u32 = 1;
pub const OPT_ABORT: u32 = 2;
pub const OPT_LIST: u32 = 3;
pub const OPT_STARTTLS: u32 = 5;
pub const OPT_INFO: u32 = 6;
pub const OPT_GO: u32 = 7;
pub const OPT_STRUCTURED: u32 = 8;
pub const OPT_LIST_META: u32 = 9;
pub const OPT_SET_META: u32 = 10;
pub const OPT_EXTENDED: u32 = 11;

pub const ACK: u32 = 1;
pub const ERR_UNSUP: u32 = 0x8000_0001;
pub const ERR_INVALID: u32 = 0x8000_0003;
pub const ERR_UNKNOWN: u32 = 0x8000_0006;
pub const ERR_SHUTDOWN: u32 = 0x8000_0007;
pub const ERR_TOO_BIG: u32 = 0x8000_0009;

pub fn option(kind: u32, data: &[u8]) -> Vec<u8> {
    [b"IHAVEOPT".as_slice(), &kind.to_be_bytes(), &(data.len() as u32).to_be_bytes(), data].concat()
}

pub fn go_data(name: &str, infos: &[u16]) -> Vec<u8> {
    let mut data = (name.len() as u32).to_be_bytes().to_vec();
    data.extend_from_slice(name.as_bytes());
    data.extend_from_slice(&(infos.len() as u16).to_be_bytes());
    infos.iter().for_each(|info| data.extend_from_slice(&info.to_be_bytes()));
    data
}

pub fn meta_data(name: &str, queries: &[&str]) -> Vec<u8> {
    let mut data = (name.len() as u32).to_be_bytes().to_vec();
    data.extend_from_slice(name.as_bytes());
    data.extend_from_slice(&(queries.len() as u32).to_be_bytes());
    for query in queries {
        data.extend_from_slice(&(query.len() as u32).to_be_bytes());
        data.extend_from_slice(query.as_bytes());
    }
    data
}

/// The kind of replies that a client negotiates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    Simple,
    Structured,
    Extended,
}

/// All bytes that a client sends to reach transmission on `export`.
pub fn opening(export: &str, shape: Shape) -> Vec<u8> {
    let mut bytes = 3u32.to_be_bytes().to_vec();
    match shape {
        Shape::Simple => {}
        Shape::Structured => bytes.extend(option(OPT_STRUCTURED, &[])),
        Shape::Extended => bytes.extend(option(OPT_EXTENDED, &[])),
    }
    if shape != Shape::Simple {
        bytes.extend(option(OPT_SET_META, &meta_data(export, &["base:allocation", "forebay:placement"])));
    }
    bytes.extend(option(OPT_GO, &go_data(export, &[3])));
    bytes
}

pub fn request(shape: Shape, kind: u16, flags: u16, cookie: u64, offset: u64, len: u64, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(32 + payload.len());
    let extended = shape == Shape::Extended;
    let flags = if extended && kind == WRITE { flags | 1 << 5 } else { flags };
    bytes.extend(if extended { 0x21e4_1c71u32 } else { 0x2560_9513 }.to_be_bytes());
    bytes.extend(flags.to_be_bytes());
    bytes.extend(kind.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    if extended {
        bytes.extend(len.to_be_bytes());
    } else {
        bytes.extend((len as u32).to_be_bytes());
    }
    bytes.extend(payload);
    bytes
}

/// A reply to an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionReply {
    pub option: u32,
    pub kind: u32,
    pub data: Vec<u8>,
}

fn take<const N: usize>(from: &mut impl Read) -> [u8; N] {
    let mut bytes = [0; N];
    from.read_exact(&mut bytes).expect("the server's reply ends early");
    bytes
}

fn take_vec(from: &mut impl Read, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    from.read_exact(&mut bytes).expect("the server's reply ends early");
    bytes
}

pub fn read_greeting(from: &mut impl Read) {
    assert_eq!(&take::<16>(from), b"NBDMAGICIHAVEOPT");
    assert_eq!(take::<2>(from), [0, 3]);
}

pub fn read_option_reply(from: &mut impl Read) -> OptionReply {
    assert_eq!(u64::from_be_bytes(take(from)), 0x3_e889_0455_65a9);
    let option = u32::from_be_bytes(take(from));
    let kind = u32::from_be_bytes(take(from));
    let len = u32::from_be_bytes(take(from)) as usize;
    OptionReply { option, kind, data: take_vec(from, len) }
}

/// Reads the replies to one option, including the final one.
pub fn read_option_replies(from: &mut impl Read) -> Vec<OptionReply> {
    let mut replies = Vec::new();
    loop {
        let reply = read_option_reply(from);
        let last = reply.kind == ACK || reply.kind >= 1 << 31;
        replies.push(reply);
        if last {
            return replies;
        }
    }
}

/// Reads the server's side of [`opening`] and returns size and transmission flags.
pub fn read_opening(from: &mut impl Read, shape: Shape) -> (u64, u16) {
    read_greeting(from);
    if shape != Shape::Simple {
        assert_eq!(read_option_replies(from).last().unwrap().kind, ACK);
        assert_eq!(read_option_replies(from).len(), 3);
    }
    let replies = read_option_replies(from);
    assert_eq!(replies.last().unwrap().kind, ACK, "{replies:?}");
    let info = &replies[0].data;
    assert_eq!(info[..2], [0, 0]);
    (u64::from_be_bytes(*info[2..].first_chunk().unwrap()), u16::from_be_bytes(*info[10..].first_chunk().unwrap()))
}

/// An answer to a request, in any reply format.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    pub cookie: u64,
    pub error: u32,
    pub message: String,
    pub error_offset: Option<u64>,
    pub data: Vec<u8>,
    /// Block status: (context id, [(length, flags)]).
    pub status: Vec<(u32, Vec<(u64, u64)>)>,
}

/// Reads a whole answer. `read_len` returns how many bytes of data a successful simple reply with this cookie
/// carries.
pub fn read_reply(from: &mut impl Read, read_len: impl Fn(u64) -> usize) -> Reply {
    let mut reply = Reply::default();
    loop {
        let magic = u32::from_be_bytes(take(from));
        if magic == 0x6744_6698 {
            reply.error = u32::from_be_bytes(take(from));
            reply.cookie = u64::from_be_bytes(take(from));
            if reply.error == 0 {
                reply.data = take_vec(from, read_len(reply.cookie));
            }
            return reply;
        }
        let extended = magic == 0x6e8a_278c;
        assert!(extended || magic == 0x668e_33ef, "magic {magic:#x}");
        let flags = u16::from_be_bytes(take(from));
        let kind = u16::from_be_bytes(take(from));
        reply.cookie = u64::from_be_bytes(take(from));
        let len = if extended {
            let _offset = take::<8>(from);
            u64::from_be_bytes(take(from))
        } else {
            u64::from(u32::from_be_bytes(take(from)))
        };
        let payload = take_vec(from, len as usize);
        chunk(&mut reply, kind, &payload);
        if flags & 1 != 0 {
            return reply;
        }
    }
}

fn chunk(reply: &mut Reply, kind: u16, payload: &[u8]) {
    let u32_at = |at: usize| u32::from_be_bytes(*payload[at..].first_chunk().unwrap());
    let u64_at = |at: usize| u64::from_be_bytes(*payload[at..].first_chunk().unwrap());
    match kind {
        0 => assert!(payload.is_empty()),
        1 => reply.data.extend_from_slice(&payload[8..]),
        5 => {
            let extents = (4..payload.len()).step_by(8).map(|at| (u64::from(u32_at(at)), u64::from(u32_at(at + 4))));
            reply.status.push((u32_at(0), extents.collect()));
        }
        6 => {
            assert_eq!(u32_at(4) as usize * 16 + 8, payload.len());
            let extents = (8..payload.len()).step_by(16).map(|at| (u64_at(at), u64_at(at + 8)));
            reply.status.push((u32_at(0), extents.collect()));
        }
        0x8001 | 0x8002 => {
            reply.error = u32_at(0);
            let len = usize::from(u16::from_be_bytes([payload[4], payload[5]]));
            reply.message = String::from_utf8(payload[6..6 + len].to_vec()).unwrap();
            if kind == 0x8002 {
                reply.error_offset = Some(u64_at(6 + len));
            } else {
                assert_eq!(payload.len(), 6 + len);
            }
        }
        _ => panic!("chunk of type {kind}"),
    }
}
