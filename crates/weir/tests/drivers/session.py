"""What an application does with psycopg 3; the connection string is the first argument."""
import datetime
import decimal
import sys
import threading

import psycopg

with psycopg.connect(sys.argv[1], autocommit=True) as ann:
    # Types to and fro, as text and in binary.
    for binary in (False, True):
        row = ann.cursor(binary=binary).execute(
            "SELECT %s::int4, %s::int8, %s::float8, %s::numeric, %s::text, %s::bool, %s::date, %s::timestamp, %s::bytea, %s::int4[]",
            (7, 1 << 40, 1.5, decimal.Decimal("-12.340"), "it's ü", True, datetime.date(2026, 11, 22),
             datetime.datetime(2026, 11, 22, 10, 0, 0, 5), b"\x00\xff", [1, None, 3]),
        ).fetchone()
        assert row == (7, 1 << 40, 1.5, decimal.Decimal("-12.340"), "it's ü", True, datetime.date(2026, 11, 22),
                       datetime.datetime(2026, 11, 22, 10, 0, 0, 5), b"\x00\xff", [1, None, 3]), row
    # Prepared: the same text again and again.
    for id in range(1, 10):
        found = ann.execute("SELECT owner FROM account WHERE id = %s", (id,), prepare=True).fetchone()
        assert found == (f"owner {id}",), found
    # A transaction with an error is rolled back; the connection goes on.
    try:
        with ann.transaction():
            ann.execute("UPDATE account SET balance = 0 WHERE id = 1")
            ann.execute("INSERT INTO account (id, owner) VALUES (1, 'again')")
        raise AssertionError("a key was there twice")
    except psycopg.errors.UniqueViolation as error:
        assert error.sqlstate == "23505" and error.diag.constraint_name == "account_pkey", error.diag
        assert "already exists" in (error.diag.message_detail or ""), error.diag.message_detail
    assert ann.execute("SELECT balance FROM account WHERE id = 1").fetchone() == (10,)
    try:
        ann.execute("SELECT balanse FROM account")
        raise AssertionError("there is no such column")
    except psycopg.errors.UndefinedColumn as error:
        assert error.diag.statement_position == "8" and "balance" in error.diag.message_hint, error.diag
    # Nested transactions are savepoints.
    with ann.transaction():
        ann.execute("INSERT INTO account (id, owner) VALUES (100, 'outer')")
        try:
            with ann.transaction():
                ann.execute("INSERT INTO account (id, owner) VALUES (101, 'inner')")
                raise KeyError
        except KeyError:
            pass
    assert ann.execute("SELECT id FROM account WHERE id >= 100").fetchall() == [(100,)]
    # Batches: executemany and a pipeline.
    with ann.cursor() as cursor:
        cursor.executemany("INSERT INTO account (id, owner) VALUES (%s, %s)", [(n, f"o{n}") for n in range(200, 260)])
        assert cursor.rowcount == 60, cursor.rowcount
    with ann.pipeline():
        cursors = [ann.execute("UPDATE account SET balance = balance + 1 WHERE id = %s", (n,)) for n in range(200, 220)]
    assert all(cursor.rowcount == 1 for cursor in cursors)
    # COPY both ways.
    with ann.cursor() as cursor:
        with cursor.copy("COPY account (id, owner, balance) FROM STDIN") as copy:
            for n in range(1_000, 4_000):
                copy.write_row((n, f"copied\t{n}", decimal.Decimal("2.50")))
        assert cursor.rowcount == 3_000, cursor.rowcount
        with cursor.copy("COPY (SELECT id, owner FROM account WHERE id >= 3998 ORDER BY id) TO STDOUT") as copy:
            assert list(copy.rows()) == [("3998", "copied\t3998"), ("3999", "copied\t3999")]
    # A cursor of the server, some rows at a time.
    with ann.transaction(), ann.cursor(name="some") as cursor:
        cursor.itersize = 500
        cursor.execute("SELECT id FROM account WHERE id >= 1000 ORDER BY id")
        assert sum(1 for _ in cursor) == 3_000
    # Cancelled while it waits for a row.
    with psycopg.connect(sys.argv[1]) as bob:
        bob.execute("UPDATE account SET balance = 5 WHERE id = 2")
        done = threading.Event()

        def cancel():
            while not done.wait(0.1):
                ann.cancel()

        thread = threading.Thread(target=cancel)
        thread.start()
        try:
            ann.execute("UPDATE account SET balance = 6 WHERE id = 2")
            raise AssertionError("it did not wait")
        except psycopg.errors.QueryCanceled:
            pass
        finally:
            done.set()
            thread.join()
        bob.rollback()
    # A call.
    assert ann.execute("CALL look(7, NULL, NULL)").fetchone() == ("owner 7", decimal.Decimal("10.00"))
print("all is well")
