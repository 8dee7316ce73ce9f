//! Lists who uses a disk: connected clients and sources of evidence, named so that an operator can end them.

use crate::evidence::Wanted;
use forebay_export::ServerControl;
use forebay_export::server::Peer;

/// Most clients of an export that are named; the rest are counted.
const NAMED_MAX: usize = 8;

/// One sentence for each export with clients, and for each source of evidence with how to end it.
pub fn of_disk(exports: &[(u16, String)], evidence: &[&Wanted], server: &ServerControl<'_>) -> Vec<String> {
    let clients = exports.iter().filter_map(|(index, name)| {
        let peers: Vec<Peer> = server.clients(*index).collect();
        let more = peers.len().saturating_sub(NAMED_MAX);
        let mut named: Vec<String> = peers.iter().take(NAMED_MAX).map(peer_name).collect();
        if more > 0 {
            named.push(format!("{more} more"));
        }
        (!peers.is_empty()).then(|| {
            let count =
                if peers.len() == 1 { "a client is".to_owned() } else { format!("{} clients are", peers.len()) };
            format!("{count} connected to export {name:?} ({}): unmount and disconnect first", named.join(", "))
        })
    });
    let evidence = evidence.iter().map(|wanted| {
        let places = [("device", &wanted.device), ("mount", &wanted.mount)].into_iter();
        let places: Vec<String> =
            places.filter_map(|(kind, path)| Some(format!("{kind} {}", path.as_ref()?.display()))).collect();
        format!(
            "evidence is attached to it ({}): `forebay evidence CONFIG detach --disk {}` first",
            places.join(", "),
            wanted.disk
        )
    });
    clients.chain(evidence).collect()
}

/// Name of a client for the operator.
pub fn peer_name(peer: &Peer) -> String {
    match peer {
        Peer::Process(pid) => {
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            let name = name.trim();
            if name.is_empty() { format!("process {pid}") } else { format!("process {pid}, {name}") }
        }
        Peer::Address(address) => address.to_string(),
        Peer::Ublk(number) => format!("/dev/ublkb{number}"),
        Peer::Unknown => "unknown".to_owned(),
    }
}
