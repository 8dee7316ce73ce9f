//! The thread that talks with the store: it takes jobs, several at once, and answers them.

use super::epoch::{Standing, epoch_name, look};
use super::fetch::fetch_range;
use super::job::{Answer, Failure, Job};
use super::name::ObjectName;
use super::store::{Refused, Store};
use crate::bell::Bell;
use bytes::Bytes;
use object_store::{ObjectStoreExt, PutPayload};
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, mpsc};

/// Objects written, and read, at once.
const PUTS_MAX: usize = 8;
const GETS_MAX: usize = 32;

/// Answers, and the bell that rings when there are some.
#[derive(Debug)]
pub(crate) struct Answers {
    list: Mutex<Vec<Answer>>,
    pub(crate) bell: Bell,
}

impl Answers {
    fn give(&self, answer: Answer) {
        self.list.lock().unwrap_or_else(PoisonError::into_inner).push(answer);
        self.bell.ring();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Takes those that have come.
    pub(crate) fn take(&self) -> Vec<Answer> {
        // In this order: what comes after is rung for again.
        self.bell.clear();
        std::mem::take(&mut *self.list.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The thread.
pub(crate) struct Worker {
    jobs: Option<mpsc::UnboundedSender<Job>>,
    thread: Option<JoinHandle<()>>,
    pub(crate) answers: Arc<Answers>,
}

impl Worker {
    /// Serves `store` as `epoch`, whose object holds `owner`.
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
            // What is still on its way was asked for by nobody who waits.
            runtime.shutdown_background();
        })?;
        Ok(Self { jobs: Some(sender), thread: Some(thread), answers })
    }

    /// Submits a job. A thread that is gone answers nothing, which is what a dead store does.
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
    /// The last deletion failed: that is logged once, for it is tried again and again.
    fails_to_delete: AtomicBool,
}

/// Gives the answer of a job when it ends, be it by a panic: a request that is never answered stands still for ever.
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
            // It is looked at again when somebody asks.
            Ok(Standing::Unclear) => {
                fail(Failure::CORRUPT, "it is not listed, or not what was written, and no later one is")
            }
            Err(refused) => fail(refused.failure, &refused.text),
        }
    }

    async fn delete(&self, name: &ObjectName) -> bool {
        let path = self.store.path(&name.path());
        let refused = self.store.persist(0, || self.store.client.delete(&path)).await.0.err();
        // One that an earlier request has deleted is gone, too.
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
