//! All connections, and the tokens that lead completions back to them.

use super::connection::Connection;
use super::poller::{DIRECT_MAX, Events, Poller, Source};

/// A place for a connection. The generation distinguishes its successive connections.
#[derive(Debug, Default)]
struct Place {
    generation: u32,
    connection: Option<Connection>,
}

/// All connections, at most 16,384.
#[derive(Debug, Default)]
pub struct Connections {
    places: Vec<Place>,
    free: Vec<u16>,
    open: usize,
    /// Count of connections that have chosen an export.
    clients: usize,
}

/// First token of the server's own requests (flushes at the end). Tokens of places stay far below.
const OWN_TOKENS: u64 = 0xffff << 16;
/// Generations of a place wrap behind this: the highest bit of a token is the backend's own.
const GENERATION_MAX: u32 = u32::MAX >> 1;

impl Place {
    fn end_generation(&mut self) {
        self.generation = (self.generation + 1) & GENERATION_MAX;
    }
}

impl Connections {
    /// Adds a connection. Returns its place and generation.
    pub fn insert(&mut self, connection: Connection) -> (u16, u32) {
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place::default());
            // The count fits: `is_full` is checked before, and the places are bounded by `connections_max` and by
            // ended connections that wait for the backend.
            (self.places.len() - 1) as u16
        });
        let place = &mut self.places[usize::from(index)];
        place.connection = Some(connection);
        self.open += 1;
        (index, place.generation)
    }

    /// Whether every place is taken, including those of ended connections that still wait for the backend.
    pub fn is_full(&self) -> bool {
        self.free.is_empty() && self.places.len() >= 0xff00
    }

    /// Count of connections whose socket is open.
    pub fn open(&self) -> usize {
        self.open
    }

    /// Count of connections that have chosen an export and whose socket is open.
    pub fn clients(&self) -> usize {
        self.clients
    }

    /// Notes that a connection has chosen an export. Returns how many have.
    pub fn chose_one(&mut self) -> usize {
        self.clients += 1;
        self.clients
    }

    /// Notes that the socket of a connection was closed; `was_client`: it had chosen an export.
    pub fn closed_one(&mut self, was_client: bool) {
        self.open -= 1;
        self.clients -= usize::from(was_client);
    }

    /// The connection at a place.
    pub fn get_mut(&mut self, index: u16) -> Option<&mut Connection> {
        self.places.get_mut(usize::from(index))?.connection.as_mut()
    }

    /// The connection at a place, if the generation still matches.
    pub fn get_same(&mut self, index: u16, generation: u32) -> Option<&mut Connection> {
        let place = self.places.get_mut(usize::from(index))?;
        if place.generation == generation { place.connection.as_mut() } else { None }
    }

    /// The generation of a place.
    pub fn generation(&self, index: u16) -> u32 {
        self.places.get(usize::from(index)).map_or(0, |place| place.generation)
    }

    /// Frees the place of a connection that is closed and has nothing in flight.
    pub fn vacate(&mut self, index: u16) -> Option<Connection> {
        let place = self.places.get_mut(usize::from(index))?;
        let connection = place.connection.take()?;
        place.end_generation();
        self.free.push(index);
        Some(connection)
    }

    /// All places.
    pub fn indices(&self) -> impl Iterator<Item = u16> + use<> {
        0..self.places.len() as u16
    }

    /// All connections.
    pub fn iter(&self) -> impl Iterator<Item = (u16, &Connection)> {
        (0u16..).zip(&self.places).filter_map(|(index, place)| place.connection.as_ref().map(|c| (index, c)))
    }

    /// Count of requests in flight.
    pub fn in_flight(&self) -> usize {
        self.iter().map(|(_, connection)| connection.session.in_flight()).sum()
    }

    /// With more connections than poll(2) waits for, connections that have sent something since the last tick take
    /// precedence.
    pub fn sort(&mut self, poller: &mut Poller) {
        let crowded = self.open > DIRECT_MAX;
        for promoting in [false, true] {
            for (index, place) in (0u16..).zip(&mut self.places) {
                let source = Source::Connection { index, generation: place.generation };
                let Some(connection) = &mut place.connection else {
                    continue;
                };
                let Some(socket) = &connection.socket else {
                    continue;
                };
                if promoting {
                    if std::mem::take(&mut connection.heard) || !crowded {
                        poller.promote(socket, source, connection.watched);
                    }
                } else if crowded && !connection.heard {
                    poller.demote(socket, source, connection.watched);
                }
            }
        }
    }

    /// Fills `places` with connections that have chosen an export and that only wait to receive. Returns how many
    /// there are, and whether these are all connections that have chosen one.
    pub fn only_reading(&self, places: &mut [(u16, u32)]) -> (usize, bool) {
        let (mut used, mut are_all) = (0, true);
        for (index, connection) in self.iter() {
            if connection.socket.is_none() || connection.session.in_handshake() {
                continue;
            }
            match places.get_mut(used) {
                Some(place) if connection.watched == Events::READ => {
                    *place = (index, self.generation(index));
                    used += 1;
                }
                _ => are_all = false,
            }
        }
        (used, are_all)
    }

    /// The token for the backend: place and generation of the connection, and the number of its request.
    pub fn token(&self, index: u16, request: u64) -> u64 {
        u64::from(self.generation(index)) << 32 | u64::from(index) << 16 | request & 0xffff
    }

    /// The server's own token with this number.
    pub fn own_token(number: u16) -> u64 {
        OWN_TOKENS | u64::from(number)
    }

    /// Whether a token is the server's own.
    pub fn is_own(token: u64) -> bool {
        token & OWN_TOKENS == OWN_TOKENS
    }

    /// Place of the connection, its session's token and the connection itself, for a token of the backend.
    pub fn resolve(&mut self, token: u64) -> Option<(u16, u64, &mut Connection)> {
        let index = (token >> 16) as u16;
        let connection = self.get_same(index, (token >> 32) as u32)?;
        Some((index, token & 0xffff, connection))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After 2^31 connections on one place the backend took a client's completions for its own.
    #[test]
    fn regression_the_highest_bit_of_tokens_is_left_to_the_backend() {
        let mut connections = Connections::default();
        connections.places.push(Place { generation: GENERATION_MAX, connection: None });
        assert!(connections.token(0, u64::MAX) < 1 << 63);
        connections.places[0].end_generation();
        assert_eq!(connections.generation(0), 0);
    }
}
