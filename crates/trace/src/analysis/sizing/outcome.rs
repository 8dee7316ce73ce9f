//! What tiers of each size buy.

use serde::Serialize;

/// A row that is pinned, and what it takes.
#[derive(Clone, Debug, Serialize)]
pub struct Pinned {
    /// Its name.
    pub name: String,
    /// Most bytes that it occupied.
    pub occupancy_bytes: u64,
    /// Bytes written over them.
    pub beta: f64,
}

/// A way to use a fast tier of some size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Way {
    /// How many rows of [`Sizes::order`] are pinned.
    pub pinned: usize,
    /// Share of the other rows' blocks that are staged; writes of the others pass the fast tier by.
    pub staged: f64,
    /// Share of the written blocks that the capacity tier is spared.
    pub alpha: f64,
    /// Share of the written blocks that the fast tier takes.
    pub fast_share: f64,
}

/// A size of the fast tier, and what it buys.
#[derive(Clone, Debug, Serialize)]
pub struct Sized {
    /// Bytes of the fast tier.
    pub size_bytes: u64,
    /// How many rows of [`Sizes::order`] are pinned.
    pub pinned: usize,
    /// Share of the written blocks that the capacity tier is spared.
    pub alpha: f64,
    /// Half of the 95 % interval of alpha, from 20 parts of the trace and what the sample may be off by; `None` where they are
    /// too few.
    pub alpha_error: Option<f64>,
    /// What of it is the sample's: how far alpha of all blocks of this very trace may be. `None` where all were followed.
    pub sample_error: Option<f64>,
    /// Of alpha, what pinned rows give.
    pub alpha_pinned: f64,
    /// Share of the written blocks that the fast tier takes: what is pinned, and where there is room for it what is staged.
    pub fast_share: f64,
    /// Share of the written blocks that are written over, or discarded, before the capacity tier has seen them. Data that
    /// is pinned and still there does not count as it does in alpha, so the size at which all of the trace fits is no step.
    pub rewrites: f64,
    /// What else can be done with it: fewer rows pinned, and a share of what is staged passing by.
    #[serde(skip)]
    pub ways: Vec<Way>,
}

/// The outcome.
#[derive(Clone, Debug, Serialize)]
pub struct Sizes {
    /// Rows in the order in which they are pinned.
    pub order: Vec<Pinned>,
    /// Rows that go past the fast tier.
    pub bypassed: Vec<Pinned>,
    /// By size.
    pub sizes: Vec<Sized>,
    /// Where more space begins to buy little: the point of [`Sized::rewrites`] farthest above the line from the first to the
    /// last, over the logarithm of the size (Satopaa et al. 2011, "Kneedle"). The last is four times what all rows take.
    pub knee: Option<usize>,
    /// Share of the written blocks that are written over or discarded at all: what no size goes beyond.
    pub rewrites_max: f64,
    /// Bytes accessed at least once (where nothing was discarded): the analysis' own.
    pub footprint_bytes: u64,
    /// Most bytes written and not discarded at a time, the analysis' own: in so many all that is written fits.
    pub written_footprint_bytes: u64,
    /// What the rows occupied at most, each at its own time, together: what they take where all are pinned. No size beyond buys
    /// anything.
    pub rows_bytes: u64,
    /// One block in so many was followed.
    pub one_block_in: u64,
}
