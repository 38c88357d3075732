// Reads of YCSB (workload C) over JDBC: one row by its key, all fields, keys by Zipf's law with exponent 0.99, scrambled as YCSB does.
//
// Arguments: URL, clients, seconds, rows, seed. It warms up for two seconds, and then prints the microseconds of each read, a line each.

import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

public class YcsbReads {
    static final int FIELDS = 10;
    static final double EXPONENT = 0.99;
    static final long WARM_UP_NANOS = 2_000_000_000L;

    // Gray et al., "Quickly generating billion-record synthetic databases", SIGMOD 1994.
    static class Zipf {
        final long items;
        final double zeta, alpha, eta;

        Zipf(long items) {
            this.items = items;
            double sum = 0;
            for (long i = 1; i <= items; i++) sum += 1 / Math.pow(i, EXPONENT);
            zeta = sum;
            alpha = 1 / (1 - EXPONENT);
            double two = 1 + Math.pow(0.5, EXPONENT);
            eta = (1 - Math.pow(2.0 / items, 1 - EXPONENT)) / (1 - two / zeta);
        }

        long next(SplittableRandom chance) {
            double u = chance.nextDouble(), uz = u * zeta;
            long rank;
            if (uz < 1) rank = 0;
            else if (uz < 1 + Math.pow(0.5, EXPONENT)) rank = 1;
            else rank = (long) (items * Math.pow(eta * u - eta + 1, alpha));
            return Math.floorMod(rank * 0x9E3779B97F4A7C15L, items);
        }
    }

    static long[] read(String url, Zipf zipf, long seed, long begin, long end) throws Exception {
        SplittableRandom chance = new SplittableRandom(seed);
        long[] times = new long[1 << 16];
        int count = 0;
        try (Connection connection = DriverManager.getConnection(url);
             PreparedStatement statement = connection.prepareStatement("SELECT * FROM usertable WHERE ycsb_key = ?")) {
            for (long sent = System.nanoTime(); sent < end; sent = System.nanoTime()) {
                statement.setString(1, "user" + zipf.next(chance));
                try (ResultSet rows = statement.executeQuery()) {
                    if (!rows.next()) throw new IllegalStateException("a row is missing");
                    for (int field = 0; field < FIELDS; field++) rows.getString(field + 2);
                }
                long took = System.nanoTime() - sent;
                if (sent < begin) continue;
                if (count == times.length) times = Arrays.copyOf(times, 2 * count);
                times[count++] = took / 1000;
            }
        }
        return Arrays.copyOf(times, count);
    }

    public static void main(String[] arguments) throws Exception {
        String url = arguments[0];
        int clients = Integer.parseInt(arguments[1]);
        double seconds = Double.parseDouble(arguments[2]);
        Zipf zipf = new Zipf(Long.parseLong(arguments[3]));
        long seed = Long.parseLong(arguments[4]);
        long begin = System.nanoTime() + WARM_UP_NANOS, end = begin + (long) (seconds * 1e9);
        ExecutorService threads = Executors.newFixedThreadPool(clients);
        List<Callable<long[]>> work = new ArrayList<>();
        for (int client = 0; client < clients; client++) {
            long own = seed * 1000 + client;
            work.add(() -> read(url, zipf, own, begin, end));
        }
        StringBuilder lines = new StringBuilder();
        for (Future<long[]> times : threads.invokeAll(work)) for (long time : times.get()) lines.append(time).append('\n');
        threads.shutdown();
        System.out.print(lines);
    }
}
