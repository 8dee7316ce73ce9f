//! Makes and opens a device in a bucket.
//!
//! `geometry.json` holds its size. A server that opens the device to write first takes an epoch, and lists the
//! objects only then. `roll/N` records which objects existed then: requests in flight at that time may arrive later,
//! and their objects must not count.

use super::epoch::{Standing, epoch_name, look, take_epoch};
use super::error::BucketError;
use super::listing::{Contents, anything, contents, list, numbers};
use super::name::{ObjectName, Sequence};
use super::notes::{NOTE_MAX_BYTES, delete, make, read};
use super::roll::Roll;
use super::store::{Refused, Store};
use super::uri::{BucketUri, OBJECT_DEFAULT_BYTES, OBJECT_MAX_BYTES, OBJECT_MIN_BYTES, SIZE_MAX_BYTES};
use forebay_block::size::format_size;
use object_store::PutPayload;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use tracing::warn;

const GEOMETRY: &str = "geometry.json";
const FORMAT: u32 = 1;
/// Longest roll, in bytes: some millions of runs.
const ROLL_MAX_BYTES: usize = 256 << 20;
/// Properties of a device, stored in `geometry.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Description {
    /// A note for people on what this object is.
    forebay: String,
    format: u32,
    pub(crate) size_bytes: u64,
    /// Most bytes in an object.
    pub(crate) object_bytes: u64,
}

/// What the opening found.
pub(crate) struct Found {
    pub(crate) description: Description,
    pub(crate) epoch: u32,
    /// Content of the epoch's object; empty where the device is read only.
    pub(crate) owner: String,
    pub(crate) objects: Vec<ObjectName>,
    /// Objects that arrived after another server had opened the device.
    pub(crate) invalid: Vec<ObjectName>,
    /// Objects that count, but whose length differs from the one in their name.
    pub(crate) damaged: BTreeSet<Sequence>,
}

fn roll_name(epoch: u32) -> String {
    format!("roll/{epoch:08x}")
}

type Result<T> = std::result::Result<T, BucketError>;

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

/// Makes a device where there is none; an existing one stays as it is.
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
        Err(refused) if refused.failure.kind == forebay_block::IoErrorKind::Unsupported => {
            return Err(BucketError::NoConditions);
        }
        // A repeated request, or another server at the same time, has made it. What exists is checked below.
        Err(refused) if !refused.exists => return Err(refused.while_doing(format!("write {GEOMETRY}"))),
        Err(_) => {}
        // A second conditional write must fail. Where it succeeds, the store ignores the condition; the object is
        // deleted again.
        Ok(()) => match make(store, GEOMETRY, &text).await {
            Ok(()) => {
                delete(store, GEOMETRY).await?;
                return Err(BucketError::NoConditions);
            }
            Err(refused) if !refused.exists => return Err(refused.while_doing(format!("write {GEOMETRY}"))),
            Err(_) => {}
        },
    }
    check(uri, &description(store).await?)
}

/// Deletes all data of a device and keeps its properties. Servers that have it open are fenced off.
pub(crate) async fn clear(store: &Store) -> Result<()> {
    description(store).await?;
    let (epoch, owner) = take_epoch(store).await?;
    // An empty roll: objects whose requests are still in flight from other servers do not count either.
    write_roll(store, &Roll::call(epoch, [])).await?;
    let listed = list(store, "data").await.map_err(|refused| refused.while_doing("list data/"))?;
    // A server that opens the device after this epoch check reads that roll, by which none of the objects listed
    // before count.
    match look(store, epoch, &owner).await.map_err(|refused| refused.while_doing("look at the epoch"))? {
        Standing::Owned => {}
        Standing::Replaced => return Err(BucketError::Busy { epoch }),
        Standing::Unclear => return Err(BucketError::Unlisted { missing: epoch_name(epoch) }),
    }
    for name in listed.iter().filter_map(|name| name.parse::<ObjectName>().ok()) {
        delete(store, &name.path()).await?;
    }
    Ok(())
}

/// Opens a device, either to write, which fences off the server that had it open, or only to read.
pub(crate) async fn open(store: &Store, uri: &BucketUri, is_writable: bool) -> Result<Found> {
    let description = description(store).await?;
    check(uri, &description)?;
    let own = if is_writable { Some(take_epoch(store).await?) } else { None };
    let Contents { data, epochs, rolls, .. } = whole_contents(store, own.as_ref().map(|(epoch, _)| *epoch)).await?;
    let (newest, owner) = own.unwrap_or_else(|| (epochs.last().copied().unwrap_or_default(), String::new()));
    let parsed = data.iter().filter_map(|(name, _)| name.parse::<ObjectName>().ok());
    let latest = parsed.max_by_key(|name| name.sequence);
    // A reader has no epoch of its own; the newest one belongs to the server that writes.
    let is_known = |epoch| if is_writable { epoch < newest } else { epoch <= newest };
    if let Some(name) = latest.filter(|name| !is_known(name.sequence.epoch)) {
        return Err(BucketError::Newer { epoch: newest, found: name.path() });
    }
    let roll = newest_roll(store, rolls, latest.as_ref()).await?;
    let sorted = sort(store, &description, &roll, &data);
    if is_writable {
        let counted = sorted.names.iter().filter(|name| roll.counts(name.sequence));
        write_roll(store, &Roll::call(newest, counted)).await?;
    }
    let Sorted { objects, invalid, damaged, .. } = sorted;
    Ok(Found { description, epoch: newest, owner, objects, invalid, damaged })
}

/// The text of a roll. Refuses one that is too long to be read again; the older roll stays then.
pub(crate) fn roll_text(roll: &Roll, most_bytes: usize) -> Result<Vec<u8>> {
    let text = serde_json::to_vec(roll).map_err(|error| BucketError::Client(error.to_string()))?;
    match text.len() > most_bytes {
        true => Err(BucketError::LongRoll { name: roll_name(roll.author()), len_bytes: text.len(), most_bytes }),
        false => Ok(text),
    }
}

/// Stores a roll as the newest one, and deletes the older ones.
async fn write_roll(store: &Store, roll: &Roll) -> Result<()> {
    let name = roll_name(roll.author());
    let text = roll_text(roll, ROLL_MAX_BYTES)?;
    let put = store.put(&store.path(&name), PutPayload::from(text)).await.0;
    put.map_err(|refused| refused.while_doing(format!("write {name}")))?;
    let rolls = numbers(store, "roll").await.map_err(|refused| refused.while_doing("list roll/"))?;
    for epoch in rolls.into_iter().filter(|epoch| *epoch < roll.author()) {
        delete(store, &roll_name(epoch)).await?;
    }
    Ok(())
}

/// Lists the device, as the owner of `epoch` where one is given. One wrong answer of the store could end the list too
/// early. Objects left out of it would be forgotten, and deleted by the next server. So the list must contain objects
/// that are known to exist and that come last in the order of names.
async fn whole_contents(store: &Store, epoch: Option<u32>) -> Result<Contents> {
    let contents = contents(store).await?;
    if let Some(epoch) = epoch {
        let newest = contents.epochs.last().max(contents.rolls.last()).copied().unwrap_or_default();
        if newest > epoch {
            return Err(BucketError::Busy { epoch: newest });
        }
        if !contents.epochs.contains(&epoch) {
            return Err(BucketError::Unlisted { missing: epoch_name(epoch) });
        }
    }
    if !contents.notes.contains(GEOMETRY) {
        return Err(BucketError::Unlisted { missing: GEOMETRY.to_owned() });
    }
    Ok(contents)
}

async fn read_roll(store: &Store, epoch: u32) -> Result<std::result::Result<Roll, Refused>> {
    let name = roll_name(epoch);
    let wrong = |error: serde_json::Error| BucketError::Description { object: name.clone(), what: error.to_string() };
    match read(store, &name, ROLL_MAX_BYTES).await {
        Ok(bytes) => serde_json::from_slice(&bytes).map(Ok).map_err(wrong),
        Err(refused) if refused.is_absent => Ok(Err(refused)),
        Err(refused) => Err(refused.while_doing(format!("read {name}"))),
    }
}

/// The roll of the last server that opened the device to write. It must know the epoch of the latest object, because
/// a server writes its roll before its first object.
async fn newest_roll(store: &Store, listed: BTreeSet<u32>, latest: Option<&ObjectName>) -> Result<Roll> {
    let newest = async |listed: &BTreeSet<u32>| match listed.last() {
        Some(epoch) => read_roll(store, *epoch).await,
        None => Ok(Ok(Roll::default())),
    };
    let is_enough = |roll: &Roll| latest.is_none_or(|name| roll.knows(name.sequence.epoch));
    if let Ok(roll) = newest(&listed).await?
        && is_enough(&roll)
    {
        return Ok(roll);
    }
    // The list may have been incomplete, or a newer server may have replaced the roll meanwhile.
    let listed = numbers(store, "roll").await.map_err(|refused| refused.while_doing("list roll/"))?;
    let roll = newest(&listed).await?.map_err(|refused| refused.while_doing("read the newest object of roll/"))?;
    match latest.filter(|_| !is_enough(&roll)) {
        // Without the roll it is not known which objects count.
        Some(name) => Err(BucketError::NoRoll { found: name.path() }),
        None => Ok(roll),
    }
}

/// The listed names, sorted by what they mean.
#[derive(Default)]
struct Sorted {
    /// All names of data objects.
    names: Vec<ObjectName>,
    /// Objects that count, and those that do not.
    objects: Vec<ObjectName>,
    invalid: Vec<ObjectName>,
    /// Objects that count, but whose length differs from the one in their name.
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
