//! Finding spec sheets: files and built-in sheets.

use super::error::SpecError;
use super::parse::{MAX_SHEET_BYTES, parse};
use super::sheet::Spec;
use forebay_block::mistakes::{cut, nearest};
use std::fs::File;
use std::io::Read;
use std::path::Path;

macro_rules! sheets {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../specs/", $name, ".toml")))),*]
    };
}

pub(super) const BUILTIN: &[(&str, &str)] = sheets![
    "p4800x-375gb",
    "800p-118gb",
    "800p-58gb",
    "p3700-800gb",
    "micron9100-2.4tb",
    "p4500-4tb",
    "p4510-2tb",
    "p4610-1.6tb",
    "p4320-7.68tb",
    "960evo-250gb",
    "960evo-1tb",
];

impl Spec {
    /// Names of the built-in sheets.
    #[must_use]
    pub fn builtin() -> Vec<&'static str> {
        BUILTIN.iter().map(|&(name, _)| name).collect()
    }

    /// Reads a sheet: a built-in one by its name (or, where there is one capacity only, by what stands before the dash:
    /// `p4800x`), otherwise a file. A file of the same name in the current directory is reached as `./NAME`.
    ///
    /// # Errors
    /// [`SpecError`]: neither a built-in name nor a file, not readable, too large, not text, or an error in the sheet,
    /// with its line.
    pub fn load(path_or_name: &str) -> Result<Self, SpecError> {
        if let Some((name, text)) = builtin(path_or_name) {
            return parse(text, name);
        }
        let path = Path::new(path_or_name);
        let read_error = |source| SpecError::Read { path: path.to_owned(), source };
        // The file's type is checked before it is opened: opening a pipe would wait for its other end.
        let facts = match std::fs::metadata(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && !path_or_name.contains('/') => {
                return Err(SpecError::NoSuchSheet {
                    word: cut(path_or_name),
                    nearest: nearest(path_or_name, Self::builtin()).map(str::to_owned),
                    known: Self::builtin().join(", "),
                });
            }
            facts => facts.map_err(read_error)?,
        };
        if !facts.is_file() {
            return Err(SpecError::NotAFile { path: path.to_owned() });
        }
        let place = path.display().to_string();
        let mut bytes = Vec::new();
        File::open(path).map_err(read_error)?.take(MAX_SHEET_BYTES + 1).read_to_end(&mut bytes).map_err(read_error)?;
        let text = String::from_utf8(bytes).map_err(|error| SpecError::Form {
            place: place.clone(),
            reason: format!("not UTF-8 text from byte {} on", error.utf8_error().valid_up_to()),
        })?;
        parse(&text, &place)
    }

    /// Reads a sheet from text; errors name it `name`.
    ///
    /// # Errors
    /// As [`Spec::load`].
    pub fn parse(text: &str, name: &str) -> Result<Self, SpecError> {
        parse(text, name)
    }
}

/// The built-in sheet of this name, or the only one for this drive.
fn builtin(word: &str) -> Option<(&'static str, &'static str)> {
    let of_drive = |name: &str| name.strip_prefix(word).is_some_and(|rest| rest.starts_with('-'));
    let mut of_drive = BUILTIN.iter().filter(|(name, _)| of_drive(name));
    let exact = BUILTIN.iter().find(|(name, _)| *name == word);
    exact.or_else(|| of_drive.next().filter(|_| of_drive.next().is_none())).copied()
}
