"""Task templates of the back office in which what one page says is needed on the next."""

from __future__ import annotations

from environment.websites.authoring import Draft, answer_is, both, click, ends_at, page_shows, stop, subgoal, type_into
from environment.websites.shop_admin.contents import INVOICE_STATES, PAGE, orders_query, reviews_query
from environment.websites.shop_admin.questions import (
    HOME,
    billed_order,
    find,
    listed,
    sorted_orders,
    the_only_one,
    to_orders,
    to_reviews,
)


def detail_of_reviewer(db, rng) -> Draft:
    review = the_only_one(db, rng, "reviews", reviews_query, "product")
    product, state, author = review["product"], review["state"], review["author"]
    column = rng.choice(["city", "phone"])
    answer = db.execute("SELECT * FROM shop_admin_customers WHERE name = ?", (author,)).fetchone()[column]
    return Draft(
        intents=[
            f'What is the {column} of the customer who wrote the review of "{product}" with status "{state}"?',
            f'Who wrote the "{state}" review of the product "{product}"? Tell me the {column} of that customer',
            f'Find the author of the "{state}" review of "{product}" among the customers and name the {column}',
        ],
        start=HOME,
        eval=answer_is(answer),
        subgoals=_reviewer_subgoals(review),
        oracle=[*_to_reviewer(review), stop(answer)],
    )


def open_reviewer(db, rng) -> Draft:
    review = the_only_one(db, rng, "reviews", reviews_query, "product")
    product, state = review["product"], review["state"]
    return Draft(
        intents=[
            f'Open the page of the customer who wrote the review of "{product}" with status "{state}"',
            f'Who wrote the "{state}" review of the product "{product}"? Show me that customer',
            f'Go to the customer who is the author of the "{state}" review of "{product}"',
        ],
        start=HOME,
        eval=ends_at(f"{HOME}/customers/{review['author']}"),
        subgoals=_reviewer_subgoals(review),
        oracle=[*_to_reviewer(review), stop()],
    )


def stock_of_ordered_product(db, rng) -> Draft:
    order, product = _ordered(db, rng)
    customer, number = order["customer"], order["id"]
    return Draft(
        intents=[
            f'How many pieces of the product in "Order {number}" of the customer "{customer}" are in stock?',
            f'Look up which product "{customer}" bought with "Order {number}" and tell me its stock',
            f'What is the stock of the product that is in "Order {number}" by "{customer}"?',
        ],
        start=HOME,
        eval=answer_is(str(product["stock"])),
        subgoals=_ordered_subgoals(order, product),
        oracle=[*_to_ordered(order, product), stop(str(product["stock"]))],
    )


def restock_ordered_product(db, rng) -> Draft:
    order, product = _ordered(db, rng)
    customer, number = order["customer"], order["id"]
    stock = str(rng.choice([stock for stock in range(10, 99) if stock != product["stock"]]))
    saved = ("SELECT 1 FROM shop_admin_products WHERE id = ? AND stock = ?", product["id"], int(stock))
    return Draft(
        intents=[
            f'Set the stock of the product in "Order {number}" of the customer "{customer}" to "{stock}"',
            f'Look up which product "{customer}" bought with "Order {number}" and change its stock to "{stock}"',
            f'The product in "Order {number}" by "{customer}" should have "{stock}" pieces in stock',
        ],
        start=HOME,
        eval=page_shows((f"{HOME}/products/{product['id']}", "main", [f"Stock: {stock} pieces"])),
        subgoals=[*_ordered_subgoals(order, product)[1:], subgoal("Save the stock", db=saved)],
        oracle=[
            *_to_ordered(order, product),
            click("link", "Edit product"),
            type_into("Stock", stock),
            click("button", "Save product"),
            stop(),
        ],
    )


def settle_and_tell_amount(db, rng) -> Draft:
    customer, sort, what, order, invoice = billed_order(db, rng, INVOICE_STATES[0])
    amount = f"${invoice['amount']}"
    return Draft(
        intents=[
            f'Mark the invoice of the order with {what} by "{customer}" as settled and tell me its amount',
            f'"{customer}" has paid the invoice of the order with {what}: mark it as settled. What was the amount?',
            f'Find the order of "{customer}" with {what}, settle its invoice, and name the amount of that invoice',
        ],
        start=HOME,
        eval=both(answer_is(amount), page_shows((f"{HOME}/invoices/{invoice['id']}", "main", ["Status: Settled"]))),
        subgoals=[
            subgoal("Open the orders", path="^/shop_admin/orders"),
            subgoal(f'Find the order of "{customer}" with {what}', path=f"^/shop_admin/orders/{order['id']}$"),
            subgoal("Open its invoice", path=f"^/shop_admin/invoices/{invoice['id']}$"),
            subgoal("Mark it as settled", db=("SELECT 1 FROM shop_admin_invoices WHERE id = ? AND state = 'Settled'", invoice["id"])),
        ],
        oracle=[
            *sorted_orders(customer, sort),
            click("link", f"Order {order['id']}"),
            click("link", "View invoice"),
            click("button", "Mark as settled"),
            stop(amount),
        ],
    )


TEMPLATES = (
    detail_of_reviewer,
    open_reviewer,
    stock_of_ordered_product,
    restock_ordered_product,
    settle_and_tell_amount,
)


# --- pieces that several templates share ---------------------------------------------------------------------------


def to_customer(name: str) -> list:
    return [click("link", "Customers"), *find("Name", name), click("link", name)]


def _to_reviewer(review) -> list:
    return [
        *to_reviews(),
        *find("Product", review["product"], Status=review["state"]),
        click("link", review["title"]),
        *to_customer(review["author"]),
    ]


def _reviewer_subgoals(review) -> list:
    return [
        subgoal("Open the reviews", path="^/shop_admin/reviews"),
        subgoal("Open the review and see who wrote it", path=f"^/shop_admin/reviews/{review['id']}$"),
        subgoal("Open the customers", path="^/shop_admin/customers"),
        subgoal("Open the customer who wrote it", path=f"^/shop_admin/customers/{review['author']}$"),
    ]


def _ordered(db, rng) -> tuple:
    """An order that is on the first page of its customer's, and its product."""
    orders = db.execute("SELECT * FROM shop_admin_orders ORDER BY id").fetchall()
    order = rng.choice([row for row in orders if row in listed(db, orders_query(row["customer"]))[:PAGE]])
    return order, db.execute("SELECT * FROM shop_admin_products WHERE name = ?", (order["product"],)).fetchone()


def _to_ordered(order, product) -> list:
    return [
        *to_orders(),
        *find("Customer", order["customer"]),
        click("link", f"Order {order['id']}"),
        click("link", "Products"),
        *find("Name", product["name"]),
        click("link", product["name"]),
    ]


def _ordered_subgoals(order, product) -> list:
    return [
        subgoal("Open the orders", path="^/shop_admin/orders"),
        subgoal(f'Open "Order {order["id"]}" and see its product', path=f"^/shop_admin/orders/{order['id']}$"),
        subgoal("Find the product among the products", path="^/shop_admin/products.*name=.", page=[f'link "{product["name"]}"']),
        subgoal("Open the product", path=f"^/shop_admin/products/{product['id']}$"),
    ]
