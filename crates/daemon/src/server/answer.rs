//! Answers requests on the control socket.

use super::disk_names::{names, no_disk};
use super::jobs::{Answer, Checkpoint, Job, NewDisk, Publish};
use super::snapshot::{Fixed, disks, snapshot};
use super::ublk::BlockDevices;
use crate::config::explain_rule;
use crate::control::{Question, ScrubAction, TOO_MANY_CHANGES};
use crate::evidence::Wanted;
use crate::pool::{Budget, PoolBackend, classes, now_ns, scrub};
use crate::text::chain;
use forebay_device::TargetError;
use forebay_export::ublk::UblkError;
use forebay_export::{Export, Exports, ServerControl};
use forebay_prism::{ClassSpec, opencas};
use forebay_volume::AdminError;
use forebay_volume::layout::scrub_record::ScrubState;
use serde_json::{Value, json};
use tracing::info;

/// Most jobs in progress.
const JOBS_MAX: usize = 16;

/// Answers requests, at once or when their job has ended.
pub struct Answerer {
    /// Facts about the server that do not change while it runs.
    pub fixed: Fixed,
    /// Whether the disks' sizes may exceed the pool.
    pub overcommit: bool,
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

impl Answerer {
    /// An answerer without jobs.
    pub fn new(fixed: Fixed, overcommit: bool) -> Self {
        Self { fixed, overcommit, answers: Vec::new(), jobs: Vec::new() }
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
        let question: Question = match serde_json::from_slice(line) {
            Ok(question) => question,
            Err(error) => {
                self.answers.push((client, refusal(format!("not a request: {error}"))));
                return;
            }
        };
        match question {
            Question::Status => {
                let status = snapshot(&self.fixed, backend, server, block_devices, now_ns());
                self.answers.push((client, json!({ "ok": status })));
            }
            Question::ClassList => {
                let list = json!({ "classes": classes::json(&backend.pool.engine), "pending": pending(backend) });
                self.answers.push((client, json!({ "ok": list })));
            }
            Question::DiskList => {
                self.answers.push((client, json!({ "ok": { "disks": disks(backend) } })));
            }
            Question::DeviceAttach { disk } => {
                let named = disk_meant(disk.as_deref(), backend);
                let answer = named.and_then(|disk| self.attach_device(&disk, backend, server, block_devices));
                self.answers.push((client, answer.map_or_else(refusal, |state| json!({ "ok": state }))));
            }
            Question::Device { disk } => {
                let named = disk_meant(disk.as_deref(), backend);
                let state = named.map(|disk| {
                    let exports = exports_of(&disk, backend, server.exports());
                    self.device_state(&disk, &exports, block_devices)
                });
                self.answers.push((client, state.map_or_else(refusal, |state| json!({ "ok": state }))));
            }
            Question::Scrub { action: ScrubAction::Start } if let Some(left) = &self.fixed.left => {
                let why = format!(
                    "the pool is not whole: {}. What is gone is known, and `forebay status CONFIG` lists it; a scrub would call that damage, too (`forebay verify` reads all that is left)",
                    left.label
                );
                self.answers.push((client, refusal(why)));
            }
            Question::Scrub { action } => {
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
                    // The answer waits for a checkpoint, so that the begun scrub survives a power cut.
                    self.jobs.push(Job::durable(client, checkpoint, Answer::Known(answer), now_ns(), None));
                } else {
                    self.answers.push((client, json!({ "ok": answer })));
                }
            }
            Question::EvidenceList => {
                self.answers.push((client, json!({ "ok": backend.evidence.describe() })));
            }
            Question::EvidenceAttach { disk, device, mount, hints, files } => {
                let named = disk_meant(disk.as_deref(), backend);
                let attached = named.and_then(|disk| {
                    let wanted = Wanted { disk, device, mount, hints, files };
                    attach_evidence(wanted, backend, server.exports())
                });
                let answer = match attached {
                    Ok(()) => json!({ "ok": backend.evidence.describe() }),
                    Err(reason) => refusal(reason),
                };
                self.answers.push((client, answer));
            }
            Question::EvidenceDetach { disk } => {
                let detached = disk_meant(disk.as_deref(), backend).and_then(|name| {
                    let id = backend.pool.engine.disk_named(&name).map(|disk| disk.id);
                    let gone = id.map_or(0, |id| backend.evidence.detach(id));
                    if gone > 0 {
                        info!("evidence: {gone} sources of disk {name} were detached");
                        Ok(())
                    } else {
                        Err(format!("disk {name:?} has no source of evidence"))
                    }
                });
                let answer = match detached {
                    Ok(()) => json!({ "ok": backend.evidence.describe() }),
                    Err(reason) => refusal(reason),
                };
                self.answers.push((client, answer));
            }
            change if self.jobs.len() < JOBS_MAX => match self.change(client, change, backend, server) {
                Ok(job) => self.jobs.push(job),
                Err(reason) => self.answers.push((client, refusal(reason))),
            },
            _ => self.answers.push((client, refusal(TOO_MANY_CHANGES))),
        }
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

    fn change(
        &self,
        client: u64,
        question: Question,
        backend: &mut PoolBackend,
        server: &mut ServerControl<'_>,
    ) -> Result<Job, String> {
        let mut publish = None;
        let now_ns = now_ns();
        let engine = &mut backend.pool.engine;
        // On a read-only pool the change would wait for a checkpoint that never comes.
        if let Some(reason) = engine.read_only_reason() {
            return Err(format!("the pool is read-only: {reason}"));
        }
        let checkpoint = Checkpoint::after_change(engine);
        let answer = match question {
            Question::ClassSet { name, change } => {
                let table = engine.prism_mut().table_mut();
                table.set(&name, change.into()).map_err(|error| chain(&explain_rule(error)))?;
                engine.classes_changed();
                backend.evidence.reconsider(engine.prism());
                info!("class {name} was changed");
                Answer::Known(json!({ "classes": classes::json(&backend.pool.engine), "pending": pending(backend) }))
            }
            Question::ClassAdd { name, place, rest } => {
                let table = engine.prism_mut().table_mut();
                if table.id_of(&name).is_some() {
                    return Err(format!(
                        "class {name:?} is there already: `forebay class CONFIG set {name}` changes it"
                    ));
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
                engine.classes_changed();
                backend.evidence.reconsider(engine.prism());
                info!("class {} was added", spec.name);
                Answer::Known(json!({ "classes": classes::json(&backend.pool.engine), "pending": pending(backend) }))
            }
            Question::ClassImport { text } => {
                let import = opencas::import(&text).map_err(|error| chain(&error.into()))?;
                let names: Vec<&str> = import.classes.iter().map(|c| c.name.as_str()).collect();
                let table = engine.prism_mut().table_mut();
                table.merge(&import.classes).map_err(|error| chain(&error.into()))?;
                engine.classes_changed();
                backend.evidence.reconsider(engine.prism());
                info!("classes {} were imported", names.join(", "));
                let notes = import.notes.iter().map(|note| json!({ "line": note.line, "text": note.text }));
                let notes: Vec<Value> = notes.collect();
                Answer::Known(
                    json!({ "imported": names, "notes": notes, "classes": classes::json(&backend.pool.engine) }),
                )
            }
            Question::DiskAdd { name, size_bytes, export, base } => {
                if export && self.fixed.addresses.is_empty() {
                    return Err(format!(
                        "the server listens nowhere, so {name:?} cannot be exported: add the disk without --export, write an [[export]] with \
                         `nbd` into the configuration, and send SIGHUP"
                    ));
                }
                if export && server.exports().iter().any(|(_, other)| other.name == name) {
                    return Err(format!("an export named {name:?} exists already"));
                }
                if let Some(text) = base {
                    let target = text.parse().map_err(|error: TargetError| error.in_pool())?;
                    let new = NewDisk { name, size_bytes, overcommit: self.overcommit, is_exported: export };
                    return Job::add_over_base(client, new, target, now_ns);
                }
                let added = engine.add_disk(&name, size_bytes, self.overcommit);
                let disk = added.map_err(|error| Budget::explain(&error))?;
                info!("disk {name} was added");
                publish = export.then(|| Publish::Add { name: name.clone(), disk, size_bytes });
                Answer::Disks
            }
            Question::DiskResize { name, .. } | Question::DiskDetachBase { name }
                if engine.disk_named(&name).is_none() =>
            {
                return Err(no_disk(&name, &names(engine)));
            }
            Question::DiskResize { name, size_bytes } => {
                match engine.resize_disk(&name, size_bytes, self.overcommit) {
                    Ok(()) => {}
                    Err(AdminError::MappedBeyond(_) | AdminError::InUse(_))
                        if engine.disk_named(&name).is_some_and(|disk| size_bytes < disk.served_bytes()) =>
                    {
                        let answer = Answer::Disks;
                        return Job::shrink(client, (&name, size_bytes), self.overcommit, backend, answer, now_ns);
                    }
                    Err(error) => return Err(Budget::explain(&error)),
                }
                let disk = engine.disk_named(&name).map(|disk| disk.id);
                publish = disk.map(|disk| Publish::Resize { disk, size_bytes });
                info!("disk {name} has {size_bytes} bytes now");
                Answer::Disks
            }
            Question::DiskDetachBase { name } => {
                engine.detach_base(&name).map_err(|error| error.to_string())?;
                publish = Some(Publish::Detached { name });
                Answer::Disks
            }
            Question::DiskRemove { name } => {
                if self.jobs.iter().any(|job| job.is_removing(&name, engine)) {
                    return Err(format!(
                        "disk {name:?} is being removed already: `forebay disk CONFIG list` shows when it has gone"
                    ));
                }
                let answer = Answer::Known(json!({ "removed": name }));
                let job = Job::remove_disk(client, &name, backend, server, answer, now_ns)?;
                info!("disk {name} is being discarded and removed");
                return Ok(job);
            }
            Question::Status
            | Question::ClassList
            | Question::DiskList
            | Question::EvidenceList
            | Question::Scrub { .. }
            | Question::DeviceAttach { .. }
            | Question::Device { .. }
            | Question::EvidenceAttach { .. }
            | Question::EvidenceDetach { .. } => {
                return Err("not a change".to_owned());
            }
        };
        Ok(Job::durable(client, checkpoint, answer, now_ns, publish))
    }

    /// Advances all jobs, and collects the answers of those that have ended.
    pub fn tick(&mut self, now_ns: u64, backend: &mut PoolBackend, server: &mut ServerControl<'_>) {
        let mut at = 0;
        while at < self.jobs.len() {
            let Some(ended) = self.jobs[at].advance(now_ns, backend, server, &self.fixed.access) else {
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

/// Predicates in rules that no source of evidence can answer now.
fn pending(backend: &PoolBackend) -> Vec<Value> {
    let pending = backend.evidence.unknown(backend.pool.engine.prism().table()).into_iter();
    pending.map(|(class, predicate)| json!({ "class": class, "predicate": predicate })).collect()
}
