//! The few NBD constants and reply layouts that a yardstick needs. All integers are big-endian.
//! Source: <https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md>.

use std::io::{self, Read, Write};

/// First eight bytes that a server sends ("NBDMAGIC").
pub const INIT_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// Newstyle marker and the magic of each option ("IHAVEOPT").
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// Magic of an option reply.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Magic of a transmission request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Magic of a simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;

/// Length of a request header in bytes.
pub const REQUEST_BYTES: usize = 28;
/// Length of a simple reply header in bytes.
pub const REPLY_BYTES: usize = 16;

/// Handshake flags: fixed newstyle, and no 124 zero bytes after `EXPORT_NAME`.
pub const FLAG_FIXED_NEWSTYLE: u16 = 1;
/// See [`FLAG_FIXED_NEWSTYLE`].
pub const FLAG_NO_ZEROES: u16 = 2;

/// Transmission flags: has flags, FLUSH, FUA, TRIM, WRITE_ZEROES, multi-conn.
pub const EXPORT_FLAGS: u16 = 1 | 1 << 2 | 1 << 3 | 1 << 5 | 1 << 6 | 1 << 8;

/// `NBD_OPT_EXPORT_NAME`.
pub const OPT_EXPORT_NAME: u32 = 1;
/// `NBD_OPT_ABORT`.
pub const OPT_ABORT: u32 = 2;
/// `NBD_OPT_LIST`.
pub const OPT_LIST: u32 = 3;
/// `NBD_OPT_INFO`.
pub const OPT_INFO: u32 = 6;
/// `NBD_OPT_GO`.
pub const OPT_GO: u32 = 7;

/// `NBD_REP_ACK`.
pub const REP_ACK: u32 = 1;
/// `NBD_REP_SERVER`.
pub const REP_SERVER: u32 = 2;
/// `NBD_REP_INFO`.
pub const REP_INFO: u32 = 3;
/// `NBD_REP_ERR_UNSUP`.
pub const REP_ERR_UNSUP: u32 = 1 << 31 | 1;

/// `NBD_CMD_READ`.
pub const CMD_READ: u16 = 0;
/// `NBD_CMD_WRITE`.
pub const CMD_WRITE: u16 = 1;
/// `NBD_CMD_DISC`.
pub const CMD_DISC: u16 = 2;

/// Longest option payload taken, in bytes; export names are at most 4096.
pub const OPTION_LIMIT_BYTES: u32 = 64 << 10;
/// Longest read or write taken, in bytes: what clients assume when a server names no limit.
pub const PAYLOAD_LIMIT_BYTES: u32 = 32 << 20;

/// One transmission request, as far as this server looks at it.
pub struct Request {
    /// Command type (`CMD_*`).
    pub command: u16,
    /// Echoed in the reply.
    pub cookie: [u8; 8],
    /// Length in bytes.
    pub length_bytes: u32,
}

impl Request {
    /// Parses a header; an error on a wrong magic or a length beyond [`PAYLOAD_LIMIT_BYTES`].
    pub fn parse(header: &[u8; REQUEST_BYTES]) -> io::Result<Self> {
        let [m0, m1, m2, m3, _, _, c0, c1, cookie @ .., l0, l1, l2, l3] = header;
        if u32::from_be_bytes([*m0, *m1, *m2, *m3]) != REQUEST_MAGIC {
            return Err(invalid("request magic"));
        }
        let command = u16::from_be_bytes([*c0, *c1]);
        let length_bytes = u32::from_be_bytes([*l0, *l1, *l2, *l3]);
        if matches!(command, CMD_READ | CMD_WRITE) && length_bytes > PAYLOAD_LIMIT_BYTES {
            return Err(invalid("request length"));
        }
        let mut id = [0; 8];
        id.copy_from_slice(&cookie[..8]);
        Ok(Self { command, cookie: id, length_bytes })
    }
}

/// A simple reply without error for `cookie`.
pub fn reply_header(cookie: [u8; 8]) -> [u8; REPLY_BYTES] {
    let mut header = [0; REPLY_BYTES];
    header[..4].copy_from_slice(&SIMPLE_REPLY_MAGIC.to_be_bytes());
    header[8..].copy_from_slice(&cookie);
    header
}

/// Error for bytes that are not NBD; `what` names the field.
pub fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Fixed newstyle handshake for a single export of `size_bytes`, whatever name is asked for. `true`: transmission
/// starts; `false`: the client said goodbye.
pub fn handshake<S: Read + Write>(stream: &mut S, size_bytes: u64) -> io::Result<bool> {
    let mut hello = Vec::with_capacity(18);
    hello.extend(INIT_MAGIC.to_be_bytes());
    hello.extend(OPTION_MAGIC.to_be_bytes());
    hello.extend((FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES).to_be_bytes());
    stream.write_all(&hello)?;
    let client_flags = u32::from_be_bytes(read_array(stream)?);
    loop {
        if u64::from_be_bytes(read_array(stream)?) != OPTION_MAGIC {
            return Err(invalid("option magic"));
        }
        let option = u32::from_be_bytes(read_array(stream)?);
        let length = u32::from_be_bytes(read_array(stream)?);
        if length > OPTION_LIMIT_BYTES {
            return Err(invalid("option length"));
        }
        let mut payload = vec![0; length as usize];
        stream.read_exact(&mut payload)?;
        match option {
            OPT_EXPORT_NAME => {
                let mut answer = Vec::with_capacity(134);
                answer.extend(size_bytes.to_be_bytes());
                answer.extend(EXPORT_FLAGS.to_be_bytes());
                if client_flags & u32::from(FLAG_NO_ZEROES) == 0 {
                    answer.extend([0; 124]);
                }
                stream.write_all(&answer)?;
                return Ok(true);
            }
            OPT_INFO | OPT_GO => {
                // NBD_INFO_EXPORT (type 0): size, flags.
                let mut info = Vec::with_capacity(12);
                info.extend(0u16.to_be_bytes());
                info.extend(size_bytes.to_be_bytes());
                info.extend(EXPORT_FLAGS.to_be_bytes());
                option_reply(stream, option, REP_INFO, &info)?;
                option_reply(stream, option, REP_ACK, &[])?;
                if option == OPT_GO {
                    return Ok(true);
                }
            }
            OPT_LIST => {
                option_reply(stream, option, REP_SERVER, &[0; 4])?;
                option_reply(stream, option, REP_ACK, &[])?;
            }
            OPT_ABORT => {
                option_reply(stream, option, REP_ACK, &[])?;
                return Ok(false);
            }
            // Structured replies too: a simple reply is the shortest that the protocol knows, hence the ceiling.
            _ => option_reply(stream, option, REP_ERR_UNSUP, &[])?,
        }
    }
}

fn option_reply<S: Write>(stream: &mut S, option: u32, kind: u32, payload: &[u8]) -> io::Result<()> {
    let mut reply = Vec::with_capacity(20 + payload.len());
    reply.extend(OPTION_REPLY_MAGIC.to_be_bytes());
    reply.extend(option.to_be_bytes());
    reply.extend(kind.to_be_bytes());
    reply.extend((payload.len() as u32).to_be_bytes());
    reply.extend(payload);
    stream.write_all(&reply)
}

fn read_array<const N: usize, S: Read>(stream: &mut S) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}
