#![allow(clippy::unwrap_used)]

use super::*;
use crate::blocking;
use forebay_block::{Buf, IoErrorKind, Vectored};

fn device(text: &str) -> (VirtualDevice, Drive, VirtualClock) {
    let clock = VirtualClock::default();
    let (device, drive) = VirtualDevice::new(&ModelUri::parse(text, false).unwrap(), 1, &clock).unwrap();
    (device, drive, clock)
}

fn write(tag: u64, offset_bytes: u64, byte: u8, len: usize) -> Request {
    let bufs = Vectored::One(Buf::copy_of(&vec![byte; len]).freeze());
    Request { tag, offset_bytes, stream: 0, op: Op::Write { bufs, fua: false } }
}

fn read(tag: u64, offset_bytes: u64, len: usize) -> Request {
    Request { tag, offset_bytes, stream: 0, op: Op::read(Vectored::One(Buf::new(len))) }
}

#[test]
fn what_is_written_is_read_and_what_is_not_is_zeros() {
    for text in ["p4800x?size=64MiB", "qlc?size=8GiB", "960evo?size=8GiB&fill=0"] {
        let (mut device, drive, clock) = device(text);
        assert_eq!(blocking::read(&mut device, 4096, 8192).unwrap()[..], [0; 8192], "{text}");
        blocking::write(&mut device, 4096, &[7; 8192]).unwrap();
        blocking::write(&mut device, 4608, &[8; 512]).unwrap();
        blocking::flush(&mut device).unwrap();
        let bytes = blocking::read(&mut device, 4096, 8192).unwrap();
        assert_eq!((bytes[511], bytes[512], bytes[1023], bytes[1024]), (7, 8, 8, 7), "{text}");
        blocking::run(&mut device, 4096, Op::Discard { len_bytes: 4096 }).unwrap();
        let bytes = blocking::read(&mut device, 4096, 8192).unwrap();
        assert_eq!((bytes[0], bytes[4095], bytes[4096]), (0, 0, 7), "{text}");
        blocking::run(&mut device, 8192, Op::WriteZeroes { len_bytes: 4096 }).unwrap();
        assert_eq!(blocking::read(&mut device, 4096, 8192).unwrap()[..], [0; 8192], "{text}");
        assert_eq!(drive.counters().host_written_bytes, 8704, "{text}");
        assert!(clock.now_ns() > 20_000, "{text}: {}", clock.now_ns());
    }
}

#[test]
fn bytes_move_when_a_command_ends_and_not_before() {
    let (mut device, _, clock) = device("p4800x?size=64MiB");
    device.submit(write(1, 0, 1, 4096));
    let mut done = Vec::new();
    device.poll(&mut done);
    assert!(done.is_empty() && device.in_flight() == 1);
    let mut order = Vec::new();
    // A short read from other dies overtakes a long write.
    device.submit(write(2, 1 << 20, 2, 128 << 10));
    device.submit(read(3, 2 << 20, 4096));
    device.submit(read(4, 1 << 20, 4096));
    while device.in_flight() > 0 {
        let next_ns = device.next_event_ns();
        assert!(next_ns >= clock.now_ns() && next_ns < u64::MAX);
        let ended_ns = device.advance(next_ns);
        clock.advance_to(next_ns);
        device.poll(&mut done);
        assert_eq!(ended_ns, (!done.is_empty()).then_some(next_ns));
        for Completion { tag, result, bufs } in done.drain(..) {
            result.unwrap();
            if let Some(Vectored::One(buf)) = bufs {
                let is_new = order.contains(&2) && tag == 4;
                assert_eq!(buf[0], if is_new { 2 } else { 0 });
            }
            order.push(tag);
        }
    }
    assert_eq!(order.len(), 4);
    assert!(order.iter().position(|tag| *tag == 3) < order.iter().position(|tag| *tag == 2), "{order:?}");
}

#[test]
fn what_is_invalid_is_refused_and_the_model_never_sees_it() {
    let (mut device, drive, _) = device("p4800x?size=64MiB");
    for (offset_bytes, len) in [(64 << 20, 4096), (1, 512), (u64::MAX - 511, 512)] {
        assert_eq!(blocking::read(&mut device, offset_bytes, len).unwrap_err().kind, IoErrorKind::Invalid);
    }
    assert_eq!((drive.counters().host_read_bytes, device.in_flight()), (0, 0));
}

#[test]
fn a_discard_longer_than_a_command_frees_everything() {
    let (mut device, _, _) = device("qlc?size=8GiB");
    let end = device.geometry().size_bytes;
    blocking::write(&mut device, 0, &[1; 4096]).unwrap();
    blocking::write(&mut device, end - 4096, &[1; 4096]).unwrap();
    blocking::run(&mut device, 0, Op::Discard { len_bytes: end }).unwrap();
    for offset_bytes in [0, end - 4096] {
        assert_eq!(blocking::read(&mut device, offset_bytes, 4096).unwrap()[..], [0; 4096]);
    }
}

#[test]
fn geometry_is_the_presets_and_a_durable_write_waits_for_the_flash() {
    assert!(!device("p4800x?size=64MiB").0.geometry().volatile_cache);
    assert!(!device("qlc?size=8GiB").0.geometry().volatile_cache);
    let (mut device, _, clock) = device("960evo?size=8GiB&fill=0");
    assert!(device.geometry().volatile_cache);
    let mut timed = |fua| {
        let before_ns = clock.now_ns();
        let bufs = Vectored::One(Buf::copy_of(&[1; 4096]).freeze());
        blocking::run(&mut device, 0, Op::Write { bufs, fua }).unwrap();
        clock.now_ns() - before_ns
    };
    let (cached_ns, durable_ns) = (timed(false), timed(true));
    assert!(durable_ns > 10 * cached_ns, "{cached_ns} {durable_ns}");
}

#[test]
fn tiers_have_lives_where_their_presets_rate_them() {
    let life = |text| device(text).1.life.unwrap();
    assert!((life("p4800x?size=1GiB").dwpd(1.0).unwrap() - 30.0).abs() < 1e-6);
    // 1,500 program/erase cycles over five years.
    assert!((life("qlc?size=8GiB").dwpd(1.0).unwrap() - 1500.0 / 1825.0).abs() < 1e-6);
}
