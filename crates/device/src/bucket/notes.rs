//! Objects beside the data, which are read as a whole: made once, or written over by none but whoever wrote them.

use super::error::BucketError;
use super::fetch::fetch;
use super::store::{Refused, Store};
use bytes::Bytes;
use object_store::{ObjectStoreExt, PutMode, PutOptions, PutPayload};

/// What `geometry.json` and an epoch's object hold at most.
pub(crate) const NOTE_MAX_BYTES: usize = 64 << 10;
/// The most that a read is given time for where its length is not known before.
const READ_TIMED_BYTES: usize = 16 << 20;

/// Reads one of so many bytes at most.
pub(crate) async fn read(store: &Store, name: &str, most_bytes: usize) -> Result<Bytes, Refused> {
    let path = store.path(name);
    store.persist(most_bytes.min(READ_TIMED_BYTES) as u64, || fetch(&store.client, &path, most_bytes)).await.0
}

/// Makes an object where there is none of that name.
pub(crate) async fn make(store: &Store, name: &str, content: &[u8]) -> Result<(), Refused> {
    let path = store.path(name);
    let put = || {
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        store.client.put_opts(&path, PutPayload::from(content.to_vec()), options)
    };
    store.persist(0, put).await.0.map(|_| ())
}

/// Deletes one, which may be gone already.
pub(crate) async fn delete(store: &Store, name: &str) -> Result<(), BucketError> {
    let path = store.path(name);
    match store.persist(0, || store.client.delete(&path)).await.0 {
        Err(refused) if !refused.is_absent => Err(refused.while_doing(format!("delete {name}"))),
        _ => Ok(()),
    }
}
