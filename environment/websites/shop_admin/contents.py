"""What the back office holds: tables, contents, and the queries that pages and tasks share."""

from __future__ import annotations

from environment.websites.words import PEOPLE, distinct, phrase

ORDER_STATES = ("Pending", "Paid", "Shipped", "Cancelled")
INVOICE_STATES = ("Open", "Settled")
PRODUCT_STATES = ("Enabled", "Disabled")
REVIEW_STATES = ("Waiting", "Approved", "Rejected")
GROUPS = ("General", "Retail", "Wholesale")
CITIES = ("Berlin", "Lima", "London", "Oslo", "Rome", "Tokyo")
PAYMENTS = ("Card", "Cash", "Transfer", "Voucher")
MONTHS = ("April", "May", "June")
ANY = "Any"
PAGE = 5

SCHEMA = """
CREATE TABLE shop_admin_customers (name TEXT PRIMARY KEY, team TEXT, city TEXT, phone TEXT);
CREATE TABLE shop_admin_products (id INTEGER PRIMARY KEY, name TEXT UNIQUE, price INTEGER, stock INTEGER, state TEXT);
CREATE TABLE shop_admin_sales (product TEXT, month TEXT, sold INTEGER);
CREATE TABLE shop_admin_orders (id INTEGER PRIMARY KEY, customer TEXT, product TEXT, total INTEGER, payment TEXT, day TEXT,
                                state TEXT, note TEXT DEFAULT 'None');
CREATE TABLE shop_admin_invoices (id INTEGER PRIMARY KEY, order_id INTEGER, customer TEXT, amount INTEGER, due TEXT, state TEXT);
CREATE TABLE shop_admin_reviews (id INTEGER PRIMARY KEY, product TEXT, author TEXT, title TEXT, stars INTEGER, state TEXT,
                                 reply TEXT DEFAULT 'None');
CREATE TABLE shop_admin_coupons (id INTEGER PRIMARY KEY, name TEXT, team TEXT, percent INTEGER, code TEXT, state TEXT);
"""
ORDER_SORTS = {"Newest": "id DESC", "Oldest": "id", "Highest total": "total DESC", "Lowest total": "total"}
PRODUCT_SORTS = {"Name": "name", "Lowest stock": "stock", "Highest price": "price DESC", "Lowest price": "price"}


def populate(db, rng) -> None:
    """12 products, 9 customers, 18 orders; totals, prices, stocks and a month's sales differ, so every order is strict."""
    customers = rng.sample(PEOPLE, 9)
    rows = [(name, rng.choice(GROUPS), rng.choice(CITIES), str(rng.randint(100, 999))) for name in customers]
    db.executemany("INSERT INTO shop_admin_customers VALUES (?, ?, ?, ?)", rows)
    products = [name.capitalize() for name in distinct(rng, phrase, 12)]
    _add_products(db, rng, products)
    _add_orders(db, rng, customers, products)
    titles = [title.capitalize() for title in distinct(rng, phrase, 14)]
    rows = [
        (rng.choice(products), rng.choice(customers), title, rng.randint(1, 5), rng.choice(REVIEW_STATES)) for title in titles[:10]
    ]
    db.executemany("INSERT INTO shop_admin_reviews (product, author, title, stars, state) VALUES (?, ?, ?, ?, ?)", rows)
    rows = [(title, rng.choice(GROUPS), rng.randint(5, 60), _code(rng), "Active") for title in titles[10:]]
    db.executemany("INSERT INTO shop_admin_coupons (name, team, percent, code, state) VALUES (?, ?, ?, ?, ?)", rows)


def _add_products(db, rng, names) -> None:
    prices, stocks = rng.sample(range(10, 99), len(names)), rng.sample(range(1, 60), len(names))
    rows = [(*row, rng.choice(("Enabled", "Enabled", "Disabled"))) for row in zip(names, prices, stocks)]
    db.executemany("INSERT INTO shop_admin_products (name, price, stock, state) VALUES (?, ?, ?, ?)", rows)
    rows = [(name, month, sold) for month in MONTHS for name, sold in zip(names, rng.sample(range(3, 99), len(names)))]
    db.executemany("INSERT INTO shop_admin_sales VALUES (?, ?, ?)", rows)


def _add_orders(db, rng, customers, products) -> None:
    """18 orders in the order of their days; two in three have an invoice."""
    numbers = sorted(rng.sample(range(101, 199), 18))
    invoices = rng.sample(range(201, 299), 18)
    days = sorted(rng.sample(range(1, 29), 18))
    for number, invoice, day, total in zip(numbers, invoices, days, rng.sample(range(20, 300), 18)):
        customer = rng.choice(customers)
        row = (number, customer, rng.choice(products), total, rng.choice(PAYMENTS), f"May {day}", rng.choice(ORDER_STATES))
        columns = "(id, customer, product, total, payment, day, state)"
        db.execute(f"INSERT INTO shop_admin_orders {columns} VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        if rng.random() < 2 / 3:
            row = (invoice, number, customer, total, f"June {rng.randint(1, 28)}", rng.choice(INVOICE_STATES))
            db.execute("INSERT INTO shop_admin_invoices VALUES (?, ?, ?, ?, ?, ?)", row)


def _code(rng) -> str:
    return phrase(rng).replace(" ", "-")


def orders_query(customer="", state=ANY, sort="Newest") -> tuple:
    """SQL and arguments for the orders whose customer's name contains `customer`."""
    return _matching("orders", {"customer": customer}, {"state": state}, ORDER_SORTS.get(sort, "id DESC"))


def invoices_query(customer="", state=ANY) -> tuple:
    return _matching("invoices", {"customer": customer}, {"state": state}, "id")


def products_query(name="", state=ANY, sort="Name") -> tuple:
    return _matching("products", {"name": name}, {"state": state}, PRODUCT_SORTS.get(sort, "name"))


def customers_query(name="", team=ANY) -> tuple:
    return _matching("customers", {"name": name}, {"team": team}, "name")


def reviews_query(product="", state=ANY) -> tuple:
    return _matching("reviews", {"product": product}, {"state": state}, "id DESC")


def bestsellers_query(month) -> tuple:
    """The five products that sold most in a month."""
    return (
        "SELECT p.id, p.name, sold FROM shop_admin_sales s JOIN shop_admin_products p ON p.name = s.product "
        "WHERE month = ? ORDER BY sold DESC LIMIT 5",
        month,
    )


def low_stock_query(limit: int) -> tuple:
    return "SELECT * FROM shop_admin_products WHERE stock < ? ORDER BY stock", limit


def spending_query(state) -> tuple:
    """The five customers who spent most in orders of a state."""
    return (
        "SELECT customer, sum(total) AS spent FROM shop_admin_orders WHERE state = ? GROUP BY customer "
        "ORDER BY spent DESC, customer LIMIT 5",
        state,
    )


def _matching(table, parts, wholes, order) -> tuple:
    """Rows that contain the text of `parts` and equal `wholes`, where it is not `ANY`."""
    wholes = {column: value for column, value in wholes.items() if value != ANY}
    where = " AND ".join([f"instr({column}, ?)" for column in parts] + [f"{column} = ?" for column in wholes])
    return f"SELECT * FROM shop_admin_{table} WHERE {where} ORDER BY {order}", *parts.values(), *wholes.values()
