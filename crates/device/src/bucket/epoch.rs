//! Who may write: `epoch/N` belongs to whoever opened the device last to write. It is made by a conditional write, so that of two only
//! one has it. The highest one counts: a request that was held up may make an older one again. Predecessors are deleted.

use super::error::BucketError;
use super::job::Failure;
use super::listing::{names_below, numbers, numbers_of};
use super::notes::{NOTE_MAX_BYTES, delete, make, read};
use super::store::Store;
use bytes::Bytes;
use futures_util::future::join;
use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hasher, RandomState};

fn epoch_name(epoch: u32) -> String {
    format!("epoch/{epoch:08x}")
}

/// Becomes the one who writes: number and content of the epoch's object.
pub(crate) async fn take_epoch(store: &Store) -> Result<(u32, String), BucketError> {
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

/// Whether the epoch is its owner's: it is the highest, and its object is the one that the owner made.
pub(crate) fn is_owned(epochs: &BTreeSet<u32>, epoch: u32, content: &[u8], owner: &str) -> bool {
    epochs.last() == Some(&epoch) && content == owner.as_bytes()
}

/// Whether an epoch is still that of its owner.
pub(crate) async fn look(store: &Store, epoch: u32, owner: &str) -> Result<(), Failure> {
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
