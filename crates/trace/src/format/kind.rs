//! The formats by name.

/// A format that traces can be read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// VMware's vscsiStats records, as in the CloudPhysics traces.
    Vscsi,
    /// Microsoft Research Cambridge's traces, CSV.
    Msr,
    /// Alibaba's block traces, CSV.
    Alibaba,
    /// Tencent's cloud block storage, CSV.
    Tencent,
    /// The virtual desktops of Systor '17, CSV.
    Systor,
    /// The Storage Performance Council's format, CSV.
    Spc,
    /// libCacheSim's records with the time of the next access; operations are not recorded.
    OracleGeneral,
    /// DiskSim's ASCII format, also in MQSim's form.
    DiskSim,
    /// blktrace's binary records.
    Blktrace,
    /// blkparse's text.
    Blkparse,
    /// fio's I/O logs, versions 2 and 3.
    FioLog,
    /// The text of bcc's biosnoop.
    Biosnoop,
    /// JSON lines of Open CAS's iotrace.
    Iotrace,
    /// CSV whose header names its columns.
    Csv,
    /// Parquet with the schema of `docs/trace-parquet.md`.
    Parquet,
    /// The files of `forebay record`.
    Record,
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 16] = [
        Self::Vscsi,
        Self::Msr,
        Self::Alibaba,
        Self::Tencent,
        Self::Systor,
        Self::Spc,
        Self::OracleGeneral,
        Self::DiskSim,
        Self::Blktrace,
        Self::Blkparse,
        Self::FioLog,
        Self::Biosnoop,
        Self::Iotrace,
        Self::Csv,
        Self::Parquet,
        Self::Record,
    ];

    /// Its name on the command line and in messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Vscsi => "vscsi",
            Self::Msr => "msr",
            Self::Alibaba => "alibaba",
            Self::Tencent => "tencent",
            Self::Systor => "systor",
            Self::Spc => "spc",
            Self::OracleGeneral => "oracle-general",
            Self::DiskSim => "disksim",
            Self::Blktrace => "blktrace",
            Self::Blkparse => "blkparse",
            Self::FioLog => "fio-log",
            Self::Biosnoop => "biosnoop",
            Self::Iotrace => "iotrace",
            Self::Csv => "csv",
            Self::Parquet => "parquet",
            Self::Record => "record",
        }
    }

    /// The format with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }
}
