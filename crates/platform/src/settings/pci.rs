//! The place of a device in the PCI tree, and the state of its link.

use super::text::number;
use crate::lack::{Lack, Reading, shown};
use crate::tree::Tree;

/// Power states of a link, as its folder names them.
pub const LINK_STATES: [&str; 6] = ["l0s_aspm", "l1_aspm", "l1_1_aspm", "l1_2_aspm", "l1_1_pcipm", "l1_2_pcipm"];

/// A PCI device, and the bridges between it and the CPU.
#[derive(Clone, Debug)]
pub struct Pci {
    /// Such as `0000:01:00.0`.
    pub address: String,
    /// Its folder below `/sys`.
    pub path: String,
    /// Bridges from the root port down to the device.
    pub bridges: Vec<Bridge>,
    /// Width and speed of the link, now and at most.
    pub link: Link,
    /// Power states that the link supports, and whether the kernel allows each (1) or not (0).
    pub link_states: Vec<(&'static str, Reading<i64>)>,
    /// The NUMA node to which it is attached; negative if not known.
    pub node: Reading<i64>,
    /// CPUs of that node.
    pub local_cpus: Reading<String>,
    /// How the IOMMU translates its DMA: `DMA`, `DMA-FQ` or `identity`.
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

/// A PCI Express link.
#[derive(Clone, Debug)]
pub struct Link {
    /// Lanes in use.
    pub width: Reading<i64>,
    /// Number of lanes at most.
    pub max_width: Reading<i64>,
    /// Present speed, in GT/s for each lane.
    pub speed_gts: Reading<f64>,
    /// Highest speed, in GT/s for each lane.
    pub max_speed_gts: Reading<f64>,
}

/// Whether a name is an address such as `0000:01:00.0`, also with the longer domains of Intel's VMD.
pub fn is_address(name: &str) -> bool {
    let Some((rest, function)) = name.rsplit_once('.') else { return false };
    let parts: Vec<&str> = rest.split(':').collect();
    let is_hex = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    parts.len() == 3 && parts.iter().all(|part| is_hex(part)) && parts[0].len() >= 4 && is_hex(function)
}

impl Pci {
    /// The last PCI device in a path below `/sys/devices`; `None` if there is none.
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
