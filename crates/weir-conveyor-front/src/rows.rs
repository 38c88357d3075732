//! Rows that a statement names by whole primary keys, for the live Contention Level (docs/internals/cat.md).
//!
//! Looked at are UPDATE, DELETE and SELECT of one table whose condition has `column = value` for each column of the key. Other rows are not known here.

use std::collections::BTreeMap;

use pg_query::NodeEnum;
use pg_query::protobuf::a_const::Val;
use pg_query::protobuf::{AExprKind, BoolExprType, Node, RangeVar};

use crate::parameters::Given;

/// Columns of the primary key of each table, by the table's name.
pub type Keys = BTreeMap<String, Vec<String>>;

enum Operand {
    /// From 1.
    Parameter(usize),
    Constant(String),
}

/// The table and the key of the row that a statement names, as it is shown.
pub fn named(text: &str, givens: &[Given], keys: &Keys) -> Option<(String, String)> {
    let parsed = pg_query::parse(text, 0).ok()?;
    let [statement] = &parsed.protobuf.stmts[..] else { return None };
    let (table, condition) = of_one_table(statement.stmt.as_ref()?.node.as_ref()?)?;
    let columns = keys.get(&table.relname)?;
    let mut equalities = BTreeMap::new();
    collect(condition, &mut equalities);
    let value = |column: &String| match equalities.get(column.as_str())? {
        Operand::Constant(text) => Some(text.clone()),
        Operand::Parameter(number) => match givens.get(number.checked_sub(1)?)? {
            Given::Text(text) => Some(text.clone()),
            Given::Null | Given::Opaque => None,
        },
    };
    let key = columns.iter().map(value).collect::<Option<Vec<String>>>()?;
    Some((table.relname.clone(), key.join(",")))
}

fn of_one_table(node: &NodeEnum) -> Option<(&RangeVar, &Node)> {
    match node {
        NodeEnum::UpdateStmt(update) if update.from_clause.is_empty() => {
            Some((update.relation.as_ref()?, update.where_clause.as_deref()?))
        }
        NodeEnum::DeleteStmt(delete) if delete.using_clause.is_empty() => {
            Some((delete.relation.as_ref()?, delete.where_clause.as_deref()?))
        }
        NodeEnum::SelectStmt(select) => {
            let [from] = &select.from_clause[..] else { return None };
            let Some(NodeEnum::RangeVar(table)) = &from.node else { return None };
            Some((table, select.where_clause.as_deref()?))
        }
        _ => None,
    }
}

/// Equalities that all hold.
fn collect<'n>(node: &'n Node, equalities: &mut BTreeMap<&'n str, Operand>) {
    match &node.node {
        Some(NodeEnum::BoolExpr(both)) if both.boolop() == BoolExprType::AndExpr => {
            both.args.iter().for_each(|argument| collect(argument, equalities));
        }
        Some(NodeEnum::AExpr(compared))
            if compared.kind() == AExprKind::AexprOp && is_equal(&compared.name) =>
        {
            let (Some(left), Some(right)) = (&compared.lexpr, &compared.rexpr) else { return };
            for (one, other) in [(left, right), (right, left)] {
                if let (Some(column), Some(operand)) = (column(one), operand(other)) {
                    equalities.insert(column, operand);
                }
            }
        }
        _ => {}
    }
}

fn is_equal(name: &[Node]) -> bool {
    matches!(name, [Node { node: Some(NodeEnum::String(name)) }] if name.sval == "=")
}

fn column(node: &Node) -> Option<&str> {
    let NodeEnum::ColumnRef(column) = node.node.as_ref()? else { return None };
    match column.fields.last()?.node.as_ref()? {
        NodeEnum::String(name) => Some(&name.sval),
        _ => None,
    }
}

fn operand(node: &Node) -> Option<Operand> {
    match node.node.as_ref()? {
        NodeEnum::ParamRef(parameter) => Some(Operand::Parameter(usize::try_from(parameter.number).ok()?)),
        NodeEnum::TypeCast(cast) => operand(cast.arg.as_deref()?),
        NodeEnum::AConst(constant) => Some(Operand::Constant(match constant.val.as_ref()? {
            Val::Ival(number) => number.ival.to_string(),
            Val::Fval(number) => number.fval.clone(),
            Val::Sval(text) => text.sval.clone(),
            Val::Boolval(_) | Val::Bsval(_) => return None,
        })),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_named_by_its_whole_key() {
        let keys = Keys::from([
            ("item".to_owned(), vec!["id".to_owned()]),
            ("line".to_owned(), vec!["cart".to_owned(), "item".to_owned()]),
        ]);
        let givens = [Given::Text("7".to_owned()), Given::Text("b".to_owned()), Given::Null];
        for (text, expected) in [
            ("UPDATE item SET stock = stock - 1 WHERE id = $1 AND stock > 0", Some(("item", "7"))),
            ("SELECT title FROM shop.item i WHERE i.id = 5", Some(("item", "5"))),
            ("SELECT title FROM item WHERE '5'::bigint = id", Some(("item", "5"))),
            ("DELETE FROM line WHERE item = $2 AND cart = $1", Some(("line", "7,b"))),
            ("DELETE FROM line WHERE cart = $1", None),
            ("DELETE FROM line WHERE cart = $1 OR item = $2", None),
            ("SELECT 1 FROM item WHERE id = $3", None),
            ("SELECT 1 FROM item WHERE id = $9", None),
            ("SELECT 1 FROM item WHERE id > 5", None),
            ("SELECT 1 FROM item, line WHERE id = 5", None),
            ("SELECT 1 FROM other WHERE id = 5", None),
            ("SELECT FROM WHERE", None),
        ] {
            let expected = expected.map(|(table, key)| (table.to_owned(), key.to_owned()));
            assert_eq!(named(text, &givens, &keys), expected, "{text}");
        }
    }
}
