"""Alembic and SQLAlchemy as an application has them: tables made from classes, what is there read back, differences found, versions
up and down, each in a transaction. The URL, and a folder to write in."""

import sys
from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from sqlalchemy.dialects import postgresql
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship

URL, FOLDER = sys.argv[1], Path(sys.argv[2])


class Base(DeclarativeBase):
    pass


class Author(Base):
    __tablename__ = "author"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(sa.String(80), nullable=False, comment="as on the cover")
    born: Mapped[sa.Date | None] = mapped_column(sa.Date)
    books: Mapped[list["Book"]] = relationship(back_populates="author", cascade="all, delete-orphan")
    __table_args__ = (sa.UniqueConstraint("name", name="author_name"), {"comment": "who writes"})


class Book(Base):
    __tablename__ = "book"
    id: Mapped[int] = mapped_column(sa.BigInteger, sa.Identity(always=False), primary_key=True)
    author_id: Mapped[int] = mapped_column(sa.ForeignKey("author.id", ondelete="CASCADE", name="book_author"), index=True)
    title: Mapped[str] = mapped_column(sa.Text)
    price: Mapped[sa.Numeric] = mapped_column(sa.Numeric(10, 2), server_default="0")
    kind: Mapped[str] = mapped_column(sa.Enum("novel", "poem", name="kind"), server_default="novel")
    tags: Mapped[list] = mapped_column(postgresql.ARRAY(sa.Text), server_default="{}")
    about: Mapped[dict | None] = mapped_column(postgresql.JSONB)
    added: Mapped[sa.DateTime] = mapped_column(sa.DateTime(timezone=True), server_default=sa.func.now())
    author: Mapped[Author] = relationship(back_populates="books")
    __table_args__ = (sa.CheckConstraint("price >= 0", name="book_price"), sa.Index("book_title", "title"))


def same(seen, expected):
    if seen != expected:
        raise AssertionError(f"{seen!r}, not {expected!r}")


def objects(engine):
    Base.metadata.create_all(engine)
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        ann = Author(name="Ann", books=[Book(title="One", tags=["a", "b"], about={"pages": 7}), Book(title="Two", kind="poem")])
        session.add_all([ann, Author(name="Bob")])
        session.commit()
        same([book.title for book in ann.books], ["One", "Two"])
        found = session.scalars(sa.select(Book).join(Author).where(Author.name == "Ann").order_by(Book.title.desc())).all()
        same([(book.title, book.kind, book.tags, book.about) for book in found],
             [("Two", "poem", [], None), ("One", "novel", ["a", "b"], {"pages": 7})])
        found[0].price = 12
        with session.begin_nested():
            session.add(Book(title="Three", author=ann))
        session.commit()
        try:
            with session.begin_nested():
                session.add(Author(name="Ann"))
                session.flush()
            raise AssertionError("it is there twice")
        except sa.exc.IntegrityError as error:
            same(error.orig.sqlstate, "23505")
        session.delete(ann)
        session.commit()
        same(session.scalar(sa.select(sa.func.count()).select_from(Book)), 0)


def reflection(engine):
    seen = sa.inspect(engine)
    same(sorted(seen.get_table_names()), ["author", "book"])
    same([column["name"] for column in seen.get_columns("book")],
         ["id", "author_id", "title", "price", "kind", "tags", "about", "added"])
    same([str(column["type"]) for column in seen.get_columns("book")],
         ["BIGINT", "INTEGER", "TEXT", "NUMERIC(10, 2)", "VARCHAR(5)", "ARRAY", "JSONB", "TIMESTAMP"])
    same(seen.get_pk_constraint("author")["constrained_columns"], ["id"])
    same([(key["name"], key["referred_table"], key["options"]) for key in seen.get_foreign_keys("book")],
         [("book_author", "author", {"ondelete": "CASCADE"})])
    same(sorted((index["name"], index["column_names"]) for index in seen.get_indexes("book")),
         [("book_title", ["title"]), ("ix_book_author_id", ["author_id"])])
    same([(key["name"], key["column_names"]) for key in seen.get_unique_constraints("author")], [("author_name", ["name"])])
    same([check["name"] for check in seen.get_check_constraints("book")], ["book_price"])
    same(seen.get_table_comment("author"), {"text": "who writes"})
    same([enum["labels"] for enum in seen.get_enums()], [["novel", "poem"]])
    whole = sa.MetaData()
    whole.reflect(engine)
    same(sorted(whole.tables), ["author", "book"])
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        same(compare_metadata(context, Base.metadata), [])
    Base.metadata.drop_all(engine)


VERSIONS = {
    "1": ("None", """
    op.create_table('item', sa.Column('id', sa.Integer, primary_key=True), sa.Column('name', sa.String(50), nullable=False),
                    sa.Column('price', sa.Numeric(8, 2)))
    op.create_table('stock', sa.Column('item_id', sa.Integer, sa.ForeignKey('item.id'), primary_key=True), sa.Column('left', sa.Integer))
    op.bulk_insert(sa.table('item', sa.column('name'), sa.column('price')), [{'name': 'nut', 'price': 1}, {'name': 'bolt', 'price': 2}])
""", "op.drop_table('stock'); op.drop_table('item')"),
    "2": ("'1'", """
    op.add_column('item', sa.Column('active', sa.Boolean, server_default=sa.true(), nullable=False))
    op.add_column('item', sa.Column('code', sa.Text))
    op.execute("UPDATE item SET code = upper(name) || '-' || id")
    op.alter_column('item', 'code', nullable=False)
    op.create_unique_constraint('item_code', 'item', ['code'])
    op.create_index('item_active', 'item', ['active', 'name'])
    op.create_check_constraint('item_price', 'item', 'price > 0')
""", """
    op.drop_constraint('item_price', 'item'); op.drop_index('item_active'); op.drop_constraint('item_code', 'item')
    op.drop_column('item', 'code'); op.drop_column('item', 'active')"""),
    "3": ("'2'", """
    op.alter_column('item', 'name', new_column_name='title', type_=sa.Text)
    op.rename_table('stock', 'inventory')
    op.alter_column('item', 'price', type_=sa.Numeric(12, 4), server_default='1')
    op.drop_index('item_active')
""", """
    op.create_index('item_active', 'item', ['active', 'title'])
    op.alter_column('item', 'price', type_=sa.Numeric(8, 2), server_default=None)
    op.rename_table('inventory', 'stock'); op.alter_column('item', 'title', new_column_name='name', type_=sa.String(50))"""),
}

ENVIRONMENT = """
from alembic import context
import sqlalchemy as sa
engine = sa.create_engine(context.config.get_main_option("sqlalchemy.url"))
with engine.connect() as connection:
    context.configure(connection=connection, target_metadata=None, transaction_per_migration=True)
    with context.begin_transaction():
        context.run_migrations()
"""


def versions(engine):
    scripts = FOLDER / "alembic"
    (scripts / "versions").mkdir(parents=True)
    (scripts / "env.py").write_text(ENVIRONMENT)
    for name, (before, up, down) in VERSIONS.items():
        text = f"from alembic import op\nimport sqlalchemy as sa\nrevision = '{name}'\ndown_revision = {before}\n"
        text += f"def upgrade():\n    {up.strip()}\ndef downgrade():\n    {down.strip()}\n"
        (scripts / "versions" / f"{name}.py").write_text(text)
    config = Config()
    config.set_main_option("script_location", str(scripts))
    config.set_main_option("sqlalchemy.url", URL.replace("%", "%%"))
    command.upgrade(config, "2")
    with engine.connect() as connection:
        same(connection.execute(sa.text("SELECT code, active FROM item ORDER BY id")).all(), [("NUT-1", True), ("BOLT-2", True)])
    command.upgrade(config, "head")
    with engine.connect() as connection:
        same(connection.execute(sa.text("SELECT title, price FROM item ORDER BY id")).all(), [("nut", 1), ("bolt", 2)])
        same(connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar(), "3")
    command.downgrade(config, "1")
    same([column["name"] for column in sa.inspect(engine).get_columns("item")], ["id", "name", "price"])
    command.upgrade(config, "head")
    # A version that fails leaves nothing.
    text = "from alembic import op\nrevision = '4'\ndown_revision = '3'\ndef upgrade():\n    op.execute('CREATE TABLE half (a int)')\n"
    (scripts / "versions" / "4.py").write_text(text + "    op.execute('INSERT INTO item (title, code) SELECT title, code FROM item')\n")
    try:
        command.upgrade(config, "head")
        raise AssertionError("it has not failed")
    except sa.exc.IntegrityError as error:
        same(error.orig.sqlstate, "23505")
    same(sorted(sa.inspect(engine).get_table_names()), ["alembic_version", "inventory", "item"])
    command.downgrade(config, "base")
    same(sa.inspect(engine).get_table_names(), ["alembic_version"])


def main():
    engine = sa.create_engine(URL)
    objects(engine)
    reflection(engine)
    versions(engine)
    print("all is well")


main()
