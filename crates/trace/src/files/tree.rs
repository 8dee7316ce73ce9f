//! The names of a mounted file system: folders and files by inode, as far as they are reachable from the root.
//!
//! A file may have several names (hard links). The first one is reported; if it is removed, another one is.

use super::handle::Id;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

/// Most folders above a file.
pub const DEPTH_MAX: usize = 128;
/// Longest path below the mount point, in bytes (`PATH_MAX` less some for the mount point).
pub const PATH_BYTES_MAX: usize = 3840;
/// Most names of one file beyond the first.
pub const NAMES_MAX: usize = 64;

/// A name in a folder; its bytes may be anything but `/` and zero.
pub type Name = Arc<[u8]>;

/// Names below one root; `T` is the state of a file.
#[derive(Debug)]
pub struct Tree<T> {
    root: u64,
    nodes: HashMap<u64, Node<T>>,
    /// Names beyond the first.
    more: HashMap<u64, Vec<(u64, Name)>>,
    files: usize,
    limit: usize,
    left_out: u64,
}

#[derive(Debug)]
struct Node<T> {
    generation: u32,
    folder: u64,
    name: Name,
    content: Content<T>,
}

#[derive(Debug)]
enum Content<T> {
    Folder(HashMap<Name, u64>),
    File(T),
}

/// The result of adding a name.
#[derive(Debug, PartialEq, Eq)]
pub enum Linked {
    /// The file or folder was not known.
    New,
    /// It was known by this name, or by another one that remains its first.
    Known,
    /// The folder is not known, or the limits do not allow the name.
    Refused,
}

/// A file without any name left.
#[derive(Debug, PartialEq, Eq)]
pub struct Removed<T> {
    /// Its identity.
    pub id: Id,
    /// Its state.
    pub file: T,
}

impl<T: Default> Tree<T> {
    /// A tree with at most `limit` files and as many folders.
    pub fn new(root: Id, limit: usize) -> Self {
        let node = Node {
            generation: root.generation,
            folder: root.inode,
            name: Arc::default(),
            content: Content::Folder(HashMap::new()),
        };
        Self {
            root: root.inode,
            nodes: HashMap::from([(root.inode, node)]),
            more: HashMap::new(),
            files: 0,
            limit,
            left_out: 0,
        }
    }

    /// Number of files.
    pub fn files(&self) -> usize {
        self.files
    }

    /// How often a name was refused because of the limits since the last call.
    pub fn take_left_out(&mut self) -> u64 {
        std::mem::take(&mut self.left_out)
    }

    /// The identity of a known inode.
    pub fn id(&self, inode: u64) -> Option<Id> {
        self.nodes.get(&inode).map(|node| Id { inode, generation: node.generation })
    }

    /// The state of a file.
    pub fn file(&self, inode: u64) -> Option<&T> {
        match &self.nodes.get(&inode)?.content {
            Content::File(file) => Some(file),
            Content::Folder(_) => None,
        }
    }

    /// The state of a file.
    pub fn file_mut(&mut self, inode: u64) -> Option<&mut T> {
        match &mut self.nodes.get_mut(&inode)?.content {
            Content::File(file) => Some(file),
            Content::Folder(_) => None,
        }
    }

    /// The folder and first name of an inode.
    pub fn name(&self, inode: u64) -> Option<(u64, &Name)> {
        self.nodes.get(&inode).map(|node| (node.folder, &node.name))
    }

    /// The entries of a folder; `None` if it is no folder.
    pub fn entries(&self, folder: u64) -> Option<&HashMap<Name, u64>> {
        match &self.nodes.get(&folder)?.content {
            Content::Folder(entries) => Some(entries),
            Content::File(_) => None,
        }
    }

    /// The path from the root; `None` if there is none.
    pub fn path(&self, inode: u64) -> Option<PathBuf> {
        let mut names = Vec::new();
        let mut at = inode;
        while at != self.root {
            if names.len() > DEPTH_MAX {
                return None;
            }
            let node = self.nodes.get(&at)?;
            names.push(&node.name);
            at = node.folder;
        }
        Some(names.iter().rev().map(|name| OsStr::from_bytes(name)).collect())
    }

    /// All files at or below `inode`.
    pub fn files_below(&self, inode: u64) -> Vec<u64> {
        let (mut found, mut waiting) = (Vec::new(), vec![inode]);
        // A folder has only one name, so none is visited twice.
        while let Some(inode) = waiting.pop() {
            match self.nodes.get(&inode).map(|node| &node.content) {
                Some(Content::Folder(entries)) => waiting.extend(entries.values()),
                Some(Content::File(_)) => found.push(inode),
                None => {}
            }
        }
        found
    }

    /// Whether a new entry in `folder` with a name of `len` bytes keeps the limits.
    fn fits(&self, folder: u64, len: usize) -> bool {
        let (mut at, mut depth, mut bytes) = (folder, 0, len);
        while at != self.root {
            let Some(node) = self.nodes.get(&at) else { return false };
            depth += 1;
            bytes += 1 + node.name.len();
            if depth > DEPTH_MAX || bytes > PATH_BYTES_MAX {
                return false;
            }
            at = node.folder;
        }
        true
    }

    fn is_above(&self, above: u64, inode: u64) -> bool {
        let mut at = inode;
        for _ in 0..=DEPTH_MAX {
            if at == above {
                return true;
            }
            let Some(node) = self.nodes.get(&at).filter(|_| at != self.root) else { return false };
            at = node.folder;
        }
        true
    }

    /// Sets a name of a file or folder. Whatever had that name, or had that inode before, is removed, and is appended to `removed`.
    pub fn link(&mut self, folder: u64, name: &[u8], id: Id, is_folder: bool, removed: &mut Vec<Removed<T>>) -> Linked {
        let Some(entries) = self.entries(folder) else { return Linked::Refused };
        let before = entries.get(name).copied();
        if let Some(node) = self.nodes.get(&id.inode) {
            let is_same = node.generation == id.generation && matches!(node.content, Content::Folder(_)) == is_folder;
            if is_same && before == Some(id.inode) {
                return Linked::Known;
            }
            if id.inode == self.root || is_folder && self.is_above(id.inode, folder) {
                return Linked::Refused;
            }
            if !is_same {
                self.remove(id.inode, removed);
            }
        }
        if let Some(before) = before.filter(|before| *before != id.inode) {
            self.unlink(folder, name, Some(before), removed);
        }
        // The folder may have been below something that was removed.
        if self.entries(folder).is_none() {
            return Linked::Refused;
        }
        if !self.fits(folder, name.len()) {
            self.left_out += 1;
            return Linked::Refused;
        }
        let name: Name = name.into();
        match self.nodes.get_mut(&id.inode) {
            // A folder has only one name, so it was moved.
            Some(node) if is_folder => {
                let (old_folder, old_name) = (node.folder, node.name.clone());
                node.folder = folder;
                node.name = name.clone();
                self.forget_entry(old_folder, &old_name);
                self.enter(folder, name, id.inode);
                Linked::Known
            }
            Some(_) => {
                let more = self.more.entry(id.inode).or_default();
                if more.len() >= NAMES_MAX {
                    return Linked::Refused;
                }
                more.push((folder, name.clone()));
                self.enter(folder, name, id.inode);
                Linked::Known
            }
            None => {
                let folders = self.nodes.len() - self.files;
                if is_folder && folders > self.limit || !is_folder && self.files >= self.limit {
                    self.left_out += 1;
                    return Linked::Refused;
                }
                let content = if is_folder { Content::Folder(HashMap::new()) } else { Content::File(T::default()) };
                self.files += usize::from(!is_folder);
                self.nodes.insert(id.inode, Node { generation: id.generation, folder, name: name.clone(), content });
                self.enter(folder, name, id.inode);
                Linked::New
            }
        }
    }

    fn enter(&mut self, folder: u64, name: Name, inode: u64) {
        if let Some(Content::Folder(entries)) = self.nodes.get_mut(&folder).map(|node| &mut node.content) {
            entries.insert(name, inode);
        }
    }

    fn forget_entry(&mut self, folder: u64, name: &[u8]) {
        if let Some(Content::Folder(entries)) = self.nodes.get_mut(&folder).map(|node| &mut node.content) {
            entries.remove(name);
        }
    }

    /// Removes a name; if `inode` is given, only if the name belongs to it. Returns the inode if this was its first name and it has another
    /// one.
    pub fn unlink(
        &mut self,
        folder: u64,
        name: &[u8],
        inode: Option<u64>,
        removed: &mut Vec<Removed<T>>,
    ) -> Option<u64> {
        let found = *self.entries(folder)?.get(name)?;
        if inode.is_some_and(|inode| inode != found) {
            return None;
        }
        self.forget_entry(folder, name);
        let is_first = self.nodes.get(&found).is_some_and(|node| node.folder == folder && node.name.as_ref() == name);
        if let Some(more) = self.more.get_mut(&found) {
            let next = if is_first { more.pop() } else { None };
            more.retain(|(other_folder, other)| (*other_folder, other.as_ref()) != (folder, name));
            if more.is_empty() {
                self.more.remove(&found);
            }
            if let (Some((folder, name)), Some(node)) = (next, self.nodes.get_mut(&found)) {
                node.folder = folder;
                node.name = name;
                return Some(found);
            }
        }
        if is_first {
            self.remove(found, removed);
        }
        None
    }

    /// Removes an inode with all its names, and everything below it.
    fn remove(&mut self, inode: u64, removed: &mut Vec<Removed<T>>) {
        let mut waiting = vec![inode];
        while let Some(inode) = waiting.pop() {
            if inode == self.root {
                continue;
            }
            let Some(node) = self.nodes.remove(&inode) else { continue };
            self.forget_entry(node.folder, &node.name);
            for (folder, name) in self.more.remove(&inode).unwrap_or_default() {
                self.forget_entry(folder, &name);
            }
            match node.content {
                Content::File(file) => {
                    self.files -= 1;
                    removed.push(Removed { id: Id { inode, generation: node.generation }, file });
                }
                Content::Folder(entries) => {
                    for (name, child) in entries {
                        let is_first =
                            self.nodes.get(&child).is_some_and(|node| node.folder == inode && node.name == name);
                        let next = self.more.get_mut(&child).and_then(|more| {
                            more.retain(|(folder, _)| *folder != inode);
                            if is_first { more.pop() } else { None }
                        });
                        if self.more.get(&child).is_some_and(Vec::is_empty) {
                            self.more.remove(&child);
                        }
                        match (next, self.nodes.get_mut(&child)) {
                            (Some((folder, name)), Some(node)) => {
                                node.folder = folder;
                                node.name = name;
                            }
                            _ if is_first => waiting.push(child),
                            _ => {}
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
