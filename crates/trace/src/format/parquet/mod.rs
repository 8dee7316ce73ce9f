//! Traces as Parquet files, written and read. Schema, encodings and limits: `docs/trace-parquet.md`.

mod column;
mod fields;
mod figures;
mod group;
mod input;
mod knowledge;
mod pages;
mod partitioned;
mod reader;
mod texts;
mod writer;

pub use fields::Wanted;
pub use figures::{Figures, curves_path, write_figures};
pub use group::unfit;
pub use knowledge::knowledge;
pub use partitioned::{Partition, PartitionedWriter, partitions};
pub use reader::ParquetTrace;
pub use writer::{ParquetWriter, Written};

/// Name of the format in errors.
const FORMAT: &str = "parquet";
/// Metadata key of the schema's version.
const KEY_VERSION: &str = "forebay.schema_version";
/// The schema's version.
const VERSION: &str = "1";
/// Metadata key of the trace's facts, as JSON.
const KEY_TRACE: &str = "forebay.trace";
/// Metadata key of the volume, for a file without such a column.
const KEY_VOLUME: &str = "forebay.volume";

/// The name of a partition whose value is null, in Hive and its descendants.
const HIVE_NULL: &str = "__HIVE_DEFAULT_PARTITION__";

#[cfg(test)]
mod tests;
