//! The queue depths of an application, as a file.

use crate::stats::application_depth::{DEPTHS_MAX, DepthError, check};
use serde::Deserialize;

/// Largest text that is read, in bytes.
const TEXT_MAX_BYTES: usize = 16 << 20;

/// How often an application's I/Os meet which depth: what `forebay analyze` writes, or a user by hand. The
/// numbers make sense; whether a curve reaches that far is judged where they are used
/// ([`crate::stats::application_depth::score`]).
#[derive(Clone, Debug, PartialEq)]
pub struct DepthHistogram {
    /// Depth, the I/O itself counted, and I/Os or their share in any unit.
    pub depths: Vec<(u32, f64)>,
}

/// A text that is no histogram of depths.
#[derive(Debug, thiserror::Error)]
pub enum HistogramError {
    /// Too long or too many depths.
    #[error("the histogram of queue depths has {count} {unit}; at most {max}")]
    TooLarge {
        /// How many.
        count: usize,
        /// Of what.
        unit: &'static str,
        /// Limit.
        max: usize,
    },
    /// Not of the form.
    #[error(
        "the histogram of queue depths is not of the form {{\"depths\": [{{\"depth\": 1, \"share\": 0.6}}, ...]}}: {source}"
    )]
    Form {
        /// Where and why.
        source: serde_json::Error,
    },
    /// Numbers that make no sense.
    #[error(transparent)]
    Depths(#[from] DepthError),
}

#[derive(Deserialize)]
struct Text {
    depths: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    depth: u32,
    share: f64,
}

impl DepthHistogram {
    /// Reads JSON: `{"depths": [{"depth": 1, "share": 0.6}, ...]}`; other members are left alone.
    ///
    /// # Errors
    /// [`HistogramError`]: too large, or of another form.
    pub fn parse(text: &str) -> Result<Self, HistogramError> {
        if text.len() > TEXT_MAX_BYTES {
            return Err(HistogramError::TooLarge { count: text.len(), unit: "bytes", max: TEXT_MAX_BYTES });
        }
        let found: Text = serde_json::from_str(text).map_err(|source| HistogramError::Form { source })?;
        if found.depths.len() > DEPTHS_MAX {
            return Err(HistogramError::TooLarge { count: found.depths.len(), unit: "depths", max: DEPTHS_MAX });
        }
        let depths: Vec<(u32, f64)> = found.depths.into_iter().map(|row| (row.depth, row.share)).collect();
        check(&depths)?;
        Ok(Self { depths })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_depths_and_names_what_is_wrong() {
        let text = r#"{"schema_version": 1, "depths": [{"depth": 1, "share": 0.6}, {"depth": 4, "share": 0.4}]}"#;
        assert_eq!(DepthHistogram::parse(text).unwrap().depths, [(1, 0.6), (4, 0.4)]);
        let error = DepthHistogram::parse(r#"{"depths": [{"depth": -1, "share": 0.6}]}"#).unwrap_err().to_string();
        assert!(error.contains(r#"{"depths": [{"depth": 1, "share": 0.6}, ...]}"#), "{error}");
        assert!(DepthHistogram::parse("[]").is_err());
        // Known before anything runs.
        for wrong in ["[]", r#"[{"depth": 0, "share": 1}]"#, r#"[{"depth": 1, "share": 0}]"#] {
            DepthHistogram::parse(&format!("{{\"depths\": {wrong}}}")).unwrap_err();
        }
    }
}
