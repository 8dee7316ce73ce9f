//! What can be measured by name.

use forebay_bench::experiment::Experiment;
use std::path::Path;

/// What the first word of `bench` may name, besides a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// A built-in experiment.
    Experiment(Experiment),
    /// Files written as a photographer's card is copied.
    PhotoIngest,
    /// Files read while a database is updated.
    IndexRebuild,
}

/// The application-shaped loads, with what each shows in a line.
pub(super) const APPLICATIONS: [(&str, Named, &str); 2] = [
    ("photo-ingest", Named::PhotoIngest, "thousands of files of 12 MB written and synced, in a directory"),
    ("index-rebuild", Named::IndexRebuild, "all files read and hashed while a database is updated, in a directory"),
];

impl Named {
    /// What a word names; none where it is a file or unknown.
    pub fn parse(word: &Path) -> Option<Self> {
        let word = word.to_str()?;
        let application = APPLICATIONS.iter().find(|(name, ..)| *name == word).map(|&(_, named, _)| named);
        application.or_else(|| word.parse().ok().map(Self::Experiment))
    }
}
