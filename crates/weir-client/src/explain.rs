//! EXPLAIN: cost of a statement or call before it runs, with the reasons, and its measured cost afterwards.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use weir_analysis::guard_on;
use weir_analysis::reasons::{self, Reason};
use weir_core::ids::ShardId;
use weir_sql::Application;
use weir_sql::catalog::TableId;
pub use weir_txn::exec::accesses::Access;
use weir_txn::exec::admission::Admission;
use weir_txn::exec::independent::Agreement;
use weir_txn::exec::program::Program;
pub use weir_txn::ramp::trace::Trace;
use weir_types::{SqlError, Value};

use crate::calls::{Callable, Wish, begins_now};
use crate::prepared::{Prepared, What};
use crate::sub_statements::{Kept, SubStatement};
use crate::{CallResult, Client, Pending};

/// Cost of a statement or call with these values, without contention.
#[derive(Clone, Debug)]
pub struct Explained {
    /// Kind of the statement, or name of the called procedure.
    pub what: String,
    /// `merge`, `ramp`, or `read` for a query.
    pub mechanism: &'static str,
    /// Shards needed with these values; `of` is the number of shards.
    pub shards: Vec<ShardId>,
    pub of: ShardId,
    /// Deciding shard, if several are needed.
    pub decides: Option<ShardId>,
    /// Until it is answered: times there and back, and requests and answers.
    pub round_trips: u32,
    pub messages: u32,
    pub guards: Vec<ExplainedGuard>,
    /// Why it commits like that.
    pub why: String,
    pub reasons: Vec<Reason>,
    pub accesses: Vec<Access>,
    /// Each table that it accesses, where its rows live, and why; empty on one shard.
    pub lives: Vec<(String, String)>,
    /// The queries that are run before it, whose rows it is given.
    pub before: Vec<Explained>,
}

/// A guard or lock that the statement takes.
#[derive(Clone, Debug)]
pub struct ExplainedGuard {
    pub kind: &'static str,
    pub on: String,
    pub shared: bool,
    /// Names of invariants.
    pub keeps: Vec<String>,
    pub why: String,
}

/// Finished traces by tag, until they are collected; few, since each belongs to an EXPLAIN ANALYZE in progress.
pub(crate) type Told = Arc<Mutex<Vec<(u64, Trace)>>>;

impl Explained {
    /// As a statement of an open transaction: nothing is decided before its end.
    pub fn within_transaction(self) -> Explained {
        let shards = self.shards.len() as u32;
        if self.mechanism == "read" {
            return self;
        }
        Explained { round_trips: shards.min(2), messages: 2 * shards, decides: None, ..self }
    }
}

impl Prepared {
    /// # Errors
    /// The values do not fit, or an argument of the call cannot be computed.
    pub fn explain(&self, values: &[Value]) -> Result<Explained, SqlError> {
        let Callable { application, program, .. } = &*self.of;
        if let Some((last, before)) =
            self.pieces().filter(|all| all.write_at_once()).and_then(|all| all.all.split_last())
        {
            // Its values change nothing of where it runs.
            let explained =
                |piece: &SubStatement| piece.prepared.explain(&piece.values(values, &Kept::new()));
            let before = before.iter().map(explained).collect::<Result<_, _>>()?;
            return Ok(Explained { before, ..explained(last)? });
        }
        let of = program.shards;
        let (call, callee) = match self.of.wish(self, values, begins_now())? {
            Wish::Call(call, _) => (call, &self.what),
            Wish::Read(gather, values, _) => {
                let owner = gather.asks_owner(&values, program);
                let shards: Vec<ShardId> = match owner {
                    Some(owner) => vec![owner],
                    None => gather.queries(&values, (program, 0.into()))?.into_keys().collect(),
                };
                let asked = shards.len() as u32 + u32::from(owner.is_some());
                return Ok(Explained {
                    what: self.name().to_owned(),
                    mechanism: self.mechanism(),
                    of,
                    decides: None,
                    round_trips: if owner.is_some() { asked } else { asked.min(1) },
                    // A request, a reply, and the end of the read.
                    messages: 3 * asked,
                    guards: Vec::new(),
                    why: match owner {
                        Some(_) => {
                            "it writes nothing; the owner of the unique key says at which shard the row is"
                                .to_owned()
                        }
                        None => {
                            "it writes nothing; of each transaction it sees all or nothing, over all shards"
                                .to_owned()
                        }
                    },
                    reasons: Vec::new(),
                    lives: lives(application, program, gather.tables()),
                    accesses: gather.accesses(&values, program),
                    before: Vec::new(),
                    shards,
                });
            }
            _ => unreachable!("a wish of what was prepared is a call or a read"),
        };
        let owner = program.asks_owner(&call);
        let mut shards = match owner {
            Some(owner) => vec![owner],
            None => program.participants_by_itself(&call)?,
        };
        let decides = shards.last().copied().filter(|_| shards.len() > 1);
        shards.sort_unstable();
        let others = shards.len() as u32 - 1;
        let (what, reasons) = match callee {
            What::Call { procedure, .. } => {
                (format!("call of {}", self.name()), reasons::of_procedure(application, *procedure))
            }
            What::Write { text, .. } => {
                (self.name().to_owned(), program.reasons(text).map_err(|wrong| wrong.error)?)
            }
            What::Many(many) => {
                let What::Write { text, .. } = &many.one().what else { unreachable!("an INSERT writes") };
                (self.name().to_owned(), program.reasons(text).map_err(|wrong| wrong.error)?)
            }
            What::Query { .. } | What::SubStatements(_) => unreachable!("it is no one call"),
        };
        let plan = self.plan();
        let names = reasons::invariant_names(application);
        let guards = plan.iter().flat_map(|plan| &plan.guards).map(|guard| ExplainedGuard {
            kind: guard.kind.name(),
            on: guard_on(application, guard),
            shared: guard.shared,
            keeps: guard.keeps.iter().filter_map(|id| names.get(id.0 as usize).cloned()).collect(),
            why: guard.why.clone(),
        });
        let runs = program.callee(&call.callee)?;
        let met = runs.admission.when_met().iter();
        let when_met: String =
            met.map(|error| format!("; refused where it meets such a row: {}", error.message())).collect();
        // All shards but one prepare; that one decides, which is the answer; then the others commit.
        let (mut round_trips, mut messages) = (1 + u32::from(others > 0), 3 * others + 2);
        let mut at_owners = String::new();
        let mut why = plan.as_ref().map(|plan| plan.why.clone()).unwrap_or_default();
        let asks_owners_at_once = runs.inserted_keys.is_some();
        if runs.carries && !asks_owners_at_once {
            // The statement, then its writes at owners of keys, which prepare with them, and the decision. All other shards may be owners.
            let owners = u32::from(of) - 1;
            round_trips += 2;
            messages = 2 * (others + 1) + 3 * owners + 2;
            at_owners = "; round trips and messages are those with one round at other shards, which own its unique keys or have parents of its rows; one more where they have children of them".to_owned();
        }
        if asks_owners_at_once {
            at_owners += "; the owners of its unique keys are asked at the same time: where another transaction holds one, the statement begins again and waits there";
        }
        if owner.is_some() {
            (round_trips, messages) = (round_trips + 1, messages + 2);
            at_owners += "; the owner of the unique key that names the row is asked first, and says where the row is: one round trip less if it is there";
        }
        let is_ordered = program.orders(&call);
        if is_ordered {
            // To the sequencer, from there to each participant, and an answer of each.
            (round_trips, messages) = (1, 1 + 2 * (others + 1));
            if others > 0 {
                let votes = messages + others * (others + 1);
                match program.agreement_on(&call) {
                    Agreement::None => {}
                    // Each participant tells all others its vote: half a round trip.
                    Agreement::Votes => {
                        (round_trips, messages) = (2, votes);
                        at_owners += "; one shard alone may refuse its part, so the participants vote";
                    }
                    // The votes to the last one, and its own: a round trip.
                    Agreement::Last => {
                        (round_trips, messages) = (2, votes);
                        at_owners += "; one shard needs what the others find, so these vote, and it decides";
                    }
                }
            }
        }
        if let (Admission::Interactive(why), true) = (&runs.admission, others > 0 && !is_ordered) {
            // The snapshot of its reads, the statements, and the COMMIT if it writes.
            let statements = program.statements_of(&call.callee)? as u32;
            round_trips = 1 + statements + 2 * u32::from(!runs.read_only);
            messages = 2 * u32::from(of) * round_trips;
            at_owners = format!(
                "; interactive, since it cannot be one message: {why}; round trips and messages are those of each statement run once, on all shards"
            );
        }
        if let Some(locking) = runs.admission.locking() {
            // The barrier, the statement, the locks and the rows of each check, and the COMMIT.
            round_trips = u32::from(locking.excludes) + 1 + 2 * locking.checks.len() as u32 + 2;
            messages = 2 * u32::from(of) * round_trips;
            let barrier = if locking.excludes { ", and all other writers wait until it ends" } else { "" };
            why = format!("a serializable transaction{barrier}: {}", locking.why);
        }
        Ok(Explained {
            what,
            mechanism: self.mechanism(),
            shards,
            of,
            // An ordered call is decided by its place, not by a shard.
            decides: decides.filter(|_| !is_ordered),
            round_trips,
            messages,
            guards: guards.collect(),
            why: why + &at_owners + &when_met,
            reasons,
            lives: lives(application, program, runs.written_tables()),
            accesses: runs.accesses(program),
            before: Vec::new(),
        })
    }
}

/// Where the rows of these tables live.
fn lives(
    application: &Application,
    program: &Program,
    tables: impl Iterator<Item = TableId>,
) -> Vec<(String, String)> {
    let (catalog, placement) = (&application.catalog, &program.placement);
    let is_placed = |table: &TableId| program.shards > 1 && (table.0 as usize) < placement.len();
    let tables: BTreeSet<TableId> = tables.filter(is_placed).collect();
    let of = |table| (catalog.table(table).name.clone(), weir_analysis::lives(catalog, placement, table));
    tables.into_iter().map(of).collect()
}

impl Client {
    /// Begins what was prepared on this client, in the open transaction of that name or by itself; what it has taken can be had
    /// once it has ended ([`Client::take_trace`], by the tag of what is given).
    pub fn begin_traced(
        &self,
        within: Option<u64>,
        prepared: &Prepared,
        values: &[Value],
    ) -> Pending<CallResult> {
        self.submit_computed(|| {
            let wish = prepared.of.wish(prepared, values, begins_now())?;
            let wish = match within {
                Some(name) => wish.within(name),
                None => wish,
            };
            Ok(Wish::Traced(Box::new(wish)))
        })
    }

    /// Which statements of this client wait for locks at the moment: rows of their tag ([`Pending::tag`]), the name of the open transaction
    /// that they wait for (NULL: it is none of this client's), and since when, in milliseconds of the Unix epoch.
    pub fn begin_waits(&self) -> Pending<CallResult> {
        self.submit_call(Ok(Wish::Waits))
    }

    pub fn take_trace(&self, tag: u64) -> Option<Trace> {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let at = told.iter().position(|(of, _)| *of == tag)?;
        Some(told.swap_remove(at).1)
    }
}
