"""Every bundled task: well formed, solved by its oracle, through all of its sub-goals, and by no one who does nothing."""

import json
import re
from collections import Counter
from dataclasses import asdict

import numpy as np
import pytest

from environment.rollout import NoOpPolicy, OraclePolicy, rollout
from environment.tasks import HELD_OUT, SPLITS, goal, instantiate, is_held_out, load_tasks, templates
from environment.websites.build_tasks import counts
from evaluation import site_of
from milestoning import latch
from trajectory import Step, parse_action

TASKS = {split: load_tasks(split) for split in SPLITS}
ALL = [task for split in SPLITS for task in TASKS[split]]
ONE_A_TEMPLATE = list({task.intent_template_id: task for task in TASKS["pool"]}.values())


def play(policy, tasks):
    return rollout(policy, tasks, max_steps=max(len(task.oracle) for task in tasks), parallel=8)


def assert_solved(tasks):
    for episode in play(OraclePolicy(), tasks):
        name = f"{episode.task.task_id}: {episode.task.intent}"
        trouble = [f"{step.action} -> {seen.error}" for step, seen in zip(episode.steps, episode.observations[1:]) if seen.error]
        assert not trouble, f"{name}\n" + "\n".join(trouble)
        assert episode.success and episode.end == "stopped", f"{name}\n{episode.final.text}"
        z = latch(np.array(episode.z))
        assert not z[0].any(), f"{name}: {z[0]} holds at the start"
        assert z[-1].all(), f"{name}: {[s for s, done in zip(episode.task.subgoals, z[-1]) if not done]} never came true"


# --- as written -------------------------------------------------------------------------------------------------


def test_the_evaluation_has_webarena_lites_size():
    sizes = {"shop_admin": 35, "map": 26, "shop": 45, "forum": 19, "gitlab": 30, "multi-site": 10}
    assert Counter(map(site_of, TASKS["evaluation"])) == sizes and sum(sizes.values()) == 165


def test_the_pool_has_the_papers_size_and_the_evaluations_shares():
    pool = Counter(map(site_of, TASKS["pool"]))
    assert pool.total() == 1573
    for site, count in Counter(map(site_of, TASKS["evaluation"])).items():
        assert abs(pool[site] / 1573 - count / 165) < 0.005, site


@pytest.mark.parametrize("split, margin", [("evaluation", 0.02), ("pool", 0.04)])
def test_kinds_of_goal_come_in_webarena_lites_proportions(split, margin):
    found = Counter(map(goal, TASKS[split]))
    for kind, share in {"answer": 0.47, "state": 0.29, "page": 0.11, "both": 0.13}.items():
        assert abs(found[kind] / len(TASKS[split]) - share) <= margin, kind


@pytest.mark.parametrize("split", SPLITS)
def test_each_task_is_named_once_and_written_from_the_table(split):
    tasks = TASKS[split]
    assert len({task.task_id for task in tasks}) == len({task.world for task in tasks}) == len(tasks)
    found = Counter((task.intent_template_id.split("/")[0], goal(task), is_held_out(task)) for task in tasks)
    assert found == {cell: count for cell, count in counts()[split].items() if count}


@pytest.mark.parametrize("split", SPLITS)
def test_each_task_has_all_that_it_needs(split):
    for task in TASKS[split]:
        name = task.task_id
        assert task.intent_template_id in templates(), name
        assert task.start_url.startswith(tuple(f"__{site.upper()}__" for site in task.sites)), name
        assert len(task.subgoals) == len(set(task.subgoals)) == 4, name
        assert len(task.subgoal_checks) == 4 and all(task.subgoal_checks), name
        for check in task.subgoal_checks:
            assert set(check) <= {"path", "page", "db"}, name
            re.compile(check.get("path", ""))
        assert set(task.eval["eval_types"]) <= {"string_match", "url_match", "program_html"} and task.eval["eval_types"], name
        assert len(task.oracle) <= 20, name
        actions = [parse_action(line) for line in task.oracle]
        assert [str(action) for action in actions] == list(task.oracle), name
        assert [action.kind == "stop" for action in actions] == [False] * (len(actions) - 1) + [True], name
        assert bool(actions[-1].text) == ("string_match" in task.eval["eval_types"]), name


def test_the_files_hold_what_the_templates_make_today():
    for task in [*TASKS["evaluation"], *ONE_A_TEMPLATE]:
        made = instantiate(task.intent_template_id, task.world, task_id=task.task_id)
        assert json.loads(json.dumps(asdict(made))) == json.loads(json.dumps(asdict(task)))


def test_splits_share_templates_and_nothing_else():
    evaluation, pool = TASKS["evaluation"], TASKS["pool"]
    for differs in ("task_id", "world", "intent"):
        assert not {getattr(task, differs) for task in evaluation} & {getattr(task, differs) for task in pool}, differs
    assert {task.intent_template_id for task in pool} == templates().keys() - HELD_OUT
    assert len(templates()) >= 60


def test_a_fifth_of_the_evaluation_has_templates_of_its_own():
    held_out = [task for task in TASKS["evaluation"] if is_held_out(task)]
    assert len(held_out) == len(TASKS["evaluation"]) // 5
    assert {task.intent_template_id for task in held_out} == HELD_OUT and 12 <= len(HELD_OUT) <= 15
    assert {site_of(task) for task in held_out} == {site_of(task) for task in TASKS["evaluation"]}


def test_tasks_are_long():
    for split, median in (("evaluation", 8), ("pool", 7)):
        lengths = [len(task.oracle) for task in TASKS[split]]
        assert 3 <= min(lengths) and max(lengths) <= 20 and np.median(lengths) >= median, split


def needs_what_a_page_said(task):
    """Whether the oracle types something that the intent does not say."""
    actions = [parse_action(line) for line in task.oracle]
    return any(action.kind == "type" and action.text not in task.intent for action in actions)


@pytest.mark.parametrize("split", SPLITS)
def test_a_tenth_of_the_tasks_carries_something_from_page_to_page(split):
    found = [task for task in TASKS[split] if needs_what_a_page_said(task)]
    assert len(found) >= len(TASKS[split]) / 10


# --- as played --------------------------------------------------------------------------------------------------


def test_oracles_solve_the_evaluation_tasks_through_all_subgoals():
    assert_solved(TASKS["evaluation"])


def test_oracles_solve_one_pool_task_of_each_template():
    assert_solved(ONE_A_TEMPLATE)


def test_doing_nothing_solves_nothing():
    for episode in play(NoOpPolicy(), TASKS["evaluation"]):
        assert not episode.success and episode.end == "stopped", episode.task.task_id
        assert len(episode.steps) == 1 and len(episode.z) == 2


class AllButTheLast:
    """Does what the oracle does, but never stops."""

    def act(self, states):
        lines = [(*state.task.oracle[:-1], *["scroll down"] * 99)[len(state.steps)] for state in states]
        return [Step(state.observation, parse_action(line), reply=line) for state, line in zip(states, lines)]


def test_who_never_stops_runs_into_the_limit():
    tasks = TASKS["evaluation"][::20]
    for episode in rollout(AllButTheLast(), tasks, max_steps=20, parallel=3):
        assert (episode.success, episode.end, len(episode.steps)) == (False, "step_limit", 20)
        assert latch(np.array(episode.z))[-1].sum() >= 3


def test_an_episode_does_not_depend_on_its_neighbours():
    tasks = TASKS["evaluation"][::12]
    alone = [play(OraclePolicy(), [task])[0] for task in tasks[:2]]
    together = rollout(OraclePolicy(), tasks, max_steps=20, parallel=2)
    assert together[:2] == alone
    assert [episode.task for episode in together] == tasks


@pytest.mark.slow
def test_oracles_solve_the_whole_pool():
    assert_solved(TASKS["pool"])


@pytest.mark.slow
def test_doing_nothing_solves_nothing_of_the_pool():
    assert not any(episode.success for episode in play(NoOpPolicy(), TASKS["pool"]))
