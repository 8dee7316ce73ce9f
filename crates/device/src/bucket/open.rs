//! Making a device in a bucket, and opening it.
//!
//! `geometry.json` says how large it is. `epoch/N` belongs to whoever opened it last to write: made by a conditional write, so that of
//! two only one has it, and its predecessors are deleted, which is how those find out. Only then are the objects listed. `roll/N` says
//! which were there: requests that were on their way then may arrive later, and must not count.

use super::error::BucketError;
use super::job::Failure;
use super::name::ObjectName;
use super::roll::Roll;
use super::store::{Refused, Store};
use super::uri::{BucketUri, OBJECT_DEFAULT_BYTES};
use forebay_block::size::format_size;
use futures_util::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectStoreExt, PutMode, PutOptions, PutPayload};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hasher, RandomState};
use tracing::warn;

const GEOMETRY: &str = "geometry.json";
const FORMAT: u32 = 1;

/// What a device is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Description {
    /// What this is, for people.
    forebay: String,
    format: u32,
    pub(crate) size_bytes: u64,
    /// The most that an object holds.
    pub(crate) object_bytes: u64,
}

/// What opening has found.
pub(crate) struct Found {
    pub(crate) description: Description,
    pub(crate) epoch: u32,
    /// What the epoch's object holds.
    pub(crate) owner: String,
    pub(crate) objects: Vec<ObjectName>,
    /// Objects that came after somebody else had opened the device.
    pub(crate) invalid: Vec<ObjectName>,
}

fn epoch_name(epoch: u32) -> String {
    format!("epoch/{epoch:08x}")
}

fn roll_name(epoch: u32) -> String {
    format!("roll/{epoch:08x}")
}

/// Where the objects with data are.
pub(crate) fn data_name(name: &ObjectName) -> String {
    format!("data/{name}")
}

type Result<T> = std::result::Result<T, BucketError>;

async fn read(store: &Store, name: &str) -> std::result::Result<Vec<u8>, Refused> {
    let path = store.path(name);
    let client = &store.client;
    let get = || async { client.get(&path).await?.bytes().await };
    store.persist(store.deadline(), get).await.0.map(|bytes| bytes.to_vec())
}

/// Makes an object where there is none of that name.
async fn make(store: &Store, name: &str, content: &[u8]) -> std::result::Result<(), Refused> {
    let path = store.path(name);
    let put = || {
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        store.client.put_opts(&path, PutPayload::from(content.to_vec()), options)
    };
    store.persist(store.deadline(), put).await.0.map(|_| ())
}

async fn delete(store: &Store, name: &str) -> Result<()> {
    let path = store.path(name);
    match store.persist(store.deadline(), || store.client.delete(&path)).await.0 {
        Err(refused) if !refused.is_absent => Err(refused.while_doing(format!("delete {name}"))),
        _ => Ok(()),
    }
}

/// The names below a folder, each with its size.
async fn list(store: &Store, folder: &str) -> Result<Vec<(String, u64)>> {
    let path = store.path(folder);
    let once = || async {
        let mut names = Vec::new();
        let mut list = store.client.list(Some(&path));
        while let Some(meta) = list.try_next().await? {
            names.push((meta.location.filename().unwrap_or_default().to_owned(), meta.size));
        }
        Ok(names)
    };
    let listed = store.persist(store.deadline(), once).await.0;
    listed.map_err(|refused| refused.while_doing(format!("list {folder}/")))
}

/// Numbers below a folder that holds one object for each.
async fn numbers(store: &Store, folder: &str) -> Result<BTreeSet<u32>> {
    let names = list(store, folder).await?;
    Ok(names.iter().filter_map(|(name, _)| u32::from_str_radix(name, 16).ok()).collect())
}

/// Any object at all.
async fn anything(store: &Store) -> Result<Option<Path>> {
    let root = store.root();
    let once = || async { Ok(store.client.list(root.as_ref()).try_next().await?.map(|meta| meta.location)) };
    store.persist(store.deadline(), once).await.0.map_err(|refused| refused.while_doing("list it"))
}

async fn description(store: &Store) -> Result<Description> {
    let bytes = match read(store, GEOMETRY).await {
        Ok(bytes) => bytes,
        Err(refused) if refused.is_absent => return Err(BucketError::Absent),
        Err(refused) => return Err(refused.while_doing(format!("read {GEOMETRY}"))),
    };
    let wrong = |what: String| BucketError::Description { object: GEOMETRY.to_owned(), what };
    let description: Description = serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?;
    if description.format != FORMAT {
        return Err(wrong(format!("it has format {}, and this program knows {FORMAT}", description.format)));
    }
    let Description { size_bytes, object_bytes, .. } = description;
    if size_bytes == 0 || !size_bytes.is_multiple_of(512) || object_bytes == 0 || !object_bytes.is_multiple_of(4096) {
        return Err(wrong(format!("a device of {size_bytes} bytes in objects of {object_bytes}")));
    }
    Ok(description)
}

fn check(uri: &BucketUri, description: &Description) -> Result<()> {
    let differs = |name, made: u64, asked: Option<u64>| match asked {
        Some(asked) if asked != made => {
            Err(BucketError::Differs { name, made: format_size(made), asked: format_size(asked) })
        }
        _ => Ok(()),
    };
    differs("size", description.size_bytes, uri.size_bytes)?;
    differs("object", description.object_bytes, uri.object_bytes)
}

/// Makes a device where there is nothing; one that is there is left as it is.
pub(crate) async fn create(store: &Store, uri: &BucketUri) -> Result<()> {
    match description(store).await {
        Err(BucketError::Absent) => {}
        Err(error) => return Err(error),
        Ok(description) => return check(uri, &description),
    }
    if let Some(found) = anything(store).await? {
        return Err(BucketError::Foreign { found: found.to_string() });
    }
    let size_bytes = uri.size_bytes.ok_or(BucketError::NoSize)?;
    let object_bytes = uri.object_bytes.unwrap_or(OBJECT_DEFAULT_BYTES);
    let forebay = "a device of Forebay in objects: docs/bucket.md".to_owned();
    let made = Description { forebay, format: FORMAT, size_bytes, object_bytes };
    let text = serde_json::to_vec_pretty(&made).map_err(|error| BucketError::Client(error.to_string()))?;
    match make(store, GEOMETRY, &text).await {
        // A repeated request, or another one at the same time: what is there decides.
        Err(refused) if !refused.exists => return Err(refused.while_doing(format!("write {GEOMETRY}"))),
        _ => {}
    }
    check(uri, &description(store).await?)
}

/// Deletes all data of a device, which stays as large as it is. Servers that have it open find out.
pub(crate) async fn clear(store: &Store) -> Result<()> {
    description(store).await?;
    take_epoch(store).await?;
    for (name, _) in list(store, "data").await? {
        delete(store, &format!("data/{name}")).await?;
    }
    Ok(())
}

/// Opens a device: to write, which takes it from whoever has it, or to read only.
pub(crate) async fn open(store: &Store, uri: &BucketUri, is_writable: bool) -> Result<Found> {
    let description = description(store).await?;
    check(uri, &description)?;
    let (newest, owner) = match is_writable {
        true => take_epoch(store).await?,
        false => (numbers(store, "epoch").await?.last().copied().unwrap_or_default(), String::new()),
    };
    let roll = newest_roll(store).await?;
    let listed = list(store, "data").await?;
    let (objects, invalid) = sort(store, &description, &roll, &listed);
    let later = objects.iter().chain(&invalid).find(|name| name.sequence.epoch >= newest + u32::from(!is_writable));
    if let Some(name) = later {
        return Err(BucketError::Newer { epoch: newest, found: data_name(name) });
    }
    if is_writable {
        let roll = Roll::call(newest, &objects);
        let text = serde_json::to_vec(&roll).map_err(|error| BucketError::Client(error.to_string()))?;
        let name = roll_name(newest);
        let path = store.path(&name);
        let put = || store.client.put(&path, PutPayload::from(text.clone()));
        let put = store.persist(store.deadline(), put).await.0;
        put.map_err(|refused| refused.while_doing(format!("write {name}")))?;
        for epoch in numbers(store, "roll").await?.into_iter().filter(|epoch| *epoch < newest) {
            delete(store, &roll_name(epoch)).await?;
        }
    }
    Ok(Found { description, epoch: newest, owner, objects, invalid })
}

/// Becomes the one who writes: number and content of the epoch's object.
async fn take_epoch(store: &Store) -> Result<(u32, String)> {
    let before = numbers(store, "epoch").await?;
    let rolls = numbers(store, "roll").await?;
    let epoch = before.last().max(rolls.last()).copied().unwrap_or_default() + 1;
    let name = epoch_name(epoch);
    // Different for each program that opens it, so that one knows its own when an answer was lost.
    let owner = format!("{:016x}{:016x}", RandomState::new().build_hasher().finish(), std::process::id());
    match make(store, &name, owner.as_bytes()).await {
        Ok(()) => {}
        Err(refused) if refused.exists => {
            let found = read(store, &name).await;
            if !found.is_ok_and(|found| found == owner.as_bytes()) {
                return Err(BucketError::Busy { epoch });
            }
        }
        Err(refused) if refused.failure.kind == forebay_block::IoErrorKind::Unsupported => {
            return Err(BucketError::NoConditions);
        }
        Err(refused) => return Err(refused.while_doing(format!("write {name}"))),
    }
    // A store that does not know the condition writes it again.
    match make(store, &name, owner.to_uppercase().as_bytes()).await {
        Err(refused) if refused.exists => {}
        Ok(()) => return Err(BucketError::NoConditions),
        Err(refused) => return Err(refused.while_doing(format!("write {name}"))),
    }
    for epoch in before {
        delete(store, &epoch_name(epoch)).await?;
    }
    Ok((epoch, owner))
}

/// What the last one who opened the device to write found.
async fn newest_roll(store: &Store) -> Result<Roll> {
    let Some(epoch) = numbers(store, "roll").await?.last().copied() else { return Ok(Roll::default()) };
    let name = roll_name(epoch);
    let bytes = read(store, &name).await.map_err(|refused| refused.while_doing(format!("read {name}")))?;
    serde_json::from_slice(&bytes).map_err(|error| BucketError::Description { object: name, what: error.to_string() })
}

/// Objects that count, and objects that do not.
fn sort(
    store: &Store,
    description: &Description,
    roll: &Roll,
    listed: &[(String, u64)],
) -> (Vec<ObjectName>, Vec<ObjectName>) {
    let (mut objects, mut invalid) = (Vec::new(), Vec::new());
    let mut seen = BTreeSet::new();
    let mut strangers = Vec::new();
    for (text, size_bytes) in listed {
        let Ok(name) = text.parse::<ObjectName>() else {
            strangers.push(text);
            continue;
        };
        let unit = |at: u64| at / description.object_bytes;
        let is_whole = name.stored_bytes() == *size_bytes
            && name.end_bytes() <= description.size_bytes
            && unit(name.start_bytes) == unit(name.end_bytes() - 1);
        if !is_whole || !seen.insert(name.sequence) {
            strangers.push(text);
            continue;
        }
        match roll.counts(name.sequence) {
            true => objects.push(name),
            false => invalid.push(name),
        }
    }
    if let Some(first) = strangers.first() {
        warn!(
            cause = "strange objects",
            about = store.name,
            advice = "They are left alone. An object that is not as long as its name says was damaged in the store: run forebay verify",
            "{}: {} objects below data/ are no device's or not whole, such as {first}",
            store.name,
            strangers.len()
        );
    }
    (objects, invalid)
}

/// Whether an epoch is still that of its owner.
pub(crate) async fn look(store: &Store, epoch: u32, owner: &str) -> std::result::Result<(), Failure> {
    let name = epoch_name(epoch);
    match read(store, &name).await {
        Ok(found) if found == owner.as_bytes() => Ok(()),
        Err(refused) if !refused.is_absent => {
            store.given_up(&format!("read {name}"), &refused);
            Err(refused.failure)
        }
        Ok(_) | Err(_) => {
            store.replaced();
            Err(Failure::FENCED)
        }
    }
}
