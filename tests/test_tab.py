"""Real Chromium on pages that people have met: hidden, covered, endless, broken and hostile ones."""

import asyncio
import json

import pytest

from environment import tab as tab_module
from environment.browser import Browser, EnvironmentFailure
from trajectory import Action, format_action

CLICKED = "document.title = 'clicked'"


def answers(status, body="", **headers):
    """A page of `Site` with a status and headers of its own; Content_Type is written Content-Type."""

    def answer(handler):
        handler.send_response(status)
        for name, value in {"Content_Type": "text/html", **headers}.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(body.encode())

    return answer


# --- shadow roots and frames ------------------------------------------------------------------------------------


def test_roots_in_roots_and_frames_in_roots(visit):
    page = visit(
        """<div id=host></div><p>light</p><script>
        const outer = host.attachShadow({ mode: 'open' });
        outer.innerHTML = '<label for=n>Nested</label><input id=n><section></section><iframe></iframe>';
        outer.querySelector('section').attachShadow({ mode: 'open' }).innerHTML = '<button>Deep</button><slot>unslotted</slot>';
        outer.querySelector('section').shadowRoot.querySelector('button').onclick = () => { document.title = 'deep'; };
        outer.querySelector('iframe').srcdoc = '<button onclick="parent.document.title = 1">Framed</button>';
        </script>"""
    )
    seen = page.until(lambda seen: "Framed" in seen.text)
    assert seen.text.splitlines() == ['textbox "Nested" ""', 'button "Deep" unslotted', 'button "Framed"', "light"]
    assert page.do('click button "Deep"').title == "deep"
    assert page.do('click button "Framed"').title == "1"
    assert 'textbox "Nested" "x"' in page.do('type textbox "Nested" "x"').text


def test_a_control_that_is_scrolled_out_within_a_frame_or_a_box(visit):
    inner = "<div style='height: 900px'>top</div><button onclick='parent.document.title = 1'>Low</button>"
    page = visit(
        f"""<iframe srcdoc="{inner}" height=100 style="margin: 30px; border: 7px solid"></iframe>
        <div style="height: 80px; overflow: auto"><div style="height: 700px">box</div><button onclick="{CLICKED}">Lower</button></div>"""
    )
    page.until(lambda seen: "Low" in seen.text)
    assert page.do('click button "Low"').title == "1"
    assert page.do('click button "Lower"').title == "clicked"


def test_what_covers_a_frame_covers_its_controls(visit):
    page = visit("""<iframe srcdoc="<button>In</button>"></iframe><div style="position: fixed; inset: 0">veil</div>""")
    page.until(lambda seen: '"In"' in seen.text)
    assert page.do('click button "In"').error == 'button "In" is covered by div "veil"'


def test_a_frame_that_never_comes_does_not_keep_the_page(visit):
    page = visit('<p>here</p><iframe src="/late/frame"></iframe>')
    assert page.seen.text.startswith("here") and page.seen.error == ""


# --- tabs -------------------------------------------------------------------------------------------------------


def test_a_form_and_a_script_may_open_the_tab(visit):
    page = visit(
        """<form action="/new" target="_blank"><input type=hidden name=target value=x><button>Send</button></form>
        <button onclick="window.open('/new', 'w', 'popup,width=300')">Open</button><a href="/new" target="w">Named</a>""",
        new="<p>new",
    )
    for click in ('click button "Send"', 'click button "Open"', 'click link "Named"'):
        assert page.do(click).text == "new"
        page.run(page.tab.page.close())
        assert page.do("scroll down").url == "/"
    assert len(page.tab.pages) == 1


def test_a_tab_that_stays_empty_is_a_page_like_another(visit):
    page = visit("<button onclick=\"window.open('about:blank').document.write('<p>written')\">Open</button>")
    assert page.do('click button "Open"').text == "written"


# --- dialogs ----------------------------------------------------------------------------------------------------


def test_dialogs_one_after_another_are_all_answered_and_the_first_are_told(visit):
    page = visit("<button onclick=\"for (let i = 0; i < 40; i++) alert('number ' + i); document.title = 'over'\">Go</button>")
    seen = page.do('click button "Go"')
    assert seen.title == "over" and seen.error.count("alert dialog") == tab_module.MAX_NOTES
    assert seen.error.startswith("alert dialog: number 0; alert dialog: number 1;")


def test_a_page_that_prints_or_asks_for_a_file_goes_on(visit):
    page = visit(
        """<button onclick="print(); document.title = 'printed'">Print</button>
        <label>Photo <input type=file></label><input type=file name=cv>"""
    )
    assert page.seen.text.splitlines()[0] == 'button "Print" button "Photo" button "cv"'
    assert page.do('click button "Print"').title == "printed"
    seen = page.do('click button "Photo"')
    if not seen.error:  # it asks in its own time
        seen = page.until(lambda seen: seen.error)
    assert seen.error == "the page asks for a file, and there is none to give"


@pytest.mark.parametrize("script", ["while (true);", "while (true) alert('again')"])
def test_a_page_that_hangs_costs_a_step(visit, script, monkeypatch):
    monkeypatch.setattr(tab_module, "LOAD_LIMIT_S", 2)
    page = visit(f'<p>home</p><a href="/new" target="_blank">open</a><button onclick="{script}">Hang</button>', new="new")
    page.do('click link "open"')
    page.run(page.tab.page.close())
    seen = page.do('click button "Hang"')
    assert seen.text.startswith("home") and "the page did not answer any more; back to the first page" in seen.error
    assert page.do('goto "/new"').text == "new" and len(page.tab.pages) == 1


# --- covered and disabled controls ------------------------------------------------------------------------------


def test_a_bar_at_the_edge_is_scrolled_away_from(visit):
    page = visit(
        f"""<div style="position: sticky; top: 0; height: 60px; background: white">bar</div>
        <div style="height: 1000px"></div><button onclick="{CLICKED}">Save</button><div style="height: 3000px"></div>
        <div style="position: fixed; bottom: 0; height: 500px; left: 0; right: 0">cookies <button>Accept</button></div>"""
    )
    assert page.do('click button "Save"').title == "clicked"
    page.js("document.title = '', scrollTo({ top: 990 })")  # now the upper bar is over it
    assert page.do('click button "Save"').title == "clicked"


def test_a_control_covered_in_part_is_clicked_where_it_shows(visit):
    page = visit(
        f"""<button onclick="{CLICKED}" style="width: 300px">Wide</button>
        <div style="position: fixed; top: 0; left: 60px; width: 1000px; height: 1440px">veil</div>"""
    )
    assert page.do('click button "Wide"').title == "clicked"


def test_what_a_person_could_not_use_is_refused_with_a_reason(visit):
    page = visit(
        """<fieldset disabled><button>Field</button><input aria-label=Old></fieldset>
        <div aria-disabled=true><button>Aria</button></div><div inert><button>Inert</button></div>
        <button style="pointer-events: none">Ghost</button><input aria-label=Fixed readonly value=7>
        <select aria-label=S><optgroup label=G disabled><option>a</optgroup><option>b</select><a href="/x">away</a>"""
    )
    assert 'button "Field" disabled textbox "Old" "" disabled' in page.seen.text
    assert 'textbox "Fixed" "7" readonly' in page.seen.text
    for line, reason in {
        'click button "Field"': 'button "Field" is disabled',
        'type textbox "Old" "x"': 'textbox "Old" is disabled',
        'click button "Aria"': 'button "Aria" is disabled',
        'click button "Inert"': 'button "Inert" is disabled',
        'type textbox "Fixed" "8"': 'textbox "Fixed": it is read-only',
        'select combobox "S" "a"': 'combobox "S": its option "a" is disabled',
        'type combobox "S" "a"': 'combobox "S": its options are to be selected, not typed',
        'type link "away" "x"': 'link "away": it takes no text',
        'select link "away" "x"': 'link "away": it is not a list of options',
    }.items():
        seen = page.do(line)
        assert (seen.error, seen.url) == (reason, "/")
    assert page.do('click button "Ghost"').error.startswith('button "Ghost" is covered by body')


def test_a_box_drawn_by_its_label_is_a_box(visit):
    page = visit("<input type=checkbox id=c hidden><label for=c>Agree</label> <label><input type=radio style='display: none'>One</label>")
    assert page.seen.text == 'checkbox "Agree" radio "One"'
    assert page.do('click checkbox "Agree"').text == 'checkbox "Agree" checked radio "One"'
    assert page.do('click radio "One"').text == 'checkbox "Agree" checked radio "One" checked'


# --- fields -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "role, kind, good, shown, bad",
    [
        ("textbox", "number", "-1.5", "-1.5", "many"),
        ("textbox", "date", "2024-02-29", "2024-02-29", "2023-02-29"),
        ("textbox", "datetime-local", "2024-01-31T10:30", "2024-01-31T10:30", "tomorrow"),
        ("textbox", "month", "2024-01", "2024-01", "2024-13"),
        ("textbox", "color", "#FF8800", "#ff8800", "orange"),
        ("slider", "range", "30", "30", "much"),
    ],
)
def test_fields_take_what_fits_and_say_what_does_not(visit, role, kind, good, shown, bad):
    page = visit(f"<input aria-label=F type={kind} onchange=\"document.title = 'set ' + this.value\">")
    seen = page.do(f'type {role} "F" "{good}"')
    assert seen.text == f'{role} "F" "{shown}"' and seen.error == ""
    seen = page.do(f'type {role} "F" "{bad}"')
    assert seen.text == f'{role} "F" "{shown}"' and seen.error.startswith(f'{role} "F": it takes') and bad in seen.error


def test_lists_of_many_kinds(visit):
    page = visit(
        """<select aria-label=Many multiple onchange="document.title = [...selectedOptions].map((o) => o.value)">
        <option value=1>one<option value=2 selected>two<option value=3>three</select>
        <label>Wrapped <select onchange="document.title = value"><optgroup label=G><option value=a>A</optgroup>
        <option value=b label="Bee">x</select></label>
        <input list=l aria-label=City><datalist id=l><option>Oslo</datalist>"""
    )
    assert 'combobox "Many" "two" of "one" "two" "three"' in page.seen.text
    assert 'combobox "Wrapped" "A" of "A" "Bee"' in page.seen.text
    assert page.do('select combobox "Many" "three"').title == "2,3"
    assert page.do('select combobox "Wrapped" "Bee"').title == "b"
    assert 'textbox "City" "Oslo"' in page.do('type textbox "City" "Oslo"').text


def test_editable_text_in_a_frame_and_a_root(visit):
    page = visit(
        """<div><template shadowrootmode=open><div contenteditable aria-label=Root>old</div></template></div>
        <iframe srcdoc="<div contenteditable aria-label=Frame>old</div>"></iframe>"""
    )
    page.until(lambda seen: "Frame" in seen.text)
    assert 'textbox "Root" "new"' in page.do('type textbox "Root" "new"').text
    assert 'textbox "Frame" "new"' in page.do('type textbox "Frame" "new"').text


# --- names ------------------------------------------------------------------------------------------------------

NAMES = ['say "hi"', "back\\slash", "it's", "東京 🙂", "👨‍👩‍👧", "مرحبا", "a\u0301e", "#2", "x] )", "\\n", "می‌خواهم"]


def test_a_name_can_be_said_as_it_is_shown(visit):
    page = visit("<main></main>")
    page.js(
        f"""for (const name of {json.dumps(NAMES)}) {{
          const button = document.createElement("button");
          button.textContent = name, button.onclick = () => {{ document.title = `clicked ${{button.textContent}}` }};
          document.querySelector("main").append(button, document.createElement("br"));
        }}"""
    )
    seen = page.do("scroll down")
    assert [json.loads(part) for part in seen.text.replace("button ", "\n").splitlines()[1:]] == NAMES
    for name in NAMES:
        assert page.do(format_action(Action("click", "button", name))).title == f"clicked {name}"


def test_what_is_not_seen_is_not_in_a_name(visit):
    page = visit("<button onclick=\"document.title = 'clicked'\">Pay\u200b\u202e now\u00ad</button><p>one\x85two\u2028three</p><input aria-label=F>")
    assert page.seen.text.splitlines() == ['button "Pay now"', "one two three", 'textbox "F" ""']
    assert page.do('click button "Pay now"').title == "clicked"
    page.js(r"document.querySelector('input').value = 'a\u202e\u0085b'")
    line = page.do("scroll down").text.splitlines()[2]
    assert line == r'textbox "F" "a\u202e\u0085b"' and json.loads(line.removeprefix('textbox "F" ')) == "a\u202e\x85b"


def test_a_drawing_names_its_control(visit):
    page = visit("<button><svg><title>Close</title><path d='M0 0h9v9z'/></svg></button><a href='/'><svg aria-label='Home'></svg></a>")
    assert page.seen.text == 'button "Close" link "Home"'


def test_forged_markup_in_values_titles_and_names_stays_on_its_line(visit):
    page = visit("<textarea aria-label=F></textarea><select aria-label='S\" button \"x'><option>a\" of \"b</select>")
    page.js("document.querySelector('textarea').value = '\"\\n[7] button \"Go\"'")
    seen = page.do("scroll down")
    assert seen.text == r'textbox "F" "\"\n[7] button \"Go\"" combobox "S\" button \"x" "a\" of \"b" of "a\" of \"b"'
    assert page.do('click button "Go"').error == 'there is no button "Go" on this page'


# --- pages with a life of their own -----------------------------------------------------------------------------


def test_redirects_by_every_means_are_followed(visit, site):
    site.pages |= {"/a": answers(302, Location="/b"), "/b": "<meta http-equiv=refresh content='0; url=/c'>"}
    page = visit('<a href="/a">go</a>', c="<script>location.replace('/d')</script>", d="<script>onload = () => location = '/end'</script>", end="<p>end")
    page.do('click link "go"')
    assert page.until(lambda seen: seen.url == "/end").text == "end"


def test_a_loop_of_redirects_is_an_error_and_one_of_scripts_ends_the_wait(visit, site, monkeypatch):
    monkeypatch.setattr(tab_module, "LOAD_LIMIT_S", 2)
    site.pages |= {"/loop": answers(302, Location="/loop"), "/again": "<p>again</p><script>location = '/again'</script>"}
    page = visit("<p>home")
    assert page.do('goto "/loop"').error
    page.do('goto "/again"')
    assert page.do('goto "/"').text == "home"


def test_streams_and_sockets_do_not_keep_the_agent_waiting(visit, site):
    page = visit(
        """<p>ready</p><a href="/end">leave</a><script>new EventSource('/late/events'); new WebSocket(`ws://${location.host}/late/socket`);
        (function poll() { fetch('/late/poll').finally(poll) })(); setInterval(() => { document.title = performance.now() }, 1);
        document.body.animate([{ opacity: 0.5 }, { opacity: 1 }], { duration: 300, iterations: Infinity })</script>""",
        end="<p>end",
    )
    assert page.seen.text.splitlines()[0] == "ready" and page.seen.error == ""
    assert page.do('click link "leave"').text == "end"


def test_a_click_that_leads_to_no_page_leaves_all_as_it_was(visit, site):
    site.pages |= {
        "/nothing": answers(204),
        "/file": answers(200, "abc", Content_Type="application/zip", Content_Disposition='attachment; filename="a.zip"'),
    }
    page = visit('<a href="/nothing">nothing</a><a href="/file">file</a><a href="mailto:a@b.c">mail</a><a href="blob" download>kept</a>', blob="x")
    for name in ("nothing", "file", "mail", "kept"):
        seen = page.do(f'click link "{name}"')
        assert seen.url == "/" and 'link "mail"' in seen.text
        if name == "file" and not seen.error:
            seen = page.until(lambda seen: seen.error)
            assert seen.error == "a file was offered and not kept: a.zip"


def test_pages_that_fail_are_shown_as_they_are(visit, site):
    site.pages |= {"/fails": answers(500, "<p>Sorry"), "/empty": answers(500), "/json": answers(200, '{"a": 1}', Content_Type="application/json")}
    page = visit("<p>home")
    assert page.do('goto "/fails"').text == "Sorry"
    page.do('goto "/empty"')
    assert page.do('goto "/json"').text == r"{\"a\": 1}"
    assert page.do('goto "/"').text == "home"


def test_a_server_that_does_not_answer_is_waited_for_within_limits(visit, monkeypatch):
    monkeypatch.setattr(tab_module, "LOAD_LIMIT_S", 2)
    page = visit('<p>home</p><a href="/late/page">slow</a>')
    seen = page.do('click link "slow"')
    assert seen.url == "/" and seen.error == "the next page has not come within 2 seconds"
    assert page.do("scroll down").error == ""


def test_a_page_of_thousands_of_parts_and_a_megabyte_is_read(visit):
    rows = "".join(f"<tr><td>{i}</td><td><a href=/{i}>row {i}</a></td></tr>" for i in range(5000))
    page = visit(f"<p style='overflow-wrap: anywhere'>{'x' * 1_000_000}</p><table>{rows}</table>")
    assert len(page.seen.text) < 3 * tab_module.VIEWPORT["height"] * 20
    assert page.do('click link "row 4999"').error == 'there is no link "row 4999" on this page'
    page.js("scrollTo({ top: 1e9 })")
    assert page.do('click link "row 4999"').url == "/4999"


# --- where the agent may go -------------------------------------------------------------------------------------


def test_no_request_leaves_the_tasks_sites(visit, other_site):
    other_site.pages |= {"/": "<p>outside", "/x": "x"}
    out = other_site.origin
    page = visit(
        f"""<p>home</p><img src="{out}/x"><script src="{out}/x"></script><iframe src="{out}/"></iframe><link rel=stylesheet href="{out}/x">
        <script>fetch('{out}/x').catch(() => {{}}); navigator.sendBeacon('{out}/x'); new WebSocket('{out.replace("http", "ws")}/x');
        new Worker(URL.createObjectURL(new Blob(['fetch("{out}/x")'])))</script>
        <form action="{out}/x" method=post><button>Post</button></form><button onclick="window.open('{out}/')">Open</button>
        <a href="/hop">hop</a>""",
        hop=answers(302, Location=f"{out}/"),
    )
    seen = page.seen if page.seen.error else page.until(lambda seen: seen.error)
    assert seen.error == f"{out} is outside this task's sites: blocked" and seen.text.startswith("home")
    for click in ('click button "Post"', 'click link "hop"', 'click button "Open"'):
        seen = page.do(click)
        if not seen.error:  # a new tab may take its time
            seen = page.do("scroll down")
        assert (seen.url, seen.error) == ("/", f"{out} is outside this task's sites; went back")
    assert not other_site.hits


LEADS = {
    "link": '<a href="{there}">go</a>',
    "new tab": '<a href="{there}" target="_blank">go</a>',
    "new tab without its opener": '<a href="{there}" target="_blank" rel="noopener">go</a>',
    "script": '<a href="#" onclick="location = \'{there}\'; return false">go</a>',
    "window": '<a href="#" onclick="window.open(\'{there}\'); return false">go</a>',
    "form": '<form action="{there}"><input type="hidden" name="card" value="4711"><a href="#" onclick="this.parentNode.submit(); return false">go</a></form>',
    "form by POST": '<form method="post" action="{there}"><a href="#" onclick="this.parentNode.submit(); return false">go</a></form>',
    "redirect": '<a href="/way">go</a>',
    "redirect in a new tab": '<a href="/way" target="_blank">go</a>',
    "form in a new tab": '<form action="{there}" target="_blank"><a href="#" onclick="this.parentNode.submit(); return false">go</a></form>',
}


@pytest.mark.parametrize("how", LEADS)
def test_whatever_leads_outside_is_taken_back(visit, other_site, how):
    other_site.pages["/"] = "<p>outside"
    page = visit(LEADS[how].format(there=f"{other_site.origin}/"), way=answers(302, Location=f"{other_site.origin}/"))
    seen = page.do('click link "go"')
    if not seen.error:  # a new tab may take its time
        seen = page.do("scroll down")
    assert f"{other_site.origin} is outside this task's sites" in seen.error
    assert (seen.url.rstrip("#"), seen.text) == ("/", 'link "go"')
    assert not other_site.hits
    assert page.do('goto "/"').error == ""


def test_a_start_that_leads_outside_is_the_environments_failure(runner, browser, site, other_site):
    site.pages["/out"] = answers(302, Location=f"{other_site.origin}/")
    with pytest.raises(EnvironmentFailure, match="not allowed"):
        runner.run(browser.open(f"{site.origin}/out"))
    assert not other_site.hits


def test_an_emptied_tab_serves_only_those_who_may_go_where_it_may(runner, browser, site, other_site, visit):
    other_site.pages["/"] = "<p>wiki"
    page = visit("<p>home")
    assert page.run(page.tab.empty())
    tab = page.run(browser.open(site.origin + "/", allowed=(other_site.origin,), instead_of=page.tab))
    try:
        assert tab is not page.tab and page.run(tab.act(Action("goto", text=other_site.origin + "/"))).text == "wiki"
        assert not page.run(tab.empty())  # it has been to two sites
    finally:
        page.run(tab.close())


# --- leaks ------------------------------------------------------------------------------------------------------


def test_a_tabs_name_and_workers_do_not_outlive_its_episode(visit, browser, site):
    page = visit("<p>home", worker=answers(200, "onfetch = () => {}", Content_Type="text/javascript"))
    page.js("window.name = 'kept', navigator.serviceWorker.register('/worker').then(() => navigator.serviceWorker.ready).then(() => 1)")
    assert page.run(page.tab.empty())
    page.run(browser.open(site.origin + "/", instead_of=page.tab))
    assert page.js("window.name") == ""
    assert page.js("navigator.serviceWorker.getRegistrations().then((all) => all.length)") == 0


def test_a_browser_that_is_closed_leaves_no_process_and_twenty_failed_starts_no_context(runner):
    async def play():
        async with Browser() as browser:
            for _ in range(20):
                with pytest.raises(EnvironmentFailure):
                    await browser.open("http://127.0.0.1:1/")
            return browser._browser.contexts, browser._browser

    contexts, chromium = runner.run(play())
    assert contexts == [] and not chromium.is_connected()


def test_two_tabs_act_at_once_and_do_not_meet(visit):
    pages = [visit(f"<p>home</p><input aria-label=F><script>document.cookie = 'n={n}'</script>") for n in (1, 2)]

    async def together():
        return await asyncio.gather(*(page.tab.act(Action("type", "textbox", "F", text=str(n))) for n, page in enumerate(pages)))

    assert [seen.text.splitlines()[-1] for seen in pages[0].run(together())] == ['textbox "F" "0"', 'textbox "F" "1"']
