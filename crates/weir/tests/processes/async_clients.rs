//! tokio-postgres and sqlx, as an application has them.

use std::time::{Duration, SystemTime};

use crate::alone::Alone;
use sqlx::migrate::Migrator;
use sqlx::postgres::{PgPoolOptions, PgRow};
use sqlx::{Acquire as _, Connection as _, Row as _};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, NoTls};
use uuid::Uuid;

const TABLE: &str = "CREATE TABLE note (id bigint PRIMARY KEY, owner uuid, said text NOT NULL, price numeric(10,2), tags text[],
    at timestamptz, bits bytea, is_read boolean NOT NULL DEFAULT false, weight double precision)";

async fn client(weir: &Alone) -> Client {
    let (client, connection) = tokio_postgres::connect(&weir.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

fn state<T>(result: Result<T, tokio_postgres::Error>) -> String {
    let error = result.err().expect("it is refused");
    error.code().map_or_else(|| error.to_string(), |code| code.code().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn tokio_postgres() {
    let weir = Alone::start(3);
    let mut client = client(&weir).await;
    client.batch_execute(TABLE).await.unwrap();
    values(&client).await;
    transactions(&mut client).await;
    copies(&client).await;
    pipelines(&client).await;
    assert_eq!(state(client.batch_execute("LISTEN news").await), "0A000");
    assert_eq!(state(client.query("SELECT nothing FROM note", &[]).await), "42703");
    assert_eq!(client.query_one("SELECT 1", &[]).await.unwrap().get::<_, i32>(0), 1);
}

async fn values(client: &Client) {
    let insert = "INSERT INTO note (id, owner, said, price, tags, at, bits, weight) VALUES ($1, $2, $3, $4::text::numeric, $5, $6, $7, $8)";
    let insert = client.prepare(insert).await.unwrap();
    assert_eq!(insert.params()[..3], [Type::INT8, Type::UUID, Type::TEXT]);
    let (owner, at) =
        (Uuid::from_u128(7), SystemTime::UNIX_EPOCH + Duration::from_micros(1_700_000_000_000_001));
    let tags = vec![Some("a"), None, Some("b,c")];
    let done = client
        .execute(&insert, &[&1i64, &owner, &"eins", &"12.50", &tags, &at, &&b"\x00\xff"[..], &1.5f64])
        .await;
    assert_eq!(done.unwrap(), 1);
    let none = &None::<&str>;
    client
        .execute(
            &insert,
            &[
                &2i64,
                &None::<Uuid>,
                &"zwei",
                none,
                &None::<Vec<String>>,
                &None::<SystemTime>,
                &None::<Vec<u8>>,
                &None::<f64>,
            ],
        )
        .await
        .unwrap();
    let rows = client
        .query("SELECT owner, said, price::text, tags, at, bits, weight, is_read FROM note ORDER BY id", &[])
        .await
        .unwrap();
    assert_eq!(rows[0].get::<_, Uuid>(0), owner);
    assert_eq!((rows[0].get::<_, &str>(1), rows[0].get::<_, &str>("price")), ("eins", "12.50"));
    assert_eq!(rows[0].get::<_, Vec<Option<&str>>>(3), tags);
    assert_eq!(rows[0].get::<_, SystemTime>("at"), at);
    assert_eq!((rows[0].get::<_, &[u8]>("bits"), rows[0].get::<_, f64>("weight")), (&b"\x00\xff"[..], 1.5));
    assert!(
        rows[1].get::<_, Option<Uuid>>(0).is_none() && rows[1].get::<_, Option<Vec<String>>>(3).is_none()
    );
    let found = client
        .query("SELECT id FROM note WHERE id = ANY($1) AND tags @> $2", &[&vec![1i64, 2], &vec!["a"]])
        .await
        .unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(
        state(client.execute(&insert, &[&1i64, &owner, &"", none, &tags, &at, &&b""[..], &0f64]).await),
        "23505"
    );
}

async fn transactions(client: &mut Client) {
    let mut transaction = client.transaction().await.unwrap();
    transaction.execute("UPDATE note SET price = price + 1 WHERE id = 1", &[]).await.unwrap();
    let inner = transaction.transaction().await.unwrap();
    assert_eq!(state(inner.execute("INSERT INTO note (id, said) VALUES (2, 'twice')", &[]).await), "23505");
    inner.rollback().await.unwrap();
    let locked =
        transaction.query_one("SELECT price::text FROM note WHERE id = 1 FOR UPDATE", &[]).await.unwrap();
    assert_eq!(locked.get::<_, &str>(0), "13.50");
    let statement = transaction.prepare("SELECT id FROM note ORDER BY id").await.unwrap();
    let portal = transaction.bind(&statement, &[]).await.unwrap();
    assert_eq!(transaction.query_portal(&portal, 1).await.unwrap()[0].get::<_, i64>(0), 1);
    assert_eq!(transaction.query_portal(&portal, 5).await.unwrap()[0].get::<_, i64>(0), 2);
    transaction.commit().await.unwrap();
    let transaction = client.transaction().await.unwrap();
    transaction.execute("DELETE FROM note WHERE id = 1", &[]).await.unwrap();
    drop(transaction);
    assert_eq!(client.query_one("SELECT count(*) FROM note", &[]).await.unwrap().get::<_, i64>(0), 2);
}

async fn copies(client: &Client) {
    use futures::{SinkExt as _, TryStreamExt as _};
    let sink = client.copy_in("COPY note (id, said, price) FROM STDIN (FORMAT csv)").await.unwrap();
    let mut sink = std::pin::pin!(sink);
    for id in 10..20 {
        sink.send(bytes::Bytes::from(format!("{id},said {id},\n"))).await.unwrap();
    }
    assert_eq!(sink.finish().await.unwrap(), 10);
    let out = client
        .copy_out("COPY (SELECT id, said FROM note WHERE id >= 18 ORDER BY id) TO STDOUT")
        .await
        .unwrap();
    let parts: Vec<bytes::Bytes> = out.try_collect().await.unwrap();
    assert_eq!(parts.concat(), b"18\tsaid 18\n19\tsaid 19\n");
}

/// Statements are sent before those before them are answered.
async fn pipelines(client: &Client) {
    let read = client.prepare("SELECT said FROM note WHERE id = $1").await.unwrap();
    let one = async |id: i64| client.query_one(&read, &[&id]).await.unwrap().get::<_, String>(0);
    let answers = futures::future::join_all((10..20).map(one)).await;
    assert_eq!((answers[0].as_str(), answers[9].as_str()), ("said 10", "said 19"));
}

const MIGRATIONS: [(&str, &str); 5] = [
    ("1_tables.sql", "CREATE TABLE account (id bigint PRIMARY KEY, owner text NOT NULL);\n
                      CREATE TABLE entry (account bigint NOT NULL REFERENCES account, number bigint NOT NULL, amount numeric(10,2) NOT NULL,
                      PRIMARY KEY (account, number));"),
    ("2_rows.sql", "INSERT INTO account SELECT a, 'owner ' || a FROM generate_series(1, 20) a;
                    CREATE INDEX entry_amount ON entry (account, amount);"),
    ("3_column.sql", "ALTER TABLE account ADD COLUMN state text NOT NULL DEFAULT 'open', ADD COLUMN note text;
                      UPDATE account SET note = upper(owner) WHERE id <= 10;
                      ALTER TABLE account ADD CONSTRAINT account_state CHECK (state IN ('open', 'closed'));"),
    ("4_names.up.sql", "ALTER TABLE account RENAME COLUMN owner TO holder; ALTER TABLE entry RENAME TO booking;"),
    ("4_names.down.sql", "ALTER TABLE booking RENAME TO entry; ALTER TABLE account RENAME COLUMN holder TO owner;"),
];

#[tokio::test(flavor = "multi_thread")]
async fn sqlx_migrates_and_queries() {
    for shards in [1, 3] {
        let weir = Alone::start(shards);
        let url = format!("postgres://ann@127.0.0.1:{}/weir?sslmode=disable", weir.port());
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in MIGRATIONS {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let pool = PgPoolOptions::new().max_connections(4).connect(&url).await.unwrap();
        let migrations = Migrator::new(folder.path()).await.unwrap();
        migrations.run(&pool).await.unwrap();
        // Several at once wait for each other, and find that it is done.
        let (first, second, third) =
            tokio::join!(migrations.run(&pool), migrations.run(&pool), migrations.run(&pool));
        [first, second, third].into_iter().for_each(|done| done.unwrap());
        let done: i64 = sqlx::query_scalar("SELECT count(*) FROM _sqlx_migrations WHERE success")
            .fetch_one(&pool)
            .await
            .unwrap();
        assert_eq!(done, 4);
        queries(&pool).await;
        migrations.undo(&pool, 3).await.unwrap();
        let owner: String = sqlx::query_scalar("SELECT owner FROM account WHERE id = $1")
            .bind(7i64)
            .fetch_one(&pool)
            .await
            .unwrap();
        assert_eq!(owner, "owner 7");
        pool.close().await;
    }
}

async fn queries(pool: &sqlx::PgPool) {
    let rows = sqlx::query("SELECT id, holder, note, state FROM account WHERE id = ANY($1) ORDER BY id");
    let rows: Vec<PgRow> = rows.bind(vec![3i64, 13]).fetch_all(pool).await.unwrap();
    assert_eq!(rows[0].get::<Option<String>, _>("note").as_deref(), Some("OWNER 3"));
    assert_eq!(rows[1].get::<Option<String>, _>("note"), None);
    assert_eq!(rows[1].get::<String, _>("state"), "open");
    let mut transaction = pool.begin().await.unwrap();
    for number in 1..=3i64 {
        let insert = sqlx::query("INSERT INTO booking VALUES ($1, $2, $3::float8::numeric)")
            .bind(3i64)
            .bind(number)
            .bind(1.25 * number as f64);
        assert_eq!(insert.execute(&mut *transaction).await.unwrap().rows_affected(), 1);
    }
    let mut inner = transaction.begin().await.unwrap();
    let twice = sqlx::query("INSERT INTO booking VALUES (3, 1, 1)").execute(&mut *inner).await.unwrap_err();
    assert!(twice.as_database_error().unwrap().is_unique_violation(), "{twice}");
    inner.rollback().await.unwrap();
    transaction.commit().await.unwrap();
    let sum: f64 = sqlx::query_scalar("SELECT sum(amount)::float8 FROM booking WHERE account = 3")
        .fetch_one(pool)
        .await
        .unwrap();
    assert_eq!(sum, 7.5);
    let orphan = sqlx::query("INSERT INTO booking VALUES (99, 1, 1)").execute(pool).await.unwrap_err();
    assert!(orphan.as_database_error().unwrap().is_foreign_key_violation(), "{orphan}");
    let id: Uuid =
        sqlx::query_scalar("SELECT $1::uuid").bind(Uuid::from_u128(9)).fetch_one(pool).await.unwrap();
    assert_eq!(id, Uuid::from_u128(9));
    pool.acquire().await.unwrap().ping().await.unwrap();
}

/// Current activity of all sessions, for the report of a time-out.
async fn watched(weir: &Alone) -> String {
    let client = client(weir).await;
    let mut all = String::new();
    for query in [
        "SELECT concat_ws(' ', pid, state, wait_event_type, query) FROM pg_stat_activity",
        "SELECT concat_ws(' ', pid, transactionid, mode, granted, waitstart) FROM pg_locks",
    ] {
        for row in client.query(query, &[]).await.unwrap() {
            all.push_str(row.get(0));
            all.push('\n');
        }
    }
    all
}

/// Each is a process of its own as far as the server knows, and all begin at once on an empty database.
#[tokio::test(flavor = "multi_thread")]
async fn sqlx_migrators_race() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in MIGRATIONS {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    for shards in [1, 3, 1, 3] {
        let weir = Alone::start(shards);
        let url = format!("postgres://ann@127.0.0.1:{}/weir?sslmode=disable", weir.port());
        let one = async || {
            let pool = PgPoolOptions::new().max_connections(1).connect(&url).await.unwrap();
            Migrator::new(folder.path()).await.unwrap().run(&pool).await.unwrap();
            pool.close().await;
        };
        let all = futures::future::join_all((0..6).map(|_| one()));
        if tokio::time::timeout(Duration::from_secs(120), all).await.is_err() {
            panic!("they are stuck:\n{}", watched(&weir).await);
        }
        let done =
            client(&weir).await.query_one("SELECT count(*) FROM _sqlx_migrations WHERE success", &[]).await;
        assert_eq!(done.unwrap().get::<_, i64>(0), 4);
    }
}
