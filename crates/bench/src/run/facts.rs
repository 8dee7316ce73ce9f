//! What is known of a target.

/// What is known of a target.
#[derive(Clone, Debug, Default)]
pub struct TargetFacts {
    /// Its name, where a job runs on several.
    pub name: Option<String>,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Logical block in bytes.
    pub logical_block_bytes: u32,
    /// How it is reached: system calls, cache or direct.
    pub description: String,
    /// What the user should know.
    pub notes: Vec<String>,
}
