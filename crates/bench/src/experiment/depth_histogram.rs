//! The queue depths of an application, from a file.

use crate::stats::application_depth::{DEPTHS_MAX, DepthError, check};
use serde::Deserialize;

/// Largest text that is read, in bytes.
const TEXT_MAX_BYTES: usize = 16 << 20;

/// How often an application's I/Os meet each queue depth, as written by `forebay analyze` or by hand. The numbers are
/// checked here; [`crate::stats::application_depth::score`] judges whether a measured curve reaches these depths.
#[derive(Clone, Debug, PartialEq)]
pub struct DepthHistogram {
    /// Queue depth (the I/O itself included), and I/Os or their share in any unit.
    pub depths: Vec<(u32, f64)>,
}

/// Why a text is no histogram of depths.
#[derive(Debug, thiserror::Error)]
pub enum HistogramError {
    /// The text is too long, or has too many depths.
    #[error("the histogram of queue depths has {count} {unit}; at most {max}")]
    TooLarge {
        /// The number found.
        count: usize,
        /// Unit of the number.
        unit: &'static str,
        /// Most allowed.
        max: usize,
    },
    /// The JSON does not have the expected form.
    #[error(
        "the histogram of queue depths is not of the form {{\"depths\": [{{\"depth\": 1, \"share\": 0.6}}, ...]}}: {source}"
    )]
    Form {
        /// Position and reason.
        source: serde_json::Error,
    },
    /// The numbers make no sense.
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
    /// Reads JSON: `{"depths": [{"depth": 1, "share": 0.6}, ...]}`; other members are ignored.
    ///
    /// # Errors
    /// [`HistogramError`]: too large, or not of this form.
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
        // These are refused before anything runs.
        for wrong in ["[]", r#"[{"depth": 0, "share": 1}]"#, r#"[{"depth": 1, "share": 0}]"#] {
            DepthHistogram::parse(&format!("{{\"depths\": {wrong}}}")).unwrap_err();
        }
    }
}
