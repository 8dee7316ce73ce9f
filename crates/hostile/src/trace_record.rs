//! A hostile file of `forebay record`, unchanged and with all checksums corrected, so that the bytes that they
//! protect are parsed.

use forebay_block::checksum::crc32c;
use forebay_trace::format::Segments;
use forebay_trace::{Names, Source};
use std::io::Cursor;

/// Length of a header, of the file or of a segment (docs/record.md).
const BLOCK_BYTES: usize = 64;

pub(crate) fn run(input: &[u8]) {
    read(input);
    read(&sealed(input));
}

fn read(input: &[u8]) {
    let Ok(mut source) = Segments::open(Cursor::new(input)) else {
        return;
    };
    let (mut requests, mut names) = (Vec::new(), Names::default());
    while let Ok(true) = source.read(&mut requests, &mut names) {}
    // No record is read twice.
    assert!(requests.len() <= input.len() / 80);
    for request in &requests {
        assert!(request.offset_bytes.checked_add(request.len_bytes).is_some());
        assert!((request.volume as usize) < names.volumes.count());
        assert!((request.process as usize) < names.processes.count());
        assert!((request.path as usize) < names.paths.count());
    }
    let faults = source.faults();
    assert!(faults.first.len() as u64 <= faults.count);
}

fn word(bytes: &[u8], at: usize) -> usize {
    bytes.get(at..at + 4).map_or(0, |word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]) as usize)
}

fn put(bytes: &mut [u8], at: usize, crc: u32) {
    bytes[at..at + 4].copy_from_slice(&crc.to_le_bytes());
}

/// The bytes with corrected checksums of each header, payload and footer.
fn sealed(input: &[u8]) -> Vec<u8> {
    let mut bytes = input.to_vec();
    if bytes.len() < BLOCK_BYTES {
        return bytes;
    }
    let table_bytes = word(&bytes, 44);
    if let Some(table) = bytes.get(BLOCK_BYTES..BLOCK_BYTES.saturating_add(table_bytes)) {
        let crc = crc32c(table);
        put(&mut bytes, 48, crc);
    }
    let crc = crc32c(&bytes[12..BLOCK_BYTES]);
    put(&mut bytes, 8, crc);
    let mut at = BLOCK_BYTES.saturating_add(table_bytes);
    while bytes.len() >= BLOCK_BYTES && at <= bytes.len() - BLOCK_BYTES {
        let payload = at + BLOCK_BYTES..(at + BLOCK_BYTES).saturating_add(word(&bytes, at + 32));
        let next = match bytes.get(payload.clone()) {
            Some(payload_bytes) if bytes[at..].starts_with(b"FBRSEGMT") => {
                let crc = crc32c(payload_bytes);
                put(&mut bytes, at + 12, crc);
                payload.end
            }
            _ if bytes[at..].starts_with(b"FBRENDED") => at + BLOCK_BYTES,
            _ => {
                at += 1;
                continue;
            }
        };
        let crc = crc32c(&bytes[at + 12..at + BLOCK_BYTES]);
        put(&mut bytes, at + 8, crc);
        at = next;
    }
    bytes
}
