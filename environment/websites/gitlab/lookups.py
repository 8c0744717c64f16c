"""Task templates of the code host in which what one page says is needed on the next."""

from __future__ import annotations

from environment.websites.authoring import (
    Draft,
    Unsuitable,
    answer_is,
    both,
    click,
    ends_at,
    page_shows,
    select,
    stop,
    subgoal,
    type_into,
)
from environment.websites.gitlab.contents import LABELS, PAGE, ROLES, date, issues_query
from environment.websites.gitlab.questions import HOME, listed, only_ones, some_project, team, to_issues, to_members

LEADERS = {
    "Oldest": "the oldest open issue",
    "Most votes": "the open issue with the most votes",
    "Due first": "the open issue that is due first",
}


def invite_author(db, rng) -> Draft:
    project, other = rng.sample([row["name"] for row in db.execute("SELECT name FROM gitlab_projects ORDER BY name")], 2)
    issues = [row for row in listed(db, issues_query(project))[:PAGE] if row["author"] not in team(db, other)]
    if not issues:
        raise Unsuitable("all authors are members of the other project")
    issue, role, until = rng.choice(issues), rng.choice(ROLES[1:]), date(rng.randint(10, 28))
    person = issue["author"]
    added = "SELECT 1 FROM gitlab_members WHERE project = ? AND person = ? AND role = ? AND until = ?"
    return Draft(
        intents=[
            f'Invite the author of the issue "{issue["title"]}" of "{project}" to the project "{other}" as "{role}" with access until "{until}"',
            f'Who wrote the issue "{issue["title"]}" in "{project}"? Add that member to "{other}", role "{role}", access until "{until}"',
            f'Give the author of "{issue["title"]}", an issue of "{project}", the role "{role}" in "{other}" until "{until}"',
        ],
        start=HOME,
        eval=page_shows((f"{HOME}/p/{other}/member/{person}", "main", [f"{role} until {until}"])),
        subgoals=[
            subgoal(f'Open the issue "{issue["title"]}"', path=f"^/gitlab/issues/{issue['id']}$"),
            subgoal(f'Open the invitation form of "{other}"', path=f"^/gitlab/p/{other}/members/invite"),
            subgoal("Enter the author's name and the role", page=[f'textbox "User name" "{person}"', f'combobox "Role" "{role}"']),
            subgoal("Send the invitation", db=(added, other, person, role, until)),
        ],
        oracle=[
            *to_issues(project),
            click("link", issue["title"]),
            click("link", "Projects"),
            *to_members(other),
            *inviting(person, role, until),
            stop(),
        ],
    )


def role_of_issue_author(db, rng) -> Draft:
    project, sort = some_project(db, rng), rng.choice(list(LEADERS))
    newest, issues = listed(db, issues_query(project)), listed(db, issues_query(project, sort=sort))
    if not issues or issues[0]["id"] == newest[0]["id"]:
        raise Unsuitable("the issue comes first without sorting")
    issue = issues[0]
    sql = "SELECT role FROM gitlab_members WHERE project = ? AND person = ?"
    role = db.execute(sql, (project, issue["author"])).fetchone()["role"]
    return Draft(
        intents=[
            f'Which role does the author of {LEADERS[sort]} in "{project}" have in that project?',
            f'Who wrote {LEADERS[sort]} of the project "{project}"? Tell me the role of that member',
            f'In "{project}", find the author of {LEADERS[sort]} and name the role that this member has',
        ],
        start=HOME,
        eval=answer_is(role),
        subgoals=[
            subgoal(f'Open the issues of "{project}"', path=f"^/gitlab/p/{project}/issues"),
            subgoal(f"Sort by {sort.lower()}", path=f"^/gitlab/p/{project}/issues.*sort={sort.replace(' ', '.')}"),
            subgoal("Open the first issue", path=f"^/gitlab/issues/{issue['id']}$"),
            subgoal("Open its author among the members", path=f"^/gitlab/p/{project}/member/{issue['author']}$"),
        ],
        oracle=[
            *to_issues(project),
            select("Sort by", sort),
            click("button", "Apply"),
            click("link", issue["title"]),
            click("button", "More"),
            click("link", "Members"),
            click("link", issue["author"]),
            stop(role),
        ],
    )


def count_across_projects(db, rng) -> Draft:
    first, second = rng.sample([row["name"] for row in db.execute("SELECT name FROM gitlab_projects ORDER BY name")], 2)
    label = rng.choice(LABELS)
    found = [len(listed(db, issues_query(project, label=label))) for project in (first, second)]
    if not all(found):
        raise Unsuitable("one of the projects has no such issue")
    return Draft(
        intents=[
            f'How many open issues with label "{label}" do the projects "{first}" and "{second}" have together?',
            f'Count the open "{label}" issues of "{first}" and of "{second}". What is the sum?',
            f'Add up the open issues with label "{label}" in the projects "{first}" and "{second}"',
        ],
        start=HOME,
        eval=answer_is(str(sum(found))),
        subgoals=[
            subgoal(f'Open the issues of "{first}"', path=f"^/gitlab/p/{first}/issues"),
            subgoal(f'Filter them by label "{label}"', path=f"^/gitlab/p/{first}/issues.*label={label}"),
            subgoal(f'Open the issues of "{second}"', path=f"^/gitlab/p/{second}/issues"),
            subgoal(f'Filter those by label "{label}"', path=f"^/gitlab/p/{second}/issues.*label={label}"),
        ],
        oracle=[
            *to_issues(first),
            *_labelled(label),
            click("link", "Projects"),
            *to_issues(second),
            *_labelled(label),
            stop(str(sum(found))),
        ],
    )


def open_merge_request(db, rng) -> Draft:
    state = rng.choice(["Merged", "Closed"])
    rows = db.execute("SELECT * FROM gitlab_merges WHERE state = ? ORDER BY id", (state,)).fetchall()
    merge = rng.choice(only_ones(rows, "author"))
    project, person = merge["project"], merge["author"]
    return Draft(
        intents=[
            f'Open the "{state}" merge request by "{person}" in the project "{project}"',
            f'In "{project}", show me the merge request of "{person}" that has the state "{state}"',
            f'Go to the page of the merge request that "{person}" wrote in "{project}" and that is "{state}"',
        ],
        start=HOME,
        eval=ends_at(f"{HOME}/merge_requests/{merge['id']}"),
        subgoals=[
            subgoal(f'Open the project "{project}"', path=f"^/gitlab/p/{project}"),
            subgoal("Open its merge requests", path=f"^/gitlab/p/{project}/merge_requests"),
            subgoal(f'Filter by the state "{state}" and the author "{person}"', path=f"state={state}&author={person}"),
            subgoal("Open the merge request", path=f"^/gitlab/merge_requests/{merge['id']}$"),
        ],
        oracle=[
            click("link", project),
            click("link", "Merge requests"),
            select("State", state),
            select("Author", person),
            click("button", "Apply"),
            click("link", merge["title"]),
            stop(),
        ],
    )


def close_and_count(db, rng) -> Draft:
    project, label = some_project(db, rng), rng.choice(LABELS)
    issues = listed(db, issues_query(project, label=label))
    if len(issues) < 2:
        raise Unsuitable("nothing would be left")
    issue, left = issues[0], str(len(issues) - 1)
    closed = "SELECT 1 FROM gitlab_issues WHERE id = ? AND state = 'Closed'"
    path = f"^/gitlab/p/{project}/issues.*label={label}"
    return Draft(
        intents=[
            f'Close the newest open issue with label "{label}" in "{project}". How many open ones with that label are left?',
            f'In the project "{project}", close the newest open "{label}" issue and tell me how many open "{label}" issues remain',
            f'Tell me how many open issues with label "{label}" the project "{project}" has after you close the newest of them',
        ],
        start=HOME,
        eval=both(answer_is(left), page_shows((f"{HOME}/issues/{issue['id']}", "main", ["Status: Closed"]))),
        subgoals=[
            subgoal(f'Open the issues of "{project}" with label "{label}"', path=path),
            subgoal("Open the newest", path=f"^/gitlab/issues/{issue['id']}$"),
            subgoal("Close it", db=(closed, issue["id"])),
            subgoal("Show the issues that are left", path=path, db=(closed, issue["id"])),
        ],
        oracle=[
            *to_issues(project),
            *_labelled(label),
            click("link", issue["title"]),
            click("button", "Close issue"),
            click("link", "Issues"),
            *_labelled(label),
            stop(left),
        ],
    )


TEMPLATES = (
    invite_author,
    role_of_issue_author,
    count_across_projects,
    open_merge_request,
    close_and_count,
)


# --- pieces that several templates share ---------------------------------------------------------------------------


def inviting(person: str, role: str, until: str) -> list:
    """From a project's members to the invitation that is sent."""
    return [
        click("link", "Invite member"),
        type_into("User name", person),
        select("Role", role),
        type_into("Access until", until),
        click("button", "Invite"),
    ]


def _labelled(label: str) -> list:
    return [select("Label", label), click("button", "Apply")]
