// TPC-C over JDBC, as its clients in Java do it: tables first, keys and foreign keys once they are filled, prepared statements, batches,
// SELECT … FOR UPDATE and then UPDATE, at READ COMMITTED. It loads, runs the five transactions, and asks for the twelve conditions.
//
//   Orders PORT SCALE TERMINALS TRANSACTIONS    a scale of 1 is a warehouse of full size, of 100 one with a hundredth of its rows

import java.math.BigDecimal;
import java.sql.*;
import java.util.*;
import java.util.concurrent.atomic.AtomicInteger;

public class Orders {
    static final int DISTRICTS = 10;
    static final String[] NAMES = {"BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"};
    static int items = 100_000, customers = 3_000;
    static String url;

    public static void main(String[] args) throws Exception {
        url = "jdbc:postgresql://127.0.0.1:" + args[0] + "/weir?user=ann&reWriteBatchedInserts=true";
        items /= Integer.parseInt(args[1]);
        customers /= Integer.parseInt(args[1]);
        try (Connection connection = DriverManager.getConnection(url)) {
            long started = System.nanoTime();
            define(connection, TABLES);
            load(connection);
            define(connection, KEYS);
            say("loaded", started);
            check(connection, "as loaded");
        }
        run(Integer.parseInt(args[2]), Integer.parseInt(args[3]));
        try (Connection connection = DriverManager.getConnection(url)) {
            check(connection, "after the run");
        }
        System.out.println("all is well");
    }

    static void say(String what, long started) {
        System.out.println(what + " in " + (System.nanoTime() - started) / 1_000_000 + " ms");
    }

    static void define(Connection connection, String texts) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            for (String text : texts.split(";")) {
                if (!text.isBlank()) {
                    statement.execute(text);
                }
            }
        }
    }

    // The population.

    static int between(Random random, int low, int high) {
        return low + random.nextInt(high - low + 1);
    }

    static int nonUniform(Random random, int a, int low, int high) {
        return ((random.nextInt(a + 1) | between(random, low, high)) + a / 2) % (high - low + 1) + low;
    }

    static String letters(Random random, int low, int high) {
        StringBuilder text = new StringBuilder();
        for (int left = between(random, low, high); left > 0; left--) {
            text.append((char) ('a' + random.nextInt(26)));
        }
        return text.toString();
    }

    static String lastName(int number) {
        return NAMES[number / 100] + NAMES[number / 10 % 10] + NAMES[number % 10];
    }

    static String anyLastName(Random random) {
        return lastName(nonUniform(random, 255, 0, Math.min(customers, 1000) - 1));
    }

    // A table is filled by batches of one prepared INSERT, in transactions of some thousand rows.
    static class Filler implements AutoCloseable {
        final Connection connection;
        final PreparedStatement insert;
        int rows;

        Filler(Connection connection, String head, int columns) throws SQLException {
            this.connection = connection;
            insert = connection.prepareStatement("INSERT INTO " + head + " VALUES (?" + ", ?".repeat(columns - 1) + ")");
        }

        void row(Object... values) throws SQLException {
            for (int at = 0; at < values.length; at++) {
                insert.setObject(at + 1, values[at]);
            }
            insert.addBatch();
            if (++rows % 1000 == 0) {
                insert.executeBatch();
                connection.commit();
            }
        }

        public void close() throws SQLException {
            insert.executeBatch();
            connection.commit();
            insert.close();
        }
    }

    static void load(Connection connection) throws SQLException {
        connection.setAutoCommit(false);
        Random random = new Random(1);
        Timestamp now = new Timestamp(System.currentTimeMillis());
        BigDecimal tax = new BigDecimal("0.1250");
        try (Filler warehouse = new Filler(connection, "bmsql_warehouse (w_id, w_ytd, w_tax, w_name, w_street_1, w_street_2, w_city, w_state, w_zip)", 9)) {
            warehouse.row(1, BigDecimal.valueOf(DISTRICTS * customers * 10L), tax, letters(random, 6, 10), letters(random, 10, 20),
                letters(random, 10, 20), letters(random, 10, 20), letters(random, 2, 2), "123411111");
        }
        try (Filler item = new Filler(connection, "bmsql_item (i_id, i_name, i_price, i_data, i_im_id)", 5);
             Filler stock = new Filler(connection, "bmsql_stock (s_w_id, s_i_id, s_quantity, s_ytd, s_order_cnt, s_remote_cnt, s_data, s_dist_01, "
                 + "s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06, s_dist_07, s_dist_08, s_dist_09, s_dist_10)", 17)) {
            for (int id = 1; id <= items; id++) {
                item.row(id, letters(random, 14, 24), BigDecimal.valueOf(between(random, 100, 9999), 2), letters(random, 26, 50), between(random, 1, 10000));
                Object[] row = new Object[17];
                Object[] first = {1, id, between(random, 10, 100), BigDecimal.ZERO, 0, 0, letters(random, 26, 50)};
                System.arraycopy(first, 0, row, 0, 7);
                for (int at = 7; at < 17; at++) {
                    row[at] = letters(random, 24, 24);
                }
                stock.row(row);
            }
        }
        for (int d = 1; d <= DISTRICTS; d++) {
            loadDistrict(connection, random, d, now, tax);
        }
        connection.setAutoCommit(true);
    }

    static void loadDistrict(Connection connection, Random random, int d, Timestamp now, BigDecimal tax) throws SQLException {
        try (Filler district = new Filler(connection, "bmsql_district (d_w_id, d_id, d_ytd, d_tax, d_next_o_id, d_name, d_street_1, d_street_2, d_city, d_state, d_zip)", 11)) {
            district.row(1, d, BigDecimal.valueOf(customers * 10L), tax, customers + 1, letters(random, 6, 10), letters(random, 10, 20),
                letters(random, 10, 20), letters(random, 10, 20), letters(random, 2, 2), "123411111");
        }
        List<Integer> buyers = new ArrayList<>();
        try (Filler customer = new Filler(connection, "bmsql_customer (c_w_id, c_d_id, c_id, c_discount, c_credit, c_last, c_first, c_credit_lim, c_balance, "
                 + "c_ytd_payment, c_payment_cnt, c_delivery_cnt, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, c_since, c_middle, c_data)", 21);
             Filler history = new Filler(connection, "bmsql_history (hist_id, h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data)", 9)) {
            for (int c = 1; c <= customers; c++) {
                buyers.add(c);
                String name = c <= 1000 ? lastName(c - 1) : anyLastName(random);
                customer.row(1, d, c, BigDecimal.valueOf(random.nextInt(5001), 4), random.nextInt(10) == 0 ? "BC" : "GC", name, letters(random, 8, 16),
                    new BigDecimal("50000.00"), new BigDecimal("-10.00"), BigDecimal.TEN, 1, 0, letters(random, 10, 20), letters(random, 10, 20),
                    letters(random, 10, 20), letters(random, 2, 2), "123411111", "1234567890123456", now, "OE", letters(random, 300, 500));
                history.row((d - 1) * customers + c, c, d, 1, d, 1, now, BigDecimal.TEN, letters(random, 12, 24));
            }
        }
        Collections.shuffle(buyers, random);
        try (Filler order = new Filler(connection, "bmsql_oorder (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_carrier_id, o_ol_cnt, o_all_local)", 8);
             Filler line = new Filler(connection, "bmsql_order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_delivery_d, "
                 + "ol_quantity, ol_amount, ol_dist_info)", 10);
             Filler open = new Filler(connection, "bmsql_new_order (no_o_id, no_d_id, no_w_id)", 3)) {
            for (int o = 1; o <= customers; o++) {
                boolean delivered = o <= customers * 7 / 10;
                int count = between(random, 5, 15);
                order.row(o, d, 1, buyers.get(o - 1), now, delivered ? between(random, 1, 10) : null, count, 1);
                for (int number = 1; number <= count; number++) {
                    line.row(o, d, 1, number, between(random, 1, items), 1, delivered ? now : null, 5,
                        delivered ? BigDecimal.ZERO : BigDecimal.valueOf(between(random, 1, 999999), 2), letters(random, 24, 24));
                }
                if (!delivered) {
                    open.row(o, d, 1);
                }
            }
        }
    }

    static void run(int terminals, int transactions) throws Exception {
        long started = System.nanoTime();
        AtomicInteger rolledBack = new AtomicInteger();
        List<String> failed = Collections.synchronizedList(new ArrayList<>());
        List<Thread> threads = new ArrayList<>();
        for (int number = 0; number < terminals; number++) {
            Random random = new Random(number + 2);
            Thread thread = new Thread(() -> {
                try (Connection connection = DriverManager.getConnection(url)) {
                    connection.setTransactionIsolation(Connection.TRANSACTION_READ_COMMITTED);
                    connection.setAutoCommit(false);
                    Terminal terminal = new Terminal(connection, random);
                    for (int at = 0; at < transactions; at++) {
                        try {
                            if (terminal.transaction()) {
                                connection.commit();
                            } else {
                                connection.rollback();
                                rolledBack.incrementAndGet();
                            }
                        } catch (SQLException error) {
                            SQLException cause = error.getNextException() == null ? error : error.getNextException();
                            failed.add(terminal.doing + ": " + cause.getSQLState() + " " + cause.getMessage());
                            connection.rollback();
                        }
                    }
                } catch (SQLException error) {
                    failed.add(error.toString());
                }
            });
            threads.add(thread);
            thread.start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        System.out.printf("%d transactions, %d rolled back as they should, %d failed%n", terminals * transactions - rolledBack.get() - failed.size(),
            rolledBack.get(), failed.size());
        failed.stream().limit(5).forEach(System.out::println);
        if (!failed.isEmpty()) {
            System.exit(1);
        }
        say("run", started);
    }

    // A connection, and what it has prepared.
    static class Terminal {
        final Connection connection;
        final Random random;
        final Map<String, PreparedStatement> prepared = new HashMap<>();
        String doing = "";

        Terminal(Connection connection, Random random) {
            this.connection = connection;
            this.random = random;
        }

        PreparedStatement statement(String text, Object... values) throws SQLException {
            doing = text;
            PreparedStatement statement = prepared.get(text);
            if (statement == null) {
                statement = connection.prepareStatement(text);
                prepared.put(text, statement);
            }
            for (int at = 0; at < values.length; at++) {
                if (values[at] instanceof Integer number) {
                    statement.setInt(at + 1, number);
                } else if (values[at] instanceof String string) {
                    statement.setString(at + 1, string);
                } else if (values[at] instanceof Double number) {
                    statement.setDouble(at + 1, number);
                } else {
                    statement.setObject(at + 1, values[at]);
                }
            }
            return statement;
        }

        // The row that there is; null where there is none.
        Object[] row(String text, Object... values) throws SQLException {
            try (ResultSet rows = statement(text, values).executeQuery()) {
                if (!rows.next()) {
                    return null;
                }
                Object[] row = new Object[rows.getMetaData().getColumnCount()];
                for (int at = 0; at < row.length; at++) {
                    row[at] = rows.getObject(at + 1);
                }
                return row;
            }
        }

        List<Integer> numbers(String text, Object... values) throws SQLException {
            List<Integer> numbers = new ArrayList<>();
            try (ResultSet rows = statement(text, values).executeQuery()) {
                while (rows.next()) {
                    numbers.add(rows.getInt(1));
                }
            }
            return numbers;
        }

        int write(String text, Object... values) throws SQLException {
            return statement(text, values).executeUpdate();
        }

        // False if it is to be rolled back.
        boolean transaction() throws SQLException {
            int which = random.nextInt(100);
            if (which < 45) {
                return newOrder();
            } else if (which < 88) {
                payment();
            } else if (which < 92) {
                orderStatus();
            } else if (which < 96) {
                delivery();
            } else {
                stockLevel();
            }
            return true;
        }

        boolean newOrder() throws SQLException {
            int w = 1, d = between(random, 1, DISTRICTS), c = nonUniform(random, 1023, 1, customers), count = between(random, 5, 15);
            TreeSet<Integer> chosen = new TreeSet<>();
            while (chosen.size() < count) {
                chosen.add(nonUniform(random, 8191, 1, items));
            }
            if (random.nextInt(100) == 0) {
                chosen.add(999_999);
            }
            Object[] district = row("SELECT d_tax, d_next_o_id     FROM bmsql_district     WHERE d_w_id = ? AND d_id = ?     FOR UPDATE", w, d);
            int o = (Integer) district[1];
            Object[] customer = row("SELECT c_discount, c_last, c_credit, w_tax     FROM bmsql_customer     JOIN bmsql_warehouse ON (w_id = c_w_id) "
                + "    WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?", w, d, c);
            write("UPDATE bmsql_district     SET d_next_o_id = d_next_o_id + 1     WHERE d_w_id = ? AND d_id = ?", w, d);
            write("INSERT INTO bmsql_oorder (    o_id, o_d_id, o_w_id, o_c_id, o_entry_d,     o_ol_cnt, o_all_local) VALUES (?, ?, ?, ?, ?, ?, ?)",
                o, d, w, c, new Timestamp(System.currentTimeMillis()), chosen.size(), 1);
            write("INSERT INTO bmsql_new_order (    no_o_id, no_d_id, no_w_id) VALUES (?, ?, ?)", o, d, w);
            PreparedStatement stocks = null, lines = null;
            int number = 0;
            for (int id : chosen) {
                Object[] item = row("SELECT i_price, i_name, i_data     FROM bmsql_item     WHERE i_id = ?", id);
                if (item == null) {
                    // What has been batched is not sent.
                    if (stocks != null) {
                        stocks.clearBatch();
                        lines.clearBatch();
                    }
                    return false;
                }
                Object[] stock = row("SELECT s_quantity, s_data,        s_dist_01, s_dist_02, s_dist_03, s_dist_04,        s_dist_05, s_dist_06, s_dist_07, "
                    + "s_dist_08,        s_dist_09, s_dist_10     FROM bmsql_stock     WHERE s_w_id = ? AND s_i_id = ?     FOR UPDATE", w, id);
                int quantity = between(random, 1, 10), left = (Integer) stock[0] - quantity;
                stocks = statement("UPDATE bmsql_stock     SET s_quantity = ?, s_ytd = s_ytd + ?,         s_order_cnt = s_order_cnt + 1, "
                    + "        s_remote_cnt = s_remote_cnt + ?     WHERE s_w_id = ? AND s_i_id = ?", left < 10 ? left + 91 : left, quantity, 0, w, id);
                stocks.addBatch();
                double amount = quantity * ((BigDecimal) item[0]).doubleValue() * (1 + ((BigDecimal) district[0]).doubleValue())
                    * (1 - ((BigDecimal) customer[0]).doubleValue());
                lines = statement("INSERT INTO bmsql_order_line (    ol_o_id, ol_d_id, ol_w_id, ol_number,     ol_i_id, ol_supply_w_id, ol_quantity, "
                    + "    ol_amount, ol_dist_info) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", o, d, w, ++number, id, w, quantity,
                    Math.floor(amount * 100) / 100, stock[1 + d]);
                lines.addBatch();
            }
            doing = "the batch of UPDATEs";
            stocks.executeBatch();
            doing = "the batch of INSERTs";
            lines.executeBatch();
            return true;
        }

        int customer(int w, int d) throws SQLException {
            if (random.nextInt(100) < 40) {
                return nonUniform(random, 1023, 1, customers);
            }
            List<Integer> named = numbers("SELECT c_id     FROM bmsql_customer     WHERE c_w_id = ? AND c_d_id = ? AND c_last = ?     ORDER BY c_first",
                w, d, anyLastName(random));
            return named.get((named.size() + 1) / 2 - 1);
        }

        void payment() throws SQLException {
            int w = 1, d = between(random, 1, DISTRICTS), c = customer(w, d);
            BigDecimal amount = BigDecimal.valueOf(between(random, 100, 500000), 2);
            write("UPDATE bmsql_warehouse     SET w_ytd = w_ytd + ?     WHERE w_id = ?", amount, w);
            row("SELECT w_name, w_street_1, w_street_2, w_city,        w_state, w_zip     FROM bmsql_warehouse     WHERE w_id = ? ", w);
            write("UPDATE bmsql_district     SET d_ytd = d_ytd + ?     WHERE d_w_id = ? AND d_id = ?", amount, w, d);
            row("SELECT d_name, d_street_1, d_street_2, d_city,        d_state, d_zip     FROM bmsql_district     WHERE d_w_id = ? AND d_id = ?", w, d);
            Object[] customer = row("SELECT c_first, c_middle, c_last, c_street_1, c_street_2,        c_city, c_state, c_zip, c_phone, c_since, c_credit, "
                + "       c_credit_lim, c_discount, c_balance     FROM bmsql_customer     WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?     FOR UPDATE", w, d, c);
            if (customer[10].equals("GC")) {
                write("UPDATE bmsql_customer     SET c_balance = c_balance - ?,         c_ytd_payment = c_ytd_payment + ?,         c_payment_cnt = "
                    + "c_payment_cnt + 1     WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?", amount, amount, w, d, c);
            } else {
                Object[] data = row("SELECT c_data     FROM bmsql_customer     WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?", w, d, c);
                String text = "C_ID=" + c + " C_D_ID=" + d + " C_W_ID=" + w + " H_AMOUNT=" + amount + "   " + data[0];
                write("UPDATE bmsql_customer     SET c_balance = c_balance - ?,         c_ytd_payment = c_ytd_payment + ?,         c_payment_cnt = "
                    + "c_payment_cnt + 1,         c_data = ?     WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?", amount, amount,
                    text.substring(0, Math.min(500, text.length())), w, d, c);
            }
            write("INSERT INTO bmsql_history (    h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id,     h_date, h_amount, h_data) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                c, d, w, d, w, new Timestamp(System.currentTimeMillis()), amount, "warehouse    district");
        }

        void orderStatus() throws SQLException {
            int w = 1, d = between(random, 1, DISTRICTS), c = customer(w, d);
            row("SELECT c_first, c_middle, c_last, c_balance     FROM bmsql_customer     WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?", w, d, c);
            Object[] order = row("SELECT o_id, o_entry_d, o_carrier_id     FROM bmsql_oorder     WHERE o_w_id = ? AND o_d_id = ? AND o_c_id = ?       "
                + "AND o_id = (          SELECT max(o_id)               FROM bmsql_oorder               WHERE o_w_id = ? AND o_d_id = ? AND o_c_id = ?          )",
                w, d, c, w, d, c);
            numbers("SELECT ol_i_id, ol_supply_w_id, ol_quantity,        ol_amount, ol_delivery_d     FROM bmsql_order_line     WHERE ol_w_id = ? AND "
                + "ol_d_id = ? AND ol_o_id = ?     ORDER BY ol_w_id, ol_d_id, ol_o_id, ol_number", w, d, order[0]);
        }

        // Who finds that an order has been delivered by somebody else takes the next.
        void delivery() throws SQLException {
            int w = 1, carrier = between(random, 1, 10);
            for (int d = 1; d <= DISTRICTS; d++) {
                int o = 0;
                while (true) {
                    Object[] oldest = row("SELECT no_o_id     FROM bmsql_new_order     WHERE no_w_id = ? AND no_d_id = ?     ORDER BY no_o_id ASC", w, d);
                    if (oldest == null) {
                        break;
                    }
                    if (write("DELETE FROM bmsql_new_order     WHERE no_w_id = ? AND no_d_id = ? AND no_o_id = ?", w, d, oldest[0]) == 1) {
                        o = (Integer) oldest[0];
                        break;
                    }
                }
                if (o == 0) {
                    continue;
                }
                write("UPDATE bmsql_oorder     SET o_carrier_id = ?     WHERE o_w_id = ? AND o_d_id = ? AND o_id = ?", carrier, w, d, o);
                Object[] order = row("SELECT o_c_id     FROM bmsql_oorder     WHERE o_w_id = ? AND o_d_id = ? AND o_id = ?", w, d, o);
                write("UPDATE bmsql_order_line     SET ol_delivery_d = ?     WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?",
                    new Timestamp(System.currentTimeMillis()), w, d, o);
                Object[] sum = row("SELECT sum(ol_amount) AS sum_ol_amount     FROM bmsql_order_line     WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?",
                    w, d, o);
                write("UPDATE bmsql_customer     SET c_balance = c_balance + ?,         c_delivery_cnt = c_delivery_cnt + 1     WHERE c_w_id = ? AND c_d_id = ? "
                    + "AND c_id = ?", sum[0], w, d, order[0]);
            }
        }

        void stockLevel() throws SQLException {
            int w = 1, d = between(random, 1, DISTRICTS);
            row("SELECT count(*) AS low_stock FROM (    SELECT s_w_id, s_i_id, s_quantity         FROM bmsql_stock         WHERE s_w_id = ? AND s_quantity < ? "
                + "AND s_i_id IN (            SELECT ol_i_id                 FROM bmsql_district                 JOIN bmsql_order_line ON ol_w_id = d_w_id "
                + "                AND ol_d_id = d_id                  AND ol_o_id >= d_next_o_id - 20                  AND ol_o_id < d_next_o_id "
                + "                WHERE d_w_id = ? AND d_id = ?         )     ) AS L", w, between(random, 10, 20), w, d);
        }
    }

    static void check(Connection connection, String when) throws SQLException {
        boolean wrong = false;
        for (int at = 0; at < CONDITIONS.length; at++) {
            long started = System.nanoTime();
            try (Statement statement = connection.createStatement();
                 ResultSet rows = statement.executeQuery("SELECT CASE count(*) WHEN 0 THEN 'OK   ' ELSE 'ERROR' END AS \"check\", count(*) AS \"count\" FROM ("
                     + CONDITIONS[at] + ") AS X")) {
                rows.next();
                if (!rows.getString(1).equals("OK   ")) {
                    System.out.println("condition " + (at + 1) + " does not hold " + when + ": " + rows.getInt(2));
                    wrong = true;
                }
            }
            say("condition " + (at + 1) + " " + when, started);
        }
        if (wrong) {
            System.exit(1);
        }
    }

    // Clause 3.3.2: what violates each.
    static final String[] CONDITIONS = {
        "SELECT w_id, w_ytd, sum(d_ytd) AS sum_d_ytd FROM bmsql_warehouse LEFT JOIN bmsql_district ON d_w_id = w_id GROUP BY w_id, w_ytd HAVING w_ytd <> sum(d_ytd)",
        "SELECT d_id FROM bmsql_district WHERE d_next_o_id - 1 <> (SELECT max(o_id) FROM bmsql_oorder WHERE o_w_id = d_w_id AND o_d_id = d_id) "
            + "OR d_next_o_id - 1 <> (SELECT max(no_o_id) FROM bmsql_new_order WHERE no_w_id = d_w_id AND no_d_id = d_id)",
        "SELECT no_d_id FROM bmsql_new_order GROUP BY no_w_id, no_d_id HAVING max(no_o_id) - min(no_o_id) + 1 <> count(*)",
        "SELECT d_id FROM bmsql_district WHERE (SELECT sum(o_ol_cnt) FROM bmsql_oorder WHERE o_w_id = d_w_id AND o_d_id = d_id) "
            + "<> (SELECT count(*) FROM bmsql_order_line WHERE ol_w_id = d_w_id AND ol_d_id = d_id)",
        "SELECT o_id FROM bmsql_oorder WHERE (o_carrier_id IS NULL AND NOT EXISTS (SELECT 1 FROM bmsql_new_order WHERE no_w_id = o_w_id AND no_d_id = o_d_id "
            + "AND no_o_id = o_id)) OR (o_carrier_id IS NOT NULL AND EXISTS (SELECT 1 FROM bmsql_new_order WHERE no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id))",
        "SELECT o_w_id, o_d_id, o_id, o_ol_cnt, count(*) AS \"actual\" FROM bmsql_oorder LEFT JOIN bmsql_order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id "
            + "AND ol_o_id = o_id GROUP BY o_w_id, o_d_id, o_id, o_ol_cnt HAVING o_ol_cnt <> count(*)",
        "SELECT ol_o_id FROM bmsql_order_line WHERE (ol_delivery_d IS NULL) <> (SELECT o_carrier_id IS NULL FROM bmsql_oorder WHERE o_w_id = ol_w_id AND o_d_id = ol_d_id "
            + "AND o_id = ol_o_id)",
        "SELECT w_id FROM bmsql_warehouse WHERE w_ytd <> (SELECT sum(h_amount) FROM bmsql_history WHERE h_w_id = w_id)",
        "SELECT d_id FROM bmsql_district WHERE d_ytd <> (SELECT sum(h_amount) FROM bmsql_history WHERE h_w_id = d_w_id AND h_d_id = d_id)",
        "SELECT c_w_id, c_d_id, c_id, coalesce(sum_ol_amount, 0.0) AS sum_ol_amount, coalesce(sum_h_amount, 0.0) AS sum_h_amount FROM bmsql_customer "
            + "LEFT JOIN (SELECT o_w_id, o_d_id, o_c_id, sum(ol_amount) as sum_ol_amount FROM bmsql_oorder JOIN bmsql_order_line ON ol_w_id = o_w_id "
            + "AND ol_d_id = o_d_id AND ol_o_id = o_id WHERE o_carrier_id IS NOT NULL AND ol_delivery_d IS NOT NULL GROUP BY o_w_id, o_d_id, o_c_id) AS OL "
            + "ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id LEFT JOIN (SELECT h_c_w_id, h_c_d_id, h_c_id, sum(h_amount) AS sum_h_amount "
            + "FROM bmsql_history GROUP BY h_c_w_id, h_c_d_id, h_c_id) AS H ON h_c_w_id = c_w_id AND h_c_d_id = c_d_id AND h_c_id = c_id "
            + "WHERE c_balance <> coalesce(sum_ol_amount, 0.0) - coalesce(sum_h_amount, 0.0)",
        "SELECT d_id FROM bmsql_district WHERE (SELECT count(*) FROM bmsql_oorder WHERE o_w_id = d_w_id AND o_d_id = d_id) - (SELECT count(*) FROM bmsql_new_order "
            + "WHERE no_w_id = d_w_id AND no_d_id = d_id) <> (SELECT sum(c_delivery_cnt) + count(*) * 7 / 10 FROM bmsql_customer WHERE c_w_id = d_w_id AND c_d_id = d_id)",
        "SELECT c_id FROM bmsql_customer WHERE c_balance + c_ytd_payment <> coalesce((SELECT sum(ol_amount) FROM bmsql_oorder JOIN bmsql_order_line ON ol_w_id = o_w_id "
            + "AND ol_d_id = o_d_id AND ol_o_id = o_id WHERE o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id AND ol_delivery_d IS NOT NULL), 0)",
    };

    static final String TABLES = """
        create table bmsql_config (cfg_name varchar(30) primary key, cfg_value varchar(50));
        create table bmsql_warehouse (w_id integer not null, w_ytd decimal(12,2), w_tax decimal(4,4), w_name varchar(10), w_street_1 varchar(20),
            w_street_2 varchar(20), w_city varchar(20), w_state char(2), w_zip char(9));
        create table bmsql_district (d_w_id integer not null, d_id integer not null, d_ytd decimal(12,2), d_tax decimal(4,4), d_next_o_id integer,
            d_name varchar(10), d_street_1 varchar(20), d_street_2 varchar(20), d_city varchar(20), d_state char(2), d_zip char(9));
        create table bmsql_customer (c_w_id integer not null, c_d_id integer not null, c_id integer not null, c_discount decimal(4,4), c_credit char(2),
            c_last varchar(16), c_first varchar(16), c_credit_lim decimal(12,2), c_balance decimal(12,2), c_ytd_payment decimal(12,2),
            c_payment_cnt integer, c_delivery_cnt integer, c_street_1 varchar(20), c_street_2 varchar(20), c_city varchar(20), c_state char(2),
            c_zip char(9), c_phone char(16), c_since timestamp, c_middle char(2), c_data varchar(500));
        create sequence bmsql_hist_id_seq;
        create table bmsql_history (hist_id integer, h_c_id integer, h_c_d_id integer, h_c_w_id integer, h_d_id integer, h_w_id integer,
            h_date timestamp, h_amount decimal(6,2), h_data varchar(24));
        create table bmsql_new_order (no_w_id integer not null, no_d_id integer not null, no_o_id integer not null);
        create table bmsql_oorder (o_w_id integer not null, o_d_id integer not null, o_id integer not null, o_c_id integer, o_carrier_id integer,
            o_ol_cnt integer, o_all_local integer, o_entry_d timestamp);
        create table bmsql_order_line (ol_w_id integer not null, ol_d_id integer not null, ol_o_id integer not null, ol_number integer not null,
            ol_i_id integer not null, ol_delivery_d timestamp, ol_amount decimal(6,2), ol_supply_w_id integer, ol_quantity integer, ol_dist_info char(24));
        create table bmsql_item (i_id integer not null, i_name varchar(24), i_price decimal(5,2), i_data varchar(50), i_im_id integer);
        create table bmsql_stock (s_w_id integer not null, s_i_id integer not null, s_quantity integer, s_ytd decimal(8,2), s_order_cnt integer,
            s_remote_cnt integer, s_data varchar(50), s_dist_01 char(24), s_dist_02 char(24), s_dist_03 char(24), s_dist_04 char(24),
            s_dist_05 char(24), s_dist_06 char(24), s_dist_07 char(24), s_dist_08 char(24), s_dist_09 char(24), s_dist_10 char(24))
        """;

    static final String KEYS = """
        alter table bmsql_warehouse add constraint bmsql_warehouse_pkey primary key (w_id);
        alter table bmsql_district add constraint bmsql_district_pkey primary key (d_w_id, d_id);
        alter table bmsql_customer add constraint bmsql_customer_pkey primary key (c_w_id, c_d_id, c_id);
        create index bmsql_customer_idx1 on bmsql_customer (c_w_id, c_d_id, c_last, c_first);
        alter table bmsql_oorder add constraint bmsql_oorder_pkey primary key (o_w_id, o_d_id, o_id);
        create unique index bmsql_oorder_idx1 on bmsql_oorder (o_w_id, o_d_id, o_carrier_id, o_id);
        create index bmsql_oorder_idx2 on bmsql_oorder (o_w_id, o_d_id, o_c_id, o_id);
        alter table bmsql_new_order add constraint bmsql_new_order_pkey primary key (no_w_id, no_d_id, no_o_id);
        alter table bmsql_order_line add constraint bmsql_order_line_pkey primary key (ol_w_id, ol_d_id, ol_o_id, ol_number);
        alter table bmsql_stock add constraint bmsql_stock_pkey primary key (s_w_id, s_i_id);
        alter table bmsql_item add constraint bmsql_item_pkey primary key (i_id);
        alter table bmsql_district add constraint d_warehouse_fkey foreign key (d_w_id) references bmsql_warehouse (w_id);
        alter table bmsql_customer add constraint c_district_fkey foreign key (c_w_id, c_d_id) references bmsql_district (d_w_id, d_id);
        alter table bmsql_history add constraint h_customer_fkey foreign key (h_c_w_id, h_c_d_id, h_c_id) references bmsql_customer (c_w_id, c_d_id, c_id);
        alter table bmsql_history add constraint h_district_fkey foreign key (h_w_id, h_d_id) references bmsql_district (d_w_id, d_id);
        alter table bmsql_new_order add constraint no_order_fkey foreign key (no_w_id, no_d_id, no_o_id) references bmsql_oorder (o_w_id, o_d_id, o_id);
        alter table bmsql_oorder add constraint o_customer_fkey foreign key (o_w_id, o_d_id, o_c_id) references bmsql_customer (c_w_id, c_d_id, c_id);
        alter table bmsql_order_line add constraint ol_order_fkey foreign key (ol_w_id, ol_d_id, ol_o_id) references bmsql_oorder (o_w_id, o_d_id, o_id);
        alter table bmsql_order_line add constraint ol_stock_fkey foreign key (ol_supply_w_id, ol_i_id) references bmsql_stock (s_w_id, s_i_id);
        alter table bmsql_stock add constraint s_warehouse_fkey foreign key (s_w_id) references bmsql_warehouse (w_id);
        alter table bmsql_stock add constraint s_item_fkey foreign key (s_i_id) references bmsql_item (i_id);
        select setval('bmsql_hist_id_seq', (select max(hist_id) from bmsql_history));
        alter table bmsql_history alter column hist_id set default nextval('bmsql_hist_id_seq');
        alter table bmsql_history add primary key (hist_id);
        create index bmsql_history_idx1 on bmsql_history (h_c_w_id, h_c_d_id, h_c_id);
        vacuum analyze
        """;
}
