//! Lists the objects in the store.

use super::error::BucketError;
use super::store::{Refused, Store};
use futures_util::TryStreamExt;
use object_store::ObjectMeta;
use object_store::path::Path;
use std::collections::BTreeSet;

/// Names in one page of a list.
const PAGE_NAMES: usize = 1000;

/// The contents of a device by one list. Names below `data/` come first in the list, and names that must exist come
/// last.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    /// Names below `data/`, each with the size of its object.
    pub(crate) data: Vec<(String, u64)>,
    pub(crate) epochs: BTreeSet<u32>,
    pub(crate) rolls: BTreeSet<u32>,
    /// Names without a folder.
    pub(crate) notes: BTreeSet<String>,
}

/// Lists the whole device.
pub(crate) async fn contents(store: &Store) -> Result<Contents, BucketError> {
    let root = store.root();
    let names = names_below(store, root.as_ref()).await.map_err(|refused| refused.while_doing("list it"))?;
    let mut contents = Contents::default();
    for (name, size_bytes) in names {
        match name.split_once('/') {
            Some(("data", name)) => contents.data.push((name.to_owned(), size_bytes)),
            Some(("epoch", name)) => contents.epochs.extend(number(name)),
            Some(("roll", name)) => contents.rolls.extend(number(name)),
            Some(_) => {}
            None => drop(contents.notes.insert(name)),
        }
    }
    Ok(contents)
}

/// Names below a folder.
pub(crate) async fn list(store: &Store, folder: &str) -> Result<Vec<String>, Refused> {
    let path = store.path(folder);
    Ok(names_below(store, Some(&path)).await?.into_iter().map(|(name, _)| name).collect())
}

/// Names below a folder with their sizes. Each page is a request with a time limit of its own, and starts behind the
/// last name of the page before.
async fn names_below(store: &Store, folder: Option<&Path>) -> Result<Vec<(String, u64)>, Refused> {
    let mut names = Vec::new();
    let mut last: Option<Path> = None;
    loop {
        let page = || async {
            let mut list = match &last {
                Some(last) => store.client.list_with_offset(folder, last),
                None => store.client.list(folder),
            };
            let mut page: Vec<ObjectMeta> = Vec::new();
            while page.len() < PAGE_NAMES
                && let Some(meta) = list.try_next().await?
            {
                // Names that are out of order would make the next page skip some, or the list never end.
                if page.last().map(|meta| &meta.location).or(last.as_ref()).is_some_and(|last| meta.location <= *last) {
                    return Err(object_store::Error::NotSupported { source: "names are not listed in order".into() });
                }
                page.push(meta);
            }
            Ok(page)
        };
        let page = store.persist(0, page).await.0?;
        let name = |location: &Path| {
            let root = Path::default();
            let parts: Vec<_> = location.prefix_match(folder.unwrap_or(&root)).into_iter().flatten().collect();
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

/// Numbers of the objects below a folder whose names are numbers.
pub(crate) async fn numbers(store: &Store, folder: &str) -> Result<BTreeSet<u32>, Refused> {
    Ok(list(store, folder).await?.iter().filter_map(|name| number(name)).collect())
}

/// Only a name in exactly our notation is a number.
fn number(name: &str) -> Option<u32> {
    u32::from_str_radix(name, 16).ok().filter(|number| format!("{number:08x}") == name)
}

/// Any object below the prefix; `None` where there is none.
pub(crate) async fn anything(store: &Store) -> Result<Option<Path>, BucketError> {
    let root = store.root();
    let once = || async { Ok(store.client.list(root.as_ref()).try_next().await?.map(|meta| meta.location)) };
    store.persist(0, once).await.0.map_err(|refused| refused.while_doing("list it"))
}
