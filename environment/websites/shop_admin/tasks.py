"""Task templates of the back office: things to do.  (``questions`` has those to find out.)"""

from __future__ import annotations

from environment.websites.authoring import Draft, Unsuitable, both, click, ends_at, page_shows, select, stop, subgoal, type_into
from environment.websites.shop_admin import questions
from environment.websites.shop_admin.contents import (
    CITIES,
    GROUPS,
    INVOICE_STATES,
    ORDER_STATES,
    PAGE,
    PRODUCT_SORTS,
    PRODUCT_STATES,
    customers_query,
    orders_query,
    products_query,
    reviews_query,
)
from environment.websites.shop_admin.questions import (
    HOME,
    bestseller,
    billed_order,
    find,
    listed,
    sorted_orders,
    the_only_one,
    to_bestseller,
    to_orders,
    to_reviews,
)
from environment.websites.words import phrase

LEADERS = {"Lowest stock": "the lowest stock", "Highest price": "the highest price", "Lowest price": "the lowest price"}


def update_order(db, rng) -> Draft:
    order = the_only_one(db, rng, "orders", orders_query, "customer")
    customer, before, number = order["customer"], order["state"], order["id"]
    after, note = rng.choice([state for state in ORDER_STATES if state != before]), phrase(rng)
    return Draft(
        intents=[
            f'Change the order of "{customer}" with status "{before}" to "{after}" and add the note "{note}"',
            f'Find the "{before}" order of the customer "{customer}"; set its status to "{after}" and its note to "{note}"',
            f'The "{before}" order by "{customer}" should become "{after}", with the note "{note}"',
        ],
        start=HOME,
        eval=page_shows((f"{HOME}/orders/{number}", "main", [f"Status: {after}", f"Note: {note}"])),
        subgoals=[
            subgoal("Open the orders", path="^/shop_admin/orders"),
            subgoal(f'Filter by customer "{customer}" and status "{before}"', path=f"customer={customer}&state={before}"),
            subgoal("Open the order", path=f"^/shop_admin/orders/{number}$"),
            subgoal(
                "Save the new status and the note",
                db=("SELECT 1 FROM shop_admin_orders WHERE id = ? AND state = ? AND note = ?", number, after, note),
            ),
        ],
        oracle=[
            *to_orders(),
            *find("Customer", customer, Status=before),
            click("link", f"Order {number}"),
            select("Order status", after),
            type_into("Note", note),
            click("button", "Update order"),
            stop(),
        ],
    )


def create_invoice(db, rng) -> Draft:
    bare = "SELECT * FROM shop_admin_orders WHERE id NOT IN (SELECT order_id FROM shop_admin_invoices) ORDER BY id"
    orders = [row for row in db.execute(bare) if row in listed(db, orders_query(row["customer"]))[:PAGE]]
    if not orders:
        raise Unsuitable("all orders have an invoice")
    order = rng.choice(orders)
    customer, number = order["customer"], order["id"]
    invoice = db.execute("SELECT max(id) + 1 FROM shop_admin_invoices").fetchone()[0]
    billed = ("SELECT 1 FROM shop_admin_invoices WHERE order_id = ?", number)
    return Draft(
        intents=[
            f'Create an invoice for "Order {number}" of the customer "{customer}"',
            f'"{customer}" needs an invoice for "Order {number}": create it',
            f'Bill "{customer}" for "Order {number}" with a new invoice',
        ],
        start=HOME,
        eval=both(page_shows((f"{HOME}/invoices/{invoice}", "main", [f"Order {number}", customer])), ends_at(f"{HOME}/invoices/{invoice}")),
        subgoals=[
            subgoal("Open the orders", path="^/shop_admin/orders"),
            subgoal(f'Open "Order {number}"', path=f"^/shop_admin/orders/{number}$"),
            subgoal("Ask for the invoice", path=f"^/shop_admin/orders/{number}$", page=['button "Yes, create"']),
            subgoal("Confirm", db=billed),
        ],
        oracle=[
            *to_orders(),
            *find("Customer", customer),
            click("link", f"Order {number}"),
            click("button", "Create invoice"),
            click("button", "Yes, create"),
            stop(),
        ],
    )


def settle_invoice(db, rng) -> Draft:
    customer, sort, what, order, invoice = billed_order(db, rng, INVOICE_STATES[0])
    return Draft(
        intents=[
            f'Mark the invoice of the order with {what} by "{customer}" as settled',
            f'"{customer}" has paid the invoice of the order with {what}: mark it as settled',
            f'Find the order of "{customer}" with {what} and settle its invoice',
        ],
        start=HOME,
        eval=page_shows((f"{HOME}/invoices/{invoice['id']}", "main", ["Status: Settled"])),
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
            stop(),
        ],
    )


def add_product(db, rng) -> Draft:
    name, price, stock = phrase(rng).capitalize(), str(rng.randint(10, 99)), str(rng.randint(10, 99))
    if db.execute("SELECT 1 FROM shop_admin_products WHERE name = ?", (name,)).fetchone():
        raise Unsuitable(f"{name} exists")
    product = db.execute("SELECT max(id) + 1 FROM shop_admin_products").fetchone()[0]
    return Draft(
        intents=[
            f'Add the product "{name}" with price "{price}", stock "{stock}" and status "Enabled"',
            f'Create a new "Enabled" product "{name}": price "{price}", stock "{stock}"',
            f'Put "{name}" in the shop, status "Enabled", for "{price}" dollars each with "{stock}" in stock',
        ],
        start=HOME,
        eval=page_shows(
            (f"{HOME}/products/{product}", "main", [name, f"Price: ${price} each", f"Stock: {stock} pieces", "Status: Enabled"])
        ),
        subgoals=[
            subgoal("Open the products", path="^/shop_admin/products"),
            subgoal("Open the form for a new product", path="^/shop_admin/products/new"),
            subgoal("Enter the name and the price", page=[f'textbox "Name" "{name}"', f'textbox "Price" "{price}"']),
            subgoal("Save the product", db=("SELECT 1 FROM shop_admin_products WHERE name = ?", name)),
        ],
        oracle=[
            click("link", "Products"),
            click("link", "New product"),
            type_into("Name", name),
            type_into("Price", price),
            type_into("Stock", stock),
            select("Status", "Enabled"),
            click("button", "Save product"),
            stop(),
        ],
    )


def restock_product(db, rng) -> Draft:
    product = rng.choice(db.execute("SELECT * FROM shop_admin_products ORDER BY id").fetchall())
    name, price, stock = product["name"], _other(rng, product["price"]), _other(rng, product["stock"])
    return Draft(
        intents=[
            f'Change the price of the product "{name}" to "{price}" and its stock to "{stock}"',
            f'Set "{name}" to price "{price}" and stock "{stock}"',
            f'The product "{name}" should cost "{price}" dollars and have "{stock}" in stock',
        ],
        start=HOME,
        eval=page_shows((f"{HOME}/products/{product['id']}", "main", [f"Price: ${price} each", f"Stock: {stock} pieces"])),
        subgoals=[
            subgoal("Open the products", path="^/shop_admin/products"),
            subgoal(f'Find the product "{name}"', path=f"^/shop_admin/products/{product['id']}"),
            subgoal("Open its edit form", path=f"^/shop_admin/products/{product['id']}/edit"),
            subgoal(
                "Save the price and the stock",
                db=("SELECT 1 FROM shop_admin_products WHERE name = ? AND price = ? AND stock = ?", name, int(price), int(stock)),
            ),
        ],
        oracle=[
            click("link", "Products"),
            *find("Name", name),
            click("link", name),
            click("link", "Edit product"),
            type_into("Price", price),
            type_into("Stock", stock),
            click("button", "Save product"),
            stop(),
        ],
    )


def disable_leading_product(db, rng) -> Draft:
    sort = rng.choice([*PRODUCT_SORTS][1:])
    product = listed(db, products_query(state="Enabled", sort=sort))[0]
    return Draft(
        intents=[
            f'Of all products with status "Enabled", set the one with {LEADERS[sort]} to "Disabled"',
            f'Find the "Enabled" product that has {LEADERS[sort]} and make it "Disabled"',
            f'The product with {LEADERS[sort]} among those with status "Enabled" should become "Disabled"',
        ],
        start=HOME,
        eval=page_shows((f"{HOME}/products/{product['id']}", "main", ["Status: Disabled"])),
        subgoals=[
            subgoal("Open the products", path="^/shop_admin/products"),
            subgoal(f"Show the enabled products by {sort.lower()}", path=f"state=Enabled&sort={sort.replace(' ', '.')}"),
            subgoal("Open the edit form of the first product", path=f"^/shop_admin/products/{product['id']}/edit"),
            subgoal("Disable it", db=("SELECT 1 FROM shop_admin_products WHERE id = ? AND state = 'Disabled'", product["id"])),
        ],
        oracle=[
            click("link", "Products"),
            select("Status", "Enabled"),
            select("Sort by", sort),
            click("button", "Apply"),
            click("link", product["name"]),
            click("link", "Edit product"),
            select("Status", PRODUCT_STATES[1]),
            click("button", "Save product"),
            stop(),
        ],
    )


def price_bestseller(db, rng) -> Draft:
    month, product = bestseller(db, rng)
    price = _other(rng, product["price"])
    return Draft(
        intents=[
            f'Change the price of the bestseller of "{month}" to "{price}"',
            f'Find the product that sold most in "{month}" and set its price to "{price}"',
            f'The product with the most sales in "{month}" should cost "{price}" dollars',
        ],
        start=HOME,
        eval=page_shows((f"{HOME}/products/{product['id']}", "main", [f"Price: ${price} each"])),
        subgoals=[
            subgoal("Open the bestsellers report", path="^/shop_admin/reports/bestsellers"),
            subgoal(f'Show the month "{month}"', path=f"month={month}"),
            subgoal("Open the edit form of the first product", path=f"^/shop_admin/products/{product['id']}/edit"),
            subgoal("Save the price", db=("SELECT 1 FROM shop_admin_products WHERE id = ? AND price = ?", product["id"], int(price))),
        ],
        oracle=[
            *to_bestseller(month, product),
            click("link", "Edit product"),
            type_into("Price", price),
            click("button", "Save product"),
            stop(),
        ],
    )


def move_customer(db, rng) -> Draft:
    row = rng.choice(listed(db, customers_query()))
    name, team = row["name"], rng.choice([group for group in GROUPS if group != row["team"]])
    city = rng.choice([city for city in CITIES if city != row["city"]])
    return Draft(
        intents=[
            f'Move the customer "{name}" to the group "{team}" and the city "{city}"',
            f'Set the group of the customer "{name}" to "{team}" and the city to "{city}"',
            f'"{name}" now lives in "{city}" and belongs to the group "{team}": update the customer',
        ],
        start=HOME,
        eval=page_shows((f"{HOME}/customers/{name}", "main", [f"Group: {team}", f"City: {city}"])),
        subgoals=[
            subgoal("Open the customers", path="^/shop_admin/customers"),
            subgoal(f'Find the customer "{name}"', path=f"^/shop_admin/customers/{name}"),
            subgoal("Open the edit form", path=f"^/shop_admin/customers/{name}/edit"),
            subgoal(
                "Save the group and the city",
                db=("SELECT 1 FROM shop_admin_customers WHERE name = ? AND team = ? AND city = ?", name, team, city),
            ),
        ],
        oracle=[
            click("link", "Customers"),
            *find("Name", name),
            click("link", name),
            click("link", "Edit customer"),
            select("Group", team),
            select("City", city),
            click("button", "Save customer"),
            stop(),
        ],
    )


def answer_review(db, rng) -> Draft:
    review = the_only_one(db, rng, "reviews", reviews_query, "product", "Waiting")
    product, reply, (button, state) = review["product"], phrase(rng), rng.choice([("Approve", "Approved"), ("Reject", "Rejected")])
    return Draft(
        intents=[
            f'{button} the review of "{product}" that has status "Waiting", with the reply "{reply}"',
            f'Reply "{reply}" to the "Waiting" review of the product "{product}" and {button.lower()} it',
            f'Find the review of "{product}" with status "Waiting", reply "{reply}" and {button.lower()} it',
        ],
        start=HOME,
        eval=page_shows((f"{HOME}/reviews/{review['id']}", "main", [f"Status: {state}", f"Reply: {reply}"])),
        subgoals=[
            subgoal("Open the reviews", path="^/shop_admin/reviews"),
            subgoal(f'Filter by product "{product}"', path="^/shop_admin/reviews.product=.", page=[f'link "{review["title"]}"']),
            subgoal("Open the review", path=f"^/shop_admin/reviews/{review['id']}$"),
            subgoal(f"{button} it", db=("SELECT 1 FROM shop_admin_reviews WHERE id = ? AND state = ?", review["id"], state)),
        ],
        oracle=[
            *to_reviews(),
            *find("Product", product, Status="Waiting"),
            click("link", review["title"]),
            type_into("Your reply", reply),
            click("button", button),
            stop(),
        ],
    )


def new_coupon(db, rng) -> Draft:
    name, team, percent, code = phrase(rng).capitalize(), rng.choice(GROUPS[1:]), str(rng.randint(10, 60)), phrase(rng).replace(" ", "-")
    coupon = db.execute("SELECT max(id) + 1 FROM shop_admin_coupons").fetchone()[0]
    return Draft(
        intents=[
            f'Create a coupon "{name}" for the group "{team}" with a discount of "{percent}" percent and the code "{code}"',
            f'Set up the coupon "{name}": group "{team}", discount "{percent}" percent, code "{code}"',
            f'Give the group "{team}" a new coupon named "{name}" with "{percent}" percent off and code "{code}"',
        ],
        start=HOME,
        eval=page_shows(
            (f"{HOME}/coupons/{coupon}", "main", [name, f"Group: {team}", f"Discount: {percent} percent", f"Code: {code}"])
        ),
        subgoals=[
            subgoal("Open the form for a new coupon", path="^/shop_admin/coupons/new"),
            subgoal("Fill in the first page", path=f"^/shop_admin/coupons/new/terms.*team={team}"),
            subgoal("Enter the discount and the code", page=[f'textbox "Discount percent" "{percent}"', f'textbox "Code" "{code}"']),
            subgoal("Create the coupon", path=f"^/shop_admin/coupons/{coupon}$"),
        ],
        oracle=[
            click("button", "Marketing"),
            click("link", "Coupons"),
            click("link", "New coupon"),
            type_into("Coupon name", name),
            select("Group", team),
            click("button", "Continue"),
            type_into("Discount percent", percent),
            type_into("Code", code),
            click("button", "Create coupon"),
            stop(),
        ],
    )


TEMPLATES = (
    update_order,
    create_invoice,
    settle_invoice,
    add_product,
    restock_product,
    disable_leading_product,
    price_bestseller,
    move_customer,
    answer_review,
    new_coupon,
    *questions.TEMPLATES,
)


# --- pieces that several templates share ---------------------------------------------------------------------------


def _other(rng, number: int) -> str:
    """A two-digit number that is not `number`."""
    return str(rng.choice([other for other in range(10, 99) if other != number]))
