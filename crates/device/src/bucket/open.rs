//! Making a device in a bucket, and opening it.
//!
//! `geometry.json` says how large it is. `epoch/N` belongs to whoever opened it last to write: made by a conditional write, so that of
//! two only one has it. The highest one counts: a request that was held up may make an older one again. Predecessors are deleted.
//! Only then are the objects listed. `roll/N` says which were there: requests that were on their way then may arrive later, and must not
//! count.

use super::error::BucketError;
use super::fetch::fetch;
use super::job::Failure;
use super::name::{ObjectName, Sequence};
use super::roll::Roll;
use super::store::{Refused, Store};
use super::uri::{BucketUri, OBJECT_DEFAULT_BYTES, OBJECT_MAX_BYTES, OBJECT_MIN_BYTES, SIZE_MAX_BYTES};
use bytes::Bytes;
use forebay_block::size::format_size;
use futures_util::TryStreamExt;
use futures_util::future::join;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStoreExt, PutMode, PutOptions, PutPayload};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hasher, RandomState};
use tracing::warn;

const GEOMETRY: &str = "geometry.json";
const FORMAT: u32 = 1;
/// Names that a server lists at once.
const PAGE_NAMES: usize = 1000;
/// What `geometry.json` and an epoch's object hold at most.
const NOTE_MAX_BYTES: usize = 64 << 10;
/// What a roll holds at most: some millions of runs.
const ROLL_MAX_BYTES: usize = 256 << 20;
/// The most that a read is given time for where its length is not known before.
const READ_TIMED_BYTES: usize = 16 << 20;

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
    /// Those that count and are not as long as their name says.
    pub(crate) damaged: BTreeSet<Sequence>,
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

async fn read(store: &Store, name: &str, most_bytes: usize) -> std::result::Result<Bytes, Refused> {
    let path = store.path(name);
    store.persist(most_bytes.min(READ_TIMED_BYTES) as u64, || fetch(&store.client, &path, most_bytes)).await.0
}

/// Makes an object where there is none of that name.
async fn make(store: &Store, name: &str, content: &[u8]) -> std::result::Result<(), Refused> {
    let path = store.path(name);
    let put = || {
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        store.client.put_opts(&path, PutPayload::from(content.to_vec()), options)
    };
    store.persist(0, put).await.0.map(|_| ())
}

async fn delete(store: &Store, name: &str) -> Result<()> {
    let path = store.path(name);
    match store.persist(0, || store.client.delete(&path)).await.0 {
        Err(refused) if !refused.is_absent => Err(refused.while_doing(format!("delete {name}"))),
        _ => Ok(()),
    }
}

/// The names below a folder, each with its size.
async fn list(store: &Store, folder: &str) -> Result<Vec<(String, u64)>> {
    names_below(store, folder).await.map_err(|refused| refused.while_doing(format!("list {folder}/")))
}

/// Each page has the time that a request has, and follows the last name of the one before it.
async fn names_below(store: &Store, folder: &str) -> std::result::Result<Vec<(String, u64)>, Refused> {
    let path = store.path(folder);
    let mut names = Vec::new();
    let mut last: Option<Path> = None;
    loop {
        let page = || async {
            let mut list = match &last {
                Some(last) => store.client.list_with_offset(Some(&path), last),
                None => store.client.list(Some(&path)),
            };
            let mut page: Vec<ObjectMeta> = Vec::new();
            while page.len() < PAGE_NAMES
                && let Some(meta) = list.try_next().await?
            {
                // Else names would be left out, or come for ever.
                if page.last().map(|meta| &meta.location).or(last.as_ref()).is_some_and(|last| meta.location <= *last) {
                    return Err(object_store::Error::NotSupported { source: "names are not listed in order".into() });
                }
                page.push(meta);
            }
            Ok(page)
        };
        let page = store.persist(0, page).await.0?;
        let name = |location: &Path| {
            let parts: Vec<_> = location.prefix_match(&path).into_iter().flatten().collect();
            parts.iter().map(AsRef::as_ref).collect::<Vec<&str>>().join("/")
        };
        names.extend(page.iter().map(|meta| (name(&meta.location), meta.size)));
        let is_last = page.len() < PAGE_NAMES;
        last = page.into_iter().next_back().map(|meta| meta.location);
        if is_last {
            return Ok(names);
        }
    }
}

/// Numbers below a folder that holds one object for each.
async fn numbers(store: &Store, folder: &str) -> Result<BTreeSet<u32>> {
    Ok(numbers_of(&list(store, folder).await?))
}

/// Names that are written otherwise are none of ours.
fn numbers_of(names: &[(String, u64)]) -> BTreeSet<u32> {
    let number = |name: &str| u32::from_str_radix(name, 16).ok().filter(|number| format!("{number:08x}") == name);
    names.iter().filter_map(|(name, _)| number(name)).collect()
}

/// Any object at all.
async fn anything(store: &Store) -> Result<Option<Path>> {
    let root = store.root();
    let once = || async { Ok(store.client.list(root.as_ref()).try_next().await?.map(|meta| meta.location)) };
    store.persist(0, once).await.0.map_err(|refused| refused.while_doing("list it"))
}

async fn description(store: &Store) -> Result<Description> {
    let bytes = match read(store, GEOMETRY, NOTE_MAX_BYTES).await {
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
    let is_size = (1..=SIZE_MAX_BYTES).contains(&size_bytes) && size_bytes.is_multiple_of(512);
    let is_object = (OBJECT_MIN_BYTES..=OBJECT_MAX_BYTES).contains(&object_bytes) && object_bytes.is_multiple_of(4096);
    if !is_size || !is_object {
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
    let (epoch, _) = take_epoch(store).await?;
    // What is still on its way from others does not count either.
    write_roll(store, &Roll::call(epoch, [])).await?;
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
    let sorted = sort(store, &description, &roll, &listed);
    let latest = sorted.names.iter().max_by_key(|name| name.sequence);
    // Whoever reads only has the epoch of the one who writes.
    let is_known = |epoch| if is_writable { epoch < newest } else { epoch <= newest };
    if let Some(name) = latest.filter(|name| !is_known(name.sequence.epoch)) {
        return Err(BucketError::Newer { epoch: newest, found: data_name(name) });
    }
    // Whoever opens it to write makes a roll before the first object: one is missing, and without it nobody knows what counts.
    if let Some(name) = latest.filter(|name| !roll.knows(name.sequence.epoch)) {
        return Err(BucketError::NoRoll { found: data_name(name) });
    }
    if is_writable {
        let counted = sorted.names.iter().filter(|name| roll.counts(name.sequence));
        write_roll(store, &Roll::call(newest, counted)).await?;
    }
    let Sorted { objects, invalid, damaged, .. } = sorted;
    Ok(Found { description, epoch: newest, owner, objects, invalid, damaged })
}

/// Makes a roll the newest one.
async fn write_roll(store: &Store, roll: &Roll) -> Result<()> {
    let text = serde_json::to_vec(roll).map_err(|error| BucketError::Client(error.to_string()))?;
    let name = roll_name(roll.author());
    let path = store.path(&name);
    let put = || store.client.put(&path, PutPayload::from(text.clone()));
    let put = store.persist(text.len() as u64, put).await.0;
    put.map_err(|refused| refused.while_doing(format!("write {name}")))?;
    for epoch in numbers(store, "roll").await?.into_iter().filter(|epoch| *epoch < roll.author()) {
        delete(store, &roll_name(epoch)).await?;
    }
    Ok(())
}

/// Becomes the one who writes: number and content of the epoch's object.
async fn take_epoch(store: &Store) -> Result<(u32, String)> {
    let before = numbers(store, "epoch").await?;
    let rolls = numbers(store, "roll").await?;
    let last = before.last().max(rolls.last()).copied().unwrap_or_default();
    let Some(epoch) = last.checked_add(1) else {
        return Err(BucketError::Description { object: epoch_name(last), what: "no epoch can follow it".to_owned() });
    };
    let name = epoch_name(epoch);
    // Different for each program that opens it, so that one knows its own when an answer was lost.
    let owner = format!("{:016x}{:016x}", RandomState::new().build_hasher().finish(), std::process::id());
    match make(store, &name, owner.as_bytes()).await {
        Ok(()) => {}
        Err(refused) if refused.exists => {
            let found = read(store, &name, NOTE_MAX_BYTES).await;
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
    let is_written_again = match make(store, &name, owner.to_uppercase().as_bytes()).await {
        Err(refused) if refused.exists => false,
        Ok(()) => true,
        Err(refused) => return Err(refused.while_doing(format!("write {name}"))),
    };
    // Others may have taken this one and later ones, and deleted this one, since the list was made.
    let (after, rolls) = (numbers(store, "epoch").await?, numbers(store, "roll").await?);
    let newest = after.last().max(rolls.last()).copied().unwrap_or_default();
    if newest > epoch {
        delete(store, &name).await?;
        return Err(BucketError::Busy { epoch: newest });
    }
    if is_written_again {
        return Err(BucketError::NoConditions);
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
    let bytes =
        read(store, &name, ROLL_MAX_BYTES).await.map_err(|refused| refused.while_doing(format!("read {name}")))?;
    serde_json::from_slice(&bytes).map_err(|error| BucketError::Description { object: name, what: error.to_string() })
}

/// What the names say.
#[derive(Default)]
struct Sorted {
    /// All that are names.
    names: Vec<ObjectName>,
    /// Objects that count, and those that do not.
    objects: Vec<ObjectName>,
    invalid: Vec<ObjectName>,
    /// Objects that count and are not as long as their name says.
    damaged: BTreeSet<Sequence>,
}

fn sort(store: &Store, description: &Description, roll: &Roll, listed: &[(String, u64)]) -> Sorted {
    let mut sorted = Sorted::default();
    let mut seen = BTreeSet::new();
    let mut strangers = Vec::new();
    for (text, size_bytes) in listed {
        let Ok(name) = text.parse::<ObjectName>() else {
            strangers.push(text);
            continue;
        };
        sorted.names.push(name);
        let unit = |at: u64| at / description.object_bytes;
        let fits = name.end_bytes() <= description.size_bytes && unit(name.start_bytes) == unit(name.end_bytes() - 1);
        if !fits || !seen.insert(name.sequence) {
            strangers.push(text);
        } else if !roll.counts(name.sequence) {
            sorted.invalid.push(name);
        } else {
            if name.stored_bytes() != *size_bytes {
                strangers.push(text);
                sorted.damaged.insert(name.sequence);
            }
            sorted.objects.push(name);
        }
    }
    if let Some(first) = strangers.first() {
        warn!(
            cause = "strange objects",
            about = store.name,
            advice = "They are left alone. An object that is not as long as its name says was damaged in the store, and reads of it fail: run forebay verify",
            "{}: {} objects below data/ are no device's or not whole, such as {first}",
            store.name,
            strangers.len()
        );
    }
    sorted
}

/// Whether the epoch is its owner's: it is the highest, and its object is the one that the owner made.
pub(crate) fn is_owned(epochs: &BTreeSet<u32>, epoch: u32, content: &[u8], owner: &str) -> bool {
    epochs.last() == Some(&epoch) && content == owner.as_bytes()
}

/// Whether an epoch is still that of its owner.
pub(crate) async fn look(store: &Store, epoch: u32, owner: &str) -> std::result::Result<(), Failure> {
    let name = epoch_name(epoch);
    // A successor lists the objects after its own epoch is there, so this may be asked in any order.
    let (listed, content) = join(names_below(store, "epoch"), read(store, &name, NOTE_MAX_BYTES)).await;
    let content = match content {
        Err(refused) if refused.is_absent => Ok(Bytes::new()),
        content => content,
    };
    match listed.and_then(|listed| Ok((listed, content?))) {
        Ok((listed, content)) if is_owned(&numbers_of(&listed), epoch, &content, owner) => Ok(()),
        Ok(_) => {
            store.replaced();
            Err(Failure::FENCED)
        }
        Err(refused) => {
            store.given_up(&format!("look at {name}"), &refused);
            Err(refused.failure)
        }
    }
}
