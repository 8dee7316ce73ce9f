//! The table of exports, which can be changed while the server runs.

use forebay_block::{ClassId, DiskId};
use thiserror::Error;

use crate::access::{Access, Admission, Client, Security};
use crate::nbd::wire::STRING_BYTES_MAX;

/// A disk served under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// Name by which clients ask for it; at most 4096 bytes, no NUL.
    pub name: String,
    /// The disk served.
    pub disk: DiskId,
    /// Size in bytes; a multiple of 512.
    pub size_bytes: u64,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Class of all writes through this export; `None`: the rules decide.
    pub tag: Option<ClassId>,
    /// Description for people; at most 4096 bytes, no NUL. May be empty.
    pub description: String,
    /// Which clients may see it.
    pub access: Access,
}

impl Export {
    /// The disk, where clients may write to it; `None` for a read-only export.
    pub fn writable_disk(&self) -> Option<DiskId> {
        (!self.read_only).then_some(self.disk)
    }
}

/// The reason why a change of the table is refused.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ExportError {
    /// An export of that name exists already.
    #[error("an export named {0:?} exists already")]
    Duplicate(String),
    /// There is no export of that name.
    #[error("there is no export named {0:?}")]
    Unknown(String),
    /// Name or description is too long, or contains a NUL.
    #[error("the {field} of an export is at most {STRING_BYTES_MAX} bytes without NUL")]
    BadString {
        /// Name of the field.
        field: &'static str,
    },
    /// The size is not a multiple of 512.
    #[error("the size of export {name:?}, {size_bytes} bytes, is not a multiple of 512")]
    BadSize {
        /// Name of the export.
        name: String,
        /// The size, in bytes.
        size_bytes: u64,
    },
    /// There are too many exports at once, or there were too many over the life of the server.
    #[error("no more than {} exports at a time", Exports::LIMIT)]
    TooMany,
}

/// The table of exports. An export keeps its index, and indices are not used again while the table lives. So a
/// connection to a removed export can never reach another one.
#[derive(Clone, Debug, Default)]
pub struct Exports {
    slots: Vec<Option<Export>>,
}

impl Exports {
    /// Most exports at a time; limits the cost of one LIST.
    pub const LIMIT: usize = 1024;

    /// An empty table.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an export and returns its index. New connections see it at once.
    ///
    /// # Errors
    /// The name exists already, a string or the size is not allowed, or the table is full.
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

    /// Removes an export. Its connections end once their requests in flight are answered.
    ///
    /// # Errors
    /// There is no export of that name.
    pub fn remove(&mut self, name: &str) -> Result<Export, ExportError> {
        self.slots
            .iter_mut()
            .find(|slot| slot.as_ref().is_some_and(|export| export.name == name))
            .and_then(Option::take)
            .ok_or_else(|| ExportError::Unknown(name.to_owned()))
    }

    /// Changes the size of an export and returns its index. Connected clients learn the new size when they connect
    /// again, because the protocol has no message for it. Requests beyond a smaller size fail at once.
    ///
    /// # Errors
    /// There is no export of that name, or the size is not a multiple of 512.
    pub fn resize(&mut self, name: &str, size_bytes: u64) -> Result<u16, ExportError> {
        check_size(name, size_bytes)?;
        let (index, export) = self.named(name)?;
        export.size_bytes = size_bytes;
        Ok(index)
    }

    /// Changes who may see an export. This affects clients that choose it from now on.
    ///
    /// # Errors
    /// There is no export of that name.
    pub fn set_access(&mut self, name: &str, access: Access) -> Result<(), ExportError> {
        self.named(name)?.1.access = access;
        Ok(())
    }

    fn named(&mut self, name: &str) -> Result<(u16, &mut Export), ExportError> {
        let mut there = (0u16..).zip(&mut self.slots).filter_map(|(index, slot)| Some((index, slot.as_mut()?)));
        there.find(|(_, export)| export.name == name).ok_or_else(|| ExportError::Unknown(name.to_owned()))
    }

    /// The export at `index`; `None` where it was removed.
    #[must_use]
    pub fn get(&self, index: u16) -> Option<&Export> {
        self.slots.get(usize::from(index))?.as_ref()
    }

    /// The export of that name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<(u16, &Export)> {
        self.iter().find(|(_, export)| export.name == name)
    }

    /// The part of the table that a client may see.
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

    /// One of these exports by name. The empty name means the export with that name, or else the first one
    /// (`NBD_OPT_EXPORT_NAME`: "reserved for a default export").
    #[must_use]
    pub fn find(self, name: &str) -> Option<(u16, &'a Export)> {
        let exact = self.iter().find(|(_, export)| export.name == name);
        if exact.is_none() && name.is_empty() { self.iter().next() } else { exact }
    }

    /// Whether the client, which is not in TLS, would see more exports in TLS.
    #[must_use]
    pub fn needs_tls(self) -> bool {
        self.exports.iter().any(|(_, export)| export.access.admits(self.client) == Admission::NeedsTls)
    }

    /// The security of the client's connection.
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
