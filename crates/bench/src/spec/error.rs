//! What can be wrong with a sheet.

use crate::job::JobError;
use forebay_block::mistakes::in_words;
use std::fmt;
use std::path::PathBuf;

/// Why a sheet was refused. Each names the place, the offending word and what to write instead.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    /// A key or value that does not exist.
    #[error("{place}: unknown {what} `{word}`{hint}", hint = Hint(nearest.as_deref()))]
    Unknown {
        /// File and line.
        place: String,
        /// Kind of word: "key", "value".
        what: &'static str,
        /// The word.
        word: String,
        /// The known word that looks most like it.
        nearest: Option<String>,
    },
    /// A value that its key cannot have.
    #[error("{place}: {key}: {reason}")]
    Value {
        /// File and line.
        place: String,
        /// The key.
        key: &'static str,
        /// What is wrong and what would be right.
        reason: String,
    },
    /// The text as a whole.
    #[error("{place}: {reason}")]
    Form {
        /// File, and line where one is to blame.
        place: String,
        /// What is wrong and what would be right.
        reason: String,
    },
    /// A job's keys; the error names its own place.
    #[error(transparent)]
    JobText(JobError),
    /// A job that is well written and cannot be run.
    #[error("{place}: {source}")]
    Job {
        /// File and line.
        place: String,
        /// Which bound it breaks.
        source: JobError,
    },
    /// Neither a built-in sheet nor a file.
    #[error(
        "{word} is no file and no built-in sheet{hint}: give a path, or one of {known}",
        hint = Hint(nearest.as_deref())
    )]
    NoSuchSheet {
        /// What was asked for.
        word: String,
        /// The built-in name that looks most like it.
        nearest: Option<String>,
        /// All built-in names.
        known: String,
    },
    /// The file cannot be read.
    #[error("cannot read the spec sheet {path}: {source}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A directory, device, pipe or socket.
    #[error("{path} is not a regular file: give the path of a spec sheet", path = path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// Larger than any sheet is.
    #[error("{place} is larger than {limit_bytes} bytes: this is not a spec sheet")]
    TooLarge {
        /// The file.
        place: String,
        /// The limit.
        limit_bytes: u64,
    },
}

struct Hint<'a>(Option<&'a str>);

impl fmt::Display for Hint<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |word| write!(f, "; the nearest known one is `{word}`"))
    }
}

/// The known word with the smallest edit distance, where it is near enough to be a likely slip.
pub(super) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    // Edit distance costs the product of both lengths.
    let word: String = word.chars().take(80).collect();
    let (distance, near) =
        known.into_iter().map(|candidate| (strsim::damerau_levenshtein(&word, candidate), candidate)).min()?;
    (distance <= 1 + near.len() / 2).then(|| near.to_owned())
}

/// What TOML or serde says of a text, with line, column and the nearest known word.
pub(super) fn of_toml(error: &toml::de::Error, text: &str, name: &str) -> SpecError {
    let place = error.span().map_or_else(
        || name.to_owned(),
        |span| {
            let (line, column) = position(text, span.start);
            format!("{name}:{line}:{column}")
        },
    );
    let message = error.message().trim();
    let what = if message.starts_with("unknown field") {
        "key"
    } else if message.starts_with("unknown variant") {
        "value"
    } else {
        return SpecError::Form { place, reason: in_words(message) };
    };
    // serde's sentence quotes the wrong word first and then all that would be right.
    let mut quoted = message.split('`').skip(1).step_by(2);
    let Some(word) = quoted.next() else {
        return SpecError::Form { place, reason: message.to_owned() };
    };
    SpecError::Unknown { place, what, nearest: nearest(word, quoted), word: word.chars().take(80).collect() }
}

/// Line and column of a byte, both from 1.
pub(super) fn position(text: &str, byte: usize) -> (usize, usize) {
    let before = text.as_bytes().get(..byte).unwrap_or(text.as_bytes());
    let line = 1 + before.iter().filter(|&&b| b == b'\n').count();
    let begin = before.iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
    (line, 1 + before.len() - begin)
}
