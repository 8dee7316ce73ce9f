//! Loads job files, whichever format they have.

use super::error::JobError;
use super::length::{MAX_FILE_BYTES, check_length};
use super::model::Plan;
use super::{fio, toml_file};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The text of a job file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobText {
    /// The file's name in errors. A name that ends in `.toml` also decides the format.
    pub place: String,
    /// The content of the file.
    pub text: String,
}

impl JobText {
    /// The jobs: our TOML if the name ends in `.toml` or a section is `[[job]]` or `[defaults]`, otherwise a job file of fio.
    ///
    /// # Errors
    /// [`JobError`]: the text is too long, or has an error, which is given with its line.
    pub fn parse(&self) -> Result<Plan, JobError> {
        let Self { place, text } = self;
        check_length(place, text.len())?;
        let named_toml = Path::new(place).extension().is_some_and(|extension| extension.eq_ignore_ascii_case("toml"));
        if named_toml || looks_like_toml(text) { toml_file::parse(text, place) } else { fio::parse(text, place) }
    }
}

/// Reads and parses a job file.
///
/// # Errors
/// As for [`read`] and [`JobText::parse`].
pub fn load(path: &Path) -> Result<Plan, JobError> {
    read(path)?.parse()
}

/// Reads the text of a job file.
///
/// # Errors
/// [`JobError`]: the file cannot be read, is no regular file, is larger than [`MAX_FILE_BYTES`] or not text.
pub fn read(path: &Path) -> Result<JobText, JobError> {
    let read_error = |source| JobError::Read { path: path.to_owned(), source };
    // The file's type is checked before it is opened: opening a pipe would wait for its other end.
    if !std::fs::metadata(path).map_err(read_error)?.is_file() {
        return Err(JobError::NotAFile { path: path.to_owned() });
    }
    let place = path.display().to_string();
    let mut bytes = Vec::new();
    File::open(path).map_err(read_error)?.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(read_error)?;
    check_length(&place, bytes.len())?;
    let text = String::from_utf8(bytes)
        .map_err(|e| JobError::form(&place, format!("not UTF-8 text from byte {} on", e.utf8_error().valid_up_to())))?;
    Ok(JobText { place, text })
}

fn looks_like_toml(text: &str) -> bool {
    text.lines().map(str::trim_start).any(|line| line.starts_with("[[job]]") || line.starts_with("[defaults]"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(name: &str, text: &[u8]) -> (tempfile::TempDir, std::path::PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        (directory, path)
    }

    #[test]
    fn content_decides() {
        let (_keep, path) = written("mine", b"# jobs\n[[job]]\nname = \"a\"\nrw = \"randread\"\n");
        assert_eq!(load(&path).unwrap().groups[0][0].name, "a");
        let (_keep, path) = written("theirs", b"[global]\nbs=4k\n[b]\nrw=randread\nsize=1m\n");
        assert_eq!(load(&path).unwrap().groups[0][0].name, "b");
        let (_keep, path) = written("broken.toml", b"[b]\nrw=randread\n");
        assert!(load(&path).unwrap_err().to_string().contains("broken.toml"));
    }

    #[test]
    fn what_is_no_job_file_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        assert!(matches!(load(directory.path()), Err(JobError::NotAFile { .. })));
        assert!(matches!(load(&directory.path().join("none")), Err(JobError::Read { .. })));
        assert!(matches!(load(Path::new("/dev/zero")), Err(JobError::NotAFile { .. })));
        let (_keep, path) = written("large.fio", &vec![b'\n'; MAX_FILE_BYTES as usize + 1]);
        assert!(matches!(load(&path), Err(JobError::TooLarge { .. })));
        let (_keep, path) = written("binary.fio", b"[a]\nname=\xff\xfe\n");
        assert!(load(&path).unwrap_err().to_string().contains("UTF-8"));
    }

    #[test]
    fn every_example_parses() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("jobs");
        let mut seen = 0;
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let plan = load(&path).unwrap_or_else(|e| panic!("{e}"));
            assert!(!plan.groups.is_empty(), "{}", path.display());
            seen += 1;
        }
        assert!(seen >= 8, "only {seen} examples");
    }
}
