# SPDX-License-Identifier: Apache-2.0
"""What the page must do in a browser; each check gets a Browser and the folder that reports_write_sample filled."""
import json
import os
import shutil
import subprocess
import time


def report(samples, name):
    return os.path.join(samples, name, "report.html")


def expect(condition, text):
    if not condition:
        raise AssertionError(text)


def quiet(browser, samples):
    """No console message, one request, no shift, no sideways scrolling, with script and without."""
    for name in ("full", "passing", "hostile", "large-5000"):
        for width, height in ((1280, 900), (390, 844)):
            for script in (True, False):
                where = f"{name} at {width}, script {script}"
                page = browser.page(report(samples, name), width=width, height=height, script=script)
                expect(not page.messages(), f"{where}: console says {page.messages()}")
                fetched = [u for u in page.requests() if not u.startswith("data:")]
                expect(len(fetched) == 1, f"{where}: requests {fetched}")
                sizes = page.js("[document.documentElement.scrollWidth, innerWidth]")
                expect(sizes[0] <= sizes[1], f"{where}: page is {sizes[0]} wide in a window of {sizes[1]}")
                if script:
                    shift = page.js("window.shift")
                    expect(shift < 0.01, f"{where}: layout shift {shift}")
                    expect(page.js("document.documentElement.className") == "js", where + ": the first script did not run")
                    expect(page.js("document.querySelector('.map') === null || document.querySelector('.map').getAttribute('role') === 'grid'"),
                           where + ": the second script did not run (hash in the policy?)")
                page.close()


FIND = """(function (kind, key) {
  function flat(s) { return s.replace(/\\s+/g, ' ').toLowerCase(); }
  return Array.from(document.querySelectorAll('h1, article, p, tr')).some(function (e) {
    var r = e.getBoundingClientRect(), t = flat(e.textContent);
    return r.top >= 0 && r.bottom <= innerHeight && r.left >= 0 && r.right <= innerWidth + 1 && r.height > 0 &&
      t.indexOf(flat(kind)) >= 0 && t.indexOf(flat(key)) >= 0;
  });
})(%s, %s)"""


def planted(browser, samples, more=()):
    """The first viewport names kind and tensor of every fault that faults.json lists."""
    with open(os.path.join(samples, "faults.json"), encoding="utf-8") as handle:
        faults = json.load(handle)
    faults += more
    expect(faults, "no fault is listed")
    for fault in faults:
        name = "full" if fault["name"] == "../full" else "fault-" + fault["name"]
        for width, height in ((1280, 900), (390, 844)):
            page = browser.page(report(samples, name), width=width, height=height)
            expect(page.js(FIND % (json.dumps(fault["kind"]), json.dumps(fault["key"]))),
                   f"{name} at {width}x{height}: no element of the first viewport holds {fault['kind']} and {fault['key']}")
            expect(not page.js(FIND % (json.dumps("no such fault"), json.dumps(fault["key"]))), "the check finds anything")
            expect(not page.messages(), f"{name}: console says {page.messages()}")
            page.close()


def minute(browser, samples):
    """The first viewport names kind and tensor of every planted fault."""
    faults = []
    faults.append({"name": "../full", "kind": "Gate and up swapped", "key": "model.layers.17.mlp.experts.gate_up_proj"})
    faults.append({"name": "../full", "kind": "Truncated instead of rounded to BF16", "key": "lm_head.weight"})
    planted(browser, samples, faults)


def keys(browser, samples):
    """Everything is reached by the keyboard."""
    page = browser.page(report(samples, "full"))
    page.key("m")
    page.key("Enter")
    expect(page.js("!document.querySelector('#drawer').hidden"), "m Enter opens no drawer")
    expect(page.js("document.querySelector('#dk').textContent") == "model.layers.17.mlp.experts.gate_up_proj",
           "the drawer shows " + str(page.js("document.querySelector('#dk').textContent")))
    link = page.js("location.hash")
    expect(link.startswith("#t-") and len(link) == 15, f"hash {link}")
    page.key("ArrowLeft")
    expect(page.js("document.querySelector('#dk').textContent") == "model.layers.16.mlp.experts.gate_up_proj", "arrows do not move the drawer")
    page.key("Home")
    expect(page.js("document.querySelector('#dk').textContent") == "model.layers.0.mlp.experts.gate_up_proj", "Home does not move")
    page.key("End")
    expect(page.js("document.querySelector('#dk').textContent") == "model.layers.35.mlp.experts.gate_up_proj", "End does not move")
    page.key("n")
    first = page.js("document.querySelector('#dk').textContent")
    page.key("Escape")
    expect(page.js("document.querySelector('#drawer').hidden"), "Escape does not close")
    expect(page.js("document.activeElement.tagName") == "TD", "Escape does not return the focus: " + page.js("document.activeElement.tagName"))
    expect(page.js("document.activeElement.dataset.k") == first, "the focus is on another cell")
    page.key("j")
    expect(page.js("document.activeElement.className").startswith("fd"), "j goes to no finding")
    page.key("/")
    expect(page.js("document.activeElement.id") == "q", "/ does not focus the filter")
    page.type("rounding is:fail")
    time.sleep(0.4)
    said = page.js("document.querySelector('#qn').textContent")
    expect(said.split(" ")[0].isdigit() and 0 < int(said.split(" ")[0]) < 10, f"the filter says {said!r}")
    expect(page.js("document.querySelector('.fd').hidden") is True, "the filter hides nothing")
    page.key("Escape")
    expect(page.js("document.querySelector('#qn').textContent") == "", "Escape does not clear the filter")
    expect(page.js("document.querySelector('.fd').hidden") is False, "the filter does not show again")
    page.js("document.activeElement.blur()")
    page.key("e")
    expect(page.js("Array.from(document.querySelectorAll('main details')).every(function (d) { return d.open; })"), "e opens nothing")
    page.key("t")
    expect(page.js("document.documentElement.dataset.theme") == "light", "t does not change the theme")
    page.key("?")
    expect(page.js("document.querySelector('#help').matches(':popover-open')"), "? opens no help")
    page.js("document.querySelector('#keys').click(); document.querySelector('#help').hidePopover()")
    page.js("document.activeElement.blur()")
    page.key("t")
    expect(page.js("document.documentElement.dataset.theme") == "light", "shortcuts cannot be switched off")
    page.close()
    page = browser.page(report(samples, "full"), fragment=link)
    expect(page.js("!document.querySelector('#drawer').hidden && document.querySelector('#dk').textContent") ==
           "model.layers.17.mlp.experts.gate_up_proj", "the link opens another tensor")
    page.close()
    page = browser.page(report(samples, "full"))
    page.js("document.querySelector('table.sort thead button').click()")
    expect(page.js("document.querySelector('table.sort th').getAttribute('aria-sort')") == "ascending", "sorting is not announced")
    expect(not page.messages(), str(page.messages()))
    page.close()


def contained(browser, samples):
    """Hostile names stay text: no element, no attribute, no handler comes of them."""
    page = browser.page(report(samples, "hostile"))
    expect(page.js("document.querySelectorAll('img, iframe, object, embed, form').length") == 0, "an element came of a name")
    expect(page.js("document.scripts.length") == 3, "a script came of a name")
    expect(page.js("Array.from(document.querySelectorAll('*')).every(function (e) { return e.getAttributeNames().every("
                   "function (n) { return n.indexOf('on') !== 0; }); })"), "a handler came of a name")
    expect(page.js("/[\\u202e\\u200b\\ufeff\\u0000]/.test(document.body.innerText)") is False, "a hidden character is shown raw")
    expect("U+202E" in page.js("document.body.innerText"), "the hidden character is not spelled out")
    page.key("m")
    page.key("Enter")
    expect(page.js("document.querySelectorAll('#drawer script, #drawer img').length") == 0, "the drawer made an element of a name")
    expect(page.js("/[\\u202e\\u200b\\u0000]/.test(document.querySelector('#drawer').innerText)") is False, "raw in the drawer")
    expect("<script>" in page.js("document.querySelector('#dk').textContent"), "the name is not shown as text")
    expect(not page.messages(), str(page.messages()))
    page.close()


def printed(browser, samples):
    """Printing shows every check id, with script off."""
    with open(os.path.join(samples, "full", "report.json"), encoding="utf-8") as handle:
        ids = sorted({c["id"] for c in json.load(handle)["checks"]})
    page = browser.page(report(samples, "full"), media="print", width=790, height=1100, script=False)
    hidden = page.js("(function (ids) { var seen = {}; Array.from(document.querySelectorAll('details td.k')).forEach(function (e) {"
                     " var r = e.getBoundingClientRect(); if (r.height > 0 && r.width > 0) seen[e.firstChild.textContent] = 1; });"
                     " return ids.filter(function (i) { return !seen[i]; }); })(" + json.dumps(ids) + ")")
    expect(not hidden, f"not laid out in print: {hidden[:5]}")
    import base64
    pdf = base64.b64decode(page.send("Page.printToPDF", preferCSSPageSize=True)["data"])
    expect(pdf.startswith(b"%PDF") and len(pdf) > 50000, "no PDF")
    if shutil.which("pdftotext"):
        text = subprocess.run(["pdftotext", "-layout", "-", "-"], input=pdf, capture_output=True, check=True).stdout.decode()
        missing = [i for i in ids if i not in text]
        expect(not missing, f"not in the PDF: {missing[:5]}")
    page.close()


def large(browser, samples):
    """Big reports: the step is announced, the first paint and the filter are quick."""
    for name, step, limit in (("large-5000", "rendered whole", 2 << 20), ("large-10000", "folded", 8 << 20), ("large-100000", "grouped", 8 << 20)):
        size = os.path.getsize(report(samples, name))
        expect(size < limit, f"{name}: {size} bytes")
        paints, filters = [], []
        for _ in range(3):
            page = browser.page(report(samples, name))
            expect(step in page.js("document.querySelector('footer').textContent"), f"{name}: the footer does not say {step}")
            paints.append(page.js("window.painted") or 0)
            page.js("(function () { var q = document.querySelector('#q'); q.value = 'x'; q.oninput(); })()")
            time.sleep(1.0)
            filters.append(page.js("new Promise(function (done) { var q = document.querySelector('#q'), n = document.querySelector('#qn');"
                                   " q.value = 'experts.3 is:fail'; n.textContent = ''; var start = performance.now();"
                                   " new MutationObserver(function () { if (n.textContent) done(performance.now() - start - 90); })"
                                   "   .observe(n, {childList: true}); q.oninput(); })"))
            expect(not page.messages(), str(page.messages()))
            page.close()
            if paints[-1] < 1000 and filters[-1] < 100:
                break
        print(f"{name}: {size} bytes, first paint {min(paints):.0f} ms, filter {min(filters):.0f} ms")
        expect(min(paints) < 1000, f"{name}: first paint after {min(paints)} ms")
        expect(min(filters) < 100, f"{name}: the filter takes {min(filters)} ms")


def themes(browser, samples):
    """Dark, light and forced colours: text and its ground differ, in the page as it is drawn."""
    for dark in (False, True):
        page = browser.page(report(samples, "full"), dark=dark)
        ground = page.js("getComputedStyle(document.body).backgroundColor")
        expect((sum(int(x) for x in ground[4:-1].split(",")) < 200) == dark, f"dark {dark}: ground {ground}")
        page.js("document.querySelector('#theme').click(); document.querySelector('#theme').click()")
        ground = page.js("getComputedStyle(document.body).backgroundColor")
        expect(sum(int(x) for x in ground[4:-1].split(",")) < 200, f"the toggle does not make it dark: {ground}")
        page.close()
    page = browser.page(report(samples, "full"), forced=True)
    expect(page.js("matchMedia('(forced-colors: active)').matches"), "forced colours are not emulated")
    page.close()


CHECKS = {"quiet": quiet, "minute": minute, "planted": planted, "keys": keys, "contained": contained, "printed": printed, "large": large, "themes": themes}
