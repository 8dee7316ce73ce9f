//! Results as one page: an HTML file with pictures and tables that loads nothing else.
//!
//! [`Results::add`] takes the tool's JSON, one text for each file; [`page()`] makes a page of all results. The pictures are SVG: the page
//! shows everything without its script, which adds a read-out, zoom and saving. The page computes no figure that the results lack: a
//! percentile that a result withholds is withheld here.
#![forbid(unsafe_code)]

mod command;
mod error;
mod fields;
mod markup;
mod page;
mod picture;
mod reading;
mod records;
mod results;
mod section;
mod svg;
mod table;
mod unit;

pub use error::ReportError;
pub use page::{is_page, page, picture};
pub use records::{Io, Records};
pub use results::{Kind, Results};
