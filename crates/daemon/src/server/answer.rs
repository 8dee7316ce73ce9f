//! Answers requests on the control socket.

use super::disk_names::{names, no_disk};
use super::exporting::{notes_now, warn_of_classes};
use super::jobs::{Answer, Checkpoint, Job, NewDisk, Publish};
use super::snapshot::{Fixed, disks, snapshot};
use super::ublk::BlockDevices;
use crate::config::{Config, Place, explain_rule};
use crate::control::{ClassUpdate, Question, ScrubAction, TOO_MANY_CHANGES};
use crate::evidence::Wanted;
use crate::pool::{Budget, PoolBackend, classes, now_ns, scrub};
use crate::text::chain;
use forebay_device::TargetError;
use forebay_export::ublk::UblkError;
use forebay_export::{Export, Exports, ServerControl};
use forebay_prism::{ClassSpec, opencas};
use forebay_volume::layout::scrub_record::ScrubState;
use forebay_volume::{AdminError, Engine};
use serde_json::{Value, json};
use tracing::info;

/// Most jobs in progress.
const JOBS_MAX: usize = 16;

/// Answers requests, at once or when their job has ended.
pub struct Answerer {
    /// Facts about the server that do not change while it runs.
    pub fixed: Fixed,
    /// Finished answers, each with the number of its client.
    pub answers: Vec<(u64, Value)>,
    /// Jobs in progress.
    pub jobs: Vec<Job>,
}

/// Names of disks whose removal is in progress.
pub fn leaving(jobs: &[Job]) -> Vec<String> {
    jobs.iter().filter_map(Job::leaving).map(str::to_owned).collect()
}

fn refusal(text: impl ToString) -> Value {
    json!({ "error": text.to_string() })
}

/// What comes of a request that is not refused.
enum Reply {
    /// Its answer.
    Now(Value),
    /// Its answer when a job has ended.
    Later(Box<Job>),
}

impl Reply {
    fn later(job: Job) -> Self {
        Self::Later(Box::new(job))
    }
}

/// A change with an answer that is known as soon as it is durable.
fn known(client: u64, checkpoint: Checkpoint, answer: Value) -> Reply {
    Reply::later(Job::durable(client, checkpoint, Answer::Known(answer), now_ns(), None))
}

impl Answerer {
    /// An answerer without jobs.
    pub fn new(fixed: Fixed) -> Self {
        Self { fixed, answers: Vec::new(), jobs: Vec::new() }
    }

    /// Answers one request line, or begins a job for it.
    pub fn request(
        &mut self,
        client: u64,
        line: &[u8],
        backend: &mut PoolBackend,
        server: &mut ServerControl<'_>,
        block_devices: &mut BlockDevices,
    ) {
        let question = serde_json::from_slice(line).map_err(|error| format!("not a request: {error}"));
        match question.and_then(|question| self.reply(client, question, backend, server, block_devices)) {
            Ok(Reply::Now(value)) => self.answers.push((client, json!({ "ok": value }))),
            Ok(Reply::Later(job)) => self.jobs.push(*job),
            Err(reason) => self.answers.push((client, refusal(reason))),
        }
    }

    fn reply(
        &self,
        client: u64,
        question: Question,
        backend: &mut PoolBackend,
        server: &mut ServerControl<'_>,
        block_devices: &mut BlockDevices,
    ) -> Result<Reply, String> {
        let value = match question {
            Question::Status => snapshot(&self.fixed, backend, server, block_devices, now_ns()),
            Question::ClassList => class_list(backend, server.exports()),
            Question::DiskList => json!({ "disks": disks(backend) }),
            Question::DeviceAttach { disk } => {
                let disk = disk_meant(disk.as_deref(), backend)?;
                self.attach_device(&disk, backend, server, block_devices)?
            }
            Question::Device { disk } => {
                let disk = disk_meant(disk.as_deref(), backend)?;
                let exports = exports_of(&disk, backend, server.exports());
                self.device_state(&disk, &exports, block_devices)
            }
            Question::Scrub { action } => return self.scrub(client, action, backend),
            Question::EvidenceList => backend.evidence.describe(),
            Question::EvidenceAttach { disk, device, mount, hints, files } => {
                let disk = disk_meant(disk.as_deref(), backend)?;
                let wanted = Wanted { disk, device, mount, hints, files };
                attach_evidence(wanted, backend, server.exports())?;
                backend.evidence.describe()
            }
            Question::EvidenceDetach { disk } => {
                let name = disk_meant(disk.as_deref(), backend)?;
                let id = backend.pool.engine.disk_named(&name).map(|disk| disk.id);
                let gone = id.map_or(0, |id| backend.evidence.detach(id));
                if gone == 0 {
                    return Err(format!("disk {name:?} has no source of evidence"));
                }
                info!("evidence: {gone} sources of disk {name} were detached");
                backend.evidence.describe()
            }
            Question::ClassSet { name, change } => {
                return self.set_class(client, &name, change, backend, server.exports());
            }
            Question::ClassAdd { name, place, rest } => {
                return self.add_class(client, name, place, rest, backend, server.exports());
            }
            Question::ClassImport { text } => return self.import_classes(client, &text, backend, server.exports()),
            Question::DiskAdd { name, size_bytes, export, base } => {
                let new = NewDisk { name, size_bytes, is_exported: export };
                return self.add_disk(client, new, base.as_deref(), backend, server);
            }
            Question::DiskResize { name, size_bytes } => return self.resize_disk(client, &name, size_bytes, backend),
            Question::DiskDetachBase { name } => return self.detach_base(client, name, backend),
            Question::DiskRemove { name } => return self.remove_disk(client, &name, backend, server),
        };
        Ok(Reply::Now(value))
    }

    fn scrub(&self, client: u64, action: ScrubAction, backend: &mut PoolBackend) -> Result<Reply, String> {
        if action == ScrubAction::Start
            && let Some(left) = &self.fixed.left
        {
            return Err(format!(
                "the pool is not whole: {}. What is gone is known, and `forebay status CONFIG` lists it; a scrub would call that damage, too (`forebay verify` reads all that is left)",
                left.label
            ));
        }
        let engine = &mut backend.pool.engine;
        let checkpoint = Checkpoint::after_change(engine);
        match action {
            ScrubAction::Start => {
                let was_going_on = engine.scrub().record.state == ScrubState::Running;
                engine.start_scrub();
                if !was_going_on {
                    info!("a scrub reads everything that is stored");
                }
            }
            ScrubAction::Pause if engine.pause_scrub() => info!("the scrub pauses"),
            ScrubAction::Pause | ScrubAction::Status => {}
        }
        let answer = scrub::json(engine);
        let is_kept = engine.read_only_reason().is_none() && engine.checkpoint_pending();
        if action != ScrubAction::Status && is_kept && self.jobs.len() < JOBS_MAX {
            // Who hears that it has begun may rely on it after a power cut.
            return Ok(Reply::later(Job::durable(client, checkpoint, Answer::Known(answer), now_ns(), None)));
        }
        Ok(Reply::Now(answer))
    }

    /// Makes a disk a block device of the kernel, unless it is one already.
    fn attach_device(
        &self,
        disk: &str,
        backend: &PoolBackend,
        server: &mut ServerControl<'_>,
        block_devices: &mut BlockDevices,
    ) -> Result<Value, String> {
        let exports = exports_of(disk, backend, server.exports());
        let Some(export) = exports.first() else {
            return Err(format!(
                "disk {disk:?} is not exported: add an [[export]] with `disk = {disk:?}` and `ublk = \"auto\"` to the \
                 configuration and restart the server, or one with `nbd` and send SIGHUP"
            ));
        };
        let state = self.device_state(disk, &exports, block_devices);
        if !state["state"].is_null() {
            return Ok(state);
        }
        match block_devices.attach(export) {
            Ok(()) => Ok(self.device_state(disk, &exports, block_devices)),
            Err(why) if matches!(why.downcast_ref(), Some(UblkError::NoDriver { .. })) => {
                let mut state = self.device_state(disk, &exports, block_devices);
                state["without_ublk"] = why.to_string().into();
                Ok(state)
            }
            Err(why) => Err(chain(&why)),
        }
    }

    /// The block device of a disk, in the form of the answer.
    fn device_state(&self, disk: &str, exports: &[Export], block_devices: &BlockDevices) -> Value {
        let device = exports.iter().find_map(|export| block_devices.of(&export.name));
        let (device, state) = device.map_or((None, None), |(device, state)| (device, Some(state)));
        let by_nbd = exports.iter().filter(|export| export.access.nbd);
        let names: Vec<&str> = by_nbd.map(|export| export.name.as_str()).collect();
        let addresses: Vec<String> = self.fixed.addresses.iter().map(ToString::to_string).collect();
        json!({ "disk": disk, "exports": names, "device": device, "state": state, "addresses": addresses })
    }

    /// The checkpoint that makes a change durable which begins now.
    fn begin_change(&self, engine: &Engine) -> Result<Checkpoint, String> {
        if self.jobs.len() >= JOBS_MAX {
            return Err(TOO_MANY_CHANGES.to_owned());
        }
        // A change would wait for a checkpoint that never comes.
        match engine.read_only_reason() {
            Some(reason) => Err(format!("the pool is read-only: {reason}")),
            None => Ok(Checkpoint::after_change(engine)),
        }
    }

    fn set_class(
        &self,
        client: u64,
        name: &str,
        change: ClassUpdate,
        backend: &mut PoolBackend,
        exports: &Exports,
    ) -> Result<Reply, String> {
        let engine = &mut backend.pool.engine;
        let checkpoint = self.begin_change(engine)?;
        engine.prism_mut().table_mut().set(name, change.into()).map_err(|error| chain(&explain_rule(error)))?;
        classes_changed(backend, exports);
        info!("class {name} was changed");
        Ok(known(client, checkpoint, class_list(backend, exports)))
    }

    fn add_class(
        &self,
        client: u64,
        name: String,
        place: Place,
        rest: ClassUpdate,
        backend: &mut PoolBackend,
        exports: &Exports,
    ) -> Result<Reply, String> {
        let engine = &mut backend.pool.engine;
        let checkpoint = self.begin_change(engine)?;
        let table = engine.prism_mut().table_mut();
        if table.id_of(&name).is_some() {
            return Err(format!("class {name:?} is there already: `forebay class CONFIG set {name}` changes it"));
        }
        let spec = ClassSpec {
            read_cache: rest.read_cache.unwrap_or(false),
            compress: rest.compress.unwrap_or_default().0,
            share: rest.share.unwrap_or(1.0),
            priority: rest.priority.unwrap_or(100),
            rules: rest.rules.unwrap_or_default(),
            name,
            place: place.into(),
        };
        table.merge(std::slice::from_ref(&spec)).map_err(|error| chain(&explain_rule(error)))?;
        classes_changed(backend, exports);
        info!("class {} was added", spec.name);
        Ok(known(client, checkpoint, class_list(backend, exports)))
    }

    fn import_classes(
        &self,
        client: u64,
        text: &str,
        backend: &mut PoolBackend,
        exports: &Exports,
    ) -> Result<Reply, String> {
        let engine = &mut backend.pool.engine;
        let checkpoint = self.begin_change(engine)?;
        let import = opencas::import(text).map_err(|error| chain(&error.into()))?;
        let names: Vec<&str> = import.classes.iter().map(|c| c.name.as_str()).collect();
        engine.prism_mut().table_mut().merge(&import.classes).map_err(|error| chain(&error.into()))?;
        classes_changed(backend, exports);
        info!("classes {} were imported", names.join(", "));
        let mut notes: Vec<Value> =
            import.notes.iter().map(|note| json!({ "line": note.line, "text": note.text })).collect();
        notes.extend(notes_of(backend, exports));
        let classes = classes::json(&backend.pool.engine);
        Ok(known(client, checkpoint, json!({ "imported": names, "notes": notes, "classes": classes })))
    }

    fn add_disk(
        &self,
        client: u64,
        new: NewDisk,
        base: Option<&str>,
        backend: &mut PoolBackend,
        server: &mut ServerControl<'_>,
    ) -> Result<Reply, String> {
        let engine = &mut backend.pool.engine;
        let checkpoint = self.begin_change(engine)?;
        let name = &new.name;
        if new.is_exported && self.fixed.addresses.is_empty() {
            return Err(format!(
                "the server listens nowhere, so {name:?} cannot be exported: add the disk without --export, write an [[export]] with \
                 `nbd` into the configuration, and send SIGHUP"
            ));
        }
        if new.is_exported && server.exports().iter().any(|(_, other)| other.name == *name) {
            return Err(format!("an export named {name:?} exists already"));
        }
        if let Some(text) = base {
            let target = text.parse().map_err(|error: TargetError| error.in_pool())?;
            return Job::add_over_base(client, new, target, now_ns()).map(Reply::later);
        }
        let NewDisk { name, size_bytes, is_exported } = new;
        let disk = engine.add_disk(&name, size_bytes).map_err(|error| Budget::explain(&error))?;
        info!("disk {name} was added");
        let publish = is_exported.then_some(Publish::Add { name, disk, size_bytes });
        Ok(Reply::later(Job::durable(client, checkpoint, Answer::Disks, now_ns(), publish)))
    }

    fn resize_disk(
        &self,
        client: u64,
        name: &str,
        size_bytes: u64,
        backend: &mut PoolBackend,
    ) -> Result<Reply, String> {
        let engine = &mut backend.pool.engine;
        let checkpoint = self.begin_change(engine)?;
        let Some(disk) = engine.disk_named(name) else { return Err(no_disk(name, &names(engine))) };
        let (disk, is_smaller) = (disk.id, size_bytes < disk.served_bytes());
        match engine.resize_disk(name, size_bytes) {
            Ok(()) => {}
            Err(AdminError::MappedBeyond(_) | AdminError::InUse(_)) if is_smaller => {
                let shrink = (name, size_bytes);
                let job = Job::shrink(client, shrink, backend, Answer::Disks, now_ns());
                return job.map(Reply::later);
            }
            Err(error) => return Err(Budget::explain(&error)),
        }
        info!("disk {name} has {size_bytes} bytes now");
        let publish = Some(Publish::Resize { disk, size_bytes });
        Ok(Reply::later(Job::durable(client, checkpoint, Answer::Disks, now_ns(), publish)))
    }

    fn detach_base(&self, client: u64, name: String, backend: &mut PoolBackend) -> Result<Reply, String> {
        let engine = &mut backend.pool.engine;
        let checkpoint = self.begin_change(engine)?;
        if engine.disk_named(&name).is_none() {
            return Err(no_disk(&name, &names(engine)));
        }
        engine.detach_base(&name).map_err(|error| error.to_string())?;
        let publish = Some(Publish::Detached { name });
        Ok(Reply::later(Job::durable(client, checkpoint, Answer::Disks, now_ns(), publish)))
    }

    fn remove_disk(
        &self,
        client: u64,
        name: &str,
        backend: &mut PoolBackend,
        server: &mut ServerControl<'_>,
    ) -> Result<Reply, String> {
        self.begin_change(&backend.pool.engine)?;
        if self.jobs.iter().any(|job| job.is_removing(name, &backend.pool.engine)) {
            return Err(format!(
                "disk {name:?} is being removed already: `forebay disk CONFIG list` shows when it has gone"
            ));
        }
        let answer = Answer::Known(json!({ "removed": name }));
        let job = Job::remove_disk(client, name, backend, server, answer, now_ns())?;
        info!("disk {name} is being discarded and removed");
        Ok(Reply::later(job))
    }

    /// Advances all jobs, with the configuration in force, and collects the answers of those that have ended.
    pub fn tick(&mut self, now_ns: u64, backend: &mut PoolBackend, server: &mut ServerControl<'_>, config: &Config) {
        let mut at = 0;
        while at < self.jobs.len() {
            let Some(ended) = self.jobs[at].advance(now_ns, backend, server, config) else {
                at += 1;
                continue;
            };
            // `remove` keeps the order of jobs: of two changes to one disk the later is published last.
            let job = self.jobs.remove(at);
            let answer = match ended {
                Ok(value) => json!({ "ok": value }),
                Err(reason) => refusal(reason),
            };
            self.answers.push((job.client, answer));
        }
    }
}

/// The exports of a disk; an export with the disk's own name comes first.
fn exports_of(disk: &str, backend: &PoolBackend, exports: &Exports) -> Vec<Export> {
    let id = backend.pool.engine.disk_named(disk).map(|disk| disk.id);
    let of_disk = exports.iter().map(|(_, export)| export).filter(|export| Some(export.disk) == id);
    let mut all: Vec<Export> = of_disk.cloned().collect();
    all.sort_by_key(|export| export.name != disk);
    all
}

/// Name of the disk that a request concerns: the named one, or the only one.
fn disk_meant(name: Option<&str>, backend: &PoolBackend) -> Result<String, String> {
    let names = names(&backend.pool.engine);
    match (name, names.as_slice()) {
        (Some(name), names) if names.contains(&name) => Ok(name.to_owned()),
        (Some(name), names) => Err(no_disk(name, names)),
        (None, [only]) => Ok((*only).to_owned()),
        (None, names) => Err(format!("say which disk: {}", names.join(", "))),
    }
}

/// Begins to look for a source of evidence.
pub fn attach_evidence(wanted: Wanted, backend: &mut PoolBackend, exports: &Exports) -> Result<(), String> {
    let Some(disk) = backend.pool.engine.disk_named(&wanted.disk) else {
        return Err(no_disk(&wanted.disk, &names(&backend.pool.engine)));
    };
    let (id, size_bytes) = (disk.id, disk.size_bytes);
    if let Some((_, export)) = exports.iter().find(|(_, export)| export.disk == id && export.tag.is_some()) {
        return Err(format!(
            "export {:?} gives what is written through it to disk {:?} a class of its own, whatever evidence says; take \
             `class` out of that [[export]]",
            export.name, wanted.disk
        ));
    }
    backend.evidence.attach(wanted, id, size_bytes)
}

/// Tells all who classify that the classes have changed.
fn classes_changed(backend: &mut PoolBackend, exports: &Exports) {
    let engine = &mut backend.pool.engine;
    engine.classes_changed();
    backend.evidence.reconsider(engine.prism());
    warn_of_classes(engine, exports);
}

/// The classes, as they are answered.
fn class_list(backend: &PoolBackend, exports: &Exports) -> Value {
    json!({ "classes": classes::json(&backend.pool.engine), "pending": pending(backend), "notes": notes_of(backend, exports) })
}

/// Notes on the classes, which are of no line of a file.
fn notes_of(backend: &PoolBackend, exports: &Exports) -> Vec<Value> {
    notes_now(&backend.pool.engine, exports).into_iter().map(|text| json!({ "line": null, "text": text })).collect()
}

/// Predicates that cannot be known now.
fn pending(backend: &PoolBackend) -> Vec<Value> {
    let pending = backend.evidence.unknown(backend.pool.engine.prism().table()).into_iter();
    pending.map(|(class, predicate)| json!({ "class": class, "predicate": predicate })).collect()
}
