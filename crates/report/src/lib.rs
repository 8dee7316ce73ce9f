//! Results as one page: an HTML file with pictures, tables and nothing that would have to be fetched.
//!
//! [`Results::add`] takes what the tool writes as JSON, one text for each file; [`page()`] makes the page of all. Pictures
//! are SVG, drawn here: the page shows everything without its script, which adds a read-out, zoom and saving. Nothing is
//! computed that the results do not say: a percentile that they withhold is withheld here.
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
