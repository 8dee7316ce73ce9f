//! Who may write: `epoch/N` belongs to whoever opened the device last to write. It is made by a conditional write, so that of two only
//! one has it. The highest one counts: a request that was held up may make an older one again. Predecessors are deleted.

use super::error::BucketError;
use super::listing::numbers;
use super::notes::{NOTE_MAX_BYTES, delete, make, read};
use super::store::{Refused, Store};
use futures_util::future::join;
use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hasher, RandomState};

/// Where an epoch's object is.
pub(crate) fn epoch_name(epoch: u32) -> String {
    format!("epoch/{epoch:08x}")
}

/// Epochs that are there, and the highest number that one or a roll has.
async fn taken(store: &Store) -> Result<(BTreeSet<u32>, u32), BucketError> {
    let of_folder = async |folder: &str| {
        numbers(store, folder).await.map_err(|refused| refused.while_doing(format!("list {folder}/")))
    };
    let (epochs, rolls) = (of_folder("epoch").await?, of_folder("roll").await?);
    let newest = epochs.last().max(rolls.last()).copied().unwrap_or_default();
    Ok((epochs, newest))
}

/// Becomes the one who writes: number and content of the epoch's object.
pub(crate) async fn take_epoch(store: &Store) -> Result<(u32, String), BucketError> {
    let (before, last) = taken(store).await?;
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
    let (after, newest) = taken(store).await?;
    if newest > epoch {
        delete(store, &name).await?;
        return Err(BucketError::Busy { epoch: newest });
    }
    if !after.contains(&epoch) {
        return Err(BucketError::Unlisted { missing: name });
    }
    if is_written_again {
        // Nobody is to be thrown out by what is of no use.
        delete(store, &name).await?;
        return Err(BucketError::NoConditions);
    }
    for epoch in before {
        delete(store, &epoch_name(epoch)).await?;
    }
    Ok((epoch, owner))
}

/// Whose an epoch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It is the highest, and its object is the one that its owner made.
    Owned,
    /// There is a higher one, or its object is another's.
    Replaced,
    /// What the store says is neither: a list without it, or an object that is none, for which it takes one wrong answer.
    Unclear,
}

/// Whose an epoch is, by the epochs that there are and what its object holds.
pub(crate) fn standing_of(epochs: &BTreeSet<u32>, epoch: u32, content: Option<&[u8]>, owner: &str) -> Standing {
    let is_owners = content == Some(owner.as_bytes());
    let is_anothers = content
        .is_some_and(|content| !is_owners && content.len() == owner.len() && content.iter().all(u8::is_ascii_hexdigit));
    match epochs.last() {
        Some(newest) if *newest > epoch => Standing::Replaced,
        _ if is_anothers => Standing::Replaced,
        Some(newest) if *newest == epoch && is_owners => Standing::Owned,
        _ => Standing::Unclear,
    }
}

/// Looks whose an epoch is.
pub(crate) async fn look(store: &Store, epoch: u32, owner: &str) -> Result<Standing, Refused> {
    let name = epoch_name(epoch);
    // A successor lists the objects after its own epoch is there, so this may be asked in any order.
    let (listed, content) = join(numbers(store, "epoch"), read(store, &name, NOTE_MAX_BYTES)).await;
    let content = match content {
        Err(refused) if refused.is_absent => None,
        content => Some(content?),
    };
    Ok(standing_of(&listed?, epoch, content.as_deref(), owner))
}
