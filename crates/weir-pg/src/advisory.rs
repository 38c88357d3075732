//! Advisory locks of a session. Those of its transaction are that transaction's; each of the others is a transaction by itself, which
//! never does anything else, and ends when the lock is given back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{MutexGuard, PoisonError};

use weir_client::{AdvisoryKey, CallResult, Error};
use weir_types::{SqlError, SqlState, Value};

use crate::session::{Session, sql_error};
use crate::statement::Failure;

#[derive(Debug, Default)]
pub(crate) struct AdvisoryLocks {
    of_session: BTreeMap<AdvisoryKey, Held>,
    of_transaction: BTreeSet<AdvisoryKey>,
}

#[derive(Debug)]
struct Held {
    /// The transaction that holds it.
    name: u64,
    /// As often it is to be given back.
    times: u32,
    /// The open transaction has it, too: it is kept until that ends.
    of_transaction: bool,
}

impl Session {
    fn locks(&self) -> MutexGuard<'_, AdvisoryLocks> {
        self.advisory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says whether the session has it.
    pub(crate) async fn lock(
        &self,
        key: AdvisoryKey,
        waits: bool,
        of_transaction: bool,
    ) -> Result<bool, Failure> {
        // A transaction-level lock outside of a transaction ends with its statement.
        let open = self.open_name();
        {
            let mut locks = self.locks();
            if let Some(held) = locks.of_session.get_mut(&key).filter(|held| held.times > 0 || of_transaction)
            {
                match of_transaction {
                    true => held.of_transaction = open.is_some(),
                    false => held.times += 1,
                }
                return Ok(true);
            }
            if !of_transaction && locks.of_transaction.contains(&key) {
                let message = "an advisory lock of the session that its transaction holds already";
                let error =
                    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, format!("{message} is not supported"));
                return Err(error.with_hint("Take it before the transaction begins.").into());
            }
        }
        let of_open = open.filter(|_| of_transaction);
        let lock_timeout = self.values().time("lock_timeout");
        let asked = async |name: u64| {
            self.limit_waits(name, lock_timeout).await?;
            Ok::<_, Failure>(self.answer_of(|client| client.begin_advisory_lock(name, key, waits)).await)
        };
        let is_true = |result: &CallResult| result.values == [Value::Bool(true)];
        if let Some(name) = of_open {
            let is_held = asked(name).await?.map(|result| is_true(&result)).map_err(sql_error)?;
            if is_held {
                self.locks().of_transaction.insert(key);
            }
            return Ok(is_held);
        }
        let (own, answered) = loop {
            let own = self.by_itself();
            match asked(own.name()).await? {
                // Another session may hold the lock for long.
                Err(Error::Deadline(_)) if waits => {}
                answered => break (own, answered.map_err(sql_error)?),
            }
        };
        let is_held = is_true(&answered);
        if is_held && !of_transaction {
            let held = Held { name: own.keep(), times: 1, of_transaction: false };
            self.locks().of_session.insert(key, held);
        }
        Ok(is_held)
    }

    /// Says whether the session had it.
    pub(crate) fn unlock(&self, key: AdvisoryKey) -> bool {
        let mut locks = self.locks();
        let Some(held) = locks.of_session.get_mut(&key).filter(|held| held.times > 0) else { return false };
        held.times -= 1;
        self.give_back(&mut locks);
        true
    }

    pub(crate) fn give_all_advice_back(&self) {
        let mut locks = self.locks();
        locks.of_session.values_mut().for_each(|held| held.times = 0);
        self.give_back(&mut locks);
    }

    /// The transaction is over, and what it held.
    pub(crate) fn end_advice(&self) {
        let mut locks = self.locks();
        locks.of_transaction.clear();
        locks.of_session.values_mut().for_each(|held| held.of_transaction = false);
        self.give_back(&mut locks);
    }

    fn give_back(&self, locks: &mut AdvisoryLocks) {
        locks.of_session.retain(|_, held| {
            let stays = held.times > 0 || held.of_transaction;
            if !stays {
                // The result is not needed.
                drop(self.client.end_transaction(held.name, false));
            }
            stays
        });
    }
}
