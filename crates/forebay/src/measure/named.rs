//! Loads that `bench` knows by name.

use forebay_bench::experiment::Experiment;
use std::path::Path;

/// What the first word of `bench` can name other than a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// A built-in experiment.
    Experiment(Experiment),
    /// Writes files as when a photographer's card is copied.
    PhotoIngest,
    /// Reads files while a database is updated.
    IndexRebuild,
}

/// The application-shaped loads with a line of description.
pub(super) const APPLICATIONS: [(&str, Named, &str); 2] = [
    ("photo-ingest", Named::PhotoIngest, "thousands of files of 12 MB written and synced, in a directory"),
    ("index-rebuild", Named::IndexRebuild, "all files read and hashed while a database is updated, in a directory"),
];

impl Named {
    /// The load with this name; none where the word is a file or unknown.
    pub fn parse(word: &Path) -> Option<Self> {
        let word = word.to_str()?;
        let application = APPLICATIONS.iter().find(|(name, ..)| *name == word).map(|&(_, named, _)| named);
        application.or_else(|| word.parse().ok().map(Self::Experiment))
    }
}
