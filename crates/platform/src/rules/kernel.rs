//! The kernel: nodes, clock, command line, memory, and parameters of its drivers.

use super::words::{GUIDE, at_each_start, different, on_command_line};
use crate::finding::{Finding, Outcome, Severity};
use crate::lack::{Lack, Reading, shown};
use crate::machine::Machine;

pub(super) fn virtual_machine(machine: &Machine) -> Reading<Outcome> {
    if !machine.is_virtual() {
        let identity = machine.cpu.identity.clone()?;
        // Only x86 has a flag for this.
        let is_sure = !identity.vendor.is_empty();
        let bare = Outcome::good("no hypervisor is below");
        return Ok(if is_sure {
            bare
        } else {
            Outcome::Unknown("nothing says whether a hypervisor is below".to_owned())
        });
    }
    let by = [&machine.kernel.hypervisor, &machine.kernel.maker].into_iter().filter_map(|name| name.as_ref().ok());
    let by: Vec<String> = by.map(|name| shown(name)).collect();
    let by = if by.is_empty() { String::new() } else { format!(" ({})", by.join(", ")) };
    Ok(Outcome::found(Finding {
        severity: Severity::Note,
        what: format!("this is a virtual machine{by}"),
        cost: "a request to a virtual disk may stop the guest, its interrupt may too, and the host decides on frequency, sleep \
               and neighbours. What is found here is the guest's part alone: look at the host as well"
            .to_owned(),
        source: "the CPU's flag hypervisor, or /sys/hypervisor/type".to_owned(),
        now: "run forebay doctor on the host too".to_owned(),
        for_good: "measure drives on bare metal, or pass the drive through to the guest".to_owned(),
        price: "a machine, or a drive, for one purpose".to_owned(),
    }))
}

pub(super) fn numa(machine: &Machine) -> Reading<Outcome> {
    let nodes = machine.kernel.nodes.clone()?;
    if nodes < 2 {
        return Ok(Outcome::good("one NUMA node"));
    }
    Ok(Outcome::found(Finding {
        severity: Severity::Note,
        what: format!("{nodes} NUMA nodes"),
        cost: "an I/O whose process, memory or interrupt is on another node than the drive crosses between sockets, by the guide \
               hundreds of nanoseconds each time. --device says which node a drive is on"
            .to_owned(),
        source: GUIDE.to_owned(),
        now: "numactl --cpunodebind=N --membind=N before the program, N the drive's node".to_owned(),
        for_good: "CPUAffinity= and NUMAPolicy= in the service's unit".to_owned(),
        price: "the other nodes' CPUs stay idle".to_owned(),
    }))
}

pub(super) fn numa_balancing(machine: &Machine) -> Reading<Outcome> {
    if machine.kernel.nodes.clone()? < 2 {
        return Ok(Outcome::NotHere);
    }
    match &machine.kernel.numa_balancing {
        Err(Lack::Absent { .. }) => Ok(Outcome::NotHere),
        Err(lack) => Err(lack.clone()),
        Ok(0) => Ok(Outcome::good("the kernel does not move pages between nodes")),
        Ok(_) => Ok(Outcome::found(Finding {
            severity: Severity::CostsLatency,
            what: "automatic NUMA balancing is on".to_owned(),
            cost: "the kernel unmaps pages again and again to see which node uses them, and each first use is a page fault. Its \
                   documentation asks to turn it off for what is bound to a node already"
                .to_owned(),
            source: "Linux, admin-guide/sysctl/kernel.rst (numa_balancing)".to_owned(),
            now: "sysctl kernel.numa_balancing=0".to_owned(),
            for_good: "/etc/sysctl.d/90-forebay.conf: kernel.numa_balancing = 0".to_owned(),
            price: "programs that are not bound may use memory far from them for long".to_owned(),
        })),
    }
}

pub(super) fn clock(machine: &Machine) -> Reading<Outcome> {
    let clock = machine.kernel.clock.clone()?;
    match clock.as_str() {
        "tsc" | "arch_sys_counter" | "kvm-clock" | "hyperv_clocksource_tsc_page" | "riscv_clocksource" => {
            Ok(Outcome::good(format!("time comes from {clock}, which programs read without the system")))
        }
        "hpet" | "acpi_pm" | "jiffies" | "pit" | "refined-jiffies" => {
            let has_tsc =
                machine.kernel.clocks.as_ref().is_ok_and(|all| all.split_whitespace().any(|name| name == "tsc"));
            let now = if has_tsc {
                "echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource"
            } else {
                "nothing: the kernel does not trust the TSC here; its log says why (dmesg | grep -i tsc)"
            };
            Ok(Outcome::found(Finding {
                severity: Severity::CostsLatency,
                what: format!("time comes from {clock}"),
                cost: "each look at the clock is a call of the system and a read of a slow device instead of one instruction. What \
                       times every I/O looks at it twice for each, and so does the kernel for its statistics"
                    .to_owned(),
                source: "Linux, arch/x86: only TSC, pvclock and Hyper-V's page are read in the vDSO".to_owned(),
                now: now.to_owned(),
                for_good: on_command_line("clocksource=tsc tsc=reliable (only where it really is)"),
                price: "wrong times, where the TSC was left for a reason".to_owned(),
            }))
        }
        other => Ok(Outcome::Unknown(format!("time comes from {:?}, whose cost is not known here", shown(other)))),
    }
}

pub(super) fn command_line(machine: &Machine) -> Reading<Outcome> {
    let words = machine.kernel.command_line.clone()?;
    let harm = |word: &str| match word {
        "threadirqs" => Some("every interrupt wakes a thread, and the I/O waits for it"),
        "idle=poll" => Some("no CPU ever sleeps: good for latency, but hot, and bad for turbo and for SMT neighbours"),
        "pcie_aspm=force" => Some("links sleep even where devices say that they cannot"),
        "iommu.strict=1" => Some("each I/O ends with a call to the IOMMU"),
        "init_on_free=1" | "init_on_alloc=1" => Some("memory is zeroed each time the kernel takes or frees it"),
        word if word.starts_with("slub_debug") => Some("each object of the kernel is checked when taken and freed"),
        word if word.starts_with("nohz=off") => Some("idle CPUs are woken by the clock"),
        _ => None,
    };
    let found: Vec<String> =
        words.iter().filter_map(|word| harm(word).map(|why| format!("{}: {why}", shown(word)))).collect();
    if found.is_empty() {
        let words = if words.is_empty() { "nothing of interest".to_owned() } else { shown(&words.join(" ")) };
        return Ok(Outcome::good(format!("the kernel's command line: {words}")));
    }
    Ok(Outcome::found(Finding {
        severity: Severity::CostsLatency,
        what: format!("on the kernel's command line, {}", found.join("; ")),
        cost: "paid by each I/O, or by each interrupt, as said".to_owned(),
        source: "Linux, admin-guide/kernel-parameters.txt".to_owned(),
        now: "nothing: it is read at the start".to_owned(),
        for_good: "take it out of the boot loader's configuration".to_owned(),
        price: "what it was put there for".to_owned(),
    }))
}

pub(super) fn huge_pages(machine: &Machine) -> Reading<Outcome> {
    let enabled = match &machine.kernel.huge_pages {
        Err(Lack::Absent { .. }) => return Ok(Outcome::NotHere),
        other => other.clone()?,
    };
    let defrag = machine.kernel.huge_pages_defrag.clone()?;
    if enabled != "always" || defrag != "always" {
        return Ok(Outcome::good(format!("huge pages: {}, compacted for: {}", shown(&enabled), shown(&defrag))));
    }
    Ok(Outcome::found(Finding {
        severity: Severity::CostsLatency,
        what: "huge pages are made for everybody, and everybody waits for them (enabled and defrag say always)"
            .to_owned(),
        cost: "a program that touches new memory stalls while the kernel reclaims and compacts memory for a huge page"
            .to_owned(),
        source: "Linux, admin-guide/mm/transhuge.rst".to_owned(),
        now: "echo madvise > /sys/kernel/mm/transparent_hugepage/defrag".to_owned(),
        for_good: at_each_start("/sys/kernel/mm/transparent_hugepage/defrag", "madvise"),
        price: "fewer huge pages for programs that do not ask, and so more misses of the TLB".to_owned(),
    }))
}

pub(super) fn swap(machine: &Machine) -> Reading<Outcome> {
    let areas = machine.kernel.swap.clone()?;
    if areas.is_empty() {
        return Ok(Outcome::good("no swap"));
    }
    let kinds = different(areas.iter().map(|kind| shown(kind))).join(", ");
    Ok(Outcome::found(Finding {
        severity: Severity::CostsLatency,
        what: format!("swap is on: {} ({kinds})", areas.len()),
        cost: "memory that was swapped out is read back in the middle of an I/O's path, and swapping is itself I/O beside what is \
               measured. The guide turns the paging file off"
            .to_owned(),
        source: GUIDE.to_owned(),
        now: "swapoff -a, while the memory suffices".to_owned(),
        for_good: "take it out of /etc/fstab; systemctl mask the swap unit".to_owned(),
        price: "out of memory comes sooner, and kills a process".to_owned(),
    }))
}

pub(super) fn aspm_policy(machine: &Machine) -> Reading<Outcome> {
    let policy = machine.kernel.aspm_policy.clone()?;
    match policy.as_str() {
        "performance" => Ok(Outcome::good("PCIe links are not put to sleep (ASPM policy performance)")),
        "default" => Ok(Outcome::Unknown(
            "the ASPM policy is default: the firmware's choice; --device shows what the link of a drive may do".to_owned(),
        )),
        "powersave" | "powersupersave" => Ok(Outcome::found(Finding {
            severity: Severity::CostsLatency,
            what: format!("the ASPM policy is {policy}"),
            cost: "links of PCIe sleep between I/Os, and the next one waits until they are awake. The guide turns ASPM off".to_owned(),
            source: format!("{GUIDE}; Linux, drivers/pci/pcie/aspm.c"),
            now: "echo performance > /sys/module/pcie_aspm/parameters/policy".to_owned(),
            for_good: on_command_line("pcie_aspm.policy=performance"),
            price: "more power when idle".to_owned(),
        })),
        other => Ok(Outcome::Unknown(format!("the ASPM policy is {:?}", shown(other)))),
    }
}

pub(super) fn nvme_sleep(machine: &Machine) -> Reading<Outcome> {
    let latency_us = match &machine.kernel.nvme_sleep_latency_us {
        Err(Lack::Absent { .. }) => return Ok(Outcome::NotHere),
        other => other.clone()?,
    };
    if latency_us == 0 {
        return Ok(Outcome::good("NVMe drives are not allowed to put themselves to sleep"));
    }
    Ok(Outcome::found(Finding {
        severity: Severity::Note,
        what: format!("NVMe drives may put themselves to sleep where waking takes up to {latency_us} us"),
        cost: "the first I/O after a pause waits for the drive to wake up. Only drives with such states do it (APST); which ones a \
               drive has takes a command to it: --device asks it"
            .to_owned(),
        source: "Linux, drivers/nvme/host/core.c (default_ps_max_latency_us, of new drives; --device has the drive's own)".to_owned(),
        now: "echo 0 > /sys/class/nvme/nvmeN/power/pm_qos_latency_tolerance_us".to_owned(),
        for_good: on_command_line("nvme_core.default_ps_max_latency_us=0"),
        price: "more power and heat when idle; on a laptop, hours of battery".to_owned(),
    }))
}

pub(super) fn poll_queues(machine: &Machine) -> Reading<Outcome> {
    let queues = match &machine.kernel.nvme_poll_queues {
        Err(Lack::Absent { .. }) => return Ok(Outcome::NotHere),
        other => other.clone()?,
    };
    if queues > 0 {
        return Ok(Outcome::good(format!("NVMe drives have {queues} queues for polled I/O")));
    }
    Ok(Outcome::found(Finding {
        severity: Severity::CostsLatency,
        what: "NVMe drives have no queues for polled I/O".to_owned(),
        cost: "what asks to poll (preadv2 with RWF_HIPRI, IORING_SETUP_IOPOLL) waits for interrupts all the same, or is refused. \
               The reads at depth 1 of the guide's ladder are polled ones"
            .to_owned(),
        source: format!("{GUIDE}; io_uring_setup(2); Linux, drivers/nvme/host/pci.c (poll_queues)"),
        now: "nvme.poll_queues is read when a drive is set up: echo N > /sys/module/nvme/parameters/poll_queues, then \
              echo 1 > /sys/class/nvme/nvmeN/reset_controller while nobody uses it"
            .to_owned(),
        for_good: on_command_line("nvme.poll_queues=N"),
        price: "who polls takes a whole CPU; the drive has fewer queues with interrupts".to_owned(),
    }))
}

pub(super) fn array_check(machine: &Machine) -> Reading<Outcome> {
    let work = machine.kernel.array_work.clone()?;
    if work.is_empty() {
        return Ok(Outcome::good("no array of md is being checked or rebuilt"));
    }
    Ok(Outcome::found(Finding {
        severity: Severity::CostsThroughput,
        what: format!("arrays are being worked on: {}", shown(&work.join(", "))),
        cost: "reads and writes of all their drives, beside what is measured".to_owned(),
        source: "Linux, admin-guide/md.rst (sync_action)".to_owned(),
        now: "wait; a check alone can be stopped: echo idle > /sys/block/mdN/md/sync_action".to_owned(),
        for_good: "move the time of the check (mdcheck_start.timer, raid-check.timer)".to_owned(),
        price: "a rebuild that is put off leaves data without its copy".to_owned(),
    }))
}
