//! The thread that talks with the store: it takes jobs, several at once, and answers them.

use super::fetch::fetch_range;
use super::job::{Answer, Job};
use super::open::{data_name, look};
use super::store::Store;
use crate::bell::Bell;
use object_store::{ObjectStoreExt, PutPayload};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout_at;

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
        // From when it was submitted: waiting for others is part of it.
        let deadline = self.store.deadline();
        let client = &self.store.client;
        match job {
            Job::Put { name, payload } => {
                let _turn = timeout_at(deadline, self.puts.acquire()).await;
                let path = self.store.path(&data_name(&name));
                let payload: PutPayload = payload.into_iter().collect();
                let (result, is_repeated) = self.store.persist(deadline, || client.put(&path, payload.clone())).await;
                let result = result.map(|_| ()).map_err(|refused| {
                    self.store.given_up(&format!("write {path}"), &refused);
                    refused.failure
                });
                Answer::Put { sequence: name.sequence, result, is_repeated }
            }
            Job::Get { number, name, range } => {
                let _turn = timeout_at(deadline, self.gets.acquire()).await;
                let path = self.store.path(&data_name(&name));
                let result = self.store.persist(deadline, || fetch_range(client, &path, range.clone())).await.0;
                let result = result.map_err(|refused| {
                    self.store.given_up(&format!("read {path}"), &refused);
                    refused.failure
                });
                Answer::Get { number, result }
            }
            Job::Look => Answer::Look { result: look(&self.store, self.epoch, &self.owner).await },
            Job::Delete { name } => {
                let path = self.store.path(&data_name(&name));
                let result = self.store.persist(deadline, || client.delete(&path)).await.0;
                Answer::Delete { sequence: name.sequence, is_gone: result.is_ok_and(|()| true) }
            }
        }
    }
}
