"""What an application does with psycopg 3 through agents of Conveyor, whose ports are the arguments."""
import sys
import threading

import psycopg
from psycopg import errors


def connect(place, **more):
    return psycopg.connect(f"host=127.0.0.1 port={sys.argv[1 + place]} user=me dbname=shop", **more)


with connect(0, autocommit=True) as ann:
    # Calls, as text and in binary; key 4 belongs to the second server.
    for turn in range(1, 9):
        row = ann.execute("SELECT add_item(%s, %s, %s)", (4, 1, 2), binary=turn % 2 == 0).fetchone()
        assert row == (2 * turn,), row
    # Prepared: the same text again and again, with parameters in binary.
    for turn in range(1, 9):
        found = ann.execute("SELECT item, n FROM cart WHERE key = %b ORDER BY item", (4,), prepare=True).fetchall()
        assert found == [(1, 16)], found
    # A transaction with an error is rolled back; the connection goes on.
    try:
        with ann.transaction():
            ann.execute("INSERT INTO cart VALUES (%s, %s, %s)", (4, 7, 1))
            ann.execute("INSERT INTO cart VALUES (%s, %s, %s)", (4, 1, 1))
        raise AssertionError("a key was there twice")
    except errors.UniqueViolation as error:
        assert error.sqlstate == "23505" and error.diag.constraint_name == "cart_pkey", error.diag
    assert ann.execute("SELECT item, n FROM cart WHERE key = %s ORDER BY item", (4,)).fetchall() == [(1, 16)]
    try:
        ann.execute("SELECT itm FROM pg_catalog.pg_class")
        raise AssertionError("there is no such column")
    except errors.UndefinedColumn as error:
        assert error.diag.statement_position == "8", error.diag.statement_position
    # Nested transactions are savepoints.
    with ann.transaction():
        ann.execute("INSERT INTO cart VALUES (%s, %s, %s)", (4, 8, 1))
        try:
            with ann.transaction():
                ann.execute("INSERT INTO cart VALUES (%s, %s, %s)", (4, 9, 1))
                raise KeyError
        except KeyError:
            pass
    assert ann.execute("SELECT item, n FROM cart WHERE key = %s ORDER BY item", (4,)).fetchall() == [(1, 16), (8, 1)]
    # Batches: executemany and a pipeline.
    with ann.cursor() as cursor:
        cursor.executemany("INSERT INTO cart VALUES (%s, %s, %s)", [(4, n, n) for n in range(100, 140)])
        assert cursor.rowcount == 40, cursor.rowcount
    with ann.pipeline():
        cursors = [ann.execute("SELECT add_item(%s, %s, %s)", (4, n, 1)) for n in range(100, 110)]
    assert [cursor.fetchone()[0] for cursor in cursors] == list(range(101, 111))
    # A cursor of the server.
    with ann.transaction(), ann.cursor(name="named") as cursor:
        cursor.execute("SELECT item, n FROM cart WHERE key = %s ORDER BY item", (4,))
        assert cursor.fetchmany(2) == [(1, 16), (8, 1)]
    # COPY: a global transaction. Every server has the rows.
    with ann.cursor() as cursor:
        with cursor.copy("COPY log (id, what) FROM STDIN") as copy:
            for n in range(1_000, 4_000):
                copy.write_row((n, f"copied\t{n}"))
        assert cursor.rowcount == 3_000, cursor.rowcount
    for place in range(3):
        with connect(place, autocommit=True) as other:
            while (found := other.execute("SELECT id, what FROM log WHERE id = %s", (3_999,)).fetchone()) is None:
                pass
            assert found == (3_999, "copied\t3999"), found
    # One that fails changes nothing, and one that its client gives up.
    try:
        with ann.cursor().copy("COPY log (id, what) FROM STDIN") as copy:
            copy.write_row((5_000, "new"))
            copy.write_row((1_000, "again"))
        raise AssertionError("a key was there twice")
    except errors.UniqueViolation as error:
        assert "line 2" in error.diag.context, error.diag.context
    try:
        with ann.cursor().copy("COPY log (id, what) FROM STDIN") as copy:
            copy.write_row((5_000, "new"))
            raise KeyError
    except KeyError:
        pass
    # Within a transaction, whose other statements are global, too.
    with ann.transaction():
        ann.execute("INSERT INTO log VALUES (%s, %s)", (6_000, "first"))
        with ann.cursor().copy("COPY log (id, what) FROM STDIN") as copy:
            copy.write_row((6_001, "second"))
    assert ann.execute("SELECT id, what FROM log WHERE id = %s", (5_000,)).fetchone() is None
    assert ann.execute("SELECT id, what FROM log WHERE id = %s", (6_001,)).fetchone() == (6_001, "second")
    # What cannot be carried is refused, and the connection goes on.
    for text in ("LISTEN news", "CREATE TEMP TABLE t (a int)", "SELECT pg_advisory_lock(1)"):
        try:
            ann.execute(text)
            raise AssertionError(text)
        except errors.FeatureNotSupported as error:
            assert "weir conveyor does not carry" in str(error), error
    assert ann.execute("SELECT 1").fetchone() == (1,)

# Without autocommit; a statement is cancelled.
with connect(1) as bob:
    assert bob.execute("SELECT take(%s, %s)", (1, 3)).fetchone() == (97,)
    bob.rollback()
    bob.execute("CALL restock(%s, %s)", (1, 1))
    bob.commit()
    ended = threading.Event()

    def cancel():
        # The statement may not run yet, so a request may come too early.
        while not ended.is_set():
            bob.cancel_safe()

    cancelling = threading.Thread(target=cancel)
    cancelling.start()
    try:
        bob.execute("SELECT pg_sleep(600)")
        raise AssertionError("it was not cancelled")
    except errors.QueryCanceled:
        ended.set()
        cancelling.join()
    bob.rollback()
    assert bob.execute("SELECT take(%s, %s)", (1, 1)).fetchone() == (100,)
print("all is well")
