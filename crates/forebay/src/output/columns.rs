//! Tables that fit the terminal without cutting anything off. Wide texts wrap within their row, and columns without room follow below,
//! under the names of their rows.

use super::width::width;

/// Spaces between two columns.
const GAP: usize = 2;
/// A text column is narrowed to no less than this; then columns move below instead.
const TEXT_CHARS_MIN: usize = 24;

/// A table; the columns after the first `left` ones are numbers.
pub fn table(head: &[&str], left: usize, rows: &[Vec<String>]) -> String {
    fitted(head, left, &[(None, rows)], width())
}

/// Rows with a title.
pub type Section = (String, Vec<Vec<String>>);

/// One table with several sections, each under its title.
pub fn sections(head: &[&str], left: usize, sections: &[Section]) -> String {
    let parts: Vec<Part<'_>> = sections.iter().map(|(title, rows)| (Some(title.as_str()), rows.as_slice())).collect();
    fitted(head, left, &parts, width())
}

/// An optional title, and rows.
type Part<'a> = (Option<&'a str>, &'a [Vec<String>]);

fn chars(text: &str) -> usize {
    text.chars().count()
}

/// The table in `width` characters, where possible.
fn fitted(head: &[&str], left: usize, parts: &[Part<'_>], width: usize) -> String {
    let natural = |column: usize| {
        let rows = parts.iter().flat_map(|(_, rows)| rows.iter());
        let cells = rows.filter_map(|row| row.get(column)).map(|cell| chars(cell));
        cells.chain([chars(head[column])]).max().unwrap_or(0)
    };
    let total = |widths: &[usize]| widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1);
    let mut widths: Vec<usize> = (0..head.len()).map(natural).collect();
    while total(&widths) > width {
        let texts =
            (0..left.min(widths.len())).filter(|&at| widths[at] > TEXT_CHARS_MIN.min(width / 3).max(chars(head[at])));
        let Some(widest) = texts.max_by_key(|&at| widths[at]) else { break };
        widths[widest] -= 1;
    }
    let all: Vec<usize> = (0..widths.len()).collect();
    if total(&widths) <= width || widths.len() < 2 {
        return block(head, left, parts, &widths, &all);
    }
    // Below, longer texts have room.
    let text_max = |column: usize| if column < left { (width / 2).max(chars(head[column])) } else { usize::MAX };
    let widths: Vec<usize> = (0..head.len()).map(|column| natural(column).min(text_max(column))).collect();
    // The first column identifies the row, so each block repeats it.
    let mut blocks = vec![vec![0]];
    let mut used = widths[0];
    for column in 1..widths.len() {
        if used + GAP + widths[column] > width && blocks.last().is_some_and(|block| block.len() > 1) {
            blocks.push(vec![0]);
            used = widths[0];
        }
        used += GAP + widths[column];
        if let Some(block) = blocks.last_mut() {
            block.push(column);
        }
    }
    blocks.iter().map(|columns| block(head, left, parts, &widths, columns)).collect::<Vec<_>>().join("\n\n")
}

/// The given columns with the given widths.
fn block(head: &[&str], left: usize, parts: &[Part<'_>], widths: &[usize], columns: &[usize]) -> String {
    let head: Vec<String> = head.iter().map(|&cell| cell.to_owned()).collect();
    let mut lines = row_lines(&head, left, widths, columns);
    for (title, rows) in parts {
        lines.extend(title.iter().flat_map(|title| [String::new(), (*title).to_owned()]));
        lines.extend(rows.iter().flat_map(|row| row_lines(row, left, widths, columns)));
    }
    lines.join("\n")
}

/// Lines of a row: as many as its longest cell has.
fn row_lines(row: &[String], left: usize, widths: &[usize], columns: &[usize]) -> Vec<String> {
    let cells = columns.iter().map(|&column| {
        let cell = row.get(column).map_or("", String::as_str);
        if column < left { pieces(cell, widths[column]) } else { vec![cell.to_owned()] }
    });
    let cells: Vec<Vec<String>> = cells.collect();
    let line = |at: usize| {
        let mut line = String::new();
        for (number, (&column, cell)) in columns.iter().zip(&cells).enumerate() {
            let cell = cell.get(at).map_or("", String::as_str);
            let pad = " ".repeat(widths[column].saturating_sub(chars(cell)));
            line.push_str(&" ".repeat(if number == 0 { 0 } else { GAP }));
            line.push_str(&if column < left { format!("{cell}{pad}") } else { format!("{pad}{cell}") });
        }
        line.trim_end().to_owned()
    };
    (0..cells.iter().map(Vec::len).max().unwrap_or(0)).map(line).collect()
}

/// Splits a cell into pieces of at most `width` characters, at spaces or within paths and lists.
fn pieces(text: &str, width: usize) -> Vec<String> {
    let mut pieces = Vec::new();
    let mut rest: Vec<char> = text.chars().collect();
    while rest.len() > width.max(1) {
        let window = &rest[..width.max(1)];
        let at_space = rest[..width.max(1) + 1].iter().rposition(|&c| c == ' ').filter(|&at| at > 0);
        let at_sign =
            window.iter().rposition(|&c| matches!(c, '/' | ',' | '-' | '_' | '?' | '&' | ':')).map(|at| at + 1);
        let end = at_space.or(at_sign.filter(|&at| at > width / 3)).unwrap_or(window.len());
        pieces.push(rest[..end].iter().collect::<String>().trim_end().to_owned());
        rest.drain(..end);
        let spaces = rest.iter().take_while(|&&c| c == ' ').count();
        rest.drain(..spaces);
    }
    pieces.push(rest.into_iter().collect());
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(rows: &[&[&str]]) -> Vec<Vec<String>> {
        rows.iter().map(|row| row.iter().map(|&cell| cell.to_owned()).collect()).collect()
    }

    #[test]
    fn tables_are_aligned() {
        let text = fitted(&["name", "n"], 1, &[(None, &rows(&[&["a", "10"], &["bb", "9"]]))], 80);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines, ["name   n", "a     10", "bb     9"], "{text}");
    }

    #[test]
    fn long_texts_take_several_lines_of_their_row() {
        let text = fitted(&["what", "n"], 1, &[(None, &rows(&[&["one two three four five", "10"]]))], 18);
        assert_eq!(
            text.lines().collect::<Vec<_>>(),
            ["what             n", "one two three   10", "four five"],
            "{text}"
        );
        let text = fitted(&["path", "n"], 1, &[(None, &rows(&[&["/dev/disk/by-id/nvme-long", "1"]]))], 20);
        assert_eq!(
            text.lines().collect::<Vec<_>>(),
            ["path               n", "/dev/disk/by-id/   1", "nvme-long"],
            "{text}"
        );
    }

    #[test]
    fn columns_without_room_follow_below_under_their_rows_names() {
        let text = fitted(
            &["row", "aaaaaa", "bbbbbb", "cccccc"],
            1,
            &[(None, &rows(&[&["x", "1", "2", "3"], &["y", "4", "5", "6"]]))],
            20,
        );
        let expected = [
            "row  aaaaaa  bbbbbb",
            "x         1       2",
            "y         4       5",
            "",
            "row  cccccc",
            "x         3",
            "y         6",
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), expected, "{text}");
    }

    #[test]
    fn titles_stand_above_their_rows_in_each_part_of_a_table() {
        let (one, two) = (rows(&[&["x", "1", "2"]]), rows(&[&["y", "3", "4"]]));
        let text = fitted(&["row", "aaaaaa", "bbbbbb"], 1, &[(Some("One"), &one), (Some("Two"), &two)], 12);
        let expected = [
            "row  aaaaaa",
            "",
            "One",
            "x         1",
            "",
            "Two",
            "y         3",
            "",
            "row  bbbbbb",
            "",
            "One",
            "x         2",
            "",
            "Two",
            "y         4",
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), expected, "{text}");
    }

    #[test]
    fn whatever_is_in_it_nothing_is_lost_and_no_width_is_exceeded_that_can_be_kept() {
        let mut random = forebay_block::Random::new(7);
        for _ in 0..500 {
            let columns = 1 + random.below(7) as usize;
            let left = random.below(columns as u64 + 1) as usize;
            let cell = |random: &mut forebay_block::Random| {
                (0..random.below(20)).map(|_| char::from(b"ab /-"[random.below(5) as usize])).collect::<String>()
            };
            let head: Vec<String> = (0..columns).map(|at| format!("c{at}")).collect();
            let head: Vec<&str> = head.iter().map(String::as_str).collect();
            let rows: Vec<Vec<String>> = (0..4).map(|_| (0..columns).map(|_| cell(&mut random)).collect()).collect();
            let text = fitted(&head, left, &[(None, &rows)], 44);
            assert!(text.lines().all(|line| chars(line) <= 44), "{text}");
            let signs = |text: &str| text.chars().filter(|&c| c == 'a' || c == '/').count();
            let all: usize = rows.iter().flatten().map(|cell| signs(cell)).sum();
            assert!(signs(&text) >= all, "{rows:?}\n{text}");
        }
    }
}
