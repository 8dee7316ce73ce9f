//! Width of results, and height of those that are shown repeatedly.

/// Columns where neither terminal nor COLUMNS says.
const WIDTH_DEFAULT: usize = 80;
/// Smaller values are taken for a mistake.
const WIDTH_MIN: usize = 40;

/// Columns available for results: those of the terminal, or COLUMNS; else 80.
pub fn width() -> usize {
    let said = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let terminal = || rustix::termios::tcgetwinsize(std::io::stdout()).ok().map(|size| usize::from(size.ws_col));
    said.or_else(terminal).filter(|&columns| columns > 0).unwrap_or(WIDTH_DEFAULT).max(WIDTH_MIN)
}

/// Rows of the terminal; none without a terminal.
pub fn height() -> Option<usize> {
    let rows = rustix::termios::tcgetwinsize(std::io::stdout()).ok().map(|size| usize::from(size.ws_row));
    rows.filter(|&rows| rows > 1)
}
