//! The thread that talks to the store. It carries out several jobs at once and answers each.

use super::epoch::{Standing, epoch_name, look};
use super::fetch::fetch_range;
use super::job::{Answer, Failure, Job};
use super::name::ObjectName;
use super::store::{Refused, Store};
use crate::bell::Bell;
use bytes::Bytes;
use forebay_block::lock;
use object_store::{ObjectStoreExt, PutPayload};
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, mpsc};

/// Most objects being written, and being read, at once.
const PUTS_MAX: usize = 8;
const GETS_MAX: usize = 32;

/// Answers, and a bell that rings while there are some.
#[derive(Debug)]
pub(crate) struct Answers {
    list: Mutex<Vec<Answer>>,
    pub(crate) bell: Bell,
}

impl Answers {
    fn give(&self, answer: Answer) {
        lock(&self.list).push(answer);
        self.bell.ring();
    }

    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.list).is_empty()
    }

    /// Takes all answers.
    pub(crate) fn take(&self) -> Vec<Answer> {
        // The bell is cleared first: an answer that arrives afterwards rings it again.
        self.bell.clear();
        std::mem::take(&mut *lock(&self.list))
    }
}

/// The handle of the worker thread.
pub(crate) struct Worker {
    jobs: Option<mpsc::UnboundedSender<Job>>,
    thread: Option<JoinHandle<()>>,
    pub(crate) answers: Arc<Answers>,
}

impl Worker {
    /// Starts the thread, which serves `store` as `epoch`, whose object holds `owner`.
    pub(crate) fn start(runtime: Runtime, store: Store, epoch: u32, owner: String) -> io::Result<Self> {
        let answers = Arc::new(Answers { list: Mutex::default(), bell: Bell::new()? });
        let (sender, jobs) = mpsc::unbounded_channel();
        let session = Arc::new(Session {
            store,
            epoch,
            owner,
            answers: answers.clone(),
            puts: Semaphore::new(PUTS_MAX),
            gets: Semaphore::new(GETS_MAX),
            fails_to_delete: AtomicBool::new(false),
        });
        let thread = std::thread::Builder::new().name("forebay-bucket".to_owned()).spawn(move || {
            runtime.block_on(take(session, jobs));
            // Nobody waits any more for requests that are still in flight.
            runtime.shutdown_background();
        })?;
        Ok(Self { jobs: Some(sender), thread: Some(thread), answers })
    }

    /// Submits a job. A thread that has ended never answers, as a dead store would not.
    pub(crate) fn send(&self, job: Job) {
        if let Some(jobs) = &self.jobs {
            let _ = jobs.send(job);
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Session {
    store: Store,
    epoch: u32,
    owner: String,
    answers: Arc<Answers>,
    puts: Semaphore,
    gets: Semaphore,
    /// The last deletion failed. This is logged once, because deletions are tried again and again.
    fails_to_delete: AtomicBool,
}

/// Ensures that a job is answered when it ends, even by a panic: a request without an answer would hang for ever.
struct Ticket {
    answers: Arc<Answers>,
    answer: Option<Answer>,
}

impl Ticket {
    fn end(mut self, answer: Answer) {
        self.answer = Some(answer);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(answer) = self.answer.take() {
            self.answers.give(answer);
        }
    }
}

async fn take(session: Arc<Session>, mut jobs: mpsc::UnboundedReceiver<Job>) {
    while let Some(job) = jobs.recv().await {
        let session = session.clone();
        let ticket = Ticket { answers: session.answers.clone(), answer: Some(job.unanswered()) };
        tokio::spawn(async move {
            let answer = session.run(job).await;
            ticket.end(answer);
        });
    }
}

impl Session {
    async fn run(&self, job: Job) -> Answer {
        match job {
            Job::Put { name, payload } => {
                let (result, is_repeated) = self.write(&name, payload.into_iter().collect()).await;
                let result = result.map_err(|refused| {
                    self.store.given_up(&format!("write {}", name.path()), &refused.text);
                    refused.failure
                });
                Answer::Put { sequence: name.sequence, result, is_repeated }
            }
            Job::Get { number, name, range } => {
                let result = self.read(&name, range).await.map_err(|refused| {
                    self.store.given_up(&format!("read {}", name.path()), &refused.text);
                    refused.failure
                });
                Answer::Get { number, result }
            }
            Job::Look => Answer::Look { result: self.look().await },
            Job::Delete { name } => {
                let is_gone = self.delete(&name).await;
                Answer::Delete { sequence: name.sequence, is_gone }
            }
        }
    }

    async fn look(&self) -> Result<(), Failure> {
        let fail = |failure, text: &str| {
            self.store.given_up(&format!("look at {}", epoch_name(self.epoch)), text);
            Err(failure)
        };
        match look(&self.store, self.epoch, &self.owner).await {
            Ok(Standing::Owned) => Ok(()),
            Ok(Standing::Replaced) => {
                self.store.replaced();
                Err(Failure::FENCED)
            }
            // The epoch check is repeated with the next flush.
            Ok(Standing::Unclear) => {
                fail(Failure::CORRUPT, "it is not listed, or not what was written, and no later one is")
            }
            Err(refused) => fail(refused.failure, &refused.text),
        }
    }

    async fn delete(&self, name: &ObjectName) -> bool {
        let path = self.store.path(&name.path());
        let refused = self.store.persist(0, || self.store.client.delete(&path)).await.0.err();
        // An object that an earlier copy of this request has deleted is gone, too.
        let refused = refused.filter(|refused| !refused.is_absent);
        let failed_before = self.fails_to_delete.swap(refused.is_some(), Ordering::Relaxed);
        if let Some(refused) = refused.as_ref().filter(|_| !failed_before) {
            self.store.given_up(&format!("delete {path}, which is garbage and is tried again"), &refused.text);
        }
        refused.is_none()
    }

    async fn write(&self, name: &ObjectName, payload: PutPayload) -> (Result<(), Refused>, bool) {
        let _slot = match self.store.slot(&self.puts).await {
            Ok(slot) => slot,
            Err(refused) => return (Err(refused), false),
        };
        self.store.put(&self.store.path(&name.path()), payload).await
    }

    async fn read(&self, name: &ObjectName, range: Range<u64>) -> Result<Bytes, Refused> {
        let _slot = self.store.slot(&self.gets).await?;
        let path = self.store.path(&name.path());
        let get = || fetch_range(&self.store.client, &path, range.clone());
        self.store.persist(range.end - range.start, get).await.0
    }
}
