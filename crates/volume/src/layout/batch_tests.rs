//! Batches round-trip; impossible records and headers are refused.

use super::*;
use crate::layout::moved::{MOVED_MAX, Moved};
use crate::layout::page::{GRAINS_MAX, Span};
use crate::layout::stored::Stored;
use crate::layout::stream::{Lifetime, Stream};
use forebay_block::{ClassId, DiskId};

fn moved() -> Moved {
    Moved {
        disk: DiskId(1),
        block: 2,
        source: Span::whole(GRAINS_MAX - 128),
        origin: 99,
        checksum: 9,
        stored: Stored { grains: 128, checksum: 9 },
        class: ClassId(119),
        note: 5,
    }
}

fn header(len_bytes: u32, records: u16) -> BatchHeader {
    BatchHeader {
        len_bytes,
        records,
        shard: 0,
        epoch: 3,
        position: 1024,
        batch: 9,
        durable: 8,
        exceptions: 1,
        checkpoint: 4,
        first_sequence: 100,
    }
}

/// What becomes of one record with a right checksum.
fn read_back(record: &Record, header: &BatchHeader) -> Option<Record> {
    let mut w = Writer::default();
    w.bytes.resize(HEADER_BYTES, 0);
    record.put(&mut w);
    w.bytes.resize(header.len_bytes as usize, 0);
    seal_batch(&mut w.bytes, header, &[7; 16]);
    decode_batch(&w.bytes, &[7; 16]).and_then(|(_, mut records)| records.pop())
}

#[test]
fn impossible_records_and_headers_are_no_batch() {
    let run = |block, blocks| Record::Discard { disk: DiskId(1), block, blocks };
    let good = run(399, 1);
    assert_eq!(read_back(&good, &header(8192, 1)), Some(good.clone()));
    let write = |block, location, blocks| Record::Write {
        disk: DiskId(1),
        block,
        class: ClassId(1),
        location,
        generation: 0,
        lifetime: Lifetime::default(),
        stored: vec![Stored::whole(1); blocks],
    };
    let record = |moved| Record::Move { stream: Stream::default(), location: 64, generation: 0, moved };
    let bad = [
        run(399, 2),
        run(0, 401),
        run(0, 0),
        run(1 << 48, 1),
        write(0, 0, 401),
        write(0, GRAINS_MAX - 128, 2),
        write(0, u64::MAX, 1),
        write(0, 0, 0),
        record(vec![]),
        record(vec![moved(); MOVED_MAX + 1]),
        record(vec![Moved { class: ClassId(120), ..moved() }]),
        record(vec![Moved { origin: COUNTER_LIMIT, ..moved() }]),
        record(vec![Moved { stored: Stored { grains: 0, checksum: 9 }, ..moved() }]),
        record(vec![Moved { stored: Stored { grains: 127, checksum: 1 << 23 }, ..moved() }]),
        Record::Cancel { sequence: COUNTER_LIMIT },
    ];
    for record in bad {
        assert_eq!(read_back(&record, &header(8192, 1)), None, "{record:?}");
    }
    for bad in [
        BatchHeader { batch: COUNTER_LIMIT, ..header(8192, 1) },
        BatchHeader { first_sequence: u64::MAX, ..header(8192, 1) },
        BatchHeader { durable: 9, ..header(8192, 1) },
        BatchHeader { shard: 1, ..header(8192, 1) },
        header(8192, 400),
    ] {
        assert_eq!(read_back(&good, &bad), None, "{bad:?}");
    }
}

#[test]
fn batches_round_trip_and_notice_every_flipped_bit() {
    let records = vec![
        Record::Write {
            disk: DiskId(1),
            block: 7,
            class: ClassId(2),
            location: 64,
            generation: 0xbeef,
            lifetime: Lifetime { group: 15, note: 32 },
            stored: vec![Stored::whole(1), Stored::whole(2)],
        },
        Record::Write {
            disk: DiskId(1),
            block: 7,
            class: ClassId(2),
            location: 64,
            generation: 0xbeef,
            lifetime: Lifetime { group: 15, note: 32 },
            stored: vec![Stored { grains: 16, checksum: 1 }, Stored { grains: 127, checksum: (1 << 23) - 1 }],
        },
        Record::Zero { disk: DiskId(1), block: 9, blocks: 3 },
        Record::Discard { disk: DiskId(2), block: 400 << 31, blocks: 400 },
        Record::Move {
            stream: Stream { is_collected: true, group: 15, class: ClassId(3) },
            location: 1 << 30,
            generation: 7,
            moved: vec![Moved { disk: DiskId(65535), block: (1 << 48) - 1, ..moved() }],
        },
        // One block that was compressed before, and one that is compressed now.
        Record::Move {
            stream: Stream { is_collected: false, group: 1, class: ClassId(3) },
            location: 1 << 30,
            generation: 7,
            moved: vec![
                Moved {
                    source: Span { location: 9, grains: 33 },
                    stored: Stored { grains: 33, checksum: 9 },
                    ..moved()
                },
                Moved { stored: Stored { grains: 55, checksum: 10 }, ..moved() },
            ],
        },
        Record::Cancel { sequence: 77 },
        Record::Damage { blocks: vec![moved(); MOVED_MAX] },
        Record::Reclass { disk: DiskId(1), block: 5, blocks: 9, class: ClassId(6) },
    ];
    let mut w = Writer::default();
    w.bytes.resize(HEADER_BYTES, 0);
    for record in &records {
        record.put(&mut w);
    }
    w.bytes.resize(4608, 0);
    let header = header(4608, 9);
    seal_batch(&mut w.bytes, &header, &[7; 16]);
    assert_eq!(decode_batch(&w.bytes, &[7; 16]), Some((header, records)));
    assert!(decode_batch(&w.bytes, &[8; 16]).is_none());
    for bit in (0..4608 * 8).step_by(3) {
        w.bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(decode_batch(&w.bytes, &[7; 16]).is_none(), "bit {bit}");
        w.bytes[bit / 8] ^= 1 << (bit % 8);
    }
}
