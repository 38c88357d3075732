import java.util.Map;
import org.flywaydb.core.Flyway;
import org.flywaydb.core.api.MigrationInfo;
import org.flywaydb.core.api.output.MigrateResult;

/** Migrates by Flyway, twice: what has been done is not done again. The port, the folder of migrations, and up to which version. */
public class Migrate {
    public static void main(String[] arguments) {
        String url = "jdbc:postgresql://127.0.0.1:" + arguments[0] + "/weir";
        for (String target : new String[] {"2", "latest", "latest"}) {
            Flyway flyway = Flyway.configure().dataSource(url, "ann", "").locations("filesystem:" + arguments[1]).target(target)
                .executeInTransaction(false).configuration(Map.of("flyway.postgresql.transactional.lock", "false")).load();
            MigrateResult result = flyway.migrate();
            flyway.validate();
            System.out.println("to " + target + ": " + result.migrationsExecuted);
            for (MigrationInfo one : flyway.info().all()) {
                System.out.println(one.getVersion() + " " + one.getDescription() + " " + one.getState());
            }
        }
        System.out.println("all is well");
    }
}
