//! Sources, and sentences that several rules have.

/// Where most figures come from. They were measured on one machine of 2017: they say what kind of cost to expect, not how much.
pub const GUIDE: &str = "Intel, Optane SSD DC P4800X performance evaluation guide";
/// Documentation of the files of block devices.
pub const SYSFS_BLOCK: &str = "Linux, Documentation/ABI/stable/sysfs-block";

/// How a value is written at each start.
pub fn at_each_start(path: &str, value: &str) -> String {
    format!("/etc/tmpfiles.d/forebay.conf: \"w {path} - - - - {value}\"")
}

/// How a file of a block device is written whenever the device appears.
pub fn by_udev(device: &str, file: &str, value: &str) -> String {
    format!(
        "/etc/udev/rules.d/90-forebay.rules: ACTION==\"add|change\", SUBSYSTEM==\"block\", KERNEL==\"{device}\", \
         ATTR{{{file}}}=\"{value}\""
    )
}

/// How a parameter is put on the kernel's command line.
pub fn on_command_line(parameter: &str) -> String {
    format!("{parameter} on the kernel's command line, in the configuration of the boot loader")
}

/// Different values in the order in which they came.
pub fn different<T: PartialEq>(values: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    for value in values {
        if !found.contains(&value) {
            found.push(value);
        }
    }
    found
}
