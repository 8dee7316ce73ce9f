//! A hostile or broken NBD client against the session state machine.
//!
//! Input: one byte that says how the network splits the rest (0: not at all), then the client's bytes. The corpus
//! contains sessions of real clients against exports of these names and sizes, so that mutation starts deep inside
//! the protocol.

use forebay_block::DiskId;
use forebay_export::{Access, Backend, Export, Exports, MemoryBackend, Session, SessionLimits};

const SIZE_BYTES: u64 = 1 << 20;
const LIMITS: SessionLimits =
    SessionLimits { requests_max: 16, in_flight_bytes_max: 2 << 20, payload_bytes_max: 32 << 20, options_max: 64 };

pub(crate) fn run(input: &[u8]) {
    let Some((&cut, stream)) = input.split_first() else {
        return;
    };
    let piece = if cut == 0 { stream.len().max(1) } else { usize::from(cut) * 37 };
    let mut exports = Exports::new();
    let mut backend = MemoryBackend::new();
    for (name, disk, read_only) in [("disk", 1, false), ("frozen", 2, true)] {
        let disk = DiskId(disk);
        backend.add_disk(disk, SIZE_BYTES);
        let export = Export {
            name: name.to_owned(),
            disk,
            size_bytes: SIZE_BYTES,
            read_only,
            tag: None,
            description: "a disk".to_owned(),
            access: Access::default(),
        };
        assert!(exports.add(export).is_ok());
    }
    backend.delay_polls(u64::from(cut % 3));
    let mut session = Session::new(LIMITS);
    let mut done = Vec::new();
    for mut bytes in stream.chunks(piece) {
        while !bytes.is_empty() || session.in_flight() > 0 || session.is_stalled() {
            let taken = if session.wants_input() { session.receive(bytes) } else { 0 };
            bytes = &bytes[taken..];
            loop {
                match session.next(&exports) {
                    Ok(Some(request)) => {
                        assert!(request.token < u64::from(LIMITS.requests_max));
                        backend.submit(request);
                    }
                    Ok(None) => break,
                    Err(_) => return session.abandon(),
                }
            }
            assert!(session.in_flight() <= usize::from(LIMITS.requests_max));
            assert!(session.outgoing().pending_bytes() <= 2 * (LIMITS.in_flight_bytes_max + (1 << 20)));
            backend.poll(&mut done);
            for completion in done.drain(..) {
                session.complete(completion.token, completion.result);
            }
            // A client that reads a little at a time.
            let pending = session.outgoing().pending_bytes();
            let sent = if cut.is_multiple_of(2) { pending } else { pending.div_ceil(2) };
            session.sent(sent);
            if session.is_over() {
                return;
            }
        }
    }
}
