//! Function calls. Aggregates are in [`super::aggregate`].

use pg_query::protobuf::{FuncCall, Node, node};
use weir_types::{CastContext, SqlState, SqlType, Value, function};

use super::Binder;
use super::coerce::located;
use crate::bound::{Expr, ExprKind, VolatileFunction};
use crate::catalog::SequenceId;
use crate::ddl::qualified;
use crate::routine::simple_name;
use crate::source::{Diagnostic, Span};
use crate::type_name;

impl<'a> Binder<'a> {
    pub(super) fn bind_call(&mut self, call: &'a FuncCall) -> Result<Expr, Diagnostic> {
        let place = self.piece.token(call.location);
        let span = match call.location {
            location if location >= 0 => self.call_span(call),
            _ => place,
        };
        let name = simple_name(&call.funcname, place)?;
        if let Some(bound) = self.bind_system_call(&name, call, span)? {
            return Ok(bound);
        }
        if let Some(over) = call.over.as_deref() {
            return self.bind_window(&name, call, over, span);
        }
        if super::window::window_function(&name).is_some() && self.overloads_nothing(&name) {
            let message = format!("window function {name} requires an OVER clause");
            return Err(self.error(SqlState::WRONG_OBJECT_TYPE, span, message));
        }
        if super::table_function::returns_sets(&name) {
            return self.bind_set_in_list(&name, call, span);
        }
        if let Some(aggregate) = super::aggregate::aggregate_function(&name) {
            return self.bind_aggregate(aggregate, &name, call, span);
        }
        self.refuse_decorations(&name, call, place)?;
        if let Some(expr) = self.special_function(&name, call, span)? {
            return Ok(expr);
        }
        let args = self.bind_list(&call.args)?;
        self.function_of(&name, args, span)
    }

    /// No procedure of the application has that name.
    fn overloads_nothing(&self, name: &str) -> bool {
        !self.context.signatures.iter().any(|signature| signature.name == name)
    }

    /// From the name to the closing parenthesis; `extract` and `AT TIME ZONE` look otherwise.
    fn call_span(&self, call: &FuncCall) -> Span {
        let place = self.piece.token(call.location);
        let end = (place.end - self.piece.offset) as usize;
        let mut tokens = crate::lexer::Lexer::new(self.piece.text, end);
        match tokens.next() {
            Some(next) if next.is(b'(') || next.is(b'.') => self.piece.bracketed(call.location),
            _ => place,
        }
    }

    /// Rejects call syntax that only aggregates support.
    fn refuse_decorations(&self, name: &str, call: &FuncCall, place: Span) -> Result<(), Diagnostic> {
        let named = call.args.iter().any(|arg| matches!(arg.node, Some(node::Node::NamedArgExpr(_))));
        if named || call.func_variadic {
            return Err(Diagnostic::unsupported(
                place,
                "a named or VARIADIC argument",
                "pass the arguments by position",
            ));
        }
        let decorated = call.agg_star
            || call.agg_distinct
            || call.agg_within_group
            || call.agg_filter.is_some()
            || !call.agg_order.is_empty();
        if decorated {
            return Err(self
                .error(
                    SqlState::WRONG_OBJECT_TYPE,
                    place,
                    format!("{name} is not an aggregate function that Weir knows"),
                )
                .with_hint(super::aggregate::KNOWN));
        }
        Ok(())
    }

    /// Functions that are not functions of their arguments alone.
    fn special_function(
        &mut self,
        name: &str,
        call: &'a FuncCall,
        span: Span,
    ) -> Result<Option<Expr>, Diagnostic> {
        let volatile = |function, ty| Expr { kind: ExprKind::Volatile(function), ty, span };
        let no_args = call.args.is_empty();
        let expr = match name {
            "now" | "transaction_timestamp" if no_args => {
                Expr { kind: ExprKind::TransactionTime, ty: SqlType::Timestamptz, span }
            }
            "clock_timestamp" | "statement_timestamp" if no_args => {
                volatile(VolatileFunction::ClockTimestamp, SqlType::Timestamptz)
            }
            "timeofday" if no_args => {
                let now = volatile(VolatileFunction::ClockTimestamp, SqlType::Timestamptz);
                let template = Value::text("Dy Mon DD HH24:MI:SS.US YYYY TZ");
                let template = Expr { kind: ExprKind::Literal(template), ty: SqlType::Text, span };
                self.function_of("to_char", vec![now, template], span)?
            }
            "random" if no_args => volatile(VolatileFunction::Random, SqlType::Float8),
            "gen_random_uuid" | "uuid_generate_v4" if no_args => {
                volatile(VolatileFunction::GenRandomUuid, SqlType::Uuid)
            }
            "currval" | "lastval" if is_parameter(&call.args) => self.current_value(call, span)?,
            "nextval" | "currval" if call.args.len() == 1 => {
                let sequence = self.bind_sequence(call, span)?;
                let kind = match name {
                    "nextval" => ExprKind::NextValue(sequence),
                    _ => ExprKind::CurrentValue(sequence),
                };
                Expr { kind, ty: SqlType::Int8, span }
            }
            "age" if call.args.len() == 1 => self.age_of_today(call, span)?,
            "pg_sleep" | "pg_sleep_for" | "pg_sleep_until" => {
                return Err(Diagnostic::unsupported(
                    span,
                    format!("the function {name} within a statement or a procedure"),
                    "make it an item of the select list by itself: SELECT pg_sleep(1)",
                ));
            }
            _ if OF_EXTENSIONS.contains(&name) => {
                return Err(Diagnostic::unsupported(
                    span,
                    format!("the function {name}"),
                    "gen_random_uuid(), uuid_generate_v4(), digest() and hmac() are there; passwords and keys are the application's",
                ));
            }
            "setval" => {
                return Err(Diagnostic::unsupported(
                    span,
                    name,
                    "it is a statement of its own: SELECT setval('orders_id_seq', …)",
                ));
            }
            "lastval" => {
                return Err(Diagnostic::unsupported(
                    span,
                    "lastval() within a procedure, a definition, or a statement that takes values itself",
                    "read values with RETURNING, or name the sequence: currval('orders_id_seq')",
                ));
            }
            _ => return Ok(None),
        };
        Ok(Some(expr))
    }

    /// The value has been substituted by the client's side ([`crate::with_current_values`]).
    fn current_value(&mut self, call: &'a FuncCall, span: Span) -> Result<Expr, Diagnostic> {
        let value = self.bind_expr(&call.args[0])?;
        match value.ty {
            SqlType::Int8 => Ok(Expr { span, ..value }),
            _ => Err(Diagnostic::unsupported(
                span,
                "a sequence whose name is computed",
                "write the name as a literal: currval('orders_id_seq')",
            )),
        }
    }

    /// `age(x)` is `age(current_date, x)`.
    fn age_of_today(&mut self, call: &'a FuncCall, span: Span) -> Result<Expr, Diagnostic> {
        let since = self.bind_expr(&call.args[0])?;
        let ty = match since.ty {
            SqlType::Timestamptz => SqlType::Timestamptz,
            _ => SqlType::Timestamp,
        };
        let today = Expr { kind: ExprKind::TransactionTime, ty: SqlType::Date, span };
        let today = self.coerce(today, &ty, CastContext::Implicit)?;
        self.function_of("age", vec![today, since], span)
    }

    /// The argument of nextval: a literal name.
    fn bind_sequence(&mut self, call: &'a FuncCall, span: Span) -> Result<SequenceId, Diagnostic> {
        let around = std::mem::replace(&mut self.names_sequence, true);
        let argument = self.bind_expr(&call.args[0]);
        self.names_sequence = around;
        let argument = argument?;
        let ExprKind::Literal(Value::Text(name)) = &argument.kind else {
            return Err(Diagnostic::unsupported(
                span,
                "a sequence whose name is computed",
                "write the name as a literal: nextval('orders_id_seq')",
            ));
        };
        let bare = relation_named(name);
        let sequences = &self.context.catalog.sequences;
        let found = sequences.iter().find(|sequence| sequence.name == bare);
        found.map(|sequence| sequence.id).ok_or_else(|| {
            self.error(
                SqlState::UNDEFINED_TABLE,
                argument.span,
                format!("relation \"{bare}\" does not exist"),
            )
        })
    }

    /// In what is only analysed, some value of its arguments.
    fn unknown_function(&self, name: &str, args: Vec<Expr>, error: Diagnostic) -> Result<Expr, Diagnostic> {
        let opaque = args.iter().any(|arg| matches!(arg.ty, SqlType::Opaque(_)));
        match self.context.notes {
            Some(notes) if opaque || !function::exists(name) => {
                let span = error.span;
                notes.replace(error);
                Ok(super::expr::opaque(args, span))
            }
            _ => Err(error),
        }
    }

    /// A scalar function of bound arguments.
    pub(super) fn function_of(
        &mut self,
        name: &str,
        args: Vec<Expr>,
        span: Span,
    ) -> Result<Expr, Diagnostic> {
        let types: Vec<SqlType> = args.iter().map(|arg| arg.ty.clone()).collect();
        let resolved = match function::resolve(name, &types) {
            Ok(resolved) => resolved,
            Err(error) => {
                // `date(x)` is `x::date`.
                if let (Some(ty), 1) = (type_name::internal(name), args.len()) {
                    return args
                        .into_iter()
                        .next()
                        .map(|arg| self.coerce(arg, &ty, CastContext::Explicit))
                        .unwrap_or_else(|| Err(located(error, span)));
                }
                if self.context.signatures.iter().any(|signature| signature.name == name) {
                    return Err(Diagnostic::unsupported(
                        span,
                        format!("a call of the function {name} inside of an expression"),
                        "call it as a statement of its own: CALL, PERFORM or variable := …",
                    ));
                }
                return self.unknown_function(name, args, located(error, span));
            }
        };
        let args = args
            .into_iter()
            .zip(&resolved.args)
            .map(|(arg, ty)| self.coerce_resolved(arg, ty))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Expr { kind: ExprKind::Function { function: resolved.function, args }, ty: resolved.result, span })
    }
}

/// Functions of pgcrypto and uuid-ossp that need secret randomness, or much time of a shard.
const OF_EXTENSIONS: [&str; 18] = [
    "armor",
    "crypt",
    "dearmor",
    "decrypt",
    "decrypt_iv",
    "encrypt",
    "encrypt_iv",
    "gen_random_bytes",
    "gen_salt",
    "pgp_key_id",
    "pgp_pub_decrypt",
    "pgp_pub_encrypt",
    "pgp_sym_decrypt",
    "pgp_sym_decrypt_bytea",
    "pgp_sym_encrypt",
    "pgp_sym_encrypt_bytea",
    "uuid_generate_v1",
    "uuid_generate_v1mc",
];

fn is_parameter(args: &[Node]) -> bool {
    matches!(args, [one] if matches!(one.node, Some(node::Node::ParamRef(_))))
}

/// Relation named by a text, in the form of the catalog: without quotes, and without `public`.
pub fn relation_named(text: &str) -> String {
    let parts: Option<Vec<String>> = crate::lexer::Lexer::new(text, 0)
        .filter(|token| !token.is(b'.'))
        .map(|token| token.name(text))
        .collect();
    match parts.as_deref() {
        Some([schema, bare]) => qualified(schema, bare),
        Some([bare]) => bare.clone(),
        _ => text.to_owned(),
    }
}
