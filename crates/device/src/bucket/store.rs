//! Requests to the store that are repeated until they succeed, cannot, or have taken too long.

use super::error::BucketError;
use super::job::Failure;
use crate::throttle::{Throttle, with_number};
use forebay_block::{IoErrorKind, Random};
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt, PutPayload};
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep, timeout_at};
use tracing::{error, info, warn};

/// Between a request and its repetition: at first and at most, halved to doubled by chance.
const DELAY_FIRST: Duration = Duration::from_millis(50);
const DELAY_MAX: Duration = Duration::from_secs(2);
/// One try of a request, but for what it carries.
const TRY_MAX: Duration = Duration::from_secs(30);
/// What a link carries at least, for each of the requests that share it.
const RATE_MIN_BYTES_PER_S: u64 = 1 << 20;
/// Of somebody else's text that a message repeats.
const SHOWN_CHARS: usize = 200;

/// A request that did not succeed.
#[derive(Clone, Debug)]
pub(crate) struct Refused {
    /// For whoever asked the device.
    pub(crate) failure: Failure,
    /// There is no such object.
    pub(crate) is_absent: bool,
    /// There is one already.
    pub(crate) exists: bool,
    /// In words.
    pub(crate) text: String,
}

impl Refused {
    /// As an error of opening.
    pub(crate) fn while_doing(self, doing: impl Into<String>) -> BucketError {
        BucketError::Store { doing: doing.into(), text: self.text }
    }
}

/// Whether the store answers.
#[derive(Debug, Default)]
struct Outage {
    /// When it last failed to answer, while it does.
    since: Option<Instant>,
    /// When it last did what it was asked for.
    answered: Option<Instant>,
    /// A request was given up, and nothing was answered since that began.
    is_given_up: bool,
}

/// The part of a store that one device has.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) client: Arc<dyn ObjectStore>,
    prefix: String,
    /// As messages name it.
    pub(crate) name: String,
    timeout: Duration,
    outage: Mutex<Outage>,
    /// What was logged of requests that were given up, and since when.
    given_up: Mutex<Throttle>,
    begun: Instant,
    random: Mutex<Random>,
}

impl Store {
    /// `seed` is that of the delays between repetitions.
    pub(crate) fn new(client: Arc<dyn ObjectStore>, prefix: &str, name: String, timeout: Duration, seed: u64) -> Self {
        let random = Mutex::new(Random::new(seed));
        Self {
            client,
            prefix: prefix.to_owned(),
            name,
            timeout,
            outage: Mutex::default(),
            given_up: Mutex::default(),
            begun: Instant::now(),
            random,
        }
    }

    /// Where an object is.
    pub(crate) fn path(&self, name: &str) -> Path {
        match self.prefix.is_empty() {
            true => Path::from(name),
            false => Path::from(format!("{}/{name}", self.prefix)),
        }
    }

    /// Where all objects are; `None`: everywhere.
    pub(crate) fn root(&self) -> Option<Path> {
        (!self.prefix.is_empty()).then(|| Path::from(self.prefix.as_str()))
    }

    /// Waits until another request may be sent, for as long as it takes: those before it end, one way or the other. Where they were given
    /// up, so is what has waited for them. Who need not wait tries it.
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
        self.outage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Repeats a request that carries so many bytes, this way or that. With its result comes whether it was sent more than once.
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
            self.is_silent(&refused.text);
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

    /// Makes an object, whatever is there.
    pub(crate) async fn put(&self, path: &Path, payload: PutPayload) -> (Result<(), Refused>, bool) {
        let put = || async {
            match self.client.put(path, payload.clone()).await {
                // It was not asked whether there is one: another request for it is on its way (409).
                Err(Error::AlreadyExists { source, .. }) => Err(Error::Generic { store: "bucket", source }),
                result => result.map(|_| ()),
            }
        };
        self.persist(payload.content_length() as u64, put).await
    }

    /// From half to twice as long, so that requests which failed together do not come together again.
    fn pause(&self, delay: Duration) -> Duration {
        let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
        delay / 2 + Duration::from_millis(random.below(delay.as_millis() as u64 * 3 / 2))
    }

    fn is_silent(&self, text: &str) {
        let mut outage = self.outage();
        if outage.since.is_none() {
            outage.since = Some(Instant::now());
            warn!(
                cause = "store does not answer",
                about = self.name,
                advice = "Look whether the server of the store runs and can be reached. What is asked of it is repeated (docs/bucket.md)",
                "{}: {text}; requests are repeated for up to {} s and wait meanwhile",
                self.name,
                self.timeout.as_secs()
            );
        }
    }

    fn answers(&self) {
        let mut outage = self.outage();
        outage.answered = Some(Instant::now());
        outage.is_given_up = false;
        if let Some(since) = outage.since.take() {
            let seconds = since.elapsed().as_secs_f64();
            info!(
                cause = "store does not answer",
                about = self.name,
                ended = true,
                "{}: answers again after {seconds:.1} s",
                self.name
            );
        }
    }

    /// Somebody else has opened the device to write.
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

    /// A request is given up. In an outage that is one for each object: how many there were goes with the next line. Whether it was logged.
    pub(crate) fn given_up(&self, doing: &str, why: &str) -> bool {
        const CAUSE: &str = "request to a store failed";
        let now_ns = self.begun.elapsed().as_nanos() as u64;
        let mut throttle = self.given_up.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(more) = throttle.happened(now_ns, CAUSE, &self.name) else { return false };
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

/// What an error means, and whether the same request may succeed later.
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
            // The bucket may be what is gone, or who asks be unknown (versitygw): where there is a code it has to be that of the object. An
            // answer to HEAD has none.
            let answer = error.to_string();
            let code = code_of(&answer);
            let is_absent = code.is_none_or(|code| code == "NoSuchKey");
            // For good only where the store says so itself, and nobody before it.
            let kind = if is_absent && code.is_some() { IoErrorKind::Missing } else { IoErrorKind::Medium };
            (Refused { is_absent, ..refused(kind, libc::ENOENT) }, Verdict::Final)
        }
        // Whether there is one is not known: another request for it is on its way.
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

/// Codes of a store that cannot tell yet which of several requests for an object comes first (409).
fn is_conflict(text: &str) -> bool {
    ["ConditionalRequestConflict", "OperationAborted"].iter().any(|code| text.contains(code))
}

/// Codes of a store that has no room.
fn is_full(text: &str) -> bool {
    // MinIO's and Ceph's, and what versitygw says of a file system that is full (HTTP 507).
    ["QuotaExceeded", "XMinioStorageFull", "InsufficientCapacity", "InsufficientStorage"]
        .iter()
        .any(|code| text.contains(code))
}

fn between<'a>(whole: &'a str, open: &str, close: &str) -> Option<&'a str> {
    Some(whole.split_once(open)?.1.split_once(close)?.0)
}

/// The store's own code of an error.
fn code_of(whole: &str) -> Option<&str> {
    between(whole, "<Code>", "</Code>")
}

/// An error in words. A store's own has code and message, and beside them what it was sent, which is nobody's business.
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

    /// Somebody between the store and here may answer 404 as well, and be wrong.
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

    /// versitygw over a file system that is full was asked again and again, and then taken for one that does not answer.
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

    /// In an outage each object that could not be written was a line of the log.
    #[test]
    fn regression_an_outage_is_one_line_and_not_one_for_each_object() {
        let client = Arc::new(InMemory::new());
        let store = Store::new(client, "", "s3://cold".to_owned(), Duration::from_secs(1), 1);
        let logged = (0..500).filter(|at| store.given_up(&format!("write data/{at}"), "no answer in time")).count();
        assert_eq!(logged, 1);
    }

    /// An unknown access key was answered with 404 by a store, and a pool that was whole "had no device in it; `create` makes one".
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
