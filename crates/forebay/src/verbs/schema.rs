//! The JSON schemas of results: `forebay VERB --schema`.

use crate::output;
use anyhow::Result;
use std::ffi::OsString;

/// Schemas by verb. A replay's result is that of a job.
const SCHEMAS: [(&str, &str); 8] = [
    ("bench", include_str!("../schemas/bench.json")),
    ("replay", include_str!("../schemas/bench.json")),
    ("check", include_str!("../schemas/check.json")),
    ("doctor", include_str!("../schemas/doctor.json")),
    ("conformance", include_str!("../schemas/conformance.json")),
    ("simulate", include_str!("../schemas/simulate.json")),
    ("analyze", include_str!("../schemas/analyze.json")),
    ("size", include_str!("../schemas/size.json")),
];

/// The schema that a command line asks for before anything else is read of it: `VERB --schema` needs neither trace nor target.
pub fn asked(arguments: &[OsString]) -> Option<&'static str> {
    let [_, verb, option, ..] = arguments else { return None };
    if option != "--schema" {
        return None;
    }
    SCHEMAS.iter().find(|(name, _)| verb == name).map(|(_, schema)| schema.trim_end())
}

/// Prints the schema of a verb, given behind what the verb takes.
///
/// # Errors
/// Standard output cannot be written.
pub fn print(verb: &str) -> Result<()> {
    SCHEMAS.iter().find(|(name, _)| *name == verb).map_or(Ok(()), |(_, schema)| output::line(schema.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_is_asked_for_right_behind_the_verb() {
        let asked = |line: &str| asked(&line.split(' ').map(OsString::from).collect::<Vec<_>>()).is_some();
        for (line, is_one) in [
            ("forebay bench --schema", true),
            ("forebay size --schema", true),
            ("forebay size trace --schema", false),
            ("forebay serve --schema", false),
            ("forebay doctor --hold -- x --schema", false),
            ("forebay", false),
        ] {
            assert_eq!(asked(line), is_one, "{line}");
        }
        for (name, schema) in SCHEMAS {
            let schema: serde_json::Value = serde_json::from_str(schema).unwrap();
            assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema", "{name}");
        }
    }
}
