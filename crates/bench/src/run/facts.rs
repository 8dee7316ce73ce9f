//! Facts about a target.

/// Facts about a target.
#[derive(Clone, Debug, Default)]
pub struct TargetFacts {
    /// Name of the target; `None` unless the job runs on several targets.
    pub name: Option<String>,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Logical block size in bytes.
    pub logical_block_bytes: u32,
    /// How the target is accessed: system calls, cached or direct.
    pub description: String,
    /// Notes about the target for the user.
    pub notes: Vec<String>,
}
