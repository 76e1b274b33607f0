# SPDX-License-Identifier: Apache-2.0
"""Headless Chromium over its debugging pipe, with the standard library alone: a small client, screenshots, and checks of the page.

browser.py shots REPORT.html OUTPUT_DIR    screenshots and a printed PDF
browser.py check NAME SAMPLES_DIR          one named check (see CHECKS); exit 0 good, 1 failed, 77 no browser
"""
import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time


class Browser:
    """One Chromium, offline, with one page at a time."""

    def __init__(self):
        name = next((n for n in ("chromium", "chromium-browser", "google-chrome") if shutil.which(n)), None)
        if name is None:
            print("no Chromium found; Debian: apt-get install chromium")
            sys.exit(77)
        self.profile = tempfile.mkdtemp(prefix="weightproof-browser-")
        to_browser, self.out = os.pipe()
        self.inp, from_browser = os.pipe()

        def child():
            # The browser reads on 3 and writes on 4; both ends are moved out of the way of one another first.
            a, b = fcntl.fcntl(to_browser, fcntl.F_DUPFD, 20), fcntl.fcntl(from_browser, fcntl.F_DUPFD, 20)
            os.dup2(a, 3)
            os.dup2(b, 4)

        self.process = subprocess.Popen(
            [name, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe",
             "--disable-background-networking", "--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={self.profile}",
             "--no-first-run", "about:blank"],
            preexec_fn=child, pass_fds=(3, 4, to_browser, from_browser), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.buffer, self.number, self.events = b"", 0, []

    def close(self):
        try:
            self.send("Browser.close")
        except (OSError, RuntimeError, TimeoutError):
            pass
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.profile, ignore_errors=True)

    def read(self, limit):
        while b"\0" not in self.buffer:
            left = limit - time.monotonic()
            if left <= 0 or not select.select([self.inp], [], [], left)[0]:
                raise TimeoutError("the browser does not answer")
            data = os.read(self.inp, 1 << 16)
            if not data:
                raise RuntimeError("the browser went away")
            self.buffer += data
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def send(self, method, session=None, seconds=60, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.out, data):]
        limit = time.monotonic() + seconds
        while True:
            answer = self.read(limit)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def page(self, path, width=1280, height=900, dark=False, media="", forced=False, script=True, fragment=""):
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        return Page(self, target, session, path, width, height, dark, media, forced, script, fragment)


class Page:
    def __init__(self, browser, target, session, path, width, height, dark, media, forced, script, fragment):
        self.browser, self.target, self.session = browser, target, session
        browser.events.clear()
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(domain + ".enable")
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        if forced:
            features.append({"name": "forced-colors", "value": "active"})
        self.send("Emulation.setEmulatedMedia", media=media, features=features)
        self.send("Emulation.setScriptExecutionDisabled", value=not script)
        if script:
            self.send("Page.addScriptToEvaluateOnNewDocument", source="""
                window.shift = 0; window.painted = null;
                new PerformanceObserver(function (l) { l.getEntries().forEach(function (e) { if (!e.hadRecentInput) window.shift += e.value; }); })
                  .observe({type: 'layout-shift', buffered: true});
                new PerformanceObserver(function (l) { l.getEntries().forEach(function (e) { if (e.name === 'first-contentful-paint') window.painted = e.startTime; }); })
                  .observe({type: 'paint', buffered: true});""")
        self.load("file://" + os.path.abspath(path) + fragment)

    def load(self, url):
        self.send("Page.navigate", url=url)
        limit = time.monotonic() + 60
        while not any(e.get("method") == "Page.loadEventFired" and e.get("sessionId") == self.session for e in self.browser.events):
            self.browser.events.append(self.browser.read(limit))
        time.sleep(0.2)

    def send(self, method, **params):
        return self.browser.send(method, session=self.session, **params)

    def js(self, expression):
        result = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise AssertionError(expression + ": " + json.dumps(result["exceptionDetails"])[:400])
        return result["result"].get("value")

    def key(self, key):
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        code = {"Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Home": 36, "End": 35}.get(key, 0)
        self.send("Input.dispatchKeyEvent", type="keyDown", key=key, text=text, windowsVirtualKeyCode=code)
        self.send("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    def type(self, text):
        for c in text:
            self.key(c)

    def shot(self, path, whole=False):
        args = {"format": "png"}
        if whole:
            size = self.send("Page.getLayoutMetrics")["cssContentSize"]
            args["captureBeyondViewport"] = True
            args["clip"] = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 16000), "scale": 1}
        with open(path, "wb") as out:
            out.write(base64.b64decode(self.send("Page.captureScreenshot", **args)["data"]))
        print(path)

    def messages(self):
        out = []
        for e in self.browser.events:
            if e.get("sessionId") == self.session and e.get("method") in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"):
                out.append(json.dumps(e["params"])[:300])
        return out

    def requests(self):
        return [e["params"]["request"]["url"][:200] for e in self.browser.events
                if e.get("sessionId") == self.session and e.get("method") == "Network.requestWillBeSent"]

    def close(self):
        self.browser.send("Target.closeTarget", targetId=self.target)


def shots(browser, report, out):
    os.makedirs(out, exist_ok=True)
    for name, options in {
            "light": {}, "dark": {"dark": True}, "narrow": {"width": 390, "height": 844}, "no-script": {"script": False},
            "forced-colors": {"forced": True}, "print": {"media": "print", "width": 790, "height": 1120}}.items():
        page = browser.page(report, **options)
        page.shot(os.path.join(out, name + ".png"))
        page.shot(os.path.join(out, name + "-whole.png"), whole=True)
        page.close()
    page = browser.page(report)
    page.key("m")
    page.key("Enter")
    time.sleep(0.3)
    page.shot(os.path.join(out, "drawer.png"))
    page.close()
    page = browser.page(report, script=False)
    pdf = page.send("Page.printToPDF", preferCSSPageSize=True, printBackground=False)
    with open(os.path.join(out, "print.pdf"), "wb") as handle:
        handle.write(base64.b64decode(pdf["data"]))
    print(os.path.join(out, "print.pdf"))
    page.close()


def main(argv):
    if len(argv) != 4 or argv[1] not in ("shots", "check"):
        print(__doc__)
        return 2
    browser = Browser()
    try:
        if argv[1] == "shots":
            shots(browser, argv[2], argv[3])
            return 0
        from browser_checks import CHECKS  # pylint: disable=import-outside-toplevel
        CHECKS[argv[2]](browser, argv[3])
        return 0
    except AssertionError as fault:
        print("FAILED", argv[2], fault)
        return 1
    finally:
        browser.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv))
