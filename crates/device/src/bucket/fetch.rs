//! Reads an object as it arrives. A server may send more than was asked for, and may claim any length, so nothing is
//! allocated by that claim.

use bytes::Bytes;
use futures_util::TryStreamExt;
use object_store::path::Path;
use object_store::{Error, GetOptions, GetRange, ObjectStore, Result};
use std::ops::Range;

/// Reads a range of an object. More bytes than the range are an error; fewer are returned as they are, and the caller
/// checks.
pub(crate) async fn fetch_range(client: &dyn ObjectStore, path: &Path, range: Range<u64>) -> Result<Bytes> {
    let len_bytes = (range.end - range.start) as usize;
    let options = GetOptions { range: Some(GetRange::Bounded(range)), ..GetOptions::default() };
    take(client, path, options, Vec::with_capacity(len_bytes), len_bytes).await
}

/// Reads an object of at most `most_bytes`; a longer one is an error.
pub(crate) async fn fetch(client: &dyn ObjectStore, path: &Path, most_bytes: usize) -> Result<Bytes> {
    take(client, path, GetOptions::default(), Vec::new(), most_bytes).await
}

async fn take(
    client: &dyn ObjectStore,
    path: &Path,
    options: GetOptions,
    mut bytes: Vec<u8>,
    most_bytes: usize,
) -> Result<Bytes> {
    let mut parts = client.get_opts(path, options).await?.into_stream();
    while let Some(part) = parts.try_next().await? {
        if part.len() > most_bytes - bytes.len() {
            let source = format!("{path} came with more than {most_bytes} bytes").into();
            return Err(Error::Generic { store: "bucket", source });
        }
        bytes.extend_from_slice(&part);
    }
    Ok(bytes.into())
}
