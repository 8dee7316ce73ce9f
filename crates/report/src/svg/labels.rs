//! Places labels beside points so that they do not overlap or leave the picture.

/// Size of a character at the largest text size, on a phone.
const CHAR: (f64, f64) = (7.6, 14.0);

/// A rectangle: left, top, right, bottom.
pub(super) type Box = [f64; 4];

/// Occupied rectangles.
#[derive(Debug, Default)]
pub(super) struct Labels {
    taken: Vec<Box>,
    bounds: Box,
}

/// Position of a label: its text anchor and the point of its base line.
pub(super) struct Place {
    pub(super) anchor: &'static str,
    pub(super) at: (f64, f64),
}

impl Labels {
    pub(super) fn within(bounds: Box) -> Self {
        Self { taken: Vec::new(), bounds }
    }

    /// Keeps labels off a point.
    pub(super) fn take(&mut self, (x, y): (f64, f64)) {
        self.take_box([x - 4.0, y - 4.0, x + 4.0, y + 4.0]);
    }

    /// Keeps labels off a rectangle, such as other words.
    pub(super) fn take_box(&mut self, taken: Box) {
        self.taken.push(taken);
    }

    /// A free place for a label beside a point; none where all are occupied.
    pub(super) fn beside(&mut self, (x, y): (f64, f64), text: &str) -> Option<Place> {
        let wide = text.chars().count() as f64 * CHAR.0;
        let half = CHAR.1 / 2.0;
        let candidates = [
            ("end", x - 8.0, y - 6.0),
            ("start", x + 8.0, y + half - 2.0),
            ("end", x - 8.0, y + half - 2.0),
            ("middle", x, y - 9.0),
            ("start", x + 8.0, y + CHAR.1),
            ("middle", x, y + CHAR.1 + 5.0),
            ("start", x + 8.0, y - 8.0),
        ];
        for (anchor, at_x, at_y) in candidates {
            let left = match anchor {
                "end" => at_x - wide,
                "start" => at_x,
                _ => at_x - wide / 2.0,
            };
            let space = [left, at_y - CHAR.1 + 3.0, left + wide, at_y + 3.0];
            let inside = space[0] >= self.bounds[0]
                && space[1] >= self.bounds[1]
                && space[2] <= self.bounds[2]
                && space[3] <= self.bounds[3];
            if inside && !self.taken.iter().any(|other| overlap(&space, other)) {
                self.taken.push(space);
                return Some(Place { anchor, at: (at_x, at_y) });
            }
        }
        None
    }
}

fn overlap(a: &Box, b: &Box) -> bool {
    a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3]
}
