//! The normal case takes one round trip: counted in messages (eris.txt §6.2).

use weir_ordered::cluster::Timeouts;
use weir_ordered_net::Client;

use crate::cluster::{Plan, Processes};
use crate::party::Role;
use crate::world::application::{operation, values};
use crate::world::registers::Change;

/// Nothing is repeated and nobody is suspected, however slow the machine is.
const PATIENT: Timeouts = Timeouts {
    gap_ms: 60_000,
    find_ms: 60_000,
    resend_ms: 2_000,
    synchronize_ms: 20,
    learner_ms: 60_000,
    view_ms: 60_000,
    sequencer_ms: 60_000,
    leader_ms: 60_000,
    client_ms: 60_000,
    general_ms: 60_000,
};

#[test]
fn an_independent_transaction_takes_one_round_trip() {
    let mut processes = Processes::start(Plan { timeouts: PATIENT, coordinators: 1, ..Plan::default() });
    let client = Client::start(processes.members.clone(), None).unwrap();
    let call = |destinations: &[u16]| {
        let change = Change(destinations.iter().map(|shard| ((*shard, 0), 1)).collect());
        let completed = client.call(destinations, &operation(&change, 0)).unwrap();
        let shards: Vec<_> = completed.answers.keys().copied().collect();
        assert_eq!(shards, destinations);
        completed.answers.values().for_each(|answer| assert_eq!(values(answer, 0).len(), 1));
    };
    // The epoch has begun with the first answer.
    call(&[0]);
    processes.wait_for_rest();
    let packets = |processes: &mut Processes| processes.look(Role::Sequencer(0)).packets_sent;
    let replies = |processes: &mut Processes| {
        processes.wait_for_rest().values().map(|seen| seen.replies_sent).sum::<u64>()
    };
    let (packets_before, replies_before) = (packets(&mut processes), replies(&mut processes));
    let before = client.counts().unwrap();
    for _ in 0..20 {
        call(&[0]);
        call(&[0, 1]);
    }
    let after = client.counts().unwrap().since(&before);
    assert_eq!(after.submits_sent, 40, "one message of the client for each transaction");
    assert_eq!(after.others_sent, 0);
    assert_eq!(packets(&mut processes) - packets_before, 20 * 3 + 20 * 6, "one packet to each replica");
    assert_eq!(replies(&mut processes) - replies_before, 20 * 3 + 20 * 6, "one reply of each replica");
}
