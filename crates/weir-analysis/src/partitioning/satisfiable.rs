//! One clause of a conflict: can two accesses mean one row, and what does that force to be equal?
//! (operation-partitioning.txt §3.1, "Conflict detection phase".)
//!
//! Congruence closure over the row's columns, the parameters of both sides, constants, joined rows and calls, with
//! NULLs, disequalities and bounds. *Never* and *equal* are proofs; everything else means "may be". Only columns
//! that nobody changes after the insert say the same of the row to both sides, who come at different times.

use std::collections::{BTreeMap, BTreeSet};

use weir_sql::Application;
use weir_sql::bound::{ParameterMode, VariableId};
use weir_sql::catalog::{ColumnIndex, Table, TableId, Trigger, TriggerTiming};
use weir_types::SqlType;

use super::Key;
use super::atoms::{Atom, Operand};
use super::order::Order;
use super::sets::{Entry, Sets};
use crate::effects::{OPAQUE, Operation, ProcedureEffects, ReadId, Term, TermId, Write};

type NodeId = usize;

/// 0 is the clause's left transaction, 1 its right one: two calls, of one procedure perhaps.
type Side = usize;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Node {
    /// A column of the row that both mean, for all time.
    Row(ColumnIndex),
    /// A column of that row as one side sees it.
    Seen(Side, ColumnIndex),
    Parameter(Side, VariableId),
    Integer(i64),
    Literal(String),
    Null,
    Generated(Side, u32),
    Field(Side, ReadId, ColumnIndex),
    /// A deterministic function of its arguments.
    Apply(String, Vec<NodeId>),
    Opaque(Side, TermId),
}

/// Whether equal values of a node are one value, so that they route alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spelling {
    /// One spelling for each value of this family of types.
    One(u8),
    /// `1.0` and `1.00`.
    Several,
    /// The other side of the equation tells.
    Any,
}

/// The family of types whose equal values are the same value: what a call can be routed by.
pub fn routable(ty: &SqlType) -> Option<u8> {
    match ty {
        SqlType::Bool => Some(0),
        SqlType::Int2 | SqlType::Int4 | SqlType::Int8 => Some(1),
        SqlType::Text | SqlType::Varchar(_) => Some(2),
        SqlType::Date => Some(3),
        SqlType::Timestamp => Some(4),
        SqlType::Timestamptz => Some(5),
        SqlType::Uuid => Some(6),
        SqlType::Bytea => Some(7),
        SqlType::Enum(_) => Some(8),
        _ => None,
    }
}

/// One side of a clause.
#[derive(Clone, Copy)]
pub struct Access<'a> {
    pub procedure: usize,
    pub effects: &'a ProcedureEffects,
    pub entry: &'a Entry,
    /// One alternative of its condition.
    pub atoms: &'a [Atom],
}

/// `None` if no two calls can mean one row; else the pairs of keys that are equal whenever they do.
pub fn forced_keys(app: &Application, sets: &Sets, sides: [Access<'_>; 2]) -> Option<Vec<(Key, Key)>> {
    let mut clause = Clause::new(app, sets, sides);
    clause.assert_all();
    clause.possible().then(|| clause.equal_keys())
}

/// The columns of an entry's row that equal a key of its own call, in every alternative of the condition.
pub fn routed_columns(
    app: &Application,
    sets: &Sets,
    procedure: usize,
    effects: &ProcedureEffects,
    entry: &Entry,
) -> Vec<(ColumnIndex, Key)> {
    let mut common: Option<Vec<(ColumnIndex, Key)>> = None;
    for atoms in &entry.alternatives {
        let side = Access { procedure, effects, entry, atoms };
        let nothing = Access { atoms: &[], ..side };
        let mut clause = Clause::new(app, sets, [side, nothing]);
        clause.assert_side(0);
        clause.close();
        let routed = clause.columns_with_keys();
        common = Some(match common {
            None => routed,
            Some(list) => list.into_iter().filter(|item| routed.contains(item)).collect(),
        });
    }
    common.unwrap_or_default()
}

struct Clause<'a> {
    app: &'a Application,
    sets: &'a Sets,
    sides: [Access<'a>; 2],
    table: &'a Table,
    nodes: Vec<Node>,
    ids: BTreeMap<Node, NodeId>,
    parent: Vec<NodeId>,
    /// By representative.
    not_null: BTreeSet<NodeId>,
    unequal: Vec<(NodeId, NodeId)>,
    /// `left` is less than `right` (strictly, if true).
    less: Vec<(NodeId, NodeId, bool)>,
}

impl<'a> Clause<'a> {
    fn new(app: &'a Application, sets: &'a Sets, sides: [Access<'a>; 2]) -> Clause<'a> {
        Clause {
            app,
            sets,
            sides,
            table: app.catalog.table(sides[0].entry.table),
            nodes: Vec::new(),
            ids: BTreeMap::new(),
            parent: Vec::new(),
            not_null: BTreeSet::new(),
            unequal: Vec::new(),
            less: Vec::new(),
        }
    }

    fn assert_all(&mut self) {
        self.assert_side(0);
        self.assert_side(1);
        self.close();
        self.add_pending();
        // The conditions that an insert puts on a row may bring in further rows, once.
        for _ in 0..2 {
            self.add_inserted_rows();
            self.close();
        }
    }

    fn assert_side(&mut self, side: Side) {
        let atoms = self.sides[side].atoms;
        atoms.iter().for_each(|atom| self.assert_atom(side, *atom));
    }

    /// Values that come from a row, where NULL would have come from none.
    fn add_pending(&mut self) {
        let mut done = BTreeSet::new();
        loop {
            let mut progress = false;
            for side in 0..2 {
                for pending in &self.sides[side].entry.pending {
                    let from_it = |(id, node): (NodeId, &Node)| {
                        matches!(node, Node::Field(of, row, _) if *of == side && *row == pending.row)
                            && self.not_null.contains(&self.find(id))
                    };
                    let found = self.nodes.iter().enumerate().any(from_it);
                    if found && done.insert((side, pending.row)) {
                        pending.atoms.iter().for_each(|atom| self.assert_atom(side, *atom));
                        progress = true;
                    }
                }
            }
            if !progress {
                return;
            }
            self.close();
        }
    }

    // Terms to nodes.

    fn node(&mut self, node: Node) -> NodeId {
        if let Some(&id) = self.ids.get(&node) {
            return id;
        }
        let id = self.nodes.len();
        self.nodes.push(node.clone());
        self.ids.insert(node, id);
        self.parent.push(id);
        id
    }

    fn operand(&mut self, side: Side, operand: Operand) -> NodeId {
        match operand {
            Operand::Term(term) => self.term(side, term),
            Operand::Own(column) => self.own(side, column),
            Operand::Field(row, column) => self.field(side, row, column),
        }
    }

    fn own(&mut self, side: Side, column: ColumnIndex) -> NodeId {
        let fixed = self.sets.is_fixed(self.table.id, column);
        let node = if fixed { Node::Row(column) } else { Node::Seen(side, column) };
        let known = self.ids.contains_key(&node);
        let id = self.node(node);
        if !known && fixed {
            self.tie_to_key(id, self.table.id, column, &mut |this, part| this.own(side, part));
        }
        if self.table.columns[column].not_null {
            self.not_null.insert(self.find(id));
        }
        id
    }

    fn field(&mut self, side: Side, row: ReadId, column: ColumnIndex) -> NodeId {
        let node = Node::Field(side, row, column);
        let known = self.ids.contains_key(&node);
        let id = self.node(node);
        let table = self.sides[side].effects.read(row).table;
        if !known && self.sets.is_fixed(table, column) {
            self.tie_to_key(id, table, column, &mut |this, part| this.field(side, row, part));
        }
        id
    }

    /// A column is a function of the row's key, where no row ever goes and comes back as another.
    fn tie_to_key(
        &mut self,
        id: NodeId,
        table: TableId,
        column: ColumnIndex,
        part: &mut dyn FnMut(&mut Self, ColumnIndex) -> NodeId,
    ) {
        for (name, columns) in self.lasting_keys(table) {
            if !columns.contains(&column) {
                let arguments = columns.iter().map(|&column| part(self, column)).collect();
                let function = self.node(Node::Apply(format!("{name}.{column}"), arguments));
                self.union(id, function);
            }
        }
    }

    /// Keys that name the same row for all time.
    fn lasting_keys(&self, table: TableId) -> Vec<(String, Vec<ColumnIndex>)> {
        if !self.sets.is_lasting(table) {
            return Vec::new();
        }
        let definition = self.app.catalog.table(table);
        let fixed =
            |&column: &ColumnIndex| self.sets.is_fixed(table, column) && definition.columns[column].not_null;
        let keys = definition.primary_key.iter().chain(&definition.unique_keys);
        let keys = keys.filter(|key| key.columns.iter().all(fixed));
        keys.map(|key| (format!("row {} {}", table.0, key.name), key.columns.clone())).collect()
    }

    fn term(&mut self, side: Side, term: TermId) -> NodeId {
        let node = match self.sides[side].effects.terms.get(term).clone() {
            Term::Null => Node::Null,
            Term::Integer(n) => Node::Integer(n),
            Term::Literal(text, _) => Node::Literal(text),
            Term::Parameter(variable) => Node::Parameter(side, variable),
            Term::Generated(site) => Node::Generated(side, site),
            Term::Field { row, column } if self.sides[side].entry.row == Some(row) => {
                return self.own(side, column);
            }
            Term::Field { row, column } => return self.field(side, row, column),
            Term::Sum { base, offset } => {
                let base = self.term(side, base);
                let offset = self.node(Node::Integer(offset));
                Node::Apply("sum".to_string(), vec![base, offset])
            }
            Term::Call { name, arguments } if !name.starts_with(OPAQUE) => {
                let arguments = arguments.iter().map(|&argument| self.term(side, argument)).collect();
                Node::Apply(format!("call {name}"), arguments)
            }
            _ => Node::Opaque(side, term),
        };
        self.node(node)
    }

    fn spelling(&self, id: NodeId) -> Spelling {
        let of = |ty: &SqlType| routable(ty).map_or(Spelling::Several, Spelling::One);
        let column =
            |table: TableId, column: ColumnIndex| of(&self.app.catalog.table(table).columns[column].ty);
        match &self.nodes[id] {
            Node::Row(at) | Node::Seen(_, at) => column(self.table.id, *at),
            Node::Field(side, row, at) => column(self.sides[*side].effects.read(*row).table, *at),
            Node::Parameter(side, variable) => {
                let procedure = &self.app.procedures[self.sides[*side].procedure];
                of(&procedure.variables[variable.0 as usize].ty)
            }
            Node::Integer(_) => Spelling::One(1),
            Node::Literal(text) if text.starts_with("Numeric") || text.starts_with("Float") => {
                Spelling::Several
            }
            Node::Literal(_) | Node::Null | Node::Generated(..) | Node::Apply(..) | Node::Opaque(..) => {
                Spelling::Any
            }
        }
    }

    // Facts.

    fn assert_atom(&mut self, side: Side, atom: Atom) {
        let both = |this: &mut Self, left, right| (this.operand(side, left), this.operand(side, right));
        match atom {
            Atom::Same(left, right) => {
                let (left, right) = both(self, left, right);
                self.equate(left, right);
            }
            Atom::Equal(left, right) => {
                let (left, right) = both(self, left, right);
                self.is_not_null(left);
                self.is_not_null(right);
                self.equate(left, right);
            }
            Atom::NotEqual(left, right) => {
                let (left, right) = both(self, left, right);
                self.is_not_null(left);
                self.is_not_null(right);
                self.unequal.push((left, right));
            }
            Atom::Less(left, right) | Atom::LessOrEqual(left, right) => {
                let (left, right) = both(self, left, right);
                self.is_not_null(left);
                self.is_not_null(right);
                self.less.push((left, right, matches!(atom, Atom::Less(..))));
            }
            Atom::Null(operand) => {
                let (id, null) = (self.operand(side, operand), self.node(Node::Null));
                self.union(id, null);
            }
            Atom::NotNull(operand) => {
                let id = self.operand(side, operand);
                self.is_not_null(id);
            }
        }
    }

    fn is_not_null(&mut self, id: NodeId) {
        let id = self.find(id);
        self.not_null.insert(id);
    }

    /// Equal values, where that means the same value.
    fn equate(&mut self, left: NodeId, right: NodeId) {
        let null = |id: NodeId| self.nodes[id] == Node::Null;
        let same = match (self.spelling(left), self.spelling(right)) {
            (Spelling::One(a), Spelling::One(b)) => a == b,
            (Spelling::Several, _) | (_, Spelling::Several) => null(left) || null(right),
            _ => true,
        };
        if same {
            self.union(left, right);
        }
    }

    fn find(&self, mut id: NodeId) -> NodeId {
        while self.parent[id] != id {
            id = self.parent[id];
        }
        id
    }

    fn union(&mut self, left: NodeId, right: NodeId) {
        let (left, right) = (self.find(left), self.find(right));
        let (low, high) = (left.min(right), left.max(right));
        if low != high {
            self.parent[high] = low;
            if self.not_null.remove(&high) {
                self.not_null.insert(low);
            }
        }
    }

    /// Equal arguments, equal results; until nothing changes.
    fn close(&mut self) {
        loop {
            let mut first: BTreeMap<(&str, Vec<NodeId>), NodeId> = BTreeMap::new();
            let mut equal = None;
            for (id, node) in self.nodes.iter().enumerate() {
                let Node::Apply(name, arguments) = node else { continue };
                let arguments: Vec<NodeId> = arguments.iter().map(|&id| self.find(id)).collect();
                let other = *first.entry((name, arguments)).or_insert(id);
                if self.find(other) != self.find(id) {
                    equal = Some((other, id));
                    break;
                }
            }
            let Some((left, right)) = equal else { return };
            self.union(left, right);
        }
    }

    /// Rows that a side inserts besides, if it does so whenever it makes this access.
    fn add_inserted_rows(&mut self) {
        let names: BTreeSet<String> = self
            .nodes
            .iter()
            .filter_map(|node| match node {
                Node::Apply(name, _) if name.starts_with("row ") => Some(name.clone()),
                _ => None,
            })
            .collect();
        let app = self.app;
        for side in 0..2 {
            let Access { effects, entry, .. } = self.sides[side];
            for write in &effects.writes {
                let Operation::Insert { values, on_conflict: None } = &write.operation else { continue };
                if !comes_with(app, entry, write) {
                    continue;
                }
                // A failing call has read all the same, perhaps the very row that its insert would have met; only for a fresh key no
                // other call has a row.
                let fresh = |key: &[ColumnIndex]| key.iter().any(|&c| self.sets.is_fresh(write.table, c));
                let keys = self.lasting_keys(write.table);
                let keys: Vec<_> =
                    keys.into_iter().filter(|(_, key)| entry.kind.is_write() || fresh(key)).collect();
                for (name, key) in keys {
                    for column in 0..values.len() {
                        let name = format!("{name}.{column}");
                        if names.contains(&name) {
                            let arguments = key.iter().map(|&part| self.term(side, values[part])).collect();
                            let function = self.node(Node::Apply(name, arguments));
                            let value = self.term(side, values[column]);
                            let ty = &self.app.catalog.table(write.table).columns[column].ty;
                            if routable(ty).is_some() {
                                self.equate(function, value);
                            }
                        }
                    }
                }
            }
        }
    }

    // Conclusions.

    fn classes(&self) -> BTreeMap<NodeId, Vec<NodeId>> {
        let mut classes: BTreeMap<NodeId, Vec<NodeId>> = BTreeMap::new();
        for id in 0..self.nodes.len() {
            classes.entry(self.find(id)).or_default().push(id);
        }
        classes
    }

    fn possible(&self) -> bool {
        if self.unequal.iter().any(|&(a, b)| self.find(a) == self.find(b)) {
            return false;
        }
        let classes = self.classes();
        classes.iter().all(|(class, members)| self.class_is_possible(*class, members))
            && self.bounds_are_possible()
    }

    fn class_is_possible(&self, class: NodeId, members: &[NodeId]) -> bool {
        let mut constant: Option<&Node> = None;
        let mut generated: Vec<(Side, u32)> = Vec::new();
        for &id in members {
            match &self.nodes[id] {
                node @ (Node::Integer(_) | Node::Literal(_) | Node::Null) => {
                    if constant.is_some_and(|other| other != node)
                        || *node == Node::Null && self.not_null.contains(&class)
                    {
                        return false;
                    }
                    constant = Some(node);
                }
                Node::Generated(side, site) => {
                    let sequence = self.sequence(*side, *site);
                    // A sequence never gives a number twice, nor is a UUID ever another one.
                    let clash = |&(other, at): &(Side, u32)| {
                        (other, at) != (*side, *site) && self.sequence(other, at) == sequence
                    };
                    if generated.iter().any(clash) || constant == Some(&Node::Null) {
                        return false;
                    }
                    generated.push((*side, *site));
                }
                _ => {}
            }
        }
        true
    }

    fn sequence(&self, side: Side, site: u32) -> Option<weir_sql::catalog::SequenceId> {
        self.sides[side].effects.generated.get(&site).copied().flatten()
    }

    fn bounds_are_possible(&self) -> bool {
        let mut order = Order::default();
        for &(left, right, strict) in &self.less {
            let text = |id| self.spelling(id) == Spelling::One(2);
            // Strings are ordered by a collation, which may differ from one comparison to the next.
            if !text(left) && !text(right) {
                order.add(Some(self.find(left)), Some(self.find(right)), 0, strict);
            }
        }
        for (id, node) in self.nodes.iter().enumerate() {
            let class = self.find(id);
            match node {
                Node::Integer(n) => order.fix(class, *n),
                Node::Apply(name, arguments) if name == "sum" && self.not_null.contains(&class) => {
                    let Node::Integer(offset) = self.nodes[arguments[1]] else { continue };
                    let base = self.find(arguments[0]);
                    order.add(Some(class), Some(base), i128::from(offset), false);
                    order.add(Some(base), Some(class), -i128::from(offset), false);
                }
                _ => {}
            }
        }
        order.is_possible()
    }

    /// The keys that each class of equal values holds, for one side.
    fn keys_of(&self, side: Side, members: &[NodeId]) -> BTreeSet<Key> {
        let parameters = &self.app.procedures[self.sides[side].procedure].parameters;
        let key = |id: &NodeId| match &self.nodes[*id] {
            Node::Generated(of, _) if *of == side => Some(Key::Own),
            Node::Parameter(of, variable) if *of == side => {
                let at = parameters.iter().position(|parameter| parameter.variable == *variable)?;
                let given = parameters[at].mode != ParameterMode::Out;
                routable(&parameters[at].ty).filter(|_| given).map(|_| Key::Parameter(at))
            }
            _ => None,
        };
        members.iter().filter_map(key).collect()
    }

    fn equal_keys(&self) -> Vec<(Key, Key)> {
        let mut pairs = BTreeSet::new();
        for members in self.classes().values() {
            let right = self.keys_of(1, members);
            for left in self.keys_of(0, members) {
                pairs.extend(right.iter().map(|&right| (left, right)));
            }
        }
        pairs.into_iter().collect()
    }

    fn columns_with_keys(&self) -> Vec<(ColumnIndex, Key)> {
        let mut columns = Vec::new();
        for members in self.classes().values() {
            let keys = self.keys_of(0, members);
            for &id in members {
                if let Node::Row(column) = self.nodes[id] {
                    columns.extend(keys.iter().map(|&key| (column, key)));
                }
            }
        }
        columns.sort();
        columns
    }
}

/// Returns whether every execution of the access also executes the write, and does not undo it.
pub fn comes_with(app: &Application, entry: &Entry, write: &Write) -> bool {
    let no_way_around = match write.moment.order < entry.moment.order {
        true => write.moment.departures == 0,
        false => write.moment.departures == entry.moment.departures,
    };
    let skips = |trigger: &Trigger| trigger.table == write.table && trigger.timing == TriggerTiming::Before;
    no_way_around && entry.context.starts_with(&write.context) && !app.catalog.triggers.iter().any(skips)
}
