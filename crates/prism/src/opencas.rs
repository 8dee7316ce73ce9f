//! Import of Open CAS io-class files.
//!
//! The format, from Open CAS Linux (`casadm/cas_lib.c`, `modules/cas_cache/classifier.c`, `utils/ioclass-config.csv`):
//! a header naming the columns `IO class id`, `IO class name`, `Eviction priority`, `Allocation` in any order, then a
//! line per class. The *name* is the rule. Priority is 0 to 255 or empty (pinned); allocation 0.00 to 1.00.
//!
//! The differences here, and how the import accounts for them:
//! * Open CAS reads a rule from left to right and stops at the first `&` whose left side is false. So `a|b&c|d` is
//!   `(a|b)&(c|d)`; the imported rule has these parentheses.
//! * It tries the rules in order of class ids, and the *last* one that matches wins, unless a rule reaches `done`,
//!   which ends the search. Here the first match wins. The result is the same if the rules with `done` are tried
//!   first, in order, and then those without, in reverse; the import assigns priorities accordingly.
//! * There, priority determines the order of eviction, not of matching. Only "pinned" has a counterpart here: the
//!   fast tier. Other classes are staged; allocation 0 means pass-through, that is directly to the capacity tier.
//! * Class 0 (`unclassified`) becomes the default class; its name must stay `cold`. Others are named `cas-ID`.

use crate::class::{ClassSpec, DEFAULT_NAME, Place};
use crate::rules::{Rule, RuleError};
use thiserror::Error;

/// Longest file accepted.
pub const FILE_LIMIT_BYTES: usize = 256 << 10;
/// Largest class id (33 is the class of prefetched data in newer releases).
const ID_LIMIT: u16 = 33;
/// First priority of imported rules; an operator's own rules at the default of 100 come before them.
const FIRST_PRIORITY: u16 = 1000;
const COLUMNS: [&str; 4] = ["IO class id", "IO class name", "Eviction priority", "Allocation"];

/// The result of an import.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Import {
    /// Classes, to be merged with [`crate::ClassTable::merge`].
    pub classes: Vec<ClassSpec>,
    /// Parts of the file that have no effect yet, in order of lines.
    pub notes: Vec<Note>,
}

/// A part of the file that has no effect here yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Line in the file, from 1.
    pub line: usize,
    /// The part, and the reason.
    pub text: String,
}

/// Why a file was refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: {kind}")]
pub struct ImportError {
    /// Line in the file, from 1.
    pub line: usize,
    /// The reason.
    #[source]
    pub kind: ImportErrorKind,
}

/// What is wrong in a file.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ImportErrorKind {
    /// Longer than [`FILE_LIMIT_BYTES`].
    #[error("the file is longer than {FILE_LIMIT_BYTES} bytes")]
    TooLong,
    /// The file has no classes.
    #[error("the file holds no classes")]
    Empty,
    /// The first line is no header.
    #[error("the header must name the columns `{}`; `{found}` is not right", COLUMNS.join(","))]
    Header {
        /// The line.
        found: String,
    },
    /// A line does not have four columns.
    #[error("expected 4 columns, found {found}")]
    Columns {
        /// The number of columns.
        found: usize,
    },
    /// A value is outside its range.
    #[error("{column} must be {needs}, not `{value}`")]
    Value {
        /// Name of the column.
        column: &'static str,
        /// The values that the column accepts.
        needs: &'static str,
        /// The value as written.
        value: String,
    },
    /// Two lines have the same class id.
    #[error("class {id} is configured twice")]
    Duplicate {
        /// The id.
        id: u16,
    },
    /// A rule cannot be parsed.
    #[error("rule `{rule}`")]
    Rule {
        /// The rule as written.
        rule: String,
        /// Position and reason.
        #[source]
        source: RuleError,
    },
}

struct Entry {
    line: usize,
    id: u16,
    rule: String,
    pinned: bool,
    share: f64,
}

/// Parses an io-class file.
///
/// # Errors
/// Line and kind of the first mistake. Never panics, whatever the text.
pub fn import(text: &str) -> Result<Import, ImportError> {
    let at = |line, kind| ImportError { line, kind };
    if text.len() > FILE_LIMIT_BYTES {
        return Err(at(1, ImportErrorKind::TooLong));
    }
    let mut lines = text.lines().enumerate().map(|(i, line)| (i + 1, line.trim_end()));
    let (line, header) = lines.next().ok_or_else(|| at(1, ImportErrorKind::Empty))?;
    let order = columns(header).ok_or_else(|| at(line, ImportErrorKind::Header { found: header.into() }))?;
    let mut entries: Vec<Entry> = Vec::new();
    for (line, text) in lines.filter(|(_, text)| !text.is_empty()) {
        let entry = entry(line, text, order).map_err(|kind| at(line, kind))?;
        if entries.iter().any(|earlier| earlier.id == entry.id) {
            return Err(at(line, ImportErrorKind::Duplicate { id: entry.id }));
        }
        entries.push(entry);
    }
    if entries.is_empty() {
        return Err(at(line, ImportErrorKind::Empty));
    }
    // The order in which Open CAS tries the rules.
    entries.sort_by_key(|entry| entry.id);
    convert(&entries)
}

/// Index of each of [`COLUMNS`] in the header.
fn columns(header: &str) -> Option<[usize; 4]> {
    let names: Vec<String> = fields(header);
    if names.len() != COLUMNS.len() {
        return None;
    }
    let mut order = [0; 4];
    for (place, wanted) in order.iter_mut().zip(COLUMNS) {
        *place = names.iter().position(|name| name == wanted)?;
    }
    Some(order)
}

/// Splits at commas, and removes surrounding blanks and quotes.
fn fields(line: &str) -> Vec<String> {
    line.split(',').map(|field| field.trim().trim_matches('"').to_owned()).collect()
}

fn entry(line: usize, text: &str, order: [usize; 4]) -> Result<Entry, ImportErrorKind> {
    let fields = fields(text);
    if fields.len() != COLUMNS.len() {
        return Err(ImportErrorKind::Columns { found: fields.len() });
    }
    let field = |column: usize| fields[order[column]].as_str();
    let bad =
        |column: usize, needs| ImportErrorKind::Value { column: COLUMNS[column], needs, value: field(column).into() };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let id = field(0).parse().ok().filter(|id| *id <= ID_LIMIT && digits(field(0)));
    let id = id.ok_or_else(|| bad(0, "a number from 0 to 33"))?;
    let rule = field(1).to_owned();
    if rule.is_empty() || !rule.bytes().all(|b| (32..=126).contains(&b)) {
        return Err(bad(1, "a rule in printable ASCII"));
    }
    if (id == 0) != (rule == "unclassified") {
        return Err(bad(1, "`unclassified` for class 0 and for no other"));
    }
    let pinned = field(2).is_empty();
    if !pinned && (!digits(field(2)) || field(2).parse::<u8>().is_err()) {
        return Err(bad(2, "a number from 0 to 255, or empty for pinned"));
    }
    // Open CAS accepts at most four characters, hundredths.
    let plain =
        field(3).len() <= 4 && !field(3).is_empty() && field(3).bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let share = field(3).parse::<f64>().ok().filter(|share| plain && (0.0..=1.0).contains(share));
    let share = share.ok_or_else(|| bad(3, "a number from 0.00 to 1.00"))?;
    Ok(Entry { line, id, rule, pinned, share })
}

fn convert(entries: &[Entry]) -> Result<Import, ImportError> {
    let mut import = Import::default();
    // (whether it is tried first, class)
    let mut ordered: Vec<(bool, ClassSpec)> = Vec::new();
    for entry in entries {
        let place = match (entry.share, entry.pinned) {
            (0.0, _) => Place::Capacity,
            (_, true) => Place::Fast,
            (_, false) => Place::Stage,
        };
        let class = |name: &str| ClassSpec { share: entry.share, ..ClassSpec::new(name, place) };
        if entry.id == 0 {
            import.classes.push(class(DEFAULT_NAME));
            continue;
        }
        if entry.rule == "prefetch" {
            let text = "`prefetch` is the class of data a cache reads ahead; there is none here yet".into();
            import.notes.push(Note { line: entry.line, text });
            continue;
        }
        let (text, done) = translate(&entry.rule);
        let rule = Rule::parse(&text).map_err(|source| {
            let kind = ImportErrorKind::Rule { rule: entry.rule.clone(), source: original_position(source, entry) };
            ImportError { line: entry.line, kind }
        })?;
        for pending in rule.pending() {
            let text = format!("`{pending}` cannot be known yet and matches nothing");
            import.notes.push(Note { line: entry.line, text });
        }
        let mut spec = class(&format!("cas-{}", entry.id));
        spec.rules.push(text);
        ordered.push((done, spec));
    }
    let (first, last): (Vec<_>, Vec<_>) = ordered.into_iter().partition(|(done, _)| *done);
    for ((_, mut spec), priority) in first.into_iter().chain(last.into_iter().rev()).zip(FIRST_PRIORITY..) {
        spec.priority = priority;
        import.classes.push(spec);
    }
    Ok(import)
}

/// The rule with the parentheses that reading from left to right implies, cut off after `done`; and whether it has
/// `done`.
fn translate(rule: &str) -> (String, bool) {
    let mut groups = Vec::new();
    for group in rule.split('&') {
        if group.split('|').any(|condition| condition == "done") {
            // Once `done` is reached, the rule matches and ends the search: its alternatives and everything after it
            // do not matter.
            groups.push("done".to_owned());
            return (groups.join("&"), true);
        }
        let conditions: Vec<String> = group.split('|').map(quoted).collect();
        let joined = conditions.join("|");
        groups.push(if conditions.len() > 1 { format!("({joined})") } else { joined });
    }
    (groups.join("&"), false)
}

/// A condition whose argument may contain blanks and parentheses, as Open CAS allows.
fn quoted(condition: &str) -> String {
    match condition.split_once(':') {
        Some((name, argument)) if argument.contains([' ', '(', ')', '"']) => {
            format!("{name}:\"{}\"", argument.replace('\\', "\\\\").replace('"', "\\\""))
        }
        _ => condition.to_owned(),
    }
}

/// A position in the translated rule is useless to the reader of the file: finds the position of the named predicate
/// in the original.
fn original_position(mut error: RuleError, entry: &Entry) -> RuleError {
    use crate::rules::RuleErrorKind::{BadValue, UnknownPredicate};
    let needle = match &error.kind {
        UnknownPredicate { name, .. } => name.as_str(),
        BadValue { value, .. } => value.as_str(),
        _ => return error,
    };
    if let Some(at) = entry.rule.find(needle) {
        error.position = at + 1;
    }
    error
}
