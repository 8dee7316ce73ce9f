//! Reads JSON in bounded memory: a run of a day has a million intervals, of which a page shows some hundreds.
//!
//! A list with more than [`ROWS_KEPT`] rows is reduced to the rows that pictures and tables look for. Each group of neighbours keeps the
//! rows with the least and the greatest value of each figure, and one row in which a figure is null. Kept rows are unchanged and in order;
//! the first and the last row of the list also stay. Where too many rows are left, the groups are doubled. The rows kept from two
//! neighbouring groups include the extremes of both, so the time of the reduction does not matter.

use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;

/// Rows of a list that are kept.
pub(crate) const ROWS_KEPT: usize = 20_000;
/// Maximum number of values of a result; each takes some 100 bytes.
pub(crate) const VALUES_MAX: u64 = 16 << 20;
/// Initial size of a group.
const TOGETHER: usize = 64;
/// Figures of a row whose extremes are kept.
const FIGURES_MAX: usize = 16;
/// The id of a figure is an FNV-1a hash of its path.
const HASH_BEGIN: u64 = 0xcbf2_9ce4_8422_2325;
const HASH_PRIME: u64 = 0x0100_0000_01b3;
/// Distinguishes a null from a number at the same path.
const NULL: u64 = 1 << 63;

/// A list that was reduced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reduced {
    /// Name of the list.
    pub(crate) name: String,
    pub(crate) rows: usize,
    pub(crate) kept: usize,
    /// Rows in a group.
    pub(crate) together: usize,
}

/// Why a text has no value.
#[derive(Debug)]
pub(crate) enum Failure {
    NotJson(serde_json::Error),
    /// More than [`VALUES_MAX`] values.
    TooMany,
}

/// Parses a text. Returns its value and the lists that were reduced.
pub(crate) fn read(text: &str) -> Result<(Value, Vec<Reduced>), Failure> {
    read_within(text, ROWS_KEPT, VALUES_MAX)
}

fn read_within(text: &str, rows_kept: usize, values_max: u64) -> Result<(Value, Vec<Reduced>), Failure> {
    let all = All { rows_kept, values_max, values: Cell::new(0), reduced: RefCell::default() };
    let mut json = serde_json::Deserializer::from_str(text);
    // The JSON reader bounds the depth.
    let value = One { all: &all, name: "" }.deserialize(&mut json).and_then(|value| json.end().map(|()| value));
    match value {
        Ok(value) => Ok((value, all.reduced.into_inner())),
        Err(_) if all.values.get() > values_max => Err(Failure::TooMany),
        Err(error) => Err(Failure::NotJson(error)),
    }
}

/// State of the whole text.
struct All {
    rows_kept: usize,
    values_max: u64,
    /// Values kept so far.
    values: Cell<u64>,
    reduced: RefCell<Vec<Reduced>>,
}

/// A value being read; `name` is its key.
#[derive(Clone, Copy)]
struct One<'a> {
    all: &'a All,
    name: &'a str,
}

impl One<'_> {
    fn count<E: Error>(self) -> Result<(), E> {
        self.all.values.set(self.all.values.get() + 1);
        if self.all.values.get() > self.all.values_max { Err(E::custom("too many values")) } else { Ok(()) }
    }

    fn plain<E: Error>(self, value: impl Into<Value>) -> Result<Value, E> {
        self.count()?;
        Ok(value.into())
    }
}

impl<'de> DeserializeSeed<'de> for One<'_> {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for One<'_> {
    type Value = Value;

    fn expecting(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        into.write_str("a value of JSON")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        self.plain(value)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        self.plain(value)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        self.plain(value)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        self.plain(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        self.plain(value)
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        self.plain(Value::Null)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        self.count()?;
        let mut found = Map::new();
        while let Some(key) = from.next_key::<String>()? {
            let value = from.next_value_seed(One { all: self.all, name: &key })?;
            found.insert(key, value);
        }
        Ok(Value::Object(found))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        self.count()?;
        let mut rows = Rows { kept: Vec::new(), count: 0, together: 1 };
        while let Some(row) = from.next_element_seed(self)? {
            rows.kept.push((rows.count, row));
            rows.count += 1;
            if rows.kept.len() > self.all.rows_kept {
                let dropped = rows.reduce(self.all.rows_kept / 2);
                self.all.values.set(self.all.values.get().saturating_sub(dropped));
            }
        }
        if rows.together > 1 {
            // The last rows are reduced too, so that all groups are treated alike.
            let dropped = rows.keep_extremes();
            self.all.values.set(self.all.values.get().saturating_sub(dropped));
            let (name, kept) = (self.name.to_owned(), rows.kept.len());
            self.all.reduced.borrow_mut().push(Reduced { name, rows: rows.count, kept, together: rows.together });
        }
        Ok(Value::Array(rows.kept.into_iter().map(|(_, row)| row).collect()))
    }
}

/// Rows of a list with their indices.
struct Rows {
    kept: Vec<(usize, Value)>,
    count: usize,
    together: usize,
}

impl Rows {
    /// Reduces the rows so far, doubling the groups until at most `rows_max` rows are left. Returns how many values were dropped.
    fn reduce(&mut self, rows_max: usize) -> u64 {
        self.together = self.together.max(TOGETHER);
        let mut dropped = self.keep_extremes();
        while self.kept.len() > rows_max {
            self.together = self.together.saturating_mul(2);
            dropped += self.keep_extremes();
        }
        dropped
    }

    fn keep_extremes(&mut self) -> u64 {
        let (together, last) = (self.together, self.count.saturating_sub(1));
        let mut stays = vec![false; self.kept.len()];
        let mut begin = 0;
        for group in self.kept.chunk_by(|a, b| a.0 / together == b.0 / together) {
            extremes(group).for_each(|at| stays[begin + at] = true);
            begin += group.len();
        }
        let (mut stays, mut dropped) = (stays.into_iter(), 0);
        self.kept.retain(|(number, row)| {
            let stays = stays.next().unwrap_or(true) || *number == 0 || *number == last;
            dropped += if stays { 0 } else { values(row) };
            stays
        });
        dropped
    }
}

/// Indices within a group of the least and the greatest value of each figure; the first row where the group has no figures.
fn extremes(group: &[(usize, Value)]) -> impl Iterator<Item = usize> {
    let mut found: HashMap<u64, [(f64, usize); 2]> = HashMap::new();
    for (at, (_, row)) in group.iter().enumerate() {
        figures(row, HASH_BEGIN, &mut |figure, value| {
            if found.len() < FIGURES_MAX || found.contains_key(&figure) {
                let [least, most] = found.entry(figure).or_insert([(value, at); 2]);
                if value < least.0 {
                    *least = (value, at);
                }
                if value > most.0 {
                    *most = (value, at);
                }
            }
        });
    }
    let first = found.is_empty().then_some(0);
    found.into_values().flatten().map(|(_, at)| at).chain(first)
}

/// Passes the numbers of a row to `take`, each with the id of its path; a null is passed with an id of its own.
fn figures(row: &Value, place: u64, take: &mut impl FnMut(u64, f64)) {
    let below = |name: &[u8]| {
        name.iter()
            .fold(place, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(HASH_PRIME))
            .wrapping_mul(HASH_PRIME)
    };
    match row {
        Value::Number(number) => take(place & !NULL, number.as_f64().unwrap_or(0.0)),
        Value::Null => take(place | NULL, 0.0),
        Value::Object(fields) => fields.iter().for_each(|(name, value)| figures(value, below(name.as_bytes()), take)),
        Value::Array(rows) => {
            let rows = rows.iter().take(FIGURES_MAX).enumerate();
            rows.for_each(|(at, value)| figures(value, below(&at.to_le_bytes()), take));
        }
        Value::Bool(_) | Value::String(_) => {}
    }
}

fn values(value: &Value) -> u64 {
    match value {
        Value::Array(rows) => 1 + rows.iter().map(values).sum::<u64>(),
        Value::Object(fields) => 1 + fields.values().map(values).sum::<u64>(),
        _ => 1,
    }
}

#[cfg(test)]
// In tests, a panic reports the failure.
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_text_that_is_short_is_read_as_it_is() {
        let value = json!({ "a": [1, -2, 0.1, true, null, "x", [], {}, [[u64::MAX]]], "b": { "c": { "d": 1e300 } } });
        let (found, reduced) = read(&value.to_string()).unwrap();
        assert_eq!((found, reduced), (value, Vec::new()));
        assert!(matches!(read("{} x"), Err(Failure::NotJson(_))));
        assert!(matches!(read("[1,"), Err(Failure::NotJson(_))));
    }

    #[test]
    fn of_many_rows_the_extremes_stay_as_they_are() {
        let max = |at: u64| if at == 77_777 { 1_000_000_007 } else { 500 + at * 7919 % 1000 };
        let row = |at: u64| json!({ "begin_s": at as f64 / 20.0, "latency_ns": { "p99": (at != 33_333).then_some(at % 97), "max": max(at) } });
        let rows: Vec<Value> = (0..200_000).map(row).collect();
        let text = json!({ "jobs": [{ "intervals": rows }] }).to_string();
        let (found, reduced) = read(&text).unwrap();
        let kept = found["jobs"][0]["intervals"].as_array().unwrap();
        let [list] = reduced.as_slice() else { panic!("{reduced:?}") };
        assert_eq!((list.name.as_str(), list.rows, list.kept), ("intervals", 200_000, kept.len()));
        assert!(kept.len() <= ROWS_KEPT, "{}", kept.len());
        assert!(list.together <= 512, "no more are taken together than must be: {list:?}");
        let numbers: Vec<u64> =
            kept.iter().map(|row| (row["begin_s"].as_f64().unwrap() * 20.0).round() as u64).collect();
        assert!(numbers.is_sorted() && kept.iter().zip(&numbers).all(|(kept, at)| *kept == row(*at)));
        for at in [0, 33_333, 77_777, 199_999] {
            assert!(numbers.contains(&at), "{at}");
        }
        // Every group keeps its maximum, so no slowest row is lost.
        for begin in (0..200_000 - list.together as u64).step_by(list.together) {
            let most = (begin..begin + list.together as u64).map(max).max();
            let of = |at: &&u64| (begin..begin + list.together as u64).contains(*at);
            assert_eq!(numbers.iter().filter(of).map(|at| max(*at)).max(), most);
        }
    }

    #[test]
    fn values_are_bounded_whatever_they_are() {
        let nested = format!("[{}]", vec!["[[],[],[],[]]"; 100].join(","));
        assert!(matches!(read_within(&nested, 1000, 500), Err(Failure::TooMany)));
        assert!(read_within(&nested, 1000, 501).is_ok());
        // Dropped rows free room for later ones.
        let flat = format!("[{}]", vec!["7"; 10_000].join(","));
        let (found, reduced) = read_within(&flat, 100, 200).unwrap();
        assert!(found.as_array().unwrap().len() <= 100 && reduced[0].rows == 10_000);
        for row in ["\"x\"", "{}", "[]", "[[1,2],[3]]", "{\"a\":null}"] {
            let rows = format!("[{}]", vec![row; 5000].join(","));
            assert!(read_within(&rows, 100, 2000).unwrap().0.as_array().unwrap().len() <= 100, "{row}");
        }
    }
}
