//! Who of those that have not finished their handshake gives way to a newcomer: who connects and says nothing must not keep
//! others out.

use super::peer::Peer;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Where a connection comes from, as far as handshakes are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// A Unix socket: whom its mode and group let in.
    Machine,
    /// An address of the network: of IPv4 a whole one, of IPv6 the upper half, since a host may have all of the lower one
    /// (RFC 4291, "Interface Identifiers").
    Network(IpAddr),
}

impl Origin {
    /// Where a client of a TCP or of a Unix socket comes from. One of TCP that has gone already counts with the others of
    /// whom no address is known.
    pub fn of(is_network: bool, peer: impl FnOnce() -> Peer) -> Self {
        match is_network.then(peer) {
            None => Self::Machine,
            Some(Peer::Address(address)) => Self::Network(match address.ip().to_canonical() {
                IpAddr::V6(long) => IpAddr::V6((long.to_bits() >> 64 << 64).into()),
                short => short,
            }),
            Some(_) => Self::Network(IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED)),
        }
    }

    /// Whether handshakes of both count against the same limit.
    pub fn shares_limit(self, other: Self) -> bool {
        (self == Self::Machine) == (other == Self::Machine)
    }
}

/// The place of the one that gives way to a newcomer, of those that shake hands (place, where from, since when): the oldest of
/// the address that has most of them, the newcomer counted. So an address that opens many takes its own places, and who
/// comes from another keeps his.
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
        Origin::of(true, || Peer::Address(address.parse().unwrap()))
    }

    #[test]
    fn hosts_are_distinct_by_what_they_cannot_choose() {
        assert_eq!(at("10.0.0.1:1"), at("10.0.0.1:2"));
        assert_ne!(at("10.0.0.1:1"), at("10.0.0.2:1"));
        assert_eq!(at("10.0.0.1:1"), at("[::ffff:10.0.0.1]:1"));
        assert_eq!(at("[2001:db8::1]:1"), at("[2001:db8::ffff:2]:1"));
        assert_ne!(at("[2001:db8::1]:1"), at("[2001:db8:0:1::1]:1"));
        assert!(!at("10.0.0.1:1").shares_limit(Origin::of(false, || Peer::Unknown)));
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
