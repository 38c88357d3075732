"""The shop in Django's words."""

from django.db import models
from django.db.models import CASCADE, PROTECT, ForeignKey, OneToOneField


class Account(models.Model):
    email = models.CharField(max_length=80, unique=True)

    class Meta:
        db_table = "account"


class Product(models.Model):
    price = models.IntegerField()
    initial = models.IntegerField()
    stock = models.IntegerField()

    class Meta:
        db_table = "product"
        constraints = [models.CheckConstraint(condition=models.Q(stock__gte=0), name="stock_is_there")]


class Coupon(models.Model):
    code = models.CharField(max_length=20, primary_key=True)
    discount = models.IntegerField()
    used = models.BooleanField(default=False)

    class Meta:
        db_table = "coupon"


class Order(models.Model):
    token = models.CharField(max_length=40, unique=True)
    account = ForeignKey(Account, PROTECT)
    coupon = ForeignKey(Coupon, PROTECT, null=True)
    total = models.IntegerField()

    class Meta:
        db_table = "orders"


class Line(models.Model):
    order = ForeignKey(Order, CASCADE)
    product = ForeignKey(Product, PROTECT)
    quantity = models.PositiveIntegerField()
    price = models.IntegerField()

    class Meta:
        db_table = "line"
        constraints = [models.UniqueConstraint(fields=["order", "product"], name="one_line_for_each")]


class Counter(models.Model):
    id = models.IntegerField(primary_key=True)
    last = models.IntegerField()

    class Meta:
        db_table = "counter"


class Invoice(models.Model):
    number = models.IntegerField(primary_key=True)
    order = OneToOneField(Order, PROTECT)
    amount = models.IntegerField()

    class Meta:
        db_table = "invoice"


class Review(models.Model):
    line = OneToOneField(Line, PROTECT)
    account = ForeignKey(Account, PROTECT)
    stars = models.IntegerField()

    class Meta:
        db_table = "review"
        constraints = [models.CheckConstraint(condition=models.Q(stars__range=(1, 5)), name="one_to_five")]


class Wish(models.Model):
    account = ForeignKey(Account, CASCADE)
    product = ForeignKey(Product, CASCADE)

    class Meta:
        db_table = "wish"
