//! Clusters with faults: loss, killed processes, lost disks. What clients were told is strictly serializable, and on disk.
//!
//! `WEIR_SEEDS=0..50 cargo test -p weir-ordered-net --test main faults_of_seeds` draws more schedules of faults.

use std::collections::BTreeSet;
use std::ops::Range;

use weir_ordered::cluster::{ReplicaId, Timeouts};
use weir_ordered_net::members::Network;

use crate::chance::Chance;
use crate::cluster::{Load, Plan, Processes, Work, Workers, check};
use crate::party::Role;

const LOAD: Load = Load { clients: 4, transactions: 100, padding_max: 100, general: 0 };

fn replica(shard: u16, number: u16) -> Role {
    Role::Replica(ReplicaId { shard, number })
}

/// The sequencer that has stamped the most.
fn busiest(processes: &mut Processes) -> Role {
    let places = [Role::Sequencer(0), Role::Sequencer(1)];
    places.into_iter().max_by_key(|role| processes.look(*role).packets_sent).unwrap()
}

#[test]
fn without_faults_everything_is_answered_in_one_epoch() {
    let mut processes = Processes::start(Plan::default());
    let work = Workers::start(&processes, LOAD).finish();
    assert_eq!((work.told.completed.len(), work.unknown), (400, 0));
    assert_eq!(processes.epoch(), 1);
    check(processes, &work);
}

#[test]
fn lost_datagrams_cost_time_only() {
    for seed in 1..=2 {
        let mut processes = Processes::start(Plan { lost: 30, seed, ..Plan::default() });
        let work = Workers::start(&processes, Load { transactions: 60, ..LOAD }).finish();
        let lost: u64 = processes.roles().into_iter().map(|role| processes.look(role).lost).sum();
        assert!(lost > 20, "{lost} datagrams are lost");
        assert_eq!((work.told.completed.len(), work.unknown), (240, 0));
        check(processes, &work);
    }
}

#[test]
fn killed_sequencers_are_replaced() {
    let mut processes = Processes::start(Plan { sequencers: 2, lost: 5, seed: 3, ..Plan::default() });
    let workers = Workers::start(&processes, LOAD);
    for _ in 0..3 {
        workers.wait_for(80);
        let killed = busiest(&mut processes);
        processes.kill(killed);
        workers.wait_for(20);
        processes.begin(killed);
    }
    let work = workers.finish();
    assert_eq!((work.told.completed.len(), work.unknown), (400, 0));
    assert!(processes.epoch() >= 4);
    check(processes, &work);
}

/// The only sequencer is started again, as another one.
#[test]
fn a_sequencer_that_starts_again_is_another_one() {
    let mut processes = Processes::start(Plan { seed: 4, ..Plan::default() });
    let workers = Workers::start(&processes, Load { transactions: 60, ..LOAD });
    workers.wait_for(80);
    restart(&mut processes, &[Role::Sequencer(0)]);
    let work = workers.finish();
    assert_eq!((work.told.completed.len(), work.unknown), (240, 0));
    assert!(processes.epoch() >= 2);
    check(processes, &work);
}

/// A learner is killed and comes back with its disk, then a follower without one.
#[test]
fn killed_replicas_come_back_from_disk_and_without_one() {
    let mut processes = Processes::start(Plan { lost: 5, seed: 5, ..Plan::default() });
    let workers = Workers::start(&processes, LOAD);
    workers.wait_for(60);
    processes.kill(replica(0, 0));
    workers.wait_for(60);
    processes.begin(replica(0, 0));
    workers.wait_for(60);
    processes.kill(replica(1, 2));
    processes.wipe(replica(1, 2));
    processes.begin(replica(1, 2));
    workers.wait_for(60);
    let work = workers.finish();
    assert_eq!((work.told.completed.len(), work.unknown), (400, 0));
    let seen = processes.wait_for_rest();
    assert!(
        seen.iter().any(|(id, seen)| id.shard == 0 && seen.epoch > 1),
        "no epoch has begun for the empty disk"
    );
    check(processes, &work);
}

/// Everything is killed at once, and comes back from its disks.
#[test]
fn a_whole_cluster_comes_back_from_disk() {
    let mut processes = Processes::start(Plan { seed: 6, ..Plan::default() });
    let workers = Workers::start(&processes, LOAD);
    for _ in 0..2 {
        workers.wait_for(100);
        let roles = processes.roles();
        restart(&mut processes, &roles);
    }
    let work = workers.finish();
    assert_eq!((work.told.completed.len(), work.unknown), (400, 0));
    check(processes, &work);
}

#[test]
fn a_killed_coordinator_comes_back_with_its_decisions() {
    let mut processes = Processes::start(Plan { sequencers: 2, lost: 20, seed: 7, ..Plan::default() });
    let workers = Workers::start(&processes, LOAD);
    workers.wait_for(80);
    let all = processes.coordinators();
    restart(&mut processes, &all);
    workers.wait_for(80);
    let killed = busiest(&mut processes);
    all.iter().for_each(|role| processes.kill(*role));
    processes.kill(killed);
    all.iter().for_each(|role| processes.begin(*role));
    let work = workers.finish();
    assert_eq!((work.told.completed.len(), work.unknown), (400, 0));
    assert!(processes.epoch() >= 2);
    processes.begin(killed);
    check(processes, &work);
}

/// The node of the failure coordinator that leads is killed again and again, with a sequencer, which another node replaces meanwhile.
#[test]
fn a_killed_leader_of_the_failure_coordinator_is_replaced() {
    let mut processes = Processes::start(Plan { sequencers: 2, lost: 5, seed: 12, ..Plan::default() });
    let workers = Workers::start(&processes, LOAD);
    for epoch in 2..5 {
        workers.wait_for(60);
        let (leader, sequencer) = (processes.leading(), busiest(&mut processes));
        processes.kill(leader);
        processes.kill(sequencer);
        workers.wait_for(20);
        processes.begin(leader);
        processes.begin(sequencer);
        assert!(processes.epoch() >= epoch);
    }
    let work = workers.finish();
    assert_eq!((work.told.completed.len(), work.unknown), (400, 0));
    check(processes, &work);
}

/// General transactions beside independent ones, whose clients die between their parts, while replicas and sequencers are killed.
#[test]
fn general_transactions_end_whoever_dies() {
    let timeouts = Timeouts { general_ms: 400, ..Plan::default().timeouts };
    let plan = Plan { sequencers: 2, timeouts, truncate_entries: 40, lost: 5, seed: 11, ..Plan::default() };
    let mut processes = Processes::start(plan);
    let workers = Workers::start(&processes, Load { general: 500, ..LOAD });
    for (shard, number) in [(0, 0), (1, 0), (0, 1)] {
        workers.wait_for(60);
        processes.kill(replica(shard, number));
        let killed = busiest(&mut processes);
        processes.kill(killed);
        workers.wait_for(20);
        processes.begin(replica(shard, number));
        processes.begin(killed);
    }
    let work = workers.finish();
    let Work { committed, abandoned, aborted, .. } = work;
    println!("{committed} committed, {abandoned} abandoned, {aborted} aborted");
    assert_eq!((work.told.completed.len() + abandoned + aborted, work.unknown), (400, 0));
    assert!(committed > 50 && abandoned > 0);
    check(processes, &work);
}

/// Operations and answers that fit into no datagram, and a replica that gets them all by state transfer.
#[test]
fn large_operations_go_over_streams() {
    let mut processes = Processes::start(Plan { seed: 8, ..Plan::default() });
    let workers =
        Workers::start(&processes, Load { clients: 3, transactions: 40, padding_max: 20_000, general: 0 });
    workers.wait_for(40);
    processes.kill(replica(0, 1));
    processes.wipe(replica(0, 1));
    processes.begin(replica(0, 1));
    let work = workers.finish();
    assert_eq!((work.told.completed.len(), work.unknown), (120, 0));
    assert!(processes.look(Role::Sequencer(0)).streamed > 100);
    check(processes, &work);
}

#[test]
fn without_udp_the_cluster_works_over_tcp() {
    let mut processes =
        Processes::start(Plan { network: Network::Tcp, sequencers: 2, seed: 9, ..Plan::default() });
    let workers = Workers::start(&processes, Load { padding_max: 4_000, ..LOAD });
    workers.wait_for(100);
    processes.kill(replica(1, 0));
    let killed = busiest(&mut processes);
    processes.kill(killed);
    workers.wait_for(100);
    processes.begin(replica(1, 0));
    processes.begin(killed);
    let work = workers.finish();
    assert_eq!((work.told.completed.len(), work.unknown), (400, 0));
    check(processes, &work);
}

/// Logs are truncated in memory and on disk while replicas come and go.
#[test]
fn truncated_logs_and_snapshots_carry_the_state() {
    let plan = Plan { truncate_entries: 20, snapshot_after: 16 << 10, lost: 5, seed: 10, ..Plan::default() };
    let mut processes = Processes::start(plan);
    let workers = Workers::start(&processes, LOAD);
    for (shard, number) in [(0, 0), (1, 1), (0, 2)] {
        workers.wait_for(80);
        processes.kill(replica(shard, number));
        workers.wait_for(30);
        if number == 2 {
            processes.wipe(replica(shard, number));
        }
        processes.begin(replica(shard, number));
    }
    let work = workers.finish();
    assert_eq!((work.told.completed.len(), work.unknown), (400, 0));
    let seen = processes.wait_for_rest();
    assert!(seen.values().all(|seen| seen.base > 0), "{seen:#?}");
    check(processes, &work);
}

/// Faults in a random order: single replicas, with and without their disks, whole shards, the coordinator, sequencers, everything.
#[test]
fn faults_of_seeds() {
    for seed in seeds(20..22) {
        let mut chance = Chance::from_seed(seed);
        let plan = Plan {
            sequencers: 2,
            network: if chance.per_mille(200) { Network::Tcp } else { Network::Udp },
            truncate_entries: chance.pick(&[5, 40, 1_000]),
            snapshot_after: chance.pick(&[4 << 10, 64 << 10, 64 << 20]),
            lost: chance.pick(&[0, 5, 30]),
            timeouts: Timeouts { general_ms: chance.pick(&[400, 2_000]), ..Plan::default().timeouts },
            seed,
            ..Plan::default()
        };
        let (padding_max, general) = (chance.pick(&[10, 500, 5_000]), chance.pick(&[0, 300]));
        let mut processes = Processes::start(plan);
        let workers = Workers::start(&processes, Load { transactions: 150, padding_max, general, ..LOAD });
        let mut empty = BTreeSet::new();
        for _ in 0..8 {
            workers.wait_for(chance.between(5, 40) as usize);
            let few = chance.between(1, 20) as usize;
            fail_some(&mut processes, &mut chance, &mut empty, &mut || workers.wait_for(few));
        }
        let work = workers.finish();
        println!("seed {seed}: {plan:?}, epoch {}", processes.epoch());
        let ended = work.told.completed.len() + work.abandoned + work.aborted;
        assert_eq!((ended, work.unknown), (600, 0));
        check(processes, &work);
    }
}

/// Seeds of `WEIR_SEEDS`, for example `0..50`; without it, those given.
fn seeds(few: Range<u64>) -> Range<u64> {
    let Ok(text) = std::env::var("WEIR_SEEDS") else { return few };
    let bounds = text.split_once("..").and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
    bounds.map(|(from, to)| from..to).expect("WEIR_SEEDS is not FROM..TO")
}

/// Kills some parties, and starts them again. `empty`: replicas that have lost their disks and may not yet take part. `wait`: for some
/// answers.
fn fail_some(
    processes: &mut Processes,
    chance: &mut Chance,
    empty: &mut BTreeSet<ReplicaId>,
    wait: &mut dyn FnMut(),
) {
    let replicas: Vec<_> = processes.members.cluster.all_replicas().collect();
    let victim = chance.pick(&replicas);
    // Without the victim, a majority of its shard must have its disks to go on.
    empty.retain(|id| processes.look(Role::Replica(*id)).epoch == 0);
    let is_alone = empty.iter().all(|id| id.shard != victim.shard);
    match chance.below(8) {
        kind @ 0..4 if is_alone => {
            processes.kill(Role::Replica(victim));
            wait();
            if kind == 0 {
                processes.wipe(Role::Replica(victim));
                empty.insert(victim);
            }
            processes.begin(Role::Replica(victim));
        }
        0..4 => restart(processes, &[Role::Replica(victim)]),
        4 => {
            let killed = busiest(processes);
            processes.kill(killed);
            wait();
            processes.begin(killed);
        }
        5 => {
            let leader = processes.leading();
            restart(processes, &[leader]);
        }
        6 => {
            let shard = replicas.into_iter().filter(|id| id.shard == victim.shard);
            restart(processes, &shard.map(Role::Replica).collect::<Vec<_>>());
        }
        _ => {
            let roles = processes.roles();
            restart(processes, &roles);
        }
    }
}

fn restart(processes: &mut Processes, roles: &[Role]) {
    roles.iter().for_each(|role| processes.kill(*role));
    roles.iter().for_each(|role| processes.begin(*role));
}
