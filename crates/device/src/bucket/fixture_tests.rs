//! A store in memory that fails where a test asks for it, and devices over it.

use super::*;
use crate::blocking;
use async_trait::async_trait;
use forebay_block::Random;
use futures_util::stream::{BoxStream, StreamExt};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta, ObjectStoreExt,
    PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// When an event happens: before a request is carried out, or after it, before its answer arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    BeforePut,
    BeforeGet,
    AfterGet,
}

type Event = Box<dyn FnOnce() + Send>;

/// Events that happen once, at the first request for an object whose name contains the given part.
#[derive(Default)]
struct Events(Mutex<Vec<(Moment, &'static str, Event)>>);

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("events")
    }
}

/// A store that fails where the test asks for it.
#[derive(Debug, Default)]
pub(super) struct Unsteady {
    pub(super) inner: InMemory,
    pub(super) is_down: AtomicBool,
    pub(super) forbids: AtomicBool,
    events: Events,
    /// The next list ends at the first name that contains this part, and looks complete.
    overlooked: Mutex<Option<&'static str>>,
    /// The next answered read makes the client panic.
    pub(super) panics: AtomicBool,
    /// Duration of a write, in milliseconds.
    pub(super) write_ms: AtomicU64,
    /// A list fails after this many names; 0: no list fails.
    pub(super) listed_names: AtomicU64,
    /// Reads arrive in parts, and claim a length beyond any memory.
    pub(super) swells: AtomicBool,
    /// Of 200 requests, this many are lost before they are carried out, and as many after.
    pub(super) lost: AtomicU64,
    /// The store ignores conditions of writes.
    pub(super) is_old: AtomicBool,
    random: Mutex<Option<Random>>,
    pub(super) puts: AtomicU64,
    /// Answers to the next writes: conflicts with another request for the object. Such a write is not carried out.
    pub(super) conflicts: Mutex<Vec<&'static str>>,
    /// Names of objects for which a put was tried.
    pub(super) tried: Mutex<BTreeSet<String>>,
}

fn no_answer() -> object_store::Error {
    object_store::Error::Generic { store: "unsteady", source: "connection reset".into() }
}

impl Unsteady {
    fn dice(&self) -> u64 {
        let mut random = self.random.lock().unwrap();
        random.get_or_insert_with(|| Random::new(1)).below(200)
    }

    /// Whether the answer of a request that is carried out arrives; an error where the request is not carried out.
    fn fate(&self) -> Result<bool> {
        if self.forbids.load(Ordering::SeqCst) {
            let source = "<Code>AccessDenied</Code><Message>no</Message><StringToSign>SECRET</StringToSign>".into();
            return Err(object_store::Error::PermissionDenied { path: "x".to_owned(), source });
        }
        let (lost, dice) = (self.lost.load(Ordering::SeqCst), self.dice());
        if self.is_down.load(Ordering::SeqCst) || dice < lost {
            return Err(no_answer());
        }
        Ok(dice >= 2 * lost)
    }

    /// Registers an event that happens once.
    pub(super) fn once(&self, moment: Moment, part: &'static str, event: impl FnOnce() + Send + 'static) {
        self.events.0.lock().unwrap().push((moment, part, Box::new(event)));
    }

    fn happens(&self, moment: Moment, location: &Path) {
        let mut events = self.events.0.lock().unwrap();
        let at = events.iter().position(|(when, part, _)| *when == moment && location.as_ref().contains(part));
        let event = at.map(|at| events.remove(at).2);
        drop(events);
        if let Some(event) = event {
            event();
        }
    }

    /// Makes the next list end at a name that contains `part`.
    pub(super) fn overlook(&self, part: &'static str) {
        *self.overlooked.lock().unwrap() = Some(part);
    }

    fn is_overlooked(&self, location: &Path) -> bool {
        self.overlooked.lock().unwrap().take_if(|part| location.as_ref().contains(*part)).is_some()
    }
}

/// The store as the device sees it.
#[derive(Clone, Debug)]
pub(super) struct Door(pub(super) Arc<Unsteady>);

impl Door {
    fn cut(&self, list: BoxStream<'static, Result<ObjectMeta>>) -> BoxStream<'static, Result<ObjectMeta>> {
        let store = self.0.clone();
        let is_seen =
            move |meta: &Result<ObjectMeta>| !meta.as_ref().is_ok_and(|meta| store.is_overlooked(&meta.location));
        let list = list.take_while(move |meta| std::future::ready(is_seen(meta))).boxed();
        match self.listed_names.load(Ordering::SeqCst) as usize {
            0 => list,
            names => list.enumerate().map(move |(at, meta)| if at < names { meta } else { Err(no_answer()) }).boxed(),
        }
    }
}

impl std::ops::Deref for Door {
    type Target = Unsteady;
    fn deref(&self) -> &Unsteady {
        &self.0
    }
}

impl fmt::Display for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unsteady")
    }
}

#[async_trait]
impl ObjectStore for Door {
    async fn put_opts(&self, location: &Path, payload: PutPayload, mut opts: PutOptions) -> Result<PutResult> {
        self.puts.fetch_add(1, Ordering::SeqCst);
        self.tried.lock().unwrap().insert(location.to_string());
        self.happens(Moment::BeforePut, location);
        if let Some(code) = self.conflicts.lock().unwrap().pop() {
            let source = format!("<Error><Code>{code}</Code></Error>").into();
            return Err(object_store::Error::AlreadyExists { path: location.to_string(), source });
        }
        let answers = self.fate()?;
        let wait = Duration::from_millis(self.write_ms.load(Ordering::SeqCst));
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        if self.is_old.load(Ordering::SeqCst) {
            opts.mode = PutMode::Overwrite;
        }
        let result = self.inner.put_opts(location, payload, opts).await;
        if answers { result } else { Err(no_answer()) }
    }

    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        Err(no_answer())
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.happens(Moment::BeforeGet, location);
        let answers = self.fate()?;
        let mut result = self.inner.get_opts(location, options).await;
        self.happens(Moment::AfterGet, location);
        assert!(!self.panics.swap(false, Ordering::SeqCst), "a panic of the client's");
        if let Ok(found) = &mut result
            && self.swells.load(Ordering::SeqCst)
        {
            found.range = 0..1 << 62;
            let parts = [bytes::Bytes::from_static(b"{"), bytes::Bytes::from_static(b"}")];
            found.payload = GetResultPayload::Stream(futures_util::stream::iter(parts).map(Ok).boxed());
        }
        if answers { result } else { Err(no_answer()) }
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        match self.fate() {
            Ok(true) => self.inner.delete_stream(locations),
            Ok(false) => self.inner.delete_stream(locations).map(|_| Err(no_answer())).boxed(),
            Err(_) => locations.map(|_| Err(no_answer())).boxed(),
        }
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.fate() {
            Ok(_) => self.cut(self.inner.list(prefix)),
            Err(error) => futures_util::stream::iter([Err(error)]).boxed(),
        }
    }

    fn list_with_offset(&self, prefix: Option<&Path>, offset: &Path) -> BoxStream<'static, Result<ObjectMeta>> {
        self.cut(self.inner.list_with_offset(prefix, offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

pub(super) fn uri(more: &str) -> BucketUri {
    BucketUri::parse(&format!("//cold/pool?size=16MiB&object=1MiB&memory=4MiB{more}")).unwrap()
}

pub(super) fn made() -> Arc<Unsteady> {
    let store = Arc::new(Unsteady::default());
    create_in(Arc::new(Door(store.clone())), &uri("")).unwrap();
    store
}

pub(super) fn open(
    store: &Arc<Unsteady>,
    more: &str,
    mode: OpenMode,
) -> std::result::Result<BucketDevice, BucketError> {
    BucketDevice::open_in(Arc::new(Door(store.clone())), &uri(more), mode)
}

pub(super) fn clear(store: &Arc<Unsteady>) -> std::result::Result<(), BucketError> {
    runtime()?.block_on(open::clear(&super::store(Arc::new(Door(store.clone())), &uri(""))))
}

pub(super) fn opened(store: &Arc<Unsteady>) -> BucketDevice {
    open(store, "", OpenMode::ReadWrite).unwrap()
}

pub(super) fn names(store: &Arc<Unsteady>, folder: &str) -> Vec<String> {
    let folder = Path::from(format!("pool/{folder}"));
    let list = store.inner.list(Some(&folder)).map(|meta| meta.unwrap().location.filename().unwrap().to_owned());
    runtime().unwrap().block_on(list.collect())
}

/// Names of all stored objects.
pub(super) fn all_names(store: &Arc<Unsteady>) -> Vec<String> {
    let list = store.inner.list(None).map(|meta| meta.unwrap().location.to_string());
    let mut names: Vec<String> = runtime().unwrap().block_on(list.collect());
    names.sort();
    names
}

/// Polls the device until `is_so` holds.
pub(super) fn until(device: &mut BucketDevice, is_so: impl Fn(&BucketDevice) -> bool) {
    let (begin, mut done) = (std::time::Instant::now(), Vec::new());
    while !is_so(device) {
        assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", device.objects());
        device.poll(&mut done);
        kernel::wait_readable(device.worker.answers.bell.as_fd(), 10_000_000);
    }
}

pub(super) fn put(store: &Unsteady, name: &str, content: &[u8]) {
    let path = Path::from(format!("pool/{name}"));
    runtime().unwrap().block_on(store.inner.put(&path, content.to_vec().into())).unwrap();
}

pub(super) fn take(store: &Unsteady, name: &str) -> Vec<u8> {
    let path = Path::from(format!("pool/{name}"));
    runtime().unwrap().block_on(async {
        let content = store.inner.get(&path).await.unwrap().bytes().await.unwrap().to_vec();
        store.inner.delete(&path).await.unwrap();
        content
    })
}

pub(super) fn refused(store: &Arc<Unsteady>, mode: OpenMode, part: &str) {
    let text = open(store, "", mode).err().map(|error| error.to_string()).unwrap_or_default();
    assert!(text.contains(part), "{text:?}");
}

/// A store with a device that has written one object, and the object's name.
pub(super) fn with_one_object() -> (Arc<Unsteady>, String) {
    let store = made();
    let mut device = opened(&store);
    blocking::write(&mut device, 0, &[1; 4096]).unwrap();
    blocking::flush(&mut device).unwrap();
    let [name] = &names(&store, "data")[..] else { panic!("one object") };
    (store.clone(), name.clone())
}
