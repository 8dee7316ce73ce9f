//! The JSON schema of results, and results checked against it.

use super::*;

/// Differences between a value and its schema: types, required and unknown fields, enumerated values, variants. Covers what the schemas of
/// jobs use; `tests/schemas/run` checks all results against all schemas.
pub(super) fn differences(root: &Value, schema: &Value, value: &Value, at: &str, into: &mut Vec<String>) {
    if let Some(place) = schema.get("$ref") {
        let schema = root.pointer(place.as_str().unwrap().trim_start_matches('#')).unwrap();
        return differences(root, schema, value, at, into);
    }
    if let Some(case) = schema.get("if") {
        let mut others = Vec::new();
        differences(root, case, value, at, &mut others);
        if let Some(schema) = schema.get(if others.is_empty() { "then" } else { "else" }) {
            differences(root, schema, value, at, into);
        }
    }
    for schema in schema.get("allOf").and_then(Value::as_array).into_iter().flatten() {
        differences(root, schema, value, at, into);
    }
    if schema.get("const").is_some_and(|constant| constant != value) {
        into.push(format!("{at} is {value}, and not {}", schema["const"]));
    }
    let named = |of: &Value| -> Vec<String> {
        let list = of.as_array().cloned().unwrap_or_else(|| vec![of.clone()]);
        list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    if let Some(types) = schema.get("type") {
        let is = |name: &String| match name.as_str() {
            "null" => value.is_null(),
            "object" => value.is_object(),
            "array" => value.is_array(),
            "string" => value.is_string(),
            "boolean" => value.is_boolean(),
            "integer" => value.is_u64() || value.is_i64(),
            "number" => value.is_number(),
            other => panic!("{other} is no type of JSON schema"),
        };
        if !named(types).iter().any(is) {
            into.push(format!("{at} is {value}, and not {types}"));
            return;
        }
    }
    if schema.get("enum").is_some_and(|listed| !listed.as_array().unwrap().contains(value)) {
        into.push(format!("{at} is {value}, which is not listed"));
    }
    if let Some(fields) = value.as_object() {
        let of = |name: &str| schema.get("properties").and_then(|properties| properties.get(name));
        for name in schema.get("required").map(named).unwrap_or_default() {
            if !fields.contains_key(&name) {
                into.push(format!("{at}.{name} is missing"));
            }
        }
        for (name, field) in fields {
            match (of(name), schema.get("additionalProperties")) {
                (Some(schema), _) => differences(root, schema, field, &format!("{at}.{name}"), into),
                (None, Some(Value::Bool(false))) => into.push(format!("{at}.{name} is not in the schema")),
                (None, Some(other @ Value::Object(_))) => {
                    differences(root, other, field, &format!("{at}.{name}"), into)
                }
                (None, _) => {}
            }
        }
    }
    if let (Some(items), Some(list)) = (schema.get("items"), value.as_array()) {
        for (number, item) in list.iter().enumerate() {
            differences(root, items, item, &format!("{at}[{number}]"), into);
        }
    }
}

#[test]
fn results_are_as_their_schema_says() {
    let place = Place::new();
    let file = place.path("target.img");
    let output = forebay(&["bench", "--schema"]);
    assert!(output.status.success());
    let schema: Value = serde_json::from_slice(&output.stdout).unwrap();
    for (target, more) in [
        ("model:p4800x?size=256MiB", &["--set", "rw=randrw"][..]),
        (MODEL, &["--target", MODEL]),
        (file.to_str().unwrap(), &[]),
        ("null:?size=1GiB", &["--set", "rate=1000"]),
        (
            MODEL,
            &[
                "--set",
                "steadystate=lat:2us",
                "--set",
                "steadystate_duration=40ms",
                "--set",
                "steadystate_check_interval=20ms",
            ],
        ),
        ("ram:?size=64MiB", &["--set", "rw=randrw", "--set", "verify=true"]),
    ] {
        let output = bench_for_a_while(target, &[&["--destroy-data"], more].concat());
        let result = json(&good(&output));
        let mut found = Vec::new();
        differences(&schema, &schema, &result, "$", &mut found);
        assert!(found.is_empty(), "{target}: {found:#?}");
        // The check itself detects errors.
        let mut wrong = result.clone();
        wrong["jobs"][0]["iops"] = Value::Null;
        wrong["jobs"][0]["surplus"] = Value::from(1);
        differences(&schema, &schema, &wrong, "$", &mut found);
        assert_eq!(found.len(), 2, "{found:#?}");
    }
}

/// A replay's result lacked three fields that its schema (that of `bench`) requires, and had one that it forbids.
#[test]
fn a_replay_is_as_the_schema_says() {
    let place = Place::new();
    let trace = place.path("three.spc");
    std::fs::write(&trace, "0,0,4096,r,0.0\n0,64,4096,r,0.1\n0,128,8192,r,0.2\n").unwrap();
    let schema: Value = serde_json::from_slice(&forebay(&["bench", "--schema"]).stdout).unwrap();
    let words = ["replay", trace.to_str().unwrap(), "--target", "ram:?size=1MiB", "--output", "json"];
    let result = json(&good(&forebay(&words)));
    let mut found = Vec::new();
    differences(&schema, &schema, &result, "$", &mut found);
    assert!(found.is_empty() && result["replay"]["requests"] == 3, "{found:#?} {result}");
}
