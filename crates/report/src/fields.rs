//! Fields of a result by their path. An absent field, a null and a value of another type all give none, because a result may cover only
//! part of a run.

use serde_json::Value;

/// A path is split at slashes, because field names contain dots (`p99.9_ns`).
pub(crate) fn at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('/').try_fold(value, |found, name| found.get(name)).filter(|found| !found.is_null())
}

/// A finite number.
pub(crate) fn number(value: &Value, path: &str) -> Option<f64> {
    at(value, path)?.as_f64().filter(|number| number.is_finite())
}

/// A text.
pub(crate) fn text<'a>(value: &'a Value, path: &str) -> Option<&'a str> {
    at(value, path)?.as_str()
}

/// The entries of a list; none where it is absent.
pub(crate) fn list<'a>(value: &'a Value, path: &str) -> &'a [Value] {
    at(value, path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The texts of a list.
pub(crate) fn texts<'a>(value: &'a Value, path: &str) -> impl Iterator<Item = &'a str> {
    list(value, path).iter().filter_map(Value::as_str)
}

/// Whether a flag is set.
pub(crate) fn is_set(value: &Value, path: &str) -> bool {
    at(value, path).and_then(Value::as_bool).unwrap_or(false)
}
