//! Small objects beside the data, which are read as a whole. Each is made once, or overwritten only by its author.

use super::error::BucketError;
use super::fetch::fetch;
use super::store::{Refused, Store};
use bytes::Bytes;
use object_store::{ObjectStoreExt, PutMode, PutOptions, PutPayload};

/// Longest `geometry.json` or epoch object, in bytes.
pub(crate) const NOTE_MAX_BYTES: usize = 64 << 10;
/// Upper limit of the length for which a read of unknown length gets time, in bytes.
const READ_TIMED_BYTES: usize = 16 << 20;

/// Reads an object of at most `most_bytes`.
pub(crate) async fn read(store: &Store, name: &str, most_bytes: usize) -> Result<Bytes, Refused> {
    let path = store.path(name);
    store.persist(most_bytes.min(READ_TIMED_BYTES) as u64, || fetch(&store.client, &path, most_bytes)).await.0
}

/// Makes an object unless one of that name exists.
pub(crate) async fn make(store: &Store, name: &str, content: &[u8]) -> Result<(), Refused> {
    let path = store.path(name);
    let put = || {
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        store.client.put_opts(&path, PutPayload::from(content.to_vec()), options)
    };
    store.persist(0, put).await.0.map(|_| ())
}

/// Deletes an object; it is no error that it does not exist.
pub(crate) async fn delete(store: &Store, name: &str) -> Result<(), BucketError> {
    let path = store.path(name);
    match store.persist(0, || store.client.delete(&path)).await.0 {
        Err(refused) if !refused.is_absent => Err(refused.while_doing(format!("delete {name}"))),
        _ => Ok(()),
    }
}
