"""Sub-goal checks, task files, and tasks made from templates."""

import json
import random
import re

import numpy as np
import pytest

from environment.tasks import (
    HELD_OUT,
    MULTI_SITE,
    SPLITS,
    completed_subgoals,
    first_suitable,
    goal,
    instantiate,
    is_held_out,
    load_tasks,
    perturb,
    templates,
)
from environment.websites import SITES, World, seeded_database
from environment.websites.authoring import Unsuitable, subgoal
from environment.websites.build_tasks import FIRST_SEED
from trajectory import Observation, Task, parse_action

# --- sub-goals --------------------------------------------------------------------------------------------------


def test_a_subgoal_holds_when_each_of_its_parts_does():
    user = "SELECT 1 FROM forum_posts WHERE title = ?"
    with World() as world:
        world.reset(7)
        title = world.query("SELECT title FROM forum_posts")[0]["title"]
        checks = [
            {"path": "^/forum/post/1$"},
            {"page": ["Mia", 'link "Edit"']},
            {"db": [user, title]},
            {"path": "^/forum", "page": ["Mia"], "db": [user, title]},
            {"path": "^/forum", "page": ["Mia"], "db": [user, "no such post"]},
        ]
        task = Task("t", ["forum"], "", "", {}, subgoals=["a"] * 5, subgoal_checks=checks)
        page = Observation("Post", "/forum/post/1", 'by Mia link "Edit"')
        assert completed_subgoals(task, page, world) == (True, True, True, True, False)
        other = Observation("Post", "/forum/post/12", 'by Mia link \\"Edit\\"')  # text that only looks like a link
        assert completed_subgoals(task, other, world) == (False, False, True, True, False)


def test_a_subgoal_must_check_something():
    assert subgoal("Open the form", path="/new") == ("Open the form", {"path": "/new"})
    with pytest.raises(ValueError, match="checks nothing"):
        subgoal("Think")


# --- files ------------------------------------------------------------------------------------------------------


def test_a_task_file_in_webarenas_format_is_loaded(tmp_path):
    file = tmp_path / "some.json"
    entry = {"task_id": 1, "sites": ["map"], "intent": "Go – where?", "start_url": "__MAP__", "eval": {}, "require_login": True}
    file.write_text(json.dumps([entry], ensure_ascii=False), encoding="utf-8")
    assert load_tasks(file) == load_tasks(str(file)) == [Task("1", ("map",), "Go – where?", "__MAP__", {})]


def test_a_missing_task_file_is_named():
    with pytest.raises(FileNotFoundError, match="'evaluation' or 'pool' or a task file, got 'evaluatoin'"):
        load_tasks("evaluatoin")


# --- templates --------------------------------------------------------------------------------------------------


def first(template, start=31):
    return first_suitable(template, range(start, start + 200))


def test_every_site_has_templates():
    found = templates()
    assert {sites for sites, _ in found.values() if len(sites) == 1} == {(site,) for site in SITES}
    for template, (sites, _) in found.items():
        assert template.startswith(f"{sites[0] if len(sites) == 1 else MULTI_SITE}/")
        assert set(sites) <= set(SITES) and len(sites) == len(set(sites)) <= 2


def test_a_template_that_is_held_out_says_so():
    assert HELD_OUT < templates().keys()
    assert is_held_out(first("multi_site/order_to_place")) and not is_held_out(first("forum/create_post"))


def test_a_goal_is_what_the_evaluators_ask_for():
    kinds = {"forum/count_comments": "answer", "forum/create_post": "state", "forum/open_author_page": "page"}
    for template, kind in (kinds | {"forum/vote_and_tell_points": "both", "map/minutes_between": "both"}).items():
        assert goal(first(template)) == kind, template


@pytest.mark.parametrize("template", templates())
def test_a_template_says_the_same_in_three_ways(template):
    """Wordings differ, and what is quoted does not, so each names all that the task needs."""
    task = first(template)
    draft = templates()[template][1](seeded_database(task.world), random.Random(f"{template}/{task.world}"))
    assert len(draft.intents) == len(set(draft.intents)) >= 3 and task.intent in draft.intents
    assert len({frozenset(re.findall(r'"([^"]*)"', intent)) for intent in draft.intents}) == 1


@pytest.mark.parametrize("template", templates())
def test_a_template_makes_the_same_task_of_the_same_world(template):
    task = first(template)
    seeded_database.cache_clear()  # the world is made again too
    assert instantiate(template, task.world) == task
    assert task.intent_template_id == template and task.sites == templates()[template][0]
    assert len(task.subgoals) == len(task.subgoal_checks) == 4
    assert parse_action(task.oracle[-1]).kind == "stop"


def test_another_world_is_another_task():
    template = "forum/create_post"
    task, other = first(template), first(template, start=5031)
    assert task.world != other.world and task.intent != other.intent


def test_no_suitable_world_is_an_error():
    with pytest.raises(ValueError, match="forum/create_post: none"):
        first_suitable("forum/create_post", [])


def test_a_perturbation_is_a_sibling_in_a_world_of_its_own():
    task = load_tasks("pool")[0]
    siblings = [perturb(task, np.random.default_rng(seed)) for seed in (0, 0, 1)]
    assert siblings[0] == siblings[1] != siblings[2]
    for sibling in siblings:
        assert sibling.intent_template_id == task.intent_template_id
        assert sibling.task_id != task.task_id and sibling.task_id.endswith(str(sibling.world))
    with pytest.raises(ValueError, match="'33'"):
        perturb(Task("27", ("reddit",), "", "", {}, intent_template_id="33"), np.random.default_rng(0))


def test_worlds_of_splits_and_perturbations_never_meet():
    worlds = {split: {task.world for task in load_tasks(split)} for split in SPLITS}
    assert not worlds["evaluation"] & worlds["pool"]
    assert max(worlds["evaluation"]) < FIRST_SEED["pool"] <= min(worlds["pool"])
    rng = np.random.default_rng(3)
    drawn = {perturb(task, rng).world for task in load_tasks("evaluation")[:5]}
    assert min(drawn) > max(worlds["pool"])


def test_a_world_is_the_same_whenever_it_is_made():
    seeded_database.cache_clear()
    once = list(seeded_database(11).iterdump())
    seeded_database.cache_clear()
    assert list(seeded_database(11).iterdump()) == once != list(seeded_database(12).iterdump())
    assert issubclass(Unsuitable, Exception)


def test_worlds_do_not_see_each_others_writes():
    with World() as one, World() as two:
        for world in (one, two):
            world.reset(7)
        with one.lock:
            one.db.execute("DELETE FROM forum_posts")
        assert not one.query("SELECT 1 FROM forum_posts") and two.query("SELECT 1 FROM forum_posts")
        assert seeded_database(7).execute("SELECT 1 FROM forum_posts").fetchall()
        one.reset(7)
        assert one.query("SELECT 1 FROM forum_posts")
