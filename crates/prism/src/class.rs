//! Classes and their policies.

use forebay_block::ClassId;

/// Where the writes of a class go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Lives on the fast tier.
    Fast,
    /// Acknowledged from the fast tier, later destaged in bands.
    Stage,
    /// Straight to the capacity tier.
    Capacity,
    /// To both tiers at once.
    Both,
}

/// One class as configured.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassSpec {
    /// Name, unique in the pool.
    pub name: String,
    /// Policy of its writes.
    pub place: Place,
    /// Whether its reads are cached on the fast tier (kept for a later release).
    pub read_cache: bool,
    /// Share of the fast tier it may hold, 0.0..=1.0.
    pub share: f64,
    /// Rules are tried from the smallest priority number on.
    pub priority: u16,
    /// Match expressions; any one of them suffices.
    pub rules: Vec<String>,
}

/// All classes of a pool; the index is the [`ClassId`] stored in map entries, so entries are never reordered.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassTable {
    classes: Vec<ClassSpec>,
}

impl Default for ClassTable {
    fn default() -> Self {
        let class = |name: &str, place| ClassSpec {
            name: name.into(),
            place,
            read_cache: false,
            share: 1.0,
            priority: 100,
            rules: Vec::new(),
        };
        Self {
            classes: vec![
                class("cold", Place::Stage),
                class("metadata", Place::Fast),
                class("log", Place::Fast),
                class("temp", Place::Stage),
                class("hot", Place::Stage),
            ],
        }
    }
}

impl ClassTable {
    /// The classes in order of their ids.
    #[must_use]
    pub fn classes(&self) -> &[ClassSpec] {
        &self.classes
    }

    /// The class by id.
    #[must_use]
    pub fn get(&self, id: ClassId) -> Option<&ClassSpec> {
        self.classes.get(usize::from(id.0))
    }

    /// The class of data that nothing else claims.
    #[must_use]
    pub fn default_class(&self) -> ClassId {
        ClassId(0)
    }
}
