//! A walk over parse trees of SELECT, INSERT, UPDATE and DELETE: all nodes that are, or hold, expressions, queries and relations.
//!
//! Lists of names (of functions, types, columns of an alias) and the constants of CYCLE are no nodes of the walk, nor are the relations that FOR UPDATE OF names,
//! which are aliases.

use pg_query::protobuf::{self, Node, SelectStmt, WithClause, node};

/// A subtree deeper than what is left of the stack gets more of it.
const STACK_LEFT_BYTES_MIN: usize = 128 << 10;
const STACK_MORE_BYTES: usize = 4 << 20;

/// Runs a step of a recursion over a tree.
pub(crate) fn deeper<T>(step: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(STACK_LEFT_BYTES_MIN, STACK_MORE_BYTES, step)
}

/// Calls a macro with each kind of node and its fields with children. A query's WITH and arms come first, and are not listed.
macro_rules! kinds {
    ($define:ident) => {
        $define! {
            InsertStmt: with_clause cols select_stmt on_conflict_clause returning_clause;
            UpdateStmt: with_clause target_list from_clause where_clause returning_clause;
            DeleteStmt: with_clause using_clause where_clause returning_clause;
            MergeStmt: with_clause source_relation join_condition merge_when_clauses returning_clause;
            MergeWhenClause: condition target_list values;
            CommonTableExpr: ctequery;
            ResTarget: indirection val;
            MultiAssignRef: source;
            AExpr: lexpr rexpr;
            TypeCast: arg;
            CollateClause: arg;
            FuncCall: args agg_order agg_filter over;
            AIndices: lidx uidx;
            AIndirection: arg indirection;
            AArrayExpr: elements;
            RangeSubselect: subquery;
            RangeFunction: functions;
            RangeTableSample: relation args repeatable;
            RangeTableFunc: docexpr rowexpr namespaces columns;
            RangeTableFuncCol: colexpr coldefexpr;
            JoinExpr: larg rarg quals;
            OnConflictClause: infer target_list where_clause;
            InferClause: index_elems where_clause;
            IndexElem: expr;
            SortBy: node;
            WindowDef: partition_clause order_clause start_offset end_offset;
            GroupingSet: content;
            GroupingFunc: args;
            XmlSerialize: expr;
            SubLink: testexpr subselect;
            BoolExpr: args;
            CaseExpr: arg args defresult;
            CaseWhen: expr result;
            CoalesceExpr: args;
            MinMaxExpr: args;
            NullTest: arg;
            BooleanTest: arg;
            RowExpr: args;
            NamedArgExpr: arg;
            XmlExpr: named_args args;
            List: items;
            ReturningClause: options exprs;
            JsonValueExpr: raw_expr formatted_expr;
            JsonIsPredicate: expr;
            JsonBehavior: expr;
            JsonFuncExpr: context_item pathspec passing on_empty on_error;
            JsonArgument: val;
            JsonTable: context_item pathspec passing columns on_error;
            JsonTableColumn: pathspec columns on_empty on_error;
            JsonTablePathSpec: string;
            JsonKeyValue: key value;
            JsonObjectConstructor: exprs;
            JsonArrayConstructor: exprs;
            JsonAggConstructor: agg_filter agg_order over;
            JsonObjectAgg: constructor arg;
            JsonArrayAgg: constructor arg;
            JsonParseExpr: expr;
            JsonScalarExpr: expr;
            JsonSerializeExpr: expr;
        }
    };
}

/// A value with nodes below it.
trait Parent {
    fn each(&self, visit: &mut dyn FnMut(&Node));
    fn each_mut(&mut self, visit: &mut dyn FnMut(&mut Node));
}

impl Parent for Node {
    fn each(&self, visit: &mut dyn FnMut(&Node)) {
        visit(self);
    }

    fn each_mut(&mut self, visit: &mut dyn FnMut(&mut Node)) {
        visit(self);
    }
}

impl<T: Parent> Parent for Option<T> {
    fn each(&self, visit: &mut dyn FnMut(&Node)) {
        self.iter().for_each(|one| one.each(visit));
    }

    fn each_mut(&mut self, visit: &mut dyn FnMut(&mut Node)) {
        self.iter_mut().for_each(|one| one.each_mut(visit));
    }
}

impl<T: Parent> Parent for Vec<T> {
    fn each(&self, visit: &mut dyn FnMut(&Node)) {
        self.iter().for_each(|one| one.each(visit));
    }

    fn each_mut(&mut self, visit: &mut dyn FnMut(&mut Node)) {
        self.iter_mut().for_each(|one| one.each_mut(visit));
    }
}

impl<T: Parent> Parent for Box<T> {
    fn each(&self, visit: &mut dyn FnMut(&Node)) {
        (**self).each(visit);
    }

    fn each_mut(&mut self, visit: &mut dyn FnMut(&mut Node)) {
        (**self).each_mut(visit);
    }
}

macro_rules! define_parents {
    ($($kind:ident: $($field:ident)+;)+) => {
        $(impl Parent for protobuf::$kind {
            fn each(&self, visit: &mut dyn FnMut(&Node)) {
                $(self.$field.each(visit);)+
            }

            fn each_mut(&mut self, visit: &mut dyn FnMut(&mut Node)) {
                $(self.$field.each_mut(visit);)+
            }
        })+

        fn children(node: &node::Node, visit: &mut dyn FnMut(&Node)) {
            match node {
                node::Node::SelectStmt(select) => select.each(visit),
                node::Node::JsonArrayQueryConstructor(array) => array.query.each(visit),
                $(node::Node::$kind(one) => one.each(visit),)+
                _ => {}
            }
        }

        fn children_mut(node: &mut node::Node, visit: &mut dyn FnMut(&mut Node)) {
            match node {
                node::Node::SelectStmt(select) => select.each_mut(visit),
                node::Node::JsonArrayQueryConstructor(array) => array.query.each_mut(visit),
                $(node::Node::$kind(one) => one.each_mut(visit),)+
                _ => {}
            }
        }
    };
}

kinds!(define_parents);

impl Parent for WithClause {
    fn each(&self, visit: &mut dyn FnMut(&Node)) {
        self.ctes.each(visit);
    }

    fn each_mut(&mut self, visit: &mut dyn FnMut(&mut Node)) {
        self.ctes.each_mut(visit);
    }
}

/// The fields of a query of its own, beside its WITH and the arms that it joins.
macro_rules! fields_of_select {
    ($select:ident, $each:ident, $visit:ident) => {
        $select.distinct_clause.$each($visit);
        $select.target_list.$each($visit);
        $select.from_clause.$each($visit);
        $select.where_clause.$each($visit);
        $select.group_clause.$each($visit);
        $select.having_clause.$each($visit);
        $select.window_clause.$each($visit);
        $select.values_lists.$each($visit);
        $select.sort_clause.$each($visit);
        $select.limit_offset.$each($visit);
        $select.limit_count.$each($visit);
    };
}

impl Parent for SelectStmt {
    fn each(&self, visit: &mut dyn FnMut(&Node)) {
        self.with_clause.each(visit);
        deeper(|| self.larg.each(visit));
        deeper(|| self.rarg.each(visit));
        fields_of_select!(self, each, visit);
    }

    fn each_mut(&mut self, visit: &mut dyn FnMut(&mut Node)) {
        self.with_clause.each_mut(visit);
        deeper(|| self.larg.each_mut(visit));
        deeper(|| self.rarg.each_mut(visit));
        fields_of_select!(self, each_mut, visit);
    }
}

/// Visits a node and those below it, outermost first; not those below one for which `visit` says `false`.
pub(crate) fn each_node(node: &node::Node, visit: &mut dyn FnMut(&node::Node) -> bool) {
    if visit(node) {
        children(node, &mut |child| {
            if let Some(child) = &child.node {
                deeper(|| each_node(child, visit));
            }
        });
    }
}

/// The same, in the same order. A node may become another one.
pub(crate) fn each_node_mut(node: &mut node::Node, visit: &mut dyn FnMut(&mut node::Node) -> bool) {
    if visit(node) {
        children_mut(node, &mut |child| {
            if let Some(child) = &mut child.node {
                deeper(|| each_node_mut(child, visit));
            }
        });
    }
}

/// Returns whether a tree has more levels than this.
pub(crate) fn is_deeper(node: &node::Node, levels: usize) -> bool {
    match (node, levels.checked_sub(1)) {
        (_, None) => true,
        (node::Node::SelectStmt(select), _) => is_deeper_query(select, levels),
        (node, Some(left)) => {
            let mut is_deep = false;
            children(node, &mut |child| is_deep = is_deep || is_deeper_child(child, left));
            is_deep
        }
    }
}

fn is_deeper_query(select: &SelectStmt, levels: usize) -> bool {
    let Some(left) = levels.checked_sub(1) else { return true };
    let mut arms = [&select.larg, &select.rarg].into_iter().flatten();
    let mut is_deep = arms.any(|arm| is_deeper_query(arm, left));
    let visit = &mut |child: &Node| is_deep = is_deep || is_deeper_child(child, left);
    select.with_clause.each(visit);
    fields_of_select!(select, each, visit);
    is_deep
}

fn is_deeper_child(child: &Node, levels: usize) -> bool {
    child.node.as_ref().is_some_and(|child| is_deeper(child, levels))
}

/// Which of these names a node reads as names of its surroundings' WITH: relations without a schema that no WITH within it hides.
pub(crate) fn reads<'n>(node: &node::Node, names: &[&'n str]) -> Vec<&'n str> {
    let mut reader = Reader { names, hidden: Vec::new(), read: Vec::new() };
    reader.node(node);
    reader.read
}

struct Reader<'r, 'n> {
    names: &'r [&'n str],
    hidden: Vec<String>,
    read: Vec<&'n str>,
}

impl Reader<'_, '_> {
    fn node(&mut self, node: &node::Node) {
        let before = self.hidden.len();
        let with = match node {
            node::Node::RangeVar(table) => return self.table(table),
            node::Node::SelectStmt(select) => return self.select(select),
            node::Node::InsertStmt(insert) => &insert.with_clause,
            node::Node::UpdateStmt(update) => &update.with_clause,
            node::Node::DeleteStmt(delete) => &delete.with_clause,
            node::Node::MergeStmt(merge) => &merge.with_clause,
            _ => &None,
        };
        self.with(with);
        children(node, &mut |child| self.child(child));
        self.hidden.truncate(before);
    }

    /// An element of WITH has been read with those before it.
    fn child(&mut self, child: &Node) {
        match &child.node {
            Some(node::Node::CommonTableExpr(_)) | None => {}
            Some(child) => deeper(|| self.node(child)),
        }
    }

    fn select(&mut self, select: &SelectStmt) {
        let before = self.hidden.len();
        self.with(&select.with_clause);
        for arm in [&select.larg, &select.rarg].into_iter().flatten() {
            deeper(|| self.select(arm));
        }
        let visit = &mut |child: &Node| self.child(child);
        fields_of_select!(select, each, visit);
        self.hidden.truncate(before);
    }

    fn table(&mut self, table: &protobuf::RangeVar) {
        let name = &table.relname;
        let is_plain = table.schemaname.is_empty() && table.catalogname.is_empty();
        if is_plain && !self.hidden.contains(name) {
            self.read.extend(self.names.iter().find(|one| *one == name));
        }
    }

    /// Its elements see those before them, and all of them if it is recursive.
    fn with(&mut self, with: &Option<WithClause>) {
        let Some(with) = with else { return };
        let elements = || {
            with.ctes.iter().filter_map(|cte| match &cte.node {
                Some(node::Node::CommonTableExpr(element)) => Some(element),
                _ => None,
            })
        };
        if with.recursive {
            self.hidden.extend(elements().map(|element| element.ctename.clone()));
        }
        for element in elements() {
            if let Some(query) = element.ctequery.as_ref().and_then(|query| query.node.as_ref()) {
                deeper(|| self.node(query));
            }
            self.hidden.push(element.ctename.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::{Piece, parse_statement};

    fn parsed(sql: &str) -> node::Node {
        parse_statement(Piece::new(0, 0, sql)).unwrap_or_else(|wrong| panic!("{sql}: {wrong:?}")).node
    }

    /// Each place where an expression may stand has a parameter, and the walk comes to all of them.
    #[test]
    fn every_parameter_is_reached() {
        for sql in [
            "SELECT DISTINCT ON ($1) $2, ARRAY[$3], ROW($4), ($5)::text, $6 COLLATE \"C\", CASE $7 WHEN $8 THEN $9 ELSE $10 END, \
             COALESCE($11, $12), GREATEST($13), x[$14:$15], (x).y[$16], $17 IS NULL, $18 IS TRUE, NOT $19, $20 IN ($21, $22), \
             $23 BETWEEN $24 AND $25, f($26, a => $27), count(*) FILTER (WHERE $28), string_agg($29, $30 ORDER BY $31), \
             percentile_cont($32) WITHIN GROUP (ORDER BY $33), sum($34) OVER (PARTITION BY $35 ORDER BY $36 ROWS $37 PRECEDING), \
             EXISTS (SELECT $38), $39 = ANY (SELECT $40), ARRAY(SELECT $41), NULLIF($42, $43), $44 LIKE $45 ESCAPE $46, \
             EXTRACT(year FROM $47), $48 AT TIME ZONE $49, GROUPING($50), XMLELEMENT(NAME a, XMLATTRIBUTES($51 AS b), $52), \
             JSON_OBJECT($53: $54), JSON_ARRAY($55, $56), JSON_VALUE($57, $58 PASSING $59 AS p), JSON($60), \
             JSON_ARRAYAGG($61 ORDER BY $62), JSON_OBJECTAGG($63: $64), $65 IS JSON \
             FROM a JOIN LATERAL (SELECT $66) b ON $67, ROWS FROM (f($68), g($69)) c, t TABLESAMPLE system ($70) REPEATABLE ($71), \
             XMLTABLE($72 PASSING $73 COLUMNS d int PATH $74 DEFAULT $75), (VALUES ($76), ($77)) v \
             WHERE $78 AND ($79 OR $80) GROUP BY $81, ROLLUP ($82), GROUPING SETS (($83), ()) HAVING $84 \
             WINDOW w AS (PARTITION BY $85) ORDER BY $86 LIMIT $87 OFFSET $88",
            "WITH RECURSIVE q AS (SELECT $1 UNION ALL (SELECT $2 FROM q LIMIT $3)) CYCLE a SET b USING c \
             INSERT INTO t AS x (a[$4], b) SELECT $5, $6 UNION SELECT $7, $8 EXCEPT (SELECT $9, $10) \
             ON CONFLICT (lower($11)) WHERE $12 DO UPDATE SET a = $13, (b, c) = (SELECT $14, $15) WHERE $16 RETURNING $17",
            "WITH q AS (DELETE FROM t USING (SELECT $1) s WHERE $2 RETURNING $3) UPDATE t SET a[$4] = $5, (b, c) = ROW($6, $7) \
             FROM q JOIN r ON $8 WHERE $9 RETURNING $10",
            "MERGE INTO t USING (SELECT $1) s ON $2 WHEN MATCHED AND $3 THEN UPDATE SET a = $4 \
             WHEN NOT MATCHED THEN INSERT VALUES ($5, $6)",
            "INSERT INTO t VALUES ($1, DEFAULT, ($2)), ($3, (SELECT $4), $5)",
        ] {
            let mut node = parsed(sql);
            let written = format!("{node:?}").matches("ParamRef {").count();
            let (mut shared, mut mutable) = (0, 0);
            each_node(&node, &mut |node| {
                shared += usize::from(matches!(node, node::Node::ParamRef(_)));
                true
            });
            each_node_mut(&mut node, &mut |node| {
                mutable += usize::from(matches!(node, node::Node::ParamRef(_)));
                true
            });
            assert!(written > 4, "{sql}");
            assert_eq!((shared, mutable), (written, written), "{sql}");
        }
    }

    #[test]
    fn names_of_with_are_read_where_nothing_hides_them() {
        let check = |sql: &str, expect: &[&str]| {
            let mut found = reads(&parsed(sql), &["a", "select", "b"]);
            found.sort();
            found.dedup();
            assert_eq!(found, expect, "{sql}");
        };
        check("SELECT a.b FROM x a", &[]);
        check("SELECT a, 'FROM b' FROM x -- FROM a", &[]);
        check("SELECT 1 FROM public.a", &[]);
        check("SELECT 1 FROM \"select\"", &["select"]);
        check("SELECT (SELECT 1 FROM a), EXISTS (SELECT FROM b)", &["a", "b"]);
        check("WITH a AS (SELECT 1) SELECT * FROM a, b", &["b"]);
        check("WITH a AS (SELECT * FROM a) SELECT 1", &["a"]);
        check("WITH RECURSIVE a AS (SELECT 1 UNION ALL SELECT * FROM a) SELECT 1", &[]);
        check("(WITH a AS (SELECT 1) SELECT * FROM a) UNION ALL SELECT * FROM b", &["b"]);
        check("(WITH a AS (SELECT 1) SELECT * FROM a) UNION ALL SELECT * FROM a", &["a"]);
        check("INSERT INTO a SELECT 1", &[]);
        check("UPDATE a SET n = 1 FROM b WHERE a.n = b.n", &["b"]);
        check("DELETE FROM a USING x WHERE a.n IN (TABLE b)", &["b"]);
        check("SELECT 1 FROM x FOR UPDATE OF x", &[]);
    }

    #[test]
    fn deep_trees_are_walked_on_small_stacks() {
        let sql = format!("SELECT $1{}", " + $1".repeat(1_500));
        let walked = std::thread::Builder::new().stack_size(1 << 20).spawn(move || {
            let mut count = 0;
            each_node(&parsed(&sql), &mut |node| {
                count += usize::from(matches!(node, node::Node::ParamRef(_)));
                true
            });
            count
        });
        assert_eq!(walked.unwrap().join().unwrap(), 1_501);
    }
}
