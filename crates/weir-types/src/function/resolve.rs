//! Which overload a call means: PostgreSQL's rules (chapter 10.3 of its manual).

use super::{Arg, Function, overloads};
use crate::cast::{CastContext, can_cast};
use crate::error::{SqlError, SqlState};
use crate::sql_type::SqlType;

#[derive(Clone, Debug)]
pub struct Resolved {
    pub function: &'static Function,
    /// Type that each argument must be cast to.
    pub args: Vec<SqlType>,
    pub result: SqlType,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Category {
    Boolean,
    Number,
    String,
    Time,
    Span,
    Array,
    Other,
}

impl Arg {
    /// The type itself, unless it depends on the call.
    fn concrete(self) -> Option<SqlType> {
        Some(match self {
            Arg::Bool => SqlType::Bool,
            Arg::Int2 => SqlType::Int2,
            Arg::Int4 => SqlType::Int4,
            Arg::Int8 => SqlType::Int8,
            Arg::Numeric => SqlType::Numeric(None),
            Arg::Float4 => SqlType::Float4,
            Arg::Float8 => SqlType::Float8,
            Arg::Text => SqlType::Text,
            Arg::Date => SqlType::Date,
            Arg::Timestamp => SqlType::Timestamp,
            Arg::Timestamptz => SqlType::Timestamptz,
            Arg::Interval => SqlType::Interval,
            Arg::Uuid => SqlType::Uuid,
            Arg::Bytea => SqlType::Bytea,
            Arg::Jsonb => SqlType::Jsonb,
            Arg::TextArray => SqlType::array_of(SqlType::Text),
            Arg::Int4Array => SqlType::array_of(SqlType::Int4),
            Arg::Any | Arg::AnyElement | Arg::AnyArray => return None,
        })
    }

    fn category(self) -> Category {
        match self {
            Arg::Bool => Category::Boolean,
            Arg::Int2 | Arg::Int4 | Arg::Int8 | Arg::Numeric | Arg::Float4 | Arg::Float8 => Category::Number,
            Arg::Text => Category::String,
            Arg::Date | Arg::Timestamp | Arg::Timestamptz => Category::Time,
            Arg::Interval => Category::Span,
            Arg::TextArray | Arg::Int4Array | Arg::AnyArray => Category::Array,
            Arg::Uuid | Arg::Bytea | Arg::Jsonb | Arg::Any | Arg::AnyElement => Category::Other,
        }
    }

    /// The type that its category prefers.
    fn is_preferred(self) -> bool {
        matches!(self, Arg::Bool | Arg::Float8 | Arg::Text | Arg::Timestamptz | Arg::Interval)
    }
}

fn category_of(ty: &SqlType) -> Category {
    match ty {
        SqlType::Bool => Category::Boolean,
        _ if ty.is_number() => Category::Number,
        SqlType::Text | SqlType::Varchar(_) | SqlType::Char(_) => Category::String,
        SqlType::Date | SqlType::Timestamp | SqlType::Timestamptz => Category::Time,
        SqlType::Interval => Category::Span,
        SqlType::Array(_) => Category::Array,
        _ => Category::Other,
    }
}

struct Candidate {
    function: &'static Function,
    /// One per actual argument.
    declared: Vec<Arg>,
    resolved: Resolved,
}

/// Finds the overload (42883 if none fits, 42725 if several fit equally well).
pub fn resolve(name: &str, args: &[SqlType]) -> Result<Resolved, SqlError> {
    let mut candidates: Vec<Candidate> =
        overloads(name).iter().filter_map(|function| candidate(function, args)).collect();
    if let Some(at) = candidates.iter().position(|candidate| {
        !candidate.function.variadic
            && candidate.declared.iter().zip(args).all(|(declared, arg)| is_exact(*declared, arg))
    }) {
        return Ok(candidates.swap_remove(at).resolved);
    }
    keep_best(&mut candidates, is_exact, args);
    keep_best(&mut candidates, |declared, arg| is_exact(declared, arg) || prefers(declared, arg), args);
    if candidates.len() > 1 {
        settle_unknown(&mut candidates, args);
    }
    match candidates.len() {
        1 => Ok(candidates.remove(0).resolved),
        0 => Err(SqlError::new(
            SqlState::UNDEFINED_FUNCTION,
            format!("function {} does not exist", called(name, args)),
        )
        .with_hint(
            "No function matches the given name and argument types. You might need to add explicit type casts.",
        )),
        _ => Err(SqlError::new(
            SqlState::AMBIGUOUS_FUNCTION,
            format!("function {} is not unique", called(name, args)),
        )
        .with_hint(
            "Could not choose a best candidate function. You might need to add explicit type casts.",
        )),
    }
}

fn called(name: &str, args: &[SqlType]) -> String {
    let types: Vec<String> = args.iter().map(SqlType::name).collect();
    format!("{name}({})", types.join(", "))
}

fn is_exact(declared: Arg, arg: &SqlType) -> bool {
    match (declared, arg) {
        (_, SqlType::Unknown) => false,
        // A varchar is text but for its name; PostgreSQL has no functions of its own for it.
        (Arg::Text, SqlType::Varchar(_) | SqlType::Char(_)) => true,
        (Arg::AnyArray, SqlType::Array(_)) | (Arg::Any | Arg::AnyElement, _) => true,
        _ => declared.concrete().is_some_and(|declared| declared == arg.base()),
    }
}

fn prefers(declared: Arg, arg: &SqlType) -> bool {
    *arg != SqlType::Unknown && declared.is_preferred() && declared.category() == category_of(arg)
}

/// Keeps the candidates for which `counts` holds of the most arguments.
fn keep_best(candidates: &mut Vec<Candidate>, counts: impl Fn(Arg, &SqlType) -> bool, args: &[SqlType]) {
    let score = |candidate: &Candidate| {
        candidate.declared.iter().zip(args).filter(|(declared, arg)| counts(**declared, arg)).count()
    };
    if let Some(best) = candidates.iter().map(score).max() {
        candidates.retain(|candidate| score(candidate) == best);
    }
}

/// Literals of unknown type take strings where a candidate does, else the category all agree on, else
/// the type of the known arguments.
fn settle_unknown(candidates: &mut Vec<Candidate>, args: &[SqlType]) {
    for (i, _) in args.iter().enumerate().filter(|(_, arg)| **arg == SqlType::Unknown) {
        let first = candidates[0].declared[i].category();
        let category = if candidates.iter().any(|c| c.declared[i].category() == Category::String) {
            Category::String
        } else if candidates.iter().all(|c| c.declared[i].category() == first) {
            first
        } else {
            return;
        };
        candidates.retain(|c| c.declared[i].category() == category);
        if candidates.iter().any(|c| c.declared[i].is_preferred()) {
            candidates.retain(|c| c.declared[i].is_preferred());
        }
    }
    let mut known = args.iter().filter(|arg| **arg != SqlType::Unknown);
    if let Some(ty) = known.next()
        && candidates.len() > 1
        && known.all(|other| other.base() == ty.base())
    {
        let all_of_it = |c: &Candidate| c.declared.iter().all(|declared| is_exact(*declared, ty));
        if candidates.iter().filter(|c| all_of_it(c)).count() == 1 {
            candidates.retain(all_of_it);
        }
    }
}

/// The overload as a candidate, if the arguments convert implicitly to what it declares.
fn candidate(function: &'static Function, args: &[SqlType]) -> Option<Candidate> {
    let declared: Vec<Arg> = if function.variadic {
        let (last, fixed) = function.args.split_last()?;
        if args.len() < fixed.len() {
            return None;
        }
        let repeated = std::iter::repeat_n(*last, args.len() - fixed.len());
        fixed.iter().copied().chain(repeated).collect()
    } else {
        if args.len() > function.args.len() || args.len() + function.optional < function.args.len() {
            return None;
        }
        function.args[..args.len()].to_vec()
    };
    let element = element_type(&declared, args)?;
    let mut types = Vec::with_capacity(args.len());
    for (declared, arg) in declared.iter().zip(args) {
        let wanted = match declared {
            Arg::Any if *arg == SqlType::Unknown => SqlType::Text,
            Arg::Any => arg.clone(),
            Arg::AnyElement => element.clone()?,
            Arg::AnyArray => SqlType::array_of(element.clone()?),
            concrete => concrete.concrete()?,
        };
        if !can_cast(arg, &wanted, CastContext::Implicit) {
            return None;
        }
        types.push(wanted);
    }
    let result = match function.result {
        Arg::AnyElement => element?,
        Arg::AnyArray => SqlType::array_of(element?),
        // A function of "any" result type has that of its first argument.
        Arg::Any => types.first()?.clone(),
        concrete => concrete.concrete()?,
    };
    Some(Candidate { function, declared, resolved: Resolved { function, args: types, result } })
}

/// The element type that the polymorphic arguments agree on: `Some(None)` if there are none, `None` if
/// they do not agree.
fn element_type(declared: &[Arg], args: &[SqlType]) -> Option<Option<SqlType>> {
    let mut element: Option<SqlType> = None;
    let mut polymorphic = false;
    for (declared, arg) in declared.iter().zip(args) {
        let found = match (declared, arg) {
            (Arg::AnyArray | Arg::AnyElement, SqlType::Unknown) => {
                polymorphic = true;
                continue;
            }
            (Arg::AnyArray, SqlType::Array(of)) => of.base(),
            (Arg::AnyArray, _) => return None,
            (Arg::AnyElement, other) => other.base(),
            _ => continue,
        };
        element = Some(match element.take() {
            None => found,
            Some(known) if can_cast(&found, &known, CastContext::Implicit) => known,
            Some(known) if can_cast(&known, &found, CastContext::Implicit) => found,
            Some(_) => return None,
        });
    }
    if element.is_none() && polymorphic {
        element = Some(SqlType::Text);
    }
    Some(element)
}
