//! The throughput-latency curve as text: throughput on the x-axis, latency on the y-axis, depths as labels of the
//! points.

use super::text;
use crate::output::table::Table;
use crate::stats::saturation::Point;

/// Width of the drawing in characters.
const WIDTH: usize = 64;
/// Height of the drawing in lines.
const HEIGHT: usize = 14;

/// Draws a curve; `None` without points. The latency axis is logarithmic because latency grows by factors beyond
/// saturation.
pub(super) fn curve(points: &[Point]) -> Option<Table> {
    let most_iops = points.iter().map(|point| point.iops).fold(0.0, f64::max);
    let least = points.iter().map(|point| point.mean_latency_ns).fold(f64::INFINITY, f64::min);
    let most = points.iter().map(|point| point.mean_latency_ns).fold(0.0, f64::max);
    if points.is_empty() || most_iops <= 0.0 || least <= 0.0 {
        return None;
    }
    let span = (most / least).ln().max(f64::MIN_POSITIVE);
    let place = |point: &Point| {
        let x = (point.iops / most_iops * (WIDTH - 1) as f64).round() as usize;
        let y = ((point.mean_latency_ns / least).ln() / span * (HEIGHT - 1) as f64).round() as usize;
        (x.min(WIDTH - 1), y.min(HEIGHT - 1))
    };
    // Room behind the last column for the label of a point in it.
    let mut canvas = vec![vec![' '; WIDTH + 8]; HEIGHT];
    for point in points {
        let (x, y) = place(point);
        canvas[y][x] = '*';
    }
    for point in points {
        let (x, y) = place(point);
        let label: Vec<char> = point.depth.to_string().chars().collect();
        let line = &mut canvas[y];
        // A label is left out where its place is taken, by a neighbour's label or another point.
        let free = (x + 1..=x + label.len()).all(|at| line.get(at) == Some(&' '));
        if free {
            line[x + 1..=x + label.len()].copy_from_slice(&label);
        }
    }
    let mut table = Table::new(
        format!(
            "throughput (right: 0 to {} IOPS) against mean latency (up), the depth at each point",
            text::rate(most_iops)
        ),
        2,
        &["latency", ""],
    );
    for (y, line) in canvas.iter().enumerate().rev() {
        let latency = least * (span * y as f64 / (HEIGHT - 1) as f64).exp();
        let scale = if y % 4 == 1 || y == HEIGHT - 1 || y == 0 { text::time(latency) } else { String::new() };
        table.rows.push(vec![scale, format!("|{}", line.iter().collect::<String>().trim_end())]);
    }
    Some(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depths_stand_on_the_line() {
        let point = |depth: u32, iops, mean_latency_ns| Point { depth, iops, mean_latency_ns };
        let drawn = curve(&[point(1, 100e3, 10e3), point(4, 400e3, 10e3), point(64, 500e3, 128e3)]).unwrap();
        assert_eq!(drawn.rows.len(), HEIGHT);
        assert!(drawn.rows[0][1].ends_with("*64") && drawn.rows[0][0] == "128 us", "{:?}", drawn.rows[0]);
        let last = &drawn.rows[HEIGHT - 1];
        assert!(last[1].contains("*1") && last[1].contains("*4") && last[0] == "10.0 us", "{last:?}");
        assert!(curve(&[]).is_none());
        // One point, or a flat line, must not lead to a division by zero.
        assert!(curve(&[point(1, 1.0, 5.0)]).is_some());
    }
}
