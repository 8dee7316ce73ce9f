//! Changes that are answered only when they are durable. Each advances step by step in the event loop.

use super::beside::Beside;
use super::configured::{name_exports, new_export};
use super::disk_names::{names, no_disk};
use super::snapshot::disks;
use crate::config::Config;
use crate::pool::{Budget, PoolBackend, base};
use crate::text::chain;
use anyhow::Context;
use forebay_block::{Device, DiskId};
use forebay_device::Target;
use forebay_export::{Export, ServerControl};
use forebay_volume::layout::base::Base;
use forebay_volume::{AdminError, Engine, Op, Request};
use serde_json::{Value, json};
use tracing::info;

/// How often shrinking a disk is tried again while blocks beyond its new end seem to be mapped.
const SHRINK_TRIES: u32 = 3;
/// Time limit of a job, in nanoseconds.
const TIMEOUT_NS: u64 = 90_000_000_000;

type OpenedBase = anyhow::Result<(Box<dyn Device>, Base)>;

/// The current step of a job.
enum Step {
    /// A thread opens a base and reads samples to identify it. This may be slow.
    OpenBase { new: NewDisk, opened: Beside<OpenedBase> },
    /// The change is made in memory; the job waits for the checkpoint that holds it.
    Durable(Checkpoint),
    /// The disk is marked for removal and no longer needs a base; the job waits for the checkpoint that records the removal.
    Leaves { disk: DiskId, checkpoint: Checkpoint },
    /// The disk's data is being discarded.
    Discard { disk: DiskId, token: u64 },
    /// The disk is removed as soon as a checkpoint has dropped its map.
    Remove { disk: DiskId },
    /// The leaf of the map at the disk's new end is being read, and a checkpoint drops discarded leaves behind it.
    Shrink { to: Shrink, token: u64, tries: u32 },
}

/// What came of looking at a step.
enum Progress {
    /// It is to be looked at again later.
    Wait,
    /// The next step can be looked at.
    Step,
    /// The job has ended, with this answer.
    End(Value),
}

/// The checkpoint that a job waits for.
#[derive(Clone, Copy)]
pub struct Checkpoint {
    /// Number of the first checkpoint that holds the change.
    number: u64,
}

impl Checkpoint {
    /// The first checkpoint that will hold a change made after this call. A checkpoint in progress will not hold it,
    /// so the one after that counts.
    pub fn after_change(engine: &Engine) -> Self {
        let ahead = if engine.checkpoint_pending() { 2 } else { 1 };
        Self { number: engine.checkpoint_number() + ahead }
    }

    /// Whether the checkpoint is complete, or has failed; `None` while it is neither.
    fn reached(self, engine: &Engine) -> Option<Result<(), String>> {
        if engine.checkpoint_number() >= self.number || !engine.checkpoint_pending() {
            return Some(Ok(()));
        }
        if engine.has_flush_failed() {
            // The failed flush may be repaired at any moment; the checkpoint follows then.
            return None;
        }
        if engine.checkpoint_failed() && !engine.capacity_side_failed() {
            let reason = engine.status().counters.last_checkpoint_error;
            let reason = reason.unwrap_or_else(|| "a device flush failed".to_owned());
            return Some(Err(format!("the change is made but not durable: the checkpoint failed ({reason})")));
        }
        None
    }
}

/// A disk that is to shrink.
#[derive(Clone)]
struct Shrink {
    name: String,
    /// Id and size of the disk at the time of the request.
    was: (DiskId, u64),
    size_bytes: u64,
}

impl Shrink {
    fn new(name: &str, size_bytes: u64, engine: &Engine) -> Result<Self, String> {
        let disk = engine.disk_named(name).ok_or_else(|| no_disk(name, &names(engine)))?;
        Ok(Self { name: name.to_owned(), was: (disk.id, disk.size_bytes), size_bytes })
    }

    /// Refuses where the disk was changed since the request.
    fn check(&self, engine: &Engine) -> Result<(), String> {
        let now = engine.disk_named(&self.name).map(|disk| (disk.id, disk.size_bytes));
        if now == Some(self.was) {
            return Ok(());
        }
        Err(format!("disk {:?} was changed meanwhile: look at `forebay disk list`, and try again", self.name))
    }

    /// Reads the leaf at the new end. Where `lets_go` is set, a checkpoint is requested, too, which drops the leaves
    /// of discarded data.
    fn prepare(self, backend: &mut PoolBackend, (tries, lets_go): (u32, bool)) -> Result<Step, String> {
        let (disk, end_bytes) = self.was;
        let (offset_bytes, len_bytes) =
            (self.size_bytes, end_bytes.saturating_sub(self.size_bytes).clamp(4096, 1 << 20));
        let op = Op::Status { max_extents: 1 };
        let request = Request::new(0, disk, offset_bytes, len_bytes, op);
        let token = backend.submit_own(request);
        if lets_go {
            backend.pool.engine.request_checkpoint(false);
        }
        Ok(Step::Shrink { to: self, token, tries })
    }
}

/// A disk to be added.
pub struct NewDisk {
    pub name: String,
    pub size_bytes: u64,
    pub is_exported: bool,
}

/// The answer of a job.
pub enum Answer {
    /// A value fixed when the job began.
    Known(Value),
    /// The list of disks when the job ends.
    Disks,
}

/// A change in progress.
pub struct Job {
    /// Number of the client that waits for the answer.
    pub client: u64,
    step: Step,
    answer: Answer,
    deadline_ns: u64,
    /// Change of the exports, made once the change of the disk is durable.
    publish: Option<Publish>,
    /// The disk that the job removes, with the name in the request.
    removes: Option<(DiskId, String)>,
}

/// A change of the exports that follows a change of the disks. It waits until that is durable: a client must not
/// write to a disk, or to a part of it, that a power cut would undo.
pub enum Publish {
    /// Exports a new disk, as the configuration says at that moment, which may have changed since the disk was added.
    Add { name: String, disk: DiskId, size_bytes: u64 },
    /// Changes the size of the disk's exports.
    Resize { disk: DiskId, size_bytes: u64 },
    /// Reports that a disk needs its base no longer.
    Detached { name: String },
}

impl Publish {
    fn now(self, backend: &mut PoolBackend, server: &mut ServerControl<'_>, config: &Config) -> Result<(), String> {
        match self {
            Self::Add { name, disk, size_bytes } => {
                if backend.pool.engine.disks().any(|found| found.id == disk && found.is_being_removed()) {
                    return Err(format!("disk {name:?} is not exported: it is being removed"));
                }
                let section = config.export_named(&name).filter(|export| config.export_disk(export) == name);
                let export = match section {
                    Some(section) => {
                        new_export(config, section, &backend.pool.engine).map_err(|error| chain(&error))?
                    }
                    None => {
                        let (access, description) = (config.access_by_default(), String::new());
                        Export { name, disk, size_bytes, read_only: false, tag: None, description, access }
                    }
                };
                if !export.access.nbd {
                    return Err(format!(
                        "disk {:?} is there, and is exported from the next start on: by its [[export]] it is a block device alone",
                        export.name
                    ));
                }
                server.exports().add(export).map_err(|error| error.to_string())?;
                name_exports(server.exports(), &mut backend.pool.engine);
            }
            Self::Resize { disk, size_bytes } => {
                let all = server.exports().iter();
                let names: Vec<String> =
                    all.filter(|(_, export)| export.disk == disk).map(|(_, export)| export.name.clone()).collect();
                for export in names {
                    server.resize(&export, size_bytes).map_err(|error| error.to_string())?;
                }
                backend.evidence.resized(disk, size_bytes);
            }
            Self::Detached { name } => {
                if backend.pool.engine.disk_named(&name).is_some_and(|disk| disk.base.is_some()) {
                    // For example where a failed flush has lost copied blocks meanwhile. Asking again gives the
                    // reason.
                    let why = backend.pool.engine.detach_base(&name).err().map(|error| format!(": {error}"));
                    return Err(format!("disk {name:?} has its base yet{}", why.unwrap_or_default()));
                }
                if let Some(error) = backend.pool.engine.capacity_side_error() {
                    return Err(format!(
                        "disk {name:?} does without its base, but the capacity-side checkpoint, which names it, could not be written: keep the base \
                         until `forebay status` shows no error of it ({error})"
                    ));
                }
                info!("disk {name} does without its base");
            }
        }
        Ok(())
    }
}

/// Discards all data of a disk.
fn discard(backend: &mut PoolBackend, disk: DiskId, len_bytes: u64) -> Step {
    let token = backend.submit_own(Request::new(0, disk, 0, len_bytes, Op::Discard));
    Step::Discard { disk, token }
}

impl Job {
    /// A job that waits for a checkpoint, then publishes and answers.
    pub fn durable(client: u64, checkpoint: Checkpoint, answer: Answer, now_ns: u64, publish: Option<Publish>) -> Self {
        Self { publish, ..Self::beginning(client, Step::Durable(checkpoint), answer, now_ns) }
    }

    /// A job that opens a base, adds a disk over it, waits for a checkpoint, then publishes and answers.
    pub fn add_over_base(client: u64, new: NewDisk, target: Target, now_ns: u64) -> Result<Self, String> {
        let (name, size_bytes) = (new.name.clone(), new.size_bytes);
        let opened = Beside::begin("base", move || base::open(&name, size_bytes, &target));
        let opened = opened.map_err(|error| chain(&error))?;
        let step = Step::OpenBase { new, opened };
        Ok(Self::beginning(client, step, Answer::Disks, now_ns))
    }

    /// A job that shrinks a disk, where everything beyond the new end was discarded.
    pub fn shrink(
        client: u64,
        (name, size_bytes): (&str, u64),
        backend: &mut PoolBackend,
        answer: Answer,
        now_ns: u64,
    ) -> Result<Self, String> {
        let step = Shrink::new(name, size_bytes, &backend.pool.engine)?.prepare(backend, (0, true))?;
        Ok(Self::beginning(client, step, answer, now_ns))
    }

    /// A job that removes a disk. It ends the disk's exports and durably renames the disk, so that no later start
    /// serves what is left of it. Then it discards the data and removes the disk. A disk whose removal was
    /// interrupted can also be named by its old name, unless another disk has it.
    pub fn remove_disk(
        client: u64,
        name: &str,
        backend: &mut PoolBackend,
        server: &mut ServerControl<'_>,
        answer: Answer,
        now_ns: u64,
    ) -> Result<Self, String> {
        let engine = &backend.pool.engine;
        let disk = engine.disk_to_remove(name).ok_or_else(|| {
            // The list includes disks whose removal was begun: these names remove the rest of them.
            no_disk(name, &engine.disks().map(|disk| disk.name.as_str()).collect::<Vec<_>>())
        })?;
        if let Some(reason) = backend.pool.engine.read_only_reason() {
            return Err(AdminError::ReadOnly(reason.to_owned()).to_string());
        }
        let id = disk.id;
        let exports: Vec<(u16, String)> = server
            .exports()
            .iter()
            .filter(|(_, export)| export.disk == id)
            .map(|(index, export)| (index, export.name.clone()))
            .collect();
        let users = super::users::of_disk(&exports, &backend.evidence.wanted(id), server);
        if !users.is_empty() {
            return Err(format!("disk {name:?} is in use, and nothing was removed: {}", users.join("; ")));
        }
        for (_, export) in exports {
            // The export was found above, so this cannot fail.
            let _ = server.exports().remove(&export);
        }
        let checkpoint = Checkpoint::after_change(&backend.pool.engine);
        backend.pool.engine.begin_removal(id);
        // Discarding a disk over a base would write records of zeros, which occupy the map; without its base the disk
        // becomes empty.
        backend.pool.engine.abandon_base(id);
        let step = Step::Leaves { disk: id, checkpoint };
        Ok(Self { removes: Some((id, name.to_owned())), ..Self::beginning(client, step, answer, now_ns) })
    }

    fn beginning(client: u64, step: Step, answer: Answer, now_ns: u64) -> Self {
        Self { client, step, answer, deadline_ns: now_ns + TIMEOUT_NS, publish: None, removes: None }
    }

    /// Name, as requested, of the disk that the job removes.
    pub fn leaving(&self) -> Option<&str> {
        self.removes.as_ref().map(|(_, name)| name.as_str())
    }

    /// Whether this job removes the disk that `name` means: that disk itself, or one that had the name and whose
    /// removal is not durable yet.
    pub fn is_removing(&self, name: &str, engine: &Engine) -> bool {
        let meant = engine.disk_to_remove(name).map(|disk| disk.id);
        self.removes.as_ref().is_some_and(|(id, given)| meant.map_or(given == name, |meant| meant == *id))
    }

    /// Advances the job as far as possible, with the configuration in force. Returns the result once the job has ended.
    pub fn advance(
        &mut self,
        now_ns: u64,
        backend: &mut PoolBackend,
        server: &mut ServerControl<'_>,
        config: &Config,
    ) -> Option<Result<Value, String>> {
        loop {
            let progress = match self.step {
                Step::OpenBase { .. } => self.look_at_base(backend),
                Step::Durable(checkpoint) => self.publish_when(checkpoint, backend, server, config),
                Step::Leaves { disk, checkpoint } => self.discard_when(checkpoint, disk, now_ns, backend),
                Step::Discard { disk, token } => self.look_at_discard(disk, token, backend),
                Step::Shrink { .. } => self.look_at_new_end(now_ns, backend),
                Step::Remove { disk } => self.remove(disk, backend),
            };
            match progress {
                Ok(Progress::Step) => {}
                Ok(Progress::End(answer)) => return Some(Ok(answer)),
                Ok(Progress::Wait) if now_ns <= self.deadline_ns => return None,
                Ok(Progress::Wait) => return Some(Err(self.give_up(backend))),
                Err(error) => return Some(Err(error)),
            }
        }
    }

    /// Adds the disk over its base, once that is open.
    fn look_at_base(&mut self, backend: &mut PoolBackend) -> Result<Progress, String> {
        let Step::OpenBase { new, opened } = &self.step else { return Ok(Progress::Wait) };
        let Some(ended) = opened.ended() else { return Ok(Progress::Wait) };
        let opened = ended.with_context(|| format!("the base of disk {:?} was not opened", new.name));
        let checkpoint = Checkpoint::after_change(&backend.pool.engine);
        let disk = (new.name.as_str(), new.size_bytes);
        let added = opened.and_then(|opened| base::add_disk(&mut backend.pool, disk, opened?));
        let disk = added.map_err(|error| chain(&error))?;
        info!("disk {} was added", new.name);
        let (name, size_bytes) = (new.name.clone(), new.size_bytes);
        self.publish = new.is_exported.then_some(Publish::Add { name, disk, size_bytes });
        self.step = Step::Durable(checkpoint);
        Ok(Progress::Step)
    }

    /// Changes the exports and answers, once the change is durable.
    fn publish_when(
        &mut self,
        durable: Checkpoint,
        backend: &mut PoolBackend,
        server: &mut ServerControl<'_>,
        config: &Config,
    ) -> Result<Progress, String> {
        let Some(reached) = durable.reached(&backend.pool.engine) else { return Ok(Progress::Wait) };
        reached?;
        if let Some(publish) = self.publish.take() {
            publish.now(backend, server, config)?;
        }
        Ok(Progress::End(match &mut self.answer {
            Answer::Known(value) => value.take(),
            Answer::Disks => json!({ "disks": disks(backend) }),
        }))
    }

    /// Discards the data of a disk, once it is durable that the disk is being removed and needs no base.
    fn discard_when(
        &mut self,
        durable: Checkpoint,
        disk: DiskId,
        now_ns: u64,
        backend: &mut PoolBackend,
    ) -> Result<Progress, String> {
        let engine = &mut backend.pool.engine;
        let Some(reached) = durable.reached(engine) else { return Ok(Progress::Wait) };
        reached?;
        if engine.adoption(disk).is_some() && now_ns <= self.deadline_ns {
            // Lost blocks have kept the base attached. This disk's blocks are not needed, so the base is given up
            // again.
            let checkpoint = Checkpoint::after_change(engine);
            engine.abandon_base(disk);
            self.step = Step::Leaves { disk, checkpoint };
            return Ok(Progress::Wait);
        }
        // The size of a disk that was added a moment ago is known only now.
        let len_bytes = engine.disks().find(|found| found.id == disk).map_or(0, |disk| disk.served_bytes());
        self.step = discard(backend, disk, len_bytes);
        Ok(Progress::Step)
    }

    /// Once the data of a disk is discarded, a checkpoint drops its map.
    fn look_at_discard(&mut self, disk: DiskId, token: u64, backend: &mut PoolBackend) -> Result<Progress, String> {
        let Some(completion) = backend.take_own(token) else { return Ok(Progress::Wait) };
        completion.result.map_err(|error| format!("disk {} could not be emptied: {error}", disk.0))?;
        backend.pool.engine.request_checkpoint(false);
        self.step = Step::Remove { disk };
        Ok(Progress::Step)
    }

    /// Shrinks a disk, once the leaf at its new end is in memory and a checkpoint has dropped those behind it.
    fn look_at_new_end(&mut self, now_ns: u64, backend: &mut PoolBackend) -> Result<Progress, String> {
        let Step::Shrink { to, token, tries } = &self.step else { return Ok(Progress::Wait) };
        if backend.pool.engine.checkpoint_pending() {
            return Ok(Progress::Wait);
        }
        let Some(completion) = backend.take_own(*token) else { return Ok(Progress::Wait) };
        let (to, tries) = (to.clone(), *tries);
        completion.result.map_err(|error| format!("disk {} could not be looked at: {error}", to.name))?;
        let engine = &mut backend.pool.engine;
        to.check(engine)?;
        let checkpoint = Checkpoint::after_change(engine);
        self.step = match engine.resize_disk(&to.name, to.size_bytes) {
            Ok(()) => {
                let disk = engine.disk_named(&to.name).map(|disk| disk.id);
                info!("disk {} has {} bytes now", to.name, to.size_bytes);
                self.publish = disk.map(|disk| Publish::Resize { disk, size_bytes: to.size_bytes });
                Step::Durable(checkpoint)
            }
            // The leaf may have been evicted from memory again.
            Err(AdminError::MappedBeyond(_)) if tries < SHRINK_TRIES => to.prepare(backend, (tries + 1, true))?,
            Err(AdminError::InUse(_)) if now_ns <= self.deadline_ns => to.prepare(backend, (tries, false))?,
            Err(error) => return Err(Budget::explain(&error)),
        };
        Ok(Progress::Step)
    }

    /// Removes a disk, once a checkpoint has dropped its map. The disk is looked up by its id: another disk may have its
    /// name by now.
    fn remove(&mut self, disk: DiskId, backend: &mut PoolBackend) -> Result<Progress, String> {
        let engine = &mut backend.pool.engine;
        if engine.checkpoint_pending() {
            return Ok(Progress::Wait);
        }
        let checkpoint = Checkpoint::after_change(engine);
        let Some(name) = engine.disks().find(|found| found.id == disk).map(|disk| disk.name.clone()) else {
            return Err(format!("disk {} has gone meanwhile: look at `forebay disk list`", disk.0));
        };
        match engine.remove_disk(&name) {
            Ok(()) => {
                self.step = Step::Durable(checkpoint);
                Ok(Progress::Step)
            }
            Err(AdminError::NotEmpty(_)) => {
                engine.request_checkpoint(false);
                Ok(Progress::Wait)
            }
            Err(error) => Err(error.to_string()),
        }
    }

    /// The time limit is over: nobody waits for its requests any more. Returns the reason.
    fn give_up(&self, backend: &mut PoolBackend) -> String {
        if let Step::Discard { token, .. } | Step::Shrink { token, .. } = self.step {
            backend.forget_own(token);
        }
        let reason = backend.pool.engine.read_only_reason().map(|why| format!(" ({why})")).unwrap_or_default();
        format!("not finished in time{reason}: look at `forebay status`, then try again")
    }
}
