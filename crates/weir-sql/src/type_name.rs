//! Names of types, with their modifiers, to [`SqlType`].

use pg_query::protobuf::{TypeName, a_const, node};
use weir_types::datetime::modifier::{self as time_modifier, PRECISION_MAX};
use weir_types::{SqlState, SqlType};

use crate::binder::{Context, expr_strings};
use crate::catalog::{Catalog, Domain, Table, UserType};
use crate::notes::{self, Notes};
use crate::parse::Piece;
use crate::source::Diagnostic;

/// The name's parts, `pg_catalog` and `public` left away.
fn parts(name: &TypeName) -> Vec<&str> {
    match expr_strings(&name.names).as_slice() {
        ["pg_catalog" | "public", rest @ ..] if !rest.is_empty() => rest.to_vec(),
        all => all.to_vec(),
    }
}

/// The table whose row type this names (`RETURNS SETOF orders`), if there is one.
pub fn table_of<'c>(catalog: &'c Catalog, name: &TypeName) -> Option<&'c Table> {
    match name.pct_type || !name.array_bounds.is_empty() {
        true => None,
        false => catalog.table_by_name(&parts(name).join(".")),
    }
}

/// The type of a value: any but a domain, whose constraints only a column keeps; `table.column%TYPE` too.
pub fn resolve_in(context: &Context<'_>, piece: Piece<'_>, name: &TypeName) -> Result<SqlType, Diagnostic> {
    let (ty, domain) = resolve_column(context, piece, name)?;
    let Some(domain) = domain else { return Ok(ty) };
    let refusal = Diagnostic::unsupported(
        piece.token(name.location),
        format!("the domain {} as the type of a value", domain.name),
        "use its base type here: the domain's constraints hold for the columns that have it",
    );
    notes::note(context.notes, refusal, Notes::replace)?;
    Ok(ty)
}

/// The type of a column, and the domain that it is declared with.
pub fn resolve_column<'c>(
    context: &Context<'c>,
    piece: Piece<'_>,
    name: &TypeName,
) -> Result<(SqlType, Option<&'c Domain>), Diagnostic> {
    if name.pct_type {
        return column_named(context.catalog, piece, name).map(|ty| (ty, None));
    }
    let word = parts(name).join(".");
    match context.catalog.types.get(&word) {
        Some(UserType::Enum(of)) => Ok((arrayed(piece, name, SqlType::Enum(of.clone()))?, None)),
        Some(UserType::Domain(domain)) if name.array_bounds.is_empty() => {
            Ok((domain.base.clone(), Some(domain)))
        }
        _ => match (resolve(piece, name), context.notes) {
            (Ok(ty), _) => Ok((ty, None)),
            (Err(error), Some(notes)) if !name.setof && notes.is_gap(&error) => {
                notes.replace(error);
                Ok((arrayed(piece, name, stand_in(&word))?, None))
            }
            (Err(error), _) => Err(error),
        },
    }
}

/// Substitute for an unsupported type, in texts that are only analysed.
fn stand_in(word: &str) -> SqlType {
    match word {
        "timestamp" => SqlType::Timestamp,
        "timestamptz" => SqlType::Timestamptz,
        "interval" => SqlType::Interval,
        "json" => SqlType::Jsonb,
        "citext" | "name" | "char" => SqlType::Text,
        "money" => SqlType::Numeric(None),
        "oid" | "xid" => SqlType::Int8,
        other => SqlType::Opaque(other.into()),
    }
}

/// `table.column%TYPE`.
fn column_named(catalog: &Catalog, piece: Piece<'_>, name: &TypeName) -> Result<SqlType, Diagnostic> {
    let span = piece.token(name.location);
    let all = parts(name);
    let Some((column_name, table_name)) = all.split_last().filter(|(_, table)| !table.is_empty()) else {
        return Err(Diagnostic::unsupported(span, "this use of %TYPE", "write table.column%TYPE"));
    };
    let table_name = table_name.join(".");
    let table = catalog.table_named(&table_name, span)?;
    let column = table.column_named(column_name, span)?;
    Ok(table.columns[column].ty.clone())
}

/// The modifier of a timestamp or an interval, as `atttypmod` has it ([`weir_types::datetime::modifier`]): columns and casts obey it. The
/// types themselves have none.
pub fn time_modifier(piece: Piece<'_>, name: &TypeName) -> Result<Option<i32>, Diagnostic> {
    let words = parts(name);
    let modifiers = match words.as_slice() {
        ["timestamp" | "timestamptz" | "interval"] => modifiers(piece, name)?,
        _ => return Ok(None),
    };
    if modifiers.is_empty() {
        return Ok(None);
    }
    let is_interval = words == ["interval"];
    let range = modifiers.first().copied().filter(|range| is_interval && *range != ALL_FIELDS);
    let digits = modifiers.get(usize::from(is_interval)).copied();
    if digits.is_some_and(|digits| digits < 0) {
        let message =
            format!("{}({}) precision must not be negative", words[0].to_uppercase(), digits.unwrap_or(0));
        let span = piece.token(name.location);
        return Err(Diagnostic::new(SqlState::INVALID_PARAMETER_VALUE, span, message));
    }
    if !name.array_bounds.is_empty() {
        return Err(Diagnostic::unsupported(
            piece.token(name.location),
            format!("an array of {} with a precision or fields", words[0]),
            "leave the precision or the fields away",
        ));
    }
    Ok(match is_interval {
        true => Some(time_modifier::of_interval(range, digits)),
        false => digits.map(|digits| digits.min(PRECISION_MAX)),
    })
}

/// Refuses the modifier where nothing would obey it.
pub fn refuse_time_modifier(piece: Piece<'_>, name: &TypeName, of: &str) -> Result<(), Diagnostic> {
    match time_modifier(piece, name)? {
        None | Some(PRECISION_MAX) => Ok(()),
        Some(_) => Err(Diagnostic::unsupported(
            piece.token(name.location),
            format!("a precision or fields of {of} of a time"),
            "leave them away; columns and casts may have them",
        )),
    }
}

/// The grammar's mask of `interval(3)`.
const ALL_FIELDS: i32 = 0x7fff;

/// Without its modifier: the parameters and results of routines have none in PostgreSQL.
pub fn unmodified(ty: SqlType) -> SqlType {
    match ty {
        SqlType::Char(_) => SqlType::Char(0),
        SqlType::Array(element) => SqlType::Array(Box::new(unmodified(*element))),
        other => other.base(),
    }
}

/// A type that stands alone: no `%TYPE`, no table.
pub fn resolve(piece: Piece<'_>, name: &TypeName) -> Result<SqlType, Diagnostic> {
    let span = piece.token(name.location);
    if name.setof || name.pct_type {
        return Err(Diagnostic::unsupported(span, "SETOF or %TYPE here", "write the type's name"));
    }
    let words = parts(name);
    let modifiers = modifiers(piece, name)?;
    let [word] = words.as_slice() else {
        return Err(unknown_type(piece, name, &words.join(".")));
    };
    let element = scalar(piece, name, word, &modifiers)?;
    arrayed(piece, name, element)
}

fn arrayed(piece: Piece<'_>, name: &TypeName, element: SqlType) -> Result<SqlType, Diagnostic> {
    match name.array_bounds.len() {
        0 => Ok(element),
        1 if matches!(element, SqlType::Array(_)) => Err(two_dimensions(piece, name)),
        1 => Ok(SqlType::Array(Box::new(element))),
        _ => Err(two_dimensions(piece, name)),
    }
}

fn two_dimensions(piece: Piece<'_>, name: &TypeName) -> Diagnostic {
    Diagnostic::unsupported(
        piece.token(name.location),
        "an array of more than one dimension",
        "use one dimension, or jsonb",
    )
}

fn modifiers(piece: Piece<'_>, name: &TypeName) -> Result<Vec<i32>, Diagnostic> {
    name.typmods
        .iter()
        .map(|modifier| match &modifier.node {
            Some(node::Node::AConst(constant)) => match &constant.val {
                Some(a_const::Val::Ival(number)) => Ok(number.ival),
                _ => Err(bad_modifier(piece, name)),
            },
            _ => Err(bad_modifier(piece, name)),
        })
        .collect()
}

fn bad_modifier(piece: Piece<'_>, name: &TypeName) -> Diagnostic {
    Diagnostic::new(
        SqlState::INVALID_PARAMETER_VALUE,
        piece.token(name.location),
        "type modifiers must be simple constants",
    )
}

/// The type that PostgreSQL's catalog calls so, without a modifier.
pub fn internal(name: &str) -> Option<SqlType> {
    Some(match name {
        "bool" => SqlType::Bool,
        "int2" => SqlType::Int2,
        "int4" => SqlType::Int4,
        "int8" => SqlType::Int8,
        "numeric" => SqlType::Numeric(None),
        "float4" => SqlType::Float4,
        "float8" => SqlType::Float8,
        "text" => SqlType::Text,
        "varchar" => SqlType::Varchar(None),
        "bpchar" => SqlType::Char(0),
        "date" => SqlType::Date,
        "timestamp" => SqlType::Timestamp,
        "timestamptz" => SqlType::Timestamptz,
        "interval" => SqlType::Interval,
        "uuid" => SqlType::Uuid,
        "bytea" => SqlType::Bytea,
        "jsonb" => SqlType::Jsonb,
        _ => return None,
    })
}

fn scalar(piece: Piece<'_>, name: &TypeName, word: &str, modifiers: &[i32]) -> Result<SqlType, Diagnostic> {
    if let Some(element) = word.strip_prefix('_') {
        return Ok(SqlType::Array(Box::new(scalar(piece, name, element, &[])?)));
    }
    let span = piece.token(name.location);
    let invalid = |what: String| Err(Diagnostic::new(SqlState::INVALID_PARAMETER_VALUE, span, what));
    let bare = match word {
        "void" => Some(SqlType::Void),
        "record" => Some(SqlType::Record),
        _ => internal(word),
    };
    match (word, modifiers) {
        (_, []) => bare.ok_or_else(|| unknown_type(piece, name, word)),
        // Their effect is determined by `time_modifier`.
        ("timestamp", [_]) => Ok(SqlType::Timestamp),
        ("timestamptz", [_]) => Ok(SqlType::Timestamptz),
        ("interval", [_] | [_, _]) => Ok(SqlType::Interval),
        ("numeric", [precision]) if (1..=1000).contains(precision) => {
            Ok(SqlType::Numeric(Some((*precision as u16, 0))))
        }
        ("numeric", [precision, scale]) if (1..=1000).contains(precision) => match scale {
            -1000..=1000 => Ok(SqlType::Numeric(Some((*precision as u16, *scale as i16)))),
            _ => invalid(format!("NUMERIC scale {scale} must be between -1000 and 1000")),
        },
        ("numeric", [precision, ..]) => {
            invalid(format!("NUMERIC precision {precision} must be between 1 and 1000"))
        }
        ("varchar", [length]) if (1..=10_485_760).contains(length) => {
            Ok(SqlType::Varchar(Some(*length as u32)))
        }
        ("bpchar", [length]) if (1..=10_485_760).contains(length) => Ok(SqlType::Char(*length as u32)),
        ("varchar", [_]) => invalid("length for type varchar must be between 1 and 10485760".into()),
        ("bpchar", [_]) => invalid("length for type char must be between 1 and 10485760".into()),
        ("timestamp" | "timestamptz" | "interval" | "varchar" | "bpchar", _) => {
            Err(unknown_type(piece, name, word))
        }
        _ if bare.is_some() => Err(Diagnostic::new(
            SqlState::SYNTAX_ERROR,
            span,
            format!("type modifier is not allowed for type \"{word}\""),
        )),
        _ => Err(unknown_type(piece, name, word)),
    }
}

/// Names the type, and what would work in its place.
fn unknown_type(piece: Piece<'_>, name: &TypeName, word: &str) -> Diagnostic {
    let span = piece.token(name.location);
    let instead = match word {
        "time" | "timetz" => "use timestamp, or interval for a time of day",
        "timestamp" | "timestamptz" | "interval" => "give it one precision",
        "json" | "xml" => "use jsonb",
        "money" => "use numeric(19,2)",
        "name" | "char" | "citext" | "bpchar" => "use text, or a CHECK with lower(…)",
        "bit" | "varbit" => "use bytea or bigint",
        "serial" | "bigserial" | "smallserial" | "serial2" | "serial4" | "serial8" => {
            "serial types are for columns of CREATE TABLE only"
        }
        "inet" | "cidr" | "macaddr" | "macaddr8" => "use text",
        "oid" | "regclass" | "xid" => "use bigint or text",
        "int4range" | "int8range" | "numrange" | "tsrange" | "tstzrange" | "daterange" => {
            "use two columns and a CHECK"
        }
        "point" | "line" | "lseg" | "box" | "path" | "polygon" | "circle" => "use double precision columns",
        "tsvector" | "tsquery" => "use text and LIKE",
        "refcursor" => "loop over the query with FOR",
        "trigger" | "event_trigger" => "triggers are not supported: do it in the procedure",
        "hstore" => "use jsonb",
        _ => {
            return Diagnostic::new(
                SqlState::UNDEFINED_OBJECT,
                span,
                format!("type \"{word}\" does not exist"),
            );
        }
    };
    Diagnostic::unsupported(span, format!("type {word}"), instead)
}
