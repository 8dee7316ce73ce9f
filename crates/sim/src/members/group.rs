//! The members of one multi-device tier: a mirrored fast tier, or a capacity tier with parity. Up to as many members as redundancy covers
//! (the culprits) may have any fault. The culprits change when they were replaced by blank devices and rebuilt, or when a scrub has
//! repaired them.

use crate::coverage::Coverage;
use crate::device::SimDevice;
use crate::fault::{Fault, FaultKind};
use crate::power::Power;
use crate::scenario::{Beyond, End, Member, MemberRound, Parity, Round, Shape};
use crate::world::{Halt, Memory};
use forebay_block::{Geometry, Random, VirtualClock};
use forebay_prism::Compress;
use forebay_volume::layout::Id;
use forebay_volume::layout::page::BLOCK_GRAINS;
use forebay_volume::layout::root::{BandRoot, BandState};
use forebay_volume::mirror::{MemberState, MirrorView};
use forebay_volume::parity::{ArrayView, Shape as ArrayShape, plan_shape};
use std::collections::{BTreeMap, BTreeSet};

/// First bytes of map pages.
const PAGES: [&[u8]; 2] = [b"FBML", b"FBMI"];

/// Offsets of the entries in an array's log, their first bytes, and the offset of the row number in an entry (docs/format.md).
const SLOT_BYTES: u64 = 8192;
const ENTRY: &[u8] = b"FBPE";
const ENTRY_ROW: std::ops::Range<usize> = 48..56;

/// The tier that the members form.
pub(super) enum Several {
    Mirror,
    Array {
        parity: Parity,
        shape: ArrayShape,
        /// Parameters of the combined device.
        geometry: Geometry,
    },
}

/// A faulty member.
pub(super) struct Culprit {
    /// Its index among the members.
    pub member: usize,
    pub is_absent: bool,
    /// It holds no wrong data that the other members do not know of.
    is_clean: bool,
    /// All wrong data on it can be repaired by a scrub.
    is_mendable: bool,
}

/// The members.
pub(super) struct Group {
    pub several: Several,
    /// Their indices among the devices.
    pub places: Vec<usize>,
    geometry: Geometry,
    pub culprits: Vec<Culprit>,
    /// Only the culprit is present, unless it is refused alone.
    pub is_alone: bool,
    /// Members that are absent while the contents of the others are checked.
    away: Option<Vec<usize>>,
    /// It was served alone, or faults exceeded the redundancy: no further faults until all members are complete again.
    pub must_recover: bool,
    /// In this round one member more than the redundancy covers fails; only while nothing replaces the other ones.
    has_one_more: bool,
    /// Rows were damaged beyond what parity restores: their remaining data must not be lost too.
    has_lost_rows: bool,
    /// All members were complete at the end of a round that ended at rest.
    is_whole: bool,
    /// All members were complete at the end of the last round, however it ended.
    pub hold_everything: bool,
    /// Host blocks are stored uncompressed, byte for byte as the oracle knows them.
    is_plain: bool,
    /// Number of rows of each band of an array that are complete and no longer written.
    whole_rows: Vec<u64>,
    /// A scrub can repair all damage, as long as no other fault occurs.
    is_scrubbed: bool,
    /// A member has lied, or its reads were wrong or failed: rows may be in doubt since.
    pub has_lied: bool,
    /// How the round ends.
    end: Option<End>,
    /// Number of members replaced while the pool was used.
    exchanged: u64,
    /// Number of openings that found open rows.
    pub found_open: u64,
    next_id: u8,
    /// The array that was assembled last.
    pub array: Option<ArrayView>,
}

impl Group {
    /// For a mirrored fast tier, where the pool has one.
    pub fn mirror(shape: &Shape) -> Option<Self> {
        let geometries = shape.geometries();
        let others = (1..usize::from(shape.members)).map(|member| geometries.len() - 1 + member);
        let places: Vec<usize> = std::iter::once(0).chain(others).collect();
        (places.len() > 1).then(|| Self::new(shape, Several::Mirror, places, (1, geometries[0].clone()), 100))
    }

    /// For a capacity tier with parity, where the pool has one.
    ///
    /// # Errors
    /// Why this shape cannot have one.
    pub fn array(shape: &Shape) -> Result<Option<Self>, String> {
        let Some(parity) = shape.parity else { return Ok(None) };
        let geometries = shape.geometries();
        let capacity = &geometries[1..];
        let planned = plan_shape(capacity, parity.redundancy, Some(shape.band_bytes), geometries[0].size_bytes);
        let (array, geometry) = planned.map_err(|error| error.to_string())?;
        let several = Several::Array { parity, shape: array, geometry };
        let places = (1..=capacity.len()).collect();
        // The members of both groups have different ids.
        let first_id = if shape.members > 1 { 180 } else { 100 };
        Ok(Some(Self::new(shape, several, places, (parity.culprits(), capacity[0].clone()), first_id)))
    }

    fn new(
        shape: &Shape,
        several: Several,
        places: Vec<usize>,
        (culprits, geometry): (usize, Geometry),
        next_id: u8,
    ) -> Self {
        let culprit = |member| Culprit { member, is_absent: false, is_clean: true, is_mendable: false };
        Self {
            several,
            places,
            geometry,
            culprits: (0..culprits).map(culprit).collect(),
            is_alone: false,
            away: None,
            must_recover: false,
            has_one_more: false,
            has_lost_rows: false,
            is_whole: false,
            hold_everything: false,
            is_plain: shape.compress() == Compress::Off,
            whole_rows: Vec::new(),
            is_scrubbed: shape.kind.is_scrubbed(),
            has_lied: false,
            end: None,
            exchanged: 0,
            found_open: 0,
            next_id,
            array: None,
        }
    }

    pub fn is_array(&self) -> bool {
        matches!(self.several, Several::Array { .. })
    }

    /// Parameters of the combined device, and the start of its bands, where it is the capacity device.
    pub fn capacity(&self) -> Option<(Geometry, u64)> {
        let Several::Array { shape, geometry, .. } = &self.several else { return None };
        Some((geometry.clone(), shape.head_bytes))
    }

    /// Members of a mirror except the first.
    pub fn others(&self, clock: &VirtualClock, power: &Power) -> Vec<SimDevice> {
        let others = if self.is_array() { 0..0 } else { 1..self.places.len() };
        others.map(|member| self.device(member, clock, power)).collect()
    }

    fn device(&self, member: usize, clock: &VirtualClock, power: &Power) -> SimDevice {
        let kind = if self.is_array() { 'a' } else { 'm' };
        SimDevice::new(&format!("{kind}{member}"), self.geometry.clone(), clock, power)
    }

    pub fn new_id(&mut self) -> Id {
        self.next_id = self.next_id.wrapping_add(1);
        [self.next_id; 16]
    }

    pub fn is_culprit(&self, member: usize) -> bool {
        self.culprits.iter().any(|culprit| culprit.member == member)
    }

    /// The next member that is no culprit.
    fn next_after(&self, member: usize) -> usize {
        let count = self.places.len();
        (1..count).map(|turn| (member + turn) % count).find(|&other| !self.is_culprit(other)).unwrap_or(member)
    }

    /// Decides on the members at the start of a round; returns the round with its faults on the right members.
    pub fn begin(
        &mut self,
        round: &Round,
        devices: &mut [SimDevice],
        (clock, power): (&VirtualClock, &Power),
        coverage: &mut Coverage,
    ) -> Round {
        let mut round = round.clone();
        self.must_recover &= !self.is_whole;
        self.is_alone = false;
        self.end = Some(round.end);
        if self.must_recover || self.has_lost_rows {
            (round.members, round.beyond) = (Vec::new(), None);
        }
        round.members.resize_with(self.culprits.len(), MemberRound::default);
        for slot in 0..self.culprits.len() {
            let mut does = std::mem::take(&mut round.members[slot]);
            self.begin_one(slot, &mut does, devices, (clock, power), coverage);
            let at = self.places[self.culprits[slot].member];
            let here = |faults: &[Fault]| faults.iter().map(|fault| Fault { device: at, ..*fault }).collect::<Vec<_>>();
            round.opening_faults.extend(here(&does.faults[0]));
            round.faults.extend(here(&does.faults[1]));
            round.members[slot] = does;
        }
        for (member, &at) in self.places.iter().enumerate() {
            // Where it is alone, nothing depends on the other ones.
            devices[at].cover(self.is_culprit(member) != self.is_alone);
        }
        self.has_one_more = matches!(round.beyond, Some(Beyond::Fails(_)));
        if let Some(Beyond::Fails(faults)) = &round.beyond {
            round.faults.extend(self.fail_one_more(faults, round.seed));
        }
        round
    }

    /// Decides what happens to a faulty member.
    fn begin_one(
        &mut self,
        slot: usize,
        does: &mut MemberRound,
        devices: &mut [SimDevice],
        (clock, power): (&VirtualClock, &Power),
        coverage: &mut Coverage,
    ) {
        if does.is_another && self.is_whole && self.culprits[slot].is_clean {
            self.culprits[slot].member = self.next_after(self.culprits[slot].member);
            coverage.count("members that others had been rebuilt from");
        }
        let Culprit { member, is_clean, .. } = self.culprits[slot];
        self.is_alone = does.is == Member::Alone && is_clean && !self.is_array();
        if self.is_alone {
            coverage.count("members that were there alone");
            *does = MemberRound { is: Member::Alone, ..MemberRound::default() };
        }
        let at = self.places[member];
        let is_replaced = does.is == Member::Replaced;
        if is_replaced {
            let places = devices[at].places();
            devices[at] = self.device(member, clock, power);
            devices[at].know(places);
            coverage.count("members replaced by blank devices");
        }
        let lies = |fault: &Fault| {
            fault.kind.is_silent()
                || matches!(fault.kind, FaultKind::DeadSector | FaultKind::ReadError | FaultKind::Misread)
        };
        let has_lied = does.faults.iter().flatten().any(lies);
        self.has_lied |= has_lied || !self.is_scrubbed;
        let is_away = does.is != Member::Present || does.faults.iter().any(|faults| !faults.is_empty());
        // Its missing data may be computed from wrong data of another member, and no scrub can tell which member is wrong.
        for other in self.culprits.iter_mut().filter(|other| other.member != member) {
            other.is_mendable &= !is_away;
        }
        let culprit = &mut self.culprits[slot];
        culprit.is_absent = does.is == Member::Absent;
        culprit.is_clean = (is_clean || is_replaced) && !has_lied;
        culprit.is_mendable &= !has_lied;
    }

    /// A blank device replaces a member that was left behind.
    pub fn exchange(&mut self, slot: usize, devices: &[SimDevice], view: &MirrorView) {
        let Some(member) = self.culprits.get(slot).map(|culprit| culprit.member) else { return };
        if self.has_one_more {
            return;
        }
        let device = &devices[self.places[member]];
        let name = forebay_block::Device::name(device);
        let status = view.status();
        // A member that was absent at the opening has no name.
        let known = status.members.iter().find(|other| other.name == name);
        let known = known.or_else(|| status.members.iter().find(|other| other.name.is_empty()));
        if known.is_none_or(|known| known.state != MemberState::Out) {
            return;
        }
        device.exchange();
        let (name, id) = (name.to_owned(), self.new_id());
        if view.offer(name, id, Box::new(device.clone()), None).is_ok() {
            self.exchanged += 1;
        }
        self.culprits[slot].is_clean = true;
    }

    /// Rows where a write went beside a block that contradicts its parity, since the last opening: parity alone cannot show which block is
    /// damaged.
    pub fn rows_in_doubt(&self) -> u64 {
        self.array.as_ref().map_or(0, ArrayView::rows_in_doubt)
    }

    /// Rows were damaged beyond what parity restores.
    pub fn has_lost_rows(&self) -> bool {
        self.has_lost_rows
    }

    /// Ends a round.
    pub fn ended(
        &mut self,
        view: Option<&MirrorView>,
        said: &Result<(), (&'static str, Halt)>,
        round: &Round,
        coverage: &mut Coverage,
    ) {
        let Some(status) = view.map(MirrorView::status) else { return };
        let is_at_rest = said.is_ok() && matches!(round.end, End::Rest | End::Stop);
        self.hold_everything = status.members.iter().all(|member| member.state == MemberState::InSync);
        self.is_whole = is_at_rest && self.hold_everything;
        if self.is_alone {
            coverage.count("members that were served alone");
        }
        coverage.count_all("blocks of members that were mended", status.mended_blocks);
        if status.members.iter().any(|member| member.state == MemberState::Out && !member.name.is_empty()) {
            coverage.count("members that were left behind");
        }
        if status.members.iter().any(|member| member.state == MemberState::Rebuilding) {
            coverage.count("power cuts in a rebuild");
        }
        if !self.is_array() {
            return;
        }
        coverage
            .count_all("reads that members of an array failed", status.members.iter().map(|m| m.failed_reads).sum());
        coverage.count_all("members exchanged while the array was used", std::mem::take(&mut self.exchanged));
        coverage.count_all("openings that found rows of an array open", std::mem::take(&mut self.found_open));
        let out = status.members.iter().filter(|member| member.state == MemberState::Out).count();
        if out > 1 {
            coverage.count("rounds that end with several members of an array out");
        }
        if self.is_whole {
            coverage.count("rounds that end with all members of an array whole");
        }
    }

    /// Damages the members after a round; true where something was damaged.
    pub fn damage(
        &mut self,
        round: &Round,
        devices: &[SimDevice],
        memory: &mut Memory,
        coverage: &mut Coverage,
    ) -> bool {
        let is_clean = self.culprits.iter().all(|culprit| culprit.is_clean);
        if let Some(Beyond::Rows(count)) = round.beyond
            && self.is_whole
            && is_clean
        {
            self.has_lost_rows = self.kill_rows((count, round.seed), devices, memory, coverage);
            return self.has_lost_rows;
        }
        let tags = memory.oracle.held_tags();
        if self.is_scrubbed {
            return self.damage_what_is_mended(round, devices, &tags, coverage);
        }
        let mut any = false;
        // Where one member more than covered has failed, no other fault occurs.
        let is_calm = matches!(round.beyond, Some(Beyond::Fails(_)));
        for (slot, does) in round.members.iter().enumerate().take(self.culprits.len()).filter(|_| !is_calm) {
            let culprit = &mut self.culprits[slot];
            let device = &devices[self.places[culprit.member]];
            let seed = round.seed.rotate_right(13 * slot as u32);
            let mut damaged = 0;
            for (kind, count) in [FaultKind::Rot, FaultKind::DeadSector].into_iter().zip(does.wounds) {
                damaged += device.wound(kind, count, seed.rotate_left(11), &|tag| tags.contains(&tag)).len();
            }
            if does.rots {
                device.rot(seed.rotate_left(5));
            }
            if does.dies {
                device.die(seed.rotate_left(17));
            }
            let is_damaged = damaged > 0 || does.rots || does.dies;
            culprit.is_clean &= !is_damaged;
            any |= is_damaged || does.faults.iter().any(|faults| !faults.is_empty());
        }
        any
    }

    /// Faults of one member more than the redundancy covers: requests may fail then. No further faults until all members are complete
    /// again.
    fn fail_one_more(&mut self, faults: &[Fault], seed: u64) -> Vec<Fault> {
        if !self.is_array() || self.culprits.iter().any(|culprit| !culprit.is_clean) {
            return Vec::new();
        }
        let member = self.next_after(seed as usize % self.places.len());
        let device = self.places[member];
        self.must_recover = true;
        // Unreadable data of one member leaves unrecorded gaps in the rebuild of another.
        let is_known = |fault: &&Fault| !matches!(fault.kind, FaultKind::ReadError | FaultKind::DeadSector);
        faults.iter().filter(is_known).map(|fault| Fault { device, ..*fault }).collect()
    }

    /// Makes one block more than parity covers unreadable in some rows: host data in these rows may be lost, and nothing else. True where
    /// there was such a row.
    fn kill_rows(
        &mut self,
        (count, seed): (usize, u64),
        devices: &[SimDevice],
        memory: &mut Memory,
        coverage: &mut Coverage,
    ) -> bool {
        let Several::Array { parity, .. } = &self.several else { return false };
        let (data, parity) = (parity.redundancy.data, parity.redundancy.parity);
        if !self.is_plain {
            return false;
        }
        let held = memory.oracle.held_tags();
        let mut random = Random::new(seed);
        let mut has_killed = false;
        for _ in 0..count {
            let first = random.index(self.places.len());
            let mut blocks = devices[self.places[first]].blocks_with(&|tag| held.contains(&tag));
            if blocks.is_empty() {
                continue;
            }
            let block = blocks.swap_remove(random.index(blocks.len()));
            // A row lies at the same place of all members. Other contents of a row that is not full, or holds something else, are unknown.
            let tags: Option<Vec<Vec<u32>>> = self.places.iter().map(|&at| devices[at].tags_at(block)).collect();
            let Some(tags) = tags.filter(|tags| tags.iter().filter(|tags| tags.len() == 8).count() >= data) else {
                continue;
            };
            for turn in 0..=parity {
                devices[self.places[(first + turn) % self.places.len()]].kill(block);
            }
            tags.into_iter().flatten().for_each(|tag| memory.oracle.damaged(tag, true));
            coverage.count("rows of an array damaged beyond parity");
            has_killed = true;
        }
        has_killed
    }

    /// Whether a member is present when the device is assembled.
    pub fn is_there(&self, member: usize) -> bool {
        if let Some(away) = &self.away {
            return !away.contains(&member);
        }
        match self.culprits.iter().find(|culprit| culprit.member == member) {
            Some(culprit) => !culprit.is_absent,
            None => !self.is_alone,
        }
    }

    /// Removes as many members as redundancy allows, or returns the removed ones.
    pub fn lose(&mut self, seed: Option<u64>) {
        let count = match &self.several {
            Several::Mirror => self.places.len() - 1,
            Several::Array { parity, .. } => parity.redundancy.parity,
        };
        self.away = seed.map(|seed| {
            let mut random = Random::new(seed);
            let mut members: Vec<usize> = (0..self.places.len()).collect();
            (0..count).map(|_| members.swap_remove(random.index(members.len()))).collect()
        });
    }

    /// Whether a member may hold wrong data.
    pub fn is_hurt(&self) -> bool {
        self.culprits.iter().any(|culprit| !culprit.is_clean)
    }

    /// Whether silent errors on a member can be found: with several culprits only where parity suffices.
    fn may_rot(&self, slot: usize) -> bool {
        match &self.several {
            Several::Mirror => true,
            Several::Array { parity, .. } => {
                // With one block of parity a row named in the log is completed from what is read, and compressed blocks beside what an
                // opening rewrites get parity as they lie (docs/parity.md, "Limits").
                let is_verified = parity.redundancy.parity == 1 && !self.is_plain && self.end == Some(End::Stop);
                // At rest no write is torn beside rot.
                is_verified || slot < parity.liars && matches!(self.end, Some(End::Rest | End::Stop))
            }
        }
    }

    /// Updates the state of an array's bands.
    pub fn know(&mut self, bands: &[BandRoot]) {
        let Several::Array { shape, .. } = &self.several else { return };
        let whole_rows = |band: &BandRoot| match band.state {
            BandState::Free => 0,
            BandState::Open => u64::from(band.written) / (shape.data as u64 * BLOCK_GRAINS),
            BandState::Closed => shape.band_rows(),
        };
        self.whole_rows = bands.iter().map(whole_rows).collect();
    }

    /// Rows named in the array's log.
    pub fn logged_rows(&self, devices: &[SimDevice]) -> BTreeSet<u64> {
        let Several::Array { shape, .. } = &self.several else { return BTreeSet::new() };
        let log = shape.head_bytes..shape.head_bytes + u64::from(shape.log_slots) * SLOT_BYTES;
        let entries = self.places.iter().flat_map(|&at| devices[at].places_with(log.clone(), SLOT_BYTES, ENTRY));
        entries.filter_map(|entry| Some(u64::from_le_bytes(entry.get(ENTRY_ROW)?.try_into().ok()?))).collect()
    }

    /// Sectors of a member's data in complete rows of an array.
    fn in_whole_rows(&self, member: usize, shape: &ArrayShape, devices: &[SimDevice]) -> Vec<u64> {
        // With one block of parity, a start completes these rows from what it reads (docs/parity.md, "Limits").
        let logged = if shape.parity == 1 { self.logged_rows(devices) } else { BTreeSet::new() };
        let is_whole = |offset_bytes| {
            let Some(row) = shape.row_of_data(member, offset_bytes) else { return false };
            let (band, within) = (row / shape.band_rows(), row % shape.band_rows());
            self.whole_rows.get(band as usize).is_some_and(|&rows| within < rows) && !logged.contains(&row)
        };
        devices[self.places[member]].sectors_of(&|offset_bytes, _, tag| tag != Some(0) && is_whole(offset_bytes))
    }

    /// Sectors of a member that a scrub examines: host blocks and leaves of the map. In an array only those in rows full of host blocks,
    /// because in other rows a write may go beside rot before anybody reads it (docs/parity.md, "Limits"). The sectors of compressed blocks
    /// are unknown: then everything in rows that are no longer written.
    fn looked_at(&self, member: usize, devices: &[SimDevice], tags: &BTreeSet<u32>) -> Vec<u64> {
        if let Several::Array { shape, .. } = &self.several
            && !self.is_plain
        {
            return self.in_whole_rows(member, shape, devices);
        }
        let is_page = |begin: &[u8]| !self.is_array() && PAGES.iter().any(|page| begin.starts_with(page));
        let sectors = devices[self.places[member]].sectors_of(&|_, begin, tag| {
            let is_hosts = tag.is_some_and(|tag| tags.contains(&tag));
            is_hosts || is_page(begin)
        });
        let Several::Array { shape, .. } = &self.several else { return sectors };
        let mut full = BTreeMap::new();
        let mut is_full = |block: u64| {
            *full.entry(block).or_insert_with(|| {
                let in_row =
                    (self.places.iter().enumerate()).filter(|(member, _)| shape.has_data(*member, block * 4096));
                in_row.map(|(_, &at)| devices[at].tags_at(block)).all(|tags| tags.is_some_and(|tags| tags.len() == 8))
            })
        };
        let has_data = |sector: &u64| shape.has_data(member, sector / 8 * 4096);
        sectors.into_iter().filter(|sector| has_data(sector) && is_full(sector / 8)).collect()
    }

    /// Damages sectors of a faulty member that a scrub can repair. Returns how many.
    fn damage_one(
        &mut self,
        slot: usize,
        [rotten, dead]: [usize; 2],
        seed: u64,
        devices: &[SimDevice],
        tags: &BTreeSet<u32>,
    ) -> u64 {
        let member = self.culprits[slot].member;
        let mut sectors = self.looked_at(member, devices, tags);
        let mut random = Random::new(seed);
        let rotten = if self.may_rot(slot) { rotten } else { 0 };
        let kinds = [(FaultKind::Rot, rotten), (FaultKind::DeadSector, dead)];
        let mut damaged = 0;
        let most = sectors.len();
        for kind in kinds.into_iter().flat_map(|(kind, count)| std::iter::repeat_n(kind, count.min(most))) {
            if !sectors.is_empty() {
                let sector = sectors.swap_remove(random.index(sectors.len()));
                devices[self.places[member]].hurt(kind, sector, random.next_u64());
                damaged += 1;
            }
        }
        let culprit = &mut self.culprits[slot];
        if damaged > 0 {
            culprit.is_mendable = culprit.is_clean || culprit.is_mendable;
            culprit.is_clean = false;
        }
        damaged
    }

    /// Damages faulty members after a round by rot or unreadable sectors; true where something was damaged.
    fn damage_what_is_mended(
        &mut self,
        round: &Round,
        devices: &[SimDevice],
        tags: &BTreeSet<u32>,
        coverage: &mut Coverage,
    ) -> bool {
        if !self.is_whole {
            return false;
        }
        let mut damaged = 0;
        for (slot, does) in round.members.iter().enumerate().take(self.culprits.len()) {
            damaged += self.damage_one(slot, does.wounds, round.seed.rotate_right(13 * slot as u32), devices, tags);
        }
        coverage.count_all("sectors of members damaged where a scrub looks", damaged);
        damaged > 0
    }

    /// Rots sectors of a member while the pool is used. Returns how many.
    pub fn rot(
        &mut self,
        slot: usize,
        (count, seed): (usize, u64),
        devices: &[SimDevice],
        tags: &BTreeSet<u32>,
        view: &MirrorView,
    ) -> u64 {
        let is_whole = !view.status().is_degraded();
        if !is_whole || !self.is_scrubbed || self.must_recover || slot >= self.culprits.len() {
            return 0;
        }
        self.damage_one(slot, [count, 0], seed, devices, tags)
    }

    /// A scrub has examined everything since the last damage, with all members complete. True where it repaired something and no member
    /// holds wrong data now.
    pub fn was_scrubbed(&mut self) -> bool {
        let mut was_hurt = false;
        for culprit in self.culprits.iter_mut().filter(|culprit| !culprit.is_clean && culprit.is_mendable) {
            (culprit.is_clean, was_hurt) = (self.is_whole, true);
        }
        was_hurt && !self.is_hurt()
    }
}
