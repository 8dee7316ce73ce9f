//! The tree whose settings are changed, and the folder of the record of its previous settings.

use anyhow::{Context, Result, bail};
use forebay_platform::Tree;
use forebay_platform::change::{Record, RecordError, Step, Store, StoreError, boot_id};
use std::path::{Path, PathBuf};

/// Default folder of records.
const FOLDER: &str = "/var/lib/forebay/doctor";

/// A tree and the folder of its record.
pub struct Place<'a> {
    /// The tree.
    pub tree: &'a Tree,
    /// The root of the tree, as the user wrote it.
    pub root: &'a Path,
    folder: PathBuf,
    /// Missing folders on the path to the record's folder, innermost first.
    missing: Vec<PathBuf>,
    boot_id: Option<String>,
    real_root: String,
}

impl<'a> Place<'a> {
    /// The place of a tree; `folder` is the folder of its record.
    ///
    /// # Errors
    /// The tree does not contain its boot id.
    pub fn new(tree: &'a Tree, root: &'a Path, folder: Option<&Path>) -> Result<Self> {
        let of_service = || {
            let folders = std::env::var("STATE_DIRECTORY").ok()?;
            folders.split(':').next().filter(|first| !first.is_empty()).map(PathBuf::from)
        };
        let folder = folder.map(Path::to_owned).or_else(of_service).unwrap_or_else(|| FOLDER.into());
        let boot_id = boot_id(tree).context("which boot this is cannot be seen, and so nothing is changed")?;
        let real_root = root.canonicalize().with_context(|| root.display().to_string())?;
        let is_missing = |above: &&Path| !above.as_os_str().is_empty() && !above.exists();
        let missing = folder.ancestors().take_while(is_missing).map(Path::to_owned).collect();
        Ok(Self { tree, root, folder, missing, boot_id, real_root: real_root.display().to_string() })
    }

    /// The command that restores all settings.
    pub fn restore_command(&self) -> String {
        let root = if self.root == Path::new("/") { String::new() } else { format!(" --root {}", self.root.display()) };
        let folder = if self.folder == Path::new(FOLDER) {
            String::new()
        } else {
            format!(" --state {}", self.folder.display())
        };
        format!("forebay doctor --restore{root}{folder}")
    }

    /// Locks out all other changes before any setting is read. A record of another boot is deleted: its settings are gone.
    ///
    /// # Errors
    /// Settings are changed already, or nothing can be recorded.
    pub fn begin(&self) -> Result<Store> {
        let store = self.open()?;
        if let Some(old) = store.load()? {
            match old.check(self.boot_id.as_deref(), &self.real_root) {
                Err(RecordError::OtherBoot { .. }) => store.remove()?,
                other => {
                    other.with_context(|| store.place().display().to_string())?;
                    bail!(
                        "{}: the settings of {} are in force: put them back first: {}",
                        store.place().display(),
                        old.profile,
                        self.restore_command()
                    );
                }
            }
        }
        Ok(store)
    }

    /// Records the planned changes durably.
    ///
    /// # Errors
    /// The record cannot be written.
    pub fn record(&self, store: &Store, profile: &str, steps: &[Step]) -> Result<()> {
        let record = Record::new(self.boot_id.clone(), self.real_root.clone(), profile.to_owned(), steps.to_vec());
        Ok(store.save(&record)?)
    }

    /// Cleans up a store without a record: removes the folders that were made for it, where they are empty.
    pub fn leave(&self, store: Store) {
        // The lock is held until the folders are gone. A folder that is not empty is in use by somebody else.
        self.missing.iter().try_for_each(std::fs::remove_dir).unwrap_or_default();
        drop(store);
    }

    /// The record of the current changes, with its store.
    ///
    /// # Errors
    /// There is no record, or it is of another boot or another tree.
    pub fn current(&self) -> Result<(Store, Record)> {
        let none =
            || format!("{}: no record: nothing was changed, or --state names another folder", self.folder.display());
        if !self.folder.exists() {
            bail!(none());
        }
        let store = self.open()?;
        let Some(record) = store.load()? else { bail!(none()) };
        record.check(self.boot_id.as_deref(), &self.real_root).with_context(|| {
            format!("{}: it is left as it is; --apply writes over one of another boot", store.place().display())
        })?;
        Ok((store, record))
    }

    fn open(&self) -> Result<Store> {
        Store::open(&self.folder).map_err(|error| match error {
            StoreError::Io { .. } => anyhow::Error::new(error)
                .context("what was there before is recorded first: name a folder that can be written, --state FOLDER"),
            other => other.into(),
        })
    }
}
