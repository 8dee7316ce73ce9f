//! Sources and sentences that several rules use.

/// The source of most figures. They were measured on one machine of 2017: they show the kind of cost to expect, not
/// its size.
pub const GUIDE: &str = "Intel, Optane SSD DC P4800X performance evaluation guide";
/// The documentation of the files of block devices.
pub const SYSFS_BLOCK: &str = "Linux, Documentation/ABI/stable/sysfs-block";

/// A line that writes a value at each boot.
pub fn at_each_start(path: &str, value: &str) -> String {
    format!("/etc/tmpfiles.d/forebay.conf: \"w {path} - - - - {value}\"")
}

/// A line that writes a file of a block device whenever the device appears.
pub fn by_udev(device: &str, file: &str, value: &str) -> String {
    format!(
        "/etc/udev/rules.d/90-forebay.rules: ACTION==\"add|change\", SUBSYSTEM==\"block\", KERNEL==\"{device}\", \
         ATTR{{{file}}}=\"{value}\""
    )
}

/// How to add a parameter to the kernel's command line.
pub fn on_command_line(parameter: &str) -> String {
    format!("{parameter} on the kernel's command line, in the configuration of the boot loader")
}

/// The distinct values, in order of their first occurrence.
pub fn different<T: PartialEq>(values: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    for value in values {
        if !found.contains(&value) {
            found.push(value);
        }
    }
    found
}
