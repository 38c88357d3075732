"""Clients of a shop, which a test tells where the server is and when to rest. The form of their statements (calls, statements, django),
how they register (on-conflict, plainly), their number, and a seed.

It reads a command a line, and answers each with a line:
    define URL       makes the tables and fills them
    run URL COUNT    clients work; answered when they have done that many more
    rest             answered when all have lost their connection, or have ended what they were at
    check URL        `right`, or what is wrong
    count            how often what came of what
"""

import collections
import importlib
import random
import sys
import threading

import psycopg

import rules
from shop_errors import RolledBack

FORM, REGISTERS, CLIENTS, SEED = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
PRODUCTS, STOCK, COUPONS, EMAILS = 40, 20, 60, 400

# Errors after which a transaction has done nothing, and is begun again.
AGAIN = ("40001", "40P01")


class Gate:
    """Where clients wait while there is no server, or they are to rest."""

    def __init__(self):
        self.changed = threading.Condition()
        self.url, self.inside, self.done = None, 0, 0

    def enter(self):
        with self.changed:
            self.changed.wait_for(lambda: self.url)
            self.inside += 1
            return self.url

    def leave(self):
        with self.changed:
            self.inside -= 1
            self.changed.notify_all()

    def open(self, url):
        with self.changed:
            self.url = url
            self.changed.notify_all()

    def close(self):
        with self.changed:
            self.url = None
            self.changed.wait_for(lambda: self.inside == 0)

    def has_done_one(self):
        with self.changed:
            self.done += 1
            self.changed.notify_all()

    def wait_for(self, count):
        with self.changed:
            most = self.done + count
            return self.changed.wait_for(lambda: self.done >= most or WRONG, timeout=300)


class Known:
    """Keys that were acknowledged."""

    def __init__(self):
        self.lock = threading.Lock()
        self.accounts, self.orders, self.lines = [], [], []

    def some(self, keys, chance):
        with self.lock:
            return chance.choice(keys) if keys else None

    def take(self, keys, chance):
        with self.lock:
            return keys.pop(chance.randrange(len(keys))) if keys else None


GATE, KNOWN, WRONG = Gate(), Known(), []
DONE = collections.defaultdict(list)
COUNTS = collections.Counter()


class Client:
    """One of them: what it wants, by chance, in whatever form."""

    def __init__(self, number, form):
        self.number, self.form, self.count = number, form, 0
        self.chance = random.Random(SEED * 1000 + number)

    def work(self):
        while True:
            url = GATE.enter()
            try:
                self.form.connect(url)
                while GATE.url == url and self.one():
                    GATE.has_done_one()
            except Exception as error:  # noqa: BLE001
                # Without a state there is no server any more.
                if not self.is_lost(error):
                    WRONG.append(f"client {self.number}: {type(error).__name__} {error}")
            self.form.close()
            GATE.leave()

    def is_lost(self, error):
        try:
            state = self.form.state_of(error)
        except Exception:  # noqa: BLE001
            return False
        return state is None or state.startswith(("08", "57P"))

    def one(self):
        kinds = ["register"] * 2 + ["place_order"] * 6 + ["send_invoice"] * 3 + ["write_review"] * 2 + ["restock", "make_wish", "make_wish"]
        return getattr(self, self.chance.choice(kinds))()

    def record(self, kind, key, expected, act):
        """Does it, until it is done, refused or lost. Whether the connection is still there."""
        for _ in range(200):
            state, fate, result = self.attempt(kind, key, expected, act)
            if state not in AGAIN:
                break
        else:
            WRONG.append(f"{kind} {key}: it has failed 200 times with {state}")
        if kind in rules.THERE:
            DONE[kind].append((key, result, fate))
        return result, fate != "unknown"

    def attempt(self, kind, key, expected, act):
        state, fate, result = None, "nothing", None
        try:
            result, fate, state = act(), "acknowledged", "done"
        except RolledBack:
            state = "rolled back"
        except Exception as error:  # noqa: BLE001
            state = self.form.state_of(error)
            if state is None or state.startswith(("08", "57P")):
                state, fate = "lost", "unknown"
            elif state not in AGAIN and state not in expected:
                WRONG.append(f"{kind} {key}: {state} {error}")
        COUNTS[kind, state] += 1
        return state, fate, result

    def register(self):
        email = f"user{self.chance.randrange(EMAILS)}@example.org"
        account, lives = self.record("register", email, (), lambda: self.form.register(email))
        if account:
            KNOWN.accounts.append(account)
        return lives

    def place_order(self):
        account = KNOWN.some(KNOWN.accounts, self.chance)
        if not account:
            return self.register()
        self.count += 1
        token = f"{self.number}-{self.count}"
        products = self.chance.sample(range(1, PRODUCTS + 1), 2)
        pieces = self.chance.randint(1, 4)
        coupon = f"C{self.chance.randrange(COUPONS)}" if self.chance.random() < 0.4 else None
        gives_up = self.chance.random() < 0.1
        # Out of stock.
        order, lives = self.record("place_order", token, ("23514",), lambda: self.form.place_order(
            token, account, products, pieces, coupon, gives_up))
        if order:
            KNOWN.orders.append((order, account))
        return lives

    def send_invoice(self):
        order = KNOWN.take(KNOWN.orders, self.chance)
        if not order:
            return self.register()
        gives_up = self.chance.random() < 0.1
        number, lives = self.record("send_invoice", order[0], (), lambda: self.form.send_invoice(order[0], gives_up))
        if number:
            KNOWN.lines.append(order)
        return lives

    def write_review(self):
        order = KNOWN.take(KNOWN.lines, self.chance)
        if not order:
            return self.register()
        bought, account = order
        line = self.form.line_of(bought)
        if self.chance.random() < 0.1:
            # Of nothing that was ever bought.
            line = 10**12
        expected = ("23503",) if line == 10**12 else ()
        _, lives = self.record("write_review", line, expected, lambda: self.form.write_review(line, account))
        return lives and (line == 10**12 or self.writes_again(line, account))

    def writes_again(self, line, account):
        """One review too many."""
        state, fate, _ = self.attempt("write_review again", line, ("23505",), lambda: self.form.write_review(line, account))
        if state == "done":
            WRONG.append(f"line {line} has a second review")
        return fate != "unknown"

    def restock(self):
        product, pieces = self.chance.randint(1, PRODUCTS), self.chance.randint(1, 6)
        return self.record("restock", product, (), lambda: self.form.restock(product, pieces))[1]

    def make_wish(self):
        account = KNOWN.some(KNOWN.accounts[:20], self.chance)
        if not account:
            return self.register()
        product = self.chance.randint(1, PRODUCTS)
        return self.record("make_wish", account, (), lambda: self.form.make_wish(account, product))[1]


def fill(connection):
    """Rows that there are before the first client."""
    with connection.cursor() as cursor:
        cursor.executemany("INSERT INTO product (id, price, initial, stock) VALUES (%s, %s, %s, %s)",
                           [(product, 3 + product % 7, STOCK, STOCK) for product in range(1, PRODUCTS + 1)])
        cursor.executemany("INSERT INTO coupon (code, discount, used) VALUES (%s, 2, false)", [(f"C{n}",) for n in range(COUPONS)])
        cursor.execute("INSERT INTO counter (id, last) VALUES (1, 0)")


def answer(form, line):
    command, *words = line.split("\t")
    if command == "define":
        form.define(words[0])
        with psycopg.connect(words[0], autocommit=True) as connection:
            fill(connection)
        return "defined"
    if command == "run":
        GATE.open(words[0])
        return "done" if GATE.wait_for(int(words[1])) else "clients do not get on: " + repr(dict(COUNTS))
    if command == "rest":
        GATE.close()
        return "resting"
    if command == "check":
        with psycopg.connect(words[0], autocommit=True) as connection:
            said = WRONG[:10] + rules.broken(connection, DONE)
        return "right" if not said else " || ".join(said).replace("\n", " ")
    if command == "count":
        return ", ".join(f"{kind} {state} {count}" for (kind, state), count in sorted(COUNTS.items()))
    raise ValueError(line)


def main():
    module = importlib.import_module(f"by_{FORM}")
    for number in range(CLIENTS):
        threading.Thread(target=Client(number, module.Form(number, REGISTERS)).work, daemon=True).start()
    control = module.Form(-1, REGISTERS)
    for line in sys.stdin:
        try:
            said = answer(control, line.rstrip("\n"))
        except Exception as error:  # noqa: BLE001
            said = f"{type(error).__name__}: {error}".replace("\n", " ")
        print(said, flush=True)


main()
