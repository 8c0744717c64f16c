"""Task templates of the back office: things to find out, and the pieces that all its templates share."""

from __future__ import annotations

from environment.websites.authoring import Draft, Unsuitable, answer_is, click, ends_at, select, stop, subgoal, type_into
from environment.websites.shop_admin.contents import (
    INVOICE_STATES,
    MONTHS,
    ORDER_STATES,
    bestsellers_query,
    invoices_query,
    low_stock_query,
    orders_query,
    reviews_query,
    spending_query,
)

HOME = "__SHOP_ADMIN__"
EXTREMES = {"Highest total": "the highest total", "Lowest total": "the lowest total"}


def detail_of_extreme_order(db, rng) -> Draft:
    customer, sort, what, order = rng.choice(_extreme_orders(db))
    column, noun = rng.choice([("payment", "payment"), ("day", "date"), ("product", "product")])
    return Draft(
        intents=[
            f'What is the {noun} of the order by "{customer}" with {what}?',
            f'Look at the orders of the customer "{customer}" and name the {noun} of the one with {what}',
            f'Find the order with {what} by "{customer}" and tell me its {noun}',
        ],
        start=HOME,
        eval=answer_is(order[column]),
        subgoals=_to_extreme(customer, sort, order),
        oracle=[*sorted_orders(customer, sort), click("link", f"Order {order['id']}"), stop(order[column])],
    )


def open_invoice_of_order(db, rng) -> Draft:
    customer, sort, what, order, invoice = billed_order(db, rng, *INVOICE_STATES)
    return Draft(
        intents=[
            f'Open the invoice of the order by "{customer}" with {what}',
            f'Show me the invoice for the order of the customer "{customer}" with {what}',
            f'Go to the invoice of the order with {what} by "{customer}"',
        ],
        start=HOME,
        eval=ends_at(f"{HOME}/invoices/{invoice['id']}"),
        subgoals=[
            *_to_extreme(customer, sort, order)[1:],
            subgoal("Open its invoice", path=f"^/shop_admin/invoices/{invoice['id']}$"),
        ],
        oracle=[*sorted_orders(customer, sort), click("link", f"Order {order['id']}"), click("link", "View invoice"), stop()],
    )


def detail_of_invoice(db, rng) -> Draft:
    invoice = the_only_one(db, rng, "invoices", invoices_query, "customer")
    customer, state = invoice["customer"], invoice["state"]
    noun, answer = rng.choice([("due date", invoice["due"]), ("amount", f"${invoice['amount']}")])
    return Draft(
        intents=[
            f'What is the {noun} of the invoice for "{customer}" with status "{state}"?',
            f'Find the "{state}" invoice of the customer "{customer}" and tell me its {noun}',
            f'Name the {noun} of the "{state}" invoice of "{customer}"',
        ],
        start=HOME,
        eval=answer_is(answer),
        subgoals=[
            subgoal("Open the menu of the sales pages", page=['link "Invoices"']),
            subgoal("Open the invoices", path="^/shop_admin/invoices"),
            subgoal(f'Filter by customer "{customer}" and status "{state}"', path=f"customer={customer}&state={state}"),
            subgoal("Open the invoice", path=f"^/shop_admin/invoices/{invoice['id']}$"),
        ],
        oracle=[
            click("button", "Sales"),
            click("link", "Invoices"),
            *find("Customer", customer, Status=state),
            click("link", f"Invoice {invoice['id']}"),
            stop(answer),
        ],
    )


def author_of_review(db, rng) -> Draft:
    review = the_only_one(db, rng, "reviews", reviews_query, "product")
    product, state = review["product"], review["state"]
    return Draft(
        intents=[
            f'Who wrote the review of "{product}" that has status "{state}"?',
            f'Name the author of the "{state}" review of the product "{product}"',
            f'Find the review of "{product}" with status "{state}" and tell me its author',
        ],
        start=HOME,
        eval=answer_is(review["author"]),
        subgoals=[
            subgoal("Open the menu of the marketing pages", page=['link "Reviews"']),
            subgoal("Open the reviews", path="^/shop_admin/reviews"),
            subgoal(f'Filter by product "{product}" and status "{state}"', path=f"product=.+&state={state}"),
            subgoal("Open the review", path=f"^/shop_admin/reviews/{review['id']}$"),
        ],
        oracle=[
            *to_reviews(),
            *find("Product", product, Status=state),
            click("link", review["title"]),
            stop(review["author"]),
        ],
    )


def stock_of_bestseller(db, rng) -> Draft:
    month, product = bestseller(db, rng)
    return Draft(
        intents=[
            f'How many pieces of the bestseller of "{month}" are in stock?',
            f'Find the product that sold most in "{month}" and tell me its stock',
            f'What is the stock of the product with the most sales in "{month}"?',
        ],
        start=HOME,
        eval=answer_is(str(product["stock"])),
        subgoals=[
            subgoal("Open the reports", path="^/shop_admin/reports"),
            subgoal("Open the bestsellers", path="^/shop_admin/reports/bestsellers"),
            subgoal(f'Show the month "{month}"', path=f"month={month}"),
            subgoal("Open the first product", path=f"^/shop_admin/products/{product['id']}$"),
        ],
        oracle=[*to_bestseller(month, product), stop(str(product["stock"]))],
    )


def detail_of_best_customer(db, rng) -> Draft:
    state = rng.choice(ORDER_STATES)
    first, second = (listed(db, spending_query(state)) + [None, None])[:2]
    if not second or first["spent"] == second["spent"]:
        raise Unsuitable("nobody spent most")
    customer = db.execute("SELECT * FROM shop_admin_customers WHERE name = ?", (first["customer"],)).fetchone()
    column = rng.choice(["city", "phone"])
    return Draft(
        intents=[
            f'What is the {column} of the customer who spent most in orders with status "{state}"?',
            f'Find the customer with the highest spending in "{state}" orders and tell me the {column}',
            f'Name the {column} of the customer who spent the most on "{state}" orders',
        ],
        start=HOME,
        eval=answer_is(customer[column]),
        subgoals=[
            subgoal("Open the reports", path="^/shop_admin/reports"),
            subgoal("Open the spending report", path="^/shop_admin/reports/spending"),
            subgoal(f'Show the order status "{state}"', path=f"spending.*state={state}"),
            subgoal("Open the first customer", path=f"^/shop_admin/customers/{customer['name']}$"),
        ],
        oracle=[
            click("link", "Reports"),
            click("link", "Spending"),
            select("Order status", state),
            click("button", "Show report"),
            click("link", customer["name"]),
            stop(customer[column]),
        ],
    )


def count_low_stock(db, rng) -> Draft:
    limit = str(rng.randint(12, 50))
    count = len(listed(db, low_stock_query(int(limit))))
    return Draft(
        intents=[
            f'How many products have a stock below "{limit}"?',
            f'Count the products with fewer than "{limit}" pieces in stock',
            f'Use the low stock report: how many products are below "{limit}"?',
        ],
        start=HOME,
        eval=answer_is(str(count)),
        subgoals=[
            subgoal("Open the reports", path="^/shop_admin/reports"),
            subgoal("Open the low stock report", path="^/shop_admin/reports/low_stock"),
            subgoal(f'Enter "{limit}"', page=[f'textbox "Stock below" "{limit}"']),
            subgoal("Show the report", path=f"low_stock.limit={limit}$"),
        ],
        oracle=[
            click("link", "Reports"),
            click("link", "Low stock"),
            type_into("Stock below", limit),
            click("button", "Show report"),
            stop(str(count)),
        ],
    )


TEMPLATES = (
    detail_of_extreme_order,
    open_invoice_of_order,
    detail_of_invoice,
    author_of_review,
    stock_of_bestseller,
    detail_of_best_customer,
    count_low_stock,
)


# --- pieces that several templates share ---------------------------------------------------------------------------


def listed(db, query: tuple) -> list:
    """The rows of a query of ``contents``."""
    sql, *arguments = query
    return db.execute(sql, arguments).fetchall()


def the_only_one(db, rng, table: str, build_query, column: str, state: str = ""):
    """A row that its list shows alone when filtered by `column` and state; with `state`, one in that state."""
    rows = [row for row in db.execute(f"SELECT * FROM shop_admin_{table} ORDER BY id") if state in ("", row["state"])]
    alone = [row for row in rows if len(listed(db, build_query(row[column], row["state"]))) == 1]
    if not alone:
        raise Unsuitable(f"no row of {table} stands alone")
    return rng.choice(alone)


def bestseller(db, rng) -> tuple:
    """A month, and the product that sold most in it."""
    month = rng.choice(MONTHS)
    first = listed(db, bestsellers_query(month))[0]
    return month, db.execute("SELECT * FROM shop_admin_products WHERE id = ?", (first["id"],)).fetchone()


def billed_order(db, rng, *states: str) -> tuple:
    """One of `_extreme_orders`, the order having an invoice in one of `states`, and that invoice."""
    invoices = {row["order_id"]: row for row in db.execute("SELECT * FROM shop_admin_invoices") if row["state"] in states}
    found = [(*extreme, invoices[extreme[-1]["id"]]) for extreme in _extreme_orders(db) if extreme[-1]["id"] in invoices]
    if not found:
        raise Unsuitable("no such order has such an invoice")
    return rng.choice(found)


def to_orders() -> list:
    return [click("button", "Sales"), click("link", "Orders")]


def to_reviews() -> list:
    return [click("button", "Marketing"), click("link", "Reviews")]


def to_bestseller(month: str, product) -> list:
    return [
        click("link", "Reports"),
        click("link", "Bestsellers"),
        select("Month", month),
        click("button", "Show report"),
        click("link", product["name"]),
    ]


def find(field: str, text: str, **choices: str) -> list:
    """Fill in a list's filters and apply them."""
    return [type_into(field, text), *(select(name, option) for name, option in choices.items()), click("button", "Apply")]


def sorted_orders(customer: str, sort: str) -> list:
    return [
        *to_orders(),
        type_into("Customer", customer),
        select("Sort by", sort),
        click("button", "Apply"),
    ]


def _extreme_orders(db) -> list[tuple]:
    """All of (customer, sort, its words, the customer's first order in that order) where there is something to sort."""
    found = []
    for (customer,) in db.execute("SELECT name FROM shop_admin_customers ORDER BY name").fetchall():
        for sort, what in EXTREMES.items():
            orders = listed(db, orders_query(customer, sort=sort))
            if len(orders) > 1 and orders[0]["customer"] == customer:
                found.append((customer, sort, what, orders[0]))
    return found


def _to_extreme(customer: str, sort: str, order) -> list:
    return [
        subgoal("Open the menu of the sales pages", page=['link "Orders"']),
        subgoal("Open the orders", path="^/shop_admin/orders"),
        subgoal(f'Sort the orders of "{customer}" by {sort.lower()}', path=f"customer={customer}&.*sort={sort.replace(' ', '.')}"),
        subgoal("Open the first order", path=f"^/shop_admin/orders/{order['id']}$"),
    ]
