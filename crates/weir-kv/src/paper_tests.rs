//! The paper's claims, one test each, with messages delivered by hand (ramp.txt §3.3, §4; soundness S5, S9, S10).
//!
//! The scenarios of Figure 1, S5, S9 and S10 are also written down message by message, in
//! testdata/scenarios; `WEIR_UPDATE=1 cargo test --workspace --lib paper_tests::` writes them anew, to be reviewed as a
//! difference.

use weir_core::ids::{CoordinatorId, Sender, ShardId};
use weir_core::machine::{Coordinator as _, Effects, Orders, Outgoing, Shard as _};

use super::coordinator::{Coordinator, Done, Options, Transaction};
use super::faults::{NoFaults, PlantedBugs};
use super::message::{Reply, Request};
use super::partition::Partition;
use super::{Key, KeyRange, ReadSet, Variant, Write, shard_of};

mod statements;

const VARIANTS: [Variant; 3] = [Variant::Fast, Variant::Small, Variant::HYBRID];

/// Two shards and some clients; messages arrive only when the test delivers them.
struct Stage {
    shards: Vec<Partition<PlantedBugs>>,
    clients: Vec<Coordinator>,
    /// Clock of each shard, in milliseconds.
    clocks: Vec<u64>,
    sent: Vec<(usize, ShardId, Request)>,
    done: Vec<(u64, Done)>,
    begun: u64,
    /// Delivered messages, one line each.
    story: String,
}

impl Stage {
    fn new(variant: Variant, clients: CoordinatorId) -> Stage {
        Stage::with_bugs(variant, clients, PlantedBugs::default())
    }

    fn with_bugs(variant: Variant, clients: CoordinatorId, bugs: PlantedBugs) -> Stage {
        let options =
            Options { variant, shards: 2, links_keep_order: true, one_phase: false, bugs: NoFaults };
        Stage::with_options(options, clients, bugs)
    }

    fn with_options(options: Options, clients: CoordinatorId, bugs: PlantedBugs) -> Stage {
        let mut stage = Stage {
            shards: (0..2).map(|shard| Partition::new(shard, bugs)).collect(),
            clients: (0..clients).map(|id| Coordinator::new(id, 1, options)).collect(),
            clocks: vec![1_000, 1_000],
            sent: Vec::new(),
            done: Vec::new(),
            begun: 0,
            story: String::new(),
        };
        // Every client is registered as a reader at both shards, so that reads begin at once.
        for client in 0..clients as usize {
            stage.read_now(client, &["x", "y"]);
        }
        stage.story.clear();
        stage
    }

    /// Compares the delivered messages with the file.
    fn check_story(&self, name: &str) {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/scenarios");
        let path = format!("{directory}/{name}.txt");
        if std::env::var_os("WEIR_UPDATE").is_some() {
            std::fs::write(&path, &self.story).expect("the scenario is written");
        }
        let expected = std::fs::read_to_string(&path).expect("the scenario is there");
        assert_eq!(self.story, expected, "{name}");
    }

    fn tell(&mut self, line: String) {
        self.story.push_str(&line);
        self.story.push('\n');
    }

    fn begin(&mut self, client: usize, transaction: Transaction) -> u64 {
        self.begun += 1;
        let mut out = Orders::default();
        self.clients[client].begin(1_000, self.begun, transaction, &mut out);
        self.take(client, out);
        self.begun
    }

    fn write(&mut self, client: usize, writes: &[(&str, Write)]) -> u64 {
        let writes = writes.iter().map(|(name, write)| (key(name), write.clone())).collect();
        self.begin(client, Transaction { writes, ..Transaction::default() })
    }

    fn read(&mut self, client: usize, names: &[&str]) -> u64 {
        let reads = names.iter().map(|name| key(name)).collect();
        self.begin(client, Transaction { reads, ..Transaction::default() })
    }

    fn take(&mut self, client: usize, out: Orders<Request, Done>) {
        self.sent.extend(out.sends.into_iter().map(|(shard, request)| (client, shard, request)));
        self.done.extend(out.done);
    }

    /// Delivers the client's messages to the shard, and the replies. Returns the names of the delivered messages.
    fn deliver(&mut self, client: usize, shard: ShardId) -> Vec<&'static str> {
        let (arriving, waiting) = std::mem::take(&mut self.sent)
            .into_iter()
            .partition(|(from, to, _)| (*from, *to) == (client, shard));
        self.sent = waiting;
        let (now_ms, at) = (self.clocks[usize::from(shard)], &mut self.shards[usize::from(shard)]);
        at.on_progress(now_ms, client as CoordinatorId, self.clients[client].progress(shard));
        let (mut effects, mut names) = (Effects::default(), Vec::new());
        for (_, _, request) in arriving {
            names.push(name_of(&request));
            self.story.push_str(&format!("client {client} → shard {shard}: {}\n", show_request(&request)));
            at.step(now_ms, Sender::Coordinator(client as CoordinatorId), request, &mut effects);
        }
        let (epoch, mut out) = (at.epoch(), Orders::default());
        self.clients[client].on_epoch(shard, epoch);
        for Outgoing { to, message: reply, .. } in effects.replies {
            assert_eq!(to as usize, client);
            self.story.push_str(&format!("shard {shard} → client {client}: {}\n", show_reply(&reply)));
            self.clients[client].on_reply(1_000, reply, &mut out);
        }
        self.take(client, out);
        names
    }

    fn deliver_to(&mut self, client: usize, shards: &[ShardId]) {
        for shard in shards {
            self.deliver(client, *shard);
        }
    }

    fn deliver_all(&mut self) {
        while let Some((client, shard, _)) = self.sent.first() {
            let (client, shard) = (*client, *shard);
            self.deliver(client, shard);
        }
    }

    /// Removes and returns the result under the tag, if there is one.
    fn told(&mut self, tag: u64) -> Option<(ReadSet, (u32, u32))> {
        let at = self.done.iter().position(|(one, _)| *one == tag)?;
        match self.done.remove(at).1 {
            Done::Committed { read, rounds, .. } => {
                if !read.items.is_empty() {
                    self.tell(format!("the reader gets {}", values(&read).join(", ")));
                }
                Some((read, rounds))
            }
            Done::Read { read, rounds } => {
                self.tell(format!("the statement gets {}", values(&read).join(", ")));
                Some((read, (rounds, 0)))
            }
            Done::Aborted | Done::Conflict | Done::Restart | Done::TooLarge => panic!("nothing aborts here"),
        }
    }

    /// A read without a race: values, and number of message rounds.
    fn read_now(&mut self, client: usize, names: &[&str]) -> (Vec<String>, u32) {
        let tag = self.read(client, names);
        self.deliver_all();
        let (read, rounds) = self.told(tag).expect("everything has arrived");
        (values(&read), rounds.0)
    }

    /// Exchanges progress and epochs until nothing changes.
    fn let_drain(&mut self, clients: &[usize]) {
        for _ in 0..6 {
            for client in clients {
                for shard in 0..2 {
                    self.deliver(*client, shard);
                }
            }
        }
    }
}

fn show_request(request: &Request) -> String {
    let keys = |wanted: &super::message::Wanted| {
        let keys: Vec<String> = wanted.keys.iter().map(|key| format!("{key:?}")).collect();
        keys.join(" ")
    };
    let writes = |writes: &super::message::Writes| {
        let writes: Vec<String> = writes.iter().map(|(key, write)| format!("{key:?} {write:?}")).collect();
        writes.join(", ")
    };
    match request {
        Request::Write { txn, writes: all, .. } => format!("write {} {}", show_txn(*txn), writes(all)),
        Request::Prepare { txn, writes: all, .. } => format!("prepare {} {}", show_txn(*txn), writes(all)),
        Request::Commit { stamp } => format!("commit {}", show_stamp(*stamp)),
        Request::Abort { txn } => format!("abort {}", show_txn(*txn)),
        Request::Ask { txn, fate } => format!("ask {}, here {fate:?}", show_txn(*txn)),
        Request::Tell { txn, fate } => format!("tell {}: {fate:?}", show_txn(*txn)),
        Request::Get { wanted, .. } => format!("get {}", keys(wanted)),
        Request::Open { .. } => "open".into(),
        Request::GetAt { wanted, position, naming, .. } => {
            let named: Vec<String> = naming.iter().map(|stamp| show_stamp(*stamp)).collect();
            format!("get {} at position {position} with {}", keys(wanted), named.join(" "))
        }
    }
}

fn show_reply(reply: &Reply) -> String {
    match reply {
        Reply::Written { stamp } => format!("written {}", show_stamp(*stamp)),
        Reply::Prepared { txn, clock, .. } => {
            format!("prepared {} at {}", show_txn(*txn), show_clock(*clock))
        }
        Reply::Refused { txn, .. } => format!("refused {}", show_txn(*txn)),
        Reply::Changed { txn, .. } => format!("changed {}", show_txn(*txn)),
        Reply::Committed { txn, .. } => format!("committed {}", show_txn(*txn)),
        Reply::Again { .. } => "again".into(),
        Reply::TooLarge { .. } => "too large".into(),
        Reply::Retired { shard } => format!("retired by {shard}"),
        Reply::Told { position, stamps, .. } => {
            format!("position {position}:{}", show_told(stamps.iter().copied()))
        }
        Reply::Opened { position, undrained, .. } => {
            format!("position {position}:{}", show_told(undrained.iter().map(|one| one.stamp)))
        }
        Reply::Got { position, items, notes, .. } => {
            let items = items.iter().enumerate().map(|(at, item)| {
                let note = notes.iter().find(|(noted, _)| *noted as usize == at);
                let told = note.into_iter().flat_map(|(_, note)| &note.unsettled).map(|one| one.stamp);
                format!("{} of {}{}", show(&item.value), show_stamp(item.stamp), show_told(told))
            });
            format!("position {position}: {}", items.collect::<Vec<_>>().join(", "))
        }
    }
}

fn show_told(stamps: impl Iterator<Item = super::Stamp>) -> String {
    let told: Vec<String> = stamps.map(show_stamp).collect();
    if told.is_empty() { String::new() } else { format!(" told of {}", told.join(" ")) }
}

fn show_txn(txn: weir_core::ids::TxnId) -> String {
    format!("T{}.{}", txn.coordinator, txn.sequence)
}

fn show_stamp(stamp: super::Stamp) -> String {
    if stamp == super::Stamp::NONE {
        return "nobody".into();
    }
    format!("{}@{}", show_txn(stamp.txn), show_clock(stamp.clock))
}

/// Milliseconds and count.
fn show_clock(clock: u64) -> String {
    format!("{}+{}", clock >> 16, clock & 0xFFFF)
}

fn name_of(request: &Request) -> &'static str {
    match request {
        Request::Write { .. } => "write",
        Request::Prepare { .. } => "prepare",
        Request::Commit { .. } => "commit",
        Request::Abort { .. } => "abort",
        Request::Get { .. } => "get",
        Request::GetAt { .. } => "get at",
        Request::Open { .. } => "open",
        Request::Ask { .. } => "ask",
        Request::Tell { .. } => "tell",
    }
}

/// `x…` is on shard 0 and `y…` on shard 1.
fn key(name: &str) -> Key {
    let shard = ShardId::from(name.starts_with('y'));
    let mut keys = (0..).map(|at| Key::from(format!("{name}{at}").as_str()));
    keys.find(|key| shard_of(key, 2) == shard).expect("some key is there")
}

fn put(text: &str) -> Write {
    Write::Put(text.into())
}

fn show(value: &Option<super::Bytes>) -> String {
    match value {
        None => "⊥".into(),
        Some(value) => match <[u8; 8]>::try_from(&**value) {
            Ok(number) => i64::from_be_bytes(number).to_string(),
            Err(_) => String::from_utf8_lossy(value).into_owned(),
        },
    }
}

fn values(read: &ReadSet) -> Vec<String> {
    read.items.iter().map(|item| show(&item.value)).collect()
}

/// Figure 1: T1 has committed on Px and only prepared on Py when T2 reads both.
#[test]
fn figure_1() {
    for variant in VARIANTS {
        let mut stage = Stage::new(variant, 2);
        let first = stage.write(0, &[("x", put("x1")), ("y", put("y1"))]);
        assert_eq!((stage.deliver(0, 0), stage.deliver(0, 1)), (vec!["prepare"], vec!["prepare"]));
        assert_eq!(stage.deliver(0, 0), ["commit"]);
        let second = stage.read(1, &["x", "y"]);
        assert_eq!((stage.deliver(1, 0), stage.deliver(1, 1)), (vec!["get"], vec!["get"]));
        assert!(stage.told(second).is_none(), "{variant:?}: x1 with ⊥ would be fractured");
        // The second round: RAMP-Fast and -Hybrid ask Py alone, RAMP-Small both.
        let asked = [stage.deliver(1, 0).len(), stage.deliver(1, 1).len()];
        assert_eq!(asked, if variant == Variant::Small { [1, 1] } else { [0, 1] }, "{variant:?}");
        let (read, rounds) = stage.told(second).expect("two rounds are enough");
        assert_eq!((values(&read), rounds), (vec!["x1".into(), "y1".into()], (2, 0)), "{variant:?}");
        // T1 goes on as if nothing had happened.
        assert!(stage.told(first).is_none());
        assert_eq!(stage.deliver(0, 1), ["commit"]);
        assert!(stage.told(first).is_some());
        assert!(stage.clients[0].is_idle() && stage.shards.iter().all(|shard| shard.is_idle()));
        stage.check_story(&format!("figure-1-{}", variant.name()));
    }
}

/// Table 1, round trips: reads without a race 1, 2, 1; with one 2, 2, 2; writes 2.
#[test]
fn table_1_round_trips() {
    for (variant, without_race) in VARIANTS.into_iter().zip([1, 2, 1]) {
        let mut stage = Stage::new(variant, 2);
        let write = stage.write(0, &[("x", put("x1")), ("y", put("y1"))]);
        stage.deliver_all();
        assert_eq!(stage.told(write).expect("it is done").1, (0, 2));
        assert_eq!(stage.read_now(1, &["x", "y"]).1, without_race, "{variant:?}");
        stage.write(0, &[("x", put("x2")), ("y", put("y2"))]);
        stage.deliver_to(0, &[0, 1, 0]);
        let raced = stage.read(1, &["x", "y"]);
        stage.deliver_to(1, &[0, 1, 0, 1]);
        assert_eq!(stage.told(raced).expect("it is done").1, (2, 0), "{variant:?}");
    }
}

/// Table 1, metadata in addition to the stamp: the write set; nothing; 256 bits. Nothing once all shards have committed.
#[test]
fn table_1_metadata() {
    let names = ["x", "y", "xa", "ya"];
    let keys: u64 = names.iter().map(|name| key(name).len() as u64).sum();
    for (variant, bytes) in VARIANTS.into_iter().zip([keys, 0, 32]) {
        let mut stage = Stage::new(variant, 2);
        stage.write(0, &names.map(|name| (name, put(name))));
        stage.deliver_all();
        let handed =
            |stage: &Stage| stage.shards.iter().map(|shard| shard.counts.metadata_bytes).sum::<u64>();
        let before = handed(&stage);
        stage.read_now(1, &["x", "xa"]);
        assert_eq!(handed(&stage), before, "{variant:?}: who reads nothing elsewhere has no use for it");
        stage.read_now(1, &["x", "y"]);
        assert_eq!(handed(&stage) - before, 2 * bytes, "{variant:?}");
        stage.let_drain(&[0, 1]);
        assert_eq!(stage.shards.iter().map(|shard| shard.remembered().1).sum::<usize>(), 0, "{variant:?}");
        let before = handed(&stage);
        assert_eq!(stage.read_now(1, &names).0, names);
        assert_eq!(handed(&stage), before, "{variant:?}: all have it");
    }
}

/// §4.7: what a reader names is committed there, so the next reader needs one round.
#[test]
fn faster_commit_detection() {
    let mut stage = Stage::new(Variant::Fast, 3);
    stage.write(0, &[("x", put("x1")), ("y", put("y1"))]);
    stage.deliver_to(0, &[0, 1, 0]);
    let first = stage.read(1, &["x", "y"]);
    stage.deliver_to(1, &[0, 1, 1]);
    assert_eq!(stage.told(first).expect("it is done").1, (2, 0));
    assert_eq!(stage.shards[1].counts.committed_by_readers, 1);
    let second = stage.read(2, &["x", "y"]);
    stage.deliver_to(2, &[0, 1]);
    let (read, rounds) = stage.told(second).expect("it is done");
    assert_eq!((values(&read), rounds), (vec!["x1".into(), "y1".into()], (1, 0)));
}

fn one_phase(variant: Variant) -> Options {
    Options { variant, shards: 2, links_keep_order: true, one_phase: true, bugs: NoFaults }
}

/// §4.7: a client of one-phase writes is answered when all have prepared; what it reads next comes behind its commit.
#[test]
fn one_phase_writes() {
    for variant in VARIANTS {
        let mut stage = Stage::with_options(one_phase(variant), 1, PlantedBugs::default());
        let write = stage.write(0, &[("x", put("x1")), ("y", put("y1"))]);
        stage.deliver_to(0, &[0, 1]);
        assert!(stage.told(write).is_some(), "{variant:?}");
        assert_eq!(stage.read_now(0, &["x", "y"]).0, ["x1", "y1"], "{variant:?}");
    }
}

/// §3.3, partition independence: only the shards of a transaction's items are asked.
#[test]
fn partition_independence() {
    for variant in VARIANTS {
        let mut stage = Stage::new(variant, 1);
        stage.write(0, &[("y", put("y1")), ("ya", put("y2"))]);
        stage.read(0, &["y", "ya"]);
        assert!(stage.sent.iter().all(|(_, shard, _)| *shard == 1), "{variant:?}");
        assert_eq!(
            stage.deliver(0, 1),
            ["write", "get"],
            "{variant:?}: a single participant commits in one message"
        );
    }
}

/// §3.3, synchronization independence: a client that stops in the middle delays no other client of the same items.
#[test]
fn synchronization_independence() {
    for variant in VARIANTS {
        let mut stage = Stage::new(variant, 2);
        stage.write(0, &[("x", put("x1")), ("y", put("y1"))]);
        stage.deliver_to(0, &[0, 1]);
        // All have prepared; nothing more is ever heard of it.
        stage.sent.clear();
        let write = stage.write(1, &[("x", put("x2")), ("y", put("y2"))]);
        stage.deliver_to(1, &[0, 1, 0, 1]);
        assert_eq!(stage.told(write).expect("nobody is waited for").1, (0, 2), "{variant:?}");
        let read = stage.read(1, &["x", "y"]);
        stage.deliver_to(1, &[0, 1, 0, 1]);
        let (read, rounds) = stage.told(read).expect("nobody is waited for");
        assert_eq!(values(&read), ["x2", "y2"], "{variant:?}");
        assert!(rounds.0 <= 2 && !stage.shards[0].is_idle(), "{variant:?}: it is still undecided");
    }
}

/// §4.5: a transaction reads what it has declared, in one round, and then writes what it has buffered, in two.
#[test]
fn read_write_transactions() {
    for (variant, rounds) in VARIANTS.into_iter().zip([1, 2, 1]) {
        let mut stage = Stage::new(variant, 1);
        stage.write(0, &[("x", put("x1")), ("y", put("y1"))]);
        stage.deliver_all();
        stage.let_drain(&[0]);
        let (reads, writes) = (vec![key("x"), key("y")], vec![(key("x"), put("x2")), (key("ya"), put("y2"))]);
        let both = stage.begin(0, Transaction { reads, writes, ..Transaction::default() });
        stage.deliver_all();
        let (read, took) = stage.told(both).expect("everything has arrived");
        assert_eq!((values(&read), took), (vec!["x1".into(), "y1".into()], (rounds, 2)), "{variant:?}");
        assert_eq!(stage.read_now(0, &["x", "y", "ya"]).0, ["x2", "y1", "y2"], "{variant:?}");
    }
}

/// S5: round two is the state of round one plus what is named, not the newest.
#[test]
fn s5_the_second_round_with_merged_items() {
    let scenario = |variant, bugs| {
        let mut stage = Stage::with_bugs(variant, 3, bugs);
        let add = |amount| [("x", Write::Add(amount)), ("y", Write::Add(amount))];
        // T adds 1 to both and has committed on x; a reader has x with T and y without.
        stage.write(0, &add(1));
        stage.deliver_to(0, &[0, 1, 0]);
        let read = stage.read(2, &["x", "y"]);
        stage.deliver_to(2, &[0, 1]);
        // T′ adds 10 to both, everywhere, before the reader's second round arrives.
        stage.write(1, &add(10));
        stage.deliver_to(1, &[0, 1, 0, 1]);
        stage.deliver_to(2, &[0, 1]);
        let values = values(&stage.told(read).expect("it is done").0);
        if bugs == PlantedBugs::default() {
            stage.check_story(&format!("s5-{}", variant.name()));
        }
        values
    };
    for variant in VARIANTS {
        assert_eq!(scenario(variant, PlantedBugs::default()), ["1", "1"], "{variant:?}");
    }
    let newest = PlantedBugs { round_two_reads_newest: true, ..PlantedBugs::default() };
    assert_eq!(scenario(Variant::Fast, newest), ["1", "11"], "fractured: T′ in y alone");
}

/// S5: a range is repaired by what is missing from it, and by deletions.
#[test]
fn s5_ranges_are_repaired() {
    for variant in VARIANTS {
        let mut stage = Stage::new(variant, 2);
        stage.write(0, &[("x", put("x1")), ("yb", put("y1"))]);
        stage.deliver_all();
        stage.let_drain(&[0, 1]);
        // The next transaction deletes x and yb and inserts ya; the deletion of x has committed, the rest not.
        stage.write(0, &[("x", Write::Delete), ("ya", put("y2")), ("yb", Write::Delete)]);
        stage.deliver_to(0, &[0, 1, 0]);
        let range = KeyRange { from: "w".into(), to: "z".into() };
        let read = stage.begin(1, Transaction { ranges: vec![range], ..Transaction::default() });
        for _ in 0..2 {
            stage.deliver_to(1, &[0, 1]);
        }
        let (read, rounds) = stage.told(read).expect("it is done");
        let entries: Vec<&Key> = read.ranges[0].iter().map(|(key, _)| key).collect();
        assert_eq!((entries, rounds.0), (vec![&key("ya")], 2), "{variant:?}");
    }
}

/// S9: Assign@7 is acknowledged, then Add@5 from a slow clock: it must not be buried.
#[test]
fn s9_buried_writes() {
    let scenario = |bugs| {
        let mut stage = Stage::with_bugs(Variant::Fast, 2, bugs);
        // The clock of y's shard is an hour ahead of that of x's.
        stage.clocks = vec![5_000, 50_000];
        stage.write(0, &[("x", Write::Put(super::Bytes::new(&100_i64.to_be_bytes()))), ("y", put("y1"))]);
        stage.deliver_all();
        stage.write(1, &[("x", Write::Add(1))]);
        stage.deliver_all();
        let values = stage.read_now(0, &["x"]).0;
        if bugs == PlantedBugs::default() {
            stage.check_story("s9-ramp-fast");
        }
        values
    };
    assert_eq!(scenario(PlantedBugs::default()), ["101"]);
    let slow = PlantedBugs { clock_ignores_commits: true, ..PlantedBugs::default() };
    assert_eq!(scenario(slow), ["100"], "buried");
}

/// §4.7 and docs/internals/items.md, "What an answer at prepare gives up": until COMMIT arrives, a write through another
/// coordinator may be ordered below a transaction that has been answered; one through the same may not.
#[test]
fn what_an_answer_at_prepare_gives_up() {
    let scenario = |client| {
        let mut stage = Stage::with_options(one_phase(Variant::Fast), 2, PlantedBugs::default());
        stage.clocks = vec![5_000, 50_000];
        let write = stage.write(0, &[("x", put("first")), ("y", put("y1"))]);
        stage.deliver_to(0, &[0, 1]);
        assert!(stage.told(write).is_some(), "it is answered, and its COMMIT has not arrived");
        let held = std::mem::take(&mut stage.sent);
        let second = stage.write(client, &[("x", put("second"))]);
        stage.deliver_all();
        assert!(stage.told(second).is_some());
        stage.sent.extend(held);
        stage.deliver_all();
        stage.read_now(0, &["x"]).0
    };
    assert_eq!(scenario(0), ["second"]);
    assert_eq!(scenario(1), ["first"]);
}

/// S10: a reader got y before T; T commits everywhere and could drop its metadata; the reader's slower request
/// gets x with T.
#[test]
fn s10_metadata_waits_for_readers() {
    let scenario = |variant, bugs| {
        let mut stage = Stage::with_bugs(variant, 3, bugs);
        let read = stage.read(1, &["x", "y"]);
        stage.deliver(1, 1);
        stage.write(0, &[("x", put("x1")), ("y", put("y1"))]);
        stage.deliver_to(0, &[0, 1, 0, 1]);
        stage.let_drain(&[0, 2]);
        let kept = stage.shards[0].remembered().1;
        stage.deliver_to(1, &[0, 0, 1]);
        let values = values(&stage.told(read).expect("it is done").0);
        if bugs == PlantedBugs::default() {
            stage.check_story(&format!("s10-{}", variant.name()));
        }
        (values, kept)
    };
    for variant in VARIANTS {
        let (values, kept) = scenario(variant, PlantedBugs::default());
        assert_eq!((values, kept), (vec!["x1".into(), "y1".into()], 1), "{variant:?}");
    }
    let at_once = PlantedBugs { metadata_goes_at_once: true, ..PlantedBugs::default() };
    assert_eq!(scenario(Variant::Fast, at_once), (vec!["x1".into(), "⊥".into()], 0), "fractured");
}

/// §4.5 with S10: a reader that is let go begins anew and never sees a null for a version that is gone.
#[test]
fn a_reader_that_is_let_go_begins_anew() {
    for variant in VARIANTS {
        let mut stage = Stage::new(variant, 3);
        let read = stage.read(1, &["x", "y"]);
        stage.deliver(1, 1);
        stage.write(0, &[("x", put("x1")), ("y", put("y1"))]);
        stage.deliver_to(0, &[0, 1, 0, 1]);
        stage.let_drain(&[0, 2]);
        stage.clocks.iter_mut().for_each(|clock| *clock += weir_core::participant::READER_DELAY_MS_MAX + 1);
        stage.let_drain(&[0, 2]);
        assert_eq!(stage.shards[0].remembered().1, 0, "{variant:?}: the bound holds");
        stage.deliver_all();
        let (read, rounds) = stage.told(read).expect("it is done");
        assert_eq!(values(&read), ["x1", "y1"], "{variant:?}");
        assert!(rounds.0 > 1);
    }
}

/// At most once: what comes twice has no second effect and is answered as before.
#[test]
fn a_repetition_is_answered_as_before() {
    let mut shard = Partition::new(0, PlantedBugs::default());
    let txn = weir_core::ids::TxnId { coordinator: 0, sequence: 1 };
    let writes: super::message::Writes = vec![(key("x"), Write::Add(1))].into();
    let mut answers = Vec::new();
    for now_ms in [1_000, 2_000] {
        let mut out = Effects::default();
        let request = Request::Write { txn, writes: writes.clone(), begun_ms: now_ms, guards: [].into() };
        shard.step(now_ms, Sender::Coordinator(0), request, &mut out);
        let Some(Reply::Written { stamp }) = out.replies.pop().map(|reply| reply.message) else {
            panic!("it is answered")
        };
        answers.push(stamp);
        shard.on_progress(now_ms, 0, super::Progress { below: 1, ..super::Progress::default() });
    }
    assert_eq!(answers[0], answers[1]);
    assert_eq!(shard.table.get(&key("x")).expect("it is there").versions(), 1);
}

/// A word of settled transactions that is lost is made up for by the next ones.
#[test]
fn lost_words_of_settled_transactions_do_no_harm() {
    let mut stage = Stage::new(Variant::Fast, 1);
    for _ in 0..200 {
        stage.write(0, &[("x", put("x1")), ("y", put("y1"))]);
        stage.deliver_all();
        for shard in 0..2 {
            stage.clients[0].progress(shard);
        }
    }
    stage.let_drain(&[0]);
    let remembered = stage.shards.iter().map(|shard| shard.remembered().1).max();
    assert!(remembered <= Some(64), "{remembered:?}");
}
