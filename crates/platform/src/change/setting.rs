//! The settings that can be changed: each has the name of the rule that judges it.

use super::files::Files;
use crate::lack::{Lack, Reading, shown};
use crate::rules::{GUIDE, SYSFS_BLOCK};
use crate::settings::services::BALANCER;
use crate::settings::text::{chosen, members, parsed_number};

/// A selection of settings. Each profile includes the settings of those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Profile {
    /// Settings that cost latency without a benefit on most machines.
    DefaultSafe,
    /// Settings that favour latency over power.
    Latency,
    /// Settings for repeatable measurements: also those that cost daily work observability or throughput.
    Measure,
}

impl Profile {
    /// All profiles, each with its name and its purpose.
    pub const ALL: [(Self, &'static str, &'static str); 3] = [
        (Self::DefaultSafe, "default-safe", "takes away what costs latency and gives nothing for it on most machines"),
        (Self::Latency, "latency", "that, and latency before power: for hosts that serve"),
        (Self::Measure, "measure", "that, and what makes runs repeat: fixed frequency, no statistics, no merges"),
    ];

    /// The profile's name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(profile, ..)| *profile == self).map_or("", |(_, name, _)| name)
    }
}

/// The format of a file's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// All possible words, with the chosen one in brackets: `[none] mq-deadline`.
    Marked,
    /// A word; if another file in the folder lists the possible words, one of these.
    Word {
        /// Name of that file; `None` if there is no list.
        among: Option<&'static str>,
    },
    /// A whole number.
    Number,
    /// CPUs, such as `0-3,8`.
    Cpus,
    /// The kernel's text about a process, whose value is `running` or `stopped`.
    Process,
}

/// The value that a file should have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Want {
    /// This value.
    Value(&'static str),
    /// At least this number; greater values are not changed.
    Least(i64),
    /// At most this number; smaller values are not changed.
    Most(i64),
    /// The second value in place of the first; other values are not changed.
    Instead {
        /// The value that is replaced.
        of: &'static str,
        /// The new value.
        by: &'static str,
    },
    /// A value specific to the file: each interrupt gets a CPU of its own.
    Own,
    /// No value: the file is only restored if the kernel has changed it along with another.
    Nothing,
}

/// A setting that can be changed at run time and put back.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Name of the rule that judges it.
    pub name: &'static str,
    /// The change, in words.
    pub what: &'static str,
    /// The cost of the value found on most machines, and its reason.
    pub cost: &'static str,
    /// The source of this claim.
    pub source: &'static str,
    /// What the change costs.
    pub price: &'static str,
    /// The lowest profile that changes it; `None`: only the ladder does.
    pub profile: Option<Profile>,
    pub(super) files: Files,
    pub(super) form: Form,
    pub(super) want: Want,
    /// Whether it applies only to drives that do not rotate.
    pub(super) is_for_flash: bool,
    /// Names of the settings that the kernel changes along with it.
    pub(super) moves: &'static [&'static str],
}

const CPUFREQ: &str = "Linux, admin-guide/pm/cpufreq.rst";
/// The cost text of a setting that is only restored.
const PUT_BACK: &str = "nothing: it is put back with it";

/// A row of the guide's ladder: a frequency without turbo.
struct Fixed {
    name: &'static str,
    what: &'static str,
    cost: &'static str,
    khz: i64,
}

const AT_2_3_GHZ: Fixed = Fixed {
    name: "fixed-2.3-GHz",
    what: "a frequency of 2.3 GHz, neither more nor less",
    cost: "frequencies change with the load; the guide's reads at a fixed 2.3 GHz, without turbo: mean 9.2 us, p99 11 us",
    khz: 2_300_000,
};

const AT_3_0_GHZ: Fixed = Fixed {
    name: "fixed-3.0-GHz",
    what: "a frequency of 3.0 GHz, neither more nor less",
    cost: "frequencies change with the load; the guide's reads at a fixed 3.0 GHz, without turbo: mean 7.57 us, p99 9 us",
    khz: 3_000_000,
};

/// A frequency bound of each group of CPUs.
const fn fixed(at: Fixed, file: &'static str) -> Setting {
    Setting {
        name: at.name,
        what: at.what,
        cost: at.cost,
        source: GUIDE,
        price: "a slower CPU under load, and more power when idle",
        profile: None,
        files: Files::Fixed { file, khz: at.khz },
        form: Form::Number,
        want: Want::Own,
        is_for_flash: false,
        moves: &[],
    }
}

/// Values that are not changed here, but that the kernel changes along with the setting of this name.
const fn put_back(name: &'static str, what: &'static str, source: &'static str, files: Files) -> Setting {
    Setting {
        name,
        what,
        cost: PUT_BACK,
        source,
        price: "none",
        profile: None,
        files,
        form: Form::Number,
        want: Want::Nothing,
        is_for_flash: false,
        moves: &[],
    }
}

/// All settings that can be changed, in the order of the changes: the guide's ladder first. A setting that makes the
/// kernel change others comes before them.
pub const SETTINGS: &[Setting] = &[
    Setting {
        name: "governor",
        what: "frequency governor performance",
        cost: "the CPU runs slower while it waits for the drive, so what follows takes longer; the guide's ladder: 8.43 us to 8.16 us",
        source: GUIDE,
        price: "more power and heat when idle",
        profile: Some(Profile::Latency),
        files: Files::Policies("scaling_governor"),
        form: Form::Word { among: Some("scaling_available_governors") },
        want: Want::Value("performance"),
        is_for_flash: false,
        moves: &["governor", "energy-preference"],
    },
    // A governor that is selected again begins with its own defaults.
    put_back("governor", "the governor's own settings as they were", CPUFREQ, Files::Governors),
    // Belongs to the governor userspace; with other governors the file's text is not a number.
    put_back(
        "governor",
        "the frequency that was chosen by hand as it was",
        CPUFREQ,
        Files::Policies("scaling_setspeed"),
    ),
    Setting {
        name: "energy-preference",
        what: "energy preference performance",
        cost: "the hardware chooses lower frequencies and wakes later",
        source: CPUFREQ,
        price: "more power and heat when idle",
        profile: Some(Profile::Latency),
        files: Files::Policies("energy_performance_preference"),
        form: Form::Word { among: Some("energy_performance_available_preferences") },
        want: Want::Value("performance"),
        is_for_flash: false,
        moves: &[],
    },
    Setting {
        name: "irq-balancing",
        what: "the service that moves interrupts between CPUs stands still (SIGSTOP)",
        cost: "interrupts move while they are measured; the guide's ladder: 8.16 us to 8.01 us",
        source: GUIDE,
        price: "interrupts stay where they are, also where that is one CPU",
        profile: None,
        files: Files::Process(BALANCER),
        form: Form::Process,
        want: Want::Value("stopped"),
        is_for_flash: false,
        moves: &[],
    },
    Setting {
        name: "interrupts",
        what: "each interrupt of the drive's queues on a CPU of its own",
        cost: "I/Os of many CPUs wait for few, and end far from who asked; the guide's ladder (SMP affinity): 8.01 us to 7.96 us",
        source: GUIDE,
        price: "CPUs that were kept free of interrupts get some",
        profile: None,
        files: Files::Interrupts,
        form: Form::Cpus,
        want: Want::Own,
        is_for_flash: false,
        moves: &[],
    },
    Setting {
        name: "turbo",
        what: "turbo off",
        cost: "the frequency depends on heat and on other cores: the guide's p99 goes from 15 us to 11 us at 2.3 GHz and 9 us at \
               3.0 GHz without turbo, its mean from 7.96 us to 9.2 us and 7.57 us",
        source: GUIDE,
        price: "a slower CPU, where the base frequency is low",
        profile: Some(Profile::Measure),
        files: Files::Machine("/sys/devices/system/cpu/intel_pstate/no_turbo"),
        form: Form::Number,
        want: Want::Value("1"),
        is_for_flash: false,
        moves: &["turbo", "fixed-2.3-GHz", "fixed-3.0-GHz"],
    },
    Setting {
        name: "turbo",
        what: "turbo off",
        cost: "the frequency depends on heat and on other cores: the guide's p99 goes from 15 us to 11 us at 2.3 GHz and 9 us at \
               3.0 GHz without turbo, its mean from 7.96 us to 9.2 us and 7.57 us",
        source: GUIDE,
        price: "a slower CPU, where the base frequency is low",
        profile: Some(Profile::Measure),
        files: Files::Machine("/sys/devices/system/cpu/cpufreq/boost"),
        form: Form::Number,
        want: Want::Value("0"),
        is_for_flash: false,
        moves: &["turbo", "fixed-2.3-GHz", "fixed-3.0-GHz"],
    },
    // When turbo is disabled, the kernel lowers values above the new maximum (drivers/cpufreq/intel_pstate.c,
    // store_no_turbo).
    put_back(
        "turbo",
        "the least performance as it was",
        CPUFREQ,
        Files::Machine("/sys/devices/system/cpu/intel_pstate/min_perf_pct"),
    ),
    // The file for all policies sets each policy's own file, and its maximum frequency (drivers/cpufreq/cpufreq.c,
    // cpufreq_boost_trigger_state).
    put_back("turbo", "each policy's own turbo as it was", CPUFREQ, Files::Policies("boost")),
    put_back("turbo", "each policy's highest frequency as it was", CPUFREQ, Files::Policies("scaling_max_freq")),
    // The guide's two rows without turbo are alternatives: the ladder uses one at a time. The upper bound comes
    // first, since the kernel does not accept a lower bound above it as written.
    fixed(AT_2_3_GHZ, "scaling_max_freq"),
    fixed(AT_2_3_GHZ, "scaling_min_freq"),
    fixed(AT_3_0_GHZ, "scaling_max_freq"),
    fixed(AT_3_0_GHZ, "scaling_min_freq"),
    Setting {
        name: "scheduler",
        what: "no I/O scheduler",
        cost: "each request goes through a queue under a lock to save seeks that a drive without moving parts does not have",
        source: GUIDE,
        price: "no priorities between processes (ionice), and no preference of reads over writes by the kernel",
        profile: Some(Profile::DefaultSafe),
        files: Files::Queue("scheduler"),
        form: Form::Marked,
        want: Want::Value("none"),
        is_for_flash: true,
        moves: &["scheduler", "write-throttling", "requests"],
    },
    // The scheduler's settings return to their defaults each time it is selected.
    put_back("scheduler", "the scheduler's own settings as they were", SYSFS_BLOCK, Files::Scheduler),
    Setting {
        name: "write-throttling",
        what: "writeback not throttled (wbt)",
        cost: "the kernel scales down what it writes back from the page cache where reads take longer",
        source: SYSFS_BLOCK,
        price: "reads wait behind long trains of writes",
        profile: Some(Profile::Measure),
        files: Files::Queue("wbt_lat_usec"),
        form: Form::Number,
        want: Want::Value("0"),
        is_for_flash: false,
        moves: &[],
    },
    Setting {
        name: "requests",
        what: "room for 32 requests in a queue",
        cost: "what is deeper waits outside, unsorted and unseen by the drive; the guide loads drives 32 deep",
        source: GUIDE,
        price: "requests wait in the drive rather than in the kernel",
        profile: Some(Profile::Latency),
        files: Files::Queue("nr_requests"),
        form: Form::Number,
        want: Want::Least(32),
        is_for_flash: false,
        moves: &[],
    },
    Setting {
        name: "completion-affinity",
        what: "I/Os end near the CPU that asked (rq_affinity)",
        cost: "the request's data are in another CPU's cache",
        source: SYSFS_BLOCK,
        price: "an interrupt between CPUs for some I/Os",
        profile: Some(Profile::DefaultSafe),
        files: Files::Queue("rq_affinity"),
        form: Form::Number,
        want: Want::Least(1),
        is_for_flash: false,
        moves: &[],
    },
    Setting {
        name: "merges",
        what: "no search for requests to merge (nomerges)",
        cost: "of random I/O there are none: the search costs CPU each time and finds nothing",
        source: SYSFS_BLOCK,
        price: "sequential I/O in small pieces stays in small pieces",
        profile: Some(Profile::Measure),
        files: Files::Queue("nomerges"),
        form: Form::Number,
        want: Want::Value("2"),
        is_for_flash: true,
        moves: &[],
    },
    Setting {
        name: "statistics",
        what: "I/Os not timed by the kernel (iostats)",
        cost: "two looks at the clock and some counting for each I/O",
        source: SYSFS_BLOCK,
        price: "iostat, sar and all that reads /proc/diskstats see nothing of it any more",
        profile: Some(Profile::Measure),
        files: Files::Queue("iostats"),
        form: Form::Number,
        want: Want::Value("0"),
        is_for_flash: false,
        moves: &[],
    },
    Setting {
        name: "entropy",
        what: "I/Os give no entropy (add_random)",
        cost: "some work for each I/O, in its interrupt",
        source: SYSFS_BLOCK,
        price: "less entropy early at the start, on machines without another source of it",
        profile: Some(Profile::DefaultSafe),
        files: Files::Queue("add_random"),
        form: Form::Number,
        want: Want::Value("0"),
        is_for_flash: false,
        moves: &[],
    },
    Setting {
        name: "drive-sleep",
        what: "the drive may not put itself to sleep (APST)",
        cost: "the first I/O after a pause waits for the drive to wake up",
        source: "Linux, drivers/nvme/host/core.c (APST)",
        price: "more power and heat when idle; on a laptop, hours of battery",
        profile: Some(Profile::Latency),
        files: Files::Controller("power/pm_qos_latency_tolerance_us"),
        form: Form::Word { among: None },
        want: Want::Value("0"),
        is_for_flash: false,
        moves: &[],
    },
    Setting {
        name: "sata-link-power",
        what: "the SATA link does not sleep",
        cost: "the first I/O after a pause waits for the link to wake up",
        source: "Linux, Documentation/ABI/testing/sysfs-class-scsi_host (link_power_management_policy)",
        price: "more power when idle",
        profile: Some(Profile::Latency),
        files: Files::SataLink,
        form: Form::Word { among: None },
        want: Want::Value("max_performance"),
        is_for_flash: false,
        moves: &[],
    },
    Setting {
        name: "aspm-policy",
        what: "PCIe links do not sleep (ASPM performance)",
        cost: "links of PCIe sleep between I/Os, and the next one waits until they are awake. The guide turns ASPM off",
        source: GUIDE,
        price: "more power when idle",
        profile: Some(Profile::Latency),
        files: Files::Machine("/sys/module/pcie_aspm/parameters/policy"),
        form: Form::Marked,
        want: Want::Value("performance"),
        is_for_flash: false,
        moves: &[],
    },
    Setting {
        name: "huge-pages",
        what: "memory is compacted only for who asks (THP defrag)",
        cost: "a program that touches new memory stalls while the kernel reclaims and compacts memory for a huge page",
        source: "Linux, admin-guide/mm/transhuge.rst",
        price: "fewer huge pages for programs that do not ask, and so more misses of the TLB",
        profile: Some(Profile::DefaultSafe),
        files: Files::Machine("/sys/kernel/mm/transparent_hugepage/defrag"),
        form: Form::Marked,
        want: Want::Instead { of: "always", by: "madvise" },
        is_for_flash: false,
        moves: &[],
    },
    Setting {
        name: "numa-balancing",
        what: "the kernel moves no pages between nodes",
        cost: "the kernel unmaps pages again and again to see which node uses them, and each first use is a page fault",
        source: "Linux, admin-guide/sysctl/kernel.rst (numa_balancing)",
        price: "programs that are not bound may use memory far from them for long",
        profile: Some(Profile::Latency),
        files: Files::Machine("/proc/sys/kernel/numa_balancing"),
        form: Form::Number,
        want: Want::Value("0"),
        is_for_flash: false,
        moves: &[],
    },
    Setting {
        name: "swap",
        what: "swapping as late as can be (swappiness)",
        cost: "memory that was swapped out is read back in the middle of an I/O's path. The guide turns the paging file off",
        source: GUIDE,
        price: "less page cache, where programs hold memory that they do not use",
        profile: Some(Profile::Latency),
        files: Files::Machine("/proc/sys/vm/swappiness"),
        form: Form::Number,
        want: Want::Most(1),
        is_for_flash: false,
        moves: &[],
    },
];

impl Setting {
    /// Whether it excludes others of its kind: a ladder uses one of them at a time.
    pub fn is_alternative(&self) -> bool {
        matches!(self.files, Files::Fixed { .. })
    }

    /// Parses the value in a file's text.
    pub(super) fn value(&self, path: &str, text: &str) -> Reading<String> {
        let text = text.trim_end_matches(|c: char| c.is_whitespace() || c == '\0');
        let unknown = || Lack::unreadable(path, format!("{:?} is no value that is known here", shown(text)));
        match self.form {
            Form::Marked => chosen(path, text),
            Form::Number => parsed_number(path, text).map(|number| number.to_string()),
            Form::Cpus => members(path, text).map(|_| text.trim().to_owned()),
            Form::Process => super::process::state(text).map(str::to_owned).ok_or_else(unknown),
            Form::Word { .. } => {
                let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
                let is_plain = (1..=64).contains(&text.len()) && text.chars().all(is_word);
                if is_plain { Ok(text.to_owned()) } else { Err(unknown()) }
            }
        }
    }

    /// The text that a file in a copy gets when `value` is written to it, with `text` as its old text: in the form
    /// that the kernel would show.
    pub(super) fn text_with(&self, text: &str, value: &str) -> String {
        let end = text.trim_end_matches(|c: char| c.is_whitespace() || c == '\0').len();
        let (said, behind) = text.split_at(end);
        if self.form != Form::Marked || !said.contains('[') {
            return format!("{value}{behind}");
        }
        let words = said.split(' ').map(|word| {
            let plain = word.trim_start_matches('[').trim_end_matches(']');
            if plain == value { format!("[{plain}]") } else { plain.to_owned() }
        });
        format!("{}{behind}", words.collect::<Vec<_>>().join(" "))
    }

    /// The new value of a file that has `value`; `None` if it may stay. `own` is the value specific to the file.
    pub(super) fn wanted(&self, value: &str, own: Option<&str>) -> Option<String> {
        let number = || value.parse::<i64>().ok();
        let wanted = match self.want {
            Want::Value(wanted) => Some(wanted.to_owned()),
            Want::Least(least) => number().filter(|&number| number < least).map(|_| least.to_string()),
            Want::Most(most) => number().filter(|&number| number > most).map(|_| most.to_string()),
            Want::Instead { of, by } => (value == of).then(|| by.to_owned()),
            Want::Own => own.map(str::to_owned),
            Want::Nothing => None,
        };
        wanted.filter(|wanted| wanted != value)
    }
}
