//! What is not mended yet, by rule. Nothing may be added; where something was mended, its line goes or its count shrinks.

/// Files that are in circles of imports, by room.
pub const CIRCLES_LEFT: [(&str, usize); 1] = [("sim", 6)];

/// Structs whose methods stand in several files.
pub const SPREAD_LEFT: [(&str, &str); 17] = [
    ("bench", "Mix"),
    ("bench", "SizeMix"),
    ("device", "VolatileDevice"),
    ("export", "Reactor"),
    ("forebay", "Config"),
    ("model", "Config"),
    ("model", "Nand"),
    ("prism", "ClassTable"),
    ("prism", "Ext4"),
    ("prism", "Learned"),
    ("sim", "Shape"),
    ("sim", "SimDevice"),
    ("sim", "World"),
    ("trace", "Analysis"),
    ("trace", "Place"),
    ("volume", "Engine"),
    ("volume", "Root"),
];

/// Files of `volume` beyond its limit; they hold the limit of all.
pub const LONG_LEFT: [&str; 7] = [
    "crates/volume/src/layout/batch.rs",
    "crates/volume/src/layout/sections.rs",
    "crates/volume/src/recovery/replay.rs",
    "crates/volume/src/space/bands.rs",
    "crates/volume/tests/damage.rs",
    "crates/volume/tests/device_faults.rs",
    "crates/volume/tests/reclass.rs",
];

/// Words that the house does not use, by room.
pub const WORDS_LEFT: [(&str, usize); 0] = [];
