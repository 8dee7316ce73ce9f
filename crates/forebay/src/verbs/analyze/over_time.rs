//! Regions and working set of a trace per slice of time, drawn with characters.

use crate::output::{size, time};
use forebay_trace::analysis::{BLOCK_BYTES, OverTime, Slice, VolumeMap};

/// From none to most. On the map, each character stands for four times the bytes of the one before.
const SHADES: [char; 10] = [' ', '.', ':', '-', '=', '+', '*', '#', '%', '@'];
/// Ratio between two neighbouring shades of the map.
const SHADE_RATIO: u64 = 4;
/// Maximum number of rows of a map; regions are merged until they fit.
const ROWS_MAX: usize = 16;
/// Maximum number of maps.
const VOLUMES_MAX: usize = 4;
/// Shown for an unknown value.
const UNKNOWN: char = '?';
/// Characters to the left of a row.
const NAME_CHARS: usize = 10;

/// The lines; empty where nothing was read or written.
pub fn lines(found: &OverTime) -> Vec<String> {
    let volumes: Vec<&VolumeMap> = found.volumes.iter().flatten().collect();
    if found.slices.iter().all(|slice| slice.all.moved_bytes == 0) {
        return Vec::new();
    }
    let mut lines = vec![String::new()];
    lines.extend(working_set(found));
    for map in volumes.iter().take(VOLUMES_MAX) {
        for (what, of) in [("Reads", 0), ("Writes", 1)] {
            lines.extend(map_lines(found.slices.len(), map, what, of));
        }
    }
    if volumes.len() > VOLUMES_MAX {
        lines.push(format!("{} volumes with fewer bytes are in the JSON", volumes.len() - VOLUMES_MAX));
    }
    lines
}

/// A figure of a slice.
type Figure = fn(&Slice) -> Option<u64>;

fn working_set(found: &OverTime) -> Vec<String> {
    let rows: [(&str, Figure); 5] = [
        ("touched", |slice| slice.all.blocks),
        ("reads", |slice| slice.reads.blocks),
        ("writes", |slice| slice.writes.blocks),
        ("reads new", |slice| slice.reads.new_blocks),
        ("writes new", |slice| slice.writes.new_blocks),
    ];
    let length = match (found.slice_ns, found.slice_requests) {
        (Some(ns), _) => time(ns),
        (None, requests) => format!("{} requests", requests.unwrap_or(0)),
    };
    let most = |of: Figure| found.slices.iter().filter_map(of).max().unwrap_or(0);
    let all = most(rows[0].1);
    let mut lines = vec![
        format!("Working set over time, {} slices of {length}: distinct blocks of 4 KiB,", found.slices.len()),
        format!("at most {} in a slice ({SHADE_MOST}), by tenths of it; new: never touched before", blocks(all)),
    ];
    lines.extend(rows.iter().map(|(name, of)| {
        let shades = found.slices.iter().map(|slice| of(slice).map_or(UNKNOWN, |value| tenth(value, all)));
        row(name, shades)
    }));
    if found.slices.iter().any(|slice| slice.all.blocks.is_none()) {
        lines.push(format!("{UNKNOWN}: none of the blocks touched there is in the sample"));
    }
    lines
}

const SHADE_MOST: char = SHADES[SHADES.len() - 1];

fn blocks(count: u64) -> String {
    size(count.saturating_mul(BLOCK_BYTES))
}

/// Linear shade of a value in tenths of the maximum; at least the first shade above 0.
fn tenth(value: u64, most: u64) -> char {
    if value == 0 {
        return SHADES[0];
    }
    let share = value as f64 / most.max(1) as f64;
    SHADES[((share * SHADES.len() as f64) as usize).clamp(1, SHADES.len() - 1)]
}

/// Logarithmic shade of a value: one shade less for each factor of four below the maximum.
fn quarter(value: u64, most: u64) -> char {
    if value == 0 {
        return SHADES[0];
    }
    let mut at = SHADES.len() - 1;
    let mut below = most;
    while at > 1 && value <= below / SHADE_RATIO {
        (at, below) = (at - 1, below / SHADE_RATIO);
    }
    SHADES[at]
}

fn row(name: &str, shades: impl Iterator<Item = char>) -> String {
    format!("{name:>NAME_CHARS$} |{}|", shades.collect::<String>())
}

fn map_lines(slices: usize, map: &VolumeMap, what: &str, of: usize) -> Vec<String> {
    let mut together = 1;
    while map.regions.len().div_ceil(together) > ROWS_MAX {
        together *= 2;
    }
    let mut cells = vec![vec![0_u64; slices]; map.regions.len().div_ceil(together)];
    for &(slice, region, read, written) in &map.cells {
        let cell = cells.get_mut(region / together).and_then(|row| row.get_mut(slice));
        if let Some(cell) = cell {
            *cell = cell.saturating_add([read, written][of]);
        }
    }
    let most = cells.iter().flatten().copied().max().unwrap_or(0);
    if most == 0 {
        return Vec::new();
    }
    let volume = match map.volume.as_deref() {
        None => " of all other volumes".to_owned(),
        Some("") => String::new(),
        Some(name) => format!(" of {name}"),
    };
    let region = size(map.region_bytes.saturating_mul(together as u64));
    let mut lines = vec![
        String::new(),
        format!("{what}{volume} over time, regions of {region} from the offset before them;"),
        format!("most bytes in one {} ({SHADE_MOST}), each shade before it a quarter of the next", size(most)),
    ];
    lines.extend(cells.iter().enumerate().map(|(at, row_cells)| {
        let begin = map.regions.get(at * together).map_or(0, |region| region.begin_bytes);
        row(&size(begin), row_cells.iter().map(|value| quarter(*value, most)))
    }));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shades_are_steps_down_from_the_most() {
        assert_eq!([0, 1, 50, 89, 100].map(|value| tenth(value, 100)), [' ', '.', '+', '%', '@']);
        assert_eq!(
            [0, 1, 1 << 16, (1 << 18) + 1, 1 << 20].map(|value| quarter(value, 1 << 20)),
            [' ', '.', '#', '@', '@']
        );
        assert_eq!((tenth(u64::MAX, u64::MAX), quarter(u64::MAX, u64::MAX), quarter(1, 1)), ('@', '@', '@'));
    }
}
