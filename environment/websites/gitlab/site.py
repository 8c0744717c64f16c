"""The code host's tables, contents and pages."""

from __future__ import annotations

import re

from flask import Blueprint, abort, flash, redirect, render_template, request, url_for

from environment.websites import execute, paginate, query, query_one
from environment.websites.words import ADJECTIVES, NOUNS, PEOPLE, distinct, phrase

USER = "casey"  # who is logged in
LABELS = ("Bug", "Design", "Docs", "Feature")
MILESTONES = ("Alpha", "Beta", "Final")
ROLES = ("Guest", "Reporter", "Developer", "Maintainer")
VISIBILITIES = ("Private", "Internal", "Public")
STATES = ("Open", "Closed", "All")
MERGE_STATES = ("Open", "Merged", "Closed", "All")
ANY_LABEL, ANYONE, NONE = "Any label", "Anyone", "None"
PAGE = 5

SCHEMA = """
CREATE TABLE gitlab_projects (name TEXT PRIMARY KEY, owner TEXT, description TEXT, visibility TEXT, stars INTEGER);
CREATE TABLE gitlab_members (project TEXT, person TEXT, role TEXT, until TEXT, PRIMARY KEY (project, person));
CREATE TABLE gitlab_issues (id INTEGER PRIMARY KEY, project TEXT, title TEXT, description TEXT, author TEXT, assignee TEXT,
                            label TEXT, milestone TEXT, due INTEGER, votes INTEGER, state TEXT DEFAULT 'Open');
CREATE TABLE gitlab_comments (id INTEGER PRIMARY KEY, issue_id INTEGER, author TEXT, body TEXT);
CREATE TABLE gitlab_merges (id INTEGER PRIMARY KEY, project TEXT, title TEXT, branch TEXT, author TEXT, reviewer TEXT,
                            commits INTEGER, state TEXT);
CREATE TABLE gitlab_todos (issue_id INTEGER PRIMARY KEY, done INTEGER DEFAULT 0);
CREATE TABLE gitlab_profile (name TEXT, status TEXT, availability TEXT);
"""
SORTS = {"Newest": "id DESC", "Oldest": "id", "Most votes": "votes DESC", "Due first": "due"}
PROJECT_SORTS = {"Name": "name", "Most stars": "stars DESC", "Fewest stars": "stars"}

blueprint = Blueprint("gitlab", __name__, url_prefix="/gitlab", template_folder="templates")


def populate(db, rng) -> None:
    """Six projects with 8-10 issues each; stars differ, and votes and due dates differ within a project."""
    people = rng.sample(PEOPLE, 12)
    titles = iter(distinct(rng, lambda r: phrase(r).capitalize(), 100))
    for name, stars in zip(_project_names(rng), rng.sample(range(3, 99), 6)):
        team = rng.sample(people, 4)
        project = (name, team[0], phrase(rng).capitalize(), rng.choice(VISIBILITIES), stars)
        db.execute("INSERT INTO gitlab_projects VALUES (?, ?, ?, ?, ?)", project)
        members = [(name, USER, "Maintainer", date(28))]
        members += [(name, person, rng.choice(ROLES), date(rng.randint(1, 28))) for person in team]
        db.executemany("INSERT INTO gitlab_members VALUES (?, ?, ?, ?)", members)
        _add_issues(db, rng, name, team, titles)
        _add_merges(db, rng, name, team, titles)
    _add_comments(db, rng, people)
    db.execute("INSERT INTO gitlab_profile VALUES (?, '', 'Available')", (USER,))


def _project_names(rng) -> list[str]:
    """Six names; the last begins like the first."""
    first, *adjectives = rng.sample(ADJECTIVES, 5)
    return [f"{adjective}-{noun}" for adjective, noun in zip([first, *adjectives, first], rng.sample(NOUNS, 6))]


def _add_issues(db, rng, project, team, titles) -> None:
    size = rng.randint(8, 10)
    rows = [
        (
            project,
            next(titles),
            phrase(rng).capitalize(),
            *(rng.choice(team), rng.choice(team), rng.choice(LABELS), rng.choice((NONE, *MILESTONES))),
            *(due, votes, rng.choice(("Open", "Open", "Closed"))),
        )
        for due, votes in zip(rng.sample(range(1, 29), size), rng.sample(range(1, 60), size))
    ]
    columns = "(project, title, description, author, assignee, label, milestone, due, votes, state)"
    db.executemany(f"INSERT INTO gitlab_issues {columns} VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)


def _add_merges(db, rng, project, team, titles) -> None:
    rows = []
    for state in ("Open", "Open", "Merged", "Merged", "Merged", "Closed"):
        author = rng.choice(team)
        reviewer = NONE if state == "Open" else rng.choice([person for person in team if person != author])
        rows.append((project, next(titles), phrase(rng).replace(" ", "-"), author, reviewer, rng.randint(1, 9), state))
    rng.shuffle(rows)
    columns = "(project, title, branch, author, reviewer, commits, state)"
    db.executemany(f"INSERT INTO gitlab_merges {columns} VALUES (?, ?, ?, ?, ?, ?, ?)", rows)


def _add_comments(db, rng, people) -> None:
    """Up to three comments an issue, and four to-dos."""
    issues = [row[0] for row in db.execute("SELECT id FROM gitlab_issues ORDER BY id")]
    rows = [(issue, rng.choice(people), phrase(rng)) for issue in issues for _ in range(rng.randint(0, 3))]
    db.executemany("INSERT INTO gitlab_comments (issue_id, author, body) VALUES (?, ?, ?)", rows)
    db.executemany("INSERT INTO gitlab_todos (issue_id) VALUES (?)", [(issue,) for issue in rng.sample(issues, 4)])


@blueprint.app_template_filter("may")
def date(day: int) -> str:
    """Every date is in May: 14 -> "May 14"."""
    return f"May {day}"


def day_of(text: str) -> int | None:
    """"May 14" -> 14, or None for anything else."""
    match = re.fullmatch(r"May ([1-9]|[12]\d|3[01])", text)
    return int(match[1]) if match else None


def issues_query(project, state="Open", label=ANY_LABEL, assignee=ANYONE, sort="Newest") -> tuple:
    """SQL and arguments for the issues of a project that pass the filters."""
    wanted = {"project": project}
    wanted |= {"state": state} if state != "All" else {}
    wanted |= {"label": label} if label != ANY_LABEL else {}
    wanted |= {"assignee": assignee} if assignee != ANYONE else {}
    return _matching("gitlab_issues", wanted, SORTS.get(sort, "id DESC"))


def merges_query(project, state="Open", author=ANYONE) -> tuple:
    wanted = {"project": project}
    wanted |= {"state": state} if state != "All" else {}
    wanted |= {"author": author} if author != ANYONE else {}
    return _matching("gitlab_merges", wanted, "id DESC")


def _matching(table, wanted, order) -> tuple:
    where = " AND ".join(f"{column} = ?" for column in wanted)
    return (f"SELECT * FROM {table} WHERE {where} ORDER BY {order}", *wanted.values())


def _project(name):
    return query_one("SELECT * FROM gitlab_projects WHERE name = ?", name) or abort(404)


def _people(project) -> list[str]:
    return [row["person"] for row in query("SELECT person FROM gitlab_members WHERE project = ? ORDER BY person", project)]


def _form(*keys) -> dict:
    return {key: request.form.get(key, "").strip() for key in keys}


def _filters(**defaults) -> dict:
    return {key: request.args.get(key, value) for key, value in defaults.items()}


@blueprint.route("/")
@blueprint.route("", endpoint="root")
def home():
    sort = request.args.get("sort", "Name")
    count = "(SELECT count(*) FROM gitlab_issues WHERE project = p.name AND state = 'Open')"
    projects = query(f"SELECT p.*, {count} AS issues FROM gitlab_projects p ORDER BY {PROJECT_SORTS.get(sort, 'name')}")
    return render_template("gitlab/home.html", projects=projects, sorts=PROJECT_SORTS, sort=sort)


@blueprint.route("/new", methods=["GET", "POST"])
def new_project():
    values, errors = {"name": "", "description": "", "visibility": VISIBILITIES[0]}, {}
    if request.method == "POST":
        values = _form("name", "description", "visibility")
        if not re.fullmatch(r"[a-z0-9-]+", values["name"]):
            errors["name"] = "Use small letters and dashes."
        elif query_one("SELECT 1 FROM gitlab_projects WHERE name = ?", values["name"]):
            errors["name"] = "This name is taken."
        if not errors:
            execute("INSERT INTO gitlab_projects VALUES (?, ?, ?, ?, 0)", values["name"], USER, *list(values.values())[1:])
            execute("INSERT INTO gitlab_members VALUES (?, ?, 'Maintainer', ?)", values["name"], USER, date(28))
            flash("Project created.")
            return redirect(url_for("gitlab.project", name=values["name"]))
    return render_template("gitlab/new_project.html", values=values, errors=errors, visibilities=VISIBILITIES)


@blueprint.route("/p/<name>")
def project(name):
    return render_template("gitlab/project.html", project=_project(name))


@blueprint.route("/p/<name>/settings", methods=["GET", "POST"])
def settings(name):
    row = _project(name)
    if request.method == "POST":
        values = _form("description", "visibility")
        execute("UPDATE gitlab_projects SET description = ?, visibility = ? WHERE name = ?", *values.values(), name)
        flash("Settings saved.")
        return redirect(url_for("gitlab.project", name=name))
    return render_template("gitlab/settings.html", project=row, visibilities=VISIBILITIES)


@blueprint.route("/p/<name>/delete", methods=["POST"])
def delete(name):
    if request.form.get("confirm", "").strip() != name:
        flash("The name does not match.")
        return redirect(url_for("gitlab.settings", name=name))
    for table in ("gitlab_members", "gitlab_issues", "gitlab_merges"):
        execute(f"DELETE FROM {table} WHERE project = ?", name)
    execute("DELETE FROM gitlab_projects WHERE name = ?", name)
    flash("Project deleted.")
    return redirect(url_for("gitlab.home"))


@blueprint.route("/p/<name>/issues")
def issues(name):
    filters = _filters(state="Open", label=ANY_LABEL, assignee=ANYONE, sort="Newest")
    rows = query(*issues_query(name, **filters))
    page = request.args.get("page", 1, type=int)
    shown, count = paginate(rows, page, PAGE)

    def link(number):
        return url_for("gitlab.issues", name=name, page=number, **filters)

    options = {"state": STATES, "label": (ANY_LABEL, *LABELS), "assignee": (ANYONE, *_people(name)), "sort": SORTS}
    listed = {"issues": shown, "total": len(rows), "page": page, "count": count, "link": link}
    return render_template("gitlab/issues.html", project=_project(name), filters=filters, options=options, **listed)


@blueprint.route("/p/<name>/issues/new", methods=["GET", "POST"])
def new_issue(name):
    values = {"title": "", "description": "", "assignee": NONE, "label": LABELS[0], "milestone": NONE, "due": "May 31"}
    return _issue_form(_project(name), values, None)


@blueprint.route("/issues/<int:issue>/edit", methods=["GET", "POST"])
def edit_issue(issue):
    row = query_one("SELECT * FROM gitlab_issues WHERE id = ?", issue) or abort(404)
    return _issue_form(_project(row["project"]), {**row, "due": date(row["due"])}, issue)


def _issue_form(project, values, issue):
    """The form for a new issue, or for `issue`; what was typed stays when something is wrong."""
    errors = {}
    if request.method == "POST":
        values = _form("title", "description", "assignee", "label", "milestone", "due")
        if not values["title"]:
            errors["title"] = "Enter a title."
        if not day_of(values["due"]):
            errors["due"] = "Enter a date such as May 14."
        if not errors:
            return redirect(url_for("gitlab.issue", issue=_save(project["name"], values, issue)))
    options = {"assignee": (NONE, *_people(project["name"])), "label": LABELS, "milestone": (NONE, *MILESTONES)}
    return render_template("gitlab/issue_form.html", project=project, values=values, errors=errors, options=options, issue=issue)


def _save(project, values, issue) -> int:
    row = [*values.values()][:-1] + [day_of(values["due"])]
    columns = "title, description, assignee, label, milestone, due"
    if issue:
        execute(f"UPDATE gitlab_issues SET ({columns}) = (?, ?, ?, ?, ?, ?) WHERE id = ?", *row, issue)
        flash("Issue saved.")
        return issue
    flash("Issue created.")
    sql = f"INSERT INTO gitlab_issues ({columns}, project, author, votes) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0)"
    return execute(sql, *row, project, USER)


@blueprint.route("/issues/<int:issue>")
def issue(issue):
    row = query_one("SELECT * FROM gitlab_issues WHERE id = ?", issue) or abort(404)
    comments = query("SELECT * FROM gitlab_comments WHERE issue_id = ? ORDER BY id", issue)
    todo = query_one("SELECT 1 FROM gitlab_todos WHERE issue_id = ? AND done = 0", issue)
    return render_template("gitlab/issue.html", project=_project(row["project"]), issue=row, comments=comments, todo=todo)


@blueprint.route("/issues/<int:issue>/<any(comment, toggle, done):action>", methods=["POST"])
def change_issue(issue, action):
    body = request.form.get("comment", "").strip()
    if action == "toggle":
        execute("UPDATE gitlab_issues SET state = CASE state WHEN 'Open' THEN 'Closed' ELSE 'Open' END WHERE id = ?", issue)
    elif action == "done":
        execute("UPDATE gitlab_todos SET done = 1 WHERE issue_id = ?", issue)
        flash("To-do done.")
    elif body:
        execute("INSERT INTO gitlab_comments (issue_id, author, body) VALUES (?, ?, ?)", issue, USER, body)
        flash("Comment added.")
    else:
        flash("Write a comment first.")
    return redirect(url_for("gitlab.issue", issue=issue))


@blueprint.route("/p/<name>/merge_requests")
def merges(name):
    filters = _filters(state="Open", author=ANYONE)
    rows = query(*merges_query(name, **filters))
    options = {"state": MERGE_STATES, "author": (ANYONE, *_people(name))}
    return render_template("gitlab/merges.html", project=_project(name), merges=rows, filters=filters, options=options)


@blueprint.route("/merge_requests/<int:merge>", methods=["GET", "POST"])
def merge(merge):
    row = query_one("SELECT * FROM gitlab_merges WHERE id = ?", merge) or abort(404)
    if request.method == "POST":
        _change_merge(row, request.form.get("action"))
        return redirect(url_for("gitlab.merge", merge=merge))
    return render_template("gitlab/merge.html", project=_project(row["project"]), merge=row, people=(NONE, *_people(row["project"])))


def _change_merge(row, action) -> None:
    if action == "reviewer":
        execute("UPDATE gitlab_merges SET reviewer = ? WHERE id = ?", request.form.get("reviewer", NONE), row["id"])
        flash("Reviewer saved.")
    elif action == "merge" and row["reviewer"] == NONE:
        flash("Choose a reviewer before you merge.")
    elif action in ("merge", "close"):
        execute("UPDATE gitlab_merges SET state = ? WHERE id = ?", "Merged" if action == "merge" else "Closed", row["id"])


@blueprint.route("/p/<name>/members")
def members(name):
    rows = query("SELECT * FROM gitlab_members WHERE project = ? ORDER BY person", name)
    return render_template("gitlab/members.html", project=_project(name), members=rows)


@blueprint.route("/p/<name>/members/invite", methods=["GET", "POST"], defaults={"person": None})
@blueprint.route("/p/<name>/member/<person>", methods=["GET", "POST"])
def member(name, person):
    row = query_one("SELECT * FROM gitlab_members WHERE project = ? AND person = ?", name, person)
    values = dict(row or {"person": "", "role": ROLES[0], "until": ""})
    if person and not row:
        abort(404)
    errors = {}
    if request.method == "POST":
        values = {"person": person, **_form("role", "until")} if person else _form("person", "role", "until")
        errors = _member_errors(name, values, invited=not person)
        if not errors:
            execute("REPLACE INTO gitlab_members VALUES (?, ?, ?, ?)", name, *values.values())
            flash("Member saved." if person else "Member added.")
            return redirect(url_for("gitlab.members", name=name))
    return render_template("gitlab/member.html", project=_project(name), values=values, errors=errors, roles=ROLES, person=person)


def _member_errors(project, values, invited) -> dict:
    errors = {} if day_of(values["until"]) else {"until": "Enter a date such as May 14."}
    if invited and values["person"] not in PEOPLE:
        errors["person"] = "No user has this name."
    elif invited and values["person"] in _people(project):
        errors["person"] = "Already a member."
    return errors


@blueprint.route("/p/<name>/member/<person>/remove", methods=["POST"])
def remove_member(name, person):
    execute("DELETE FROM gitlab_members WHERE project = ? AND person = ?", name, person)
    flash("Member removed.")
    return redirect(url_for("gitlab.members", name=name))


@blueprint.route("/todos")
def todos():
    rows = query("SELECT i.* FROM gitlab_todos t JOIN gitlab_issues i ON i.id = t.issue_id WHERE done = 0 ORDER BY i.id")
    return render_template("gitlab/todos.html", issues=rows)


@blueprint.route("/profile", methods=["GET", "POST"])
def profile():
    if request.method == "POST":
        execute("UPDATE gitlab_profile SET status = ?, availability = ?", *_form("status", "availability").values())
        flash("Profile saved.")
        return redirect(url_for("gitlab.profile"))
    return render_template("gitlab/profile.html", profile=query_one("SELECT * FROM gitlab_profile"))
