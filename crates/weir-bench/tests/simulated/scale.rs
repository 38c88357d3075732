//! Simulated servers: the same seed gives the same run, for every protocol, and costs are what the prices say.

use weir_bench::scale::{self, Load, Network, Prices, Servers};
use weir_bench::ycsb::{Keys, Outcome, Protocol, Ycsb};

fn simulate(protocol: Protocol, workload: &Ycsb, servers: Servers) -> (Outcome, Load) {
    let prices = Prices::shipped().expect("the file is whole");
    scale::ycsb(workload, protocol, servers, &prices).expect("the settings go together")
}

const FEW: Servers =
    Servers { servers: 4, cores: 1, clients: 24, network: Network::Lan, seconds: 0.01, seed: 1 };

fn small() -> Ycsb {
    Ycsb { items: 2_000, keys: Keys::Uniform, read_share: 0.5, ..Ycsb::default() }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let figures = |protocol, servers| {
        let (outcome, load) = simulate(protocol, &small(), servers);
        let rounds = (outcome.read_rounds.to_bits(), outcome.write_rounds.to_bits());
        (outcome.reads, outcome.writes, rounds, load.busy.to_bits(), load.bytes_per_second.to_bits())
    };
    for protocol in Protocol::ALL {
        let first = figures(protocol, FEW);
        assert_eq!(first, figures(protocol, FEW), "{}", protocol.name());
        assert_ne!(first, figures(protocol, Servers { seed: 2, ..FEW }), "{}", protocol.name());
        assert!(first.0 > 50 && first.1 > 50, "{}: {first:?}", protocol.name());
    }
}

/// One client alone waits for the network, and a saturated server for its core.
#[test]
fn time_passes_for_what_takes_time() {
    let protocol = Protocol::by_name("ramp-fast").expect("it is one");
    let reads = Ycsb { read_share: 1.0, ..small() };
    let alone = Servers { clients: 1, seconds: 0.2, ..FEW };
    let (outcome, load) = simulate(protocol, &reads, alone);
    // To its server and back, and to the shards and back: the slowest of some.
    assert!((300.0..2_000.0).contains(&outcome.latency.p50) && load.busy < 0.2, "{outcome:?} {load:?}");
    assert_eq!(outcome.read_rounds, 1.0, "everybody is known, and nothing is written");
    let far =
        Servers { network: Network::by_name("wan").expect("it is one"), clients: 4, seconds: 3.0, ..FEW };
    let (outcome, _) = simulate(protocol, &reads, far);
    assert!((80_000.0..150_000.0).contains(&outcome.latency.p50), "California to Tokyo: {outcome:?}");
    let (_, load) = simulate(protocol, &reads, Servers { clients: 2_000, seconds: 0.02, ..FEW });
    assert!(load.busy > 0.8 && load.messages_per_batch > 10.0, "{load:?}");
}

/// Cores of a server hand each other messages more cheaply than servers do.
#[test]
fn cores_share_a_server() {
    let protocol = Protocol::by_name("none").expect("it is one");
    let run = |servers, cores| {
        simulate(protocol, &small(), Servers { servers, cores, clients: 800 / u32::from(servers), ..FEW })
    };
    let ((near, near_load), (far, _)) = (run(1, 4), run(4, 1));
    assert_eq!(near_load.bytes_per_second, 0.0, "nothing leaves the server");
    assert!(near.throughput > far.throughput, "{near:?} {far:?}");
}
