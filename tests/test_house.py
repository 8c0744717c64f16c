"""How the house is built: imports point downward, equations stand alone, nothing is pickled or silently caught."""

import ast
import graphlib
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
STORIES = [
    {"trajectory"},
    {"progress_labels", "advantage", "actor_loss"},  # the equations
    {"language_model", "critics", "environment", "optimisation"},  # the edges
    {"subgoals", "milestoning", "failure_analysis", "curriculum", "evaluation", "agent"},  # the concepts
    {"settings", "run_folder"},
    {"train", "run_agent", "experiments"},
]
STORY = {name: story for story, names in enumerate(STORIES) for name in names}
TOP = sorted(path for path in ROOT.glob("*.py"))
SOURCES = TOP + sorted(path for folder in ("environment", "experiments") for path in (ROOT / folder).rglob("*.py"))


def module(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module(path): path for path in SOURCES}


def imported(path):
    """Names of the modules that a file imports anywhere in it, as precise as the file says."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if name in MODULES else node.module for name in names)


def top_level(name):
    return name.split(".")[0]


def test_every_top_level_module_is_a_concept_of_the_design():
    expected = {name for name in STORY if name not in ("environment", "experiments")}
    assert {path.stem for path in TOP} == expected


def test_every_top_level_module_has_its_tests():
    missing = [path.stem for path in TOP if not (ROOT / "tests" / f"test_{path.stem}.py").exists()]
    assert not missing


@pytest.mark.parametrize("name", MODULES)
def test_imports_point_downward(name):
    ours = {top_level(other) for other in imported(MODULES[name])} & STORY.keys() - {top_level(name)}
    upward = {other for other in ours if STORY[other] > STORY[top_level(name)]}
    assert not upward, f"{name} imports {', '.join(sorted(upward))}"


@pytest.mark.parametrize("name", sorted(STORIES[1]))
def test_an_equation_imports_none_of_ours(name):
    assert not {top_level(other) for other in imported(MODULES[name])} & STORY.keys()


def test_records_need_the_standard_library_only():
    assert {top_level(other) for other in imported(MODULES["trajectory"])} <= sys.stdlib_module_names


def test_there_is_no_circle_of_imports():
    graphlib.TopologicalSorter({name: set(imported(path)) & MODULES.keys() - {name} for name, path in MODULES.items()}).prepare()


@pytest.mark.parametrize("name", MODULES)
def test_nothing_is_pickled_and_exceptions_are_named(name):
    tree = ast.parse(MODULES[name].read_text(encoding="utf-8"))
    assert not {top_level(other) for other in imported(MODULES[name])} & {"pickle", "shelve", "dill", "joblib"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "torch":
            assert node.attr not in ("load", "save"), f"{name}, line {node.lineno}"
        if isinstance(node, ast.ExceptHandler):
            caught = ast.unparse(node.type) if node.type else ""
            assert caught not in ("", "Exception", "BaseException"), f"{name}, line {node.lineno}"


@pytest.mark.parametrize("name", MODULES)
def test_a_module_says_what_it_is(name):
    tree = ast.parse(MODULES[name].read_text(encoding="utf-8"))
    assert ast.get_docstring(tree) or not tree.body
