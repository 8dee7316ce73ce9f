//! What the engine and the server know of a mirror, and what they tell it: the mirror itself lies behind the device trait.

use super::former::Former;
use crate::layout::Id;
use crate::layout::member_label::{MemberLabel, fits};
use forebay_block::{Device, Geometry, lock};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Most bytes a second that a rebuild copies, unless it is set otherwise.
const REBUILD_BYTES_PER_S: u64 = 200 << 20;

/// What a member of a mirror holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// Everything.
    InSync,
    /// What was written since it was added, and what was copied to it.
    Rebuilding,
    /// It failed, or it is not there: what it holds is old.
    Out,
}

impl MemberState {
    /// Its name in output and messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::InSync => "in sync",
            Self::Rebuilding => "rebuilding",
            Self::Out => "out",
        }
    }
}

/// A member of a mirror.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberStatus {
    /// Path or URI; empty where no device is there.
    pub name: String,
    /// Its id.
    pub id: Id,
    /// What it holds.
    pub state: MemberState,
    /// Why it is out; `None` where it only waits to be rebuilt.
    pub why: Option<String>,
    /// Reads that failed.
    pub failed_reads: u64,
    /// Where no device is there, the one that is configured in its place.
    pub configured: Option<String>,
}

impl MemberStatus {
    /// Whether it is out only because its turn to be rebuilt has not come.
    #[must_use]
    pub fn waits_to_be_rebuilt(&self) -> bool {
        self.state == MemberState::Out && self.why.is_none()
    }

    /// Why it is out, for people and programs; `None` where it is not.
    #[must_use]
    pub fn why_out(&self) -> Option<&str> {
        self.why.as_deref().or(self.waits_to_be_rebuilt().then_some("waits to be rebuilt"))
    }
}

/// A mirror.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirrorStatus {
    /// Its members, in their order.
    pub members: Vec<MemberStatus>,
    /// Counts up with each change of which members hold everything.
    pub generation: u64,
    /// How far a rebuild is, in bytes.
    pub rebuilt_bytes: u64,
    /// Bytes of each member.
    pub size_bytes: u64,
    /// Blocks of 4 KiB that one member could not read and that were written again from another.
    pub mended_blocks: u64,
    /// Blocks of 4 KiB that no member could read when they were to be copied.
    pub unreadable_blocks: u64,
    /// Why no more writes are taken: a change of the members could not be made durable.
    pub broken: Option<String>,
}

impl MirrorStatus {
    /// Whether some member does not hold everything.
    #[must_use]
    pub fn is_degraded(&self) -> bool {
        self.members.iter().any(|member| member.state != MemberState::InSync)
    }
}

/// A device that is to replace a member that is out.
pub(super) struct Offer {
    pub name: String,
    pub id: Id,
    pub device: Box<dyn Device>,
    pub former: Option<Former>,
    /// It may be a device with requests in flight, and is taken when these have ended.
    pub waits: bool,
}

struct Shared {
    pool: Id,
    geometry: Geometry,
    has_offers: AtomicBool,
    offers: Mutex<VecDeque<Offer>>,
    not_taken: Mutex<Vec<String>>,
    has_doubted: AtomicBool,
    /// Members whose contents show that they are none any more, by their ids, and why.
    doubted: Mutex<Vec<(Id, String)>>,
    /// One bit for each member that waits for its rebuild.
    queued: AtomicU32,
    now_ns: AtomicU64,
    rebuild_bytes_per_s: AtomicU64,
    is_begun: AtomicBool,
    is_settled: AtomicBool,
    is_idle: AtomicBool,
    has_wanted: AtomicBool,
    wanted: Mutex<Option<MemberLabel>>,
    capacity: Mutex<(u64, bool)>,
    status: Mutex<MirrorStatus>,
    missing: Mutex<String>,
}

/// A handle to a mirror. On the path of requests each question costs the load of an atomic.
#[derive(Clone)]
pub struct MirrorView(Arc<Shared>);

impl MirrorView {
    pub(crate) fn new(status: MirrorStatus, pool: Id, geometry: Geometry) -> Self {
        Self(Arc::new(Shared {
            pool,
            geometry,
            has_offers: AtomicBool::new(false),
            offers: Mutex::default(),
            not_taken: Mutex::default(),
            has_doubted: AtomicBool::new(false),
            doubted: Mutex::default(),
            queued: AtomicU32::new(0),
            now_ns: AtomicU64::new(0),
            rebuild_bytes_per_s: AtomicU64::new(REBUILD_BYTES_PER_S),
            is_begun: AtomicBool::new(false),
            is_settled: AtomicBool::new(false),
            is_idle: AtomicBool::new(false),
            has_wanted: AtomicBool::new(false),
            wanted: Mutex::new(None),
            capacity: Mutex::new((0, false)),
            status: Mutex::new(status),
            missing: Mutex::new(String::new()),
        }))
    }

    /// How many members there are.
    #[must_use]
    pub fn members(&self) -> u8 {
        lock(&self.0.status).members.len() as u8
    }

    /// Which members there are, and what each holds.
    #[must_use]
    pub fn status(&self) -> MirrorStatus {
        lock(&self.0.status).clone()
    }

    /// Adds devices that were to be members and are none, with why: a missing member may be among them.
    pub fn set_left_out(&self, devices: &[(String, String)]) {
        let mut status = lock(&self.0.status);
        // A member with a name has a device. Of several absent ones it is not known which is which.
        let absent = |member: &&mut MemberStatus| member.state == MemberState::Out && member.name.is_empty();
        let mut absent: Vec<_> = status.members.iter_mut().filter(absent).collect();
        let configured = devices.first().filter(|_| (absent.len(), devices.len()) == (1, 1)).map(|(name, _)| name);
        for member in &mut absent {
            member.configured = configured.cloned();
            let left_out = devices.iter().map(|(name, why)| format!("; {name} was not taken for it: {why}"));
            member.why.iter_mut().for_each(|why| why.extend(left_out.clone()));
        }
    }

    /// Ids of members that held everything by the label that counted when the mirror was joined, and that were missing; empty where there
    /// were none.
    #[must_use]
    pub fn missing(&self) -> String {
        lock(&self.0.missing).clone()
    }

    pub(crate) fn set_missing(&self, missing: String) {
        *lock(&self.0.missing) = missing;
    }

    pub(crate) fn set_status(&self, change: impl FnOnce(&mut MirrorStatus)) {
        change(&mut lock(&self.0.status));
    }

    /// The pool whose fast tier it is.
    #[must_use]
    pub fn pool(&self) -> Id {
        self.0.pool
    }

    /// Offers a device for the place of a member that is out; whatever the device holds is lost. It is rebuilt as soon as no other is. Of
    /// several offers under one name the last counts. `former`: what the device was before, as its labels still say.
    ///
    /// # Errors
    /// Why it cannot be a member.
    pub fn offer(&self, name: String, id: Id, device: Box<dyn Device>, former: Option<Former>) -> Result<(), String> {
        self.may_take(device.geometry())?;
        let mut offers = lock(&self.0.offers);
        let rivals = offers.iter().filter(|other| other.name != name && !other.waits).count();
        if !self.has_place(&name, rivals) {
            return Err(
                "other devices were offered for all places: offer it again where those come to nothing".to_owned()
            );
        }
        let works = |member: &MemberStatus| member.name == name && member.state != MemberState::Out;
        if self.status().members.iter().any(works) {
            return Err("a member of this name works".to_owned());
        }
        offers.retain(|other| other.name != name);
        offers.push_back(Offer { name, id, device, former, waits: false });
        self.0.has_offers.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Whether a device of this name has a place when so many others are to get one.
    fn has_place(&self, name: &str, rivals: usize) -> bool {
        let queued = self.0.queued.load(Ordering::Relaxed);
        let status = lock(&self.0.status);
        let out = status.members.iter().enumerate().filter(|(_, member)| member.state == MemberState::Out);
        let (waiting, free): (Vec<_>, Vec<_>) = out.partition(|(number, _)| queued & 1 << number != 0);
        rivals < free.len() || waiting.iter().any(|(_, member)| member.name == name)
    }

    /// Whether it takes a device; to be asked before anything on the device is changed.
    ///
    /// # Errors
    /// Why not.
    pub fn may_take(&self, geometry: &Geometry) -> Result<(), String> {
        if !self.is_begun() {
            return Err("the pool is only read".to_owned());
        }
        let mirror = &self.0.geometry;
        fits(geometry, mirror.size_bytes, mirror.logical_block_bytes)?;
        if geometry.volatile_cache && (!mirror.volatile_cache || mirror.durable_writes && !geometry.durable_writes) {
            return Err(
                "it has a volatile write cache that the others have not: restart the server to add it".to_owned()
            );
        }
        let status = self.status();
        if status.broken.is_some() {
            return Err("it takes no writes any more: restart the server".to_owned());
        }
        if !status.members.iter().any(|member| member.state == MemberState::Out) {
            return Err(
                "all members are there, and work: restart the server to add one, or to put it in another's place"
                    .to_owned(),
            );
        }
        Ok(())
    }

    /// Whether devices were offered that are no members yet.
    pub(super) fn has_offers(&self) -> bool {
        self.0.has_offers.load(Ordering::Relaxed)
    }

    /// Changes which devices wait to be taken.
    pub(super) fn change_offers<T>(&self, change: impl FnOnce(&mut VecDeque<Offer>) -> T) -> T {
        let mut offers = lock(&self.0.offers);
        let changed = change(&mut offers);
        self.0.has_offers.store(!offers.is_empty(), Ordering::Relaxed);
        changed
    }

    /// A device that was offered is not taken: another one has the place.
    pub(super) fn not_taken(&self, name: String) {
        lock(&self.0.not_taken).push(name);
    }

    /// Devices that were offered and in whose places others were taken, since the last call.
    #[must_use]
    pub fn take_not_taken(&self) -> Vec<String> {
        std::mem::take(&mut *lock(&self.0.not_taken))
    }

    /// Leaves a member behind like one that has failed a write: its contents are not the pool's any more, although it reports no failure
    /// itself. Where the others do not hold everything it stays, as it may hold all that is left.
    pub fn leave_behind(&self, id: Id, why: String) {
        let mut doubted = lock(&self.0.doubted);
        if !doubted.iter().any(|(known, _)| *known == id) {
            doubted.push((id, why));
        }
        self.0.has_doubted.store(true, Ordering::Relaxed);
    }

    /// Members that are to be left behind, since the last call: their numbers, and why.
    pub(crate) fn take_doubted(&self) -> Vec<(usize, String)> {
        // Called in each iteration: a load costs nothing.
        if !self.is_begun() || !self.0.has_doubted.load(Ordering::Relaxed) {
            return Vec::new();
        }
        self.0.has_doubted.store(false, Ordering::Relaxed);
        let doubted = std::mem::take(&mut *lock(&self.0.doubted));
        let members = self.status().members;
        let number = |id: Id| members.iter().position(|member| member.id == id);
        doubted.into_iter().filter_map(|(id, why)| Some((number(id)?, why))).collect()
    }

    /// Members that wait for their rebuild: a bit for each.
    pub(super) fn set_queued(&self, members: u32) {
        self.0.queued.store(members, Ordering::Relaxed);
    }

    /// The names of the members' devices, in their order.
    pub(super) fn names(&self) -> Vec<String> {
        self.status().members.into_iter().map(|member| member.name).collect()
    }

    pub(crate) fn set_member(&self, number: usize, state: MemberState, why: Option<String>) {
        self.set_status(|status| (status.members[number].state, status.members[number].why) = (state, why));
    }

    /// Most bytes a second that a rebuild copies.
    pub fn set_rebuild_rate(&self, bytes_per_s: u64) {
        self.0.rebuild_bytes_per_s.store(bytes_per_s.max(1 << 20), Ordering::Relaxed);
    }

    pub(crate) fn rebuild_bytes_per_s(&self) -> u64 {
        self.0.rebuild_bytes_per_s.load(Ordering::Relaxed)
    }

    /// Sets the time, by which a rebuild keeps to its rate.
    pub fn tick(&self, now_ns: u64) {
        self.0.now_ns.store(now_ns, Ordering::Relaxed);
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.0.now_ns.load(Ordering::Relaxed)
    }

    /// Says that this is known to be the pool's mirror: from now on it takes changes, says in labels which members hold everything, mends
    /// and rebuilds. Until then, and where it was joined for reading, nothing is written.
    pub fn begin(&self) {
        self.0.is_begun.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_begun(&self) -> bool {
        self.0.is_begun.load(Ordering::Relaxed)
    }

    /// Says that recovery has made all members the same where it matters: any of them may be read from.
    pub fn settle(&self) {
        self.0.is_settled.store(true, Ordering::Relaxed);
    }

    /// Sets whether the pool waits for no device, and has looked at everything that devices have answered.
    pub(crate) fn set_idle(&self, is_idle: bool) {
        self.0.is_idle.store(is_idle, Ordering::Relaxed);
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.0.is_idle.load(Ordering::Relaxed)
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.0.is_settled.load(Ordering::Relaxed)
    }

    /// Asks for a label to be written to the capacity devices.
    pub(super) fn want(&self, label: MemberLabel) {
        *lock(&self.0.wanted) = Some(label);
        self.0.has_wanted.store(true, Ordering::Relaxed);
    }

    /// The label to be written to the capacity devices, given out once each time one is wanted.
    pub(super) fn take_wanted(&self) -> Option<MemberLabel> {
        // Called in each iteration of a pool: a load costs nothing.
        if !self.0.has_wanted.load(Ordering::Relaxed) || !self.0.has_wanted.swap(false, Ordering::Relaxed) {
            return None;
        }
        lock(&self.0.wanted).take()
    }

    /// Says that the capacity devices have a label with this serial, or could not take it.
    pub(super) fn capacity_has(&self, serial: u64, is_durable: bool) {
        *lock(&self.0.capacity) = (serial, is_durable);
    }

    /// The serial of the last such label, and whether it is durable.
    pub(super) fn capacity(&self) -> (u64, bool) {
        *lock(&self.0.capacity)
    }
}
