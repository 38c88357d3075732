//! Places of servers and clients: one site, or the five of operation-partitioning.txt, Table 2.

/// Number of sites of Table 2.
pub const SITES: usize = 5;

/// Table 2, in milliseconds, in the order in which the paper adds sites: Germany, Japan, the United States, Brazil, Australia.
const TABLE_2: [[u64; SITES]; SITES] = [
    [20, 253, 92, 193, 314],
    [253, 20, 153, 282, 188],
    [92, 153, 20, 145, 229],
    [193, 282, 145, 20, 322],
    [314, 188, 229, 322, 20],
];

/// The two meanings that a number of Table 2 between two sites can have. The table does not say which. Within a site it is a round trip in both readings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    RoundTrip,
    OneWay,
}

/// Delays between places.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Network {
    /// All within one site.
    Lan { one_way_ns: u64 },
    /// A place's number is its site.
    Wan(Reading),
}

const NS_PER_MS: u64 = 1_000_000;

impl Network {
    /// Within one data centre, kernels included.
    pub const LAN: Network = Network::Lan { one_way_ns: 100_000 };

    /// Delay of a message.
    pub fn one_way_ns(self, from: usize, to: usize) -> u64 {
        match self {
            Network::Lan { one_way_ns } => one_way_ns,
            Network::Wan(_) if from == to => TABLE_2[from][to] * NS_PER_MS / 2,
            Network::Wan(Reading::RoundTrip) => TABLE_2[from][to] * NS_PER_MS / 2,
            Network::Wan(Reading::OneWay) => TABLE_2[from][to] * NS_PER_MS,
        }
    }

    /// The hops of one rotation of the token over the first servers, in milliseconds.
    pub fn rotation_ms(self, servers: usize) -> f64 {
        let hop = |from: usize| self.one_way_ns(from, (from + 1) % servers);
        if servers < 2 { 0.0 } else { (0..servers).map(hop).sum::<u64>() as f64 / NS_PER_MS as f64 }
    }

    /// Time between a client and the server of its site, there and back, in milliseconds.
    pub fn within_site_ms(self) -> f64 {
        2.0 * self.one_way_ns(0, 0) as f64 / NS_PER_MS as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_symmetric() {
        let pairs = (0..SITES).flat_map(|from| (0..SITES).map(move |to| (from, to)));
        pairs.for_each(|(from, to)| assert_eq!(TABLE_2[from][to], TABLE_2[to][from]));
    }

    #[test]
    fn a_rotation_is_what_the_design_says() {
        // Germany, Japan, the United States, Brazil, Australia.
        assert_eq!(Network::Wan(Reading::OneWay).rotation_ms(5), 253.0 + 153.0 + 145.0 + 322.0 + 314.0);
        assert_eq!(Network::Wan(Reading::RoundTrip).within_site_ms(), 20.0);
    }
}
