//! Expressions as PostgreSQL prints them: defaults, conditions of CHECK and of indexes.
//!
//! An expression without a printed form is shown as it was written.

use weir_types::function::quote_identifier;
use weir_types::operator::BinaryOp;
use weir_types::{SqlType, Value, text};

use crate::Application;
use crate::bound::{Expr, ExprKind};
use crate::catalog::Column;

/// Prints expressions over one row of a table.
pub(super) struct Deparser<'a> {
    pub(super) app: &'a Application,
    pub(super) columns: &'a [Column],
    /// With brackets only where they are needed.
    pub(super) pretty: bool,
}

fn string(value: &str) -> String {
    format!("'{}'", value.replace('\'', "''"))
}

fn type_of_literal(ty: &SqlType) -> String {
    match ty {
        SqlType::Char(_) => "bpchar".to_owned(),
        ty => ty.base().to_string(),
    }
}

impl Deparser<'_> {
    /// The expression by itself.
    pub(super) fn expr(&self, e: &Expr) -> String {
        match &e.kind {
            ExprKind::Literal(value) => self.literal(value, e),
            ExprKind::Column { column, .. } => self
                .columns
                .get(*column)
                .map_or_else(|| self.written(e), |column| quote_identifier(&column.name)),
            ExprKind::Binary { op, left, right } => self.bracketed(format!(
                "{} {} {}",
                self.operand(left, Some(*op)),
                op.symbol(),
                self.operand(right, Some(*op))
            )),
            ExprKind::And(parts) => self.joined(parts, " AND "),
            ExprKind::Or(parts) => self.joined(parts, " OR "),
            ExprKind::Not(operand) => self.bracketed(format!("NOT {}", self.operand(operand, None))),
            ExprKind::IsNull { operand, negated } => {
                let word = if *negated { "IS NOT NULL" } else { "IS NULL" };
                self.bracketed(format!("{} {word}", self.operand(operand, None)))
            }
            ExprKind::Function { function, args }
                if function.name.chars().all(|c| c.is_alphanumeric() || c == '_') =>
            {
                format!("{}({})", function.name, self.arguments(args))
            }
            ExprKind::Coalesce(args) => format!("COALESCE({})", self.arguments(args)),
            ExprKind::NextValue(sequence) => {
                let name = &self.app.catalog.sequence(*sequence).name;
                let parts: Vec<String> = name.split('.').map(quote_identifier).collect();
                format!("nextval('{}'::regclass)", parts.join(".").replace('\'', "''"))
            }
            ExprKind::TransactionTime => match e.ty {
                SqlType::Date => "CURRENT_DATE".to_owned(),
                SqlType::Timestamp if !self.written(e).to_lowercase().contains("now") => {
                    "LOCALTIMESTAMP".to_owned()
                }
                _ if self.written(e).to_lowercase().contains("current_timestamp") => {
                    "CURRENT_TIMESTAMP".to_owned()
                }
                _ => "now()".to_owned(),
            },
            // now() for a timestamp without time zone is cast where it is assigned.
            ExprKind::Cast { operand, explicit: false }
                if matches!(operand.kind, ExprKind::TransactionTime) =>
            {
                self.expr(operand)
            }
            ExprKind::Cast { operand, explicit } if *explicit || !operand.ty.is_number() => {
                format!("{}::{}", self.simple(operand), e.ty)
            }
            ExprKind::Cast { operand, .. } => self.expr(operand),
            ExprKind::InList { operand, list, negated } => self.in_list(operand, list, *negated),
            _ => self.written(e),
        }
    }

    fn written(&self, e: &Expr) -> String {
        self.app.sources.text(e.span).to_owned()
    }

    /// As an operand of something else.
    fn operand(&self, e: &Expr, of: Option<BinaryOp>) -> String {
        let text = match (&e.kind, &e.ty) {
            (ExprKind::Column { .. }, SqlType::Varchar(_)) => format!("{}::text", self.simple(e)),
            _ => self.expr(e),
        };
        let is_compound = matches!(
            e.kind,
            ExprKind::Binary { .. }
                | ExprKind::And(_)
                | ExprKind::Or(_)
                | ExprKind::Not(_)
                | ExprKind::IsNull { .. }
                | ExprKind::InList { .. }
        );
        let binds = |op: &BinaryOp| match op {
            BinaryOp::Multiply | BinaryOp::Divide | BinaryOp::Modulo => 2,
            BinaryOp::Add | BinaryOp::Subtract => 1,
            _ => 0,
        };
        let is_tighter = match (&e.kind, of) {
            (ExprKind::Binary { op, .. }, Some(of)) => binds(op) > binds(&of) && binds(&of) > 0,
            _ => false,
        };
        match self.pretty && is_compound && !is_tighter {
            true => format!("({text})"),
            false => text,
        }
    }

    /// Before `::`.
    fn simple(&self, e: &Expr) -> String {
        match self.pretty {
            true => self.expr(e),
            false => format!("({})", self.expr(e)),
        }
    }

    fn bracketed(&self, text: String) -> String {
        if self.pretty { text } else { format!("({text})") }
    }

    fn joined(&self, parts: &[Expr], word: &str) -> String {
        let part = |e: &Expr| match e.kind {
            ExprKind::And(_) | ExprKind::Or(_) | ExprKind::InList { .. } => self.operand(e, None),
            _ => self.expr(e),
        };
        self.bracketed(parts.iter().map(part).collect::<Vec<_>>().join(word))
    }

    fn arguments(&self, args: &[Expr]) -> String {
        let argument = |e: &Expr| match (&e.kind, &e.ty) {
            (ExprKind::Column { .. }, SqlType::Varchar(_)) => format!("{}::text", self.simple(e)),
            _ => self.expr(e),
        };
        args.iter().map(argument).collect::<Vec<_>>().join(", ")
    }

    fn literal(&self, value: &Value, e: &Expr) -> String {
        let written = self.written(e);
        let is_digits = !written.is_empty() && written.bytes().all(|c| c.is_ascii_digit());
        match (value, &e.ty) {
            (Value::Null, ty) => format!("NULL::{}", type_of_literal(ty)),
            (Value::Bool(value), _) => value.to_string(),
            (Value::Int(value), ty) if *value < 0 => format!("'{value}'::{}", type_of_literal(ty)),
            (Value::Int(value), _) => value.to_string(),
            (Value::Numeric(value), _) if is_digits => {
                if self.pretty {
                    format!("{value}::numeric")
                } else {
                    format!("({value})::numeric")
                }
            }
            (Value::Numeric(value), _) => value.to_string(),
            (Value::Float8(_) | Value::Float4(_), _) => text::to_text(value, &e.ty),
            (value, ty) => format!("{}::{}", string(&text::to_text(value, ty)), type_of_literal(ty)),
        }
    }

    /// A default: a number is one whatever the column's type.
    pub(super) fn default(&self, e: &Expr) -> String {
        match &e.kind {
            ExprKind::Literal(Value::Numeric(_)) => self.written(e),
            _ => self.expr(e),
        }
    }

    fn in_list(&self, operand: &Expr, list: &[Expr], negated: bool) -> String {
        let (op, word) = if negated { ("<>", "ALL") } else { ("=", "ANY") };
        let values = list.iter().map(|one| match (&one.kind, &operand.ty) {
            (ExprKind::Literal(value), SqlType::Varchar(_)) => {
                format!("{}::character varying", string(&text::to_text(value, &one.ty)))
            }
            _ => self.expr(one),
        });
        let array = format!("ARRAY[{}]", values.collect::<Vec<_>>().join(", "));
        let array = match (&operand.ty, self.pretty) {
            (SqlType::Varchar(_), true) => format!("{array}::text[]"),
            (SqlType::Varchar(_), false) => format!("({array})::text[]"),
            _ => array,
        };
        self.bracketed(format!("{} {op} {word} ({array})", self.operand(operand, None)))
    }
}
