"""A shop on the web: WSGI pages over SQLAlchemy's ORM, served for each agent of Conveyor. The arguments are the agents' ports."""
import json
import sys
import threading
import urllib.request
from wsgiref.simple_server import WSGIRequestHandler, make_server

from sqlalchemy import BigInteger, create_engine, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column


class Base(DeclarativeBase):
    pass


class Stock(Base):
    __tablename__ = "stock"
    id: Mapped[int] = mapped_column(primary_key=True)
    n: Mapped[int]


class Cart(Base):
    __tablename__ = "cart"
    key: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    item: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    n: Mapped[int]


class Log(Base):
    __tablename__ = "log"
    id: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    what: Mapped[str]


class Shop:
    def __init__(self, port):
        self.engine = create_engine(f"postgresql+psycopg://me@127.0.0.1:{port}/shop")

    def __call__(self, environ, start_response):
        page, *numbers = environ["PATH_INFO"].strip("/").split("/")
        answer = getattr(self, page)(*map(int, numbers))
        start_response("200 OK", [("Content-Type", "application/json")])
        return [json.dumps(answer).encode()]

    @staticmethod
    def lines(session, key):
        return session.scalars(select(Cart).where(Cart.key == key).order_by(Cart.item)).all()

    def cart(self, key):
        with Session(self.engine) as session:
            return [[line.item, line.n] for line in self.lines(session, key)]

    def add(self, key, item, n):
        with Session(self.engine) as session, session.begin():
            line = session.get(Cart, (key, item))
            if line is None:
                session.add(Cart(key=key, item=item, n=n))
            else:
                line.n += n
        return self.cart(key)

    def check_out(self, key, order):
        with Session(self.engine) as session, session.begin():
            for line in self.lines(session, key):
                session.get(Stock, line.item).n -= line.n
            session.add(Log(id=order, what=f"cart {key}"))
        return order


class Quiet(WSGIRequestHandler):
    def log_message(self, *_):
        pass


def get(server, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}{path}") as answer:
        return json.load(answer)


servers = [make_server("127.0.0.1", 0, Shop(port), handler_class=Quiet) for port in sys.argv[1:]]
for server in servers:
    threading.Thread(target=server.serve_forever, daemon=True).start()
# A customer's pages are served by any server; key 4 belongs to the second one.
assert get(servers[0], "/add/4/1/2") == [[1, 2]]
assert get(servers[1], "/add/4/1/3") == [[1, 5]]
assert get(servers[2], "/add/4/2/1") == [[1, 5], [2, 1]]
assert get(servers[0], "/cart/4") == [[1, 5], [2, 1]]
assert get(servers[2], "/check_out/4/77") == 77
# Customers at the same time: serialization failures are not seen.
def shop(server, key):
    for turn in range(1, 6):
        assert get(server, f"/add/{key}/3/1") == [[3, turn]]
    get(server, f"/check_out/{key}/{1000 + key}")
customers = [threading.Thread(target=shop, args=(servers[key % 3], key)) for key in range(10, 16)]
for customer in customers:
    customer.start()
for customer in customers:
    customer.join()
# Every server comes to the same stock.
for server in servers:
    engine = server.get_app().engine
    expected = [95, 99, 100 - 6 * 5]
    while True:
        with Session(engine) as session:
            seen = [session.get(Stock, item).n for item in (1, 2, 3)]
        if seen == expected:
            break
print("all is well")
