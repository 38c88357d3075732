//! Events of a world, and their effects.

use weir_baselines::eris::machine::{Client, Server};
use weir_baselines::eris::operation::{Action, Operation};
use weir_core::ids::CoordinatorId;
use weir_core::lsn::Lsn;
use weir_ordered::message::Party;

use super::{Checked, FAULTS_MS, MessageOf, TICK_MS, World};

pub enum Event<M> {
    Deliver {
        from: Party,
        to: Party,
        message: Box<M>,
    },
    Timer(Party),
    /// The disk has written up to that position of that start.
    Durable(Party, u64, Lsn),
    /// A client begins a transaction.
    Begin(CoordinatorId),
    /// Some replica, or a whole group, crashes, and again later.
    Crash,
    LeaderCrash,
    /// A client dies, and another one goes on.
    ClientCrash,
    Partition,
    Heal,
    Restart(Party),
    /// All faults end.
    FaultsEnd,
}

impl<P: Checked> World<P> {
    pub(super) fn schedule(&mut self, after_ms: u64, event: Event<MessageOf<P>>) {
        self.events.insert((self.now_ms + after_ms, self.next_event), event);
        self.next_event += 1;
    }

    pub(super) fn begin(&mut self) {
        let servers: Vec<_> = self.servers.keys().copied().collect();
        let clients: Vec<_> = self.clients.keys().copied().collect();
        servers.into_iter().for_each(|server| self.schedule_timer(server));
        for client in clients {
            self.schedule_timer(Party::Client(client));
            self.schedule_begin(client);
        }
        let profile = self.profile;
        self.schedule_fault(profile.crash_ms, Event::Crash);
        self.schedule_fault(profile.leader_crash_ms, Event::LeaderCrash);
        self.schedule_fault(profile.client_crash_ms, Event::ClientCrash);
        self.schedule_fault(profile.partition_ms, Event::Partition);
        self.schedule(FAULTS_MS, Event::FaultsEnd);
    }

    fn schedule_fault(&mut self, every_ms: u64, event: Event<MessageOf<P>>) {
        if every_ms > 0 && self.is_faulty {
            let after_ms = self.chance.between(1, 2 * every_ms);
            self.schedule(after_ms, event);
        }
    }

    fn schedule_timer(&mut self, party: Party) {
        let after_ms = self.chance.between(1, TICK_MS);
        self.schedule(after_ms, Event::Timer(party));
    }

    fn schedule_begin(&mut self, client: CoordinatorId) {
        let after_ms = self.chance.below(2 * FAULTS_MS / u64::from(self.profile.transactions));
        self.schedule(after_ms, Event::Begin(client));
    }

    pub(super) fn happen(&mut self, event: Event<MessageOf<P>>) {
        match event {
            Event::Deliver { from, to, message } => self.deliver(from, to, *message),
            Event::Timer(party) => self.on_timer(party),
            Event::Durable(party, start, up_to) => {
                let leaving = self.servers.get_mut(&party).map(|host| host.on_durable(start, up_to));
                self.send(party, leaving.unwrap_or_default());
            }
            Event::Begin(client) => self.begin_transaction(client),
            Event::Restart(party) => self.restart(party),
            Event::Heal => self.island.clear(),
            Event::FaultsEnd => {
                self.is_faulty = false;
                self.island.clear();
                let servers: Vec<_> = self.servers.keys().copied().collect();
                servers.into_iter().for_each(|server| self.restart(server));
            }
            fault if self.is_faulty => self.fail(fault),
            _ => {}
        }
    }

    fn fail(&mut self, fault: Event<MessageOf<P>>) {
        let profile = self.profile;
        match fault {
            Event::Crash => {
                let all: Vec<_> = self.cluster.all_replicas().collect();
                let victim = self.chance.pick(&all);
                if self.chance.per_mille(100) {
                    self.cluster.group(victim.shard).for_each(|each| self.crash(Party::Replica(each)));
                } else {
                    self.crash(Party::Replica(victim));
                }
                self.schedule_fault(profile.crash_ms, Event::Crash);
            }
            Event::LeaderCrash => {
                let is_leader = |machine: &Option<P::Server>| machine.as_ref().is_some_and(Server::is_leader);
                let leaders =
                    self.servers.iter().filter(|(_, host)| is_leader(&host.machine)).map(|(id, _)| *id);
                let leaders: Vec<_> = leaders.collect();
                if !leaders.is_empty() {
                    let victim = self.chance.pick(&leaders);
                    self.crash(victim);
                }
                self.schedule_fault(profile.leader_crash_ms, Event::LeaderCrash);
            }
            Event::ClientCrash => {
                let ids: Vec<_> = self.clients.keys().copied().collect();
                let victim = self.chance.pick(&ids);
                self.replace_client(victim);
                self.schedule_fault(profile.client_crash_ms, Event::ClientCrash);
            }
            Event::Partition => {
                let share = self.chance.pick(&[150, 300, 500]);
                let all: Vec<_> = self.cluster.all_replicas().collect();
                self.island = all.into_iter().filter(|_| self.chance.per_mille(share)).collect();
                self.is_remote = self.chance.per_mille(300);
                let heal_ms = self.chance.between(20, 600);
                self.schedule(heal_ms, Event::Heal);
                self.schedule_fault(profile.partition_ms, Event::Partition);
            }
            _ => {}
        }
    }

    fn deliver(&mut self, from: Party, to: Party, message: MessageOf<P>) {
        let now_ms = self.time_of(to);
        match to {
            Party::Client(id) => {
                let mut completed = None;
                self.step_client(id, |client, out| completed = client.step(now_ms, from, message, out));
                if let Some(completed) = completed {
                    self.counts.answered += 1;
                    self.counts.aborts += u64::from(completed.aborts);
                    self.answered_ms = self.now_ms;
                    self.history.complete(self.now_ms, completed);
                }
            }
            _ => {
                if let (Party::Replica(id), Some((txn, operation))) = (to, P::executed(&message)) {
                    self.history.observe(id.shard, txn, operation);
                }
                self.step_server(to, |server, out| server.step(now_ms, from, message, out));
            }
        }
    }

    fn on_timer(&mut self, party: Party) {
        let now_ms = self.time_of(party);
        match party {
            Party::Client(id) => self.step_client(id, |client, out| client.on_timer(now_ms, out)),
            _ => self.step_server(party, |server, out| server.on_timer(now_ms, out)),
        }
        let is_gone = matches!(party, Party::Client(id) if !self.clients.contains_key(&id));
        if !is_gone {
            self.schedule_timer(party);
        }
    }

    /// The answers to transactions that the client has in flight are lost.
    fn replace_client(&mut self, id: CoordinatorId) {
        let Some((_, left)) = self.clients.remove(&id) else { return };
        let next = self.next_client;
        self.next_client += 1;
        self.clients.insert(next, (self.protocol.client(next, self.cluster), left));
        self.counts.replaced += 1;
        self.answered_ms = self.now_ms;
        self.schedule_timer(Party::Client(next));
        if left > 0 {
            self.schedule_begin(next);
        }
    }

    fn begin_transaction(&mut self, id: CoordinatorId) {
        if !self.clients.contains_key(&id) {
            return;
        }
        let operation = self.operation();
        let client_ms = self.time_of(Party::Client(id));
        let mut begun = None;
        self.step_client(id, |client, out| begun = Some(client.begin(client_ms, operation.clone(), out)));
        if let Some(txn) = begun {
            self.history.begin(self.now_ms, txn);
            self.answered_ms = self.now_ms;
        }
        let Some((_, left)) = self.clients.get_mut(&id) else { return };
        *left -= 1;
        if *left > 0 {
            self.schedule_begin(id);
        }
    }

    /// An operation on few keys, so that transactions meet.
    fn operation(&mut self) -> Operation {
        let chance = &mut self.chance;
        let mut keys: Vec<u64> = (0..self.profile.keys).collect();
        let mut key =
            |chance: &mut crate::chance::Chance| keys.swap_remove(chance.below(keys.len() as u64) as usize);
        let mut actions = Vec::new();
        if chance.per_mille(self.profile.general) {
            actions.push(Action::Swap(key(chance), key(chance)));
        }
        for _ in 0..chance.between(u64::from(actions.is_empty()), 2) {
            let (key, value) = (key(chance), chance.between(1, 1 << 40));
            let weights = [Action::Read(key), Action::Write(key, value), Action::Modify(key, value)];
            actions.push(chance.pick(&weights));
        }
        Operation::new(actions)
    }

    fn crash(&mut self, party: Party) {
        if let Some(host) = self.servers.get_mut(&party) {
            host.crash(&mut self.chance);
            self.counts.crashes += 1;
            let after_ms = self.chance.between(1, self.profile.down_ms);
            self.schedule(after_ms, Event::Restart(party));
        }
    }

    /// Only replicas crash: what becomes of sequencers and failure coordinators is shown by the world of ordered transactions.
    fn restart(&mut self, party: Party) {
        let (now_ms, cluster, protocol) = (self.time_of(party), self.cluster, self.protocol);
        let (Party::Replica(id), Some(host)) = (party, self.servers.get_mut(&party)) else { return };
        host.restart(|start, disk| protocol.server(now_ms, id, cluster, start, disk));
    }
}
