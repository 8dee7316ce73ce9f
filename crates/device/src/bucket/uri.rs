//! The notation of a bucket as a target: `s3://bucket/prefix?size=64GiB`.

use crate::escape::{escape, unescape};
use forebay_block::size::{SizeError, format_size, parse_size_bytes};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Default length of the longest object, which is also the band of a pool that sets none.
pub(crate) const OBJECT_DEFAULT_BYTES: u64 = 16 << 20;
pub(crate) const OBJECT_MIN_BYTES: u64 = 64 << 10;
pub(crate) const OBJECT_MAX_BYTES: u64 = 256 << 20;
/// Default limit of written data in memory that no object holds yet.
const MEMORY_DEFAULT_BYTES: u64 = 64 << 20;
/// Default time for which a request is repeated before it fails.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(45);
const TIMEOUT_MAX: Duration = Duration::from_secs(600);
const SIZE_MIN_BYTES: u64 = 1 << 20;
pub(crate) const SIZE_MAX_BYTES: u64 = 1 << 60;

/// A bucket as a target. It contains no secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketUri {
    /// Name of the bucket.
    pub bucket: String,
    /// Prefix of the names of all objects, without slashes at its ends; empty for the whole bucket.
    pub prefix: String,
    /// Size of a new device in bytes; `None` where the target gives none.
    pub size_bytes: Option<u64>,
    /// Most bytes in an object of a new device; `None` for the default.
    pub object_bytes: Option<u64>,
    /// Limit of written data in memory that no object holds yet, in bytes.
    pub memory_bytes: u64,
    /// Time for which a request is repeated before it fails.
    pub timeout: Duration,
    /// URL of the server; `None` where the environment names it.
    pub endpoint: Option<String>,
    /// Region of the bucket; `None` where the environment names it.
    pub region: Option<String>,
    /// Path of the credentials file; `None` where the environment holds the keys.
    pub credentials: Option<PathBuf>,
    /// Whether plain HTTP to another machine is allowed, although anybody on the network path can read the data.
    pub allow_http: bool,
}

/// What is wrong with the URI of a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BucketForm {
    /// An unknown parameter.
    Unknown(String),
    /// A size that cannot be parsed.
    Size(SizeError),
    /// Another mistake, in words.
    Form(&'static str),
}

impl BucketUri {
    /// All parameters, for messages.
    pub(crate) const PARAMETERS: &'static str =
        "size, object, memory, timeout, endpoint, region, credentials, http (=allow)";

    /// Parses the part behind `s3:`.
    pub(crate) fn parse(rest: &str) -> Result<Self, BucketForm> {
        let rest = rest.strip_prefix("//").ok_or(BucketForm::Form("is not of the form s3://bucket/prefix"))?;
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        if place.contains('@') {
            return Err(BucketForm::Form(
                "has an @: keys do not belong in a target; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a file by credentials=",
            ));
        }
        let (bucket, prefix) = place.split_once('/').unwrap_or((place, ""));
        let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '-');
        if !(3..=63).contains(&bucket.len()) || !bucket.chars().all(good) {
            return Err(BucketForm::Form(
                "names no bucket: its name has 3 to 63 lower-case letters, digits, dots and hyphens",
            ));
        }
        let prefix = prefix.trim_matches('/');
        let good = |c: char| c.is_ascii_alphanumeric() || "-_./!".contains(c);
        if !prefix.chars().all(good)
            || prefix.split('/').any(|part| part == "." || part == "..")
            || prefix.contains("//")
        {
            return Err(BucketForm::Form("has a prefix with other characters than letters, digits and - _ . ! /"));
        }
        let mut uri = Self {
            bucket: bucket.to_owned(),
            prefix: prefix.to_owned(),
            size_bytes: None,
            object_bytes: None,
            memory_bytes: MEMORY_DEFAULT_BYTES,
            timeout: TIMEOUT_DEFAULT,
            endpoint: None,
            region: None,
            credentials: None,
            allow_http: false,
        };
        let mut seen = Vec::new();
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            if seen.contains(&name) {
                return Err(BucketForm::Form("has a parameter twice"));
            }
            seen.push(name);
            uri.set(name, value)?;
        }
        uri.check()
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), BucketForm> {
        let size = || parse_size_bytes(value).map_err(BucketForm::Size);
        let text = || {
            let bytes = unescape(value).ok_or(BucketForm::Form("has a % that two hex digits do not follow"))?;
            let text = String::from_utf8(bytes).ok().filter(|text| !text.is_empty() && !text.contains('\0'));
            text.ok_or(BucketForm::Form("has an empty parameter, or one that is no text"))
        };
        match name {
            "size" => self.size_bytes = Some(size()?),
            "object" => self.object_bytes = Some(size()?),
            "memory" => self.memory_bytes = size()?,
            "timeout" => self.timeout = seconds(value)?,
            "endpoint" => self.endpoint = Some(text()?),
            "region" => self.region = Some(text()?),
            "credentials" => self.credentials = Some(PathBuf::from(text()?)),
            "http" if value == "allow" => self.allow_http = true,
            "http" => return Err(BucketForm::Form("has http= with something else than allow")),
            name if name.to_lowercase().contains("key") || name.to_lowercase().contains("secret") => {
                return Err(BucketForm::Form(
                    "has a key among its parameters, which logs and messages would show: set AWS_ACCESS_KEY_ID and \
                     AWS_SECRET_ACCESS_KEY, or name a file by credentials=",
                ));
            }
            name => return Err(BucketForm::Unknown(name.to_owned())),
        }
        Ok(())
    }

    fn check(self) -> Result<Self, BucketForm> {
        let is_size = |bytes: u64| (SIZE_MIN_BYTES..=SIZE_MAX_BYTES).contains(&bytes) && bytes.is_multiple_of(512);
        if !self.size_bytes.is_none_or(is_size) {
            return Err(BucketForm::Form(
                "is too small or too large, or no multiple of 512 bytes: at least 1MiB, at most 1EiB",
            ));
        }
        let is_good = |bytes: u64| (OBJECT_MIN_BYTES..=OBJECT_MAX_BYTES).contains(&bytes) && bytes.is_multiple_of(4096);
        if !self.object_bytes.is_none_or(is_good) {
            return Err(BucketForm::Form("has object= beyond 64KiB to 256MiB, or no multiple of 4KiB"));
        }
        if self.memory_bytes < OBJECT_MIN_BYTES {
            return Err(BucketForm::Form("has too little memory=: at least 64KiB, and best four times object="));
        }
        if let Some(endpoint) = &self.endpoint
            && (!endpoint.starts_with("http://") && !endpoint.starts_with("https://") || endpoint.contains('@'))
        {
            return Err(BucketForm::Form("has an endpoint= that does not begin with http:// or https://, or has an @"));
        }
        Ok(self)
    }
}

fn seconds(text: &str) -> Result<Duration, BucketForm> {
    let number = text.strip_suffix('s').and_then(|number| number.parse().ok()).map(Duration::from_secs);
    let in_range = number.filter(|timeout| !timeout.is_zero() && *timeout <= TIMEOUT_MAX);
    in_range.ok_or(BucketForm::Form("has a timeout= that is not of the form 45s, from 1s to 600s"))
}

/// As [`escape`]; also escapes `&`, which would begin the next parameter.
fn value(text: &str) -> String {
    escape(text.as_bytes()).replace('&', "%26")
}

impl fmt::Display for BucketUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s3://{}/{}", self.bucket, self.prefix)?;
        let mut parameters = Vec::new();
        let mut add = |name: &str, value: String| parameters.push(format!("{name}={value}"));
        if let Some(size_bytes) = self.size_bytes {
            add("size", format_size(size_bytes));
        }
        if let Some(object_bytes) = self.object_bytes {
            add("object", format_size(object_bytes));
        }
        if self.memory_bytes != MEMORY_DEFAULT_BYTES {
            add("memory", format_size(self.memory_bytes));
        }
        if self.timeout != TIMEOUT_DEFAULT {
            add("timeout", format!("{}s", self.timeout.as_secs()));
        }
        if let Some(endpoint) = &self.endpoint {
            add("endpoint", value(endpoint));
        }
        if let Some(region) = &self.region {
            add("region", value(region));
        }
        if let Some(path) = &self.credentials {
            add("credentials", value(&path.to_string_lossy()));
        }
        if self.allow_http {
            add("http", "allow".to_owned());
        }
        if parameters.is_empty() { Ok(()) } else { write!(f, "?{}", parameters.join("&")) }
    }
}
