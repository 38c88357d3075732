//! Assertions taken apart: for every row of some tables, a claim of a known shape.
//!
//! `NOT EXISTS (SELECT … WHERE violation)` is "for every row of the FROM list, not violation". The claim's
//! shape (an equality between sums, a density condition, "null exactly when", a bound) is what the rules
//! decide by. What has none of these shapes stays [`Claim::Opaque`]; the rules then say that they cannot decide.

mod sums;

use std::collections::{BTreeMap, BTreeSet};

use weir_sql::bound::{
    AggregateFunction, BinaryOp, Cte, Distinct, Expr, ExprKind, FromItem, JoinKind, Query, QueryBody,
    RelationId, Select,
};
use weir_sql::catalog::{ColumnIndex, TableId};
use weir_sql::walk::{Part, conjuncts, each_expr, each_part, has_subquery, subquery, uncast};

use crate::effects::integer;
use crate::planted::PlantedFlaws;

/// A column of one relation of the assertion.
pub type Place = (RelationId, ColumnIndex);

/// One assertion: all clauses must hold.
pub struct Shape<'a> {
    /// Every table of the assertion, by relation.
    pub tables: BTreeMap<RelationId, TableId>,
    /// Every column that the assertion reads.
    pub columns: BTreeSet<(TableId, ColumnIndex)>,
    pub clauses: Vec<Clause<'a>>,
}

pub struct Clause<'a> {
    pub claim: Claim<'a>,
    /// Which rows the clause speaks of: WHERE conjuncts beside the claim.
    pub conditions: Vec<&'a Expr>,
    /// Relations of the FROM list, those of derived tables without aggregates included.
    pub scope: Vec<RelationId>,
}

pub enum Claim<'a> {
    /// The weighted atoms add up to a constant.
    Equality(Vec<(i64, Atom<'a>)>),
    /// A column is the largest (or smallest) value of a column of some rows.
    Extreme(Extreme<'a>),
    /// The weighted atoms are at least (or more than) a constant.
    AtLeast(Vec<(i64, Atom<'a>)>),
    /// Not all of these together.
    NotTogether(Vec<Fact<'a>>),
    /// A condition on one row of one relation.
    Row(RelationId, &'a Expr),
    /// No rows of these relations, one of each, meet all of these and the clause's conditions.
    Rows(Vec<RelationId>, Vec<&'a Expr>),
    Opaque,
}

pub struct Extreme<'a> {
    pub place: Place,
    pub group: Group<'a>,
    /// Without rows the column is 0.
    pub zero_if_none: bool,
    /// The condition as an equality of sums.
    pub atoms: Vec<(i64, Atom<'a>)>,
}

#[derive(Clone)]
pub enum Atom<'a> {
    Column(Place),
    Aggregate(Group<'a>),
}

/// Rows that an aggregate or EXISTS ranges over.
#[derive(Clone)]
pub struct Group<'a> {
    pub function: Option<AggregateFunction>,
    pub argument: Option<&'a Expr>,
    pub tables: Vec<(RelationId, TableId)>,
    pub filters: Vec<&'a Expr>,
    /// GROUP BY: each value has a group of its own.
    pub keys: Vec<&'a Expr>,
    /// Without rows it is 0 and not NULL.
    pub zero_if_none: bool,
}

pub enum Fact<'a> {
    Null { place: Place, negated: bool },
    Exists { group: Group<'a>, negated: bool },
}

impl<'a> Shape<'a> {
    pub fn of(expr: &'a Expr) -> Shape<'a> {
        Shape::flawed(expr, PlantedFlaws::default())
    }

    pub fn flawed(expr: &'a Expr, flaws: PlantedFlaws) -> Shape<'a> {
        let mut builder = Builder::default();
        builder.collect(expr);
        let mut clauses = Vec::new();
        builder.holds(expr, &mut clauses);
        let opaque = |clause: &&mut Clause<'a>| !flaws.inner_queries && clause.has_inner_query();
        clauses.iter_mut().filter(opaque).for_each(|clause| clause.claim = Claim::Opaque);
        let columns = builder
            .columns
            .iter()
            .filter_map(|place| Some((*builder.tables.get(&place.0)?, place.1)))
            .collect();
        Shape { tables: builder.tables, columns, clauses }
    }

    pub fn table(&self, relation: RelationId) -> Option<TableId> {
        self.tables.get(&relation).copied()
    }
}

impl<'a> Clause<'a> {
    /// A condition has a query of its own, whose rows no rule looks at.
    fn has_inner_query(&self) -> bool {
        let group = |group: &Group<'a>| {
            let parts = group.filters.iter().chain(&group.keys).chain(&group.argument);
            parts.into_iter().any(|expr| has_subquery(expr))
        };
        let sum = |(_, atom): &(i64, Atom<'a>)| matches!(atom, Atom::Aggregate(one) if group(one));
        let in_claim = match &self.claim {
            Claim::Equality(atoms) | Claim::AtLeast(atoms) => atoms.iter().any(sum),
            Claim::Extreme(extreme) => group(&extreme.group) || extreme.atoms.iter().any(sum),
            Claim::NotTogether(facts) => {
                facts.iter().any(|fact| matches!(fact, Fact::Exists { group: one, .. } if group(one)))
            }
            Claim::Row(_, violation) => has_subquery(violation),
            Claim::Rows(_, violation) => violation.iter().any(|expr| has_subquery(expr)),
            Claim::Opaque => false,
        };
        in_claim || self.conditions.iter().any(|expr| has_subquery(expr))
    }
}

#[derive(Default)]
struct Builder<'a> {
    tables: BTreeMap<RelationId, TableId>,
    derived: BTreeMap<RelationId, &'a Query>,
    columns: BTreeSet<Place>,
}

impl<'a> Builder<'a> {
    /// Names every relation and column, however deep.
    fn collect(&mut self, expr: &'a Expr) {
        each_part(Part::Expr(expr), &mut |part| match part {
            Part::Expr(Expr { kind: ExprKind::Column { relation, column }, .. }) => {
                self.columns.insert((*relation, *column));
            }
            Part::Query(Query { body: QueryBody::Select(select), ctes, .. }) => {
                select.from.iter().for_each(|item| self.name(item, ctes));
            }
            _ => {}
        });
    }

    fn name(&mut self, item: &'a FromItem, ctes: &'a [Cte]) {
        match item {
            FromItem::Table { relation, table, .. } => {
                self.tables.insert(*relation, *table);
            }
            FromItem::Subquery { relation, query, .. } => {
                self.derived.insert(*relation, query);
            }
            FromItem::Cte { relation, level: 0, index } => {
                if let Some(cte) = ctes.get(*index) {
                    self.derived.insert(*relation, &cte.query);
                }
            }
            FromItem::Join { left, right, .. } => {
                self.name(left, ctes);
                self.name(right, ctes);
            }
            FromItem::Cte { .. } | FromItem::Function { .. } | FromItem::Values { .. } => {}
        }
    }

    /// Clauses of a condition that must be true.
    fn holds(&self, expr: &'a Expr, clauses: &mut Vec<Clause<'a>>) {
        match &expr.kind {
            ExprKind::And(list) => list.iter().for_each(|item| self.holds(item, clauses)),
            ExprKind::Exists { query, negated: true } => self.no_row(query, clauses),
            ExprKind::Exists { query, negated: false } => clauses.push(self.some_row(query)),
            ExprKind::Not(inner) => match &inner.kind {
                ExprKind::Exists { query, negated: false } => self.no_row(query, clauses),
                ExprKind::Exists { query, negated: true } => clauses.push(self.some_row(query)),
                ExprKind::Or(list) => list.iter().for_each(|item| self.fails(item, &[], &[], clauses)),
                _ => self.fails(inner, &[], &[], clauses),
            },
            ExprKind::Binary { op: BinaryOp::Equal, left, right } => {
                match (count_of(left), integer(right), count_of(right), integer(left)) {
                    (Some(query), Some(0), _, _) | (_, _, Some(query), Some(0)) => {
                        self.no_row(query, clauses);
                    }
                    _ => clauses.push(self.clause(self.equality(left, right), &[], &[])),
                }
            }
            ExprKind::Binary { op, left, right } => {
                let claim = match op {
                    BinaryOp::GreaterOrEqual | BinaryOp::Greater => self.at_least(left, right),
                    BinaryOp::LessOrEqual | BinaryOp::Less => self.at_least(right, left),
                    _ => None,
                };
                clauses.push(self.clause(claim.unwrap_or(Claim::Opaque), &[], &[]));
            }
            _ => clauses.push(self.clause(Claim::Opaque, &[], &[])),
        }
    }

    fn clause(&self, claim: Claim<'a>, conditions: &[&'a Expr], scope: &[RelationId]) -> Clause<'a> {
        Clause { claim, conditions: conditions.to_vec(), scope: scope.to_vec() }
    }

    /// An EXISTS inside a violation that compares something itself: its rows join the clause's.
    fn no_row_within(
        &self,
        query: &'a Query,
        conditions: &[&'a Expr],
        scope: &[RelationId],
        clauses: &mut Vec<Clause<'a>>,
    ) {
        let mut inner = Vec::new();
        self.no_row(query, &mut inner);
        for mut clause in inner {
            clause.conditions.extend(conditions);
            clause.scope.extend(scope);
            clauses.push(clause);
        }
    }

    fn has_claim(&self, query: &Query) -> bool {
        select_of(query).is_some_and(|select| {
            let filters = select.filter.iter().flat_map(conjuncts);
            select.having.is_some()
                || filters.into_iter().any(|expr| !self.is_condition(expr) && self.is_comparison(expr))
        })
    }

    /// The query returns a row: their count is at least one.
    fn some_row(&self, query: &'a Query) -> Clause<'a> {
        let group = self.group(query).filter(|group| group.keys.is_empty() && !group.tables.is_empty());
        let claim = group.map_or(Claim::Opaque, |group| {
            let count = Group { function: Some(AggregateFunction::Count), zero_if_none: true, ..group };
            Claim::AtLeast(vec![(1, Atom::Aggregate(count))])
        });
        self.clause(claim, &[], &[])
    }

    /// The query returns no row.
    fn no_row(&self, query: &'a Query, clauses: &mut Vec<Clause<'a>>) {
        match &query.body {
            _ if !is_whole(query) => clauses.push(self.clause(Claim::Opaque, &[], &[])),
            QueryBody::Select(select) if !self.is_joined(&select.from) => {
                clauses.push(self.clause(Claim::Opaque, &[], &[]));
            }
            QueryBody::Select(select) => {
                let mut scope = Vec::new();
                let mut conditions = Vec::new();
                select.from.iter().for_each(|item| self.scope_of(item, &mut scope, &mut conditions));
                let filters: Vec<&'a Expr> = select.filter.iter().flat_map(conjuncts).collect();
                let having: Vec<&'a Expr> = select.having.iter().flat_map(conjuncts).collect();
                let first = clauses.len();
                self.no_row_of(&filters, &having, conditions, &scope, clauses);
                // A fact of groups of rows: who brings and takes these no rule sees.
                if !self.is_resolved(&select.from) {
                    let of_groups = clauses[first..].iter_mut();
                    let facts = of_groups.filter(|clause| matches!(clause.claim, Claim::NotTogether(_)));
                    facts.for_each(|clause| clause.claim = Claim::Opaque);
                }
                // One row however many there are, or one for each group.
                let always = select.aggregates && select.group_by.is_empty();
                match select.having {
                    Some(_) if !self.is_resolved(&select.from) => {
                        clauses[first..].iter_mut().for_each(|clause| clause.claim = Claim::Opaque)
                    }
                    Some(_) => clauses[first..].iter_mut().for_each(|clause| self.own_rows(select, clause)),
                    None if always => {
                        clauses[first..].iter_mut().for_each(|clause| clause.claim = Claim::Opaque)
                    }
                    None => {}
                }
            }
            QueryBody::SetOperation { left, right, op: weir_sql::bound::SetOperator::Union, .. } => {
                self.no_row(left, clauses);
                self.no_row(right, clauses);
            }
            _ => clauses.push(self.clause(Claim::Opaque, &[], &[])),
        }
    }

    /// HAVING: what the query's aggregates range over, and which rows belong together, its own FROM list says.
    fn own_rows(&self, select: &'a Select, clause: &mut Clause<'a>) {
        let (Claim::Equality(atoms) | Claim::AtLeast(atoms)) = &mut clause.claim else {
            clause.claim = Claim::Opaque;
            return;
        };
        for (_, atom) in atoms {
            match atom {
                Atom::Aggregate(group) if group.tables.is_empty() => {
                    group.tables = clause
                        .scope
                        .iter()
                        .filter_map(|relation| Some((*relation, *self.tables.get(relation)?)))
                        .collect();
                    group.filters.extend(&clause.conditions);
                    group.keys.extend(&select.group_by);
                }
                _ => {}
            }
        }
    }

    fn no_row_of(
        &self,
        filters: &[&'a Expr],
        having: &[&'a Expr],
        mut conditions: Vec<&'a Expr>,
        scope: &[RelationId],
        clauses: &mut Vec<Clause<'a>>,
    ) {
        let (joins, mut claims): (Vec<&'a Expr>, Vec<&'a Expr>) = if having.is_empty() {
            filters.iter().copied().partition(|expr| self.is_condition(expr))
        } else {
            conditions.extend(filters);
            (Vec::new(), having.to_vec())
        };
        conditions.extend(joins);
        match claims.len() {
            0 => clauses.push(self.clause(self.rows(scope, &[]), &conditions, scope)),
            1 => self.fails(claims.remove(0), &conditions, scope, clauses),
            _ => match self.facts(&claims) {
                Some(facts) => clauses.push(self.clause(Claim::NotTogether(facts), &conditions, scope)),
                // The strongest shape among them is the claim, the others say when it applies.
                None => {
                    let at = claims.iter().position(|claim| self.is_comparison(claim)).unwrap_or(0);
                    let claim = claims.remove(at);
                    conditions.extend(claims);
                    self.fails(claim, &conditions, scope, clauses);
                }
            },
        }
    }

    /// A conjunct that selects rows: an equality between columns, or a comparison of one with a literal.
    fn is_condition(&self, expr: &Expr) -> bool {
        match &expr.kind {
            ExprKind::Binary { op: BinaryOp::Equal, left, right } => {
                let plain = |e: &Expr| self.is_plain(uncast(e));
                plain(left) && plain(right)
            }
            ExprKind::Binary { left, right, .. } => {
                let literal = |e: &Expr| matches!(uncast(e).kind, ExprKind::Literal(_));
                let plain =
                    |e: &Expr| matches!(uncast(e).kind, ExprKind::Column { .. }) && self.is_plain(uncast(e));
                plain(left) && literal(right) || literal(left) && plain(right)
            }
            _ => false,
        }
    }

    /// A literal, or a column that is not an aggregate's result.
    fn is_plain(&self, expr: &Expr) -> bool {
        match expr.kind {
            ExprKind::Column { relation, column } => match self.derived.get(&relation) {
                Some(query) => output(query, column).is_some_and(|inner| self.is_plain(uncast(inner))),
                None => true,
            },
            ExprKind::Literal(_) => true,
            _ => false,
        }
    }

    fn is_comparison(&self, expr: &Expr) -> bool {
        match &expr.kind {
            ExprKind::Binary { .. } | ExprKind::IsDistinct { .. } => true,
            ExprKind::Not(inner) => self.is_comparison(inner),
            _ => false,
        }
    }

    fn scope_of(&self, item: &'a FromItem, scope: &mut Vec<RelationId>, conditions: &mut Vec<&'a Expr>) {
        match item {
            FromItem::Table { relation, .. } => scope.push(*relation),
            FromItem::Join { left, right, on, .. } => {
                self.scope_of(left, scope, conditions);
                self.scope_of(right, scope, conditions);
                conditions.extend(on.iter().flat_map(conjuncts));
            }
            FromItem::Subquery { relation, .. } | FromItem::Cte { relation, .. } => {
                if let Some(select) = self.derived.get(relation).and_then(|query| select_of(query))
                    && !select.aggregates
                {
                    select.from.iter().for_each(|inner| self.scope_of(inner, scope, conditions));
                    conditions.extend(select.filter.iter().flat_map(conjuncts));
                }
            }
            FromItem::Function { .. } | FromItem::Values { .. } => {}
        }
    }

    /// A violation that must never be true.
    fn fails(
        &self,
        violation: &'a Expr,
        conditions: &[&'a Expr],
        scope: &[RelationId],
        clauses: &mut Vec<Clause<'a>>,
    ) {
        let mut push = |claim| clauses.push(self.clause(claim, conditions, scope));
        match &violation.kind {
            ExprKind::Or(list) => {
                list.iter().for_each(|item| self.fails(item, conditions, scope, clauses));
            }
            ExprKind::And(list) => {
                let list: Vec<&'a Expr> = list.iter().flat_map(conjuncts).collect();
                self.no_row_of(&list, &[], conditions.to_vec(), scope, clauses);
            }
            ExprKind::Not(inner) => match &inner.kind {
                ExprKind::Binary { op: BinaryOp::Equal, left, right }
                | ExprKind::IsDistinct { left, right, negated: true } => {
                    self.differ(left, right, conditions, scope, clauses);
                }
                ExprKind::And(list) => {
                    for item in list {
                        let mut inner = Vec::new();
                        self.holds(item, &mut inner);
                        for mut clause in inner {
                            clause.conditions.extend(conditions);
                            clause.scope.extend(scope);
                            clauses.push(clause);
                        }
                    }
                }
                _ => push(self.row_or_opaque(violation)),
            },
            ExprKind::Binary { op: BinaryOp::NotEqual, left, right }
            | ExprKind::IsDistinct { left, right, negated: false } => {
                self.differ(left, right, conditions, scope, clauses);
            }
            ExprKind::Binary { op, left, right } => push(self.bound(violation, *op, left, right)),
            ExprKind::Exists { query, negated: false } if self.has_claim(query) => {
                self.no_row_within(query, conditions, scope, clauses);
            }
            _ => push(match self.facts(&[violation]) {
                Some(facts) if !scope.is_empty() && facts.len() == 1 && is_exists(&facts[0]) => {
                    Claim::NotTogether(facts)
                }
                _ => self.row_or_opaque(violation),
            }),
        }
    }

    /// `a <> b` must never be true.
    fn differ(
        &self,
        left: &'a Expr,
        right: &'a Expr,
        conditions: &[&'a Expr],
        scope: &[RelationId],
        clauses: &mut Vec<Clause<'a>>,
    ) {
        match (self.fact(left), self.fact(right)) {
            (Some(a), Some(b)) => {
                let mut together = |facts| {
                    clauses.push(self.clause(Claim::NotTogether(facts), conditions, scope));
                };
                let (not_a, not_b) = (negated(&a), negated(&b));
                together(vec![a, not_b]);
                together(vec![not_a, b]);
            }
            _ => clauses.push(self.clause(self.equality(left, right), conditions, scope)),
        }
    }

    fn facts(&self, list: &[&'a Expr]) -> Option<Vec<Fact<'a>>> {
        list.iter().map(|expr| self.fact(expr)).collect()
    }

    fn fact(&self, expr: &'a Expr) -> Option<Fact<'a>> {
        match &expr.kind {
            ExprKind::IsNull { operand, negated } => match uncast(operand).kind {
                ExprKind::Column { relation, column } => {
                    Some(Fact::Null { place: self.plain_place((relation, column))?, negated: *negated })
                }
                _ => None,
            },
            ExprKind::Exists { query, negated } => {
                Some(Fact::Exists { group: self.group(query)?, negated: *negated })
            }
            ExprKind::Not(inner) => self.fact(inner).map(|fact| negated(&fact)),
            _ => None,
        }
    }

    fn bound(&self, violation: &'a Expr, op: BinaryOp, left: &'a Expr, right: &'a Expr) -> Claim<'a> {
        let claim = match op {
            BinaryOp::Less | BinaryOp::LessOrEqual => self.at_least(left, right),
            BinaryOp::Greater | BinaryOp::GreaterOrEqual => self.at_least(right, left),
            _ => None,
        };
        claim.unwrap_or_else(|| self.row_or_opaque(violation))
    }

    /// `high` is at least, or more than, `low`, and one of them has an aggregate.
    fn at_least(&self, high: &'a Expr, low: &'a Expr) -> Option<Claim<'a>> {
        let mut atoms = Vec::new();
        let linear = self.linear(high, 1, &mut atoms) && self.linear(low, -1, &mut atoms);
        let has_group = atoms.iter().any(|(_, atom)| matches!(atom, Atom::Aggregate(_)));
        (linear && has_group).then_some(Claim::AtLeast(atoms))
    }

    fn row_or_opaque(&self, violation: &'a Expr) -> Claim<'a> {
        let mut relations = BTreeSet::new();
        let mut nested = false;
        each_expr(violation, &mut |expr| {
            if let ExprKind::Column { relation, .. } = expr.kind {
                relations.insert(relation);
            }
            nested |= subquery(expr).is_some();
        });
        match (nested, relations.len(), relations.first()) {
            (true, ..) | (_, _, None) => Claim::Opaque,
            (false, 1, Some(&relation)) if self.tables.contains_key(&relation) => {
                Claim::Row(relation, violation)
            }
            _ => self.rows(&relations.into_iter().collect::<Vec<_>>(), &[violation]),
        }
    }

    /// A condition on several rows, one of each relation, if all of these are tables.
    fn rows(&self, relations: &[RelationId], violation: &[&'a Expr]) -> Claim<'a> {
        let tables = !relations.is_empty() && relations.iter().all(|one| self.tables.contains_key(one));
        if tables { Claim::Rows(relations.to_vec(), violation.to_vec()) } else { Claim::Opaque }
    }

    fn group_of_select(&self, select: &'a Select) -> Group<'a> {
        let mut relations = Vec::new();
        let mut filters = Vec::new();
        select.from.iter().for_each(|item| self.scope_of(item, &mut relations, &mut filters));
        filters.extend(select.filter.iter().flat_map(conjuncts));
        let tables =
            relations.iter().filter_map(|relation| Some((*relation, *self.tables.get(relation)?))).collect();
        let keys = select.group_by.iter().collect();
        Group { function: None, argument: None, tables, filters, keys, zero_if_none: false }
    }

    fn group(&self, query: &'a Query) -> Option<Group<'a>> {
        let select = select_of(query)?;
        let plain = !select.aggregates && is_whole(query) && self.is_resolved(&select.from);
        plain.then(|| self.group_of_select(select))
    }

    /// Its rows are those of tables that are joined, one of each. Of an outer join a row may be missing, and the rows
    /// of a function depend on its arguments.
    fn is_joined(&self, from: &[FromItem]) -> bool {
        from.iter().all(|item| match item {
            FromItem::Table { .. } => true,
            FromItem::Join { kind: JoinKind::Inner | JoinKind::Cross, left, right, .. } => {
                self.is_joined(std::slice::from_ref(left)) && self.is_joined(std::slice::from_ref(right))
            }
            FromItem::Subquery { relation, .. } | FromItem::Cte { relation, .. } => {
                self.derived.get(relation).is_some_and(|query| self.is_derived(query))
            }
            FromItem::Join { .. } | FromItem::Function { .. } | FromItem::Values { .. } => false,
        })
    }

    /// Joined, and no item stands for a group of rows: a sum over these is a sum over the tables' rows.
    fn is_resolved(&self, from: &[FromItem]) -> bool {
        let one_by_one = |item: &FromItem| match item {
            FromItem::Subquery { relation, .. } | FromItem::Cte { relation, .. } => {
                let inner = self.derived.get(relation).and_then(|query| select_of(query));
                inner.is_some_and(|select| !select.aggregates && self.is_resolved(&select.from))
            }
            FromItem::Join { left, right, .. } => {
                [left, right].into_iter().all(|side| self.is_resolved(std::slice::from_ref(side)))
            }
            _ => true,
        };
        self.is_joined(from) && from.iter().all(one_by_one)
    }

    /// Each of its rows is a row of its FROM list, or one for each group of these.
    fn is_derived(&self, query: &Query) -> bool {
        let all = |select: &Select| {
            select.having.is_none()
                && matches!(select.distinct, Distinct::All)
                && self.is_joined(&select.from)
        };
        query.limit.is_none() && query.offset.is_none() && select_of(query).is_some_and(all)
    }

    /// Follows a derived table's column to the table's.
    fn plain_place(&self, place: Place) -> Option<Place> {
        match self.derived.get(&place.0) {
            None => Some(place),
            Some(query) => match uncast(output(query, place.1)?).kind {
                ExprKind::Column { relation, column } => self.plain_place((relation, column)),
                _ => None,
            },
        }
    }
}

fn is_exists(fact: &Fact<'_>) -> bool {
    matches!(fact, Fact::Exists { .. })
}

fn negated<'a>(fact: &Fact<'a>) -> Fact<'a> {
    match fact {
        Fact::Null { place, negated } => Fact::Null { place: *place, negated: !negated },
        Fact::Exists { group, negated } => Fact::Exists { group: group.clone(), negated: !negated },
    }
}

fn select_of(query: &Query) -> Option<&Select> {
    match &query.body {
        QueryBody::Select(select) => Some(select),
        _ => None,
    }
}

/// It has rows if and only if its body has: `LIMIT 1` changes nothing.
fn is_whole(query: &Query) -> bool {
    let some = |limit: &Expr| integer(limit).is_some_and(|rows| rows > 0);
    query.offset.is_none() && query.limit.as_ref().is_none_or(some)
}

fn output(query: &Query, column: ColumnIndex) -> Option<&Expr> {
    select_of(query)?.outputs.get(column)
}

/// `(SELECT count(*) FROM …)`.
fn count_of(expr: &Expr) -> Option<&Query> {
    let ExprKind::ScalarSubquery(query) = &uncast(expr).kind else { return None };
    match &uncast(output(query, 0)?).kind {
        ExprKind::Aggregate(aggregate)
            if aggregate.function == AggregateFunction::Count
                && aggregate.args.is_empty()
                && select_of(query)?.having.is_none() =>
        {
            Some(query)
        }
        _ => None,
    }
}
