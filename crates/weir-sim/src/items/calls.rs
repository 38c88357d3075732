//! Operations of a session at its coordinator: a whole transaction, or one statement of an interactive one.

use weir_core::ids::{CoordinatorId, ShardId, TxnId};
use weir_core::machine::{self, Orders};
use weir_kv::coordinator::Done;
use weir_kv::faults::{ClientFaults, NoFaults};
use weir_kv::{
    Coordinator, GivenUp, Guard, Isolation, Key, KeyRange, Progress, Reply, Request, Transaction, Write,
};

use crate::cluster::Mortal;

#[derive(Clone, Debug)]
pub enum Call {
    Whole(Transaction),
    Statement(Statement),
}

/// One of several: buffers writes, then reads or commits.
#[derive(Clone, Debug)]
pub struct Statement {
    /// Isolation, set by the first statement.
    pub opens: Option<Isolation>,
    pub writes: Vec<(Key, Write)>,
    /// None: it commits.
    pub read: Option<(Vec<Key>, Vec<KeyRange>)>,
    /// Guards of the commit.
    pub guards: Vec<Guard>,
}

/// A coordinator that takes both.
pub struct Caller<C = NoFaults>(pub Coordinator<C>);

impl<C: ClientFaults> machine::Coordinator for Caller<C> {
    type Request = Request;
    type Reply = Reply;
    type Progress = Progress;
    type Transaction = Call;
    type Done = Done;

    fn id(&self) -> CoordinatorId {
        self.0.id()
    }

    fn begin(&mut self, now_ms: u64, tag: u64, call: Call, out: &mut Orders<Request, Done>) {
        let Statement { opens, writes, read, guards } = match call {
            Call::Whole(transaction) => return self.0.begin(now_ms, tag, transaction, out),
            Call::Statement(statement) => statement,
        };
        if let Some(isolation) = opens {
            self.0.open(tag, isolation);
        }
        for (key, write) in writes {
            self.0.write(tag, key, write).expect("sessions write an item once");
        }
        match read {
            Some((keys, ranges)) => self.0.read(now_ms, tag, keys, ranges, out),
            None => self.0.commit_guarded(now_ms, tag, guards, out),
        }
    }

    fn on_reply(&mut self, now_ms: u64, reply: Reply, out: &mut Orders<Request, Done>) {
        self.0.on_reply(now_ms, reply, out);
    }

    fn on_timer(&mut self, now_ms: u64, out: &mut Orders<Request, Done>) {
        self.0.on_timer(now_ms, out);
    }

    fn progress(&mut self, shard: ShardId) -> Progress {
        self.0.progress(shard)
    }

    fn on_epoch(&mut self, shard: ShardId, epoch: u64) {
        self.0.on_epoch(shard, epoch);
    }

    fn is_idle(&self) -> bool {
        self.0.is_idle()
    }

    fn is_retired(&self) -> bool {
        self.0.is_retired()
    }
}

impl<C: ClientFaults> Mortal for Caller<C> {
    fn txn_of(&mut self, tag: u64) -> Option<TxnId> {
        self.0.txn_of(tag)
    }

    fn give_up(&mut self, tag: u64) -> GivenUp {
        self.0.give_up(tag)
    }
}
