import jakarta.persistence.*;
import java.math.BigDecimal;
import java.time.*;
import java.util.*;
import org.hibernate.SessionFactory;
import org.hibernate.cfg.Configuration;

/** Hibernate: makes the tables of its entities, makes them again (update), compares them (validate), and writes and reads. Argument: a port. */
public class Mapped {
    enum Mood { SAD, OK }

    @Entity(name = "Author") @Table(name = "author")
    static class Author {
        @Id @GeneratedValue(strategy = GenerationType.SEQUENCE) Long id;
        @Column(nullable = false, length = 40, unique = true) String name;
        @Enumerated(EnumType.STRING) Mood mood;
        @OneToMany(mappedBy = "author", cascade = CascadeType.ALL) List<Book> books = new ArrayList<>();
        @Version int version;
    }

    @Entity(name = "Book") @Table(name = "book", indexes = @Index(columnList = "title, price"))
    static class Book {
        @Id @GeneratedValue(strategy = GenerationType.IDENTITY) Long id;
        @Column(nullable = false) String title;
        @Column(precision = 10, scale = 2) BigDecimal price;
        LocalDate published;
        Instant seen;
        LocalDateTime local;
        UUID code;
        boolean sold;
        byte[] cover;
        String[] tags;
        @ManyToOne(optional = false) Author author;
    }

    static SessionFactory factory(String port, String action) {
        Configuration configuration = new Configuration().addAnnotatedClass(Author.class).addAnnotatedClass(Book.class);
        configuration.setProperty("hibernate.connection.url", "jdbc:postgresql://127.0.0.1:" + port + "/weir");
        configuration.setProperty("hibernate.connection.username", "postgres");
        configuration.setProperty("hibernate.hbm2ddl.auto", action);
        configuration.setProperty("hibernate.hbm2ddl.halt_on_error", "true");
        return configuration.buildSessionFactory();
    }

    public static void main(String[] args) {
        Author author = new Author();
        author.name = "Ursula";
        author.mood = Mood.OK;
        Book book = new Book();
        book.title = "The Dispossessed";
        book.price = new BigDecimal("12.50");
        book.published = LocalDate.of(1974, 5, 1);
        book.seen = Instant.parse("2024-02-29T01:02:03.456789Z");
        book.local = LocalDateTime.of(2024, 2, 29, 1, 2, 3);
        book.code = UUID.fromString("00000000-0000-0000-0000-00000000002a");
        book.cover = new byte[] {0, 1, -1};
        book.tags = new String[] {"a", "b"};
        book.author = author;
        author.books.add(book);
        try (SessionFactory factory = factory(args[0], "update")) {
            factory.inTransaction(session -> session.persist(author));
        }
        factory(args[0], "update").close();
        try (SessionFactory factory = factory(args[0], "validate")) {
            factory.inTransaction(session -> {
                Author found = session.createQuery("from Author a join fetch a.books b where b.title like :t", Author.class)
                    .setParameter("t", "The%").getSingleResult();
                Book first = found.books.get(0);
                if (!first.price.equals(book.price) || !first.seen.equals(book.seen) || !first.code.equals(book.code)
                    || !Arrays.equals(first.tags, book.tags) || !Arrays.equals(first.cover, book.cover)) {
                    throw new IllegalStateException("it is another book");
                }
                first.sold = true;
                found.mood = Mood.SAD;
            });
            long sold = factory.fromTransaction(session ->
                session.createQuery("select count(b) from Book b where b.sold and b.author.mood = :m", Long.class)
                    .setParameter("m", Mood.SAD).getSingleResult());
            if (sold != 1) {
                throw new IllegalStateException("sold: " + sold);
            }
        }
        System.out.println("all is well");
    }
}
