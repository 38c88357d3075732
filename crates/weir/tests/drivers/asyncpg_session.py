"""What an application does with asyncpg; the port is the first argument."""

import asyncio
import datetime
import decimal
import sys
import uuid

import asyncpg

UTC = datetime.timezone.utc


async def talk(ann):
    assert await ann.fetchval("SELECT 1") == 1
    await ann.execute("CREATE TYPE mood AS ENUM ('sad', 'ok')")
    await ann.execute(
        "CREATE TABLE t (id serial PRIMARY KEY, a int[], x text[], n numeric, ts timestamptz, d date, u uuid, j jsonb,"
        " m mood, i interval, v varchar(10)[])"
    )
    row = [
        [1, 2, None],
        ["a", "b"],
        decimal.Decimal("1.50"),
        datetime.datetime(2024, 1, 1, tzinfo=UTC),
        datetime.date(2024, 1, 2),
        uuid.UUID(int=5),
        '{"a": 1}',
        datetime.timedelta(days=1, seconds=5),
        ["x"],
    ]
    columns = "a, x, n, ts, d, u, j, i, v"
    await ann.execute(f"INSERT INTO t ({columns}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)", *row)
    assert list(await ann.fetchrow(f"SELECT {columns} FROM t")) == row
    assert len(await ann.fetch("SELECT id FROM t WHERE id = ANY($1::int[])", [1, 2, 3])) == 1
    await ann.execute("UPDATE t SET m = $1", "ok")
    assert await ann.fetchval("SELECT m FROM t") == "ok"
    await ann.executemany("INSERT INTO t (a, x) VALUES ($1, $2)", [([i], ["q"]) for i in range(3)])
    await ann.copy_records_to_table("t", records=[([9], ["z"])], columns=["a", "x"])
    assert await ann.fetchval("SELECT count(*) FROM t") == 5


async def read_catalogs(ann):
    """Columns of catalogs come in their types, parameters go in theirs."""
    names = await ann.fetchval("SELECT array_agg(attname ORDER BY attnum) FROM pg_attribute WHERE attrelid = 't'::regclass AND attnum > 0")
    assert names == ["id", "a", "x", "n", "ts", "d", "u", "j", "m", "i", "v"], names
    types = await ann.fetch("SELECT oid, typname FROM pg_type WHERE oid = ANY($1::oid[]) ORDER BY 1", [23, 25])
    assert [tuple(row) for row in types] == [(23, "int4"), (25, "text")], types
    assert await ann.fetchval("SELECT indkey FROM pg_index WHERE indrelid = 't'::regclass") is not None
    [whole], _ = await ann._introspect_types([23], 10)
    assert (whole["name"], whole["elemtype_name"]) == ("int4", "-"), whole
    statement = await ann.prepare("SELECT id, a, u FROM t WHERE id = $1")
    assert [one.name for one in statement.get_parameters()] == ["int4"]
    assert [one.type.name for one in statement.get_attributes()] == ["int4", "int4[]", "uuid"]


async def main(port):
    where = dict(host="127.0.0.1", port=port, user="ann", database="weir")
    ann = await asyncpg.connect(**where)
    await talk(ann)
    await read_catalogs(ann)
    async with ann.transaction():
        async for one in ann.cursor("SELECT id FROM t ORDER BY id"):
            assert one["id"] > 0
    await ann.close()
    # Who gives a connection back to a pool has it reset.
    async with asyncpg.create_pool(**where, min_size=2, max_size=3) as pool:
        for _ in range(3):
            async with pool.acquire() as one:
                assert await one.fetchval("SELECT count(*) FROM t") == 5


asyncio.run(main(int(sys.argv[1])))
print("all is well")
