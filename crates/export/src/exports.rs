//! What is served: a table of exports, changed live.

use forebay_block::{ClassId, DiskId};
use thiserror::Error;

use crate::access::{Access, Admission, Client, Security};
use crate::nbd::wire::STRING_BYTES_MAX;

/// A disk under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// Name, as clients ask for it; at most 4096 bytes, no NUL.
    pub name: String,
    /// The disk served.
    pub disk: DiskId,
    /// Size in bytes; a multiple of 512.
    pub size_bytes: u64,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Class with which writes are tagged.
    pub tag: Option<ClassId>,
    /// For humans; at most 4096 bytes, no NUL. May be empty.
    pub description: String,
    /// Who may see it.
    pub access: Access,
}

impl Export {
    /// The disk, where clients may write to it.
    pub fn writable_disk(&self) -> Option<DiskId> {
        (!self.read_only).then_some(self.disk)
    }
}

/// Why the table cannot be changed so.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ExportError {
    /// The name is taken.
    #[error("an export named {0:?} exists already")]
    Duplicate(String),
    /// There is no export of that name.
    #[error("there is no export named {0:?}")]
    Unknown(String),
    /// Name or description too long, or with a NUL.
    #[error("the {field} of an export is at most {STRING_BYTES_MAX} bytes without NUL")]
    BadString {
        /// Which field.
        field: &'static str,
    },
    /// The size is not a multiple of 512.
    #[error("the size of export {name:?}, {size_bytes} bytes, is not a multiple of 512")]
    BadSize {
        /// The export.
        name: String,
        /// The size given.
        size_bytes: u64,
    },
    /// Too many exports at once, or over the life of the server.
    #[error("no more than {} exports at a time", Exports::LIMIT)]
    TooMany,
}

/// The table of exports. An export keeps its index; indices are not used again while the table lives, so a
/// connection to a removed export can never reach another.
#[derive(Clone, Debug, Default)]
pub struct Exports {
    slots: Vec<Option<Export>>,
}

impl Exports {
    /// Exports at a time; bounds what one LIST costs.
    pub const LIMIT: usize = 1024;

    /// An empty table.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an export and returns its index. New connections see it at once.
    ///
    /// # Errors
    /// Where the name is taken, a string or the size is not allowed, or the table is full.
    pub fn add(&mut self, export: Export) -> Result<u16, ExportError> {
        let fits = |text: &str| text.len() <= STRING_BYTES_MAX && !text.contains('\0');
        if !fits(&export.name) {
            return Err(ExportError::BadString { field: "name" });
        }
        if !fits(&export.description) {
            return Err(ExportError::BadString { field: "description" });
        }
        check_size(&export.name, export.size_bytes)?;
        if self.iter().any(|(_, other)| other.name == export.name) {
            return Err(ExportError::Duplicate(export.name));
        }
        if self.iter().count() >= Self::LIMIT {
            return Err(ExportError::TooMany);
        }
        let index = u16::try_from(self.slots.len()).map_err(|_| ExportError::TooMany)?;
        self.slots.push(Some(export));
        Ok(index)
    }

    /// Removes an export; its connections are ended once their requests in flight are answered.
    ///
    /// # Errors
    /// Where there is none of that name.
    pub fn remove(&mut self, name: &str) -> Result<Export, ExportError> {
        self.slots
            .iter_mut()
            .find(|slot| slot.as_ref().is_some_and(|export| export.name == name))
            .and_then(Option::take)
            .ok_or_else(|| ExportError::Unknown(name.to_owned()))
    }

    /// Changes the size. Connected clients learn it when they connect anew (the protocol has no message for it);
    /// requests beyond a smaller size fail at once.
    ///
    /// Returns its index.
    ///
    /// # Errors
    /// Where there is none of that name or the size is not a multiple of 512.
    pub fn resize(&mut self, name: &str, size_bytes: u64) -> Result<u16, ExportError> {
        check_size(name, size_bytes)?;
        let (index, export) = self.named(name)?;
        export.size_bytes = size_bytes;
        Ok(index)
    }

    /// Changes who may see an export; counts for clients that choose it from now on.
    ///
    /// # Errors
    /// Where there is none of that name.
    pub fn set_access(&mut self, name: &str, access: Access) -> Result<(), ExportError> {
        self.named(name)?.1.access = access;
        Ok(())
    }

    fn named(&mut self, name: &str) -> Result<(u16, &mut Export), ExportError> {
        let mut there = (0u16..).zip(&mut self.slots).filter_map(|(index, slot)| Some((index, slot.as_mut()?)));
        there.find(|(_, export)| export.name == name).ok_or_else(|| ExportError::Unknown(name.to_owned()))
    }

    /// The export at `index`, where it still exists.
    #[must_use]
    pub fn get(&self, index: u16) -> Option<&Export> {
        self.slots.get(usize::from(index))?.as_ref()
    }

    /// The export of that name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<(u16, &Export)> {
        self.iter().find(|(_, export)| export.name == name)
    }

    /// What a client sees of the table.
    #[must_use]
    pub fn seen_by<'a>(&'a self, client: &'a Client) -> Seen<'a> {
        Seen { exports: self, client }
    }

    /// All exports with their indices.
    pub fn iter(&self) -> impl Iterator<Item = (u16, &Export)> {
        (0u16..).zip(&self.slots).filter_map(|(index, slot)| slot.as_ref().map(|export| (index, export)))
    }
}

/// The table as one client sees it.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    exports: &'a Exports,
    client: &'a Client,
}

impl<'a> Seen<'a> {
    /// The exports that the client may use, with their indices.
    pub fn iter(self) -> impl Iterator<Item = (u16, &'a Export)> {
        self.exports.iter().filter(move |(_, export)| export.access.admits(self.client) == Admission::Granted)
    }

    /// One of them. The empty name means the export called so or else the first one (`NBD_OPT_EXPORT_NAME`: "reserved for a
    /// default export").
    #[must_use]
    pub fn find(self, name: &str) -> Option<(u16, &'a Export)> {
        let exact = self.iter().find(|(_, export)| export.name == name);
        if exact.is_none() && name.is_empty() { self.iter().next() } else { exact }
    }

    /// Whether the client, still in the clear, would see more in TLS.
    #[must_use]
    pub fn needs_tls(self) -> bool {
        self.exports.iter().any(|(_, export)| export.access.admits(self.client) == Admission::NeedsTls)
    }

    /// How the client is connected.
    #[must_use]
    pub fn security(self) -> &'a Security {
        &self.client.security
    }
}

fn check_size(name: &str, size_bytes: u64) -> Result<(), ExportError> {
    if size_bytes.is_multiple_of(512) {
        Ok(())
    } else {
        Err(ExportError::BadSize { name: name.to_owned(), size_bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn export(name: &str) -> Export {
        Export {
            name: name.to_owned(),
            disk: DiskId(1),
            size_bytes: 4096,
            read_only: false,
            tag: None,
            description: String::new(),
            access: Access::default(),
        }
    }

    #[test]
    fn indices_are_not_used_again() {
        let mut exports = Exports::new();
        let a = exports.add(export("a")).unwrap();
        exports.remove("a").unwrap();
        let b = exports.add(export("b")).unwrap();
        assert_ne!(a, b);
        assert!(exports.get(a).is_none());
    }

    #[test]
    fn the_empty_name_means_the_first_unless_one_is_called_so() {
        let mut exports = Exports::new();
        exports.add(export("a")).unwrap();
        exports.add(export("b")).unwrap();
        let client = Client::default();
        assert_eq!(exports.seen_by(&client).find("").unwrap().1.name, "a");
        exports.add(export("")).unwrap();
        assert_eq!(exports.seen_by(&client).find("").unwrap().1.name, "");
        assert!(exports.find("c").is_none() && exports.seen_by(&client).find("c").is_none());
    }

    #[test]
    fn refuses_what_clients_could_not_use() {
        let mut exports = Exports::new();
        exports.add(export("a")).unwrap();
        assert_eq!(exports.add(export("a")), Err(ExportError::Duplicate("a".into())));
        assert!(exports.add(export("a\0")).is_err());
        assert!(exports.add(Export { size_bytes: 513, ..export("x") }).is_err());
        assert!(exports.resize("a", 100).is_err());
        exports.resize("a", 8192).unwrap();
        assert_eq!(exports.find("a").unwrap().1.size_bytes, 8192);
    }
}
