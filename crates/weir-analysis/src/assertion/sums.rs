//! Equalities and bounds as weighted sums of columns and aggregates, or a column as the highest of some rows.

use weir_sql::bound::{Aggregate, AggregateFunction, BinaryOp, Expr, ExprKind, Select};
use weir_sql::walk::{conjuncts, uncast};

use super::{Atom, Builder, Claim, Extreme, Group, Place, output, select_of};
use crate::effects::integer;

impl<'a> Builder<'a> {
    pub(super) fn equality(&self, left: &'a Expr, right: &'a Expr) -> Claim<'a> {
        let mut atoms = Vec::new();
        if !(self.linear(left, 1, &mut atoms) && self.linear(right, -1, &mut atoms)) {
            return Claim::Opaque;
        }
        match (self.own_column(left), self.own_column(right)) {
            (Some(place), None) => self.extreme(place, right, atoms),
            (None, Some(place)) => self.extreme(place, left, atoms),
            _ => Claim::Equality(atoms),
        }
    }

    fn own_column(&self, expr: &Expr) -> Option<Place> {
        match uncast(expr).kind {
            ExprKind::Column { relation, column } if !self.derived.contains_key(&relation) => {
                Some((relation, column))
            }
            _ => None,
        }
    }

    /// `column = (SELECT max(…) FROM …)`, or with coalesce(…, 0) around it; else the equality that it is.
    fn extreme(&self, place: Place, value: &'a Expr, atoms: Vec<(i64, Atom<'a>)>) -> Claim<'a> {
        let value = uncast(value);
        let (query, zero_if_none) = match &value.kind {
            ExprKind::Coalesce(list) => (list.first().map(uncast), true),
            _ => (Some(value), false),
        };
        let only = query.and_then(|query| match &query.kind {
            ExprKind::ScalarSubquery(query) => Some(uncast(output(query, 0)?)),
            _ => None,
        });
        match (only.map(|only| &only.kind), atoms.iter().find(|(_, atom)| is_extreme(atom))) {
            (Some(ExprKind::Aggregate(_)), Some((_, Atom::Aggregate(group)))) => {
                Claim::Extreme(Extreme { place, group: group.clone(), zero_if_none, atoms })
            }
            _ => Claim::Equality(atoms),
        }
    }

    /// `left op right` must never be true.
    /// Adds the expression's summands; false if it is no linear combination of columns and aggregates.
    pub(super) fn linear(&self, expr: &'a Expr, sign: i64, atoms: &mut Vec<(i64, Atom<'a>)>) -> bool {
        let expr = uncast(expr);
        match &expr.kind {
            ExprKind::Literal(_) => true,
            ExprKind::Binary { op: BinaryOp::Add, left, right } => {
                self.linear(left, sign, atoms) && self.linear(right, sign, atoms)
            }
            ExprKind::Binary { op: BinaryOp::Subtract, left, right } => {
                self.linear(left, sign, atoms) && self.linear(right, -sign, atoms)
            }
            ExprKind::Negate(inner) => self.linear(inner, -sign, atoms),
            ExprKind::Coalesce(list) => match list.as_slice() {
                [first, second] if integer(second) == Some(0) => {
                    let before = atoms.len();
                    self.linear(first, sign, atoms) && zero_if_none(&mut atoms[before..])
                }
                _ => false,
            },
            ExprKind::Binary { op: BinaryOp::Multiply, left, right } => {
                factor(left, right, sign).is_some_and(|(factor, other)| self.linear(other, factor, atoms))
            }
            ExprKind::Column { relation, column } => match self.derived.get(relation) {
                None => {
                    atoms.push((sign, Atom::Column((*relation, *column))));
                    true
                }
                Some(query) if !self.is_derived(query) => false,
                Some(query) => match (output(query, *column), select_of(query)) {
                    (Some(inner), Some(select)) => self.linear_in(inner, sign, Some(select), atoms),
                    _ => false,
                },
            },
            ExprKind::ScalarSubquery(query) if !self.is_derived(query) => false,
            ExprKind::ScalarSubquery(query) => match (output(query, 0), select_of(query)) {
                (Some(inner), Some(select)) => self.linear_in(inner, sign, Some(select), atoms),
                _ => false,
            },
            ExprKind::Aggregate(_) => self.linear_in(expr, sign, None, atoms),
            _ => false,
        }
    }

    /// Linear form of an output of `select`, whose aggregates range over its FROM list.
    fn linear_in(
        &self,
        expr: &'a Expr,
        sign: i64,
        select: Option<&'a Select>,
        atoms: &mut Vec<(i64, Atom<'a>)>,
    ) -> bool {
        let expr = uncast(expr);
        match &expr.kind {
            ExprKind::Aggregate(aggregate) => match self.group_of(aggregate, select) {
                Some(group) => {
                    atoms.push((sign, Atom::Aggregate(group)));
                    true
                }
                None => false,
            },
            ExprKind::Binary { op: BinaryOp::Add, left, right } => {
                self.linear_in(left, sign, select, atoms) && self.linear_in(right, sign, select, atoms)
            }
            ExprKind::Binary { op: BinaryOp::Subtract, left, right } => {
                self.linear_in(left, sign, select, atoms) && self.linear_in(right, -sign, select, atoms)
            }
            ExprKind::Negate(inner) => self.linear_in(inner, -sign, select, atoms),
            ExprKind::Coalesce(list) => match list.as_slice() {
                [first, second] if integer(second) == Some(0) => {
                    let before = atoms.len();
                    self.linear_in(first, sign, select, atoms) && zero_if_none(&mut atoms[before..])
                }
                _ => false,
            },
            ExprKind::Binary { op: BinaryOp::Multiply, left, right } => factor(left, right, sign)
                .is_some_and(|(factor, other)| self.linear_in(other, factor, select, atoms)),
            _ => self.linear(expr, sign, atoms),
        }
    }

    /// `None` for aggregates that no rule knows. Without a select it belongs to the clause's own FROM list.
    fn group_of(&self, aggregate: &'a Aggregate, select: Option<&'a Select>) -> Option<Group<'a>> {
        use AggregateFunction::{Count, Maximum, Minimum, Sum};
        if aggregate.distinct || !matches!(aggregate.function, Count | Sum | Minimum | Maximum) {
            return None;
        }
        let mut group = match select {
            Some(select) if self.is_resolved(&select.from) => self.group_of_select(select),
            Some(_) => return None,
            None => Group {
                function: None,
                argument: None,
                tables: Vec::new(),
                filters: Vec::new(),
                keys: Vec::new(),
                zero_if_none: false,
            },
        };
        group.function = Some(aggregate.function);
        group.argument = aggregate.args.first();
        group.filters.extend(aggregate.filter.iter().flat_map(conjuncts));
        Some(group)
    }
}

fn is_extreme(atom: &Atom<'_>) -> bool {
    use AggregateFunction::{Maximum, Minimum};
    matches!(atom, Atom::Aggregate(group) if matches!(group.function, Some(Maximum | Minimum)))
}

/// `coalesce(…, 0)` around them; false where NULL makes more than one of them 0 together.
fn zero_if_none(atoms: &mut [(i64, Atom<'_>)]) -> bool {
    match atoms {
        [(_, Atom::Aggregate(group))] => group.zero_if_none = true,
        [] | [(_, Atom::Column(_))] => {}
        _ => return false,
    }
    true
}

/// One of the two is an integer: it times the weight, and the other.
fn factor<'a>(left: &'a Expr, right: &'a Expr, weight: i64) -> Option<(i64, &'a Expr)> {
    let (number, other) = match (integer(left), integer(right)) {
        (Some(number), None) => (number, right),
        (None, Some(number)) => (number, left),
        _ => return None,
    };
    Some((number.checked_mul(weight)?, other))
}
