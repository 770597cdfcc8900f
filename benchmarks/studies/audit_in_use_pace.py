"""200 suspects decided on the page in Chromium, as fast as a person reads: is there a wait?"""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

CARDS, READING = 200, 4.0  # seconds a card
KEYS = "aakaskaaak"  # accept, keep, skip, in turn

# Presses a key, and resolves when the next card and its picture are painted.
STEP = """
    const [key, done] = arguments;
    (async () => {
      const painted = () => new Promise((then) =>
        requestAnimationFrame(() => setTimeout(then, 0)));
      const start = performance.now();
      const pressed = new KeyboardEvent("keydown", {key, bubbles: true});
      document.activeElement.dispatchEvent(pressed);
      await document.querySelector(".card.current img")?.decode();
      await painted();
      done(performance.now() - start);
    })();
"""


def reviewed(page: Path) -> dict[str, Any]:
    """Seconds for all cards, and milliseconds from each key to the next card with its picture."""
    with tempfile.TemporaryDirectory() as profile:
        window = browser(Path(profile))
        try:
            window.set_script_timeout(60)
            opened = time.monotonic()
            window.get(page.resolve().as_uri())
            opened = time.monotonic() - opened
            waited, begun = [], time.monotonic()
            for number in range(CARDS):
                time.sleep(READING)
                waited.append(window.execute_async_script(STEP, KEYS[number % len(KEYS)]))
            seconds = time.monotonic() - begun
            said = window.execute_script("return document.querySelector('#progress').textContent")
        finally:
            window.quit()
    return {
        "cards": CARDS,
        "minutes": round(seconds / 60, 2),
        "opened": round(1000 * opened),
        "median": round(median(waited)),
        "slowest": round(max(waited)),
        "longer": sum(one > 1000 for one in waited),
        "said": said,
    }


def browser(profile: Path) -> Any:
    """Chromium without a window."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or shutil.which("google-chrome") or ""
    for switch in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1280,900"):
        options.add_argument(switch)
    options.add_argument(f"--user-data-dir={profile}")
    return webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
