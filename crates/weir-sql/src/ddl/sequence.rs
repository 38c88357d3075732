//! CREATE SEQUENCE, ALTER SEQUENCE, and the options of identity columns.

use pg_query::protobuf::{AlterSeqStmt, CreateSeqStmt, DefElem, Node, node};
use weir_types::{SqlState, SqlType};

use super::types::{object_path, path};
use super::{Schema, relation_name};
use crate::binder::expr_strings;
use crate::catalog::{ColumnIndex, Sequence, SequenceId, TableId};
use crate::parse::Piece;
use crate::source::{Diagnostic, Span};
use crate::type_name;

/// As written; what is missing depends on the type and the direction.
#[derive(Debug, Default)]
pub(super) struct SequenceOptions {
    pub name: Option<String>,
    ty: Option<SqlType>,
    start: Option<i64>,
    restart: Option<i64>,
    increment: Option<i64>,
    minimum: Option<i64>,
    maximum: Option<i64>,
    cycle: bool,
    /// `table.column`; empty for NONE.
    owned_by: Option<Vec<String>>,
}

impl SequenceOptions {
    /// The options of an existing sequence, for another one.
    pub fn like(sequence: &Sequence) -> SequenceOptions {
        SequenceOptions {
            start: Some(sequence.declared_start),
            increment: Some(sequence.increment),
            minimum: Some(sequence.minimum),
            maximum: Some(sequence.maximum),
            cycle: sequence.cycle,
            ..SequenceOptions::default()
        }
    }

    pub fn read(piece: Piece<'_>, options: &[Node], span: Span) -> Result<SequenceOptions, Diagnostic> {
        let mut read = SequenceOptions::default();
        let mut before: Vec<&str> = Vec::new();
        for node in options {
            let Some(node::Node::DefElem(option)) = &node.node else { continue };
            let place = if option.location >= 0 { piece.token(option.location) } else { span };
            if before.contains(&option.defname.as_str()) {
                let message = "conflicting or redundant options";
                return Err(Diagnostic::new(SqlState::SYNTAX_ERROR, place, message));
            }
            before.push(&option.defname);
            match option.defname.as_str() {
                "as" => {
                    if let Some(node::Node::TypeName(name)) = value(option) {
                        read.ty = Some(type_name::resolve(piece, name)?);
                    }
                }
                "start" => read.start = number(option, place)?,
                "restart" => read.restart = number(option, place)?,
                "increment" => read.increment = number(option, place)?,
                "minvalue" => read.minimum = number(option, place)?,
                "maxvalue" => read.maximum = number(option, place)?,
                "cycle" => {
                    read.cycle = matches!(value(option), Some(node::Node::Boolean(cycle)) if cycle.boolval);
                }
                // The server decides here how many values a session takes at once.
                "cache" => match number(option, place)? {
                    Some(cache) if cache <= 0 => {
                        let message = format!("CACHE ({cache}) must be greater than zero");
                        return Err(Diagnostic::new(SqlState::INVALID_PARAMETER_VALUE, place, message));
                    }
                    _ => {}
                },
                "logged" => {}
                "owned_by" => {
                    if let Some(node::Node::List(list)) = value(option) {
                        let names = expr_strings(&list.items).into_iter().map(str::to_owned);
                        read.owned_by = Some(names.filter(|name| name != "none").collect());
                    }
                }
                "sequence_name" => {
                    if let Some(node::Node::List(list)) = value(option) {
                        read.name = Some(object_path(&list.items)).filter(|name| !name.is_empty());
                    }
                }
                other => {
                    return Err(Diagnostic::unsupported(
                        place,
                        format!("the sequence option {other}"),
                        "AS, START, INCREMENT, MINVALUE, MAXVALUE, CYCLE, CACHE and OWNED BY are",
                    ));
                }
            }
        }
        Ok(read)
    }
}

/// The option of that name.
fn option<'n>(options: &'n [Node], wanted: &str) -> Option<&'n DefElem> {
    options.iter().find_map(|node| match &node.node {
        Some(node::Node::DefElem(option)) if option.defname == wanted => Some(&**option),
        _ => None,
    })
}

fn value(option: &DefElem) -> Option<&node::Node> {
    option.arg.as_deref()?.node.as_ref()
}

/// `None` for NO MINVALUE and the like.
fn number(option: &DefElem, span: Span) -> Result<Option<i64>, Diagnostic> {
    let digits = match value(option) {
        None => return Ok(None),
        Some(node::Node::Integer(number)) => return Ok(Some(number.ival.into())),
        Some(node::Node::Float(number)) => number.fval.as_str(),
        Some(_) => "",
    };
    digits.parse().map(Some).map_err(|_| {
        Diagnostic::new(
            SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
            span,
            format!("value \"{digits}\" of {} is out of range for type bigint", option.defname),
        )
    })
}

fn limits(ty: &SqlType) -> (i64, i64) {
    match ty {
        SqlType::Int2 => (i16::MIN.into(), i16::MAX.into()),
        SqlType::Int4 => (i32::MIN.into(), i32::MAX.into()),
        _ => (i64::MIN, i64::MAX),
    }
}

impl Schema {
    pub(super) fn create_sequence(
        &mut self,
        piece: Piece<'_>,
        create: &CreateSeqStmt,
        span: Span,
    ) -> Result<(), Diagnostic> {
        let Some(range) = &create.sequence else {
            return Err(Diagnostic::new(SqlState::SYNTAX_ERROR, span, "CREATE SEQUENCE without a name"));
        };
        if self.check_new_relation(piece, range, create.if_not_exists)? {
            return Ok(());
        }
        let options = SequenceOptions::read(piece, &create.options, span)?;
        let owner = match &options.owned_by {
            Some(names) => self.sequence_owner(names, span)?,
            None => None,
        };
        let ty = options.ty.clone().unwrap_or(SqlType::Int8);
        self.add_sequence(relation_name(range), &ty, &options, owner, span).map(|_| ())
    }

    pub(super) fn add_sequence(
        &mut self,
        name: String,
        ty: &SqlType,
        options: &SequenceOptions,
        owner: Option<(TableId, ColumnIndex)>,
        span: Span,
    ) -> Result<SequenceId, Diagnostic> {
        let invalid = |message: String| Diagnostic::new(SqlState::INVALID_PARAMETER_VALUE, span, message);
        if !ty.is_integer() {
            return Err(invalid("sequence type must be smallint, integer, or bigint".to_owned()));
        }
        let increment = options.increment.unwrap_or(1);
        if increment == 0 {
            return Err(invalid("INCREMENT must not be zero".to_owned()));
        }
        let (lowest, highest) = limits(ty);
        let minimum = options.minimum.unwrap_or(if increment > 0 { 1 } else { lowest });
        let maximum = options.maximum.unwrap_or(if increment > 0 { highest } else { -1 });
        for (what, bound) in [("MINVALUE", minimum), ("MAXVALUE", maximum)] {
            if bound < lowest || bound > highest {
                return Err(invalid(format!("{what} ({bound}) is out of range for sequence data type {ty}")));
            }
        }
        if minimum >= maximum {
            return Err(invalid(format!("MINVALUE ({minimum}) must be less than MAXVALUE ({maximum})")));
        }
        let start = options.start.unwrap_or(if increment > 0 { minimum } else { maximum });
        if start < minimum {
            return Err(invalid(format!("START value ({start}) cannot be less than MINVALUE ({minimum})")));
        }
        if start > maximum {
            return Err(invalid(format!(
                "START value ({start}) cannot be greater than MAXVALUE ({maximum})"
            )));
        }
        let id = SequenceId(self.catalog.sequences.len() as u32);
        let cycle = options.cycle;
        self.catalog.sequences.push(Sequence {
            id,
            name,
            ty: ty.clone(),
            start,
            declared_start: start,
            comment: None,
            increment,
            minimum,
            maximum,
            cycle,
            restarts: 0,
            owner,
            span,
        });
        Ok(id)
    }

    fn sequence_owner(
        &self,
        names: &[String],
        span: Span,
    ) -> Result<Option<(TableId, ColumnIndex)>, Diagnostic> {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let (table, column) = match names.as_slice() {
            [] => return Ok(None),
            [table @ .., column] if matches!(table.len(), 1 | 2) => (path(table), *column),
            _ => {
                return Err(Diagnostic::new(
                    SqlState::SYNTAX_ERROR,
                    span,
                    "OWNED BY wants table.column or NONE",
                ));
            }
        };
        let table = self.catalog.table_named(&table, span)?;
        Ok(Some((table.id, table.column_named(column, span)?)))
    }

    /// Where it begins again, its bounds and its owner.
    pub(super) fn alter_sequence(
        &mut self,
        piece: Piece<'_>,
        alter: &AlterSeqStmt,
        span: Span,
    ) -> Result<(), Diagnostic> {
        let Some(range) = &alter.sequence else { return Ok(()) };
        let wanted = relation_name(range);
        if self.catalog.sequences.iter().all(|sequence| sequence.name != wanted) {
            let place = piece.token(range.location);
            return match alter.missing_ok {
                true => {
                    self.pass_missing(span, &format!("relation \"{}\"", range.relname));
                    Ok(())
                }
                false if self.relation_exists(&wanted) => {
                    let message = format!("\"{}\" is not a sequence", range.relname);
                    Err(Diagnostic::new(SqlState::WRONG_OBJECT_TYPE, place, message))
                }
                false => Err(self.no_relation(&wanted, place)),
            };
        }
        self.change_sequence(piece, &wanted, &alter.options, span)
    }

    /// Applies ALTER SEQUENCE, or ALTER COLUMN of an identity, to the sequence of that name.
    pub(super) fn change_sequence(
        &mut self,
        piece: Piece<'_>,
        wanted: &str,
        given: &[Node],
        span: Span,
    ) -> Result<(), Diagnostic> {
        let options = SequenceOptions::read(piece, given, span)?;
        let is_given = |wanted: &str| option(given, wanted).is_some();
        let invalid = |message: &str| Err(Diagnostic::new(SqlState::INVALID_PARAMETER_VALUE, span, message));
        if options.increment == Some(0) {
            return invalid("INCREMENT must not be zero");
        }
        if options.ty.as_ref().is_some_and(|ty| !ty.is_integer()) {
            return invalid("sequence type must be smallint, integer, or bigint");
        }
        let owner = match &options.owned_by {
            Some(names) => Some(self.sequence_owner(names, span)?),
            None => None,
        };
        let Some(at) = self.catalog.sequences.iter().position(|one| one.name == wanted) else {
            return Ok(());
        };
        let was = &self.catalog.sequences[at];
        let steps_otherwise = options.increment.is_some_and(|increment| increment != was.increment)
            || options.ty.as_ref().is_some_and(|ty| *ty != was.ty);
        if steps_otherwise && !is_given("restart") {
            let refusal = Diagnostic::unsupported(
                span,
                "ALTER SEQUENCE with another type or increment but without RESTART",
                "say where it begins again, too: ALTER SEQUENCE … INCREMENT … RESTART WITH …",
            );
            return self.ignored(refusal, false);
        }
        if let (Some(owner), Some((table, column))) = (owner, was.owner) {
            let column = &self.catalog.table(table).columns[column];
            if column.is_identity && owner != was.owner {
                let message = "cannot change ownership of identity sequence";
                return Err(Diagnostic::new(SqlState::FEATURE_NOT_SUPPORTED, span, message));
            }
        }
        let mut now = was.clone();
        now.owner = owner.unwrap_or(now.owner);
        now.increment = options.increment.unwrap_or(now.increment);
        now.ty = options.ty.unwrap_or(now.ty);
        let (before, after) = (limits(&was.ty), limits(&now.ty));
        let rises = now.increment > 0;
        // A bound that was the type's is that of the new type.
        let (lowest, highest) = if rises { (1, after.1) } else { (after.0, -1) };
        let follows = |bound: i64, limit: i64| is_given("as") && bound == limit;
        now.minimum = match options.minimum {
            Some(minimum) => minimum,
            None if is_given("minvalue") || follows(now.minimum, before.0) => lowest,
            None => now.minimum,
        };
        now.maximum = match options.maximum {
            Some(maximum) => maximum,
            None if is_given("maxvalue") || follows(now.maximum, before.1) => highest,
            None => now.maximum,
        };
        now.cycle = if is_given("cycle") { options.cycle } else { now.cycle };
        now.declared_start = options.start.unwrap_or(now.declared_start);
        if is_given("restart") {
            now.start = options.restart.unwrap_or(now.declared_start);
            now.restarts += 1;
        }
        let out_of_type = [("MINVALUE", now.minimum), ("MAXVALUE", now.maximum)]
            .into_iter()
            .find(|(_, bound)| *bound < after.0 || *bound > after.1);
        let wrong = match out_of_type {
            Some((what, bound)) => {
                Some(format!("{what} ({bound}) is out of range for sequence data type {}", now.ty))
            }
            None if now.minimum >= now.maximum => {
                Some(format!("MINVALUE ({}) must be less than MAXVALUE ({})", now.minimum, now.maximum))
            }
            None if now.declared_start < now.minimum || now.declared_start > now.maximum => Some(format!(
                "START value ({}) must be between MINVALUE ({}) and MAXVALUE ({})",
                now.declared_start, now.minimum, now.maximum
            )),
            None if now.start < now.minimum => {
                Some(format!("RESTART value ({}) cannot be less than MINVALUE ({})", now.start, now.minimum))
            }
            None if now.start > now.maximum => Some(format!(
                "RESTART value ({}) cannot be greater than MAXVALUE ({})",
                now.start, now.maximum
            )),
            None => None,
        };
        if let Some(message) = wrong {
            return Err(Diagnostic::new(SqlState::INVALID_PARAMETER_VALUE, span, message));
        }
        self.catalog.sequences[at] = now;
        Ok(())
    }
}
