"""The map's pages and the wiki's."""

from __future__ import annotations

from flask import Blueprint, abort, flash, redirect, render_template, request, url_for

from environment.websites import execute, paginate, query, query_one
from environment.websites.map.contents import PACES, PROBLEMS, SCHEMA, clock, kilometers, minutes, populate

__all__ = ["SCHEMA", "populate", "blueprint"]  # what a site has to offer

PAGE = 5
SORTS = {"Name": "name", "Best rated": "rating DESC", "Opens first": "opens"}
KINDS = {"districts": "District", "buildings": "Building", "people": "Person"}
ARTICLE_SORTS = {"Name": "title", "Most bridges": "bridges DESC", "Most schools": "schools DESC"}
ARTICLES = """SELECT a.*, (SELECT CAST(value AS INTEGER) FROM map_facts WHERE article_id = a.id AND label = 'Bridges') AS bridges,
                     (SELECT CAST(value AS INTEGER) FROM map_facts WHERE article_id = a.id AND label = 'Schools') AS schools
              FROM map_articles a"""

blueprint = Blueprint("map", __name__, url_prefix="/map", template_folder="templates")
blueprint.add_app_template_filter(clock)


def _names(table: str, column: str) -> list[str]:
    return [row[0] for row in query(f"SELECT DISTINCT {column} FROM {table} ORDER BY {column}")]


def _place(place: int):
    return query_one("SELECT * FROM map_places WHERE id = ?", place) or abort(404)


@blueprint.app_template_global()
def map_districts():
    """The four districts, for the drawing."""
    return query("SELECT * FROM map_districts")


# --- places -------------------------------------------------------------------------------------------------------


@blueprint.route("/")
@blueprint.route("", endpoint="root")
def home():
    categories = query("SELECT category, count(*) AS places FROM map_places GROUP BY category ORDER BY category")
    return render_template("map/home.html", categories=categories, places=query("SELECT x, y FROM map_places"))


@blueprint.route("/places")
def places():
    chosen = {key: request.args.get(key, "Any") for key in ("category", "district")}
    sort = request.args.get("sort", "Name")
    patterns = ["%" if value == "Any" else value for value in chosen.values()]
    sql = f"SELECT * FROM map_places WHERE category LIKE ? AND district LIKE ? ORDER BY {SORTS.get(sort, 'name')}, id"

    def link(number):
        return url_for("map.places", **chosen, sort=sort, page=number)

    page = request.args.get("page", 1, type=int)
    shown, count = paginate(query(sql, *patterns), page, PAGE)
    options = {key: ["Any", *_names("map_places", key)] for key in chosen}
    values = {"chosen": chosen, "sort": sort, "page": min(max(page, 1), count), "count": count}
    return render_template("map/places.html", places=shown, options=options, sorts=SORTS, link=link, **values)


@blueprint.route("/search")
def search():
    text = request.args.get("q", "").strip()
    found = query("SELECT * FROM map_places WHERE name LIKE ? ORDER BY id DESC LIMIT 6", f"%{text}%") if text else []
    return render_template("map/search.html", text=text, places=found)


@blueprint.route("/place/<int:place>")
def place(place):
    row = _place(place)
    reviews = query("SELECT * FROM map_reviews WHERE place_id = ? ORDER BY rowid", place)
    reports = query("SELECT * FROM map_reports WHERE place_id = ? ORDER BY id", place)
    saved = query_one("SELECT * FROM map_saved WHERE place_id = ?", place)
    article = query_one("SELECT id FROM map_articles WHERE place_id = ?", place)
    lists = _names("map_lists", "name")
    return render_template("map/place.html", place=row, reviews=reviews, reports=reports, saved=saved, article=article, lists=lists)


@blueprint.route("/place/<int:place>/nearby")
def nearby(place):
    here, category = _place(place), request.args.get("category", "Any")
    others = query("SELECT * FROM map_places WHERE id != ? AND category LIKE ?", place, "%" if category == "Any" else category)
    found = sorted(((kilometers(here, other), other["id"], other) for other in others), key=lambda entry: entry[:2])[:PAGE]
    categories = ["Any", *_names("map_places", "category")]
    return render_template("map/nearby.html", place=here, found=found, category=category, categories=categories)


@blueprint.route("/place/<int:place>/report", methods=["GET", "POST"])
def report(place):
    row = _place(place)
    values = {key: request.form.get(key, "").strip() for key in ("problem", "correct", "details")}
    errors = {}
    if request.method == "POST":
        errors = {} if values["details"] else {"details": "Enter details."}
        if not errors:
            columns = "(place_id, problem, correct, details)"
            execute(f"INSERT INTO map_reports {columns} VALUES (?, ?, ?, ?)", place, *values.values())
            flash("Report sent.")
            return redirect(url_for("map.place", place=place))
    return render_template("map/report.html", place=row, values=values, errors=errors, problems=PROBLEMS)


@blueprint.route("/directions")
def directions():
    values = {"from": request.args.get("from", "").strip(), "to": request.args.get("to", "").strip()}
    by = request.args.get("by", "")
    ends = {key: query_one("SELECT * FROM map_places WHERE name = ? COLLATE NOCASE", text) for key, text in values.items()}
    errors = {key: "No place has this name." for key, end in ends.items() if by and not end}
    route = None
    if by in PACES and not errors:
        route = {"minutes": minutes(ends["from"], ends["to"], by), "kilometers": kilometers(ends["from"], ends["to"])}
    by = by if by in PACES else next(iter(PACES))
    return render_template("map/directions.html", values=values, errors=errors, ends=ends, by=by, ways=PACES, route=route)


# --- saved places -------------------------------------------------------------------------------------------------


@blueprint.route("/saved")
def saved():
    rows = query("SELECT p.name, s.* FROM map_saved s JOIN map_places p ON p.id = s.place_id ORDER BY p.name LIMIT 6")
    return render_template("map/saved.html", places=rows, lists=_names("map_lists", "name"))


@blueprint.route("/lists", methods=["POST"])
def add_list():
    name = request.form.get("name", "").strip()
    if name:
        execute("INSERT OR IGNORE INTO map_lists VALUES (?)", name)
    flash("List created." if name else "Enter a name for the list.")
    return redirect(url_for("map.saved"))


@blueprint.route("/place/<int:place>/save", methods=["GET", "POST"])
def save(place):
    row, lists = _place(place), _names("map_lists", "name")
    if request.method == "POST" and request.form.get("list") in lists:
        note = request.form.get("note", "").strip()
        execute("INSERT OR REPLACE INTO map_saved VALUES (?, ?, ?)", place, request.form["list"], note)
        flash("Place saved.")
        return redirect(url_for("map.saved"))
    current = query_one("SELECT * FROM map_saved WHERE place_id = ?", place)
    return render_template("map/save.html", place=row, saved=current, lists=lists)


@blueprint.route("/place/<int:place>/forget", methods=["POST"])
def forget(place):
    execute("DELETE FROM map_saved WHERE place_id = ?", place)
    flash("Place removed.")
    return redirect(url_for("map.saved"))


# --- the wiki -----------------------------------------------------------------------------------------------------


@blueprint.route("/wiki")
def wiki():
    text = request.args.get("q", "").strip()
    articles = query("SELECT * FROM map_articles WHERE title LIKE ? ORDER BY title LIMIT 6", f"%{text}%") if text else []
    return render_template("map/wiki.html", text=text, articles=articles, kinds=KINDS)


@blueprint.route("/wiki/all/<kind>")
def wiki_list(kind):
    if kind not in KINDS:
        abort(404)
    sort = request.args.get("sort", "Name")
    order = ARTICLE_SORTS.get(sort, "title")

    def link(number):
        return url_for("map.wiki_list", kind=kind, sort=sort, page=number)

    page = request.args.get("page", 1, type=int)
    shown, count = paginate(query(f"{ARTICLES} WHERE kind = ? ORDER BY {order}, id", KINDS[kind]), page, PAGE)
    values = {"kind": kind, "sort": sort, "page": min(max(page, 1), count), "count": count}
    return render_template("map/wiki_list.html", articles=shown, sorts=ARTICLE_SORTS, link=link, **values)


@blueprint.route("/wiki/article/<int:article>")
def wiki_article(article):
    row = query_one("SELECT * FROM map_articles WHERE id = ?", article) or abort(404)
    facts = query("SELECT * FROM map_facts WHERE article_id = ? ORDER BY rowid", article)
    return render_template("map/article.html", article=row, facts=facts)
