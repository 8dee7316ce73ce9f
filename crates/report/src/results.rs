//! Results that were added: each text is checked as a whole before anything is drawn from it.

use crate::command::as_command;
use crate::error::ReportError;
use crate::fields::{self, at};
use crate::reading::{self, Failure, Reduced};
use crate::records::Records;
use serde_json::Value;

/// The supported schema version.
const SCHEMA_VERSION: u64 = 1;
/// Maximum number of keys that an error names.
const KEYS_SHOWN: usize = 8;

/// Kind of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Jobs, run or replayed.
    Jobs,
    /// An experiment: the queue-depth sweep, the surface, a comparison, and the others.
    Experiment,
    /// A spec sheet compared with a target.
    Check,
    /// Analysis of one trace or several.
    Analysis,
    /// Sizes of the fast tier.
    Size,
    /// A published use case of two tiers.
    UseCase,
    /// Published figures of drives.
    Conformance,
    /// Write amplification of policies of placement.
    WriteAmplification,
    /// Simulated lives.
    Simulation,
    /// The audit of a machine.
    Doctor,
    /// Status of a served pool.
    Status,
}

impl Kind {
    /// Keys that identify each kind: only that kind has all of them.
    const SIGNS: [(Self, &'static [&'static str]); 13] = [
        (Self::Experiment, &["experiment", "result", "target"]),
        (Self::Jobs, &["jobs", "target"]),
        (Self::Check, &["promises", "sheet", "runs"]),
        (Self::Analysis, &["report", "trace"]),
        (Self::Analysis, &["traces", "left_out"]),
        (Self::Size, &["sizes", "footprint_bytes", "order"]),
        (Self::UseCase, &["use_case", "settings"]),
        (Self::Conformance, &["rows", "scores", "experiments"]),
        (Self::WriteAmplification, &["rows", "known", "left_out"]),
        (Self::Simulation, &["lives", "met"]),
        // A single life, of `--seed`.
        (Self::Simulation, &["seed", "failure"]),
        (Self::Doctor, &["findings", "unknown", "good"]),
        (Self::Status, &["tiers", "classes", "disks"]),
    ];

    fn of(value: &Value) -> Option<Self> {
        let has = |keys: &[&str]| keys.iter().all(|key| value.get(key).is_some());
        Self::SIGNS.iter().find(|(_, keys)| has(keys)).map(|(kind, _)| *kind)
    }
}

/// One result.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// The file that it came from.
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) value: Value,
    /// Lists that were reduced.
    pub(crate) reduced: Vec<Reduced>,
}

impl Found {
    /// The results of an experiment; of the load of an application, which has nothing around them, its figures.
    pub(crate) fn experiment(&self) -> &Value {
        let result = &self.value["result"];
        result.get("results").unwrap_or(result)
    }

    /// Whether the result is of this experiment.
    pub(crate) fn is_experiment(&self, name: &str) -> bool {
        self.kind == Kind::Experiment && fields::text(&self.value, "experiment") == Some(name)
    }

    /// The command that made the result, quoted for a shell; none where the result does not have it.
    pub(crate) fn command(&self) -> Option<String> {
        as_command(fields::texts(&self.value, "command"))
    }
}

/// Results that are shown on one page.
#[derive(Clone, Debug, Default)]
pub struct Results {
    found: Vec<Found>,
    records: Vec<Records>,
}

impl Results {
    /// Adds the JSON of one file, which is called `name` on the page and in errors. Returns its kind.
    ///
    /// # Errors
    /// [`ReportError`] where the text is not a result, is damaged, is too large, or has an unsupported version.
    pub fn add(&mut self, name: &str, text: &str) -> Result<Kind, ReportError> {
        let of = || name.to_owned();
        let (value, reduced) = reading::read(text).map_err(|failure| match failure {
            Failure::NotJson(source) => ReportError::NotJson { name: of(), source },
            Failure::TooMany => ReportError::TooLarge { name: of(), values: reading::VALUES_MAX },
        })?;
        match at(&value, "schema_version") {
            Some(version) if version.as_u64() == Some(SCHEMA_VERSION) => {}
            Some(version) => {
                let version: String = version.to_string().chars().take(40).collect();
                return Err(ReportError::Version { name: of(), version });
            }
            None => return Err(ReportError::NotOurs { name: of(), found: foreign(&value) }),
        }
        let Some(kind) = Kind::of(&value) else {
            let keys: Vec<&str> = value.as_object().into_iter().flatten().map(|(key, _)| key.as_str()).collect();
            let keys: Vec<String> =
                keys.iter().take(KEYS_SHOWN).map(|key| key.chars().take(40).collect::<String>()).collect();
            return Err(ReportError::NoResult { name: of(), keys: keys.join(", ") });
        };
        let found = Found { name: of(), kind, value, reduced };
        check(&found)?;
        self.found.push(found);
        Ok(kind)
    }

    /// Adds records of single I/Os after all three passes.
    pub fn add_records(&mut self, records: Records) {
        self.records.push(records);
    }

    pub(crate) fn records(&self) -> &[Records] {
        &self.records
    }

    pub(crate) fn found(&self) -> &[Found] {
        &self.found
    }
}

/// Describes JSON of other programs.
fn foreign(value: &Value) -> &'static str {
    let has = |key: &str| value.get(key).is_some();
    if has("fio version") {
        "fio's own JSON"
    } else if value.is_object() {
        "an object"
    } else {
        "no object"
    }
}

/// Checks for the parts that a result of its kind must have.
fn check(found: &Found) -> Result<(), ReportError> {
    let wanted: &[(&str, bool)] = match found.kind {
        Kind::Jobs => &[("jobs", true)],
        Kind::Experiment => &[("result", false)],
        Kind::Check => &[("promises", true), ("runs", true)],
        Kind::Size => &[("sizes", true)],
        Kind::Conformance | Kind::WriteAmplification => &[("rows", true)],
        Kind::UseCase => &[("settings", true)],
        Kind::Doctor => &[("findings", true)],
        Kind::Simulation if found.value.get("lives").is_some() => &[("met", false)],
        // A single life has a list of what it met where it succeeded, and none where it failed.
        Kind::Simulation => &[],
        Kind::Status => &[("classes", true)],
        Kind::Analysis => &[],
    };
    for (path, is_list) in wanted {
        let part = at(&found.value, path);
        let is_right = part.is_some_and(|part| if *is_list { part.is_array() } else { part.is_object() });
        if !is_right {
            let why = if *is_list { "is no list" } else { "is no object" };
            return Err(ReportError::Damaged { name: found.name.clone(), what: (*path).to_owned(), why });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        Results::default().add("x.json", text).unwrap_err().to_string()
    }

    #[test]
    fn what_is_no_result_is_refused_with_what_to_do() {
        for (text, parts) in [
            ("{", &["x.json", "no JSON", "--output json"][..]),
            ("[1,2]", &["x.json", "no object", "schema_version is missing"]),
            (r#"{"fio version":"fio-3.33","jobs":[]}"#, &["fio's own JSON", "--output json"]),
            (r#"{"schema_version":2,"jobs":[]}"#, &["schema_version 2", "reads schema_version 1"]),
            (r#"{"schema_version":"1"}"#, &["schema_version \"1\""]),
            (r#"{"schema_version":1,"drives":[],"hosts":[]}"#, &["drives, hosts", "bench, check"]),
            (r#"{"schema_version":1,"target":"x","jobs":{}}"#, &["x.json: jobs: is no list"]),
            (r#"{"schema_version":1,"target":"x","jobs":[1e999]}"#, &["no JSON", "number out of range"]),
        ] {
            let error = refused(text);
            assert!(parts.iter().all(|part| error.contains(part)), "{text}: {error}");
        }
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(refused(&deep).contains("recursion limit"), "{}", refused(&deep));
    }

    #[test]
    fn commands_are_what_a_shell_takes() {
        let text = r#"{"schema_version":1,"command":["forebay","bench","--target","model:p4610?fill=90","--set","a'b"],"target":"","jobs":[]}"#;
        let mut results = Results::default();
        assert_eq!(results.add("x", text).unwrap(), Kind::Jobs);
        let command = results.found()[0].command().unwrap();
        assert_eq!(command, r"forebay bench --target 'model:p4610?fill=90' --set 'a'\''b'");
    }
}
