//! The transmission phase: take what the socket has, answer all of it with one system call.

use crate::wire::{self, CMD_DISC, CMD_READ, CMD_WRITE, REQUEST_BYTES, Request};
use std::io::{self, ErrorKind, IoSlice, Read, Write};

/// Bytes taken from the socket in one go: 16 writes of 4 KiB with their headers fit, as do long runs of reads.
const INPUT_BYTES: usize = 256 << 10;
/// Zeros that reads are answered with; longer reads name it several times.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
/// Most replies gathered before they are sent, a limit on memory only.
const BATCH_REPLIES: usize = 256;

/// How a connection waits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// In the kernel, as a usual blocking server.
    Sleep,
    /// Spinning on a non-blocking socket: costs a core, saves the wake-up.
    Spin,
}

/// Serves one connection from the handshake to its end.
pub fn connection<S: Read + Write>(stream: S, size_bytes: u64, wait: Wait) -> io::Result<()> {
    let mut stream = Waiting { stream, wait };
    if !wire::handshake(&mut stream, size_bytes)? {
        return Ok(());
    }
    let mut input = vec![0; INPUT_BYTES];
    let mut filled = 0;
    let mut write: Option<([u8; 8], usize)> = None;
    let mut replies: Vec<([u8; wire::REPLY_BYTES], usize)> = Vec::with_capacity(BATCH_REPLIES);
    loop {
        let got = stream.read(&mut input[filled..])?;
        if got == 0 {
            return Ok(());
        }
        filled += got;
        let mut at = 0;
        let mut open = true;
        while open {
            // A write's reply goes out only when its payload is here, as any real server's would.
            if let Some((cookie, left)) = write.take() {
                let skip = left.min(filled - at);
                at += skip;
                if skip < left {
                    write = Some((cookie, left - skip));
                    break;
                }
                replies.push((wire::reply_header(cookie), 0));
            } else {
                let Some(header) = input[at..filled].first_chunk::<REQUEST_BYTES>() else {
                    break;
                };
                let request = Request::parse(header)?;
                at += REQUEST_BYTES;
                match request.command {
                    CMD_READ => replies.push((wire::reply_header(request.cookie), request.length_bytes as usize)),
                    CMD_WRITE => write = Some((request.cookie, request.length_bytes as usize)),
                    CMD_DISC => open = false,
                    _ => replies.push((wire::reply_header(request.cookie), 0)),
                }
            }
            if replies.len() == BATCH_REPLIES {
                send(&mut stream, &mut replies)?;
            }
        }
        input.copy_within(at..filled, 0);
        filled -= at;
        send(&mut stream, &mut replies)?;
        if !open {
            return Ok(());
        }
    }
}

/// Sends and empties `replies`: header, then as many zeros as were asked for.
fn send<S: Read + Write>(
    stream: &mut Waiting<S>,
    replies: &mut Vec<([u8; wire::REPLY_BYTES], usize)>,
) -> io::Result<()> {
    let mut slices = Vec::with_capacity(replies.len() * 2);
    for (header, length) in replies.iter() {
        slices.push(IoSlice::new(header));
        let mut left = *length;
        while left > 0 {
            let piece = left.min(ZEROS.len());
            slices.push(IoSlice::new(&ZEROS[..piece]));
            left -= piece;
        }
    }
    let mut rest = &mut slices[..];
    while !rest.is_empty() {
        // The kernel takes at most 1024 pieces (IOV_MAX).
        let count = rest.len().min(1024);
        match stream.write_vectored(&rest[..count])? {
            0 => return Err(ErrorKind::WriteZero.into()),
            sent => IoSlice::advance_slices(&mut rest, sent),
        }
    }
    replies.clear();
    Ok(())
}

/// A stream that sleeps or spins until it can go on; callers never see `WouldBlock`.
struct Waiting<S> {
    stream: S,
    wait: Wait,
}

impl<S> Waiting<S> {
    fn again(&mut self, mut call: impl FnMut(&mut S) -> io::Result<usize>) -> io::Result<usize> {
        loop {
            match call(&mut self.stream) {
                Err(error) if error.kind() == ErrorKind::WouldBlock && self.wait == Wait::Spin => {
                    std::hint::spin_loop()
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                done => return done,
            }
        }
    }
}

impl<S: Read> Read for Waiting<S> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.again(|stream| stream.read(into))
    }
}

impl<S: Write> Write for Waiting<S> {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.again(|stream| stream.write(from))
    }

    fn write_vectored(&mut self, from: &[IoSlice<'_>]) -> io::Result<usize> {
        self.again(|stream| stream.write_vectored(from))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    /// Handshake by GO, then what `requests` says; returns all bytes that follow the handshake.
    fn talk(requests: &[u8], wait: Wait) -> Vec<u8> {
        let (mut client, server) = UnixStream::pair().unwrap();
        server.set_nonblocking(wait == Wait::Spin).unwrap();
        let thread = std::thread::spawn(move || connection(server, 1 << 20, wait));
        let mut hello = [0; 18];
        client.read_exact(&mut hello).unwrap();
        client.write_all(&3u32.to_be_bytes()).unwrap();
        client.write_all(&wire::OPTION_MAGIC.to_be_bytes()).unwrap();
        client.write_all(&wire::OPT_GO.to_be_bytes()).unwrap();
        client.write_all(&6u32.to_be_bytes()).unwrap();
        client.write_all(&[0; 6]).unwrap();
        let mut answer = [0; 20 + 12 + 20];
        client.read_exact(&mut answer).unwrap();
        assert_eq!(answer[22..30], (1u64 << 20).to_be_bytes());
        client.write_all(requests).unwrap();
        let mut rest = Vec::new();
        client.read_to_end(&mut rest).unwrap();
        thread.join().unwrap().unwrap();
        rest
    }

    fn request(command: u16, cookie: u64, length: u32) -> Vec<u8> {
        let mut bytes = wire::REQUEST_MAGIC.to_be_bytes().to_vec();
        bytes.extend(0u16.to_be_bytes());
        bytes.extend(command.to_be_bytes());
        bytes.extend(cookie.to_be_bytes());
        bytes.extend(0u64.to_be_bytes());
        bytes.extend(length.to_be_bytes());
        bytes
    }

    #[test]
    fn answers_in_order_with_the_right_lengths() {
        for wait in [Wait::Sleep, Wait::Spin] {
            let mut all = request(CMD_READ, 7, 100_000);
            // Longer than the input buffer: the payload is skipped as it comes.
            all.extend(request(CMD_WRITE, 8, 400_000));
            all.extend(vec![0xaa; 400_000]);
            all.extend(request(3, 9, 0));
            all.extend(request(CMD_DISC, 10, 0));
            let got = talk(&all, wait);
            assert_eq!(got.len(), 16 + 100_000 + 16 + 16);
            assert_eq!(got[8..16], 7u64.to_be_bytes());
            assert!(got[16..100_016].iter().all(|byte| *byte == 0));
            assert_eq!(got[100_016 + 8..100_032], 8u64.to_be_bytes());
            assert_eq!(got[100_032 + 8..], 9u64.to_be_bytes());
        }
    }

    #[test]
    fn a_wrong_magic_ends_the_connection() {
        assert!(Request::parse(&[0; REQUEST_BYTES]).is_err());
        let long = request(CMD_READ, 1, u32::MAX);
        assert!(Request::parse(long.as_slice().try_into().unwrap()).is_err());
    }
}
