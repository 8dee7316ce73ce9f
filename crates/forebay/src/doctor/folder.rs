//! The tree whose settings are changed, and where what was there before is recorded.

use anyhow::{Context, Result, bail};
use forebay_platform::Tree;
use forebay_platform::change::{Record, RecordError, Step, Store, StoreError, boot_id};
use std::path::{Path, PathBuf};

/// Where records lie unless somebody says otherwise.
const FOLDER: &str = "/var/lib/forebay/doctor";

/// A tree, with the folder of its record.
pub struct Place<'a> {
    /// The tree.
    pub tree: &'a Tree,
    /// Its root, as the user wrote it.
    pub root: &'a Path,
    folder: PathBuf,
    /// It and folders above it that were not there, the innermost first.
    missing: Vec<PathBuf>,
    boot_id: Option<String>,
    real_root: String,
}

impl<'a> Place<'a> {
    /// The place of a tree; `folder` is where its record lies.
    ///
    /// # Errors
    /// Where the tree does not say which boot it is of.
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

    /// The command that puts everything back.
    pub fn restore_command(&self) -> String {
        let root = if self.root == Path::new("/") { String::new() } else { format!(" --root {}", self.root.display()) };
        let folder = if self.folder == Path::new(FOLDER) {
            String::new()
        } else {
            format!(" --state {}", self.folder.display())
        };
        format!("forebay doctor --restore{root}{folder}")
    }

    /// Keeps all others from changing settings, before anything of them is read. A record of another boot goes: nothing is left of what it says.
    ///
    /// # Errors
    /// Where something is changed already, and where nothing can be recorded.
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

    /// Records what is about to be changed, durably.
    ///
    /// # Errors
    /// Where it cannot be.
    pub fn record(&self, store: &Store, profile: &str, steps: &[Step]) -> Result<()> {
        let record = Record::new(self.boot_id.clone(), self.real_root.clone(), profile.to_owned(), steps.to_vec());
        Ok(store.save(&record)?)
    }

    /// Leaves nothing of a store that has no record: folders that were made for it go, as far as they are empty.
    pub fn leave(&self, store: Store) {
        // Others are kept away until they are gone. One that is not empty any more is somebody's.
        self.missing.iter().try_for_each(std::fs::remove_dir).unwrap_or_default();
        drop(store);
    }

    /// The record of what was changed, and its store.
    ///
    /// # Errors
    /// Where there is none, and where it is not of this boot of this tree.
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
