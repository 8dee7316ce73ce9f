//! Decides which unfinished handshake ends for a new connection: clients that connect and send nothing must not keep
//! others out.

use super::peer::Peer;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Origin of a connection, by which handshakes are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// A Unix socket, whose mode and group decide who may connect.
    Machine,
    /// A network address: of IPv4 the whole address; of IPv6 the upper half, because a host may have all addresses in
    /// the lower one (RFC 4291, "Interface Identifiers").
    Network(IpAddr),
}

impl Origin {
    /// Origin of a client over TCP (`is_network`) or a Unix socket. A TCP client that has gone already counts with
    /// all others whose address is unknown.
    pub fn of(is_network: bool, peer: Peer) -> Self {
        match is_network.then_some(peer) {
            None => Self::Machine,
            Some(Peer::Address(address)) => Self::Network(match address.ip().to_canonical() {
                IpAddr::V6(long) => IpAddr::V6((long.to_bits() >> 64 << 64).into()),
                short => short,
            }),
            Some(_) => Self::Network(IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED)),
        }
    }

    /// Whether handshakes of both origins count against the same limit.
    pub fn shares_limit(self, other: Self) -> bool {
        (self == Self::Machine) == (other == Self::Machine)
    }
}

/// Chooses the handshake that ends for a new connection: the oldest one of the origin that has most of them, counting
/// the new one. So a client that opens many connections loses its own, and clients from elsewhere keep theirs.
/// `shaking` holds place, origin and start of each handshake; returns the place.
pub fn gives_way(shaking: &[(u16, Origin, u64)], newcomer: Origin) -> Option<u16> {
    let mut counts = BTreeMap::from([(newcomer, 1usize)]);
    for &(_, origin, _) in shaking {
        *counts.entry(origin).or_default() += 1;
    }
    let count_of = |origin: &Origin| counts.get(origin).copied().unwrap_or(0);
    let most = shaking.iter().map(|(_, origin, _)| count_of(origin)).max()?;
    let of_most = shaking.iter().filter(|(_, origin, _)| count_of(origin) == most);
    of_most.min_by_key(|(_, _, since_ns)| since_ns).map(|&(index, ..)| index)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(address: &str) -> Origin {
        Origin::of(true, Peer::Address(address.parse().unwrap()))
    }

    #[test]
    fn hosts_are_distinct_by_what_they_cannot_choose() {
        assert_eq!(at("10.0.0.1:1"), at("10.0.0.1:2"));
        assert_ne!(at("10.0.0.1:1"), at("10.0.0.2:1"));
        assert_eq!(at("10.0.0.1:1"), at("[::ffff:10.0.0.1]:1"));
        assert_eq!(at("[2001:db8::1]:1"), at("[2001:db8::ffff:2]:1"));
        assert_ne!(at("[2001:db8::1]:1"), at("[2001:db8:0:1::1]:1"));
        assert!(!at("10.0.0.1:1").shares_limit(Origin::of(false, Peer::Unknown)));
    }

    #[test]
    fn who_opens_most_gives_way_with_the_oldest() {
        let (many, one, other) = (at("10.0.0.1:1"), at("10.0.0.2:1"), at("10.0.0.3:1"));
        let shaking = [(0, one, 1), (1, many, 3), (2, many, 2), (3, many, 4)];
        assert_eq!(gives_way(&shaking, other), Some(2));
        assert_eq!(gives_way(&shaking, many), Some(2));
        let shaking = [(0, one, 1), (1, many, 3)];
        assert_eq!(gives_way(&shaking, many), Some(1), "its own, not the older one of another");
        assert_eq!(gives_way(&shaking, other), Some(0), "all have as many: the oldest");
        assert_eq!(gives_way(&[], other), None);
    }
}
