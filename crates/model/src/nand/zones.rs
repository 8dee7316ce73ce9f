//! Zones: regions that the host writes sequentially and resets as a whole, each on its own block.
//!
//! A zone is as large as a block over all dies. Each open zone has a write point (a stream of the translation layer), which takes another
//! zone only when the previous one is full. So a block holds one zone, a reset leaves the whole block without valid data, and collection
//! moves nothing. Media writes are the host's writes plus the padding of zones that were finished early.

use super::config::{Config, ConfigError, UNIT_BYTES};
use super::{Nand, shape::BUFFERED, shape::NONE};
use crate::ssd::{Command, Counters, Done, Op, Ssd};

/// Size of the commands into which a reset or a finish is split, in bytes.
const PIECE_BYTES: u64 = 1 << 20;

/// Why a zoned command is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ZoneError {
    /// The zone does not exist.
    #[error("zone {zone}: the drive has zones 0 to {}", zones.saturating_sub(1))]
    Unknown {
        /// The zone asked for.
        zone: u32,
        /// Number of zones.
        zones: u32,
    },
    /// The write is not at the write pointer.
    #[error("zone {zone}: written at byte {at} of it, the write pointer is at {pointer}")]
    NotSequential {
        /// The zone.
        zone: u32,
        /// Offset of the write, in bytes from the start of the zone.
        at: u64,
        /// The write pointer, in bytes from the start of the zone.
        pointer: u64,
    },
    /// The write is longer than the rest of the zone, empty, or not a multiple of 4096 bytes.
    #[error("zone {zone}: {bytes} bytes cannot be written, allowed are multiples of 4096 up to {left}")]
    Length {
        /// The zone.
        zone: u32,
        /// Bytes of the write.
        bytes: u64,
        /// Bytes left in the zone.
        left: u64,
    },
    /// The maximum number of zones is open.
    #[error("zone {zone}: {open} zones are open, as many as may be; finish one first")]
    TooManyOpen {
        /// The zone to be opened.
        zone: u32,
        /// Number of open zones.
        open: u32,
    },
    /// A zone that is open or still being written cannot be reset.
    #[error("zone {zone}: still open or written; finish it and wait")]
    Open {
        /// The zone.
        zone: u32,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Empty,
    Open(u8),
    Full,
    /// Full, with a reset that waits until the zone's data has left the write buffer.
    Resetting,
}

#[derive(Clone, Copy, Debug)]
struct Zone {
    state: State,
    pointer_bytes: u64,
    flying: u32,
}

/// A command in the drive.
#[derive(Clone, Copy, Debug)]
struct Flying {
    /// The host's tag; none for a command that is not the last part of the host's.
    tag: Option<u64>,
    zone: u32,
}

/// A NAND drive that the host sees as zones.
pub struct Zoned {
    drive: Nand,
    zone_bytes: u64,
    zones: Vec<Zone>,
    /// Whether each write point is in use.
    taken: Vec<bool>,
    flying: Vec<Flying>,
    free: Vec<usize>,
    resets: Vec<(u64, u32)>,
    padding_bytes: u64,
}

impl Zoned {
    /// Builds a drive with zones over all its dies, of which `open_max` (1 to 16) can be open at once.
    ///
    /// # Errors
    /// [`ConfigError`] where the result is not consistent: the spare flash must hold an open block for each open zone.
    pub fn new(mut config: Config, open_max: u32) -> Result<Self, ConfigError> {
        config.ftl.superblock_dies = config.geometry.channels * config.geometry.dies_per_channel;
        config.ftl.streams = open_max;
        let drive = Nand::new(config)?;
        let zone_bytes = u64::from(drive.shape.block_units) * UNIT_BYTES;
        let zones = drive.capacity_bytes() / zone_bytes;
        Ok(Self {
            zone_bytes,
            zones: vec![Zone { state: State::Empty, pointer_bytes: 0, flying: 0 }; zones as usize],
            taken: vec![false; open_max as usize],
            flying: Vec::new(),
            free: Vec::new(),
            resets: Vec::new(),
            padding_bytes: 0,
            drive,
        })
    }

    /// Bytes of a zone.
    #[must_use]
    pub fn zone_bytes(&self) -> u64 {
        self.zone_bytes
    }

    /// Zones of the drive.
    #[must_use]
    pub fn zones(&self) -> u32 {
        self.zones.len() as u32
    }

    /// Write pointer of a zone, in bytes from its start; none where the zone does not exist.
    #[must_use]
    pub fn pointer_bytes(&self, zone: u32) -> Option<u64> {
        self.zones.get(zone as usize).map(|zone| zone.pointer_bytes)
    }

    /// The drive's counters; the padding of finished zones does not count as written by the host.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let counters = self.drive.counters();
        Counters { host_written_bytes: counters.host_written_bytes.saturating_sub(self.padding_bytes), ..counters }
    }

    /// Time of the next event in nanoseconds; `u64::MAX` where the drive is idle.
    #[must_use]
    pub fn next_event_ns(&self) -> u64 {
        self.drive.next_event_ns()
    }

    /// Checks the conservation laws.
    ///
    /// # Errors
    /// A description of what does not add up.
    pub fn check(&self) -> Result<(), String> {
        self.drive.check()
    }

    fn zone(&self, zone: u32) -> Result<Zone, ZoneError> {
        self.zones.get(zone as usize).copied().ok_or(ZoneError::Unknown { zone, zones: self.zones() })
    }

    fn send(&mut self, at_ns: u64, flying: Flying, command: Command) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.flying.push(flying);
            self.flying.len() - 1
        });
        self.flying[slot] = flying;
        self.zones[flying.zone as usize].flying += 1;
        self.drive.submit(at_ns, Command { tag: slot as u64, ..command });
    }

    /// Writes `bytes` at `offset_bytes` from the start of a zone.
    ///
    /// # Errors
    /// [`ZoneError`] where the write is not at the write pointer, not within the zone, or opens one zone too many.
    pub fn write(&mut self, at_ns: u64, tag: u64, zone: u32, offset_bytes: u64, bytes: u64) -> Result<(), ZoneError> {
        self.write_part(at_ns, Some(tag), zone, offset_bytes, bytes)
    }

    fn write_part(
        &mut self,
        at_ns: u64,
        tag: Option<u64>,
        zone: u32,
        offset_bytes: u64,
        bytes: u64,
    ) -> Result<(), ZoneError> {
        let Zone { state, pointer_bytes, .. } = self.zone(zone)?;
        if state == State::Resetting {
            return Err(ZoneError::Open { zone });
        }
        if offset_bytes != pointer_bytes {
            return Err(ZoneError::NotSequential { zone, at: offset_bytes, pointer: pointer_bytes });
        }
        let left = (self.zone_bytes - pointer_bytes).min(u64::from(u32::MAX) / UNIT_BYTES * UNIT_BYTES);
        if bytes == 0 || bytes > left || !bytes.is_multiple_of(UNIT_BYTES) {
            return Err(ZoneError::Length { zone, bytes, left });
        }
        let stream = match state {
            State::Open(stream) => stream,
            _ => {
                let Some(stream) = self.taken.iter().position(|taken| !taken) else {
                    return Err(ZoneError::TooManyOpen { zone, open: self.taken.len() as u32 });
                };
                self.taken[stream] = true;
                stream as u8
            }
        };
        let entry = &mut self.zones[zone as usize];
        entry.pointer_bytes += bytes;
        entry.state = State::Open(stream);
        let offset_bytes = u64::from(zone) * self.zone_bytes + offset_bytes;
        let command = Command { tag: 0, op: Op::Write, offset_bytes, len_bytes: bytes as u32, stream };
        self.send(at_ns, Flying { tag, zone }, command);
        Ok(())
    }

    /// Pads an open zone to its end, as drives do that cannot leave a block partly written. The command ends when all padding is in the
    /// drive.
    ///
    /// # Errors
    /// [`ZoneError::Unknown`], and [`ZoneError::Length`] where the zone is not open.
    pub fn finish(&mut self, at_ns: u64, tag: u64, zone: u32) -> Result<(), ZoneError> {
        let Zone { state, mut pointer_bytes, .. } = self.zone(zone)?;
        if !matches!(state, State::Open(_)) || pointer_bytes == self.zone_bytes {
            return Err(ZoneError::Length { zone, bytes: 0, left: self.zone_bytes - pointer_bytes });
        }
        while pointer_bytes < self.zone_bytes {
            let bytes = PIECE_BYTES.min(self.zone_bytes - pointer_bytes);
            let last = pointer_bytes + bytes == self.zone_bytes;
            self.write_part(at_ns, last.then_some(tag), zone, pointer_bytes, bytes)?;
            pointer_bytes += bytes;
            self.padding_bytes += bytes;
        }
        Ok(())
    }

    /// Resets a full zone; an empty zone stays empty. The command ends once the drive has dropped the data.
    ///
    /// # Errors
    /// [`ZoneError::Unknown`], and [`ZoneError::Open`] where the zone is not full or still being written.
    pub fn reset(&mut self, at_ns: u64, tag: u64, zone: u32) -> Result<(), ZoneError> {
        match self.zone(zone)? {
            Zone { state: State::Full | State::Empty, flying: 0, .. } => {
                self.zones[zone as usize].state = State::Resetting;
                self.resets.push((tag, zone));
                self.begin_resets(at_ns);
                Ok(())
            }
            _ => Err(ZoneError::Open { zone }),
        }
    }

    /// A reset waits until the zone's buffered data has been written: that data already has its place in the block.
    fn begin_resets(&mut self, now_ns: u64) {
        for (tag, zone) in std::mem::take(&mut self.resets) {
            let first = zone * self.drive.shape.block_units;
            let units = first..first + self.drive.shape.block_units;
            let waits = self.drive.ftl.map[units.start as usize..units.end as usize].iter().any(|&entry| {
                entry != NONE && entry & BUFFERED != 0 && self.drive.buffer.is_waiting(entry & !BUFFERED)
            });
            if waits {
                self.resets.push((tag, zone));
                continue;
            }
            let (mut at, end) = (u64::from(zone) * self.zone_bytes, u64::from(zone + 1) * self.zone_bytes);
            while at < end {
                let bytes = (PIECE_BYTES * 1024).min(end - at);
                let tag = (at + bytes == end).then_some(tag);
                let command = Command { tag: 0, op: Op::Trim, offset_bytes: at, len_bytes: bytes as u32, stream: 0 };
                self.send(now_ns, Flying { tag, zone }, command);
                at += bytes;
            }
        }
    }

    /// Reads within one zone or across several.
    pub fn read(&mut self, at_ns: u64, tag: u64, offset_bytes: u64, len_bytes: u32) {
        let zone = ((offset_bytes / self.zone_bytes) as u32).min(self.zones().saturating_sub(1));
        let command = Command { tag: 0, op: Op::Read, offset_bytes, len_bytes, stream: 0 };
        self.send(at_ns, Flying { tag: Some(tag), zone }, command);
    }

    /// Processes all events up to and including `to_ns`.
    pub fn advance(&mut self, to_ns: u64, done: &mut Vec<Done>) {
        let mut inner = Vec::new();
        self.drive.advance(to_ns, &mut inner);
        for one in inner {
            let slot = one.tag as usize;
            let Flying { tag, zone } = self.flying[slot];
            self.free.push(slot);
            let entry = &mut self.zones[zone as usize];
            entry.flying -= 1;
            let dropped = entry.state == State::Resetting && !self.resets.iter().any(|&(_, waiting)| waiting == zone);
            if dropped && entry.flying == 0 {
                entry.state = State::Empty;
                entry.pointer_bytes = 0;
            } else if entry.flying == 0
                && entry.pointer_bytes == self.zone_bytes
                && let State::Open(stream) = entry.state
            {
                // Only now may another zone use this write point: all data of this zone precedes it.
                entry.state = State::Full;
                self.taken[usize::from(stream)] = false;
            }
            if let Some(tag) = tag {
                done.push(Done { tag, at_ns: one.at_ns });
            }
        }
        self.begin_resets(to_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::small;
    use super::*;
    use proptest::prelude::*;

    fn drain(drive: &mut Zoned) -> Vec<Done> {
        let mut done = Vec::new();
        while drive.next_event_ns() != u64::MAX {
            drive.advance(drive.next_event_ns(), &mut done);
        }
        done
    }

    fn zoned(open_max: u32) -> Zoned {
        let mut config = small(1.4);
        config.geometry.dies_per_channel = 1;
        config.geometry.blocks_per_plane = 40;
        config.geometry.pages_per_block = 8;
        config.capacity_bytes = 20 * 8 * 4 * 8 * UNIT_BYTES;
        Zoned::new(config, open_max).unwrap()
    }

    #[test]
    fn zones_are_written_in_order_and_reset_as_a_whole() {
        let mut drive = zoned(2);
        assert_eq!((drive.zones(), drive.zone_bytes()), (20, 8 * 4 * 8 * UNIT_BYTES));
        let all = drive.zone_bytes();
        assert_eq!(drive.write(0, 1, 0, 4096, 4096), Err(ZoneError::NotSequential { zone: 0, at: 4096, pointer: 0 }));
        assert_eq!(drive.write(0, 1, 0, 0, 512), Err(ZoneError::Length { zone: 0, bytes: 512, left: all }));
        assert_eq!(drive.write(0, 1, 20, 0, 4096), Err(ZoneError::Unknown { zone: 20, zones: 20 }));
        drive.write(0, 1, 0, 0, 4096).unwrap();
        drive.write(0, 2, 0, 4096, all - 4096).unwrap();
        assert_eq!(drive.reset(0, 3, 0), Err(ZoneError::Open { zone: 0 }));
        drive.write(0, 4, 1, 0, 8192).unwrap();
        assert_eq!(drive.write(0, 5, 2, 0, 4096), Err(ZoneError::TooManyOpen { zone: 2, open: 2 }));
        assert_eq!(drain(&mut drive).len(), 3);
        drive.write(drive.drive.active_ns, 5, 2, 0, 4096).unwrap();
        let now_ns = drive.drive.active_ns;
        drive.finish(now_ns, 6, 1).unwrap();
        drive.reset(now_ns, 7, 0).unwrap();
        let tags: std::collections::BTreeSet<u64> = drain(&mut drive).iter().map(|one| one.tag).collect();
        assert_eq!(tags, [5, 6, 7].into());
        assert_eq!((drive.pointer_bytes(0), drive.pointer_bytes(1)), (Some(0), Some(all)));
        assert_eq!(drive.counters().host_written_bytes, all + 8192 + 4096);
        drive.check().unwrap();
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// Nothing is ever moved, whatever the order of appends, finishes and resets.
        #[test]
        fn zoned_use_is_not_amplified(
            steps in prop::collection::vec((0u32..20, 1u64..100, 0u8..20, 0u64..300_000), 300..900),
            open_max in 1u32..5,
        ) {
            let mut drive = zoned(open_max);
            let (mut now_ns, mut tag, mut done) = (0, 0, Vec::new());
            for (zone, units, what, pause_ns) in steps {
                now_ns += pause_ns;
                drive.advance(now_ns, &mut done);
                let pointer = drive.pointer_bytes(zone).unwrap();
                let sent = match what {
                    0 => drive.finish(now_ns, tag, zone),
                    _ if pointer == drive.zone_bytes() => drive.reset(now_ns, tag, zone),
                    _ => drive.write(now_ns, tag, zone, pointer, (units * UNIT_BYTES).min(drive.zone_bytes() - pointer)),
                };
                tag += u64::from(sent.is_ok());
            }
            done.extend(drain(&mut drive));
            drive.check().map_err(TestCaseError::fail)?;
            prop_assert_eq!(done.len() as u64, tag);
            let counters = drive.counters();
            prop_assert!(counters.media_written_bytes <= counters.host_written_bytes + drive.padding_bytes, "{:?}", counters);
        }
    }

    #[test]
    fn a_drive_full_of_zones_is_overwritten_many_times_without_moves() {
        let mut drive = zoned(3);
        let all = drive.zone_bytes();
        let mut now_ns = 0;
        let mut random = forebay_block::Random::new(7);
        for round in 0..400_u32 {
            // Zones are reset in random order.
            let zone = if round < drive.zones() { round } else { random.below(drive.zones().into()) as u32 };
            if drive.pointer_bytes(zone) == Some(all) {
                drive.reset(now_ns, 0, zone).unwrap();
                drain(&mut drive);
                now_ns = now_ns.max(drive.drive.active_ns);
            }
            let mut at = 0;
            while at < all {
                drive.write(now_ns, 1, zone, at, 65_536).unwrap();
                at += 65_536;
            }
            drain(&mut drive);
            now_ns = now_ns.max(drive.drive.active_ns) + 1_000_000;
        }
        let counters = drive.counters();
        assert_eq!(counters.host_written_bytes, 400 * all);
        assert_eq!(counters.media_written_bytes, 400 * all, "write amplification of 1");
        assert!(counters.erases > 0);
        drive.check().unwrap();
    }
}
