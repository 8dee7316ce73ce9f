//! Answers to control requests.

use super::jobs::{Checkpoint, Job};
use super::snapshot::{Fixed, classes, disks, snapshot};
use crate::control::Question;
use crate::pool::{PoolBackend, now_ns};
use forebay_export::{Export, ServerControl};
use forebay_prism::opencas;
use serde_json::{Value, json};
use tracing::info;

/// Jobs at a time.
const JOBS_MAX: usize = 16;

/// Answers, at once or when a job has ended.
pub struct Answerer {
    /// What does not change.
    pub fixed: Fixed,
    /// Whether disks may exceed the pool.
    pub overcommit: bool,
    /// Finished answers: client and text.
    pub answers: Vec<(u64, Value)>,
    jobs: Vec<Job>,
}

fn refusal(text: impl ToString) -> Value {
    json!({ "error": text.to_string() })
}

/// The causes of an error as one text.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text.push_str(&format!(": {cause}"));
        next = cause.source();
    }
    text
}

impl Answerer {
    /// Without jobs.
    pub fn new(fixed: Fixed, overcommit: bool) -> Self {
        Self { fixed, overcommit, answers: Vec::new(), jobs: Vec::new() }
    }

    /// Takes a request line.
    pub fn request(&mut self, client: u64, line: &[u8], backend: &mut PoolBackend, server: &mut ServerControl<'_>) {
        let question: Question = match serde_json::from_slice(line) {
            Ok(question) => question,
            Err(error) => {
                self.answers.push((client, refusal(format!("not a request: {error}"))));
                return;
            }
        };
        match question {
            Question::Status => {
                let status = snapshot(&self.fixed, backend, server, now_ns());
                self.answers.push((client, json!({ "ok": status })));
            }
            Question::ClassList => {
                let list = json!({ "classes": classes(backend), "pending": pending(backend) });
                self.answers.push((client, json!({ "ok": list })));
            }
            Question::DiskList => {
                self.answers.push((client, json!({ "ok": { "disks": disks(backend) } })));
            }
            change if self.jobs.len() < JOBS_MAX => match self.change(client, change, backend, server) {
                Ok(job) => self.jobs.push(job),
                Err(reason) => self.answers.push((client, refusal(reason))),
            },
            _ => self.answers.push((client, refusal("too many changes at once: try again"))),
        }
    }

    fn change(
        &self,
        client: u64,
        question: Question,
        backend: &mut PoolBackend,
        server: &mut ServerControl<'_>,
    ) -> Result<Job, String> {
        let now_ns = now_ns();
        let engine = &mut backend.pool.engine;
        let checkpoint = Checkpoint::after_change(engine);
        let answer = match question {
            Question::ClassSet { name, change } => {
                let table = engine.prism_mut().table_mut();
                table.set(&name, change.into()).map_err(|error| chain(&error))?;
                engine.classes_changed();
                info!("class {name} was changed");
                json!({ "classes": classes(backend), "pending": pending(backend) })
            }
            Question::ClassImport { text } => {
                let import = opencas::import(&text).map_err(|error| chain(&error))?;
                let names: Vec<&str> = import.classes.iter().map(|c| c.name.as_str()).collect();
                let table = engine.prism_mut().table_mut();
                table.merge(&import.classes).map_err(|error| chain(&error))?;
                engine.classes_changed();
                info!("classes {} were imported", names.join(", "));
                let notes = import.notes.iter().map(|note| json!({ "line": note.line, "text": note.text }));
                let notes: Vec<Value> = notes.collect();
                json!({ "imported": names, "notes": notes, "classes": classes(backend) })
            }
            Question::DiskAdd { name, size_bytes, export } => {
                if export && server.exports().iter().any(|(_, other)| other.name == name) {
                    return Err(format!("an export named {name:?} exists already"));
                }
                let disk = engine.add_disk(&name, size_bytes, self.overcommit).map_err(|error| error.to_string())?;
                info!("disk {name} was added");
                if export {
                    let export = Export {
                        name: name.clone(),
                        disk,
                        size_bytes,
                        read_only: false,
                        tag: None,
                        description: String::new(),
                    };
                    server.exports().add(export).map_err(|error| error.to_string())?;
                    let names: Vec<(u16, String)> =
                        server.exports().iter().map(|(index, e)| (index, e.name.clone())).collect();
                    engine.prism_mut().set_exports(&names);
                }
                json!({ "disks": disks(backend) })
            }
            Question::DiskResize { name, size_bytes } => {
                engine.resize_disk(&name, size_bytes, self.overcommit).map_err(|error| error.to_string())?;
                let id = engine.disk_named(&name).map(|disk| disk.id);
                let names: Vec<String> = server
                    .exports()
                    .iter()
                    .filter(|(_, export)| Some(export.disk) == id)
                    .map(|(_, export)| export.name.clone())
                    .collect();
                for export in names {
                    server.exports().resize(&export, size_bytes).map_err(|error| error.to_string())?;
                }
                info!("disk {name} has {size_bytes} bytes now");
                json!({ "disks": disks(backend) })
            }
            Question::DiskRemove { name } => {
                info!("disk {name} is being discarded and removed");
                let answer = json!({ "removed": name });
                return Job::remove_disk(client, &name, backend, server, answer, now_ns);
            }
            Question::Status | Question::ClassList | Question::DiskList => {
                return Err("not a change".to_owned());
            }
        };
        Ok(Job::durable(client, checkpoint, answer, now_ns))
    }

    /// Lets jobs go on.
    pub fn tick(&mut self, now_ns: u64, backend: &mut PoolBackend, _server: &mut ServerControl<'_>) {
        let mut at = 0;
        while at < self.jobs.len() {
            let Some(ended) = self.jobs[at].advance(now_ns, backend) else {
                at += 1;
                continue;
            };
            let job = self.jobs.swap_remove(at);
            let answer = match ended {
                Ok(value) => json!({ "ok": value }),
                Err(reason) => refusal(reason),
            };
            self.answers.push((job.client, answer));
        }
    }
}

/// Predicates that cannot be known yet.
fn pending(backend: &PoolBackend) -> Vec<Value> {
    let pending = backend.pool.engine.prism().pending();
    pending.into_iter().map(|(class, predicate)| json!({ "class": class, "predicate": predicate })).collect()
}
