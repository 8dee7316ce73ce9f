//! Decides which server may write. The object `epoch/N` belongs to the server that opened the device last for
//! writing. A conditional write creates it, so only one of two servers gets it. The highest epoch counts, because a
//! delayed request may create an older one again. Earlier epochs are deleted.

use super::error::BucketError;
use super::listing::numbers;
use super::notes::{NOTE_MAX_BYTES, delete, make, read};
use super::store::{Refused, Store};
use futures_util::future::join;
use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hasher, RandomState};

/// Name of an epoch's object.
pub(crate) fn epoch_name(epoch: u32) -> String {
    format!("epoch/{epoch:08x}")
}

/// Epochs that exist, and the highest number of any epoch or roll.
async fn taken(store: &Store) -> Result<(BTreeSet<u32>, u32), BucketError> {
    let of_folder = async |folder: &str| {
        numbers(store, folder).await.map_err(|refused| refused.while_doing(format!("list {folder}/")))
    };
    let (epochs, rolls) = (of_folder("epoch").await?, of_folder("roll").await?);
    let newest = epochs.last().max(rolls.last()).copied().unwrap_or_default();
    Ok((epochs, newest))
}

/// Makes this server the one that writes. Returns number and content of its epoch's object.
pub(crate) async fn take_epoch(store: &Store) -> Result<(u32, String), BucketError> {
    let (before, last) = taken(store).await?;
    let Some(epoch) = last.checked_add(1) else {
        return Err(BucketError::Description { object: epoch_name(last), what: "no epoch can follow it".to_owned() });
    };
    let name = epoch_name(epoch);
    // A different text for each server, so that a server whose request got no answer recognises its own object.
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
    // A second conditional write must fail. A store that ignores the condition lets it succeed.
    let is_written_again = match make(store, &name, owner.to_uppercase().as_bytes()).await {
        Err(refused) if refused.exists => false,
        Ok(()) => true,
        Err(refused) => return Err(refused.while_doing(format!("write {name}"))),
    };
    // Since the list was made, other servers may have taken this epoch and later ones, and deleted this one.
    let (after, newest) = taken(store).await?;
    if newest > epoch {
        delete(store, &name).await?;
        return Err(BucketError::Busy { epoch: newest });
    }
    if !after.contains(&epoch) {
        return Err(BucketError::Unlisted { missing: name });
    }
    if is_written_again {
        // Do not leave an epoch behind that fences off another server without use.
        delete(store, &name).await?;
        return Err(BucketError::NoConditions);
    }
    for epoch in before {
        delete(store, &epoch_name(epoch)).await?;
    }
    Ok((epoch, owner))
}

/// Ownership of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The epoch is the highest, and its object has the owner's content.
    Owned,
    /// There is a higher epoch, or its object belongs to another server.
    Replaced,
    /// The answers of the store fit neither case: the list lacks the epoch, or its object has other content. One
    /// wrong answer suffices for that.
    Unclear,
}

/// Judges the ownership of an epoch by the epochs that exist and the content of its object.
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

/// Asks the store for the ownership of an epoch (the epoch check).
pub(crate) async fn look(store: &Store, epoch: u32, owner: &str) -> Result<Standing, Refused> {
    let name = epoch_name(epoch);
    // A successor lists the data objects only after its epoch exists, so these two requests may run in any order.
    let (listed, content) = join(numbers(store, "epoch"), read(store, &name, NOTE_MAX_BYTES)).await;
    let content = match content {
        Err(refused) if refused.is_absent => None,
        content => Some(content?),
    };
    Ok(standing_of(&listed?, epoch, content.as_deref(), owner))
}
