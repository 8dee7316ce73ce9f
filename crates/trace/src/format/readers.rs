//! The reader of each text format.

use super::alibaba::Alibaba;
use super::biosnoop::Biosnoop;
use super::blkparse::Blkparse;
use super::csv::Csv;
use super::disksim::DiskSim;
use super::fio_log::FioLog;
use super::iotrace::Iotrace;
use super::kind::Format;
use super::msr::Msr;
use super::spc::Spc;
use super::systor::Systor;
use super::tencent::Tencent;
use super::text::LineFormat;

/// The line reader of a format, for a file that begins with `head`; `None` if it is no text.
pub(super) fn lines(format: Format, head: &[u8]) -> Option<Box<dyn LineFormat>> {
    Some(match format {
        Format::Msr => Box::new(Msr::new()),
        Format::Alibaba => Box::new(Alibaba::new()),
        Format::Tencent => Box::new(Tencent::new()),
        Format::Systor => Box::new(Systor::new()),
        Format::Spc => Box::new(Spc::new()),
        Format::DiskSim => Box::new(DiskSim::new(head)),
        Format::Blkparse => Box::new(Blkparse::new()),
        Format::FioLog => Box::new(FioLog::new()),
        Format::Biosnoop => Box::new(Biosnoop::new()),
        Format::Csv => Box::new(Csv::new()),
        Format::Iotrace => Box::new(Iotrace::new()),
        Format::Vscsi | Format::OracleGeneral | Format::Blktrace | Format::Parquet | Format::Record => return None,
    })
}
