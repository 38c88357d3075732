//! Transactions that come statement by statement, against the templates of a shop.

use std::collections::BTreeSet;

use super::*;

const INSERT_CART: &str = "INSERT INTO cart (id) VALUES ($1)";
const CART: &str = "SELECT qty FROM cart_line WHERE cart = $1 AND item = $2";
const SET_LINE: &str = "UPDATE cart_line SET qty = $3 WHERE cart = $1 AND item = $2";
const STOCK: &str = "UPDATE item SET stock = stock - $2 WHERE id = $1";
const ITEM: &str = "SELECT title FROM item WHERE id = $1";
const BID: &str = "INSERT INTO bid (bidder, item) VALUES ($1, $2)";

/// The server of a number is the number modulo three.
fn templates() -> Templates {
    let statement = |text: &str, arguments: &[Source]| StatementTemplate {
        text: text.into(),
        arguments: arguments.to_vec(),
    };
    let template = |name: &str, class, home, others: &[usize], statements: &[StatementTemplate]| Template {
        name: name.into(),
        class,
        home,
        others: others.to_vec(),
        statements: statements.to_vec(),
    };
    use Source::{Free, Parameter};
    let (cart, line) = ([Parameter(0)], [Parameter(0), Parameter(1), Free]);
    let all = vec![
        template("create_cart", Class::Local, Some(0), &[], &[statement(INSERT_CART, &cart)]),
        template(
            "do_cart",
            Class::Local,
            Some(0),
            &[],
            &[statement(CART, &line[..2]), statement(SET_LINE, &line)],
        ),
        template(
            "buy",
            Class::Global,
            Some(0),
            &[],
            &[statement(CART, &[Parameter(0), Free]), statement(STOCK, &[Free, Free])],
        ),
        template("show_item", Class::Commutative, None, &[], &[statement(ITEM, &[Parameter(0)])]),
        template("bid", Class::LocalGlobal, Some(0), &[1], &[statement(BID, &line[..2])]),
    ];
    Templates::new(all, BTreeSet::from([(1, 1)]), Routing::even(&[0, 1, 2]))
}

/// The actions for the statements of one transaction, of a client at server 0.
fn actions(statements: &[(&str, &[i64])]) -> Vec<StatementAction> {
    let templates = templates();
    let mut matching = Matching::new(&templates, 0);
    let each = |(text, arguments): &(&str, &[i64])| {
        let arguments: Vec<_> = arguments.iter().copied().map(RoutingValue::Integer).collect();
        let touches = BTreeSet::from([(9, 1)]);
        let touches = if *text == "unknown" { None } else { Some(&touches) };
        matching.statement(&templates, &Statement { text, arguments: &arguments, touches })
    };
    statements.iter().map(each).collect()
}

use Placement::{Commutative, Global, Local};
use StatementAction::{Refused, Restarts, Runs};

#[test]
fn one_statement_may_be_enough() {
    assert_eq!(actions(&[(INSERT_CART, &[4])]), [Runs(Local(1))]);
    assert_eq!(actions(&[(SET_LINE, &[5, 1, 7])]), [Runs(Local(2))]);
    assert_eq!(actions(&[(ITEM, &[5])]), [Runs(Commutative)]);
}

/// Two templates read the cart; one of them is global.
#[test]
fn while_candidates_disagree_the_transaction_is_global() {
    assert_eq!(actions(&[(CART, &[4, 1]), (SET_LINE, &[4, 1, 2])]), [Runs(Global(1)), Runs(Global(1))]);
    assert_eq!(actions(&[(CART, &[4, 1]), (STOCK, &[8, 1])]), [Runs(Global(1)), Runs(Global(1))]);
}

/// The stock says nothing of the cart: the transaction begins here, and belongs elsewhere.
#[test]
fn a_contradiction_starts_again() {
    assert_eq!(actions(&[(STOCK, &[8, 1]), (CART, &[4, 1])]), [Runs(Global(0)), Restarts(Global(1))]);
    assert_eq!(actions(&[(STOCK, &[8, 1]), (CART, &[3, 1])]), [Runs(Global(0)), Runs(Global(0))]);
}

/// A second cart is bound by no template of one cart; what is left touches nothing that servers have on their own.
#[test]
fn what_no_template_covers_is_global_if_it_touches_nothing_local() {
    let two_carts = [(SET_LINE, &[4, 1, 2][..]), (SET_LINE, &[5, 1, 2][..])];
    assert_eq!(actions(&two_carts), [Runs(Local(1)), Restarts(Global(0))]);
    assert_eq!(actions(&[("unknown", &[])]), [Refused(Refusal::Unknown)]);
    let templates = templates();
    let mut matching = Matching::new(&templates, 0);
    let touches = BTreeSet::from([(1, 1)]);
    let statement = Statement { text: "ad hoc", arguments: &[], touches: Some(&touches) };
    assert_eq!(matching.statement(&templates, &statement), Refused(Refusal::TouchesLocalRows));
}

#[test]
fn several_parameters_are_local_where_they_agree() {
    assert_eq!(actions(&[(BID, &[4, 7])]), [Runs(Local(1))]);
    assert_eq!(actions(&[(BID, &[4, 8])]), [Runs(Global(1))]);
    let call = |name, arguments: &[i64]| {
        let arguments: Vec<_> = arguments.iter().copied().map(RoutingValue::Integer).collect();
        templates().call(name, &arguments, 2)
    };
    assert_eq!(call("bid", &[4, 8]), Some(Global(1)));
    assert_eq!(call("show_item", &[4]), Some(Commutative));
    assert_eq!((call("bid", &[4]), call("nothing", &[])), (None, None));
}

/// The matcher covers each statement that runs by its place, for every transaction of up to three statements.
#[test]
fn a_transaction_runs_only_where_a_template_allows_it() {
    let statements: [(&str, &[i64]); 6] = [
        (INSERT_CART, &[4]),
        (CART, &[4, 1]),
        (SET_LINE, &[5, 1, 2]),
        (STOCK, &[8, 1]),
        (ITEM, &[1]),
        (BID, &[4, 8]),
    ];
    let templates = templates();
    for code in 0..216_usize {
        let mut matching = Matching::new(&templates, 0);
        for (text, arguments) in [code / 36, code / 6 % 6, code % 6].map(|index| statements[index]) {
            let arguments: Vec<_> = arguments.iter().copied().map(RoutingValue::Integer).collect();
            let touches = BTreeSet::from([(1, 1)]);
            let statement = Statement { text, arguments: &arguments, touches: Some(&touches) };
            let (Runs(place) | Restarts(place)) = matching.statement(&templates, &statement) else { break };
            let mut covering = matching.candidates.iter();
            assert!(covering.any(|each| templates.may_run(each, place)), "{code}: {place:?}");
        }
    }
}
