"""Django as an application has it: its own migrations and those of an app with foreign keys in a circle, forwards, backwards and
forwards again, and what its mapper says. The port, and a folder to write in."""

import sys
from pathlib import Path

import django
from django.conf import settings
from django.core.management import call_command

PORT, FOLDER = sys.argv[1], Path(sys.argv[2])

MODELS = """
from django.conf import settings
from django.db import models

class Author(models.Model):
    name = models.CharField(max_length=80, unique=True)
    favourite = models.ForeignKey("Book", null=True, on_delete=models.SET_NULL, related_name="+")

class Book(models.Model):
    author = models.ForeignKey(Author, on_delete=models.CASCADE)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.CASCADE)
    title = models.TextField()
    price = models.DecimalField(max_digits=10, decimal_places=2, default=0)
    tags = models.JSONField(default=list)
    at = models.DateTimeField(auto_now_add=True)
    class Meta:
        indexes = [models.Index(fields=["author", "title"])]
        constraints = [models.CheckConstraint(condition=models.Q(price__gte=0), name="price_is_none_of_yours")]

class Shelf(models.Model):
    books = models.ManyToManyField(Book)
"""

LATER = """
from django.db import migrations, models

def fill(apps, editor):
    Author = apps.get_model("shop", "Author")
    for author in Author.objects.all():
        author.motto = author.name.upper()
        author.save()

class Migration(migrations.Migration):
    dependencies = [("shop", "0001_initial")]
    operations = [
        migrations.AddField("author", "motto", models.TextField(default="")),
        migrations.RunPython(fill, migrations.RunPython.noop),
        migrations.AlterField("author", "name", models.CharField(max_length=120, unique=True)),
        migrations.RenameField("author", "motto", "words"),
        migrations.AddIndex("book", models.Index(fields=["at"], name="book_at")),
    ]
"""

shop = FOLDER / "shop"
(shop / "migrations").mkdir(parents=True)
for name, text in {"__init__.py": "", "models.py": MODELS, "migrations/__init__.py": ""}.items():
    (shop / name).write_text(text)
sys.path.insert(0, str(FOLDER))
settings.configure(
    INSTALLED_APPS=["django.contrib.admin", "django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions",
                    "django.contrib.messages", "shop"],
    DATABASES={"default": {"ENGINE": "django.db.backends.postgresql", "NAME": sys.argv[3], "USER": sys.argv[4], "HOST": sys.argv[5],
                           "PORT": PORT}},
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField", SECRET_KEY="x", USE_TZ=True,
)
django.setup()
call_command("makemigrations", "shop", verbosity=0)
call_command("migrate", verbosity=0)

from django.contrib.auth.models import Group, Permission, User  # noqa: E402
from django.db import IntegrityError, connection, transaction  # noqa: E402
from django.db.models import Count, F, Sum  # noqa: E402
from shop.models import Author, Book, Shelf  # noqa: E402

# What is told of the schema fits the models.
call_command("makemigrations", "--check", "--dry-run", verbosity=0)
call_command("migrate", verbosity=0)
ann = User.objects.create_user("ann", password="x")
group = Group.objects.create(name="editors")
group.permissions.set(Permission.objects.filter(content_type__app_label="shop"))
ann.groups.add(group)
assert group.permissions.count() == 12 and User.objects.get(groups=group).check_password("x")

with transaction.atomic():
    # Each names the other, whoever is first.
    author = Author(name="ann", favourite_id=7)
    author.save()
    Book.objects.create(id=7, author=author, owner=ann, title="one", price="1.50", tags=["a", "b"])
Book.objects.bulk_create([Book(author=author, title=f"book {n}", price=n) for n in range(1, 5)])
shelf = Shelf.objects.create()
shelf.books.set(Book.objects.filter(price__gt=2))
assert shelf.books.aggregate(Sum("price"), Count("id")) == {"price__sum": 7, "id__count": 2}
try:
    with transaction.atomic():
        Book.objects.create(author_id=99, title="nobody's")
        assert Book.objects.filter(author_id=99).count() == 1
    raise AssertionError("a book has no author")
except IntegrityError as error:
    assert error.__cause__.sqlstate == "23503", error
assert Book.objects.count() == 5
try:
    with transaction.atomic():
        Book.objects.create(author_id=99, title="nobody's")
        connection.check_constraints()
    raise AssertionError("constraints were not checked")
except IntegrityError as error:
    assert error.__cause__.sqlstate == "23503", error
with transaction.atomic():
    try:
        with transaction.atomic():
            Book.objects.create(author=author, title="dear", price=-1)
        raise AssertionError("a price is less than nothing")
    except IntegrityError as error:
        assert error.__cause__.sqlstate == "23514", error
    Book.objects.filter(pk=7).update(price=F("price") + 1)
assert str(Book.objects.get(pk=7).price) == "2.50"

(shop / "migrations/0002_later.py").write_text(LATER)
import importlib  # noqa: E402

importlib.invalidate_caches()
call_command("migrate", "shop", verbosity=0)
with connection.cursor() as cursor:
    cursor.execute("SELECT words FROM shop_author")
    assert cursor.fetchall() == [("ANN",)]
call_command("migrate", "shop", "0001", verbosity=0)
Author.objects.all().delete()
assert Book.objects.count() == 0
ann.delete()
call_command("migrate", "shop", "zero", verbosity=0)
call_command("migrate", verbosity=0)
print("all is well")
