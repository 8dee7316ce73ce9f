//! How wide results may be, and how high where they are shown again and again.

/// Columns of characters where nobody tells.
const WIDTH_DEFAULT: usize = 80;
/// Narrower is taken for a mistake.
const WIDTH_MIN: usize = 40;

/// Columns of characters that results may take: as many as the terminal has, or as COLUMNS says; else 80.
pub fn width() -> usize {
    let said = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let terminal = || rustix::termios::tcgetwinsize(std::io::stdout()).ok().map(|size| usize::from(size.ws_col));
    said.or_else(terminal).filter(|&columns| columns > 0).unwrap_or(WIDTH_DEFAULT).max(WIDTH_MIN)
}

/// Rows that the terminal has, where there is one.
pub fn height() -> Option<usize> {
    let rows = rustix::termios::tcgetwinsize(std::io::stdout()).ok().map(|size| usize::from(size.ws_row));
    rows.filter(|&rows| rows > 1)
}
