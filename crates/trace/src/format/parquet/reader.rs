//! Reads a Parquet file as a trace.

use super::column::Column;
use super::fields::{Field, Wanted};
use super::input::Input;
use super::knowledge::from_json;
use super::pages::Shared;
use super::partitioned::volume_of;
use super::{FORMAT, KEY_TRACE, KEY_VOLUME};
use crate::{BATCH_REQUESTS, Faults, Knows, Names, Op, Request, Source, TraceError};
use ::parquet::errors::ParquetError;
use ::parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use ::parquet::file::reader::Length;
use forebay_block::lock;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Once;
use std::sync::{Arc, Mutex};

const MAGIC: &[u8; 4] = b"PAR1";
/// Length of the index's length and the magic at the end.
const TAIL_BYTES: u64 = 8;
/// Largest index in bytes: about 6,000 of our row groups.
const INDEX_BYTES_MAX: u64 = 16 << 20;
/// Rows that are decoded at a time: few enough that the requests, which are filled column by column, stay in the first-level cache.
const STEP_ROWS: usize = 512;
/// Most rows per byte of the file. Our files have at most about 80, where all rows are alike; runs can claim billions in a few bytes, which
/// would take forever.
const ROWS_PER_BYTE_MAX: u64 = 4096;

/// A trace in a Parquet file, being read.
///
/// Reads files of [`super::ParquetWriter`], and others with at least `issued_ns`, `op`, `offset_bytes` and `size_bytes`. Unknown columns
/// are ignored; facts of missing columns are unknown. Rows with impossible values are faults, located by row, from 1.
pub struct ParquetTrace {
    input: Arc<Input>,
    index: ParquetMetaData,
    columns: Vec<Column>,
    shared: Arc<Mutex<Shared>>,
    /// The volume of all rows, if there is no such column.
    volume: Option<String>,
    next_group: usize,
    rows_left: usize,
    /// Number of rows that have been read.
    rows: u64,
    knows: Knows,
    faults: Faults,
    faults_at_import: Faults,
    /// Rows of a step with a value out of range, with the error.
    bad: BTreeMap<usize, String>,
    is_over: bool,
}

impl ParquetTrace {
    /// Opens a file.
    ///
    /// # Errors
    /// The file cannot be opened or read, is no Parquet file or damaged, or a column is missing or has a wrong type.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        let open = |source| TraceError::Open { path: path.to_owned(), source };
        let input = File::open(path).and_then(Input::new).map_err(open)?;
        let index = index(&input)?;
        check_rows(&index, input.len())?;
        let mut columns = columns(&index)?;
        let keys = index.file_metadata().key_value_metadata();
        let key = |name: &str| {
            let pair = keys.into_iter().flatten().find(|pair| pair.key == name);
            pair.and_then(|pair| pair.value.as_deref())
        };
        let has = |field| columns.iter().any(|column| column.field == field);
        let (knows, faults_at_import) = key(KEY_TRACE).and_then(from_json).unwrap_or_else(|| {
            let tells = |field| columns.iter().any(|column| column.field == field && !column.is_null(&index));
            let knows = Knows {
                op: true,
                time: true,
                latency: tells(Field::Latency),
                depth: tells(Field::Depth),
                flags: tells(Field::Flags),
                lifetime: tells(Field::Lifetime),
                process: tells(Field::Process),
                file: tells(Field::Inode) || tells(Field::Path),
            };
            (knows, Faults::default())
        });
        let of_directory = || path.parent().and_then(volume_of);
        let volume = if has(Field::Volume) { None } else { key(KEY_VOLUME).map(str::to_owned).or_else(of_directory) };
        // Of a trace that tells none at all, no request is marked as one without.
        for column in &mut columns {
            match column.field {
                Field::Flags if !knows.flags => column.null = 0,
                Field::Lifetime if !knows.lifetime => column.null = 0,
                _ => {}
            }
        }
        Ok(Self {
            input: Arc::new(input),
            index,
            columns,
            shared: Arc::default(),
            volume,
            next_group: 0,
            rows_left: 0,
            rows: 0,
            knows,
            // Events missing in the source are also missing in the file made from it.
            faults: Faults { by_line: true, missing: faults_at_import.missing, ..Faults::default() },
            faults_at_import,
            bad: BTreeMap::new(),
            is_over: false,
        })
    }

    /// Decodes only the wanted columns.
    #[must_use]
    pub fn with_columns(mut self, wanted: Wanted) -> Self {
        self.columns.retain(|column| column.field.is_wanted(wanted));
        if !wanted.volume {
            self.volume = None;
        }
        self
    }

    /// Number of rows of the file, by its index.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.index.row_groups().iter().map(|group| group.num_rows().cast_unsigned()).fold(0, u64::saturating_add)
    }

    /// What could not be read of the trace that the file was made from; places refer to that trace.
    #[must_use]
    pub fn faults_at_import(&self) -> &Faults {
        &self.faults_at_import
    }

    /// Moves to the next row group with rows; `false` at the end.
    fn begin_group(&mut self) -> Result<bool, TraceError> {
        while self.rows_left == 0 {
            let Some(group) = self.index.row_groups().get(self.next_group) else { return Ok(false) };
            for column in &mut self.columns {
                let begun = guarded(|| column.begin(&self.input, group, &self.shared));
                begun.map_err(|error| damage(column, self.next_group, self.rows, &error))?;
            }
            // Not negative: check_rows has checked.
            self.rows_left = usize::try_from(group.num_rows()).unwrap_or(0);
            self.next_group += 1;
        }
        Ok(true)
    }

    /// Reads the next rows into `requests`, as many as its length.
    fn fill(&mut self, requests: &mut [Request]) -> Result<(), TraceError> {
        for column in &mut self.columns {
            // The crate panics on some files (apache/arrow-rs issue 9742 asks for a fuzzer to find where); here that becomes an error.
            // State that it has left half done is not used again, since the trace ends.
            if let Err(error) = guarded(|| column.read(requests.len())) {
                return Err(damage(column, self.next_group.saturating_sub(1), self.rows, &error));
            }
            let (field, values) = (column.field, column.values());
            if !field.are_surely_in_range(values) && !column.has_all_bits() {
                let range = field.range();
                for (row, value) in values.iter().enumerate().filter(|(_, value)| !range.contains(value)) {
                    self.bad.entry(row).or_insert_with(|| wrong(field, *value, &self.shared));
                }
            }
            field.put(requests, values);
        }
        Ok(())
    }

    fn read_step(&mut self, into: &mut Vec<Request>) -> Result<bool, TraceError> {
        if !self.begin_group()? {
            return Ok(false);
        }
        let count = STEP_ROWS.min(self.rows_left);
        let begin = into.len();
        let mut blank = Request::new(0, Op::Access, 0, 0);
        if let Some(volume) = &self.volume {
            blank.volume = lock(&self.shared).names.volumes.number(volume);
        }
        into.resize(begin + count, blank);
        if let Err(error) = self.fill(&mut into[begin..]) {
            into.truncate(begin);
            return Err(error);
        }
        if !self.bad.is_empty() {
            self.throw_bad_away(into, begin);
        }
        self.rows += count as u64;
        self.rows_left -= count;
        Ok(true)
    }

    /// Removes the bad rows from a step that begins at `begin`.
    fn throw_bad_away(&mut self, into: &mut Vec<Request>, begin: usize) {
        let bad = std::mem::take(&mut self.bad);
        let mut index = 0;
        into.retain(|_| {
            let row = index;
            index += 1;
            row < begin || !bad.contains_key(&(row - begin))
        });
        for (row, what) in bad {
            self.faults.note(self.rows + row as u64 + 1, || what);
        }
    }
}

impl Source for ParquetTrace {
    fn read(&mut self, into: &mut Vec<Request>, names: &mut Names) -> Result<bool, TraceError> {
        if self.is_over {
            return Ok(false);
        }
        // Decoders number the names of a dictionary when they reach it, deep in the crate, so they get the table meanwhile.
        std::mem::swap(names, &mut lock(&self.shared).names);
        let mut read = Ok(true);
        for _ in 0..BATCH_REQUESTS / STEP_ROWS {
            read = self.read_step(into);
            if !matches!(read, Ok(true)) {
                break;
            }
        }
        std::mem::swap(names, &mut lock(&self.shared).names);
        self.is_over = !matches!(read, Ok(true));
        read
    }

    fn faults(&self) -> &Faults {
        &self.faults
    }

    fn knows(&self) -> Knows {
        self.knows
    }
}

/// The error for a value.
fn wrong(field: Field, value: i64, shared: &Mutex<Shared>) -> String {
    let name = field.name();
    if value == field.null() {
        format!("{name} is null")
    } else if field.is_text() {
        format!("{name} is none that is known, or too long, as {:?}", lock(shared).refused)
    } else {
        format!("{name} of {value} is out of range")
    }
}

/// The error of a column in a row group, after `rows` rows were read.
fn damage(column: &Column, group: usize, rows: u64, error: &ParquetError) -> TraceError {
    let what = format!("column {} of row group {group}, from row {}: {}", column.field.name(), rows + 1, plain(error));
    let (format, offset_bytes) = (FORMAT, column.begin_bytes);
    if is_unsupported(error) {
        let advice = "write it with other settings (docs/trace-parquet.md says which are read)";
        return TraceError::Unsupported { format, what, offset_bytes, advice };
    }
    TraceError::Damaged { format, what, offset_bytes }
}

/// Whether a reader with more features could read on.
fn is_unsupported(error: &ParquetError) -> bool {
    // The crate reports codecs that it was built without in these words.
    let is_left_out = |what: &String| what.starts_with("Disabled feature");
    matches!(error, ParquetError::NYI(_)) || matches!(error, ParquetError::General(what) if is_left_out(what))
}

fn malformed(what: String, offset_bytes: u64) -> TraceError {
    TraceError::Malformed { format: FORMAT, what, offset_bytes }
}

/// The text of an error without the crate's prefix "Parquet error".
fn plain(error: &ParquetError) -> String {
    match error {
        ParquetError::General(what) | ParquetError::EOF(what) | ParquetError::NYI(what) => what.clone(),
        other => other.to_string(),
    }
}

thread_local! {
    /// Whether a panic of this thread will become an error with its reason.
    static IS_GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Installs a hook so that panics of the decoder are not also printed on the standard error.
fn silence_guarded() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !IS_GUARDED.get() {
                before(panic);
            }
        }));
    });
}

/// Runs `decode`; a panic becomes an error.
fn guarded<T>(decode: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, ParquetError> {
    silence_guarded();
    let was_guarded = IS_GUARDED.replace(true);
    let decoded = catch_unwind(AssertUnwindSafe(decode));
    IS_GUARDED.set(was_guarded);
    decoded.unwrap_or_else(|panic| {
        let what = panic.downcast_ref::<String>().map(String::as_str);
        let what = what.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no reason told");
        Err(ParquetError::General(format!("the decoder gave up: {what}")))
    })
}

/// The index of a file, which is at its end (parquet-format, README "File format": index, its length, magic).
fn index(input: &Input) -> Result<ParquetMetaData, TraceError> {
    let len_bytes = input.len();
    let read =
        |offset_bytes, len| input.bytes(offset_bytes, len).map_err(|source| TraceError::Read { offset_bytes, source });
    let tail_at = len_bytes.saturating_sub(TAIL_BYTES);
    let tail = read(tail_at, len_bytes.min(TAIL_BYTES) as usize)?;
    let (Some(length), Some(magic)) = (tail.first_chunk::<4>(), tail.last_chunk::<4>()) else {
        return Err(malformed("it is too short".to_owned(), 0));
    };
    if tail.len() < 8 || magic != MAGIC {
        return Err(malformed("it does not end in PAR1: cut off, or no Parquet file".to_owned(), tail_at));
    }
    let index_bytes = u64::from(u32::from_le_bytes(*length));
    let index_at = tail_at.checked_sub(index_bytes).filter(|_| index_bytes <= INDEX_BYTES_MAX);
    let index_at = index_at.ok_or_else(|| malformed(format!("an index of {index_bytes} bytes"), tail_at))?;
    let bytes = read(index_at, index_bytes as usize)?;
    let decoded = guarded(|| ParquetMetaDataReader::decode_metadata(&bytes));
    decoded.map_err(|error| {
        let what = format!("its index cannot be decoded: {}", plain(&error));
        TraceError::Damaged { format: FORMAT, what, offset_bytes: index_at }
    })
}

/// Checks that the number of rows is plausible.
fn check_rows(index: &ParquetMetaData, len_bytes: u64) -> Result<(), TraceError> {
    let mut rows = 0_u64;
    for (number, group) in index.row_groups().iter().enumerate() {
        let of_group = u64::try_from(group.num_rows());
        let of_group = of_group.map_err(|_| malformed(format!("row group {number} has a negative length"), 0))?;
        rows = rows.saturating_add(of_group);
    }
    if rows > len_bytes.saturating_mul(ROWS_PER_BYTE_MAX) {
        return Err(malformed(format!("{rows} rows in {len_bytes} bytes cannot be"), 0));
    }
    Ok(())
}

/// The columns of a trace in a file.
fn columns(index: &ParquetMetaData) -> Result<Vec<Column>, TraceError> {
    let schema = index.file_metadata().schema_descr();
    let mut columns = Vec::new();
    for field in Field::ALL {
        let mut leaves = schema.columns().iter().enumerate();
        match leaves.find(|(_, column)| column.path().parts() == [field.name()]) {
            Some((leaf, column)) => {
                columns.push(Column::new(field, leaf, column).map_err(|what| malformed(what, 0))?);
            }
            None if field.is_required() => {
                return Err(malformed(format!("there is no column {}", field.name()), 0));
            }
            None => {}
        }
    }
    Ok(columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regression_a_panic_of_the_decoder_is_an_error_and_nothing_else() {
        let failed: Result<(), _> = guarded(|| {
            assert!(IS_GUARDED.get(), "the hook is silent here");
            panic!("in the decoder")
        });
        assert!(failed.is_err_and(|error| plain(&error).contains("in the decoder")));
        assert!(!IS_GUARDED.get(), "and speaks behind it");
    }
}
