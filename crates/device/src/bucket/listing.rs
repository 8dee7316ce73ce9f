//! The names of objects, as the store lists them.

use super::error::BucketError;
use super::store::{Refused, Store};
use futures_util::TryStreamExt;
use object_store::ObjectMeta;
use object_store::path::Path;
use std::collections::BTreeSet;

/// Names that a server lists at once.
const PAGE_NAMES: usize = 1000;

/// The names below a folder, each with its size.
pub(crate) async fn list(store: &Store, folder: &str) -> Result<Vec<(String, u64)>, BucketError> {
    names_below(store, folder).await.map_err(|refused| refused.while_doing(format!("list {folder}/")))
}

/// Each page has the time that a request has, and follows the last name of the one before it.
pub(crate) async fn names_below(store: &Store, folder: &str) -> Result<Vec<(String, u64)>, Refused> {
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
pub(crate) async fn numbers(store: &Store, folder: &str) -> Result<BTreeSet<u32>, BucketError> {
    Ok(numbers_of(&list(store, folder).await?))
}

/// Names that are written otherwise are none of ours.
pub(crate) fn numbers_of(names: &[(String, u64)]) -> BTreeSet<u32> {
    let number = |name: &str| u32::from_str_radix(name, 16).ok().filter(|number| format!("{number:08x}") == name);
    names.iter().filter_map(|(name, _)| number(name)).collect()
}

/// Any object at all.
pub(crate) async fn anything(store: &Store) -> Result<Option<Path>, BucketError> {
    let root = store.root();
    let once = || async { Ok(store.client.list(root.as_ref()).try_next().await?.map(|meta| meta.location)) };
    store.persist(0, once).await.0.map_err(|refused| refused.while_doing("list it"))
}
