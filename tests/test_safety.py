"""What an agent may not do, tried on real pages: send a form unasked, tell a password."""

import pytest

from environment.safety import MASK, Guard, Secrets
from trajectory import Action, parse_action


@pytest.fixture
def guarded(visit):
    """guarded(html, answers, …) -> act(line): the next observation; `answers` are a person's, in turn; act.asked: about what."""

    def start(html, answers=None, **pages):
        page = visit(html, **pages)
        replies, asked = list(answers or []), []

        async def confirm(action):
            asked.append(str(action))
            return replies.pop(0)

        guard = page.run(Guard(page.tab, None if answers is None else confirm).stand())

        def act(line):
            return page.run(guard.act(parse_action(line)))

        act.asked, act.page = asked, page
        return act

    return start


# --- forms ----------------------------------------------------------------------------------------------------------

FORMS = {
    "button": ('<form action="/in"><input name="q"><button>Go</button></form>', ['click button "Go"']),
    "enter": ('<form action="/in"><input name="q" aria-label="Q"></form>', ['type textbox "Q" "x"', 'press "Enter"']),
    "script": ('<form action="/in" id="f"></form><a href="#" onclick="f.submit()">Go</a>', ['click link "Go"']),
    "choice": (
        '<form action="/in"><select aria-label="S" onchange="this.form.submit()"><option>a<option>b</select></form>',
        ['select combobox "S" "b"'],
    ),
    "shadow": (
        "<div id=d></div><script>d.attachShadow({mode: 'open'}).innerHTML = '<form action=\"/in\"><button>Go</button></form>'</script>",
        ['click button "Go"'],
    ),
    "frame": ('<iframe srcdoc=\'<form action="/in" target="_top"><button>Go</button></form>\'></iframe>', ['click button "Go"']),
    "by the page's script": (
        "<form onsubmit=\"event.preventDefault(); fetch('/in').then(() => document.body.append('done'))\"><button>Go</button></form>",
        ['click button "Go"'],
    ),
}


@pytest.mark.parametrize("how", FORMS)
def test_a_form_is_held_until_a_person_says_yes(guarded, site, how):
    html, lines = FORMS[how]
    act = guarded(html, [False, True], **{"in": "<p>arrived"})
    act('goto "/"')  # a page that came after the guard, as most do
    for line in lines:
        seen = act(line)
    assert site.hits["/in"] == 0 and seen.error == "the person did not allow this form to be sent"
    for line in lines:
        seen = act(line)
    assert site.hits["/in"] == 1 and seen.error == ""
    assert "arrived" in seen.text or "done" in seen.text
    assert act.asked == [lines[-1]] * 2


def test_the_page_that_was_open_already_is_guarded_and_other_actions_are_not_asked_about(guarded, site):
    act = guarded('<form action="/in"><input name="q" aria-label="Q"><button>Go</button></form><a href="/more">more</a>', [False], more="<p>more")
    act('type textbox "Q" "x"')
    assert "did not allow" in act('click button "Go"').error and site.hits["/in"] == 0
    assert act('click link "more"').text == "more"
    assert act.asked == ['click button "Go"']


def test_a_held_form_whose_button_is_gone_is_a_failed_step(guarded):
    gone = "<form action=/in onsubmit=1><button onclick=\"setTimeout(() => this.remove())\">Go</button></form><p>here"
    act = guarded(gone, [True])
    seen = act('click button "Go"')
    assert "NotFoundError" in seen.error and seen.text == "here"


def test_without_a_person_to_ask_forms_pass(guarded, site):
    act = guarded('<form action="/in"><button>Go</button></form>', **{"in": "<p>arrived"})
    assert act('click button "Go"').text == "arrived"


# --- secrets --------------------------------------------------------------------------------------------------------


def test_a_secret_is_masked_in_every_spelling():
    secrets = Secrets()
    secrets.add('p&ss "w\\rd/ü')
    said = ['p&ss "w\\rd/ü', 'type textbox "P" "p&ss \\"w\\\\rd/ü"', "p%26ss+%22w%5Crd%2F%C3%BC", "p%26ss%20%22w%5Crd/%C3%BC"]
    assert [secrets.mask(text) for text in said] == [MASK, f'type textbox "P" "{MASK}"', MASK, MASK]
    assert secrets.mask_all({"a": [said[0], 1, None], "b": ({"c": said[2]},)}) == {"a": [MASK, 1, None], "b": [{"c": MASK}]}


def test_a_short_secret_does_not_blot_out_the_page():
    secrets = Secrets()
    secrets.add("a1")
    assert secrets.mask("a1 steak sauce") == "a1 steak sauce"


def test_a_password_that_the_page_shows_is_one_all_the_same(visit):
    fields = '<label>Password <input value=x></label><label>PIN <input type=password></label><label>Name <input></label>'
    page = visit(fields)
    secret = [page.run(page.tab.is_secret(Action("type", "textbox", name, text="1234"))) for name in ("Password", "PIN", "Name")]
    assert secret == [True, True, False]
