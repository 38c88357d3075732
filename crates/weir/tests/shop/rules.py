"""The rules of the shop, each as a query that has no rows where it holds; and what clients were told against what there is."""

RULES = {
    "an e-mail has two accounts": "SELECT email, count(*) FROM account GROUP BY email HAVING count(*) > 1",
    "a stock is below zero": "SELECT id, stock FROM product WHERE stock < 0",
    "stock and sold pieces are not what there was": """
        SELECT p.id, p.initial, p.stock, s.sold
        FROM product p LEFT JOIN (SELECT product_id, sum(quantity) AS sold FROM line GROUP BY product_id) s ON s.product_id = p.id
        WHERE p.stock + coalesce(s.sold, 0) <> p.initial""",
    "a coupon is of two orders":
        "SELECT coupon_id, count(*) FROM orders WHERE coupon_id IS NOT NULL GROUP BY coupon_id HAVING count(*) > 1",
    "a coupon is used without an order, or the other way round": """
        SELECT c.code, c.used, o.id FROM coupon c LEFT JOIN orders o ON o.coupon_id = c.code WHERE c.used <> (o.id IS NOT NULL)""",
    "a total is not the sum of the lines": """
        SELECT o.id, o.total, l.lines, l.worth, c.discount
        FROM orders o
        LEFT JOIN (SELECT order_id, count(*) AS lines, sum(quantity * price) AS worth FROM line GROUP BY order_id) l ON l.order_id = o.id
        LEFT JOIN coupon c ON c.code = o.coupon_id
        WHERE l.lines IS NULL OR l.lines <> 2 OR o.total <> l.worth - coalesce(c.discount, 0)""",
    "a line has no order or no product": """
        SELECT l.id FROM line l LEFT JOIN orders o ON o.id = l.order_id LEFT JOIN product p ON p.id = l.product_id
        WHERE o.id IS NULL OR p.id IS NULL""",
    "an order is nobody's": "SELECT o.id FROM orders o LEFT JOIN account a ON a.id = o.account_id WHERE a.id IS NULL",
    "numbers of invoices are not dense": """
        SELECT c.last, i.count, i.least, i.most
        FROM counter c, (SELECT count(*) AS count, coalesce(min(number), 1) AS least, coalesce(max(number), 0) AS most FROM invoice) i
        WHERE c.last <> i.count OR c.last <> i.most OR i.least <> 1""",
    "an order has two invoices": "SELECT order_id, count(*) FROM invoice GROUP BY order_id HAVING count(*) > 1",
    "an invoice is not of its order's total": """
        SELECT i.number, i.amount, o.total FROM invoice i LEFT JOIN orders o ON o.id = i.order_id
        WHERE o.id IS NULL OR o.total <> i.amount""",
    "a review is of what its author has not bought": """
        SELECT r.id, r.account_id, o.account_id
        FROM review r LEFT JOIN line l ON l.id = r.line_id LEFT JOIN orders o ON o.id = l.order_id
        WHERE o.id IS NULL OR o.account_id <> r.account_id""",
    "a line has two reviews": "SELECT line_id, count(*) FROM review GROUP BY line_id HAVING count(*) > 1",
    "somebody has more than three wishes": "SELECT account_id, count(*) FROM wish GROUP BY account_id HAVING count(*) > 3",
}

THERE = {
    "register": "SELECT email, id FROM account",
    "place_order": "SELECT token, id FROM orders",
    "send_invoice": "SELECT order_id, number FROM invoice",
    "write_review": "SELECT line_id, account_id FROM review",
}


def broken(connection, done):
    """Broken rules, and what differs from what clients were told."""
    said = []
    for rule, query in RULES.items():
        rows = connection.execute(query).fetchall()
        if rows:
            said.append(f"{rule}: {rows[:5]}")
    for kind, query in THERE.items():
        there = dict(connection.execute(query).fetchall())
        for key, result, fate in done[kind]:
            found = there.get(key)
            if fate == "acknowledged" and found != result:
                said.append(f"{kind} {key} was acknowledged as {result}, and is {found}")
            if fate == "nothing" and found is not None:
                said.append(f"{kind} {key} was not done, and is {found}")
    return said
