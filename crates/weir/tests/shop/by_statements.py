"""Single statements, and transactions at READ COMMITTED with row locks; the rule over several rows at SERIALIZABLE."""

import random

from form import Connected
from psycopg import IsolationLevel
from psycopg.errors import UniqueViolation
from shop_errors import RolledBack


class Form(Connected):
    def __init__(self, number, registers):
        super().__init__(number, registers)
        self.chance = random.Random(number)

    def more(self):
        return ["CREATE INDEX wish_of ON wish (account_id)"]

    def register(self, email):
        find = "SELECT id FROM account WHERE email = %s"
        if self.registers == "on-conflict":
            insert = "INSERT INTO account (email) VALUES (%s) ON CONFLICT (email) DO NOTHING RETURNING id"
            return self.value(insert, email) or self.value(find, email)
        try:
            return self.value("INSERT INTO account (email) VALUES (%s) RETURNING id", email)
        except UniqueViolation:
            return self.value(find, email)

    def prices(self, products):
        """Half of the time the rows are locked beforehand; else two that take them in different orders may deadlock."""
        lock = " ORDER BY id FOR UPDATE" if self.chance.random() < 0.5 else ""
        return dict(self.connection.execute(f"SELECT id, price FROM product WHERE id = ANY(%s){lock}", (products,)).fetchall())

    def place_order(self, token, account, products, pieces, coupon, gives_up):
        with self.connection.transaction():
            prices = self.prices(products)
            off = coupon and self.value(
                "UPDATE coupon SET used = true WHERE code = %s AND NOT used RETURNING discount", coupon)
            lines = list(zip(products, (pieces, 1), strict=True))
            total = sum(prices[product] * count for product, count in lines) - (off or 0)
            order = self.value("INSERT INTO orders (token, account_id, coupon_id, total) VALUES (%s, %s, %s, %s) RETURNING id",
                               token, account, coupon if off else None, total)
            for product, count in lines:
                self.connection.execute("UPDATE product SET stock = stock - %s WHERE id = %s", (count, product))
                self.connection.execute("INSERT INTO line (order_id, product_id, quantity, price) VALUES (%s, %s, %s, %s)",
                                        (order, product, count, prices[product]))
            if gives_up:
                raise RolledBack
        return order

    def send_invoice(self, order, gives_up):
        with self.connection.transaction():
            number = self.value("UPDATE counter SET last = last + 1 WHERE id = 1 RETURNING last")
            self.connection.execute("INSERT INTO invoice (number, order_id, amount) SELECT %s, id, total FROM orders WHERE id = %s",
                                    (number, order))
            if gives_up:
                raise RolledBack
        return number

    def write_review(self, line, account):
        self.connection.execute("INSERT INTO review (line_id, account_id, stars) VALUES (%s, %s, 4)", (line, account))
        return account

    def restock(self, product, pieces):
        self.connection.execute("UPDATE product SET stock = stock + %s, initial = initial + %s WHERE id = %s",
                                (pieces, pieces, product))

    def make_wish(self, account, product):
        self.connection.isolation_level = IsolationLevel.SERIALIZABLE
        try:
            with self.connection.transaction():
                if self.value("SELECT count(*) FROM wish WHERE account_id = %s", account) < 3:
                    self.connection.execute("INSERT INTO wish (account_id, product_id) VALUES (%s, %s)", (account, product))
        finally:
            if not self.connection.closed:
                self.connection.isolation_level = None
