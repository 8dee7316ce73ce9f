//! A proxy that replaces FLUSH by a command without effect and removes FUA: to a client it looks like a server whose
//! flush does nothing. The check must detect it, or it proves nothing.
//!
//! The proxy parses the client's messages (NBD, doc/proto.md: fixed newstyle options, then requests of 28 bytes) and
//! copies the server's answers; the command in place of FLUSH, a prefetch, is answered without data, as FLUSH is.

use anyhow::{Context, Result};
use forebay_device::nbd_client::{Endpoint, NbdUri};
use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

const OPTION_MAGIC: u64 = 0x4948_4156_454F_5054;
const REQUEST_MAGIC: u32 = 0x2560_9513;
const CMD_WRITE: u16 = 1;
const CMD_FLUSH: u16 = 3;
const CMD_CACHE: u16 = 5;
const FLAG_FUA: u16 = 1;

/// Starts the proxy before a server; returns the URI to use instead. Its threads end with the connections; the
/// listening thread ends with this program.
pub fn before(uri: &NbdUri, directory: &Path) -> Result<NbdUri> {
    let Endpoint::Unix(server) = uri.endpoint.clone() else { anyhow::bail!("the liar knows Unix sockets only") };
    let path = directory.join("liar.sock");
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    let listener = UnixListener::bind(&path).with_context(|| format!("cannot listen on {}", path.display()))?;
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let Ok(client) = client else { return };
            // The server was killed: the client's connection ends, too.
            let Ok(server) = UnixStream::connect(&server) else { continue };
            if serve(client, server).is_err() {
                continue;
            }
        }
    });
    Ok(NbdUri { endpoint: Endpoint::Unix(path), export: uri.export.clone() })
}

fn serve(client: UnixStream, server: UnixStream) -> io::Result<()> {
    let (mut answers, mut to_client) = (server.try_clone()?, client.try_clone()?);
    std::thread::spawn(move || {
        // Either end may be gone: the other must see that.
        let _ = io::copy(&mut answers, &mut to_client);
        let _ = to_client.shutdown(std::net::Shutdown::Both);
    });
    std::thread::spawn(move || {
        let _ = lie(&client, &server);
        let _ = server.shutdown(std::net::Shutdown::Both);
    });
    Ok(())
}

fn lie(mut client: &UnixStream, mut server: &UnixStream) -> io::Result<()> {
    let mut flags = [0; 4];
    client.read_exact(&mut flags)?;
    server.write_all(&flags)?;
    let mut payload = Vec::new();
    loop {
        let mut head = [0; 16];
        client.read_exact(&mut head)?;
        let [a, b, c, d, e, f, g, h, ..] = head;
        let first = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
        if first == OPTION_MAGIC {
            server.write_all(&head)?;
            let len = u32::from_be_bytes([head[12], head[13], head[14], head[15]]);
            forward(client, server, u64::from(len), &mut payload)?;
            continue;
        }
        if u32::from_be_bytes([a, b, c, d]) != REQUEST_MAGIC {
            return Err(io::Error::other("neither an option nor a request"));
        }
        let mut rest = [0; 12];
        client.read_exact(&mut rest)?;
        let command = u16::from_be_bytes([g, h]);
        let len = u32::from_be_bytes([rest[8], rest[9], rest[10], rest[11]]);
        let flags = u16::from_be_bytes([e, f]) & !FLAG_FUA;
        head[4..6].copy_from_slice(&flags.to_be_bytes());
        if command == CMD_FLUSH {
            head[6..8].copy_from_slice(&CMD_CACHE.to_be_bytes());
            rest = [0; 12];
            rest[8..12].copy_from_slice(&4096_u32.to_be_bytes());
        }
        server.write_all(&head)?;
        server.write_all(&rest)?;
        if command == CMD_WRITE {
            forward(client, server, u64::from(len), &mut payload)?;
        }
    }
}

fn forward(client: &UnixStream, mut server: &UnixStream, len: u64, buffer: &mut Vec<u8>) -> io::Result<()> {
    buffer.clear();
    let got = client.take(len).read_to_end(buffer)?;
    if got as u64 != len {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    server.write_all(buffer)
}
