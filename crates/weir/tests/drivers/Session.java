import java.io.StringReader;
import java.math.BigDecimal;
import java.sql.*;
import java.util.concurrent.FutureTask;
import org.postgresql.PGConnection;
import org.postgresql.util.PSQLException;

/** What an application does with JDBC; the port is the first argument. */
public class Session {
    static void same(Object seen, Object expected) {
        if (!seen.equals(expected)) throw new AssertionError(seen + ", not " + expected);
    }

    interface Act { void run() throws Exception; }

    static PSQLException refused(Act act, String state) throws Exception {
        try {
            act.run();
        } catch (PSQLException error) {
            same(error.getSQLState(), state);
            return error;
        }
        throw new AssertionError("it was not refused with " + state);
    }

    public static void main(String[] arguments) throws Exception {
        String url = "jdbc:postgresql://127.0.0.1:" + arguments[0] + "/weir?user=ann";
        // Every statement prepared at once, and in binary from the first on; then as it is by default.
        for (String more : new String[] {"&prepareThreshold=-1&binaryTransfer=true", "", "&preferQueryMode=simple"}) {
            try (Connection ann = DriverManager.getConnection(url + more)) {
                zone(ann);
                types(ann);
                transactions(ann);
                batches(ann);
            }
        }
        try (Connection ann = DriverManager.getConnection(url); Connection bob = DriverManager.getConnection(url)) {
            rows(ann);
            cancelled(ann, bob);
        }
        System.out.println("all is well");
    }

    /** The driver sends the zone of its machine, and is not told that it has another. */
    static void zone(Connection ann) throws Exception {
        same(ann.getWarnings() == null, true);
        try (Statement statement = ann.createStatement()) {
            ResultSet row = statement.executeQuery("SELECT current_setting('TimeZone'), timestamptz '2024-07-01 12:00', timestamptz '2024-07-01 12:00'::text");
            row.next();
            same(row.getString(1), java.util.TimeZone.getDefault().getID());
            same(row.getTimestamp(2), Timestamp.valueOf("2024-07-01 12:00:00"));
            same(row.getString(3).startsWith("2024-07-01 12:00:00"), true);
        }
        try (PreparedStatement query = ann.prepareStatement("SELECT ?::timestamptz::timestamp::text")) {
            query.setTimestamp(1, Timestamp.valueOf("2024-03-31 12:30:00"));
            ResultSet row = query.executeQuery();
            row.next();
            same(row.getString(1), "2024-03-31 12:30:00");
        }
    }

    static void types(Connection ann) throws Exception {
        try (PreparedStatement query = ann.prepareStatement("SELECT ?::int4, ?::int8, ?::float8, ?::numeric, ?::text, ?::bool")) {
            for (int round = 0; round < 7; round++) {
                query.setInt(1, 7);
                query.setLong(2, 1L << 40);
                query.setDouble(3, 1.5);
                query.setBigDecimal(4, new BigDecimal("-12.340"));
                query.setString(5, "it's \u00fc");
                query.setBoolean(6, true);
                ResultSet row = query.executeQuery();
                row.next();
                same(row.getInt(1), 7);
                same(row.getLong(2), 1L << 40);
                same(row.getDouble(3), 1.5);
                same(row.getBigDecimal(4), new BigDecimal("-12.340"));
                same(row.getString(5), "it's \u00fc");
                same(row.getBoolean(6), true);
            }
        }
    }

    static void transactions(Connection ann) throws Exception {
        ann.setAutoCommit(false);
        Statement statement = ann.createStatement();
        same(statement.executeUpdate("UPDATE account SET balance = 0 WHERE id = 1"), 1);
        PSQLException twice = refused(() -> statement.executeUpdate("INSERT INTO account (id, owner) VALUES (1, 'again')"), "23505");
        same(twice.getServerErrorMessage().getConstraint(), "account_pkey");
        refused(() -> statement.executeQuery("SELECT 1"), "25P02");
        ann.rollback();
        Savepoint here = ann.setSavepoint();
        statement.executeUpdate("UPDATE account SET balance = 0 WHERE id = 1");
        ann.rollback(here);
        ann.commit();
        ann.setAutoCommit(true);
        ResultSet row = statement.executeQuery("SELECT balance FROM account WHERE id = 1");
        row.next();
        same(row.getBigDecimal(1), new BigDecimal("10.00"));
        PSQLException unknown = refused(() -> statement.executeQuery("SELECT balanse FROM account"), "42703");
        same(unknown.getServerErrorMessage().getPosition(), 8);
    }

    static void batches(Connection ann) throws Exception {
        try (PreparedStatement insert = ann.prepareStatement("INSERT INTO account (id, owner) VALUES (?, ?)")) {
            for (int n = 0; n < 60; n++) {
                insert.setInt(1, 200 + n);
                insert.setString(2, "o" + n);
                insert.addBatch();
            }
            int[] counts = insert.executeBatch();
            same(counts.length, 60);
            for (int count : counts) same(count, 1);
        }
        same(ann.createStatement().executeUpdate("DELETE FROM account WHERE id >= 200"), 60);
    }

    static void rows(Connection ann) throws Exception {
        StringBuilder lines = new StringBuilder();
        for (int n = 1000; n < 4000; n++) lines.append(n).append("\tcopied\t2.50\n");
        long copied = ann.unwrap(PGConnection.class).getCopyAPI()
            .copyIn("COPY account (id, owner, balance) FROM STDIN", new StringReader(lines.toString()));
        same(copied, 3000L);
        java.io.StringWriter out = new java.io.StringWriter();
        ann.unwrap(PGConnection.class).getCopyAPI()
            .copyOut("COPY (SELECT id FROM account WHERE id >= 3998 ORDER BY id) TO STDOUT", out);
        same(out.toString(), "3998\n3999\n");
        ann.setAutoCommit(false);
        try (PreparedStatement query = ann.prepareStatement("SELECT id FROM account WHERE id >= ? ORDER BY id")) {
            query.setFetchSize(700);
            query.setInt(1, 1000);
            ResultSet found = query.executeQuery();
            int seen = 0;
            while (found.next()) same(found.getInt(1), 1000 + seen++);
            same(seen, 3000);
        }
        ann.commit();
        ann.setAutoCommit(true);
    }

    static void cancelled(Connection ann, Connection bob) throws Exception {
        bob.setAutoCommit(false);
        bob.createStatement().executeUpdate("UPDATE account SET balance = 5 WHERE id = 2");
        Statement waits = ann.createStatement();
        // A request that comes before the statement is forgotten, and the driver sends one a statement: it has to wait first.
        FutureTask<Void> cancels = new FutureTask<>(() -> {
            untilLocked(bob);
            waits.cancel();
            return null;
        });
        new Thread(cancels).start();
        refused(() -> waits.executeUpdate("UPDATE account SET balance = 6 WHERE id = 2"), "57014");
        cancels.get();
        bob.rollback();
    }

    /** Until the server says that a session waits for a lock. */
    static void untilLocked(Connection watch) throws SQLException {
        try (Statement statement = watch.createStatement()) {
            int waiting = 0;
            while (waiting == 0) {
                ResultSet row = statement.executeQuery("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'");
                row.next();
                waiting = row.getInt(1);
            }
        }
    }
}
