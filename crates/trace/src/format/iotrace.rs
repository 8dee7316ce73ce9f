//! JSON lines of Open CAS's iotrace: `iotrace --parse-trace` and `--raw` (messages `ParsedEvent` and `Event` of
//! open-cas-telemetry-framework, source/octf/proto/parsedTrace.proto and trace.proto).
//!
//! Protocol Buffers may omit members that are 0, false or the first value of an enum. Latencies are in nanoseconds, lengths in sectors; a
//! raw trace has no latencies.

use super::clock::Clock;
use super::fields::{Bad, duration_ns, sectors};
use super::json::{Member, Members, Value, unescaped};
use super::namer::Namer;
use super::text::LineFormat;
use crate::{Flags, Knows, Lifetime, NOT_KNOWN, Names, Op, Request};
use std::collections::HashMap;

/// Most devices of a raw trace whose names are remembered.
const DEVICES_MAX: usize = 4096;

pub(super) struct Iotrace {
    clock: Clock,
    volume: Namer,
    path: Namer,
    /// Names of the devices that a raw trace describes, by id.
    devices: HashMap<Vec<u8>, u32>,
    has_latency: bool,
}

impl Iotrace {
    pub fn new() -> Self {
        Self {
            clock: Clock::from_first(),
            volume: Namer::default(),
            path: Namer::default(),
            devices: HashMap::new(),
            has_latency: false,
        }
    }
}

/// The contents of one line.
#[derive(Default)]
struct Event<'a> {
    time_ns: Option<u64>,
    is_io: bool,
    is_other: bool,
    lba: u64,
    sectors: u64,
    io_class: Option<u64>,
    op: Op,
    is_flush: bool,
    flags: Flags,
    latency_ns: u64,
    depth: u64,
    lifetime: Lifetime,
    device: &'a [u8],
    device_name: &'a [u8],
    inode: u64,
    path: &'a [u8],
}

fn op(value: Value) -> Result<Op, Bad> {
    match value.raw() {
        b"Read" | b"0" => Ok(Op::Read),
        b"Write" | b"1" => Ok(Op::Write),
        b"Discard" | b"2" => Ok(Op::Discard),
        _ => Err("the operation is not known"),
    }
}

impl<'a> Event<'a> {
    fn parse(line: &'a [u8]) -> Result<Self, Bad> {
        let mut event = Self { op: Op::Read, ..Self::default() };
        let mut members = Members::new(line);
        while let Some(member) = members.next()? {
            event.take(&member)?;
        }
        Ok(event)
    }

    fn take(&mut self, member: &Member<'a>) -> Result<(), Bad> {
        let value = member.value;
        match member.group {
            b"header" if member.key == b"timestamp" => self.time_ns = Some(value.number()?),
            b"io" => {
                self.is_io = true;
                return self.take_io(member.key, value);
            }
            b"device" | b"deviceDescription" => {
                self.is_other |= member.group == b"deviceDescription";
                match member.key {
                    b"id" => self.device = id(value)?,
                    b"name" => self.device_name = value.raw(),
                    _ => {}
                }
            }
            b"file" => match member.key {
                b"id" => self.inode = value.number()?,
                b"path" => self.path = value.raw(),
                _ => {}
            },
            b"filesystemMeta" | b"ioCompletion" => self.is_other = true,
            _ => {}
        }
        Ok(())
    }

    fn take_io(&mut self, key: &[u8], value: Value<'a>) -> Result<(), Bad> {
        match key {
            b"lba" => self.lba = value.number()?,
            b"len" => self.sectors = value.number()?,
            b"ioClass" => self.io_class = Some(value.number()?),
            b"operation" => self.op = op(value)?,
            b"flush" => self.is_flush = value.is_true()?,
            b"fua" if value.is_true()? => self.flags = self.flags.with(Flags::FUA),
            b"error" if value.is_true()? => self.flags = self.flags.with(Flags::ERROR),
            b"latency" => self.latency_ns = duration_ns(value.number()?)?,
            b"qd" => self.depth = value.number()?,
            b"writeHint" => {
                let hint = usize::try_from(value.number()?).ok().and_then(|hint| Lifetime::ALL.get(hint));
                self.lifetime = *hint.ok_or("the write hint is not known")?;
            }
            b"deviceId" => self.device = id(value)?,
            _ => {}
        }
        Ok(())
    }
}

/// The bytes of an id, which is a number.
fn id(value: Value<'_>) -> Result<&[u8], Bad> {
    value.number().map(|_| value.raw())
}

impl LineFormat for Iotrace {
    fn line(&mut self, line: &[u8], into: &mut Vec<Request>, names: &mut Names) -> Result<(), Bad> {
        let event = Event::parse(line)?;
        if !event.is_io {
            if !event.is_other {
                return Err("the event is not known");
            }
            if !event.device_name.is_empty() && self.devices.len() < DEVICES_MAX {
                let volume = self.volume.number(event.device_name, &mut names.volumes, unescaped);
                self.devices.insert(event.device.to_owned(), volume);
            }
            return Ok(());
        }
        let (offset_bytes, len_bytes) = sectors(event.lba, event.sectors)?;
        let io_class = match event.io_class {
            None => Request::NO_CLASS,
            Some(class) => u16::try_from(class).map_err(|_| "the class is beyond 65,535")?,
        };
        let issued_ns = self.clock.since_zero_ns(event.time_ns.ok_or("the timestamp is missing")?)?;
        let volume = if event.device_name.is_empty() {
            match self.devices.get(event.device) {
                Some(&volume) => volume,
                None => self.volume.number(event.device, &mut names.volumes, unescaped),
            }
        } else {
            self.volume.number(event.device_name, &mut names.volumes, unescaped)
        };
        let is_bare_flush = event.is_flush && event.sectors == 0;
        let (op, offset_bytes) = if is_bare_flush { (Op::Flush, 0) } else { (event.op, offset_bytes) };
        self.has_latency |= event.latency_ns > 0;
        into.push(Request {
            latency_ns: if event.latency_ns == 0 { NOT_KNOWN } else { event.latency_ns },
            inode: event.inode,
            volume,
            path: if event.path.is_empty() { 0 } else { self.path.number(event.path, &mut names.paths, unescaped) },
            io_class,
            depth: u16::try_from(event.depth).unwrap_or(u16::MAX),
            flags: if event.is_flush && !is_bare_flush { event.flags.with(Flags::PREFLUSH) } else { event.flags },
            lifetime: event.lifetime,
            ..Request::new(issued_ns, op, offset_bytes, len_bytes)
        });
        Ok(())
    }

    fn knows(&self) -> Knows {
        Knows {
            op: true,
            time: true,
            latency: self.has_latency,
            depth: self.has_latency,
            flags: true,
            lifetime: true,
            file: true,
            ..Knows::default()
        }
    }
}
