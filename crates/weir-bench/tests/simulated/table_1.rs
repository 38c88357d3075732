//! Table 1 of ramp.txt, counted: round trips, messages and bytes of metadata of a transaction of four items, by the
//! real machines of every protocol, with messages delivered by hand.
//!
//! The table is testdata/ramp/table-1.txt; `WEIR_UPDATE=1 cargo test --workspace --test bench simulated::table_1::` writes it anew, to
//! be reviewed as a difference.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use weir_bench::ycsb::{Drive, ItemShard, Machines, Protocol, Shaped};
use weir_core::ids::{CoordinatorId, Sender, ShardId};
use weir_core::machine::Outgoing;
use weir_core::machine::{Effects, Orders};
use weir_kv::{Done, ItemCoordinator, Key, Transaction, Write, shard_of};

const START_MS: u64 = 1_700_000_000_000;
const SHARDS: ShardId = 4;
const WRITER: CoordinatorId = 0;
const READER: CoordinatorId = 1;
const LENGTH: usize = 4;

/// A message on its way, with the coordinator on whose behalf it goes.
enum Message<S: ItemShard> {
    Request { coordinator: CoordinatorId, shard: ShardId, request: S::Request },
    Peer { from: ShardId, shard: ShardId, request: S::Request, coordinator: CoordinatorId },
    Reply { coordinator: CoordinatorId, shard: ShardId, reply: S::Reply },
}

impl<S: ItemShard> Message<S> {
    fn coordinator(&self) -> CoordinatorId {
        match self {
            Message::Request { coordinator, .. }
            | Message::Peer { coordinator, .. }
            | Message::Reply { coordinator, .. } => *coordinator,
        }
    }
}

/// Cost of one transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Took {
    /// It came to a point at which only somebody else's messages could help it on.
    waited: bool,
    /// Deliveries, each of everything that was under way, until the client was told: two are a round trip.
    hops: u32,
    /// All of them, also those after the client was told.
    messages: u32,
    /// Bytes in requests and in replies.
    metadata: (usize, usize),
}

struct Stage<S: ItemShard, C: ItemCoordinator<S>> {
    shards: Vec<S>,
    coordinators: Vec<C>,
    under_way: Vec<Message<S>>,
    told: BTreeSet<CoordinatorId>,
    took: [Took; 2],
    /// A delivery takes a millisecond.
    now_ms: u64,
}

impl<S: ItemShard, C: ItemCoordinator<S>> Stage<S, C> {
    fn begin(&mut self, coordinator: CoordinatorId, transaction: Transaction) {
        self.now_ms += 1;
        self.told.remove(&coordinator);
        self.took[coordinator as usize] = Took::default();
        let mut orders = Orders::default();
        self.coordinators[coordinator as usize].begin(self.now_ms, 0, transaction, &mut orders);
        self.carry_out(coordinator, orders);
    }

    fn carry_out(&mut self, coordinator: CoordinatorId, orders: Orders<S::Request, Done>) {
        for (shard, request) in orders.sends {
            self.under_way.push(Message::Request { coordinator, shard, request });
        }
        if !orders.done.is_empty() {
            self.told.insert(coordinator);
        }
    }

    /// Delivers what is under way for one coordinator; says whether there was something. `only_first`: the others wait.
    fn hop(&mut self, coordinator: CoordinatorId, only_first: bool) -> bool {
        self.now_ms += 1;
        let (mut arriving, mut waiting): (Vec<_>, Vec<_>) =
            self.under_way.drain(..).partition(|message| message.coordinator() == coordinator);
        if only_first && arriving.len() > 1 {
            waiting.extend(arriving.drain(1..));
        }
        self.under_way = waiting;
        let some = !arriving.is_empty();
        let took = &mut self.took[coordinator as usize];
        took.hops += u32::from(some && !self.told.contains(&coordinator));
        took.messages += arriving.len() as u32;
        arriving.into_iter().for_each(|message| self.deliver(message));
        some
    }

    fn deliver(&mut self, message: Message<S>) {
        let took = &mut self.took[message.coordinator() as usize];
        match message {
            Message::Request { coordinator, shard, request } => {
                took.metadata.0 += request.shape().metadata;
                let progress = self.coordinators[coordinator as usize].progress(shard);
                self.shards[usize::from(shard)].on_progress(self.now_ms, coordinator, progress);
                self.step(Sender::Coordinator(coordinator), shard, request);
            }
            Message::Peer { from, shard, request, .. } => {
                took.metadata.0 += request.shape().metadata;
                self.step(Sender::Shard(from), shard, request);
            }
            Message::Reply { coordinator, shard, reply } => {
                took.metadata.1 += reply.shape().metadata;
                let to = &mut self.coordinators[coordinator as usize];
                to.on_epoch(shard, self.shards[usize::from(shard)].epoch());
                let mut orders = Orders::default();
                to.on_reply(self.now_ms, reply, &mut orders);
                self.carry_out(coordinator, orders);
            }
        }
    }

    fn step(&mut self, from: Sender, shard: ShardId, request: S::Request) {
        let mut effects = Effects::default();
        self.shards[usize::from(shard)].step(self.now_ms, from, request, &mut effects);
        for Outgoing { to: coordinator, message: reply, .. } in effects.replies {
            self.under_way.push(Message::Reply { coordinator, shard, reply });
        }
        for Outgoing { to, message: request, .. } in effects.peers {
            let coordinator = request.on_behalf_of().expect("shards speak for somebody");
            self.under_way.push(Message::Peer { from: shard, shard: to, request, coordinator });
        }
    }

    /// Runs it to its end, with nobody else about.
    fn run(&mut self, coordinator: CoordinatorId, transaction: Transaction) -> Took {
        self.begin(coordinator, transaction);
        while self.hop(coordinator, false) {}
        assert!(self.told.contains(&coordinator) && self.under_way.is_empty());
        self.took[coordinator as usize]
    }
}

/// A write alone, a read that meets nothing, and a read that meets the write at its worst moment.
struct Measure {
    keys: Vec<Key>,
}

impl Measure {
    fn read(&self) -> Transaction {
        Transaction { reads: self.keys.clone(), ..Transaction::default() }
    }

    fn write(&self, value: &str) -> Transaction {
        let writes = self.keys.iter().map(|key| (key.clone(), Write::Put(value.into()))).collect();
        Transaction { writes, ..Transaction::default() }
    }

    /// Everybody is known to everybody, and what was written is everywhere and known to be.
    fn settle<S: ItemShard, C: ItemCoordinator<S>>(&self, stage: &mut Stage<S, C>) {
        for _ in 0..6 {
            stage.run(WRITER, self.read());
            stage.run(READER, self.read());
        }
    }

    /// That number of deliveries for the writer, then one message of the next transaction, and then the reader as far as it can run.
    fn race<S: ItemShard, C: ItemCoordinator<S>>(&self, stage: &mut Stage<S, C>, hops: u32) -> Option<Took> {
        self.settle(stage);
        stage.begin(WRITER, self.write("raced"));
        if !(0..hops).all(|_| stage.hop(WRITER, false)) {
            return None;
        }
        stage.hop(WRITER, true);
        stage.begin(READER, self.read());
        while stage.hop(READER, false) || !stage.told.contains(&READER) {
            let reader = READER as usize;
            if !stage.told.contains(&READER) && !stage.under_way.iter().any(|one| one.coordinator() == READER)
            {
                stage.took[reader].waited = true;
                assert!(stage.hop(WRITER, false), "nothing is under way and the reader waits");
            }
        }
        while stage.hop(WRITER, false) {}
        Some(stage.took[READER as usize])
    }
}

impl Drive for Measure {
    type Output = [Took; 3];

    fn run<S: ItemShard, C: ItemCoordinator<S>>(self, shards: Vec<S>, coordinators: Vec<C>) -> [Took; 3] {
        let mut stage = Stage {
            shards,
            coordinators,
            under_way: Vec::new(),
            told: BTreeSet::new(),
            took: [Took::default(); 2],
            now_ms: START_MS,
        };
        stage.run(WRITER, self.write("first"));
        self.settle(&mut stage);
        let write = stage.run(WRITER, self.write("second"));
        self.settle(&mut stage);
        let stable = stage.run(READER, self.read());
        let worst = (0..).map_while(|hops| self.race(&mut stage, hops)).max();
        [write, stable, worst.expect("there is a moment at least")]
    }
}

/// Four keys of eleven bytes, on the shards that are named.
fn keys_on(shards: &[ShardId]) -> Vec<Key> {
    let mut keys = (0..).map(|at| Key::from(format!("user{at:07}").as_str()));
    let mut key_on = |shard: &ShardId| keys.find(|key| shard_of(key, SHARDS) == *shard);
    shards.iter().filter_map(&mut key_on).collect()
}

fn measure(protocol: Protocol, one_phase: bool, shards: &[ShardId]) -> [Took; 3] {
    let machines = Machines { shards: SHARDS, coordinators: 2, one_phase, seed: 1 };
    protocol.drive(machines, Measure { keys: keys_on(shards) })
}

fn line(name: &str, [write, stable, raced]: [Took; 3]) -> String {
    let trips =
        |took: Took| format!("{}{}", f64::from(took.hops) / 2.0, if took.waited { "+wait" } else { "" });
    format!(
        "{name:24} {:>5} {:>5} {:>7} | {:>4} {:>4} {:>5} | {:>4} {:>4} {:>6}\n",
        trips(write),
        trips(stable),
        trips(raced),
        write.messages,
        stable.messages,
        raced.messages,
        write.metadata.0 / LENGTH,
        stable.metadata.0 + stable.metadata.1,
        raced.metadata.0 + raced.metadata.1,
    )
}

const HEAD: &str = "\
Table 1 of ramp.txt, counted: a transaction of four items with keys of eleven bytes. W: a write; R: a read that meets
no write; R(O): a read that meets a write of the same items at its worst moment. Bytes of metadata: what a write carries
for each item, and all that the requests and replies of a read carry, beside keys, values and one stamp of each item.
+wait: it also waits for the other transaction.

                         round trips         | messages        | metadata bytes
                             W     R    R(O) |    W    R  R(O) |    W    R   R(O)
";

const FOOT: &str = "
The paper's Table 1: RAMP-F 2, 1, 2 and the keys of the transaction (11 bytes an item); RAMP-S 2, 2, 2, nothing, and a
stamp an item in each request; RAMP-H 2, 1 + e, 2 and a filter (32 bytes), and a stamp an item.

Where ours take less than the paper's:
* One participant: a write is one message, and its items carry nothing, for there is nobody who could miss a sibling.
* One phase (par. 4.7): the client is told when all have prepared, and COMMIT follows unasked.
* RAMP-S: round one answers with the stamps that are not drained, each once, instead of one for each item, and round
  two names only those; in R that is none.
* R of all three: what is drained carries no metadata at all. What is not is told only to readers whose sketch of what
  they read elsewhere (a word in each request) meets the sketch of the write.
* The participants, two bytes each, and the sketch, a word, are in W: termination needs the first (par. 4.6).
* The fixed words of a read are 16 bytes a shard: the sketch or the position, and the shard's position in its answer.
Comparators: messages of one transaction to one shard are one message a round; lwnr, lwsr and lwlr lock runs of
neighbouring keys with one message, and the last run is applied with its lock. Their clients are told before the locks
are released.
";

#[test]
fn table_1_is_what_the_machines_do() {
    let mut table = String::from(HEAD);
    for (title, shards) in [("four participants", [0, 1, 2, 3]), ("one participant", [2; LENGTH])] {
        let _ = writeln!(table, "{title}");
        for protocol in Protocol::ALL {
            table.push_str(&line(protocol.name(), measure(protocol, false, &shards)));
            if matches!(protocol, Protocol::Ramp(_)) {
                let name = format!("{} (one phase)", protocol.name());
                table.push_str(&line(&name, measure(protocol, true, &shards)));
            }
        }
    }
    table.push_str(FOOT);
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/ramp/table-1.txt");
    if std::env::var_os("WEIR_UPDATE").is_some() {
        std::fs::write(path, &table).expect("the table is written");
    }
    let expected = std::fs::read_to_string(path).expect("the table is there");
    assert_eq!(table, expected);
}

/// The paper's columns, whatever the file says.
#[test]
fn table_1_of_the_paper_holds() {
    let check = |name: &str, write: u32, stable: u32, raced: u32| {
        let protocol = Protocol::by_name(name).expect("it is a protocol");
        let took = measure(protocol, false, &[0, 1, 2, 3]);
        assert_eq!(took.map(|took| took.hops), [2 * write, 2 * stable, 2 * raced], "{name}");
        assert!(took.iter().all(|took| !took.waited), "{name}: nobody waits for anybody else");
    };
    check("ramp-fast", 2, 1, 2);
    check("ramp-small", 2, 2, 2);
    check("ramp-hybrid", 2, 1, 2);
    check("none", 1, 1, 1);
}
