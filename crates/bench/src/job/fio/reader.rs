//! Reads the keys of one job with their types, and collects notes about them.

use super::ini::{Entry, Section};
use super::units::{self, Amount, KbBase};
use crate::job::error::{JobError, quote};

/// Notes, each with the jobs that it is about.
#[derive(Debug, Default)]
pub struct Notes {
    entries: Vec<(String, Vec<String>)>,
}

impl Notes {
    /// Most jobs that a note names; the others are only counted.
    const MAX_NAMES: usize = 4;

    /// Notes that `text` applies to `job`.
    pub fn add(&mut self, job: &str, text: impl Into<String>) {
        let text = text.into();
        match self.entries.iter_mut().find(|(known, _)| *known == text) {
            Some((_, jobs)) if jobs.last().is_some_and(|last| last == job) => {}
            Some((_, jobs)) => jobs.push(job.to_owned()),
            None => self.entries.push((text, vec![job.to_owned()])),
        }
    }

    /// One sentence for each note. Jobs are named only if the note is not about all `total` jobs.
    pub fn into_sentences(self, total: usize) -> Vec<String> {
        let sentence = |(text, jobs): (String, Vec<String>)| {
            if jobs.len() == total {
                return text;
            }
            let more = jobs.len().saturating_sub(Self::MAX_NAMES);
            let named = jobs.into_iter().take(Self::MAX_NAMES).collect::<Vec<_>>().join(", ");
            if more > 0 { format!("[{named} and {more} more] {text}") } else { format!("[{named}] {text}") }
        };
        self.entries.into_iter().map(sentence).collect()
    }
}

/// Typed access to the keys of a section.
pub struct Reader<'a> {
    section: &'a Section,
    file: &'a str,
    notes: &'a mut Notes,
    /// fio's `kb_base` for this job.
    pub kb_base: KbBase,
}

impl<'a> Reader<'a> {
    /// Reads `kb_base` first, since all sizes depend on it.
    pub fn new(section: &'a Section, file: &'a str, notes: &'a mut Notes) -> Result<Self, JobError> {
        let mut reader = Self { section, file, notes, kb_base: KbBase::Turned };
        reader.kb_base = match reader.text("kb_base")? {
            None | Some("1024") => KbBase::Turned,
            Some("1000") => KbBase::Standard,
            Some(other) => return Err(reader.wrong("kb_base", format!("{}; 1000 or 1024", quote(other)))),
        };
        Ok(reader)
    }

    /// The job's name.
    pub fn name(&self) -> &'a str {
        &self.section.name
    }

    /// All keys of the section.
    pub fn keys(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.section.entries.keys().map(String::as_str)
    }

    /// Whether the first key is on a later line than the second.
    pub fn is_later(&self, key: &str, other: &str) -> bool {
        let line = |key: &str| self.entry(key).map_or(0, |entry| entry.line);
        line(key) > line(other)
    }

    /// Whether the section has the key.
    pub fn has(&self, key: &str) -> bool {
        self.section.entries.contains_key(key)
    }

    fn entry(&self, key: &str) -> Option<&'a Entry> {
        self.section.entries.get(key)
    }

    /// File and line of a key; the line of the section if the key is missing.
    pub fn place(&self, key: &str) -> String {
        let line = self.entry(key).map_or(self.section.line, |entry| entry.line);
        format!("{}:{line}", self.file)
    }

    /// An error about a key's value.
    pub fn wrong(&self, key: &str, reason: impl Into<String>) -> JobError {
        JobError::value(&self.place(key), key, reason)
    }

    /// An error about a feature that is not supported.
    pub fn unsupported(&self, key: &str, what: impl Into<String>, advice: &str) -> JobError {
        JobError::unsupported(&self.place(key), what, advice)
    }

    /// Adds a note about this job.
    pub fn note(&mut self, text: impl Into<String>) {
        self.notes.add(&self.section.name, text);
    }

    /// The value as text; an error if the key has no value.
    pub fn text(&self, key: &str) -> Result<Option<&'a str>, JobError> {
        match self.entry(key).map(|entry| entry.value.as_deref()) {
            None => Ok(None),
            Some(Some(value)) if !value.is_empty() => Ok(Some(value)),
            Some(_) => Err(self.wrong(key, "no value (or a ${VARIABLE} that is not set)")),
        }
    }

    fn parsed<T>(&self, key: &str, read: impl Fn(&str) -> Result<T, String>) -> Result<Option<T>, JobError> {
        self.text(key)?.map(|text| read(text).map_err(|reason| self.wrong(key, reason))).transpose()
    }

    /// A switch: on if the key is alone, or has a number other than 0.
    pub fn flag(&self, key: &str) -> Result<Option<bool>, JobError> {
        match self.entry(key).map(|entry| entry.value.as_deref()) {
            None => Ok(None),
            Some(None) => Ok(Some(true)),
            Some(Some(value)) => match value.parse::<u32>() {
                Ok(number) => Ok(Some(number != 0)),
                Err(_) => Err(self.wrong(key, format!("{}; 0 or 1", quote(value)))),
            },
        }
    }

    /// A switch that is off if it is missing.
    pub fn is_on(&self, key: &str) -> Result<bool, JobError> {
        Ok(self.flag(key)?.unwrap_or(false))
    }

    /// A count, with fio's units.
    pub fn count(&mut self, key: &str) -> Result<Option<u64>, JobError> {
        self.note_turned(key)?;
        let base = self.kb_base;
        self.parsed(key, |text| units::bytes(text, base))
    }

    /// A count that fits `u32`.
    pub fn count_u32(&mut self, key: &str) -> Result<Option<u32>, JobError> {
        let Some(count) = self.count(key)? else { return Ok(None) };
        u32::try_from(count).map(Some).map_err(|_| self.wrong(key, format!("{count} is too large")))
    }

    /// A whole percentage; of several directions, the first.
    pub fn percent(&mut self, key: &str) -> Result<Option<u32>, JobError> {
        let percent = self.parsed(key, |text| whole_percent(text.split(',').next().unwrap_or("")))?;
        if self.text(key)?.is_some_and(|text| text.contains(',')) {
            self.note(format!("`{key}` has one value for all directions here: the first."));
        }
        Ok(percent)
    }

    /// Whole percentages of reads, writes and trims.
    pub fn percent_by_direction(&self, key: &str) -> Result<Option<[Option<u32>; 3]>, JobError> {
        self.parsed(key, |text| units::by_direction(text, whole_percent))
    }

    /// Bytes or a share of the target.
    pub fn amount(&mut self, key: &str) -> Result<Option<Amount>, JobError> {
        self.note_turned(key)?;
        let base = self.kb_base;
        self.parsed(key, |text| units::amount(text, base))
    }

    /// A time in nanoseconds; of a range, the lower end.
    pub fn time_ns(&mut self, key: &str, default_ns: u64) -> Result<Option<u64>, JobError> {
        let lower = |text: &str| text.split(['-', ':', ',']).next().unwrap_or("").to_owned();
        let time = self.parsed(key, |text| units::time_ns(&lower(text), default_ns))?;
        if self.text(key)?.is_some_and(|text| text.contains(['-', ':', ','])) {
            self.note(format!("`{key}` is a range: its lower end is used."));
        }
        Ok(time)
    }

    /// Sizes or rates of reads, writes and trims.
    pub fn by_direction(&mut self, key: &str) -> Result<Option<[Option<u64>; 3]>, JobError> {
        self.note_turned(key)?;
        let base = self.kb_base;
        self.parsed(key, |text| units::by_direction(text, |part| units::bytes(part, base)))
    }

    /// Notes where fio's units are not what they look like.
    pub fn note_turned(&mut self, key: &str) -> Result<(), JobError> {
        if self.text(key)?.is_some_and(|text| units::is_turned(text, self.kb_base)) {
            self.note(format!(
                "`{key}`: fio takes KiB, MiB, ... for powers of 1000 unless kb_base=1000 (4KiB is \
                 4000 bytes), and so it is done here; write 4k for 4096."
            ));
        }
        Ok(())
    }
}

fn whole_percent(text: &str) -> Result<u32, String> {
    let number = text.trim().trim_end_matches('%').parse::<u32>().ok().filter(|percent| *percent <= 100);
    number.ok_or_else(|| format!("{}; a whole number from 0 to 100", quote(text)))
}
