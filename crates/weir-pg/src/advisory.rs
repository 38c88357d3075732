//! Advisory locks of a session. Those of its transaction are that transaction's; each of the others is a transaction by itself, which
//! never does anything else, and ends when the lock is given back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{MutexGuard, PoisonError};

use weir_client::{AdvisoryKey, Error};
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
        // Of a transaction that is over with its statement.
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
        let (name, answered) = loop {
            let name = of_open.unwrap_or_else(|| self.client.new_transaction());
            self.limit_waits(name, lock_timeout).await?;
            match self.answer_of(self.client.begin_advisory_lock(name, key, waits)).await {
                // Somebody may hold it for long.
                Err(Error::Deadline(_)) if waits && of_open.is_none() => {
                    drop(self.client.end_transaction(name, false));
                }
                answered => break (name, answered.map_err(sql_error)),
            }
        };
        let is_own = of_open.is_none();
        let is_held = matches!(&answered, Ok(result) if result.values == [Value::Bool(true)]);
        if is_own && (of_transaction || !is_held) {
            // Nobody waits for it.
            drop(self.client.end_transaction(name, false));
        }
        answered?;
        if is_held && of_transaction && !is_own {
            self.locks().of_transaction.insert(key);
        } else if is_held && !of_transaction {
            self.locks().of_session.insert(key, Held { name, times: 1, of_transaction: false });
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
                // Nobody waits for it.
                drop(self.client.end_transaction(held.name, false));
            }
            stays
        });
    }
}
