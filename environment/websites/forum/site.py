"""The forum's tables, contents and pages."""

from __future__ import annotations

from flask import Blueprint, abort, flash, redirect, render_template, request, url_for

from environment.websites import execute, paginate, query, query_one
from environment.websites.words import PEOPLE, distinct, phrase

USER = "casey"  # who is logged in
NAMES = ("books", "cooking", "gardening", "gaming", "hiking", "movies", "music", "pets", "photos", "travel")
FLAIRS = ("Discussion", "Question", "News", "Guide")
ZONES = ("London", "New York", "Paris", "Tokyo")
PAGE = 5

SCHEMA = """
CREATE TABLE forum_forums (name TEXT PRIMARY KEY, subscribed INTEGER DEFAULT 0);
CREATE TABLE forum_posts (id INTEGER PRIMARY KEY, forum TEXT, author TEXT, title TEXT, body TEXT, flair TEXT,
                          score INTEGER, day INTEGER, vote INTEGER DEFAULT 0);
CREATE TABLE forum_comments (id INTEGER PRIMARY KEY, post_id INTEGER, author TEXT, body TEXT);
CREATE TABLE forum_profile (name TEXT, bio TEXT, zone TEXT, email TEXT);
"""
SORTS = {
    "new": ("Newest", "day DESC"),
    "top": ("Top", "score DESC"),
    "commented": ("Most commented", "(SELECT count(*) FROM forum_comments WHERE post_id = p.id) DESC"),
}

blueprint = Blueprint("forum", __name__, url_prefix="/forum", template_folder="templates")


def populate(db, rng) -> None:
    """Five forums with 7-11 posts each; scores, days and comment counts differ within a forum, so every order is strict."""
    names = sorted(rng.sample(NAMES, 5))
    db.executemany("INSERT INTO forum_forums (name) VALUES (?)", [(name,) for name in names])
    titles = iter(distinct(rng, phrase, 70))
    bodies = iter(distinct(rng, lambda r: "a " + phrase(r), 400))
    for name in names:
        size = rng.randint(7, 11)
        scores, days = rng.sample(range(2, 99), size), rng.sample(range(1, 29), size)
        comments = rng.sample(range(0, 12), size)
        for score, day, count in zip(scores, days, comments):
            row = (name, rng.choice(PEOPLE), next(titles).capitalize(), next(bodies), rng.choice(FLAIRS), score, day)
            _add_post(db, row, [rng.choice(PEOPLE) for _ in range(count)], bodies)
    for _ in range(2):  # two posts of the user's own, to edit or delete
        row = (rng.choice(names), USER, next(titles).capitalize(), next(bodies), rng.choice(FLAIRS), 1, 0)
        _add_post(db, row, [], bodies)
    db.execute("INSERT INTO forum_profile VALUES (?, ?, ?, ?)", (USER, "", rng.choice(ZONES), f"{USER}@mail.test"))


def _add_post(db, row, authors, bodies) -> None:
    columns = "(forum, author, title, body, flair, score, day)"
    post = db.execute(f"INSERT INTO forum_posts {columns} VALUES (?, ?, ?, ?, ?, ?, ?)", row).lastrowid
    rows = [(post, author, next(bodies, "nice")) for author in authors]
    db.executemany("INSERT INTO forum_comments (post_id, author, body) VALUES (?, ?, ?)", rows)


POSTS = """SELECT p.*, (SELECT count(*) FROM forum_comments WHERE post_id = p.id) AS comments FROM forum_posts p"""


@blueprint.route("/")
@blueprint.route("", endpoint="root")
def home():
    return render_template("forum/home.html", forums=query("SELECT * FROM forum_forums ORDER BY name"))


@blueprint.route("/f/<name>")
def forum(name):
    row = query_one("SELECT * FROM forum_forums WHERE name = ?", name) or abort(404)
    sort = request.args.get("sort", "new")
    posts = query(f"{POSTS} WHERE forum = ? ORDER BY {SORTS.get(sort, SORTS['new'])[1]}, p.id", name)
    page = request.args.get("page", 1, type=int)
    shown, count = paginate(posts, page, PAGE)

    def link(number):
        return url_for("forum.forum", name=name, sort=sort, page=number)

    return render_template("forum/forum.html", forum=row, posts=shown, sorts=SORTS, sort=sort, page=page, count=count, link=link)


@blueprint.route("/f/<name>/subscribe", methods=["POST"])
def subscribe(name):
    execute("UPDATE forum_forums SET subscribed = 1 - subscribed WHERE name = ?", name)
    return redirect(url_for("forum.forum", name=name))


@blueprint.route("/post/<int:post>")
def post(post):
    row = query_one(f"{POSTS} WHERE p.id = ?", post) or abort(404)
    comments = query("SELECT * FROM forum_comments WHERE post_id = ? ORDER BY id", post)
    return render_template("forum/post.html", post=row, comments=comments, user=USER)


@blueprint.route("/post/<int:post>/vote", methods=["POST"])
def vote(post):
    value = 1 if request.form["vote"] == "up" else -1
    execute("UPDATE forum_posts SET vote = CASE vote WHEN ? THEN 0 ELSE ? END WHERE id = ?", value, value, post)
    return redirect(url_for("forum.post", post=post))


@blueprint.route("/post/<int:post>/comment", methods=["POST"])
def comment(post):
    body = request.form["comment"].strip()
    if not body:
        flash("Write a comment first.")
    else:
        execute("INSERT INTO forum_comments (post_id, author, body) VALUES (?, ?, ?)", post, USER, body)
        flash("Comment added.")
    return redirect(url_for("forum.post", post=post))


@blueprint.route("/post/<int:post>/delete", methods=["POST"])
def delete(post):
    execute("DELETE FROM forum_posts WHERE id = ? AND author = ?", post, USER)
    flash("Post deleted.")
    return redirect(url_for("forum.user", name=USER))


@blueprint.route("/submit", methods=["GET", "POST"], defaults={"post": None})
@blueprint.route("/post/<int:post>/edit", methods=["GET", "POST"])
def submit(post):
    row = query_one("SELECT * FROM forum_posts WHERE id = ? AND author = ?", post, USER) if post else None
    values = dict(row) if row else {"forum": "", "title": "", "body": "", "flair": FLAIRS[0]}
    errors = {}
    if request.method == "POST":
        values.update({key: request.form.get(key, "").strip() for key in ("forum", "title", "body", "flair")})
        errors = {key: f"Enter a {key}." for key in ("forum", "title", "body") if not values[key]}
        if not errors:
            return redirect(url_for("forum.post", post=_save(post, values)))
    forums = [""] + [forum["name"] for forum in query("SELECT name FROM forum_forums ORDER BY name")]
    return render_template("forum/submit.html", values=values, errors=errors, forums=forums, flairs=FLAIRS, post=post)


def _save(post, values) -> int:
    fields = [values[key] for key in ("forum", "title", "body", "flair")]
    if post:
        execute("UPDATE forum_posts SET forum = ?, title = ?, body = ?, flair = ? WHERE id = ?", *fields, post)
        flash("Post saved.")
        return post
    flash("Post created.")
    columns = "(forum, title, body, flair, author, score, day)"
    return execute(f"INSERT INTO forum_posts {columns} VALUES (?, ?, ?, ?, ?, 1, 30)", *fields, USER)


@blueprint.route("/search")
def search():
    text = request.args.get("q", "").strip()
    posts = query(f"{POSTS} WHERE title LIKE ? ORDER BY p.id LIMIT 8", f"%{text}%") if text else []
    return render_template("forum/search.html", text=text, posts=posts)


@blueprint.route("/user/<name>")
def user(name):
    posts = query(f"{POSTS} WHERE author = ? ORDER BY day DESC LIMIT 8", name)
    profile = query_one("SELECT * FROM forum_profile WHERE name = ?", name)
    return render_template("forum/user.html", name=name, posts=posts, profile=profile)


@blueprint.route("/settings", methods=["GET", "POST"])
def settings():
    if request.method == "POST":
        execute("UPDATE forum_profile SET bio = ?, zone = ?, email = ?", *(request.form[k] for k in ("bio", "zone", "email")))
        flash("Settings saved.")
        return redirect(url_for("forum.user", name=USER))
    return render_template("forum/settings.html", profile=query_one("SELECT * FROM forum_profile"), zones=ZONES)
