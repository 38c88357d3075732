//! Advisory locks of a session. Those of its transaction are that transaction's; each of the others is a transaction by itself, which
//! never does anything else, and ends when the lock is given back.

use std::collections::{BTreeMap, BTreeSet};

use weir_client::{AdvisoryKey, CallResult, Client, Error};
use weir_types::{SqlError, SqlState, Value};

use crate::by_itself::ByItself;
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

impl AdvisoryLocks {
    /// Says whether the session had it.
    pub fn unlock(&mut self, client: &Client, key: AdvisoryKey) -> bool {
        let Some(held) = self.of_session.get_mut(&key).filter(|held| held.times > 0) else { return false };
        held.times -= 1;
        self.give_back(client);
        true
    }

    pub fn give_all_back(&mut self, client: &Client) {
        self.of_session.values_mut().for_each(|held| held.times = 0);
        self.give_back(client);
    }

    /// The transaction is over, and what it held.
    pub fn end_transaction(&mut self, client: &Client) {
        self.of_transaction.clear();
        self.of_session.values_mut().for_each(|held| held.of_transaction = false);
        self.give_back(client);
    }

    fn give_back(&mut self, client: &Client) {
        self.of_session.retain(|_, held| {
            let stays = held.times > 0 || held.of_transaction;
            if !stays {
                // The result is not needed.
                drop(client.end_transaction(held.name, false));
            }
            stays
        });
    }
}

/// Says whether the session has it.
pub(crate) async fn lock(
    session: &mut Session,
    key: AdvisoryKey,
    waits: bool,
    of_transaction: bool,
) -> Result<bool, Failure> {
    // A transaction-level lock outside of a transaction ends with its statement.
    let open = session.transaction.open_name();
    {
        let locks = &mut session.advisory;
        if let Some(held) = locks.of_session.get_mut(&key).filter(|held| held.times > 0 || of_transaction) {
            match of_transaction {
                true => held.of_transaction = open.is_some(),
                false => held.times += 1,
            }
            return Ok(true);
        }
        if !of_transaction && locks.of_transaction.contains(&key) {
            let message = "an advisory lock of the session that its transaction holds already";
            let error = SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, format!("{message} is not supported"));
            return Err(error.with_hint("Take it before the transaction begins.").into());
        }
    }
    let of_open = open.filter(|_| of_transaction);
    let is_true = |result: &CallResult| result.values == [Value::Bool(true)];
    if let Some(name) = of_open {
        let is_held =
            ask(session, name, key, waits).await?.map(|result| is_true(&result)).map_err(sql_error)?;
        if is_held {
            session.advisory.of_transaction.insert(key);
        }
        return Ok(is_held);
    }
    let (own, answered) = loop {
        let own = ByItself::begin(&session.client);
        match ask(session, own.name(), key, waits).await? {
            // Another session may hold the lock for long.
            Err(Error::Deadline(_)) if waits => {}
            answered => break (own, answered.map_err(sql_error)?),
        }
    };
    let is_held = is_true(&answered);
    if is_held && !of_transaction {
        let held = Held { name: own.keep(), times: 1, of_transaction: false };
        session.advisory.of_session.insert(key, held);
    }
    Ok(is_held)
}

/// In the transaction of that name.
async fn ask(
    session: &mut Session,
    name: u64,
    key: AdvisoryKey,
    waits: bool,
) -> Result<Result<CallResult, Error>, Failure> {
    session.limit_waits(name, session.settings.in_effect().lock_timeout).await?;
    Ok(session.answer_of(|client| client.begin_advisory_lock(name, key, waits)).await)
}
