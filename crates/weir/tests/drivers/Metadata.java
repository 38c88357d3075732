import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.sql.*;
import java.util.*;

/** Calls every method of DatabaseMetaData, and prints what it gives: a line for each row, the rows in order. Arguments: a URL. */
public class Metadata {
    /** Arguments by method; a method with parameters that is not here fails. Types: the names of tables, NULL for "any". */
    static final Object[][] CALLS = {
        {"getTables", null, "public", "%", null},
        {"getTables", null, "public", "e%", new String[] {"TABLE"}},
        {"getTables", null, null, "dept", new String[] {"TABLE", "VIEW"}},
        {"getColumns", null, "public", "%", "%"},
        {"getColumns", "weir", "public", "emp", "p%"},
        {"getPseudoColumns", null, "public", "%", "%"},
        {"getPrimaryKeys", null, "public", "emp"},
        {"getPrimaryKeys", null, "public", "Two words"},
        {"getPrimaryKeys", null, null, "child"},
        {"getImportedKeys", null, "public", "emp"},
        {"getImportedKeys", null, null, "child"},
        {"getExportedKeys", null, "public", "dept"},
        {"getExportedKeys", null, null, "Two words"},
        {"getCrossReference", null, "public", "dept", null, "public", "emp"},
        {"getIndexInfo", null, "public", "emp", false, false},
        {"getIndexInfo", null, "public", "dept", true, true},
        {"getIndexInfo", null, null, "many", false, true},
        {"getBestRowIdentifier", null, "public", "dept", DatabaseMetaData.bestRowSession, false},
        {"getBestRowIdentifier", null, null, "child", DatabaseMetaData.bestRowSession, true},
        {"getVersionColumns", null, "public", "dept"},
        {"getColumnPrivileges", null, "public", "dept", "%"},
        {"getTablePrivileges", null, "public", "%"},
        {"getProcedures", null, "public", "%"},
        {"getProcedureColumns", null, "public", "%", "%"},
        {"getFunctions", null, "public", "%"},
        {"getFunctionColumns", null, "public", "%", "%"},
        {"getSchemas", null, "pub%"},
        {"getSuperTypes", null, "public", "%"},
        {"getSuperTables", null, "public", "%"},
        {"getAttributes", null, "public", "%", "%"},
        {"getUDTs", null, "public", "%", null},
        {"supportsConvert", Types.INTEGER, Types.VARCHAR},
        {"supportsTransactionIsolationLevel", Connection.TRANSACTION_READ_COMMITTED},
        {"supportsTransactionIsolationLevel", Connection.TRANSACTION_NONE},
        {"supportsResultSetType", ResultSet.TYPE_SCROLL_INSENSITIVE},
        {"supportsResultSetConcurrency", ResultSet.TYPE_FORWARD_ONLY, ResultSet.CONCUR_READ_ONLY},
        {"supportsResultSetHoldability", ResultSet.HOLD_CURSORS_OVER_COMMIT},
    };
    /** Of results and types, by number: the same of each. */
    static final Set<String> OF_A_TYPE = Set.of("ownUpdatesAreVisible", "ownDeletesAreVisible", "ownInsertsAreVisible",
        "othersUpdatesAreVisible", "othersDeletesAreVisible", "othersInsertsAreVisible", "updatesAreDetected", "deletesAreDetected",
        "insertsAreDetected");
    /** Which are another's everywhere. */
    static final Set<String> OWN = Set.of("getURL", "getConnection", "getDatabaseProductVersion", "getUserName",
        "getDatabaseMinorVersion", "unwrap", "isWrapperFor");

    public static void main(String[] args) throws Exception {
        try (Connection connection = DriverManager.getConnection(args[0])) {
            DatabaseMetaData metadata = connection.getMetaData();
            List<String> all = new ArrayList<>();
            Set<String> called = new HashSet<>(OWN);
            Method[] methods = DatabaseMetaData.class.getMethods();
            for (Object[] call : CALLS) {
                called.add((String) call[0]);
                all.add(said(metadata, named(methods, (String) call[0], call.length - 1), Arrays.copyOfRange(call, 1, call.length)));
            }
            for (Method method : methods) {
                if (OWN.contains(method.getName())) {
                    continue;
                }
                if (method.getParameterCount() == 0) {
                    all.add(said(metadata, method));
                } else if (OF_A_TYPE.contains(method.getName())) {
                    all.add(said(metadata, method, ResultSet.TYPE_SCROLL_INSENSITIVE));
                } else if (!called.contains(method.getName())) {
                    throw new IllegalStateException(method + " is not called");
                }
            }
            Collections.sort(all);
            all.forEach(System.out::println);
        }
    }

    static Method named(Method[] methods, String name, int parameters) {
        return Arrays.stream(methods).filter(m -> m.getName().equals(name) && m.getParameterCount() == parameters).findFirst().orElseThrow();
    }

    static String said(DatabaseMetaData metadata, Method method, Object... args) throws Exception {
        String head = "== " + method.getName() + Arrays.deepToString(args) + "\n";
        try {
            Object given = method.invoke(metadata, args);
            return head + (given instanceof ResultSet rows ? rows(rows) : given instanceof Properties ? "" : String.valueOf(given));
        } catch (InvocationTargetException wrong) {
            return head + wrong.getCause();
        }
    }

    static String rows(ResultSet rows) throws SQLException {
        ResultSetMetaData of = rows.getMetaData();
        StringBuilder head = new StringBuilder();
        for (int at = 1; at <= of.getColumnCount(); at++) {
            head.append(of.getColumnLabel(at)).append('|');
        }
        List<String> lines = new ArrayList<>();
        while (rows.next()) {
            StringBuilder line = new StringBuilder();
            for (int at = 1; at <= of.getColumnCount(); at++) {
                String value = rows.getString(at);
                // A routine's own name has its number in it.
                line.append(of.getColumnLabel(at).equalsIgnoreCase("SPECIFIC_NAME") && value != null ? value.replaceAll("[0-9]+$", "N") : value).append('|');
            }
            lines.add(line.toString());
        }
        Collections.sort(lines);
        return head + "\n" + String.join("\n", lines);
    }
}
