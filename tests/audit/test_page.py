"""The audit's page in a real browser: what a person does there, and what nothing can do there."""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from flr.audit.page import write_page
from flr.audit.pictures import no_picture
from flr.audit.relabel import read_corrections
from flr.core.errors import DataError
from flr.core.plain_text import to_cell
from tests.audit.pages import HOSTILE, make_site, picture


def test_one_file_that_names_what_may_run(audit_of: Any, tmp_path: Path) -> None:
    path, audit = tmp_path / "audit.html", audit_of(12, classes=HOSTILE, names=HOSTILE)
    write_page(audit, make_site(audit), path)
    text = path.read_text(encoding="utf-8")
    assert text.count("<script") == text.count("</script>") == 2
    assert "<img" not in text
    assert set(re.findall(r"https?://[^\"' ]+", text)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"innerHTML|insertAdjacent|eval\(|document\.write|url\(|@import", text)
    policy = text.split('http-equiv="Content-Security-Policy" content="')[1].split('"')[0]
    assert policy.startswith("default-src &#39;none&#39;; img-src data:;")
    assert "unsafe" not in policy
    data = json.loads(text.split('id="data">')[1].split("</script>")[0])
    assert tuple(data["classes"]) == HOSTILE
    sent = data["rows"]["0"]["picture"].split(",")[1]
    assert base64.b64decode(sent) == picture(0)


def test_other_pictures_are_refused(audit_of: Any, tmp_path: Path) -> None:
    site = make_site(audit_of(), pictures=lambda *_: b"<svg onload=1>")
    with pytest.raises(DataError, match=r"PNG or JPEG thumbnail of scan 0\.png; got bytes"):
        write_page(audit_of(), site, tmp_path / "audit.html")
    assert not (tmp_path / "audit.html").exists()


def test_it_begins_with_the_verdict(show: Any) -> None:
    page = show()
    assert page.text("#site") == "ward-7"
    assert page.text("#verdict") == page.audit.verdict
    assert page.browser.title == "Label audit of ward-7 · flr"
    first = page.text("#card-0")
    assert "99\u00a0% likely wrong. Labelled cat, but looks like dog." in first
    assert page.audit.suspects[0].reason in first
    assert page.run("return document.querySelector('#card-0 img').naturalWidth") == 16
    unchecked = [item.text for item in page.all("#unchecked li")]
    assert unchecked == list(page.audit.unchecked)
    assert "never from training and test data alike" in page.text("main")
    assert page.browser.get_log("browser") == []


def test_a_sample_without_a_picture_shows_its_features(show: Any) -> None:
    broken = b"\x89PNG\r\n\x1a\n but not further"
    page = show(site={"pictures": lambda row, *_: {1: broken}.get(row)})
    assert page.text("#card-0 .features") == "age 0, heart rate 80"
    page.wait(100)
    assert page.text("#card-1 .features") == "This picture cannot be shown."


def test_buttons_decide_and_go_on(show: Any) -> None:
    page = show()
    page.click("#card-0 [data-act=accept]")
    assert page.current == "scan 1.png"
    page.click("#card-1 [data-act=keep]")
    page.click("#card-5 [data-act=skip]")
    assert page.current == "scan 6.png"
    assert page.text("#card-0 .decided") == "Accepted: the label becomes dog."
    assert page.text("#card-1 .decided") == "Kept: the label stays dog."
    assert page.text("#card-5 .decided") == "Skipped: left open."
    pressed = "#card-{} [data-act={}][aria-pressed=true]"
    assert all(page.all(pressed.format(*of)) for of in ((0, "accept"), (1, "keep"), (5, "skip")))
    assert len(page.all("#suspects [aria-pressed=true]")) == 3
    assert page.progress == "1 accepted, 1 kept, 1 skipped"
    assert page.text("#said") == "Skipped: left open."
    page.click("#card-1 [data-act=clear]")
    assert page.progress == "1 accepted, 0 kept, 1 skipped"
    assert page.current == "scan 1.png"


def test_keys_decide_undo_and_move(show: Any) -> None:
    page = show()
    page.keys("a", "k", "s", "A")
    assert page.progress == "2 accepted, 1 kept, 1 skipped"
    assert page.current == "scan 4.png"
    assert page.run("return document.activeElement.id") == "card-4"
    page.keys("u", "u")
    assert page.progress == "1 accepted, 1 kept, 0 skipped"
    assert page.current == "scan 2.png"
    page.keys("\ue015", "\ue015", "\ue013")  # down, down, up
    assert page.current == "scan 3.png"
    page.keys("k", "\ue013", "\ue017")  # keep, up, delete
    assert page.text("#card-3 .decided") == "Undecided"
    page.click("#keys")
    page.keys("a", "k")
    assert page.progress == "1 accepted, 1 kept, 0 skipped"


def test_a_held_key_decides_once(show: Any) -> None:
    page = show()
    for held in (False, True, True, True):
        page.run(
            "document.body.dispatchEvent(new KeyboardEvent('keydown',"
            " {key: 'a', bubbles: true, repeat: arguments[0]}))",
            held,
        )
    assert page.progress == "1 accepted, 0 kept, 0 skipped"


def test_the_last_key_of_a_page_turns_it(show: Any) -> None:
    page = show(45)
    assert page.page == "1 of 3"
    page.keys(*"a" * 20)
    assert page.page == "2 of 3"
    assert page.names == [f"scan {i}.png" for i in range(20, 40)]
    page.click("#after")
    assert page.names == [f"scan {i}.png" for i in range(40, 45)]
    page.keys(*"k" * 7)
    assert page.progress == "20 accepted, 5 kept, 0 skipped"
    assert page.text("#said").endswith("This was the last one of the list.")
    page.click("#before")
    assert page.current == "scan 20.png"


def test_another_class_can_be_chosen(show: Any, downloads: Path) -> None:
    page = show()
    page.keys("c", *"frog", "\ue007")
    assert page.text("#card-0 .decided") == "Accepted: the label becomes frog."
    assert page.all("#card-0 [data-act=other][aria-pressed=true]")
    page.keys("c", *"no such", "\ue007")
    assert page.one("#chooser-take").get_attribute("disabled")
    page.keys("\ue00c")
    assert page.current == "scan 1.png"
    assert page.saved(downloads)[1][:4] == ["scan 0.png", "cat", "accept", "frog"]


def test_the_given_class_is_no_choice(show: Any) -> None:
    page = show()
    page.keys("c")
    assert page.each("#chooser-list option", "e.text") == ["dog", "frog", "horse"]


def test_filters_list_what_they_say(show: Any) -> None:
    page = show()

    def wanted(**sides: str) -> list[str]:
        fits = (s for s in page.audit.suspects if all(getattr(s, k) == v for k, v in sides.items()))
        return [s.name for s in fits][:20]

    page.click("#filter-given")
    page.pick("frog")
    assert page.names == wanted(given="frog")
    page.click("#filter-suggested")
    page.pick("cat")
    assert page.names == wanted(given="frog", suggested="cat")
    assert page.text("#filter-given") == "Labelled: frog"
    page.keys("a")
    page.click("#state option[value=open]")
    assert page.names == wanted(given="frog", suggested="cat")[1:]
    page.keys("\ue00c")
    page.click("#state option[value=keep]")
    assert page.names == []
    page.click("#show-all")
    assert page.names == wanted()


def test_undecided_ones_leave_their_list_and_come_back(show: Any) -> None:
    page = show(5)
    page.click("#state option[value=open]")
    page.click("#card-2 [data-act=accept]")
    assert page.names == [f"scan {i}.png" for i in (0, 1, 3, 4)]
    assert page.current == "scan 3.png"
    page.keys("k", "k")
    assert page.names == ["scan 0.png", "scan 1.png"]
    page.keys("u")
    assert page.names == ["scan 0.png", "scan 1.png", "scan 4.png"]
    assert page.current == "scan 4.png"


def test_a_pair_leads_to_its_suspects(show: Any) -> None:
    page = show()
    page.click("#pairs tr:nth-child(2) button")
    assert page.text("#filter-given") == "Labelled: dog"
    assert page.text("#filter-suggested") == "Looks like: frog"
    assert page.names
    assert page.run("return document.activeElement.tagName") == "ARTICLE"


@pytest.mark.parametrize(
    ("order", "key"),
    [
        ("probability", lambda s: -s.probability),
        ("confidence", lambda s: -round(s.confidence, 4)),
        ("given", lambda s: s.given),
        ("suggested", lambda s: s.suggested),
        ("name", lambda s: s.row),
    ],
)
def test_orders(show: Any, order: str, key: Callable[[Any], Any]) -> None:
    page = show()
    page.click("#order option[value=name]")
    page.click(f"#order option[value={order}]")
    assert page.names == [s.name for s in sorted(page.audit.suspects, key=key)][:20]


def test_decisions_survive_a_reload(show: Any, downloads: Path) -> None:
    page = show()
    page.keys("a", "k", "c", *"horse", "\ue007", "s")
    before = page.saved(downloads)
    page.browser.refresh()
    assert page.progress == "2 accepted, 1 kept, 1 skipped"
    assert page.saved(downloads) == before
    assert not page.one("#not-stored").is_displayed()
    other = show(61)  # another audit in the same browser
    assert other.progress == "0 accepted, 0 kept, 0 skipped"


def test_two_tabs_do_not_lose_each_others_decisions(show: Any) -> None:
    page = show()
    first = page.browser.current_window_handle
    page.browser.switch_to.new_window("tab")
    try:
        page.open()
        page.keys("a")
        page.browser.switch_to.window(first)
        assert page.browser.execute_async_script(
            "const done = arguments[0];"
            "(function look() { decisions.size ? done(true) : setTimeout(look, 20) })()"
        )
        page.click("#card-3 [data-act=keep]")
        assert page.progress == "1 accepted, 1 kept, 0 skipped"
    finally:
        for handle in page.browser.window_handles:
            if handle != first:
                page.browser.switch_to.window(handle)
                page.browser.close()
        page.browser.switch_to.window(first)


LEAVE = """
    const leaving = new Event("beforeunload", { cancelable: true });
    dispatchEvent(leaving);
    return leaving.defaultPrevented
"""


def test_it_says_when_the_browser_keeps_nothing(show: Any, downloads: Path) -> None:
    page = show()
    assert not page.run(LEAVE)
    # A page at a data: address has no storage in Chromium.
    address = base64.b64encode(page.path.read_bytes()).decode()
    page.browser.get(f"data:text/html;base64,{address}")
    assert page.one("#not-stored").is_displayed()
    assert not page.run(LEAVE)
    page.keys("a")
    assert page.run(LEAVE)
    page.saved(downloads)
    assert not page.run(LEAVE)
    page.keys("a")
    assert page.run(LEAVE)


def test_it_says_when_the_storage_is_full(show: Any) -> None:
    page = show()
    page.run(
        "let size = 1 << 22; while (size) {"
        " try { localStorage.setItem('fill' + localStorage.length, 'x'.repeat(size)) }"
        " catch { size >>= 1 } }"
    )
    page.keys("a")
    assert page.one("#not-stored").is_displayed()
    assert page.progress == "1 accepted, 0 kept, 0 skipped"
    page.run("localStorage.clear()")
    page.keys("a")
    assert not page.one("#not-stored").is_displayed()


def test_hostile_names_are_text_and_come_out_exactly(show: Any, downloads: Path) -> None:
    page = show(len(HOSTILE), classes=HOSTILE, names=HOSTILE, called=HOSTILE[1])
    page.keys(*"a" * 6, *"k" * 6)
    assert page.run("return window.hacked") is None
    assert page.browser.get_log("browser") == []
    visible = [name if name.strip() else f"“{name}” (blank)" for name in HOSTILE]
    assert page.names == visible
    assert page.text("#card-1 .claim bdi") == visible[1]
    header, *rows = page.saved(downloads)
    assert header == ["name", "given", "decision", "label", "audit"]
    wanted = [
        [s.name, s.given, "accept", s.suggested, page.audit.key]
        if i < 6
        else [s.name, s.given, "keep", "", page.audit.key]
        for i, s in enumerate(page.audit.suspects)
    ]
    assert rows == [[to_cell(cell) for cell in row] for row in wanted]
    assert rows != wanted  # some of them are formulas
    read = read_corrections(downloads / "corrections.csv")
    assert [[c.name, c.given, c.decision, c.label, c.audit] for c in read] == wanted
    assert page.one("#formulas").is_displayed()
    page.click("#filter-given")
    page.pick("</script>")
    assert page.names == [HOSTILE[1]]
    assert page.run("return window.hacked") is None


def test_a_saved_file_can_be_loaded_elsewhere(show: Any, downloads: Path, tmp_path: Path) -> None:
    page = show(len(HOSTILE), classes=HOSTILE, names=HOSTILE)
    page.keys(*"a" * 5, *"s" * 3, *"k" * 4)
    rows = page.saved(downloads)
    file = (downloads / "corrections.csv").rename(tmp_path / "elsewhere.csv")
    page = show(len(HOSTILE), classes=HOSTILE, names=HOSTILE)
    page.keys("k")
    page.one("#file").send_keys(str(file))
    page.until("#loaded", "elsewhere.csv: 12 decisions loaded.")
    assert page.progress == "5 accepted, 4 kept, 3 skipped"
    assert page.saved(downloads) == rows
    page.click("#undo")
    assert page.progress == "0 accepted, 1 kept, 0 skipped"


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("scan 99.png,cat,keep,,KEY", "“scan 99.png” is not among the suspects"),
        ("scan 0.png,dog,keep,,KEY", "has the label “cat” here and “dog” in the file"),
        ("scan 0.png,cat,constructor,,KEY", "expected accept, keep or skip"),
        ("scan 0.png,cat,accept,cow,KEY", "“cow” is not a class of this audit"),
        ('scan 0.png,"cat,keep,,KEY', "Row 3 has a quote in an unexpected place"),
    ],
)
def test_a_file_that_does_not_fit_changes_nothing(
    show: Any, tmp_path: Path, row: str, words: str
) -> None:
    page = show()
    good = "name,given,decision,label,audit\nscan 1.png,dog,keep,,KEY\n"
    file = tmp_path / "mine.csv"
    file.write_text((good + row + "\n").replace("KEY", page.audit.key), encoding="utf-8")
    page.one("#file").send_keys(str(file))
    page.until("#loaded", "mine.csv: does not fit. ")
    assert words in page.text("#loaded")
    assert page.progress == "0 accepted, 0 kept, 0 skipped"


def test_a_file_of_another_kind_is_refused(show: Any, tmp_path: Path) -> None:
    page = show()
    (tmp_path / "labels.csv").write_text("name,label\nscan 0.png,cat\n")
    page.one("#file").send_keys(str(tmp_path / "labels.csv"))
    page.until("#loaded", "there is no given, decision, audit")


def test_a_file_edited_in_a_spreadsheet_is_read(show: Any, tmp_path: Path) -> None:
    page = show()
    text = "\ufeffname,audit,given,decision,label\nscan 2.png,KEY,frog,accept,horse\n\n"
    file = tmp_path / "edited.csv"
    file.write_text(text.replace("KEY", page.audit.key), encoding="utf-8")
    page.one("#file").send_keys(str(file))
    page.until("#loaded", "1 decision loaded")
    assert page.text("#card-2 .decided") == "Accepted: the label becomes horse."


def test_the_budget_is_said_in_words(show: Any) -> None:
    page = show(400)
    found = sum(s.probability for s in page.audit.suspects[:200])
    words = page.text("#finds")
    assert f"Reviewing 200 finds about {found:.0f} of about 240 wrong labels." in words
    assert "In random order it would find about 12." in words
    page.keys("\ue004", "\ue004")
    page.run(
        "const r = document.getElementById('reviewed'); r.value = 30;"
        "r.dispatchEvent(new Event('input'))"
    )
    found = sum(s.probability for s in page.audit.suspects[:30])
    assert f"Reviewing 30 finds about {found:.0f} of" in page.text("#finds")


def test_no_suspects_at_all(show: Any) -> None:
    page = show(0)
    assert page.names == []
    assert page.one("#nothing").is_displayed()
    assert not page.one("#budget").is_displayed()
    page.keys("a", "k", "s", "c", "u")
    assert page.progress == "0 accepted, 0 kept, 0 skipped"
    assert page.browser.get_log("browser") == []


def test_five_thousand_suspects_keep_the_document_small(show: Any) -> None:
    page = show(5000)
    size = "return document.getElementsByTagName('*').length"
    at_first = page.run(size)
    assert at_first < 1500
    page.run(
        "window.touched = 0; new MutationObserver((all) => { for (const m of all)"
        " touched += m.addedNodes.length }).observe(document.getElementById('suspects'),"
        " {childList: true, subtree: true})"
    )
    page.keys("a")
    assert page.run("return touched") < 10
    page.run("go(4321)")
    assert page.names[0] == "scan 4320.png"
    assert page.run(size) < at_first + 100
    page.keys("k")
    page.click("#order option[value=confidence]")
    assert page.run(size) < at_first + 100
    assert page.text("#progress").startswith("2 of 5,000 suspects decided")


def test_ten_thousand_classes(show: Any) -> None:
    classes = [f"species {i}" for i in range(10_000)]
    page = show(300, classes=classes)
    assert page.run("return document.getElementsByTagName('*').length") < 1500
    page.keys("c")
    assert len(page.all("#chooser-list option")) == 50
    assert page.text("#chooser-count").startswith("9,999 classes match.")
    page.keys(*"9876", "\ue007")
    assert page.text("#card-0 .decided") == "Accepted: the label becomes species 9876."
    page.click("#rates-more")
    assert len(page.all("#rates tr")) == 120


@pytest.fixture
def listener() -> Iterator[tuple[int, list[str]]]:
    """A server nearby that notes who asks it for what."""
    asked: list[str] = []

    class Note(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()

        do_POST = do_GET  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Note)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1], asked
    server.shutdown()
    server.server_close()


def test_no_request_leaves_the_page(show: Any, downloads: Path) -> None:
    page = show()
    page.browser.get_log("performance")
    page.open()
    page.keys("a", "k")
    page.saved(downloads)
    log = page.browser.get_log("performance")
    events = [json.loads(entry["message"])["message"] for entry in log]
    asked = [
        event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
    ]
    assert page.path.as_uri() in asked
    assert all(url.startswith(("data:", "blob:")) for url in set(asked) - {page.path.as_uri()})


def test_its_own_rules_forbid_requests(show: Any, listener: tuple[int, list[str]]) -> None:
    port, asked = listener
    page = show()
    blocked = page.browser.execute_async_script(
        """
        const [port, done] = arguments, blocked = new Set(), url = `http://127.0.0.1:${port}/`;
        addEventListener("securitypolicyviolation", (e) => blocked.add(e.effectiveDirective));
        const add = (tag, more) =>
          document.body.append(Object.assign(document.createElement(tag), more));
        fetch(url + "fetch").catch(() => 0);
        navigator.sendBeacon(url + "beacon");
        add("img", {src: url + "img"});
        add("script", {src: url + "script"});
        add("script", {textContent: "window.hacked = 3"});
        add("iframe", {src: url + "frame"});
        add("link", {rel: "stylesheet", href: url + "style"});
        add("form", {action: url + "form", method: "post"});
        document.body.lastChild.submit();
        setTimeout(() => done([...blocked].sort()), 300);
        """,
        port,
    )
    assert asked == []
    assert page.run("return window.hacked") is None
    assert set(blocked) >= {"connect-src", "img-src", "script-src-elem", "frame-src", "form-action"}


@pytest.mark.parametrize("pictures", [picture, no_picture])
def test_a_phone_needs_no_sideways_scroll(show: Any, phone: None, pictures: Any) -> None:
    page = show(len(HOSTILE), classes=HOSTILE, names=HOSTILE, site={"pictures": pictures})
    page.keys("a", "k")
    assert page.run("return innerWidth") == 360
    assert page.check("tooWide") == []
    assert page.run("return document.documentElement.scrollWidth") == 360
    page.keys("c")
    assert page.check("tooWide") == []


def test_a_screen_reader_finds_names_and_news(show: Any) -> None:
    page = show()
    assert page.check("unnamed") == []
    live = page.each("[aria-live], [role=status], [role=alert]", "e.id")
    assert {"said", "loaded", "not-stored", "chooser-count"} <= set(live)
    ids = page.each("[id]", "e.id")
    assert len(ids) == len(set(ids))
    levels = page.each("h1, main h2, main h3", "Number(e.tagName[1])")
    assert levels[:2] == [1, 2]
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert page.run("return document.documentElement.lang") == "en"
    page.keys("c")
    assert page.check("unnamed") == []
    assert page.run("return document.activeElement.id") == "chooser-text"


def test_tab_goes_from_the_tools_to_one_card_and_on(show: Any) -> None:
    page = show()
    page.keys("a", "s")
    page.run("document.activeElement.blur(); scrollTo(0, 0)")
    page.run("document.querySelector('.skip').focus()")
    visited = []
    for _ in range(40):
        visited += page.each(":focus", "e.id || e.dataset.act || e.textContent")
        page.keys("\ue004")
    tools = ("reviewed", "undo", "next-open", "save", "filter-given", "state", "as-grid", "keys")
    order = [visited.index(at) for at in (*tools, "card-2")]
    assert order == sorted(order)
    at = visited.index("card-2")
    acts = ["zoom", "Why", "accept", "keep", "skip", "other", "classes"]
    assert visited[at + 1 : at + 8] == acts
    assert visited[at + 8 : at + 11] == ["page", "after", "file"]


@pytest.mark.parametrize("prefers", ["light", "dark"])
def test_text_can_be_read(show: Any, scheme: Any, prefers: str) -> None:
    page = show(8, classes=("=cat", "dog"))
    scheme(prefers)
    page.keys("a", "k", "s")
    page.run("document.getElementById('not-stored').hidden = false")
    assert page.check("hardToRead") == []
    page.keys("c")
    assert page.check("hardToRead") == []
