"""Procedures, by CALL; the rule over several rows at SERIALIZABLE."""

from form import Connected, statements_of
from psycopg import IsolationLevel
from psycopg.errors import UniqueViolation


class Form(Connected):
    def more(self):
        return ["CREATE INDEX wish_of ON wish (account_id)"] + statements_of("procedures.sql", "$$;")

    def register(self, email):
        if self.registers == "on-conflict":
            return self.value("CALL register(%s, NULL)", email)
        try:
            return self.value("CALL register_plainly(%s, NULL)", email)
        except UniqueViolation:
            # Somebody else has just done so.
            return self.value("CALL register_plainly(%s, NULL)", email)

    def place_order(self, token, account, products, pieces, coupon, gives_up):
        return self.value("CALL place_order(%s, %s, %s, %s, %s, %s, NULL)", token, account, *products, pieces, coupon)

    def send_invoice(self, order, gives_up):
        return self.value("CALL send_invoice(%s, NULL)", order)

    def write_review(self, line, account):
        self.connection.execute("CALL write_review(%s, %s, 5)", (line, account))
        return account

    def restock(self, product, pieces):
        self.connection.execute("CALL restock(%s, %s)", (product, pieces))

    def make_wish(self, account, product):
        self.connection.isolation_level = IsolationLevel.SERIALIZABLE
        try:
            with self.connection.transaction():
                self.connection.execute("CALL make_wish(%s, %s, NULL)", (account, product))
        finally:
            if not self.connection.closed:
                self.connection.isolation_level = None
