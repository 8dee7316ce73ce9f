//! Targets by name: a path or a URI, as users and configurations write them.

use crate::bucket::{BucketDevice, BucketForm, BucketUri};
use crate::escape::{escape, unescape};
use crate::file::{FileDevice, FileOptions, OpenMode};
use crate::modelled::{ModelForm, ModelUri, Store};
use crate::nbd_client::{NbdUri, NbdUriError};
use crate::open_error::OpenError;
use crate::{EmulatedDevice, NullDevice, RamDevice, VolatileDevice};
use forebay_block::Device;
use forebay_block::mistakes::shown;
use forebay_block::size::{SizeError, format_size, parse_size_bytes};
use std::fmt;
use std::io::ErrorKind;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::str::FromStr;

/// All kinds of targets, for messages.
const KNOWN: &str = "a path, file:///path, ram:?size=1GiB, null:?size=1GiB, volatile:TARGET[?seed=1], \
     nbd://ADDRESS[:PORT]/EXPORT, nbd+unix:///EXPORT?socket=/PATH, model:p4800x[?size=1GiB&fill=90&host=NAME], \
     emulated:p4800x?size=1GiB&store=ram, s3://BUCKET/PREFIX?size=64GiB, and for measurements pool:CONFIG";
/// Kinds of targets that can be devices of a pool, for messages.
const KNOWN_OF_POOLS: &str = "a path, file:///path, ram:?size=1GiB, volatile:TARGET[?seed=1], \
     emulated:p4800x?size=1GiB&store=ram, s3://BUCKET/PREFIX?size=64GiB, and for measurements in virtual time \
     model:p4800x[?size=1GiB&fill=90]";
/// Advice for an NBD export, and for a model in virtual time, where a device is needed.
const AS_A_BLOCK_DEVICE: &str = "attach the export as a block device (nbd-client), and name that";
const IN_REAL_TIME: &str =
    "write emulated:NAME?size=SIZE&store=ram or store=/PATH, which models the same drive in real time";
/// Seed of a `volatile:` target that gives none.
const DEFAULT_SEED: u64 = 1;
/// Seed of an emulated SSD, for random events inside the drive such as refresh.
const EMULATED_SEED: u64 = 1;

/// Something that can be opened as a device or for queues. [`fmt::Display`] writes it so that parsing returns an
/// equal value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A file or block device.
    Path(PathBuf),
    /// Memory, lost with the process.
    Ram {
        /// Size in bytes.
        size_bytes: u64,
    },
    /// The null device.
    Null {
        /// Size in bytes.
        size_bytes: u64,
    },
    /// A target behind a volatile write cache in process memory. Part of the unflushed data reaches the target early.
    Volatile {
        /// The target that holds the durable bytes; not volatile itself.
        inner: Box<Target>,
        /// Seed of the early writes.
        seed: u64,
    },
    /// An export of an NBD server; only for queues ([`crate::queue`]).
    Nbd(NbdUri),
    /// A modelled SSD in virtual time; only for measurements in virtual time ([`crate::queue::ModelSource`],
    /// [`crate::VirtualDevice`]).
    Model(ModelUri),
    /// A modelled SSD in real time, over memory or a file.
    Emulated(ModelUri),
    /// A bucket of an S3-compatible store.
    Bucket(BucketUri),
}

/// The reason why the notation of a target was not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// The text is empty.
    #[error("a target is missing; write one of: {KNOWN}")]
    Empty,
    /// The scheme is unknown.
    #[error(
        "unknown kind of target {scheme:?} in {text:?}; known are: {KNOWN}. For a file of that name write ./{text}",
        scheme = shown(scheme),
        text = shown(text)
    )]
    UnknownScheme {
        /// The scheme.
        scheme: String,
        /// The whole text.
        text: String,
    },
    /// A parameter that this kind does not have.
    #[error("{:?} has the parameter {:?}; known here: {known}", shown(text), shown(name))]
    UnknownParameter {
        /// The whole text.
        text: String,
        /// Name of the parameter.
        name: String,
        /// Parameters that this kind of target accepts.
        known: &'static str,
    },
    /// A parameter that is needed.
    #[error("{:?} lacks {name}=: write e.g. {example}", shown(text))]
    MissingParameter {
        /// The whole text.
        text: String,
        /// Name of the parameter.
        name: &'static str,
        /// An example with the parameter.
        example: &'static str,
    },
    /// A size that is none.
    #[error("in {:?}: {source}", shown(text))]
    Size {
        /// The whole text.
        text: String,
        /// The mistake in the size.
        source: SizeError,
    },
    /// An NBD URI cannot be parsed.
    #[error(transparent)]
    Nbd(#[from] NbdUriError),
    /// Anything else.
    #[error("{:?} {what}", shown(text))]
    Form {
        /// The whole text.
        text: String,
        /// What is wrong with the text.
        what: &'static str,
    },
}

impl TargetError {
    /// The error for a device of a pool; it leaves out targets that can only be measured.
    #[must_use]
    pub fn in_pool(&self) -> String {
        match self {
            Self::Empty => format!("a device is missing; write one of: {KNOWN_OF_POOLS}"),
            Self::UnknownScheme { scheme, text } => {
                let (scheme, text) = (shown(scheme), shown(text));
                format!(
                    "unknown kind of device {scheme:?} in {text:?}; known are: {KNOWN_OF_POOLS}. For a file of that name write ./{text}"
                )
            }
            Self::Nbd(NbdUriError { text, .. }) => format!(
                "no pool can be made over {:?}, nor can a disk be laid over it: attach the export as a block device (nbd-client), and name that",
                shown(text)
            ),
            other => other.to_string(),
        }
    }
}

impl Target {
    /// Whether writes outlive the process. Pools over other targets are only for trials.
    #[must_use]
    pub fn is_persistent(&self) -> bool {
        match self {
            Self::Path(_) | Self::Nbd(_) | Self::Bucket(_) => true,
            Self::Ram { .. } | Self::Null { .. } | Self::Model(_) => false,
            Self::Volatile { inner, .. } => inner.is_persistent(),
            Self::Emulated(uri) => matches!(uri.store, Some(Store::Path(_))),
        }
    }

    /// The error that only a load generator can use this target, with advice; also for a target behind a volatile
    /// cache.
    #[must_use]
    pub fn only_measured(&self) -> OpenError {
        let bare = match self {
            Self::Volatile { inner, .. } => inner,
            target => target,
        };
        let advice = match bare {
            Self::Nbd(_) => AS_A_BLOCK_DEVICE,
            _ => IN_REAL_TIME,
        };
        OpenError::NotADevice { target: self.to_string(), advice }
    }

    /// The error that a disk cannot be laid over this target, with advice; `None` where the kind of target allows it.
    /// Also for a target behind a volatile cache.
    #[must_use]
    pub fn not_a_base(&self) -> Option<OpenError> {
        let advice = match self {
            Self::Volatile { inner, .. } => return inner.not_a_base(),
            Self::Nbd(_) => AS_A_BLOCK_DEVICE,
            Self::Model(_) => IN_REAL_TIME,
            _ => return None,
        };
        Some(OpenError::NotABase { target: self.to_string(), advice })
    }

    /// The bucket, also behind a volatile cache; `None` for other targets.
    #[must_use]
    pub fn bucket(&self) -> Option<&BucketUri> {
        match self {
            Self::Bucket(uri) => Some(uri),
            Self::Volatile { inner, .. } => inner.bucket(),
            _ => None,
        }
    }

    /// The path of a file or block device, also behind a volatile cache; `None` for other targets.
    #[must_use]
    pub fn path(&self) -> Option<&std::path::Path> {
        match self {
            Self::Path(path) => Some(path),
            Self::Volatile { inner, .. } => inner.path(),
            Self::Emulated(ModelUri { store: Some(Store::Path(path)), .. }) => Some(path),
            Self::Ram { .. }
            | Self::Null { .. }
            | Self::Nbd(_)
            | Self::Model(_)
            | Self::Emulated(_)
            | Self::Bucket(_) => None,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => {
                let text = path.to_string_lossy();
                // The escaping form is needed for a path that is not UTF-8, reads as a scheme, or would lose a query
                // to `volatile:`.
                if text.starts_with('/') && (text.contains(['?', '%']) || path.to_str().is_none()) {
                    write!(f, "file://{}", escape(path.as_os_str().as_bytes()))
                } else if scheme_of(&text).is_some() {
                    write!(f, "./{text}")
                } else {
                    f.write_str(&text)
                }
            }
            Self::Ram { size_bytes } => write!(f, "ram:?size={}", format_size(*size_bytes)),
            Self::Null { size_bytes } => write!(f, "null:?size={}", format_size(*size_bytes)),
            Self::Nbd(uri) => uri.fmt(f),
            Self::Model(uri) | Self::Emulated(uri) => uri.fmt(f),
            Self::Bucket(uri) => uri.fmt(f),
            Self::Volatile { inner, seed } => {
                let inner = inner.to_string();
                let separator = if inner.contains('?') { '&' } else { '?' };
                write!(f, "volatile:{inner}{separator}seed={seed}")
            }
        }
    }
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        let Some((scheme, rest)) = scheme_of(text) else {
            if text.is_empty() {
                return Err(TargetError::Empty);
            }
            if text.contains('\0') {
                return Err(form(text, "contains a zero byte"));
            }
            return Ok(Self::Path(PathBuf::from(text)));
        };
        match scheme {
            "file" => parse_file(text, rest),
            "ram" => Ok(Self::Ram { size_bytes: parse_size(text, rest, "ram:?size=1GiB")? }),
            "null" => Ok(Self::Null { size_bytes: parse_size(text, rest, "null:?size=1GiB")? }),
            "volatile" => parse_volatile(text, rest),
            "nbd" | "nbd+unix" => Ok(Self::Nbd(text.parse()?)),
            "model" => Ok(Self::Model(parse_model(text, rest, false)?)),
            "emulated" => Ok(Self::Emulated(parse_model(text, rest, true)?)),
            "s3" => Ok(Self::Bucket(parse_bucket(text, rest)?)),
            _ => Err(TargetError::UnknownScheme { scheme: scheme.to_owned(), text: text.to_owned() }),
        }
    }
}

fn form(text: &str, what: &'static str) -> TargetError {
    TargetError::Form { text: text.to_owned(), what }
}

/// Scheme and rest, where the text begins with a scheme by RFC 3986, section 3.1.
fn scheme_of(text: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = text.split_once(':')?;
    let valid = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    valid.then_some((scheme, rest))
}

fn parse_file(text: &str, rest: &str) -> Result<Target, TargetError> {
    let Some(path) = rest.strip_prefix("//").or_else(|| rest.starts_with('/').then_some(rest)) else {
        return Err(form(text, "is not of the form file:///path"));
    };
    if !path.starts_with('/') {
        return Err(form(text, "names a host; only file:///path on this machine is known"));
    }
    if let Some((_, query)) = path.split_once('?') {
        let name = query.split('=').next().unwrap_or(query).to_owned();
        return Err(TargetError::UnknownParameter { text: text.to_owned(), name, known: "none" });
    }
    let bytes = unescape(path).ok_or_else(|| form(text, "has a % that two hex digits do not follow"))?;
    if bytes.contains(&0) {
        return Err(form(text, "contains a zero byte"));
    }
    Ok(Target::Path(PathBuf::from(std::ffi::OsString::from_vec(bytes))))
}

fn parse_size(text: &str, rest: &str, example: &'static str) -> Result<u64, TargetError> {
    let missing = || TargetError::MissingParameter { text: text.to_owned(), name: "size", example };
    let query = match rest.strip_prefix('?') {
        Some(query) => query,
        None if rest.is_empty() => return Err(missing()),
        None => return Err(form(text, "has something between the colon and the ?")),
    };
    let mut size = None;
    for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
        match parameter.split_once('=') {
            Some(("size", _)) if size.is_some() => return Err(form(text, "has two sizes")),
            Some(("size", value)) => {
                let parsed = parse_size_bytes(value);
                size = Some(parsed.map_err(|source| TargetError::Size { text: text.to_owned(), source })?);
            }
            other => {
                let name = other.map_or(parameter, |(name, _)| name).to_owned();
                return Err(TargetError::UnknownParameter { text: text.to_owned(), name, known: "size" });
            }
        }
    }
    match size {
        None => Err(missing()),
        Some(0..4096) => Err(form(text, "is too small: at least 4096 bytes")),
        Some(size) => Ok(size),
    }
}

fn parse_model(text: &str, rest: &str, is_emulated: bool) -> Result<ModelUri, TargetError> {
    let known = if is_emulated { ModelUri::EMULATED_PARAMETERS } else { ModelUri::MODEL_PARAMETERS };
    let text = || text.to_owned();
    ModelUri::parse(rest, is_emulated).map_err(|wrong| match wrong {
        ModelForm::Unknown(name) => TargetError::UnknownParameter { text: text(), name, known },
        ModelForm::Size(source) => TargetError::Size { text: text(), source },
        ModelForm::Form(what) => TargetError::Form { text: text(), what },
    })
}

fn parse_bucket(text: &str, rest: &str) -> Result<BucketUri, TargetError> {
    // A text that may contain a key is not repeated, because errors are logged.
    let text =
        || if text.contains('@') { "s3:".to_owned() } else { text.split('?').next().unwrap_or_default().to_owned() };
    BucketUri::parse(rest).map_err(|wrong| match wrong {
        BucketForm::Unknown(name) => TargetError::UnknownParameter { text: text(), name, known: BucketUri::PARAMETERS },
        BucketForm::Size(source) => TargetError::Size { text: text(), source },
        BucketForm::Form(what) => TargetError::Form { text: text(), what },
    })
}

/// The last parameter is ours where it is `seed=`; everything before it belongs to the target within. A path has no parameters: what
/// looks like one there is refused, as a slip would make it a part of the path, and `file://` writes such a path.
fn parse_volatile(text: &str, rest: &str) -> Result<Target, TargetError> {
    let (inner, seed) = match rest.rfind(['?', '&']) {
        Some(at) if rest[at + 1..].starts_with("seed=") => {
            let seed = rest[at + 6..].parse().map_err(|_| form(text, "has a seed= that is no whole number"))?;
            (&rest[..at], seed)
        }
        _ => (rest, DEFAULT_SEED),
    };
    if let (None, Some((_, query))) = (scheme_of(inner), inner.split_once('?')) {
        let name = query.split(['=', '&']).next().unwrap_or(query).to_owned();
        return Err(TargetError::UnknownParameter { text: text.to_owned(), name, known: "seed" });
    }
    // Checked before descending, so that nesting cannot exhaust the stack.
    if inner.starts_with("volatile:") {
        return Err(form(text, "is volatile twice"));
    }
    Ok(Target::Volatile { inner: Box::new(inner.parse()?), seed })
}

/// Opens a target. A read-only RAM or null target is empty and takes writes, since there is nothing to protect.
///
/// # Errors
/// [`OpenError`], with the path or size concerned.
pub fn open(target: &Target, mode: OpenMode) -> Result<Box<dyn Device>, OpenError> {
    match target {
        Target::Path(path) => Ok(Box::new(FileDevice::open(path, &FileOptions::new(mode))?)),
        Target::Ram { size_bytes } => {
            let device = RamDevice::new(*size_bytes);
            Ok(Box::new(device.map_err(|source| OpenError::Memory { size_bytes: *size_bytes, source })?))
        }
        Target::Null { size_bytes } => Ok(Box::new(NullDevice::new(*size_bytes))),
        target @ (Target::Nbd(_) | Target::Model(_)) => Err(target.only_measured()),
        Target::Emulated(uri) => open_emulated(uri, mode),
        Target::Bucket(uri) => match BucketDevice::open(uri, mode) {
            Ok(device) => Ok(Box::new(device)),
            Err(source) => Err(OpenError::Bucket { target: uri.to_string(), source }),
        },
        Target::Volatile { inner, seed } => Ok(Box::new(VolatileDevice::new(open(inner, mode)?).with_leak(*seed))),
    }
}

fn open_emulated(uri: &ModelUri, mode: OpenMode) -> Result<Box<dyn Device>, OpenError> {
    let (target, wanted_bytes) = (|| uri.to_string(), uri.size_bytes.unwrap_or_default());
    let store = match &uri.store {
        Some(Store::Path(path)) => open(&Target::Path(path.clone()), mode).map_err(|error| match error {
            OpenError::Open { path, source } if source.kind() == ErrorKind::NotFound => {
                OpenError::NoStore { target: target(), path, size_bytes: wanted_bytes }
            }
            other => other,
        })?,
        _ => open(&Target::Ram { size_bytes: wanted_bytes }, mode)?,
    };
    let ssd = uri.build(EMULATED_SEED).map_err(|source| OpenError::Model { target: target(), source })?;
    let (store_bytes, size_bytes) = (store.geometry().size_bytes, ssd.capacity_bytes());
    let advice = if store_bytes > size_bytes {
        Some("make the store as large, or size= larger")
    } else if store_bytes < size_bytes.min(wanted_bytes) {
        Some("make the store as large (truncate -s), or size= smaller")
    } else {
        None
    };
    if let Some(advice) = advice {
        return Err(OpenError::StoreSize { target: target(), store_bytes, size_bytes, advice });
    }
    Ok(Box::new(EmulatedDevice::new(store, ssd, &target())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocking;
    use proptest::prelude::*;

    fn parse(text: &str) -> Result<Target, TargetError> {
        text.parse()
    }

    fn path(text: &str) -> Target {
        Target::Path(PathBuf::from(text))
    }

    #[test]
    fn reads_every_documented_form() {
        let bucket = |rest| Target::Bucket(BucketUri::parse(rest).unwrap());
        let volatile = |inner, seed| Target::Volatile { inner: Box::new(inner), seed };
        for (text, target) in [
            ("/dev/nvme0n1", path("/dev/nvme0n1")),
            ("disk.img", path("disk.img")),
            ("./ram:x", path("./ram:x")),
            ("/a?b=c", path("/a?b=c")),
            ("file:///a%20b", path("/a b")),
            ("file:/a", path("/a")),
            ("ram:?size=1GiB", Target::Ram { size_bytes: 1 << 30 }),
            ("null:?size=4096", Target::Null { size_bytes: 4096 }),
            ("volatile:/x", volatile(path("/x"), 1)),
            ("volatile:/x?seed=7", volatile(path("/x"), 7)),
            ("volatile:ram:?size=8MiB&seed=9", volatile(Target::Ram { size_bytes: 8 << 20 }, 9)),
            ("volatile:file:///x?seed=2", volatile(path("/x"), 2)),
            // A path that is not UTF-8.
            ("file:/%a0b%25", Target::Path(std::ffi::OsStr::from_bytes(b"/\xa0b%").into())),
            ("nbd://[::1]:7/a%20b", Target::Nbd("nbd://[::1]:7/a b".parse().unwrap())),
            ("nbd+unix:///?socket=/s", Target::Nbd("nbd+unix:///?socket=/s".parse().unwrap())),
            ("s3://cold/pool0?size=1TiB", bucket("//cold/pool0?size=1TiB")),
            ("s3://cold", bucket("//cold/")),
            (
                "s3://cold/a/b/?timeout=5s&endpoint=http://127.0.0.1:9&credentials=/a%26b&memory=8MiB&http=allow&object=1MiB&region=x",
                bucket(
                    "//cold/a/b?object=1MiB&memory=8MiB&timeout=5s&endpoint=http://127.0.0.1:9&region=x&credentials=/a%26b&http=allow",
                ),
            ),
            (
                "volatile:nbd+unix:///x?socket=/s&seed=4",
                volatile(Target::Nbd("nbd+unix:///x?socket=/s".parse().unwrap()), 4),
            ),
        ] {
            assert_eq!(parse(text).as_ref(), Ok(&target), "{text}");
            assert_eq!(parse(&target.to_string()), Ok(target), "{text}");
        }
    }

    #[test]
    fn refuses_with_a_reason() {
        for (text, part) in [
            ("", "missing"),
            ("rma:?size=1GiB", "ram:?size"),
            ("ram:", "lacks size"),
            ("ram:?sise=1GiB", "known here: size"),
            ("ram:?size=lots", "is not a size"),
            ("ram:?size=1", "too small"),
            ("ram:?size=1GiB&size=2GiB", "two sizes"),
            ("ram:/x?size=1GiB", "between the colon"),
            ("file://host/x", "names a host"),
            ("file:x", "file:///path"),
            ("file:///x?direct=0", "known here: none"),
            ("file:///x%2", "hex digits"),
            ("file:///x%00", "zero byte"),
            ("nbd:", "is no NBD URI"),
            ("nbd://a..b/x", "names no host"),
            ("nbd+unix:///x", "names no socket"),
            ("volatile:", "missing"),
            ("volatile:volatile:/x", "twice"),
            ("volatile:/x?seed=y", "no whole number"),
            // These were parts of the path.
            ("volatile:/x?sed=1", "the parameter \"sed\"; known here: seed"),
            ("volatile:/x?sed=1&seed=2", "the parameter \"sed\"; known here: seed"),
            ("volatile:./x?seed", "the parameter \"seed\""),
            ("volatile:ram:?size=1GiB&sed=1", "known here: size"),
            ("volatile:file:///x?sed=1", "known here: none"),
            ("nbd+unix:///x?socket=/s&sokcet=/t", "parameter other than socket="),
            ("nbd+unix:///x?socket=/s&socket=/t", "two sockets"),
            ("nbd://127.0.0.1/x?socket=/s", "parameter"),
            ("/x\0", "zero byte"),
            ("s3:cold", "s3://bucket/prefix"),
            ("s3://", "names no bucket"),
            ("s3://Cold/x", "names no bucket"),
            ("s3://cold/../x", "a prefix with"),
            ("s3://cold/a?b", "known here: size"),
            ("s3://cold/a?size=1", "at least 1MiB"),
            ("s3://cold/a?size=1GiB&size=2GiB", "twice"),
            ("s3://cold/a?timeout=5", "of the form 45s"),
            ("s3://cold/a?endpoint=ftp://x", "http://"),
            ("s3://cold/a?http=yes", "allow"),
            ("s3://HUSH:HUSH@cold/a", "keys do not belong"),
            ("s3://cold/a?aws_secret_access_key=HUSH", "has a key"),
            ("s3://cold/a?accessKey=HUSH", "has a key"),
            ("s3://cold/a?nothing=HUSH", "parameter \"nothing\""),
        ] {
            let message = parse(text).unwrap_err().to_string();
            assert!(message.contains(part), "{text:?}: {message}");
            assert!(!message.contains("HUSH"), "{message}");
        }
    }

    #[test]
    fn knows_what_persists() {
        for (text, persists) in [("/x", true), ("volatile:/x", true), ("ram:?size=1MiB", false)] {
            assert_eq!(parse(text).unwrap().is_persistent(), persists);
        }
        assert!(!parse("volatile:ram:?size=1MiB").unwrap().is_persistent());
    }

    #[test]
    fn opens_what_it_names() {
        let directory = tempfile::TempDir::new().unwrap();
        let file = directory.path().join("x");
        FileDevice::create_file(&file, 1 << 20).unwrap();
        for text in [
            file.display().to_string(),
            format!("volatile:{}?seed=3", file.display()),
            "volatile:ram:?size=1MiB".to_owned(),
            "ram:?size=1MiB".to_owned(),
        ] {
            let mut device = open(&parse(&text).unwrap(), OpenMode::ReadWrite).unwrap();
            assert_eq!(device.geometry().size_bytes, 1 << 20);
            blocking::write(&mut *device, 8192, &[9; 4096]).unwrap();
            blocking::flush(&mut *device).unwrap();
            assert_eq!(*blocking::read(&mut *device, 8192, 4096).unwrap(), [9; 4096], "{text}");
        }
        let nbd = open(&parse("nbd://127.0.0.1/x").unwrap(), OpenMode::ReadWrite).err().unwrap();
        assert!(nbd.to_string().contains("nbd://127.0.0.1:10809/x"), "{nbd}");
        let missing = open(&path("/nonexistent/x"), OpenMode::ReadWrite).err().unwrap();
        assert!(missing.to_string().contains("/nonexistent/x"));
    }

    /// Regression: a missing store was reported by its path alone, and a store smaller than the drive was accepted as
    /// a smaller drive.
    #[test]
    fn regression_the_store_of_an_emulated_drive_is_as_large_as_the_drive() {
        let directory = tempfile::TempDir::new().unwrap();
        let file = directory.path().join("store");
        let target = parse(&format!("emulated:p4800x?size=8MiB&store={}", file.display())).unwrap();
        let refused = || open(&target, OpenMode::ReadWrite).err().map(|why| why.to_string()).unwrap_or_default();
        let missing = refused();
        let make = format!("make it (truncate -s 8388608 {})", file.display());
        assert!(missing.contains("is not there") && missing.contains(&make), "{missing}");
        for (mib, advice) in [(4, "truncate -s"), (8, ""), (16, "size= larger")] {
            let store = std::fs::File::options().write(true).create(true).truncate(false).open(&file).unwrap();
            store.set_len(mib << 20).unwrap();
            let why = refused();
            assert_eq!(why.is_empty(), advice.is_empty(), "{mib} MiB: {why}");
            assert!(why.contains(advice), "{mib} MiB: {why}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics_and_what_reads_reads_back(text in "(volatile:)?(file:/{0,3}|ram:|null:|s3://|nbd://|nbd\\+unix:///|/)?[a-z?&=%:./0-9]{0,20}") {
            if let Ok(target) = parse(&text) {
                prop_assert_eq!(parse(&target.to_string()), Ok(target));
            }
        }

        #[test]
        fn arbitrary_text_never_panics(text: String) {
            let _ = parse(&text);
        }
    }
}
