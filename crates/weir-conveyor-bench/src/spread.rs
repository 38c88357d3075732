//! How the operations of TPC-W and RUBiS spread over servers that each have a part of the rows, and whose ids route them.
//!
//! Tables are partitioned as the analysis says (examples/tpcw/README.md, examples/rubis/README.md): carts by cart, customers and addresses by
//! their ids, books by book, orders and their lines by order; users and items by their ids, bids by bidder, comments by receiver, purchases by
//! buyer. Countries, authors, categories and regions are everywhere. A new row's id routes to the server that has given it.

use weir_conveyor_scale::costs::Home;

/// The spread of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread {
    /// Whose id the home is, if it needs one.
    pub whose: Home,
    /// Servers of single rows, beside the first one.
    pub others: u32,
    /// Servers that it writes at.
    pub writes_at: u32,
    /// It looks for rows at all servers.
    pub all: bool,
    /// It asks for the first rows of an order, which each server has to find of its own; otherwise the servers divide the work.
    pub repeats: bool,
}

/// Pages: the first rows in the order of an index.
const REPEATED: [&str; 4] =
    ["search_by_subject", "new_products", "search_items_by_category", "search_items_by_region"];

const fn spread(whose: Home, others: u32, writes_at: u32, all: bool) -> Spread {
    Spread { whose, others, writes_at, all, repeats: false }
}

/// The spread of an operation. None: nobody has said it.
pub fn of(application: &str, operation: &str) -> Option<Spread> {
    let spread = match application {
        "tpcw" => tpcw(operation),
        "rubis" => rubis(operation),
        "conveyor-micro" => Some(spread(Home::Other, 0, 1, false)),
        _ => None,
    };
    spread.map(|spread| Spread { repeats: REPEATED.contains(&operation), ..spread })
}

fn tpcw(operation: &str) -> Option<Spread> {
    use Home::{Other, Own};
    Some(match operation {
        "get_name" | "get_user_name" => spread(Own, 0, 0, false),
        "get_book" => spread(Other, 0, 0, false),
        // By user name, which no number routes; then an address.
        "get_customer" | "get_password" => spread(Own, 0, 0, true),
        "search_by_subject" | "search_by_title" | "search_by_author" | "new_products" | "best_sellers" => {
            spread(Other, 0, 0, true)
        }
        // Five other books.
        "get_related" => spread(Other, 5, 0, false),
        "get_most_recent_order" => spread(Own, 0, 0, true),
        // The books of three lines.
        "get_cart" => spread(Own, 3, 0, false),
        "create_empty_cart" | "refresh_session" => spread(Own, 0, 1, false),
        "change_cart" => spread(Own, 1, 1, false),
        // An address is looked for by its text.
        "create_customer" => spread(Own, 0, 1, true),
        // Cart and order; three books whose stock falls; customer and address, which are read.
        "confirm_purchase" => spread(Own, 5, 4, false),
        "confirm_purchase_to_address" => spread(Own, 5, 4, true),
        "admin_update" => spread(Other, 0, 1, true),
        _ => return None,
    })
}

fn rubis(operation: &str) -> Option<Spread> {
    use Home::{Other, Own};
    Some(match operation {
        "browse_categories" | "browse_regions" | "browse_categories_in_region" => spread(Other, 0, 0, false),
        "authenticate" => spread(Own, 0, 0, true),
        "search_items_by_category" | "search_items_by_region" | "view_bid_history" => {
            spread(Other, 0, 0, true)
        }
        // The seller, or the author of a comment.
        "view_item" | "view_user" => spread(Other, 1, 0, false),
        "buy_now_form" | "bid_form" | "comment_form" => spread(Other, 2, 0, false),
        // The items of three bids or purchases; the authors of two comments.
        "my_bids" | "my_won_items" => spread(Own, 3, 0, false),
        "my_bought_items" => spread(Own, 1, 0, false),
        "my_comments" => spread(Own, 2, 0, false),
        "my_items" => spread(Own, 0, 0, true),
        // The nickname, which is unique over all, is kept by its hash.
        "register_user" => spread(Own, 1, 2, false),
        "register_item" | "store_bid" | "store_buy_now" => spread(Own, 0, 1, false),
        "raise_item" | "take_pieces" | "close_item" => spread(Other, 0, 1, false),
        "store_comment" | "change_rating" => spread(Other, 0, 1, false),
        _ => return None,
    })
}
