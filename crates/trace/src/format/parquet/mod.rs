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
/// Key of the version of the schema in a file's metadata.
const KEY_VERSION: &str = "forebay.schema_version";
/// The version.
const VERSION: &str = "1";
/// Key of what the trace can tell, as JSON.
const KEY_TRACE: &str = "forebay.trace";
/// Key of the volume of a file that has no such column.
const KEY_VOLUME: &str = "forebay.volume";

/// What Hive and its heirs call a partition whose value is null.
const HIVE_NULL: &str = "__HIVE_DEFAULT_PARTITION__";

#[cfg(test)]
mod tests;
