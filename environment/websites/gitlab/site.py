"""The code host's pages."""

from __future__ import annotations

import re

from flask import Blueprint, abort, flash, redirect, render_template, request, url_for

from environment.websites import execute, paginate, query, query_one
from environment.websites.gitlab.contents import (
    ANY_LABEL,
    ANYONE,
    LABELS,
    LICENSES,
    MERGE_STATES,
    MILESTONES,
    NONE,
    PAGE,
    PROJECT_SORTS,
    ROLES,
    SCHEMA,
    SORTS,
    STATES,
    USER,
    VISIBILITIES,
    date,
    day_of,
    issues_query,
    merges_query,
    populate,
)
from environment.websites.words import PEOPLE

__all__ = ["SCHEMA", "blueprint", "populate"]

blueprint = Blueprint("gitlab", __name__, url_prefix="/gitlab", template_folder="templates")
blueprint.add_app_template_filter(date, "may")


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
    values, errors = {"name": "", "description": "", "visibility": VISIBILITIES[0], "license": NONE}, {}
    if request.method == "POST":
        values = _form("name", "description", "visibility", "license")
        if not re.fullmatch(r"[a-z0-9-]+", values["name"]):
            errors["name"] = "Use small letters and dashes."
        elif query_one("SELECT 1 FROM gitlab_projects WHERE name = ?", values["name"]):
            errors["name"] = "This name is taken."
        if not errors:
            _create_project(**values)
            flash("Project created.")
            return redirect(url_for("gitlab.project", name=values["name"]))
    return render_template("gitlab/new_project.html", values=values, errors=errors, visibilities=VISIBILITIES, licenses=LICENSES)


def _create_project(name, description, visibility, license) -> None:
    execute("INSERT INTO gitlab_projects VALUES (?, ?, ?, ?, ?, 0)", name, USER, description, visibility, license)
    execute("INSERT INTO gitlab_members VALUES (?, ?, 'Maintainer', ?)", name, USER, date(28))


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
    listed = {"issues": shown, "total": len(rows), "page": min(max(page, 1), count), "count": count, "link": link}
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
    row = {**values, "due": day_of(values["due"])}.values()
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
