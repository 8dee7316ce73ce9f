//! Parses the text of a job file as fio does: sections, keys, values, comments.

use super::expand::{Surroundings, expand};
use super::keys;
use crate::job::error::{JobError, quote};
use crate::job::validate::MAX_JOBS;
use std::collections::BTreeMap;

/// A key's value and its place.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Text behind the `=`, expanded; `None` without a `=`.
    pub value: Option<String>,
    /// Line number from 1.
    pub line: usize,
}

/// Keys of a job by their canonical name, including those of the `[global]` sections before it.
#[derive(Clone, Debug)]
pub struct Section {
    /// Name in brackets.
    pub name: String,
    /// Line of the name, from 1.
    pub line: usize,
    /// Keys and values.
    pub entries: BTreeMap<String, Entry>,
}

/// Splits a job file into its jobs. A `[global]` section applies to the jobs after it, as in fio.
pub fn sections(text: &str, file: &str, surroundings: &Surroundings<'_>) -> Result<Vec<Section>, JobError> {
    let mut global = BTreeMap::new();
    let mut done: Vec<Section> = Vec::new();
    let mut open: Option<Section> = None;
    for (index, raw) in text.lines().enumerate() {
        let place = format!("{file}:{}", index + 1);
        // As in fio, a comment sign ends the line anywhere.
        let line = raw.split([';', '#']).next().unwrap_or("").trim();
        if line.is_empty() {
            continue;
        }
        if let Some(rest) = line.strip_prefix('[') {
            close(open.take(), &mut global, &mut done);
            if done.len() == MAX_JOBS {
                return Err(JobError::form(&place, format!("more than {MAX_JOBS} jobs")));
            }
            open = Some(heading(rest, index + 1, &global, &place)?);
            continue;
        }
        let Some(section) = &mut open else {
            let reason = format!("{} stands before any [section]: give it a name in brackets first", quote(line));
            return Err(JobError::form(&place, reason));
        };
        if line.strip_prefix("include").is_some_and(|rest| rest.starts_with(char::is_whitespace)) {
            return Err(JobError::unsupported(&place, "include", "copy the other file's lines to here"));
        }
        let (key, value) = match line.split_once('=') {
            Some((key, value)) => (key.trim_end(), Some(value.trim_start())),
            None => (line, None),
        };
        let value = value.map(|value| expand(value, surroundings)).transpose();
        let value = value.map_err(|reason| JobError::value(&place, key, reason))?;
        let (key, value) = keys::canonical(key, value);
        section.entries.insert(key, Entry { value, line: index + 1 });
    }
    close(open, &mut global, &mut done);
    if done.is_empty() {
        return Err(JobError::form(file, "there is no job in it: write a [name] and its keys"));
    }
    Ok(done)
}

/// fio treats every section whose name begins like this as global.
const GLOBAL: &str = "global";

fn close(section: Option<Section>, global: &mut BTreeMap<String, Entry>, done: &mut Vec<Section>) {
    match section {
        Some(section) if section.name.starts_with(GLOBAL) => *global = section.entries,
        Some(section) => done.push(section),
        None => {}
    }
}

fn heading(rest: &str, line: usize, global: &BTreeMap<String, Entry>, place: &str) -> Result<Section, JobError> {
    let Some(name) = rest.strip_suffix(']').map(str::trim).filter(|name| !name.is_empty() && name.len() <= 255) else {
        return Err(JobError::form(place, format!("{} is no section: write [name], 255 bytes at most", quote(rest))));
    };
    Ok(Section { name: name.to_owned(), line, entries: global.clone() })
}
