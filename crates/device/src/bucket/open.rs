//! Making a device in a bucket, and opening it.
//!
//! `geometry.json` says how large it is. Whoever opens it to write takes an epoch first, and only then lists the objects. `roll/N` says
//! which were there: requests that were on their way then may arrive later, and must not count.

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
/// What a roll holds at most: some millions of runs.
const ROLL_MAX_BYTES: usize = 256 << 20;
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
        Err(refused) if refused.failure.kind == forebay_block::IoErrorKind::Unsupported => {
            return Err(BucketError::NoConditions);
        }
        // A repeated request, or another one at the same time: what is there decides.
        Err(refused) if !refused.exists => return Err(refused.while_doing(format!("write {GEOMETRY}"))),
        Err(_) => {}
        // A store that does not know the condition writes it again, and is left as it was.
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

/// Deletes all data of a device, which stays as large as it is. Servers that have it open find out.
pub(crate) async fn clear(store: &Store) -> Result<()> {
    description(store).await?;
    let (epoch, owner) = take_epoch(store).await?;
    // What is still on its way from others does not count either.
    write_roll(store, &Roll::call(epoch, [])).await?;
    let listed = list(store, "data").await.map_err(|refused| refused.while_doing("list data/"))?;
    // Whoever opens the device after this look has that roll, by which none of what was listed before it counts.
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

/// Opens a device: to write, which takes it from whoever has it, or to read only.
pub(crate) async fn open(store: &Store, uri: &BucketUri, is_writable: bool) -> Result<Found> {
    let description = description(store).await?;
    check(uri, &description)?;
    let own = if is_writable { Some(take_epoch(store).await?) } else { None };
    let Contents { data, epochs, rolls, .. } = whole_contents(store, own.as_ref().map(|(epoch, _)| *epoch)).await?;
    let (newest, owner) = own.unwrap_or_else(|| (epochs.last().copied().unwrap_or_default(), String::new()));
    let parsed = data.iter().filter_map(|(name, _)| name.parse::<ObjectName>().ok());
    let latest = parsed.max_by_key(|name| name.sequence);
    // Whoever reads only has the epoch of the one who writes.
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

/// A roll as it is stored, if it can be read again: else the older one has to stay.
pub(crate) fn roll_text(roll: &Roll, most_bytes: usize) -> Result<Vec<u8>> {
    let text = serde_json::to_vec(roll).map_err(|error| BucketError::Client(error.to_string()))?;
    match text.len() > most_bytes {
        true => Err(BucketError::LongRoll { name: roll_name(roll.author()), len_bytes: text.len(), most_bytes }),
        false => Ok(text),
    }
}

/// Makes a roll the newest one.
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

/// Lists the device, which is taken as `epoch` where one is given. A list that ends too early, for which it takes one wrong answer, would
/// have objects forgotten that are there, and deleted by the next one who opens the device. So what is known to be there and comes after
/// them in the order of names has to be in it.
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

/// What the last one who opened the device to write found, of these rolls. It was listed after the latest object, so it knows of that:
/// whoever opens the device to write makes a roll before the first object.
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
    // The list may have ended before its end, or the next one who opened the device have replaced it.
    let listed = numbers(store, "roll").await.map_err(|refused| refused.while_doing("list roll/"))?;
    let roll = newest(&listed).await?.map_err(|refused| refused.while_doing("read the newest object of roll/"))?;
    match latest.filter(|_| !is_enough(&roll)) {
        // Without it nobody knows what counts.
        Some(name) => Err(BucketError::NoRoll { found: name.path() }),
        None => Ok(roll),
    }
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
