//! Admission of transactions: one decision procedure, used by `weir analyze`, by servers and by EXPLAIN (docs/internals/admission.md).
//!
//! The decision depends on the plan and on the shards that a call needs, never on data, and runs nothing.

use weir_analysis::open_world::Refusal;
use weir_analysis::plan::{GuardKind, Plan, Refused, Runs, TransactionPlan};
use weir_sql::Application;
use weir_types::{SqlError, SqlState};

use super::program::{Participants, Program};

/// Decision on the calls of one transaction. A refused call has no effect.
#[derive(Clone, Debug)]
pub enum Admission {
    Runs,
    /// Runs on a single shard only; other calls are refused with this error.
    OnOneShard(SqlError),
    /// A call over several shards is interactive: the coordinator interprets the procedure. Says why.
    Interactive(String),
    /// Runs as a serializable transaction, on one shard too.
    UnderLocks(Box<Locking>),
    /// Refused with one of these errors if the call meets certain rows; otherwise runs.
    UnlessMet(Vec<SqlError>),
    Refused(SqlError),
}

/// How a transaction runs under locks.
#[derive(Clone, Debug)]
pub struct Locking {
    pub why: String,
    /// It keeps out all other writers while it runs: interval locks do not order it with a procedure over several shards that was planned
    /// for a world without it.
    pub excludes: bool,
    /// Assertions that are checked before it commits, by their index: it is not shown to keep them by itself.
    pub checks: Vec<usize>,
    /// Error of a call over several shards.
    pub over_shards: Option<SqlError>,
}

impl Admission {
    /// `plan` of the transaction; none for statements that are decided otherwise.
    pub(super) fn of(
        name: &str,
        plan: Option<&TransactionPlan>,
        (participants, carries): (&Participants, bool),
        (shards, may_be_interactive): (u16, bool),
    ) -> Admission {
        if let Some(plan) = plan.filter(|plan| plan.mechanism.is_ordered_family())
            && (carries || !participants.is_one_shard(shards))
        {
            return match may_be_interactive {
                true => Admission::Interactive(kept_by_locks(plan)),
                false => Admission::Refused(needs_order(name, plan)),
            };
        }
        match &participants.unsupported {
            Some(why) if shards > 1 && may_be_interactive => Admission::Interactive(why.clone()),
            Some(why) if shards > 1 => Admission::OnOneShard(spans_shards(name, why)),
            _ if shards > 1 && !participants.met.is_empty() => Admission::UnlessMet(participants.met.clone()),
            _ => Admission::Runs,
        }
    }

    /// # Errors
    /// The error of a call that needs that number of shards.
    pub fn check(&self, participants: usize) -> Result<(), SqlError> {
        match self {
            Admission::Refused(error) => Err(error.clone()),
            Admission::OnOneShard(error) if participants > 1 => Err(error.clone()),
            Admission::UnderLocks(locking) if participants > 1 => {
                locking.over_shards.clone().map_or(Ok(()), Err)
            }
            Admission::Runs
            | Admission::OnOneShard(_)
            | Admission::Interactive(_)
            | Admission::UnderLocks(_)
            | Admission::UnlessMet(_) => Ok(()),
        }
    }

    /// Error with which every call is refused.
    pub fn refused(&self) -> Option<&SqlError> {
        match self {
            Admission::Refused(error) => Some(error),
            Admission::Runs
            | Admission::OnOneShard(_)
            | Admission::Interactive(_)
            | Admission::UnderLocks(_)
            | Admission::UnlessMet(_) => None,
        }
    }

    /// Errors with which calls may be refused, depending on the rows that they meet.
    pub fn when_met(&self) -> &[SqlError] {
        match self {
            Admission::UnlessMet(errors) => errors,
            Admission::Runs
            | Admission::OnOneShard(_)
            | Admission::Interactive(_)
            | Admission::UnderLocks(_)
            | Admission::Refused(_) => &[],
        }
    }

    /// How it runs under locks, on one shard too.
    pub fn locking(&self) -> Option<&Locking> {
        match self {
            Admission::UnderLocks(locking) => Some(locking),
            _ => None,
        }
    }

    /// The same decision for a transaction that has to run under locks, for these reasons.
    pub(super) fn under_locks(self, (why, excludes): (String, bool), checks: Vec<usize>) -> Admission {
        let over_shards = match self {
            Admission::OnOneShard(error) => Some(error),
            Admission::Refused(_) => return self,
            Admission::Runs
            | Admission::Interactive(_)
            | Admission::UnderLocks(_)
            | Admission::UnlessMet(_) => None,
        };
        Admission::UnderLocks(Box::new(Locking { why, excludes, checks, over_shards }))
    }
}

/// Any number above one, where the exact number does not matter.
const SEVERAL: u16 = 4;

/// Decisions for every procedure of the application. Insert, update and delete of a table are ad-hoc statements, which are decided when
/// they arrive ([`of_statement`]).
pub fn runs(application: &Application, plan: &Plan) -> Vec<Runs> {
    let on = |shards| {
        Program::compile(application, plan, shards).map_err(|wrong| {
            let place = application.sources.place(wrong.span);
            refused(&wrong.error, format!("{place}: {}", wrong.error.message()))
        })
    };
    let (one, several) = (on(1), on(SEVERAL));
    let said = |error: &SqlError| refused(error, error.message().to_owned());
    let of = |program: &Result<Program, Refused>, procedure: usize| match program {
        Err(refused) => (false, false, vec![refused.clone()]),
        Ok(program) => match &program.procedures[procedure].admission {
            Admission::Runs | Admission::Interactive(_) | Admission::UnderLocks(_) => {
                (true, true, Vec::new())
            }
            Admission::OnOneShard(error) => (false, true, vec![said(error)]),
            Admission::UnlessMet(errors) => (false, true, errors.iter().map(said).collect()),
            Admission::Refused(error) => (false, false, vec![said(error)]),
        },
    };
    let met = |procedure: usize| -> Vec<Refused> {
        let program = several.as_ref().ok();
        let errors = program.map(|program| &program.procedures[procedure].participants.met);
        errors.into_iter().flatten().map(said).collect()
    };
    let runs = |procedure: usize| {
        let (on_one_shard, _, wrong) = of(&one, procedure);
        let (on_several, single_shard_calls, wrong_on_several) = of(&several, procedure);
        let refused = wrong.into_iter().chain(wrong_on_several).next();
        let program = several.as_ref().ok();
        let interactive = program.and_then(|program| match &program.procedures[procedure].admission {
            // One message to each shard, in the order of the sequencer.
            Admission::Interactive(_) if program.procedures[procedure].independent.is_ok() => None,
            Admission::Interactive(why) => Some(why.clone()),
            Admission::UnderLocks(locking) => Some(locking.why.clone()),
            _ => None,
        });
        Runs { on_one_shard, on_several, single_shard_calls, interactive, refused, when_met: met(procedure) }
    };
    (0..application.procedures.len()).map(runs).collect()
}

fn refused(error: &SqlError, reason: String) -> Refused {
    let fields = error.fields();
    Refused { state: fields.state.to_string(), reason, instead: fields.hint.clone() }
}

/// Why an ad-hoc statement runs under locks. `name`: its action, as in `UPDATE member`.
pub(super) fn of_statement(name: &str, refusal: &Refusal) -> String {
    match refusal {
        Refusal::Endangers { procedure, why } => {
            format!("{procedure} was planned for a world without this {name}: {why}")
        }
        Refusal::Unkept { why } => why.clone(),
        Refusal::Unchecked { assertion, operation, .. } => {
            format!(
                "assertion \"{assertion}\" may not hold after it ({operation}), and is checked before it commits"
            )
        }
    }
}

/// Assertions that a transaction checks before it commits, by their index, each with the reason.
pub(super) fn checks(plan: &TransactionPlan) -> impl Iterator<Item = (usize, &str)> {
    plan.guards.iter().filter_map(|guard| match guard.kind {
        GuardKind::Check(assertion) => Some((assertion as usize, &*guard.why)),
        _ => None,
    })
}

/// The decision on a procedure, and the assertions that it checks before it commits.
pub(super) fn with_checks(admission: Admission, plan: Option<&TransactionPlan>) -> Admission {
    let checks: Vec<(usize, &str)> = plan.into_iter().flat_map(checks).collect();
    let Some((_, why)) = checks.first() else { return admission };
    let why = format!("it checks before it commits what it is not shown to keep by itself: {why}");
    admission.under_locks((why, false), checks.iter().map(|(assertion, _)| *assertion).collect())
}

fn kept_by_locks(plan: &TransactionPlan) -> String {
    format!("its plan is `{}`, which several shards keep by locks: {}", plan.mechanism.name(), plan.why)
}

fn needs_order(name: &str, plan: &TransactionPlan) -> SqlError {
    let mechanism = plan.mechanism.name();
    let message = format!(
        "not supported: {name} on several shards: its plan is `{mechanism}`, and order among transactions on several shards is not \
         built: {}",
        plan.why
    );
    let change = match plan.promoted_by {
        Some(_) => "take what is named last out of order, or share nothing with it",
        None => "change what `weir analyze` says needs order",
    };
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).with_hint(format!(
        "Run it on one shard (--shards 1), or keep all rows of a call together (COMMENT ON TABLE … IS 'weir: partition by (…)'), or \
         {change}."
    ))
}

fn spans_shards(name: &str, why: &str) -> SqlError {
    let message = format!("{name} cannot run on several shards: {why}");
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).with_hint(
        "Place the rows that it needs together (COMMENT ON TABLE … IS 'weir: partition by (…)') or run on one shard; or read them in a \
         transaction, FOR UPDATE, and write rows by their keys.",
    )
}
