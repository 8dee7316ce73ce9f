//! The effect of a fast tier of each size.

use serde::Serialize;

/// A row that may be pinned, and the space that it takes.
#[derive(Clone, Debug, Serialize)]
pub struct Pinned {
    /// Its name.
    pub name: String,
    /// Most bytes that it occupied at any time.
    pub occupancy_bytes: u64,
    /// Bytes written, relative to `occupancy_bytes`.
    pub beta: f64,
}

/// A way to use a fast tier of some size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Way {
    /// Number of rows of [`Sizes::order`] that are pinned.
    pub pinned: usize,
    /// Share of the other rows' blocks that are staged; the others are written past the fast tier.
    pub staged: f64,
    /// Share of the written blocks that the capacity tier is spared.
    pub alpha: f64,
    /// Share of the written blocks that are written to the fast tier.
    pub fast_share: f64,
}

/// A size of the fast tier, and its effect.
#[derive(Clone, Debug, Serialize)]
pub struct Sized {
    /// Size of the fast tier in bytes.
    pub size_bytes: u64,
    /// Number of rows of [`Sizes::order`] that are pinned.
    pub pinned: usize,
    /// Share of the written blocks that the capacity tier is spared.
    pub alpha: f64,
    /// Half of the 95 % interval of alpha, from 20 parts of the trace and the sample's error; `None` if there are too few writes for that.
    pub alpha_error: Option<f64>,
    /// The part of `alpha_error` that comes from the sample. `None` if all blocks were followed.
    pub sample_error: Option<f64>,
    /// The part of alpha that comes from pinned rows.
    pub alpha_pinned: f64,
    /// Share of the written blocks that are written to the fast tier: pinned ones, and staged ones if there is room.
    pub fast_share: f64,
    /// Share of the written blocks that are overwritten or discarded before they reach the capacity tier. Unlike in alpha, pinned data that
    /// is still there does not count, so there is no step at the size at which the whole trace fits.
    pub rewrites: f64,
    /// Other ways to use this size: fewer pinned rows, and staging only a share.
    #[serde(skip)]
    pub ways: Vec<Way>,
}

/// The result of a sizing.
#[derive(Clone, Debug, Serialize)]
pub struct Sizes {
    /// Rows in the order in which they would be pinned.
    pub order: Vec<Pinned>,
    /// Rows that are written past the fast tier.
    pub bypassed: Vec<Pinned>,
    /// The sizes, ascending.
    pub sizes: Vec<Sized>,
    /// Index of the size from which more space gains little: the point of [`Sized::rewrites`] farthest above the line from the first to the
    /// last point, over the logarithm of the size (Satopaa et al. 2011, "Kneedle"), and from there down to the least size that absorbs as much but
    /// for a thousandth of the writes. The last point is at four times `rows_bytes`.
    pub knee: Option<usize>,
    /// Share of the written blocks that are overwritten or discarded at all: the limit for any size.
    pub rewrites_max: f64,
    /// Bytes accessed at least once (if nothing was discarded), from the analysis.
    pub footprint_bytes: u64,
    /// Most bytes written and not discarded at any time, from the analysis: in a tier of this size all written data fits.
    pub written_footprint_bytes: u64,
    /// Sum of the most bytes of each row, each at its own time: the space for pinning all rows. A larger size gains nothing.
    pub rows_bytes: u64,
    /// One block in this number was followed.
    pub one_block_in: u64,
}
