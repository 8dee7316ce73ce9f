//! Repeats requests to the store until they succeed, fail for good, or have taken too long.

use super::error::BucketError;
use super::job::Failure;
use crate::throttle::{Throttle, with_number};
use forebay_block::{IoErrorKind, Random, lock};
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt, PutPayload};
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep, timeout_at};
use tracing::{error, info, warn};

/// Pause before a repetition: the first one and the longest. Chance varies it from half to twice.
const DELAY_FIRST: Duration = Duration::from_millis(50);
const DELAY_MAX: Duration = Duration::from_secs(2);
/// Time limit of one try, without the time for its payload.
const TRY_MAX: Duration = Duration::from_secs(30);
/// Least transfer rate that is assumed of a link, for each of the requests that share it.
const RATE_MIN_BYTES_PER_S: u64 = 1 << 20;
/// Most characters of a foreign text that a message quotes.
const SHOWN_CHARS: usize = 200;
/// Cause of the log for a store that fails.
const NO_ANSWER: &str = "store does not answer";

/// A request that failed.
#[derive(Clone, Debug)]
pub(crate) struct Refused {
    /// The failure in the terms of a device.
    pub(crate) failure: Failure,
    /// The object does not exist.
    pub(crate) is_absent: bool,
    /// An object of this name exists already.
    pub(crate) exists: bool,
    /// The failure in words.
    pub(crate) text: String,
}

impl Refused {
    /// The failure as an error of opening.
    pub(crate) fn while_doing(self, doing: impl Into<String>) -> BucketError {
        BucketError::Store { doing: doing.into(), text: self.text }
    }
}

/// Whether the store answers at present.
#[derive(Debug, Default)]
struct Outage {
    /// When the store began to fail; `None` while it answers.
    since: Option<Instant>,
    /// When a request last succeeded.
    answered: Option<Instant>,
    /// A request was given up, and none has succeeded since that request began.
    is_given_up: bool,
}

/// The part of a store that holds one device.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) client: Arc<dyn ObjectStore>,
    prefix: String,
    /// Name of the store in messages.
    pub(crate) name: String,
    timeout: Duration,
    outage: Mutex<Outage>,
    /// Limits the log lines on requests that were given up.
    throttle: Mutex<Throttle>,
    begun: Instant,
    random: Mutex<Random>,
}

impl Store {
    /// `seed` varies the pauses between repetitions.
    pub(crate) fn new(client: Arc<dyn ObjectStore>, prefix: &str, name: String, timeout: Duration, seed: u64) -> Self {
        let random = Mutex::new(Random::new(seed));
        Self {
            client,
            prefix: prefix.to_owned(),
            name,
            timeout,
            outage: Mutex::default(),
            throttle: Mutex::default(),
            begun: Instant::now(),
            random,
        }
    }

    /// Path of an object in the bucket.
    pub(crate) fn path(&self, name: &str) -> Path {
        match self.prefix.is_empty() {
            true => Path::from(name),
            false => Path::from(format!("{}/{name}", self.prefix)),
        }
    }

    /// The prefix of all objects; `None` where it is the whole bucket.
    pub(crate) fn root(&self) -> Option<Path> {
        (!self.prefix.is_empty()).then(|| Path::from(self.prefix.as_str()))
    }

    /// Waits for a free slot, however long that takes, since the requests in the slots end in any case. Where they
    /// were given up meanwhile, the waiting request is given up, too. A request that need not wait is tried even
    /// then.
    pub(crate) async fn slot<'a>(&self, slots: &'a Semaphore) -> Result<SemaphorePermit<'a>, Refused> {
        if let Ok(slot) = slots.try_acquire() {
            return Ok(slot);
        }
        match slots.acquire().await {
            Ok(slot) if !self.outage().is_given_up => Ok(slot),
            _ => Err(late()),
        }
    }

    fn outage(&self) -> MutexGuard<'_, Outage> {
        lock(&self.outage)
    }

    /// Repeats a request that transfers `carried_bytes` in either direction. Also returns whether it was sent more
    /// than once.
    pub(crate) async fn persist<T, F>(
        &self,
        carried_bytes: u64,
        mut request: impl FnMut() -> F,
    ) -> (Result<T, Refused>, bool)
    where
        F: Future<Output = object_store::Result<T>>,
    {
        let carried = Duration::from_millis(carried_bytes * 1000 / RATE_MIN_BYTES_PER_S);
        let begin = Instant::now();
        let deadline = begin + self.timeout + carried;
        let try_max = self.timeout.min(TRY_MAX) + carried;
        let (mut delay, mut is_repeated) = (DELAY_FIRST, false);
        loop {
            let refused = match timeout_at(deadline.min(Instant::now() + try_max), request()).await {
                Ok(Ok(value)) => {
                    self.answers();
                    return (Ok(value), is_repeated);
                }
                Ok(Err(error)) => match judge(&error) {
                    (refused, Verdict::Final) => return (Err(refused), is_repeated),
                    (refused, Verdict::Repeat) => refused,
                },
                Err(_) => late(),
            };
            self.begin_outage(&refused.text);
            let pause = self.pause(delay);
            if Instant::now() + pause >= deadline {
                let mut outage = self.outage();
                outage.is_given_up |= outage.answered.is_none_or(|answered| answered < begin);
                return (Err(refused), is_repeated);
            }
            sleep(pause).await;
            delay = (delay * 2).min(DELAY_MAX);
            is_repeated = true;
        }
    }

    /// Stores an object, and overwrites an existing one.
    pub(crate) async fn put(&self, path: &Path, payload: PutPayload) -> (Result<(), Refused>, bool) {
        let put = || async {
            match self.client.put(path, payload.clone()).await {
                // The request has no condition, so this answer (409) means that another request for the object is in
                // flight.
                Err(Error::AlreadyExists { source, .. }) => Err(Error::Generic { store: "bucket", source }),
                result => result.map(|_| ()),
            }
        };
        self.persist(payload.content_length() as u64, put).await
    }

    /// Varies a pause from half to twice, so that requests that failed together are not repeated together.
    fn pause(&self, delay: Duration) -> Duration {
        let mut random = lock(&self.random);
        delay / 2 + Duration::from_millis(random.below(delay.as_millis() as u64 * 3 / 2))
    }

    /// The store fails. Where it does so again and again, lines are limited and carry the number of those left out. Returns
    /// whether a line was logged.
    fn begin_outage(&self, text: &str) -> bool {
        self.outage().since.get_or_insert_with(Instant::now);
        let Some(more) = lock(&self.throttle).lasts(self.now_ns(), NO_ANSWER, &self.name) else { return false };
        let (name, seconds) = (&self.name, self.timeout.as_secs());
        let message = with_number(
            &format!("{name}: {text}; requests are repeated for up to {seconds} s and wait meanwhile"),
            more,
        );
        warn!(
            cause = NO_ANSWER,
            about = self.name,
            more,
            advice = "Look whether the server of the store runs and can be reached. What is asked of it is repeated (docs/bucket.md)",
            "{message}"
        );
        true
    }

    fn answers(&self) {
        let mut outage = self.outage();
        outage.answered = Some(Instant::now());
        outage.is_given_up = false;
        if let Some(since) = outage.since.take()
            && lock(&self.throttle).ended(NO_ANSWER, &self.name)
        {
            let seconds = since.elapsed().as_secs_f64();
            info!(
                cause = NO_ANSWER,
                about = self.name,
                ended = true,
                "{}: answers again after {seconds:.1} s",
                self.name
            );
        }
    }

    fn now_ns(&self) -> u64 {
        self.begun.elapsed().as_nanos() as u64
    }

    /// Logs that another server has opened the device to write.
    pub(crate) fn replaced(&self) {
        error!(
            cause = "store taken over",
            about = self.name,
            advice =
                "Stop one of the two servers; what this one had answered as durable is in the bucket (docs/bucket.md)",
            "{}: another server has opened it; this one writes nothing more",
            self.name
        );
    }

    /// Logs a request that was given up. In an outage there is one for each object, so lines are limited and carry
    /// the number of those left out. Returns whether a line was logged.
    pub(crate) fn given_up(&self, doing: &str, why: &str) -> bool {
        const CAUSE: &str = "request to a store failed";
        let Some(more) = lock(&self.throttle).happened(self.now_ns(), CAUSE, &self.name) else { return false };
        let message = with_number(&format!("{}: cannot {doing}: {why}", self.name), more);
        warn!(
            cause = CAUSE,
            about = self.name,
            more,
            advice = "The pool treats it as a failed request of a device (docs/when-a-device-fails.md)",
            "{message}"
        );
        true
    }
}

enum Verdict {
    Repeat,
    Final,
}

fn late() -> Refused {
    let failure = Failure { kind: IoErrorKind::Medium, os_error: libc::ETIMEDOUT };
    Refused { failure, is_absent: false, exists: false, text: "no answer in time".to_owned() }
}

/// Judges an error: what it means, and whether the same request may succeed later.
fn judge(error: &Error) -> (Refused, Verdict) {
    let text = words(error);
    let refused = |kind, os_error| Refused {
        failure: Failure { kind, os_error },
        is_absent: false,
        exists: false,
        text: text.clone(),
    };
    match error {
        Error::NotFound { .. } => {
            // A 404 may also mean that the bucket is gone, or that the client is unknown (versitygw). Where the
            // answer has a code, it must be the code of a missing object. An answer to HEAD has none.
            let answer = error.to_string();
            let code = code_of(&answer);
            let is_absent = code.is_none_or(|code| code == "NoSuchKey");
            // Only the store's own code proves the object missing for good; a proxy in front of it may answer 404,
            // too.
            let kind = if is_absent && code.is_some() { IoErrorKind::Missing } else { IoErrorKind::Medium };
            (Refused { is_absent, ..refused(kind, libc::ENOENT) }, Verdict::Final)
        }
        // Another request for the object is in flight, so it is not known whether the object exists.
        Error::AlreadyExists { .. } if is_conflict(&text) => {
            (refused(IoErrorKind::Medium, libc::EAGAIN), Verdict::Repeat)
        }
        Error::AlreadyExists { .. } | Error::Precondition { .. } => {
            (Refused { exists: true, ..refused(IoErrorKind::Medium, libc::EEXIST) }, Verdict::Final)
        }
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
            (refused(IoErrorKind::Medium, libc::EACCES), Verdict::Final)
        }
        Error::NotSupported { .. } | Error::NotImplemented { .. } => {
            (refused(IoErrorKind::Unsupported, libc::EOPNOTSUPP), Verdict::Final)
        }
        Error::InvalidPath { .. } | Error::UnknownConfigurationKey { .. } => {
            (refused(IoErrorKind::Medium, libc::EINVAL), Verdict::Final)
        }
        _ if is_full(&text) => (refused(IoErrorKind::NoSpace, libc::ENOSPC), Verdict::Final),
        _ => (refused(IoErrorKind::Medium, libc::ETIMEDOUT), Verdict::Repeat),
    }
}

/// Codes (HTTP 409) of a store that has not decided yet which of several requests for an object comes first.
fn is_conflict(text: &str) -> bool {
    ["ConditionalRequestConflict", "OperationAborted"].iter().any(|code| text.contains(code))
}

/// Codes of a store that has no space.
fn is_full(text: &str) -> bool {
    // MinIO's and Ceph's codes, and versitygw's for a full file system (HTTP 507).
    ["QuotaExceeded", "XMinioStorageFull", "InsufficientCapacity", "InsufficientStorage"]
        .iter()
        .any(|code| text.contains(code))
}

fn between<'a>(whole: &'a str, open: &str, close: &str) -> Option<&'a str> {
    Some(whole.split_once(open)?.1.split_once(close)?.0)
}

/// The store's error code in an answer.
fn code_of(whole: &str) -> Option<&str> {
    between(whole, "<Code>", "</Code>")
}

/// An error in words. Of a store's answer only code and message are used: the rest repeats the request, which holds
/// secrets.
fn words(error: &Error) -> String {
    let whole = error.to_string();
    let text = match code_of(&whole) {
        Some(code) => {
            let message = between(&whole, "<Message>", "</Message>").unwrap_or_default();
            format!("the store says {code}: {message}")
        }
        None => {
            let mut inner: &dyn std::error::Error = error;
            while let Some(source) = inner.source() {
                inner = source;
            }
            inner.to_string()
        }
    };
    text.chars().take(SHOWN_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use object_store::memory::InMemory;

    /// A proxy between the store and this client may wrongly answer 404.
    #[test]
    fn only_the_store_says_that_an_object_is_missing() {
        let kind_of = |body: &str| {
            let error = Error::NotFound { path: "data/1".to_owned(), source: body.to_owned().into() };
            judge(&error).0.failure.kind
        };
        assert_eq!(kind_of("<Error><Code>NoSuchKey</Code></Error>"), IoErrorKind::Missing);
        for body in ["", "<html>404 Not Found</html>", "<Error><Code>NoSuchBucket</Code></Error>"] {
            assert_eq!(kind_of(body), IoErrorKind::Medium, "{body}");
        }
    }

    /// Regression: a full file system below versitygw was taken for a store that does not answer, and the request was
    /// repeated.
    #[test]
    fn regression_a_store_without_room_says_so_at_once() {
        for code in ["QuotaExceeded", "XMinioStorageFull", "InsufficientCapacity", "InsufficientStorage"] {
            let source = format!("Server returned error response: <Error><Code>{code}</Code></Error>").into();
            let (refused, verdict) = judge(&Error::Generic { store: "S3", source });
            assert!(matches!(verdict, Verdict::Final) && refused.failure.kind == IoErrorKind::NoSpace, "{code}");
        }
        let source = "<Error><Code>SlowDown</Code></Error>".into();
        assert!(matches!(judge(&Error::Generic { store: "S3", source }).1, Verdict::Repeat));
    }

    /// Regression: in an outage each object that could not be written was a line of the log.
    #[test]
    fn regression_an_outage_is_one_line_and_not_one_for_each_object() {
        let client = Arc::new(InMemory::new());
        let store = Store::new(client, "", "s3://cold".to_owned(), Duration::from_secs(1), 1);
        let logged = (0..500).filter(|at| store.given_up(&format!("write data/{at}"), "no answer in time")).count();
        assert_eq!(logged, 1);
    }

    /// Regression: a store that refuses one request in ten for a while (503 SlowDown) was two lines of the log each time.
    #[test]
    fn regression_a_store_that_slows_down_is_a_few_lines() {
        let store = Store::new(Arc::new(InMemory::new()), "", "s3://cold".to_owned(), Duration::from_secs(1), 1);
        let logged = (0..100).filter(|_| {
            let is_logged = store.begin_outage("SlowDown");
            assert!(!store.begin_outage("SlowDown"), "it goes on");
            store.answers();
            is_logged
        });
        assert_eq!(logged.count(), 3);
    }

    /// Regression: a store answers an unknown access key with 404, and a complete pool was reported to have no
    /// device, with the advice to create one.
    #[test]
    fn regression_a_404_that_is_not_of_an_object_is_no_absent_device() {
        let judged = |body: &str| judge(&Error::NotFound { path: "geometry.json".into(), source: body.into() }).0;
        assert!(judged("Object at location geometry.json not found").is_absent);
        assert!(judged("<Error><Code>NoSuchKey</Code><Message>no such key</Message></Error>").is_absent);
        for code in ["XAdminUserNotFound", "NoSuchBucket"] {
            let refused = judged(&format!("<Error><Code>{code}</Code><Message>it is not there</Message></Error>"));
            assert!(!refused.is_absent && refused.text.contains(code), "{}", refused.text);
        }
    }
}
