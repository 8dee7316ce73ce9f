//! A pool's whole life: rounds of use, each ended by a power cut or a clean stop, each begun by recovery.

use crate::base::BaseImage;
use crate::coverage::Coverage;
use crate::device::{Behaviour, SimDevice, Timing};
use crate::fault::FaultKind;
use crate::members::{Members, joining, views};
use crate::order::Places;
use crate::power::Power;
use crate::scenario::{Beyond, End, Kind, Round, Scenario, Shape};
use crate::world::{FIRST, Halt, Memory, World, harmful_strikes, misreads, plan_faults, plan_holds};
use forebay_block::{DiskId, VirtualClock};
use forebay_model::preset::Drive;
use forebay_prism::{ClassSpec, ClassTable, Place};
use forebay_volume::layout::band_summary::{BandShape, PAGE_ENTRIES};
use forebay_volume::layout::plan::{PoolOptions, plan};
use forebay_volume::layout::root::BandRoot;
use forebay_volume::recovery::{OpenError, RecoveryReport, format, format::NewDisk, open};
use forebay_volume::{Devices, Engine, EngineOptions, verify::verify};
use std::collections::BTreeMap;

/// Ways to lose members that are tried after a scrub.
const LOSSES: u32 = 4;

/// When a life begins, in nanoseconds.
const BEGIN_NS: u64 = 1_000_000_000_000_000;

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// In which round, from 0.
    pub round: usize,
    /// What was being done.
    pub doing: String,
    /// What is wrong.
    pub what: String,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "round {}, {}: {}", self.round, self.doing, self.what)
    }
}

/// How a life went.
#[derive(Debug, Default)]
pub struct Lived {
    /// What it met.
    pub coverage: Coverage,
    /// What broke, if anything.
    pub failure: Option<Failure>,
    /// What happened, where it was asked for.
    pub log: Vec<String>,
}

struct Life<'a> {
    shape: &'a Shape,
    devices: Vec<SimDevice>,
    members: Members,
    clock: VirtualClock,
    power: Power,
    memory: Memory,
    coverage: Coverage,
    log: Option<Vec<String>>,
    /// Devices have lied: the pool may refuse to open and may answer with errors, but never with what is wrong.
    is_tainted: bool,
    /// Recovery could not read what it had to verify: it keeps such blocks rather than an older version of them, and
    /// reads of them may fail for good.
    may_be_damaged: bool,
    /// A leaf of the map that could not be read was done without while the pool was used: what it named of space stays in use.
    has_lost_space: bool,
    /// A failed flush has lost blocks for good: what hosts have there is damaged until it is written anew.
    has_lost_blocks: bool,
    /// Hosts' blocks were damaged at rest: verification finds them.
    is_wounded: bool,
    /// The round that has ended has put right what was wrong on members.
    is_mended: bool,
}

/// Why a pool was not opened.
#[derive(Clone)]
struct Refused {
    what: String,
    /// What was written last cannot be read: whoever accepts that opens it all the same.
    is_unread: bool,
}

/// Whether a life goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    NextRound,
    End,
}

/// Lives a scenario.
#[must_use]
pub fn live(scenario: &Scenario, with_log: bool) -> Lived {
    let mut life = match Life::begin(&scenario.shape, with_log) {
        Ok(life) => life,
        Err(what) => {
            let failure = Failure { round: 0, doing: "formatting".into(), what };
            return Lived { failure: Some(failure), ..Lived::default() };
        }
    };
    let mut failure = None;
    for (number, round) in scenario.rounds.iter().enumerate() {
        life.say(|| {
            let devices = if round.stays_on { ", devices stay on" } else { "" };
            let (steps, end, faults) = (round.steps.len(), round.end, &round.faults);
            let members =
                if round.members.is_empty() { String::new() } else { format!(", members {:?}", round.members) };
            format!("round {number}: {steps} steps, {end:?}{devices}, faults {faults:?}{members}")
        });
        let is_last = number + 1 == scenario.rounds.len();
        match life.round(round, is_last) {
            Ok(After::NextRound) => {}
            Ok(After::End) => break,
            Err((doing, what)) => {
                failure = Some(Failure { round: number, doing: doing.to_owned(), what });
                break;
            }
        }
    }
    Lived { coverage: life.coverage, failure, log: life.log.unwrap_or_default() }
}

/// Drives whose times modelled lives have, of the fast and of the capacity tier.
const MODELS: [&str; 2] = ["p4800x", "qlc"];
/// Their size in bytes: no smaller flash drive has the preset's parts.
const MODEL_BYTES: u64 = 256 << 20;

/// Times of a modelled drive; it is larger than the simulated device, whose contents it does not hold.
fn modelled(name: &str, seed: u64) -> Timing {
    let drive = Drive::named(name).and_then(|drive| drive.scaled(MODEL_BYTES)).and_then(|drive| drive.build(seed));
    // A test holds that they can be built; where not, only their times are missed.
    drive.map_or(Timing::Between(1000, 100_000), Timing::Model)
}

/// Whether the pool has noted what is durable when the power fails.
fn is_at_rest(round: &Round) -> bool {
    matches!(round.end, End::Rest | End::Stop)
}

type Wrong = (&'static str, String);

/// Classes of which all or none are compressed, and all or none cached.
fn classes(shape: &Shape) -> Vec<ClassSpec> {
    let compress = shape.compress();
    let mut classes = plain_classes(shape.kind);
    classes.push(ClassSpec::new("cold", Place::Stage));
    // Of half of all shapes what is read is cached.
    let read_cache = (shape.frames / 3).is_multiple_of(2);
    classes.iter_mut().for_each(|class| (class.compress, class.read_cache) = (compress, read_cache));
    classes
}

fn plain_classes(kind: Kind) -> Vec<ClassSpec> {
    let of = |name: &str, place, share, rule: &str| ClassSpec {
        share,
        rules: vec![rule.to_owned()],
        ..ClassSpec::new(name, place)
    };
    let bulk = ClassSpec::new("bulk", Place::Capacity);
    if kind == Kind::Naming {
        vec![bulk, of("kept", Place::Fast, 0.3, "path:/kept/*"), of("passing", Place::Stage, 1.0, "path:/passing/*")]
    } else {
        vec![bulk]
    }
}

impl<'a> Life<'a> {
    fn begin(shape: &'a Shape, with_log: bool) -> Result<Self, String> {
        let (clock, power) = (VirtualClock::default(), Power::default());
        // Room for steps back.
        clock.advance_to(BEGIN_NS);
        let geometries = shape.geometries();
        let mut devices: Vec<SimDevice> = geometries
            .iter()
            .enumerate()
            .map(|(at, geometry)| SimDevice::new(&format!("d{at}"), geometry.clone(), &clock, &power))
            .collect();
        let members = Members::new(shape)?;
        devices.extend(members.others(&clock, &power));
        let options = PoolOptions {
            name: "simulated".into(),
            band_bytes: Some(shape.band_bytes),
            journal_bytes: Some(shape.journal_bytes),
            is_mirrored: shape.members > 1,
            bands_offset_bytes: members.bands_offset_bytes(),
        };
        let capacity = members.capacity_of_pool(&geometries[1..]);
        let uuids: Vec<[u8; 16]> = (1..=geometries.len() as u8).map(|at| [at; 16]).collect();
        let superblock = plan(&options, &geometries[0], &capacity, [7; 16], &uuids[..=capacity.len()])
            .map_err(|error| error.to_string())?;
        let table = ClassTable::from_configured(&classes(shape)).map_err(|error| error.to_string())?;
        let mut memory = Memory::new();
        memory.is_packed = shape.kind == Kind::Packed;
        let blocks = shape.base_blocks();
        let base = blocks.map(|blocks| BaseImage::new(blocks, &clock, |count| memory.new_tags(count)));
        base.iter().for_each(|base| base.lies_under(DiskId(1), &mut memory.oracle));
        memory.bases.extend(base.iter().map(|base| (1, base.clone())));
        let disks =
            [NewDisk { name: FIRST.into(), size_bytes: shape.disk_bytes, base: base.as_ref().map(BaseImage::base) }];
        format(&mut joining::create(&members, &devices), &superblock, table, &disks, shape.options())
            .map_err(|error| error.to_string())?;
        devices.iter().for_each(SimDevice::write_back);
        devices
            .iter()
            .enumerate()
            .for_each(|(at, device)| device.know(Places::of(&superblock, members.index_in_pool(at))));
        let log = with_log.then(Vec::new);
        Ok(Self {
            shape,
            devices,
            members,
            clock,
            power,
            memory,
            coverage: Coverage::default(),
            log,
            is_tainted: false,
            may_be_damaged: false,
            has_lost_space: false,
            has_lost_blocks: false,
            is_wounded: false,
            is_mended: false,
        })
    }

    fn say(&mut self, what: impl FnOnce() -> String) {
        if let Some(log) = &mut self.log {
            log.push(what());
        }
    }

    fn switch_on(&self, round: &Round) {
        self.power.restore();
        for (at, device) in self.devices.iter().enumerate() {
            let tier = self.members.index_in_pool(at).min(1);
            let gives_up = matches!(self.shape.kind, Kind::Failing | Kind::Forgetting | Kind::Changing);
            let &Round { after_discard, keep, .. } = round;
            let stays_on = round.stays_on || self.shape.is_over_bucket && tier == 0;
            let behaviour = Behaviour { after_discard, keep, gives_up, stays_on };
            let seed = round.seed ^ (at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let (least, most) = round.timing_ns[tier];
            let timing = match self.shape.is_modelled {
                true => modelled(MODELS[tier], seed),
                false => Timing::Between(least, most),
            };
            device.start(seed, timing, behaviour);
        }
    }

    fn cut_power(&self) {
        self.devices.iter().for_each(SimDevice::power_cut);
    }

    fn round(&mut self, round: &Round, is_last: bool) -> Result<After, Wrong> {
        let round = &self.members.begin(round, &mut self.devices, (&self.clock, &self.power), &mut self.coverage);
        if round.beyond == Some(Beyond::TooFew) {
            self.expect_refusal(round)?;
        }
        for &effects in &round.recovery_cuts {
            self.switch_on(round);
            self.power.fail_after(u64::from(effects));
            let opened = self.open_again(false);
            self.look_for_doubt();
            let is_cut = self.power.is_off();
            if let Err(Refused { what, is_unread }) = &opened {
                let is_known = is_cut || self.is_tainted || *is_unread && self.may_be_unread();
                if !is_known {
                    return Err(("opening the pool", what.clone()));
                }
            }
            drop(opened);
            self.cut_power();
            if is_cut {
                self.coverage.count("power cuts in recovery");
                self.say(|| format!("power cut in recovery after {effects} effects"));
            }
        }
        if self.use_pool(round)? == After::End {
            return Ok(After::End);
        }
        if round.is_beyond_judgement() {
            self.look_again(round)?;
            return Ok(After::End);
        }
        if std::mem::take(&mut self.is_mended) {
            self.expect_whole_without_others(round)?;
        }
        let damaged = self.members.damage(round, &self.devices, &mut self.memory, &mut self.coverage);
        // What a scrub puts right is no longer wrong after it.
        self.is_wounded |= damaged && !self.shape.kind.is_scrubbed();
        if round.rots {
            self.rot(round);
        }
        self.wound(round);
        if round.verify {
            self.verify(round)?;
        }
        if is_last {
            self.look_again(round)?;
        }
        Ok(After::NextRound)
    }

    /// With fewer members than are needed it is not opened, and nothing is changed: what follows holds that.
    fn expect_refusal(&mut self, round: &Round) -> Result<(), Wrong> {
        self.switch_on(round);
        let refused = joining::expect_refusal(&mut self.members, &self.devices, &mut self.coverage);
        self.cut_power();
        refused.map_err(|what| ("opening the pool with too few members", what))
    }

    /// Opens the pool, to be cut off.
    fn open_again(&mut self, accepts_loss: bool) -> Result<(Engine, RecoveryReport, Devices), Refused> {
        let joined = joining::join(&mut self.members, &self.devices, true);
        let mut devices = joined.map_err(|what| Refused { what, is_unread: false })?;
        match self.open(&mut devices, accepts_loss) {
            Ok((engine, report)) => Ok((engine, report, devices)),
            // What is missing may have what the others have lost: it is brought back.
            Err(OpenError::Late { .. } | OpenError::UnreadData { .. }) if joining::come_back(&mut self.members) => {
                self.coverage.count("openings refused for a member that may have more");
                drop(devices);
                self.open_again(accepts_loss)
            }
            Err(error) => {
                Err(Refused { what: error.to_string(), is_unread: matches!(error, OpenError::UnreadData { .. }) })
            }
        }
    }

    /// What an array says may be lost, or has lost: requests may fail from then on, and never be answered with what is wrong.
    fn look_for_doubt(&mut self) {
        let rows = self.members.rows_in_doubt();
        self.coverage.count_all("rows of an array in doubt", rows);
        let has_lost = rows > 0 && self.members.may_be_in_doubt() || self.members.has_lost_rows();
        self.may_be_damaged |= has_lost;
        self.is_wounded |= has_lost;
    }

    fn open(&self, devices: &mut Devices, accepts_loss: bool) -> Result<(Engine, RecoveryReport), OpenError> {
        // No two openings between which anything was written have the same.
        let opening = self.power.effects() + 1;
        open(devices, 1, &classes(self.shape), EngineOptions { opening, accepts_loss, ..self.shape.options() })
    }

    /// A bit rots, without power.
    fn rot(&mut self, round: &Round) {
        let at = match round.seed % 4 {
            0 if self.devices.len() > 1 => 1 + (round.seed / 4) as usize % (self.devices.len() - 1),
            _ => 0,
        };
        let (byte, tag) = self.devices[at].rot(round.seed);
        self.coverage.count("bits that rotted at rest");
        self.say(|| format!("a bit of byte {byte} of device {at} rots, of {tag:?}"));
        match tag {
            // One block is concerned, and no other has an excuse.
            Some(tag) => {
                self.memory.oracle.damaged(tag, is_at_rest(round));
                self.is_wounded = true;
            }
            None => self.is_tainted = true,
        }
    }

    /// Hosts' blocks are damaged, without power: those that they hold now, for what nobody reads any more is no news.
    fn wound(&mut self, round: &Round) {
        for (at, wound) in round.wounds.iter().enumerate() {
            let Some(device) = self.devices.get(wound.device) else { continue };
            let tags = self.memory.oracle.held_tags();
            let seed = round.seed.rotate_left(7 + at as u32);
            let damaged = device.wound(wound.kind, wound.count, seed, &|tag| tags.contains(&tag));
            self.say(|| format!("{} of device {}, where there was {damaged:x?}", wound.kind.name(), wound.device));
            for tag in damaged {
                self.coverage.count("blocks damaged at rest");
                self.memory.oracle.damaged(tag, is_at_rest(round));
                self.is_wounded = true;
            }
        }
    }

    /// Opens the pool; `None` where devices that failed or lied are the reason that it cannot be.
    fn switch_on_and_open(
        &mut self,
        round: &Round,
        accepts_loss: bool,
    ) -> Result<Option<(Engine, RecoveryReport, Devices)>, Wrong> {
        let without_faults = || Round { opening_faults: Vec::new(), ..round.clone() };
        self.switch_on(round);
        let (before, unread) = (harmful_strikes(&self.devices), self.unread());
        let misread = misreads(&self.devices);
        plan_faults(&self.devices, &round.opening_faults);
        let opened = self.open_again(accepts_loss);
        self.look_for_doubt();
        let misread = misreads(&self.devices) > misread;
        // Where a misread is the reason, nothing is lost: the next opening succeeds.
        let have_failed = harmful_strikes(&self.devices) > before || misread && opened.is_err();
        if have_failed {
            self.coverage.count("recoveries in which devices failed");
        }
        self.may_be_damaged |= self.unread() > unread;
        match opened {
            Ok(opened) => Ok(Some(opened)),
            Err(Refused { what, .. }) if have_failed => {
                self.say(|| format!("devices failed while the pool was opened: {what}"));
                self.coverage.count("recoveries that devices made fail");
                self.cut_power();
                self.switch_on_and_open(&without_faults(), accepts_loss)
            }
            // A sector stays unreadable, and whoever waits for it waits for ever.
            Err(Refused { what, is_unread: true }) if !accepts_loss && self.may_be_unread() => {
                self.say(|| format!("opened without what cannot be read: {what}"));
                self.coverage.count("openings without what was written last and cannot be read");
                self.cut_power();
                self.switch_on_and_open(&without_faults(), true)
            }
            Err(Refused { what, .. }) if self.is_tainted => {
                self.say(|| format!("the pool refuses: {what}"));
                self.coverage.count("pools refused after devices lied");
                Ok(None)
            }
            Err(Refused { what, .. }) => Err(("opening the pool", what)),
        }
    }

    fn use_pool(&mut self, round: &Round) -> Result<After, Wrong> {
        let strikes_before = harmful_strikes(&self.devices);
        let Some((engine, report, list)) = self.switch_on_and_open(round, false)? else { return Ok(After::End) };
        // A device that failed while the pool was opened may go on failing.
        let opening_failed = harmful_strikes(&self.devices) > strikes_before;
        self.coverage.count("recoveries");
        if report.dropped_blocks > 0 {
            self.coverage.count("recoveries that dropped blocks");
        }
        if report.holes > 0 {
            self.coverage.count("recoveries with holes in the journal");
        }
        let before = self.struck();
        let mut world = World::new(engine, list, &self.devices, &mut self.memory, &self.clock, &self.power);
        world.lie_over();
        world.members = Some(&mut self.members);
        world.log = self.log.take();
        world.names_files = self.shape.kind == Kind::Naming;
        world.makes_good = self.shape.kind == Kind::Forgetting;
        world.is_over_bucket = self.shape.is_over_bucket;
        world.connect(u64::from(round.connections));
        if self.shape.kind.is_scrubbed() {
            world.judge_scrubs();
        }
        world.is_damaged = self.is_tainted || self.may_be_damaged;
        world.errors_allowed = world.is_damaged || opening_failed;
        let said = Self::inhabit(&mut world, round, &mut self.coverage);
        let (mut log, activity, is_open) = (world.log.take(), world.activity(), world.is_disk_change_open());
        if let Some(log) = &mut log {
            log.push(format!("the end of the round finds {activity:?}\n{}", world.pool.engine.describe()));
        }
        let status = world.pool.engine.status();
        self.coverage.count_all("blocks copied of a base", world.copied_of_base);
        self.coverage.count_all("bases detached", world.bases_detached);
        self.coverage.count_all("failed flushes made good", status.counters.flushes_made_good);
        let lost_leaves = status.counters.damaged_pages;
        self.coverage.count_all("leaves lost while the pool was used", lost_leaves);
        self.coverage.count_all("reads of cached blocks", status.read_cache.hit_blocks);
        self.coverage.count_all("cached blocks from before a restart", status.read_cache.restored_blocks);
        world.met.iter().for_each(|(what, &times)| self.coverage.count_all(what, times));
        let changes: Vec<&str> = world.jobs_in_progress().collect();
        world.scrub_counts().into_iter().for_each(|(what, times)| self.coverage.count_all(what, times));
        world.give_up();
        let (several, has_seen_all) = (views(&world.pool.devices), world.has_seen_all());
        let bands = world.pool.engine.bands().to_vec();
        drop(world);
        self.members.know(&bands);
        let groups = BandShape::new(self.shape.band_bytes).groups() as usize;
        let is_named_on_pages = |band: &&BandRoot| band.blocks as usize > groups * PAGE_ENTRIES;
        let on_pages = bands.iter().filter(is_named_on_pages).count();
        self.coverage.count_all("bands with names on several pages", on_pages as u64);
        self.look_for_doubt();
        let is_unread = |kind: &FaultKind| matches!(kind, FaultKind::ReadError | FaultKind::DeadSector);
        self.has_lost_blocks |=
            status.counters.flush_lost_blocks > 0 && self.struck().contains_key(&FaultKind::FlushError);
        self.has_lost_space |= lost_leaves > 0 && self.struck().keys().any(is_unread);
        self.members.ended(&several, &said, round, &mut self.coverage);
        self.is_mended = has_seen_all && is_at_rest(round) && self.members.was_scrubbed();
        self.log = log;
        match said {
            Ok(()) if round.end == End::Stop => self.coverage.count("clean stops"),
            // Also where nothing was in progress any more: caches may hold what was not flushed.
            Ok(()) | Err((_, Halt::PowerOff)) => {
                let in_flight = self.devices.iter().flat_map(SimDevice::in_flight);
                self.coverage.power_cut(&activity, in_flight);
                changes.into_iter().for_each(|what| self.coverage.count(what));
                if is_open {
                    self.coverage.count("power cuts with a change of disks not yet durable");
                }
                if matches!(round.end, End::PowerCutInStop { .. }) {
                    self.coverage.count("power cuts in a clean stop");
                }
            }
            Err((doing, Halt::Broken(what))) => return Err((doing, what)),
        }
        for (kind, strikes) in self.struck() {
            self.coverage.survived(kind, strikes - before.get(&kind).copied().unwrap_or(0));
        }
        self.cut_power();
        // What was planned and never struck is no excuse for anything.
        let lied =
            |(kind, strikes): (FaultKind, u64)| kind.is_silent() && strikes > before.get(&kind).copied().unwrap_or(0);
        self.is_tainted |= self.struck().into_iter().any(lied);
        Ok(After::NextRound)
    }

    /// Whether what was written last may be where it cannot be read.
    fn may_be_unread(&self) -> bool {
        let struck = self.struck();
        [FaultKind::DeadSector, FaultKind::ReadError].iter().any(|kind| struck.contains_key(kind))
    }

    /// How often devices could not be read, or were gone.
    fn unread(&self) -> u64 {
        let struck = self.struck();
        [FaultKind::ReadError, FaultKind::Vanish].iter().map(|kind| struck.get(kind).copied().unwrap_or(0)).sum()
    }

    fn inhabit(world: &mut World<'_>, round: &Round, coverage: &mut Coverage) -> Result<(), (&'static str, Halt)> {
        let found = world.find_second().and_then(|()| world.find_administered());
        found.map_err(|halt| ("looking for disks after recovery", halt))?;
        world.survey().map_err(|halt| ("reading what survived", halt))?;
        coverage.count("surveys");
        plan_faults(world.devices(), &round.faults);
        plan_holds(world.devices(), &round.holds);
        if round.is_beyond_judgement() {
            world.memory.oracle.be_lenient();
        }
        for step in &round.steps {
            world.step(step).map_err(|halt| ("requests", halt))?;
            world.settle(round.depth).map_err(|halt| ("requests", halt))?;
        }
        match round.end {
            End::PowerCut { effects } => world.run_out(effects).map_err(|halt| ("requests", halt)),
            End::Stop => world.stop().map_err(|halt| ("a clean stop", halt)),
            End::Rest => world.rest().map_err(|halt| ("a rest", halt)),
            End::PowerCutInStop { effects } => {
                world.settle(0).map_err(|halt| ("requests", halt))?;
                world.stop_until(effects).map_err(|halt| ("a clean stop", halt))
            }
        }
    }

    fn struck(&self) -> BTreeMap<FaultKind, u64> {
        let mut all = BTreeMap::new();
        for device in self.devices.iter().filter(|device| !device.is_covered()) {
            device.struck().into_iter().for_each(|(kind, strikes)| *all.entry(kind).or_default() += strikes);
        }
        all
    }

    /// Offline verification of what a power cut left finds nothing, unless devices have lied.
    fn verify(&mut self, round: &Round) -> Result<(), Wrong> {
        self.switch_on(round);
        let mut findings = Vec::new();
        let mut devices = joining::join(&mut self.members, &self.devices, false).map_err(|what| ("verifying", what))?;
        let summary = verify(&mut devices, 1, self.shape.options(), &mut |finding| findings.push(finding));
        // A sector may have died under a summary while a collection read it.
        let has_dead_sectors = self.struck().contains_key(&FaultKind::DeadSector);
        let is_hurt = self.is_wounded || self.shape.kind.is_scrubbed() && self.members.is_hurt();
        if self.is_tainted || is_hurt || has_dead_sectors {
            self.coverage.count("verifications of damaged pools");
            return Ok(());
        }
        summary.map_err(|error| ("verifying", error.to_string()))?;
        self.coverage.count("verifications");
        findings.retain(|finding| !self.is_known(&finding.what));
        if findings.is_empty() { Ok(()) } else { Err(("verifying", format!("{findings:?}"))) }
    }

    /// Whether verification may find this. What a lost map page named is not known any more, so neither is what it held; where all of that was
    /// discarded no block is damaged by it. What a failed flush lost is damaged.
    fn is_known(&self, what: &str) -> bool {
        let is_any = |words: &[&str]| words.iter().any(|word| what.contains(word));
        let is_space = is_any(&["in use by nothing", "its count says"]);
        let is_damage = is_any(&["damaged", "does not match its checksum"]);
        let is_damage_known = self.may_be_damaged || self.has_lost_blocks;
        let is_space_known = self.may_be_damaged || self.has_lost_space;
        is_damage && is_damage_known || is_space && is_space_known
    }

    /// After a scrub has looked at everything any members may be lost of which the others hold everything: what is left is whole.
    fn expect_whole_without_others(&mut self, round: &Round) -> Result<(), Wrong> {
        const DOING: &str = "verifying without members after a scrub";
        if self.is_tainted || self.is_wounded || self.may_be_damaged {
            return Ok(());
        }
        // One may have been left behind since the scrub ended: then what the others hold is not all of it twice.
        if !self.members.hold_everything() {
            return Ok(());
        }
        self.coverage.count("scrubs after which any members may be lost");
        for turn in 0..LOSSES {
            self.switch_on(round);
            self.members.lose(Some(round.seed.rotate_left(turn)));
            let mut findings = Vec::new();
            let joined = joining::join(&mut self.members, &self.devices, false);
            let mut devices = joined.map_err(|what| (DOING, what))?;
            let summary = verify(&mut devices, 1, self.shape.options(), &mut |finding| findings.push(finding));
            self.members.lose(None);
            summary.map_err(|error| (DOING, error.to_string()))?;
            findings.retain(|finding| !self.is_known(&finding.what));
            if !findings.is_empty() {
                return Err((DOING, format!("{findings:?}")));
            }
        }
        Ok(())
    }

    /// The pool is opened once more and all of it is read. Where devices lied it may refuse to open and may answer with
    /// errors, but it never answers with what was not written, and says so rather than panicking.
    fn look_again(&mut self, round: &Round) -> Result<(), Wrong> {
        let round = Round { opening_faults: Vec::new(), ..round.clone() };
        let Some((engine, _, list)) = self.switch_on_and_open(&round, false)? else { return Ok(()) };
        let errors_allowed = self.is_tainted || self.may_be_damaged;
        let mut world = World::new(engine, list, &self.devices, &mut self.memory, &self.clock, &self.power);
        world.lie_over();
        (world.errors_allowed, world.is_damaged) = (errors_allowed, errors_allowed);
        let seen = match round.is_beyond_judgement() {
            true => world.survey(),
            false => world.find_second().and_then(|()| world.find_administered()).and_then(|()| world.survey()),
        };
        match seen {
            Ok(()) | Err(Halt::PowerOff) => Ok(()),
            Err(Halt::Broken(what)) => Err(("reading what is left", what)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_modelled_drives_can_be_built() {
        for name in MODELS {
            assert!(matches!(modelled(name, 1), Timing::Model(_)), "{name} has the times of no model");
        }
    }
}
