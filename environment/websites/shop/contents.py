"""What the shop sells and knows: its tables and how a world fills them."""

from __future__ import annotations

from environment.websites.words import ADJECTIVES, PEOPLE, distinct, person, phrase

USER = "casey"  # who is logged in
CATEGORIES = ("Bath", "Camping", "Garden", "Kitchen", "Music", "Office", "Sports", "Toys", "Travel")
COLORS = ("Black", "Brown", "Grey", "Pink", "Purple", "Yellow")  # none of them is a word of a product's name
CITIES = ("Berlin", "London", "Paris", "Rome", "Tokyo")
DELIVERIES = {"Standard": 4, "Express": 9, "Pickup": 0}
STATUSES = ("Delivered", "Shipped", "Packed")
REASONS = ("Broken", "Too late", "Wrong color", "Wrong size")
TOPICS = ("Delivery", "Payment", "Product", "Refund")
LABELS = ("Cabin", "Garage", "Parents", "School", "Work")

SCHEMA = """
CREATE TABLE shop_products (id INTEGER PRIMARY KEY, name TEXT, category TEXT, colors TEXT, price INTEGER,
                            rating INTEGER, stock INTEGER, wished INTEGER DEFAULT 0);
CREATE TABLE shop_reviews (id INTEGER PRIMARY KEY, product_id INTEGER, author TEXT, stars INTEGER, body TEXT);
CREATE TABLE shop_cart (id INTEGER PRIMARY KEY, product_id INTEGER, color TEXT, quantity INTEGER);
CREATE TABLE shop_checkout (name TEXT, street TEXT, city TEXT, delivery TEXT);
CREATE TABLE shop_orders (id INTEGER PRIMARY KEY, day INTEGER, status TEXT, name TEXT, street TEXT, city TEXT,
                          delivery TEXT, total INTEGER);
CREATE TABLE shop_items (order_id INTEGER, name TEXT, color TEXT, quantity INTEGER, price INTEGER);
CREATE TABLE shop_returns (id INTEGER PRIMARY KEY, order_id INTEGER, item TEXT, reason TEXT, comment TEXT);
CREATE TABLE shop_addresses (id INTEGER PRIMARY KEY, label TEXT, name TEXT, street TEXT, city TEXT, phone TEXT);
CREATE TABLE shop_messages (id INTEGER PRIMARY KEY, topic TEXT, subject TEXT, body TEXT);
"""


def street(rng) -> str:
    return f"{rng.choice(ADJECTIVES).capitalize()} street {rng.randint(2, 99)}"


def phone(rng) -> str:
    return f"{rng.randint(11, 99)}-{rng.randint(101, 999)}"


def populate(db, rng) -> None:
    """Five categories with 7-9 products each; prices and ratings differ within a category, so every order is strict."""
    names = iter(distinct(rng, phrase, 60))
    for category in sorted(rng.sample(CATEGORIES, 5)):
        size = rng.randint(7, 9)
        titles = [next(names).capitalize() for _ in range(size - 1)]
        titles.append(f"{titles[0]} set")  # a near-duplicate, which a search finds too
        for title, price, rating in zip(titles, rng.sample(range(6, 99), size), rng.sample(range(40, 99), size)):
            _add_product(db, rng, (title, category, ",".join(sorted(rng.sample(COLORS, 3))), price, rating, rng.randint(8, 60)))
    products = db.execute("SELECT * FROM shop_products ORDER BY id").fetchall()
    chosen = rng.sample(products, 6)
    rows = [(row["id"], rng.choice(row["colors"].split(",")), rng.randint(1, 3)) for row in chosen[:3]]
    db.executemany("INSERT INTO shop_cart (product_id, color, quantity) VALUES (?, ?, ?)", rows)
    db.executemany("UPDATE shop_products SET wished = 1 WHERE id = ?", [(row["id"],) for row in chosen[3:]])
    db.execute("INSERT INTO shop_checkout VALUES ('', '', '', 'Standard')")
    numbers, days = sorted(rng.sample(range(101, 990), 8)), sorted(rng.sample(range(1, 29), 8))
    for number, day in zip(numbers, days):
        _add_order(db, rng, number, day, rng.sample(products, rng.randint(2, 3)))
    rows = [(label, person(rng), street(rng), rng.choice(CITIES), phone(rng)) for label in sorted(rng.sample(LABELS, 3))]
    db.executemany("INSERT INTO shop_addresses (label, name, street, city, phone) VALUES (?, ?, ?, ?, ?)", rows)


def _add_product(db, rng, row) -> None:
    columns = "(name, category, colors, price, rating, stock)"
    product = db.execute(f"INSERT INTO shop_products {columns} VALUES (?, ?, ?, ?, ?, ?)", row).lastrowid
    count = rng.randint(2, 4)
    rows = [(product, *pair, phrase(rng)) for pair in zip(rng.sample(PEOPLE, count), rng.sample(range(1, 6), count))]
    db.executemany("INSERT INTO shop_reviews (product_id, author, stars, body) VALUES (?, ?, ?, ?)", rows)


def _add_order(db, rng, number, day, products) -> None:
    items = [(number, p["name"], rng.choice(p["colors"].split(",")), rng.randint(1, 3), p["price"]) for p in products]
    db.executemany("INSERT INTO shop_items VALUES (?, ?, ?, ?, ?)", items)
    delivery = rng.choice(list(DELIVERIES))
    total = sum(item[3] * item[4] for item in items) + DELIVERIES[delivery]
    row = (number, day, rng.choice(STATUSES), person(rng), street(rng), rng.choice(CITIES), delivery, total)
    db.execute("INSERT INTO shop_orders VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
