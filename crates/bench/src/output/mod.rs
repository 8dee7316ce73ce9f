//! Results as data: our JSON, and fio's json+ and log files for programs that read those.

pub mod fio;
pub mod fio_log;
pub mod histogram;
pub mod host;
pub mod series;
pub mod steady;
pub mod summary;
pub mod table;
