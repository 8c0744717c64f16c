"""Task templates of the code host: things to do.  (``questions`` has those to find out.)"""

from __future__ import annotations

from environment.websites.authoring import (
    Draft,
    Unsuitable,
    both,
    click,
    ends_at,
    page_shows,
    select,
    stop,
    subgoal,
    type_into,
)
from environment.websites.gitlab import questions
from environment.websites.gitlab.contents import LABELS, LICENSES, MILESTONES, PAGE, ROLES, USER, VISIBILITIES, date, issues_query
from environment.websites.gitlab.questions import HOME, listed, only_ones, some_project, team, to_issues, to_members
from environment.websites.words import PEOPLE, phrase



def create_issue(db, rng) -> Draft:
    project = some_project(db, rng)
    title, person, label = phrase(rng).capitalize(), rng.choice(team(db, project)), rng.choice(LABELS[1:])
    milestone, issue = rng.choice(MILESTONES), db.execute("SELECT max(id) + 1 FROM gitlab_issues").fetchone()[0]
    return Draft(
        intents=[
            f'In the project "{project}", create an issue "{title}" with assignee "{person}", label "{label}" and milestone "{milestone}"',
            f'Open a new issue in "{project}": title "{title}", assignee "{person}", label "{label}", milestone "{milestone}"',
            f'Add the issue "{title}" to "{project}" for "{person}", with label "{label}" and milestone "{milestone}"',
        ],
        start=HOME,
        eval=page_shows(
            (f"{HOME}/issues/{issue}", "main", [title, f"Assignee: {person}", f"Label: {label}", f"Milestone: {milestone}", project])
        ),
        subgoals=[
            subgoal(f'Open the issues of "{project}"', path=f"^/gitlab/p/{project}/issues"),
            subgoal("Open the form for a new issue", path=f"^/gitlab/p/{project}/issues/new"),
            subgoal(
                f'Enter the title "{title}" and the assignee "{person}"',
                page=[f'textbox "Title" "{title}"', f'combobox "Assignee" "{person}"'],
            ),
            subgoal("Create the issue", db=("SELECT 1 FROM gitlab_issues WHERE title = ? AND project = ?", title, project)),
        ],
        oracle=[
            *to_issues(project),
            click("link", "New issue"),
            type_into("Title", title),
            select("Assignee", person),
            select("Label", label),
            select("Milestone", milestone),
            click("button", "Create issue"),
            stop(),
        ],
    )


def create_project(db, rng) -> Draft:
    name, text = phrase(rng).replace(" ", "-"), phrase(rng)
    visibility, license = rng.choice(VISIBILITIES[1:]), rng.choice(LICENSES[1:])
    if db.execute("SELECT 1 FROM gitlab_projects WHERE name = ?", (name,)).fetchone():
        raise Unsuitable(f"{name} exists")
    return Draft(
        intents=[
            f'Create a project named "{name}" with the description "{text}", visibility "{visibility}" and license "{license}"',
            f'Start a new "{visibility}" project "{name}" with license "{license}", description "{text}"',
            f'Set up the project "{name}": description "{text}", visibility "{visibility}", license "{license}"',
        ],
        start=HOME,
        eval=both(
            page_shows((f"{HOME}/p/{name}", "main", [name, text, f"Visibility: {visibility}", f"License: {license}"])),
            ends_at(f"{HOME}/p/{name}"),
        ),
        subgoals=[
            subgoal("Open the menu for new things", page=['link "New project"']),
            subgoal("Open the form for a new project", path="^/gitlab/new"),
            subgoal("Enter the name and the description", page=[f'textbox "Project name" "{name}"', f'textbox "Description" "{text}"']),
            subgoal("Create the project", path=f"^/gitlab/p/{name}$"),
        ],
        oracle=[
            click("button", "New"),
            click("link", "New project"),
            type_into("Project name", name),
            type_into("Description", text),
            select("Visibility", visibility),
            select("License", license),
            click("button", "Create project"),
            stop(),
        ],
    )


def comment_and_close(db, rng) -> Draft:
    project, comment = some_project(db, rng), phrase(rng)
    issue = rng.choice(listed(db, issues_query(project)))
    return Draft(
        intents=[
            f'In the project "{project}", comment "{comment}" on the issue "{issue["title"]}" and close it',
            f'Close the issue "{issue["title"]}" of "{project}" after you add the comment "{comment}"',
            f'Leave the comment "{comment}" on "{issue["title"]}" in "{project}", then close that issue',
        ],
        start=HOME,
        eval=page_shows((f"{HOME}/issues/{issue['id']}", "main", [f"{USER}: {comment}", "Status: Closed"])),
        subgoals=[
            subgoal(f'Open the issues of "{project}"', path=f"^/gitlab/p/{project}/issues"),
            subgoal(f'Open the issue "{issue["title"]}"', path=f"^/gitlab/issues/{issue['id']}$"),
            subgoal("Add the comment", db=("SELECT 1 FROM gitlab_comments WHERE issue_id = ? AND body = ?", issue["id"], comment)),
            subgoal("Close the issue", db=("SELECT 1 FROM gitlab_issues WHERE id = ? AND state = 'Closed'", issue["id"])),
        ],
        oracle=[
            *to_issues(project),
            *_turn_to(db, project, issue),
            click("link", issue["title"]),
            type_into("Your comment", comment),
            click("button", "Add comment"),
            click("button", "Close issue"),
            stop(),
        ],
    )


def plan_the_only_issue(db, rng) -> Draft:
    opened = db.execute("SELECT * FROM gitlab_issues WHERE state = 'Open' ORDER BY id").fetchall()
    issue = rng.choice(only_ones(opened, "label", "assignee"))
    project, label, person = issue["project"], issue["label"], issue["assignee"]
    milestone = rng.choice([milestone for milestone in MILESTONES if milestone != issue["milestone"]])
    due = rng.choice([day for day in range(10, 29) if day != issue["due"]])
    return Draft(
        intents=[
            f'In "{project}", set the open "{label}" issue of "{person}" to milestone "{milestone}" and due date "{date(due)}"',
            f'Give the open "{label}" issue assigned to "{person}" in "{project}" the milestone "{milestone}" and due date "{date(due)}"',
            f'The open "{label}" issue for "{person}" in the project "{project}" should have milestone "{milestone}" and due date "{date(due)}"',
        ],
        start=HOME,
        eval=page_shows((f"{HOME}/issues/{issue['id']}", "main", [f"Milestone: {milestone}", f"Due date: {date(due)}"])),
        subgoals=[
            subgoal(f'Open the issues of "{project}"', path=f"^/gitlab/p/{project}/issues"),
            subgoal(f'Filter by label "{label}" and assignee "{person}"', path=f"label={label}&assignee={person}", page=[issue["title"]]),
            subgoal("Open the edit form of the issue", path=f"^/gitlab/issues/{issue['id']}/edit"),
            subgoal(
                "Save the milestone and the due date",
                db=("SELECT 1 FROM gitlab_issues WHERE id = ? AND milestone = ? AND due = ?", issue["id"], milestone, due),
            ),
        ],
        oracle=[
            *to_issues(project),
            select("Label", label),
            select("Assignee", person),
            click("button", "Apply"),
            click("link", issue["title"]),
            click("link", "Edit"),
            select("Milestone", milestone),
            type_into("Due date", date(due)),
            click("button", "Save issue"),
            stop(),
        ],
    )


def invite_member(db, rng) -> Draft:
    project, role, until = some_project(db, rng), rng.choice(ROLES[1:]), date(rng.randint(10, 28))
    person = rng.choice([person for person in PEOPLE if person not in team(db, project)])
    return Draft(
        intents=[
            f'Invite "{person}" to the project "{project}" as "{role}" with access until "{until}"',
            f'Add the member "{person}" to "{project}", role "{role}", access until "{until}"',
            f'Give "{person}" the role "{role}" in "{project}" until "{until}"',
        ],
        start=HOME,
        eval=page_shows((f"{HOME}/p/{project}/member/{person}", "main", [f"{role} until {until}"])),
        subgoals=[
            subgoal(f'Open the members of "{project}"', path=f"^/gitlab/p/{project}/members$"),
            subgoal("Open the invitation form", path=f"^/gitlab/p/{project}/members/invite"),
            subgoal(f'Enter the user name "{person}" and the role', page=[f'textbox "User name" "{person}"', f'combobox "Role" "{role}"']),
            subgoal(
                "Send the invitation",
                db=(
                    "SELECT 1 FROM gitlab_members WHERE project = ? AND person = ? AND role = ? AND until = ?",
                    *(project, person, role, until),
                ),
            ),
        ],
        oracle=[
            *to_members(project),
            click("link", "Invite member"),
            type_into("User name", person),
            select("Role", role),
            type_into("Access until", until),
            click("button", "Invite"),
            stop(),
        ],
    )


def change_settings(db, rng) -> Draft:
    project, text = some_project(db, rng), phrase(rng)
    now = db.execute("SELECT visibility FROM gitlab_projects WHERE name = ?", (project,)).fetchone()[0]
    visibility = rng.choice([visibility for visibility in VISIBILITIES if visibility != now])
    return Draft(
        intents=[
            f'Change the description of the project "{project}" to "{text}" and its visibility to "{visibility}"',
            f'Make "{project}" "{visibility}" and describe it as "{text}"',
            f'Update the settings of "{project}": description "{text}", visibility "{visibility}"',
        ],
        start=HOME,
        eval=page_shows((f"{HOME}/p/{project}", "main", [text, f"Visibility: {visibility}"])),
        subgoals=[
            subgoal(f'Open the project "{project}"', path=f"^/gitlab/p/{project}"),
            subgoal("Open its settings", path=f"^/gitlab/p/{project}/settings"),
            subgoal(
                "Enter the description and the visibility",
                page=[f'textbox "Description" "{text}"', f'combobox "Visibility" "{visibility}"'],
            ),
            subgoal("Save", db=("SELECT 1 FROM gitlab_projects WHERE description = ? AND visibility = ?", text, visibility)),
        ],
        oracle=[
            click("link", project),
            click("button", "More"),
            click("link", "Settings"),
            type_into("Description", text),
            select("Visibility", visibility),
            click("button", "Save settings"),
            stop(),
        ],
    )


def delete_project(db, rng) -> Draft:
    project = some_project(db, rng)
    return Draft(
        intents=[
            f'Delete the project "{project}"',
            f'Remove the project "{project}" for good',
            f'We no longer need "{project}": delete that project',
        ],
        start=HOME,
        eval=page_shows((f"{HOME}/p/{project}", "main", ["Page not found"])),
        subgoals=[
            subgoal(f'Open the settings of "{project}"', path=f"^/gitlab/p/{project}/settings"),
            subgoal("Ask to delete the project", page=['button "Yes, delete"']),
            subgoal(f'Enter the name "{project}" to confirm', page=[f'textbox "Confirm name" "{project}"']),
            subgoal("Confirm", page=["Project deleted."]),
        ],
        oracle=[
            click("link", project),
            click("button", "More"),
            click("link", "Settings"),
            click("button", "Delete project"),
            type_into("Confirm name", project),
            click("button", "Yes, delete"),
            stop(),
        ],
    )


def review_and_merge(db, rng) -> Draft:
    merge = rng.choice(db.execute("SELECT * FROM gitlab_merges WHERE state = 'Open' ORDER BY id").fetchall())
    project, person = merge["project"], rng.choice([p for p in team(db, merge["project"]) if p != merge["author"]])
    row = "SELECT 1 FROM gitlab_merges WHERE id = ?"
    return Draft(
        intents=[
            f'In the project "{project}", make "{person}" the reviewer of the merge request "{merge["title"]}" and merge it',
            f'Merge "{merge["title"]}" of "{project}" with "{person}" as reviewer',
            f'Set the reviewer of the merge request "{merge["title"]}" in "{project}" to "{person}", then merge it',
        ],
        start=HOME,
        eval=page_shows((f"{HOME}/merge_requests/{merge['id']}", "main", ["Status: Merged", f"Reviewer: {person}"])),
        subgoals=[
            subgoal(f'Open the merge requests of "{project}"', path=f"^/gitlab/p/{project}/merge_requests"),
            subgoal(f'Open "{merge["title"]}"', path=f"^/gitlab/merge_requests/{merge['id']}$"),
            subgoal(f'Save the reviewer "{person}"', db=(f"{row} AND reviewer = ?", merge["id"], person)),
            subgoal("Merge", db=(f"{row} AND state = 'Merged'", merge["id"])),
        ],
        oracle=[
            click("link", project),
            click("link", "Merge requests"),
            click("link", merge["title"]),
            select("Reviewer", person),
            click("button", "Save reviewer"),
            click("button", "Merge"),
            click("button", "Yes, merge"),
            stop(),
        ],
    )


TEMPLATES = (
    create_issue,
    create_project,
    comment_and_close,
    plan_the_only_issue,
    invite_member,
    change_settings,
    delete_project,
    review_and_merge,
    *questions.TEMPLATES,
)


# --- pieces that several templates share ---------------------------------------------------------------------------


def _turn_to(db, project: str, issue) -> list:
    """From the first page of the open issues to the one that lists `issue`."""
    ids = [row["id"] for row in listed(db, issues_query(project))]
    return [click("link", "Next page")] * (ids.index(issue["id"]) // PAGE)
