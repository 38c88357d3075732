"""Django: its own tables, its mapper and its transactions; the rule over several rows in a database that is SERIALIZABLE."""

import psycopg
from django.conf import settings
from psycopg.conninfo import conninfo_to_dict
from shop_errors import RolledBack

ENGINE = "django.db.backends.postgresql"
settings.configure(
    INSTALLED_APPS=["store"],
    DATABASES={
        "default": {"ENGINE": ENGINE, "CONN_MAX_AGE": None},
        "strict": {"ENGINE": ENGINE, "CONN_MAX_AGE": None, "OPTIONS": {"isolation_level": psycopg.IsolationLevel.SERIALIZABLE}},
    },
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField", SECRET_KEY="x", USE_TZ=True,
)

import django  # noqa: E402

django.setup()

import django.db  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import connections, transaction  # noqa: E402
from django.db.models import F  # noqa: E402
from store.models import Account, Counter, Coupon, Invoice, Line, Order, Product, Review, Wish  # noqa: E402


class Form:
    def __init__(self, number, registers):
        # get_or_create is the one way.
        self.number = number

    def connect(self, url):
        told = conninfo_to_dict(url)
        for connection in connections.all():
            connection.settings_dict.update(HOST=told["host"], PORT=told["port"], USER=told["user"], NAME=told["dbname"])
            try:
                connection.ensure_connection()
            except django.db.Error as error:
                raise error.__cause__ from error

    def close(self):
        connections.close_all()

    def state_of(self, error):
        """SQLSTATE; none: the connection is lost."""
        cause = error.__cause__ if isinstance(error, django.db.Error) else error
        if isinstance(error, django.db.InterfaceError) and cause is None:
            return None
        if not isinstance(cause, psycopg.Error):
            raise error
        return cause.sqlstate

    def define(self, url):
        self.connect(url)
        call_command("migrate", run_syncdb=True, verbosity=0)
        self.close()

    def register(self, email):
        return Account.objects.get_or_create(email=email)[0].id

    def place_order(self, token, account, products, pieces, coupon, gives_up):
        with transaction.atomic():
            found = {one.id: one for one in Product.objects.select_for_update().filter(id__in=products).order_by("id")}
            coupon = coupon and Coupon.objects.get(pk=coupon)
            if coupon and not Coupon.objects.filter(pk=coupon.pk, used=False).update(used=True):
                coupon = None
            lines = list(zip(products, (pieces, 1), strict=True))
            total = sum(found[product].price * count for product, count in lines) - (coupon.discount if coupon else 0)
            order = Order.objects.create(token=token, account_id=account, coupon=coupon, total=total)
            Line.objects.bulk_create([
                Line(order=order, product_id=product, quantity=count, price=found[product].price) for product, count in lines])
            for product, count in lines:
                Product.objects.filter(pk=product).update(stock=F("stock") - count)
            if gives_up:
                raise RolledBack
        return order.id

    def send_invoice(self, order, gives_up):
        with transaction.atomic():
            counter = Counter.objects.select_for_update().get(pk=1)
            counter.last += 1
            counter.save(update_fields=["last"])
            order = Order.objects.get(pk=order)
            Invoice.objects.create(number=counter.last, order=order, amount=order.total)
            if gives_up:
                raise RolledBack
        return counter.last

    def line_of(self, order):
        return Line.objects.filter(order_id=order).order_by("id").values_list("id", flat=True).first()

    def write_review(self, line, account):
        Review.objects.create(line_id=line, account_id=account, stars=3)
        return account

    def restock(self, product, pieces):
        Product.objects.filter(pk=product).update(stock=F("stock") + pieces, initial=F("initial") + pieces)

    def make_wish(self, account, product):
        with transaction.atomic(using="strict"):
            if Wish.objects.using("strict").filter(account_id=account).count() < 3:
                Wish.objects.using("strict").create(account_id=account, product_id=product)
