import java.io.StringReader;
import java.sql.*;
import java.util.concurrent.FutureTask;
import org.postgresql.PGConnection;
import org.postgresql.util.PSQLException;

/** What an application does with JDBC through agents of Conveyor, whose ports are the arguments. */
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

    static Connection connect(String port, String more) throws SQLException {
        return DriverManager.getConnection("jdbc:postgresql://127.0.0.1:" + port + "/shop?user=me" + more);
    }

    public static void main(String[] arguments) throws Exception {
        int key = 4;
        // Every statement prepared at once, and in binary from the first on; then as it is by default.
        for (String more : new String[] {"&prepareThreshold=-1&binaryTransfer=true", "", "&preferQueryMode=simple"}) {
            try (Connection ann = connect(arguments[0], more)) {
                calls(ann, key);
                transactions(ann, key);
                batches(ann, key + 1);
            }
            key += 3;
        }
        try (Connection ann = connect(arguments[1], "")) {
            copies(ann);
            catalogs(ann);
            cancelled(ann);
            refused(() -> ann.createStatement().execute("LISTEN news"), "0A000");
            refused(() -> ann.createStatement().execute("CREATE TEMP TABLE t (a int)"), "0A000");
        }
        System.out.println("all is well");
    }

    /** A statement that is prepared more than five times is named. */
    static void calls(Connection ann, int key) throws Exception {
        try (PreparedStatement add = ann.prepareStatement("SELECT add_item(?, ?, ?)")) {
            for (int turn = 1; turn <= 8; turn++) {
                add.setInt(1, key);
                add.setInt(2, 1);
                add.setInt(3, 2);
                ResultSet row = add.executeQuery();
                row.next();
                same(row.getInt(1), 2 * turn);
            }
        }
    }

    static void transactions(Connection ann, int key) throws Exception {
        ann.setAutoCommit(false);
        ann.setTransactionIsolation(Connection.TRANSACTION_SERIALIZABLE);
        try (PreparedStatement cart = ann.prepareStatement("SELECT item, n FROM cart WHERE key = ? ORDER BY item");
             PreparedStatement take = ann.prepareStatement("UPDATE stock SET n = n - ? WHERE id = ?")) {
            cart.setInt(1, key);
            ResultSet row = cart.executeQuery();
            row.next();
            same(row.getInt(2), 16);
            take.setInt(1, 1);
            take.setInt(2, 1);
            same(take.executeUpdate(), 1);
            ann.commit();
            Savepoint before = null;
            try (PreparedStatement insert = ann.prepareStatement("INSERT INTO cart VALUES (?, ?, ?)")) {
                insert.setInt(1, key);
                insert.setInt(2, 9);
                insert.setInt(3, 1);
                same(insert.executeUpdate(), 1);
                before = ann.setSavepoint();
                refused(insert::executeUpdate, "23505");
                ann.rollback(before);
            }
            ann.rollback();
        }
        ann.setAutoCommit(true);
    }

    static void batches(Connection ann, int key) throws Exception {
        try (PreparedStatement insert = ann.prepareStatement("INSERT INTO cart VALUES (?, ?, ?)")) {
            for (int item = 0; item < 50; item++) {
                insert.setInt(1, key);
                insert.setInt(2, item);
                insert.setInt(3, 1);
                insert.addBatch();
            }
            same(insert.executeBatch().length, 50);
        }
        // Rows by a cursor, ten at a time.
        ann.setAutoCommit(false);
        try (PreparedStatement cart = ann.prepareStatement("SELECT item, n FROM cart WHERE key = ? ORDER BY item")) {
            cart.setFetchSize(10);
            cart.setInt(1, key);
            ResultSet rows = cart.executeQuery();
            int seen = 0;
            while (rows.next()) seen++;
            same(seen, 50);
        }
        ann.commit();
        ann.setAutoCommit(true);
    }

    static void copies(Connection ann) throws Exception {
        var copy = ann.unwrap(PGConnection.class).getCopyAPI();
        long copied = copy.copyIn("COPY log (id, what) FROM STDIN", new StringReader("9000\tone\n9001\ttwo\n"));
        same(copied, 2L);
    }

    static void catalogs(Connection ann) throws Exception {
        ResultSet tables = ann.getMetaData().getTables(null, "public", "%", new String[] {"TABLE"});
        int seen = 0;
        while (tables.next()) seen++;
        same(seen, 3);
        ResultSet keys = ann.getMetaData().getPrimaryKeys(null, "public", "cart");
        keys.next();
        same(keys.getString("COLUMN_NAME").length() > 0, true);
    }

    static void cancelled(Connection ann) throws Exception {
        try (Statement sleeps = ann.createStatement()) {
            sleeps.setQueryTimeout(1);
            refused(() -> sleeps.execute("SELECT pg_sleep(600)"), "57014");
        }
    }
}
