//! What is not mended yet, by rule. Nothing may be added; where something was mended, its line goes or its count shrinks.

/// Files that are in circles of imports, by room.
pub const CIRCLES_LEFT: [(&str, usize); 0] = [];

/// Structs whose methods stand in several files.
pub const SPREAD_LEFT: [(&str, &str); 11] = [
    ("daemon", "Config"),
    ("device", "VolatileDevice"),
    ("export", "Reactor"),
    ("model", "Config"),
    ("model", "Nand"),
    ("prism", "ClassTable"),
    ("prism", "Ext4"),
    ("prism", "Learned"),
    ("sim", "World"),
    ("trace", "Place"),
    ("volume", "Engine"),
];

/// Words that the house does not use, by room.
pub const WORDS_LEFT: [(&str, usize); 0] = [];
