//! Expressions to terms.

use weir_sql::bound::{Aggregate, AggregateFunction, BinaryOp, Expr, ExprKind, RelationId, VolatileFunction};
use weir_sql::catalog::{ColumnIndex, Table};
use weir_sql::walk::{asks_zone, conjuncts, parts, subquery, uncast};
use weir_types::numeric::Numeric;
use weir_types::operator::Comparison;
use weir_types::{SqlType, Value};

use super::interpret::{Binding, Interpreter};
use super::{Sign, Term, TermId};

impl Interpreter<'_> {
    pub(super) fn expr(&mut self, expr: &Expr) -> TermId {
        let term = self.expr_of_parts(expr);
        if !asks_zone(expr) {
            return term;
        }
        // Sessions in two zones have two values.
        let time = self.terms().intern(Term::Time);
        self.terms().call("in the session's zone".to_owned(), vec![term, time])
    }

    fn expr_of_parts(&mut self, expr: &Expr) -> TermId {
        match &expr.kind {
            ExprKind::Literal(value) => self.literal(value),
            ExprKind::Column { relation, column } => self.column(*relation, *column),
            ExprKind::Variable(variable) => {
                let term = self.variable(*variable);
                // OLD and NEW of a trigger contain columns that have not been read before.
                if let Term::Field { row, column } = *self.terms().get(term) {
                    self.read_mut(row).columns.insert(column);
                }
                term
            }
            ExprKind::Cast { operand, .. } => {
                let term = self.expr(operand);
                if keeps_value(&operand.ty, &expr.ty) && !self.cuts_generated(term, &expr.ty) {
                    term
                } else {
                    self.terms().call(format!("cast to {:?}", expr.ty.base()), vec![term])
                }
            }
            ExprKind::Negate(inner) => {
                let term = self.expr(inner);
                self.terms().negate(term)
            }
            ExprKind::Binary { op, left, right } => {
                let (left, right) = (self.expr(left), self.expr(right));
                self.binary(*op, left, right)
            }
            ExprKind::Coalesce(list)
                if list.len() == 2 && matches!(uncast(&list[1]).kind, ExprKind::Literal(_)) =>
            {
                let first = self.expr(&list[0]);
                let second = self.expr(&list[1]);
                if self.is_never_null(first) {
                    first
                } else {
                    self.terms().call("coalesce", vec![first, second])
                }
            }
            ExprKind::Subscript { array, index } => {
                let (array, index) = (self.expr(array), self.expr(index));
                self.terms().intern(Term::Element { array, index })
            }
            ExprKind::Function { function, args } => {
                let args: Vec<TermId> = args.iter().map(|arg| self.expr(arg)).collect();
                match function.name {
                    "array_length" | "cardinality" | "array_upper" => {
                        self.terms().call("cardinality", args[..args.len().min(1)].to_vec())
                    }
                    name => self.terms().call(name, args),
                }
            }
            ExprKind::Case { whens, otherwise } => self.case(whens, otherwise.as_deref()),
            ExprKind::ScalarSubquery(query) => match self.query(query).first() {
                Some(&term) => term,
                None => self.terms().unknown(),
            },
            ExprKind::Aggregate(aggregate) => self.aggregate(aggregate),
            ExprKind::Window(_) => self.window(expr),
            ExprKind::NextValue(_) | ExprKind::Volatile(VolatileFunction::GenRandomUuid) => {
                let sequence = match expr.kind {
                    ExprKind::NextValue(sequence) => Some(sequence),
                    _ => None,
                };
                self.effects.sequences.extend(sequence);
                if self.comparing {
                    // In a condition it is another value for every row.
                    return self.terms().unknown();
                }
                let site = self.terms().site();
                self.effects.generated.insert(site, sequence);
                self.terms().intern(Term::Generated(site))
            }
            ExprKind::TransactionTime | ExprKind::Volatile(VolatileFunction::ClockTimestamp) => {
                self.terms().intern(Term::Time)
            }
            ExprKind::Volatile(VolatileFunction::Random | VolatileFunction::ConflictUpdated)
            | ExprKind::CurrentValue(_) => self.terms().unknown(),
            _ => self.opaque(expr),
        }
    }

    /// Two generated values may be one after the cast.
    fn cuts_generated(&mut self, term: TermId, to: &SqlType) -> bool {
        // A sequence that gives a thousand numbers a millisecond has them for thirty years.
        const DIGITS: usize = 15;
        const UUID: usize = 36;
        let mut generates = false;
        let mut length = 0;
        for leaf in self.terms().leaves(term) {
            length += match self.terms().get(leaf).clone() {
                Term::Generated(site) => {
                    generates = true;
                    if self.effects.generated.get(&site).copied().flatten().is_some() { DIGITS } else { UUID }
                }
                // As `Text("words")`.
                Term::Literal(words, _) => words.split('"').nth(1).map_or(0, str::len),
                _ => 0,
            };
        }
        generates
            && match to {
                SqlType::Varchar(Some(most)) => length > *most as usize,
                SqlType::Char(most) => length > *most as usize,
                SqlType::Float4 | SqlType::Float8 | SqlType::Numeric(Some(_)) => true,
                _ => false,
            }
    }

    /// An expression of which only matters what it is computed from, and whether another is the same.
    fn opaque(&mut self, expr: &Expr) -> TermId {
        let mut arguments: Vec<TermId> = parts(expr).into_iter().map(|part| self.expr(part)).collect();
        if let Some(query) = subquery(expr) {
            arguments.extend(self.query(query));
        }
        let name = match name_of(&expr.kind) {
            Some(name) => name,
            None => format!("{OPAQUE} {}", self.terms().site()),
        };
        self.terms().call(name, arguments)
    }

    fn case(&mut self, whens: &[(Expr, Expr)], otherwise: Option<&Expr>) -> TermId {
        let mut arguments = Vec::new();
        for (condition, value) in whens {
            arguments.push(self.expr(condition));
            arguments.push(self.expr(value));
        }
        let last = match otherwise {
            Some(value) => self.expr(value),
            None => self.terms().intern(Term::Null),
        };
        arguments.push(last);
        let values: Vec<TermId> = arguments.iter().copied().skip(1).step_by(2).chain([last]).collect();
        let sign = values.iter().map(|&value| self.terms().sign(value)).reduce(Sign::or);
        let term = self.terms().call("case", arguments);
        if let Some(sign) = sign {
            self.terms().learn(term, sign);
        }
        term
    }

    fn literal(&mut self, value: &Value) -> TermId {
        let term = match value {
            Value::Null => Term::Null,
            Value::Int(n) => Term::Integer(*n),
            Value::Numeric(Numeric::Small { scale: 0, mantissa }) => Term::Integer(*mantissa),
            Value::Numeric(Numeric::Small { mantissa, .. }) => {
                Term::Literal(format!("{value:?}"), Sign::of_integer(*mantissa))
            }
            Value::Float8(n) => Term::Literal(format!("{value:?}"), sign_of_float(*n)),
            Value::Float4(n) => Term::Literal(format!("{value:?}"), sign_of_float(f64::from(*n))),
            _ => Term::Literal(format!("{value:?}"), Sign::ANY),
        };
        self.terms().intern(term)
    }

    /// The value of a column; what a key binds it to where it does.
    pub(super) fn column(&mut self, relation: RelationId, column: ColumnIndex) -> TermId {
        let (row, term) = match self.relations.get(&relation) {
            Some(Binding::Row(row)) => (Some(*row), None),
            Some(Binding::Outputs(outputs)) => (None, outputs.get(column).copied()),
            Some(Binding::Updated(row, new)) => {
                let new = new.iter().find(|(updated, _)| *updated == column);
                (Some(*row), new.map(|(_, term)| *term))
            }
            None => (None, None),
        };
        match (term, row) {
            (Some(term), _) => term,
            (None, Some(row)) => self.field(row, column),
            (None, None) => self.terms().unknown(),
        }
    }

    pub(super) fn field(&mut self, row: super::ReadId, column: ColumnIndex) -> TermId {
        let comparing = self.comparing;
        let app = self.app;
        let read = self.read_mut(row);
        read.columns.insert(column);
        if !comparing {
            read.returned.insert(column);
        }
        match read.key.iter().find(|(bound, _)| *bound == column) {
            Some((_, term)) => *term,
            None => {
                let sign = checked_sign(app.catalog.table(read.table), column);
                let term = self.terms().intern(Term::Field { row, column });
                self.terms().learn(term, sign);
                term
            }
        }
    }

    fn binary(&mut self, op: BinaryOp, left: TermId, right: TermId) -> TermId {
        match op {
            BinaryOp::Add => self.terms().add(left, right),
            BinaryOp::Subtract => {
                let negated = self.terms().negate(right);
                self.terms().add(left, negated)
            }
            BinaryOp::Multiply => {
                let mut arguments = vec![left, right];
                arguments.sort();
                self.terms().call("*", arguments)
            }
            _ => self.terms().call(format!("{op:?}"), vec![left, right]),
        }
    }

    fn aggregate(&mut self, aggregate: &Aggregate) -> TermId {
        let argument = aggregate.args.first().map(|arg| self.expr(arg));
        let others = aggregate.args.iter().skip(1).chain(&aggregate.filter);
        others.chain(aggregate.order_by.iter().map(|(key, _)| key)).for_each(|part| {
            self.expr(part);
        });
        let rows = self.rows_in_scope();
        if let (AggregateFunction::Minimum, Some(argument)) = (aggregate.function, argument)
            && let Term::Field { row, column } = *self.terms().get(argument)
        {
            self.read_mut(row).lowest = Some(column);
            return argument;
        }
        let function = match aggregate.function {
            AggregateFunction::Count => "count".to_string(),
            AggregateFunction::Sum => "sum".to_string(),
            other => format!("{other:?}"),
        };
        self.terms().intern(Term::Aggregate { function, argument, rows })
    }

    /// It depends on every row that the query finds.
    fn window(&mut self, expr: &Expr) -> TermId {
        let parts: Vec<TermId> = parts(expr).into_iter().map(|part| self.expr(part)).collect();
        let function = format!("window {}", self.terms().site());
        let (argument, rows) = (parts.first().copied(), self.rows_in_scope());
        self.terms().intern(Term::Aggregate { function, argument, rows })
    }

    fn rows_in_scope(&self) -> Vec<super::ReadId> {
        let row = |binding: &Binding| match binding {
            Binding::Row(row) => Some(*row),
            _ => None,
        };
        self.relations.values().filter_map(row).collect()
    }

    /// Not NULL by its form or by the column's declaration.
    pub(super) fn is_never_null(&mut self, term: TermId) -> bool {
        let term = self.terms().get(term).clone();
        match term {
            Term::Integer(_) | Term::Literal(..) | Term::Generated(_) | Term::Time | Term::Index(_) => true,
            Term::Sum { base, .. } => self.is_never_null(base),
            _ => false,
        }
    }

    /// Learns from a condition being false or NULL, after an exception has been raised otherwise.
    pub(super) fn learn_negation(&mut self, condition: &Expr) {
        // Within a branch it holds only there, and terms do not know where they are used.
        if self.context.iter().any(|frame| matches!(frame, super::Frame::Branch { .. })) {
            return;
        }
        match &condition.kind {
            ExprKind::Or(list) => list.iter().for_each(|item| self.learn_negation(item)),
            ExprKind::Binary { op, left, right } => {
                let (left, right) = (uncast(left), uncast(right));
                let Some(op) = Comparison::of(*op) else { return };
                if let Some(sign) = negated_sign(op, right) {
                    let term = self.expr(left);
                    self.terms().learn(term, sign);
                } else if let Some(sign) = negated_sign(op.mirrored(), left) {
                    let term = self.expr(right);
                    self.terms().learn(term, sign);
                }
            }
            ExprKind::Not(inner) => {
                for item in conjuncts(inner) {
                    if let ExprKind::Binary { op, left, right } = &item.kind
                        && let Some(op) = Comparison::of(*op)
                        && let Some(sign) = negated_sign(op.negated(), uncast(right))
                    {
                        let term = self.expr(uncast(left));
                        self.terms().learn(term, sign);
                    }
                }
            }
            _ => {}
        }
    }
}

/// Names of calls that begin so say nothing: another one with the same arguments may have another value.
pub const OPAQUE: &str = "opaque";

/// The operation that, with its operands, determines the value of an expression; `None` if they do not.
fn name_of(kind: &ExprKind) -> Option<String> {
    let not = |negated: &bool| if *negated { "not " } else { "" };
    Some(match kind {
        ExprKind::And(_) => "and".to_string(),
        ExprKind::Or(_) => "or".to_string(),
        ExprKind::Not(_) => "not".to_string(),
        ExprKind::Coalesce(_) => "coalesce".to_string(),
        ExprKind::NullIf(..) => "nullif".to_string(),
        ExprKind::Greatest(_) => "greatest".to_string(),
        ExprKind::Least(_) => "least".to_string(),
        ExprKind::Array(_) => "array".to_string(),
        ExprKind::Row(_) => "row".to_string(),
        ExprKind::IsNull { negated, .. } => format!("is {}null", not(negated)),
        ExprKind::IsBool { value, negated, .. } => format!("is {}{value}", not(negated)),
        ExprKind::IsDistinct { negated, .. } => format!("is {}distinct", not(negated)),
        ExprKind::InList { negated, .. } => format!("{}in", not(negated)),
        ExprKind::Like { insensitive, negated, .. } => format!("{}like {insensitive}", not(negated)),
        ExprKind::ArrayCompare { op, all, .. } => format!("{op:?} {}", if *all { "all" } else { "any" }),
        ExprKind::Slice { lower, upper, .. } => format!("slice {} {}", lower.is_some(), upper.is_some()),
        _ => return None,
    })
}

/// Numbers among themselves and strings among themselves; rounding and cutting are not followed.
pub(super) fn keeps_value(from: &SqlType, to: &SqlType) -> bool {
    use SqlType::{Char, Float4, Float8, Int2, Int4, Int8, Numeric, Text, Unknown, Varchar};
    let number = |ty: &SqlType| matches!(ty, Int2 | Int4 | Int8 | Numeric(_) | Float4 | Float8);
    let text = |ty: &SqlType| matches!(ty, Text | Varchar(_) | Char(_));
    from == to || matches!(from, Unknown) || number(from) && number(to) || text(from) && text(to)
}

/// The expression without the casts around it that keep its value.
pub(super) fn same_value(expr: &Expr) -> &Expr {
    match &expr.kind {
        ExprKind::Cast { operand, .. } if keeps_value(&operand.ty, &expr.ty) && !asks_zone(expr) => {
            same_value(operand)
        }
        _ => expr,
    }
}

/// Sign of a column that the table's CHECKs imply, as in `CHECK (seats > 0)`.
pub fn checked_sign(table: &Table, column: ColumnIndex) -> Sign {
    let is_column = |expr: &Expr| matches!(expr.kind, ExprKind::Column { column: of, .. } if of == column);
    let conditions = table.checks.iter().flat_map(|check| conjuncts(&check.expr));
    let signs = conditions.filter_map(|condition| {
        let ExprKind::Binary { op, left, right } = &condition.kind else { return None };
        let (left, right) = (uncast(left), uncast(right));
        let op = Comparison::of(*op)?;
        match (is_column(left), is_column(right)) {
            (true, _) => negated_sign(op.negated(), right),
            (_, true) => negated_sign(op.mirrored().negated(), left),
            _ => None,
        }
    });
    signs.fold(Sign::ANY, Sign::and)
}

fn sign_of_float(n: f64) -> Sign {
    Sign { negative: n < 0.0, zero: n == 0.0, positive: n > 0.0 }
}

/// The sign of `x` where `x op bound` does not hold and the bound tells.
fn negated_sign(op: Comparison, bound: &Expr) -> Option<Sign> {
    let positive = Sign { negative: false, zero: false, positive: true };
    let bound = integer(bound)?;
    match (op, bound) {
        (Comparison::Less, 0) => Some(Sign::NOT_NEGATIVE),
        (Comparison::Less, 1..) | (Comparison::LessOrEqual, 0..) => Some(positive),
        (Comparison::Greater, 0) => Some(Sign::NOT_POSITIVE),
        (Comparison::GreaterOrEqual, ..=0) | (Comparison::Greater, ..=-1) => Some(positive.negated()),
        _ => None,
    }
}

/// An integer literal, also as a numeric.
pub fn integer(expr: &Expr) -> Option<i64> {
    match &uncast(expr).kind {
        ExprKind::Literal(Value::Int(n)) => Some(*n),
        ExprKind::Literal(Value::Numeric(Numeric::Small { scale, mantissa })) => {
            let unit = 10i64.checked_pow(u32::from(*scale))?;
            (mantissa % unit == 0).then_some(mantissa / unit)
        }
        ExprKind::Negate(inner) => integer(inner)?.checked_neg(),
        _ => None,
    }
}
