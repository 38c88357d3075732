"""What the forms share: a connection by psycopg."""

from pathlib import Path

import psycopg

HERE = Path(__file__).parent


def statements_of(file, end):
    """Statements of a file, as a programmer's tool sends them: one by one."""
    return [one + end for one in (HERE / file).read_text().split(end + "\n") if one.strip()]


class Connected:
    def __init__(self, number, registers):
        self.number, self.registers, self.connection = number, registers, None

    def connect(self, url):
        self.connection = psycopg.connect(url, autocommit=True)

    def close(self):
        if self.connection:
            self.connection.close()

    def state_of(self, error):
        """SQLSTATE; none: the connection is lost."""
        if not isinstance(error, psycopg.Error):
            raise error
        return error.sqlstate

    def define(self, url):
        with psycopg.connect(url, autocommit=True) as connection:
            for statement in statements_of("schema.sql", ");") + self.more():
                connection.execute(statement)

    def more(self):
        return []

    def value(self, sql, *arguments):
        row = self.connection.execute(sql, arguments).fetchone()
        return row and row[0]

    def line_of(self, order):
        return self.value("SELECT id FROM line WHERE order_id = %s ORDER BY id LIMIT 1", order)
