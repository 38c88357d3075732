//! What the engine does with a transaction: one judgement, which `weir analyze`, runs, servers and EXPLAIN ask
//! (docs/internals/admission.md).
//!
//! It follows from the plan and from the shards that a call needs. Never looks at data and never runs anything.

use weir_analysis::open_world::Refusal;
use weir_analysis::plan::{Plan, Refused, Runs, TransactionPlan};
use weir_sql::Application;
use weir_types::{SqlError, SqlState};

use super::program::{Participants, Program};

/// What the engine does with the calls of one transaction. A refused call has done nothing.
#[derive(Clone, Debug)]
pub enum Admission {
    Runs,
    /// Calls whose rows are on one shard run; any other is refused with this error.
    OnOneShard(SqlError),
    /// Calls that meet certain rows are refused then, with one of these errors; any other runs.
    UnlessMet(Vec<SqlError>),
    Refused(SqlError),
}

impl Admission {
    /// `plan`: of the transaction; none for what is judged otherwise.
    pub(super) fn of(
        name: &str,
        plan: Option<&TransactionPlan>,
        participants: &Participants,
        shards: u16,
    ) -> Admission {
        if let Some(plan) = plan.filter(|plan| plan.mechanism.is_ordered_family())
            && !participants.is_one_shard(shards)
        {
            return Admission::Refused(needs_order(name, plan));
        }
        match &participants.unsupported {
            Some(why) if shards > 1 => Admission::OnOneShard(spans_shards(name, why)),
            _ if shards > 1 && !participants.met.is_empty() => Admission::UnlessMet(participants.met.clone()),
            _ => Admission::Runs,
        }
    }

    /// # Errors
    /// Why a call that needs so many shards is refused.
    pub fn check(&self, participants: usize) -> Result<(), SqlError> {
        match self {
            Admission::Refused(error) => Err(error.clone()),
            Admission::OnOneShard(error) if participants > 1 => Err(error.clone()),
            Admission::Runs | Admission::OnOneShard(_) | Admission::UnlessMet(_) => Ok(()),
        }
    }

    /// Why every call is refused.
    pub fn refused(&self) -> Option<&SqlError> {
        match self {
            Admission::Refused(error) => Some(error),
            Admission::Runs | Admission::OnOneShard(_) | Admission::UnlessMet(_) => None,
        }
    }

    /// Why calls may be refused by the rows that they meet.
    pub fn when_met(&self) -> &[SqlError] {
        match self {
            Admission::UnlessMet(errors) => errors,
            Admission::Runs | Admission::OnOneShard(_) | Admission::Refused(_) => &[],
        }
    }
}

/// As many as several are, where it does not matter how many.
const SEVERAL: u16 = 4;

/// Of every procedure that somebody wrote; insert, update and delete of a table are statements by themselves, which are judged when they
/// come ([`of_statement`]).
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
            Admission::Runs => (true, true, Vec::new()),
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
        Runs { on_one_shard, on_several, single_shard_calls, refused, when_met: met(procedure) }
    };
    (0..application.procedures.len()).map(runs).collect()
}

fn refused(error: &SqlError, reason: String) -> Refused {
    let fields = error.fields();
    Refused { state: fields.state.to_string(), reason, instead: fields.hint.clone() }
}

/// Why a statement that is none of the procedures' does not run beside them. `name`: what it does, as in `UPDATE member`.
pub(super) fn of_statement(name: &str, refusal: &Refusal) -> SqlError {
    let (what, instead) = match refusal {
        Refusal::Endangers { procedure: whom, why } => (
            format!("this {name} would endanger {whom}, which was planned without it: {why}"),
            "write a procedure that does it, so that the application is planned with it",
        ),
        Refusal::Unkept { why } => (
            format!("{name} by itself: {why}"),
            "write a procedure that does all that belongs together, and CALL it",
        ),
        Refusal::Unchecked { assertion, .. } => (
            format!("{name} by itself: {assertion} may not hold after it, and nothing checks that"),
            "write a procedure that does all that belongs together, and CALL it",
        ),
    };
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, format!("not supported: {what}")).with_hint(instead)
}

/// Why a definition is not made: with it, a procedure could not run as it would have to.
pub(super) fn of_definition(refusal: &Refusal) -> SqlError {
    let (what, instead) = match refusal {
        Refusal::Endangers { procedure, why } => (
            format!("with this, {procedure} could only run in order with others: {why}"),
            "Change what it is said to need, or drop the procedure first.",
        ),
        Refusal::Unkept { why } => (why.clone(), "Write a procedure that keeps it."),
        Refusal::Unchecked { procedure, assertion, operation } => (
            format!(
                "{procedure} may break assertion \"{assertion}\" by itself ({operation}), and nothing checks that before it commits"
            ),
            "Test it in the procedure (IF … THEN RAISE EXCEPTION), or drop the procedure or the assertion first.",
        ),
    };
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, format!("not supported: {what}")).with_hint(instead)
}

fn needs_order(name: &str, plan: &TransactionPlan) -> SqlError {
    let mechanism = plan.mechanism.name();
    let message = format!(
        "not supported: {name} on several shards: its plan is `{mechanism}`, and order among transactions on several shards is not \
         built: {}",
        plan.why
    );
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).with_hint(
        "Run it on one shard (--shards 1), or keep all rows of a call together (COMMENT ON TABLE … IS 'weir: partition by (…)'), or \
         change what `weir analyze` says needs order.",
    )
}

fn spans_shards(name: &str, why: &str) -> SqlError {
    let message = format!("{name} cannot run on several shards: {why}");
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).with_hint(
        "Place the rows that it needs together (COMMENT ON TABLE … IS 'weir: partition by (…)') or run on one shard; or read them in a \
         transaction, FOR UPDATE, and write rows by their keys.",
    )
}

/// An open transaction commits later than it reads, so nothing that it has tested is certain to hold then.
pub(super) fn in_a_transaction(name: &str) -> SqlError {
    let message = format!(
        "not supported: {name} in a transaction of several statements: it runs in order with others, and so by itself"
    );
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).with_hint("CALL it outside of BEGIN … COMMIT.")
}
