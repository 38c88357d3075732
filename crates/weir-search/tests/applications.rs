//! Three applications as people write them, with their mistakes, read to be analysed: what the terminal says of each is
//! compared with `testdata/applications/*.txt`. `WEIR_UPDATE=1` rewrites the files.

use crate::support;

use weir_analysis::{Analysis, TextStyle, Verdict, to_text};
use weir_search::{Limits, ShowLimits, attach, show};
use weir_sql::{Application, Reading, Sources};

fn application(name: &str) -> Application {
    let folder = support::root().join("testdata/applications").join(name);
    let mut sources = Sources::default();
    for file in ["schema.sql", "procedures.sql", "transactions.sql", "invariants.sql"] {
        if let Ok(text) = std::fs::read_to_string(folder.join(file)) {
            sources.add(format!("{name}/{file}"), text);
        }
    }
    weir_sql::load_with(sources, Reading::Tolerant).map_err(|(_, errors)| errors).expect("it loads")
}

/// The golden text, and what stands beside (transaction, invariant) pairs: the witness's violation, `alone: …` for one
/// call's own, or `none`.
#[track_caller]
fn check(name: &str, expect: &[(&str, &str, &str)]) {
    let app = application(name);
    let mut analysis = weir_analysis::analyze(&app);
    attach(&app, &mut analysis, Limits::default());
    show::anomalies(&app, &mut analysis, ShowLimits::default());
    for (transaction, invariant, shown) in expect {
        let verdict = verdict(&app, &analysis, transaction, invariant);
        let found = match (&verdict.alone_witness, &verdict.witness) {
            (Some(witness), _) => format!("alone: {}", witness.violation()),
            (None, Some(witness)) => witness.violation(),
            (None, None) => "none".to_owned(),
        };
        assert_eq!(found, *shown, "{transaction} and {invariant}");
    }
    let text = to_text(&app, &analysis, TextStyle::default());
    support::golden(&format!("testdata/applications/{name}.txt"), &text);
}

fn verdict<'a>(app: &Application, analysis: &'a Analysis, transaction: &str, invariant: &str) -> &'a Verdict {
    let mut verdicts = analysis.verdicts.iter();
    let is = |verdict: &&Verdict| {
        app.procedures[verdict.transaction].name == transaction
            && analysis.invariants[verdict.invariant.0 as usize].name == invariant
    };
    verdicts.find(is).expect("the transaction touches the invariant")
}

/// A coupon that goes takes the discount's reason with it; a call whose parameter may be NULL is run with and without.
#[test]
fn a_shop_with_coupons_and_stock() {
    check(
        "shop",
        &[
            ("place_order", "products_stock_check", "sku = 'a', stock = -1"),
            ("place_order", "coupon_not_overused", "code = 'a', max_uses = 1, uses = 2"),
            ("register", "customers_email_key", "id = 201, email = 'a'"),
            ("drop_coupon", "total_of_lines", "alone: id = 1, coupon_code = NULL, total = 2.00"),
        ],
    );
}

/// Ranges are nothing that the engine runs: what does not touch them is searched all the same.
#[test]
fn a_hotel_with_bookings_and_doctors() {
    check(
        "booking",
        &[
            ("sell_seat", "flights_check", "id = 1, seats = 1, sold = 2"),
            ("go_off_call", "somebody_on_call", "the condition is false"),
            ("go_on_call", "somebody_on_call", "none"),
            ("book", "no_double_booking", "none"),
            ("cancel", "no_double_booking", "none"),
        ],
    );
}

/// A partial unique index is kept in what is tried; a call that only stands behind the one that matters is no witness.
#[test]
fn a_chat_with_roles() {
    check(
        "chat",
        &[
            ("transfer_ownership", "one_owner", "room_id = 1, user_id = 1, role = 'owner'"),
            ("join_room", "one_owner", "none"),
            ("leave_room", "member_counts", "id = 1, member_count = -1"),
            ("ban", "member_counts", "alone: id = 1, member_count = 1"),
            ("create_room", "member_counts", "alone: id = 101, member_count = 1"),
            ("delete_room", "member_counts", "none"),
        ],
    );
}
