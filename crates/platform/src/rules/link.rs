//! The place of a drive in PCI, and its link.

use super::words::{GUIDE, on_command_line};
use crate::finding::{Finding, Outcome, Severity};
use crate::lack::{Lack, Reading, shown};
use crate::machine::Machine;
use crate::settings::device::Device;
use crate::settings::pci::{Bridge, Pci};

const INTEL: &str = "0x8086";
/// Vendors of the switch in AMD's chipsets: AMD, and its manufacturer ASMedia.
const AMD_CHIPSET: [&str; 2] = ["0x1022", "0x1b21"];

/// A real PCI device: the links that a guest sees are made up by the hypervisor.
fn real<'a>(machine: &Machine, device: &'a Device) -> Option<&'a Pci> {
    if machine.is_virtual() { None } else { device.pci.as_ref() }
}

fn domain(address: &str) -> &str {
    address.split(':').next().unwrap_or(address)
}

/// Bridges in the device's own domain: those above Intel's VMD belong to another.
fn bridges(pci: &Pci) -> Vec<&Bridge> {
    pci.bridges.iter().filter(|bridge| domain(&bridge.address) == domain(&pci.address)).collect()
}

pub(super) fn node(machine: &Machine, device: &Device) -> Reading<Outcome> {
    let Some(pci) = &device.pci else { return Ok(Outcome::NotHere) };
    if machine.kernel.nodes.clone()? < 2 {
        return Ok(Outcome::NotHere);
    }
    let node = pci.node.clone()?;
    if node < 0 {
        return Ok(Outcome::Unknown("the firmware does not say which node it is attached to".to_owned()));
    }
    let cpus = pci.local_cpus.as_ref().map_or("unknown".to_owned(), |cpus| shown(cpus));
    Ok(Outcome::found(Finding {
        severity: Severity::Note,
        what: format!("it is attached to node {node} (CPUs {cpus})"),
        cost: "I/O of other nodes' CPUs, or into their memory, crosses between sockets: by the guide hundreds of nanoseconds each \
               time"
            .to_owned(),
        source: GUIDE.to_owned(),
        now: format!("numactl --cpunodebind={node} --membind={node} before what uses it"),
        for_good: format!("CPUAffinity=numa NUMAPolicy=bind NUMAMask={node} in the service's unit"),
        price: "the other nodes' CPUs do not serve it".to_owned(),
    }))
}

/// Intel's chipsets have their root ports in slots 1b to 1d of the first bus.
fn is_intel_chipset(port: &Bridge) -> bool {
    let parts: Vec<&str> = port.address.split([':', '.']).collect();
    parts.len() == 4
        && parts[1] == "00"
        && matches!(parts[2], "1b" | "1c" | "1d")
        && port.vendor.as_ref().is_ok_and(|vendor| vendor == INTEL)
}

pub(super) fn attachment(machine: &Machine, device: &Device) -> Reading<Outcome> {
    let Some(pci) = real(machine, device) else { return Ok(Outcome::NotHere) };
    let above = bridges(pci);
    if above.len() < pci.bridges.len() {
        return Ok(Outcome::Unknown(format!(
            "{} is behind Intel's VMD, which hides whether its lanes are the CPU's or the chipset's",
            pci.address
        )));
    }
    let behind = match above.as_slice() {
        [] => return Ok(Outcome::good(format!("{} is on the CPU's own bus", pci.address))),
        [port] if is_intel_chipset(port) => "the chipset (PCH), by the address of its port".to_owned(),
        [port] => return Ok(Outcome::good(format!("{} is on a port of the CPU, {}", pci.address, port.address))),
        [_, switch, ..] => {
            let vendor = switch.vendor.as_ref().map_or("unknown", String::as_str);
            if AMD_CHIPSET.contains(&vendor) {
                format!("a switch of vendor {vendor}, as in AMD's chipsets")
            } else {
                format!("a PCIe switch (vendor {})", shown(vendor))
            }
        }
    };
    Ok(Outcome::found(Finding {
        severity: Severity::CostsLatency,
        what: format!("{} is attached through {behind}", pci.address),
        cost: "each transfer takes one more hop, and shares the lanes to the CPU with all that is behind it. The guide asks for lanes \
               of the CPU, not those behind the chipset (DMI), and gives no figure"
            .to_owned(),
        source: format!("{GUIDE}; the path of the device in /sys/devices"),
        now: "nothing".to_owned(),
        for_good: "another slot: the board's manual says which are the CPU's".to_owned(),
        price: "lanes that a graphics or network card would have".to_owned(),
    }))
}

/// What limits the link: the slot, or something else.
fn held_by(port: Option<f64>, device: f64) -> &'static str {
    match port {
        Some(port) if port < device => "the port above it has no more",
        Some(_) => "port and drive could do more: the slot's wiring, a riser, a dirty contact, or errors on the link",
        None => "what the port above it could do is not known",
    }
}

/// `None` if the device is not PCI Express.
fn pair<T: Copy>(now: &Reading<T>, max: &Reading<T>) -> Reading<Option<(T, T)>> {
    match (now, max) {
        (Err(Lack::Absent { .. }), _) | (_, Err(Lack::Absent { .. })) => Ok(None),
        (Err(lack), _) | (_, Err(lack)) => Err(lack.clone()),
        (Ok(now), Ok(max)) => Ok(Some((*now, *max))),
    }
}

fn slow_link(what: String, held: &str) -> Finding {
    Finding {
        severity: Severity::CostsThroughput,
        what,
        cost: format!("large transfers take longer, and the drive's rates of sequential I/O cannot be reached; {held}"),
        source: "Linux, drivers/pci/pci-sysfs.c (current_link_*, max_link_*)".to_owned(),
        now: "look for errors: lspci -vv, dmesg | grep -i aer; seat the drive again".to_owned(),
        for_good: "a slot with as many lanes of that generation; the firmware's setting for it".to_owned(),
        price: "none, or another card's lanes".to_owned(),
    }
}

pub(super) fn width(machine: &Machine, device: &Device) -> Reading<Outcome> {
    let Some(pci) = real(machine, device) else { return Ok(Outcome::NotHere) };
    let Some((now, max)) = pair(&pci.link.width, &pci.link.max_width)? else { return Ok(Outcome::NotHere) };
    if now >= max {
        return Ok(Outcome::good(format!("its link has all of its {max} lanes")));
    }
    let port = bridges(pci).last().and_then(|port| port.link.max_width.as_ref().ok().map(|&lanes| lanes as f64));
    Ok(Outcome::found(slow_link(format!("its link has {now} of {max} lanes"), held_by(port, max as f64))))
}

pub(super) fn speed(machine: &Machine, device: &Device) -> Reading<Outcome> {
    let Some(pci) = real(machine, device) else { return Ok(Outcome::NotHere) };
    let Some((now, max)) = pair(&pci.link.speed_gts, &pci.link.max_speed_gts)? else { return Ok(Outcome::NotHere) };
    if now >= max {
        return Ok(Outcome::good(format!("its link runs at all of its {max} GT/s")));
    }
    let port = bridges(pci).last().and_then(|port| port.link.max_speed_gts.as_ref().ok().copied());
    Ok(Outcome::found(slow_link(format!("its link runs at {now} of {max} GT/s"), held_by(port, max))))
}

pub(super) fn power_states(machine: &Machine, device: &Device) -> Reading<Outcome> {
    let Some(pci) = real(machine, device) else { return Ok(Outcome::NotHere) };
    let mut on = Vec::new();
    let mut is_known = false;
    for (name, state) in &pci.link_states {
        match state {
            Ok(value) => {
                is_known = true;
                if *value != 0 {
                    on.push(*name);
                }
            }
            Err(Lack::Absent { .. }) => {}
            Err(lack) => return Err(lack.clone()),
        }
    }
    if !is_known {
        return Ok(Outcome::Unknown(format!(
            "{}/link is not there: the link has no such states, or the firmware keeps them to itself",
            pci.path
        )));
    }
    if on.is_empty() {
        return Ok(Outcome::good("its link does not sleep"));
    }
    Ok(Outcome::found(Finding {
        severity: Severity::CostsLatency,
        what: format!("its link may sleep ({})", on.join(", ")),
        cost: "the first transfer after a pause waits until the link is awake, longer for the deeper states (l1_2 the deepest). The \
               guide turns ASPM off"
            .to_owned(),
        source: format!("{GUIDE}; Linux, ABI/testing/sysfs-bus-pci (link/*)"),
        now: format!("for s in {}/link/*_*pm; do echo 0 > $s; done", pci.path),
        for_good: on_command_line("pcie_aspm.policy=performance"),
        price: "more power when idle".to_owned(),
    }))
}

pub(super) fn translation(_: &Machine, device: &Device) -> Reading<Outcome> {
    let Some(pci) = &device.pci else { return Ok(Outcome::NotHere) };
    let kind = match &pci.translation {
        Err(Lack::Absent { .. }) => return Ok(Outcome::NotHere),
        other => other.clone()?,
    };
    match kind.as_str() {
        "DMA-FQ" => Ok(Outcome::good("its DMA is translated, and translations are taken back in batches")),
        "identity" => Ok(Outcome::good("its DMA is not translated: quickest, and nothing guards memory from it")),
        "DMA" => Ok(Outcome::found(Finding {
            severity: Severity::CostsLatency,
            what: "its DMA is translated by the IOMMU, strictly".to_owned(),
            cost: "each I/O makes a translation and takes it back at once, which waits for the IOMMU".to_owned(),
            source: "Linux, ABI/testing/sysfs-kernel-iommu_groups (type)".to_owned(),
            now: "nothing while a driver is bound to it".to_owned(),
            for_good: on_command_line("iommu.strict=0 (in batches), or iommu.passthrough=1 (not at all)"),
            price: "a device may reach memory a little longer, or always".to_owned(),
        })),
        other => Ok(Outcome::Unknown(format!("its DMA is translated as {:?}", shown(other)))),
    }
}
