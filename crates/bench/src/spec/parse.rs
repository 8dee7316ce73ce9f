//! From the text of a sheet to a [`Spec`].

use super::error::{SpecError, of_toml};
use super::format::{BeforeText, ConditionText, FigureText, OpText, PromiseText, RowText, SheetText};
use super::measure::{Bound, Measure, Op, Unit};
use super::sheet::{Before, Condition, Drive, Promise, PublishedFigures, PublishedRow, Spec};
use crate::job::JobError;
use crate::job::model::Job;
use crate::job::toml_file;
use crate::job::toml_file::value::Time;
use forebay_block::OpKind;
use forebay_block::mistakes::position;
use std::collections::HashSet;
use toml::Spanned;

/// Most conditions of a sheet.
const CONDITIONS_MAX: usize = 32;
/// Most promises of a sheet, and most rows.
const PROMISES_MAX: usize = 256;
/// Most bytes of a name, source or note.
const WORDS_MAX: usize = 2000;
/// Keys that only make sense in a file with several jobs.
const FOREIGN_KEYS: [&str; 3] = ["name", "after", "group"];
/// Keys that say when a job ends.
const END_KEYS: [&str; 4] = ["runtime", "bytes", "ios", "passes"];

/// Largest sheet in bytes; a larger file is not a spec sheet.
pub const MAX_SHEET_BYTES: u64 = 256 << 10;

/// Reads a sheet; errors name it `name`.
pub(super) fn parse(text: &str, name: &str) -> Result<Spec, SpecError> {
    if text.len() as u64 > MAX_SHEET_BYTES {
        return Err(SpecError::TooLarge { place: name.to_owned(), limit_bytes: MAX_SHEET_BYTES });
    }
    let sheet: SheetText = toml::from_str(text).map_err(|error| of_toml(&error, text, name))?;
    for (what, count, most) in [
        ("conditions", sheet.condition.len(), CONDITIONS_MAX),
        ("promises", sheet.promise.len(), PROMISES_MAX),
        ("rows", sheet.row.len(), PROMISES_MAX),
    ] {
        if count > most {
            return Err(SpecError::Form { place: name.to_owned(), reason: format!("{count} {what}; at most {most}") });
        }
    }
    let reader = Reader { text, name };
    reader.words(name, "drive.name", &sheet.drive.name)?;
    let capacity_bytes = sheet.drive.capacity.map(|bytes| bytes.0);
    if capacity_bytes == Some(0) {
        return Err(value(name, "drive.capacity", "more than 0, or left out where it is not known".to_owned()));
    }
    let spec = Spec {
        name: name.to_owned(),
        conditions: sheet.condition.into_iter().map(|text| reader.condition(text)).collect::<Result<_, _>>()?,
        promises: sheet.promise.into_iter().map(|text| reader.promise(text)).collect::<Result<_, _>>()?,
        rows: sheet.row.into_iter().map(|text| reader.row(text, &sheet.drive.name)).collect::<Result<_, _>>()?,
        drive: Drive { name: sheet.drive.name, capacity_bytes, kind: sheet.drive.kind, notes: sheet.drive.notes },
    };
    let mut names = HashSet::new();
    match spec.promises.iter().find(|promise| !names.insert(promise.name.as_str())) {
        Some(twice) => Err(SpecError::Form {
            place: name.to_owned(),
            reason: format!("two promises are called {:?}: names tell verdicts apart", twice.name),
        }),
        None => Ok(spec),
    }
}

struct Reader<'a> {
    text: &'a str,
    name: &'a str,
}

impl Reader<'_> {
    fn place<T>(&self, spanned: &Spanned<T>) -> String {
        format!("{}:{}", self.name, position(self.text, spanned.span().start).0)
    }

    fn words(&self, place: &str, key: &'static str, words: &str) -> Result<(), SpecError> {
        if words.trim().is_empty() || words.len() > WORDS_MAX {
            return Err(value(place, key, format!("1 to {WORDS_MAX} bytes of text")));
        }
        Ok(())
    }

    fn condition(&self, text: Spanned<ConditionText>) -> Result<Condition, SpecError> {
        let place = self.place(&text);
        let text = text.into_inner();
        self.words(&place, "name", &text.name)?;
        let (mut job, ends) = self.job(&text.job)?;
        if !ends {
            let reason = "a condition says when it ends: add passes, bytes, ios or runtime".to_owned();
            return Err(value(&place, "job", reason));
        }
        job.name = short(&text.name);
        let before = match text.before {
            None | Some(BeforeText::All) => Before::All,
            Some(BeforeText::Writes) => Before::Writes,
        };
        Ok(Condition { name: text.name, job, before })
    }

    fn promise(&self, text: Spanned<PromiseText>) -> Result<Promise, SpecError> {
        let place = self.place(&text);
        let text = text.into_inner();
        self.words(&place, "name", &text.name)?;
        self.words(&place, "source", &text.source)?;
        let measure: Measure = text.measure.parse().map_err(|reason| value(&place, "measure", reason))?;
        let figure = |key, text: &FigureText| figure(&place, key, measure.unit(), text);
        let bound = match (&text.at_most, &text.at_least) {
            (Some(most), None) => Bound::AtMost(figure("at_most", most)?),
            (None, Some(least)) => Bound::AtLeast(figure("at_least", least)?),
            _ => {
                let reason = "a promise has exactly one of at_most and at_least".to_owned();
                return Err(value(&place, "at_most", reason));
            }
        };
        let (mut job, own_end) = self.job(&text.job)?;
        let op = match text.op {
            None | Some(OpText::All) => Op::All,
            Some(OpText::Read) => Op::Read,
            Some(OpText::Write) => Op::Write,
        };
        if !job.mix.kinds().any(|kind| op.takes(kind)) {
            let reason = "the job has no such I/O: figures are of reads, of writes, or of both".to_owned();
            return Err(value(&place, "op", reason));
        }
        job.name = label(&job);
        Ok(Promise {
            name: text.name,
            source: text.source,
            from_memory: text.from_memory,
            note: text.note,
            job,
            own_end,
            measure,
            op,
            bound,
        })
    }

    fn row(&self, text: Spanned<RowText>, drive: &str) -> Result<PublishedRow, SpecError> {
        let place = self.place(&text);
        let text = text.into_inner();
        self.words(&place, "source", &text.source)?;
        let rate = |key, unit, text: Option<FigureText>| text.map(|text| figure(&place, key, unit, &text)).transpose();
        let ns = |time: Option<Time>| time.map(|time| time.0);
        let figures = PublishedFigures {
            bytes_per_second: rate("bytes_per_second", Unit::BytesPerSecond, text.bytes_per_second)?,
            iops: rate("iops", Unit::Iops, text.iops)?,
            mean_ns: ns(text.mean),
            median_ns: ns(text.median),
            p99_ns: ns(text.p99),
            p99_999_ns: ns(text.p99_999),
            p99_99999_ns: ns(text.p99_99999),
            max_ns: ns(text.max),
        };
        if figures == PublishedFigures::default() {
            return Err(SpecError::Form { place, reason: "a row without figures: give at least one".to_owned() });
        }
        let (mut job, _) = self.job(&text.job)?;
        job.name = label(&job);
        Ok(PublishedRow {
            drive: text.drive.unwrap_or_else(|| drive.to_owned()),
            source: text.source,
            from_memory: text.from_memory,
            note: text.note,
            job,
            figures,
        })
    }

    /// Reads a job, and whether it says when it ends.
    fn job(&self, table: &Spanned<toml::Table>) -> Result<(Job, bool), SpecError> {
        let place = self.place(table);
        let keys = table.get_ref();
        if let Some(key) = FOREIGN_KEYS.iter().find(|&&key| keys.contains_key(key)) {
            let reason = format!("`{key}` is for files of several jobs: leave it out");
            return Err(value(&place, "job", reason));
        }
        let ends = END_KEYS.iter().any(|&key| keys.contains_key(key));
        let plan = toml_file::parse(&self.as_job_file(table), self.name).map_err(|error| match error {
            JobError::Bound { .. } | JobError::Region { .. } => SpecError::Job { place: place.clone(), source: error },
            JobError::Form { place: at, reason } if at == "plan" => {
                SpecError::Form { place: place.clone(), reason: format!("job: {reason}") }
            }
            named => SpecError::JobText(named),
        })?;
        let only = plan.groups.into_iter().flatten().next();
        let reason = || "it holds no job".to_owned();
        only.map(|job| (job, ends)).ok_or_else(|| value(&place, "job", reason()))
    }

    /// A job file with only this job, at the same line and column as in the sheet, so that errors name the right place.
    fn as_job_file(&self, table: &Spanned<toml::Table>) -> String {
        const OPENING: &str = "job=[";
        let inline = self.text.get(table.span()).filter(|slice| slice.starts_with('{') && slice.ends_with('}'));
        let (line, column) = position(self.text, table.span().start);
        let body = inline.map_or_else(|| toml::Value::Table(table.get_ref().clone()).to_string(), str::to_owned);
        let blank = if inline.is_some() { column.saturating_sub(1 + OPENING.len()) } else { 0 };
        format!("{}{}{OPENING}{body}]", "\n".repeat(line - 1), " ".repeat(blank))
    }
}

fn value(place: &str, key: &'static str, reason: String) -> SpecError {
    SpecError::Value { place: place.to_owned(), key, reason }
}

fn figure(place: &str, key: &'static str, unit: Unit, text: &FigureText) -> Result<f64, SpecError> {
    unit.value(&text.0).map_err(|reason| value(place, key, reason))
}

/// Cut to fit into the name of a job, which has at most 255 bytes.
fn short(name: &str) -> String {
    name.chars().take(60).collect()
}

/// A short label of a job, as in published tables: `4 KiB random 70/30 QD16`.
pub(super) fn label(job: &Job) -> String {
    use crate::job::model::{Arrival, Pattern};
    let size = |bytes: u32| {
        if bytes.is_multiple_of(1024) { format!("{} KiB", bytes / 1024) } else { format!("{bytes} B") }
    };
    let reads = job.mix.kinds().any(|kind| kind == OpKind::Read);
    let sizes = if reads { &job.sizes.read } else { &job.sizes.write };
    let sizes: Vec<String> = sizes.choices.iter().take(3).map(|&(bytes, _)| size(bytes)).collect();
    let pattern = match &job.pattern {
        Pattern::Random { .. } => "random".to_owned(),
        Pattern::Sequential { .. } => "sequential".to_owned(),
        other => crate::output::summary::pattern(other).chars().take(40).collect(),
    };
    let weights: Vec<&(OpKind, u32)> = job.mix.weights.iter().filter(|(_, weight)| *weight > 0).collect();
    let mix = match weights.as_slice() {
        [(kind, _)] => kind.name().to_owned(),
        [(OpKind::Read, read), (OpKind::Write, write)] => format!("{read}/{write}"),
        several => {
            several.iter().map(|(kind, weight)| format!("{} {weight}", kind.name())).collect::<Vec<_>>().join(" ")
        }
    };
    let depth = u64::from(job.threads) * u64::from(job.depth);
    let open = if matches!(job.arrival, Arrival::Closed) { "" } else { " by rate" };
    format!("{} {pattern} {mix} QD{depth}{open}", sizes.join("+"))
}
