//! Writes a trace to one file.

use super::group::{Groups, ROW_GROUP_ROWS, failed, unfit};
use super::knowledge::knowledge;
use super::texts::Texts;
use crate::format::PartialFile;
use crate::{Faults, Knows, Names, Request, TraceError};
use std::path::Path;

/// The result of writing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Number of requests in the file.
    pub rows: u64,
    /// Requests that the file cannot hold, by their number among all, from 1.
    pub refused: Faults,
}

/// Writes a trace to one Parquet file.
///
/// Requests wait until they fill a row group: about 42 MB, and as much again while it is written. The file gets its name in
/// [`ParquetWriter::finish`]; until then it is `NAME.partial`, which is removed if the writer is dropped earlier or fails.
pub struct ParquetWriter {
    /// `None` once writing has failed.
    open: Option<(Groups, PartialFile)>,
    rows: Vec<Request>,
    texts: Texts,
    knows: Knows,
    written: Written,
    received: u64,
    group_rows: usize,
}

impl ParquetWriter {
    /// Begins the file `path`, which must not exist yet, for a trace with these facts.
    ///
    /// # Errors
    /// The file exists, another writer uses it, or it cannot be created.
    pub fn create(path: &Path, knows: &Knows) -> Result<Self, TraceError> {
        Self::over(PartialFile::create(path)?, knows, ROW_GROUP_ROWS)
    }

    /// Like [`Self::create`], with row groups of `group_rows` rows.
    pub(super) fn over(partial: PartialFile, knows: &Knows, group_rows: usize) -> Result<Self, TraceError> {
        let file = partial.file().map_err(|source| TraceError::WriteFile { path: partial.to().to_owned(), source })?;
        let groups = Groups::new(file, true, *knows).map_err(|error| failed(partial.to(), error))?;
        Ok(Self {
            open: Some((groups, partial)),
            rows: Vec::new(),
            texts: Texts::default(),
            knows: *knows,
            written: Written { refused: Faults { by_line: true, ..Faults::default() }, ..Written::default() },
            received: 0,
            group_rows,
        })
    }

    /// Writes `requests`, whose names are in `names`: the same table each time, which may have grown. A request with a time, an offset or a
    /// length above 2^63 - 1 is not written, but counted in [`Written::refused`].
    ///
    /// # Errors
    /// The file cannot be written. Nothing is left then.
    pub fn write(&mut self, requests: &[Request], names: &Names) -> Result<(), TraceError> {
        self.texts.learn(names);
        for request in requests {
            self.received += 1;
            if let Some((what, value)) = unfit(request) {
                self.written.refused.note(self.received, || format!("{what} of {value} is above 2^63 - 1"));
                continue;
            }
            self.rows.push(*request);
            if self.rows.len() >= self.group_rows {
                self.write_group()?;
            }
        }
        Ok(())
    }

    fn write_group(&mut self) -> Result<(), TraceError> {
        let (mut groups, partial) = self.take()?;
        // After a failure the writer is not put back, so the incomplete file is removed now.
        groups.write(&self.rows, &self.texts).map_err(|error| failed(partial.to(), error))?;
        self.open = Some((groups, partial));
        self.written.rows += self.rows.len() as u64;
        self.rows.clear();
        Ok(())
    }

    fn take(&mut self) -> Result<(Groups, PartialFile), TraceError> {
        let gone = || TraceError::Write { source: std::io::Error::other("an earlier write to the file has failed") };
        self.open.take().ok_or_else(gone)
    }

    /// Completes the file and gives it its name. `of_source` is what could not be read of the trace; it is stored in the file.
    ///
    /// # Errors
    /// The file cannot be written, or its name has been taken meanwhile. Nothing is left then.
    pub fn finish(mut self, of_source: &Faults) -> Result<Written, TraceError> {
        if !self.rows.is_empty() {
            self.write_group()?;
        }
        let (groups, partial) = self.take()?;
        groups
            .finish(knowledge(self.knows, of_source).to_string(), None)
            .map_err(|error| failed(partial.to(), error))?;
        partial.finish()?;
        Ok(self.written)
    }
}
