"""Task templates that need two sites: what the first one says is written, or looked up, on the second.

All sites of a world share an origin, so the agent moves by ``goto`` with the address that the intent gives.
"""

from __future__ import annotations

from environment.websites.authoring import (
    Draft,
    Unsuitable,
    answer_is,
    click,
    ends_at,
    goto,
    page_shows,
    select,
    stop,
    subgoal,
    type_into,
)
from environment.websites.forum import tasks as forum
from environment.websites.forum.site import USER
from environment.websites.gitlab.contents import ROLES, date
from environment.websites.gitlab.lookups import inviting
from environment.websites.gitlab.questions import some_project, team, to_issues, to_members
from environment.websites.map.tasks import all_places
from environment.websites.map.tasks import search as search_map
from environment.websites.shop.contents import CITIES
from environment.websites.shop.tasks import checkout, checkout_subgoals, order_shows, some_product
from environment.websites.shop.tasks import search as search_shop
from environment.websites.shop_admin.contents import PRODUCT_SORTS, products_query
from environment.websites.shop_admin.lookups import to_customer
from environment.websites.shop_admin.questions import listed
from environment.websites.shop_admin.tasks import LEADERS
from environment.websites.words import person, phrase


def post_phone_of_place(db, rng) -> Draft:
    place, post = rng.choice(all_places(db)), forum.some_post(db, rng)
    name, title, phone = place["name"], post["title"], place["phone"]
    posted = ("SELECT 1 FROM forum_comments WHERE post_id = ? AND author = ? AND body = ?", post["id"], USER, phone)
    return Draft(
        intents=[
            f'Look up the phone of "{name}" on the map and comment it on the post "{title}" in the forum at "/forum"',
            f'In the forum at "/forum", comment on the post "{title}" the phone that "{name}" has on the map',
            f'Which phone does "{name}" have on the map? Leave it as a comment under "{title}" in the forum at "/forum"',
        ],
        start="__MAP__",
        eval=page_shows((f"__FORUM__/post/{post['id']}", "main", [f"{USER}: {phone}"])),
        subgoals=[
            subgoal(f'Open the place "{name}" on the map', path=f"^/map/place/{place['id']}$"),
            subgoal("Go to the forum", path="^/forum"),
            subgoal(f'Open the post "{title}"', path=f"^/forum/post/{post['id']}$"),
            subgoal("Comment the phone", db=posted),
        ],
        oracle=[
            *search_map(name),
            goto("/forum"),
            *forum.search(title),
            type_into("Your comment", phone),
            click("button", "Add comment"),
            stop(),
        ],
    )


def issue_for_leading_product(db, rng) -> Draft:
    sort, project = rng.choice([*PRODUCT_SORTS][1:]), some_project(db, rng)
    name = listed(db, products_query(state="Enabled", sort=sort))[0]["name"]
    issue = db.execute("SELECT max(id) + 1 FROM gitlab_issues").fetchone()[0]
    return Draft(
        intents=[
            f'Find the "Enabled" product that has {LEADERS[sort]} in the back office. Then create an issue with its name as title in the project "{project}" of the code host at "/gitlab"',
            f'In the code host at "/gitlab", open an issue in "{project}" titled with the name of the "Enabled" product with {LEADERS[sort]} in the back office',
            f'Which "Enabled" product of the back office has {LEADERS[sort]}? Make its name the title of a new issue in "{project}" in the code host at "/gitlab"',
        ],
        start="__SHOP_ADMIN__",
        eval=page_shows((f"__GITLAB__/issues/{issue}", "main", [name, project])),
        subgoals=[
            subgoal("Open the products in the back office", path="^/shop_admin/products"),
            subgoal(f"Show the enabled products by {sort.lower()}", path=f"state=Enabled&sort={sort.replace(' ', '.')}"),
            subgoal(f'Open the form for a new issue of "{project}"', path=f"^/gitlab/p/{project}/issues/new"),
            subgoal("Create the issue", db=("SELECT 1 FROM gitlab_issues WHERE title = ? AND project = ?", name, project)),
        ],
        oracle=[
            click("link", "Products"),
            select("Status", "Enabled"),
            select("Sort by", sort),
            click("button", "Apply"),
            goto("/gitlab"),
            *to_issues(project),
            click("link", "New issue"),
            type_into("Title", name),
            click("button", "Create issue"),
            stop(),
        ],
    )


def invite_poster(db, rng) -> Draft:
    post, project, role = forum.some_post(db, rng), some_project(db, rng), rng.choice(ROLES[1:])
    title, author, until = post["title"], post["author"], date(rng.randint(10, 28))
    if author in team(db, project):
        raise Unsuitable(f"{author} is a member")
    added = "SELECT 1 FROM gitlab_members WHERE project = ? AND person = ? AND role = ? AND until = ?"
    return Draft(
        intents=[
            f'Invite whoever wrote the forum post "{title}" to the project "{project}" in the code host at "/gitlab", as "{role}" with access until "{until}"',
            f'Who wrote "{title}" in the forum? Add that person to "{project}" in the code host at "/gitlab": role "{role}", access until "{until}"',
            f'In the code host at "/gitlab", give the author of the forum post "{title}" the role "{role}" in "{project}" until "{until}"',
        ],
        start="__FORUM__",
        eval=page_shows((f"__GITLAB__/p/{project}/member/{author}", "main", [f"{role} until {until}"])),
        subgoals=[
            subgoal(f'Open the post "{title}" in the forum', path=f"^/forum/post/{post['id']}$"),
            subgoal(f'Open the members of "{project}" in the code host', path=f"^/gitlab/p/{project}/members"),
            subgoal("Enter the author's name and the role", page=[f'textbox "User name" "{author}"', f'combobox "Role" "{role}"']),
            subgoal("Send the invitation", db=(added, project, author, role, until)),
        ],
        oracle=[
            *forum.search(title),
            goto("/gitlab"),
            *to_members(project),
            *inviting(author, role, until),
            stop(),
        ],
    )


def post_coupon_code(db, rng) -> Draft:
    coupon = rng.choice(db.execute("SELECT * FROM shop_admin_coupons ORDER BY id").fetchall())
    place = rng.choice([row["name"] for row in db.execute("SELECT name FROM forum_forums ORDER BY name")])
    name, code, title = coupon["name"], coupon["code"], phrase(rng).capitalize()
    post = db.execute("SELECT max(id) + 1 FROM forum_posts").fetchone()[0]
    return Draft(
        intents=[
            f'Look up the code of the coupon "{name}" in the back office and post it in the forum at "/forum": forum "{place}", title "{title}", the code as body',
            f'In the forum at "/forum", create a post titled "{title}" in "{place}". Its body is the code that the coupon "{name}" has in the back office',
            f'Which code does the coupon "{name}" have in the back office? Post it as the body of "{title}" to "{place}" in the forum at "/forum"',
        ],
        start="__SHOP_ADMIN__",
        eval=page_shows((f"__FORUM__/post/{post}", "main", [title, code, place])),
        subgoals=[
            subgoal(f'Open the coupon "{name}" in the back office', path=f"^/shop_admin/coupons/{coupon['id']}$"),
            subgoal("Open the form for a new post in the forum", path="^/forum/submit"),
            subgoal("Enter the title and the code", page=[f'textbox "Title" "{title}"', f'textbox "Body" "{code}"']),
            subgoal("Submit the post", db=("SELECT 1 FROM forum_posts WHERE title = ? AND body = ? AND forum = ?", title, code, place)),
        ],
        oracle=[
            click("button", "Marketing"),
            click("link", "Coupons"),
            click("link", name),
            goto("/forum"),
            click("link", "Create post"),
            select("Forum", place),
            type_into("Title", title),
            type_into("Body", code),
            click("button", "Submit"),
            stop(),
        ],
    )


def order_to_place(db, rng) -> Draft:
    place, recipient, city, delivery = rng.choice(all_places(db)), person(rng), rng.choice(CITIES), rng.choice(["Express", "Pickup"])
    name, address = place["name"], place["address"]
    return Draft(
        intents=[
            f'Look up the address of "{name}" on the map. Then order what is in my cart in the shop at "/shop" to that street, for "{recipient}", city "{city}", delivery "{delivery}"',
            f'In the shop at "/shop", send my cart to "{recipient}" by "{delivery}": city "{city}", and as street the address that "{name}" has on the map',
            f'Check out my cart in the shop at "/shop" for "{recipient}", city "{city}", delivery "{delivery}". The street is the address of "{name}" on the map',
        ],
        start="__MAP__",
        eval=order_shows(db, [recipient, address, city, f"Delivery {delivery}"]),
        subgoals=[
            subgoal(f'Open the place "{name}" on the map', path=f"^/map/place/{place['id']}$"),
            *checkout_subgoals(recipient, address, city, delivery),
        ],
        oracle=[
            *search_map(name),
            goto("/shop"),
            click("link", "Cart"),
            click("link", "Checkout"),
            *checkout(recipient, address, city, delivery),
            stop(),
        ],
    )


def detail_of_poster(db, rng) -> Draft:
    column, customers = rng.choice(["phone", "city"]), _customers(db)
    posts = [row for row in db.execute("SELECT * FROM forum_posts ORDER BY id") if row["author"] in customers]
    if not posts:
        raise Unsuitable("no customer writes in the forum")
    post = rng.choice(posts)
    title, author = post["title"], post["author"]
    answer = customers[author][column]
    return Draft(
        intents=[
            f'Who wrote the forum post "{title}"? Tell me the {column} that this customer has in the back office at "/shop_admin"',
            f'In the back office at "/shop_admin", what is the {column} of the customer who wrote the forum post "{title}"?',
            f'The author of the forum post "{title}" is a customer in the back office at "/shop_admin". Name the {column} of that customer',
        ],
        start="__FORUM__",
        eval=answer_is(answer),
        subgoals=[
            subgoal(f'Search for "{title}" in the forum', path=r"^/forum/search\?q=.", page=[f'link "{title}"']),
            subgoal("Open the post and see who wrote it", path=f"^/forum/post/{post['id']}$"),
            *_customer_subgoals(author),
        ],
        oracle=[*forum.search(title), goto("/shop_admin"), *to_customer(author), stop(answer)],
    )


def detail_of_owner(db, rng) -> Draft:
    label = rng.choice(["Work", "Age", "Born in"])
    people = {row["title"]: row["id"] for row in db.execute("SELECT * FROM map_articles WHERE kind = 'Person'")}
    owned = [row for row in db.execute("SELECT * FROM gitlab_projects ORDER BY name") if row["owner"] in people]
    if not owned:
        raise Unsuitable("no owner has an article")
    project, owner = (row := rng.choice(owned))["name"], row["owner"]
    sql = "SELECT value FROM map_facts WHERE article_id = ? AND label = ?"
    answer = db.execute(sql, (people[owner], label)).fetchone()["value"]
    return Draft(
        intents=[
            f'Who owns the project "{project}" in the code host? Tell me what the article about that person in the wiki of the map at "/map" says under "{label}"',
            f'Look up the owner of the project "{project}". In the wiki of the map at "/map", what does the article about this person have as "{label}"?',
            f'What is "{label}" in the wiki article, on the map at "/map", about the person who is the owner of the project "{project}"?',
        ],
        start="__GITLAB__",
        eval=answer_is(answer),
        subgoals=[
            subgoal(f'Open the project "{project}" and see its owner', path=f"^/gitlab/p/{project}$"),
            subgoal("Go to the map", path="^/map"),
            *_article_subgoals(owner, people[owner]),
        ],
        oracle=[click("link", project), goto("/map"), *_to_article(owner), stop(answer)],
    )


def city_of_reviewer(db, rng) -> Draft:
    product, customers = some_product(db, rng), _customers(db)
    reviews = db.execute("SELECT * FROM shop_reviews WHERE product_id = ? ORDER BY id", (product["id"],)).fetchall()
    known = [row for row in reviews if row["author"] in customers]
    if not known:
        raise Unsuitable("no reviewer is a customer")
    review, name = rng.choice(known), product["name"]
    author, stars = review["author"], f"{review['stars']} stars"
    city = customers[author]["city"]
    return Draft(
        intents=[
            f'Who gave "{name}" "{stars}" in the shop? Tell me the city of this customer in the back office at "/shop_admin"',
            f'In the back office at "/shop_admin", what is the city of the customer whose review in the shop gives "{name}" "{stars}"?',
            f'Find the person who gave the product "{name}" "{stars}" in the shop, then name the city of that customer in the back office at "/shop_admin"',
        ],
        start="__SHOP__",
        eval=answer_is(city),
        subgoals=[
            subgoal(f'Search for "{name}" in the shop', path=r"^/shop/search\?q=.", page=[f'link "{name}"']),
            subgoal("Open the product and read its reviews", path=f"^/shop/product/{product['id']}$"),
            *_customer_subgoals(author),
        ],
        oracle=[*search_shop(name), goto("/shop_admin"), *to_customer(author), stop(city)],
    )


def open_article_of_poster(db, rng) -> Draft:
    people = {row["title"]: row["id"] for row in db.execute("SELECT * FROM map_articles WHERE kind = 'Person'")}
    posts = [row for row in db.execute("SELECT * FROM forum_posts ORDER BY id") if row["author"] in people]
    if not posts:
        raise Unsuitable("nobody with an article writes in the forum")
    post = rng.choice(posts)
    title, author = post["title"], post["author"]
    return Draft(
        intents=[
            f'Who wrote the forum post "{title}"? Open the article about that person in the wiki of the map at "/map"',
            f'In the wiki of the map at "/map", show me the article about the author of the forum post "{title}"',
            f'Go to the wiki article, on the map at "/map", about the person who wrote "{title}" in the forum',
        ],
        start="__FORUM__",
        eval=ends_at(f"__MAP__/wiki/article/{people[author]}"),
        subgoals=[
            subgoal(f'Search for "{title}" in the forum', path=r"^/forum/search\?q=.", page=[f'link "{title}"']),
            subgoal("Open the post and see who wrote it", path=f"^/forum/post/{post['id']}$"),
            *_article_subgoals(author, people[author]),
        ],
        oracle=[*forum.search(title), goto("/map"), *_to_article(author), stop()],
    )


TEMPLATES = (  # each with its sites, the first being where it starts
    (("map", "forum"), post_phone_of_place),
    (("shop_admin", "gitlab"), issue_for_leading_product),
    (("forum", "gitlab"), invite_poster),
    (("shop_admin", "forum"), post_coupon_code),
    (("map", "shop"), order_to_place),
    (("forum", "shop_admin"), detail_of_poster),
    (("gitlab", "map"), detail_of_owner),
    (("shop", "shop_admin"), city_of_reviewer),
    (("forum", "map"), open_article_of_poster),
)


# --- pieces that several templates share ---------------------------------------------------------------------------


def _customers(db) -> dict:
    return {row["name"]: row for row in db.execute("SELECT * FROM shop_admin_customers ORDER BY name")}


def _customer_subgoals(name: str) -> list:
    return [
        subgoal("Open the customers in the back office", path="^/shop_admin/customers"),
        subgoal("Open the customer", path=f"^/shop_admin/customers/{name}$"),
    ]


def _to_article(name: str) -> list:
    return [click("link", "Wiki"), type_into("Search for", name), click("button", "Search"), click("link", name)]


def _article_subgoals(name: str, article: int) -> list:
    return [
        subgoal("Search for the person in the wiki", path=r"^/map/wiki\?q=.", page=[f'link "{name}"']),
        subgoal("Open the article about the person", path=f"^/map/wiki/article/{article}$"),
    ]
