//! Transactions over items, as an application wishes for them.

use weir_core::ids::CoordinatorId;
use weir_core::machine::{Coordinator as _, Orders};
use weir_kv::faults::NoFaults;
use weir_kv::{
    Coordinator, Done, GivenUp, Isolation, Key, KeyRange, Options, Partition, Request, Transaction, Write,
};
use weir_net::ClusterFile;

use crate::carrier::now_ms;
use crate::pending::Outcome;
use crate::requests::Dialect;
use crate::{Committed, Error};

/// Operation of an application.
pub(crate) enum Wish {
    Transaction(Transaction),
    /// Begins an interactive transaction; the later variants are its statements.
    Open(Isolation),
    Read(Vec<Key>, Vec<KeyRange>),
    Write(Key, Write),
    Commit,
    RollBack,
}

pub(crate) struct Items {
    coordinator: Coordinator,
    options: Options,
}

/// The protocol of transactions over items on that cluster.
pub(crate) fn options(cluster: &ClusterFile, one_phase: bool) -> Options {
    Options {
        variant: cluster.variant,
        shards: cluster.shards,
        // A shard may crash and start again.
        links_keep_order: false,
        one_phase,
        bugs: NoFaults,
    }
}

impl Items {
    pub(crate) fn new(id: CoordinatorId, options: Options) -> Items {
        Items { coordinator: Coordinator::new(id, 0, options), options }
    }
}

impl Dialect for Items {
    type Shard = Partition;
    type Coordinator = Coordinator;
    type Wish = Wish;
    type Outcome = Committed;

    fn coordinator(&mut self) -> &mut Coordinator {
        &mut self.coordinator
    }

    fn begin_anew(&mut self, id: CoordinatorId) {
        *self = Items::new(id, self.options);
    }

    fn grant(
        &mut self,
        tag: u64,
        wish: Wish,
        orders: &mut Orders<Request, Done>,
    ) -> Option<Result<Committed, Error>> {
        let coordinator = &mut self.coordinator;
        match wish {
            Wish::Transaction(transaction) => coordinator.begin(now_ms(), tag, transaction, orders),
            Wish::Read(keys, ranges) => coordinator.read(now_ms(), tag, keys, ranges, orders),
            Wish::Commit => coordinator.commit(now_ms(), tag, orders),
            Wish::Open(isolation) => {
                coordinator.open(tag, isolation);
                return Some(Ok(Committed::default()));
            }
            Wish::Write(key, write) => {
                let written =
                    coordinator.write(tag, key, write).map_err(|error| Error::Unfit(error.to_string()));
                return Some(written.map(|()| Committed::default()));
            }
            Wish::RollBack => {
                coordinator.roll_back(tag);
                return Some(Ok(Committed::default()));
            }
        }
        None
    }

    fn outcome(&mut self, _tag: u64, done: Done) -> Outcome<Committed> {
        Outcome::Known(match done {
            Done::Committed { read, stamp, rounds } => Ok(Committed { read, stamp, rounds }),
            Done::Read { read, rounds } => Ok(Committed { read, stamp: None, rounds: (rounds, 0) }),
            Done::Aborted | Done::Conflict => Err(Error::Aborted),
            Done::Restart => Err(Error::Restart),
            Done::TooLarge => Err(Error::Unfit(TOO_LARGE.into())),
        })
    }

    fn give_up(&mut self, tag: u64, _: &mut Orders<Request, Done>) -> GivenUp {
        self.coordinator.give_up(tag)
    }
}

pub(crate) const TOO_LARGE: &str =
    "a read of more than 16 MiB from one shard: read in parts, or fewer items at once";
