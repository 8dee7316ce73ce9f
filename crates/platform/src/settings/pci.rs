//! Where a device sits in the PCI tree, and how its link runs.

use super::text::number;
use crate::lack::{Lack, Reading, shown};
use crate::tree::Tree;

/// Power states of a link, as its folder names them.
pub const LINK_STATES: [&str; 6] = ["l0s_aspm", "l1_aspm", "l1_1_aspm", "l1_2_aspm", "l1_1_pcipm", "l1_2_pcipm"];

/// A device of PCI, and the ports between it and the CPU.
#[derive(Clone, Debug)]
pub struct Pci {
    /// Such as `0000:01:00.0`.
    pub address: String,
    /// Its folder.
    pub path: String,
    /// Bridges from the root port down to the device.
    pub bridges: Vec<Bridge>,
    /// Width and speed of the link now, and at best.
    pub link: Link,
    /// Power states that the kernel may let the link enter, with whether it does.
    pub link_states: Vec<(&'static str, Reading<i64>)>,
    /// The node it is attached to; negative where none is known.
    pub node: Reading<i64>,
    /// CPUs of that node.
    pub local_cpus: Reading<String>,
    /// How its DMA is translated: `DMA`, `DMA-FQ` or `identity`.
    pub translation: Reading<String>,
}

/// A bridge above a device.
#[derive(Clone, Debug)]
pub struct Bridge {
    /// Such as `0000:00:01.0`.
    pub address: String,
    /// Such as `0x8086`.
    pub vendor: Reading<String>,
    /// The link below it.
    pub link: Link,
}

/// A link of PCI Express.
#[derive(Clone, Debug)]
pub struct Link {
    /// Lanes in use.
    pub width: Reading<i64>,
    /// Lanes it has.
    pub max_width: Reading<i64>,
    /// Speed now, in GT/s for each lane.
    pub speed_gts: Reading<f64>,
    /// Speed at best, in GT/s for each lane.
    pub max_speed_gts: Reading<f64>,
}

/// A name such as `0000:01:00.0`, also with the longer domains of Intel's VMD.
pub fn is_address(name: &str) -> bool {
    let Some((rest, function)) = name.rsplit_once('.') else { return false };
    let parts: Vec<&str> = rest.split(':').collect();
    let is_hex = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    parts.len() == 3 && parts.iter().all(|part| is_hex(part)) && parts[0].len() >= 4 && is_hex(function)
}

impl Pci {
    /// The PCI device nearest to the end of a path below `/sys/devices`.
    pub fn read(tree: &Tree, path: &str) -> Option<Self> {
        let names: Vec<&str> = path.split('/').collect();
        let last = names.iter().rposition(|name| is_address(name))?;
        let folder_of = |at: usize| names[..=at].join("/");
        let folder = folder_of(last);
        let bridges = (0..last).filter(|&at| is_address(names[at]));
        let bridge = |at: usize| Bridge {
            address: names[at].to_owned(),
            vendor: tree.read(&format!("{}/vendor", folder_of(at))),
            link: Link::read(tree, &folder_of(at)),
        };
        Some(Self {
            address: names[last].to_owned(),
            bridges: bridges.map(bridge).collect(),
            link: Link::read(tree, &folder),
            link_states: LINK_STATES.map(|state| (state, number(tree, &format!("{folder}/link/{state}")))).to_vec(),
            node: number(tree, &format!("{folder}/numa_node")),
            local_cpus: tree.read(&format!("{folder}/local_cpulist")),
            translation: tree.read(&format!("{folder}/iommu_group/type")),
            path: folder,
        })
    }
}

impl Link {
    fn read(tree: &Tree, folder: &str) -> Self {
        let at = |file: &str| format!("{folder}/{file}");
        let speed_gts = |file: &str| {
            let text = tree.read(&at(file))?;
            let first = text.split_whitespace().next().and_then(|word| word.parse().ok());
            let bad = || Lack::unreadable(&at(file), format!("{:?} is not a speed", shown(&text)));
            first.filter(|speed: &f64| speed.is_finite()).ok_or_else(bad)
        };
        Self {
            width: number(tree, &at("current_link_width")),
            max_width: number(tree, &at("max_link_width")),
            speed_gts: speed_gts("current_link_speed"),
            max_speed_gts: speed_gts("max_link_speed"),
        }
    }
}
